//! Kinds of events (MPI 5.0, section 15.3.8): the elements of each, and their layout in memory.
//!
//! One source: the engine. Its clock is that of the host, in nanoseconds. Events of several threads may be
//! reported out of order.

use std::ffi::c_int;
use std::sync::LazyLock;
use std::time::Instant;

use weft_mpi::events::{Event, EventKind};

use crate::c;
use crate::generated::constants as k;

/// Ticks in a second.
pub const TICKS_PER_SECOND: i64 = 1_000_000_000;

/// The time, in ticks since some moment of this process.
pub fn now() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed().as_nanos() as u64
}

/// One value of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Element {
    /// The rank in `MPI_COMM_WORLD`.
    Peer,
    Tag,
    /// The context of the communicator.
    Context,
    Bytes,
    Nanoseconds,
}

impl Element {
    pub fn name(self) -> &'static str {
        match self {
            Self::Peer => "peer",
            Self::Tag => "tag",
            Self::Context => "context",
            Self::Bytes => "bytes",
            Self::Nanoseconds => "nanoseconds",
        }
    }

    pub fn datatype(self) -> c::Datatype {
        match self {
            Self::Peer | Self::Tag | Self::Context => k::MPI_INT,
            Self::Bytes | Self::Nanoseconds => k::MPI_UNSIGNED_LONG_LONG,
        }
    }

    fn size(self) -> usize {
        match self {
            Self::Peer | Self::Tag | Self::Context => size_of::<c_int>(),
            Self::Bytes | Self::Nanoseconds => size_of::<u64>(),
        }
    }

    /// The bytes of its value.
    pub fn bytes_of(self, event: &Event) -> Vec<u8> {
        match self {
            Self::Peer => event.peer.to_ne_bytes().to_vec(),
            Self::Tag => event.tag.to_ne_bytes().to_vec(),
            Self::Context => event.context.to_ne_bytes().to_vec(),
            Self::Bytes | Self::Nanoseconds => event.bytes.to_ne_bytes().to_vec(),
        }
    }
}

/// A kind of event.
#[derive(Debug)]
pub struct EventType {
    pub kind: EventKind,
    pub name: &'static str,
    pub category: &'static str,
    pub description: &'static str,
    pub elements: &'static [Element],
}

impl EventType {
    /// The displacement of each element.
    pub fn displacements(&self) -> Vec<usize> {
        let mut end = 0_usize;
        let place = |element: &Element| {
            let start = end.next_multiple_of(element.size());
            end = start + element.size();
            start
        };
        self.elements.iter().map(place).collect()
    }

    /// All elements in their memory layout.
    pub fn bytes_of(&self, event: &Event) -> Vec<u8> {
        let mut all = Vec::new();
        for (element, start) in self.elements.iter().zip(self.displacements()) {
            all.resize(start, 0);
            all.extend(element.bytes_of(event));
        }
        all
    }

    /// The row of an event.
    pub fn of(event: &Event) -> &'static Self {
        &EVENTS[event.kind as usize]
    }
}

const MESSAGE: &[Element] = &[
    Element::Peer,
    Element::Tag,
    Element::Context,
    Element::Bytes,
];

const fn kind(
    kind: EventKind,
    category: &'static str,
    name: &'static str,
    elements: &'static [Element],
    description: &'static str,
) -> EventType {
    EventType {
        kind,
        name,
        category,
        description,
        elements,
    }
}

/// All of them, in the order of [`EventKind`].
pub static EVENTS: &[EventType] = &[
    kind(
        EventKind::Unexpected,
        "queues",
        "message_unexpected",
        MESSAGE,
        "a message came that no receive waited for",
    ),
    kind(
        EventKind::MatchedPosted,
        "queues",
        "message_matched",
        MESSAGE,
        "a message met a waiting receive",
    ),
    kind(
        EventKind::MatchedUnexpected,
        "queues",
        "receive_matched",
        MESSAGE,
        "a receive met a waiting message",
    ),
    kind(
        EventKind::PullBegun,
        "rendezvous",
        "pull_begun",
        MESSAGE,
        "a receive began to pull its data",
    ),
    kind(
        EventKind::PullEnded,
        "rendezvous",
        "pull_ended",
        MESSAGE,
        "a receive has pulled its data, or never will",
    ),
    kind(
        EventKind::Offered,
        "rendezvous",
        "rendezvous_begun",
        MESSAGE,
        "a send has offered its data to be pulled",
    ),
    kind(
        EventKind::Answered,
        "rendezvous",
        "rendezvous_ended",
        &[Element::Peer],
        "the receiver of a send has pulled the data",
    ),
    kind(
        EventKind::HeldBack,
        "fabrics",
        "message_held_back",
        MESSAGE,
        "the fabric had no room for a message",
    ),
    kind(
        EventKind::Completed,
        "requests",
        "request_completed",
        MESSAGE,
        "a request has ended; of a send the tag is -1",
    ),
    kind(
        EventKind::Slept,
        "waiting",
        "wait_slept",
        &[Element::Nanoseconds],
        "a thread that waits has slept",
    ),
    kind(
        EventKind::CollectiveBegun,
        "collectives",
        "collective_begun",
        &[Element::Context],
        "a collective began",
    ),
    kind(
        EventKind::CollectiveEnded,
        "collectives",
        "collective_ended",
        &[Element::Context],
        "a collective ended",
    ),
    kind(
        EventKind::Lost,
        "faults",
        "process_lost",
        &[Element::Peer],
        "a process of the job is lost",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_in_the_order_of_kinds_and_elements_where_they_belong() {
        for (place, row) in EVENTS.iter().enumerate() {
            assert_eq!(row.kind as usize, place);
        }
        let event = Event {
            kind: EventKind::Unexpected,
            time: 0,
            peer: 1,
            tag: 2,
            context: 3,
            bytes: 4,
        };
        let row = EventType::of(&event);
        assert_eq!(row.displacements(), [0, 4, 8, 16]);
        assert_eq!(row.bytes_of(&event).len(), 24);
    }
}
