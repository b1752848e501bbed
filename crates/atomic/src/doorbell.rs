//! Doorbell: an event count: a thread sleeps on it until another one has published something. It works
//! between threads and, in shared memory, between processes.
//!
//! ```text
//!   sleeper                                ringer
//!   t = prepare():                         publish (a message, a bit, …)
//!       t = word                  (D1)     ring():
//!       state |= announced        (D2)         light fence
//!       heavy fence                            state == 0 ?  done: nobody sleeps
//!   look at everything once more               state without `announced` ?  full fence, look again: not announced ?  done
//!   found something:  cancel(t)                state &= !announced; it was not ?  done: another one rings
//!   nothing: wait(t): sleep while word == t    word += 1        (D3)
//!                                              wake
//! ```
//!
//! # Who may touch what
//! Any number of sleepers and ringers. `state` is read by each ringer and therefore written only when somebody goes to
//! sleep or is rung, or its owner changes who fences; each of these is a read-modify-write of its own bits. `word` is
//! written only together with a wake-up.
//!
//! # Why no wake-up is lost
//! Let a ringer publish after the sleeper's last look. By the argument in [`fence`](mod@crate::fence) it
//! sees `announced`. Either it takes that, or another ringer has taken it after D2; who takes it
//! increments `word` (D3) after D2, hence after D1. So `word != t` from then on: the sleeper either
//! finds that in the kernel and does not fall asleep, or sleeps already and gets the wake-up that
//! follows D3. The one order that would break this, D1 seeing a D3 that was caused by D2, contradicts
//! causality: D1 acquires what D3 released (SYNC doorbell.word), and D2 comes after D1.
//!
//! A word that wraps around between prepare and sleeping (2³² rings) would be missed.
//!
//! # Who fences
//! With [`FenceMode::Asymmetric`] ringers fence lightly, and each sleep costs a fence by the kernel. An owner that sleeps
//! often changes that, and back, without any agreement: with `fenced` in `state`
//! ([`have_ringers_fence`](Doorbell::have_ringers_fence)) a ringer finds `state != 0` and looks again behind a full fence, so that
//! the sleeper's own full fence is enough. It relies on that once `settled` stands there as well, which is set after one fence by
//! the kernel.
//!
//! Let D2 find `settled`, let F be the write that set `fenced` before it, and X the point of that one fence on the ringer's core; between F
//! and D2 `fenced` was not taken back, or `settled` would be gone too. P and S are the ringer's publishing and first look.
//! * X after P: P is visible before `settled` is set, hence (SYNC doorbell.settled) to the sleeper's look after D2.
//! * X before P: S, after X, finds F or a later write of `state`. Before D2 all of them have `fenced`, so the ringer
//!   fences fully and looks again: both sides do so, and the symmetric argument holds. From D2 on `announced` is found, or was taken
//!   by another ringer after D2.
//!
//! D2 without `settled` is followed by a fence by the kernel, as ever; a ringer that fences as well does no harm. Taking both bits back
//! is therefore free: whose D2 comes later has the kernel fence. Whether D2 found `settled` is told by D2 itself, so threads that sleep at one
//! bell may change this under each other; only of [`have_ringers_fence`](Doorbell::have_ringers_fence) and
//! [`let_ringers_be`](Doorbell::let_ringers_be) one must be under way at a time, or `settled` might be set for a `fenced` that is newer
//! than the fence. `models/doorbell.pml` explores all this with store buffers.
//!
//! # Further properties
//! * `cancel` leaves the announcement, since another thread may sleep on the same bell. The price is one
//!   futile wake-up by the next ringer (about 120 ns, once).
//! * A ringer that is killed between taking the announcement and its wake-up takes the wake-up with it. A process that
//!   learns of such a death calls [`ring_regardless`](Doorbell::ring_regardless), which increments `word` and
//!   wakes whatever is announced: a sleeper that announced before sees either that, or what was published
//!   before it. A sleeper that is killed leaves `fenced`, which costs ringers a fence each.
//! * In shared memory a hostile peer can write both words. It can then wake sleepers for nothing, or fail to
//!   wake them, as it could by not ringing or by taking announcements, but nothing more, since both words are only ever compared.

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
    /// [`ANNOUNCED`], [`FENCED`], [`SETTLED`].
    state: AtomicU32,
}

/// Somebody has announced to sleep since it last rang.
const ANNOUNCED: u32 = 1;
/// Ringers have to fence fully: see "Who fences" in the [module page](self).
const FENCED: u32 = 2;
/// All ringers do, or have fenced since: sleepers rely on it.
const SETTLED: u32 = 4;

#[cfg(not(loom))]
const _: () = assert!(size_of::<Doorbell>() == 64 && align_of::<Doorbell>() == 64);

impl Doorbell {
    /// A doorbell at which nobody sleeps.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new() -> Self {
        Self {
            word: AtomicU32::new(0),
            state: AtomicU32::new(0),
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
        // D2. Release pairs with who takes the announcement: SYNC doorbell.announced. Acquire: SYNC doorbell.settled.
        let before = self.state.fetch_or(ANNOUNCED, Ordering::AcqRel);
        if mode == FenceMode::Symmetric || before & SETTLED != 0 {
            FenceMode::Symmetric.light_after_exchange();
        } else {
            mode.heavy(kernel);
        }
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

    /// From now on ringers that fence lightly by themselves fence fully, and who sleeps here need not have the kernel fence them. Costs one
    /// fence by the kernel. Of this and [`let_ringers_be`](Self::let_ringers_be) one call at a time.
    #[cold]
    pub fn have_ringers_fence(&self, kernel: &(impl Kernel + ?Sized)) {
        // Relaxed: the fence orders it.
        self.state.fetch_or(FENCED, Ordering::Relaxed);
        FenceMode::Asymmetric.heavy(kernel);
        // SYNC doorbell.settled.
        self.state.fetch_or(SETTLED, Ordering::Release);
    }

    /// Takes that back: from now on whoever sleeps here has the kernel fence them.
    #[cold]
    pub fn let_ringers_be(&self) {
        // Relaxed: whoever sleeps later finds it by a read-modify-write.
        self.state.fetch_and(!(FENCED | SETTLED), Ordering::Relaxed);
    }

    /// Whether who sleeps here relies on ringers to fence. A hint.
    #[must_use]
    pub fn is_fenced_by_ringers(&self) -> bool {
        self.state.load(Ordering::Relaxed) & SETTLED != 0
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
        // The announcement is taken. Acquire: SYNC doorbell.announced.
        self.state.fetch_and(!ANNOUNCED, Ordering::AcqRel);
        self.rung(u32::MAX, kernel);
    }

    /// Whether somebody has announced to sleep since it last rang: for a ringer behind its light fence; otherwise a hint.
    /// It costs one load, and where ringers have to fence, that fence and another load.
    #[inline]
    #[must_use]
    pub fn somebody_sleeps(&self) -> bool {
        let seen = self.state.load(Ordering::Relaxed);
        seen != 0 && (seen & ANNOUNCED != 0 || self.is_announced())
    }

    /// The look behind a fence of the ringer.
    #[cold]
    fn is_announced(&self) -> bool {
        FenceMode::Symmetric.light();
        self.state.load(Ordering::Relaxed) & ANNOUNCED != 0
    }

    /// Renews the announcement on behalf of others that sleep here (used by the lock).
    pub(crate) fn keep_announced(&self) {
        self.state.fetch_or(ANNOUNCED, Ordering::Relaxed);
    }

    /// The slow half of ringing.
    #[cold]
    pub(crate) fn wake(&self, count: u32, kernel: &(impl Kernel + ?Sized), claimed: impl FnOnce()) {
        // Acquire: SYNC doorbell.announced, so that D3 comes after D1 of the announcer.
        if self.state.fetch_and(!ANNOUNCED, Ordering::AcqRel) & ANNOUNCED != 0 {
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
        let taken = bell.state.fetch_and(!ANNOUNCED, Ordering::AcqRel);
        assert_eq!(taken, ANNOUNCED);
        bell.ring(FenceMode::Symmetric, &park);
        assert_eq!(park.wakes(), 0, "for all that others see nobody sleeps");
        bell.ring_regardless(&park);
        assert_eq!(park.wakes(), 1);
        assert_eq!(bell.wait(ticket, None, &park), Woken::Changed);
    }

    /// A kernel whose fences are counted.
    struct Counting(Park, core::cell::Cell<u32>);

    impl Kernel for Counting {
        fn wait(&self, word: &crate::AtomicU32, expected: u32, deadline: Option<u64>) -> Woken {
            self.0.wait(word, expected, deadline)
        }
        fn wake(&self, word: &crate::AtomicU32, count: u32) {
            self.0.wake(word, count);
        }
        fn barrier(&self) {
            self.1.set(self.1.get() + 1);
            self.0.barrier();
        }
    }

    #[test]
    fn the_kernel_fences_once_for_all_sleeps_while_ringers_do() {
        let mode = FenceMode::Asymmetric;
        let kernel = Counting(Park::new(), core::cell::Cell::new(0));
        let (bell, fences) = (Doorbell::new(), || kernel.1.take());
        let sleep = |times| (0..times).for_each(|_| bell.cancel(bell.prepare(mode, &kernel)));
        sleep(3);
        assert_eq!(fences(), 3);
        bell.have_ringers_fence(&kernel);
        sleep(3);
        assert_eq!((fences(), bell.is_fenced_by_ringers()), (1, true));
        let ticket = bell.prepare(mode, &kernel);
        bell.ring(mode, &kernel);
        assert_eq!(bell.wait(ticket, None, &kernel), Woken::Changed);
        bell.ring(mode, &kernel);
        assert_eq!(kernel.0.wakes(), 1, "nobody announced again");
        assert!(bell.is_fenced_by_ringers() && !bell.somebody_sleeps());
        let ticket = bell.prepare(mode, &kernel);
        bell.let_ringers_be();
        assert!(bell.somebody_sleeps(), "the announcement stands");
        bell.ring(mode, &kernel);
        assert_eq!(bell.wait(ticket, None, &kernel), Woken::Changed);
        assert_eq!((fences(), bell.is_fenced_by_ringers()), (0, false));
        sleep(2);
        assert_eq!(fences(), 2);
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

    /// Loom knows no fence by the kernel. So either the mode is symmetric, or it is not and ringers fence because the bell
    /// says so. `models/doorbell.pml` has the change from one to the other.
    struct Scene {
        bell: Doorbell,
        mode: FenceMode,
        news: AtomicU32,
        park: Park,
    }

    const MODES: [FenceMode; 2] = [FenceMode::Symmetric, FenceMode::Asymmetric];

    impl Scene {
        fn new(mode: FenceMode) -> Arc<Self> {
            let scene = Self {
                bell: Doorbell::new(),
                mode,
                news: AtomicU32::new(0),
                park: Park::new(),
            };
            if mode == FenceMode::Asymmetric {
                scene.bell.have_ringers_fence(&scene.park);
            }
            Arc::new(scene)
        }

        fn publish(&self) {
            // Relaxed on purpose: only the fences of the protocol order this.
            self.news.fetch_add(1, Ordering::Relaxed);
            self.bell.ring(self.mode, &self.park);
        }

        /// Sleeps until `count` news are there. A lost wake-up is a deadlock, which loom reports.
        fn await_news(&self, count: u32) {
            loop {
                let ticket = self.bell.prepare(self.mode, &self.park);
                if self.news.load(Ordering::Relaxed) >= count {
                    self.bell.cancel(ticket);
                    return;
                }
                let _ = self.bell.wait(ticket, None, &self.park);
            }
        }
    }

    fn bounded(preemptions: Option<usize>) -> loom::model::Builder {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = preemptions;
        builder
    }

    fn on_each(builder: impl Fn() -> loom::model::Builder, model: fn(FenceMode)) {
        for mode in MODES {
            builder().check(move || model(mode));
        }
    }

    #[test]
    fn one_sleeper_one_ringer() {
        on_each(
            || bounded(None),
            |mode| {
                let scene = Scene::new(mode);
                let ringer = {
                    let scene = scene.clone();
                    loom::thread::spawn(move || scene.publish())
                };
                scene.await_news(1);
                ringer.join().unwrap();
            },
        );
    }

    #[test]
    fn one_sleeper_two_rings() {
        on_each(
            || bounded(None),
            |mode| {
                let scene = Scene::new(mode);
                let ringer = {
                    let scene = scene.clone();
                    loom::thread::spawn(move || {
                        scene.publish();
                        scene.publish();
                    })
                };
                scene.await_news(2);
                ringer.join().unwrap();
            },
        );
    }

    #[test]
    fn one_sleeper_two_ringers() {
        on_each(
            || bounded(Some(3)),
            |mode| {
                let scene = Scene::new(mode);
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
            },
        );
    }

    #[test]
    fn two_sleepers_one_ringer() {
        on_each(
            || bounded(Some(3)),
            |mode| {
                let scene = Scene::new(mode);
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
            },
        );
    }

    /// A ringer ends after each of its steps. The report of its end wakes the sleeper, whatever the sleeper
    /// is doing.
    #[test]
    fn a_ringer_that_ends_after_any_step() {
        for (steps, mode) in (0..=3).flat_map(|steps| MODES.map(|mode| (steps, mode))) {
            loom::model(move || {
                let scene = Scene::new(mode);
                let launcher = {
                    let scene = scene.clone();
                    loom::thread::spawn(move || {
                        // The ringer, until it is killed; then the launcher, which knows that it is dead.
                        if steps >= 1 {
                            scene.mode.light();
                        }
                        if steps >= 2 && scene.bell.somebody_sleeps() {
                            scene.bell.state.fetch_and(!ANNOUNCED, Ordering::AcqRel);
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
            let scene = Scene::new(FenceMode::Symmetric);
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

    /// Nor may a ringer that finds that it has to fence leave it out.
    #[test]
    #[should_panic(expected = "deadlock")]
    fn without_the_fence_that_the_bell_asks_for_it_hangs() {
        loom::model(|| {
            let scene = Scene::new(FenceMode::Asymmetric);
            let ringer = {
                let scene = scene.clone();
                loom::thread::spawn(move || {
                    scene.news.store(1, Ordering::Relaxed);
                    if scene.bell.state.load(Ordering::Relaxed) & ANNOUNCED != 0 {
                        scene.bell.wake(u32::MAX, &scene.park, || ());
                    }
                })
            };
            scene.await_news(1);
            ringer.join().unwrap();
        });
    }
}
