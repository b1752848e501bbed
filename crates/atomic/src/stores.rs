//! Stores in flight: stores of a process to memory that others load, which its processor may still hold back.
//!
//! On x86-64 a processor keeps its stores for some nanoseconds. They leave in order, and loads run in order, so everything
//! that processes learn from each other is in order without any fence. There is one exception: a load may be *ahead* of an
//! earlier store of the same thread.
//!
//! ```text
//!   process 0      process 1
//!   x = 1          y = 1           ends with both loads 0, unless there is
//!   load y         load x          a fence between store and load on both sides
//! ```
//!
//! A thread that stores *[notes](StoresInFlight::note)* it; a thread that loads what others store
//! *[drains](StoresInFlight::drain)* first. Draining is an atomic exchange, made only if something was noted: sequences of
//! stores cost nothing, nor do sequences of loads. *[publish](StoresInFlight::publish)* separates a store from whatever must
//! come after it for others: on x86-64 it is no instruction. On other processors, where stores do not leave in order either,
//! it is the fence, and draining does nothing.
//!
//! # Several threads
//! All threads of a process share one note. A thread that finds it cleared, by another thread, knows that its own stores have
//! left: they come before its note in order, and if its note had not left, it would have found it. Therefore noting is a store
//! each time: a note found in place, made by another thread, says nothing about this thread's stores. A thread that another one
//! of the process tells to continue (by a store and a load) comes after all stores of that one.
//!
//! `SYNC stores_in_flight`: noted after the data by Release, looked at by Acquire before the loads.

use crate::{AtomicBool, Ordering, fence};

/// Whether stores leave a processor in order and loads run in order, so that only a load ahead of a store needs a fence.
const ORDERED: bool = cfg!(all(target_arch = "x86_64", not(loom), not(miri)));

/// Stores in flight of one process. See the [module page](self).
#[derive(Debug, Default)]
pub struct StoresInFlight {
    noted: AtomicBool,
}

impl StoresInFlight {
    /// Notes that something was stored.
    #[inline(always)]
    pub fn note(&self) {
        if ORDERED || cfg!(loom) {
            // SYNC stores_in_flight
            self.noted.store(true, Ordering::Release);
        }
    }

    /// Orders the stores before whatever this thread stores next: others that learn of the latter come after
    /// them.
    #[inline(always)]
    pub fn publish(&self) {
        if ORDERED || cfg!(loom) {
            crate::compiler_fence(Ordering::Release);
        } else {
            fence(Ordering::SeqCst);
        }
    }

    /// After this, loads of this thread are not ahead of stores that were published before.
    #[inline(always)]
    pub fn drain(&self) {
        // SYNC stores_in_flight
        if (ORDERED || cfg!(loom)) && self.noted.load(Ordering::Acquire) {
            self.wait();
        }
    }

    /// Clears the note without another atomic instruction: this thread has just executed a sequentially consistent one that changes
    /// memory, which has drained its stores. If this overwrites a note of another thread, that note had left its processor, and so
    /// had the stores before it.
    #[inline(always)]
    pub fn drained(&self) {
        if (ORDERED || cfg!(loom)) && self.noted.load(Ordering::Relaxed) {
            self.noted.store(false, Ordering::Release);
        }
    }

    #[inline]
    fn wait(&self) {
        if ORDERED {
            // A locked instruction, before which the processor completes all its stores.
            self.noted.swap(false, Ordering::SeqCst);
        } else {
            self.noted.store(false, Ordering::Relaxed);
            fence(Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::StoresInFlight;
    use crate::{Arc, AtomicU32, Ordering};

    /// One process: stores, and loads what the other has stored.
    fn store_and_load(
        stores: &StoresInFlight,
        own: &AtomicU32,
        other: &AtomicU32,
        value: u32,
    ) -> u32 {
        own.store(value, Ordering::Relaxed);
        stores.note();
        stores.publish();
        stores.drain();
        other.load(Ordering::Relaxed)
    }

    #[cfg(loom)]
    #[test]
    fn no_load_is_ahead_of_a_store() {
        loom::model(|| {
            let words = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
            let theirs = Arc::clone(&words);
            let thread = loom::thread::spawn(move || {
                store_and_load(&StoresInFlight::default(), &theirs[1], &theirs[0], 1)
            });
            let here = store_and_load(&StoresInFlight::default(), &words[0], &words[1], 1);
            let there = thread.join().unwrap();
            assert!(
                here == 1 || there == 1,
                "both loads were ahead of the stores"
            );
        });
    }

    /// Without the note both may miss the other: the model above would see a missing fence.
    #[cfg(loom)]
    #[test]
    #[should_panic(expected = "both loads were ahead")]
    fn without_a_note_loads_are_ahead() {
        loom::model(|| {
            let words = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
            let theirs = Arc::clone(&words);
            let go = |own: &AtomicU32, other: &AtomicU32| {
                own.store(1, Ordering::Relaxed);
                other.load(Ordering::Relaxed)
            };
            let thread = loom::thread::spawn(move || go(&theirs[1], &theirs[0]));
            let here = go(&words[0], &words[1]);
            let there = thread.join().unwrap();
            assert!(
                here == 1 || there == 1,
                "both loads were ahead of the stores"
            );
        });
    }

    /// The same on this processor, round by round.
    #[cfg(not(loom))]
    #[test]
    fn no_load_is_ahead_of_a_store() {
        use crate::{CacheLine, spin_loop, yield_now};

        const ROUNDS: u32 = if cfg!(miri) { 20 } else { 100_000 };
        type Words = [CacheLine<AtomicU32>; 2];
        let words: Arc<(Words, Words)> = Arc::default();
        let one = |me: usize, words: &(Words, Words)| {
            let stores = StoresInFlight::default();
            let mut found = Vec::with_capacity(ROUNDS as usize);
            for round in 1..=ROUNDS {
                words.1[me].store(round, Ordering::Release);
                for turn in 0u32.. {
                    if words.1[1 - me].load(Ordering::Acquire) >= round {
                        break;
                    }
                    // The other may need this processor.
                    if turn % 1000 < 999 {
                        spin_loop()
                    } else {
                        yield_now()
                    }
                }
                found.push(store_and_load(&stores, &words.0[me], &words.0[1 - me], round) >= round);
            }
            found
        };
        let theirs = Arc::clone(&words);
        let thread = std::thread::spawn(move || one(1, &theirs));
        let here = one(0, &words);
        let there = thread.join().unwrap();
        let missed = here
            .iter()
            .zip(&there)
            .filter(|(here, there)| !**here && !**there);
        assert_eq!(
            missed.count(),
            0,
            "rounds in which both loads were ahead of the stores"
        );
    }
}
