//! Consequences of the end of a request: the waiter it wakes, what it counts for, and what it carries out.

use weft_fabric::Peer;
use weft_fiber::Waiter;

use super::boards::{ByMessages, Repeated};
use super::partitioned::{ChannelId, PartitionedPart};
use super::protocol::SendMode;
use super::request_id::RequestId;
use super::schedule::RunId;
use crate::buffer::Buffer;

/// What else is due when a request ends. Most requests have nothing of it.
#[derive(Debug, Default)]
pub(super) struct OnComplete {
    /// Released by the engine itself when complete (`MPI_Request_free`, buffered sends).
    pub detached: bool,
    /// Whether it counts against the buffer of buffered sends, in bytes.
    pub buffered: usize,
    /// The collective that it is a transfer of.
    pub run: Option<RunId>,
    /// The request that this one carries out, and that ends with it: a persistent one, or the head of
    /// a pair.
    pub follower: Option<RequestId>,
    /// What it carries of a partitioned message.
    pub part: Option<PartitionedPart>,
    /// How many requests must end before this one does, which they carry out together; 0 for one.
    pub pending_parts: u8,
    /// The waiter for it.
    pub waiter: Option<Waiter>,
    /// What a persistent request does each time that it is started.
    pub persistent: Option<Box<PersistentOperation>>,
}

impl OnComplete {
    /// Whether anything is to be done at the end: what a persistent request does is not.
    #[inline]
    pub fn is_anything_due(&self) -> bool {
        self.detached
            || self.buffered > 0
            || self.run.is_some()
            || self.follower.is_some()
            || self.part.is_some()
            || self.waiter.is_some()
    }
}

/// What to start when a persistent request is started.
#[derive(Clone, Debug)]
pub(crate) enum PersistentOperation {
    /// The arguments of the send; `None` stands for `MPI_PROC_NULL`.
    Send {
        mode: SendMode,
        buffer: Buffer,
        to: Option<Peer>,
        tag: i32,
    },
    /// The arguments of the receive; `None` stands for `MPI_PROC_NULL`.
    Receive {
        buffer: Buffer,
        from: Option<Option<Peer>>,
        tag: Option<i32>,
    },
    /// A collective, kept to be run again under the number it got when it was made.
    Collective {
        by_messages: ByMessages,
        /// If it has a board of its own.
        on_board: Option<Box<Repeated>>,
    },
    /// A partitioned send or receive; `None` stands for `MPI_PROC_NULL`.
    Partitioned(Option<ChannelId>),
}
