//! Protocols of a send: the protocol of a message is chosen here, by mode and size.

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

/// How the bytes of a send travel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Protocol {
    /// With the envelope; the send ends when they have left.
    Eager,
    /// With the envelope; the send ends when they were matched.
    EagerSynchronous,
    /// Granted; the receiver pulls, or asks for pieces.
    Rendezvous,
    /// With gaps: in pieces, when the receiver asks for them. Each is packed as it leaves and unpacked as it arrives, so
    /// nobody needs memory for all of them.
    Pieces,
}

impl Protocol {
    /// That of a message of so many bytes, of which at most `eager` go with the envelope.
    #[inline]
    pub(super) fn of(mode: SendMode, bytes: usize, eager: usize) -> Self {
        if bytes > eager {
            Self::Rendezvous
        } else if mode == SendMode::Synchronous {
            Self::EagerSynchronous
        } else {
            Self::Eager
        }
    }
}
