//! Bulk: the sender grants, the receiver pulls through the portal once it has matched, and answers.
//!
//! ```text
//!  sender                                  receiver
//!  grant ── Ready{size, token, request} ──► matching
//!                                           get(token)  (one copy, into the user's buffer)
//!  complete ◄── Finished{request} ─────────  complete
//! ```
//!
//! The answer ends the sender's grant, which an honest receiver has used up by then; so whatever a receiver says,
//! nobody reads the buffer once the send has ended.
//!
//! If the receiver's elements have gaps, the data are pulled into memory of the engine and unpacked.
//! A receive that is too small pulls what fits and ends with `MPI_ERR_TRUNCATE`.

use weft_fabric::{Operation, Peer, Posted, Region, Token};

use super::arrival::truncated;
use super::envelope::Envelope;
use super::request::{Outcome, Phase, Receiving, RequestId, SendState, Work};
use super::{Engine, Pulling};
use crate::buffer::{self, Buffer};
use crate::error::Error;
use crate::memory;

impl Engine {
    /// A receive is matched with data that wait at the sender.
    pub(crate) fn pull(&mut self, id: RequestId, from: Peer, envelope: &Envelope) {
        let Some(slot) = self.core.requests.get_mut(id) else {
            return;
        };
        let Work::Receive {
            buffer,
            state: state @ Receiving::Matched,
        } = &mut slot.work
        else {
            return;
        };
        let room = buffer.bytes() as u64;
        let fits = envelope.size.min(room);
        let error = (envelope.size > room).then(|| truncated(from, envelope, buffer.bytes()));
        slot.outcome = Outcome {
            source: Some(from),
            tag: envelope.tag,
            bytes: fits,
            cancelled: false,
            error,
        };
        let fits = fits as usize;
        let (into, owned) = match buffer {
            Buffer::Flat(region) => (region.prefix(fits), None),
            Buffer::Typed(_) => {
                match memory::zeroed(fits) {
                    Ok(mut owned) => (buffer::region_of(&mut owned), Some(owned)),
                    // Nothing is fetched: the sender is answered, and the receive ends with the error.
                    Err(error) => {
                        slot.outcome.bytes = 0;
                        slot.outcome.error = Some(error);
                        *buffer = Buffer::Flat(Region::EMPTY);
                        (Region::EMPTY, None)
                    }
                }
            }
        };
        *state = Receiving::Moving(owned);
        let Token(number) = self.core.next_number();
        let operation = Operation(number);
        let reply = envelope.reply();
        // Also if that is nothing: the get uses up the grant.
        match self.fabric.get(from, envelope.token, 0, into, operation) {
            Ok(Posted::Done) => {
                self.answer(from, reply);
                self.pulled(id, None);
            }
            Ok(Posted::Pending) => {
                let pulling = Pulling { from, reply };
                self.core.pulling.push((operation, id, pulling));
            }
            Ok(Posted::Retry) => {
                // No room to ask: tried again after the next poll, which makes some.
                self.core.matched(id);
                self.retry_pulls.push((id, from, *envelope));
            }
            Err(cause) => {
                self.answer(from, reply);
                self.pulled(id, Some(Error::from(cause)));
            }
        }
    }

    /// Pulls that were refused for want of room are tried again.
    pub(crate) fn retry_pulls(&mut self) {
        for (id, from, envelope) in std::mem::take(&mut self.retry_pulls) {
            self.pull(id, from, &envelope);
        }
    }

    /// The data of a receive have been pulled, or not.
    pub(crate) fn pulled(&mut self, id: RequestId, error: Option<Error>) {
        let Some(slot) = self.core.requests.get_mut(id) else {
            return;
        };
        let Work::Receive { buffer, state } = &mut slot.work else {
            return;
        };
        let moved = std::mem::replace(state, Receiving::Unposted);
        if let (Buffer::Typed(typed), Receiving::Moving(Some(owned)), None) =
            (buffer, moved, &error)
        {
            typed.unpack(&owned);
        }
        if error.is_some() {
            slot.outcome.error = error;
            slot.outcome.bytes = 0;
        }
        self.core.complete(id);
    }

    /// Tells a sender that its message is matched and its buffer free.
    pub(crate) fn answer(&mut self, to: Peer, reply: Envelope) {
        self.post_control(to, reply.to_head());
    }

    /// The receiver of a rendezvous says that it has the data: nobody reads them after this.
    pub(crate) fn answered(&mut self, id: RequestId) {
        let Some(slot) = self.core.requests.get(id) else {
            return;
        };
        let Work::Send(sending) = &slot.work else {
            return;
        };
        if slot.phase != Phase::Active || sending.state != SendState::Answered {
            return;
        }
        if let Some(grant) = sending.grant() {
            self.fabric.revoke(grant);
        }
        self.core.complete(id);
    }
}
