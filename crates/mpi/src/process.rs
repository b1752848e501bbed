//! Process: one rank as a value, its engine and its communicators. No globals: many fit in one program.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use weft_atomic::{AtomicBool, AtomicU32, Ordering, StoresInFlight};
use weft_fabric::{Bell, Fabric, Guest, Load, MOST_CHANNELS, Peer, Subject};

use crate::coll::{self, Placement};
use crate::comm::{self, Comm, Connections, Meetings, Shape};
use crate::engine::counters::Counters;
use crate::engine::events::Listener;
use crate::engine::{
    Engines, Guard, Marking, RequestId, Shared, ThreadsOfRank, WaitFor, WaitsListener,
};
use crate::error::{Error, ErrorClass, Result};
use crate::group::Group;
use crate::helper::HelperSlot;
use crate::marks::Marker;
use crate::rma::KeptLocks;
use crate::wait_times::WaitListener;
use crate::waits::{Operation, RankWaits};

/// One rank.
pub struct Process {
    // Before the engine of channel 0, whose endpoint is dropped last.
    engines: Arc<Engines>,
    /// That of channel 0.
    shared: Arc<Shared>,
    /// How many channels the fabric has.
    pub(crate) channels: u32,
    /// Several threads may call at a time.
    several_threads: AtomicBool,
    /// Numbers the communicators that this process leads and that may be in any channel.
    pub(crate) next_channel: AtomicU32,
    me: Peer,
    peers: u32,
    /// How many processes the job starts with.
    first: u32,
    /// The number of the world of this process; 0 for that of the first ones.
    pub(crate) world_number: u32,
    /// The processes of `MPI_COMM_WORLD`.
    pub(crate) members: Arc<Group>,
    /// The host of each process that the job starts with, if there are several.
    hosts: OnceLock<Box<[u32]>>,
    /// Communicators with processes of other worlds.
    connections: Connections,
    /// Those with processes of other jobs.
    pub(crate) meetings: Meetings,
    /// Numbers the calls to ports.
    pub(crate) port_calls: AtomicU32,
    pub(crate) bell: Arc<dyn Bell>,
    /// The program goes on after losses.
    prepared: AtomicBool,
    /// Not all ranks of the world meet at the end: this one is [absent](Self::tell_absence), or has heard that another one is.
    pub(crate) is_incomplete: AtomicBool,
    /// Number of the next context that this process leads.
    pub(crate) contexts: AtomicU32,
    /// Made at first use; they keep the process, until it [lets go](Process::release) of them.
    world: Mutex<Option<Arc<Comm>>>,
    itself: Mutex<Option<Arc<Comm>>>,
    /// Looks into the engine for who needs that while this rank makes no call.
    pub(crate) helper: HelperSlot,
    /// What was stored into the memory of windows.
    pub(crate) stores: Arc<StoresInFlight>,
    /// Locks of windows.
    pub(crate) kept_locks: Arc<KeptLocks>,
}

const _: () = {
    const fn shared_by_threads<T: Send + Sync>() {}
    shared_by_threads::<Process>();
};

impl std::fmt::Debug for Process {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Process({} of {})", self.me, self.peers)
    }
}

fn open<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Process {
    /// The rank at an endpoint of a fabric whose peers all exist from the start.
    #[must_use]
    pub fn new(fabric: Box<dyn Fabric>) -> Arc<Self> {
        let first = fabric.peers();
        Self::in_world(fabric, first, Group::identity(first), 0)
    }

    /// The rank at an endpoint of a fabric whose peers may come later. The job starts with `first` processes; `members`
    /// are those of this process's `MPI_COMM_WORLD`, whose number is `world` (0 for that of the first ones).
    #[must_use]
    pub fn in_world(fabric: Box<dyn Fabric>, first: u32, members: Group, world: u32) -> Arc<Self> {
        let (me, peers, bell) = (fabric.me(), fabric.peers(), fabric.bell());
        let channels = fabric.channels().clamp(1, MOST_CHANNELS);
        let engines = Engines::new(fabric, first);
        let process = Arc::new(Self {
            shared: Arc::clone(engines.first()),
            engines,
            channels,
            several_threads: AtomicBool::new(false),
            next_channel: AtomicU32::new(0),
            me,
            peers,
            first,
            world_number: world,
            members: Arc::new(members),
            hosts: OnceLock::new(),
            connections: Connections::new(world > 0),
            meetings: Meetings::default(),
            port_calls: AtomicU32::new(comm::first_call(world)),
            helper: HelperSlot::new(Arc::clone(&bell)),
            bell,
            prepared: AtomicBool::new(false),
            is_incomplete: AtomicBool::new(false),
            contexts: AtomicU32::new(comm::first_number(peers, world)),
            world: Mutex::default(),
            itself: Mutex::default(),
            stores: Arc::default(),
            kept_locks: Arc::default(),
        });
        let weak = Arc::downgrade(&process);
        process.bell.when_reaching(Box::new(move || {
            if let Some(process) = weak.upgrade() {
                process.helper.reach(&process);
            }
        }));
        process
    }

    /// The number of this process.
    #[must_use]
    pub fn me(&self) -> Peer {
        self.me
    }

    /// Most processes that the job can have.
    #[must_use]
    pub fn peers(&self) -> u32 {
        self.peers
    }

    /// Number of processes that the job starts with.
    #[must_use]
    pub fn first(&self) -> u32 {
        self.first
    }

    /// Sets the host of each process that the job starts with, before any communicator is used: the same at all
    /// processes. Collectives do not rely on hosts that are not given.
    pub fn set_hosts(&self, hosts: impl IntoIterator<Item = u32>) {
        let hosts: Box<[u32]> = hosts.into_iter().collect();
        if hosts.iter().any(|host| *host != hosts[0]) {
            let _ = self.hosts.set(hosts);
        }
    }

    /// Where the members of groups are. Of processes that came later nobody has said it, unless all are on one host.
    pub(crate) fn placement<'a>(&self, groups: impl IntoIterator<Item = &'a Group>) -> Placement {
        let Some(hosts) = self.hosts.get() else {
            return Placement::OneHost;
        };
        let host = |peer: Peer| hosts.get(peer.0 as usize).copied();
        let members = groups.into_iter().flat_map(Group::members);
        let Some(hosts) = members.map(host).collect::<Option<Vec<u32>>>() else {
            return Placement::Unknown;
        };
        match coll::Hosts::of(hosts) {
            Some(hosts) => Placement::Several(Arc::new(hosts)),
            None => Placement::OneHost,
        }
    }

    /// The host of a peer, if that was said and there are several.
    pub(crate) fn host_of(&self, peer: Peer) -> Option<u32> {
        self.hosts.get()?.get(peer.0 as usize).copied()
    }

    /// Whether the job starts on several hosts, as far as was said.
    pub(crate) fn has_several_hosts(&self) -> bool {
        self.hosts.get().is_some()
    }

    /// Connections of this process with processes of other worlds.
    #[must_use]
    pub fn connections(&self) -> &Connections {
        &self.connections
    }

    /// Whether a group has processes of other worlds.
    pub(crate) fn is_foreign(&self, group: &Group) -> bool {
        let mut members = group.members();
        members.any(|peer| self.members.rank_of(peer).is_none())
    }

    /// `MPI_COMM_WORLD`.
    #[must_use]
    pub fn world(self: &Arc<Self>) -> Arc<Comm> {
        let world = || {
            let members = Arc::clone(&self.members);
            let world = Comm::assemble(self, comm::WORLD, members, Shape::Plain)
                .expect("everybody is in the world");
            world.extras().set_name("MPI_COMM_WORLD");
            world
        };
        Arc::clone(open(&self.world).get_or_insert_with(world))
    }

    /// `MPI_COMM_SELF`.
    #[must_use]
    pub fn itself(self: &Arc<Self>) -> Arc<Comm> {
        let group = || Arc::new(Group::of(vec![self.me]));
        let itself = || {
            let itself = Comm::assemble(self, comm::ITSELF, group(), Shape::Plain)
                .expect("a process is its own member");
            itself.extras().set_name("MPI_COMM_SELF");
            itself
        };
        Arc::clone(open(&self.itself).get_or_insert_with(itself))
    }

    /// Releases the communicators that every process has: it leaves its endpoint when the last of its users drops it.
    /// Call it last, whether it has [finished](Self::finish) or others must learn that it is lost.
    pub fn release(&self) {
        let world = open(&self.world).take();
        let itself = open(&self.itself).take();
        self.helper.stop();
        drop((world, itself));
    }

    /// This rank has ended, and others have its objects still: what they begin, or wait for, fails.
    pub fn refuse_all(&self) {
        let error = Error::new(
            ErrorClass::Other,
            "this rank has left MPI, and what belongs to it cannot be used any more; use it before that",
        );
        self.for_each(|engine| engine.lose_all(&error));
    }

    /// Number of messages that wait here for a receive.
    #[must_use]
    pub fn unexpected_messages(&self) -> usize {
        self.sum(|engine| engine.unexpected_messages())
    }

    /// The bell of this rank, for code that has events for it from elsewhere.
    #[must_use]
    pub fn own_bell(&self) -> Arc<dyn Bell> {
        Arc::clone(&self.bell)
    }

    /// How busy the host is, for choosing algorithms.
    #[must_use]
    pub fn load(&self) -> Load {
        self.bell.load()
    }

    /// The context of `MPI_COMM_SELF`, whose error handler gets what belongs to no communicator.
    pub(crate) fn itself_context(&self) -> u32 {
        comm::ITSELF
    }

    /// Time since some fixed moment of the fabric: real, or virtual under simulation.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.lock().now()
    }

    /// Waits until everything that this rank has begun to send has left it. Part of `MPI_Finalize`.
    pub fn drain(&self) {
        self.meetings.end_unused(self);
        for engine in self.engines.all().rev() {
            engine
                .lock()
                .wait_for(WaitFor::Leaving, |engine| engine.is_drained().then_some(()));
        }
    }

    /// The program knows of losses and goes on after them: they are no error of [`finish`](Self::finish).
    pub fn prepare_for_losses(&self) {
        self.prepared.store(true, Ordering::Relaxed);
        self.for_each(|engine| engine.prepare_for_losses());
    }

    /// Whether the program has called [`prepare_for_losses`](Self::prepare_for_losses).
    #[must_use]
    pub fn is_prepared_for_losses(&self) -> bool {
        self.prepared.load(Ordering::Relaxed)
    }

    /// Tells the others that this rank may end from now on, and waits until that message has left, too. A message that it
    /// sends later, in a session, revokes this.
    pub fn announce_exit(&self) {
        self.drain();
        self.lock().say_goodbye();
        self.drain();
    }

    /// Lets another layer use the endpoint, which this one goes on to drive. Once; messages that arrive for a guest that
    /// is not installed yet are lost, so install it before the peers can know of it, or make them wait.
    ///
    /// # Panics
    /// If `make` calls this process, whose endpoint is in use meanwhile.
    pub fn install_guest(&self, make: impl FnOnce(&dyn Fabric) -> Box<dyn Guest>) {
        self.lock().install_guest(make);
    }

    /// Runs `work` with exclusive use of the guest and the endpoint.
    ///
    /// # Panics
    /// If no guest was [installed](Self::install_guest), or if `work` calls this process, whose endpoint is in use
    /// meanwhile.
    pub fn with_guest(&self, work: &mut dyn FnMut(&mut dyn Guest, &mut dyn Fabric)) {
        let mut engine = self.lock();
        let (guest, fabric) = engine.guest_and_fabric();
        work(guest, fabric);
        if engine.is_driven() {
            // What it left to do, and what was sent to this rank itself, is for the thread that drives, and it may sleep.
            self.bell.ring();
        }
    }

    /// Makes progress until `ready` returns true. Calls it first, and after anything has moved; while another thread drives, after `subject`
    /// [has changed](Guest::changes). `awaited` says what for, on inquiry.
    ///
    /// # Panics
    /// As for [`Self::with_guest`].
    pub fn wait_guest(
        &self,
        subject: Subject,
        ready: &mut dyn FnMut(&mut dyn Guest, &mut dyn Fabric) -> bool,
        awaited: &dyn Fn(&mut dyn Guest) -> Operation,
    ) {
        let mut begun = false;
        let what = WaitFor::Guest(subject, awaited);
        self.lock().wait_for(what, |engine| {
            let (guest, fabric) = engine.guest_and_fabric();
            let answer = ready(guest, fabric).then_some(());
            // What it asks for begins with the first look, and is taken with the last one.
            let leaves_work = !std::mem::replace(&mut begun, true) || answer.is_some();
            if leaves_work && engine.is_driven() {
                // As in `with_guest`: this thread does not drive, another one does.
                self.bell.ring();
            }
            answer
        });
    }

    /// Waits until `ready` answers true, and makes progress meanwhile: for what another thread does, which calls
    /// [`notify`](Self::notify) when it is done.
    pub fn wait_until(&self, mut ready: impl FnMut() -> bool) {
        self.lock()
            .wait_for(WaitFor::Outside("another thread"), |_| {
                ready().then_some(())
            });
    }

    /// Says that what a thread waits for by [`wait_until`](Self::wait_until) may have come.
    pub fn notify(&self) {
        self.lock().notify();
        self.bell.ring();
    }

    /// The counters of the engine of channel 0. Reading them takes no lock.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        self.shared.counters()
    }

    /// Calls `tell` with the counters of each engine: now for those that are open, and for others when they are opened.
    pub fn tell_counters(&self, tell: impl Fn(&Counters) + Send + Sync + 'static) {
        self.engines.tell_counters(Box::new(tell));
    }

    /// The counters of all engines, that of channel 0 first.
    pub fn all_counters(&self) -> impl Iterator<Item = &Counters> {
        self.engines.all().map(|engine| engine.counters())
    }

    /// Whether any peer was found lost. Takes no engine, so whoever leaves in whatever state may ask.
    #[must_use]
    pub fn knows_a_loss(&self) -> bool {
        self.all_counters().any(|counters| counters.lost.get() > 0)
    }

    /// Delivers events of these kinds (a set of [bits](crate::events::EventKind::bit)) from now on, of which this many
    /// may wait for delivery. Replaces the former listener.
    pub fn listen(&self, kinds: u32, listener: Arc<dyn Listener>, most: usize) {
        self.for_each(|engine| engine.listen(kinds, Arc::clone(&listener), most));
    }

    /// Sets a listener for what the threads of this rank wait for, called whenever an inquiry asks: see
    /// [`waits`](crate::waits). It is called without the engine, by a thread that waits.
    pub fn hear_waits(&self, listener: impl Fn(RankWaits) + Send + Sync + 'static) {
        let locks = Arc::clone(&self.kept_locks);
        let listener: WaitsListener = Arc::new(move |mut waits: RankWaits| {
            waits.locks = locks.held();
            listener(waits);
        });
        self.for_each(|engine| engine.hear_waits(Arc::clone(&listener)));
    }

    /// Whether one thread of the program makes all calls (`MPI_THREAD_SINGLE`, `MPI_THREAD_FUNNELED`): what other threads do ends
    /// none of its waits then. It is believed until another one calls.
    pub fn one_thread_calls(&self, does: bool) {
        self.for_each(|engine| engine.one_thread_calls(does));
    }

    /// Sets a function that knows the threads of this rank, for a process of several ranks, where those of the process
    /// are not it: by their numbers in the kernel and their names, all that may go on without this rank's calls.
    pub fn set_threads(&self, threads: impl Fn() -> Vec<(u32, String)> + Send + Sync + 'static) {
        let threads: ThreadsOfRank = Arc::new(threads);
        self.for_each(|engine| engine.set_threads(Arc::clone(&threads)));
    }

    /// Sets a listener that is called whenever a call waits: see [`wait_times`](crate::wait_times).
    pub fn time_waits(&self, listener: &'static dyn WaitListener) {
        self.for_each(|engine| engine.time_waits(listener));
    }

    /// Has `marker` mark the messages that the program sends while the number `calls` is not 0: see
    /// [`marks`](crate::marks). A call whose messages are to be marked adds itself to the number first.
    pub fn mark_sends(&self, calls: &'static AtomicU32, marker: &'static dyn Marker) {
        let marking = Marking::by(calls, marker);
        self.for_each(|engine| engine.mark_sends(marking));
    }

    /// The bytes up to which a message goes with its envelope.
    #[must_use]
    pub fn eager_limit(&self) -> usize {
        self.lock().eager_limit()
    }

    /// Sets these bytes; false, and the most that is possible is set, if no message of the fabric carries as many.
    pub fn set_eager_limit(&self, bytes: usize) -> bool {
        let mut fits = true;
        self.for_each(|engine| fits &= engine.set_eager_limit(bytes));
        fits
    }

    /// Bytes of small messages, each with 256 more, that a peer may send here before it asks whether they were received.
    #[must_use]
    pub fn credit_window(&self) -> u32 {
        self.lock().credit_window()
    }

    /// Sets these bytes, from the next answer on, for messages of others to this rank; and for those that it sends to
    /// others until they answer.
    pub fn set_credit_window(&self, bytes: u32) {
        self.for_each(|engine| engine.set_credit_window(bytes));
    }

    /// Number of messages that are held back here because their receiver has no room for their announcement.
    #[must_use]
    pub fn withheld(&self) -> usize {
        self.sum(|engine| engine.withheld())
    }

    /// Number of messages that wait for room of the fabric.
    #[must_use]
    pub fn held_back(&self) -> usize {
        self.sum(|engine| engine.held_back())
    }

    /// Number of live requests.
    #[must_use]
    pub fn live_requests(&self) -> usize {
        self.sum(|engine| engine.requests().0)
    }

    /// Largest number of requests that were live at once.
    #[must_use]
    pub fn request_slots(&self) -> usize {
        self.sum(|engine| engine.requests().1)
    }

    /// Ends the sleep of whoever drives.
    pub(crate) fn ring(&self) {
        self.bell.ring();
    }

    /// Several threads may call at a time (`MPI_THREAD_MULTIPLE`): communicators that this process leads from now on are divided
    /// among its engines.
    pub fn let_threads_call_at_once(&self) {
        self.several_threads.store(true, Ordering::Relaxed);
    }

    /// Whether they may.
    pub(crate) fn threads_call_at_once(&self) -> bool {
        self.several_threads.load(Ordering::Relaxed)
    }

    /// Opens the engine that a context names.
    pub(crate) fn open_engine_of(&self, context: u32) -> Result<()> {
        let opened = self.engines.open(self.channel_of(context), self.first);
        opened.map_err(|error| Error::new(ErrorClass::Other, error.to_string()))
    }

    /// The engine that a context names, which [is open](Self::open_engine_of).
    pub(crate) fn engine_of(&self, context: u32) -> &Arc<Shared> {
        let engine = self.engines.get(self.channel_of(context));
        engine.expect("opened when its members agreed on the context")
    }

    /// All engines that are open.
    pub(crate) fn engines(&self) -> &Arc<Engines> {
        &self.engines
    }

    /// The engine of a request.
    #[inline]
    pub(crate) fn shared_of(&self, request: RequestId) -> &Shared {
        if request.engine() == 0 {
            &self.shared
        } else {
            self.engines.of(request)
        }
    }

    /// Exclusive use of the engine of a request.
    #[inline]
    pub(crate) fn lock_of(&self, request: RequestId) -> Guard<'_> {
        self.shared_of(request).lock()
    }

    /// Other members have told of processes that were started later: the losses of those that had their numbers before are none of
    /// theirs, in whatever engine they are used.
    pub(crate) fn hear_of_members(&self) {
        self.for_each(|engine| engine.hear_of_members());
    }

    fn for_each(&self, mut act: impl FnMut(&mut Guard<'_>)) {
        self.engines
            .all()
            .for_each(|engine| act(&mut engine.lock()));
    }

    fn sum(&self, count: impl Fn(&Guard<'_>) -> usize) -> usize {
        self.engines.all().map(|engine| count(&engine.lock())).sum()
    }

    /// Exclusive use of the engine of channel 0.
    #[inline]
    pub(crate) fn lock(&self) -> Guard<'_> {
        self.shared.lock()
    }

    /// The same, on behalf of a thread of the program that makes no call.
    pub(crate) fn lock_on_behalf(&self) -> Guard<'_> {
        self.shared.lock_on_behalf()
    }
}
