//! Two-level bit set: a set of small numbers, which many threads add and one (or more) take out.
//!
//! ```text
//!   summary   0 0 1 0 … 1      bit w: word w may hold something
//!                 │     │
//!   words     0 0 x 0 … y      bit b of word w: number 64·w + b is in the set
//! ```
//!
//! Adding is one atomic OR, and one more on the summary if the word was empty. Adding twice is adding
//! once. Taking finds the lowest by counting zeros, in the summary and then in the word.
//!
//! # Who may touch what
//! Anybody adds; anybody takes. In shared memory ([`Bits`] over foreign words) a hostile peer may set any
//! bits: numbers beyond the length are dropped, and each call reads each word at most once, so nothing is
//! trusted.
//!
//! # Ordering
//! SYNC bits.add: the OR releases what its caller wrote before; taking the bit acquires it.
//!
//! # Why no bit is lost
//! A taker clears the summary bit *before* it empties the word. An adder sets the word before the summary,
//! and sets the summary only if it found the word empty. If its OR comes before the emptying, the taker gets
//! the bit. If it comes after, the adder found the word empty and sets the summary bit after the taker
//! cleared it. A taker that leaves bits in a word sets the summary bit again itself. A summary bit over an
//! empty word is harmless. Two takers never get the same bit, but one may find nothing while the other is
//! about to take or put back.
//!
//! # When an adder ends in the middle
//! An adder in shared memory may be killed between the word and the summary. Then nobody marks the word: the
//! dead adder does not, and others find that it was not empty. A process that learns of such a death calls
//! [`Bits::mark_all`]. A taker that ends in the middle has only removed bits that it was entitled to take.

use crate::{AtomicU64, Ordering};

/// Bits in a word.
const WORD: usize = 64;

/// How many words hold `length` numbers.
#[must_use]
pub const fn words_for(length: usize) -> usize {
    length.div_ceil(WORD)
}

/// How many summary words cover `length` numbers.
#[must_use]
pub const fn summaries_for(length: usize) -> usize {
    words_for(length).div_ceil(WORD)
}

/// A set over words that live elsewhere, for instance in shared memory. All zeros is the empty set.
#[derive(Clone, Copy, Debug)]
pub struct Bits<'a> {
    summaries: &'a [AtomicU64],
    words: &'a [AtomicU64],
    length: usize,
}

impl<'a> Bits<'a> {
    /// The set of numbers below `length`; `None` unless there are exactly [`summaries_for`] and
    /// [`words_for`] as many words.
    #[must_use]
    pub fn over(summaries: &'a [AtomicU64], words: &'a [AtomicU64], length: usize) -> Option<Self> {
        (summaries.len() == summaries_for(length) && words.len() == words_for(length)).then_some(
            Self {
                summaries,
                words,
                length,
            },
        )
    }

    /// Numbers below this can be in the set.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether no number can be in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Adds a number; true if it was not in the set. Numbers from the length on are ignored.
    #[inline]
    pub fn set(&self, number: usize) -> bool {
        if number >= self.length {
            return false;
        }
        let (word, bit) = (number / WORD, 1 << (number % WORD));
        // Release: SYNC bits.add. Acquire orders the OR on the summary after it for takers.
        let before = self.words[word].fetch_or(bit, Ordering::AcqRel);
        if before == 0 {
            _ = self.mark(word);
        }
        before & bit == 0
    }

    /// As [`set`](Self::set), for a set that is itself a word of a larger one: true if the group of 4096
    /// numbers around this one was empty, so that the group must be announced.
    #[inline]
    pub fn set_in_group(&self, number: usize) -> bool {
        if number >= self.length {
            return false;
        }
        let (word, bit) = (number / WORD, 1 << (number % WORD));
        // Release: SYNC bits.add.
        let before = self.words[word].fetch_or(bit, Ordering::AcqRel);
        before == 0 && self.mark(word) == 0
    }

    /// Takes everything of the 4096 numbers from `4096 * group` on, a word at a time: `visit` gets
    /// the index of the word and its bits.
    #[inline]
    pub fn take_group(&self, group: usize, mut visit: impl FnMut(usize, u64)) {
        let Some(summary) = self.summaries.get(group) else {
            return;
        };
        // Acquire: SYNC bits.mark. All marks go first, then the words: see the module page.
        let mut marks = summary.swap(0, Ordering::AcqRel);
        while marks != 0 {
            let word = group * WORD + marks.trailing_zeros() as usize;
            marks &= marks - 1;
            let Some(valid) = self.valid(word) else {
                continue;
            };
            // Acquire: SYNC bits.add.
            let bits = self.words[word].swap(0, Ordering::AcqRel) & valid;
            if bits != 0 {
                visit(word, bits);
            }
        }
    }

    /// Takes the lowest number.
    #[inline]
    #[must_use]
    pub fn take_lowest(&self) -> Option<usize> {
        for (group, summary) in self.summaries.iter().enumerate() {
            let mut marks = summary.load(Ordering::Relaxed);
            while marks != 0 {
                let word = group * WORD + marks.trailing_zeros() as usize;
                marks &= marks - 1;
                if let Some(bit) = self.take_bit(word) {
                    return Some(word * WORD + bit);
                }
            }
        }
        None
    }

    /// Takes everything, in rising order, and hands each number to `visit`. Numbers added during the call may
    /// or may not be among them. Returns how many there were.
    #[inline]
    pub fn take_all(&self, mut visit: impl FnMut(usize)) -> usize {
        let mut count = 0;
        for (group, summary) in self.summaries.iter().enumerate() {
            let mut marks = summary.load(Ordering::Relaxed);
            while marks != 0 {
                let word = group * WORD + marks.trailing_zeros() as usize;
                marks &= marks - 1;
                let mut bits = self.take_word(word);
                while bits != 0 {
                    visit(word * WORD + bits.trailing_zeros() as usize);
                    count += 1;
                    bits &= bits - 1;
                }
            }
        }
        count
    }

    /// Whether there may be anything to take: true if a summary bit is set. One load for up to 4096
    /// numbers; relaxed, so look again after a fence before sleeping on it.
    #[inline]
    #[must_use]
    pub fn may_have_any(&self) -> bool {
        self.summaries
            .iter()
            .any(|summary| summary.load(Ordering::Relaxed) != 0)
    }

    /// Marks all words, so that the next taker looks at each: for when an adder may have ended between
    /// setting a word and marking it. Costs a futile look at each empty word.
    #[cold]
    pub fn mark_all(&self) {
        for (group, summary) in self.summaries.iter().enumerate() {
            let words = (self.words.len() - group * WORD).min(WORD);
            // Release: SYNC bits.mark. A process that knows of the death sees what the dead one had set.
            summary.fetch_or(u64::MAX >> (WORD - words), Ordering::AcqRel);
        }
    }

    /// Takes the lowest bit of a word.
    fn take_bit(&self, word: usize) -> Option<usize> {
        let valid = self.unmark(word)?;
        let place = &self.words[word];
        let mut left = place.load(Ordering::Relaxed) & valid;
        let mut taken = None;
        while left != 0 {
            let bit = left & left.wrapping_neg();
            // Acquire: SYNC bits.add.
            let before = place.fetch_and(!bit, Ordering::AcqRel);
            left = before & valid & !bit;
            if before & bit != 0 {
                taken = Some(bit.trailing_zeros() as usize);
                break;
            }
            // Another taker was faster: try what is left.
        }
        if left != 0 {
            _ = self.mark(word);
        }
        taken
    }

    /// Takes all bits of a word.
    fn take_word(&self, word: usize) -> u64 {
        let Some(valid) = self.unmark(word) else {
            return 0;
        };
        // Acquire: SYNC bits.add.
        self.words[word].swap(0, Ordering::AcqRel) & valid
    }

    /// Sets the summary bit of a word; returns which were set before.
    fn mark(&self, word: usize) -> u64 {
        // Release: SYNC bits.mark.
        self.summaries[word / WORD].fetch_or(1 << (word % WORD), Ordering::AcqRel)
    }

    /// Clears the summary bit of a word; returns which of the word's bits can be numbers, or `None` if there
    /// is no such word.
    fn unmark(&self, word: usize) -> Option<u64> {
        // Acquire: SYNC bits.mark: the marker had set the word before.
        self.summaries
            .get(word / WORD)?
            .fetch_and(!(1 << (word % WORD)), Ordering::AcqRel);
        self.valid(word)
    }

    /// Which of a word's bits can be numbers.
    fn valid(&self, word: usize) -> Option<u64> {
        let rest = self.length.checked_sub(word * WORD)?;
        match rest {
            0 => None,
            1..WORD => Some((1 << rest) - 1),
            _ => Some(u64::MAX),
        }
    }
}

/// A set that owns its words.
#[derive(Debug)]
pub struct BitSet {
    summaries: Box<[AtomicU64]>,
    words: Box<[AtomicU64]>,
    length: usize,
}

impl BitSet {
    /// The empty set of numbers below `length`.
    #[must_use]
    pub fn new(length: usize) -> Self {
        let zeros = |count| (0..count).map(|_| AtomicU64::new(0)).collect();
        Self {
            summaries: zeros(summaries_for(length)),
            words: zeros(words_for(length)),
            length,
        }
    }

    /// The operations.
    #[inline]
    #[must_use]
    pub fn bits(&self) -> Bits<'_> {
        Bits {
            summaries: &self.summaries,
            words: &self.words,
            length: self.length,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_out_lowest_first_and_once() {
        let set = BitSet::new(10_000);
        let bits = set.bits();
        for number in [9_999, 64, 0, 4_096, 63, 64] {
            bits.set(number);
        }
        assert!(bits.may_have_any());
        let taken: Vec<_> = std::iter::from_fn(|| bits.take_lowest()).collect();
        assert_eq!(taken, [0, 63, 64, 4_096, 9_999]);
        assert!(!bits.may_have_any());
    }

    #[test]
    fn setting_says_whether_it_was_new() {
        let set = BitSet::new(70);
        assert!(set.bits().set(69));
        assert!(!set.bits().set(69));
        assert!(!set.bits().set(70), "70 is not below 70");
        let mut seen = Vec::new();
        assert_eq!(set.bits().take_all(|number| seen.push(number)), 1);
        assert_eq!(seen, [69]);
        assert!(set.bits().set(69), "taken, so new again");
    }

    #[test]
    fn rubbish_in_foreign_words_is_dropped() {
        let summaries = [AtomicU64::new(u64::MAX)];
        let words = [AtomicU64::new(0), AtomicU64::new(u64::MAX)];
        let bits = Bits::over(&summaries, &words, 66).expect("the lengths fit");
        let mut seen = Vec::new();
        bits.take_all(|number| seen.push(number));
        assert_eq!(seen, [64, 65]);
        words[1].store(u64::MAX, Ordering::Relaxed);
        summaries[0].store(u64::MAX, Ordering::Relaxed);
        let taken: Vec<_> = std::iter::from_fn(|| bits.take_lowest()).take(10).collect();
        assert_eq!(taken, [64, 65]);
        assert!(Bits::over(&summaries, &words, 200).is_none());
    }

    #[test]
    fn a_group_is_told_once_and_taken_whole() {
        let set = BitSet::new(3 * 4096);
        let bits = set.bits();
        assert!(bits.set_in_group(5_000), "the group was empty");
        assert!(!bits.set_in_group(5_001) && !bits.set_in_group(8_000));
        assert!(bits.set_in_group(12_000), "another group");
        let mut taken = Vec::new();
        bits.take_group(1, |word, bits| taken.push((word, bits.count_ones())));
        assert_eq!(taken, [(78, 2), (125, 1)]);
        bits.take_group(1, |_, _| panic!("nothing is left"));
        bits.take_group(7, |_, _| panic!("there is no such group"));
        assert!(bits.set_in_group(4_096), "empty again");
        assert!(!bits.set_in_group(3 * 4096), "no such number");
    }

    /// The state left by an adder that is killed after the word and before the summary.
    #[test]
    fn what_an_adder_left_unmarked_is_found_once_all_is_marked() {
        for length in [1, 64, 70, 5_000, 2 * 4096] {
            let set = BitSet::new(length);
            let last = length - 1;
            set.words[last / WORD].store(1 << (last % WORD), Ordering::Relaxed);
            let other = last / WORD * WORD;
            set.bits().set(other);
            assert_eq!(set.bits().take_lowest(), None, "nobody marks that word");
            set.bits().mark_all();
            let taken: Vec<_> = std::iter::from_fn(|| set.bits().take_lowest()).collect();
            let expected = if other == last {
                vec![last]
            } else {
                vec![other, last]
            };
            assert_eq!(taken, expected, "{length}");
            assert_eq!(set.bits().take_all(|_| ()), 0);
            assert!(!set.bits().may_have_any());
        }
    }

    #[test]
    fn the_empty_set_answers() {
        let set = BitSet::new(0);
        set.bits().mark_all();
        assert!(!set.bits().set(0));
        assert_eq!(set.bits().take_lowest(), None);
    }

    #[test]
    fn threads_lose_nothing() {
        let (rounds, length) = if cfg!(miri) { (3, 70) } else { (2_000, 300) };
        let set = crate::Arc::new(BitSet::new(length));
        let adders: Vec<_> = (0..2)
            .map(|half| {
                let set = set.clone();
                std::thread::spawn(move || {
                    let mut added = 0;
                    for _ in 0..rounds {
                        for number in (half..length).step_by(2) {
                            added += usize::from(set.bits().set(number));
                        }
                    }
                    added
                })
            })
            .collect();
        let mut taken = 0;
        while !adders.iter().all(std::thread::JoinHandle::is_finished) {
            taken += usize::from(set.bits().take_lowest().is_some());
            taken += set.bits().take_all(|_| ());
            std::thread::yield_now();
        }
        // That they have finished does not imply that all their effects are visible.
        let added: usize = adders
            .into_iter()
            .map(|adder| adder.join().expect("ends"))
            .sum();
        taken += set.bits().take_all(|_| ());
        assert_eq!(taken, added);
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::Arc;

    /// Two add while one takes; what is left is found afterwards. Nothing is lost, nothing comes twice.
    fn adders_and_taker(take: fn(Bits<'_>) -> usize) {
        loom::model(move || {
            let set = Arc::new(BitSet::new(2));
            let adder = {
                let set = set.clone();
                loom::thread::spawn(move || {
                    usize::from(set.bits().set(0)) + usize::from(set.bits().set(1))
                })
            };
            let mut taken = take(set.bits());
            taken += take(set.bits());
            let added = adder.join().unwrap();
            while let Some(_) = set.bits().take_lowest() {
                taken += 1;
            }
            assert_eq!(taken, added);
        });
    }

    #[test]
    fn adding_against_taking_the_lowest() {
        adders_and_taker(|bits| usize::from(bits.take_lowest().is_some()));
    }

    #[test]
    fn adding_against_taking_all() {
        adders_and_taker(|bits| bits.take_all(|_| ()));
    }

    #[test]
    fn two_takers_share_without_doubling() {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(|| {
            let set = Arc::new(BitSet::new(2));
            set.bits().set(0);
            set.bits().set(1);
            let other = {
                let set = set.clone();
                loom::thread::spawn(move || usize::from(set.bits().take_lowest().is_some()))
            };
            let mut taken = usize::from(set.bits().take_lowest().is_some());
            taken += other.join().unwrap();
            while set.bits().take_lowest().is_some() {
                taken += 1;
            }
            assert_eq!(taken, 2);
        });
    }

    /// `full`: the word already holds another number, so that only the OR on the word publishes.
    fn written_before_adding_is_seen_after_taking(full: bool) {
        use crate::UnsafeCell;
        struct Scene(BitSet, UnsafeCell<u32>);
        // SAFETY: the cell is written before the bit is added and read after it was taken.
        unsafe impl Sync for Scene {}
        // SAFETY: as above.
        unsafe impl Send for Scene {}
        loom::model(move || {
            let scene = Arc::new(Scene(BitSet::new(2), UnsafeCell::new(0)));
            if full {
                scene.0.bits().set(1);
            }
            let adder = {
                let scene = scene.clone();
                loom::thread::spawn(move || {
                    // SAFETY: nobody reads before the bit is set.
                    scene.1.with_mut(|value| unsafe { *value = 7 });
                    scene.0.bits().set(0);
                })
            };
            scene.0.bits().take_all(|number| {
                if number == 0 {
                    // SAFETY: the writer is done: its bit was taken.
                    assert_eq!(scene.1.with(|value| unsafe { *value }), 7);
                }
            });
            if scene.0.bits().take_lowest() == Some(0) {
                // SAFETY: as above.
                assert_eq!(scene.1.with(|value| unsafe { *value }), 7);
            }
            adder.join().unwrap();
        });
    }

    #[test]
    fn adding_publishes_through_an_empty_word() {
        written_before_adding_is_seen_after_taking(false);
    }

    #[test]
    fn adding_publishes_through_a_full_word() {
        written_before_adding_is_seen_after_taking(true);
    }
}
