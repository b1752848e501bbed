//! Point-to-point communication (MPI 5.0, chapter 3): what callers see of the engine.

mod buffered;
mod completion;
mod pair;
mod persistent;
mod probe;
mod receive;
mod send;

pub use completion::RequestList;
pub use probe::Message;

/// Modes of sending (MPI 5.0, section 3.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendMode {
    /// Ends when the buffer may be used again.
    Standard,
    /// Ends when the receive was matched, too.
    Synchronous,
    /// The caller promises that the receive is posted. Treated as standard.
    Ready,
    /// Copied to the attached buffer; ends at once.
    Buffered,
}

/// Whom to send to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// `MPI_PROC_NULL`: nobody.
    Null,
    /// A rank of the communicator (of the remote group, for an intercommunicator).
    Rank(u32),
}

/// Whom to receive from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// `MPI_PROC_NULL`: nobody.
    Null,
    /// `MPI_ANY_SOURCE`.
    Any,
    /// A rank of the communicator (of the remote group, for an intercommunicator).
    Rank(u32),
}

/// Which tag to receive.
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
