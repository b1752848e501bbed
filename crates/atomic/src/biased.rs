//! Biased mutex: it costs its first user next to nothing. As long as one thread alone takes it, taking and
//! releasing are plain stores and loads. The second thread pays once, for all.
//!
//! ```text
//!   owner     mark of the thread that took it first; never changes
//!   at hand   the same mark while the owner is not inside, 0 while it is (written by the owner alone)
//!   revoked   the bias is over: all threads, even the owner, take `lock`
//!   asking    somebody waits for the owner to leave
//!   holder    the thread that is inside by `lock`; 0 if none
//!   shared    another thread than the owner has taken it, and not on its behalf
//! ```
//!
//! # Who may touch the value
//! * Not revoked: the owner, while it is inside.
//! * Revoked: the holder of `lock`; the revoker saw the owner outside once after revoking.
//!
//! # Why the two do not meet
//! The owner stores `at_hand = 0`, passes the light fence, and loads `revoked`; the revoker stores
//! `revoked = 1`, passes the heavy fence, and loads `at_hand`. That is the protocol of
//! [`fence`](mod@crate::fence): at least one sees the other. An owner that sees `revoked` goes back out; a
//! revoker that finds it inside waits until it is not. What the owner did inside happens before it stores
//! its mark in `at_hand` again (Release), which the revoker loads (Acquire): SYNC biased.inside.
//!
//! With [`FenceMode::Symmetric`] the light fence is a full one and costs as much as a compare-and-swap; it is still
//! correct. The mark includes the mode, so that a thread that compares it with its own need not check the mode.
//!
//! # Taking it twice
//! A thread that is inside and takes it again would have the value twice, or wait for itself. This is refused:
//! the owner does not find its mark in `at_hand`, any other thread finds its own number in `holder`. Only the
//! thread itself writes its number there, and removes it before it releases, so what it reads about itself is
//! exact.
//!
//! # Identity of threads
//! A thread is identified by the address of its thread block. A later thread may get the same address after
//! the first has ended; it is the owner then, and what the first did happened before it began.

use core::ops::{Deref, DerefMut};

use crate::lock::{Guard as Held, Lock};
use crate::{AtomicU32, AtomicUsize, FenceMode, Kernel, Ordering, UnsafeCell, yield_now};

/// A mutual exclusion that is biased towards the thread that uses it first.
#[derive(Debug)]
pub struct Biased<T> {
    owner: AtomicUsize,
    at_hand: AtomicUsize,
    revoked: AtomicU32,
    asking: AtomicU32,
    mode: FenceMode,
    lock: Lock<()>,
    holder: AtomicUsize,
    shared: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached only through a guard, and one guard exists at a time (module page).
unsafe impl<T: Send> Send for Biased<T> {}
// SAFETY: as above: sharing hands the value from thread to thread, never to two at once.
unsafe impl<T: Send> Sync for Biased<T> {}

/// Access to the value, until dropped.
#[must_use = "a guard that is dropped at once protects nothing"]
#[derive(Debug)]
pub struct Guard<'a, T, K: Kernel> {
    biased: &'a Biased<T>,
    /// `None`: inside by the bias.
    held: Option<Held<'a, (), K>>,
    /// A guard stays with its thread.
    home: core::marker::PhantomData<*mut T>,
}

impl<T> Biased<T> {
    /// A free one around `value`. [`FenceMode::Asymmetric`] only if this process has registered for it
    /// and every kernel handed to [`lock`](Self::lock) can do it.
    pub fn new(value: T, mode: FenceMode) -> Self {
        Self {
            owner: AtomicUsize::new(0),
            at_hand: AtomicUsize::new(0),
            revoked: AtomicU32::new(0),
            asking: AtomicU32::new(0),
            mode,
            lock: Lock::new((), mode),
            holder: AtomicUsize::new(0),
            shared: AtomicU32::new(0),
            value: UnsafeCell::new(value),
        }
    }

    /// Takes it; sleeps while another holds it for long.
    ///
    /// # Panics
    /// If the calling thread holds it already.
    #[inline]
    pub fn lock<'a, K: Kernel>(&'a self, kernel: &'a K) -> Guard<'a, T, K> {
        if self.revoked.load(Ordering::Relaxed) != 0 {
            // The revoker held the lock until the owner was out, so holding it now is enough.
            let held = match self.lock.try_lock(kernel) {
                Some(held) => held,
                None => self.wait_for_lock(kernel),
            };
            self.note_user();
            return self.guard(Some(held));
        }
        let mark = self.mark_of(this_thread());
        if self.owner.load(Ordering::Relaxed) == mark {
            if self.at_hand.load(Ordering::Relaxed) == 0 {
                taken_twice();
            }
            if self.enter(mark, self.mode) {
                return self.guard(None);
            }
        }
        let guard = self.lock_slowly(kernel);
        self.note_user();
        guard
    }

    /// Takes it for work that its owner has begun and would do itself: the owner still counts as the only one that
    /// [uses](Guard::is_used_by_owner_alone) it. For a thread that does not hold it.
    #[cold]
    pub fn lock_on_behalf<'a, K: Kernel>(&'a self, kernel: &'a K) -> Guard<'a, T, K> {
        self.lock_slowly(kernel)
    }

    /// Notes that the calling thread is inside, and not on behalf of another one.
    #[inline]
    fn note_user(&self) {
        if self.owner.load(Ordering::Relaxed) != self.mark_of(this_thread()) {
            // Relaxed: written and read only inside.
            self.shared.store(1, Ordering::Relaxed);
        }
    }

    /// The mark of the owner, if it is that thread.
    #[inline(always)]
    fn mark_of(&self, thread: usize) -> usize {
        // Addresses of thread blocks are even.
        thread | usize::from(self.mode == FenceMode::Symmetric)
    }

    /// The owner, which has it at hand, enters, unless the bias is over.
    #[inline(always)]
    fn enter(&self, mark: usize, mode: FenceMode) -> bool {
        self.at_hand.store(0, Ordering::Relaxed);
        mode.light();
        let entered = self.revoked.load(Ordering::Acquire) == 0;
        if !entered {
            // Release: SYNC biased.inside.
            self.at_hand.store(mark, Ordering::Release);
        }
        entered
    }

    /// The owner leaves.
    #[inline(always)]
    fn leave(&self) {
        let mark = self.owner.load(Ordering::Relaxed);
        // Release: SYNC biased.inside.
        self.at_hand.store(mark, Ordering::Release);
    }

    /// Takes it by the bias, if the calling thread is the owner and is not inside.
    #[inline]
    pub fn try_by_bias(&self) -> Option<ByBias<'_, T>> {
        self.try_as(self.mark_of(this_thread()), self.mode)
    }

    /// The same in the fewest instructions, only for [`FenceMode::Asymmetric`].
    #[inline]
    pub fn try_by_asymmetric_bias(&self) -> Option<ByBias<'_, T>> {
        self.try_as(this_thread(), FenceMode::Asymmetric)
    }

    #[inline(always)]
    fn try_as(&self, mark: usize, mode: FenceMode) -> Option<ByBias<'_, T>> {
        let may = self.at_hand.load(Ordering::Relaxed) == mark && self.enter(mark, mode);
        may.then(|| ByBias {
            biased: self,
            home: core::marker::PhantomData,
        })
    }

    /// Takes it by the lock, if the bias is over and nobody has it.
    #[inline]
    pub fn try_by_lock<'a, K: Kernel>(&'a self, kernel: &'a K) -> Option<Guard<'a, T, K>> {
        if self.revoked.load(Ordering::Relaxed) == 0 {
            return None;
        }
        // The revoker held the lock until the owner was out, so holding it now is enough.
        let held = self.lock.try_lock(kernel)?;
        self.note_user();
        Some(self.guard(Some(held)))
    }

    /// Runs `meanwhile`, in which the caller waits for what others do with it and lets them run: see
    /// [`Lock::give_way`].
    pub fn give_way<R>(&self, meanwhile: impl FnOnce() -> R) -> R {
        self.lock.give_way(meanwhile)
    }

    /// Whether somebody [gives way](Self::give_way).
    #[inline]
    #[must_use]
    pub fn does_anybody_give_way(&self) -> bool {
        self.lock.does_anybody_give_way()
    }

    /// Whether others wait for it.
    #[inline]
    #[must_use]
    pub fn is_contended(&self) -> bool {
        self.asking.load(Ordering::Relaxed) != 0 || self.lock.is_contended()
    }

    #[cold]
    fn wait_for_lock<'a, K: Kernel>(&'a self, kernel: &'a K) -> Held<'a, (), K> {
        let me = this_thread();
        let inside = self.at_hand.load(Ordering::Relaxed) == 0;
        let is_mine = inside && self.owner.load(Ordering::Relaxed) == self.mark_of(me);
        if is_mine || self.holder.load(Ordering::Relaxed) == me {
            taken_twice();
        }
        self.lock.lock(kernel)
    }

    #[inline]
    fn guard<'a, K: Kernel>(&'a self, held: Option<Held<'a, (), K>>) -> Guard<'a, T, K> {
        if held.is_some() {
            self.holder.store(this_thread(), Ordering::Relaxed);
        }
        Guard {
            biased: self,
            held,
            home: core::marker::PhantomData,
        }
    }

    #[cold]
    fn lock_slowly<'a, K: Kernel>(&'a self, kernel: &'a K) -> Guard<'a, T, K> {
        let mark = self.mark_of(this_thread());
        let first = self
            .owner
            .compare_exchange(0, mark, Ordering::Relaxed, Ordering::Relaxed);
        if first.is_ok() {
            // A revoker that comes before this waits for it.
            self.at_hand.store(mark, Ordering::Release);
            return self.lock(kernel);
        }
        let held = self.lock.lock(kernel);
        // Revokers come one by one, each holding the lock; the later ones find the work done.
        if self.revoked.load(Ordering::Relaxed) == 0 {
            self.asking.store(1, Ordering::Relaxed);
            self.revoked.store(1, Ordering::Release);
            self.mode.heavy(kernel);
            // Acquire: SYNC biased.inside. Once in the life of the lock; `asking` tells the owner.
            while self.at_hand.load(Ordering::Acquire) == 0 {
                yield_now();
            }
            self.asking.store(0, Ordering::Relaxed);
        }
        self.guard(Some(held))
    }
}

/// Access to the value by the bias, until dropped: a [`Guard`] that need not check how it was taken.
#[must_use = "a guard that is dropped at once protects nothing"]
#[derive(Debug)]
pub struct ByBias<'a, T> {
    biased: &'a Biased<T>,
    /// A guard stays with its thread.
    home: core::marker::PhantomData<*mut T>,
}

impl<'a, T> ByBias<'a, T> {
    /// The same as a guard like any other.
    #[inline]
    pub fn into_guard<K: Kernel>(self) -> Guard<'a, T, K> {
        let biased = self.biased;
        core::mem::forget(self);
        biased.guard(None)
    }
}

impl<T> Drop for ByBias<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.biased.leave();
    }
}

impl<T> Deref for ByBias<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard is the only access to the value (module page); the reference cannot
        // outlive it.
        self.biased.value.with(|value| unsafe { &*value })
    }
}

impl<T> DerefMut for ByBias<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as for `deref`, and `&mut self` excludes other references through this guard.
        self.biased.value.with_mut(|value| unsafe { &mut *value })
    }
}

impl<'a, T, K: Kernel> Guard<'a, T, K> {
    /// Whether others wait: time to finish, or to drop the guard and take it again.
    #[inline]
    #[must_use]
    pub fn is_contended(&self) -> bool {
        self.biased.is_contended()
    }

    /// Whether another thread's turn is due, and it waits for a point where nothing is half done.
    #[inline]
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.held.as_ref().is_some_and(Held::is_due)
    }

    /// Releases it at a point where nothing is half done: see
    /// [`Guard::pass_on`](crate::lock::Guard::pass_on).
    #[cold]
    pub fn pass_on(mut self) {
        if let Some(held) = self.held.take() {
            self.biased.holder.store(0, Ordering::Relaxed);
            // Not by the bias, so there is nothing else to give back.
            core::mem::forget(self);
            held.pass_on();
        }
    }

    /// Whether only one thread has ever taken it for itself.
    #[must_use]
    pub fn is_used_by_owner_alone(&self) -> bool {
        self.biased.shared.load(Ordering::Relaxed) == 0
    }

    /// If others wait, lets one of them have it, and takes it again afterwards: see
    /// [`Guard::hand_over`](crate::lock::Guard::hand_over).
    pub fn hand_over(mut self, kernel: &'a K) -> Self {
        let biased = self.biased;
        if let Some(held) = self.held.take() {
            // Not by the bias, so there is nothing else to give back.
            core::mem::forget(self);
            biased.holder.store(0, Ordering::Relaxed);
            return biased.guard(Some(held.hand_over()));
        }
        drop(self);
        yield_now();
        biased.lock(kernel)
    }
}

impl<T, K: Kernel> Drop for Guard<'_, T, K> {
    #[inline]
    fn drop(&mut self) {
        if self.held.is_none() {
            self.biased.leave();
        } else {
            // Before the lock itself is released, by the drop of the field.
            self.biased.holder.store(0, Ordering::Relaxed);
        }
    }
}

impl<T, K: Kernel> Deref for Guard<'_, T, K> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard is the only access to the value (module page); the reference cannot
        // outlive it.
        self.biased.value.with(|value| unsafe { &*value })
    }
}

impl<T, K: Kernel> DerefMut for Guard<'_, T, K> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as for `deref`, and `&mut self` excludes other references through this guard.
        self.biased.value.with_mut(|value| unsafe { &mut *value })
    }
}

#[cold]
#[inline(never)]
fn taken_twice() -> ! {
    panic!(
        "a lock is taken by the thread that holds it: code that runs within a call must not begin another one; do it after the call has returned"
    );
}

/// A number for the calling thread that no other living thread has; never 0.
#[cfg(all(target_arch = "x86_64", target_os = "linux", not(loom), not(miri)))]
#[inline]
fn this_thread() -> usize {
    let block: usize;
    // SAFETY: on this system the first word of the block that `fs` points to holds its own address
    // (System V ABI, thread-local storage, variant II); reading it has no effect.
    unsafe {
        core::arch::asm!("mov {}, fs:0", out(reg) block, options(nostack, preserves_flags, readonly, pure));
    }
    block
}

/// A number for the calling thread that no other living thread has; never 0.
#[cfg(not(all(target_arch = "x86_64", target_os = "linux", not(loom), not(miri))))]
fn this_thread() -> usize {
    #[cfg(not(loom))]
    use std::thread_local;

    #[cfg(loom)]
    use loom::thread_local;

    thread_local! {
        static BLOCK: Box<u8> = Box::new(0);
    }
    BLOCK.with(|block| core::ptr::from_ref::<u8>(block).addr())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::Arc;
    use crate::testing::Park;

    #[test]
    fn the_first_user_needs_no_lock() {
        let park = Park::new();
        let biased = Biased::new(1, FenceMode::Symmetric);
        for _ in 0..3 {
            *biased.lock(&park) += 1;
        }
        assert_eq!(*biased.lock(&park), 4);
        assert_eq!(biased.revoked.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_thread_that_takes_it_on_behalf_of_its_owner_is_no_other_user() {
        let biased = Arc::new((Biased::new(0u32, FenceMode::Symmetric), Park::new()));
        let (one, park) = (&biased.0, &biased.1);
        let by_another = |take: fn(&(Biased<u32>, Park))| {
            let biased = biased.clone();
            let other = std::thread::spawn(move || take(&biased));
            other.join().expect("it got its turn");
        };
        *one.lock(park) += 1;
        by_another(|biased| *biased.0.lock_on_behalf(&biased.1) += 1);
        assert!(one.try_by_bias().is_none(), "the bias is over");
        let guard = one.try_by_lock(park).expect("it is free");
        assert!(guard.is_used_by_owner_alone());
        assert!(guard.hand_over(park).is_used_by_owner_alone());
        by_another(|biased| *biased.0.lock(&biased.1) += 1);
        by_another(|biased| *biased.0.lock_on_behalf(&biased.1) += 1);
        assert!(!one.lock(park).is_used_by_owner_alone());
        assert_eq!(*one.lock(park), 4);
    }

    #[test]
    fn a_thread_that_does_not_wait_takes_it_by_the_bias_or_by_the_lock() {
        let biased = Arc::new((Biased::new(0u32, FenceMode::Symmetric), Park::new()));
        let (one, park) = (&biased.0, &biased.1);
        assert!(one.try_by_bias().is_none(), "it is nobody's yet");
        *one.lock(park) += 1;
        let mut guard = one.try_by_bias().expect("it is this thread's");
        *guard += 1;
        assert!(one.try_by_bias().is_none(), "it is inside");
        assert!(
            one.try_by_asymmetric_bias().is_none(),
            "its fence costs something"
        );
        assert!(one.try_by_lock(park).is_none(), "the bias is not over");
        assert!(is_refused(one, park));
        drop(guard);
        let other = {
            let biased = biased.clone();
            std::thread::spawn(move || {
                assert!(biased.0.try_by_bias().is_none(), "it is another's");
                *biased.0.lock(&biased.1) += 1;
            })
        };
        other.join().expect("it got its turn");
        assert!(one.try_by_bias().is_none(), "the bias is over");
        let mut guard = one.try_by_lock(park).expect("it is free");
        *guard += 1;
        assert!(one.try_by_lock(park).is_none());
        drop(guard);
        assert_eq!(*one.lock(park), 4);
    }

    #[test]
    fn with_a_fence_that_costs_nothing_it_is_taken_without_asking_for_the_mode() {
        let (one, park) = (Biased::new(0u32, FenceMode::Asymmetric), Park::new());
        assert!(one.try_by_asymmetric_bias().is_none(), "it is nobody's yet");
        *one.lock(&park) += 1;
        let mut guard = one.try_by_asymmetric_bias().expect("it is this thread's");
        *guard += 1;
        assert!(one.try_by_asymmetric_bias().is_none(), "it is inside");
        assert!(one.try_by_bias().is_none(), "it is inside");
        drop(guard);
        assert_eq!(*one.lock(&park), 2);
    }

    #[test]
    fn counting_by_four_threads_loses_nothing() {
        let rounds = if cfg!(miri) { 20 } else { 5_000 };
        let biased = Arc::new((Biased::new(0u32, FenceMode::Symmetric), Park::new()));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let biased = biased.clone();
                std::thread::spawn(move || {
                    for _ in 0..rounds {
                        *biased.0.lock(&biased.1) += 1;
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("no thread panics");
        }
        assert_eq!(*biased.0.lock(&biased.1), 4 * rounds);
    }

    /// Whether taking it again is refused, and leaves it as it was.
    fn is_refused(biased: &Biased<u32>, park: &Park) -> bool {
        let again = || drop(biased.lock(park));
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(again)).is_err()
    }

    #[test]
    fn a_second_taking_by_one_thread_is_refused() {
        let biased = Arc::new((Biased::new(0u32, FenceMode::Symmetric), Park::new()));
        let (one, park) = (&biased.0, &biased.1);
        // By the bias.
        let guard = one.lock(park);
        assert!(is_refused(one, park));
        drop(guard);
        *one.lock(park) += 1;
        // By the bias, while another asks for it.
        let guard = one.lock(park);
        let other = {
            let biased = biased.clone();
            std::thread::spawn(move || {
                let mut guard = biased.0.lock(&biased.1);
                *guard += 1;
                // By the lock, as another than the owner.
                assert!(is_refused(&biased.0, &biased.1));
            })
        };
        while !guard.is_contended() {
            std::thread::yield_now();
        }
        assert!(is_refused(one, park));
        drop(guard);
        other.join().expect("it got its turn");
        // By the lock.
        let guard = one.lock(park);
        assert!(is_refused(one, park));
        let guard = guard.hand_over(park);
        assert!(is_refused(one, park));
        drop(guard);
        assert_eq!(*one.lock(park), 2);
    }

    #[test]
    fn the_owner_sees_that_others_ask() {
        let biased = Arc::new((Biased::new(0u32, FenceMode::Symmetric), Park::new()));
        let guard = biased.0.lock(&biased.1);
        let other = {
            let biased = biased.clone();
            std::thread::spawn(move || *biased.0.lock(&biased.1) += 1)
        };
        while !guard.is_contended() {
            std::thread::yield_now();
        }
        drop(guard);
        other.join().expect("it got its turn");
        assert_eq!(*biased.0.lock(&biased.1), 1);
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::Arc;
    use crate::testing::Park;

    #[test]
    fn owner_and_revoker_exclude_each_other() {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(|| {
            let biased = Arc::new((Biased::new(0usize, FenceMode::Symmetric), Park::new()));
            *biased.0.lock(&biased.1) += 1;
            let other = {
                let biased = biased.clone();
                loom::thread::spawn(move || *biased.0.lock(&biased.1) += 1)
            };
            *biased.0.lock(&biased.1) += 1;
            other.join().unwrap();
            assert_eq!(*biased.0.lock(&biased.1), 3);
        });
    }
}
