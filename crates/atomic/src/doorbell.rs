//! Doorbell: an event count: a thread sleeps on it until another one has published something. It works
//! between threads and, in shared memory, between processes.
//!
//! ```text
//!   sleeper                                ringer
//!   t = prepare():                         publish (a message, a bit, …)
//!       t = word          (D1)             ring():
//!       sleeping = 1      (D2)                 light fence
//!       heavy fence                            sleeping == 0 ?  done: nobody sleeps
//!   look at everything once more               swap(sleeping, 0) == 0 ?  done: another one rings
//!   found something:  cancel(t)                word += 1        (D3)
//!   nothing: wait(t): sleep while word == t    wake
//! ```
//!
//! # Who may touch what
//! Any number of sleepers and ringers. `sleeping` is read by each ringer and therefore written only
//! when somebody goes to sleep or is rung; `word` is written only together with a wake-up.
//!
//! # Why no wake-up is lost
//! Let a ringer publish after the sleeper's last look. By the argument in [`fence`](mod@crate::fence) it
//! sees `sleeping == 1`. Either it wins the swap, or another ringer has won it after D2; the winner
//! increments `word` (D3) after D2, hence after D1. So `word != t` from then on: the sleeper either
//! finds that in the kernel and does not fall asleep, or sleeps already and gets the wake-up that
//! follows D3. The one order that would break this, D1 seeing a D3 that was caused by D2, contradicts
//! causality: D1 acquires what D3 released (SYNC doorbell.word), and D2 comes after D1.
//!
//! A word that wraps around between prepare and sleeping (2³² rings) would be missed.
//!
//! # Further properties
//! * `cancel` leaves `sleeping` set, since another thread may sleep on the same bell. The price is one
//!   futile wake-up by the next ringer (about 120 ns, once).
//! * A ringer that is killed between its swap and its wake-up takes the wake-up with it. A process that
//!   learns of such a death calls [`ring_regardless`](Doorbell::ring_regardless), which increments `word` and
//!   wakes whatever `sleeping` says: a sleeper that announced before sees either that, or what was published
//!   before it.
//! * In shared memory a hostile peer can write both words. It can then wake sleepers for nothing, or fail to
//!   wake them, as it could by not ringing, but nothing more, since both words are only ever compared.

use crate::{AtomicU32, FenceMode, Kernel, Ordering, Woken};

/// The announcement that its holder is about to sleep.
#[must_use = "prepare without wait or cancel makes the next ringer wake nobody"]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ticket(pub u32);

/// A place where sleepers wait for ringers. All zeros is a valid state: fresh shared memory is a doorbell.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Doorbell {
    /// The futex word: how often it rang while somebody had announced to sleep.
    word: AtomicU32,
    /// Whether anybody has announced to sleep since it last rang.
    sleeping: AtomicU32,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Doorbell>() == 64 && align_of::<Doorbell>() == 64);

impl Doorbell {
    /// A doorbell at which nobody sleeps.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new() -> Self {
        Self {
            word: AtomicU32::new(0),
            sleeping: AtomicU32::new(0),
        }
    }

    /// A doorbell at which nobody sleeps.
    #[cfg(loom)]
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The doorbell in shared memory at `place`.
    ///
    /// # Safety
    /// `place` must be aligned to 64 bytes, and its 64 bytes must stay mapped, readable and writable for
    /// `'a`. Other processes may change them at will.
    #[cfg(not(loom))]
    #[must_use]
    pub unsafe fn at<'a>(place: *mut u8) -> &'a Self {
        debug_assert!(place.addr().is_multiple_of(align_of::<Self>()));
        // SAFETY: the caller promises that `place` is aligned and mapped for `'a`. Every bit pattern is a valid doorbell,
        // and its fields are atomics, so that changes from outside are ordinary.
        unsafe { &*place.cast::<Self>() }
    }

    /// How often it has rung while somebody had announced to sleep; for observers from outside.
    #[must_use]
    pub fn rings(&self) -> u32 {
        self.word.load(Ordering::Relaxed)
    }

    /// Announces that the caller is about to sleep. What others publish after this rings the bell; a
    /// following look sees what they published before.
    #[inline]
    pub fn prepare(&self, mode: FenceMode, kernel: &(impl Kernel + ?Sized)) -> Ticket {
        // D1. Acquire: SYNC doorbell.word.
        let word = self.word.load(Ordering::Acquire);
        // D2. Release pairs with the ringer's swap: SYNC doorbell.sleeping.
        self.sleeping.store(1, Ordering::Release);
        mode.heavy(kernel);
        Ticket(word)
    }

    /// Withdraws: the caller does not sleep after all.
    #[inline]
    pub fn cancel(&self, ticket: Ticket) {
        // See the module page for why the announcement remains.
        let Ticket(_) = ticket;
    }

    /// Sleeps until the bell rings after [`prepare`](Self::prepare) or the deadline (nanoseconds of
    /// the monotonic clock) has passed. May return early.
    pub fn wait(
        &self,
        ticket: Ticket,
        deadline: Option<u64>,
        kernel: &(impl Kernel + ?Sized),
    ) -> Woken {
        let woken = kernel.wait(&self.word, ticket.0, deadline);
        // Acquire: SYNC doorbell.word. The ringer published before.
        let _ = self.word.load(Ordering::Acquire);
        woken
    }

    /// Wakes all who announced to sleep before. To be called after publishing. Costs the fence of
    /// `mode` and one load when nobody sleeps.
    #[inline]
    pub fn ring(&self, mode: FenceMode, kernel: &(impl Kernel + ?Sized)) {
        self.ring_and(mode, kernel, || ());
    }

    /// As [`ring`](Self::ring), and calls `claimed` if this ringer is the one that wakes, before it
    /// does: for counting who is awake.
    #[inline]
    pub fn ring_and(
        &self,
        mode: FenceMode,
        kernel: &(impl Kernel + ?Sized),
        claimed: impl FnOnce(),
    ) {
        mode.light();
        if self.somebody_sleeps() {
            self.wake(u32::MAX, kernel, claimed);
        }
    }

    /// As [`ring`](Self::ring), when the publishing was an atomic read-modify-write.
    #[inline]
    pub fn ring_after_exchange(&self, mode: FenceMode, kernel: &(impl Kernel + ?Sized)) {
        mode.light_after_exchange();
        if self.somebody_sleeps() {
            self.wake(u32::MAX, kernel, || ());
        }
    }

    /// Wakes all who sleep or have announced to, whether or not the announcement still stands: for the case
    /// that a ringer may have ended between taking it and waking them. Always a system call, so not for each
    /// message.
    #[cold]
    pub fn ring_regardless(&self, kernel: &(impl Kernel + ?Sized)) {
        // The announcement is consumed. Acquire: SYNC doorbell.sleeping.
        self.sleeping.swap(0, Ordering::AcqRel);
        self.rung(u32::MAX, kernel);
    }

    /// Whether somebody has announced to sleep since it last rang. A hint, without any fence.
    #[inline]
    #[must_use]
    pub fn somebody_sleeps(&self) -> bool {
        self.sleeping.load(Ordering::Relaxed) != 0
    }

    /// Renews the announcement on behalf of others that sleep here (used by the lock).
    pub(crate) fn keep_announced(&self) {
        self.sleeping.store(1, Ordering::Relaxed);
    }

    /// The slow half of ringing.
    #[cold]
    pub(crate) fn wake(&self, count: u32, kernel: &(impl Kernel + ?Sized), claimed: impl FnOnce()) {
        // Acquire: SYNC doorbell.sleeping, so that D3 comes after D1 of the announcer.
        if self.sleeping.swap(0, Ordering::AcqRel) != 0 {
            claimed();
            self.rung(count, kernel);
        }
    }

    fn rung(&self, count: u32, kernel: &(impl Kernel + ?Sized)) {
        // D3. Release: SYNC doorbell.word.
        self.word.fetch_add(1, Ordering::Release);
        kernel.wake(&self.word, count);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::testing::Park;

    #[test]
    fn a_ring_after_prepare_is_not_slept_through() {
        let (bell, park) = (Doorbell::new(), Park::new());
        let ticket = bell.prepare(FenceMode::Symmetric, &park);
        bell.ring(FenceMode::Symmetric, &park);
        assert_eq!(bell.wait(ticket, None, &park), Woken::Changed);
    }

    #[test]
    fn nobody_is_woken_when_nobody_announced() {
        let (bell, park) = (Doorbell::new(), Park::new());
        bell.ring(FenceMode::Symmetric, &park);
        bell.ring_after_exchange(FenceMode::Symmetric, &park);
        assert_eq!(park.wakes(), 0);
    }

    #[test]
    fn one_announcement_is_rung_once() {
        let (bell, park) = (Doorbell::new(), Park::new());
        let ticket = bell.prepare(FenceMode::Symmetric, &park);
        bell.cancel(ticket);
        bell.ring(FenceMode::Symmetric, &park);
        bell.ring(FenceMode::Symmetric, &park);
        assert_eq!(park.wakes(), 1);
    }

    /// The state left by a ringer that is killed after its swap and before its wake-up.
    #[test]
    fn a_lost_wake_up_is_made_up_for() {
        let (bell, park) = (Doorbell::new(), Park::new());
        let ticket = bell.prepare(FenceMode::Symmetric, &park);
        assert_eq!(bell.sleeping.swap(0, Ordering::AcqRel), 1);
        bell.ring(FenceMode::Symmetric, &park);
        assert_eq!(park.wakes(), 0, "for all that others see nobody sleeps");
        bell.ring_regardless(&park);
        assert_eq!(park.wakes(), 1);
        assert_eq!(bell.wait(ticket, None, &park), Woken::Changed);
    }

    #[test]
    fn zeroed_memory_is_a_doorbell() {
        #[repr(align(64))]
        struct Page([u8; 64]);
        let mut page = Page([0; 64]);
        let park = Park::new();
        // SAFETY: `page` is aligned, as large as a doorbell and outlives it.
        let bell = unsafe { Doorbell::at(page.0.as_mut_ptr()) };
        assert!(!bell.somebody_sleeps());
        let _ = bell.prepare(FenceMode::Symmetric, &park);
        assert!(bell.somebody_sleeps());
    }

    #[test]
    fn two_threads_hand_over_many_times() {
        use crate::{Arc, AtomicU32};
        let rounds = if cfg!(miri) { 20 } else { 2_000 };
        let state = Arc::new((Doorbell::new(), AtomicU32::new(0), Park::new()));
        let other = {
            let state = state.clone();
            std::thread::spawn(move || {
                let (bell, value, park) = &*state;
                for round in 1..=rounds {
                    value.store(round, Ordering::Release);
                    bell.ring(FenceMode::Symmetric, park);
                }
            })
        };
        let (bell, value, park) = &*state;
        while value.load(Ordering::Acquire) != rounds {
            let ticket = bell.prepare(FenceMode::Symmetric, park);
            if value.load(Ordering::Acquire) == rounds {
                bell.cancel(ticket);
                break;
            }
            let _ = bell.wait(ticket, None, park);
        }
        other.join().expect("the ringer ends");
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::testing::Park;
    use crate::{Arc, AtomicU32};

    struct Scene {
        bell: Doorbell,
        news: AtomicU32,
        park: Park,
    }

    impl Scene {
        fn new() -> Arc<Self> {
            Arc::new(Self {
                bell: Doorbell::new(),
                news: AtomicU32::new(0),
                park: Park::new(),
            })
        }

        fn publish(&self) {
            // Relaxed on purpose: only the fences of the protocol order this.
            self.news.fetch_add(1, Ordering::Relaxed);
            self.bell.ring(FenceMode::Symmetric, &self.park);
        }

        /// Sleeps until `count` news are there. A lost wake-up is a deadlock, which loom reports.
        fn await_news(&self, count: u32) {
            loop {
                let ticket = self.bell.prepare(FenceMode::Symmetric, &self.park);
                if self.news.load(Ordering::Relaxed) >= count {
                    self.bell.cancel(ticket);
                    return;
                }
                let _ = self.bell.wait(ticket, None, &self.park);
            }
        }
    }

    #[test]
    fn one_sleeper_one_ringer() {
        loom::model(|| {
            let scene = Scene::new();
            let ringer = {
                let scene = scene.clone();
                loom::thread::spawn(move || scene.publish())
            };
            scene.await_news(1);
            ringer.join().unwrap();
        });
    }

    #[test]
    fn one_sleeper_two_rings() {
        loom::model(|| {
            let scene = Scene::new();
            let ringer = {
                let scene = scene.clone();
                loom::thread::spawn(move || {
                    scene.publish();
                    scene.publish();
                })
            };
            scene.await_news(2);
            ringer.join().unwrap();
        });
    }

    fn bounded() -> loom::model::Builder {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder
    }

    #[test]
    fn one_sleeper_two_ringers() {
        bounded().check(|| {
            let scene = Scene::new();
            let ringers: Vec<_> = (0..2)
                .map(|_| {
                    let scene = scene.clone();
                    loom::thread::spawn(move || scene.publish())
                })
                .collect();
            scene.await_news(2);
            for ringer in ringers {
                ringer.join().unwrap();
            }
        });
    }

    #[test]
    fn two_sleepers_one_ringer() {
        bounded().check(|| {
            let scene = Scene::new();
            let sleeper = {
                let scene = scene.clone();
                loom::thread::spawn(move || scene.await_news(1))
            };
            let ringer = {
                let scene = scene.clone();
                loom::thread::spawn(move || scene.publish())
            };
            scene.await_news(1);
            sleeper.join().unwrap();
            ringer.join().unwrap();
        });
    }

    /// A ringer ends after each of its steps. The report of its end wakes the sleeper, whatever the sleeper
    /// is doing.
    #[test]
    fn a_ringer_that_ends_after_any_step() {
        for steps in 0..=3 {
            loom::model(move || {
                let scene = Scene::new();
                let launcher = {
                    let scene = scene.clone();
                    loom::thread::spawn(move || {
                        // The ringer, until it is killed; then the launcher, which knows that it is dead.
                        if steps >= 1 {
                            FenceMode::Symmetric.light();
                        }
                        if steps >= 2 && scene.bell.somebody_sleeps() {
                            scene.bell.sleeping.swap(0, Ordering::AcqRel);
                            if steps >= 3 {
                                scene.bell.word.fetch_add(1, Ordering::Release);
                            }
                        }
                        scene.news.store(1, Ordering::Relaxed);
                        scene.bell.ring_regardless(&scene.park);
                    })
                };
                scene.await_news(1);
                launcher.join().unwrap();
            });
        }
    }

    /// The model can fail: without the ringer's fence a wake-up is lost, and loom says so.
    #[test]
    #[should_panic(expected = "deadlock")]
    fn without_the_light_fence_it_hangs() {
        loom::model(|| {
            let scene = Scene::new();
            let ringer = {
                let scene = scene.clone();
                loom::thread::spawn(move || {
                    scene.news.store(1, Ordering::Relaxed);
                    if scene.bell.somebody_sleeps() {
                        scene.bell.wake(u32::MAX, &scene.park, || ());
                    }
                })
            };
            scene.await_news(1);
            ringer.join().unwrap();
        });
    }
}
