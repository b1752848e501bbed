//! Fabric contract: what every means of communication with a peer offers, and nothing more.
//!
//! ```text
//!            mailbox: try_send ──► poll → Sink::message      small, in order per sender, credits
//!   peer ──  portal:  grant ─ token ─► get / put → Sink::transfer_completed   bulk, only where its owner granted
//!            sync:    signal ──► signals(from, key)           counted, never lost, no data
//!            memory:  allocate_shared ─ key ─► attach_shared   loads, stores, atomics, between members of one host
//!                     is_asleep · wake · is_any_beside         for waiting on what is stored there
//!            bell:    prepare · look again · wait             sleep until any of them has something
//! ```
//!
//! A [`Fabric`] value is one rank's endpoint. It is used by one thread at a time (`&mut self`): the
//! layer above decides how threads share it. Only the [`Bell`] is shared, because a thread must be
//! able to sleep without holding the endpoint.
//!
//! # What every fabric guarantees
//!
//! * Messages of one sender to one receiver arrive in the order sent, once each. There is no order between
//!   two senders.
//! * A send that answers [`Posted::Retry`] had no effect. Nothing else may be assumed of it.
//! * A portal moves bytes into or out of a region only while a grant of its owner covers it.
//! * Signals are counted per (sender, key) and kept, whether or not that key was asked for yet. A
//!   signal does not overtake messages sent before it by the same sender.
//! * What arrives from a peer is not trusted: lengths are bounded before use, bytes are read once.
//! * No call blocks; the only place to sleep is [`Bell::wait`], on a futex or descriptor. The exception is
//!   [`Fabric::revoke`], which waits for members in the middle of a transfer by that grant, if they carry it out themselves.
//!
//! The [`mod@conformance`] suite checks each of these lines on every fabric.

// The one exception: the memory that the conformance suite lends.
#![deny(unsafe_code)]

mod absences;
pub mod among_threads;
pub mod board;
mod boxed;
pub mod conformance;
mod deaf;
pub mod fault;
mod forward;
pub mod grants;
mod guest;
mod membership;
mod reaching;
pub mod shared;
mod signals;
pub mod trace;
pub mod traffic;
pub mod waiting;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

pub use absences::Absences;
pub use deaf::Deaf;
pub use guest::{Changes, GUEST_KEY, GUEST_OPERATION, Guest, Subject};
pub use membership::Membership;
pub use reaching::Reaching;
pub use shared::{SharedBlock, SharedKey};
pub use signals::SignalTable;
pub use traffic::{LinkTraffic, Traffic};
pub use weft_sys::SharedMemory;
pub use weft_sys::slots::{SlotWriter, Written};
pub use weft_sys::span::{Region, Scratch, SharedBytes};

/// A member of the fabric: `0..peers()`. In a job, the processes that it started with have their rank in `MPI_COMM_WORLD`;
/// the numbers above belong to processes that were started later, one after the other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Peer(pub u32);

impl Peer {
    /// The index of this peer in a table of all peers.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.0)
    }
}

/// Bytes of the fixed part of each message: the envelope of the layer above.
pub const HEAD: usize = 32;

/// The fixed part of a message. Its meaning belongs to the layer above.
pub type Head = [u8; HEAD];

/// Outcome of a request to the fabric. Back-pressure is not an error.
#[must_use = "a Retry that nobody posts again is a lost message"]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Posted {
    /// Done, and the caller's memory is free again. No completion will follow.
    Done,
    /// Under way: exactly one [`Sink::transfer_completed`] with the given operation will follow; the caller's
    /// memory stays in use until then.
    Pending,
    /// Refused before any side effect: out of credit. Post again after the next progress; whoever is about to sleep posts again behind
    /// [`Bell::prepare`], since room rings only those who have announced that they sleep.
    Retry,
}

/// Answer of [`Fabric::take_next`], which looks for one message of one peer.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// The message had arrived, and is taken.
    Taken,
    /// Nothing of that peer has arrived.
    Nothing,
    /// Something else may have arrived, or the fabric cannot tell.
    Other,
}

/// Reason why the fabric cannot do what was asked, now or later.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FabricError {
    /// The peer is dead or out of reach.
    PeerLost {
        /// The lost peer.
        peer: Peer,
        /// What was observed, as a sentence.
        reason: String,
    },
    /// The token names no live grant of that peer for the caller: never granted, used up or revoked.
    NotGranted {
        /// The owner of the memory.
        peer: Peer,
    },
    /// The span asked for lies outside of the granted region, or the right was not granted.
    OutsideGrant {
        /// The owner of the memory.
        peer: Peer,
        /// First byte asked for, from the start of the grant.
        offset: u64,
        /// Bytes asked for.
        length: u64,
    },
    /// The message is longer than [`Limits::data`].
    TooLong {
        /// Bytes offered.
        length: usize,
        /// Bytes that fit.
        limit: usize,
    },
    /// There is no such peer.
    NoSuchPeer {
        /// The number that was given.
        peer: Peer,
        /// How many peers there are.
        peers: u32,
    },
    /// The peer has no memory in common with this process.
    NotShared {
        /// The peer.
        peer: Peer,
    },
    /// The key names no block of that peer: never allocated, released, or another peer's.
    NotAllocated {
        /// The owner of the block.
        peer: Peer,
    },
    /// There is no memory for the request.
    NoMemory {
        /// The request, what prevents it, and a remedy.
        what: String,
    },
    /// The operating system refused.
    System {
        /// What was tried and what the system answered.
        what: String,
    },
}

impl fmt::Display for FabricError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PeerLost { peer, reason } => write!(out, "peer {peer} is lost: {reason}"),
            Self::NotGranted { peer } => {
                write!(
                    out,
                    "peer {peer} has not granted this transfer, or its grant is used up"
                )
            }
            Self::OutsideGrant {
                peer,
                offset,
                length,
            } => write!(
                out,
                "bytes {offset}..{} lie outside of what peer {peer} granted",
                offset.saturating_add(*length)
            ),
            Self::TooLong { length, limit } => {
                write!(
                    out,
                    "a message of {length} bytes does not fit the limit of {limit}"
                )
            }
            Self::NoSuchPeer { peer, peers } => {
                write!(out, "there is no peer {peer}: the fabric has {peers}")
            }
            Self::NotShared { peer } => write!(
                out,
                "peer {peer} has no memory in common with this process (another host, or a fabric without such memory): \
                 transfer by grants instead"
            ),
            Self::NotAllocated { peer } => write!(
                out,
                "the key names no block of shared memory of peer {peer}: it was given back, or is another peer's"
            ),
            Self::NoMemory { what } | Self::System { what } => out.write_str(what),
        }
    }
}

impl std::error::Error for FabricError {}

/// Outcome of a fabric call.
pub type Result<T> = std::result::Result<T, FabricError>;

/// Names a transfer of the caller; comes back in [`Sink::transfer_completed`]. Its meaning belongs to the caller.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Operation(pub u64);

/// Accesses that a grant permits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rights {
    /// The peer may read it ([`Fabric::get`]).
    Read,
    /// The peer may write it ([`Fabric::put`]).
    Write,
    /// Both.
    ReadWrite,
}

impl Rights {
    /// Whether the peer may read.
    #[must_use]
    pub fn reads(self) -> bool {
        matches!(self, Self::Read | Self::ReadWrite)
    }

    /// Whether the peer may write.
    #[must_use]
    pub fn writes(self) -> bool {
        matches!(self, Self::Write | Self::ReadWrite)
    }
}

/// How often a grant may be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Uses {
    /// One transfer; the grant ends with it (the portal of the source; rendezvous of MPI).
    Once,
    /// Any number of transfers until it is revoked (a window).
    Many,
}

/// The name of a grant, to be carried to the peer in a message. It contains a generation, so that a
/// stale token is refused instead of accessing memory that is used for something else by now; the name of an ended grant
/// is not reused. The fabrics of one host leave the highest bit 0, so that a fabric made
/// of several can tell their tokens from those of the network.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Token(pub u64);

/// Key of a family of signals; the layer above gives it a meaning (a communicator, a barrier).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SyncKey(pub u64);

/// Sizes by which a caller chooses between messages and portals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Largest data part of one message, in bytes (at least 4096).
    pub data: usize,
    /// Messages are faster up to this size in bytes; beyond it, a portal is.
    pub bulk: usize,
}

/// How busy the host is, as far as the job knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Load {
    /// Members of the job on this host that are awake (running or runnable), the caller included.
    pub awake: u32,
    /// Cores that they may use.
    pub cores: u32,
}

/// Data that are sent as one message or several, wherever they lie.
pub trait Source {
    /// Fills `into` with the data from this position on.
    fn read(&mut self, position: usize, into: &mut [u8]);
}

/// Receives what [`Fabric::poll`] finds.
pub trait Sink {
    /// A message. `head` is a copy, `data` a view that ends with the call and whose bytes may be
    /// changed by the peer while being read: read each once.
    fn message(&mut self, from: Peer, head: &Head, data: SharedBytes<'_>);
    /// A transfer that had answered [`Posted::Pending`] has ended.
    fn transfer_completed(&mut self, operation: Operation, result: Result<()>);
    /// A peer has died or is out of reach. Called once; nothing from it arrives afterwards.
    fn lost(&mut self, peer: Peer, reason: &str);
    /// The process of a peer has ended in order, as the fabric has found out. Everything that it has sent was handed out, so what was
    /// sent to it and has no answer gets none. Later sends are refused; it is no loss.
    fn departed(&mut self, peer: Peer, reason: &str) {
        let _ = (peer, reason);
    }
    /// Signals have arrived (they are counted already).
    fn signalled(&mut self, from: Peer, key: SyncKey);
    /// Another process has the number of this peer from now on: what was known of its predecessor, including its loss, no longer
    /// applies. Called before anything of the new process arrives, and only by fabrics that reuse numbers.
    fn replaced(&mut self, peer: Peer) {
        let _ = peer;
    }
}

/// One rank's endpoint. See the [module page](self) for what is guaranteed.
pub trait Fabric: Send {
    /// The number of this member.
    fn me(&self) -> Peer;
    /// How many members there can be, this one included. Some may not have been started yet.
    fn peers(&self) -> u32;
    /// Sizes of messages, and when a portal is faster.
    fn limits(&self) -> Limits;
    /// The bell on which to sleep.
    fn bell(&self) -> Arc<dyn Bell>;
    /// Time since some fixed moment: real, or virtual under simulation.
    fn now(&self) -> Duration;
    /// Name of the mechanism to this peer, for display ("shm", "shm without cross-memory attach").
    fn route(&self, peer: Peer) -> &'static str;

    /// Mailbox: sends `head` and `data` as one message. Never [`Posted::Pending`]: the bytes are
    /// copied, the caller's memory is free on return. Sending to oneself works.
    ///
    /// # Errors
    /// [`FabricError::TooLong`], [`FabricError::NoSuchPeer`], [`FabricError::PeerLost`].
    fn try_send(&mut self, to: Peer, head: &Head, data: &[u8]) -> Result<Posted>;

    /// Mailbox: sends like [`try_send`](Self::try_send), but answers only whether the message was sent. False, without
    /// effect, for any reason; [`try_send`](Self::try_send) tells which.
    fn inject(&mut self, to: Peer, head: &Head, data: &[u8]) -> bool;

    /// Mailbox: sends like [`try_send`](Self::try_send), but reads a part of the data of `source`, piece by piece and in order, so
    /// that data with gaps are packed as they leave. The source is read only if the message is sent, and then all of the part.
    ///
    /// `None`, without effect: this fabric takes only packed data.
    fn try_send_part(
        &mut self,
        to: Peer,
        head: &Head,
        source: &mut dyn Source,
        part: Range<usize>,
    ) -> Option<Result<Posted>> {
        let _ = (to, head, source, part);
        None
    }

    /// Mailbox: the sender's ends of lanes, by peer, for the caller that holds this endpoint: [writing](SlotWriter::write) a
    /// short message there has the effect of [`inject`](Self::inject), without a call through this
    /// trait. There may be fewer than peers; a closed one refuses everything, and may be open later. They stay the same.
    ///
    /// A wrapper that returns the writers of the fabric that it wraps does not see these messages. So there are none unless
    /// a fabric overrides this. An open writer tells whether the peer sleeps, as [`is_asleep`](Self::is_asleep) does.
    fn writers(&self) -> Arc<[SlotWriter]> {
        Arc::default()
    }

    /// Mailbox: announces a message that was written to the lane of this peer ([`Written::Unannounced`]).
    fn announce(&mut self, to: Peer) {
        let _ = to;
    }

    /// Mailbox: takes the next message of a peer if it has exactly this `head`, and as many bytes of data as
    /// `into`, to which they are copied. The mirror of [`inject`](Self::inject): any answer but [`Next::Taken`] means no
    /// effect, and [`poll`](Self::poll) hands out what has arrived.
    ///
    /// Other peers are not looked at, so after some messages in a row the answer is [`Next::Other`] until the next `poll`. A
    /// fabric may always answer that.
    fn take_next(&mut self, from: Peer, head: &Head, into: &Region) -> Next;

    /// Looks once at everything that may have arrived and hands at most about `budget` items to the
    /// sink, serving senders in turn. Also moves the fabric's own work along. Returns how many items
    /// were handed out or moved; 0 means that there was nothing.
    fn poll(&mut self, sink: &mut dyn Sink, budget: usize) -> usize;

    /// Portal: permits `to` (or all peers) to read or write `region`. The region must stay valid until
    /// the grant is used up or revoked, or the endpoint dropped; the maker of the [`Region`] has promised that.
    ///
    /// The number of live grants is bounded only by memory: a fabric whose table is full uses another method for further
    /// ones. A grant is never refused temporarily as a message is, because the room for it would depend on the
    /// receivers of other grants: a message to one peer would wait for another that has no reason to act.
    ///
    /// # Errors
    /// [`FabricError::PeerLost`]; [`FabricError::System`] when more live than a token can name (at least 2²⁴).
    fn grant(
        &mut self,
        region: Region,
        to: Option<Peer>,
        rights: Rights,
        uses: Uses,
    ) -> Result<Token>;

    /// Portal: the next message to `to` names this grant, which `to` alone may read, once. So the fabric may
    /// begin to move its bytes before they are asked for. Only a hint: the rules of grants still hold,
    /// except that a grant may stay live for a moment longer than the transfer.
    fn offer(&mut self, to: Peer, token: Token);

    /// Ends a grant. True if it was live: not used up, nor being used up.
    ///
    /// After return no peer writes into its region, and bytes read from it are not delivered: a [`get`](Self::get) that
    /// had not read all bytes by then ends in [`FabricError::NotGranted`]. So this waits for members in the
    /// middle of a transfer that they carry out themselves, even when other members have died, but not for dead members.
    /// The wait for a reader may end after a time that the fabric states; a writer is waited for as long as it lives.
    fn revoke(&mut self, token: Token) -> bool;

    /// Portal: reads `into.len()` bytes from `offset` of the grant `token` of `from`.
    ///
    /// # Errors
    /// [`FabricError::NotGranted`], [`FabricError::OutsideGrant`], [`FabricError::PeerLost`], at once
    /// or by [`Sink::transfer_completed`].
    fn get(
        &mut self,
        from: Peer,
        token: Token,
        offset: u64,
        into: Region,
        operation: Operation,
    ) -> Result<Posted>;

    /// Portal: writes `source` to `offset` of the grant `token` of `to`. Errors as for [`Self::get`].
    ///
    /// # Errors
    /// As for [`Self::get`].
    fn put(
        &mut self,
        to: Peer,
        token: Token,
        offset: u64,
        source: Region,
        operation: Operation,
    ) -> Result<Posted>;

    /// Sync: one signal to `to` under `key`.
    ///
    /// # Errors
    /// [`FabricError::NoSuchPeer`], [`FabricError::PeerLost`].
    fn signal(&mut self, to: Peer, key: SyncKey) -> Result<Posted>;

    /// Sync: signals of `from` under `key` that [`Self::poll`] has seen and that are not taken yet.
    fn signals(&self, from: Peer, key: SyncKey) -> u64;

    /// Sync: takes `count` of these signals; false, and nothing taken, if there are fewer.
    fn take_signals(&mut self, from: Peer, key: SyncKey, count: u64) -> bool;

    /// Forgets a key: signals not taken are dropped. For the end of a communicator.
    fn forget(&mut self, key: SyncKey);

    /// Memory: whether this member can attach blocks of this peer, and the peer those of this member. The answer is the same for
    /// as long as the endpoint lives, whether or not the peer does.
    fn shares_memory(&self, peer: Peer) -> bool;

    /// Memory: allocates a block of `length` zero bytes (0 is allowed), aligned to a page, which peers on this host can
    /// attach by its key. It belongs to this endpoint until it is [released](Self::release_shared), or the endpoint
    /// dropped. Its memory is reserved now: touching it later does not fail. See [`shared`].
    ///
    /// # Errors
    /// [`FabricError::NoMemory`]; [`FabricError::NotShared`] (with this peer) if the fabric shares no memory.
    fn allocate_shared(&mut self, length: usize) -> Result<SharedBlock>;

    /// Memory: releases a block. True if the key named one of this endpoint. Peers that have attached it must not use it
    /// any more.
    fn release_shared(&mut self, key: SharedKey) -> bool;

    /// Memory: the first `length` bytes of a block of `peer` (or of this member).
    ///
    /// # Errors
    /// [`FabricError::NotShared`], [`FabricError::NotAllocated`], [`FabricError::OutsideGrant`] if the block has less,
    /// [`FabricError::NoMemory`] if there is no address space for it, [`FabricError::PeerLost`],
    /// [`FabricError::NoSuchPeer`].
    fn attach_shared(&mut self, peer: Peer, key: SharedKey, length: usize) -> Result<SharedMemory>;

    /// Memory: whether a thread of `peer` sleeps on its bell, or is about to; for a caller that has stored what the peer may wait
    /// for. If the answer is no, the peer looks again before it sleeps, and sees everything stored
    /// before this call. If it is yes, looks after this call see everything that the peer stored before it announced its
    /// sleep. The answer may be yes for a peer that is awake.
    fn is_asleep(&mut self, peer: Peer) -> bool;

    /// Memory: wakes `peer` if it is asleep, since what it waits for may be stored. The caller must have executed a full fence
    /// after the store, or have asked whether the peer [is asleep](Self::is_asleep). Costs next to nothing if the peer is awake.
    /// Does nothing if there is no such peer, or it shares no memory.
    fn wake(&mut self, peer: Peer);

    /// Memory: whether any of these peers was last seen on the core of the caller, so that it cannot run before the caller
    /// yields. `None` while no more members are awake than there are cores, and where this is unknown. It is a hint.
    fn is_any_beside(&mut self, peers: &mut dyn Iterator<Item = Peer>) -> Option<bool>;

    /// Whether everything accepted for sending would arrive if this process ended now. Ask again after
    /// a poll, or a sleep on the bell, which ends soon while this is false.
    fn is_flushed(&mut self) -> bool;

    /// Incarnation of a peer, as known here: tells apart the processes that have its number one after the other. It grows,
    /// and is the same at all members. 0 for a process that has had the number from the start, and where numbers are not reused.
    fn incarnation(&self, peer: Peer) -> u32 {
        let _ = peer;
        0
    }

    /// How the process that has the number of a peer was lost, where that is recorded, whether the loss was reported or not: for a
    /// caller that has learned of it from others, who may not know.
    fn cause_of_loss(&self, peer: Peer) -> Option<String> {
        let _ = peer;
        None
    }

    /// Whether there are members that were started later of which the looks so far have not told ([`Sink::replaced`]); for a caller
    /// that has been told of such members by others, and may not use what it knows of their predecessors. If so, the next
    /// [`poll`](Self::poll) looks there, too. A fabric whose every look does has none.
    fn has_unreported_members(&mut self) -> bool {
        false
    }

    /// Whether a lost peer is being started anew, or may still be; for a caller that waits for any peer. A peer whose loss was
    /// reported is gone for good once this is false.
    fn may_return(&self, peer: Peer) -> bool {
        let _ = peer;
        false
    }

    /// Messages in flight between this member and its peers over a network, for the proof of a deadlock. Data
    /// stored in memory that the receiver polls do not count: the receiver finds them when it polls.
    fn traffic(&self) -> Traffic;

    /// Says goodbye: tells the peers that this process may end from now on, and that its end is then no loss. The peers have been
    /// told once [`Self::is_flushed`] answers true. Sending to a peer later revokes the goodbye for that peer.
    fn say_goodbye(&mut self);

    /// Drops everything accepted for peers that this member has never reached; for a caller that knows that some of them will not
    /// reach the end, and that has nothing under way that a peer needs. [`Self::is_flushed`] no longer waits for these peers. A
    /// later send to one of them reaches it as if this had not happened. Does nothing on a fabric that reaches a peer without its answer.
    fn abandon_unreached(&mut self) {}

    /// Tells a peer with which this member shares no memory that this member, as one of the world that it was started with, is
    /// [absent](Bell::tell_absence): the peer's bell knows it once the peer has polled. [`Self::is_flushed`] is false until the peer was told,
    /// or that was given up after some seconds; the peer need not poll meanwhile, nor exist. Does nothing on a fabric on which all members share memory.
    fn announce_absence(&mut self, to: Peer) {
        let _ = to;
    }

    /// How many channels the job has: the number of endpoints that each member can have, for use by several threads at a time. The same
    /// number at all members, at most [`MOST_CHANNELS`]. This endpoint is that of channel 0.
    fn channels(&self) -> u32 {
        1
    }

    /// Opens the endpoint of this member in another channel, once: a fabric of the same members, with messages, grants, signals and a
    /// bell of its own. Messages to a member that has not opened the channel wait until it has. There is no order between
    /// channels. The new endpoint learns of losses by itself; only the endpoint of channel 0 says goodbye, and it is dropped last.
    ///
    /// # Errors
    /// [`FabricError::System`] if there is no such channel, or no memory for it.
    fn open_channel(&mut self, number: u32) -> Result<Box<dyn Fabric>> {
        Err(no_such_channel(number, 1))
    }
}

/// Most channels of a fabric.
pub const MOST_CHANNELS: u32 = 4;

/// The error of a channel that a fabric with this many channels does not have.
#[must_use]
pub fn no_such_channel(number: u32, channels: u32) -> FabricError {
    FabricError::System {
        what: format!(
            "channel {number} was to be opened, and the fabric has {channels} (channel 0 is open from the start)"
        ),
    }
}

/// Token that a thread holds between announcing that it will sleep and sleeping.
#[must_use = "prepare without wait or cancel leaves the peers ringing"]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ticket(pub u32);

/// The object on which the threads of one rank sleep. Sleeping takes three steps, so that no event is missed:
/// [`prepare`](Bell::prepare), look at everything once more, then [`wait`](Bell::wait) or
/// [`cancel`](Bell::cancel).
pub trait Bell: Send + Sync {
    /// Announces that the caller is about to sleep. Anything published after this rings the bell; anything
    /// published before is seen by the look that follows.
    fn prepare(&self) -> Ticket;
    /// Withdraws the announcement: the caller does not sleep.
    fn cancel(&self, ticket: Ticket);
    /// Sleeps until the bell rings after [`Self::prepare`] or the limit has passed. May return early.
    fn wait(&self, ticket: Ticket, limit: Option<Duration>);
    /// Rings this rank's own bell, for a thread that has something for another thread of this rank.
    fn ring(&self);
    /// How busy the host is. `awake == 0` says: never spin here (simulation).
    fn load(&self) -> Load;
    /// Yields the core to another thread that wants it, if the fabric knows how; true if it is worth
    /// calling again.
    fn yield_core(&self) -> bool;
    /// Whether another member that is awake was last seen on the core that the caller runs on; `None` if the cores of
    /// members are unknown.
    fn shares_core(&self) -> Option<bool> {
        None
    }
    /// Moves the calling thread to a core on which at least two fewer awake members were last seen than on its
    /// own. False if there is none.
    fn change_core(&self) -> bool {
        false
    }
    /// Whether the caller, one of several threads of its member that wait, runs on a core where no other member stands, and these have
    /// cores of their own: then what it waits for may come soon though it keeps its core. May move it there first. False where the
    /// cores of members are unknown.
    fn stands_apart(&self) -> bool {
        false
    }
    /// Number of polls that together take a few microseconds: a spinning waiter reads the clock once in as many. If a poll is a
    /// few loads, [`waiting::POLLS_PER_CLOCK_READ`].
    fn polls_per_clock_read(&self) -> u32;
    /// Number of the last inquiry of the process that watches the job: an inquiry wakes a sleeping member, which then says what
    /// it waits for. 0 if there was none, or where there are no inquiries.
    fn inquiry(&self) -> u32 {
        0
    }
    /// Worlds of which a member is [absent](Self::tell_absence): it will not meet the others at the end. Each further absence wakes
    /// the sleepers. Empty where members cannot be told.
    fn absences(&self) -> Absences {
        Absences::default()
    }
    /// Tells the members of this host that one of this world is absent.
    fn tell_absence(&self, world: u32) {
        let _ = world;
    }
    /// Whether this member is making connections. Messages to peers that it is connecting to leave only when it polls, so another
    /// thread must poll for a member that makes no call. To be asked by one thread, which needs no lock for it.
    fn reaching(&self) -> Reaching {
        Reaching::Nobody
    }
    /// Sets a callback for each time that this member begins to make connections and was making none; the first callback
    /// set stays. It is called while the endpoint is held, so it must not use the endpoint.
    fn when_reaching(&self, call: Box<dyn Fn() + Send + Sync>) {
        drop(call);
    }
    /// From now on, ringing this bell also rings the bell of this channel of the same member; `None`: no other. For a thread that
    /// sleeps on that bell and also waits for this channel: it calls this before it [prepares](Self::prepare) here.
    fn ring_as_well(&self, channel: Option<u32>) {
        let _ = channel;
    }
}
