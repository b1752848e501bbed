//! Pieces: the data of a message, sent part by part behind heads of their own, each packed as it leaves.
//!
//! ```text
//!  sender                                      receiver
//!  RtsPieces{size, token, request} ──────────► matching
//!                                ◄──────────── Cts{request, token, receive}
//!  Piece{receive, token, 0} + data ──────────► unpacked where they belong
//!  Piece{receive, token, position} + data ───►
//!  complete                                    complete
//! ```
//!
//! They wait in the outbox like any message, so later messages to the same peer wait behind them. A fabric that can do so
//! asks for them as it sends them; for others they are packed before. Invariant: the first `position` bytes have left;
//! `packed` is empty, or is the next piece, which was refused.

use weft_fabric::{Fabric, Head, Peer, Posted, Source, Token};

use super::Engine;
use super::envelope::Envelope;
use super::outbox::{Load, Waiting};
use super::request_id::RequestId;
use crate::buffer::{self, Buffer};

/// Bytes of one piece at most: what was packed before it leaves is still in the first-level cache then.
const PIECE: usize = 16 << 10;
/// Pieces that leave before others get their turn.
const TURN: usize = 16;

/// What has not left yet of one message.
#[derive(Debug)]
pub(super) struct Pieces {
    data: Buffer,
    receive: RequestId,
    token: Token,
    position: usize,
    packed: Vec<u8>,
}

impl Pieces {
    /// All data, for a receive of the other side. `token`: by which that knows the message.
    pub(super) fn new(data: Buffer, receive: RequestId, token: Token) -> Self {
        Self {
            data,
            receive,
            token,
            position: 0,
            packed: Vec::new(),
        }
    }

    /// Sends what the fabric takes, one turn at most; answers whether anything left, and `Done` if nothing is left
    /// to be sent.
    pub(super) fn send(
        &mut self,
        fabric: &mut dyn Fabric,
        to: Peer,
    ) -> (bool, weft_fabric::Result<Posted>) {
        let most = PIECE.min(fabric.limits().data);
        let all = self.data.bytes();
        let first = self.position;
        for _ in 0..TURN {
            let left = all - self.position;
            if left == 0 {
                return (true, Ok(Posted::Done));
            }
            let length = left.min(most);
            let head = Envelope::piece(self.receive, self.token, self.position as u64).to_head();
            match self.send_next(fabric, to, &head, length) {
                posted @ (Ok(Posted::Retry) | Err(_)) => return (self.position > first, posted),
                Ok(_) => {
                    self.position += length;
                    self.packed.clear();
                }
            }
        }
        let done = self.position == all;
        (true, Ok(if done { Posted::Done } else { Posted::Retry }))
    }

    /// Tries to send the bytes that come next as one message.
    fn send_next(
        &mut self,
        fabric: &mut dyn Fabric,
        to: Peer,
        head: &Head,
        length: usize,
    ) -> weft_fabric::Result<Posted> {
        let part = self.position..self.position + length;
        if self.packed.is_empty()
            && let Some(posted) = fabric.try_send_part(to, head, &mut Leaving(&self.data), part)
        {
            return posted;
        }
        match &self.data {
            Buffer::Flat(region, _) => {
                let part = region.part(self.position, length);
                let part = part.expect("a part lies within its buffer");
                fabric.try_send(to, head, buffer::bytes_of(&part))
            }
            Buffer::Typed(typed) => {
                if self.packed.is_empty() {
                    typed.append_part(self.position, length, &mut self.packed);
                }
                fabric.try_send(to, head, &self.packed)
            }
        }
    }
}

/// Data of a send, for a fabric that has them packed as they leave.
struct Leaving<'a>(&'a Buffer);

impl Source for Leaving<'_> {
    fn read(&mut self, position: usize, into: &mut [u8]) {
        let read = self.0.pack_from(position, into);
        debug_assert_eq!(read, into.len());
    }
}

impl Engine {
    /// The receiver asks for the data of a send, in pieces for its receive.
    pub(super) fn send_pieces(&mut self, id: RequestId, receive: RequestId) {
        let slot = self.core.requests.get_mut(id);
        let Some(asked) = slot.and_then(|slot| slot.begin_pieces()) else {
            return;
        };
        if let Some(grant) = asked.grant {
            self.fabric.revoke(grant);
        }
        self.end_announced(asked.to);
        let pieces = Pieces::new(asked.data, receive, asked.token);
        let waiting = Waiting {
            head: [0; weft_fabric::HEAD],
            load: Load::Pieces(pieces),
            request: Some(id),
        };
        self.outbox.push(asked.to, waiting);
        self.flush();
    }

    /// A receive is matched with data that come in pieces: asks for them.
    pub(super) fn ask_for_pieces(&mut self, id: RequestId, from: Peer, envelope: &Envelope) {
        if let Some(error) = self.core.lost.error_of(from) {
            return self.pulled(id, Some(error));
        }
        self.answer(from, envelope.clear_to_send(id));
    }
}
