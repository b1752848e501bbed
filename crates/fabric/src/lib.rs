//! Fabric contract: what every way of reaching a peer offers, and nothing more.
//!
//! ```text
//!            mailbox: try_send ──► poll → Sink::message      small, in order per sender, credits
//!   peer ──  portal:  grant ─ token ─► get / put → Sink::transfer_completed   bulk, only where its owner granted
//!            sync:    signal ──► signals(from, key)           counted, never lost, no data
//!            memory:  allocate_shared ─ key ─► attach_shared   loads, stores, atomics, between members of one host
//!                     is_asleep · wake · is_any_beside         for who waits for what is stored there
//!            bell:    prepare · look again · wait             sleep until any of them has news
//! ```
//!
//! A [`Fabric`] value is one rank's endpoint. It is used by one thread at a time (`&mut self`): who
//! stands above decides how threads share it. Only the [`Bell`] is shared, because a thread must be
//! able to sleep without holding the endpoint.
//!
//! # What every fabric guarantees
//!
//! * Messages of one sender to one receiver arrive in the order sent, once each. Nothing is said about
//!   two senders.
//! * A send that answers [`Posted::Retry`] had no effect. Nothing else may be assumed of it.
//! * A portal moves bytes only into or out of a region while a grant of its owner covers it.
//! * Signals are counted per (sender, key) and kept, whether or not anybody asked for that key yet. A
//!   signal does not overtake messages sent before it by the same sender.
//! * What arrives from a peer is not trusted: lengths are bounded before use, bytes are read once.
//! * No call blocks; the only place to sleep is [`Bell::wait`], on a futex or descriptor. [`Fabric::revoke`] waits for
//!   members that are in the middle of a transfer by that grant, which they carry out themselves.
//!
//! The [`mod@conformance`] suite checks each of these lines on every fabric.

// The one exception: the memory that the conformance suite lends.
#![deny(unsafe_code)]

mod absences;
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
pub use guest::{GUEST_KEY, GUEST_OPERATION, Guest};
pub use membership::Membership;
pub use reaching::Reaching;
pub use shared::{SharedBlock, SharedKey};
pub use signals::SignalTable;
pub use traffic::{LinkTraffic, Traffic};
pub use weft_sys::SharedMemory;
pub use weft_sys::slots::{SlotWriter, Written};
pub use weft_sys::span::{Region, SharedBytes};

/// A member of the fabric: `0..peers()`. For a job, the rank in `MPI_COMM_WORLD` of those that it started with; the
/// numbers above are those of processes that were started later, one after the other.
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

/// Bytes of the fixed part of each message: the envelope of whoever stands above.
pub const HEAD: usize = 32;

/// The fixed part of a message. Its meaning belongs to the layer above.
pub type Head = [u8; HEAD];

/// What became of a request to the fabric. Back-pressure is not an error.
#[must_use = "a Retry that nobody posts again is a lost message"]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Posted {
    /// Done, and the caller's memory is free again. No completion will follow.
    Done,
    /// Under way: exactly one [`Sink::transfer_completed`] with the given operation will follow; the caller's
    /// memory stays in use until then.
    Pending,
    /// Refused before any side effect: out of credit. Post again after the next progress.
    Retry,
}

/// Answer of a look for one message of one peer: [`Fabric::take_next`].
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// It was there, and is taken.
    Taken,
    /// Nothing of that peer is there.
    Nothing,
    /// Something else may be there, or this cannot be told so.
    Other,
}

/// Why the fabric cannot do what was asked, now or later.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FabricError {
    /// The peer is dead or out of reach.
    PeerLost {
        /// Who.
        peer: Peer,
        /// What was seen, as a sentence.
        reason: String,
    },
    /// The token names no live grant of that peer for the caller: never granted, used up or revoked.
    NotGranted {
        /// Whose memory was asked for.
        peer: Peer,
    },
    /// The span asked for lies outside of the granted region, or the right was not granted.
    OutsideGrant {
        /// Whose memory was asked for.
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
        /// Who was named.
        peer: Peer,
        /// How many there are.
        peers: u32,
    },
    /// The peer has no memory in common with this process.
    NotShared {
        /// Who.
        peer: Peer,
    },
    /// The key names no block of that peer: never allocated, given back, or another's.
    NotAllocated {
        /// Whose block was asked for.
        peer: Peer,
    },
    /// There is no memory for what was asked for.
    NoMemory {
        /// What was asked for, what is in the way, and a remedy.
        what: String,
    },
    /// The operating system refused.
    System {
        /// What was tried and what it answered.
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

/// What a granted region may be used for.
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
    /// Whether reading is among them.
    #[must_use]
    pub fn reads(self) -> bool {
        matches!(self, Self::Read | Self::ReadWrite)
    }

    /// Whether writing is among them.
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
    /// Any number until it is revoked (a window).
    Many,
}

/// The name of a grant, to be carried to the peer in a message. Carries a generation, so that a
/// stale one is refused instead of reaching into memory that means something else by now; the name of a grant that
/// has ended is not given again. The fabrics of one host leave the highest bit 0, by which whoever makes one fabric
/// of several tells their tokens from those of the network.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Token(pub u64);

/// Key of a family of signals; the layer above gives it a meaning (a communicator, a barrier).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SyncKey(pub u64);

/// What fits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Largest data part of one message, in bytes (at least 4096).
    pub data: usize,
    /// Up to so many bytes messages are the quicker way, and a portal is beyond.
    pub bulk: usize,
}

/// How busy the host is, as far as the job knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Load {
    /// Members of the job on this host that are awake (running or wanting to run), the caller included.
    pub awake: u32,
    /// Cores that they may use.
    pub cores: u32,
}

/// Data that leave as one message or several, wherever they lie.
pub trait Source {
    /// How many bytes there are, also if a message carries but a part of them.
    fn bytes(&self) -> usize;
    /// Sets all of `into`, which begins at this position of the data.
    fn read(&mut self, position: usize, into: &mut [u8]);
}

/// Receives what [`Fabric::poll`] finds.
pub trait Sink {
    /// A message. `head` is a copy, `data` a view that ends with the call and whose bytes may be
    /// changed by the peer while being read: read each once.
    fn message(&mut self, from: Peer, head: &Head, data: SharedBytes<'_>);
    /// A transfer that had answered [`Posted::Pending`] has ended.
    fn transfer_completed(&mut self, operation: Operation, result: Result<()>);
    /// A peer has died or is out of reach. Said once; nothing of it arrives after.
    fn lost(&mut self, peer: Peer, reason: &str);
    /// Signals have arrived (they are counted already).
    fn signalled(&mut self, from: Peer, key: SyncKey);
    /// Another process has the number of this peer from now on: what was known of the one before, also that it is lost,
    /// does not hold. Said before anything of the new one arrives, and only by fabrics that give numbers again.
    fn succeeded(&mut self, peer: Peer) {
        let _ = peer;
    }
}

/// One rank's endpoint. See the [module page](self) for what is guaranteed.
pub trait Fabric: Send {
    /// Who this endpoint is.
    fn me(&self) -> Peer;
    /// How many members there can be, this one included. Some may not have been started yet.
    fn peers(&self) -> u32;
    /// What fits.
    fn limits(&self) -> Limits;
    /// Where to sleep.
    fn bell(&self) -> Arc<dyn Bell>;
    /// Time since some fixed moment: real, or virtual under simulation.
    fn now(&self) -> Duration;
    /// Name of the mechanism to this peer, for people ("shm", "shm without cross-memory attach").
    fn route(&self, peer: Peer) -> &'static str;

    /// Mailbox: sends `head` and `data` as one message. Never [`Posted::Pending`]: the bytes are
    /// copied, the caller's memory is free on return. Sending to oneself works.
    ///
    /// # Errors
    /// [`FabricError::TooLong`], [`FabricError::NoSuchPeer`], [`FabricError::PeerLost`].
    fn try_send(&mut self, to: Peer, head: &Head, data: &[u8]) -> Result<Posted>;

    /// Mailbox: the same for who has another way if the message cannot leave at once: true if it has left. False, without
    /// effect, for whatever reason; [`try_send`](Self::try_send) tells which.
    fn inject(&mut self, to: Peer, head: &Head, data: &[u8]) -> bool;

    /// Mailbox: as [`try_send`](Self::try_send), of a part of some data, which the fabric asks for piece by piece and in order: so
    /// what has gaps is packed as it leaves. All of the part is asked for if the message leaves, and nothing otherwise.
    ///
    /// `None`, without effect: this fabric takes what is packed only.
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

    /// Mailbox: the sender's ends of lanes, by peer, for who has this endpoint: a short message that he
    /// [writes](SlotWriter::write) there himself is as if it were [injected](Self::inject), without a call through this
    /// trait. There may be fewer than peers; one that is closed refuses everything, and may be open later. They stay the same.
    ///
    /// A wrapper that answers with those of what it wraps sees nothing of what is written there. So there are none unless
    /// a fabric says so. Whether the peer sleeps is asked of an open one as of [`is_asleep`](Self::is_asleep).
    fn writers(&self) -> Arc<[SlotWriter]> {
        Arc::default()
    }

    /// Mailbox: a message was written to the lane of this peer, and is [still to be announced](Written::Unannounced).
    fn announce(&mut self, to: Peer) {
        let _ = to;
    }

    /// Mailbox: takes the next message of a peer if it is exactly this one: with this `head`, and as many bytes of data as
    /// `into` has, which go there. The mirror of [`inject`](Self::inject): anything else than [`Next::Taken`] is without
    /// effect, and what is there is handed out by [`poll`](Self::poll).
    ///
    /// Other peers are not looked at, so after some messages in a row the answer is [`Next::Other`] until the next `poll`. A
    /// fabric may answer that always.
    fn take_next(&mut self, from: Peer, head: &Head, into: &Region) -> Next;

    /// Looks once at everything that may have arrived and hands at most about `budget` items to the
    /// sink, serving senders in turn. Also moves the fabric's own work along. Returns how many items
    /// were handed out or moved; 0 means that nothing was there.
    fn poll(&mut self, sink: &mut dyn Sink, budget: usize) -> usize;

    /// Portal: permits `to` (or anybody) to read or write `region`. The region must stay valid until
    /// the grant is used up or revoked, or the endpoint dropped; whoever made the [`Region`] promised that.
    ///
    /// As many grants live at a time as memory holds: a fabric with a table that is full finds another way for those
    /// beyond. A grant is not refused for a while as a message is, because the room for it would depend on what the
    /// receivers of others do: a message to one peer would wait for another that has no reason to act.
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
    /// begin to move its bytes before they are asked for. Only a hint: what is said of grants stays true,
    /// but that a grant may be live for a moment longer than the transfer.
    fn offer(&mut self, to: Peer, token: Token);

    /// Ends a grant. True if it was live: not used up, nor being used up.
    ///
    /// After return nobody writes into its region, and what is read from it is not delivered: a [`get`](Self::get) that
    /// had not read all bytes by then ends in [`FabricError::NotGranted`]. So this waits for members that are in the
    /// middle of a transfer which they carry out themselves, also when others have died, but not for those that have.
    /// A reader may be given up after a time that the fabric states; a writer is waited for as long as it lives.
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

    /// Sync: signals of `from` under `key` that [`Self::poll`] has seen and nobody has taken yet.
    fn signals(&self, from: Peer, key: SyncKey) -> u64;

    /// Sync: takes `count` of them; false, and nothing taken, if there are not as many.
    fn take_signals(&mut self, from: Peer, key: SyncKey, count: u64) -> bool;

    /// Forgets a key: signals not taken are dropped. For the end of a communicator.
    fn forget(&mut self, key: SyncKey);

    /// Memory: whether blocks of this peer can be attached, and those of this member by it. The answer is the same for
    /// as long as the endpoint lives, whether or not the peer does.
    fn shares_memory(&self, peer: Peer) -> bool;

    /// Memory: allocates a block of `length` zero bytes (0 is fine too), aligned to a page, which peers on this host can
    /// attach by its key. It belongs to this endpoint until it is [released](Self::release_shared), or the endpoint
    /// dropped. Its memory is taken now: touching it later does not fail. See [`shared`].
    ///
    /// # Errors
    /// [`FabricError::NoMemory`]; [`FabricError::NotShared`] (with this peer) if the fabric shares no memory.
    fn allocate_shared(&mut self, length: usize) -> Result<SharedBlock>;

    /// Memory: gives a block back. True if the key named one of this endpoint. Whoever has attached it must not use it
    /// any more.
    fn release_shared(&mut self, key: SharedKey) -> bool;

    /// Memory: the first `length` bytes of a block of `peer` (or of this member).
    ///
    /// # Errors
    /// [`FabricError::NotShared`], [`FabricError::NotAllocated`], [`FabricError::OutsideGrant`] if the block has less,
    /// [`FabricError::NoMemory`] if there is no address space for it, [`FabricError::PeerLost`],
    /// [`FabricError::NoSuchPeer`].
    fn attach_shared(&mut self, peer: Peer, key: SharedKey, length: usize) -> Result<SharedMemory>;

    /// Memory: whether somebody of `peer` sleeps on its bell, or is about to, for whoever has stored what the peer may wait
    /// for. Of a peer that is not asleep by this is true: it looks again before it sleeps, and sees all that was stored
    /// before this was asked; and what it had stored before it announced to sleep is seen by looks after this, if it is
    /// asleep. May say so of one that is awake.
    fn is_asleep(&mut self, peer: Peer) -> bool;

    /// Memory: wakes `peer` if it is asleep: what it waits for may be stored. For whoever has executed a full fence since
    /// it stored that, or has asked whether the peer [is asleep](Self::is_asleep). Costs next to nothing if it is awake. Who
    /// is no peer, or shares no memory, is not woken.
    fn wake(&mut self, peer: Peer);

    /// Memory: whether any of these peers was last seen on the core of the caller, so that it cannot go on before that is given
    /// away. `None` while no more are awake than there are cores, and where nobody knows. It is advice.
    fn is_any_beside(&mut self, peers: &mut dyn Iterator<Item = Peer>) -> Option<bool>;

    /// Whether all that was taken for sending would arrive if this process ended now. Ask again after
    /// a poll, or a sleep on the bell, which ends soon while this is false.
    fn is_flushed(&mut self) -> bool;

    /// Which process has the number of a peer, of those that have it one after the other, as it is known here: a number that grows,
    /// and is the same at all members. 0 for one that has had the number from the start, and where none is given again.
    fn incarnation(&self, peer: Peer) -> u32 {
        let _ = peer;
        0
    }

    /// Whether a peer that is lost is started anew, or may be yet: for who waits for somebody, whoever that is. A peer whose loss was heard
    /// is gone for good once this is false.
    fn may_return(&self, peer: Peer) -> bool {
        let _ = peer;
        false
    }

    /// What is on its way between this member and its peers over a network, for who proves that nobody can go on. What is
    /// stored in memory that the receiver looks at is not: its look finds it.
    fn traffic(&self) -> Traffic;

    /// Tells the peers that this process may end from now on: an end after this is no loss to them. It is
    /// told once [`Self::is_flushed`] answers true. Whatever is sent to a peer later takes it back there.
    fn farewell(&mut self);

    /// Gives up what was taken for peers that this member has never reached: for who has heard that not all of them come to the
    /// end, and has nothing under way that anybody needs. [`Self::is_flushed`] waits for none of those from then on. One that is
    /// sent to later is reached as if nothing had been. A fabric on which a peer need not answer to be reached does nothing.
    fn abandon_unreached(&mut self) {}

    /// Tells a peer with which this member shares no memory that it is [absent](Bell::tell_absence), as a member of the world that it was started
    /// with: the peer's bell knows it once the peer has looked. It is told once [`Self::is_flushed`] answers true, or that is given up after some
    /// seconds; the peer need not look meanwhile, nor be there. A fabric on which all share memory does nothing.
    fn announce_absence(&mut self, to: Peer) {
        let _ = to;
    }

    /// How many channels the job has: as many endpoints each member can have, which several threads may use at a time. The same
    /// number at all members, at most [`MOST_CHANNELS`]. This endpoint is that of channel 0.
    fn channels(&self) -> u32 {
        1
    }

    /// The endpoint of this member in another channel, once: a fabric of the same members, with messages, grants, signals and a
    /// bell of its own. What is sent there before a member has opened the channel waits for that. Nothing is ordered between
    /// channels. It hears of losses by itself; leaving is told by the endpoint of channel 0, which is dropped last.
    ///
    /// # Errors
    /// [`FabricError::System`] if there is no such channel, or no memory for it.
    fn open_channel(&mut self, number: u32) -> Result<Box<dyn Fabric>> {
        Err(no_such_channel(number, 1))
    }
}

/// Most channels of a fabric.
pub const MOST_CHANNELS: u32 = 4;

/// The error of a channel that a fabric with so many does not have.
#[must_use]
pub fn no_such_channel(number: u32, channels: u32) -> FabricError {
    FabricError::System {
        what: format!(
            "channel {number} was to be opened, and the fabric has {channels} (channel 0 is open from the start)"
        ),
    }
}

/// What a sleeper holds between saying that it will sleep and sleeping.
#[must_use = "prepare without wait or cancel leaves the peers ringing"]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ticket(pub u32);

/// Where the threads of one rank sleep. Sleeping takes three steps, so that no news is missed:
/// [`prepare`](Bell::prepare), look at everything once more, then [`wait`](Bell::wait) or
/// [`cancel`](Bell::cancel).
pub trait Bell: Send + Sync {
    /// Announces that the caller is about to sleep. What is published after this rings the bell; what
    /// was published before is seen by the look that follows.
    fn prepare(&self) -> Ticket;
    /// Does not sleep after all.
    fn cancel(&self, ticket: Ticket);
    /// Sleeps until the bell rings after [`Self::prepare`] or the limit has passed. May return early.
    fn wait(&self, ticket: Ticket, limit: Option<Duration>);
    /// Rings one's own bell: another thread of this rank has news for the sleeper.
    fn ring(&self);
    /// How busy the host is. `awake == 0` says: never spin here (simulation).
    fn load(&self) -> Load;
    /// Gives the core to somebody else who wants it, if the fabric knows how; true if it is worth
    /// calling again.
    fn yield_core(&self) -> bool;
    /// Whether another member that is awake was last seen on the core that the caller runs on; `None` if nobody
    /// here knows on which cores they are.
    fn shares_core(&self) -> Option<bool> {
        None
    }
    /// Moves the calling thread to a core on which at least two members fewer that are awake were last seen than on its
    /// own. False if there is none.
    fn change_core(&self) -> bool {
        false
    }
    /// How many polls take a few microseconds together: so often a spinning waiter reads the clock. Where a poll is a
    /// few loads, [`waiting::POLLS_PER_CLOCK_READ`].
    fn polls_per_clock_read(&self) -> u32;
    /// The number of the last inquiry of whoever watches the job: a member that sleeps is woken by one, and is to say what
    /// it waits for. 0 while there was none, or where nobody inquires.
    fn inquiry(&self) -> u32 {
        0
    }
    /// Worlds of which a member has said that it is [absent](Self::tell_absence): it will not meet the others at the end. Whoever
    /// sleeps is woken when one more is. None where nobody can be told.
    fn absences(&self) -> Absences {
        Absences::default()
    }
    /// Tells the members of this host that one of this world is absent.
    fn tell_absence(&self, world: u32) {
        let _ = world;
    }
    /// Whether this member is making connections. What it has sent to those whom it is reaching leaves only by its own
    /// looks, so somebody has to look for a member that makes no call. To be asked by one thread, which needs no lock for it.
    fn reaching(&self) -> Reaching {
        Reaching::Nobody
    }
    /// Has somebody called whenever this member begins to make connections and was making none; who has said so first. It is called by
    /// who has the endpoint, so it must not ask for that.
    fn when_reaching(&self, call: Box<dyn Fn() + Send + Sync>) {
        drop(call);
    }
    /// From now on, whoever rings this bell rings that of this channel of the same member as well; `None`: no other. For who
    /// sleeps there and waits for news of this channel too: it says so before it [prepares](Self::prepare) here.
    fn ring_as_well(&self, channel: Option<u32>) {
        let _ = channel;
    }
}
