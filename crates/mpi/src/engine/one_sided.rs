//! One-sided communication in the engine: what members of windows ask of each other by messages.
//!
//! ```text
//!   origin                                                      target
//!   operations ──pump──► Put, Get, Accumulate …  ─────────────► exposed memory, read or changed on arrival
//!       ▲                                                          │
//!       └── answered ◄── Reply (data), Done (how many), Refused ◄──┘
//!
//!   Lock ─► lock queue ─► Granted        Unlock        Post        Complete
//! ```
//!
//! | file | what |
//! |---|---|
//! | `message` | the messages, and their encoding |
//! | `operation` | an operation of the origin and its progress |
//! | `attached` | what a member of a dynamic window lets the others use |
//! | `direct` | an operation on memory that this rank can access, without a message |
//! | `member` | another member of a window, as target and as origin of this rank |
//! | `memory` | requests to the fabric |
//! | `lock_queue` | the holder of the lock of this rank's memory, and those that wait for it |
//! | `target` | arrivals are carried out, while the fabric is polled |
//! | `origin` | operations begin and continue, after the poll |
//!
//! An operation is a value in a table: the data stay in the program's memory until their message leaves, so that even
//! many operations take little memory. Messages to one member go in order. At most [`CREDITS`] messages to a member are
//! unanswered at a time, which bounds what a target keeps for an origin. Everything that comes from a peer is checked
//! against the window: the sender, whether it is due, and every byte of memory that it names.

mod attached;
mod direct;
mod lock_queue;
mod member;
mod memory;
mod message;
mod operation;
mod origin;
mod target;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use weft_atomic::ticket_lock::Time;
use weft_fabric::Peer;

use super::request_id::RequestId;
use crate::error::Error;
use crate::exposed::Exposed;
use crate::group::Group;
use crate::waits::{self, MOST, WindowStep};

pub(crate) use attached::Attached;
pub(crate) use direct::apply;
pub use lock_queue::LockKind;
use lock_queue::LockQueue;
pub(crate) use member::Gate;
use member::Member;
pub(super) use message::OneSidedHead;
pub(crate) use operation::{Access, ELEMENT_MAX, Operation};
use operation::{OperationId, Operations};

/// Messages to one member that may be without an answer.
const CREDITS: u64 = 64;

/// What a rank lets the others of a window use.
#[derive(Debug)]
pub(crate) enum WindowMemory {
    /// One span; displacements are bytes from its start.
    Fixed(Exposed),
    /// What is attached just now; displacements are addresses.
    Attached(Attached),
}

/// What a thread waits for at a window.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AtWindow<'a> {
    /// The lock of this member, in shared memory.
    Lock(u32),
    /// That operations may go to these members, or to any, and that those have been carried out that have gone there.
    Access(Option<&'a [u32]>),
    /// That these members end an access epoch.
    Completes(&'a [u32]),
    /// What another thread of this rank does.
    OtherThread,
}

/// One window, as the engine of one of its members sees it.
#[derive(Debug)]
pub(crate) struct WindowState {
    memory: WindowMemory,
    group: Arc<Group>,
    lock: LockQueue,
    /// The time of this rank: that of the latest writer which it went past to share a lock that it has given back since.
    time: Time,
    members: Vec<Member>,
    /// What is said when a member is lost.
    lost: Option<Error>,
}

impl WindowState {
    /// A window of these members.
    pub(crate) fn new(memory: WindowMemory, group: &Arc<Group>) -> Self {
        Self {
            memory,
            group: Arc::clone(group),
            lock: LockQueue::default(),
            time: 0,
            members: (0..group.size()).map(|_| Member::default()).collect(),
            lost: None,
        }
    }

    /// What this rank exposes.
    pub(crate) fn memory_mut(&mut self) -> &mut WindowMemory {
        &mut self.memory
    }

    /// What this rank exposes.
    pub(crate) fn memory(&self) -> &WindowMemory {
        &self.memory
    }

    /// A member.
    pub(crate) fn member(&self, rank: u32) -> &Member {
        &self.members[rank as usize]
    }

    /// A member.
    pub(crate) fn member_mut(&mut self, rank: u32) -> &mut Member {
        &mut self.members[rank as usize]
    }

    /// All members.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Member> {
        self.members.iter()
    }

    /// Whether a member is lost.
    pub(crate) fn is_lost(&self, rank: u32) -> bool {
        let member = self.members.get(rank as usize);
        member.is_some_and(|member| member.lost().is_some())
    }

    /// What of this has not come yet, and of whom.
    fn awaited(&self, what: AtWindow<'_>) -> (WindowStep, Vec<Peer>) {
        let such = |step, is_such: &dyn Fn(&Member) -> bool, among: Option<&[u32]>| {
            let is_among = |rank: &u32| among.is_none_or(|among| among.contains(rank));
            let members = (0..).zip(&self.members);
            let found: Vec<Peer> = members
                .filter(|(rank, member)| is_among(rank) && is_such(member))
                .map(|(rank, _)| self.group.peer(rank))
                .take(MOST)
                .collect();
            (!found.is_empty()).then_some((step, found))
        };
        let found = match what {
            AtWindow::Lock(rank) => Some((WindowStep::Lock, vec![self.group.peer(rank)])),
            AtWindow::Completes(ranks) => {
                let goes_on = |member: &Member| !member.has_completed();
                such(WindowStep::Complete, &goes_on, Some(ranks))
            }
            AtWindow::Access(ranks) => {
                let awaits = |gate| move |member: &Member| member.gate() == gate;
                let is_busy = |member: &Member| !member.is_flushed();
                such(WindowStep::Lock, &awaits(Gate::AwaitsLock), ranks)
                    .or_else(|| such(WindowStep::Post, &awaits(Gate::AwaitsPost), ranks))
                    .or_else(|| such(WindowStep::Answer, &is_busy, ranks))
            }
            AtWindow::OtherThread => None,
        };
        found.unwrap_or((WindowStep::Other, Vec::new()))
    }

    /// The error of whoever waits for a member that is lost; which one, it says.
    pub(crate) fn lost(&self) -> Option<&Error> {
        self.lost.as_ref()
    }

    /// What operations have failed with that nobody was told of yet, of one member or of all.
    pub(crate) fn take_failure(&mut self, rank: Option<u32>) -> Option<Error> {
        match rank {
            Some(rank) => self.member_mut(rank).take_failure(),
            None => {
                let mut failures = self.members.iter_mut().filter_map(Member::take_failure);
                let first = failures.next();
                failures.for_each(drop);
                first
            }
        }
    }
}

/// A message that is to be sent after the poll.
#[derive(Debug)]
struct Outgoing {
    to: Peer,
    head: OneSidedHead,
    data: Box<[u8]>,
}

/// All windows of a rank, and what is under way in them.
#[derive(Debug, Default)]
pub(super) struct OneSided {
    windows: BTreeMap<u32, WindowState>,
    operations: Operations,
    /// Answers that polling has left to send.
    outgoing: Vec<Outgoing>,
    /// Members (context, rank) that are to be told how many of their messages were carried out.
    untold: Vec<(u32, u32)>,
    /// Members (context, rank) with operations that have not left.
    queued: Vec<(u32, u32)>,
    /// Requests that have ended.
    ended: Vec<(RequestId, Option<Error>)>,
    /// Transfers by portal under way.
    transfers: Vec<(weft_fabric::Operation, OperationId)>,
}

impl OneSided {
    /// Whether anything is left to do after a poll.
    #[inline]
    pub(super) fn is_called(&self) -> bool {
        !self.queued.is_empty() | !self.untold.is_empty() | !self.outgoing.is_empty()
    }

    /// Whether there are any.
    pub(super) fn has_windows(&self) -> bool {
        !self.windows.is_empty()
    }

    /// Whether the fabric moves data of operations.
    pub(super) fn has_transfers(&self) -> bool {
        !self.transfers.is_empty()
    }

    /// The window of a context.
    pub(super) fn window(&mut self, context: u32) -> Option<&mut WindowState> {
        self.windows.get_mut(&context)
    }

    /// What a thread waits for that waits for this at the window of a context.
    pub(super) fn awaited(&self, context: u32, what: AtWindow<'_>) -> waits::Operation {
        let window = self.windows.get(&context);
        let awaited = window.map(|window| window.awaited(what));
        let (step, peers) = awaited.unwrap_or((WindowStep::Other, Vec::new()));
        waits::Operation::Window {
            context,
            step,
            peers: peers.into_iter().map(|peer| peer.0).collect(),
        }
    }

    /// Requests that have ended since this was asked last.
    pub(super) fn take_ended(&mut self) -> Vec<(RequestId, Option<Error>)> {
        std::mem::take(&mut self.ended)
    }
}
