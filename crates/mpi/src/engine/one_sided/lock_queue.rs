//! Lock queue: who holds the lock of this rank's memory in a window, and who waits for it, first come first served
//! (MPI 5.0, section 12.5.3).

use std::collections::VecDeque;

use weft_fabric::Peer;

/// Type of a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockKind {
    /// Others may hold it, too.
    Shared,
    /// Nobody else may.
    Exclusive,
}

/// Invariant: at most one holds it exclusively, and then nobody else does; nobody waits who could hold it.
#[derive(Debug, Default)]
pub(super) struct LockQueue {
    holders: Vec<(Peer, LockKind)>,
    waiting: VecDeque<(Peer, LockKind)>,
}

impl LockQueue {
    /// Somebody wants it. False if they hold it or wait for it already.
    #[must_use]
    pub(super) fn request(&mut self, peer: Peer, kind: LockKind) -> bool {
        let mut known = self.holders.iter().chain(&self.waiting);
        if known.any(|(other, _)| *other == peer) {
            return false;
        }
        self.waiting.push_back((peer, kind));
        true
    }

    /// Somebody gives it back, or is lost.
    pub(super) fn release(&mut self, peer: Peer) {
        self.holders.retain(|(other, _)| *other != peer);
        self.waiting.retain(|(other, _)| *other != peer);
    }

    /// The next one who gets it; ask until nobody does.
    pub(super) fn grant(&mut self) -> Option<Peer> {
        let &(peer, kind) = self.waiting.front()?;
        let free = match kind {
            LockKind::Exclusive => self.holders.is_empty(),
            LockKind::Shared => self
                .holders
                .iter()
                .all(|(_, held)| *held == LockKind::Shared),
        };
        if !free {
            return None;
        }
        self.waiting.pop_front();
        self.holders.push((peer, kind));
        Some(peer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use LockKind::{Exclusive, Shared};

    #[test]
    fn first_come_first_served() {
        let mut queue = LockQueue::default();
        for (peer, kind) in [(0, Shared), (1, Shared), (2, Exclusive), (3, Shared)] {
            assert!(queue.request(Peer(peer), kind));
            assert!(!queue.request(Peer(peer), kind), "waits already");
        }
        assert_eq!(queue.grant(), Some(Peer(0)));
        assert_eq!(queue.grant(), Some(Peer(1)));
        assert_eq!(queue.grant(), None, "others hold it");
        assert!(!queue.request(Peer(0), Exclusive), "holds it already");
        queue.release(Peer(0));
        assert_eq!(queue.grant(), None);
        queue.release(Peer(1));
        assert_eq!(queue.grant(), Some(Peer(2)));
        assert_eq!(queue.grant(), None, "it is held alone");
        queue.release(Peer(2));
        assert_eq!(queue.grant(), Some(Peer(3)));
        queue.release(Peer(7));
        assert_eq!(queue.grant(), None);
    }
}
