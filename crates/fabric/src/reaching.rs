//! Reaching: state of the connections that a member is making.

/// Whether a member is connecting to a peer, and whether it polls for that: see
/// [`Bell::reaching`](crate::Bell::reaching).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reaching {
    /// No connection is under way.
    Nobody,
    /// A connection is under way, and the member's calls poll for it.
    LookedAfter,
    /// A connection is under way, and no thread has polled since this was last asked, nor sleeps on its events.
    LeftAlone,
}
