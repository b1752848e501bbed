//! Mailbox of one rank: a bounded lane for each sender, served in turn.
//!
//! ```text
//!   lanes   0: │■■  │   1: │    │   2: │■■■■│ full: the next post is refused, `refused` says so
//!   ready   2, 0                      senders with something in their lane, in the order of service
//! ```
//!
//! One lock guards all of it, held for one copy (at most 16 KiB) or while items are moved over. The sink is
//! called without it.
//!
//! A lane takes [`CREDITS`] items, messages and signals alike, so that a signal does not overtake.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use weft_fabric::{Head, Peer, Posted, SyncKey};

/// Items that a lane takes before its receiver polls.
const CREDITS: usize = 64;

/// Emptied buffers that a mailbox keeps, so that a steady stream allocates nothing.
const SPARE: usize = 64;

/// Larger buffers are not kept: a thousand idle ranks must not hold them.
const SPARE_SIZE: usize = 4096;

/// A message or a signal in a lane.
pub(crate) enum LaneItem {
    Message { head: Head, data: Vec<u8> },
    Signal(SyncKey),
}

/// The owner of the mailbox has left.
pub(crate) struct Closed;

/// The contents that one poll takes over from the mailbox.
#[derive(Default)]
pub(crate) struct Batch {
    pub items: Vec<(Peer, LaneItem)>,
    /// Senders that were refused and have room again.
    pub refused: Vec<u32>,
    /// Peers that are lost, with the reason.
    pub lost: Vec<(Peer, String)>,
    /// A full lane that refused the owner of this mailbox has room.
    pub room: bool,
}

#[derive(Default)]
struct Lane {
    items: VecDeque<LaneItem>,
    /// Its sender was refused since it was last told that there is room.
    refused: bool,
}

#[derive(Default)]
struct State {
    lanes: Vec<Lane>,
    ready: VecDeque<u32>,
    spare: Vec<Vec<u8>>,
    lost: Vec<(Peer, String)>,
    room: bool,
    closed: bool,
}

pub(crate) struct Mailbox {
    state: Mutex<State>,
}

impl Mailbox {
    pub(crate) fn new(senders: usize) -> Self {
        let mut state = State::default();
        state.lanes.resize_with(senders, Lane::default);
        Self {
            state: Mutex::new(state),
        }
    }

    /// Nothing panics while the lock is held, except when memory runs out: then the state is consistent.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn message(&self, from: Peer, head: &Head, data: &[u8]) -> Result<Posted, Closed> {
        let mut state = self.state();
        if !state.has_room(from)? {
            return Ok(Posted::Retry);
        }
        let mut copy = state.spare.pop().unwrap_or_default();
        copy.extend_from_slice(data);
        let item = LaneItem::Message {
            head: *head,
            data: copy,
        };
        state.push(from, item);
        Ok(Posted::Done)
    }

    pub(crate) fn signal(&self, from: Peer, key: SyncKey) -> Result<Posted, Closed> {
        let mut state = self.state();
        if !state.has_room(from)? {
            return Ok(Posted::Retry);
        }
        state.push(from, LaneItem::Signal(key));
        Ok(Posted::Done)
    }

    /// Takes at most `budget` items, one of each sender in turn, and everything else that is to be reported.
    pub(crate) fn take(&self, budget: usize, taken: &mut Batch) {
        let mut state = self.state();
        let state = &mut *state;
        while taken.items.len() < budget {
            let Some(sender) = state.ready.pop_front() else {
                break;
            };
            let lane = &mut state.lanes[sender as usize];
            if let Some(item) = lane.items.pop_front() {
                taken.items.push((Peer(sender), item));
            }
            if std::mem::take(&mut lane.refused) {
                taken.refused.push(sender);
            }
            if !lane.items.is_empty() {
                state.ready.push_back(sender);
            }
        }
        // The messages of lost ranks come before their losses.
        if state.ready.is_empty() {
            taken.lost.append(&mut state.lost);
        }
        taken.room |= std::mem::take(&mut state.room);
    }

    /// Gives the buffers of handled items back.
    pub(crate) fn give_back(&self, taken: &mut Batch) {
        if taken.items.is_empty() {
            return;
        }
        let mut state = self.state();
        for (_, item) in taken.items.drain(..) {
            if let LaneItem::Message { mut data, .. } = item
                && (1..=SPARE_SIZE).contains(&data.capacity())
                && state.spare.len() < SPARE
            {
                data.clear();
                state.spare.push(data);
            }
        }
    }

    /// A mailbox that refused the owner of this one has room again.
    pub(crate) fn tell_room(&self) {
        self.state().room = true;
    }

    pub(crate) fn tell_lost(&self, peer: Peer, reason: &str) {
        self.state().lost.push((peer, reason.into()));
    }

    /// Takes no more items. Returns the senders that were refused and wait for room.
    pub(crate) fn close(&self) -> Vec<u32> {
        let mut state = self.state();
        state.closed = true;
        state.ready.clear();
        let mut refused = Vec::new();
        for (sender, lane) in (0..).zip(&mut state.lanes) {
            lane.items = VecDeque::new();
            if std::mem::take(&mut lane.refused) {
                refused.push(sender);
            }
        }
        refused
    }
}

impl State {
    fn has_room(&mut self, from: Peer) -> Result<bool, Closed> {
        if self.closed {
            return Err(Closed);
        }
        let lane = &mut self.lanes[from.index()];
        lane.refused |= lane.items.len() >= CREDITS;
        Ok(lane.items.len() < CREDITS)
    }

    fn push(&mut self, from: Peer, item: LaneItem) {
        let lane = &mut self.lanes[from.index()];
        lane.items.push_back(item);
        if lane.items.len() == 1 {
            self.ready.push_back(from.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn senders(taken: &Batch) -> Vec<u32> {
        taken.items.iter().map(|(from, _)| from.0).collect()
    }

    #[test]
    fn senders_take_turns() {
        let mailbox = Mailbox::new(3);
        for (from, count) in [(0, 3), (2, 2)] {
            for _ in 0..count {
                assert!(mailbox.signal(Peer(from), SyncKey(1)).is_ok());
            }
        }
        let mut taken = Batch::default();
        mailbox.take(3, &mut taken);
        assert_eq!(senders(&taken), [0, 2, 0]);
        taken.items.clear();
        mailbox.take(10, &mut taken);
        assert_eq!(senders(&taken), [2, 0]);
    }

    #[test]
    fn a_refused_sender_is_named_once_there_is_room() {
        let mailbox = Mailbox::new(2);
        let post = || mailbox.message(Peer(1), &[0; 32], &[1, 2, 3]);
        for _ in 0..CREDITS {
            assert!(matches!(post(), Ok(Posted::Done)));
        }
        assert!(matches!(post(), Ok(Posted::Retry)));
        let mut taken = Batch::default();
        mailbox.take(1, &mut taken);
        assert_eq!(taken.refused, [1]);
        taken.refused.clear();
        mailbox.take(2, &mut taken);
        assert!(taken.refused.is_empty(), "said once");
    }

    #[test]
    fn a_closed_mailbox_takes_nothing() {
        let mailbox = Mailbox::new(1);
        while matches!(mailbox.signal(Peer(0), SyncKey(0)), Ok(Posted::Done)) {}
        assert_eq!(mailbox.close(), [0]);
        assert!(mailbox.signal(Peer(0), SyncKey(0)).is_err());
    }
}
