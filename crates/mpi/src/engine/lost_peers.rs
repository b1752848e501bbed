//! Lost peers: who is gone and why, in the order in which that became known. Nobody comes back.

use weft_fabric::{FabricError, Peer};

use crate::error::Error;
use crate::group::Group;

/// Peers that are lost, with the reason.
#[derive(Debug, Default)]
pub(super) struct LostPeers(Vec<(Peer, String)>);

/// Whether a peer belongs to a group; without one, to all peers.
pub(super) fn is_member(group: Option<&Group>, peer: Peer) -> bool {
    group.is_none_or(|group| group.rank_of(peer).is_some())
}

impl LostPeers {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many, to ask later who has been lost [since](Self::since).
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn note(&mut self, peer: Peer, reason: &str) {
        self.0.push((peer, reason.to_owned()));
    }

    /// The first lost peer that `which` names, with the reason.
    pub(super) fn find(&self, which: impl Fn(Peer) -> bool) -> Option<(Peer, &str)> {
        let found = self.0.iter().find(|(peer, _)| which(*peer));
        found.map(|(peer, reason)| (*peer, &**reason))
    }

    /// The error of whoever needs this peer, if it is lost.
    pub(super) fn error_of(&self, peer: Peer) -> Option<Error> {
        let found = self.0.iter().find(|(other, _)| *other == peer);
        found.map(error_of)
    }

    /// The error of whoever waits for anybody of a group, if all the `others` of it are lost.
    pub(super) fn error_of_all(&self, group: Option<&Group>, others: usize) -> Option<Error> {
        let mut gone = self.0.iter().filter(|(peer, _)| is_member(group, *peer));
        let last = gone.next_back()?;
        (gone.count() + 1 >= others).then(|| error_of(last))
    }

    /// The error of whoever waits for anybody of a group since so many were lost, if one more is.
    pub(super) fn since(&self, known: usize, group: Option<&Group>) -> Option<Error> {
        let mut later = self.0.get(known..)?.iter();
        later
            .find(|(peer, _)| is_member(group, *peer))
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
    fn whoever_waits_for_anybody_is_told_of_members_alone() {
        let mut lost = LostPeers::default();
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
        let found = lost.find(|peer| peer.0 > 1);
        assert_eq!(found, Some((Peer(2), "killed")));
    }
}
