//! Reaching: a word that says whether this member is making connections, and whether anybody attends to them. It is read on behalf of a
//! member that makes no call.
//!
//! ```text
//!   NOBODY ── begins: whoever waits for that is called ──► ALONE ◄── asked ── LOOKED
//!     ▲                                                      └──── a look ──────▲
//!     └───────────────────────── all have come to an end ──────────────────────┘
//! ```
//!
//! *Who writes:* the holder of the endpoint, except for `LOOKED` to `ALONE`, which the asker writes by a compare-and-swap, so that
//! it never brings back what has ended. The word is only a hint for when to look, and orders nothing (Relaxed); the lock of the
//! layer above protects what is looked at.

use std::fmt;
use std::sync::OnceLock;

use weft_atomic::{AtomicU32, Ordering};
use weft_fabric::Reaching;

const NOBODY: u32 = 0;
const ALONE: u32 = 1;
const LOOKED: u32 = 2;

/// See the module.
#[derive(Default)]
pub struct ReachingWord {
    state: AtomicU32,
    begins: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl fmt::Debug for ReachingWord {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "ReachingWord({})", self.state.load(Ordering::Relaxed))
    }
}

impl ReachingWord {
    /// Sets the function to call when the first of some connections begins. The first one that is set stays.
    pub fn when_it_begins(&self, call: Box<dyn Fn() + Send + Sync>) {
        let _ = self.begins.set(call);
    }

    /// Sets whether connections are being made. For the holder of the endpoint.
    pub fn set(&self, under_way: bool) {
        let known = self.state.load(Ordering::Relaxed) != NOBODY;
        if under_way == known {
            return;
        }
        let state = if under_way { ALONE } else { NOBODY };
        self.state.store(state, Ordering::Relaxed);
        if under_way && let Some(call) = self.begins.get() {
            call();
        }
    }

    /// Notes that the holder of the endpoint looks.
    #[inline]
    pub fn note_look(&self) {
        if self.state.load(Ordering::Relaxed) == ALONE {
            self.state.store(LOOKED, Ordering::Relaxed);
        }
    }

    /// The present state. `sleeps`: somebody sleeps until something arrives, or is about to.
    pub fn ask(&self, sleeps: bool) -> Reaching {
        let (was, ordering) = (self.state.load(Ordering::Relaxed), Ordering::Relaxed);
        match was {
            NOBODY => Reaching::Nobody,
            ALONE if !sleeps => Reaching::LeftAlone,
            _ => {
                // It may have ended by now; then that stays.
                let _ = self
                    .state
                    .compare_exchange(LOOKED, ALONE, ordering, ordering);
                Reaching::LookedAfter
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn who_waits_for_the_first_is_called_once_for_each_time() {
        let (word, calls) = (ReachingWord::default(), Arc::new(AtomicU32::new(0)));
        word.set(true);
        word.set(false);
        let counted = Arc::clone(&calls);
        word.when_it_begins(Box::new(move || {
            counted.fetch_add(1, Ordering::Relaxed);
        }));
        for times in 1..3 {
            word.set(true);
            word.set(true);
            assert_eq!(calls.load(Ordering::Relaxed), times);
            word.set(false);
        }
    }

    #[test]
    fn it_is_left_alone_from_one_question_to_the_next() {
        let word = ReachingWord::default();
        word.note_look();
        assert_eq!(word.ask(false), Reaching::Nobody);
        word.set(true);
        assert_eq!(word.ask(false), Reaching::LeftAlone, "nobody has looked");
        word.note_look();
        assert_eq!(word.ask(false), Reaching::LookedAfter);
        assert_eq!(word.ask(true), Reaching::LookedAfter, "one sleeps for it");
        assert_eq!(word.ask(false), Reaching::LeftAlone);
        assert_eq!(word.ask(false), Reaching::LeftAlone, "still");
        word.set(false);
        assert_eq!(word.ask(false), Reaching::Nobody);
    }
}
