//! Abroad: groups of two jobs meet (MPI 5.0, section 11.9). What a [`Meeting`] has agreed on holds for all communicators
//! that are made of the intercommunicator that it ends with.
//!
//! ```text
//!   connecting job                               accepting job
//!   members listen, tell their root where        members listen, tell their root where
//!   root ── hello, where its members are ──►     root
//!        ◄── hello, where its members are, key ──
//!   each root tells its members; each opens its end of the bridge; each root hears whether all have
//!        ◄── all have, or why not ──►
//! ```
//!
//! # Names
//! Each job has numbers of its own for processes, and each process has its own for those of other jobs. What two jobs tell
//! each other counts the members of the meeting: those who accept, in the order of their communicator, then those who connect. A context
//! of a meeting carries its number and a leader in that count:
//!
//! ```text
//!   31 30 29             15 14                   1 0
//!   1  0  number of meeting count · leader         which half
//! ```
//!
//! No member has two meetings of the same number, as both sides take one above all that any of them has had. So no context of a
//! meeting is that of another one, or of a communicator of one job (bit 31), at any process.

mod plan;

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use weft_atomic::{AtomicU32, Ordering};
use weft_fabric::{Fabric, Peer, Region};

use self::plan::{Plan, RECORD, Record};
use super::agree::leader_bits;
use super::inter::Greeting;
use super::{Comm, Remote, Shape};
use crate::buffer;
use crate::engine::WaitFor;
use crate::error::{Error, ErrorClass, Result};
use crate::group::Group;
use crate::process::Process;
use crate::schedule::{Schedule, Span, Step};

/// Contexts from here on, up to those of guests, belong to meetings.
pub(super) const ABROAD: u32 = 1 << 31;
/// How many numbers there are for meetings.
const NUMBERS: u32 = 1 << 15;
/// How many bits of a context are for count and leader.
const INNER: u32 = 14;
/// What a root tells its group in place of a size: the other group is one of another job.
pub(super) const ELSEWHERE: u32 = u32::MAX;
/// Both sides are of the same release, or do not meet.
const RELEASE: &str = concat!("weft ", env!("CARGO_PKG_VERSION"), " meeting 2");

/// What a process needs of the system to meet processes of other jobs.
pub trait Abroad: Send + Sync {
    /// Whether other jobs can call at a port of this process.
    fn listens_at(&self, port: u32) -> bool;
    /// Who has called at a port and was not taken yet. It [notifies](Process::notify) when somebody has.
    fn take_caller(&self, port: u32) -> Option<Box<dyn Line>>;
    /// The next one to be taken.
    fn give_back(&self, port: u32, line: Box<dyn Line>);
    /// A key that nobody can guess.
    ///
    /// # Errors
    /// If the system has none.
    fn draw_key(&self) -> Result<[u8; 32]>;
    /// Whether this job encrypts what goes from host to host.
    fn is_sealed(&self) -> bool;
    /// Begins to be reachable by processes of another job.
    ///
    /// # Errors
    /// If the system refuses.
    fn listen(&self, terms: Terms) -> Result<Box<dyn Listening>>;
    /// Makes room for processes of other jobs in the fabric. Once, before any of them is joined.
    ///
    /// # Errors
    /// If the system refuses.
    fn widen(&self, fabric: &mut Box<dyn Fabric>) -> Result<()>;
    /// Ends a bridge.
    fn close(&self, bridge: usize);
}

/// A way to the root of another job, over which the roots agree.
pub trait Line: Send {
    /// Sends a message.
    ///
    /// # Errors
    /// If the other side is gone.
    fn send(&mut self, message: &[u8]) -> Result<()>;
    /// Waits for a message, and makes progress meanwhile.
    ///
    /// # Errors
    /// If the other side is gone.
    fn receive(&mut self) -> Result<Vec<u8>>;
    /// Whether the other root is on another host.
    fn is_between_hosts(&self) -> bool;
}

/// What the connections of two jobs have to be: what either job needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    /// Processes of several hosts take part.
    pub wide: bool,
    /// What goes from host to host is encrypted.
    pub sealed: bool,
}

impl Terms {
    pub(super) fn to_bits(self) -> u8 {
        u8::from(self.wide) | u8::from(self.sealed) << 1
    }

    pub(super) fn from_bits(bits: u8) -> Self {
        Self {
            wide: bits & 1 != 0,
            sealed: bits & 2 != 0,
        }
    }
}

/// A process that listens for those of another job.
pub trait Listening: Send {
    /// Where: to be told to them.
    fn address(&self) -> String;
    /// Opens this process's end.
    ///
    /// # Errors
    /// If the system refuses.
    fn join(self: Box<Self>, members: Joining) -> Result<(usize, Vec<Peer>)>;
}

/// Who takes part in a bridge.
#[derive(Debug)]
pub struct Joining {
    /// This process's number among them.
    pub me: u32,
    /// What they know and nobody else.
    pub key: [u8; 32],
    /// Where each of them listens.
    pub addresses: Vec<String>,
    /// The numbers of the other side.
    pub others: Range<u32>,
    /// This side connects to all of the other one.
    pub greets: bool,
}

/// What a process has to do with other jobs.
#[derive(Default)]
pub(crate) struct Meetings {
    abroad: OnceLock<Arc<dyn Abroad>>,
    is_widened: Mutex<bool>,
    all: Mutex<Vec<Weak<Meeting>>>,
    /// By context of a communicator that was freed while something was under way on it: what that needs.
    freed: Mutex<Vec<(u32, Arc<Crossing>)>>,
    /// Above all numbers that meetings of this process have had.
    next: AtomicU32,
}

impl Meetings {
    fn all(&self) -> MutexGuard<'_, Vec<Weak<Meeting>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// That of a context, if it is one of a meeting that this process takes part in.
    pub fn of(&self, context: u32) -> Option<Arc<Meeting>> {
        if context & (ABROAD | ABROAD >> 1) != ABROAD {
            return None;
        }
        let number = context >> (INNER + 1) & (NUMBERS - 1);
        let all = self.all();
        all.iter()
            .filter_map(Weak::upgrade)
            .find(|meeting| meeting.number == number)
    }
}

impl Meetings {
    /// A communicator is freed: what is under way on it goes on.
    pub fn leave(&self, process: &Process, context: u32, bridge: Arc<Crossing>) {
        let mut freed = self.freed.lock().unwrap_or_else(PoisonError::into_inner);
        freed.push((context, bridge));
        drop(freed);
        self.end_unused(process);
    }

    /// Ends the bridges of communicators that were freed, on which nothing is under way any more.
    pub fn end_unused(&self, process: &Process) {
        let mut freed = self.freed.lock().unwrap_or_else(PoisonError::into_inner);
        freed.retain(|(context, bridge)| {
            let engine = process.engine_of(*context).lock();
            engine.is_active_in(*context) || bridge.peers.iter().any(|peer| engine.owes(*peer))
        });
    }
}

/// The connection of two jobs at this process: it ends with the last communicator that needs it.
pub(crate) struct Crossing {
    abroad: Arc<dyn Abroad>,
    number: usize,
    /// Those of the other side.
    peers: Vec<Peer>,
}

impl std::fmt::Debug for Crossing {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Crossing({})", self.number)
    }
}

impl Drop for Crossing {
    fn drop(&mut self) {
        self.abroad.close(self.number);
    }
}

/// What two groups of different jobs have agreed on. It may outlive the connection: objects that were freed still name it.
pub(crate) struct Meeting {
    number: u32,
    me: u32,
    /// By number in the meeting.
    members: Vec<Peer>,
    /// Counts the contexts that this process leads.
    next: AtomicU32,
    bridge: Weak<Crossing>,
}

impl std::fmt::Debug for Meeting {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Meeting({})", self.number)
    }
}

impl Meeting {
    /// The connection; `None` if all communicators are freed.
    pub fn bridge(&self) -> Option<Arc<Crossing>> {
        self.bridge.upgrade()
    }

    /// The number of a process in the meeting; the highest one of who takes no part.
    pub fn number_of(&self, peer: Peer) -> u32 {
        let place = self.members.iter().position(|member| *member == peer);
        place.map_or(u32::MAX, |place| place as u32)
    }

    /// The process of a number.
    pub fn peer(&self, number: u32) -> Option<Peer> {
        self.members.get(number as usize).copied()
    }

    /// How many take part.
    pub fn size(&self) -> u32 {
        self.members.len() as u32
    }

    fn context(&self, inner: u32) -> u32 {
        ABROAD | self.number << (INNER + 1) | inner << 1
    }

    /// A new context, led by this process.
    pub fn new_context(&self) -> Result<u32> {
        let leaders = leader_bits(self.size());
        let most = 1 << (INNER - leaders);
        let count = self
            .next
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| {
                (count < most).then_some(count + 1)
            });
        match count {
            Ok(count) => Ok(self.context(count << leaders | self.me)),
            Err(_) => Err(Error::new(
                ErrorClass::Other,
                format!(
                    "this process has led the creation of {} communicators with processes of another job, and no context is left; create \
                     communicators once and reuse them, or connect again",
                    most - 1
                ),
            )),
        }
    }
}

/// A caller at a port.
pub(super) enum Caller {
    /// Of this job: what it says.
    Here,
    /// Of another job.
    Elsewhere(Box<dyn Line>),
}

impl Process {
    /// Says how other jobs are met. Once.
    pub fn set_abroad(&self, abroad: Arc<dyn Abroad>) {
        let _ = self.meetings.abroad.set(abroad);
    }

    /// Whether the processes that this one has an intercommunicator or another communicator with may be of another job.
    fn abroad(&self) -> Result<&Arc<dyn Abroad>> {
        self.meetings.abroad.get().ok_or_else(|| {
            Error::new(
                ErrorClass::Port,
                "this process cannot be connected to other jobs; it runs within one process with the others",
            )
        })
    }

    /// Waits for whoever calls first at a port: a process of this job, whose call is received into `call`, or of another one.
    pub(super) fn next_caller(&self, ports: u32, port: u32, call: &mut [u8]) -> Result<Caller> {
        let gate = self.meetings.abroad.get();
        let Some(gate) = gate.filter(|gate| gate.listens_at(port)) else {
            self.receive_at(ports, None, port, call)?;
            return Ok(Caller::Here);
        };
        let mut engine = self.lock();
        let receive = crate::Buffer::untyped(buffer::region_of(call));
        let nobody = Arc::new(Group::of(vec![self.me()]));
        let tag = Some(port.cast_signed());
        let request = engine.start_receive(receive, ports, None, tag, Some(nobody))?;
        let line = engine.wait_for(
            WaitFor::Outside("another group that connects to the port"),
            |engine| match engine.is_over(request) {
                true => Some(None),
                false => gate.take_caller(port).map(Some),
            },
        );
        let Some(line) = line else {
            return engine.finish(request).map(|_| Caller::Here);
        };
        engine.cancel(request)?;
        let status = engine.finish(request)?;
        drop(engine);
        if status.cancelled {
            return Ok(Caller::Elsewhere(line));
        }
        gate.give_back(port, line);
        Ok(Caller::Here)
    }

    /// What both jobs need, of this root's hello and that of the other one.
    pub(super) fn greet_abroad(&self, line: &mut dyn Line) -> Result<Terms> {
        let ours = Terms {
            wide: self.has_several_hosts() || line.is_between_hosts(),
            sealed: self.abroad()?.is_sealed(),
        };
        let mut hello = vec![ours.to_bits()];
        hello.extend(RELEASE.as_bytes());
        line.send(&hello)?;
        let theirs = line.receive()?;
        match theirs.split_first() {
            Some((theirs, release)) if release == RELEASE.as_bytes() => {
                Ok(Terms::from_bits(ours.to_bits() | theirs))
            }
            _ => Err(Error::new(
                ErrorClass::Port,
                format!(
                    "the other job is of another release of Weft ({} here); use one release for both",
                    env!("CARGO_PKG_VERSION")
                ),
            )),
        }
    }
}

impl Comm {
    /// The meeting that its members are from, if they may be of several jobs.
    pub(crate) fn meeting(&self) -> Option<&Arc<Meeting>> {
        self.meeting.get()
    }

    /// A new context for a communicator that is made of this one, led by this process.
    pub(super) fn draw_context(&self, channel: u32) -> Result<u32> {
        match self.meeting() {
            Some(meeting) => meeting.new_context(),
            None => self.process().new_context_in(channel),
        }
    }

    /// Nothing is decided between jobs after losses.
    ///
    /// # Errors
    /// For a communicator of several jobs.
    pub(super) fn check_one_job(&self, name: &str) -> Result<()> {
        match self.meeting() {
            None => Ok(()),
            Some(_) => Err(Error::new(
                ErrorClass::Comm,
                format!(
                    "{name}: the communicator has come of a connection between two jobs, across which losses are not agreed upon; \
                     disconnect it, and go on with one of this job"
                ),
            )),
        }
    }

    /// Each member: an intercommunicator with a group of another job. `line` at the root.
    pub(super) fn meet_abroad(
        &self,
        name: &'static str,
        root: u32,
        (accepts, terms): (bool, Terms),
        line: Option<Box<dyn Line>>,
    ) -> Result<Arc<Self>> {
        let met = self.plan_meeting(name, root, (accepts, terms), line);
        met.map_err(|error| {
            Error::new(
                ErrorClass::Port,
                format!("{name}: the two jobs could not be connected: {error}"),
            )
        })
    }

    fn plan_meeting(
        &self,
        name: &'static str,
        root: u32,
        (accepts, terms): (bool, Terms),
        mut line: Option<Box<dyn Line>>,
    ) -> Result<Arc<Self>> {
        let process = self.process();
        let text = |error: Error| error.text().to_owned();
        let listening = process.abroad().and_then(|abroad| abroad.listen(terms));
        let record = Record {
            next: process.meetings.next.load(Ordering::Relaxed),
            said: match &listening {
                Ok(listening) => Ok(listening.address()),
                Err(error) => Err(error.text().to_owned()),
            },
        };
        let ours = self.collect(name, &mut record.to_bytes(), root)?;
        let plan = line.as_mut().map(|line| {
            let exchanged = self.exchange(&mut **line, &ours, accepts);
            exchanged.map_err(text)
        });
        let plan =
            self.spread_outcome(name, root, plan.map(|plan| plan.map(|it| it.to_bytes())))?;
        let opened = Plan::from_bytes(&plan)
            .ok_or_else(|| Error::new(ErrorClass::Intern, "a plan cannot be understood"))
            .and_then(|plan| self.open_meeting(&plan, accepts, listening?));
        let record = Record {
            next: 0,
            said: match &opened {
                Ok(_) => Ok(String::new()),
                Err(error) => Err(error.text().to_owned()),
            },
        };
        let ours = self.collect(name, &mut record.to_bytes(), root)?;
        let outcome = line.as_mut().map(|line| {
            let exchanged = line.send(&ours).and_then(|()| line.receive());
            let theirs = exchanged.map_err(text)?;
            let all = ours.chunks(RECORD).chain(theirs.chunks(RECORD));
            for record in all {
                Record::from_bytes(record)
                    .ok_or("a message cannot be understood")?
                    .said?;
            }
            Ok(Vec::new())
        });
        self.spread_outcome(name, root, outcome)?;
        let (meeting, _bridge, remote) = opened?;
        process.connections().make_possible();
        let shape = Shape::Between(Remote::of(self.group(), Arc::new(remote), Some(&meeting)));
        let group = Arc::clone(self.group());
        Ok(Self::assemble(process, meeting.context(0), group, shape)
            .expect("a member of its own group"))
    }

    /// The root's part: what the members of both sides have said, and the key.
    fn exchange(&self, line: &mut dyn Line, ours: &[u8], accepts: bool) -> Result<Plan> {
        let mut key = [0; 32];
        if accepts {
            key = self.process().abroad()?.draw_key()?;
        }
        let mut message = key.to_vec();
        message.extend(ours);
        line.send(&message)?;
        let theirs = line.receive()?;
        let Some((their_key, theirs)) = theirs.split_first_chunk::<32>() else {
            return Err(Error::new(
                ErrorClass::Port,
                "a message of the other job cannot be understood",
            ));
        };
        let plan = match accepts {
            true => Plan::of([ours, theirs], key),
            false => Plan::of([theirs, ours], *their_key),
        };
        plan.map_err(|reason| Error::new(ErrorClass::Port, reason))
    }

    /// Opens this process's end, and notes the meeting.
    fn open_meeting(
        &self,
        plan: &Plan,
        accepts: bool,
        listening: Box<dyn Listening>,
    ) -> Result<(Arc<Meeting>, Arc<Crossing>, Group)> {
        let process = self.process();
        let meetings = &process.meetings;
        let claimed = meetings
            .next
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| {
                (next <= plan.number).then_some(plan.number + 1)
            });
        if claimed.is_err() {
            return Err(Error::new(
                ErrorClass::Port,
                "another thread of a process has connected it to another job at the same moment; connect again",
            ));
        }
        let total = plan.addresses.len() as u32;
        let (own, others) = match accepts {
            true => (0, plan.accepting..total),
            false => (plan.accepting, 0..plan.accepting),
        };
        let me = own + self.rank();
        let joining = Joining {
            me,
            key: plan.key,
            addresses: plan.addresses.clone(),
            others,
            greets: accepts,
        };
        let abroad = Arc::clone(process.abroad()?);
        let mut is_widened = meetings
            .is_widened
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let mut engine = process.lock();
        if !*is_widened {
            engine.widen(|fabric| abroad.widen(fabric))?;
            *is_widened = true;
        }
        // Nothing of the others is heard before there is room for it.
        let (bridge, peers) = listening.join(joining)?;
        engine.make_room_for_peers();
        // What was known of others in their places is forgotten before anything is sent to them.
        engine.progress();
        drop((engine, is_widened));
        let bridge = Arc::new(Crossing {
            abroad,
            number: bridge,
            peers: peers.clone(),
        });
        let local = self.group().members();
        let members = match accepts {
            true => local.chain(peers.iter().copied()).collect(),
            false => peers.iter().copied().chain(local).collect(),
        };
        let meeting = Arc::new(Meeting {
            number: plan.number,
            me,
            members,
            next: AtomicU32::new(1),
            bridge: Arc::downgrade(&bridge),
        });
        let mut all = meetings.all();
        all.retain(|one| one.strong_count() > 0);
        all.push(Arc::downgrade(&meeting));
        Ok((meeting, bridge, Group::of(peers)))
    }

    /// What each member says, at the root.
    fn collect(&self, name: &'static str, own: &mut [u8], root: u32) -> Result<Vec<u8>> {
        let mut all = vec![0; self.size() as usize * RECORD];
        let region = buffer::region_of(&mut all);
        let own = Span::User(buffer::region_of(own));
        let part = |rank: u32| {
            let part = region.part(rank as usize * RECORD, RECORD);
            Span::User(part.unwrap_or(Region::EMPTY))
        };
        let mut steps = Vec::new();
        if self.rank() == root {
            steps.push(Step::Copy {
                from: own,
                into: part(root),
            });
            let others = (0..self.size()).filter(|rank| *rank != root);
            steps.extend(others.map(|from| Step::Receive {
                from,
                into: part(from),
            }));
        } else {
            steps.push(Step::Send {
                to: root,
                from: own,
            });
        }
        self.run(Schedule::of(name, steps))?;
        Ok(all)
    }

    /// What the root has come to, at all members.
    fn spread_outcome(
        &self,
        name: &'static str,
        root: u32,
        outcome: Option<std::result::Result<Vec<u8>, String>>,
    ) -> Result<Vec<u8>> {
        let (ok, mut bytes) = match outcome {
            Some(Ok(bytes)) => (true, bytes),
            Some(Err(text)) => (false, text.into_bytes()),
            None => (false, Vec::new()),
        };
        let mut head = Greeting {
            context: u32::from(ok),
            size: bytes.len() as u32,
        }
        .to_bytes();
        self.spread(name, &mut head, root)?;
        let Greeting { context: ok, size } = Greeting::from_bytes(head);
        bytes.resize(size as usize, 0);
        if size > 0 {
            self.spread(name, &mut bytes, root)?;
        }
        match ok {
            0 => Err(Error::new(
                ErrorClass::Port,
                String::from_utf8_lossy(&bytes),
            )),
            _ => Ok(bytes),
        }
    }
}
