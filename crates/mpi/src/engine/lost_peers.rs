//! Lost peers: who is gone and why, in the order in which that became known. Nobody comes back; but another process may
//! get the number of one that is gone. With them what the program has said of losses: up to which of them it has
//! acknowledged on a communicator, and which communicators are revoked.

use weft_fabric::Peer;

use crate::error::{Error, ErrorClass};
use crate::group::Group;

/// Why a peer is lost.
#[derive(Debug)]
struct Loss {
    reason: String,
    /// That of whoever needs the peer, whether that waited for it before or asks later.
    error: Error,
}

/// Peers that are lost, with the reason.
#[derive(Debug)]
pub(super) struct LostPeers {
    list: Vec<(Peer, Loss)>,
    first: FirstPeers,
    /// Contexts of revoked communicators, the even ones.
    revoked: Vec<u32>,
    /// Of communicators: up to which place of the list losses are acknowledged.
    acknowledged: Vec<(u32, usize)>,
    /// Nobody is lost and nothing is revoked.
    quiet: bool,
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
            revoked: Vec::new(),
            acknowledged: Vec::new(),
            quiet: true,
        }
    }

    /// The peers that the job starts with.
    pub(super) fn first(&self) -> FirstPeers {
        self.first
    }

    /// Whether nobody is lost and no communicator is revoked.
    #[inline]
    pub(super) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Another process has the number of a peer.
    pub(super) fn forget(&mut self, peer: Peer) {
        // All keep their places, by which others know how many they have heard of.
        for (other, _) in &mut self.list {
            if *other == peer {
                *other = NOBODY;
            }
        }
    }

    /// A peer is lost: `error` is that of whoever needs it.
    pub(super) fn note(&mut self, peer: Peer, reason: &str, error: Error) {
        let reason = reason.to_owned();
        self.list.push((peer, Loss { reason, error }));
        self.quiet = false;
    }

    /// Whether anybody is lost.
    pub(super) fn is_anybody(&self) -> bool {
        !self.list.is_empty()
    }

    /// Whether a peer is lost.
    pub(super) fn has(&self, peer: Peer) -> bool {
        self.list.iter().any(|(other, _)| *other == peer)
    }

    /// The lost members of a group, in the order in which that became known.
    pub(super) fn of(&self, group: Option<&Group>) -> Vec<Peer> {
        self.members(group).map(|(_, peer)| peer).collect()
    }

    /// The same with their places in the list.
    fn members<'a>(&'a self, group: Option<&'a Group>) -> impl Iterator<Item = (usize, Peer)> + 'a {
        let all = self.list.iter().enumerate();
        all.filter(move |(_, (peer, _))| self.first.is_member(group, *peer))
            .map(|(place, (peer, _))| (place, *peer))
    }

    /// Notes that a communicator is revoked; false if that is known.
    pub(super) fn note_revoked(&mut self, context: u32) -> bool {
        let new = !self.is_revoked(context);
        if new {
            self.revoked.push(context & !1);
            self.quiet = false;
        }
        new
    }

    /// Whether the communicator of a context is revoked.
    pub(super) fn is_revoked(&self, context: u32) -> bool {
        self.revoked.contains(&(context & !1))
    }

    /// Whether any is.
    pub(super) fn is_any_revoked(&self) -> bool {
        !self.revoked.is_empty()
    }

    /// The error of whatever is done on a communicator that is revoked.
    pub(super) fn revoked_error(&self, context: u32) -> Option<Error> {
        self.is_revoked(context).then(|| {
            Error::new(
                ErrorClass::Revoked,
                "the communicator is revoked: a rank has called MPIX_Comm_revoke; go on with the one that MPIX_Comm_shrink makes of it",
            )
        })
    }

    /// A communicator is freed: what was said of it is forgotten.
    pub(super) fn forget_context(&mut self, context: u32) {
        self.revoked.retain(|other| *other != context & !1);
        self.acknowledged
            .retain(|(other, _)| *other != context & !1);
        self.quiet = self.list.is_empty() && self.revoked.is_empty();
    }

    /// Acknowledges the first `most` losses of a communicator's group; answers how many are.
    pub(super) fn acknowledge(
        &mut self,
        context: u32,
        group: Option<&Group>,
        most: usize,
    ) -> usize {
        let wanted = self.members(group).take(most).last();
        let until = wanted.map_or(0, |(place, _)| place + 1);
        let until = until.max(self.acknowledged_until(context));
        self.acknowledged
            .retain(|(other, _)| *other != context & !1);
        self.acknowledged.push((context & !1, until));
        self.acknowledged_of(context, group).len()
    }

    fn acknowledged_until(&self, context: u32) -> usize {
        let mut all = self.acknowledged.iter();
        let found = all.find(|(other, _)| *other == context & !1);
        found.map_or(0, |(_, until)| *until)
    }

    /// The acknowledged losses of a communicator's group.
    pub(super) fn acknowledged_of(&self, context: u32, group: Option<&Group>) -> Vec<Peer> {
        let until = self.acknowledged_until(context);
        let all = self.members(group);
        all.take_while(|(place, _)| *place < until)
            .map(|(_, peer)| peer)
            .collect()
    }

    /// The first loss of a communicator's group that is not acknowledged there.
    pub(super) fn unacknowledged(&self, context: u32, group: Option<&Group>) -> Option<Error> {
        self.since(self.acknowledged_until(context), group)
    }

    /// The first lost peer of a group, with the reason.
    pub(super) fn find_in(&self, group: Option<&Group>) -> Option<(Peer, &str)> {
        let mut all = self.list.iter();
        let found = all.find(|(peer, _)| self.first.is_member(group, *peer));
        found.map(|(peer, loss)| (*peer, &*loss.reason))
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
    fn since(&self, known: usize, group: Option<&Group>) -> Option<Error> {
        let mut later = self.list.get(known..)?.iter();
        later
            .find(|(peer, _)| self.first.is_member(group, *peer))
            .map(error_of)
    }
}

#[cold]
fn error_of((_, loss): &(Peer, Loss)) -> Error {
    loss.error.clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lose(lost: &mut LostPeers, peer: u32) {
        let error = Error::new(ErrorClass::ProcFailed, "killed");
        lost.note(Peer(peer), "killed", error);
    }

    #[test]
    fn another_with_the_number_of_a_lost_one_is_not_lost() {
        let mut lost = LostPeers::new(FirstPeers(2));
        for peer in [5, 1, 5] {
            lose(&mut lost, peer);
        }
        assert!(lost.since(0, None).is_some(), "one of the first");
        lost.forget(Peer(5));
        assert!(lost.error_of(Peer(5)).is_none() && lost.error_of(Peer(1)).is_some());
        assert_eq!(lost.list.len(), 3);
        let known = lost.list.len();
        lose(&mut lost, 5);
        assert!(lost.since(known, None).is_none(), "none of the first");
    }

    #[test]
    fn whoever_waits_for_anybody_is_told_of_members_alone() {
        let mut lost = LostPeers::new(FirstPeers(5));
        let group = Group::of(vec![Peer(0), Peer(2), Peer(4)]);
        assert!(lost.is_quiet() && lost.error_of(Peer(1)).is_none());
        lose(&mut lost, 1);
        assert!(lost.error_of(Peer(1)).is_some());
        assert!(lost.since(0, None).is_some());
        assert!(lost.since(0, Some(&group)).is_none(), "it is no member");
        let known = lost.list.len();
        lose(&mut lost, 2);
        assert!(lost.since(known, Some(&group)).is_some());
        assert!(lost.error_of_all(Some(&group), 2).is_none(), "one is left");
        lose(&mut lost, 4);
        assert!(lost.error_of_all(Some(&group), 2).is_some());
        assert_eq!(lost.find_in(Some(&group)), Some((Peer(2), "killed")));
    }

    #[test]
    fn losses_are_acknowledged_for_each_communicator_in_their_order() {
        let mut lost = LostPeers::new(FirstPeers(5));
        let group = Group::of(vec![Peer(4), Peer(2), Peer(0)]);
        for peer in [1, 4, 3, 2] {
            lose(&mut lost, peer);
        }
        assert_eq!(lost.of(Some(&group)), [Peer(4), Peer(2)]);
        assert_eq!(lost.acknowledge(6, Some(&group), 0), 0);
        assert!(lost.unacknowledged(6, Some(&group)).is_some());
        assert_eq!(lost.acknowledge(7, Some(&group), 1), 1, "the same one");
        assert_eq!(lost.acknowledged_of(6, Some(&group)), [Peer(4)]);
        assert_eq!(lost.acknowledge(6, Some(&group), 9), 2);
        assert!(lost.unacknowledged(6, Some(&group)).is_none());
        assert_eq!(
            lost.acknowledge(6, Some(&group), 0),
            2,
            "none is taken back"
        );
        assert!(
            lost.unacknowledged(8, Some(&group)).is_some(),
            "another one"
        );
    }

    #[test]
    fn a_revoked_communicator_is_forgotten_when_it_is_freed() {
        let mut lost = LostPeers::new(FirstPeers(2));
        assert!(lost.note_revoked(9) && !lost.note_revoked(8) && !lost.is_quiet());
        assert!(lost.is_revoked(8) && lost.is_revoked(9) && !lost.is_revoked(10));
        lost.forget_context(9);
        assert!(lost.is_quiet() && !lost.is_any_revoked());
    }
}
