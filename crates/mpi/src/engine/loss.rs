//! A peer is lost: what waits for it ends in an error that names it, instead of waiting for ever.
//!
//! | what | ends |
//! |---|---|
//! | a send to it, a receive or a probe from it | at once, also what is begun later |
//! | a receive or a probe from anybody of a communicator that it belongs to | at once, so that whoever waits is told; what is begun later goes on, unless all others are lost, too |
//! | a collective of a communicator that it belongs to | when what has come does not suffice; what is begun later at once |
//!
//! A communicator without the lost one knows nothing of it.
//!
//! A receive that is matched is not ended here, whoever is lost: its message has come, or the transfer of
//! its data says how it ended. See [`Receiving`].

use weft_fabric::{FabricError, Peer};

use super::request::{Phase, Receiving, RequestId, SendState, Work};
use super::schedule::ScheduleId;
use super::{Engine, Todo};
use crate::error::{Error, ErrorClass};
use crate::group::Group;

/// Whether a peer belongs to a group; without one, to all peers.
fn is_member(group: Option<&Group>, peer: Peer) -> bool {
    group.is_none_or(|group| group.rank_of(peer).is_some())
}

impl Engine {
    /// A peer is lost.
    pub(super) fn lose(&mut self, peer: Peer, reason: &str) {
        let error = Error::new(
            ErrorClass::ProcFailed,
            format!(
                "rank {peer} of MPI_COMM_WORLD is lost: {reason}; start the job again, or look at its own last output"
            ),
        );
        // What comes later asks here.
        self.core.lost.push((peer, reason.to_owned()));
        self.outbox.drop_peer(peer);
        self.end_all(&error, |engine, id| engine.concerns(id, peer));
        for run in self.core.runs.with_member(peer) {
            self.break_off(run, &error);
        }
        // Probes look again.
        self.core.wake_probing();
    }

    /// Ends all requests under way that `which` names.
    fn end_all(&mut self, error: &Error, which: impl Fn(&Self, RequestId) -> bool) {
        let waiting: Vec<RequestId> = self
            .core
            .requests
            .live()
            .filter(|(id, slot)| slot.phase == Phase::Active && which(self, *id))
            .map(|(id, _)| id)
            .collect();
        for id in waiting {
            self.fail(id, error.clone());
        }
    }

    /// Ends a request with an error; nothing comes in or goes out for it any more. Only a posted receive or a
    /// send may be ended so.
    pub(super) fn fail(&mut self, id: RequestId, error: Error) {
        let Some(slot) = self.core.requests.get_mut(id) else {
            return;
        };
        match &slot.work {
            Work::Receive {
                state: Receiving::Posted(handle),
                ..
            } => {
                if !self.core.matching.cancel(*handle) {
                    return;
                }
            }
            Work::Send(sending) => {
                if sending.state == SendState::Queued {
                    self.outbox.withdraw(sending.to, id);
                }
                if let Some(grant) = sending.grant() {
                    self.fabric.revoke(grant);
                }
            }
            _ => return,
        }
        slot.outcome.error = Some(error);
        self.core.complete(id);
    }

    fn concerns(&self, id: RequestId, peer: Peer) -> bool {
        let Some(slot) = self.core.requests.get(id) else {
            return false;
        };
        match &slot.work {
            Work::Receive {
                state: Receiving::Posted(_),
                ..
            } => match slot.outcome.source {
                None => is_member(slot.group.as_deref(), peer),
                Some(from) => from == peer,
            },
            Work::Send(sending) => sending.to == peer,
            Work::Receive { .. } | Work::Nothing | Work::Schedule => false,
        }
    }

    /// Ends a collective that cannot come to its end. What has come already may suffice.
    pub(super) fn break_off(&mut self, run: ScheduleId, error: &Error) {
        self.advance(run);
        if !self.core.runs.fail(run, error) {
            return;
        }
        self.end_parts(run, error);
        self.core.todo.push(Todo::Advance(run));
    }

    /// Ends what a collective has begun, but for what ends by itself: matched receives, and sends whose data
    /// go with the message.
    pub(super) fn end_parts(&mut self, run: ScheduleId, error: &Error) {
        self.end_all(error, |engine, id| {
            engine.core.requests.get(id).is_some_and(|slot| {
                let ends = match &slot.work {
                    Work::Receive { state, .. } => matches!(state, Receiving::Posted(_)),
                    Work::Send(sending) => sending.grant().is_some(),
                    Work::Nothing | Work::Schedule => false,
                };
                ends && slot.duties().parent == Some(run)
            })
        });
    }

    /// Ends a receive that was just posted and that nobody is left to send to.
    #[cold]
    pub(super) fn fail_if_lost(&mut self, request: RequestId, from: Option<Peer>) {
        let Some(slot) = self.core.requests.get(request) else {
            return;
        };
        if let Some(error) = self.nobody_sends(from, slot.group.as_deref()) {
            self.fail(request, error);
        }
    }

    /// The error of a receive or a probe whose sender is lost; for anybody, if all others are.
    pub(crate) fn nobody_sends(&self, from: Option<Peer>, group: Option<&Group>) -> Option<Error> {
        let lost = &self.core.lost;
        if let Some(from) = from {
            return lost.iter().find(|(peer, _)| *peer == from).map(error_of);
        }
        let me = self.fabric.me();
        let others = match group {
            Some(group) => group.members().filter(|peer| *peer != me).count(),
            None => self.fabric.peers() as usize - 1,
        };
        let mut gone = lost.iter().filter(|(peer, _)| is_member(group, *peer));
        let last = gone.next_back()?;
        (gone.count() + 1 >= others).then(|| error_of(last))
    }

    /// The error of a probe of anybody: somebody has been lost since `known` were.
    pub(crate) fn lost_since(&self, known: usize, group: Option<&Group>) -> Option<Error> {
        let later = self.core.lost.get(known..)?;
        let found = later.iter().find(|(peer, _)| is_member(group, *peer));
        found.map(error_of)
    }
}

fn error_of((peer, reason): &(Peer, String)) -> Error {
    Error::from(FabricError::PeerLost {
        peer: *peer,
        reason: reason.clone(),
    })
}
