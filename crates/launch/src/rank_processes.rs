//! Rank processes of this host: started, listened to, restarted, signalled and ended here.
//!
//! ```text
//!   supervisor, of a job on this host ─┐                    ┌── rank 0 ── whatever it starts
//!                                      ├── RankProcesses ───┼── rank 1
//!   agent, for the head of the job ────┘         │          └── …
//!                                                └─ segment: the memory that the ranks share
//! ```
//!
//! Events of the ranks are returned as [`Event`]s, in an order that a judge can rely on: a rank's messages before its end
//! come before its end, and so does what only the segment shows. Nothing is judged, printed or sent here: that is for the
//! owner. Questions of ranks are answered here.
//!
//! | descriptor of a rank | holder |
//! |---|---|
//! | control socket | here: messages in, answers out ([`control`](crate::control)) |
//! | lifeline | here, never written to: when this process ends, it closes, and the rank ends |
//! | socket of PMI, of programs that may need it | here: questions in, answers out ([`pmi`]) |
//! | standard output, standard error | the owner, which gets them from [`Started`] |
//!
//! *Invariant:* the id of a process is used only until it is reaped, so that it never means another process.
//!
//! | file | what |
//! |---|---|
//! | `share` | which ranks this host gets |
//! | `starter`, `spawn` | what ranks are started with, and how a process is started |
//! | `rank` | one rank: its process, its descriptors, and what was reported of it |
//! | `other_ranks` | ranks of another launcher that connect to this one |
//! | `fences`, `pmi` | values that ranks exchange, over their control sockets or by PMI |
//! | [`foreign_libraries`] | MPI libraries loaded by ranks that do not learn of the job |
//! | this file | the consequences of ranks' messages and ends |

mod fences;
pub mod foreign_libraries;
mod other_ranks;
mod pmi;
mod rank;
mod share;
mod spawn;
mod starter;

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use weft_fabric_shm::{JobSize, ProcessState};
use weft_mpi::waits::RankWaits;
use weft_sys::process::{self, ProcessHandle, SIGCONT, SIGSTOP};

use crate::adoption::{AdoptedHost, AdoptedJob, AdoptedProcess, OtherRanks};
use crate::control::{Answer, Message, Notice};
use crate::exchange::PublishedValue;
use crate::hosts::message::Address;
use crate::job_request::{JobAnswer, JobRequest};
use crate::plan::Program;
use crate::profile::RankRecord;
use crate::segment::{self, Segment};
use crate::worlds::Worlds;
use crate::{signals, tree};

pub use fences::NobodyWaits;
use fences::{Arrival, Fences};
use other_ranks::OtherRanksOfHost;
pub use rank::RunningRank;
use rank::{Rank, Vacancy};
pub use share::{HostShare, OtherHosts};
use spawn::Spawner;
pub use spawn::{LaterSlot, RankNumbers};
use starter::Starter;
pub use starter::{NotStarted, Started, make_room};

/// What has happened to a rank.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// It has told this about itself, or the segment has.
    Notice { rank: u32, told: Notice },
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

/// State of the room, for processes that are started later.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RoomState {
    /// Those that can be taken now, by their local rank.
    pub free: Vec<u32>,
    /// Those whose process has ended, or is about to.
    pub soon: usize,
    /// Ranks that have not called MPI since such an end.
    pub behind: Option<u32>,
}

/// The rank processes of one host.
pub struct RankProcesses {
    share: HostShare,
    segment: Segment,
    starter: Starter,
    /// Those that were started, by local rank.
    ranks: Vec<Rank>,
    /// Where ranks come that another launcher has started.
    other_ranks: Option<OtherRanksOfHost>,
    fences: Fences,
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
        let local = share.local_size();
        make_room(local + share.spares);
        let starter = Starter::new(&share, direct)?;
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
            starter,
            fences: Fences::new(&share, others)?,
            share,
            ranks: Vec::new(),
            other_ranks: None,
            abort_told: false,
        })
    }

    /// Takes over a job whose ranks were there before; and its ports and names. Ranks of another launcher come one by one.
    ///
    /// # Errors
    /// If its memory is none of this release or size, or the kernel refuses.
    pub fn adopt(share: HostShare, adopted: AdoptedJob) -> io::Result<(Self, Worlds)> {
        let AdoptedJob {
            first,
            memory,
            worlds,
            others,
        } = adopted;
        let processes = Self::take_over(share, None, memory, (first, others))?;
        Ok((processes, worlds))
    }

    /// Takes over the ranks of this host in a job on several, likewise.
    ///
    /// # Errors
    /// As [`adopt`](Self::adopt), and if they are other ranks than this host is to have.
    pub fn adopt_host(share: HostShare, others: OtherHosts, host: AdoptedHost) -> io::Result<Self> {
        let ranks = share.ranks.iter().map(|(rank, _)| rank);
        if !ranks.eq(&host.ranks) {
            return Err(io::Error::other(
                "the head gives other ranks to this host than it has",
            ));
        }
        let came = (host.first, Some(host.others));
        let mut processes = Self::take_over(share, Some(others), host.memory, came)?;
        processes.fences.know(&host.values);
        Ok(processes)
    }

    /// Takes over ranks that were there before: of one its process, and where the others come.
    fn take_over(
        share: HostShare,
        hosts: Option<OtherHosts>,
        memory: OwnedFd,
        (first, others): (AdoptedProcess, Option<OtherRanks>),
    ) -> io::Result<Self> {
        let local = share.local_size();
        let segment = segment::adopt(memory)?;
        let members = segment.watch.ranks();
        if members < local || hosts.is_some() && members != local + share.room {
            return Err(io::Error::other(format!(
                "the memory of the job is for {members} processes here, and there are {local}, with room for {}",
                share.room
            )));
        }
        let all = (0..local as usize).map(|local| Rank::of_other_launcher(share.numbers(local)));
        let mut processes = Self {
            segment,
            starter: Starter::of_adopted(&share),
            ranks: all.collect(),
            fences: Fences::new(&share, hosts)?,
            share,
            other_ranks: others.map(OtherRanksOfHost::new).transpose()?,
            abort_told: false,
        };
        let strange = || io::Error::other("the process is no rank of this host");
        let local = processes.local(first.rank).ok_or_else(strange)?;
        processes.ranks[local].adopt(first)?;
        Ok(processes)
    }

    /// The processes that were there before and run, by their local ranks.
    pub fn adopted(&self) -> impl Iterator<Item = (usize, &ProcessHandle)> {
        let all = self.ranks.iter().enumerate();
        all.filter_map(|(local, rank)| Some((local, rank.adopted()?)))
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
            let mut ranks = self.ranks.iter_mut();
            let rank = ranks.find(|rank| rank.number() == process.rank);
            // Each comes once.
            if let Some(rank) = rank.filter(|rank| rank.is_unadopted()) {
                // One whose socket the kernel refuses is as if it had not come.
                let _ = rank.adopt(process);
            }
        }
        if !others.have_ended() {
            return Vec::new();
        }
        self.other_ranks = None;
        let left = self.ranks.iter().enumerate();
        let left = left.filter(|(_, rank)| rank.is_running() && rank.is_unadopted());
        // How, their own launcher knows.
        let left = left.map(|(local, _)| (local, ExitStatus::from_raw(0)));
        self.record_ranks(left.collect())
    }

    /// What the user is to know of the cores of these ranks.
    pub fn cores_note(&self) -> Option<&str> {
        self.starter.cores_note()
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
                process: rank.process(),
                outputs: None,
                cores: None,
            }));
            return Ok(());
        }
        let not_started = |rank| move |reason| NotStarted { rank, reason };
        let first = self.share.ranks.first().map_or(0, |(rank, _)| *rank);
        let mut spawner = (self.starter.spawner(&self.segment)).map_err(not_started(first))?;
        for local in 0..self.share.ranks.len() {
            let numbers = self.share.numbers(local);
            let (rank, start) = what(numbers)
                .and_then(|what| self.starter.start(&mut spawner, numbers, what))
                .map_err(not_started(numbers.rank))?;
            self.ranks.push(rank);
            started.push(start);
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
        let numbers = self.share.numbers(local);
        let what = (program, Stdio::null());
        let (rank, started) = (self.starter.spawner(&self.segment))
            .and_then(|mut spawner| self.starter.start(&mut spawner, numbers, what))
            .map_err(|error| {
                // Somebody may wait for it.
                self.segment.watch.tell_of_no_start(local as u32);
                error.to_string()
            })?;
        self.ranks[local] = rank;
        Ok(started)
    }

    /// The places of the room.
    pub fn places(&self) -> RoomState {
        let first = self.share.ranks.len();
        let most = first + self.share.room as usize;
        let mut places = RoomState::default();
        let running = |rank: u32| {
            let rank = self.ranks.get(rank as usize);
            rank.is_some_and(Rank::is_running)
        };
        let watch = &self.segment.watch;
        for (local, rank) in (0u32..).zip(&self.ranks).skip(first) {
            match rank.vacancy() {
                Vacancy::Free => places.free.push(local),
                Vacancy::OnceHeard(change) => match watch.may_be_reused(local, change, running) {
                    Ok(()) => places.free.push(local),
                    Err(behind) => {
                        places.soon += 1;
                        places.behind = Some(self.ranks[behind as usize].number());
                    }
                },
                Vacancy::Soon => places.soon += 1,
                Vacancy::None => {}
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
        // Outputs of such processes are always forwarded.
        let mut spawner = Spawner::new(&self.segment.descriptor, false)?;
        let what = (program, Stdio::null());
        let (rank, started) = self.starter.start(&mut spawner, numbers, what)?;
        match self.ranks.get_mut(place as usize) {
            Some(old) => *old = rank,
            None => self.ranks.push(rank),
        }
        Ok(started)
    }

    /// Makes places of the room ready for [`start_later`](Self::start_later): what processes have left there is
    /// cleared. They are free from then on, also if others come who have not heard of the end of those.
    pub fn clear_places(&mut self, places: &[u32]) {
        for &place in places {
            if let Some(rank) = self.ranks.get_mut(place as usize)
                && rank.clear()
            {
                self.segment.watch.reuse(place);
            }
        }
    }

    /// Records where processes are that were started from within a program, on whatever host.
    pub fn record_addresses(&self, addresses: &[Address]) {
        let watch = &self.segment.watch;
        for one in addresses {
            // A value that does not fit was refused before.
            let _ = watch.record_address(one.number, one.incarnation, one.address.as_bytes());
        }
        watch.announce_addresses();
    }

    /// Whether any of these ranks runs.
    pub fn is_any_running(&self, ranks: &[u32]) -> bool {
        let mut running = self.ranks.iter().filter(|rank| rank.is_running());
        running.any(|rank| ranks.contains(&rank.number()))
    }

    /// Ends some of the ranks, and what they have started.
    pub fn end_ranks(&self, ranks: &[u32]) {
        let running = self.ranks.iter().filter(|rank| rank.is_running());
        let chosen = running.filter(|rank| ranks.contains(&rank.number()));
        let processes: Vec<u32> = chosen.map(Rank::process).collect();
        if !processes.is_empty() {
            tree::signal_below(process::SIGKILL, &processes);
        }
    }

    /// What the ranks have written about where their time goes. To be called once they have ended.
    pub fn take_profiles(&mut self) -> Vec<RankRecord> {
        self.starter.take_profiles()
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
            && let Some(status) = self.ranks[local].ended()
        {
            let watch = &self.segment.watch;
            let change = watch.tell_of_end(local as u32, status.into_raw(), in_order);
            self.ranks[local].note_end_told(change);
        }
    }

    /// Tells the ranks that one of this world, on another host, will not meet them in `MPI_Finalize`.
    pub fn announce_absence(&self, world: u32) {
        self.segment.watch.tell_of_absence(world);
    }

    /// Whether all that were started have ended.
    pub fn have_ended(&self) -> bool {
        !self.ranks.iter().any(Rank::is_running)
    }

    /// Their processes, of those that have not ended; but not one that is no child of ours: its lifeline ends that.
    fn processes(&self) -> Vec<u32> {
        self.ranks.iter().filter_map(Rank::child).collect()
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
        self.ranks.iter().filter_map(Rank::running)
    }

    /// The ranks, with their processes, that might load a library of MPI which is not ours, and have not begun with any.
    pub fn silent(&self) -> impl Iterator<Item = (u32, u32)> {
        let silent = self.ranks.iter().filter(|rank| rank.is_silent());
        silent.map(|rank| (rank.number(), rank.process()))
    }

    /// As [`Watch::rest`](weft_fabric_shm::Watch::rest).
    pub fn rest(&self) -> Option<u64> {
        self.segment.watch.rest()
    }

    /// The sockets over which something may come, with the number for [`listen`](Self::listen).
    pub fn controls(&self) -> impl Iterator<Item = (usize, &File)> {
        let all = self.ranks.iter().enumerate();
        all.flat_map(|(local, rank)| rank.sockets().map(move |socket| (local, socket)))
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
                Message::Notice(told) => events.push(self.tell(local, told)),
                Message::Waits { last, piece } => {
                    let rank = &mut self.ranks[local];
                    let waits = rank.take_waits(last, &piece);
                    let rank = rank.number();
                    events.extend(waits.map(|waits| Event::Waits { rank, waits }));
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

    /// Reads what a rank says over PMI, which is answered, and tells what it means.
    fn listen_to_pmi(&mut self, local: usize) -> Vec<Event> {
        let mut events = Vec::new();
        let numbers = self.ranks[local].numbers();
        if let Some(connection) = self.ranks[local].pmi_mut() {
            connection.read();
        }
        for _ in 0..pmi::AT_ONCE {
            let connection = self.ranks[local].pmi_mut();
            let meaning =
                connection.and_then(|connection| self.fences.serve_pmi(connection, numbers));
            match meaning {
                None => break,
                Some(pmi::Meaning::Nothing) => {}
                Some(pmi::Meaning::Notice(told)) => events.push(self.tell(local, told)),
                Some(pmi::Meaning::Barrier) => self.arrive(local, &mut events),
            }
        }
        events
    }

    fn tell(&mut self, local: usize, told: Notice) -> Event {
        self.abort_told |= matches!(told, Notice::Abort { .. });
        let rank = &mut self.ranks[local];
        rank.note(&told);
        let rank = rank.number();
        Event::Notice { rank, told }
    }

    /// Does what a rank asks. `None` if it is not answered now.
    fn take_question(
        &mut self,
        local: usize,
        question: Message,
        events: &mut Vec<Event>,
    ) -> Option<Answer> {
        match question {
            Message::Notice(_) | Message::Waits { .. } => None,
            Message::Put { name, value } => {
                let rank = self.ranks[local].number();
                Some(self.fences.put(PublishedValue { rank, name, value }))
            }
            Message::Get { rank, name } => Some(self.fences.get(rank, &name)),
            Message::Ask { last, piece } => {
                let rank = &mut self.ranks[local];
                match rank.take_request(last, &piece)? {
                    Ok(request) => {
                        let rank = rank.number();
                        events.push(Event::Asked { rank, request });
                        None
                    }
                    Err(refused) => Some(refused),
                }
            }
            Message::AskHosts { from } => Some(self.fences.hosts(from)),
            Message::Fence => {
                self.arrive(local, events);
                None
            }
        }
    }

    /// A rank has come to a fence.
    fn arrive(&mut self, local: usize, events: &mut Vec<Event>) {
        match self.fences.arrive(local as u32) {
            Arrival::Early => {}
            Arrival::OfHost(values) => events.push(Event::Fence { values }),
            Arrival::OfJob => self.let_through(),
        }
    }

    fn let_through(&mut self) {
        for rank in &mut self.ranks {
            let by_pmi = rank.pmi_mut().is_some_and(pmi::Connection::leave_barrier);
            if !by_pmi {
                rank.answer(&Answer::Taken);
            }
        }
    }

    /// Keeps values that ranks of other hosts have put before the fence.
    ///
    /// # Errors
    /// If no rank waits at a fence, or a value is of a rank that the job does not have.
    pub fn keep_values(&mut self, values: &[PublishedValue]) -> Result<(), NobodyWaits> {
        self.fences.keep(values)
    }

    /// Lets the ranks go on from the fence: those of all hosts have come.
    ///
    /// # Errors
    /// If none waits at one.
    pub fn open_fence(&mut self) -> Result<(), NobodyWaits> {
        self.fences.open()?;
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
            let running = |rank: &Rank| rank.process() == process && rank.is_running();
            // Others are orphans that came to us.
            if let Some(local) = self.ranks.iter().position(running) {
                locals.push((local, status));
            }
        }
        self.record_ranks(locals)
    }

    fn record_ranks(&mut self, locals: Vec<(usize, ExitStatus)>) -> Vec<Event> {
        for (local, status) in &locals {
            self.ranks[*local].end(*status);
        }
        let mut events = Vec::new();
        if locals
            .iter()
            .any(|(local, _)| self.ranks[*local].was_started_later())
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
            let told = Notice::Abort { code, text };
            events.push(self.tell(abort.rank as usize, told));
        }
        for (local, _) in ended {
            self.tell_state(*local, events);
        }
        if ended.iter().any(|(local, _)| {
            let rank = &self.ranks[*local];
            !rank.is_initialised() && !rank.is_finalised()
        }) {
            for local in 0..self.ranks.len() {
                self.tell_state(local, events);
            }
        }
    }

    fn tell_state(&mut self, local: usize, events: &mut Vec<Event>) {
        let state = self.segment.watch.state(local as u32);
        let rank = &self.ranks[local];
        let (initialised, finalised) = (rank.is_initialised(), rank.is_finalised());
        if state != ProcessState::Absent && !initialised {
            events.push(self.tell(local, Notice::Initialised));
        }
        if state == ProcessState::Finalised && !finalised {
            events.push(self.tell(local, Notice::Finalised));
        }
    }
}

#[cfg(test)]
mod tests;
