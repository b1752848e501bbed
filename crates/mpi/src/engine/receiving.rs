//! Receiving: a receive under way, the destination of its data, and its progress.
//!
//! The [request](super::request) of a receive has one of these. Its result is noted in the [`Outcome`] of the request.

use std::mem::{forget, replace};

use weft_fabric::{Peer, Region, SharedBytes, Token};
use weft_matching::Handle;

use super::envelope::{Envelope, MessageKind};
use super::receive_errors::{does_not_fit, truncated};
use super::status::Outcome;
use crate::buffer::{self, Buffer};
use crate::datatype::SignatureCode;
use crate::memory;

/// Data that a receive with gaps pulls at once, in bytes; more come in pieces. Up to here the fabric may have
/// moved them already.
const PULLED_AT_ONCE: u64 = 512 << 10;

/// How far a receive is.
///
/// ```text
///   Unposted ──► Posted ──► Matched ──► Moving ──► (complete)
///      └─────────────────────┘ └──────► Pieces ──► (complete)
/// ```
///
/// A loss, a cancellation or the end of a collective ends a receive only while it is `Posted`: nobody has
/// been told of its buffer then. Later it belongs to one message, and ends with the transfer of that,
/// whose end the fabric says exactly once, also if the sender is lost meanwhile. Of `Pieces` the fabric knows
/// nothing: the loss of their sender ends them.
#[derive(Debug)]
pub(super) enum ReceiveState {
    /// Not posted yet, or complete.
    Unposted,
    /// In the matching engine.
    Posted(Handle),
    /// Matched with data that wait at the sender; their transfer is to be begun.
    Matched,
    /// The fabric moves the data: into the buffer, or into memory of the engine, to be unpacked.
    Moving(Option<Box<[u8]>>),
    /// The data come in pieces.
    Pieces(Box<Incoming>),
}

/// Data that come in pieces: of `from`, behind this token. The first `position` bytes of `size` have come.
#[derive(Debug)]
pub(super) struct Incoming {
    from: Peer,
    token: Token,
    position: usize,
    size: usize,
}

/// A receive: where to, and how far it is.
#[derive(Debug)]
pub(super) struct Receiving {
    buffer: Buffer,
    state: ReceiveState,
}

/// How the data of a matched message come.
#[must_use]
pub(super) enum Transfer {
    /// By one transfer into this.
    Pull(Region),
    /// In pieces, once they are asked for.
    Pieces,
}

/// What became of a piece.
#[must_use]
pub(super) enum PieceTaken {
    /// Nothing: it is not due.
    Undue,
    /// More are to come.
    GoesOn,
    /// The receive is to be completed.
    Ends,
}

impl Receiving {
    /// One that is not posted.
    pub(super) fn new(buffer: Buffer) -> Self {
        Self {
            buffer,
            state: ReceiveState::Unposted,
        }
    }

    /// One of plain bytes that waits in the matching engine.
    #[inline(always)]
    pub(super) fn of_posted(region: Region, signature: SignatureCode, handle: Handle) -> Self {
        Self {
            buffer: Buffer::Flat(region, signature),
            state: ReceiveState::Posted(handle),
        }
    }

    /// Whether it owns anything that must be dropped.
    #[inline]
    pub(super) fn owns(&self) -> bool {
        matches!(self.buffer, Buffer::Typed(_))
            || matches!(
                self.state,
                ReceiveState::Moving(Some(_)) | ReceiveState::Pieces(_)
            )
    }

    /// How many bytes it has room for.
    pub(super) fn room(&self) -> usize {
        self.buffer.bytes()
    }

    /// It waits in the matching engine.
    #[inline]
    pub(super) fn post(&mut self, handle: Handle) {
        self.state = ReceiveState::Posted(handle);
    }

    /// Its name in the matching engine while it is posted.
    pub(super) fn posted(&self) -> Option<Handle> {
        match self.state {
            ReceiveState::Posted(handle) => Some(handle),
            _ => None,
        }
    }

    /// It belongs to a message whose data wait at the sender: from now on it ends with their transfer.
    pub(super) fn match_to_pull(&mut self) {
        self.state = ReceiveState::Matched;
    }

    /// The data of the message that a posted one was matched with are here, and they fill plain bytes; they are short, unless they may
    /// be `LONG`. False, without effect, if it is not so.
    #[inline(always)]
    #[must_use]
    pub(super) fn end_plainly<const LONG: bool>(
        &mut self,
        signature: SignatureCode,
        data: SharedBytes<'_>,
    ) -> bool {
        let Buffer::Flat(region, expected) = &self.buffer else {
            return false;
        };
        if signature != *expected {
            return false;
        }
        // Only the one calls a function, for which registers are saved.
        if LONG && data.len() == region.len() {
            data.copy_to_region(region);
        } else if LONG || !data.fill_if_short(region) {
            return false;
        }
        // A receive that is posted owns nothing.
        forget(replace(&mut self.state, ReceiveState::Unposted));
        true
    }

    /// The data of the message that it was matched with are here; `size` is that of the whole message.
    #[inline]
    pub(super) fn deliver(
        &mut self,
        from: Peer,
        envelope: &Envelope,
        data: SharedBytes<'_>,
        outcome: &mut Outcome,
    ) {
        self.state = ReceiveState::Unposted;
        let fitted = self.buffer.fill(data);
        outcome.source = Some(from);
        outcome.tag = envelope.tag;
        outcome.bytes = fitted as u64;
        if fitted < data.len() {
            outcome.error = Some(truncated(from, envelope.tag, envelope.size, fitted));
        } else if !self.buffer.expects(envelope.signature) {
            outcome.error = does_not_fit(from, envelope, &self.buffer);
        }
    }

    /// The transfer of the data of its message is about to begin: answers how they come. `None` if it does not
    /// wait for them.
    pub(super) fn begin_transfer(
        &mut self,
        from: Peer,
        envelope: &Envelope,
        outcome: &mut Outcome,
    ) -> Option<Transfer> {
        let (tag, size) = (envelope.tag, envelope.size);
        let Self {
            buffer,
            state: state @ ReceiveState::Matched,
        } = self
        else {
            return None;
        };
        let room = buffer.bytes() as u64;
        let fits = size.min(room);
        let error = if size > room {
            Some(truncated(from, tag, size, buffer.bytes()))
        } else {
            does_not_fit(from, envelope, buffer)
        };
        *outcome = Outcome {
            source: Some(from),
            tag,
            bytes: fits,
            cancelled: false,
            mark: envelope.token.0,
            error,
        };
        let fits = fits as usize;
        let many = matches!(buffer, Buffer::Typed(_)) && size > PULLED_AT_ONCE;
        if envelope.kind == MessageKind::RtsPieces || many {
            *state = ReceiveState::Pieces(Box::new(Incoming {
                from,
                token: envelope.token,
                position: 0,
                size: size as usize,
            }));
            return Some(Transfer::Pieces);
        }
        let (into, owned) = match buffer {
            Buffer::Flat(region, _) => (region.prefix(fits), None),
            Buffer::Typed(_) => {
                match memory::zeroed(fits) {
                    Ok(mut owned) => (buffer::region_of(&mut owned), Some(owned)),
                    // Nothing is fetched: the sender is answered, and the receive ends with the error.
                    Err(error) => {
                        outcome.bytes = 0;
                        outcome.error = Some(error);
                        *buffer = Buffer::untyped(Region::EMPTY);
                        (Region::EMPTY, None)
                    }
                }
            }
        };
        *state = ReceiveState::Moving(owned);
        Some(Transfer::Pull(into))
    }

    /// Whose pieces it waits for.
    pub(super) fn pieces_from(&self) -> Option<Peer> {
        match &self.state {
            ReceiveState::Pieces(incoming) => Some(incoming.from),
            _ => None,
        }
    }

    /// A piece of its data is here: by the token, behind so many others. What has no room is dropped.
    pub(super) fn take_piece(
        &mut self,
        sender: Peer,
        place: (Token, u64),
        data: SharedBytes<'_>,
    ) -> PieceTaken {
        let ReceiveState::Pieces(incoming) = &mut self.state else {
            return PieceTaken::Undue;
        };
        let due = (incoming.from, (incoming.token, incoming.position as u64));
        let left = incoming.size - incoming.position;
        if due != (sender, place) || data.is_empty() || data.len() > left {
            return PieceTaken::Undue;
        }
        self.buffer.fill_part(incoming.position, data);
        incoming.position += data.len();
        if data.len() < left {
            return PieceTaken::GoesOn;
        }
        self.state = ReceiveState::Unposted;
        PieceTaken::Ends
    }

    /// The transfer of its data has ended; what memory of the engine has got is unpacked, unless that failed.
    pub(super) fn end_pull(&mut self, failed: bool) {
        let state = replace(&mut self.state, ReceiveState::Unposted);
        if let (Buffer::Typed(typed), ReceiveState::Moving(Some(owned)), false) =
            (&mut self.buffer, state, failed)
        {
            typed.unpack(SharedBytes::of(&owned));
        }
    }
}
