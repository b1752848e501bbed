//! Lost peers: which peers are gone and why, in the order in which that became known. A lost peer never returns; but
//! another process may get its number. Also the program's acknowledgements of losses on each communicator, and the
//! revoked communicators.

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
    /// Of communicators, by their even contexts: those whose loss is acknowledged, if they are lost.
    acknowledged: Vec<(u32, Vec<Peer>)>,
    /// Processes that are not known here yet and that others have found lost: whose number they have, their incarnation, and who
    /// has told of it.
    unknown_lost: Vec<(Peer, u32, Peer)>,
    /// The error of whatever is begun, once this rank has ended.
    over: Option<Error>,
    /// Nobody is lost, nothing is revoked, and this rank has not ended.
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
            unknown_lost: Vec::new(),
            over: None,
            quiet: true,
        }
    }

    /// The peers that the job starts with.
    pub(super) fn first(&self) -> FirstPeers {
        self.first
    }

    /// Whether nobody is lost, no communicator is revoked, and this rank has not ended.
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
        for (_, peers) in &mut self.acknowledged {
            peers.retain(|other| *other != peer);
        }
    }

    /// A peer is lost: `error` is that of whoever needs it.
    pub(super) fn note(&mut self, peer: Peer, reason: &str, error: Error) {
        let reason = reason.to_owned();
        self.list.push((peer, Loss { reason, error }));
        self.quiet = false;
    }

    /// A process is lost, as `from` has told, that is not known here yet.
    pub(super) fn note_unknown_lost(&mut self, peer: Peer, incarnation: u32, from: Peer) {
        // The last one of a number counts: of those before none will be known here alone.
        self.unknown_lost.retain(|(other, ..)| *other != peer);
        self.unknown_lost.push((peer, incarnation, from));
    }

    /// The peer that has reported the loss of this process, which has the number of a peer now.
    pub(super) fn take_unknown_lost(&mut self, peer: Peer, incarnation: u32) -> Option<Peer> {
        let mut all = self.unknown_lost.iter();
        let &(_, lost, from) = all.find(|(other, ..)| *other == peer)?;
        if lost <= incarnation {
            self.unknown_lost.retain(|(other, ..)| *other != peer);
        }
        (lost == incarnation).then_some(from)
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
        self.members(group).map(|(peer, _)| *peer).collect()
    }

    /// The same with the reasons.
    pub(super) fn with_reasons(&self, group: &Group) -> Vec<(Peer, String)> {
        let all = self.members(Some(group));
        all.map(|(peer, loss)| (*peer, loss.reason.clone()))
            .collect()
    }

    fn members<'a>(
        &'a self,
        group: Option<&'a Group>,
    ) -> impl DoubleEndedIterator<Item = &'a (Peer, Loss)> + 'a {
        let all = self.list.iter();
        all.filter(move |(peer, _)| self.first.is_member(group, *peer))
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

    /// This rank has ended: with this error for what is begun later.
    pub(super) fn end(&mut self, error: Error) {
        self.over = Some(error);
        self.quiet = false;
    }

    /// The error of whatever is begun on a communicator that is revoked, or by a rank that has ended.
    pub(super) fn refusal(&self, context: u32) -> Option<Error> {
        let revoked = || {
            Error::new(
                ErrorClass::Revoked,
                "the communicator is revoked: a rank has called MPIX_Comm_revoke; go on with the one that MPIX_Comm_shrink makes of it",
            )
        };
        let over = self.over.clone();
        over.or_else(|| self.is_revoked(context).then(revoked))
    }

    /// The error of a collective call of this name on a communicator: it is revoked, or a member is lost.
    pub(super) fn refusal_of(
        &self,
        name: &str,
        context: u32,
        group: Option<&Group>,
    ) -> Option<Error> {
        let lost = || {
            let (peer, reason) = self.find_in(group)?;
            Some(Error::new(
                ErrorClass::ProcFailed,
                format!(
                    "{name}: rank {peer} of MPI_COMM_WORLD is lost: {reason}; go on with a communicator without it"
                ),
            ))
        };
        self.refusal(context).or_else(lost)
    }

    /// A communicator is freed: what was said of it is forgotten.
    pub(super) fn forget_context(&mut self, context: u32) {
        self.revoked.retain(|other| *other != context & !1);
        self.acknowledged
            .retain(|(other, _)| *other != context & !1);
        self.quiet = self.list.is_empty() && self.revoked.is_empty() && self.over.is_none();
    }

    /// Acknowledges the first `most` losses of a communicator's group; answers how many are.
    pub(super) fn acknowledge(
        &mut self,
        context: u32,
        group: Option<&Group>,
        most: usize,
    ) -> usize {
        let first: Vec<Peer> = self
            .members(group)
            .take(most)
            .map(|(peer, _)| *peer)
            .collect();
        self.acknowledge_these(context, &first);
        self.acknowledged_of(context, group).len()
    }

    /// Acknowledges the losses of these, whether they are known yet or not.
    pub(super) fn acknowledge_these(&mut self, context: u32, peers: &[Peer]) {
        let context = context & !1;
        let place = self
            .acknowledged
            .iter()
            .position(|(other, _)| *other == context);
        let place = place.unwrap_or_else(|| {
            self.acknowledged.push((context, Vec::new()));
            self.acknowledged.len() - 1
        });
        let own = &mut self.acknowledged[place].1;
        for peer in peers {
            if !own.contains(peer) {
                own.push(*peer);
            }
        }
    }

    fn is_acknowledged(&self, context: u32, peer: Peer) -> bool {
        let mut all = self.acknowledged.iter();
        let found = all.find(|(other, _)| *other == context & !1);
        found.is_some_and(|(_, peers)| peers.contains(&peer))
    }

    /// The acknowledged losses of a communicator's group.
    pub(super) fn acknowledged_of(&self, context: u32, group: Option<&Group>) -> Vec<Peer> {
        self.members(group)
            .map(|(peer, _)| *peer)
            .filter(|peer| self.is_acknowledged(context, *peer))
            .collect()
    }

    /// The first loss of a communicator's group that is not acknowledged there.
    pub(super) fn unacknowledged(&self, context: u32, group: Option<&Group>) -> Option<Error> {
        self.members(group)
            .find(|(peer, _)| !self.is_acknowledged(context, *peer))
            .map(error_of)
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
        let mut gone = self.members(group);
        let last = gone.next_back()?;
        (gone.count() + 1 >= others).then(|| error_of(last))
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
        let error = Error::new(ErrorClass::ProcFailed, format!("{peer} was killed"));
        lost.note(Peer(peer), "killed", error);
    }

    #[test]
    fn another_with_the_number_of_a_lost_one_is_not_lost() {
        let mut lost = LostPeers::new(FirstPeers(2));
        for peer in [5, 1, 5] {
            lose(&mut lost, peer);
        }
        let group = Group::of(vec![Peer(1), Peer(5)]);
        lost.acknowledge(6, Some(&group), 1);
        lost.forget(Peer(5));
        assert!(lost.error_of(Peer(5)).is_none() && lost.error_of(Peer(1)).is_some());
        assert_eq!(lost.list.len(), 3);
        assert_eq!(lost.acknowledge(6, Some(&group), 1), 1);
        assert!(lost.unacknowledged(6, Some(&group)).is_none());
        lose(&mut lost, 5);
        assert!(lost.unacknowledged(6, Some(&group)).is_some(), "a new one");
        assert!(lost.unacknowledged(6, None).is_none(), "none of the first");
    }

    #[test]
    fn a_receive_from_any_source_is_told_of_members_alone() {
        let mut lost = LostPeers::new(FirstPeers(5));
        let group = Group::of(vec![Peer(0), Peer(2), Peer(4)]);
        assert!(lost.is_quiet() && lost.error_of(Peer(1)).is_none());
        lose(&mut lost, 1);
        assert!(lost.error_of(Peer(1)).is_some());
        assert!(lost.unacknowledged(6, None).is_some());
        let of_group = |lost: &LostPeers| lost.unacknowledged(6, Some(&group));
        assert!(of_group(&lost).is_none(), "it is no member");
        lose(&mut lost, 2);
        assert!(of_group(&lost).is_some());
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
    fn a_loss_may_be_acknowledged_before_it_is_known() {
        let mut lost = LostPeers::new(FirstPeers(5));
        lost.acknowledge_these(6, &[Peer(3)]);
        assert!(lost.acknowledged_of(6, None).is_empty());
        for peer in [4, 3] {
            lose(&mut lost, peer);
        }
        assert_eq!(lost.acknowledged_of(6, None), [Peer(3)]);
        let error = lost.unacknowledged(6, None).expect("the other one");
        assert!(error.text().contains('4'), "{error}");
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
