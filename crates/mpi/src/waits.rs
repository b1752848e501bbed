//! Waits: what the threads of one rank wait for, as the rank answers an *inquiry* of the launcher.
//!
//! ```text
//!   launcher                         a rank that sleeps
//!   raises the number, rings  ───▶   looks at everything once more; nothing has come
//!   collects the answers      ◀───   RankWaits: one Wait for each thread, with its operations
//! ```
//!
//! # Proof of a standstill
//! A rank answers an inquiry when each of its threads has looked at everything since it was asked and found nothing, and
//! from within its sleep. Let all have answered twice, the second time asked after all had answered the first time, the
//! same ranks, each [unchanged](RankWaits::is_unchanged_since). Then there is a moment between the two inquiries at which
//! all of them were within the sleep in which they answered both. Anything that one of them had sent before lay in the
//! receiver's memory at that moment, so the look before the second answer would have found it; it found nothing. None has
//! left its sleep since, so none has sent anything since. If each of them [depends on
//! others](RankWaits::depends_on_others) alone, no process is left that could.
//!
//! On a network messages are on their way for a while, where no look finds them. So each rank also says what it has
//! exchanged with whom ([`Link`]). None has sent or received anything between its two answers, so the counts of the
//! second answers hold at the moment between the inquiries, for all at once; if they [agree](nothing_is_on_its_way),
//! nothing was on its way then (Mattern's double count, link by link).
//!
//! The types are plain values: they travel to the launcher, which draws conclusions and prints them. Processes are named
//! by their number in the job, which is the rank in `MPI_COMM_WORLD` for those that the job starts with. A reader of
//! another process's values bounds them first: they are used only for the report.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weft_fabric::{LinkTraffic, Peer, traffic};

use crate::comm::Comm;

/// What a partitioned operation waits for, of its own rank or its peer.
pub const PARTITIONS: &str = "partitions to be ready";

/// Most waits, operations and messages of each kind in an answer; further ones are counted.
pub const MOST: usize = 64;

/// The answer of one rank to an inquiry.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct RankWaits {
    /// The number of the inquiry that this answers.
    pub inquiry: u32,
    /// Grows whenever anything goes on in this rank: the same in two answers, nothing has in between.
    pub activity: u64,
    /// Threads of the process that do not wait in MPI.
    pub other_threads: u32,
    /// Whether something outside of MPI may end one of the waits: another thread, a file, the launcher.
    pub awaits_outside: bool,
    /// Messages and transfers that this rank has begun and that have not left it, or are on their way; connections that are
    /// being made or mended.
    pub under_way: u32,
    /// Its exchange with others over a network; transfers by memory do not count.
    pub links: Vec<Link>,
    /// Waits of its threads, and of some of its fibers.
    pub waits: Vec<Wait>,
    /// Number of further waits.
    pub more_waits: u32,
    /// Messages that arrived and were not received.
    pub unreceived: Vec<Unreceived>,
    /// Number of further ones.
    pub more_unreceived: u32,
    /// Locks of windows that it has, at most [`MOST`].
    pub locks: Vec<HeldLock>,
    /// The communicators named above by their context.
    pub communicators: Vec<CommunicatorName>,
}

/// The exchange of a rank with another one over a network.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Link {
    /// The peer.
    pub peer: u32,
    /// Frames that it has sent.
    pub sent: u64,
    /// Frames that it has received.
    pub received: u64,
    /// The last word of the peer was goodbye.
    pub is_over: bool,
}

impl From<LinkTraffic> for Link {
    fn from(found: LinkTraffic) -> Self {
        Self {
            peer: found.peer.0,
            sent: found.sent,
            received: found.received,
            is_over: found.is_over,
        }
    }
}

impl From<Link> for LinkTraffic {
    fn from(told: Link) -> Self {
        Self {
            peer: Peer(told.peer),
            sent: told.sent,
            received: told.received,
            is_over: told.is_over,
        }
    }
}

/// Whether nothing was on its way to any of these ranks over a network, at a moment at which all that they have counted held.
/// `answers` are those of all ranks that can still send.
#[must_use]
pub fn nothing_is_on_its_way(answers: &BTreeMap<u32, RankWaits>) -> bool {
    let links = |waits: &RankWaits| waits.links.iter().copied().map(LinkTraffic::from).collect();
    let told: Vec<(Peer, Vec<LinkTraffic>)> = answers
        .iter()
        .map(|(rank, waits)| (Peer(*rank), links(waits)))
        .collect();
    let members: Vec<(Peer, &[LinkTraffic])> =
        told.iter().map(|(peer, links)| (*peer, &**links)).collect();
    traffic::agree(&members)
}

/// One thread or fiber that waits in a call.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Wait {
    /// The call: `MPI_Recv`. Empty if it is not known.
    pub call: String,
    /// Place of the call in the program: `heat.c:17 (exchange)`. Empty if it is unknown.
    pub place: String,
    /// Milliseconds since the thread has fallen asleep.
    pub since: u64,
    /// It is a fiber.
    pub is_fiber: bool,
    /// One of the operations suffices; otherwise all must end.
    pub any: bool,
    /// The operations that must end for it to go on.
    pub operations: Vec<Operation>,
}

/// Something that a thread waits for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Operation {
    /// A message, that was not sent yet as far as is known here.
    Message {
        /// The sender; `None` for any.
        from: Option<u32>,
        /// The tag; `None` for any.
        tag: Option<i32>,
        /// Of the communicator.
        context: u32,
        /// Bytes that there is room for; `None` for a probe.
        room: Option<u64>,
    },
    /// The data of a message that was matched.
    Data {
        /// The sender.
        from: Option<u32>,
        /// Of the communicator.
        context: u32,
    },
    /// That a message is received (or, if `is_queued`, that there is room for it).
    Receive {
        /// The receiver.
        by: u32,
        /// Of the communicator.
        context: u32,
        /// By what the receiver knows the message: see [`Unreceived::request`].
        request: u64,
        /// It has not left yet: the receiver takes nothing.
        is_queued: bool,
    },
    /// That members of a collective come.
    Collective {
        /// The call.
        name: String,
        /// Of the communicator.
        context: u32,
        /// Members that have not come, as far as is known here.
        missing: Vec<u32>,
    },
    /// A step of others on a window.
    Window {
        /// Of the window's communicator.
        context: u32,
        /// What it is.
        step: WindowStep,
        /// The members whose step is awaited, as far as is known here; the member whose lock is.
        peers: Vec<u32>,
    },
    /// An event of the services (mailbox, portal, sync).
    Service {
        /// What is awaited, for people.
        what: String,
        /// The ranks that must act, all of them; empty if any of them may.
        ranks: Vec<u32>,
    },
    /// That messages leave this rank.
    Leaving,
    /// Something else within MPI.
    Other(String),
    /// Something that does not depend on other ranks.
    Outside(String),
}

/// What is awaited of others on a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum WindowStep {
    /// The lock of a member, which those who have it give back.
    Lock,
    /// That members begin an exposure epoch (`MPI_Win_post`).
    Post,
    /// That members end an access epoch (`MPI_Win_complete`).
    Complete,
    /// That operations are carried out at members.
    Answer,
    /// Something else, of this rank's threads as well.
    Other,
}

/// A lock of a window that a rank has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HeldLock {
    /// Of the window's communicator.
    pub context: u32,
    /// The member whose lock it is.
    pub of: u32,
    /// Nobody else may have it (`MPI_LOCK_EXCLUSIVE`).
    pub is_exclusive: bool,
}

/// A message that arrived and was not received.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Unreceived {
    /// The sender.
    pub from: u32,
    /// Its tag.
    pub tag: i32,
    /// Of the communicator.
    pub context: u32,
    /// Its bytes.
    pub bytes: u64,
    /// By what its sender knows it, if it waits for an answer; else 0.
    pub request: u64,
}

/// A communicator by its context.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CommunicatorName {
    /// Its context.
    pub context: u32,
    /// Its name; empty if it has none.
    pub name: String,
    /// Its members: rank by rank their numbers in the job. Empty if they are those of `MPI_COMM_WORLD`.
    pub members: Vec<u32>,
}

impl CommunicatorName {
    /// Of this one, in the job of this world.
    #[must_use]
    pub fn of(comm: &Comm, world: &Comm) -> Self {
        let context = |comm: &Comm| comm.known_context().map(|context| context & !1);
        let remote = comm.remote_group().into_iter();
        let remote = remote.flat_map(|group| group.members());
        let both = comm.group().members().chain(remote);
        Self {
            context: context(comm).unwrap_or_default(),
            name: comm.extras().name(),
            members: match context(comm) == context(world) {
                true => Vec::new(),
                false => both.take(MOST).map(|peer| peer.0).collect(),
            },
        }
    }
}

impl RankWaits {
    /// Whether this rank can go on only by what other ranks do.
    #[must_use]
    pub fn depends_on_others(&self) -> bool {
        self.other_threads == 0
            && !self.awaits_outside
            && self.under_way == 0
            && !self.waits.is_empty()
            && !self.waits.iter().any(Wait::ends_by_itself)
    }

    /// Whether nothing has gone on in this rank since it answered `before`.
    #[must_use]
    pub fn is_unchanged_since(&self, before: &Self) -> bool {
        self.activity == before.activity
    }

    /// The contexts that it names.
    pub fn contexts(&self) -> impl Iterator<Item = u32> {
        let operations = self.waits.iter().flat_map(|wait| &wait.operations);
        let of_waits = operations.filter_map(Operation::context);
        of_waits.chain(self.unreceived.iter().map(|message| message.context))
    }
}

impl Wait {
    /// Whether it ends when the network has delivered what was sent, whatever other ranks do.
    fn ends_by_itself(&self) -> bool {
        self.operations.contains(&Operation::Leaving)
    }
}

impl Operation {
    /// The context of the communicator that it is on.
    #[must_use]
    pub fn context(&self) -> Option<u32> {
        match self {
            Self::Message { context, .. }
            | Self::Data { context, .. }
            | Self::Receive { context, .. }
            | Self::Collective { context, .. }
            | Self::Window { context, .. } => Some(*context),
            Self::Service { .. } | Self::Leaving | Self::Other(_) | Self::Outside(_) => None,
        }
    }
}
