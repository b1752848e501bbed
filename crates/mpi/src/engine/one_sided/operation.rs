//! Operation of an origin: what it does, how much of it has left, how much has come back.
//!
//! ```text
//!   queued ──all messages have left──► awaiting ──all data have come──► ended      with a result
//!   queued ──all messages have left──► ended                                        without
//! ```
//!
//! It goes in pieces; each is a message that says where in the target's memory its bytes lie.

use std::sync::Arc;

use weft_fabric::{Peer, Region, Token};

use super::message::{OneSidedHead, Verb, bytes_of_blocks, write_blocks};
use crate::buffer::Buffer;
use crate::datatype::{Basic, Datatype};
use crate::engine::request_id::RequestId;
use crate::error::Error;
use crate::op::Combine;

/// Largest element (`MPI_C_LONG_DOUBLE_COMPLEX`).
pub(crate) const ELEMENT_MAX: usize = 32;

/// What is done to the memory of the target.
#[derive(Clone, Debug)]
pub(crate) enum Access {
    /// Written.
    Put(Buffer),
    /// Read.
    Get(Buffer),
    /// Combined.
    Accumulate(Combine, Buffer),
    /// Read and combined, each element at once; without operand for `MPI_NO_OP`.
    GetAccumulate(Combine, Option<Buffer>, Buffer),
    /// One element read, and replaced if it is what it is compared with.
    CompareAndSwap {
        /// What it is.
        basic: Basic,
        /// What to compare with.
        compare: [u8; ELEMENT_MAX],
        /// What to write.
        new: [u8; ELEMENT_MAX],
        /// Where what was there goes.
        result: Buffer,
    },
}

impl Access {
    /// What goes to the target.
    pub(crate) fn source(&self) -> Option<&Buffer> {
        match self {
            Self::Put(buffer) | Self::Accumulate(_, buffer) => Some(buffer),
            Self::GetAccumulate(_, buffer, _) => buffer.as_ref(),
            Self::Get(_) | Self::CompareAndSwap { .. } => None,
        }
    }

    /// Where what comes from the target goes.
    pub(crate) fn result(&self) -> Option<&Buffer> {
        match self {
            Self::Put(_) | Self::Accumulate(..) => None,
            Self::Get(buffer) | Self::GetAccumulate(_, _, buffer) => Some(buffer),
            Self::CompareAndSwap { result, .. } => Some(result),
        }
    }

    fn verb(&self) -> Verb {
        match self {
            Self::Put(_) => Verb::Put,
            Self::Get(_) => Verb::Get,
            Self::Accumulate(..) => Verb::Accumulate,
            Self::GetAccumulate(..) => Verb::GetAccumulate,
            Self::CompareAndSwap { .. } => Verb::CompareAndSwap,
        }
    }

    fn combine(&self) -> Option<&Combine> {
        match self {
            Self::Accumulate(combine, _) | Self::GetAccumulate(combine, ..) => Some(combine),
            _ => None,
        }
    }

    /// Bytes that stay together.
    pub(super) fn unit(&self) -> usize {
        match self {
            Self::Put(_) | Self::Get(_) => 1,
            Self::Accumulate(combine, _) | Self::GetAccumulate(combine, ..) => {
                combine.basic().size()
            }
            Self::CompareAndSwap { basic, .. } => basic.size(),
        }
    }
}

/// An operation under way.
#[derive(Debug)]
pub(crate) struct Operation {
    access: Access,
    /// Bytes from the start of the target's memory, or an address.
    base: i64,
    count: usize,
    datatype: Arc<Datatype>,
    /// What ends with it.
    request: Option<RequestId>,
    /// The target, which answers.
    pub(super) target: Peer,
    /// The member of the window that it goes to.
    pub(super) member: (u32, u32),
    total: usize,
    sent: usize,
    /// Bytes of a piece that fitted a message before.
    piece: usize,
    /// Messages that have left and were not answered, if they bring data.
    unanswered: u32,
    /// The fabric moves the data, by this grant of the target.
    portal: Option<Token>,
    error: Option<Error>,
}

/// What the fabric is to move.
pub(super) struct Transfer {
    pub(super) peer: Peer,
    pub(super) token: Token,
    pub(super) offset: u64,
    pub(super) region: Region,
    pub(super) writes: bool,
}

/// A piece of an operation as a message.
pub(super) struct Piece {
    pub(super) head: OneSidedHead,
    length: usize,
}

impl Operation {
    /// An operation on `count` elements of `datatype` from byte `base` of the memory of a member, which has granted it by
    /// `portal`.
    pub(crate) fn new(
        access: Access,
        base: i64,
        count: usize,
        datatype: &Arc<Datatype>,
        request: Option<RequestId>,
        portal: Option<Token>,
    ) -> Self {
        let total = datatype.size().saturating_mul(count);
        let is_whole = matches!(
            access,
            Access::Put(Buffer::Flat(..)) | Access::Get(Buffer::Flat(..))
        ) && datatype.flat(count).is_some();
        Self {
            portal: portal.filter(|_| is_whole),
            access,
            base,
            count,
            datatype: Arc::clone(datatype),
            request,
            target: Peer(0),
            member: (0, 0),
            total,
            sent: 0,
            piece: usize::MAX,
            unanswered: 0,
            error: None,
        }
    }

    /// Whether there is nothing to do.
    pub(super) fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// Whether all messages have left.
    pub(super) fn has_left(&self) -> bool {
        self.sent == self.total
    }

    /// Whether it has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.has_left() && self.unanswered == 0
    }

    /// What ends with it.
    pub(super) fn request(&self) -> Option<RequestId> {
        self.request
    }

    /// What it has failed with.
    pub(super) fn take_error(&mut self) -> Option<Error> {
        self.error.take()
    }

    /// Whether its end is waited for: others end when they have left.
    pub(super) fn is_awaited(&self) -> bool {
        self.portal.is_some() || self.access.result().is_some()
    }

    /// What the fabric is to move, if it is to.
    pub(super) fn transfer(&self) -> Option<Transfer> {
        let (offset, _) = self.datatype.flat(self.count)?;
        let (region, writes) = match self.access {
            Access::Put(Buffer::Flat(region, _)) => (region, true),
            Access::Get(Buffer::Flat(region, _)) => (region, false),
            _ => return None,
        };
        Some(Transfer {
            peer: self.target,
            token: self.portal?,
            offset: self.base.wrapping_add(offset as i64).cast_unsigned(),
            region,
            writes,
        })
    }

    /// The fabric has begun to move the data, or has moved them.
    pub(super) fn transfer_begun(&mut self, pending: bool) {
        self.sent = self.total;
        self.unanswered = u32::from(pending);
    }

    /// The fabric has moved the data.
    pub(super) fn transfer_ended(&mut self) {
        self.unanswered = 0;
    }

    /// Whether the fabric moves its data just now.
    pub(super) fn is_transferred(&self) -> bool {
        self.portal.is_some() && self.unanswered > 0
    }

    /// Writes the next piece to `data`, which holds at most `limit` bytes.
    pub(super) fn next_piece(
        &mut self,
        context: u32,
        name: u64,
        limit: usize,
        data: &mut Vec<u8>,
    ) -> Piece {
        data.clear();
        let unit = self.access.unit();
        let whole = |bytes: usize| (bytes / unit * unit).max(unit);
        let most = whole(limit - bytes_of_blocks(1));
        let mut length = (self.total - self.sent).min(most).min(self.piece);
        let carries = self.access.source().is_some();
        let blocks = loop {
            let blocks = self.datatype.strided_blocks(self.count, self.sent, length);
            let payload = if carries { length } else { 0 };
            if bytes_of_blocks(blocks.len()) + payload <= limit || length <= unit {
                break blocks;
            }
            length = whole(length / 2);
            self.piece = length;
        };
        write_blocks(&blocks, data);
        if let Some(source) = self.access.source() {
            let front = data.len();
            data.resize(front + length, 0);
            source.pack_from(self.sent, &mut data[front..]);
        }
        let mut head = OneSidedHead {
            name,
            base: self.base,
            at: self.sent as u64,
            ..OneSidedHead::new(self.access.verb(), context)
        };
        if let Some(combine) = self.access.combine() {
            (head.operation, head.basic) = (combine.operation(), combine.basic());
        }
        if let Access::CompareAndSwap {
            basic,
            compare,
            new,
            ..
        } = &self.access
        {
            head.basic = *basic;
            data.extend(&compare[..basic.size()]);
            data.extend(&new[..basic.size()]);
        }
        Piece { head, length }
    }

    /// A piece has left.
    pub(super) fn left(&mut self, piece: &Piece) {
        self.sent += piece.length;
        self.unanswered += u32::from(self.access.result().is_some());
    }

    /// The last data of a piece have come. False if they are not due.
    #[must_use]
    pub(super) fn reply(&mut self, at: u64, data: &[u8]) -> bool {
        let due = self.part(at, data);
        self.unanswered -= u32::from(due);
        due
    }

    /// Data of a piece have come. False if they are not due.
    #[must_use]
    pub(super) fn part(&mut self, at: u64, data: &[u8]) -> bool {
        let due = self.unanswered > 0 && self.portal.is_none();
        let Some(result) = self.access.result().filter(|_| due) else {
            return false;
        };
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        if at.checked_add(data.len()).is_none_or(|end| end > self.sent) {
            return false;
        }
        result.unpack_from(at, data);
        true
    }

    /// A piece was refused, and brings no data. False if that is not due.
    #[must_use]
    pub(super) fn refuse(&mut self, error: &Error) -> bool {
        let due = self.unanswered > 0 && self.portal.is_none();
        if due {
            self.unanswered -= 1;
            self.error.get_or_insert_with(|| error.clone());
        }
        due
    }

    /// Nothing of it leaves or comes any more.
    pub(super) fn break_off(&mut self, error: &Error) {
        self.sent = self.total;
        self.unanswered = 0;
        self.error.get_or_insert_with(|| error.clone());
    }
}

/// Names an operation; a later one at the same place has another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct OperationId(pub(super) u64);

/// The operations under way. Places are used again, under another name.
#[derive(Debug, Default)]
pub(super) struct Operations {
    slots: Vec<(u32, Option<Operation>)>,
    free: Vec<u32>,
}

impl Operations {
    pub(super) fn insert(&mut self, operation: Operation) -> OperationId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push((0, None));
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[index as usize];
        slot.0 = slot.0.wrapping_add(1);
        slot.1 = Some(operation);
        OperationId(u64::from(slot.0) << 32 | u64::from(index))
    }

    pub(super) fn get_mut(&mut self, id: OperationId) -> Option<&mut Operation> {
        let slot = self.slots.get_mut(id.0 as u32 as usize)?;
        slot.1.as_mut().filter(|_| u64::from(slot.0) == id.0 >> 32)
    }

    pub(super) fn remove(&mut self, id: OperationId) -> Option<Operation> {
        self.get_mut(id)?;
        let index = id.0 as u32;
        self.free.push(index);
        self.slots[index as usize].1.take()
    }

    /// Those to a member.
    pub(super) fn to(&self, member: (u32, u32)) -> Vec<OperationId> {
        let all = self.slots.iter().enumerate();
        all.filter(|(_, (_, operation))| operation.as_ref().is_some_and(|one| one.member == member))
            .map(|(index, (generation, _))| {
                OperationId(u64::from(*generation) << 32 | index as u64)
            })
            .collect()
    }
}
