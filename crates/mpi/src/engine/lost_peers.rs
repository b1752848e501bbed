//! Lost peers: who is gone and why, in the order in which that became known. Nobody comes back; but another process may
//! get the number of one that is gone.

use weft_fabric::{FabricError, Peer};

use crate::error::Error;
use crate::group::Group;

/// Peers that are lost, with the reason.
#[derive(Debug)]
pub(super) struct LostPeers {
    list: Vec<(Peer, String)>,
    first: FirstPeers,
}

/// First peers: so many, those that the job starts with. They are the group that is meant where none is named.
#[derive(Clone, Copy, Debug)]
pub(super) struct FirstPeers(pub u32);

impl FirstPeers {
    /// Whether a peer belongs to a group; without one, to the first peers.
    pub(super) fn is_member(self, group: Option<&Group>, peer: Peer) -> bool {
        match group {
            Some(group) => group.rank_of(peer).is_some(),
            None => peer.0 < self.0,
        }
    }
}

/// In place of one whose number another process has.
const NOBODY: Peer = Peer(u32::MAX);

impl LostPeers {
    /// Nobody, in a job that starts with these peers.
    pub(super) fn new(first: FirstPeers) -> Self {
        Self {
            list: Vec::new(),
            first,
        }
    }

    /// The peers that the job starts with.
    pub(super) fn first(&self) -> FirstPeers {
        self.first
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Another process has the number of a peer.
    pub(super) fn forget(&mut self, peer: Peer) {
        // All keep their places, by which others know how many they have heard of.
        for (other, reason) in &mut self.list {
            if *other == peer {
                (*other, *reason) = (NOBODY, String::new());
            }
        }
    }

    /// How many, to ask later who has been lost [since](Self::since).
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    pub(super) fn note(&mut self, peer: Peer, reason: &str) {
        self.list.push((peer, reason.to_owned()));
    }

    /// The first lost peer of a group, with the reason.
    pub(super) fn find_in(&self, group: Option<&Group>) -> Option<(Peer, &str)> {
        let mut all = self.list.iter();
        let found = all.find(|(peer, _)| self.first.is_member(group, *peer));
        found.map(|(peer, reason)| (*peer, &**reason))
    }

    /// The error of whoever needs this peer, if it is lost.
    pub(super) fn error_of(&self, peer: Peer) -> Option<Error> {
        let found = self.list.iter().find(|(other, _)| *other == peer);
        found.map(error_of)
    }

    /// The error of whoever waits for anybody of a group, if all the `others` of it are lost.
    pub(super) fn error_of_all(&self, group: Option<&Group>, others: usize) -> Option<Error> {
        let mut gone = self
            .list
            .iter()
            .filter(|(peer, _)| self.first.is_member(group, *peer));
        let last = gone.next_back()?;
        (gone.count() + 1 >= others).then(|| error_of(last))
    }

    /// The error of whoever waits for anybody of a group since so many were lost, if one more is.
    pub(super) fn since(&self, known: usize, group: Option<&Group>) -> Option<Error> {
        let mut later = self.list.get(known..)?.iter();
        later
            .find(|(peer, _)| self.first.is_member(group, *peer))
            .map(error_of)
    }
}

#[cold]
fn error_of((peer, reason): &(Peer, String)) -> Error {
    Error::from(FabricError::PeerLost {
        peer: *peer,
        reason: reason.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_with_the_number_of_a_lost_one_is_not_lost() {
        let mut lost = LostPeers::new(FirstPeers(2));
        for peer in [5, 1, 5] {
            lost.note(Peer(peer), "killed");
        }
        assert!(lost.since(0, None).is_some(), "one of the first");
        lost.forget(Peer(5));
        assert!(lost.error_of(Peer(5)).is_none() && lost.error_of(Peer(1)).is_some());
        assert_eq!(lost.len(), 3);
        let known = lost.len();
        lost.note(Peer(5), "killed");
        assert!(lost.since(known, None).is_none(), "none of the first");
    }

    #[test]
    fn whoever_waits_for_anybody_is_told_of_members_alone() {
        let mut lost = LostPeers::new(FirstPeers(5));
        let group = Group::of(vec![Peer(0), Peer(2), Peer(4)]);
        assert!(lost.is_empty() && lost.error_of(Peer(1)).is_none());
        lost.note(Peer(1), "killed");
        assert!(lost.error_of(Peer(1)).is_some());
        assert!(lost.since(0, None).is_some());
        assert!(lost.since(0, Some(&group)).is_none(), "it is no member");
        let known = lost.len();
        lost.note(Peer(2), "killed");
        assert!(lost.since(known, Some(&group)).is_some());
        assert!(lost.error_of_all(Some(&group), 2).is_none(), "one is left");
        lost.note(Peer(4), "killed");
        assert!(lost.error_of_all(Some(&group), 2).is_some());
        assert_eq!(lost.find_in(Some(&group)), Some((Peer(2), "killed")));
    }
}
