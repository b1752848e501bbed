//! Lock queue: the holder of the lock of this rank's memory in a window, and those that wait for it, first come first
//! served (MPI 5.0, section 12.5.3), except that a rank that has other locks, of any window, goes past waiting writers.
//!
//! The rule is that of a [ticket lock](weft_atomic::ticket_lock) by times alone, which says why no rank waits for ever: a
//! rank that has other locks goes past a writer that is first in line and has waited since a later time than the rank's
//! own, and takes the time of that writer as its own when it has released the lock. There is no clock that all members
//! see; a request brings the time of its rank, and the clock of the lock is never behind that. So a rank that has come in
//! before a writer was first has an earlier time than the writer, and the argument needs no more of a clock.

use std::collections::VecDeque;

use weft_atomic::ticket_lock::{Overtaken, Time};
use weft_fabric::Peer;

/// Type of a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockKind {
    /// Others may hold it, too.
    Shared,
    /// Nobody else may.
    Exclusive,
}

/// A waiting rank, with its time.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    peer: Peer,
    kind: LockKind,
    /// It has other locks.
    has_others: bool,
    time: Time,
}

/// Invariant: at most one holds it exclusively, and then nobody else does; the first who waits could not hold it.
#[derive(Debug, Default)]
pub(super) struct LockQueue {
    holders: Vec<(Peer, LockKind)>,
    waiting: VecDeque<Waiting>,
    /// No time that a request has brought is later.
    clock: Time,
    /// Since when the writer waits that is first in line, if one is and readers hold the lock.
    since: Option<Time>,
}

impl LockQueue {
    /// Somebody wants it, and has other locks or none, and this time. False if they hold it or wait for it already.
    #[must_use]
    pub(super) fn request(
        &mut self,
        peer: Peer,
        kind: LockKind,
        has_others: bool,
        time: Time,
    ) -> bool {
        let holders = self.holders.iter().map(|(other, _)| *other);
        let mut known = holders.chain(self.waiting.iter().map(|other| other.peer));
        if known.any(|other| other == peer) {
            return false;
        }
        self.clock = self.clock.max(time);
        self.waiting.push_back(Waiting {
            peer,
            kind,
            has_others,
            time,
        });
        true
    }

    /// Somebody gives it back, or is lost.
    pub(super) fn release(&mut self, peer: Peer) {
        let first = self.waiting.front().map(|first| first.peer);
        self.holders.retain(|(other, _)| *other != peer);
        self.waiting.retain(|other| other.peer != peer);
        if first == Some(peer) {
            self.since = None;
        }
    }

    /// The next one who gets it, and past whom; ask until nobody does.
    pub(super) fn grant(&mut self) -> Option<(Peer, Overtaken)> {
        let first = self.waiting.front()?.kind;
        let is_shared = |(_, held): &(Peer, LockKind)| *held == LockKind::Shared;
        let is_free = match first {
            LockKind::Exclusive => self.holders.is_empty(),
            LockKind::Shared => self.holders.iter().all(is_shared),
        };
        let (at, overtaken) = if is_free {
            self.since = None;
            (0, Overtaken::Nobody)
        } else if self.holders.iter().all(is_shared) {
            let since = *self.since.get_or_insert_with(|| {
                self.clock = self.clock.saturating_add(1);
                self.clock
            });
            let goes_past = |other: &Waiting| {
                other.kind == LockKind::Shared && other.has_others && other.time < since
            };
            let at = self.waiting.iter().position(goes_past)?;
            (at, Overtaken::Writer(since))
        } else {
            return None;
        };
        let next = self.waiting.remove(at)?;
        self.holders.push((next.peer, next.kind));
        Some((next.peer, overtaken))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use LockKind::{Exclusive, Shared};

    /// The peer that gets it next, past nobody.
    fn next(queue: &mut LockQueue) -> Option<u32> {
        queue.grant().map(|(peer, overtaken)| {
            assert_eq!(overtaken, Overtaken::Nobody);
            peer.0
        })
    }

    #[test]
    fn first_come_first_served() {
        let mut queue = LockQueue::default();
        for (peer, kind) in [(0, Shared), (1, Shared), (2, Exclusive), (3, Shared)] {
            assert!(queue.request(Peer(peer), kind, false, 0));
            assert!(!queue.request(Peer(peer), kind, true, 0), "waits already");
        }
        assert_eq!(next(&mut queue), Some(0));
        assert_eq!(next(&mut queue), Some(1));
        assert_eq!(next(&mut queue), None, "others hold it");
        assert!(
            !queue.request(Peer(0), Exclusive, false, 0),
            "holds it already"
        );
        queue.release(Peer(0));
        assert_eq!(next(&mut queue), None);
        queue.release(Peer(1));
        assert_eq!(next(&mut queue), Some(2));
        assert_eq!(next(&mut queue), None, "it is held alone");
        queue.release(Peer(2));
        assert_eq!(next(&mut queue), Some(3));
        queue.release(Peer(7));
        assert_eq!(next(&mut queue), None);
    }

    #[test]
    fn a_reader_with_other_locks_goes_past_a_writer_once() {
        let mut queue = LockQueue::default();
        assert!(queue.request(Peer(0), Shared, false, 7));
        assert_eq!(next(&mut queue), Some(0));
        assert!(queue.request(Peer(1), Exclusive, true, 2));
        assert!(queue.request(Peer(2), Shared, false, 0));
        assert_eq!(next(&mut queue), None);
        // Later than all that have come in before.
        assert!(queue.request(Peer(3), Shared, true, 7));
        assert_eq!(queue.grant(), Some((Peer(3), Overtaken::Writer(8))));
        queue.release(Peer(3));
        assert!(queue.request(Peer(3), Shared, true, 8));
        assert_eq!(next(&mut queue), None, "it went past that one before");
        queue.release(Peer(0));
        assert_eq!(next(&mut queue), Some(1));
        assert_eq!(next(&mut queue), None, "it is held alone");
        queue.release(Peer(1));
        assert_eq!(next(&mut queue), Some(2));
        assert_eq!(next(&mut queue), Some(3));
        // A writer that is lost while it waits makes room for the next one; a clock at its end stands still.
        for writer in [4, 5] {
            assert!(queue.request(Peer(writer), Exclusive, false, u64::MAX));
            assert_eq!(next(&mut queue), None);
        }
        queue.release(Peer(4));
        assert!(queue.request(Peer(6), Shared, true, 20));
        assert_eq!(queue.grant(), Some((Peer(6), Overtaken::Writer(u64::MAX))));
    }
}
