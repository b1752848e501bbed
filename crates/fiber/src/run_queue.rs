//! Run queue of a worker: the fibers that it knows to be runnable, as bits that only it touches.
//!
//! ```text
//!   tops ─► summaries ─► words          above each word that is not empty the bits are set
//!                          └─► current  the word that is being run: taken out whole
//! ```
//!
//! Bits above may also be set over an empty word: if all runnable fibers are in one word, only that word changes, round
//! after round. The number of words that are not empty is counted.
//!
//! The worker takes out a whole word of 64 fibers and runs through it. Fibers that become runnable meanwhile go into the
//! words; when the current word is empty the *next* word is taken, around and around. So every fiber of the queue runs
//! once before any runs twice, and a switch is a count of zeros and a cleared bit. (A joiner does not go through the
//! queue when its fiber ends: `Worker::leave`.)

use std::cell::Cell;

use weft_atomic::{AtomicU64, Ordering};

const WORD: usize = 64;

/// Runnable fibers of one worker. Its words are atomics because they lie in a mapping; they are loaded
/// and stored plainly, by the worker alone.
pub(crate) struct RunQueue {
    words: &'static [AtomicU64],
    summaries: &'static [AtomicU64],
    tops: &'static [AtomicU64],
    /// What is left of the word that is being run, and its index.
    current: Cell<u64>,
    current_word: Cell<usize>,
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

impl RunQueue {
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
            current: Cell::new(0),
            current_word: Cell::new(0),
            filled: Cell::new(0),
            chance: Cell::new(chance),
        }
    }

    /// Adds a fiber.
    #[inline]
    pub(crate) fn add(&self, number: u32) {
        let number = number as usize;
        self.add_word(number / WORD, 1 << (number % WORD));
    }

    /// Adds the fibers of a word.
    #[inline]
    pub(crate) fn add_word(&self, word: usize, bits: u64) {
        if or(&self.words[word], bits) != 0 {
            return;
        }
        self.filled.set(self.filled.get() + 1);
        let group = word / WORD;
        if or(&self.summaries[group], 1 << (word % WORD)) == 0 {
            or(&self.tops[group / WORD], 1 << (group % WORD));
        }
    }

    /// Whether the order is one by chance.
    #[inline]
    pub(crate) fn is_by_chance(&self) -> bool {
        self.chance.get() != 0
    }

    /// Whether there is any.
    #[inline]
    pub(crate) fn has_any(&self) -> bool {
        self.current.get() != 0 || self.filled.get() != 0
    }

    /// The next of the current word.
    #[inline]
    pub(crate) fn next(&self) -> Option<u32> {
        let current = self.current.get();
        if current == 0 {
            return None;
        }
        self.current.set(current & (current - 1));
        Some((self.current_word.get() * WORD) as u32 + current.trailing_zeros())
    }

    /// The fiber that will be run after so many others of the current word; for prefetching.
    #[inline]
    pub(crate) fn ahead(&self) -> Option<u32> {
        let mut current = self.current.get();
        for _ in 0..3 {
            current &= current.wrapping_sub(1);
        }
        (current != 0).then(|| (self.current_word.get() * WORD) as u32 + current.trailing_zeros())
    }

    /// The index of the current word, and what is left of it.
    pub(crate) fn current(&self) -> (usize, u64) {
        (self.current_word.get(), self.current.get())
    }

    /// Takes fibers out of the current.
    pub(crate) fn remove_from_current(&self, bits: u64) {
        self.current.set(self.current.get() & !bits);
    }

    /// Takes the next word into the current, which is empty; false if there is none.
    #[inline]
    pub(crate) fn refill(&self) -> bool {
        if self.chance.get() != 0 {
            return self.refill_by_chance();
        }
        if self.filled.get() == 1 {
            let word = &self.words[self.current_word.get()];
            let bits = word.load(Ordering::Relaxed);
            if bits != 0 {
                // The same word again. The bits above it stay: it will hardly stay empty.
                word.store(0, Ordering::Relaxed);
                self.filled.set(0);
                self.current.set(bits);
                return true;
            }
        }
        while self.filled.get() != 0
            && let Some(word) = self.next_word(self.current_word.get() + 1)
        {
            self.take_word(word);
            if self.current.get() != 0 {
                return true;
            }
        }
        false
    }

    fn take_word(&self, word: usize) {
        let bits = self.words[word].load(Ordering::Relaxed);
        self.current.set(bits);
        self.words[word].store(0, Ordering::Relaxed);
        self.filled.set(self.filled.get() - usize::from(bits != 0));
        self.current_word.set(word);
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
        let mut choice = self.current.get();
        for _ in 0..self.random() % u64::from(choice.count_ones()) {
            choice &= choice - 1;
        }
        let chosen = choice & choice.wrapping_neg();
        let others = self.current.get() & !chosen;
        self.current.set(chosen);
        if others != 0 {
            self.add_word(word, others);
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

    fn empty(fibers: usize, chance: u64) -> RunQueue {
        let zeros = |count: usize| -> &'static [AtomicU64] {
            let words: Vec<_> = (0..count).map(|_| AtomicU64::new(0)).collect();
            crate::forever::forever(words)
        };
        RunQueue::new(
            zeros(fibers.div_ceil(64)),
            zeros(fibers.div_ceil(4096)),
            zeros(fibers.div_ceil(4096 * 64)),
            chance,
        )
    }

    fn next(queue: &RunQueue) -> Option<u32> {
        queue
            .next()
            .or_else(|| queue.refill().then(|| queue.next()).flatten())
    }

    #[test]
    fn each_runs_once_before_any_runs_twice() {
        // Under Miri fewer words, of two groups all the same.
        let most: u32 = if cfg!(miri) { 1 << 13 } else { 1 << 20 };
        let queue = empty(most as usize, 0);
        let all = [3, 64, 65, 4_095, 4_096, most / 4 * 3, most - 1];
        for number in all {
            queue.add(number);
        }
        assert!(queue.has_any());
        for _round in 0..3 {
            let mut seen = Vec::new();
            for _ in all {
                let number = next(&queue).expect("all are runnable");
                queue.add(number);
                seen.push(number);
            }
            seen.sort_unstable();
            assert_eq!(seen, all);
        }
        while next(&queue).is_some() {
            if queue.current().1.count_ones() == 1 {
                queue.remove_from_current(u64::MAX);
            }
        }
        assert!(!queue.has_any());
    }

    #[test]
    fn bits_over_an_emptied_word_mislead_nobody() {
        let queue = empty(10_000, 0);
        // Round after round in one word, which leaves the bits above it.
        (0..8).for_each(|number| queue.add(number));
        for _round in 0..3 {
            for number in 0..8 {
                assert_eq!(next(&queue), Some(number));
                queue.add(number);
            }
        }
        (0..8).for_each(|number| assert_eq!(next(&queue), Some(number)));
        assert!(!queue.has_any());
        assert_eq!(next(&queue), None);
        // Others come, and the first word again.
        [9_999, 70, 3]
            .into_iter()
            .for_each(|number| queue.add(number));
        let mut seen: Vec<_> = std::iter::from_fn(|| next(&queue)).collect();
        seen.sort_unstable();
        assert_eq!(seen, [3, 70, 9_999]);
        assert!(!queue.has_any());
    }

    #[test]
    fn chance_loses_nobody_and_depends_on_the_seed_alone() {
        const FIBERS: u32 = if cfg!(miri) { 100 } else { 1000 };
        let order = |seed| {
            let queue = empty(10_000, seed);
            (0..FIBERS).for_each(|number| queue.add(number * 7));
            std::iter::from_fn(|| next(&queue)).collect::<Vec<_>>()
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
