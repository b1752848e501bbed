//! Deferred work: work with the fabric that polling left, because the fabric cannot be called while it is polled.
//!
//! It is the engine's own code, run right after the poll by [`Engine::run_deferred`]. The program's own code, which must
//! not run while the engine is held, is [`callbacks`](super::callbacks).

use weft_fabric::Peer;

use super::Engine;
use super::envelope::Envelope;
use super::partitioned::ChannelId;
use super::recovery::RecoveryMessage;
use super::request_id::RequestId;
use super::schedule::{RunId, Which};
use crate::error::Error;

/// One thing that polling left to do.
#[derive(Debug)]
pub(super) enum Deferred {
    /// A receive is matched with data that wait at the sender.
    Pull {
        request: RequestId,
        from: Peer,
        envelope: Envelope,
    },
    /// Tell a sender that its message is matched and its buffer free.
    Answer { to: Peer, reply: Envelope },
    /// The receiver of a rendezvous says that it has the data.
    Answered(RequestId),
    /// The receiver of a rendezvous asks for the data, in pieces for its receive.
    Asked {
        request: RequestId,
        receive: RequestId,
    },
    /// A transfer by portal has ended.
    Pulled {
        request: RequestId,
        error: Option<Error>,
    },
    /// A collective has got what does not belong to it.
    Mismatched(RunId),
    /// A peer has found that collectives of a context do not fit each other.
    ToldOfMismatch {
        which: Which,
        finder: Peer,
        error: Error,
    },
    /// A collective may go on.
    Advance(RunId),
    /// The sender of a partitioned receive is known.
    Announced(ChannelId),
    /// A receive could not pull its data, as the sender has withdrawn them: why may have come meanwhile.
    Withdrawn { request: RequestId, error: Error },
    /// A peer says something of flow control.
    Flow { from: Peer, envelope: Envelope },
    /// A peer says something of a loss.
    Recovery {
        from: Peer,
        message: RecoveryMessage,
    },
    /// A peer is lost.
    Lost { peer: Peer, reason: String },
    /// The process of a peer has ended in order.
    Departed { peer: Peer, reason: String },
    /// Another process has the number of a peer.
    Replaced(Peer),
}

/// What is left to do, in order.
#[derive(Debug, Default)]
pub(super) struct DeferredQueue {
    queue: Vec<Deferred>,
    /// Emptied, so that neither list gives up its memory when they change places.
    spare: Vec<Deferred>,
}

impl DeferredQueue {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    #[inline]
    pub(super) fn push(&mut self, deferred: Deferred) {
        self.queue.push(deferred);
    }

    pub(super) fn extend(&mut self, deferred: impl Iterator<Item = Deferred>) {
        self.queue.extend(deferred);
    }

    /// All of it; the list is to be given back to [`recycle`](Self::recycle), emptied.
    fn take(&mut self) -> Vec<Deferred> {
        let spare = std::mem::take(&mut self.spare);
        std::mem::replace(&mut self.queue, spare)
    }

    fn recycle(&mut self, emptied: Vec<Deferred>) {
        self.spare = emptied;
    }
}

impl Engine {
    /// Whether anything is left to do after a poll.
    #[inline]
    pub(super) fn has_deferred(&self) -> bool {
        let core = &self.core;
        !self.outbox.is_empty()
            | core.runs.want_look()
            | core.pulls.has_refused()
            | !core.deferred.is_empty()
            | core.one_sided.is_called()
            | core.guest.is_called()
            | core.boards.want_look()
    }

    /// Does what is left to do after a poll. True if anything moved.
    pub(super) fn run_deferred(&mut self) -> bool {
        let mut moved = false;
        if !self.outbox.is_empty() {
            moved |= self.flush();
        }
        if self.core.runs.want_look() {
            self.advance_signalling();
        }
        if self.core.pulls.has_refused() {
            self.retry_pulls();
        }
        self.drain_deferred();
        if self.core.one_sided.is_called() {
            let settled = self.settle_one_sided();
            if settled {
                self.core.wake_for_windows();
            }
            moved |= settled;
        }
        if self.core.guest.is_called() {
            moved |= self.settle_guest();
        }
        // The last: a loss that was just heard of ends a wait.
        if self.core.boards.are_awaited() {
            moved |= self.look_at_boards();
        }
        if self.core.boards.outstanding.are_busy() {
            moved |= self.look_at_outstanding();
        }
        moved
    }

    /// Something came for the guest, or it was called: it does what that has left to do.
    #[cold]
    fn settle_guest(&mut self) -> bool {
        let core = &mut self.core;
        let Some((moved, changes)) = core.guest.settle(&mut *self.fabric) else {
            return false;
        };
        if changes.is_empty() {
            return moved;
        }
        core.waiters.wake_for_changes(changes, &mut core.callbacks);
        changes.clear();
        // Who drives may wait for that as well.
        true
    }

    /// Does what is in the queue. More may appear meanwhile; each is done once.
    pub(super) fn drain_deferred(&mut self) {
        while !self.core.deferred.is_empty() {
            let mut all = self.core.deferred.take();
            all.drain(..).for_each(|one| self.do_deferred(one));
            self.core.deferred.recycle(all);
        }
    }

    fn do_deferred(&mut self, deferred: Deferred) {
        match deferred {
            Deferred::Pull {
                request,
                from,
                envelope,
            } => self.pull(request, from, &envelope),
            Deferred::Answer { to, reply } => self.answer(to, reply),
            Deferred::Answered(request) => self.answered(request),
            Deferred::Asked { request, receive } => self.send_pieces(request, receive),
            Deferred::Pulled { request, error } => self.pulled(request, error),
            Deferred::Mismatched(run) => self.end_mismatched(run),
            Deferred::ToldOfMismatch {
                which,
                finder,
                error,
            } => self.end_all_of_context(which, (finder, &error)),
            Deferred::Advance(run) => self.advance(run),
            Deferred::Announced(channel) => self.expect_pieces(channel),
            Deferred::Withdrawn { request, error } => self.withdrawn(request, error),
            Deferred::Flow { from, envelope } => self.control_flow(from, &envelope),
            Deferred::Recovery { from, message } => self.recover(from, message),
            Deferred::Lost { peer, reason } => self.lose(peer, &reason),
            Deferred::Departed { peer, reason } => self.end_sends_to(peer, reason),
            Deferred::Replaced(peer) => self.replace(peer),
        }
    }
}
