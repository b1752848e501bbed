//! Lock: a mutex whose holder sees that others wait, so that a loop that holds it for long can hand over.
//!
//! ```text
//!   state      0 free, 1 held
//!   waiting    how many threads are in the slow path; the holder reads it
//!   taken      how often the lock was taken; `slow_takes`: of these, by a thread in the slow path
//!   slow_at    `taken` at the last of these
//!   awake      how many of the waiting threads do not sleep
//!   due        a waiter has waited for as long as a turn lasts
//!   offered    the holder has released it so that a waiter may take it
//!   in_row     consecutive turns that came because they were due
//!   giving_way threads that wait for what others do with the lock, and let them run
//!   bell       where waiters sleep
//! ```
//!
//! Taking a free lock is one compare-and-swap. Releasing it is one store, the light fence of the
//! [doorbell](crate::doorbell) and a check whether anybody sleeps: with [`FenceMode::Asymmetric`] a store and
//! a load, nothing else.
//!
//! # Patience
//! The data that the lock protects are in the cache of the last holder, and fetching them costs as much as
//! many short turns. So if threads take the lock again and again, each should have it for a while. A waiter
//! that comes soon (counted in turns, not in time) after another waiter had its turn looks only now and then;
//! one that comes to a seldom contended lock looks at once. A holder that wants to be relieved says so by
//! [`hand_over`](Guard::hand_over), which waiters watch on a line of its own.
//!
//! If a turn ends in the middle of something, the next holder has to work around half-done work. So a waiter first says that
//! its turn is due, and a holder that comes to a point where nothing is half done [passes the lock on](Guard::pass_on); only
//! if no holder does so before its next look does the waiter take the lock at any point where it is free. It takes a lock at
//! once that nobody has taken since its last look.
//!
//! The length of a turn depends on the turns before it. If one turn after another begins because it was due, on both sides,
//! all users of the lock use it without pause: turns then grow to four times their length, so that less is lost by changing
//! them. A thread that gets the lock in any other way, because it was offered or unused, ends that.
//!
//! If threads [give way](Lock::give_way) to each other, more threads want to run than there are cores. Each has its core for one look,
//! so a waiter lets others run after a few looks of its own, whichever thread had the lock before. All of this is advice: it changes
//! when a waiter looks, not what it may do.
//!
//! # Why a waiter is not forgotten
//! A waiter announces itself on the bell and then tries once more; a holder stores `state = 0` and then looks
//! at the bell. That is the protocol of [`fence`](mod@crate::fence): either the waiter finds the lock free or
//! the holder finds the waiter. Each release wakes one waiter (waking all would only make them compete), and
//! none while another waiter is awake. That one either gets the lock, and releases it later; or it goes to
//! sleep, and before that removes itself from `awake`, announces itself and tries: then again either it finds
//! the lock free, or the holder will find that somebody sleeps and nobody is awake. A wake-up takes the
//! announcement of *all* sleepers away, so a waiter that gets the lock while others wait announces again on
//! their behalf, and its own release wakes the next. A woken waiter that comes too late announces again
//! itself.
//!
//! # What protects the value
//! `state` goes 0 → 1 by exactly one thread (Acquire) and 1 → 0 by that thread alone (Release: SYNC
//! lock.state); in between the value is the holder's.

use core::ops::{Deref, DerefMut};

use crate::{
    AtomicU32, CacheLine, Doorbell, FenceMode, Kernel, Ordering, UnsafeCell, spin_loop, yield_now,
};

/// Pauses, 13 to 45 ns each, between two looks of a patient waiter. Under Miri they take a thousand times as
/// long.
const PATIENCE: u32 = match (cfg!(loom), cfg!(miri)) {
    (true, _) => 1,
    (_, true) => 8,
    _ => 1024,
};

/// Pauses of a patient waiter between two looks at whether it is offered the lock. With one pause, the holder's own
/// compare-and-swaps are slow for whole turns.
const PAUSES: u32 = if cfg!(any(loom, miri)) { 1 } else { 16 };

/// Looks of a patient waiter until its turn is due: long enough that the other thread's work in that time costs a multiple
/// of fetching its data. The waiter lets others run after each look.
const LOOKS_UNTIL_DUE: u32 = if cfg!(loom) { 1 } else { 8 };

/// Further looks before it sleeps.
const LOOKS_WHEN_DUE: u32 = if cfg!(loom) { 1 } else { 8 };

/// Turns in a row, one of each of two threads, after which turns last twice as long.
const TURNS_TO_DOUBLE: u32 = 2;

/// How often the length of a turn doubles at most. Longer turns gained nothing more.
const MOST_DOUBLINGS: u32 = if cfg!(loom) { 0 } else { 2 };

/// Looks of another waiter before it sleeps: about half a microsecond, more than a short critical section
/// takes, and little compared with the microsecond and more of a sleep.
const SPINS: u32 = if cfg!(loom) { 1 } else { 50 };

/// Looks of a waiter among threads that give way to each other, until it gives way as well: less than a
/// switch takes.
const SPINS_IN_CROWD: u32 = if cfg!(loom) { 1 } else { 16 };

/// How often it gives way before it sleeps.
const TIMES_IN_CROWD: u32 = if cfg!(loom) { 1 } else { 16 };

/// A lock that was taken less often than this since the last turn of a waiter is contended all the time.
const CONTENDED_BELOW: u32 = 32;

/// Looks of a thread that has passed the lock on, until the waiter that watches for it has taken it.
const PASSING: u32 = if cfg!(loom) { 1 } else { 50 };

/// How often a thread that hands over lets others run before it takes the lock again regardless.
const COURTESY: u32 = if cfg!(loom) { 2 } else { 100 };

/// A mutual exclusion that shows contention to its holder.
#[derive(Debug)]
pub struct Lock<T> {
    state: AtomicU32,
    waiting: AtomicU32,
    taken: AtomicU32,
    slow_takes: AtomicU32,
    slow_at: AtomicU32,
    mode: FenceMode,
    waiters: CacheLine<Waiters>,
    bell: Doorbell,
    value: UnsafeCell<T>,
}

/// The words that waiters read, apart from those that each turn writes.
#[derive(Debug)]
struct Waiters {
    awake: AtomicU32,
    due: AtomicU32,
    offered: AtomicU32,
    /// Written by the holder alone.
    in_row: AtomicU32,
    giving_way: AtomicU32,
}

/// How a waiter got the lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Turn {
    /// Its turn was due: another thread used the lock all the time.
    Due,
    /// It was free, or offered.
    Free,
}

// SAFETY: the value is reached only through a guard, and one guard exists at a time.
unsafe impl<T: Send> Send for Lock<T> {}
// SAFETY: as above: sharing the lock hands the value from thread to thread, never to two at once.
unsafe impl<T: Send> Sync for Lock<T> {}

/// Access to the value, until dropped.
#[must_use = "a guard that is dropped at once protects nothing"]
#[derive(Debug)]
pub struct Guard<'a, T, K: Kernel> {
    lock: &'a Lock<T>,
    kernel: &'a K,
    /// A guard stays with its thread, as with any mutex; and it is shared only if the value may be.
    home: core::marker::PhantomData<*mut T>,
}

impl<T> Lock<T> {
    /// A free lock around `value`. [`FenceMode::Asymmetric`] only if this process has registered for
    /// it and every kernel handed to [`lock`](Self::lock) can do it.
    pub fn new(value: T, mode: FenceMode) -> Self {
        Self {
            state: AtomicU32::new(0),
            waiting: AtomicU32::new(0),
            taken: AtomicU32::new(0),
            slow_takes: AtomicU32::new(0),
            slow_at: AtomicU32::new(0),
            mode,
            waiters: CacheLine(Waiters {
                awake: AtomicU32::new(0),
                due: AtomicU32::new(0),
                offered: AtomicU32::new(0),
                in_row: AtomicU32::new(0),
                giving_way: AtomicU32::new(0),
            }),
            bell: Doorbell::new(),
            value: UnsafeCell::new(value),
        }
    }

    /// Takes the lock; sleeps while another holds it for long.
    #[inline]
    pub fn lock<'a, K: Kernel>(&'a self, kernel: &'a K) -> Guard<'a, T, K> {
        if !self.take() {
            self.take_slowly(true, kernel);
        }
        self.guard(kernel)
    }

    /// Takes the lock if it is free.
    #[inline]
    pub fn try_lock<'a, K: Kernel>(&'a self, kernel: &'a K) -> Option<Guard<'a, T, K>> {
        self.take().then(|| self.guard(kernel))
    }

    /// Whether others wait for the lock.
    #[inline]
    #[must_use]
    pub fn is_contended(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) != 0
    }

    /// Runs `meanwhile`, in which the caller, which does not hold the lock, waits for what others do with it
    /// and lets them run.
    pub fn give_way<R>(&self, meanwhile: impl FnOnce() -> R) -> R {
        self.waiters.giving_way.fetch_add(1, Ordering::Relaxed);
        let answer = meanwhile();
        self.waiters.giving_way.fetch_sub(1, Ordering::Relaxed);
        answer
    }

    /// Whether somebody [gives way](Self::give_way).
    #[inline]
    #[must_use]
    pub fn does_anybody_give_way(&self) -> bool {
        self.waiters.giving_way.load(Ordering::Relaxed) != 0
    }

    /// The value, by exclusive ownership.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }

    #[inline]
    fn guard<'a, K: Kernel>(&'a self, kernel: &'a K) -> Guard<'a, T, K> {
        Guard {
            lock: self,
            kernel,
            home: core::marker::PhantomData,
        }
    }

    #[inline]
    fn take(&self) -> bool {
        // Acquire: SYNC lock.state.
        let taken = self
            .state
            .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
            .is_ok();
        if taken {
            // Written by the holder alone.
            let count = self.taken.load(Ordering::Relaxed);
            self.taken.store(count.wrapping_add(1), Ordering::Relaxed);
        }
        taken
    }

    #[cold]
    fn take_slowly(&self, may_be_patient: bool, kernel: &impl Kernel) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let since = self
            .taken
            .load(Ordering::Relaxed)
            .wrapping_sub(self.slow_at.load(Ordering::Relaxed));
        // One patient waiter is enough to take over: the others sleep.
        let alone = self.waiters.awake.load(Ordering::Relaxed) == 0;
        let turn = self.wait_for_lock(may_be_patient && alone && since < CONTENDED_BELOW, kernel);
        self.count_turn(turn);
        let others = self.waiting.fetch_sub(1, Ordering::Relaxed) - 1;
        if others != 0 {
            self.bell.keep_announced();
        }
        self.slow_takes.fetch_add(1, Ordering::Relaxed);
        let now = self.taken.load(Ordering::Relaxed);
        self.slow_at.store(now, Ordering::Relaxed);
    }

    /// The holder's first act after it has waited.
    fn count_turn(&self, turn: Turn) {
        let in_row = match turn {
            Turn::Due => self.waiters.in_row.load(Ordering::Relaxed) + 1,
            Turn::Free => 0,
        };
        let most = TURNS_TO_DOUBLE * MOST_DOUBLINGS;
        self.waiters
            .in_row
            .store(in_row.min(most), Ordering::Relaxed);
    }

    /// Looks until the turn of a waiter that begins now is due.
    fn looks_until_due(&self) -> u32 {
        let in_row = self.waiters.in_row.load(Ordering::Relaxed);
        LOOKS_UNTIL_DUE << (in_row / TURNS_TO_DOUBLE)
    }

    fn wait_for_lock(&self, patient: bool, kernel: &impl Kernel) -> Turn {
        loop {
            self.waiters.awake.fetch_add(1, Ordering::Relaxed);
            let turn = if self.does_anybody_give_way() {
                self.look_in_crowd().then_some(Turn::Free)
            } else if patient {
                self.look_patiently()
            } else {
                self.look(SPINS).then_some(Turn::Free)
            };
            // Before the announcement, whose fence orders the two: see the module page.
            self.waiters.awake.fetch_sub(1, Ordering::Relaxed);
            if let Some(turn) = turn {
                return turn;
            }
            let ticket = self.bell.prepare(self.mode, kernel);
            if self.take() {
                self.bell.cancel(ticket);
                return Turn::Free;
            }
            let _ = self.bell.wait(ticket, None, kernel);
        }
    }

    fn look_in_crowd(&self) -> bool {
        for _ in 0..TIMES_IN_CROWD {
            if self.look(SPINS_IN_CROWD) {
                return true;
            }
            yield_now();
        }
        false
    }

    fn look(&self, spins: u32) -> bool {
        for _ in 0..spins {
            if self.state.load(Ordering::Relaxed) == 0 && self.take() {
                return true;
            }
            spin_loop();
        }
        false
    }

    fn look_patiently(&self) -> Option<Turn> {
        let until_due = self.looks_until_due();
        for look in 1..=until_due + LOOKS_WHEN_DUE {
            let is_due = look > until_due;
            let turn = if is_due { Turn::Due } else { Turn::Free };
            let taken = self.taken.load(Ordering::Relaxed);
            // Not while others run on this core: nobody would take a lock that is passed on.
            if is_due {
                self.waiters.due.store(1, Ordering::Relaxed);
            }
            let is_mine = self.watch_for_offer();
            if is_due {
                self.waiters.due.store(0, Ordering::Relaxed);
            }
            if is_mine {
                return Some(turn);
            }
            let is_used = taken != self.taken.load(Ordering::Relaxed);
            let may_take = is_due || !is_used;
            if may_take && self.state.load(Ordering::Relaxed) == 0 && self.take() {
                return Some(if is_used { turn } else { Turn::Free });
            }
            yield_now();
        }
        None
    }

    fn watch_for_offer(&self) -> bool {
        for _ in 0..PATIENCE / PAUSES {
            if self.waiters.offered.load(Ordering::Relaxed) != 0 && self.take() {
                return true;
            }
            for _ in 0..PAUSES {
                spin_loop();
            }
        }
        false
    }

    #[inline]
    fn release(&self, kernel: &impl Kernel) {
        // Release: SYNC lock.state.
        self.state.store(0, Ordering::Release);
        self.mode.light();
        if self.bell.somebody_sleeps() && self.waiters.awake.load(Ordering::Relaxed) == 0 {
            self.bell.wake(1, kernel, || ());
        }
    }
}

impl<T, K: Kernel> Guard<'_, T, K> {
    /// Whether others wait for the lock: time to finish, or to [`hand_over`](Self::hand_over).
    #[inline]
    #[must_use]
    pub fn is_contended(&self) -> bool {
        self.lock.is_contended()
    }

    /// Whether another thread should have it as soon as nothing is half done.
    #[inline]
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.lock.waiters.due.load(Ordering::Relaxed) != 0
    }

    /// Releases it for the waiter that watches for this.
    #[cold]
    pub fn pass_on(self) {
        let lock = self.lock;
        let slow_takes = lock.slow_takes.load(Ordering::Relaxed);
        lock.waiters.offered.store(1, Ordering::Relaxed);
        drop(self);
        for _ in 0..PASSING {
            if lock.slow_takes.load(Ordering::Relaxed) != slow_takes || !lock.is_contended() {
                break;
            }
            spin_loop();
        }
        lock.waiters.offered.store(0, Ordering::Relaxed);
    }

    /// If others wait, lets one of them have the lock, and takes it again afterwards. It stops waiting after
    /// a while if nobody comes: a waiter whose core sleeps takes long to wake.
    pub fn hand_over(self) -> Self {
        let (lock, kernel) = (self.lock, self.kernel);
        if !lock.is_contended() {
            return self;
        }
        let slow_takes = lock.slow_takes.load(Ordering::Relaxed);
        lock.waiters.offered.store(1, Ordering::Relaxed);
        drop(self);
        for _ in 0..COURTESY {
            if lock.slow_takes.load(Ordering::Relaxed) != slow_takes || !lock.is_contended() {
                break;
            }
            yield_now();
        }
        lock.waiters.offered.store(0, Ordering::Relaxed);
        // Others wait for what this thread does, so it is not patient.
        if !lock.take() {
            lock.take_slowly(false, kernel);
        }
        lock.guard(kernel)
    }
}

impl<T, K: Kernel> Drop for Guard<'_, T, K> {
    #[inline]
    fn drop(&mut self) {
        self.lock.release(self.kernel);
    }
}

impl<T, K: Kernel> Deref for Guard<'_, T, K> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard is the only access to the value (see the module page); the reference
        // cannot outlive it.
        self.lock.value.with(|value| unsafe { &*value })
    }
}

impl<T, K: Kernel> DerefMut for Guard<'_, T, K> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as for `deref`, and `&mut self` excludes other references through this guard.
        self.lock.value.with_mut(|value| unsafe { &mut *value })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::Arc;
    use crate::testing::Park;

    #[test]
    fn a_held_lock_is_not_taken_twice() {
        let park = Park::new();
        let lock = Lock::new(7, FenceMode::Symmetric);
        let guard = lock.lock(&park);
        assert!(lock.try_lock(&park).is_none());
        assert_eq!(*guard, 7);
        drop(guard);
        assert!(lock.try_lock(&park).is_some());
        assert_eq!(park.wakes(), 0, "an uncontended lock wakes nobody");
    }

    #[test]
    fn the_holder_sees_a_waiter_and_hands_over() {
        let lock = Arc::new((Lock::new(0u32, FenceMode::Symmetric), Park::new()));
        let mut guard = lock.0.lock(&lock.1);
        let other = {
            let lock = lock.clone();
            std::thread::spawn(move || *lock.0.lock(&lock.1) += 1)
        };
        while !guard.is_contended() {
            std::thread::yield_now();
        }
        while *guard == 0 {
            guard = guard.hand_over();
        }
        assert_eq!(*guard, 1);
        drop(guard);
        other.join().expect("the waiter got its turn");
    }

    #[test]
    fn a_holder_passes_it_on_to_one_whose_turn_is_due() {
        let lock = Arc::new((Lock::new(0u32, FenceMode::Symmetric), Park::new()));
        let guard = lock.0.lock(&lock.1);
        let other = {
            let lock = lock.clone();
            std::thread::spawn(move || *lock.0.lock(&lock.1) += 1)
        };
        // A waiter that waits longer than that sleeps.
        while !guard.is_due() && !lock.0.bell.somebody_sleeps() {
            std::thread::yield_now();
        }
        guard.pass_on();
        other.join().expect("it got its turn");
        let guard = lock.0.lock(&lock.1);
        assert_eq!(*guard, 1);
        assert!(!guard.is_due(), "nobody waits any more");
    }

    #[test]
    fn turns_grow_while_each_comes_because_it_is_due() {
        let lock = Lock::new((), FenceMode::Symmetric);
        let looks = |turns: &[Turn]| {
            turns.iter().for_each(|turn| lock.count_turn(*turn));
            lock.looks_until_due()
        };
        assert_eq!(looks(&[]), LOOKS_UNTIL_DUE);
        assert_eq!(
            looks(&[Turn::Due]),
            LOOKS_UNTIL_DUE,
            "one side alone is no reason"
        );
        assert_eq!(looks(&[Turn::Due]), 2 * LOOKS_UNTIL_DUE);
        assert_eq!(looks(&[Turn::Due; 2]), 4 * LOOKS_UNTIL_DUE);
        assert_eq!(looks(&[Turn::Due; 9]), 4 * LOOKS_UNTIL_DUE, "no longer");
        assert_eq!(looks(&[Turn::Free]), LOOKS_UNTIL_DUE);
        assert_eq!(
            looks(&[Turn::Due, Turn::Free, Turn::Due]),
            LOOKS_UNTIL_DUE,
            "one waits for its turn, the other one is offered it"
        );
    }

    #[test]
    fn an_unused_lock_is_no_turn_that_was_due() {
        let park = Park::new();
        let lock = Lock::new((), FenceMode::Symmetric);
        for _ in 0..4 {
            lock.count_turn(Turn::Due);
        }
        // Nobody uses it: the first look that notices this takes it.
        assert_eq!(lock.wait_for_lock(true, &park), Turn::Free);
    }

    fn count(rounds: u32, between: fn(&Lock<u32>)) {
        let lock = Arc::new((Lock::new(0u32, FenceMode::Symmetric), Park::new()));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let lock = lock.clone();
                std::thread::spawn(move || {
                    for _ in 0..rounds {
                        *lock.0.lock(&lock.1) += 1;
                        between(&lock.0);
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("no thread panics");
        }
        assert_eq!(*lock.0.lock(&lock.1), 4 * rounds);
        assert!(!lock.0.does_anybody_give_way());
    }

    #[test]
    fn counting_by_four_threads_loses_nothing() {
        count(if cfg!(miri) { 20 } else { 5_000 }, |_| ());
    }

    #[test]
    fn counting_by_four_threads_that_give_way_loses_nothing() {
        count(if cfg!(miri) { 20 } else { 5_000 }, |lock| {
            lock.give_way(yield_now);
        });
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::Arc;
    use crate::testing::Park;

    fn count(threads: usize, preemptions: usize) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(preemptions);
        builder.check(move || {
            let lock = Arc::new((Lock::new(0usize, FenceMode::Symmetric), Park::new()));
            let others: Vec<_> = (1..threads)
                .map(|_| {
                    let lock = lock.clone();
                    loom::thread::spawn(move || *lock.0.lock(&lock.1) += 1)
                })
                .collect();
            *lock.0.lock(&lock.1) += 1;
            for other in others {
                other.join().unwrap();
            }
            assert_eq!(*lock.0.lock(&lock.1), threads);
        });
    }

    #[test]
    fn two_threads_exclude_each_other() {
        count(2, 4);
    }

    #[test]
    fn a_holder_that_passes_it_on_forgets_no_waiter() {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(|| {
            let lock = Arc::new((Lock::new(0usize, FenceMode::Symmetric), Park::new()));
            let other = {
                let lock = lock.clone();
                loom::thread::spawn(move || *lock.0.lock(&lock.1) += 1)
            };
            for _ in 0..2 {
                let mut guard = lock.0.lock(&lock.1);
                *guard += 1;
                if guard.is_due() {
                    guard.pass_on();
                }
            }
            other.join().unwrap();
            let guard = lock.0.lock(&lock.1);
            assert_eq!(*guard, 3);
            assert!(!guard.is_due());
        });
    }

    #[test]
    fn three_threads_all_get_their_turn() {
        count(3, 2);
    }

    #[test]
    fn a_waiter_among_threads_that_give_way_is_not_forgotten() {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(|| {
            let lock = Arc::new((Lock::new(0usize, FenceMode::Symmetric), Park::new()));
            let other = {
                let lock = lock.clone();
                loom::thread::spawn(move || {
                    *lock.0.lock(&lock.1) += 1;
                    lock.0.give_way(yield_now);
                    *lock.0.lock(&lock.1) += 1;
                })
            };
            *lock.0.lock(&lock.1) += 1;
            lock.0.give_way(yield_now);
            other.join().unwrap();
            assert_eq!(*lock.0.lock(&lock.1), 3);
        });
    }
}
