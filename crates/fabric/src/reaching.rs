//! Reaching: what a bell says of connections that its member is making.

/// Whether a member is reaching a peer, and who looks after that: see [`Bell::reaching`](crate::Bell::reaching).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reaching {
    /// No connection is under way.
    Nobody,
    /// One is, and the member's calls look after it.
    LookedAfter,
    /// One is, and nobody has looked since this was last asked, nor sleeps for what comes.
    LeftAlone,
}
