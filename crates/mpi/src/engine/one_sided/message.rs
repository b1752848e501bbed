//! Messages of one-sided communication: the contents of the head, and of the front of the data.
//!
//! ```text
//!  byte 0     1      2           3       4..8      8..16   16..24   24..32
//!       0x20  verb   operation   basic   context   name    base     at
//! ```
//!
//! `name` is the sender's name of the operation, repeated by the answer; `base` is a displacement in bytes (in a dynamic
//! window, an address); `at` is the position within the operation's data, or a number. The data begin with the blocks
//! that they belong to, if the verb has any: their number, then each as four numbers.

use std::ops::Range;

use weft_fabric::{Head, SharedBytes};

use crate::datatype::{Basic, StridedBlock};
use crate::error::ErrorClass;
use crate::op::Predefined;

/// The first byte of these heads: no envelope and no frame of a guest has it.
const MARK: u8 = 0x20;
/// Bytes of a block.
const BLOCK: usize = 24;
/// Bytes of the number of blocks.
const COUNT: usize = 4;

/// What is said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Verb {
    /// Write these data. Answered by `Done`.
    Put,
    /// Read. Answered by `Reply`.
    Get,
    /// Combine with these data. Answered by `Done`.
    Accumulate,
    /// Combine with these data. Answered by `Reply` with what was there.
    GetAccumulate,
    /// The data are what to compare with and what to write. Answered by `Reply`.
    CompareAndSwap,
    /// The data that were asked for, or the last of them.
    Reply,
    /// `at` messages were carried out.
    Done,
    /// A message was not carried out; `at` says why.
    Refused,
    /// The lock, shared; `at` is the time of the sender.
    LockShared,
    /// The lock, alone; `at` is the time of the sender.
    LockExclusive,
    /// The lock is given; `at` is the time of the writer that the receiver goes past, or 0.
    Granted,
    /// The lock is given back.
    Unlock,
    /// An exposure epoch has begun.
    Post,
    /// The access epoch has ended.
    Complete,
    /// A lock in shared memory may be free.
    Freed,
    /// The lock, shared, for who has other locks; `at` is the time of the sender.
    LockFurther,
    /// Some of the data that were asked for, more than one message of the target holds. `Reply` brings the last of them.
    Part,
}

impl Verb {
    const ALL: [Self; 17] = [
        Self::Put,
        Self::Get,
        Self::Accumulate,
        Self::GetAccumulate,
        Self::CompareAndSwap,
        Self::Reply,
        Self::Done,
        Self::Refused,
        Self::LockShared,
        Self::LockExclusive,
        Self::Granted,
        Self::Unlock,
        Self::Post,
        Self::Complete,
        Self::Freed,
        Self::LockFurther,
        Self::Part,
    ];
}

/// The head of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::engine) struct OneSidedHead {
    pub(super) verb: Verb,
    pub(super) operation: Predefined,
    pub(super) basic: Basic,
    pub(super) context: u32,
    pub(super) name: u64,
    pub(super) base: i64,
    pub(super) at: u64,
}

impl OneSidedHead {
    /// A head that says no more than its verb.
    pub(super) fn new(verb: Verb, context: u32) -> Self {
        Self {
            verb,
            operation: Predefined::NoOp,
            basic: Basic::Byte,
            context,
            name: 0,
            base: 0,
            at: 0,
        }
    }

    /// As [`new`](Self::new), with a number.
    pub(super) fn with_number(verb: Verb, context: u32, at: u64) -> Self {
        Self {
            at,
            ..Self::new(verb, context)
        }
    }

    /// The answer of a verb to this message.
    pub(super) fn answer(&self, verb: Verb) -> Self {
        Self { verb, ..*self }
    }

    /// The messages that bring `bytes` bytes of an answer where one holds `limit`: the head of each, and which of the bytes.
    pub(super) fn parts(
        self,
        bytes: usize,
        limit: usize,
    ) -> impl Iterator<Item = (Self, Range<usize>)> {
        let last = bytes.saturating_sub(1) / limit * limit;
        (0..=last).step_by(limit).map(move |from| {
            let verb = if from == last { self.verb } else { Verb::Part };
            let at = self.at + from as u64;
            (Self { verb, at, ..self }, from..bytes.min(from + limit))
        })
    }

    pub(super) fn to_head(self) -> Head {
        let mut head = [0; 32];
        head[0] = MARK;
        head[1] = self.verb as u8;
        head[2] = self.operation as u8;
        head[3] = self.basic as u8;
        head[4..8].copy_from_slice(&self.context.to_le_bytes());
        head[8..16].copy_from_slice(&self.name.to_le_bytes());
        head[16..24].copy_from_slice(&self.base.to_le_bytes());
        head[24..32].copy_from_slice(&self.at.to_le_bytes());
        head
    }

    /// Parses what a peer sent; `None` if it is none of these.
    pub(in crate::engine) fn from_head(head: &Head) -> Option<Self> {
        if head[0] != MARK {
            return None;
        }
        let word = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&head[at..at + 8]);
            u64::from_le_bytes(bytes)
        };
        Some(Self {
            verb: *Verb::ALL.get(usize::from(head[1]))?,
            operation: *Predefined::ALL.get(usize::from(head[2]))?,
            basic: *Basic::ALL.get(usize::from(head[3]))?,
            context: (word(0) >> 32) as u32,
            name: word(8),
            base: word(16).cast_signed(),
            at: word(24),
        })
    }
}

/// Bytes that so many blocks take in a message.
pub(super) fn bytes_of_blocks(blocks: usize) -> usize {
    COUNT + blocks * BLOCK
}

/// Puts blocks to the front of a message.
pub(super) fn write_blocks(blocks: &[StridedBlock], into: &mut Vec<u8>) {
    into.extend((blocks.len() as u32).to_le_bytes());
    for block in blocks {
        into.extend((block.offset as i64).to_le_bytes());
        into.extend((block.stride as i64).to_le_bytes());
        // No message holds more.
        into.extend((block.bytes as u32).to_le_bytes());
        into.extend((block.count as u32).to_le_bytes());
    }
}

/// The blocks at the front of a message, and what follows them; `None` if there are fewer than it says.
pub(super) fn read_blocks(data: SharedBytes<'_>) -> Option<(Vec<StridedBlock>, SharedBytes<'_>)> {
    let count = u32::from_le_bytes(data.read()?) as usize;
    let (_, rest) = data.split_at(COUNT);
    if count > rest.len() / BLOCK {
        return None;
    }
    let (blocks, rest) = rest.split_at(count * BLOCK);
    let blocks = blocks.to_vec();
    let number = |bytes: &[u8]| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        i64::from_le_bytes(word) as isize
    };
    let block = |bytes: &[u8; BLOCK]| StridedBlock {
        offset: number(&bytes[0..8]),
        stride: number(&bytes[8..16]),
        bytes: number(&bytes[16..20]).cast_unsigned(),
        count: number(&bytes[20..24]).cast_unsigned(),
    };
    Some((
        blocks.as_chunks::<BLOCK>().0.iter().map(block).collect(),
        rest,
    ))
}

/// Why a message is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Refusal {
    /// The target has no such memory.
    Range,
    /// The operation is not defined for these elements.
    Op,
}

impl Refusal {
    pub(super) fn number(self) -> u64 {
        self as u64
    }

    pub(super) fn of(number: u64) -> Self {
        if number == Self::Op as u64 {
            Self::Op
        } else {
            Self::Range
        }
    }

    pub(super) fn class(self) -> ErrorClass {
        match self {
            Self::Range => ErrorClass::RmaRange,
            Self::Op => ErrorClass::Op,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_carries_every_field() {
        for (place, verb) in Verb::ALL.into_iter().enumerate() {
            assert_eq!(verb as usize, place);
            let head = OneSidedHead {
                verb,
                operation: Predefined::Maxloc,
                basic: Basic::Complex32,
                context: 0xdead_beef,
                name: 0x1234_5678_9abc_def0,
                base: -5,
                at: u64::MAX - 7,
            };
            assert_eq!(OneSidedHead::from_head(&head.to_head()), Some(head));
        }
        for (place, operation) in Predefined::ALL.into_iter().enumerate() {
            assert_eq!(operation as usize, place);
        }
    }

    #[test]
    fn what_says_nothing_is_refused() {
        let good = OneSidedHead::new(Verb::Put, 4).to_head();
        for (at, byte) in [(0, 0x21), (1, Verb::ALL.len() as u8), (2, 14), (3, 255)] {
            let mut head = good;
            head[at] = byte;
            assert_eq!(OneSidedHead::from_head(&head), None);
        }
        assert!(read_blocks(SharedBytes::of(&[1, 0, 0])).is_none());
        assert!(read_blocks(SharedBytes::of(&[255; 100])).is_none());
    }

    #[test]
    fn runs_survive_the_way() {
        let block = |offset| StridedBlock {
            offset,
            bytes: 7,
            count: 3,
            stride: -9,
        };
        let mut message = Vec::new();
        write_blocks(&[block(isize::MIN), block(5)], &mut message);
        assert_eq!(message.len(), bytes_of_blocks(2));
        message.extend([1, 2, 3]);
        let (blocks, rest) = read_blocks(SharedBytes::of(&message)).expect("well formed");
        assert_eq!(blocks, [block(isize::MIN), block(5)]);
        assert_eq!(rest.to_vec(), [1, 2, 3]);
    }
}
