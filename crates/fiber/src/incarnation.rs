//! Incarnation: which use of a number this is, and who has the right to its result; one word for each number.
//!
//! ```text
//!   bits 31 … 2: how often the number was used      bit 1: claimed      bit 0: in use
//!
//!   FREE ──start──► CLAIMED ──open──► OPEN ──claim──► CLAIMED ──free──► FREE, used once more
//!     └────────── start ───────────────▲
//! ```
//!
//! A fiber is CLAIMED while a [`JoinHandle`](crate::JoinHandle) of it exists or it was detached, and OPEN while only its
//! name is known. A claim is one compare-and-swap of the whole word: of all that claim by the same name one wins, and a
//! name of an earlier use never does.
//!
//! # Who may touch what
//! OPEN: any thread that knows the name, by [`claim`](Incarnation::claim). Otherwise only the owner of the claim, or of
//! the free number: hence plain stores.
//!
//! A word is not used after its count has reached the end: that number is retired, so no name is ever reused. A number is
//! lost for each 2³⁰ fibers that it named.

use weft_atomic::{AtomicU32, Ordering};

const IN_USE: u32 = 1;
const CLAIMED: u32 = 2;
/// One use.
const ONE: u32 = 4;

/// Whether a number can be used again.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Freed {
    /// It can.
    Reusable,
    /// Its count has reached the end.
    Retired,
}

/// The word of one number. See the module page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Incarnation<'a>(pub &'a AtomicU32);

impl Incarnation<'_> {
    /// The name of the present use; of a free number what no name is.
    #[inline]
    pub(crate) fn name(self) -> u32 {
        self.0.load(Ordering::Acquire) & !CLAIMED
    }

    /// Whether `name` is that of the present use.
    #[inline]
    pub(crate) fn is(self, name: u32) -> bool {
        name & (IN_USE | CLAIMED) == IN_USE && self.name() == name
    }

    /// A free number is used, with or without a claim; the answer is its name.
    #[inline]
    pub(crate) fn start(self, claimed: bool) -> u32 {
        let name = self.0.load(Ordering::Relaxed) | IN_USE;
        let claim = if claimed { CLAIMED } else { 0 };
        self.0.store(name | claim, Ordering::Release);
        name
    }

    /// Gives the claim up, so that whoever knows the name may have it.
    #[inline]
    pub(crate) fn open(self) {
        // Release: SYNC incarnation.claim.
        self.0.fetch_and(!CLAIMED, Ordering::Release);
    }

    /// Takes the claim; false if another has or had it, or the use is over.
    #[inline]
    pub(crate) fn claim(self, name: u32) -> bool {
        name & (IN_USE | CLAIMED) == IN_USE
            && self
                .0
                // Acquire: SYNC incarnation.claim.
                .compare_exchange(name, name | CLAIMED, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
    }

    /// The use is over; by whoever has the claim.
    #[inline]
    pub(crate) fn free(self) -> Freed {
        let used = self.0.load(Ordering::Relaxed) & !(IN_USE | CLAIMED);
        let Some(next) = used.checked_add(ONE) else {
            self.0.store(used, Ordering::Release);
            return Freed::Retired;
        };
        self.0.store(next, Ordering::Release);
        Freed::Reusable
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_had_once_and_by_the_present_name_alone() {
        let word = AtomicU32::new(0);
        let number = Incarnation(&word);
        assert!(!number.is(0) && !number.claim(0), "free");
        let first = number.start(true);
        assert!(number.is(first));
        assert!(!number.claim(first), "a handle has it");
        number.open();
        assert!(!number.claim(first | CLAIMED) && !number.claim(first + ONE));
        assert!(number.claim(first));
        assert!(!number.claim(first), "had once");
        assert_eq!(number.free(), Freed::Reusable);
        assert!(!number.is(first) && !number.claim(first));
        let second = number.start(false);
        assert_ne!(first, second);
        assert!(!number.claim(first) && number.claim(second));
    }

    #[test]
    fn names_never_come_back() {
        let word = AtomicU32::new(u32::MAX - 3 - ONE);
        let number = Incarnation(&word);
        let before_last = number.start(true);
        assert_eq!(number.free(), Freed::Reusable);
        let last = number.start(true);
        assert_eq!((before_last, last), (u32::MAX - 2 - ONE, u32::MAX - 2));
        assert_eq!(number.free(), Freed::Retired);
        assert!(!number.is(last) && !number.claim(last));
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use weft_atomic::Arc;

    /// Two who know the name, and an end that comes with the claim.
    #[test]
    fn one_of_two_has_the_claim() {
        loom::model(|| {
            let word = Arc::new(AtomicU32::new(0));
            let name = Incarnation(&word).start(false);
            let claim = move |word: &AtomicU32| {
                let mine = Incarnation(word).claim(name);
                if mine {
                    assert_eq!(Incarnation(word).free(), Freed::Reusable);
                }
                mine
            };
            let other = {
                let word = word.clone();
                loom::thread::spawn(move || claim(&word))
            };
            let here = claim(&word);
            assert!(other.join().unwrap() != here);
        });
    }
}
