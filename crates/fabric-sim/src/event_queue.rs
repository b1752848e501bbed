//! Event queue: the virtual time at which each rank continues. The earliest goes first; between equal times a random
//! draw decides.

use std::collections::BTreeSet;

/// At most one event for each rank.
#[derive(Debug, Default)]
pub(crate) struct EventQueue {
    /// Time, draw, rank.
    events: BTreeSet<(u64, u64, u32)>,
    /// Time and draw of the event of each rank, for moving it.
    of_rank: Vec<Option<(u64, u64)>>,
}

impl EventQueue {
    /// An empty queue for `ranks`.
    pub(crate) fn new(ranks: usize) -> Self {
        Self {
            events: BTreeSet::new(),
            of_rank: vec![None; ranks],
        }
    }

    /// Makes `rank` continue at `time`, instead of its former event. Among equal times the lowest `draw` is
    /// first.
    pub(crate) fn schedule(&mut self, rank: u32, time: u64, draw: u64) {
        self.cancel(rank);
        self.of_rank[rank as usize] = Some((time, draw));
        self.events.insert((time, draw, rank));
    }

    /// Removes the event of `rank`.
    pub(crate) fn cancel(&mut self, rank: u32) {
        if let Some((time, draw)) = self.of_rank[rank as usize].take() {
            self.events.remove(&(time, draw, rank));
        }
    }

    /// When `rank` continues.
    pub(crate) fn time_of(&self, rank: u32) -> Option<u64> {
        self.of_rank[rank as usize].map(|(time, _)| time)
    }

    /// The time of the earliest event.
    pub(crate) fn earliest(&self) -> Option<u64> {
        self.events.first().map(|(time, ..)| *time)
    }

    /// Takes the earliest event: its time and its rank.
    pub(crate) fn pop(&mut self) -> Option<(u64, u32)> {
        let (time, _, rank) = self.events.pop_first()?;
        self.of_rank[rank as usize] = None;
        Some((time, rank))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_comes_first_and_draws_break_ties() {
        let mut queue = EventQueue::new(3);
        queue.schedule(0, 20, 0);
        queue.schedule(1, 10, 9);
        queue.schedule(2, 10, 5);
        queue.schedule(0, 30, 0);
        assert_eq!(queue.time_of(0), Some(30));
        queue.schedule(0, 11, 0);
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(order, [(10, 2), (10, 1), (11, 0)]);
        queue.schedule(1, 5, 1);
        queue.cancel(1);
        assert_eq!(queue.earliest(), None);
    }
}
