//! Tags of pieces: each partitioned send of a rank has a range of them, which no other one has at the same time.
//!
//! Ranges are assigned in order, and reused only after all others: so a free range has been free for long.

use std::collections::BTreeMap;

/// Tags there are.
const TAGS: u32 = 1 << 30;

/// The ranges in use, and where the next one is looked for.
#[derive(Debug, Default)]
pub(super) struct TagRanges {
    /// First tag and end.
    used: BTreeMap<u32, u32>,
    next: u32,
}

impl TagRanges {
    /// A range of so many tags: its first one. `None` if none is free.
    pub(super) fn take(&mut self, count: u32) -> Option<u32> {
        let count = count.max(1);
        let first = self
            .find(self.next, count)
            .or_else(|| self.find(0, count))?;
        self.used.insert(first, first + count);
        self.next = first + count;
        Some(first)
    }

    /// The first free range from `from` on.
    fn find(&self, from: u32, count: u32) -> Option<u32> {
        let mut first = from;
        if let Some((_, end)) = self.used.range(..=first).next_back() {
            first = first.max(*end);
        }
        for (&start, &end) in self.used.range(first..) {
            if start - first >= count {
                break;
            }
            first = end;
        }
        (first <= TAGS - count.min(TAGS)).then_some(first)
    }

    /// Gives a range back.
    pub(super) fn give_back(&mut self, first: u32) {
        self.used.remove(&first);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_ranges_overlap_and_all_are_used_before_one_comes_again() {
        let mut tags = TagRanges::default();
        let first: Vec<u32> = (0..4).map(|_| tags.take(TAGS / 4).unwrap()).collect();
        assert_eq!(first, [0, TAGS / 4, TAGS / 2, TAGS / 4 * 3]);
        assert_eq!(tags.take(1), None);
        tags.give_back(first[2]);
        assert_eq!(tags.take(TAGS / 4 - 1), Some(TAGS / 2));
        assert_eq!(tags.take(1), Some(TAGS / 4 * 3 - 1));
        tags.give_back(0);
        assert_eq!([tags.take(5), tags.take(5)], [Some(0), Some(5)]);
        tags.give_back(0);
        assert_eq!(tags.take(1), Some(10), "not at once again");
    }
}
