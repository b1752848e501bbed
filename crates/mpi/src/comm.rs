//! Communicators: a group with a context of its own (MPI 5.0, chapter 7).

mod agree;
mod board;
mod connections;
mod create;
mod divided;
mod inter;
mod neighbours;
mod other_jobs;
mod outstanding;
mod port;
mod recovery;
pub mod topology;

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use weft_atomic::{AtomicU32, Ordering};
use weft_fabric::Peer;

use crate::coll::inter::{self as sides, Sides};
use crate::coll::on_board::{self, Demand};
use crate::coll::{self, Collective, Members, Placement};
use crate::engine::schedule::{CollectiveContext, Schedule};
use crate::engine::{Guard, PersistentOperation, RequestId, Shared, Status, WaitFor};
use crate::error::{Error, ErrorClass, Result};
use crate::extras::Extras;
use crate::group::Group;
use crate::process::Process;

pub(crate) use agree::first_number;
use connections::Connection;
pub use connections::Connections;
use divided::Parts;
pub use inter::Bridge;
pub(crate) use other_jobs::{BridgeEnd, Meeting, Meetings};
pub use other_jobs::{BridgeMembers, JobConnector, Line, ListeningEnd, Terms};
pub(crate) use port::first_call;
pub use port::{AwaitedWorld, Port};
pub use recovery::Shrinking;
use topology::{Neighbours, Topology};

/// Context of `MPI_COMM_WORLD`. A communicator owns two: even for point-to-point, odd for collectives.
pub(crate) const WORLD: u32 = 0;
/// Context of `MPI_COMM_SELF`.
pub(crate) const ITSELF: u32 = 2;
/// No context: that of a communicator whose members have not agreed on one yet.
const UNNAMED: u32 = u32::MAX;
/// Context of messages to ports, which belong to no communicator.
const PORTS: u32 = 4;
/// Contexts led by a process are numbered from here: those before are given already.
pub(crate) const FIRST_NUMBER: u32 = 3;

/// A communicator of one rank. Always behind an `Arc`.
#[derive(Debug)]
pub struct Comm {
    // Let go of before the process, whose endpoint of channel 0 is the last.
    engine: Arc<Shared>,
    process: Arc<Process>,
    /// Written once: when it is made, or when the request of `MPI_Comm_idup` ends.
    context: AtomicU32,
    group: Arc<Group>,
    /// The group that ranks of messages are counted in: the remote one of an intercommunicator.
    peers: Arc<Group>,
    /// The same, but nobody where messages are those of parts: so what ends at once asks nothing else.
    direct: Arc<Group>,
    /// What its messages are divided among by their tags.
    parts: Option<Parts>,
    shape: Shape,
    rank: u32,
    /// Collectives begun on this communicator so far.
    begun: [AtomicU32; 3],
    /// Whether small blocking collectives are done in shared memory: see [`board`].
    board: AtomicU32,
    /// Whether small non-blocking ones are: see [`outstanding`].
    outstanding: AtomicU32,
    /// So many collectives are done by messages because the last one of their kind had too much for the board.
    past_board: AtomicU32,
    /// Looked up when the first collective by messages asks.
    placement: OnceLock<Placement>,
    extras: Extras,
    /// Agreements begun on this communicator so far.
    agreements: AtomicU32,
    /// If it has processes of other worlds, until it is freed.
    connection: Mutex<Option<Connection>>,
    /// If its members may be of several jobs.
    meeting: OnceLock<Arc<Meeting>>,
    /// The way to those of the other job, until it is freed.
    bridge: Mutex<Option<Arc<BridgeEnd>>>,
}

/// Messages and receives that wait on a communicator.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Waiting {
    /// Messages without a receive.
    pub messages: u64,
    /// Bytes of data of these that are held here.
    pub bytes: u64,
    /// Receives without a message.
    pub receives: u64,
}

/// What kind of communicator it is.
#[derive(Clone, Debug)]
pub(crate) enum Shape {
    /// One group.
    Plain,
    /// Two groups: an intercommunicator.
    Between(Remote),
    /// One group with a topology, and the neighbours of this rank, once anybody has asked for them.
    On(Arc<Topology>, OnceLock<Neighbours>),
}

/// The other side of an intercommunicator, as this side sees it.
#[derive(Clone, Debug)]
pub(crate) struct Remote {
    group: Arc<Group>,
    /// Both sides in the order in which schedules count ranks: the local group, then the remote one.
    everybody: Arc<Group>,
    /// Of the two sides one is the first, where an order is needed: that of the lowest process. Both
    /// come to the same answer without asking.
    local_is_first: bool,
}

impl Remote {
    /// The other side of `local`; the two have no process in common. `meeting`: that of the communicator which it is made of.
    pub(crate) fn of(local: &Group, group: Arc<Group>, meeting: Option<&Arc<Meeting>>) -> Self {
        let everybody = local.members().chain(group.members()).collect();
        let lowest = |group: &Group| match meeting {
            None => group.members().map(|peer| peer.0).min(),
            Some(meeting) => group.members().map(|peer| meeting.number_of(peer)).min(),
        };
        Self {
            everybody: Arc::new(Group::of(everybody)),
            local_is_first: lowest(local) < lowest(&group),
            group,
        }
    }
}

impl Comm {
    /// A communicator over `group`, whose context all members have agreed on. `None` if this process
    /// is no member.
    #[must_use]
    pub(crate) fn assemble(
        process: &Arc<Process>,
        context: u32,
        group: Arc<Group>,
        shape: Shape,
    ) -> Option<Arc<Self>> {
        let rank = group.rank_of(process.me())?;
        let meeting = process.meetings.of(context);
        let foreign = process.connections().are_possible()
            && (process.is_foreign(&group)
                || matches!(&shape, Shape::Between(remote) if process.is_foreign(&remote.group)));
        let has_board = group.size() > 1 && !foreign && !matches!(&shape, Shape::Between(_));
        // What becomes of another job is no matter of this one's launcher.
        let connects = foreign && meeting.is_none();
        let peers = match &shape {
            Shape::Between(remote) => Arc::clone(&remote.group),
            Shape::Plain | Shape::On(..) => Arc::clone(&group),
        };
        Some(Arc::new(Self {
            connection: Mutex::new(connects.then(|| Connection::of(process))),
            bridge: Mutex::new(meeting.as_ref().and_then(|meeting| meeting.bridge())),
            meeting: meeting.map(OnceLock::from).unwrap_or_default(),
            process: Arc::clone(process),
            engine: Arc::clone(process.engine_of(context)),
            context: AtomicU32::new(context),
            direct: Arc::clone(&peers),
            parts: None,
            peers,
            group,
            shape,
            rank,
            begun: Default::default(),
            board: AtomicU32::new(if has_board { 0 } else { board::NEVER }),
            outstanding: AtomicU32::new(if has_board { 0 } else { board::NEVER }),
            past_board: AtomicU32::new(0),
            placement: OnceLock::new(),
            extras: Extras::default(),
            agreements: AtomicU32::new(0),
        }))
    }

    /// The rank of this process in the (local) group.
    #[inline]
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Size of the (local) group.
    #[inline]
    #[must_use]
    pub fn size(&self) -> u32 {
        self.group.size()
    }

    /// The (local) group.
    #[must_use]
    pub fn group(&self) -> &Arc<Group> {
        &self.group
    }

    /// A number that exactly those processes have in common whose memory this process can load and store: that of the
    /// first of them, in the job, or among those of two jobs that were connected.
    #[must_use]
    pub fn number_of_shared_memory(&self) -> Option<u32> {
        let process = &self.process;
        let engine = process.lock();
        self.first_number(|peer| peer == process.me() || engine.shares_memory(peer))
    }

    /// A number that the members of a process set which this process knows have in common, and nobody else: as for
    /// [`number_of_shared_memory`](Self::number_of_shared_memory). `None` if this process is none of them.
    #[must_use]
    pub fn number_of_set(&self, set: &Group) -> Option<u32> {
        let is_member = |peer: Peer| set.rank_of(peer).is_some();
        if !is_member(self.process.me()) {
            return None;
        }
        self.first_number(is_member)
    }

    /// The number, in the job or among those of two jobs that were connected, of the first process for which this holds.
    fn first_number(&self, holds: impl Fn(Peer) -> bool) -> Option<u32> {
        match self.meeting() {
            Some(meeting) => {
                let mut numbers = 0..meeting.size();
                numbers.find(|number| meeting.peer(*number).is_some_and(&holds))
            }
            None => (0..self.process.peers()).find(|peer| holds(Peer(*peer))),
        }
    }

    /// Which hosts the ranks of the (local) group are on.
    pub(crate) fn placement(&self) -> &Placement {
        let look = || match self.meeting() {
            None => self.process.placement([&*self.group]),
            // What one job knows of itself the other does not.
            Some(_) => Placement::Unknown,
        };
        self.placement.get_or_init(look)
    }

    /// The remote group of an intercommunicator.
    #[must_use]
    pub fn remote_group(&self) -> Option<&Arc<Group>> {
        self.remote().map(|remote| &remote.group)
    }

    /// The topology, if it was made with one (MPI 5.0, chapter 8).
    #[must_use]
    pub fn topology(&self) -> Option<&Arc<Topology>> {
        match &self.shape {
            Shape::On(topology, _) => Some(topology),
            Shape::Plain | Shape::Between(_) => None,
        }
    }

    #[inline]
    fn remote(&self) -> Option<&Remote> {
        match &self.shape {
            Shape::Between(remote) => Some(remote),
            Shape::Plain | Shape::On(..) => None,
        }
    }

    /// The process that this is a communicator of.
    #[inline]
    #[must_use]
    pub fn process(&self) -> &Arc<Process> {
        &self.process
    }

    /// The engine that its context names.
    #[inline]
    pub(crate) fn shared(&self) -> &Shared {
        &self.engine
    }

    /// Exclusive use of that engine.
    #[inline]
    pub(crate) fn lock(&self) -> Guard<'_> {
        self.engine.lock()
    }

    /// The context of point-to-point messages.
    #[inline]
    #[must_use]
    pub fn context(&self) -> u32 {
        // A thread that may use the communicator has seen the end of the request that wrote it, which the
        // lock of the engine orders.
        self.context.load(Ordering::Relaxed)
    }

    /// The context, if it is known yet: see [`Self::idup`].
    #[must_use]
    pub fn known_context(&self) -> Option<u32> {
        Some(self.context()).filter(|context| *context != UNNAMED)
    }

    /// Gives it the context that its members have agreed on: of channel 0, as the one that it had.
    pub(crate) fn name(&self, context: u32) {
        if let Some(meeting) = self.process.meetings.of(context) {
            *self.bridge.lock().unwrap_or_else(PoisonError::into_inner) = meeting.bridge();
            let _ = self.meeting.set(meeting);
        }
        self.context.store(context, Ordering::Relaxed);
    }

    /// Name, info, error handler and attributes.
    #[must_use]
    pub fn extras(&self) -> &Extras {
        &self.extras
    }

    /// The group that ranks of messages are counted in.
    #[inline]
    fn peers(&self) -> &Arc<Group> {
        &self.peers
    }

    /// The process of a rank that messages go to.
    #[inline]
    pub(crate) fn target(&self, rank: u32) -> Result<Peer> {
        let peers = self.peers();
        if rank < peers.size() {
            Ok(peers.peer(rank))
        } else {
            Err(no_such_rank(rank, peers.size()))
        }
    }

    /// The rank of a process that messages come from.
    pub(crate) fn rank_of(&self, peer: Peer) -> Option<u32> {
        self.peers().rank_of(peer)
    }

    /// What translates peers to ranks; `None` if it is all peers as they are.
    #[inline]
    pub(crate) fn translation(&self) -> Option<Arc<Group>> {
        let peers = self.peers();
        if peers.is_identity() && peers.size() == self.process.first() {
            None
        } else {
            Some(Arc::clone(peers))
        }
    }

    /// The context of the next collective of this communicator. All ranks begin collectives of a form in the same
    /// order, so they count alike; those of two forms do not match each other (MPI 5.0, section 6.12), and programs
    /// count on it. In an intercommunicator the ranks of the remote group are counted on behind those of the local
    /// one.
    fn next_collective(&self, form: Form) -> CollectiveContext {
        let group = match self.remote() {
            None => self.translation(),
            Some(remote) => Some(Arc::clone(&remote.everybody)),
        };
        CollectiveContext::new(self.context() | 1, group, self.next_number(form))
    }

    /// The form of the next collective and its number among those of the form, as one.
    #[inline]
    fn next_number(&self, form: Form) -> u32 {
        form.numbered(self.begun[form as usize].fetch_add(1, Ordering::Relaxed))
    }

    /// The communicator is freed: it connects this process with no other any more.
    pub fn sever(&self) {
        self.leave_board();
        self.forget_losses();
        let mut connection = self
            .connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        connection.take();
    }

    /// The communicator is freed: the connections to the other job end with the last communicator that needs them. The
    /// object may stay alive for a while, as freed objects do.
    pub fn leave_meeting(&self) {
        let mut bridge = self.bridge.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bridge) = bridge.take() {
            self.process
                .meetings
                .leave(&self.process, self.context(), bridge);
        }
    }

    /// `MPI_Comm_disconnect`, but for freeing the handle: all that is under way on this communicator has ended, at all of
    /// its processes.
    ///
    /// # Errors
    /// When a member is lost.
    pub fn settle(&self) -> Result<()> {
        for part in self.with_parts() {
            let context = part.context();
            part.lock().wait_for(WaitFor::Active(context), |engine| {
                (!engine.is_active_in(context)).then_some(())
            });
        }
        self.meet_all()?;
        self.sever();
        // When it returns, all of them are severed: who dies from now on dies alone. Some may already have: they were
        // through with this, or their own world is judged by what it had to do with others. Here nothing is missing.
        let _ = self.meet_all();
        self.process.drain();
        Ok(())
    }

    /// Nobody returns before all processes of the communicator, of both sides, have come.
    fn meet_all(&self) -> Result<()> {
        let Some(both) = Sides::of(self) else {
            return self.run(coll::barrier(&Members::of(self))?);
        };
        // Each time the other side has come. That it has come again says that this side came the first time.
        self.run(sides::barrier(&both)?)?;
        self.run(sides::barrier(&both)?)
    }

    /// The communicator is freed: messages that were not received, and never will be, release their memory. Call it only
    /// when no collective or persistent request can still want them; messages in flight are not found. Returns how many
    /// of them a receive has been forgotten for, and the status that the first of those would have had.
    pub fn drop_messages(&self) -> Option<(usize, Status)> {
        self.known_context()?;
        self.leave_board();
        let dropped = self
            .with_parts()
            .filter_map(|part| part.lock().drop_context(part.context()));
        let (count, first) = dropped.reduce(|(count, first), (more, _)| (count + more, first))?;
        Some((count, self.status_of(&first)))
    }

    /// Number of collectives begun on it.
    #[must_use]
    pub fn collectives(&self) -> u32 {
        let of = |begun: &AtomicU32| begun.load(Ordering::Relaxed);
        self.begun.iter().map(of).fold(0, u32::wrapping_add)
    }

    /// Messages that wait for their receive, and receives that wait for their message.
    #[must_use]
    pub fn waiting(&self) -> Waiting {
        let mut all = Waiting::default();
        for (part, context) in self.with_parts().zip(self.contexts()) {
            let (messages, bytes, receives) = part.lock().waiting(context);
            all.messages += messages;
            all.bytes += bytes;
            all.receives += receives;
        }
        all
    }

    /// Runs a collective to its end.
    ///
    /// # Errors
    /// The error of one of its steps.
    #[inline]
    pub fn run<'a>(&self, collective: impl Into<Collective<'a>>) -> Result<()> {
        let collective = collective.into();
        if let Collective::Neighbours(exchange) = &collective
            && let Some(outcome) = self.run_among_neighbours(exchange)
        {
            return outcome;
        }
        let collective = collective.with_steps()?;
        if self.has_done_alone(&collective, Form::Blocking)? {
            return Ok(());
        }
        match self.run_on_board(&collective) {
            Some(outcome) => outcome.map_err(|error| self.with_places(error)),
            None => self.run_schedule(collective.schedule(|| Members::of(self))?),
        }
    }

    /// Carries out a collective in which this rank communicates with no other; false, without effect, if it does.
    #[inline]
    fn has_done_alone(&self, collective: &Collective<'_>, form: Form) -> Result<bool> {
        if let Collective::Steps(schedule) = collective {
            return Ok(schedule.is_local() && self.has_done_locally(schedule, form));
        }
        if self.size() == 1
            && let Some(demand) = on_board::outline(collective, 0, 1)
        {
            return self.run_alone(collective, &demand, form).map(|()| true);
        }
        Ok(false)
    }

    fn has_done_locally(&self, schedule: &Schedule, form: Form) -> bool {
        let passed = self.lock().pass_local(schedule.name, self.context() | 1);
        if passed {
            self.next_number(form);
            schedule.carry_out();
        }
        passed
    }

    /// Carries out a collective of this rank alone.
    fn run_alone(&self, collective: &Collective<'_>, demand: &Demand, form: Form) -> Result<()> {
        on_board::check(collective, &Members::one())?;
        self.next_number(form);
        self.lock().pass_alone(demand.place(), self.context() | 1)?;
        coll::alone::carry_out(collective);
        Ok(())
    }

    /// Whether this rank is the only one of it, and of no other group.
    #[inline]
    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.size() == 1 && self.remote().is_none()
    }

    /// Counts a collective of this rank alone, if this thread has the engine by the bias; false, without effect, if that is not all that is to be done.
    #[inline]
    pub(crate) fn pass_alone_at_once(&self, place: usize) -> bool {
        let passed =
            (self.engine.try_by_bias()).is_some_and(|mut engine| engine.pass_alone_at_once(place));
        if passed {
            // Of the collectives of one rank only the number of all is asked for, whatever their form.
            self.next_number(Form::Blocking);
        }
        passed
    }

    /// An error, with where the two ranks are whose collectives do not fit each other, if it is that of one.
    #[cold]
    fn with_places(&self, error: Error) -> Error {
        let members: Vec<Peer> = match self.remote() {
            None => self.group.members().collect(),
            Some(remote) => remote.everybody.members().collect(),
        };
        let mut engine = self.lock();
        engine.with_places(self.context() | 1, &members, error)
    }

    /// Runs a schedule to its end.
    fn run_schedule(&self, schedule: Schedule) -> Result<()> {
        self.run_schedule_as(schedule, self.next_collective(Form::Blocking))
    }

    /// The same as a collective that has its number.
    fn run_schedule_as(&self, schedule: Schedule, collective: CollectiveContext) -> Result<()> {
        let request = self.start_as(schedule, collective)?;
        let outcome = self.process.wait(request);
        outcome.map(drop).map_err(|error| self.with_places(error))
    }

    /// Runs a schedule to its end, or until it is to be given up: false. It goes on then, and nobody hears of its end.
    ///
    /// # Errors
    /// What a step of it ended with.
    pub(crate) fn run_unless(
        &self,
        schedule: Schedule,
        may_give_up: impl Fn() -> bool,
    ) -> Result<bool> {
        let request = self.start(schedule, Form::Blocking)?;
        let mut engine = self.lock();
        let is_over = engine.wait_for(WaitFor::Requests(&[request]), |engine| {
            if engine.is_over(request) || engine.held_up(request).is_some() {
                return Some(true);
            }
            may_give_up().then_some(false)
        });
        drop(engine);
        if !is_over {
            self.process.free_request(request)?;
            return Ok(false);
        }
        let outcome = self.process.wait(request);
        outcome
            .map(|_| true)
            .map_err(|error| self.with_places(error))
    }

    /// Begins a collective. The answer is [`RequestId::DONE`] if this rank communicates with no other in it.
    ///
    /// # Errors
    /// `NoMem` if too many requests are live.
    #[inline]
    pub fn begin<'a>(&self, collective: impl Into<Collective<'a>>) -> Result<RequestId> {
        let collective = collective.into().with_steps()?;
        if self.has_done_alone(&collective, Form::Nonblocking)? {
            return Ok(RequestId::DONE);
        }
        if let Some(demand) = self.demand_on_board(&collective)? {
            return self.begin_on_board(collective, demand);
        }
        let schedule = collective.schedule(|| Members::of(self))?;
        self.start(schedule, Form::Nonblocking)
    }

    fn start(&self, schedule: Schedule, form: Form) -> Result<RequestId> {
        self.start_as(schedule, self.next_collective(form))
    }

    /// The same as a collective that has its number.
    fn start_as(
        &self,
        schedule: impl Into<Arc<Schedule>>,
        collective: CollectiveContext,
    ) -> Result<RequestId> {
        let mut engine = self.lock();
        let request = engine.start_collective(self.context(), schedule, collective)?;
        engine.look();
        Ok(request)
    }

    /// Keeps a collective, to be started any number of times.
    ///
    /// # Errors
    /// `NoMem` if too many requests are live.
    pub fn prepare<'a>(&self, collective: impl Into<Collective<'a>>) -> Result<RequestId> {
        let collective = collective.into();
        let schedule = collective.clone().schedule(|| Members::of(self))?;
        let context = self.next_collective(Form::Persistent);
        let on_board = self.repeat_on_board(&collective, context.sequence())?;
        self.keep(PersistentOperation::Collective {
            by_messages: (Arc::new(schedule), context),
            on_board: on_board.map(Box::new),
        })
    }
}

/// Form of a collective. Ranks must begin it in the same form.
#[derive(Clone, Copy, Debug)]
enum Form {
    Blocking,
    Nonblocking,
    Persistent,
}

impl Form {
    /// The form and a number among those of the form, as one.
    #[inline]
    fn numbered(self, number: u32) -> u32 {
        number << 2 | self as u32
    }
}

#[cold]
fn no_such_rank(rank: u32, size: u32) -> Error {
    Error::new(
        ErrorClass::Rank,
        format!(
            "there is no rank {rank}: the communicator has {size} (0 to {}); check the rank against MPI_Comm_size",
            size.saturating_sub(1)
        ),
    )
}
