//! Element lock: held while elements are combined that no single instruction can change.
//!
//! ```text
//!   byte 0        4
//!        holder   waiting          holder: rank + 1, 0: free          waiting: threads that may sleep on `holder`
//!
//!   free ──► held ──► free         held by a lost member ──► held by who waits
//! ```
//!
//! It is taken by one atomic instruction, and released by a plain store: so the most expensive part of an operation on
//! one element is paid once. Hence a release may miss a waiter that has just come, and a waiter sleeps no longer than
//! [`LONGEST_SLEEP`] before it looks again.
//!
//! `SYNC element_lock`: the holder's Release store of 0 is read by the Acquire exchange of the next one.
//!
//! A member that dies while holding it keeps it until a waiter knows of the loss and takes it over. Elements are then
//! whole except the one that was being written.

use std::cell::Cell;
use std::time::Duration;

use weft_atomic::Ordering::{Acquire, Relaxed, Release};
use weft_atomic::{AtomicU32, Woken, spin_loop};
use weft_sys::{SharedMemory, clock};

const FREE: u32 = 0;
const WAITING: usize = 4;

/// Bytes of its words.
pub(crate) const LOCK_BYTES: usize = 8;

/// It is held for a microsecond or two, if its holder runs.
const SPINS: u32 = 100;

/// Longest sleep.
const LONGEST_SLEEP: Duration = Duration::from_millis(2);

/// Sleeps without a change after which a holder is taken for lost by those who cannot ask: seconds, in each of which this
/// process has run.
const SLEEPS_UNTIL_LOST: u32 = 2500;

/// Whether a member is lost. Asked by who waits for it, now and then.
pub(crate) type IsLost<'a> = &'a dyn Fn(u32) -> bool;

/// Asks nobody: for who has the engine, and cannot look meanwhile.
pub(crate) fn lost_after_sleeps() -> impl Fn(u32) -> bool {
    let sleeps = Cell::new(0);
    move |_| {
        sleeps.set(sleeps.get() + 1);
        sleeps.get() > SLEEPS_UNTIL_LOST
    }
}

/// Others that may combine elements of the memory meanwhile.
#[derive(Clone, Debug)]
pub(crate) enum ElementLock {
    /// Nobody: only the engine of the rank touches it, and whoever combines holds the engine.
    Engine,
    /// Any process that shares the memory.
    Shared {
        /// The words of the lock.
        words: SharedMemory,
        /// This rank.
        me: u32,
        /// Whether it is held for all elements, those too that the processor can change at once.
        for_all: bool,
    },
}

/// The lock is held.
#[must_use]
pub(super) struct Held<'a>(Option<(&'a SharedMemory, &'a AtomicU32)>);

impl ElementLock {
    /// Takes it.
    pub(super) fn hold(&self, is_lost: IsLost<'_>) -> Held<'_> {
        match self {
            Self::Engine => Held(None),
            Self::Shared { words, me, .. } => {
                self.try_hold().unwrap_or_else(|| wait(words, *me, is_lost))
            }
        }
    }

    /// Takes it if nobody has it.
    #[inline]
    pub(super) fn try_hold(&self) -> Option<Held<'_>> {
        match self {
            Self::Engine => Some(Held(None)),
            Self::Shared { words, me, .. } => take(words, FREE, *me),
        }
    }

    /// Whether it is held whatever is combined, so that nobody needs to change an element at once.
    #[inline]
    pub(super) fn is_for_all(&self) -> bool {
        match self {
            Self::Engine => true,
            Self::Shared { for_all, .. } => *for_all,
        }
    }
}

/// Takes it from nobody, or from a holder that is lost.
#[inline]
fn take(words: &SharedMemory, from: u32, me: u32) -> Option<Held<'_>> {
    let word = words.atomic_u32(0)?;
    // SYNC element_lock
    match word.compare_exchange(from, me + 1, Acquire, Relaxed) {
        Ok(_) => Some(Held(Some((words, word)))),
        Err(_) => None,
    }
}

#[cold]
fn wait<'a>(words: &'a SharedMemory, me: u32, is_lost: IsLost<'_>) -> Held<'a> {
    let (Some(word), Some(waiting)) = (words.atomic_u32(0), words.atomic_u32(WAITING)) else {
        return Held(None);
    };
    for _ in 0..SPINS {
        if word.load(Relaxed) == FREE
            && let Some(held) = take(words, FREE, me)
        {
            return held;
        }
        spin_loop();
    }
    waiting.fetch_add(1, Relaxed);
    let held = loop {
        let holder = word.load(Relaxed);
        if holder == FREE {
            match take(words, FREE, me) {
                Some(held) => break held,
                None => continue,
            }
        }
        let deadline = clock::monotonic() + LONGEST_SLEEP.as_nanos() as u64;
        let slept = words.wait(0, holder, Some(deadline));
        if matches!(slept, Some(Woken::TimedOut))
            && holder == word.load(Relaxed)
            && is_lost(holder - 1)
            && let Some(held) = take(words, holder, me)
        {
            break held;
        }
    };
    waiting.fetch_sub(1, Relaxed);
    held
}

impl Drop for Held<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        let Some((words, word)) = self.0 else { return };
        // SYNC element_lock
        word.store(FREE, Release);
        let waiting = words.atomic_u32(WAITING);
        if waiting.is_some_and(|waiting| waiting.load(Relaxed) != 0) {
            wake(words);
        }
    }
}

#[cold]
fn wake(words: &SharedMemory) {
    words.wake(0, 1);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(words: &SharedMemory, me: u32) -> ElementLock {
        ElementLock::Shared {
            words: words.clone(),
            me,
            for_all: false,
        }
    }

    #[test]
    fn one_at_a_time() {
        let memory = SharedMemory::of_this_process(64).expect("maps");
        let count = memory.part(8, 8).expect("within");
        let (ranks, rounds) = if cfg!(miri) { (3, 20) } else { (4, 1000) };
        std::thread::scope(|scope| {
            for rank in 0..ranks {
                let (lock, count) = (lock(&memory, rank), &count);
                scope.spawn(move || {
                    for _ in 0..rounds {
                        let _held = lock.hold(&|_| false);
                        let mut bytes = [0; 8];
                        assert!(count.read(0, &mut bytes));
                        let next = u64::from_ne_bytes(bytes) + 1;
                        assert!(count.write(0, &next.to_ne_bytes()));
                    }
                });
            }
        });
        let mut bytes = [0; 8];
        assert!(count.read(0, &mut bytes));
        assert_eq!(u64::from_ne_bytes(bytes), u64::from(ranks * rounds));
    }

    #[test]
    fn the_lock_of_the_lost_is_taken_over() {
        let memory = SharedMemory::of_this_process(64).expect("maps");
        std::mem::forget(lock(&memory, 7).hold(&|_| false));
        let asked = Cell::new(0);
        let is_lost = |rank| {
            assert_eq!(rank, 7);
            asked.set(asked.get() + 1);
            asked.get() == 3
        };
        let other = lock(&memory, 2);
        let held = other.hold(&is_lost);
        assert_eq!(asked.get(), 3);
        assert!(other.try_hold().is_none());
        drop(held);
        assert!(other.try_hold().is_some());
    }
}
