//! Frames: the bytes on a connection after both sides have proved the key. All numbers are little endian.
//!
//! ```text
//!   0      1    4        8                16
//!   kind   0    length   processed        body of `length` bytes
//! ```
//!
//! `processed` is the number of counted frames of the other side that the sender has processed: each frame
//! carries an acknowledgement. All frames are counted except `Select` and `Resume`.
//!
//! | kind | body |
//! |---|---|
//! | `Select`, `Resume` | generation u32: which connection of the pair this is |
//! | `Goodbye`, `Acknowledge`, `Flush` | – |
//! | `Message` | head, data |
//! | `Signal` | key u64 |
//! | `Get`, `Put` | transfer u32, offer u32, token u64, offset u64, length u64 |
//! | `Chunk` | transfer u32, kind u32, offset u64, bytes |
//! | `End` | transfer u32, kind u32, outcome u32, 0 u32 |
//! | `Offer` | number u32, 0 u32, token u64, length u64 |
//!
//! `transfer` is a number given by the side that asked, or offered; `kind` says which of the two did (see
//! [`TransferKind`]).

use std::ops::Range;

use weft_fabric::{HEAD, Head};

/// Bytes of the fixed part of a frame.
pub const HEADER: usize = 16;
/// Bytes of a chunk before its data.
pub const CHUNK_HEAD: usize = 16;
/// Longest data of a message.
pub const DATA: usize = 64 << 10;
/// Longest data of a chunk.
pub const CHUNK: usize = 256 << 10;

const KIND: usize = 0;
const ZERO: Range<usize> = 1..4;
const LENGTH: Range<usize> = 4..8;
const PROCESSED: Range<usize> = 8..16;

/// The kind of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum FrameKind {
    /// The decider of a pair selects this connection.
    Select = 1,
    /// The other side goes on with it.
    Resume = 2,
    /// Nothing follows: the sender leaves the job.
    Goodbye = 3,
    /// Only the acknowledgement.
    Acknowledge = 4,
    /// Mailbox.
    Message = 5,
    /// Sync.
    Signal = 6,
    /// Portal: bytes are asked for.
    Get = 7,
    /// Portal: bytes are announced.
    Put = 8,
    /// Portal: bytes.
    Chunk = 9,
    /// Portal: refused, or all has arrived.
    End = 10,
    /// Portal: bytes are announced that nobody has asked for yet.
    Offer = 11,
    /// The receiver's kernel shall acknowledge at once what came before: the sender waits for that.
    Flush = 12,
}

impl FrameKind {
    const ALL: [Self; 12] = [
        Self::Select,
        Self::Resume,
        Self::Goodbye,
        Self::Acknowledge,
        Self::Message,
        Self::Signal,
        Self::Get,
        Self::Put,
        Self::Chunk,
        Self::End,
        Self::Offer,
        Self::Flush,
    ];

    /// Whether it takes part in acknowledging and resending.
    pub fn is_counted(self) -> bool {
        !matches!(self, Self::Select | Self::Resume)
    }

    /// The lengths that its body may have.
    fn lengths(self) -> Range<usize> {
        let one = |length: usize| length..length + 1;
        match self {
            Self::Select | Self::Resume => one(4),
            Self::Goodbye | Self::Acknowledge | Self::Flush => one(0),
            Self::Message => HEAD..HEAD + DATA + 1,
            Self::Signal => one(8),
            Self::Get | Self::Put => one(32),
            Self::Chunk => CHUNK_HEAD..CHUNK_HEAD + CHUNK + 1,
            Self::End => one(16),
            Self::Offer => one(Offer::BYTES),
        }
    }
}

/// The fixed part of a frame, checked: the length fits the kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// The kind of the frame.
    pub kind: FrameKind,
    /// Bytes of the body.
    pub length: usize,
    /// Counted frames of the reader that the sender had processed.
    pub processed: u64,
}

/// Bytes that are not a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed;

impl Header {
    /// The bytes of this header.
    pub fn emit(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[KIND] = self.kind as u8;
        bytes[LENGTH].copy_from_slice(&(self.length as u32).to_le_bytes());
        bytes[PROCESSED].copy_from_slice(&self.processed.to_le_bytes());
        bytes
    }

    /// Reads and checks.
    pub fn parse(bytes: &[u8; HEADER]) -> Result<Self, Malformed> {
        let kind = FrameKind::ALL
            .into_iter()
            .find(|kind| *kind as u8 == bytes[KIND])
            .ok_or(Malformed)?;
        let length = u32_at(bytes, LENGTH.start) as usize;
        if bytes[ZERO] != [0; 3] || !kind.lengths().contains(&length) {
            return Err(Malformed);
        }
        Ok(Self {
            kind,
            length,
            processed: u64_at(bytes, PROCESSED.start),
        })
    }
}

/// Which side began the transfer, seen from the sender of the frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum TransferKind {
    /// The reader of the frame has asked with `Get`: these are its bytes, or its refusal.
    Get = 0,
    /// The sender of the chunk has announced it with `Put`; an `End` answers the reader's `Put`.
    Put = 1,
    /// The sender of the frame has offered it: its bytes, or its end.
    Offer = 2,
}

impl TransferKind {
    fn parse(number: u32) -> Result<Self, Malformed> {
        match number {
            0 => Ok(Self::Get),
            1 => Ok(Self::Put),
            2 => Ok(Self::Offer),
            _ => Err(Malformed),
        }
    }
}

/// Body of `Get` and `Put`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ask {
    /// The transfer's number, given by the asker.
    pub transfer: u32,
    /// The offer that it takes, so that the owner sends nothing more; 0: none.
    pub offer: u32,
    /// The grant.
    pub token: u64,
    /// From its start, in bytes.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}

impl Ask {
    /// Bytes of the body.
    pub const BYTES: usize = 32;

    /// The bytes of the body.
    pub fn emit(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        bytes[..4].copy_from_slice(&self.transfer.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.offer.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.token.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.offset.to_le_bytes());
        bytes[24..].copy_from_slice(&self.length.to_le_bytes());
        bytes
    }

    /// Reads a body of the right length.
    pub fn parse(body: &[u8]) -> Result<Self, Malformed> {
        let body: &[u8; 32] = body.try_into().map_err(|_| Malformed)?;
        Ok(Self {
            transfer: u32_at(body, 0),
            offer: u32_at(body, 4),
            token: u64_at(body, 8),
            offset: u64_at(body, 16),
            length: u64_at(body, 24),
        })
    }
}

/// Body of `Offer`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offer {
    /// The offer's number, given by the sender, for the chunks; not 0.
    pub number: u32,
    /// The grant.
    pub token: u64,
    /// The grant's length: all of it will come.
    pub length: u64,
}

impl Offer {
    /// Bytes of the body.
    pub const BYTES: usize = 24;

    /// The bytes of the body.
    pub fn emit(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&self.number.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.token.to_le_bytes());
        bytes[16..].copy_from_slice(&self.length.to_le_bytes());
        bytes
    }

    /// Reads a body.
    pub fn parse(body: &[u8]) -> Result<Self, Malformed> {
        let body: &[u8; Self::BYTES] = body.try_into().map_err(|_| Malformed)?;
        if u32_at(body, 4) != 0 {
            return Err(Malformed);
        }
        Ok(Self {
            number: u32_at(body, 0),
            token: u64_at(body, 8),
            length: u64_at(body, 16),
        })
    }
}

/// The beginning of the body of a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChunkHead {
    /// The transfer's number, given by the asker.
    pub transfer: u32,
    /// Which side began it.
    pub kind: TransferKind,
    /// From the start of the transfer, in bytes.
    pub offset: u64,
}

impl ChunkHead {
    /// The bytes.
    pub fn emit(&self) -> [u8; CHUNK_HEAD] {
        let mut bytes = [0; CHUNK_HEAD];
        bytes[..4].copy_from_slice(&self.transfer.to_le_bytes());
        bytes[4..8].copy_from_slice(&(self.kind as u32).to_le_bytes());
        bytes[8..].copy_from_slice(&self.offset.to_le_bytes());
        bytes
    }

    /// Reads them.
    pub fn parse(bytes: &[u8; CHUNK_HEAD]) -> Result<Self, Malformed> {
        Ok(Self {
            transfer: u32_at(bytes, 0),
            kind: TransferKind::parse(u32_at(bytes, 4))?,
            offset: u64_at(bytes, 8),
        })
    }
}

/// How a transfer ended at its owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Outcome {
    /// All bytes of a put have arrived.
    Done = 0,
    /// No such grant for this peer.
    NotGranted = 1,
    /// Beyond the grant, or without the right.
    Outside = 2,
}

/// Body of `End`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct End {
    /// The transfer's number, given by the asker.
    pub transfer: u32,
    /// The kind of transfer.
    pub kind: TransferKind,
    /// How it ended.
    pub outcome: Outcome,
}

impl End {
    /// The bytes of the body.
    pub fn emit(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&self.transfer.to_le_bytes());
        bytes[4..8].copy_from_slice(&(self.kind as u32).to_le_bytes());
        bytes[8..12].copy_from_slice(&(self.outcome as u32).to_le_bytes());
        bytes
    }

    /// Reads a body.
    pub fn parse(body: &[u8]) -> Result<Self, Malformed> {
        let body: &[u8; 16] = body.try_into().map_err(|_| Malformed)?;
        let outcome = match u32_at(body, 8) {
            0 => Outcome::Done,
            1 => Outcome::NotGranted,
            2 => Outcome::Outside,
            _ => return Err(Malformed),
        };
        if u32_at(body, 12) != 0 {
            return Err(Malformed);
        }
        Ok(Self {
            transfer: u32_at(body, 0),
            kind: TransferKind::parse(u32_at(body, 4))?,
            outcome,
        })
    }
}

/// The description that each side sends of itself in the handshake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hello {
    /// The speaker's rank.
    pub rank: u32,
    /// The rank it wants to reach; the accepting side repeats its own.
    pub target: u32,
    /// The connection of the pair that it last used; 0: none yet; or [`ABSENT`](Self::ABSENT).
    pub generation: u32,
    /// The speaker's incarnation.
    pub incarnation: u32,
    /// The incarnation of the target that it wants; the accepting side repeats its own.
    pub target_incarnation: u32,
}

impl Hello {
    /// In place of a generation: the speaker wants no connection, and only says that it is absent in its
    /// world.
    pub const ABSENT: u32 = u32::MAX;

    /// The bytes.
    pub fn emit(&self) -> [u8; 20] {
        let mut bytes = [0; 20];
        let words = [
            self.rank,
            self.target,
            self.generation,
            self.incarnation,
            self.target_incarnation,
        ];
        for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Reads them.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let bytes: &[u8; 20] = bytes.try_into().map_err(|_| Malformed)?;
        Ok(Self {
            rank: u32_at(bytes, 0),
            target: u32_at(bytes, 4),
            generation: u32_at(bytes, 8),
            incarnation: u32_at(bytes, 12),
            target_incarnation: u32_at(bytes, 16),
        })
    }
}

/// The bytes of a `Select` or `Resume` frame.
pub(crate) fn uncounted(kind: FrameKind, generation: u32, processed: u64) -> Vec<u8> {
    let header = Header {
        kind,
        length: 4,
        processed,
    };
    let mut bytes = Vec::with_capacity(HEADER + 4);
    bytes.extend(header.emit());
    bytes.extend(generation.to_le_bytes());
    bytes
}

/// The generation in the body of a `Select` or `Resume`; 0 in other frames.
pub(crate) fn generation(body: &[u8]) -> u32 {
    body.first_chunk()
        .map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// A message split into head and data; the body has a length that its header allowed.
pub fn message(body: &[u8]) -> Result<(&Head, &[u8]), Malformed> {
    body.split_first_chunk::<HEAD>().ok_or(Malformed)
}

/// The number at `start`, which must be within the bytes.
#[inline]
pub fn u32_at(bytes: &[u8], start: usize) -> u32 {
    bytes[start..start + 4]
        .try_into()
        .map_or(0, u32::from_le_bytes)
}

/// The number at `start`, which must be within the bytes.
#[inline]
pub fn u64_at(bytes: &[u8], start: usize) -> u64 {
    bytes[start..start + 8]
        .try_into()
        .map_or(0, u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_emitted_is_parsed() {
        for kind in FrameKind::ALL {
            for length in [kind.lengths().start, kind.lengths().end - 1] {
                let header = Header {
                    kind,
                    length,
                    processed: 1 << 40,
                };
                assert_eq!(Header::parse(&header.emit()), Ok(header));
                let long = Header {
                    length: kind.lengths().end,
                    ..header
                };
                assert_eq!(Header::parse(&long.emit()), Err(Malformed));
            }
        }
        let ask = Ask {
            transfer: 1,
            offer: 9,
            token: 2,
            offset: 3,
            length: 4,
        };
        assert_eq!(Ask::parse(&ask.emit()), Ok(ask));
        let offer = Offer {
            number: 1,
            token: 2,
            length: 3,
        };
        assert_eq!(Offer::parse(&offer.emit()), Ok(offer));
        let chunk = ChunkHead {
            transfer: 5,
            kind: TransferKind::Put,
            offset: 6,
        };
        assert_eq!(ChunkHead::parse(&chunk.emit()), Ok(chunk));
        let end = End {
            transfer: 7,
            kind: TransferKind::Get,
            outcome: Outcome::Outside,
        };
        assert_eq!(End::parse(&end.emit()), Ok(end));
        let hello = Hello {
            rank: 8,
            target: 9,
            generation: 10,
            incarnation: 0,
            target_incarnation: 0,
        };
        assert_eq!(Hello::parse(&hello.emit()), Ok(hello));
    }

    #[test]
    fn other_bytes_are_refused() {
        for kind in [0, 11, 255] {
            let mut bytes = [0; HEADER];
            bytes[KIND] = kind;
            assert_eq!(Header::parse(&bytes), Err(Malformed));
        }
        let header = Header {
            kind: FrameKind::Goodbye,
            length: 0,
            processed: 0,
        };
        let mut bytes = header.emit();
        bytes[2] = 1;
        assert_eq!(Header::parse(&bytes), Err(Malformed));
        assert_eq!(ChunkHead::parse(&[9; CHUNK_HEAD]), Err(Malformed));
        assert_eq!(End::parse(&[0; 15]), Err(Malformed));
        assert_eq!(Ask::parse(&[0; 31]), Err(Malformed));
        assert_eq!(Offer::parse(&[1; Offer::BYTES]), Err(Malformed));
    }
}
