//! Lanes: for each sender and receiver the credits in use, and the order of arrival.
//!
//! ```text
//!   admit: a credit is free ──► taken ── under way ── received: given back
//!          none is          ──► refused, once noted ── received: tell the sender that there is room
//! ```
//!
//! Invariant: `refused` of a receiver names, in the order of refusal, exactly the senders whose lane to it is marked.

use std::collections::HashMap;

use crate::partition::Link;

#[derive(Debug, Default)]
struct Lane {
    under_way: u32,
    refused: bool,
    /// When the last message sent so far arrives.
    last: u64,
}

/// The lanes of all pairs that have exchanged something.
#[derive(Debug)]
pub(crate) struct Lanes {
    credits: u32,
    /// Never iterated over, as the order would be undefined.
    lanes: HashMap<Link, Lane>,
    /// For each receiver, the senders that its full lanes refused.
    refused: Vec<Vec<u32>>,
}

impl Lanes {
    pub(crate) fn new(ranks: usize, credits: u32) -> Self {
        Self {
            credits: credits.max(1),
            lanes: HashMap::new(),
            refused: vec![Vec::new(); ranks],
        }
    }

    fn lane(&mut self, link: Link) -> &mut Lane {
        self.lanes.entry(link).or_default()
    }

    /// Whether the lane has a free credit. If not, its sender is told later when there is room.
    pub(crate) fn admit(&mut self, link: Link) -> bool {
        let credits = self.credits;
        let lane = self.lane(link);
        if lane.under_way < credits {
            return true;
        }
        if !std::mem::replace(&mut lane.refused, true) {
            self.refused[link.1 as usize].push(link.0);
        }
        false
    }

    /// Takes a credit.
    pub(crate) fn depart(&mut self, link: Link) {
        self.lane(link).under_way += 1;
    }

    /// The time at which a message arrives that would alone arrive at `time`: first in, first out.
    pub(crate) fn in_order(&mut self, link: Link, time: u64) -> u64 {
        let lane = self.lane(link);
        lane.last = time.max(lane.last + 1);
        lane.last
    }

    /// When the last message so far arrives.
    pub(crate) fn last_arrival(&self, link: Link) -> u64 {
        self.lanes.get(&link).map_or(0, |lane| lane.last)
    }

    /// Gives a credit back. True if the sender is to be told that there is room.
    #[must_use]
    pub(crate) fn received(&mut self, link: Link) -> bool {
        let lane = self.lane(link);
        lane.under_way = lane.under_way.saturating_sub(1);
        let refused = std::mem::take(&mut lane.refused);
        if refused {
            self.refused[link.1 as usize].retain(|sender| *sender != link.0);
        }
        refused
    }

    /// The receiver takes no more. Returns the senders that are to be told.
    #[must_use]
    pub(crate) fn close(&mut self, receiver: u32) -> Vec<u32> {
        let refused = std::mem::take(&mut self.refused[receiver as usize]);
        for sender in &refused {
            self.lane((*sender, receiver)).refused = false;
        }
        refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_sender_is_told_once_there_is_room() {
        let mut lanes = Lanes::new(3, 1);
        assert!(lanes.admit((1, 0)));
        lanes.depart((1, 0));
        assert!(!lanes.admit((1, 0)) && !lanes.admit((1, 0)));
        assert!(lanes.admit((2, 0)), "a lane of its own");
        assert!(lanes.received((1, 0)));
        lanes.depart((1, 0));
        assert!(!lanes.received((1, 0)), "said once");
        assert!(lanes.close(0).is_empty());
    }

    #[test]
    fn a_refused_sender_is_told_of_the_end() {
        let mut lanes = Lanes::new(3, 1);
        for sender in [2, 1] {
            lanes.depart((sender, 0));
            assert!(!lanes.admit((sender, 0)));
        }
        assert_eq!(lanes.close(0), [2, 1]);
        assert!(!lanes.received((2, 0)));
    }

    #[test]
    fn messages_of_a_lane_arrive_in_order() {
        let mut lanes = Lanes::new(2, 1);
        assert_eq!(lanes.in_order((0, 1), 20), 20);
        assert_eq!(lanes.in_order((0, 1), 10), 21);
        assert_eq!(lanes.last_arrival((0, 1)), 21);
        assert_eq!(lanes.last_arrival((1, 0)), 0);
    }
}
