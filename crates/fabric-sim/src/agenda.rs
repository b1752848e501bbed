//! Who runs next: the earliest, and between equals whom the lot names.

use std::collections::BTreeSet;

/// At most one entry for each rank.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    entries: BTreeSet<(u64, u64, u32)>,
    /// The entry of each rank, for moving it.
    of: Vec<Option<(u64, u64)>>,
}

impl Agenda {
    /// An agenda of `ranks` that has no entry.
    pub(crate) fn new(ranks: usize) -> Self {
        Self {
            entries: BTreeSet::new(),
            of: vec![None; ranks],
        }
    }

    /// Enters `rank` at `time`, with this lot, in place of its former entry.
    pub(crate) fn enter(&mut self, rank: u32, time: u64, lot: u64) {
        self.strike(rank);
        self.of[rank as usize] = Some((time, lot));
        self.entries.insert((time, lot, rank));
    }

    /// Removes the entry of `rank`.
    pub(crate) fn strike(&mut self, rank: u32) {
        if let Some((time, lot)) = self.of[rank as usize].take() {
            self.entries.remove(&(time, lot, rank));
        }
    }

    /// When `rank` is entered.
    pub(crate) fn time_of(&self, rank: u32) -> Option<u64> {
        self.of[rank as usize].map(|(time, _)| time)
    }

    /// The time of the earliest entry.
    pub(crate) fn earliest(&self) -> Option<u64> {
        self.entries.first().map(|(time, ..)| *time)
    }

    /// Takes the earliest entry: its time and its rank.
    pub(crate) fn take(&mut self) -> Option<(u64, u32)> {
        let (time, _, rank) = self.entries.pop_first()?;
        self.of[rank as usize] = None;
        Some((time, rank))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_comes_first_and_lots_break_ties() {
        let mut agenda = Agenda::new(3);
        agenda.enter(0, 20, 0);
        agenda.enter(1, 10, 9);
        agenda.enter(2, 10, 5);
        agenda.enter(0, 30, 0);
        assert_eq!(agenda.time_of(0), Some(30));
        agenda.enter(0, 11, 0);
        let order: Vec<_> = std::iter::from_fn(|| agenda.take()).collect();
        assert_eq!(order, [(10, 2), (10, 1), (11, 0)]);
        agenda.enter(1, 5, 1);
        agenda.strike(1);
        assert_eq!(agenda.earliest(), None);
    }
}
