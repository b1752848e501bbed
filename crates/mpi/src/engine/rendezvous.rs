//! Bulk: the sender grants, the receiver pulls through the portal once it has matched, and answers.
//!
//! ```text
//!  sender                                  receiver
//!  grant ── Ready{size, token, request} ──► matching
//!                                           get(token)  (one copy, into the user's buffer)
//!  complete ◄── Finished{request} ─────────  complete
//! ```
//!
//! If the receiver's elements have gaps, the data are pulled into memory of the engine and unpacked.
//! A receive that is too small pulls what fits and ends with `MPI_ERR_TRUNCATE`.

use weft_fabric::{Operation, Peer, Posted, Region};

use super::arrival::truncated;
use super::envelope::Envelope;
use super::request::{Outcome, RequestId, Work};
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
        let work = std::mem::take(&mut slot.work);
        let Work::Receive { buffer, .. } = work else {
            slot.work = work;
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
        let into = match buffer {
            Buffer::Flat(region) => {
                let into = region.prefix(fits);
                slot.work = Work::Receive {
                    buffer: Buffer::Flat(region),
                    posted: None,
                };
                into
            }
            Buffer::Typed(_) => {
                match memory::zeroed(fits) {
                    Ok(mut owned) => {
                        let into = buffer::region_of(&mut owned);
                        slot.work = Work::Pull { buffer, owned };
                        into
                    }
                    // Nothing is fetched: the sender is answered, and the receive ends with the error.
                    Err(error) => {
                        slot.outcome.bytes = 0;
                        slot.outcome.error = Some(error);
                        slot.work = Work::Receive {
                            buffer: Buffer::Flat(Region::EMPTY),
                            posted: None,
                        };
                        Region::EMPTY
                    }
                }
            }
        };
        let operation = Operation(self.core.next_operation);
        self.core.next_operation += 1;
        let pulling = Pulling {
            from,
            answer: envelope.request,
        };
        // Also if that is nothing: the get uses up the grant.
        match self.fabric.get(from, envelope.token, 0, into, operation) {
            Ok(Posted::Done) => {
                self.answer(from, envelope.request);
                self.pulled(id, None);
            }
            Ok(Posted::Pending) => self.core.pulling.push((operation, id, pulling)),
            Ok(Posted::Retry) => {
                // No room to ask: tried again after the next poll, which makes some.
                if let Some(slot) = self.core.requests.get_mut(id) {
                    let work = std::mem::take(&mut slot.work);
                    slot.work = match work {
                        Work::Pull { buffer, .. } => Work::Receive {
                            buffer,
                            posted: None,
                        },
                        other => other,
                    };
                }
                self.retry_pulls.push((id, from, *envelope));
            }
            Err(cause) => {
                self.answer(from, envelope.request);
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
        if let Work::Pull {
            buffer: Buffer::Typed(typed),
            owned,
        } = &slot.work
        {
            typed.unpack(owned);
        }
        if error.is_some() {
            slot.outcome.error = error;
            slot.outcome.bytes = 0;
        }
        self.core.complete(id);
    }

    /// Tells a sender that its message is matched and its buffer free.
    pub(crate) fn answer(&mut self, to: Peer, request: RequestId) {
        self.post_control(to, Envelope::finished(request).to_head());
    }
}
