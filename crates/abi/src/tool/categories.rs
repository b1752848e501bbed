//! Categories of variables and events: a tree with one root.

/// A category.
#[derive(Debug)]
pub struct Category {
    pub name: &'static str,
    pub parent: Option<&'static str>,
    pub description: &'static str,
}

const fn under(parent: &'static str, name: &'static str, description: &'static str) -> Category {
    Category {
        name,
        parent: Some(parent),
        description,
    }
}

/// All of them.
pub static CATEGORIES: &[Category] = &[
    Category {
        name: "weft",
        parent: None,
        description: "everything",
    },
    under(
        "weft",
        "settings",
        "what can be set, and what was set when the job began",
    ),
    under("weft", "process", "the process as a whole"),
    under("weft", "messages", "messages sent and received"),
    under(
        "messages",
        "protocols",
        "messages by the protocol that carries them",
    ),
    under("messages", "fabrics", "messages by where the other rank is"),
    under(
        "weft",
        "queues",
        "messages and receives that wait for each other",
    ),
    under(
        "weft",
        "rendezvous",
        "messages whose receiver pulls the data",
    ),
    under("weft", "requests", "operations under way"),
    under("weft", "waiting", "threads that wait"),
    under("weft", "collectives", "collective operations"),
    under("weft", "windows", "one-sided communication"),
    under("weft", "communicators", "of one communicator"),
    under("weft", "faults", "what went wrong"),
];
