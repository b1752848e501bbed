//! Local host of a job: all ranks run below this process.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::time::{Duration, Instant};

use weft_sys::poll::{Interest, PollFd};
use weft_sys::process::SIGSTOP;

use super::deadlock::{self, DeadlockWatch, Standstill};
use super::outcome::Failure;
use super::output::OutputKind;
use super::rank_hosts::{Event, RankHosts, Token};
use super::spawning::Spawning;
use crate::adoption::AdoptedJob;
use crate::options::{Input, OnDeadlock};
use crate::plan::Plan;
use crate::profile::RankRecord;
use crate::rank_processes::foreign_libraries::ForeignLibraries;
use crate::rank_processes::{self, HostShare, RankProcesses};

/// How long everything has at most to disappear once it was killed.
pub const END: Duration = Duration::from_secs(5);

/// This host, with all ranks of a job.
pub struct LocalHost<'a> {
    plan: &'a Plan,
    processes: RankProcesses,
    spawning: Spawning,
    /// `None` if nobody is to find out.
    deadlock: Option<DeadlockWatch>,
    foreign: ForeignLibraries,
}

impl<'a> LocalHost<'a> {
    /// Prepares what the ranks need; none is started yet.
    ///
    /// # Errors
    /// If there are too many ranks, or the kernel refuses the memory.
    pub fn prepare(plan: &'a Plan) -> io::Result<Self> {
        let size = plan.ranks();
        // Output of a single rank need not be sorted.
        let direct = size == 1 && !plan.tags && plan.output.is_usual();
        let processes = RankProcesses::prepare(share(plan), None, direct)?;
        Ok(Self::of(plan, processes, Spawning::new(plan), size))
    }

    /// Takes over ranks that are there.
    ///
    /// # Errors
    /// If their memory is not as it should be, or the kernel refuses.
    pub fn adopt(plan: &'a Plan, job: AdoptedJob) -> io::Result<Self> {
        let (processes, worlds) = RankProcesses::adopt(share(plan), job)?;
        Ok(Self::of(plan, processes, Spawning::with(worlds), 1))
    }

    /// With these processes, of which so many may run over libraries of others.
    fn of(plan: &'a Plan, processes: RankProcesses, spawning: Spawning, foreign: u32) -> Self {
        let now = Instant::now();
        let watched = plan.on_deadlock != OnDeadlock::Ignore;
        Self {
            plan,
            processes,
            spawning,
            deadlock: watched.then(|| DeadlockWatch::new(now)),
            foreign: ForeignLibraries::new(foreign, now),
        }
    }
}

/// All ranks of a job on this host.
fn share(plan: &Plan) -> HostShare {
    HostShare {
        size: plan.ranks(),
        ranks: (0..plan.ranks()).zip(plan.appnums()).collect(),
        room: plan.room(),
        spares: plan.spares(),
        addresses: plan.universe,
        binding: plan.binding.clone(),
    }
}

impl LocalHost<'_> {
    /// What has happened, as the job sees it. It has no other hosts, so fences open by themselves.
    fn events(&mut self, found: Vec<rank_processes::Event>) -> Vec<Event> {
        let mut events = Vec::new();
        for event in found {
            match event {
                rank_processes::Event::Notice { rank, told } => {
                    events.push(Event::Notice { rank, told });
                }
                rank_processes::Event::Exited { ended } => {
                    let ranks = ended.iter().map(|(rank, _)| *rank);
                    let then = ranks.flat_map(|rank| self.spawning.end(rank, &self.processes));
                    let then: Vec<Event> = then.collect();
                    events.push(Event::Exited { ended });
                    events.extend(then);
                }
                rank_processes::Event::Fence { .. } => {}
                rank_processes::Event::Waits { rank, waits } => {
                    // Also for who looks at the job, and may have asked just before.
                    let watch = self.deadlock.as_mut();
                    if let Some(watch) = watch.filter(|watch| watch.has_asked(waits.inquiry)) {
                        watch.hear(rank, waits.clone(), Instant::now());
                    }
                    events.push(Event::Waits { rank, waits });
                }
                rank_processes::Event::Asked { rank, request } => {
                    let Self {
                        plan,
                        processes,
                        spawning,
                        ..
                    } = self;
                    events.extend(spawning.serve(plan, processes, rank, request));
                }
            }
        }
        events
    }
}

impl LocalHost<'_> {
    /// No rank can ever go on.
    fn tell_deadlock(&self, found: &Standstill) -> Vec<Event> {
        if self.plan.on_deadlock != OnDeadlock::Stop {
            return deadlock::report(found, None);
        }
        self.processes.signal(SIGSTOP);
        let running = self.processes.running();
        let processes: Vec<String> = running
            .map(|one| format!("{} (rank {})", one.process, one.rank))
            .collect();
        deadlock::report(found, Some(&processes))
    }
}

impl RankHosts for LocalHost<'_> {
    fn start(&mut self, input: Option<OwnedFd>) -> Vec<Event> {
        let plan = self.plan;
        let mut input = Some(input.map_or_else(Stdio::inherit, Stdio::from));
        let (started, result) = self.processes.start(|numbers| {
            let reads = plan.input == Input::First;
            let input = input.take().filter(|_| reads).unwrap_or_else(Stdio::null);
            Ok((&plan.programs[numbers.appnum as usize], input))
        });
        let appnums = plan.appnums();
        let mut events = Vec::with_capacity(started.len() + 1);
        let note = self.processes.cores_note();
        events.extend(note.map(|note| Event::Note(note.to_owned())));
        for started in started {
            let appnum = appnums[started.rank as usize];
            let file = plan.programs[appnum as usize].executable.display();
            events.push(Event::Started {
                rank: started.rank,
                process: started.process,
                detail: format!(": {file}"),
                outputs: started.outputs,
            });
            let told = |cores: String| Event::Note(format!("rank {} {cores}", started.rank));
            events.extend(started.cores.map(told));
        }
        if let Err(error) = result {
            events.push(Event::Failed(Failure::NotStarted {
                rank: error.rank,
                reason: error.reason.to_string(),
            }));
        }
        events
    }

    fn entries(&self, _held_up: bool) -> Vec<(Token, PollFd<'_>)> {
        let controls = self.processes.controls();
        let controls = controls
            .map(|(local, control)| (Token::Control(local), PollFd::new(control, Interest::Read)));
        let adopted = self
            .processes
            .adopted()
            .map(|(local, handle)| (Token::Adopted(local), PollFd::new(handle, Interest::Read)));
        let others = self.processes.other_ranks();
        let others = others.map(|socket| (Token::OtherRanks, PollFd::new(socket, Interest::Read)));
        controls.chain(adopted).chain(others).collect()
    }

    fn next_look(&self) -> Option<Instant> {
        let deadlock = self.deadlock.as_ref();
        let deadlock = deadlock.and_then(DeadlockWatch::next_look);
        [
            self.spawning.next_look(),
            deadlock,
            self.foreign.next_look(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn proceed(&mut self, ready: &[(Token, bool)], _held_up: bool) -> Vec<Event> {
        let mut found = Vec::new();
        for (token, ready) in ready {
            match (token, ready) {
                (Token::Control(local), true) => found.extend(self.processes.listen(*local)),
                (Token::Adopted(local), true) => {
                    found.extend(self.processes.note_adopted_end(*local))
                }
                (Token::OtherRanks, true) => found.extend(self.processes.hear_other_ranks()),
                _ => {}
            }
        }
        let mut events = self.events(found);
        events.extend(self.spawning.look(self.plan, &mut self.processes));
        let watch = self.deadlock.as_mut();
        let processes = &mut &self.processes;
        if let Some(found) = watch.and_then(|watch| watch.look(Instant::now(), processes)) {
            events.extend(self.tell_deadlock(&found));
        }
        let foreign = self.foreign.look(Instant::now(), &self.processes);
        events.extend(foreign.map(Event::Note));
        events
    }

    fn reap(&mut self) -> Vec<Event> {
        let found = self.processes.reap();
        self.events(found)
    }

    fn signal(&mut self, number: i32) {
        self.processes.signal(number);
    }

    fn close_output(&mut self, _rank: u32, _kind: OutputKind) {
        // Its pipe is closed by whoever reads it.
    }

    fn announce_end(&mut self, rank: u32, in_order: bool) {
        // A fence that others wait at is none of several hosts: it is open by now.
        let _ = self.processes.announce_end(rank, in_order);
    }

    fn announce_absence(&mut self, _world: u32) {
        // All are on the host of the one that is.
    }

    fn lose_world(&mut self, world: u32, reason: &str) {
        self.spawning.lose(world, reason);
        self.processes.announce_absence(world);
    }

    fn end_ranks(&mut self, ranks: &[u32]) {
        self.processes.end_ranks(ranks);
    }

    fn restart(&mut self, rank: u32) -> Result<(u32, Option<[File; 2]>), String> {
        let appnum = self.plan.appnums()[rank as usize];
        let program = &self.plan.programs[appnum as usize];
        let started = self.processes.restart(rank, program)?;
        Ok((started.process, started.outputs))
    }

    fn inquire(&mut self) {
        self.processes.inquire(true);
    }

    fn host(&self, _rank: u32) -> Option<&str> {
        None
    }

    fn begin_end(&mut self) {}

    fn unfinished(&self) -> Vec<String> {
        Vec::new()
    }

    fn kill(&mut self) -> (Vec<Event>, bool) {
        let (found, gone) = self.processes.end(END);
        (self.events(found), gone)
    }

    fn read_rest(&mut self) -> Vec<Event> {
        let found = self.processes.listen_to_all();
        self.events(found)
    }

    fn take_profiles(&mut self) -> Vec<RankRecord> {
        self.processes.take_profiles()
    }

    fn part(&mut self, _code: u8) {}
}
