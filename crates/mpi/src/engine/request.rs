//! Requests: what a caller waits for. They live in one table of the engine; a [`RequestId`] is an
//! index with a generation, so that a stale one is noticed.

use std::mem::{forget, replace};
use std::sync::Arc;

use weft_fabric::{Peer, Token};
use weft_fiber::Waiter;
use weft_matching::Handle;

use crate::buffer::Buffer;
use crate::engine::schedule::{Place, Schedule, ScheduleId};
use crate::error::{Error, ErrorClass, Result};
use crate::group::Group;

/// Name of a request: index in the table and generation of its slot.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RequestId {
    index: u32,
    generation: u32,
}

impl RequestId {
    /// A send that had ended when the call returned. It has no slot, its outcome is the empty status,
    /// and it may be taken any number of times.
    pub const DONE: Self = Self {
        index: (1 << 22) - 1,
        generation: 0,
    };
    /// No request at all.
    pub(crate) const NONE: Self = Self {
        index: u32::MAX,
        generation: 0,
    };
    /// How many bits a generation has: as many as leave 22 for the index in a handle that converts to
    /// a C integer and back.
    pub const GENERATION_BITS: u32 = 7;

    /// A name from its parts; the generation is cut to its bits.
    #[must_use]
    pub const fn new(index: u32, generation: u32) -> Self {
        Self {
            index,
            generation: generation & ((1 << Self::GENERATION_BITS) - 1),
        }
    }

    /// Index in the table.
    #[must_use]
    pub const fn index(self) -> u32 {
        self.index
    }

    /// Generation of the slot.
    #[must_use]
    pub const fn generation(self) -> u32 {
        self.generation
    }
}

/// Where a request stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// The slot is free.
    Free,
    /// Persistent and not started.
    Inactive,
    /// Under way.
    Active,
    /// Ended; the outcome waits to be taken.
    Complete,
}

/// What the end of an operation says. The source is a [`Peer`]; [`Status`] has it as a rank.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    pub source: Option<Peer>,
    pub tag: i32,
    pub bytes: u64,
    pub cancelled: bool,
    pub error: Option<Error>,
}

impl Outcome {
    /// What is known before the end.
    const NONE: Self = Self {
        source: None,
        tag: -1,
        bytes: 0,
        cancelled: false,
        error: None,
    };
}

/// The status of a completed operation (MPI 5.0, section 3.2.5).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Rank of the sender in the communicator of the receive; `None` for `MPI_PROC_NULL` and sends.
    pub source: Option<u32>,
    /// Tag of the message; -1 if there was none.
    pub tag: i32,
    /// Bytes received.
    pub bytes: u64,
    /// Whether the operation was cancelled.
    pub cancelled: bool,
    /// The operation itself failed: for `MPI_Waitall` and its family.
    pub error: Option<Error>,
    /// Whether there was a message at all: false gives the empty status.
    pub message: bool,
    /// Whether the peer was `MPI_PROC_NULL`.
    pub null: bool,
}

impl Status {
    /// The empty status: source any, tag any, no bytes.
    #[must_use]
    pub fn empty() -> Self {
        Self {
            tag: -1,
            ..Self::default()
        }
    }

    /// The status of a receive from `MPI_PROC_NULL`.
    #[must_use]
    pub fn null() -> Self {
        Self {
            tag: -1,
            null: true,
            ..Self::default()
        }
    }
}

/// What a request does when it is (re)started, or is doing.
#[derive(Debug, Default)]
pub(crate) enum Work {
    /// Nothing: free slot, or a peer that is `MPI_PROC_NULL`.
    #[default]
    Nothing,
    /// A send under way.
    Send(Sending),
    /// A receive: where to, and how far it is.
    Receive { buffer: Buffer, state: Receiving },
    /// A collective.
    Schedule,
}

impl Work {
    /// A receive that is not posted.
    pub(crate) fn receive(buffer: Buffer) -> Self {
        Self::Receive {
            buffer,
            state: Receiving::Unposted,
        }
    }

    /// Whether it owns anything that must be dropped.
    #[inline]
    fn owns(&self) -> bool {
        match self {
            Self::Nothing | Self::Schedule => false,
            Self::Receive { buffer, state } => {
                matches!(buffer, Buffer::Typed(_)) || matches!(state, Receiving::Moving(Some(_)))
            }
            Self::Send(sending) => sending.owned.is_some(),
        }
    }
}

/// How far a receive is.
///
/// ```text
///   Unposted ──► Posted ──► Matched ──► Moving ──► (complete)
///      └─────────────────────┘
/// ```
///
/// A loss, a cancellation or the end of a collective ends a receive only while it is `Posted`: nobody has
/// been told of its buffer then. Later it belongs to one message, and ends with the transfer of that,
/// whose end the fabric says exactly once, also if the sender is lost meanwhile.
#[derive(Debug)]
pub(crate) enum Receiving {
    /// Not posted yet, or complete.
    Unposted,
    /// In the matching engine.
    Posted(Handle),
    /// Matched with data that wait at the sender; their transfer is to be begun.
    Matched,
    /// The fabric moves the data: into the buffer, or into memory of the engine, to be unpacked.
    Moving(Option<Box<[u8]>>),
}

/// How the bytes of a send travel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Protocol {
    /// With the envelope; the send ends when they have left.
    Eager,
    /// With the envelope; the send ends when they were matched.
    EagerSynchronous,
    /// Granted; the receiver pulls.
    Rendezvous,
}

/// How far a send is.
///
/// ```text
///   Queued ──► (complete)                               eager
///   Queued ──► Unanswered ──► Answered ──► (complete)   synchronous, rendezvous
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SendState {
    /// The message waits in the outbox, which refers to the data. Only its leaving, or its being taken
    /// out there, ends the send.
    Queued,
    /// The message has left; the receiver's answer is due.
    Unanswered,
    /// The receiver has answered; its grant is to be ended.
    Answered,
}

/// A send under way: keeps what the fabric may still read.
#[derive(Debug)]
pub(crate) struct Sending {
    /// Who may answer.
    pub to: Peer,
    pub protocol: Protocol,
    pub state: SendState,
    /// The word that an answer must repeat, which no other transfer has: the grant of a rendezvous, else a
    /// number.
    pub token: Token,
    pub owned: Option<Box<[u8]>>,
}

impl Sending {
    /// The grant that the data are read by.
    pub(crate) fn grant(&self) -> Option<Token> {
        (self.protocol == Protocol::Rendezvous).then_some(self.token)
    }
}

/// What to start when a persistent request is started.
#[derive(Clone, Debug)]
pub(crate) enum Recipe {
    /// Started from [`crate::p2p`]: the arguments of the send.
    Send {
        mode: crate::p2p::SendMode,
        buffer: Buffer,
        to: Option<Peer>,
        tag: i32,
    },
    /// The arguments of the receive; `None` stands for `MPI_PROC_NULL`.
    Receive {
        buffer: Buffer,
        from: Option<Option<Peer>>,
        tag: Option<i32>,
    },
    /// A collective, kept to be run again under the number it got when it was made.
    Collective {
        schedule: Arc<Schedule>,
        place: Place,
    },
}

/// What else is due when a request ends. Most requests have nothing of it.
#[derive(Debug, Default)]
pub(crate) struct Duties {
    /// Released by the engine itself when complete (`MPI_Request_free`, buffered sends).
    pub detached: bool,
    /// Whether it counts against the buffer of buffered sends, in bytes.
    pub buffered: usize,
    /// The collective that this is a part of.
    pub parent: Option<ScheduleId>,
    /// The request that this one carries out, and that ends with it: a persistent one, or the head of
    /// a pair.
    pub follower: Option<RequestId>,
    /// How many requests must end before this one does, which they carry out together; 0 for one.
    pub legs: u8,
    /// Who waits for it.
    pub waiter: Option<Waiter>,
    pub recipe: Option<Box<Recipe>>,
}

/// One slot of the table. While it is free, nothing in it owns anything.
#[derive(Debug)]
pub(crate) struct Request {
    generation: u32,
    pub phase: Phase,
    /// Whether `duties` are any but the default.
    has_duties: bool,
    /// Communicator context, to find the error handler and for reports.
    pub context: u32,
    /// The next free slot, while this one is free.
    next_free: u32,
    /// Ranks of the communicator, where they differ from the peers.
    pub group: Option<Arc<Group>>,
    pub work: Work,
    pub outcome: Outcome,
    duties: Duties,
}

impl Request {
    fn vacant() -> Self {
        Self {
            generation: 0,
            phase: Phase::Free,
            has_duties: false,
            context: 0,
            next_free: NO_SLOT,
            group: None,
            work: Work::Nothing,
            outcome: Outcome::default(),
            duties: Duties::default(),
        }
    }

    /// Whether anything is due when it ends.
    #[inline]
    pub(crate) fn has_duties(&self) -> bool {
        self.has_duties
    }

    /// What is due when it ends.
    #[inline]
    pub(crate) fn duties(&self) -> &Duties {
        &self.duties
    }

    /// What is due when it ends, to be changed.
    pub(crate) fn duties_mut(&mut self) -> &mut Duties {
        self.has_duties = true;
        &mut self.duties
    }

    /// Whether it can be started again.
    #[inline]
    pub(crate) fn is_persistent(&self) -> bool {
        self.has_duties && self.duties.recipe.is_some()
    }

    /// Drops what it owns.
    #[cold]
    fn clear(&mut self) {
        self.has_duties = false;
        self.duties = Duties::default();
        self.group = None;
        self.work = Work::Nothing;
        self.outcome.error = None;
    }

    /// The outcome as the caller sees it, with the source as a rank.
    #[inline]
    pub(crate) fn status(&self) -> Status {
        let outcome = &self.outcome;
        let rank = |peer: Peer| match &self.group {
            None => Some(peer.0),
            Some(group) => group.rank_of(peer),
        };
        Status {
            source: outcome.source.and_then(rank),
            tag: outcome.tag,
            bytes: outcome.bytes,
            cancelled: outcome.cancelled,
            error: outcome.error.clone(),
            message: outcome.source.is_some(),
            null: outcome.source.is_none()
                && !outcome.cancelled
                && matches!(self.work, Work::Receive { .. }),
        }
    }
}

/// No slot.
const NO_SLOT: u32 = u32::MAX;

/// The next slot of a table with so many. That of [`RequestId::DONE`] is never given out.
const fn next_index(slots: usize) -> usize {
    slots + (slots == RequestId::DONE.index as usize) as usize
}

/// The table of requests. Slots are reused; a slot's generation moves on when it is released.
#[derive(Debug)]
pub(crate) struct Requests {
    slots: Vec<Request>,
    /// The first of a chain of free slots.
    free: u32,
}

impl Default for Requests {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            free: NO_SLOT,
        }
    }
}

/// Requests that a rank may have at once: the names that a handle has, less some that steps of
/// collectives may need.
const LIMIT: usize = if cfg!(test) {
    1 << 16
} else {
    u32::MAX as usize - (1 << 16)
};

#[cold]
fn full() -> Error {
    Error::new(
        ErrorClass::NoMem,
        format!(
            "{LIMIT} requests of this rank are live at once, and no more can be named; complete or free some first"
        ),
    )
}

impl Requests {
    /// A new active request.
    #[inline]
    pub(crate) fn insert(
        &mut self,
        context: u32,
        group: Option<Arc<Group>>,
        work: Work,
    ) -> RequestId {
        if self.free == NO_SLOT {
            self.grow();
        }
        let index = self.free;
        let slot = &mut self.slots[index as usize];
        self.free = slot.next_free;
        slot.phase = Phase::Active;
        slot.context = context;
        // What these replace owns nothing, as the slot was free: there is nothing to be dropped.
        forget(replace(&mut slot.group, group));
        forget(replace(&mut slot.work, work));
        forget(replace(&mut slot.outcome, Outcome::NONE));
        RequestId {
            index,
            generation: slot.generation,
        }
    }

    /// Whether a call of the user may make another request.
    ///
    /// # Errors
    /// `NoMem` if all names that a handle has are in use, but for those kept for the steps of
    /// collectives that are under way.
    #[inline]
    pub(crate) fn check_room(&self) -> Result<()> {
        if self.free == NO_SLOT && self.slots.len() >= LIMIT {
            return Err(full());
        }
        Ok(())
    }

    #[cold]
    fn grow(&mut self) {
        let index = next_index(self.slots.len());
        self.slots.resize_with(index + 1, Request::vacant);
        self.free = u32::try_from(index)
            .ok()
            .filter(|index| *index < NO_SLOT)
            .expect("memory ends before four thousand million requests");
    }

    /// The request of that name, if it is live.
    #[inline]
    pub(crate) fn get(&self, id: RequestId) -> Option<&Request> {
        let slot = self.slots.get(id.index as usize)?;
        (slot.generation == id.generation && slot.phase != Phase::Free).then_some(slot)
    }

    /// The request of that name, if it is live.
    #[inline]
    pub(crate) fn get_mut(&mut self, id: RequestId) -> Option<&mut Request> {
        let slot = self.slots.get_mut(id.index as usize)?;
        (slot.generation == id.generation && slot.phase != Phase::Free).then_some(slot)
    }

    /// The request of that name, or the error of the standard.
    pub(crate) fn checked(&mut self, id: RequestId) -> Result<&mut Request> {
        self.get_mut(id).ok_or_else(|| stale(id))
    }

    /// Gives a slot back.
    #[inline]
    pub(crate) fn release(&mut self, id: RequestId) {
        let Some(slot) = self.get_mut(id) else { return };
        slot.generation = RequestId::new(0, slot.generation.wrapping_add(1)).generation;
        slot.phase = Phase::Free;
        if slot.has_duties
            || slot.group.is_some()
            || slot.outcome.error.is_some()
            || slot.work.owns()
        {
            slot.clear();
        }
        let next = replace(&mut self.free, id.index);
        self.slots[id.index as usize].next_free = next;
    }

    /// All live requests, for reports.
    pub(crate) fn live(&self) -> impl Iterator<Item = (RequestId, &Request)> {
        self.slots
            .iter()
            .enumerate()
            .filter(|(_, slot)| slot.phase != Phase::Free)
            .map(|(index, slot)| (RequestId::new(index as u32, slot.generation), slot))
    }
}

#[cold]
pub(crate) fn stale(id: RequestId) -> Error {
    Error::new(
        ErrorClass::Request,
        format!(
            "request {}.{} is not live: it was completed or freed before; set the handle to MPI_REQUEST_NULL after its end",
            id.index, id.generation
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_request_has_the_name_of_one_that_has_ended() {
        let done = RequestId::DONE.index() as usize;
        assert_eq!([0, 1, done - 1].map(next_index), [0, 1, done - 1]);
        assert_eq!([done, done + 2].map(next_index), [done + 1, done + 2]);
    }

    #[test]
    fn a_stale_name_is_noticed() {
        let mut requests = Requests::default();
        let first = requests.insert(0, None, Work::Nothing);
        requests.release(first);
        let second = requests.insert(0, None, Work::Nothing);
        assert_eq!(first.index(), second.index(), "slots are reused");
        assert!(requests.get(first).is_none());
        assert!(requests.get(second).is_some());
        requests.release(first);
        assert!(
            requests.get(second).is_some(),
            "a stale release has no effect"
        );
        assert_eq!(
            requests.checked(first).unwrap_err().class(),
            ErrorClass::Request
        );
    }

    /// The names of a handle come to an end before the memory does: the next call is refused.
    #[test]
    fn requests_beyond_their_names_are_refused() {
        let mut requests = Requests::default();
        let all: Vec<_> = (0..LIMIT)
            .map(|_| {
                assert!(requests.check_room().is_ok());
                requests.insert(0, None, Work::Nothing)
            })
            .collect();
        let class = requests.check_room().unwrap_err().class();
        assert_eq!(class, ErrorClass::NoMem);
        requests.insert(0, None, Work::Nothing); // a step of a collective
        assert!(requests.check_room().is_err());
        requests.release(all[7]);
        assert!(requests.check_room().is_ok(), "what is free is used again");
    }
}
