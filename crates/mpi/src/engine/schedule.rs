//! Schedule: a collective as a value that lists what one rank does; the engine runs it.
//!
//! ```text
//! builder (coll/…) ──► Schedule ──► run: start and wait     blocking
//!                               └─► start: a request        non-blocking
//!                               └─► keep, start again       persistent
//! ```
//!
//! Steps are taken in order. `Send`, `Receive` and `Await` only *begin* there; a `Fence` waits until everything before it
//! has ended. Local steps (`Copy`, `Pack`, `Unpack`, `Reduce`) happen at once, so a local step on received data must come
//! after a fence. A schedule ends with an implied fence.
//!
//! Messages of collectives travel in a context of their own, with the sequence number of the
//! collective on its communicator as tag: collectives under way at the same time do not mix.

use std::fmt::Debug;
use std::sync::Arc;

use weft_fabric::{Peer, Region, SyncKey};

use super::collective_note::CollectiveNote;
use crate::buffer::{self, TypedBuffer};
use crate::datatype::Datatype;
use crate::error::Result;
use crate::group::Group;
use crate::op::Op;

/// Tags of collectives are below this bit. Those that have it, in the same context, are for messages of the layer
/// above that are no collectives.
pub(crate) const TAG_BIT_OF_OTHERS: i32 = 0x4000_0000;

/// Contiguous bytes of a schedule: the caller's, or a part of the scratch memory that the run owns.
#[derive(Clone, Copy, Debug)]
pub enum Span {
    /// The caller's memory.
    User(Region),
    /// Part of the scratch memory.
    Scratch {
        /// First byte.
        offset: usize,
        /// Bytes.
        length: usize,
    },
}

/// What a rank does next.
#[derive(Clone, Debug)]
pub enum Step {
    /// Begins to send to a rank of the communicator.
    Send {
        /// Rank in the communicator.
        to: u32,
        /// What.
        from: Span,
    },
    /// Begins to receive from a rank of the communicator: exactly as many bytes as the span holds.
    Receive {
        /// Rank in the communicator.
        from: u32,
        /// Where to.
        into: Span,
    },
    /// Copies bytes.
    Copy {
        /// What.
        from: Span,
        /// Where to; as many bytes as both hold.
        into: Span,
    },
    /// Gathers elements with gaps into contiguous bytes.
    Pack {
        /// The elements.
        buffer: TypedBuffer,
        /// Where to.
        into: Span,
    },
    /// Spreads contiguous bytes over elements with gaps.
    Unpack {
        /// What.
        from: Span,
        /// The elements.
        buffer: TypedBuffer,
    },
    /// Copies elements with gaps to others of as many bytes.
    CopyElements {
        /// What.
        from: TypedBuffer,
        /// Where to.
        into: TypedBuffer,
    },
    /// Combines: `into = operand op into` if `operand_first`, else `into = into op operand`.
    Reduce {
        /// The operation.
        op: Arc<Op>,
        /// Type of the elements, contiguous at its extent.
        datatype: Arc<Datatype>,
        /// How many elements.
        count: usize,
        /// One side.
        operand: Span,
        /// The other side, and the result.
        into: Span,
        /// The order, for operations that do not commute.
        operand_first: bool,
    },
    /// Sends a signal without data.
    Signal {
        /// Rank in the communicator.
        to: u32,
    },
    /// Begins to wait for a signal.
    Await {
        /// Rank in the communicator.
        from: u32,
    },
    /// Tells somebody of this process what the ranks have agreed on.
    Tell {
        /// The recipient, kept as long as the schedule.
        recipient: Arc<dyn Recipient>,
        /// What.
        from: Span,
    },
    /// Waits until everything before has ended.
    Fence,
}

/// The recipient of what the ranks of a collective have agreed on: the communicator that is being made, of its context.
pub trait Recipient: Debug + Send + Sync {
    /// The bytes are here. Called while the process is in use: to call the process from it panics.
    ///
    /// # Errors
    /// What the bytes say has failed; the collective ends with it.
    fn tell(&self, bytes: Region) -> Result<()>;
}

/// What one rank does in a collective.
#[derive(Clone, Debug, Default)]
pub struct Schedule {
    /// Name of the MPI call, for messages to people.
    pub name: &'static str,
    /// In order.
    pub steps: Vec<Step>,
    /// Scratch memory that a run needs.
    pub scratch_bytes: usize,
    /// What all ranks compute alike; nothing if the name says all that is known.
    pub note: CollectiveNote,
    /// The collective has begun on a board, and this is what is left of it.
    pub continues: bool,
}

impl Schedule {
    /// Steps that need no scratch memory.
    #[must_use]
    pub fn of(name: &'static str, steps: Vec<Step>) -> Self {
        Self {
            name,
            steps,
            scratch_bytes: 0,
            note: CollectiveNote::NOTHING,
            continues: false,
        }
    }

    /// Whether this rank communicates with no other in it: [`carry_out`](Self::carry_out) does all of it.
    pub(crate) fn is_local(&self) -> bool {
        let is_local = |step: &Step| {
            matches!(
                step,
                Step::Copy { .. }
                    | Step::Pack { .. }
                    | Step::Unpack { .. }
                    | Step::CopyElements { .. }
            )
        };
        self.scratch_bytes == 0
            && !self.continues
            && self.note == CollectiveNote::NOTHING
            && self.steps.iter().all(is_local)
    }

    /// Takes the steps of a schedule that [is local](Self::is_local).
    pub(crate) fn carry_out(&self) {
        for step in &self.steps {
            match step {
                Step::Copy {
                    from: Span::User(from),
                    into: Span::User(into),
                } => _ = into.copy_from(from),
                Step::Pack {
                    buffer,
                    into: Span::User(into),
                } => _ = buffer.pack(into),
                Step::Unpack {
                    from: Span::User(from),
                    buffer,
                } => _ = buffer.unpack(buffer::shared(from)),
                Step::CopyElements { from, into } => from.copy_to(into),
                _ => unreachable!("no step of a local schedule: {step:?}"),
            }
        }
    }
}

/// Index of a run in the engine's table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RunId(pub(super) u32);

/// A context, and the number of a collective there, if it is known.
pub(super) type Which = (u32, Option<u32>);

/// Context of one collective on a communicator: who takes part, and by what its messages are known.
#[derive(Clone, Debug)]
pub(crate) struct CollectiveContext {
    /// The communicator's context for collectives.
    context: u32,
    /// Ranks of the communicator (both sides of an intercommunicator), where they differ from the peers.
    group: Option<Arc<Group>>,
    /// Form of this collective and its number among those of that form on the communicator.
    sequence: u32,
}

impl CollectiveContext {
    /// That of collective number `sequence` in a communicator's context for collectives.
    pub(crate) fn new(context: u32, group: Option<Arc<Group>>, sequence: u32) -> Self {
        Self {
            context,
            group,
            sequence,
        }
    }

    /// Context of its messages.
    pub(super) fn context(&self) -> u32 {
        self.context
    }

    /// Its context and number.
    pub(super) fn which(&self) -> Which {
        (self.context, Some(self.sequence))
    }

    /// The members; `None` stands for the peers that the job starts with.
    pub(super) fn group(&self) -> Option<&Group> {
        self.group.as_deref()
    }

    /// The peer of a rank.
    pub(super) fn peer(&self, rank: u32) -> Peer {
        self.group
            .as_ref()
            .map_or(Peer(rank), |group| group.peer(rank))
    }

    /// Its form and number, as one.
    pub(crate) fn sequence(&self) -> u32 {
        self.sequence
    }

    /// Key of its signals, which carry no note: those of `MPI_Finalize` have a key of their own, as if they were of a fourth
    /// form, so that they do not end a barrier of the program.
    pub(super) fn key(&self, note: CollectiveNote) -> SyncKey {
        let form = if note == CollectiveNote::FINALIZE {
            3
        } else {
            0
        };
        SyncKey(u64::from(self.context) << 32 | u64::from(self.sequence | form))
    }

    /// Tag of its messages.
    pub(super) fn tag(&self) -> i32 {
        Self::tag_of(self.sequence)
    }

    /// Tag of the messages of the collective of this form and number.
    #[inline]
    pub(crate) fn tag_of(sequence: u32) -> i32 {
        sequence.cast_signed() & (TAG_BIT_OF_OTHERS - 1)
    }
}
