//! Point-to-point communication (MPI 5.0, chapter 3): the engine's interface for callers.

mod across_engines;
mod at_once;
mod buffered;
mod completion;
pub mod future;
mod pair;
mod partitioned;
mod persistent;
mod probe;
mod receive;
mod send;

pub use crate::engine::{Ended, Listed, Received, RequestList, SendMode};
pub use probe::Message;

/// Destination of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// `MPI_PROC_NULL`.
    Null,
    /// A rank of the communicator (of the remote group, for an intercommunicator).
    Rank(u32),
}

/// Source of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// `MPI_PROC_NULL`.
    Null,
    /// `MPI_ANY_SOURCE`.
    Any,
    /// A rank of the communicator (of the remote group, for an intercommunicator).
    Rank(u32),
}

/// Tag to receive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TagPattern {
    /// `MPI_ANY_TAG`.
    Any,
    /// This one.
    Exact(i32),
}

impl TagPattern {
    pub(crate) fn exact(self) -> Option<i32> {
        match self {
            Self::Any => None,
            Self::Exact(tag) => Some(tag),
        }
    }
}
