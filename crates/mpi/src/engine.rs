//! The engine of one rank: fabric, matching, requests, and the one place where progress is made.
//!
//! ```text
//!   calls ──► start_send / start_receive ──► fabric.try_send · matching.post
//!                                                   ▲
//!   wait / test ──► progress ── fabric.poll ──► Core (a Sink): matching.arrive, copy, complete
//!                      │                            │
//!                      └── then deferred work: pull, answer, flush, advance collectives
//! ```
//!
//! [`Engine`] has two halves: the fabric, and the [`Core`] that the fabric reports to while it is polled. Work that needs
//! the fabric itself is [deferred] until right after the poll. Both are composed of types that own their fields; the
//! other files are the operations that need several of these:
//!
//! | type | what it owns |
//! |---|---|
//! | [`Requests`], [`Request`](request::Request), [`Sending`](sending::Sending), [`Receiving`](receiving::Receiving) | the table of requests; one request's life; that of a send, and of a receive |
//! | [`UnexpectedStore`] | messages that came before their receives |
//! | [`PollingReceive`] | the receive of a call that is polling, which is in no table |
//! | [`Pulls`] | rendezvous transfers under way |
//! | [`Runs`] | collectives under way |
//! | [`Boards`] | groups that share memory, and collectives on it |
//! | [`Channels`] | partitioned messages |
//! | [`DeferredQueue`], [`Callbacks`] | work done after the poll; work done without the engine |
//! | [`Waiters`], [`Parked`] | waiters woken by arrivals; waiters while another thread drives |
//! | [`OneSided`] | windows, and operations on them under way |
//! | [`Outbox`] | messages that the fabric did not take yet, and how much may be sent: [flow control](flow) |
//! | [`Agreements`] | agreements among members, which losses do not disturb |
//! | [`GuestSlot`] | the other user of the endpoint |
//! | [`Inquiry`] | answers of waiters to an inquiry |
//! | [`Counters`], [`Events`] | counts of what was done, for tools; events for tools as they happen |
//!
//! A rank may have several engines, each for some of its communicators: [`Engines`]. One lock guards an engine
//! ([`Shared`]). Of the threads and fibers that wait, one drives progress; the others sleep until it completes what they
//! wait for, or until it leaves and hands progress over.
//!
//! The engine knows the objects that it moves and combines (buffers, datatypes, operations, groups), but not
//! communicators, processes and calls, which are above it.

mod arrival;
mod at_once;
mod attached_buffer;
pub(crate) mod boards;
pub(crate) mod callbacks;
mod collective;
mod collective_mismatch;
pub(crate) mod collective_note;
mod completion;
pub mod counters;
mod deferred;
mod envelope;
pub mod events;
mod exchange;
mod flow;
mod futures;
mod guest_slot;
mod inquiry;
pub(crate) mod left_over;
mod loss;
mod lost_peers;
mod marking;
mod mismatch_places;
mod on_complete;
pub(crate) mod one_sided;
mod outbox;
mod outcomes;
mod pair;
mod parked;
mod partitioned;
mod persistent;
mod pieces;
mod polling_receive;
mod probe;
mod progress;
mod protocol;
mod pulls;
mod receive_errors;
mod receiving;
mod recovery;
mod rendezvous;
mod request;
mod request_id;
mod requests;
mod runs;
pub mod schedule;
mod sending;
mod shared;
mod side_by_side;
mod start;
mod status;
mod unexpected;
mod waiters;
mod windows;

use std::sync::Arc;
use std::time::Duration;

use weft_fabric::waiting::{Asking, Turns};
use weft_fabric::{Fabric, Guest, Peer, SlotWriter};
use weft_matching::Matching;

use attached_buffer::AttachedBuffer;
use boards::Boards;
use callbacks::Callbacks;
use collective_mismatch::Mismatches;
use counters::Counters;
use deferred::DeferredQueue;
use events::{EventKind, Events};
use flow::Withheld;
use futures::Futures;
use guest_slot::GuestSlot;
use inquiry::Inquiry;
use lost_peers::{FirstPeers, LostPeers};
use one_sided::OneSided;
use outbox::Outbox;
use parked::Parked;
use partitioned::Channels;
use polling_receive::PollingReceive;
use pulls::Pulls;
use recovery::Agreements;
use requests::Requests;
use runs::Runs;
use side_by_side::Neighbours;
use unexpected::{UnexpectedId, UnexpectedStore};
use waiters::Waiters;

use crate::wait_times::WaitListener;

pub use at_once::Listed;
pub(crate) use at_once::{Asked, WaitingMessage};
pub(crate) use inquiry::{ThreadsOfRank, WaitsListener};
pub(crate) use marking::Marking;
pub(crate) use on_complete::PersistentOperation;
pub use outcomes::{Ended, RequestList};
pub(crate) use polling_receive::Met;
pub use polling_receive::Received;
pub(crate) use probe::{Probe, outcome_of};
pub(crate) use progress::WaitFor;
pub use protocol::SendMode;
pub(crate) use recovery::{AgreementOutcome, Contribution, Decided, Decision, Purpose};
pub use request_id::RequestId;
pub(crate) use shared::{Guard, Shared};
pub(crate) use side_by_side::Engines;
pub(crate) use status::Outcome;
pub use status::Status;
pub(crate) use unexpected::Unexpected;

/// How many items one look may handle before the caller's own condition is looked at again.
const BUDGET: usize = 32;

/// How many times progress is made, at most, before the messages of a context are given back.
const LOOKS_BEFORE_DROPPING: u32 = 16;

/// What the fabric reports to.
struct Core {
    me: Peer,
    matching: Matching<RequestId, UnexpectedId>,
    requests: Requests,
    unexpected: UnexpectedStore,
    polling_receive: PollingReceive,
    runs: Runs,
    boards: Boards,
    mismatches: Mismatches,
    channels: Channels,
    deferred: DeferredQueue,
    callbacks: Callbacks,
    pulls: Pulls,
    waiters: Waiters,
    attached_buffer: AttachedBuffer,
    lost: LostPeers,
    one_sided: OneSided,
    agreements: Agreements,
    guest: GuestSlot,
    counters: Arc<Counters>,
    events: Events,
    inquiry: Inquiry,
    wait_listener: Option<&'static dyn WaitListener>,
    /// Whether statuses tell what messages have carried.
    tells_marks: bool,
    /// Requests of what has failed outside of the engine that were freed without being asked.
    freed_unread: Vec<RequestId>,
}

/// One rank's engine.
pub(crate) struct Engine {
    fabric: Box<dyn Fabric>,
    /// Of the fabric, by peer; none while [short](weft_sys::span::SHORT) messages may not leave at once.
    writers: Arc<[SlotWriter]>,
    core: Core,
    outbox: Outbox,
    /// What peers hold back from this rank.
    withheld: Withheld,
    /// From this size on a message is pulled instead of sent.
    eager: usize,
    /// Messages below this size may leave at once: one more than the above, but none while a communicator is revoked.
    injected_below: usize,
    /// The largest such size that the fabric allows.
    most_eager: usize,
    /// Whether a peer is reached over the network; empty if none is.
    far: Box<[bool]>,
    /// Losses are told to the ranks of other hosts.
    tells_losses: bool,
    /// Memory for packing elements with gaps.
    scratch: Vec<u8>,
    /// Whether somebody drives progress right now.
    driven: bool,
    /// … and sleeps on the bell.
    driver_sleeps: bool,
    /// The threads that wait while another one drives.
    parked: Parked,
    futures: Futures,
    asking: Asking,
    turns: Turns,
    /// Other engines of the rank.
    neighbours: Neighbours,
    /// Marks the messages of the program.
    marking: Marking,
}

impl Engine {
    /// That of a channel. `first`: the peers that the job starts with.
    fn new(
        fabric: Box<dyn Fabric>,
        first: FirstPeers,
        counters: Arc<Counters>,
        channel: u32,
    ) -> Self {
        let limits = fabric.limits();
        let peers = fabric.peers();
        let window = windows::window_of(first.0);
        let me = fabric.me();
        let far: Box<[bool]> = (0..peers)
            .map(|peer| fabric.route(Peer(peer)).starts_with("tcp"))
            .collect();
        let any_far = far.contains(&true);
        Self {
            eager: limits.bulk.min(limits.data),
            injected_below: limits.bulk.min(limits.data) + 1,
            most_eager: limits.data,
            far: if any_far { far } else { Box::default() },
            writers: fabric.writers(),
            fabric,
            core: Core {
                me,
                matching: Matching::new(),
                requests: Requests::of_engine(channel),
                unexpected: UnexpectedStore::new(peers as usize, window),
                polling_receive: PollingReceive::default(),
                runs: Runs::default(),
                boards: Boards::default(),
                mismatches: Mismatches::default(),
                channels: Channels::default(),
                deferred: DeferredQueue::default(),
                callbacks: Callbacks::default(),
                pulls: Pulls::default(),
                waiters: Waiters::default(),
                attached_buffer: AttachedBuffer::default(),
                lost: LostPeers::new(first),
                one_sided: OneSided::default(),
                agreements: Agreements::default(),
                guest: GuestSlot::default(),
                counters,
                events: Events::default(),
                inquiry: Inquiry::default(),
                wait_listener: None,
                tells_marks: false,
                freed_unread: Vec::new(),
            },
            outbox: Outbox::new(peers as usize, window),
            withheld: Withheld::default(),
            tells_losses: false,
            scratch: Vec::new(),
            driven: false,
            driver_sleeps: false,
            parked: Parked::default(),
            futures: Futures::default(),
            asking: Asking::default(),
            turns: Turns::default(),
            neighbours: Neighbours::default(),
            marking: Marking::default(),
        }
    }

    /// Looks once at everything. True if anything moved.
    #[inline]
    pub(crate) fn progress(&mut self) -> bool {
        let moved = self.fabric.poll(&mut self.core, BUDGET) > 0;
        if self.has_deferred() {
            return self.run_deferred() | moved;
        }
        moved
    }

    /// Changes the fabric for one that has the same peers, and more later.
    ///
    /// # Errors
    /// What `widen` answers.
    pub(crate) fn widen<E>(
        &mut self,
        widen: impl FnOnce(&mut Box<dyn Fabric>) -> Result<(), E>,
    ) -> Result<(), E> {
        widen(&mut self.fabric)?;
        self.most_eager = self.most_eager.min(self.fabric.limits().data);
        self.eager = self.eager.min(self.most_eager);
        self.watch_revoked();
        Ok(())
    }

    /// The fabric has more peers than before: all of them over a network.
    pub(crate) fn make_room_for_peers(&mut self) {
        let peers = self.fabric.peers() as usize;
        self.outbox.make_room(peers);
        self.core.unexpected.make_room(peers);
        let mut far = std::mem::take(&mut self.far).into_vec();
        if far.is_empty() {
            far.resize(self.core.lost.first().0 as usize, false);
        }
        let known = far.len();
        far.extend((known..peers).map(|peer| {
            let route = self.fabric.route(Peer(peer as u32));
            route.starts_with("tcp")
        }));
        self.far = far.into();
    }

    /// Has the messages of the program marked.
    pub(crate) fn mark_sends(&mut self, marking: Marking) {
        self.core.tells_marks = marking.asks();
        self.marking = marking;
    }

    /// Time since some fixed moment of the fabric.
    pub(crate) fn now(&self) -> Duration {
        self.fabric.now()
    }

    /// Whether everything that was begun to be sent has left.
    pub(crate) fn is_drained(&mut self) -> bool {
        self.outbox.is_empty() && self.fabric.is_flushed()
    }

    /// Tells the others that this rank may end from now on.
    pub(crate) fn say_goodbye(&mut self) {
        self.fabric.say_goodbye();
    }

    /// Tells a peer of another host that this process is absent.
    pub(crate) fn announce_absence(&mut self, to: Peer) {
        self.fabric.announce_absence(to);
    }

    /// Gives up what was to be sent to peers that were never reached.
    pub(crate) fn abandon_unreached(&mut self) {
        self.fabric.abandon_unreached();
    }

    /// How many messages wait for a receive.
    pub(crate) fn unexpected_messages(&self) -> usize {
        self.core.matching.unexpected_len()
    }

    /// Whether somebody drives progress right now.
    pub(crate) fn is_driven(&self) -> bool {
        self.driven
    }

    /// Lets another layer use the endpoint; see [`Process::install_guest`](crate::Process::install_guest).
    pub(crate) fn install_guest(&mut self, make: impl FnOnce(&dyn Fabric) -> Box<dyn Guest>) {
        let guest = make(&*self.fabric);
        self.core.guest.install(guest, self.fabric.peers());
    }

    /// The guest and the endpoint, for a call of the program.
    ///
    /// # Panics
    /// If no guest was installed.
    pub(crate) fn guest_and_fabric(&mut self) -> (&mut dyn Guest, &mut dyn Fabric) {
        (self.core.guest.call(), &mut *self.fabric)
    }

    /// Whether anything is under way on the communicator of this context.
    pub(crate) fn is_active_in(&self, context: u32) -> bool {
        let mut live = self.core.requests.live();
        live.any(|(_, slot)| slot.is_active() && slot.context() & !1 == context & !1)
    }

    /// Whether something waits to be sent to this peer.
    pub(crate) fn owes(&self, peer: Peer) -> bool {
        !self.outbox.is_clear(peer)
    }

    /// Something has changed outside of the engine: waiters for arrivals are to look.
    pub(crate) fn notify(&mut self) {
        self.core.wake_others();
    }

    /// Takes the data of a message that came unexpected, whoever sent it.
    pub(crate) fn take_small(&mut self, context: u32, tag: i32) -> Option<Vec<u8>> {
        let pattern = start::pattern(context, None, Some(tag));
        let (_, id) = self.core.matching.take(pattern)?;
        Some(self.take_kept(id).data)
    }

    /// Gives back the messages of a context that no receive will be posted for, and answers how many of them
    /// point-to-point calls have sent, with the first of those: see
    /// [`Comm::drop_messages`](crate::Comm::drop_messages).
    pub(crate) fn drop_context(&mut self, context: u32) -> Option<(usize, Outcome)> {
        // Messages that have come are to be found, but a peer that never stops sending must not keep us. A thread that drives looks
        // all the time.
        for _ in 0..LOOKS_BEFORE_DROPPING {
            if self.driven || !self.progress() {
                break;
            }
        }
        let core = &mut self.core;
        core.mismatches.forget(context | 1);
        let posts = core
            .requests
            .live()
            .any(|(_, slot)| slot.context() == context && slot.may_post());
        if posts {
            return None;
        }
        let mut found: Option<(usize, Outcome)> = None;
        for part in [context, context | 1] {
            let all = start::pattern(part, None, None);
            while let Some((_, id)) = self.core.matching.take(all) {
                let message = self.take_kept(id);
                if part == context {
                    let (count, _) = found.get_or_insert_with(|| (0, outcome_of(&message)));
                    *count += 1;
                }
                let core = &mut self.core;
                core.counters.unexpected_gone.add(message.data.len() as u64);
                core.unexpected.recycle(message.data);
            }
        }
        found
    }
}

/// What tools and the program have set, for an engine that is opened later.
pub(super) struct Settings {
    events: (u32, Option<Arc<dyn events::Listener>>, usize),
    waits: inquiry::Settings,
    wait_listener: Option<&'static dyn WaitListener>,
    marking: Marking,
    eager: usize,
    credit: u32,
    tells_losses: bool,
    buffer: usize,
}

impl Engine {
    fn settings(&self) -> Settings {
        let (kinds, listener) = self.core.events.listened();
        Settings {
            events: (kinds, listener, self.core.callbacks.most_events()),
            waits: self.core.inquiry.settings().clone(),
            wait_listener: self.core.wait_listener,
            marking: self.marking,
            eager: self.eager,
            credit: self.credit_window(),
            tells_losses: self.tells_losses,
            buffer: self.core.attached_buffer.size(),
        }
    }

    fn set(&mut self, settings: Settings) {
        let (kinds, listener, most) = settings.events;
        if let Some(listener) = listener {
            self.listen(kinds, listener, most);
        }
        self.core.inquiry.set(settings.waits);
        self.core.wait_listener = settings.wait_listener;
        self.mark_sends(settings.marking);
        self.set_eager_limit(settings.eager);
        self.set_credit_window(settings.credit);
        self.tells_losses = settings.tells_losses;
        self.attach_buffer(settings.buffer);
    }
}

/// What tools ask of it, and set.
impl Engine {
    /// Has events of these kinds told, of which so many may wait.
    pub(crate) fn listen(&mut self, kinds: u32, listener: Arc<dyn events::Listener>, most: usize) {
        self.core.events.listen(kinds, listener);
        self.core.callbacks.set_most_events(most);
    }

    /// Has somebody hear what this rank waits for, when an inquiry asks.
    pub(crate) fn hear_waits(&mut self, listener: WaitsListener) {
        self.core.inquiry.listen(listener);
    }

    /// Whether one thread of the program makes all calls, as it has said.
    pub(crate) fn one_thread_calls(&mut self, does: bool) {
        self.core.inquiry.one_thread_calls(does);
    }

    /// Somebody knows which threads are this rank's.
    pub(crate) fn set_threads(&mut self, threads: ThreadsOfRank) {
        self.core.inquiry.set_threads(threads);
    }

    /// Has somebody hear when calls wait.
    pub(crate) fn time_waits(&mut self, listener: &'static dyn WaitListener) {
        self.core.wait_listener = Some(listener);
    }

    /// From this size on a message is pulled.
    pub(crate) fn eager_limit(&self) -> usize {
        self.eager
    }

    /// Has messages of up to so many bytes go with their envelope; false if the fabric does not carry as many.
    pub(crate) fn set_eager_limit(&mut self, bytes: usize) -> bool {
        let fits = bytes <= self.most_eager;
        self.eager = if fits { bytes } else { self.most_eager };
        self.watch_revoked();
        fits
    }

    /// Messages that wait for room of the fabric.
    pub(crate) fn held_back(&self) -> usize {
        self.outbox.len()
    }

    /// How many requests are live, and how many there is room for without asking for more memory.
    pub(crate) fn requests(&self) -> (usize, usize) {
        (
            self.core.requests.live().count(),
            self.core.requests.slots(),
        )
    }

    /// Messages of a context that wait for their receive, their bytes that are here, and receives that wait.
    pub(crate) fn waiting(&self, context: u32) -> (u64, u64, u64) {
        let core = &self.core;
        let context = weft_matching::Context(context);
        let messages = core
            .matching
            .unexpected()
            .filter(|(one, _)| one.context == context);
        let (mut count, mut bytes) = (0, 0);
        for (_, id) in messages {
            count += 1;
            bytes += core
                .unexpected
                .get(id)
                .map_or(0, |one| one.data.len() as u64);
        }
        let receives = core
            .matching
            .posted()
            .filter(|(one, _)| one.context == context);
        (count, bytes, receives.count() as u64)
    }
}

impl Core {
    /// Has an event told, if anybody listens.
    #[inline]
    fn raise(&mut self, kind: EventKind, peer: Option<Peer>, message: (i32, u32), bytes: u64) {
        if self.events.wants(kind) {
            self.raise_wanted(kind, peer, message, bytes);
        }
    }

    #[cold]
    fn raise_wanted(
        &mut self,
        kind: EventKind,
        peer: Option<Peer>,
        message: (i32, u32),
        bytes: u64,
    ) {
        if let Some((event, listener)) = self.events.make(kind, peer, message, bytes) {
            self.callbacks.tell(event, listener);
        }
    }
}
