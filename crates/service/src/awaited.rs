//! Awaited: what a call of the services waits for: as whoever inquires is told, and as whoever wakes it knows.

use weft_fabric::Subject;

/// The end, or the other thing of this node, whose change a call waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum On {
    /// The mailbox with this id.
    Mailbox(i32),
    /// The portal with this id.
    Portal(i32),
    /// The sync with this id.
    Sync(i32),
    /// The names that are known.
    Names,
    /// What is to leave.
    Outbox,
}

impl On {
    /// As hosts know it.
    pub(crate) fn subject(self) -> Subject {
        let (kind, id) = match self {
            Self::Mailbox(id) => (0, id),
            Self::Portal(id) => (1, id),
            Self::Sync(id) => (2, id),
            Self::Names => (3, 0),
            Self::Outbox => (4, 0),
        };
        Subject(kind << 32 | u64::from(id.cast_unsigned()))
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_subject_of_its_own() {
        let all = [
            On::Mailbox(1),
            On::Mailbox(2),
            On::Portal(1),
            On::Sync(1),
            On::Names,
            On::Outbox,
            On::Mailbox(-1),
        ];
        for (place, one) in all.iter().enumerate() {
            let before = &all[..place];
            assert!(before.iter().all(|other| other.subject() != one.subject()));
        }
    }
}
