//! Errors of MPI: a class of the standard (MPI 5.0, section 9.4) and a sentence that names the expected and the actual
//! value, and a remedy. The numbers of the classes belong to the ABI, not here.

use std::fmt;

use weft_fabric::Peer;

/// Classes of the standard that this crate raises.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorClass {
    /// Invalid buffer pointer.
    Buffer,
    /// Invalid count argument.
    Count,
    /// Invalid datatype argument.
    Type,
    /// Invalid tag argument.
    Tag,
    /// Invalid communicator.
    Comm,
    /// Invalid rank.
    Rank,
    /// Invalid request (handle).
    Request,
    /// Invalid root.
    Root,
    /// Invalid group.
    Group,
    /// Invalid operation.
    Op,
    /// Invalid topology.
    Topology,
    /// Invalid dimension argument.
    Dims,
    /// Invalid argument of some other kind.
    Arg,
    /// Message truncated on receive.
    Truncate,
    /// Known error not in this list.
    Other,
    /// Internal error of the implementation.
    Intern,
    /// Error code is in the status.
    InStatus,
    /// Pending request.
    Pending,
    /// Invalid keyval.
    Keyval,
    /// Invalid info object.
    Info,
    /// Info key too long or empty.
    InfoKey,
    /// Info value too long, or none that its key takes.
    InfoValue,
    /// Info key not defined.
    InfoNoKey,
    /// Memory is exhausted.
    NoMem,
    /// Not supported here.
    UnsupportedOperation,
    /// A peer has died.
    ProcFailed,
    /// A peer has died that might have sent the message of a receive, which is still under way.
    ProcFailedPending,
    /// The communicator is revoked.
    Revoked,
    /// Permission denied.
    Access,
    /// Invalid access mode of a file.
    Amode,
    /// Invalid assertion.
    Assert,
    /// Invalid file name.
    BadFile,
    /// Invalid base of a window.
    Base,
    /// A user's conversion function failed.
    Conversion,
    /// Invalid displacement.
    Disp,
    /// A data representation of that name is registered already.
    DupDatarep,
    /// The file exists.
    FileExists,
    /// The file is open somewhere.
    FileInUse,
    /// Invalid file handle.
    File,
    /// Some other error of input or output.
    Io,
    /// Invalid lock type.
    LockType,
    /// No service of that name.
    Name,
    /// Not the same on all processes.
    NotSame,
    /// Not enough space.
    NoSpace,
    /// The file does not exist.
    NoSuchFile,
    /// Invalid port name.
    Port,
    /// A quota is exceeded.
    Quota,
    /// The file or its file system is read-only.
    ReadOnly,
    /// Memory cannot be attached to a window.
    RmaAttach,
    /// Conflicting accesses to a window.
    RmaConflict,
    /// The target memory is not part of the window.
    RmaRange,
    /// Memory cannot be shared.
    RmaShared,
    /// Wrong synchronisation of one-sided communication.
    RmaSync,
    /// Wrong flavour of window.
    RmaFlavor,
    /// Invalid service name.
    Service,
    /// Invalid session.
    Session,
    /// Invalid size.
    Size,
    /// Processes could not be started.
    Spawn,
    /// The data representation is not supported.
    UnsupportedDatarep,
    /// A value does not fit.
    ValueTooLarge,
    /// Invalid window.
    Win,
}

/// An error: class and sentence. One pointer wide, so that results stay small on the hot path.
#[derive(Clone, PartialEq, Eq)]
pub struct Error(Box<Detail>);

#[derive(Clone, PartialEq, Eq)]
struct Detail {
    class: ErrorClass,
    text: String,
    peer: Option<Peer>,
}

impl Error {
    /// An error of `class` that says `text`: a lower-case sentence with the values and a remedy.
    #[cold]
    pub fn new(class: ErrorClass, text: impl Into<String>) -> Self {
        Self(Box::new(Detail {
            class,
            text: text.into(),
            peer: None,
        }))
    }

    /// The same about a peer.
    #[cold]
    #[must_use]
    pub(crate) fn about(mut self, peer: Peer) -> Self {
        self.0.peer = Some(peer);
        self
    }

    /// The peer that it is about, if it is about one.
    pub(crate) fn peer(&self) -> Option<Peer> {
        self.0.peer
    }

    /// The same in other words.
    #[cold]
    #[must_use]
    pub(crate) fn in_words(mut self, text: String) -> Self {
        self.0.text = text;
        self
    }

    /// The class of the standard.
    #[must_use]
    pub fn class(&self) -> ErrorClass {
        self.0.class
    }

    /// The sentence.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0.text
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0.text)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:?}: {}", self.0.class, self.0.text)
    }
}

impl std::error::Error for Error {}

impl From<weft_fabric::FabricError> for Error {
    fn from(cause: weft_fabric::FabricError) -> Self {
        let class = match cause {
            weft_fabric::FabricError::PeerLost { .. } => ErrorClass::ProcFailed,
            weft_fabric::FabricError::NoMemory { .. } => ErrorClass::NoMem,
            // The only grants that the engine uses are those of messages.
            weft_fabric::FabricError::NotGranted { peer } => {
                return Self::new(
                    ErrorClass::Other,
                    format!(
                        "rank {peer} of MPI_COMM_WORLD has withdrawn a message: its own operation has ended in an error; see what that says"
                    ),
                );
            }
            // The only blocks that the engine looks for are those of windows, and of what files share.
            weft_fabric::FabricError::NotAllocated { peer } => {
                return Self::new(
                    ErrorClass::Other,
                    format!(
                        "rank {peer} of MPI_COMM_WORLD has given the memory of a window or a file back: its own operation has ended in an error; see what that says"
                    ),
                );
            }
            _ => ErrorClass::Intern,
        };
        Self::new(class, cause.to_string())
    }
}

/// Outcome of an MPI operation.
pub type Result<T> = std::result::Result<T, Error>;

#[cfg(test)]
mod tests {
    use weft_fabric::{FabricError, Peer};

    use super::*;

    /// What a peer has taken back after an error of its own is no defect of ours.
    #[test]
    fn what_a_peer_has_taken_back_is_said_of_it() {
        let peer = Peer(3);
        for cause in [
            FabricError::NotGranted { peer },
            FabricError::NotAllocated { peer },
        ] {
            let error = Error::from(cause);
            assert_eq!(error.class(), ErrorClass::Other);
            assert!(error.text().starts_with("rank 3 "), "{error}");
        }
    }
}
