//! Loss of a peer: operations that wait for it end in an error that names it, instead of waiting for ever.
//!
//! | operation | ends |
//! |---|---|
//! | a send to it, a receive or a probe from it | at once, also if begun later |
//! | a receive or a probe from `MPI_ANY_SOURCE` on a communicator that it belongs to | in the wait for it, as long as the loss is not acknowledged there: a blocking call ends, a request goes on. When all others are lost it ends |
//! | an operation to it in a window, a wait for a lock, a post or a completion in a window that it belongs to | at once |
//! | a collective of a communicator that it belongs to | when what has arrived does not suffice; one begun later at once |
//!
//! A communicator without the lost peer is not affected. The program can then use [`recovery`](super::recovery).
//!
//! A peer whose process has ended in order is not lost. Only a send to it that it has not answered ends, in the same error.
//!
//! A matched receive is not ended here, whichever peer is lost: its message has arrived, or the transfer of its data
//! reports how it ended. But a receive whose data come in pieces ends with their sender. See
//! [`ReceiveState`](super::receiving::ReceiveState).

use weft_fabric::{FabricError, Peer};

use super::Engine;
use super::deferred::Deferred;
use super::events::EventKind;
use super::lost_peers::FirstPeers;
use super::request::Request;
use super::request_id::RequestId;
use super::schedule::RunId;
use crate::error::{Error, ErrorClass};
use crate::group::Group;

impl Engine {
    /// A peer is lost.
    pub(super) fn lose(&mut self, peer: Peer, reason: &str) {
        let error = Error::new(
            ErrorClass::ProcFailed,
            format!(
                "{} is lost: {reason}; start the job again, or look at its own last output",
                name_of(peer, self.core.lost.first(), self.fabric.route(peer))
            ),
        );
        self.lose_by(peer, reason, error);
    }

    /// This rank has ended: whatever is begun later, by whoever has kept an object of it, is this error.
    pub(crate) fn lose_all(&mut self, error: &Error) {
        for peer in (0..self.fabric.peers()).map(Peer) {
            self.lose_by(peer, error.text(), error.clone());
        }
        self.core.lost.end(error.clone());
    }

    fn lose_by(&mut self, peer: Peer, reason: &str, error: Error) {
        if self.core.lost.has(peer) {
            // Another peer has found it lost before the fabric did.
            return;
        }
        // What comes later asks here.
        self.core.lost.note(peer, reason, error.clone());
        self.core.counters.lost.add(1);
        self.core.raise(EventKind::Lost, Some(peer), (-1, 0), 0);
        self.outbox.drop_peer(peer);
        self.withheld.forget_peer(peer);
        let first = self.core.lost.first();
        self.hold_up_receives(peer);
        self.end_all(&error, |slot| concerns(slot, peer));
        self.core.lose_in_windows(peer, &error);
        self.core.boards.lose(peer, &error);
        let takes_part = |group: Option<&Group>| first.is_member(group, peer);
        for run in self.core.runs.that(|run| takes_part(run.context().group())) {
            self.break_off(run, &error);
        }
        self.tell_loss(peer);
        self.advance_all_agreements();
        // Probes look again.
        self.core.wake_all();
    }

    /// The process of a peer has ended in order. That is no loss, and who waits for something of it waits in vain; but a send that it
    /// has not answered fails as one does that is begun later.
    #[cold]
    pub(super) fn end_sends_to(&mut self, peer: Peer, reason: String) {
        let error = Error::from(FabricError::PeerLost { peer, reason });
        self.end_all(&error, |slot| {
            slot.sending().is_some_and(|sending| sending.to() == peer)
        });
    }

    /// Receives from anybody: those that nobody is left to send to end, and who waits for others is told of the loss.
    fn hold_up_receives(&mut self, peer: Peer) {
        let first = self.core.lost.first();
        for id in self.receives_from_anybody() {
            let slot = self.core.requests.get(id);
            if slot.is_some_and(|slot| first.is_member(slot.group(), peer)) {
                self.fail_if_lost(id, None);
                self.fail_if_held_up(id);
            }
        }
        self.wake_receivers_from_anybody();
    }

    fn receives_from_anybody(&self) -> Vec<RequestId> {
        let from_anybody = |slot: &Request| {
            slot.is_active() && slot.posted().is_some() && slot.expected_source().is_none()
        };
        let live = self.core.requests.live();
        let found = live.filter(|(_, slot)| from_anybody(slot));
        found.map(|(id, _)| id).collect()
    }

    /// Those who wait for a receive from anybody look again: whether it is held up, or whether the communicator for which a call at
    /// a port is waited for can still be used.
    pub(super) fn wake_receivers_from_anybody(&mut self) {
        for id in self.receives_from_anybody() {
            if let Some(slot) = self.core.requests.get_mut(id)
                && slot.has_on_complete()
                && let Some(waiter) = slot.on_complete_mut().waiter.take()
            {
                let core = &mut self.core;
                core.waiters.wake_for_request(waiter, &mut core.callbacks);
            }
        }
    }

    /// A receive that carries out a part of another request is not waited for itself: held up, it ends.
    pub(super) fn fail_if_held_up(&mut self, id: RequestId) {
        let slot = self.core.requests.get(id);
        let is_part = slot.is_some_and(|slot| {
            slot.has_on_complete()
                && slot.on_complete().follower.is_some()
                && slot.posted().is_some()
        });
        if is_part && let Some(error) = self.held_up(id) {
            self.fail(id, Error::new(ErrorClass::ProcFailed, error.text()));
        }
    }

    /// The error of whoever waits for a receive from anybody, while a loss is not acknowledged on its communicator. The
    /// receive goes on.
    #[inline]
    pub(crate) fn held_up(&self, id: RequestId) -> Option<Error> {
        if self.core.lost.is_quiet() {
            return None;
        }
        self.held_up_by_loss(id)
    }

    #[cold]
    fn held_up_by_loss(&self, id: RequestId) -> Option<Error> {
        let slot = self.core.requests.get(id).filter(|slot| slot.is_active())?;
        if slot.posted().is_none() || slot.expected_source().is_some() {
            return None;
        }
        let error = self
            .core
            .lost
            .unacknowledged(slot.context(), slot.group())?;
        Some(Error::new(
            ErrorClass::ProcFailedPending,
            format!(
                "{error}; the receive goes on once that is acknowledged (MPIX_Comm_ack_failed), or is to be cancelled"
            ),
        ))
    }

    /// Another process has the number of a peer: the new one is not lost.
    #[cold]
    pub(super) fn replace(&mut self, peer: Peer) {
        self.core.lost.forget(peer);
        self.outbox.drop_peer(peer);
        self.withheld.forget_peer(peer);
        self.hear_of_unknown_lost(peer);
    }

    /// Ends all requests under way that `which` names.
    pub(super) fn end_all(&mut self, error: &Error, which: impl Fn(&Request) -> bool) {
        let waiting: Vec<RequestId> = self
            .core
            .requests
            .live()
            .filter(|(_, slot)| slot.is_active() && which(slot))
            .map(|(id, _)| id)
            .collect();
        for id in waiting {
            self.fail(id, error.clone());
        }
    }

    /// Ends a request with an error; nothing comes in or goes out for it any more. Only a posted receive, one whose
    /// data come in pieces, or a send may be ended so.
    fn fail(&mut self, id: RequestId, error: Error) {
        let Some(slot) = self.core.requests.get_mut(id) else {
            return;
        };
        let mut announced_to = None;
        if let Some(handle) = slot.posted() {
            if !self.core.matching.cancel(handle) {
                return;
            }
            self.core.counters.posted_withdrawn.add(1);
        } else if let Some(sending) = slot.sending() {
            if sending.is_queued() {
                self.outbox.withdraw(sending.to(), id);
            }
            if let Some(grant) = sending.grant() {
                self.fabric.revoke(grant);
            }
            announced_to = sending.is_announced().then(|| sending.to());
        } else if slot.pieces_from().is_none() {
            return;
        }
        slot.fail(Some(error));
        self.core.complete(id);
        if let Some(to) = announced_to {
            self.end_announced(to);
        }
    }

    /// Ends a collective that cannot come to its end. What has come already may suffice.
    pub(super) fn break_off(&mut self, run: RunId, error: &Error) {
        self.advance(run);
        if !self.core.runs.fail(run, error) {
            return;
        }
        self.end_transfers_of(run, error);
        self.core.deferred.push(Deferred::Advance(run));
    }

    /// Ends what a collective has begun, but for what ends by itself: matched receives, and sends whose data
    /// go with the message.
    pub(super) fn end_transfers_of(&mut self, run: RunId, error: &Error) {
        self.end_all(error, |slot| {
            let granted = slot
                .sending()
                .is_some_and(|sending| sending.grant().is_some());
            (slot.posted().is_some() || granted) && slot.on_complete().run == Some(run)
        });
    }

    /// Ends a posted receive that nobody is left to send to, or whose communicator is revoked.
    #[cold]
    pub(super) fn fail_if_lost(&mut self, request: RequestId, from: Option<Peer>) {
        let Some(slot) = self.core.requests.get(request) else {
            return;
        };
        let revoked = self.core.lost.refusal(slot.context());
        if let Some(error) = revoked {
            self.fail(request, error);
        } else if let Some(error) = self.nobody_sends(from, slot.group()) {
            self.fail(request, error);
        }
    }

    /// The error of a receive or a probe whose sender is lost; for anybody, if all others are.
    pub(super) fn nobody_sends(&self, from: Option<Peer>, group: Option<&Group>) -> Option<Error> {
        let lost = &self.core.lost;
        if let Some(from) = from {
            return lost.error_of(from);
        }
        let me = self.fabric.me();
        let others = match group {
            Some(group) => group.members().filter(|peer| *peer != me).count(),
            None => lost.first().0 as usize - 1,
        };
        lost.error_of_all(group, others)
    }
}

/// A peer, for people.
fn name_of(peer: Peer, first: FirstPeers, route: &str) -> String {
    match first.is_member(None, peer) {
        false if route.ends_with("another job") => "a process of another job".to_owned(),
        true => format!("rank {peer} of MPI_COMM_WORLD"),
        false => format!("process {peer} of the job, which was started from within a program,"),
    }
}

/// Whether a request waits for a peer.
fn concerns(slot: &Request, peer: Peer) -> bool {
    if slot.posted().is_some() {
        return match slot.expected_source() {
            // Those are held up.
            None => false,
            Some(from) => from == peer,
        };
    }
    slot.pieces_from() == Some(peer) || slot.sending().is_some_and(|sending| sending.to() == peer)
}
