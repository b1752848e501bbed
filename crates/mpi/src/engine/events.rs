//! Events for tools as they happen (MPI 5.0, section 15.3.8). Raised while the engine is held, delivered while it is not:
//! by the [`Callbacks`](super::callbacks), in the order in which they happened.
//!
//! While there is no listener to a kind of event, raising it costs one branch.

use std::sync::Arc;

use weft_fabric::Peer;

/// Kinds of events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum EventKind {
    /// A message came that no receive waited for.
    Unexpected,
    /// A message met a waiting receive.
    MatchedPosted,
    /// A receive met a waiting message.
    MatchedUnexpected,
    /// A receive began to pull its data.
    PullBegun,
    /// A receive has its data, or never will.
    PullEnded,
    /// A send offered its data to be pulled.
    Offered,
    /// The receiver of a send said that it has the data.
    Answered,
    /// The fabric had no room for a message.
    HeldBack,
    /// A request has ended.
    Completed,
    /// A thread that waits slept, and is awake again.
    Slept,
    /// A collective began.
    CollectiveBegun,
    /// A collective ended.
    CollectiveEnded,
    /// A peer is lost.
    Lost,
}

impl EventKind {
    /// Its bit in the set of kinds that are listened to.
    #[must_use]
    pub const fn bit(self) -> u32 {
        1 << self as u32
    }
}

/// An event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// The event.
    pub kind: EventKind,
    /// When, on the listener's clock.
    pub time: u64,
    /// The peer's rank in `MPI_COMM_WORLD`; -1 if there is none.
    pub peer: i32,
    /// The tag of the message; -1 if there is none.
    pub tag: i32,
    /// The context of the communicator; 0 if there is none.
    pub context: u32,
    /// Bytes of the message; nanoseconds, of a sleep.
    pub bytes: u64,
}

/// A listener to events.
pub trait Listener: Send + Sync {
    /// The time now. Called while the process is in use: to call the process from it panics.
    fn now(&self) -> u64;
    /// An event has happened. Called while the process is not in use.
    fn event(&self, event: &Event);
    /// This many events of these kinds (a set of [bits](EventKind::bit)) were dropped, because too many waited.
    fn dropped(&self, kinds: u32, count: u64);
}

/// A bit of no kind: receives are not to be done at once, though nobody listens.
const WATCHED: u32 = 1 << 31;

/// Listeners and their kinds of events.
#[derive(Default)]
pub(super) struct Events {
    kinds: u32,
    listener: Option<Arc<dyn Listener>>,
}

impl Events {
    /// Has these kinds told from now on.
    pub(super) fn listen(&mut self, kinds: u32, listener: Arc<dyn Listener>) {
        self.kinds = kinds & !WATCHED | self.kinds & WATCHED;
        self.listener = Some(listener);
    }

    /// The listener, and its kinds.
    pub(super) fn listened(&self) -> (u32, Option<Arc<dyn Listener>>) {
        (self.kinds & !WATCHED, self.listener.clone())
    }

    /// Whether receives are to take the way on which all is asked, whoever listens.
    pub(super) fn watch(&mut self, watched: bool) {
        self.kinds = self.kinds & !WATCHED | if watched { WATCHED } else { 0 };
    }

    /// Whether anybody listens to anything, or receives are watched.
    #[inline]
    pub(super) fn are_wanted(&self) -> bool {
        self.kinds != 0
    }

    /// Whether anybody listens to this kind.
    #[inline]
    pub(super) fn wants(&self, kind: EventKind) -> bool {
        self.kinds & kind.bit() != 0
    }

    /// An event that happens now, and who listens.
    #[cold]
    pub(super) fn make(
        &self,
        kind: EventKind,
        peer: Option<Peer>,
        (tag, context): (i32, u32),
        bytes: u64,
    ) -> Option<(Event, Arc<dyn Listener>)> {
        let listener = Arc::clone(self.listener.as_ref()?);
        let event = Event {
            kind,
            time: listener.now(),
            peer: peer.map_or(-1, |peer| peer.0.cast_signed()),
            tag,
            context,
            bytes,
        };
        Some((event, listener))
    }
}
