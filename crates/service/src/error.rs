//! Errors of the services: a code, which C programs get as a negative errno, and a sentence for the user.

use std::fmt;

use weft_fabric::FabricError;

/// Kind of an error. The number is the errno of Linux.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub enum Code {
    /// There is no such name.
    NoEntry = 2,
    /// The fabric failed.
    Io = 5,
    /// The id names nothing, or an end of the other direction; or no operation was begun.
    BadId = 9,
    /// Nothing is free at the moment.
    Again = 11,
    /// The portal did not permit this.
    Access = 13,
    /// The argument points nowhere, or was given already.
    Fault = 14,
    /// The port is taken, or the id is in use.
    Busy = 16,
    /// A node, port, size, kind or list is out of range.
    Invalid = 22,
    /// The message does not fit.
    TooLong = 90,
    /// There is no such request.
    NotSupported = 95,
    /// A node has died or left.
    NodeLost = 112,
}

/// A code and a sentence. One pointer wide, so that results stay small.
#[derive(Clone, PartialEq, Eq)]
pub struct Error(Box<(Code, String)>);

impl Error {
    /// An error with the text `text`: a lower-case sentence with the values and a remedy.
    #[cold]
    pub fn new(code: Code, text: impl Into<String>) -> Self {
        Self(Box::new((code, text.into())))
    }

    /// Its kind.
    #[must_use]
    pub fn code(&self) -> Code {
        self.0.0
    }

    /// The number that C programs get: a negative errno.
    #[must_use]
    pub fn number(&self) -> i32 {
        -(self.0.0 as i32)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0.1)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:?}: {}", self.0.0, self.0.1)
    }
}

impl std::error::Error for Error {}

impl From<FabricError> for Error {
    fn from(cause: FabricError) -> Self {
        match cause {
            FabricError::PeerLost { peer, reason } => lost(peer.0, &reason),
            other => Self::new(Code::Io, other.to_string()),
        }
    }
}

/// The error of an operation that needs a node that is gone.
#[cold]
pub(crate) fn lost(node: u32, reason: &str) -> Error {
    Error::new(
        Code::NodeLost,
        format!(
            "node {node} is lost: {reason}; go on without it, or find it again by its name once it was started anew"
        ),
    )
}

#[cold]
pub(crate) fn wrong_end(id: i32, is: &str, made_by: &str, needed: &str) -> Error {
    Error::new(
        Code::BadId,
        format!("{id} is an {is}, made by {made_by}; this call needs an {needed}"),
    )
}

#[cold]
pub(crate) fn busy(id: i32) -> Error {
    Error::new(
        Code::Busy,
        format!("an operation of id {id} is under way; wait for it first, one at a time"),
    )
}

#[cold]
pub(crate) fn nothing_begun(id: i32) -> Error {
    Error::new(
        Code::BadId,
        format!(
            "nothing was begun with id {id}, so there is nothing to wait for; call aread or awrite first"
        ),
    )
}

/// Outcome of a call.
pub type Result<T> = std::result::Result<T, Error>;
