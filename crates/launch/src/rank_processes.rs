//! Rank processes of this host: started, listened to, restarted, signalled and ended here.
//!
//! ```text
//!   supervisor, of a job on this host ─┐                    ┌── rank 0 ── whatever it starts
//!                                      ├── RankProcesses ───┼── rank 1
//!   agent, for the head of the job ────┘         │          └── …
//!                                                └─ segment: the memory that the ranks share
//! ```
//!
//! What happens to the ranks comes out as [`Event`]s, in an order that a judge can rely on: what a rank
//! said before it ended comes before its end, and so does what only the segment tells. Nothing is judged,
//! printed or sent here: that is for the owner. What ranks ask is answered here.
//!
//! | descriptor of a rank | who has it |
//! |---|---|
//! | control socket | here: messages in, answers out ([`control`](crate::control)) |
//! | lifeline | here, never written to: when this process ends, it closes, and the rank ends |
//! | socket of PMI, of programs that may need it | here: questions in, answers out ([`pmi`]) |
//! | standard output, standard error | the owner, to whom [`Started`] hands them |
//!
//! *Invariant:* the id of a process is used only until it was reaped, so that it never means another one.

mod other_ranks;
mod pmi;
mod spawn;

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use weft_fabric_shm::{JobSize, ProcessState};
use weft_mpi::waits::RankWaits;
use weft_secure::Key;
use weft_sys::process::{self, ProcessHandle, SIGCONT, SIGSTOP};
use weft_sys::{descriptor, passing};

use crate::adoption::{AdoptedJob, AdoptedProcess};
use crate::binding::{BindingRequest, FREE, RankCores};
use crate::control::{ANSWER, Answer, LONGEST, Message, Told};
use crate::exchange::{Exchange, PublishedValue};
use crate::hosts::message::{Address, decode};
use crate::job_request::{JobAnswer, JobRequest, LONGEST_REQUEST};
use crate::plan::Program;
use crate::profile::{Clock, Moment, ProfileMemory, RankRecord};
use crate::segment::{self, Segment};
use crate::worlds::Worlds;
use crate::{signals, tree};

use other_ranks::OtherRanksOfHost;
pub use spawn::{LaterSlot, RankNumbers};
use spawn::{Spawned, Spawner};

/// Messages of one rank that are read before others get their turn.
const AT_ONCE: usize = 64;
/// Most bytes of what a rank tells of its waits.
const LONGEST_WAITS: usize = 256 << 10;
/// … of one that has ended: more than its socket holds.
const LAST: usize = 4096;

/// The ranks of a job that this host gets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostShare {
    /// How many ranks the job has.
    pub size: u32,
    /// Those of this host, ascending, and which program each runs.
    pub ranks: Vec<(u32, u32)>,
    /// Processes that may be there beside them, started later.
    pub room: u32,
    /// Processes that may be started in place of dead ones.
    pub spares: u32,
    /// Processes of the job, on whatever host, whose addresses are recorded.
    pub addresses: u32,
    /// On which cores its ranks run.
    pub binding: BindingRequest,
}

/// The other hosts of a job, for the ranks of this one to ask for.
pub struct OtherHosts {
    /// By which ranks prove to each other that they belong to the job.
    pub key: Key,
    /// The host of each rank, as [`HostMap`](crate::bootstrap::HostMap) writes it.
    pub map: String,
}

/// What has happened to a rank.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// It has told this about itself, or the segment has.
    Told { rank: u32, told: Told },
    /// The ranks of this host have all come to a fence of a job on several hosts. These values were put
    /// since the last one. They wait for [`RankProcesses::open_fence`].
    Fence { values: Vec<PublishedValue> },
    /// They have ended, and this was noticed at the same time.
    Exited { ended: Vec<(u32, ExitStatus)> },
    /// What the threads of a rank wait for: it answers an [inquiry](RankProcesses::inquire).
    Waits { rank: u32, waits: RankWaits },
    /// A rank asks something of the job. It waits for [`RankProcesses::answer`].
    Asked { rank: u32, request: JobRequest },
}

/// A rank whose process runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunningRank {
    /// Its number in the job.
    pub rank: u32,
    /// Its process.
    pub process: u32,
    /// It has said that it has initialised MPI.
    pub is_initialised: bool,
    /// … and that it has finalised it.
    pub is_finalised: bool,
}

/// State of the room, for processes that are started later.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RoomState {
    /// Those that can be taken now, by their local rank.
    pub free: Vec<u32>,
    /// Those whose process has ended, or is about to.
    pub soon: usize,
    /// Who has not called MPI since such an end.
    pub behind: Option<u32>,
}

/// A rank that was started.
#[derive(Debug)]
pub struct Started {
    /// Which.
    pub rank: u32,
    /// Its process.
    pub process: u32,
    /// Its standard output and standard error, to be read without waiting; `None` if it has ours.
    pub outputs: Option<[File; 2]>,
    /// On which cores it runs, for people, if that is to be reported.
    pub cores: Option<String>,
}

/// A rank that could not be started.
#[derive(Debug)]
pub struct NotStarted {
    /// Which.
    pub rank: u32,
    /// Why, with a remedy where there is one.
    pub reason: io::Error,
}

/// Who has started the process of a rank.
#[derive(Debug)]
enum Origin {
    /// We have.
    Started,
    /// Another launcher, and it has not come to us: its process is not known.
    Elsewhere,
    /// Another launcher or nobody, and it has come to us.
    Adopted(ProcessHandle),
}

/// A rank, and the process that runs it now.
struct Rank {
    numbers: RankNumbers,
    /// 0 if it is not known.
    process: u32,
    /// `None` once it is closed.
    control: Option<File>,
    /// Kept open as long as the rank may live.
    _lifeline: Option<OwnedFd>,
    origin: Origin,
    /// What was told of it already.
    initialised: bool,
    finalised: bool,
    /// It has nothing to do with processes of other worlds, and was told so.
    independent: bool,
    ended: Option<ExitStatus>,
    /// The number of the change by which the others were told of its end.
    end_told: Option<u32>,
    /// What it has left is cleared: its place is free whatever happens.
    cleared: bool,
    /// Over which it speaks PMI, if its program may have to.
    pmi: Option<pmi::Connection>,
    /// A request of which the last piece has not come.
    request: Vec<u8>,
    /// … and what it waits for.
    waits: Vec<u8>,
}

impl Rank {
    fn new(numbers: RankNumbers, process: u32, control: OwnedFd, lifeline: OwnedFd) -> Self {
        Self {
            numbers,
            process,
            control: Some(File::from(control)),
            _lifeline: Some(lifeline),
            origin: Origin::Started,
            initialised: false,
            finalised: false,
            independent: false,
            ended: None,
            end_told: None,
            cleared: false,
            pmi: None,
            request: Vec::new(),
            waits: Vec::new(),
        }
    }

    /// … which may speak PMI over this socket.
    fn with_pmi(mut self, socket: Option<OwnedFd>) -> Self {
        self.pmi = socket.map(pmi::Connection::new);
        self
    }

    /// One that another launcher has started.
    fn elsewhere(numbers: RankNumbers) -> Self {
        Self {
            numbers,
            process: 0,
            control: None,
            _lifeline: None,
            origin: Origin::Elsewhere,
            initialised: false,
            finalised: false,
            independent: false,
            ended: None,
            end_told: None,
            cleared: false,
            request: Vec::new(),
            waits: Vec::new(),
            pmi: None,
        }
    }

    /// It has come to us.
    fn adopt(&mut self, process: AdoptedProcess) -> io::Result<()> {
        descriptor::set_nonblocking(&process.control, true)?;
        self.process = process.process.id();
        self.control = Some(File::from(process.control));
        self._lifeline = Some(process.lifeline);
        self.origin = Origin::Adopted(process.process);
        self.answer(&Answer::Taken);
        Ok(())
    }

    /// Its number in the job.
    fn number(&self) -> u32 {
        self.numbers.number()
    }

    /// Answers it. A rank that is gone, or asks without listening, gets nothing.
    fn answer(&self, answer: &Answer) {
        if let Some(control) = &self.control {
            let mut bytes = answer.encode();
            if bytes.len() > ANSWER {
                // Whoever asked waits for some answer.
                let reason = format!(
                    "the launcher's answer has {} bytes, and at most {ANSWER} are possible; ask for less",
                    bytes.len()
                );
                bytes = Answer::Refused { reason }.encode();
            }
            let _ = passing::send(control, &bytes, &[]);
        }
    }

    /// A piece of what it waits for; what is too long is forgotten.
    fn take_waits(&mut self, last: bool, piece: &[u8]) -> Option<Event> {
        if self.waits.len() + piece.len() <= LONGEST_WAITS {
            self.waits.extend_from_slice(piece);
        }
        if !last {
            return None;
        }
        let waits = decode(&std::mem::take(&mut self.waits))?;
        let rank = self.number();
        Some(Event::Waits { rank, waits })
    }

    /// Reads what it has to say: some of it, if it goes on without end; all if it has ended.
    fn read(&mut self) -> Vec<Message> {
        let most = match self.ended {
            None => AT_ONCE,
            Some(_) => LAST,
        };
        let mut messages = Vec::new();
        let mut bytes = [0; LONGEST];
        for _ in 0..most {
            let Some(control) = &mut self.control else {
                break;
            };
            match control.read(&mut bytes) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Ok(0) | Err(_) => {
                    self.control = None;
                    break;
                }
                Ok(count) => messages.extend(Message::decode(&bytes[..count])),
            }
        }
        messages
    }
}

/// The rank processes of one host.
pub struct RankProcesses {
    share: HostShare,
    segment: Segment,
    /// `None` if the job has no others.
    others: Option<OtherHosts>,
    /// The ranks write where we do.
    direct: bool,
    /// On which cores each rank runs, and what to tell of that.
    cores: Vec<RankCores>,
    cores_note: Option<String>,
    /// Those that were started, by local rank.
    ranks: Vec<Rank>,
    /// Where ranks come that another launcher has started.
    other_ranks: Option<OtherRanksOfHost>,
    /// The memory of their profiles, also of those that have ended.
    profiles: Vec<(u32, ProfileMemory)>,
    /// When this was prepared.
    prepared: Moment,
    exchange: Exchange,
    /// What ranks have put that speak PMI.
    pmi: pmi::Store,
    /// The ranks wait at a fence for those of other hosts.
    at_fence: bool,
    /// An abort was told: no other counts.
    abort_told: bool,
}

impl RankProcesses {
    /// Prepares what the ranks of this host need; none is started yet. If `direct`, they write to our own
    /// standard output and standard error.
    ///
    /// # Errors
    /// If there are too many ranks, or the kernel refuses the memory.
    pub fn prepare(share: HostShare, others: Option<OtherHosts>, direct: bool) -> io::Result<Self> {
        let local = share.ranks.len() as u32;
        make_room(local + share.spares);
        let (cores, cores_note) = (share.binding)
            .of_this_host(share.ranks.len())
            .map_err(io::Error::other)?;
        let size = JobSize {
            ranks: local,
            room: share.room,
            spares: share.spares,
            addresses: share.addresses,
            channels: 1,
        };
        // Ranks that are all here talk through this memory alone, and may do so in several channels.
        let size = if others.is_none() {
            size.with_channels_on(segment::cores())
        } else {
            size
        };
        Ok(Self {
            segment: segment::create(size)?,
            exchange: Exchange::new(local),
            pmi: pmi::Store::new(others.as_ref())?,
            share,
            others,
            direct,
            cores,
            cores_note,
            ranks: Vec::new(),
            other_ranks: None,
            profiles: Vec::new(),
            prepared: Moment::now(),
            at_fence: false,
            abort_told: false,
        })
    }

    /// Takes over a job whose ranks were there before; and its ports and names. Ranks of another launcher come one by one.
    ///
    /// # Errors
    /// If its memory is none of this release or size, or the kernel refuses.
    pub fn adopt(share: HostShare, adopted: AdoptedJob) -> io::Result<(Self, Worlds)> {
        let local = share.ranks.len() as u32;
        let segment = segment::adopt(adopted.memory)?;
        if segment.watch.ranks() < local {
            return Err(io::Error::other(format!(
                "the memory of the job is for {} processes, and there are {local}",
                segment.watch.ranks()
            )));
        }
        let mut processes = Self {
            segment,
            exchange: Exchange::new(local),
            pmi: pmi::Store::new(None)?,
            share,
            others: None,
            direct: true,
            cores: Vec::new(),
            cores_note: None,
            ranks: Vec::new(),
            other_ranks: adopted.others.map(OtherRanksOfHost::new).transpose()?,
            profiles: Vec::new(),
            prepared: Moment::now(),
            at_fence: false,
            abort_told: false,
        };
        let all = (0..local as usize).map(|local| Rank::elsewhere(processes.numbers(local)));
        processes.ranks = all.collect();
        let first = adopted.first.rank as usize;
        processes.ranks[first].adopt(adopted.first)?;
        Ok((processes, adopted.worlds))
    }

    /// The processes that were there before and run, by their local ranks.
    pub fn adopted(&self) -> impl Iterator<Item = (usize, &ProcessHandle)> {
        let running = self.ranks.iter().enumerate();
        let running = running.filter(|(_, rank)| rank.ended.is_none());
        running.filter_map(|(local, rank)| match &rank.origin {
            Origin::Adopted(handle) => Some((local, handle)),
            Origin::Started | Origin::Elsewhere => None,
        })
    }

    /// A process that was there before has ended; how, only its parent is told.
    pub fn note_adopted_end(&mut self, local: usize) -> Vec<Event> {
        let ended = self.adopted().any(|(adopted, _)| adopted == local);
        match ended {
            true => self.record_ranks(vec![(local, ExitStatus::from_raw(0))]),
            false => Vec::new(),
        }
    }

    /// Where ranks of another launcher are heard of.
    pub fn other_ranks(&self) -> impl Iterator<Item = &OwnedFd> {
        self.other_ranks.iter().flat_map(OtherRanksOfHost::sockets)
    }

    /// Takes in ranks of another launcher that have come, or notes that all of them have ended.
    pub fn hear_other_ranks(&mut self) -> Vec<Event> {
        let Some(others) = &mut self.other_ranks else {
            return Vec::new();
        };
        for process in others.take() {
            let rank = self.ranks.get_mut(process.rank as usize);
            // Each comes once.
            if let Some(rank) = rank.filter(|rank| matches!(rank.origin, Origin::Elsewhere)) {
                // One whose socket the kernel refuses is as if it had not come.
                let _ = rank.adopt(process);
            }
        }
        if !others.have_ended() {
            return Vec::new();
        }
        self.other_ranks = None;
        let left = self.ranks.iter().enumerate();
        let left = left
            .filter(|(_, rank)| rank.ended.is_none() && matches!(rank.origin, Origin::Elsewhere));
        // How, their own launcher knows.
        let left = left.map(|(local, _)| (local, ExitStatus::from_raw(0)));
        self.record_ranks(left.collect())
    }

    /// What the user is to know of the cores of these ranks.
    pub fn cores_note(&self) -> Option<&str> {
        self.cores_note.as_deref()
    }

    /// On which cores a rank runs, if that is to be reported.
    fn described(&self, local_rank: usize) -> Option<String> {
        let cores = self.cores.get(local_rank).unwrap_or(&FREE);
        self.share.binding.report.then(|| cores.describe())
    }

    fn numbers(&self, local_rank: usize) -> RankNumbers {
        let (rank, appnum) = self.share.ranks[local_rank];
        RankNumbers {
            rank,
            size: self.share.size,
            local_rank: local_rank as u32,
            local_size: self.share.ranks.len() as u32,
            appnum,
            place: None,
        }
    }

    /// The local rank of a rank that was started here.
    fn local(&self, rank: u32) -> Option<usize> {
        self.ranks.iter().position(|found| found.number() == rank)
    }

    /// Starts all ranks in their order, up to the first that cannot be. `what` says which program a rank
    /// runs, and what it reads.
    pub fn start<'p>(
        &mut self,
        mut what: impl FnMut(RankNumbers) -> io::Result<(&'p Program, Stdio)>,
    ) -> (Vec<Started>, Result<(), NotStarted>) {
        let mut started = Vec::new();
        let result = self.start_into(&mut started, &mut what);
        (started, result)
    }

    fn start_into<'p>(
        &mut self,
        started: &mut Vec<Started>,
        what: &mut dyn FnMut(RankNumbers) -> io::Result<(&'p Program, Stdio)>,
    ) -> Result<(), NotStarted> {
        if !self.ranks.is_empty() {
            // They are there already.
            started.extend(self.ranks.iter().map(|rank| Started {
                rank: rank.number(),
                process: rank.process,
                outputs: None,
                cores: None,
            }));
            return Ok(());
        }
        let all: Vec<_> = (0..self.share.ranks.len())
            .map(|local_rank| self.numbers(local_rank))
            .collect();
        let not_started = |rank| move |reason| NotStarted { rank, reason };
        let first = all.first().map_or(0, |numbers| numbers.rank);
        let mut spawner =
            Spawner::new(&self.segment.descriptor, self.direct).map_err(not_started(first))?;
        for (local, numbers) in all.into_iter().enumerate() {
            let cores = self.cores.get(local).unwrap_or(&FREE);
            let spawned = what(numbers)
                .and_then(|(program, input)| spawner.start(numbers, program, input, cores))
                .map_err(not_started(numbers.rank))?;
            let Spawned {
                process,
                control,
                lifeline,
                outputs,
                profile,
                pmi,
            } = spawned;
            self.profiles
                .extend(profile.map(|memory| (numbers.rank, memory)));
            let rank = Rank::new(numbers, process, control, lifeline);
            self.ranks.push(rank.with_pmi(pmi));
            started.push(Started {
                rank: numbers.rank,
                process,
                outputs,
                cores: self.described(local),
            });
        }
        Ok(())
    }

    /// Starts another process for a rank that has ended; it reads nothing.
    ///
    /// # Errors
    /// A sentence, if no spare is left or it cannot be started.
    pub fn restart(&mut self, rank: u32, program: &Program) -> Result<Started, String> {
        let local = self.local(rank).ok_or("it is on another host")?;
        if !self.segment.watch.assign_spare(local as u32) {
            return Err(format!(
                "{} processes of this job were started anew before",
                self.share.spares
            ));
        }
        let numbers = self.numbers(local);
        let Spawned {
            process,
            control,
            lifeline,
            outputs,
            profile,
            pmi,
        } = Spawner::new(&self.segment.descriptor, self.direct)
            .and_then(|mut spawner| {
                let cores = self.cores.get(local).unwrap_or(&FREE);
                spawner.start(numbers, program, Stdio::null(), cores)
            })
            .map_err(|error| error.to_string())?;
        self.profiles.extend(profile.map(|memory| (rank, memory)));
        self.ranks[local] = Rank::new(numbers, process, control, lifeline).with_pmi(pmi);
        Ok(Started {
            rank,
            process,
            outputs,
            cores: self.described(local),
        })
    }

    /// The places of the room.
    pub fn places(&self) -> RoomState {
        let first = self.share.ranks.len();
        let most = first + self.share.room as usize;
        let mut places = RoomState::default();
        let running = |rank: u32| {
            let rank = self.ranks.get(rank as usize);
            rank.is_some_and(|rank| rank.ended.is_none())
        };
        let watch = &self.segment.watch;
        for (local, rank) in self.ranks.iter().enumerate().skip(first) {
            match (rank.ended, rank.end_told) {
                _ if rank.cleared => places.free.push(local as u32),
                (Some(_), Some(change)) => {
                    match watch.may_be_reused(local as u32, change, running) {
                        Ok(()) => places.free.push(local as u32),
                        Err(behind) => {
                            places.soon += 1;
                            places.behind = Some(self.ranks[behind as usize].number());
                        }
                    }
                }
                (Some(_), None) => places.soon += 1,
                (None, _) if rank.finalised || rank.independent => places.soon += 1,
                (None, _) => {}
            }
        }
        if self.ranks.len() >= first {
            places.free.extend(self.ranks.len() as u32..most as u32);
        }
        places
    }

    /// Starts another process in a place of the room, which is free. It reads nothing. Those that are started at the
    /// same time are to be started in the order of their places.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start_later(
        &mut self,
        numbers: RankNumbers,
        place: u32,
        program: &Program,
    ) -> io::Result<Started> {
        let Spawned {
            process,
            control,
            lifeline,
            outputs,
            profile,
            pmi,
        } = Spawner::new(&self.segment.descriptor, false)
            .and_then(|mut spawner| spawner.start(numbers, program, Stdio::null(), &FREE))?;
        self.profiles
            .extend(profile.map(|memory| (numbers.number(), memory)));
        let rank = Rank::new(numbers, process, control, lifeline).with_pmi(pmi);
        match self.ranks.get_mut(place as usize) {
            Some(old) => *old = rank,
            None => self.ranks.push(rank),
        }
        Ok(Started {
            rank: numbers.number(),
            process,
            outputs,
            cores: None,
        })
    }

    /// Makes places of the room ready for [`start_later`](Self::start_later): what processes have left there is
    /// cleared. They are free from then on, also if others come who have not heard of the end of those.
    pub fn clear_places(&mut self, places: &[u32]) {
        for &place in places {
            if let Some(rank) = self.ranks.get_mut(place as usize)
                && !rank.cleared
            {
                rank.cleared = true;
                self.segment.watch.reuse(place);
            }
        }
    }

    /// Records where processes are that were started from within a program, on whatever host.
    pub fn record_addresses(&self, addresses: &[Address]) {
        let watch = &self.segment.watch;
        for one in addresses {
            // What does not fit was refused before.
            let _ = watch.record_address(one.number, one.incarnation, one.address.as_bytes());
        }
        watch.announce_addresses();
    }

    /// Whether any of these ranks runs.
    pub fn is_any_running(&self, ranks: &[u32]) -> bool {
        let mut running = self.ranks.iter().filter(|rank| rank.ended.is_none());
        running.any(|rank| ranks.contains(&rank.number()))
    }

    /// Ends some of the ranks, and what they have started.
    pub fn end_ranks(&self, ranks: &[u32]) {
        let running = self.ranks.iter().filter(|rank| rank.ended.is_none());
        let chosen = running.filter(|rank| ranks.contains(&rank.number()));
        let processes: Vec<u32> = chosen.map(|rank| rank.process).collect();
        if !processes.is_empty() {
            tree::signal_below(process::SIGKILL, &processes);
        }
    }

    /// What the ranks have written about where their time goes. To be called once they have ended.
    pub fn take_profiles(&mut self) -> Vec<RankRecord> {
        let profiles = std::mem::take(&mut self.profiles);
        let clock = Clock::since(self.prepared);
        let records = profiles.into_iter();
        records
            .filter_map(|(rank, memory)| memory.read(rank, &clock))
            .collect()
    }

    /// Answers a rank that has asked something of the job.
    pub fn answer(&self, rank: u32, answer: JobAnswer) {
        if let Some(local) = self.local(rank) {
            self.ranks[local].answer(&Answer::Job(answer));
        }
    }

    /// Tells the other ranks that one has ended; `in_order` if that is no loss to them.
    pub fn announce_end(&mut self, rank: u32, in_order: bool) {
        if let Some(local) = self.local(rank)
            && let Some(status) = self.ranks[local].ended
        {
            let watch = &self.segment.watch;
            let change = watch.tell_of_end(local as u32, status.into_raw(), in_order);
            self.ranks[local].end_told = Some(change);
        }
    }

    /// Whether all that were started have ended.
    pub fn have_ended(&self) -> bool {
        self.ranks.iter().all(|rank| rank.ended.is_some())
    }

    /// Their processes, of those that have not ended; but not one that is no child of ours: its lifeline ends that.
    fn processes(&self) -> Vec<u32> {
        let running = self.ranks.iter().filter(|rank| rank.ended.is_none());
        let ours = running.filter(|rank| matches!(rank.origin, Origin::Started));
        ours.map(|rank| rank.process).collect()
    }

    /// Sends a signal: one that stops, continues or ends programs to all processes below us, another one
    /// to the ranks alone.
    pub fn signal(&self, number: i32) {
        if signals::ends_programs(number) || [SIGSTOP, SIGCONT].contains(&number) {
            return tree::signal(number, &self.processes());
        }
        for process in self.processes() {
            let _ = process::signal(process, number);
        }
    }

    /// Asks all ranks that sleep what they wait for, or will ask them when they are about to. Each answers by an
    /// [`Event::Waits`] with the number that this answers, but those that do not come to sleep. `full`: also where in the
    /// program, which costs milliseconds.
    pub fn inquire(&self, full: bool) -> u32 {
        self.segment.watch.inquire(full)
    }

    /// The ranks that were started and have not ended, with their processes, and whether they have finalised MPI.
    pub fn running(&self) -> impl Iterator<Item = RunningRank> {
        let running = self.ranks.iter().filter(|rank| rank.ended.is_none());
        let running = running.filter(|rank| !matches!(rank.origin, Origin::Elsewhere));
        running.map(|rank| RunningRank {
            rank: rank.number(),
            process: rank.process,
            is_initialised: rank.initialised,
            is_finalised: rank.finalised,
        })
    }

    /// The ranks, with their processes, that might load a library of MPI which is not ours, and have not begun with any.
    pub fn silent(&self) -> impl Iterator<Item = (u32, u32)> {
        let running = self.ranks.iter().filter(|rank| rank.ended.is_none());
        let silent = running.filter(|rank| rank.pmi.is_some() && !rank.initialised);
        silent.map(|rank| (rank.number(), rank.process))
    }

    /// As [`Watch::rest`](weft_fabric_shm::Watch::rest).
    pub fn rest(&self) -> Option<u64> {
        self.segment.watch.rest()
    }

    /// The sockets over which something may come, with the number for [`listen`](Self::listen).
    pub fn controls(&self) -> impl Iterator<Item = (usize, &File)> {
        let all = self.ranks.iter().enumerate();
        all.flat_map(|(local, rank)| {
            let pmi = rank.pmi.as_ref().and_then(pmi::Connection::stream);
            let sockets = rank.control.iter().chain(pmi);
            sockets.map(move |socket| (local, socket))
        })
    }

    /// Reads what a rank has to say. Questions are answered; what it tells comes back.
    pub fn listen(&mut self, local: usize) -> Vec<Event> {
        let Some(rank) = self.ranks.get_mut(local) else {
            return Vec::new();
        };
        let messages = rank.read();
        let mut events = Vec::new();
        let mut questions = Vec::new();
        for message in messages {
            match message {
                Message::Told(told) => events.push(self.tell(local, told)),
                Message::Waits { last, piece } => {
                    events.extend(self.ranks[local].take_waits(last, &piece));
                }
                question => questions.push(question),
            }
        }
        for question in questions {
            let answer = self.take_question(local, question, &mut events);
            if let Some(answer) = answer {
                self.ranks[local].answer(&answer);
            }
        }
        events.extend(self.listen_to_pmi(local));
        events
    }

    /// … of all of them.
    pub fn listen_to_all(&mut self) -> Vec<Event> {
        (0..self.ranks.len())
            .flat_map(|local| self.listen(local))
            .collect()
    }

    fn tell(&mut self, local: usize, told: Told) -> Event {
        let rank = &mut self.ranks[local];
        match told {
            Told::Initialised => rank.initialised = true,
            Told::Finalised => rank.finalised = true,
            Told::Abort { .. } => self.abort_told = true,
            Told::Bereaved => {}
            Told::Connected => rank.independent = false,
            Told::Independent => rank.independent = true,
            Told::Counters(_) => {}
            Told::HandlesLosses => {}
        }
        let rank = rank.number();
        Event::Told { rank, told }
    }

    /// Does what a rank asks. `None` if it is not answered now.
    fn take_question(
        &mut self,
        local: usize,
        question: Message,
        events: &mut Vec<Event>,
    ) -> Option<Answer> {
        Some(match question {
            Message::Told(_) | Message::Waits { .. } => return None,
            Message::Put { name, value } => {
                let rank = self.ranks[local].number();
                match self.exchange.put(PublishedValue { rank, name, value }) {
                    true => Answer::Taken,
                    false => Answer::no_room(),
                }
            }
            Message::Get { rank, name } => Answer::Value(self.exchange.get(rank, &name).cloned()),
            Message::Ask { last, piece } => {
                let rank = &mut self.ranks[local];
                rank.request.extend_from_slice(&piece);
                let length = rank.request.len();
                if !last && length <= LONGEST_REQUEST {
                    return None;
                }
                let request = std::mem::take(&mut rank.request);
                let request = Some(request).filter(|request| request.len() <= LONGEST_REQUEST);
                match request.and_then(|request| decode(&request)) {
                    Some(request) => {
                        let rank = rank.number();
                        events.push(Event::Asked { rank, request });
                        return None;
                    }
                    None if !last => return None,
                    None => Answer::Refused {
                        reason: format!(
                            "a request of {length} bytes cannot be understood; at most {LONGEST_REQUEST} are \
                             possible (shorten the arguments), and mpiexec and the library must be of the same \
                             release of Weft"
                        ),
                    },
                }
            }
            Message::AskHosts { from } => match &self.others {
                Some(others) => Answer::hosts(&others.key, &others.map, from),
                None => Answer::Refused {
                    reason: "all ranks of this job are on one host: there is nothing to tell"
                        .into(),
                },
            },
            Message::Fence => {
                self.arrive(local, events);
                return None;
            }
        })
    }

    /// A rank has come to a fence.
    fn arrive(&mut self, local: usize, events: &mut Vec<Event>) {
        // Who waits at one already does not come to another.
        if !self.at_fence
            && let Some(values) = self.exchange.arrive(local as u32)
        {
            self.at_fence = true;
            match &self.others {
                Some(_) => events.push(Event::Fence { values }),
                None => self.let_through(),
            }
        }
    }

    fn let_through(&mut self) {
        self.at_fence = false;
        for local in 0..self.ranks.len() {
            if !self.let_through_pmi(local) {
                self.ranks[local].answer(&Answer::Taken);
            }
        }
    }

    /// Keeps values that ranks of other hosts have put before the fence.
    ///
    /// # Errors
    /// If no rank waits at a fence, or a value is of a rank that the job does not have.
    pub fn keep_values(&mut self, values: &[PublishedValue]) -> Result<(), NobodyWaits> {
        let size = self.share.size;
        if !self.at_fence || values.iter().any(|value| value.rank >= size) {
            return Err(NobodyWaits);
        }
        for value in values {
            self.exchange.keep(value);
            self.pmi.keep(value);
        }
        Ok(())
    }

    /// Lets the ranks go on from the fence: those of all hosts have come.
    ///
    /// # Errors
    /// If none waits at one.
    pub fn open_fence(&mut self) -> Result<(), NobodyWaits> {
        if !self.at_fence {
            return Err(NobodyWaits);
        }
        self.let_through();
        Ok(())
    }

    /// Reaps the children that have ended.
    pub fn reap(&mut self) -> Vec<Event> {
        let mut ended = Vec::new();
        while let Ok(Some((process, status))) = process::reap() {
            ended.push((process, status));
        }
        self.record(ended)
    }

    /// Ends the ranks and whatever they have started, at most for the limit. False if something is left:
    /// it runs as another user.
    pub fn end(&mut self, limit: Duration) -> (Vec<Event>, bool) {
        let mut ended = Vec::new();
        let clean = tree::end(&self.processes(), limit, |process, status| {
            ended.push((process, status));
        });
        (self.record(ended), clean)
    }

    /// Notes which ranks these processes were. What they said before comes first: an abort explains an
    /// exit.
    fn record(&mut self, ended: Vec<(u32, ExitStatus)>) -> Vec<Event> {
        let mut locals = Vec::new();
        for (process, status) in ended {
            let running = |rank: &Rank| rank.process == process && rank.ended.is_none();
            // Others are orphans that came to us.
            if let Some(local) = self.ranks.iter().position(running) {
                locals.push((local, status));
            }
        }
        self.record_ranks(locals)
    }

    fn record_ranks(&mut self, locals: Vec<(usize, ExitStatus)>) -> Vec<Event> {
        for (local, status) in &locals {
            self.ranks[*local].ended = Some(*status);
        }
        let mut events = Vec::new();
        if locals
            .iter()
            .any(|(local, _)| self.ranks[*local].numbers.place.is_some())
        {
            // What its end means depends on what the others of its world have said.
            events.extend(self.listen_to_all());
        }
        for (local, _) in &locals {
            events.extend(self.listen(*local));
        }
        self.look_into_segment(&locals, &mut events);
        if !locals.is_empty() {
            let rank = |(local, status): (usize, _)| (self.ranks[local].number(), status);
            events.push(Event::Exited {
                ended: locals.into_iter().map(rank).collect(),
            });
        }
        events
    }

    /// Tells what only the segment tells, of those that have just ended, and of the others if that
    /// matters: one has ended without MPI, on which they may count.
    fn look_into_segment(&mut self, ended: &[(usize, ExitStatus)], events: &mut Vec<Event>) {
        // Ranks can write there what they like, also that one has aborted that was never started.
        let started = self.ranks.len();
        let abort = self.segment.watch.first_abort();
        let abort = abort.filter(|abort| !self.abort_told && (abort.rank as usize) < started);
        if let Some(abort) = abort {
            let (code, text) = (abort.code, String::new());
            let told = Told::Abort { code, text };
            events.push(self.tell(abort.rank as usize, told));
        }
        for (local, _) in ended {
            self.tell_state(*local, events);
        }
        if ended.iter().any(|(local, _)| {
            let rank = &self.ranks[*local];
            !rank.initialised && !rank.finalised
        }) {
            for local in 0..self.ranks.len() {
                self.tell_state(local, events);
            }
        }
    }

    fn tell_state(&mut self, local: usize, events: &mut Vec<Event>) {
        let state = self.segment.watch.state(local as u32);
        let rank = &self.ranks[local];
        let (initialised, finalised) = (rank.initialised, rank.finalised);
        if state != ProcessState::Absent && !initialised {
            events.push(self.tell(local, Told::Initialised));
        }
        if state == ProcessState::Finalised && !finalised {
            events.push(self.tell(local, Told::Finalised));
        }
    }
}

/// Raises the limit of descriptors if it does not suffice for so many ranks, or agents that have them.
pub fn make_room(ranks: u32) {
    // Four each, five with PMI, and more while one is started. Ranks inherit the limit, and some programs mind a large
    // one: only if it must be.
    let wanted = 5 * u64::from(ranks) + 64;
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    if limit.current.is_some_and(|limit| limit < wanted) {
        // If it cannot be, the start of a rank will say so.
        let _ = descriptor::raise_limit();
    }
}

/// No rank waits for this.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NobodyWaits;

#[cfg(test)]
mod tests;
