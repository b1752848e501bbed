//! What arrives: the [`Sink`] of the engine. Nothing here calls the fabric (it is being polled).

use weft_fabric::{GUEST_KEY, Head, Operation, Peer, SharedBytes, Sink, SyncKey, Token};
use weft_matching::{Arrival, Context, Source, Tag};

use super::envelope::{Envelope, Kind};
use super::request::{Phase, Protocol, Receiving, RequestId, SendState, Work};
use super::{Core, Todo, Unexpected, UnexpectedId};
use crate::error::{Error, ErrorClass};

impl Sink for Core {
    #[inline]
    fn message(&mut self, from: Peer, head: &Head, data: SharedBytes<'_>) {
        match Envelope::from_head(head) {
            Some(Envelope {
                kind: Kind::Finished,
                request,
                token,
                ..
            }) => self.sent(from, request, token),
            Some(envelope) => self.arrive(from, envelope, data),
            None => self.message_of_guest(from, head, data),
        }
    }

    fn transfer_completed(&mut self, operation: Operation, result: weft_fabric::Result<()>) {
        let Some(place) = self
            .pulling
            .iter()
            .position(|(other, ..)| *other == operation)
        else {
            if let Some(guest) = &mut self.guest {
                self.guest_called = true;
                guest.transfer_completed(operation, result);
            }
            return;
        };
        let (_, request, pulling) = self.pulling.swap_remove(place);
        self.todo.push(Todo::Answer {
            to: pulling.from,
            reply: pulling.reply,
        });
        self.todo.push(Todo::Pulled {
            request,
            error: result.err().map(Error::from),
        });
    }

    fn lost(&mut self, peer: Peer, reason: &str) {
        self.todo.push(Todo::Lost {
            peer,
            reason: reason.to_owned(),
        });
        if let Some(guest) = &mut self.guest {
            self.guest_called = true;
            guest.lost(peer, reason);
        }
    }

    fn signalled(&mut self, from: Peer, key: SyncKey) {
        // Counted by the fabric; the runs that wait for signals look after the poll.
        self.runs.signalled = true;
        if let Some(guest) = &mut self.guest
            && key.0 & GUEST_KEY == GUEST_KEY
        {
            self.guest_called = true;
            guest.signalled(from, key);
        }
    }
}

impl Core {
    /// A head that is no envelope of ours is the guest's.
    #[cold]
    fn message_of_guest(&mut self, from: Peer, head: &Head, data: SharedBytes<'_>) {
        match &mut self.guest {
            Some(guest) => {
                self.guest_called = true;
                guest.message(from, head, data);
            }
            None => self.refused += 1,
        }
    }

    #[inline]
    fn arrive(&mut self, from: Peer, mut envelope: Envelope, data: SharedBytes<'_>) {
        let pull = envelope.kind == Kind::Ready;
        if !pull {
            // The envelope's size is the peer's word; the length of the data is the fabric's.
            envelope.size = data.len() as u64;
        }
        let key = weft_matching::Envelope {
            context: Context(envelope.context),
            source: Source(from.0),
            tag: Tag(envelope.tag),
        };
        let Self {
            matching,
            unexpected,
            unexpected_free,
            spare,
            ..
        } = self;
        let arrival = matching.arrive(key, || {
            let mut copy = spare.pop().unwrap_or_default();
            copy.resize(data.len(), 0);
            data.copy_to(&mut copy);
            let message = Some(Unexpected {
                from,
                envelope,
                data: copy,
            });
            let index = unexpected_free.pop().unwrap_or_else(|| {
                unexpected.push(None);
                (unexpected.len() - 1) as u32
            });
            unexpected[index as usize] = message;
            UnexpectedId(index)
        });
        match arrival {
            Arrival::Matched(request) if pull => {
                if self.matched(request) {
                    self.todo.push(Todo::Pull {
                        request,
                        from,
                        envelope,
                    });
                }
            }
            Arrival::Matched(request) => {
                if envelope.kind == Kind::EagerSynchronous {
                    self.todo.push(Todo::Answer {
                        to: from,
                        reply: envelope.reply(),
                    });
                }
                self.deliver(request, from, &envelope, data);
            }
            Arrival::Unexpected => self.wake_probing(),
        }
    }

    /// A receive belongs to a message whose data wait at the sender: from now on it ends with their
    /// transfer. False if it has ended.
    pub(crate) fn matched(&mut self, id: RequestId) -> bool {
        let Some(slot) = self.requests.get_mut(id) else {
            return false;
        };
        match &mut slot.work {
            Work::Receive { state, .. } if slot.phase == Phase::Active => {
                *state = Receiving::Matched;
                true
            }
            _ => false,
        }
    }

    /// The data of a matched receive are here.
    #[inline]
    pub(crate) fn deliver(
        &mut self,
        id: RequestId,
        from: Peer,
        envelope: &Envelope,
        data: SharedBytes<'_>,
    ) {
        let Some(slot) = self.requests.get_mut(id) else {
            return;
        };
        let Work::Receive { buffer, state } = &mut slot.work else {
            return;
        };
        *state = Receiving::Unposted;
        let fitted = buffer.fill(data);
        slot.outcome.source = Some(from);
        slot.outcome.tag = envelope.tag;
        slot.outcome.bytes = fitted as u64;
        if fitted < data.len() {
            slot.outcome.error = Some(truncated(from, envelope, fitted));
        }
        if slot.has_duties() {
            self.complete(id);
        } else {
            slot.phase = Phase::Complete;
        }
    }

    /// A peer says that one of our sends is matched and its buffer free. That is so only if it is the peer
    /// that the message went to, the message has left, and this is its first answer.
    fn sent(&mut self, from: Peer, id: RequestId, token: Token) {
        let slot = self.requests.get_mut(id);
        let Some(Work::Send(sending)) = slot.map(|slot| &mut slot.work) else {
            self.refused += 1;
            return;
        };
        let due = (from, token, SendState::Unanswered);
        if (sending.to, sending.token, sending.state) != due {
            self.refused += 1;
            return;
        }
        sending.state = SendState::Answered;
        if sending.protocol == Protocol::Rendezvous {
            self.todo.push(Todo::Answered(id));
        } else {
            self.complete(id);
        }
    }
}

#[cold]
pub(crate) fn truncated(from: Peer, envelope: &Envelope, room: usize) -> Error {
    Error::new(
        ErrorClass::Truncate,
        format!(
            "a message of {} bytes from rank {from} of MPI_COMM_WORLD with tag {} does not fit the buffer of {room} bytes; receive with a larger count, or probe first",
            envelope.size, envelope.tag
        ),
    )
}
