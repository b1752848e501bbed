//! Receiver's side of a partitioned message: what is known about the sender, and which pieces have arrived.
//!
//! ```text
//!   Expected ──the sender's announcement──► Known      once, in the order of initialisation
//!
//!   piece:  Waiting ──► Posted ──► Here                each time that the request is started
//! ```
//!
//! Elements with gaps are received without them into memory of the engine, and unpacked by partitions.
//!
//! A message with more bytes than there is room for is an error. Its pieces are received all the same, into memory that
//! nobody reads: several of them may come in one message, and only its length says how many.

use std::ops::Range;

use weft_fabric::{Peer, Region, SharedBytes};

use super::division::Division;
use crate::buffer::{self, Buffer};
use crate::datatype::SignatureCode;
use crate::engine::receive_errors::of_another_type;
use crate::engine::request_id::RequestId;
use crate::engine::status::Outcome;
use crate::error::{Error, ErrorClass, Result};
use crate::memory;

/// Bytes of an announcement: partitions of the sender, first tag, bytes, code of their signature.
pub(super) const ANNOUNCEMENT: usize = 18;

/// What a receiver learns of its sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Announcement {
    pub partitions: u32,
    pub first_tag: u32,
    pub bytes: u64,
    pub signature: SignatureCode,
}

impl Announcement {
    pub(super) fn to_bytes(self) -> [u8; ANNOUNCEMENT] {
        let mut bytes = [0; ANNOUNCEMENT];
        bytes[..4].copy_from_slice(&self.partitions.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.first_tag.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.bytes.to_le_bytes());
        bytes[16..].copy_from_slice(&self.signature.bits().to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: [u8; ANNOUNCEMENT]) -> Self {
        let mut words = [0; 16];
        words.copy_from_slice(&bytes[..16]);
        let all = u128::from_le_bytes(words);
        let signature = u16::from_le_bytes([bytes[16], bytes[17]]);
        Self {
            partitions: all as u32,
            first_tag: (all >> 32) as u32,
            bytes: (all >> 64) as u64,
            signature: SignatureCode::from_bits(signature),
        }
    }
}

/// How far a piece is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Piece {
    /// No receive is posted for it.
    Waiting,
    /// This receive is.
    Posted(RequestId),
    /// It is there, or never will be.
    Here,
}

/// Where the sender's announcement is.
#[derive(Debug)]
enum Sender {
    /// It is received into this memory.
    Expected(Box<[u8; ANNOUNCEMENT]>),
    /// It is there: how the data are divided, the tag of the first piece, the code of their signature.
    Known(Division, u32, SignatureCode),
    /// There is none to be received from.
    Failed(Error),
}

/// A partitioned receive.
#[derive(Debug)]
pub(super) struct Receiving {
    request: RequestId,
    from: Peer,
    context: u32,
    tag: i32,
    buffer: Buffer,
    partitions: u32,
    /// The bytes without gaps, if the buffer has some; looked at through `memory` only.
    _packed: Option<Box<[u8]>>,
    memory: Region,
    /// Where pieces go that together are too long for the buffer; looked at by receives under way only.
    excess: Option<Box<[u8]>>,
    sender: Sender,
    pieces: Vec<Piece>,
    /// Pieces of each partition that are not there.
    missing: Vec<u32>,
    /// Pieces that are not there.
    pending: u32,
    /// Started and not ended.
    is_active: bool,
    /// Its request is no more; only the announcement is waited for, which belongs to nobody else.
    pub is_freed: bool,
    error: Option<Error>,
}

impl Receiving {
    /// An inactive one.
    pub(super) fn new(
        (from, context): (Peer, u32),
        tag: i32,
        buffer: Buffer,
        partitions: u32,
    ) -> Result<Self> {
        memory::ensure_list(partitions as usize, size_of::<u32>())?;
        let (packed, memory) = match &buffer {
            Buffer::Flat(region, _) => (None, *region),
            Buffer::Typed(typed) => {
                let mut packed = memory::zeroed(typed.bytes())?;
                // Made once: receives under way keep regions of it.
                let memory = buffer::region_of(&mut packed);
                (Some(packed), memory)
            }
        };
        Ok(Self {
            request: RequestId::NONE,
            from,
            context,
            tag,
            buffer,
            partitions,
            _packed: packed,
            memory,
            excess: None,
            sender: Sender::Expected(Box::default()),
            pieces: Vec::new(),
            missing: vec![0; partitions as usize],
            pending: 0,
            is_active: false,
            is_freed: false,
            error: None,
        })
    }

    /// The persistent request.
    pub(super) fn request(&self) -> RequestId {
        self.request
    }

    pub(super) fn set_request(&mut self, request: RequestId) {
        self.request = request;
    }

    /// The sender, and the context of messages of it.
    pub(super) fn source(&self) -> (Peer, u32) {
        (self.from, self.context)
    }

    /// Where its announcement goes.
    pub(super) fn announcement(&mut self) -> Region {
        match &mut self.sender {
            Sender::Expected(bytes) => buffer::region_of(&mut bytes[..]),
            Sender::Known(..) | Sender::Failed(_) => Region::EMPTY,
        }
    }

    /// Whether the announcement has not come yet.
    pub(super) fn is_expecting(&self) -> bool {
        matches!(self.sender, Sender::Expected(_))
    }

    /// The announcement has come, in so many bytes, or never will.
    pub(super) fn learn(&mut self, outcome: Outcome) {
        let Sender::Expected(bytes) = &self.sender else {
            return;
        };
        let announcement = Announcement::from_bytes(**bytes);
        self.sender = match outcome.error {
            Some(error) => Sender::Failed(error),
            None if outcome.bytes != ANNOUNCEMENT as u64 => Sender::Failed(Error::new(
                ErrorClass::Intern,
                "a sender announced a partitioned message in words that nobody knows",
            )),
            None => Sender::Known(
                Division::new(announcement.partitions, announcement.bytes),
                announcement.first_tag,
                announcement.signature,
            ),
        };
    }

    /// It is started: nothing is there.
    pub(super) fn start(&mut self) {
        self.is_active = true;
        self.error = None;
        self.missing.fill(1);
    }

    /// Whether it is started and has not ended.
    pub(super) fn is_active(&self) -> bool {
        self.is_active
    }

    /// Waits for all pieces from now on, if the sender is known: answers how many, and the tag of the first. `None` if
    /// there will be none, with the error noted.
    pub(super) fn expect_pieces(&mut self) -> Option<(u32, u32)> {
        let (division, first_tag, signature) = match &self.sender {
            Sender::Known(division, first_tag, signature) => (*division, *first_tag, *signature),
            Sender::Failed(error) => {
                self.error = Some(error.clone());
                return None;
            }
            Sender::Expected(_) => return None,
        };
        let room = self.memory.len() as u64;
        if division.bytes() != room {
            self.error = Some(different(self.from, self.tag, division.bytes(), room));
            if division.bytes() > room && self.excess.is_none() {
                let bytes = usize::try_from(division.bytes()).map(memory::zeroed);
                self.excess = bytes.ok().and_then(Result::ok);
            }
        } else if !self.buffer.takes(signature, room) {
            let sent = (signature, room);
            self.error = Some(of_another_type(self.from, self.tag, sent, &self.buffer));
        }
        self.pending = division.pieces();
        self.pieces.clear();
        self.pieces
            .resize(division.pieces() as usize, Piece::Waiting);
        for (partition, missing) in (0..).zip(&mut self.missing) {
            *missing = division
                .pieces_of_received(partition, self.partitions)
                .len() as u32;
        }
        Some((division.pieces(), first_tag))
    }

    pub(super) fn piece(&self, piece: u32) -> Option<Piece> {
        self.pieces.get(piece as usize).copied()
    }

    /// A receive is about to be posted for a piece: answers where to. Pieces that follow may come with it.
    pub(super) fn post(&mut self, piece: u32, receive: RequestId) -> Region {
        self.pieces[piece as usize] = Piece::Posted(receive);
        let Sender::Known(division, ..) = &self.sender else {
            return Region::EMPTY;
        };
        let start = division.bytes_in(piece..piece + 1).start;
        let whole = match &mut self.excess {
            // The memory stays where it is as long as there is a receive under way.
            Some(excess) => buffer::region_of(excess),
            None => self.memory,
        };
        let start = usize::try_from(start).map_or(whole.len(), |start| start.min(whole.len()));
        let rest = whole.len() - start;
        whole.part(start, rest).unwrap_or(Region::EMPTY)
    }

    /// The receive posted for a piece has ended. Answers which pieces came with it, itself included.
    pub(super) fn came(&mut self, piece: u32, outcome: &Outcome) -> Range<u32> {
        let Sender::Known(division, ..) = &self.sender else {
            return piece..piece;
        };
        let count = division.pieces_in(piece, outcome.bytes);
        if let Some(error) = &outcome.error {
            self.error.get_or_insert_with(|| error.clone());
        } else if count.is_none() {
            let expected = division.bytes_in(piece..piece + 1);
            self.error.get_or_insert_with(|| {
                different(
                    self.from,
                    self.tag,
                    outcome.bytes,
                    expected.end - expected.start,
                )
            });
        }
        piece..piece + count.unwrap_or(1)
    }

    /// These pieces are there, or never will be. True if they were the last.
    pub(super) fn end(&mut self, pieces: Range<u32>) -> bool {
        let Sender::Known(division, ..) = self.sender else {
            return false;
        };
        for piece in pieces {
            if self.pieces[piece as usize] == Piece::Here {
                continue;
            }
            self.pieces[piece as usize] = Piece::Here;
            self.pending -= 1;
            for partition in division.received_in(piece, self.partitions) {
                let Some(missing) = self.missing.get_mut(partition as usize) else {
                    continue;
                };
                *missing -= 1;
                if *missing == 0 {
                    self.unpack(partition);
                }
            }
        }
        self.pending == 0
    }

    /// All bytes of a partition are there.
    fn unpack(&self, partition: u32) {
        if matches!(self.buffer, Buffer::Flat(..)) || self.excess.is_some() {
            return;
        }
        let each = self.memory.len() / self.partitions as usize;
        if let (Buffer::Typed(typed), Some(bytes)) = (
            self.buffer
                .partitions(partition..partition + 1, self.partitions),
            self.memory.part(partition as usize * each, each),
        ) {
            typed.unpack(SharedBytes::of(buffer::bytes_of(&bytes)));
        }
    }

    /// All that it waited for is there: its outcome.
    pub(super) fn finish(&mut self) -> Outcome {
        self.is_active = false;
        self.excess = None;
        let error = self.error.take();
        Outcome {
            source: Some(self.from),
            tag: self.tag,
            bytes: if error.is_none() {
                self.memory.len() as u64
            } else {
                0
            },
            cancelled: false,
            mark: 0,
            error,
        }
    }

    /// Whether the bytes of a partition are there.
    ///
    /// # Errors
    /// `Arg` if there is no such partition.
    pub(super) fn has_arrived(&self, partition: u32) -> Result<bool> {
        let Some(missing) = self.missing.get(partition as usize) else {
            return Err(Error::new(
                ErrorClass::Arg,
                format!(
                    "there is no partition {partition}: the request has {} (0 to {})",
                    self.partitions,
                    i64::from(self.partitions) - 1
                ),
            ));
        };
        Ok(!self.is_active || *missing == 0)
    }
}

#[cold]
fn different(from: Peer, tag: i32, sent: u64, expected: u64) -> Error {
    Error::new(
        ErrorClass::Truncate,
        format!(
            "rank {from} of MPI_COMM_WORLD sends {sent} bytes by a partitioned message with tag {tag} where this rank expects {expected}; partitions times count times size of the datatype must agree on both sides"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datatype::Basic;

    #[test]
    fn an_announcement_survives_the_way() {
        let announcement = Announcement {
            partitions: 0x0102_0304,
            first_tag: 77,
            bytes: 1 << 40,
            signature: SignatureCode::of(Basic::Int),
        };
        let back = Announcement::from_bytes(announcement.to_bytes());
        assert_eq!(back, announcement);
    }
}
