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
//! | `rank`, `host_ranks` | one rank: its process, its descriptors, and what was reported of it; all of them by their local rank |
//! | `room` | process slots for processes that are started later |
//! | `listener` | messages of ranks: what they tell becomes an event, what they ask is answered |
//! | `notices` | what ranks tell of themselves, or the segment shows of them |
//! | `other_ranks` | ranks of another launcher that connect to this one |
//! | `fences`, `pmi` | values that ranks exchange, over their control sockets or by PMI |
//! | [`foreign_libraries`] | MPI libraries loaded by ranks that do not learn of the job |
//! | this file | how ranks are started, restarted, adopted, signalled and ended |

mod fences;
pub mod foreign_libraries;
mod host_ranks;
mod listener;
mod notices;
mod other_ranks;
mod pmi;
mod rank;
mod room;
mod share;
mod spawn;
mod starter;

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use weft_fabric_shm::JobSize;
use weft_mpi::waits::RankWaits;
use weft_sys::process::{self, ProcessHandle, SIGCONT, SIGSTOP};

use crate::adoption::{AdoptedHost, AdoptedJob, AdoptedProcess, OtherRanks};
use crate::control::{Answer, Notice};
use crate::exchange::PublishedValue;
use crate::hosts::message::{Address, RemoteEnd};
use crate::job_request::{JobAnswer, JobRequest};
use crate::plan::Program;
use crate::profile::RankRecord;
use crate::segment::{self, Segment};
use crate::worlds::Worlds;
use crate::{signals, tree};

pub use fences::NobodyWaits;
use fences::{Arrival, Fences};
use host_ranks::HostRanks;
use listener::Listener;
use notices::Notices;
use other_ranks::OtherRanksOfHost;
pub use rank::RunningRank;
pub use room::RoomState;
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

/// The rank processes of one host.
pub struct RankProcesses {
    share: HostShare,
    segment: Segment,
    starter: Starter,
    ranks: HostRanks,
    /// Where ranks come that another launcher has started.
    other_ranks: Option<OtherRanksOfHost>,
    fences: Fences,
    notices: Notices,
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
            notices: Notices::default(),
            share,
            ranks: HostRanks::default(),
            other_ranks: None,
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
        let processes = Self::take_over(share, (None, &[]), memory, (first, others))?;
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
        Self::take_over(share, (Some(others), &host.values), host.memory, came)
    }

    /// Takes over ranks that were there before: of one its process, and where the others come. Ranks of the job have put `values`.
    fn take_over(
        share: HostShare,
        (hosts, values): (Option<OtherHosts>, &[PublishedValue]),
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
        let mut fences = Fences::new(&share, hosts)?;
        fences.know(values);
        let mut processes = Self {
            segment,
            starter: Starter::of_adopted(&share),
            ranks: HostRanks::of_other_launcher(&share),
            fences,
            notices: Notices::default(),
            share,
            other_ranks: others.map(OtherRanksOfHost::new).transpose()?,
        };
        let strange = || io::Error::other("the process is no rank of this host");
        let local = processes.ranks.local(first.rank).ok_or_else(strange)?;
        processes.ranks[local].adopt(first)?;
        Ok(processes)
    }

    /// The processes that were there before and run, by their local ranks.
    pub fn adopted(&self) -> impl Iterator<Item = (usize, &ProcessHandle)> {
        self.ranks.adopted()
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
            self.ranks.adopt(process);
        }
        if !others.have_ended() {
            return Vec::new();
        }
        self.other_ranks = None;
        // How, their own launcher knows.
        let left = self.ranks.unadopted();
        let left = left.map(|local| (local, ExitStatus::from_raw(0)));
        self.record_ranks(left.collect())
    }

    /// What the user is to know of the cores of these ranks.
    pub fn cores_note(&self) -> Option<&str> {
        self.starter.cores_note()
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
            self.ranks.put(local, rank);
            started.push(start);
        }
        Ok(())
    }

    /// Starts another process for a rank that has ended; it reads nothing.
    ///
    /// # Errors
    /// A sentence, if no spare is left or it cannot be started.
    pub fn restart(&mut self, rank: u32, program: &Program) -> Result<Started, String> {
        let local = self.ranks.local(rank).ok_or("it is on another host")?;
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
        self.ranks.put(local, rank);
        Ok(started)
    }

    /// The places of the room.
    pub fn places(&self) -> RoomState {
        RoomState::of(&self.share, &self.ranks, &self.segment.watch)
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
        self.ranks.put(place as usize, rank);
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
        !self.ranks.processes_of(ranks).is_empty()
    }

    /// Ends some of the ranks, and what they have started.
    pub fn end_ranks(&self, ranks: &[u32]) {
        let processes = self.ranks.processes_of(ranks);
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
        if let Some(local) = self.ranks.local(rank) {
            self.ranks[local].answer(&Answer::Job(answer));
        }
    }

    /// Tells the other ranks that one has ended; `in_order` if that is no loss to them. They do not wait for it at a fence any more.
    #[must_use]
    pub fn announce_end(&mut self, rank: u32, in_order: bool) -> Vec<Event> {
        let local = self.ranks.local(rank);
        let ended = local.and_then(|local| Some((local, self.ranks[local].ended()?)));
        let Some((local, status)) = ended else {
            return Vec::new();
        };
        let watch = &self.segment.watch;
        let change = watch.tell_of_end(local as u32, status.into_raw(), in_order);
        self.ranks[local].note_end_told(change);
        if local >= self.share.ranks.len() {
            return Vec::new();
        }
        match self.fences.leave(local as u32) {
            Arrival::Early => Vec::new(),
            Arrival::OfHost(values) => vec![Event::Fence { values }],
            Arrival::OfJob => {
                self.ranks.let_through();
                Vec::new()
            }
        }
    }

    /// Tells the ranks that one on another host has ended.
    pub fn announce_remote_end(&self, rank: u32, end: RemoteEnd) {
        let watch = &self.segment.watch;
        if rank >= self.share.size && !watch.has_address(rank) {
            // It was started later, and has never said where it is.
            return;
        }
        let end = match end {
            RemoteEnd::Ended { status, in_order } => {
                weft_fabric_shm::RemoteEnd::Ended { status, in_order }
            }
            RemoteEnd::HostLost => weft_fabric_shm::RemoteEnd::HostLost,
        };
        watch.tell_of_remote_end(rank, end);
    }

    /// Tells the ranks that one of this world, on another host, will not meet them in `MPI_Finalize`.
    pub fn announce_absence(&self, world: u32) {
        self.segment.watch.tell_of_absence(world);
    }

    /// Whether all that were started have ended.
    pub fn have_ended(&self) -> bool {
        !self.ranks.is_any_running()
    }

    /// Sends a signal: one that stops, continues or ends programs to all processes below us, another one
    /// to the ranks alone.
    pub fn signal(&self, number: i32) {
        if signals::ends_programs(number) || [SIGSTOP, SIGCONT].contains(&number) {
            return tree::signal(number, &self.ranks.children());
        }
        for process in self.ranks.children() {
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
        self.ranks.running()
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
        Listener::new(&mut self.ranks, &mut self.fences, &mut self.notices).listen(local)
    }

    /// … of all of them.
    pub fn listen_to_all(&mut self) -> Vec<Event> {
        let all = 0..self.ranks.len();
        all.flat_map(|local| self.listen(local)).collect()
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
        self.ranks.let_through();
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
        let clean = tree::end(&self.ranks.children(), limit, |process, status| {
            ended.push((process, status));
        });
        (self.record(ended), clean)
    }

    /// Notes which ranks these processes were. What they said before comes first: an abort explains an
    /// exit.
    fn record(&mut self, ended: Vec<(u32, ExitStatus)>) -> Vec<Event> {
        // Others are orphans that came to us.
        let ranks = ended
            .into_iter()
            .filter_map(|(process, status)| Some((self.ranks.run_by(process)?, status)));
        self.record_ranks(ranks.collect())
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
        let ended: Vec<usize> = locals.iter().map(|(local, _)| *local).collect();
        let watch = &self.segment.watch;
        let shown = (self.notices).look_into_segment(&mut self.ranks, watch, &ended);
        events.extend(shown);
        if !locals.is_empty() {
            let rank = |(local, status): (usize, _)| (self.ranks[local].number(), status);
            events.push(Event::Exited {
                ended: locals.into_iter().map(rank).collect(),
            });
        }
        events
    }
}

#[cfg(test)]
mod tests;
