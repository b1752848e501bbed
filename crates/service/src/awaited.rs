//! Awaited: what a call of the services waits for, as whoever inquires is told.

/// What must happen for a call to go on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Awaited {
    /// For people: `a message from node 1 at port 3 of its mailbox`.
    pub what: String,
    /// The nodes that must do something, all of them; empty if any of the others may.
    pub nodes: Vec<u32>,
}

impl Awaited {
    /// Something of any other node.
    pub(crate) fn of_any(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            nodes: Vec::new(),
        }
    }

    /// Something of this node.
    pub(crate) fn of(node: u32, what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            nodes: vec![node],
        }
    }
}
