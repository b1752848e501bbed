//! Pages of an arena: which are free. One process owns them, so nothing here is shared.
//!
//! Invariant: `free` holds spans of whole pages by their start, which neither overlap nor touch: released pages are
//! joined with their neighbours.

use std::collections::BTreeMap;

/// Free pages of an arena, as offsets in bytes.
#[derive(Debug)]
pub(crate) struct Pages {
    /// Length by start.
    free: BTreeMap<usize, usize>,
}

impl Pages {
    /// All of `start..start + length` is free.
    pub fn new(start: usize, length: usize) -> Self {
        let free = (length > 0).then_some((start, length));
        Self {
            free: free.into_iter().collect(),
        }
    }

    /// Takes `length` bytes that start at a multiple of `align`, the lowest there are. `None` if there are none.
    pub fn take(&mut self, length: usize, align: usize) -> Option<usize> {
        let (start, has, at) = self.free.iter().find_map(|(&start, &has)| {
            let at = start.checked_next_multiple_of(align)?;
            let end = at.checked_add(length)?;
            (end <= start + has).then_some((start, has, at))
        })?;
        self.free.remove(&start);
        if at > start {
            self.free.insert(start, at - start);
        }
        let (end, last) = (at + length, start + has);
        if last > end {
            self.free.insert(end, last - end);
        }
        Some(at)
    }

    /// Gives back what was taken.
    pub fn give_back(&mut self, start: usize, length: usize) {
        let (mut start, mut end) = (start, start + length);
        if let Some((&before, &has)) = self.free.range(..start).next_back()
            && before + has == start
        {
            start = before;
        }
        if let Some(after) = self.free.remove(&end) {
            end += after;
        }
        self.free.insert(start, end - start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_back_is_joined() {
        let mut pages = Pages::new(100, 60);
        let taken = [10, 20, 30].map(|length| pages.take(length, 1).expect("fits"));
        assert_eq!(taken, [100, 110, 130]);
        assert_eq!(pages.take(1, 1), None);
        assert_eq!(pages.take(usize::MAX, 1), None);
        pages.give_back(110, 20);
        assert_eq!(pages.take(20, 16), None, "none of it is aligned so");
        pages.give_back(100, 10);
        assert_eq!(pages.take(16, 16), Some(112));
        pages.give_back(112, 16);
        pages.give_back(130, 30);
        assert_eq!(pages.free, BTreeMap::from([(100, 60)]));
        assert_eq!(pages.take(60, 4), Some(100));
        assert_eq!(pages.take(1, 1), None);
        assert_eq!(Pages::new(5, 0).take(1, 1), None);
    }

    #[test]
    fn no_two_have_the_same_page() {
        let mut state = 88_172_645_463_325_252u64;
        let mut next = move |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as usize % below
        };
        let mut pages = Pages::new(0, 256);
        let mut owner = [None; 256];
        let mut live: Vec<(usize, usize)> = Vec::new();
        for round in 0..20_000 {
            if next(2) == 0 || live.is_empty() {
                let (length, align) = (1 + next(40), 1 << next(5));
                match pages.take(length, align) {
                    Some(at) => {
                        assert!(at.is_multiple_of(align));
                        for slot in &mut owner[at..at + length] {
                            assert_eq!(slot.replace(round), None);
                        }
                        live.push((at, length));
                    }
                    None => assert!(!(0..=256 - length).step_by(align).any(|at| {
                        at + length <= 256 && owner[at..at + length].iter().all(Option::is_none)
                    })),
                }
            } else {
                let (at, length) = live.swap_remove(next(live.len()));
                pages.give_back(at, length);
                owner[at..at + length].fill(None);
            }
        }
    }
}
