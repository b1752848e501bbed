//! Outcomes of requests: as the engine notes them, with peers, and as callers see them, with ranks.

use weft_fabric::Peer;

use super::request_id::RequestId;
use crate::error::Error;
use crate::marks::Mark;

/// What the end of an operation says. The source is a [`Peer`]; [`Status`] has it as a rank.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    pub source: Option<Peer>,
    pub tag: i32,
    pub bytes: u64,
    pub cancelled: bool,
    /// The word that the message has carried: see [`Mark`].
    pub mark: u64,
    pub error: Option<Error>,
}

impl Outcome {
    /// What is known before the end.
    pub(super) const NONE: Self = Self {
        source: None,
        tag: -1,
        bytes: 0,
        cancelled: false,
        mark: 0,
        error: None,
    };
}

/// The status of a completed operation (MPI 5.0, section 3.2.5).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Rank of the sender in the communicator of the receive; `None` for `MPI_PROC_NULL` and sends.
    pub source: Option<u32>,
    /// Tag of the message; -1 if there was none.
    pub tag: i32,
    /// Bytes received.
    pub bytes: u64,
    /// Whether the operation was cancelled.
    pub cancelled: bool,
    /// The operation itself failed: for `MPI_Waitall` and its family.
    pub error: Option<Error>,
    /// Whether there was a message at all: false gives the empty status.
    pub message: bool,
    /// Whether the peer was `MPI_PROC_NULL`.
    pub null: bool,
    /// What the message has carried.
    pub mark: Mark,
}

impl Status {
    /// The empty status: source any, tag any, no bytes.
    #[must_use]
    pub fn empty() -> Self {
        Self {
            tag: -1,
            ..Self::default()
        }
    }

    /// That of a request without a slot.
    #[must_use]
    pub(crate) fn without_slot(id: RequestId) -> Self {
        if id == RequestId::NOTHING_RECEIVED {
            Self::null()
        } else {
            Self::empty()
        }
    }

    /// The status of a receive from `MPI_PROC_NULL`.
    #[must_use]
    pub fn null() -> Self {
        Self {
            tag: -1,
            null: true,
            ..Self::default()
        }
    }
}
