//! The fibers that a worker knows to be runnable: bits of its own, which nobody else touches.
//!
//! ```text
//!   tops ─► summaries ─► words          above each word that is not empty the bits are set
//!                          └─► hand     the word that is being run: taken out whole
//! ```
//!
//! Bits above may also stand over an empty word: where all that are runnable lie in one word, only that word
//! changes, round after round. How many words are not empty is counted.
//!
//! The scheduler takes a whole word of 64 fibers into its hand and runs through it. What becomes runnable
//! meanwhile goes into the words; when the hand is empty the *next* word is taken, around and around.
//! So every runnable fiber runs once before any runs twice, and a switch is a count of zeros and a
//! cleared bit.

use std::cell::Cell;

use weft_atomic::{AtomicU64, Ordering};

const WORD: usize = 64;

/// Runnable fibers of one worker. Its words are atomics because they lie in a mapping; they are loaded
/// and stored plainly, by the worker alone.
pub(crate) struct Ready {
    words: &'static [AtomicU64],
    summaries: &'static [AtomicU64],
    tops: &'static [AtomicU64],
    /// What is left of the word that is being run, and its index.
    hand: Cell<u64>,
    place: Cell<usize>,
    /// How many words are not empty.
    filled: Cell<usize>,
    /// For an order by chance: the state of the generator, 0 for the usual order.
    chance: Cell<u64>,
}

#[inline]
fn or(word: &AtomicU64, bits: u64) -> u64 {
    let before = word.load(Ordering::Relaxed);
    word.store(before | bits, Ordering::Relaxed);
    before
}

#[inline]
fn clear(word: &AtomicU64, bits: u64) -> u64 {
    let after = word.load(Ordering::Relaxed) & !bits;
    word.store(after, Ordering::Relaxed);
    after
}

impl Ready {
    /// The empty set over words of zeros.
    pub(crate) fn new(
        words: &'static [AtomicU64],
        summaries: &'static [AtomicU64],
        tops: &'static [AtomicU64],
        chance: u64,
    ) -> Self {
        Self {
            words,
            summaries,
            tops,
            hand: Cell::new(0),
            place: Cell::new(0),
            filled: Cell::new(0),
            chance: Cell::new(chance),
        }
    }

    /// Adds a fiber.
    #[inline]
    pub(crate) fn set(&self, number: u32) {
        let number = number as usize;
        self.set_word(number / WORD, 1 << (number % WORD));
    }

    /// Adds the fibers of a word.
    #[inline]
    pub(crate) fn set_word(&self, word: usize, bits: u64) {
        if or(&self.words[word], bits) != 0 {
            return;
        }
        self.filled.set(self.filled.get() + 1);
        let group = word / WORD;
        if or(&self.summaries[group], 1 << (word % WORD)) == 0 {
            or(&self.tops[group / WORD], 1 << (group % WORD));
        }
    }

    /// Whether there is any.
    #[inline]
    pub(crate) fn has_any(&self) -> bool {
        self.hand.get() != 0 || self.filled.get() != 0
    }

    /// The next of the hand.
    #[inline]
    pub(crate) fn next_of_hand(&self) -> Option<u32> {
        let hand = self.hand.get();
        if hand == 0 {
            return None;
        }
        self.hand.set(hand & (hand - 1));
        Some((self.place.get() * WORD) as u32 + hand.trailing_zeros())
    }

    /// The fiber that will be run after so many others of the hand; for prefetching.
    #[inline]
    pub(crate) fn ahead(&self) -> Option<u32> {
        let mut hand = self.hand.get();
        for _ in 0..3 {
            hand &= hand.wrapping_sub(1);
        }
        (hand != 0).then(|| (self.place.get() * WORD) as u32 + hand.trailing_zeros())
    }

    /// What is left in the hand, with its word.
    pub(crate) fn hand(&self) -> (usize, u64) {
        (self.place.get(), self.hand.get())
    }

    /// Takes fibers out of the hand.
    pub(crate) fn drop_from_hand(&self, bits: u64) {
        self.hand.set(self.hand.get() & !bits);
    }

    /// Takes the next word into the hand, which is empty; false if there is none.
    #[inline]
    pub(crate) fn refill(&self) -> bool {
        if self.chance.get() != 0 {
            return self.refill_by_chance();
        }
        if self.filled.get() == 1 {
            let word = &self.words[self.place.get()];
            let bits = word.load(Ordering::Relaxed);
            if bits != 0 {
                // The same word again. The bits above it stay: it will hardly stay empty.
                word.store(0, Ordering::Relaxed);
                self.filled.set(0);
                self.hand.set(bits);
                return true;
            }
        }
        while self.filled.get() != 0
            && let Some(word) = self.next_word(self.place.get() + 1)
        {
            self.take_word(word);
            if self.hand.get() != 0 {
                return true;
            }
        }
        false
    }

    fn take_word(&self, word: usize) {
        let bits = self.words[word].load(Ordering::Relaxed);
        self.hand.set(bits);
        self.words[word].store(0, Ordering::Relaxed);
        self.filled.set(self.filled.get() - usize::from(bits != 0));
        self.place.set(word);
        let group = word / WORD;
        if clear(&self.summaries[group], 1 << (word % WORD)) == 0 {
            clear(&self.tops[group / WORD], 1 << (group % WORD));
        }
    }

    /// The first word that holds any from `start` on, around the end.
    #[inline]
    fn next_word(&self, start: usize) -> Option<usize> {
        let start = if start < self.words.len() { start } else { 0 };
        let (group, bit) = (start / WORD, start % WORD);
        // In the same group, from the start on.
        let rest = self.summaries[group].load(Ordering::Relaxed) & (u64::MAX << bit);
        if rest != 0 {
            return Some(group * WORD + rest.trailing_zeros() as usize);
        }
        // In later groups, then around, and last in the same group before the start.
        let next = self
            .next_group(group + 1, self.summaries.len())
            .or_else(|| self.next_group(0, group + 1))?;
        let summary = self.summaries[next].load(Ordering::Relaxed);
        Some(next * WORD + summary.trailing_zeros() as usize)
    }

    /// The first group that holds any in `from..to`.
    #[inline]
    fn next_group(&self, from: usize, to: usize) -> Option<usize> {
        let mut top = from / WORD;
        let mut mask = u64::MAX << (from % WORD);
        while top * WORD < to {
            let found = self.tops[top].load(Ordering::Relaxed) & mask;
            if found != 0 {
                let group = top * WORD + found.trailing_zeros() as usize;
                return (group < to).then_some(group);
            }
            top += 1;
            mask = u64::MAX;
        }
        None
    }

    /// One fiber by chance: any may be next, and a fiber may wait long. In this order all bits are exact.
    #[cold]
    fn refill_by_chance(&self) -> bool {
        // Up to the highest word that holds any, so that few fibers are mixed as well as many.
        let Some(last) = self
            .tops
            .iter()
            .rposition(|top| top.load(Ordering::Relaxed) != 0)
        else {
            return false;
        };
        let highest = |word: &AtomicU64| 63 - word.load(Ordering::Relaxed).leading_zeros() as usize;
        let group = last * WORD + highest(&self.tops[last]);
        let end = group * WORD + highest(&self.summaries[group]) + 1;
        let Some(word) = self.next_word(self.random() as usize % end) else {
            return false;
        };
        self.take_word(word);
        let mut choice = self.hand.get();
        for _ in 0..self.random() % u64::from(choice.count_ones()) {
            choice &= choice - 1;
        }
        let chosen = choice & choice.wrapping_neg();
        let others = self.hand.get() & !chosen;
        self.hand.set(chosen);
        if others != 0 {
            self.set_word(word, others);
        }
        true
    }

    /// The next of a sequence that depends on the seed alone (xorshift64*, Vigna 2016).
    fn random(&self) -> u64 {
        let mut state = self.chance.get();
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        self.chance.set(state);
        state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(fibers: usize, chance: u64) -> Ready {
        let zeros = |count: usize| -> &'static [AtomicU64] {
            let words: Vec<_> = (0..count).map(|_| AtomicU64::new(0)).collect();
            crate::runtime::forever(words)
        };
        Ready::new(
            zeros(fibers.div_ceil(64)),
            zeros(fibers.div_ceil(4096)),
            zeros(fibers.div_ceil(4096 * 64)),
            chance,
        )
    }

    fn next(ready: &Ready) -> Option<u32> {
        ready
            .next_of_hand()
            .or_else(|| ready.refill().then(|| ready.next_of_hand()).flatten())
    }

    #[test]
    fn each_runs_once_before_any_runs_twice() {
        // Under Miri fewer words, of two groups all the same.
        let most: u32 = if cfg!(miri) { 1 << 13 } else { 1 << 20 };
        let ready = ready(most as usize, 0);
        let all = [3, 64, 65, 4_095, 4_096, most / 4 * 3, most - 1];
        for number in all {
            ready.set(number);
        }
        assert!(ready.has_any());
        for _round in 0..3 {
            let mut seen = Vec::new();
            for _ in all {
                let number = next(&ready).expect("all are runnable");
                ready.set(number);
                seen.push(number);
            }
            seen.sort_unstable();
            assert_eq!(seen, all);
        }
        while next(&ready).is_some() {
            if ready.hand().1.count_ones() == 1 {
                ready.drop_from_hand(u64::MAX);
            }
        }
        assert!(!ready.has_any());
    }

    #[test]
    fn bits_over_an_emptied_word_mislead_nobody() {
        let ready = ready(10_000, 0);
        // Round after round in one word, which leaves the bits above it.
        (0..8).for_each(|number| ready.set(number));
        for _round in 0..3 {
            for number in 0..8 {
                assert_eq!(next(&ready), Some(number));
                ready.set(number);
            }
        }
        (0..8).for_each(|number| assert_eq!(next(&ready), Some(number)));
        assert!(!ready.has_any());
        assert_eq!(next(&ready), None);
        // Others come, and the first word again.
        [9_999, 70, 3]
            .into_iter()
            .for_each(|number| ready.set(number));
        let mut seen: Vec<_> = std::iter::from_fn(|| next(&ready)).collect();
        seen.sort_unstable();
        assert_eq!(seen, [3, 70, 9_999]);
        assert!(!ready.has_any());
    }

    #[test]
    fn chance_loses_nobody_and_depends_on_the_seed_alone() {
        const FIBERS: u32 = if cfg!(miri) { 100 } else { 1000 };
        let order = |seed| {
            let ready = ready(10_000, seed);
            (0..FIBERS).for_each(|number| ready.set(number * 7));
            std::iter::from_fn(|| next(&ready)).collect::<Vec<_>>()
        };
        let (one, same, other) = (order(1), order(1), order(2));
        assert_eq!(one, same);
        assert_ne!(one, other);
        let mut sorted = one.clone();
        sorted.sort_unstable();
        assert_ne!(one, sorted);
        assert_eq!(
            sorted,
            (0..FIBERS).map(|number| number * 7).collect::<Vec<_>>()
        );
    }
}
