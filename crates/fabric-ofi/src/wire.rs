//! Wire: the header of each message on the network, and the bodies of messages that do not belong to the
//! layer above.
//!
//! ```text
//!   0  pass       8   made from the job's key and both sides 8  from   4   the sender
//!   12 sequence   4   of counted messages                      16  acks   4   counted messages that were processed
//!   20 kind       1                                            21  answer 1   asks for an acknowledgement at once
//!   22 zero       2
//! ```
//!
//! Little endian. All kinds but [`FrameKind::Ack`] are counted: they take a credit, and are acknowledged.

use weft_fabric::Region;
use weft_fabric_tcp::wire::{u32_at, u64_at};

/// Bytes before the body.
pub const HEADER: usize = 24;

/// Kinds of messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum FrameKind {
    /// A message of the layer above: head and data.
    Message = 1,
    /// A signal: its key.
    Signal = 2,
    /// [`Ask`], with the data of a small put.
    Ask = 3,
    /// The data of a small get: the asker's number, then the bytes.
    Data = 4,
    /// [`End`] of a transfer.
    End = 5,
    /// The sender may end from now on.
    Goodbye = 6,
    /// Only the header.
    Ack = 7,
    /// [`Piece`] of a put that the owner requests from the asker, where there is no remote access to memory.
    Fetch = 8,
    /// [`Piece`] of a get, with its bytes: from the owner.
    Piece = 9,
    /// [`Piece`] of a put, with its bytes: to the owner that has asked for it.
    Fetched = 10,
}

impl FrameKind {
    fn parse(byte: u8) -> Option<Self> {
        let all = [
            Self::Message,
            Self::Signal,
            Self::Ask,
            Self::Data,
            Self::End,
            Self::Goodbye,
            Self::Ack,
            Self::Fetch,
            Self::Piece,
            Self::Fetched,
        ];
        all.into_iter().find(|kind| *kind as u8 == byte)
    }

    /// Whether it takes a credit.
    #[inline]
    pub fn is_counted(self) -> bool {
        self != Self::Ack
    }
}

/// The header of every message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// The pass of the sender to the receiver.
    pub pass: u64,
    /// The sender.
    pub from: u32,
    /// How many counted messages the sender has sent to the receiver before.
    pub sequence: u32,
    /// How many counted messages of the receiver the sender has processed.
    pub acks: u32,
    /// The kind of the body.
    pub kind: FrameKind,
    /// The sender waits for an acknowledgement.
    pub answer: bool,
}

impl Header {
    /// The header's bytes.
    #[inline]
    pub fn emit(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..8].copy_from_slice(&self.pass.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.from.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.acks.to_le_bytes());
        bytes[20] = self.kind as u8;
        bytes[21] = u8::from(self.answer);
        bytes
    }

    /// Reads the first bytes of a message.
    #[inline]
    pub fn parse(message: &[u8]) -> Option<Self> {
        let bytes: &[u8; HEADER] = message.first_chunk()?;
        let well_formed = bytes[21] <= 1 && bytes[22..] == [0; 2];
        Some(Self {
            pass: u64_at(bytes, 0),
            from: u32_at(bytes, 8),
            sequence: u32_at(bytes, 12),
            acks: u32_at(bytes, 16),
            kind: FrameKind::parse(bytes[20]).filter(|_| well_formed)?,
            answer: bytes[21] == 1,
        })
    }
}

/// Writes header and parts one after the other into a buffer that is long enough.
#[inline]
pub fn gather(into: &mut [u8], header: &Header, parts: &[&[u8]]) {
    into[..HEADER].copy_from_slice(&header.emit());
    let mut place = HEADER;
    for part in parts {
        into[place..place + part.len()].copy_from_slice(part);
        place += part.len();
    }
}

/// A request for a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ask {
    /// The asker's number for it.
    pub number: u32,
    /// Whether it writes.
    pub put: bool,
    /// The asker's memory is not registered: the bytes go in messages.
    pub by_messages: bool,
    /// The grant.
    pub token: u64,
    /// Offset in the grant, in bytes.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// Address of the asker's registered memory, for a transfer that is not small.
    pub address: u64,
    /// The key of that memory.
    pub key: u64,
}

impl Ask {
    /// Bytes of the body.
    pub const BYTES: usize = 48;

    /// Its bytes.
    pub fn emit(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&self.number.to_le_bytes());
        bytes[4..8].copy_from_slice(
            &(u32::from(self.put) | u32::from(self.by_messages) << 1).to_le_bytes(),
        );
        let words = [self.token, self.offset, self.length, self.address, self.key];
        for (place, word) in bytes[8..].chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Reads a body; also returns what follows it.
    pub fn parse(body: &[u8]) -> Option<(Self, &[u8])> {
        let (bytes, rest) = body.split_first_chunk::<{ Self::BYTES }>()?;
        let flags = u32_at(bytes, 4);
        if flags > 3 {
            return None;
        }
        let ask = Self {
            number: u32_at(bytes, 0),
            put: flags & 1 != 0,
            by_messages: flags & 2 != 0,
            token: u64_at(bytes, 8),
            offset: u64_at(bytes, 16),
            length: u64_at(bytes, 24),
            address: u64_at(bytes, 32),
            key: u64_at(bytes, 40),
        };
        Some((ask, rest))
    }
}

/// A part of a transfer whose bytes go in messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// The asker's number of the transfer.
    pub number: u32,
    /// Bytes.
    pub length: u32,
    /// Offset in the transfer, in bytes.
    pub offset: u64,
}

impl Piece {
    /// Bytes before those of the transfer.
    pub const BYTES: usize = 16;

    /// Its bytes.
    pub fn emit(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&self.number.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.length.to_le_bytes());
        bytes[8..].copy_from_slice(&self.offset.to_le_bytes());
        bytes
    }

    /// Reads a body; also returns what follows it.
    pub fn parse(body: &[u8]) -> Option<(Self, &[u8])> {
        let (bytes, rest) = body.split_first_chunk::<{ Self::BYTES }>()?;
        let piece = Self {
            number: u32_at(bytes, 0),
            length: u32_at(bytes, 4),
            offset: u64_at(bytes, 8),
        };
        Some((piece, rest))
    }

    /// Reads a body that is followed by as many bytes as it says.
    pub fn parse_whole(body: &[u8]) -> Option<(Self, &[u8])> {
        Self::parse(body).filter(|(piece, bytes)| bytes.len() == piece.length as usize)
    }

    /// Its place in the transfer's memory, if it lies within.
    pub fn within(&self, memory: &Region) -> Option<Region> {
        let offset = usize::try_from(self.offset).ok()?;
        memory.part(offset, self.length as usize)
    }
}

/// How a transfer has ended, as the owner of the memory reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Outcome {
    /// All bytes have arrived.
    Done = 0,
    /// No such grant for this peer, or it has ended.
    NotGranted = 1,
    /// Beyond the grant, or without the right.
    Outside = 2,
}

/// The end of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct End {
    /// The asker's number.
    pub number: u32,
    /// How it ended.
    pub outcome: Outcome,
}

impl End {
    /// Its bytes.
    pub fn emit(&self) -> [u8; 8] {
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&self.number.to_le_bytes());
        bytes[4..].copy_from_slice(&(self.outcome as u32).to_le_bytes());
        bytes
    }

    /// Reads a body.
    pub fn parse(body: &[u8]) -> Option<Self> {
        let bytes: &[u8; 8] = body.try_into().ok()?;
        let outcome = match u32_at(bytes, 4) {
            0 => Outcome::Done,
            1 => Outcome::NotGranted,
            2 => Outcome::Outside,
            _ => return None,
        };
        Some(Self {
            number: u32_at(bytes, 0),
            outcome,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_survive() {
        let header = Header {
            pass: 0x0123_4567_89AB_CDEF,
            from: 7,
            sequence: u32::MAX,
            acks: 3,
            kind: FrameKind::End,
            answer: true,
        };
        assert_eq!(Header::parse(&header.emit()), Some(header));
        let ask = Ask {
            number: 9,
            put: true,
            by_messages: false,
            token: 1 << 63 | 5,
            offset: 2,
            length: 3,
            address: 4,
            key: u64::MAX,
        };
        let mut body = ask.emit().to_vec();
        body.extend([1, 2]);
        assert_eq!(Ask::parse(&body), Some((ask, &[1, 2][..])));
        let messages = Ask {
            by_messages: true,
            ..ask
        };
        assert_eq!(Ask::parse(&messages.emit()), Some((messages, &[][..])));
        let piece = Piece {
            number: 4,
            length: 2,
            offset: 1 << 40,
        };
        let mut body = piece.emit().to_vec();
        assert_eq!(Piece::parse(&body), Some((piece, &[][..])));
        body.extend([1, 2]);
        assert_eq!(Piece::parse_whole(&body), Some((piece, &[1, 2][..])));
        assert_eq!(Piece::parse_whole(&body[..17]), None);
        let end = End {
            number: 8,
            outcome: Outcome::Outside,
        };
        assert_eq!(End::parse(&end.emit()), Some(end));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let good = Header {
            pass: 1,
            from: 2,
            sequence: 3,
            acks: 4,
            kind: FrameKind::Ack,
            answer: false,
        }
        .emit();
        for (place, byte) in [(20, 0), (20, 11), (21, 2), (22, 1), (23, 1)] {
            let mut bad = good;
            bad[place] = byte;
            assert_eq!(Header::parse(&bad), None, "{place}");
        }
        assert_eq!(Header::parse(&good[..HEADER - 1]), None);
        assert_eq!(End::parse(&[0, 0, 0, 0, 3, 0, 0, 0]), None);
        assert_eq!(End::parse(&[0; 9]), None);
        assert!(Ask::parse(&[0xFF; Ask::BYTES]).is_none());
        assert!(Ask::parse(&[0; Ask::BYTES - 1]).is_none());
    }
}
