//! Recovery from losses: revoked communicators, and agreements of the remaining members.
//!
//! | what | how |
//! |---|---|
//! | *revocation* | is sent to every member, by the member that revokes and once more by each that learns of it: when one has learned of it, all living ones will, whichever members die meanwhile. Each ends operations under way on the communicator, and refuses later ones |
//! | *loss* | is sent to the ranks of other hosts by each rank that learns of it, if the program goes on after losses |
//! | *agreement* | a decision that is the same at all living members, whichever members die meanwhile: see [`agreement`] |
//!
//! Both are [messages](message) of the engine, which need neither the communicator nor a request of their receiver.
//! [`LostPeers`](super::lost_peers::LostPeers) has what is known of losses and revocations.

mod agreement;
mod decision;
mod message;

use std::sync::Arc;

use weft_fabric::{Head, Peer, SharedBytes};
use weft_sys::span::SHORT;

use super::deferred::Deferred;
use super::outbox::{Load, Waiting};
use super::{Core, Engine};
use crate::error::{Error, Result};
use crate::group::Group;

pub(super) use agreement::Agreements;
pub(crate) use decision::{AgreementOutcome, Contribution, Decided, Decision, Purpose};
pub(super) use message::RecoveryMessage;
use message::{Body, RecoveryHead, ranges_of};

impl Core {
    /// A message of recovery, if it is one.
    pub(super) fn recovery_message(
        &mut self,
        from: Peer,
        head: &Head,
        data: SharedBytes<'_>,
    ) -> bool {
        // Copied only if it is one: every message of a guest is asked.
        let message = RecoveryMessage::has(head)
            .then(|| RecoveryMessage::parse(head, &data.to_vec()))
            .flatten();
        let Some(message) = message else {
            return false;
        };
        self.deferred.push(Deferred::Recovery { from, message });
        true
    }
}

impl Engine {
    /// Refuses what is begun on a revoked communicator.
    #[inline]
    pub(crate) fn check_usable(&self, context: u32) -> Result<()> {
        if self.core.lost.is_quiet() {
            return Ok(());
        }
        self.core.lost.refusal(context).map_or(Ok(()), Err)
    }

    /// Why a collective call of this name on a communicator cannot come to its end, if a member is lost or it is revoked.
    pub(crate) fn refusal_of(&self, name: &str, context: u32, group: &Group) -> Option<Error> {
        if self.core.lost.is_quiet() {
            return None;
        }
        self.core.lost.refusal_of(name, context, Some(group))
    }

    /// Whether no peer is lost and no communicator revoked.
    #[inline(always)]
    pub(crate) fn has_no_losses(&self) -> bool {
        self.core.lost.is_quiet()
    }

    /// Whether a communicator is revoked.
    pub(crate) fn is_revoked(&self, context: u32) -> bool {
        self.core.lost.is_revoked(context)
    }

    /// Revokes a communicator of these members, here and at all of them.
    pub(crate) fn revoke(&mut self, context: u32, members: &[Peer]) {
        self.hear_revoked(context & !1, members.to_vec());
        self.drain_deferred();
    }

    /// A communicator is revoked: the others are told, and what is under way on it ends.
    fn hear_revoked(&mut self, context: u32, members: Vec<Peer>) {
        if !self.core.lost.note_revoked(context) {
            return;
        }
        self.watch_revoked();
        let me = self.fabric.me();
        let head = RecoveryHead::Revoked { context };
        let body = Body::Members(ranges_of(&members));
        for peer in members {
            if peer != me {
                self.send_recovery(peer, head, &body);
            }
        }
        let Some(error) = self.core.lost.refusal(context) else {
            return;
        };
        self.end_all(&error, |slot| {
            slot.context() & !1 == context && slot.on_complete().run.is_none()
        });
        self.core.boards.revoke(context, &error);
        let of = |run: u32| run & !1 == context;
        for run in self.core.runs.that(|run| of(run.context().context())) {
            self.break_off(run, &error);
        }
        // Probes, those who wait at boards and those who wait for calls look again.
        self.core.wake_all();
        self.wake_receivers_from_anybody();
    }

    /// While a communicator is revoked, sends and receives take the way on which that is asked.
    pub(super) fn watch_revoked(&mut self) {
        let watched = self.core.lost.is_any_revoked();
        self.core.events.watch(watched);
        self.injected_below = if watched { 0 } else { self.eager + 1 };
        self.writers = if self.injected_below > SHORT {
            self.fabric.writers()
        } else {
            Arc::default()
        };
    }

    /// A communicator is freed: that it is revoked, or what was acknowledged, does not matter any more.
    pub(crate) fn forget_losses_of(&mut self, context: u32) {
        self.core.lost.forget_context(context);
        self.watch_revoked();
    }

    /// The lost members of a communicator, in the order in which that became known here.
    pub(crate) fn failed(&mut self, group: Option<&Group>) -> Vec<Peer> {
        self.look_for_losses();
        self.core.lost.of(group)
    }

    /// The lost members that are acknowledged.
    pub(crate) fn acknowledged(&self, context: u32, group: Option<&Group>) -> Vec<Peer> {
        self.core.lost.acknowledged_of(context, group)
    }

    /// Acknowledges the first `most` losses of a communicator; answers how many are acknowledged. Receives from
    /// anybody that were held up by them go on.
    pub(crate) fn acknowledge(
        &mut self,
        context: u32,
        group: Option<&Group>,
        most: usize,
    ) -> usize {
        self.core.lost.acknowledge(context, group, most)
    }

    /// Acknowledges the losses of these, also of those that have not become known here yet.
    pub(crate) fn acknowledge_these(&mut self, context: u32, peers: &[Peer]) {
        self.core.lost.acknowledge_these(context, peers);
    }

    /// The lost members of a group as they are known here, with the reasons.
    pub(crate) fn losses(&self, group: &Group) -> Vec<(Peer, String)> {
        self.core.lost.with_reasons(group)
    }

    /// A peer is lost, as another engine of this rank knows.
    pub(crate) fn hear_lost(&mut self, peer: Peer, reason: &str) {
        self.core.deferred.push(Deferred::Lost {
            peer,
            reason: reason.to_owned(),
        });
        self.drain_deferred();
    }

    /// What has been told already is heard of.
    fn look_for_losses(&mut self) {
        if !self.driven {
            self.progress();
        }
    }

    /// Sends a message of recovery, now or when there is room. To who is lost nothing is sent.
    fn send_recovery(&mut self, to: Peer, head: RecoveryHead, body: &Body) {
        if self.core.lost.has(to) {
            return;
        }
        let waiting = Waiting {
            head: head.to_head(),
            load: Load::Owned(body.to_bytes(self.most_eager).into()),
            request: None,
        };
        self.outbox.push(to, waiting);
        self.flush();
    }

    /// A message of recovery has come.
    pub(super) fn recover(&mut self, from: Peer, message: RecoveryMessage) {
        let RecoveryMessage { head, body } = message;
        match (head, body) {
            (RecoveryHead::Revoked { context }, Body::Members(ranges)) => {
                let peers = self.fabric.peers();
                let members = message::peers_of(&ranges, peers);
                self.hear_revoked(context, members);
            }
            (RecoveryHead::Agreement { key, verb }, body) => {
                self.hear_agreement(from, key, verb, body)
            }
            (RecoveryHead::Lost { incarnation }, Body::Members(ranges)) => {
                let lost = message::peers_of(&ranges, self.fabric.peers());
                self.hear_losses_of(from, incarnation, &lost);
            }
            (RecoveryHead::Revoked { .. } | RecoveryHead::Lost { .. }, _) => {
                self.core.counters.refused.add(1);
            }
        }
    }

    /// The program goes on after losses.
    pub(crate) fn prepare_for_losses(&mut self) {
        self.tells_losses = true;
    }

    /// Tells a loss to the ranks of other hosts: a rank that has no connection to the lost one does not hear of it otherwise, and
    /// may wait for it. Of those that have its number one after the other the message says which one: it may come when the next
    /// one has that.
    pub(super) fn tell_loss(&mut self, lost: Peer) {
        if !self.tells_losses {
            return;
        }
        let body = Body::Members(ranges_of(&[lost]));
        let incarnation = self.fabric.incarnation(lost);
        let (first, me) = (self.core.lost.first().0, self.fabric.me());
        for peer in (0..first).map(Peer).filter(|peer| *peer != me) {
            if self.far.get(peer.index()) == Some(&true) {
                self.send_recovery(peer, RecoveryHead::Lost { incarnation }, &body);
            }
        }
    }

    /// A peer is lost, as another one has told, which may not know how.
    fn lose_as_told(&mut self, peer: Peer, from: Peer) {
        let cause = self.fabric.cause_of_loss(peer);
        let reason =
            cause.unwrap_or_else(|| format!("rank {from} of MPI_COMM_WORLD has found it lost"));
        self.lose(peer, &reason);
    }

    /// A peer has found others lost, which may not be known here yet.
    fn hear_losses(&mut self, from: Peer, lost: &[Peer]) {
        let me = self.fabric.me();
        for &peer in lost.iter().filter(|peer| **peer != me) {
            self.lose_as_told(peer, from);
        }
    }

    /// The same, of processes of this incarnation.
    fn hear_losses_of(&mut self, from: Peer, incarnation: u32, lost: &[Peer]) {
        let me = self.fabric.me();
        for &peer in lost.iter().filter(|peer| **peer != me) {
            let known = self.fabric.incarnation(peer);
            if incarnation > known {
                // It came after the one that is known here.
                self.core.lost.note_unknown_lost(peer, incarnation, from);
            } else if incarnation == known {
                self.lose_as_told(peer, from);
            }
        }
    }

    /// Another process has the number of a peer: it may have been found lost by others before this rank knew of it.
    pub(super) fn hear_of_unknown_lost(&mut self, peer: Peer) {
        let now = self.fabric.incarnation(peer);
        if let Some(from) = self.core.lost.take_unknown_lost(peer, now) {
            self.lose_as_told(peer, from);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weft_atomic::{AtomicU32, Ordering};
    use weft_fabric::{Fabric, Peer, forward_fabric};
    use weft_fabric_shm::Shm;

    use super::message::{Body, RecoveryHead, RecoveryMessage};
    use crate::process::Process;

    /// One after the other has the number of a peer.
    struct Growing {
        inner: Shm,
        incarnation: Arc<AtomicU32>,
    }

    impl Fabric for Growing {
        fn incarnation(&self, _peer: Peer) -> u32 {
            self.incarnation.load(Ordering::Relaxed)
        }

        fn cause_of_loss(&self, peer: Peer) -> Option<String> {
            let process = self.incarnation(peer);
            (process == 7).then(|| format!("process {process} was killed"))
        }

        forward_fabric!(self => self.inner; me, peers, limits, bell, now, route, try_send, inject, take_next, poll, grant, offer, revoke, get,
            put, signal, signals, take_signals, forget, shares_memory, allocate_shared, release_shared, attach_shared, is_asleep,
            wake, is_any_beside, is_flushed, say_goodbye, traffic);
    }

    #[test]
    fn a_loss_is_that_of_the_process_that_had_the_number_then() {
        let mut group = Shm::group(3).expect("a memory file");
        let incarnation = Arc::new(AtomicU32::new(4));
        let inner = group.remove(0);
        let process = Process::new(Box::new(Growing {
            inner,
            incarnation: Arc::clone(&incarnation),
        }));
        let tell = |incarnation| RecoveryMessage {
            head: RecoveryHead::Lost { incarnation },
            body: Body::Members(vec![(2, 1)]),
        };
        let mut engine = process.lock();
        engine.recover(Peer(1), tell(3));
        assert!(!engine.core.lost.has(Peer(2)), "the one before is lost");
        engine.recover(Peer(1), tell(6));
        assert!(!engine.core.lost.has(Peer(2)), "one after it is lost");
        for (now, lost) in [(5, false), (6, true), (7, false)] {
            incarnation.store(now, Ordering::Relaxed);
            engine.replace(Peer(2));
            assert_eq!(engine.core.lost.has(Peer(2)), lost, "{now}");
        }
        engine.recover(Peer(1), tell(7));
        assert!(engine.core.lost.has(Peer(2)));
        let error = engine.core.lost.error_of(Peer(2)).expect("it is lost");
        assert!(error.text().contains("process 7 was killed"), "{error}");
    }
}
