//! Reader bias: threads that share a lock use flags of their own, and leave the lock's word alone, until
//! somebody wants the lock alone.
//!
//! ```text
//!   off      0: sharers use their flags    1: everybody takes the lock             all zeros: a lock that nobody has
//!   flags    one for each sharer           1: inside by it, or checking whether it may enter
//!
//!   a sharer                                     a thread that has taken the lock, to be alone
//!   flag = 1                                     off = 1
//!   light fence                                  heavy fence
//!   off? flag = 0, and takes the lock            waits until all flags are 0
//!   … inside …                                   … alone …
//!   flag = 0                                     gives the lock back
//! ```
//!
//! The lock itself is the caller's: it can be shared, or had alone. A flag saves the lock's atomic instructions, and the
//! cache line that all sharers would write. A thread that wants to be alone pays for that, once for each time that the bias
//! was [on](ReaderBias::turn_on).
//!
//! # Why nobody is alone while a flag is inside
//! It follows from the protocol of [`fence`](mod@crate::fence): the flag is announced, `off` is published, and each side looks for the other's word
//! after its fence. Either the sharer finds `off`, and does not enter by its flag, or the other side finds the flag, and waits. A flag that is set
//! after it was found 0 finds `off`: only a thread that has the lock, shared or without having been alone, clears `off`, and nobody has the lock
//! while another thread is alone. Nor does a thread that has found a flag and does not wait for it leave `off` set: the next holder of the lock would
//! not look.
//!
//! The thread that will have the lock next may turn flags off and wait for them before it has the lock, while others share it, if it looks at
//! `off` once more when it has it: one of those others may have cleared `off` ([`ticket_lock`](crate::ticket_lock)).
//!
//! # Ordering
//! SYNC reader_bias.inside: what was done inside comes before the flag is 0 (Release), which is looked for by Acquire.
//! SYNC reader_bias.on: a thread that enters by its flag has found `off` to be 0 (Acquire); the thread that cleared it (Release)
//! had the lock, after the last one that was alone.
//!
//! # Several threads
//! A flag belongs to one sharer. If that is a process, its threads agree which of them sets and clears the flag: a thread that
//! retreats must not clear it for another one that has entered.
//!
//! # Waiting
//! A thread that has waited in vain announces that, passes the heavy fence, and looks at the flags again before it sleeps; a thread that
//! [leaves](ReaderBias::leave), or [retreats](Entered::Retreated), then looks for such announcements.
//!
//! After Dave Dice and Alex Kogan, "BRAVO: Biased Locking for Reader-Writer Locks" (USENIX ATC 2019).

use crate::{AtomicU32, FenceMode, Kernel, Ordering};

/// The bias of one lock: its word `off`, and the fence mode of all its users.
#[derive(Clone, Copy, Debug)]
pub struct ReaderBias<'a> {
    off: &'a AtomicU32,
    mode: FenceMode,
}

/// The result of entering by a flag.
#[must_use = "who has retreated looks who waits; who is not inside takes the lock"]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entered {
    /// It shares the lock by its flag.
    Inside,
    /// The bias is off; the flag was not touched.
    Off,
    /// The bias went off in between: the flag was set for a moment, and somebody may wait for it.
    Retreated,
}

impl<'a> ReaderBias<'a> {
    /// The bias with this word. [`FenceMode::Asymmetric`] only if all users of the lock have registered for
    /// it.
    #[inline]
    #[must_use]
    pub fn new(off: &'a AtomicU32, mode: FenceMode) -> Self {
        Self { off, mode }
    }

    /// Enters by a flag of the caller, which is 0, if the bias is on.
    #[inline]
    pub fn enter(self, flag: &AtomicU32) -> Entered {
        if !self.is_on() {
            return Entered::Off;
        }
        flag.store(1, Ordering::Relaxed);
        self.mode.light();
        // Acquire: SYNC reader_bias.on.
        if self.off.load(Ordering::Acquire) == 0 {
            Entered::Inside
        } else {
            self.retreat(flag)
        }
    }

    #[cold]
    fn retreat(self, flag: &AtomicU32) -> Entered {
        self.leave(flag);
        Entered::Retreated
    }

    /// Whether the caller is inside by its flag.
    #[inline]
    #[must_use]
    pub fn is_inside(self, flag: &AtomicU32) -> bool {
        flag.load(Ordering::Relaxed) != 0
    }

    /// Clears the flag; the caller must then look for announced waiters.
    #[inline]
    pub fn leave(self, flag: &AtomicU32) {
        // Release: SYNC reader_bias.inside.
        flag.store(0, Ordering::Release);
        self.mode.light();
    }

    /// Whether anybody may be inside by a flag: to be checked by a thread that has just taken the lock to be
    /// alone.
    #[inline]
    #[must_use]
    pub fn is_on(self) -> bool {
        self.off.load(Ordering::Relaxed) == 0
    }

    /// Called by a thread that has taken the lock to be alone: from now on nobody enters by a flag. After
    /// this, threads inside are found by their flags.
    pub fn turn_off(self, kernel: &(impl Kernel + ?Sized)) {
        self.off.store(1, Ordering::Relaxed);
        self.mode.heavy(kernel);
    }

    /// Whether nobody is inside by these flags, after the bias was [turned off](Self::turn_off).
    #[must_use]
    pub fn are_out<'f>(self, flags: impl IntoIterator<Item = &'f AtomicU32>) -> bool {
        // Acquire: SYNC reader_bias.inside.
        let mut flags = flags.into_iter();
        flags.all(|flag| flag.load(Ordering::Acquire) == 0)
    }

    /// The fence of a thread that has announced its wait, before it looks again whether the others [are
    /// out](Self::are_out).
    pub fn fence_of_waiter(self, kernel: &(impl Kernel + ?Sized)) {
        self.mode.heavy(kernel);
    }

    /// Called by a thread that has the lock, shared or to give it back without having been alone: from now on
    /// others may enter by their flags.
    pub fn turn_on(self) {
        // Release: SYNC reader_bias.on.
        self.off.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Park;
    use crate::{Arc, UnsafeCell, yield_now};

    #[cfg(loom)]
    use loom::sync::RwLock;
    #[cfg(not(loom))]
    use std::sync::RwLock;

    /// A value that two threads share by flags, and others have alone.
    struct Shared {
        off: AtomicU32,
        flags: [AtomicU32; 2],
        lock: RwLock<()>,
        value: UnsafeCell<u32>,
        park: Park,
    }

    // SAFETY: what the tests show: the value is read by sharers, and written by a thread that is alone.
    unsafe impl Sync for Shared {}

    impl Shared {
        fn new() -> Arc<Self> {
            Arc::new(Self {
                off: AtomicU32::new(0),
                flags: [AtomicU32::new(0), AtomicU32::new(0)],
                lock: RwLock::new(()),
                value: UnsafeCell::new(0),
                park: Park::new(),
            })
        }

        fn bias(&self) -> ReaderBias<'_> {
            ReaderBias::new(&self.off, FenceMode::Symmetric)
        }

        fn value(&self) -> u32 {
            // SAFETY: nobody writes as long as the caller shares the lock.
            self.value.with(|value| unsafe { *value })
        }

        /// By a flag, or by the lock, which then turns the bias on again.
        fn read(&self, me: usize) -> u32 {
            let (bias, flag) = (self.bias(), &self.flags[me]);
            if bias.enter(flag) == Entered::Inside {
                let found = self.value();
                bias.leave(flag);
                return found;
            }
            let held = self.lock.read().unwrap();
            let found = self.value();
            bias.turn_on();
            drop(held);
            found
        }

        fn add(&self) {
            let held = self.lock.write().unwrap();
            let bias = self.bias();
            if bias.is_on() {
                bias.turn_off(&self.park);
                while !bias.are_out(&self.flags) {
                    yield_now();
                }
            }
            // SAFETY: nobody shares the lock, by its flag or otherwise.
            self.value.with_mut(|value| unsafe { *value += 1 });
            drop(held);
        }
    }

    #[cfg(loom)]
    #[test]
    fn a_writer_excludes_all_others() {
        loom::model(|| {
            let shared = Shared::new();
            let theirs = Arc::clone(&shared);
            let reader = loom::thread::spawn(move || {
                let first = theirs.read(0);
                assert!(first <= theirs.read(0));
            });
            shared.add();
            reader.join().unwrap();
            assert_eq!(shared.read(1), 1);
        });
    }

    #[cfg(loom)]
    #[test]
    fn two_readers_and_one_writer() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let shared = Shared::new();
            let readers: Vec<_> = [0, 1]
                .map(|me| {
                    let theirs = Arc::clone(&shared);
                    loom::thread::spawn(move || theirs.read(me))
                })
                .into_iter()
                .collect();
            shared.add();
            shared.add();
            for reader in readers {
                assert!(reader.join().unwrap() <= 2);
            }
        });
    }

    /// Without the fence between a flag and the look at `off` the models above would see both inside.
    #[cfg(loom)]
    #[test]
    #[should_panic]
    fn without_a_fence_both_are_inside() {
        loom::model(|| {
            let shared = Shared::new();
            let theirs = Arc::clone(&shared);
            let reader = loom::thread::spawn(move || {
                theirs.flags[0].store(1, Ordering::Relaxed);
                if theirs.off.load(Ordering::Acquire) == 0 {
                    theirs.value();
                    theirs.flags[0].store(0, Ordering::Release);
                }
            });
            shared.off.store(1, Ordering::Relaxed);
            if shared.bias().are_out(&shared.flags) {
                // SAFETY: it is not, which is what the model finds.
                shared.value.with_mut(|value| unsafe { *value += 1 });
            }
            reader.join().unwrap();
        });
    }

    /// A thread that sleeps because of a flag is woken by the one that clears it, even if that one only
    /// retreats.
    #[cfg(loom)]
    #[test]
    fn no_sleep_outlasts_the_flag() {
        loom::model(|| {
            let shared = Shared::new();
            let waits = Arc::new(AtomicU32::new(0));
            let (theirs, waiting) = (Arc::clone(&shared), Arc::clone(&waits));
            let reader = loom::thread::spawn(move || {
                let (bias, flag) = (theirs.bias(), &theirs.flags[0]);
                match bias.enter(flag) {
                    Entered::Inside => bias.leave(flag),
                    Entered::Off => return false,
                    Entered::Retreated => {}
                }
                waiting.load(Ordering::Relaxed) != 0
            });
            let bias = shared.bias();
            bias.turn_off(&shared.park);
            let sleeps = !bias.are_out(&shared.flags) && {
                waits.store(1, Ordering::Relaxed);
                bias.fence_of_waiter(&shared.park);
                !bias.are_out(&shared.flags)
            };
            let wakes = reader.join().unwrap();
            assert!(wakes || !sleeps, "nobody ends this sleep");
        });
    }

    #[cfg(not(loom))]
    #[test]
    fn flags_and_locks_by_turns() {
        const ROUNDS: u32 = if cfg!(miri) { 10 } else { 20_000 };
        let shared = Shared::new();
        std::thread::scope(|scope| {
            for me in [0, 1] {
                let shared = &shared;
                scope.spawn(move || {
                    let mut last = 0;
                    for _ in 0..ROUNDS {
                        let found = shared.read(me);
                        assert!(found >= last, "{found} after {last}");
                        last = found;
                    }
                });
            }
            for _ in [0, 1] {
                let shared = &shared;
                scope.spawn(move || {
                    for round in 0..ROUNDS / 10 {
                        shared.add();
                        if round % 8 == 0 {
                            yield_now();
                        }
                    }
                });
            }
        });
        assert_eq!(shared.value(), ROUNDS / 10 * 2);
    }

    #[cfg(not(loom))]
    #[test]
    fn a_flag_is_left_alone_while_the_bias_is_off() {
        let shared = Shared::new();
        let (bias, flag) = (shared.bias(), &shared.flags[1]);
        assert_eq!(bias.enter(flag), Entered::Inside);
        assert!(bias.is_inside(flag) && !bias.are_out(&shared.flags));
        bias.turn_off(&shared.park);
        assert!(!bias.is_on() && !bias.are_out(&shared.flags));
        bias.leave(flag);
        assert!(bias.are_out(&shared.flags));
        assert_eq!(bias.enter(flag), Entered::Off);
        assert!(!bias.is_inside(flag));
        bias.turn_on();
        assert_eq!(bias.enter(flag), Entered::Inside);
    }
}
