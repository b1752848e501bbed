//! Messages instead of reads and writes, for transfers with an asker whose memory cannot be reached:
//!
//! ```text
//!   get   Ask ──►  owner  ── Piece, Piece, … ──► ── End ──►
//!   put   Ask ──►  owner  ── Fetch ──► asker ── Fetched ──► owner copies while the grant is live … ── End ──►
//! ```
//!
//! Messages keep their order, so an end never overtakes bytes. Leaving bytes are copied into the buffers that all messages share,
//! half of which pieces leave to others ([`Mail::has_room_for_pieces`]): the only extra memory is that of one piece.
//!
//! *Invariant:* `under_way` of such a transfer counts the `awaited` pieces, at most [`FETCHES`].

use weft_fabric::{Peer, Posted};

use super::{Serving, Transfer};
use crate::asked::FETCHES;
use crate::mail::Mail;
use crate::wire::{FrameKind, Outcome, Piece};

impl Transfer {
    /// Sends pieces of a get, or asks for some of a put, as far as there is room.
    pub(super) fn advance_by_messages(
        &mut self,
        most: usize,
        mail: &mut Mail,
        scratch: &mut Vec<u8>,
    ) {
        let to = Peer(self.peer);
        while !self.has_posted_all()
            && self.awaited.len() < FETCHES
            && mail.has_room_for_pieces(self.peer)
        {
            let piece = Piece {
                number: self.number,
                length: most.min(self.window.len() - self.posted) as u32,
                offset: self.posted as u64,
            };
            let Some(place) = piece.within(&self.window) else {
                return;
            };
            let posted = if self.put {
                mail.post(to, FrameKind::Fetch, &[&piece.emit()])
            } else {
                scratch.resize(place.len(), 0);
                place.copy_to_slice(scratch);
                mail.post(to, FrameKind::Piece, &[&piece.emit(), scratch])
            };
            match posted {
                Ok(Posted::Done) => {}
                Ok(_) => return,
                // The peer is lost, which is reported elsewhere.
                Err(_) => {
                    self.outcome = Outcome::NotGranted;
                    return;
                }
            }
            self.posted += place.len();
            if self.put {
                self.awaited.push(piece);
                self.under_way += 1;
            }
        }
    }

    /// Nothing will arrive from the asker any more.
    pub(super) fn await_nothing(&mut self) {
        self.under_way -= self.awaited.len();
        self.awaited.clear();
    }
}

impl Serving {
    /// A piece has arrived. `None` if the asker was not asked for it.
    pub fn fetched(&mut self, peer: u32, piece: &Piece, bytes: &[u8]) -> Option<()> {
        let of = |transfer: &Transfer| transfer.peer == peer && transfer.awaited.contains(piece);
        let (_, transfer) = self
            .transfers
            .iter_mut()
            .find(|(_, transfer)| of(transfer))?;
        transfer.awaited.retain(|awaited| awaited != piece);
        transfer.under_way -= 1;
        // A grant that was revoked in between permits nothing any more.
        if transfer.outcome == Outcome::Done {
            piece.within(&transfer.window)?.copy_from_slice(bytes);
        }
        Some(())
    }
}
