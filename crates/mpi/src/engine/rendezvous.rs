//! Rendezvous: the sender grants, the receiver pulls through the portal once it has matched, and answers.
//!
//! ```text
//!  sender                                  receiver
//!  grant ── Rts{size, token, request} ────► matching
//!                                           get(token)  (one copy, into the user's buffer)
//!  complete ◄── Fin{request} ──────────────  complete
//! ```
//!
//! The answer ends the sender's grant, which an honest receiver has used up by then; so whatever a receiver sends, no
//! peer reads the buffer once the send has ended.
//!
//! If the receiver's elements have gaps, the data are pulled into memory of the engine and unpacked; if there are many of
//! them, or the sender's elements have gaps, they are asked for in [pieces](super::pieces) instead. A receive that is too
//! small pulls what fits and ends with `MPI_ERR_TRUNCATE`.

use weft_fabric::{Operation, Peer, Posted};

use super::deferred::Deferred;
use super::envelope::Envelope;
use super::events::EventKind;
use super::pulls::Refused;
use super::receiving::Transfer;
use super::request_id::RequestId;
use super::{BUDGET, Engine};
use crate::error::{Error, ErrorClass};

/// Looks at what has come, at most, before a receive ends whose sender has withdrawn its data.
const LOOKS_AT_WITHDRAWAL: u32 = 16;

impl Engine {
    /// A receive is matched with data that wait at the sender.
    pub(super) fn pull(&mut self, id: RequestId, from: Peer, envelope: &Envelope) {
        let slot = self.core.requests.get_mut(id);
        let into = match slot.and_then(|slot| slot.begin_transfer(from, envelope)) {
            Some(Transfer::Pull(into)) => into,
            Some(Transfer::Pieces) => return self.ask_for_pieces(id, from, envelope),
            None => return,
        };
        let operation = Operation(self.core.pulls.next_number());
        let reply = envelope.reply();
        let message = (envelope.tag, envelope.context);
        // Also if that is nothing: the get uses up the grant.
        match self.fabric.get(from, envelope.token, 0, into, operation) {
            Ok(Posted::Done) => {
                self.core.counters.pulls_begun.add(1);
                self.core.counters.pulls_ended.add(1);
                self.core
                    .raise(EventKind::PullBegun, Some(from), message, envelope.size);
                self.answer(from, reply);
                self.pulled(id, None);
            }
            Ok(Posted::Pending) => {
                self.core.counters.pulls_begun.add(1);
                self.core
                    .raise(EventKind::PullBegun, Some(from), message, envelope.size);
                self.core.pulls.begin(operation, id, from, reply);
            }
            Ok(Posted::Retry) => {
                self.core.counters.pulls_refused.add(1);
                // No room to ask: tried again after the next poll, which makes some.
                self.core.match_to_pull(id);
                self.core.pulls.refuse(Refused {
                    request: id,
                    from,
                    envelope: *envelope,
                });
            }
            Err(cause) => {
                self.answer(from, reply);
                self.pulled(id, Some(Error::from(cause)));
            }
        }
    }

    /// Pulls that were refused for want of room are tried again.
    pub(super) fn retry_pulls(&mut self) {
        for pull in self.core.pulls.take_refused() {
            self.pull(pull.request, pull.from, &pull.envelope);
        }
    }

    /// The data of a receive have been pulled, or not.
    pub(super) fn pulled(&mut self, id: RequestId, error: Option<Error>) {
        match error {
            Some(error) if error.class() == ErrorClass::Other => {
                // The sender has given up, for a reason that it may have told before, or that the fabric tells.
                for _ in 0..LOOKS_AT_WITHDRAWAL {
                    if self.fabric.poll(&mut self.core, BUDGET) == 0 {
                        break;
                    }
                }
                self.core
                    .deferred
                    .push(Deferred::Withdrawn { request: id, error });
            }
            other => self.end_pull(id, other),
        }
    }

    /// The sender has withdrawn the data of a receive.
    pub(super) fn withdrawn(&mut self, id: RequestId, error: Error) {
        let slot = self.core.requests.get(id);
        let why = slot.and_then(|slot| {
            let context = slot
                .on_complete()
                .run
                .and_then(|run| self.core.runs.get(run));
            let context = context.map_or(slot.context(), |run| run.context().context());
            self.core.lost.refusal(context)
        });
        self.end_pull(id, Some(why.unwrap_or(error)));
    }

    fn end_pull(&mut self, id: RequestId, error: Option<Error>) {
        let slot = self.core.requests.get_mut(id);
        if let Some(slot) = &slot {
            let ((peer, tag, bytes), context) = (slot.said(), slot.context());
            self.core
                .raise(EventKind::PullEnded, peer, (tag, context), bytes);
        }
        let slot = self.core.requests.get_mut(id);
        if slot.is_some_and(|slot| slot.end_pull(error)) {
            self.core.complete(id);
        }
    }

    /// Tells a sender that its message is matched and its buffer free.
    pub(super) fn answer(&mut self, to: Peer, reply: Envelope) {
        self.post_control(to, reply.to_head());
    }

    /// The receiver of a rendezvous says that it has the data: nobody reads them after this.
    pub(super) fn answered(&mut self, id: RequestId) {
        let slot = self.core.requests.get(id);
        let Some(sending) = slot.and_then(|slot| slot.answered()) else {
            return;
        };
        let (to, was_announced) = (sending.to(), sending.is_announced());
        if let Some(grant) = sending.grant() {
            self.fabric.revoke(grant);
            self.core.raise(EventKind::Answered, Some(to), (-1, 0), 0);
        }
        self.core.complete(id);
        if was_announced {
            self.end_announced(to);
        }
    }
}
