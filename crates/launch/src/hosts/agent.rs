//! Agent of a job: on its host it does what the supervisor does for a job on one host, and reports to the head.
//!
//! ```text
//!   Waiting ── Start ──▶ Attending ── all ranks have ended, or End ──▶ Ended ── Over ──▶ leaves
//!      └── Over, head lost, told to end ──▶ leaves    └── head lost, told to end ──▶ ends all, leaves
//! ```

mod input;
mod later;
mod outputs;
mod rest;
mod supervision;

use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use weft_secure::Key;
use weft_sys::clock;
use weft_sys::poll::{self, Interest, PollFd};
use weft_sys::process;

use super::link::{Link, LinkError};
use super::message::{Assignment, FromAgent, Hello, LaterProcesses, ToAgent, encode};
use crate::adoption::AdoptedHost;
use crate::bootstrap::HostMap;
use crate::exchange::portions;
use crate::job_request::{JobAnswer, JobRequest, Refusal};
use crate::plan::Program;
use crate::profile;
use crate::rank_processes::foreign_libraries::ForeignLibraries;
use crate::rank_processes::{Event, HostShare, NotStarted, OtherHosts, RankNumbers, RankProcesses};
use crate::user_output;
use input::RankInput;
use later::LaterStart;
use outputs::RankOutputs;
pub use rest::Rest;
use supervision::Supervision;

/// How long everything has at most to disappear once it was killed.
const END: Duration = Duration::from_secs(2);
/// How long we wait for the last word of the head.
const DRAIN_TIME: Duration = Duration::from_secs(10);
/// Bytes of a profile in one message.
const PIECE: usize = 256 << 10;
/// Longest silence that means life.
const SILENCE: Duration = Duration::from_secs(86_400);

/// Reason why an agent ends.
#[derive(Debug)]
pub enum AgentExit {
    /// The job is over, with this code.
    Over(u8),
    /// The head is gone.
    HeadLost(LinkError),
    /// It was told to end, by this signal, or its guard is gone.
    Ended(Option<i32>),
}

/// Why a turn is the last one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stop {
    /// The head wants everything ended.
    End,
    /// The head says that the job is over.
    Over(u8),
    /// We are to go, by this signal or because our guard is gone.
    Leave(Option<i32>),
}

/// An agent with its ranks.
struct Agent {
    supervision: Supervision,
    ranks: RankProcesses,
    outputs: RankOutputs,
    input: RankInput,
    /// What ranks run, and where they are started that others ask for.
    later: LaterStart,
    /// Whether all ranks sleep; `None` if the head does not want to know.
    rest: Option<Rest>,
    /// Whether ranks believe to be alone.
    foreign: ForeignLibraries,
    /// The last inquiry: its number among the ranks here, and that of the head.
    inquiry: (u32, u32),
    /// That all ranks have ended was said, which is the last word.
    is_over: bool,
}

/// Serves the ranks that the head assigns, until the job is over. `liveness` closes when the guard is gone; `program` is
/// the one that the ranks run if not that of the head. Ranks that are `adopted` exist already.
///
/// # Errors
/// If the kernel refuses what every job needs.
pub fn run(
    link: Link,
    liveness: OwnedFd,
    (hello, own): (Hello, Option<Program>),
    adopted: Option<AdoptedHost>,
) -> io::Result<AgentExit> {
    // Out of the process group of whoever started us. Fails only if we are that far.
    let _ = rustix::process::setsid();
    process::adopt_orphans()?;
    let mut supervision = Supervision::new(link, liveness)?;
    supervision.link.say(&FromAgent::Hello(hello));
    let assignment = match supervision.await_assignment()? {
        Ok(assignment) => assignment,
        Err(exit) => {
            return Ok(match adopted {
                None => exit,
                Some(adopted) => not_taken_over(adopted, exit),
            });
        }
    };
    let own = own.map(|mut program| {
        // A host that joins brings the program; the head says what is recorded.
        let profile = assignment.profile.clone();
        let variable = profile.map(|value| (profile::VARIABLE.into(), value.into()));
        program.environment.extend(variable);
        program
    });
    let silence = Duration::from_millis(assignment.silence.max(1));
    supervision.link.set_silence(silence.min(SILENCE));
    let adopted = match adopted {
        None => None,
        Some(host) => match supervision.exchange_values(host)? {
            Ok(taken_over) => Some(taken_over),
            Err(exit) => return Ok(exit),
        },
    };
    let ranks = match prepare(&assignment, adopted) {
        Ok(ranks) => ranks,
        Err(error) => {
            let rank = assignment.ranks[0].0;
            let reason = error.to_string();
            supervision
                .link
                .say(&FromAgent::NotStarted { rank, reason });
            supervision.link.drain(DRAIN_TIME);
            return Ok(AgentExit::Ended(None));
        }
    };
    let mut agent = Agent {
        supervision,
        ranks,
        outputs: RankOutputs::default(),
        input: RankInput::default(),
        later: LaterStart::new(&assignment, own.clone()),
        rest: assignment.watched.then(|| Rest::new(Instant::now())),
        foreign: ForeignLibraries::new(assignment.size, Instant::now()),
        inquiry: (0, 0),
        is_over: false,
    };
    agent.start(assignment, own);
    let exit = agent.attend();
    Ok(agent.finish(exit))
}

/// Ranks that are there already go on without us.
fn not_taken_over(adopted: AdoptedHost, exit: AgentExit) -> AgentExit {
    adopted.refuse(match exit {
        AgentExit::HeadLost(error) => {
            format!("the launcher beside rank 0 has ended before all hosts were there: {error}")
        }
        _ => "other hosts of the job have not come".into(),
    });
    AgentExit::Over(1)
}

/// Prepares the ranks of an assignment, or takes over those that are there. The assignment must be one.
fn prepare(assignment: &Assignment, adopted: Option<AdoptedHost>) -> io::Result<RankProcesses> {
    let ranks = &assignment.ranks;
    let there = ranks.iter().all(|(rank, _)| *rank < assignment.size);
    if !there || !ranks.is_sorted_by(|one, other| one.0 < other.0) {
        return Err(io::Error::other(
            "the head's list of ranks is not understood",
        ));
    }
    HostMap::decode(&assignment.hosts, assignment.size)
        .filter(|hosts| hosts.size() == assignment.size)
        .ok_or_else(|| io::Error::other("the head's list of hosts is not understood"))?;
    let share = HostShare {
        size: assignment.size,
        ranks: ranks.clone(),
        room: assignment.room,
        spares: 0,
        addresses: assignment.capacity,
        binding: assignment.binding.clone(),
    };
    let others = OtherHosts {
        key: Key::from_bytes(assignment.key),
        map: assignment.hosts.clone(),
    };
    match adopted {
        None => RankProcesses::prepare(share, Some(others), false),
        Some(host) => RankProcesses::adopt_host(share, others, host),
    }
}

impl Agent {
    /// Says it, unless all was said: that nobody sleeps any more then, or what the time is, the head does not expect.
    fn say(&mut self, message: &FromAgent) {
        if !self.is_over {
            self.supervision.link.say(message);
        }
    }

    /// Starts all ranks of this host; tells if one cannot be.
    fn start(&mut self, assignment: Assignment, own: Option<Program>) {
        let programs: Vec<Program> = assignment.programs.into_iter().map(Program::from).collect();
        let mut reads = assignment.input;
        let input = &mut self.input;
        let (started, result) = self.ranks.start(|numbers: RankNumbers| {
            let program = own.as_ref().or(programs.get(numbers.appnum as usize));
            let program = program.ok_or_else(|| io::Error::other("no program was named"))?;
            if let Some(folder) = program.folder.as_ref().filter(|folder| !folder.is_dir()) {
                // Whose folder was removed under it cannot say where it is.
                return Err(io::Error::other(match folder.as_os_str().is_empty() {
                    true => "the folder in which the job was started is there no more; name another with -wdir".into(),
                    false => {
                        let folder = folder.display();
                        format!("there is no folder {folder} there; name another with -wdir")
                    }
                }));
            }
            let reads = std::mem::take(&mut reads).then(|| input.open());
            let stdin = reads.and_then(Result::ok).unwrap_or_else(Stdio::null);
            Ok((program, stdin))
        });
        for started in started {
            let (rank, process) = (started.rank, started.process);
            if let Some(outputs) = started.outputs {
                self.outputs.add(rank, outputs);
            }
            let cores = started.cores;
            self.say(&FromAgent::Started {
                rank,
                process,
                cores,
            });
        }
        if let Err(NotStarted { rank, reason }) = result {
            let remedy = match reason.kind() {
                ErrorKind::NotFound => {
                    "; it must be there too, at the same path, or weft join must name another program"
                }
                _ => "",
            };
            let reason = format!("{reason}{remedy}");
            self.say(&FromAgent::NotStarted { rank, reason });
        }
    }

    /// Starts processes that a rank of the job has asked for; all or none.
    fn start_later(&mut self, later: &LaterProcesses) {
        let (started, reason) = self.later.start(&mut self.ranks, later);
        let mut processes = Vec::new();
        for started in started {
            processes.push((started.rank, started.process));
            if let Some(outputs) = started.outputs {
                self.outputs.add(started.rank, outputs);
            }
        }
        self.say(&FromAgent::StartedLater { processes, reason });
    }

    /// Until all ranks have ended, or all must.
    fn attend(&mut self) -> Option<AgentExit> {
        loop {
            // Where others may be started the head says when all is over.
            if self.ranks.have_ended() && !self.later.is_possible() {
                return None;
            }
            match self.turn() {
                Ok(None) => {}
                Ok(Some(Stop::End)) => return None,
                Ok(Some(Stop::Leave(signal))) => return Some(AgentExit::Ended(signal)),
                Ok(Some(Stop::Over(code))) => return Some(AgentExit::Over(code)),
                Err(error) => return Some(AgentExit::HeadLost(error)),
            }
        }
    }

    /// Does what the head has said and is here, until it wants an end.
    fn execute_all(&mut self) -> Result<Option<Stop>, LinkError> {
        while let Some(message) = self.supervision.link.next()? {
            if let Some(stop) = self.execute(message)? {
                return Ok(Some(stop));
            }
        }
        Ok(None)
    }

    /// Waits for something to happen, and attends to it.
    fn turn(&mut self) -> Result<Option<Stop>, LinkError> {
        let now = Instant::now();
        self.tell_rest(now);
        let rest = self.rest.iter().map(Rest::next_look);
        let link = self.supervision.link.next_look();
        let looks = rest.chain(self.foreign.next_look());
        let until = looks.fold(link, Instant::min);
        // Messages that came together with something else are handled now: nothing would wake us for them.
        if let Some(stop) = self.execute_all()? {
            return Ok(Some(stop));
        }
        self.supervision.keep_up(now)?;
        let mut entries = self.supervision.entries();
        let outputs_at = entries.len();
        // Output of ranks goes over the link, and so do their notices.
        let full = self.supervision.link.is_full();
        if !full {
            entries.extend(self.outputs.entries());
        }
        let controls_at = entries.len();
        let mut controls = Vec::new();
        for (local, control) in self.ranks.controls().filter(|_| !full) {
            controls.push(local);
            entries.push(PollFd::new(control, Interest::Read));
        }
        let adopted_at = entries.len();
        let mut adopted = Vec::new();
        for (local, handle) in self.ranks.adopted().filter(|_| !full) {
            adopted.push(local);
            entries.push(PollFd::new(handle, Interest::Read));
        }
        let others_at = entries.len();
        for socket in self.ranks.other_ranks().filter(|_| !full) {
            entries.push(PollFd::new(socket, Interest::Read));
        }
        let rest_at = entries.len();
        if self.supervision.link.is_waiting() {
            entries.push(self.supervision.link.writing());
        }
        entries.extend(self.input.entry());
        poll::wait(&mut entries, Some(until.saturating_duration_since(now)))?;
        let (signalled, orphaned) = (entries[0].readable(), entries[1].ended());
        let hearing = entries[2].is_ready();
        let outputs: Vec<bool> = entries[outputs_at..controls_at]
            .iter()
            .map(PollFd::is_ready)
            .collect();
        let ready = |locals: Vec<usize>, entries: &[PollFd<'_>]| -> Vec<usize> {
            let found = locals.into_iter().zip(entries);
            let ready = found.filter(|(_, entry)| entry.is_ready());
            ready.map(|(local, _)| local).collect()
        };
        let controls = ready(controls, &entries[controls_at..adopted_at]);
        let adopted = ready(adopted, &entries[adopted_at..others_at]);
        let others = entries[others_at..rest_at].iter().any(PollFd::is_ready);
        drop(entries);
        if orphaned {
            return Ok(Some(Stop::Leave(None)));
        }
        if hearing {
            // Messages from before an end still count.
            let filled = self.supervision.link.fill();
            if let Some(stop) = self.execute_all()? {
                return Ok(Some(stop));
            }
            filled?;
        }
        let taken = self.input.feed();
        if taken > 0 {
            self.say(&FromAgent::InputTaken { bytes: taken });
        }
        // The head passes on what its agents complain of.
        if let Some(text) = self.foreign.look(Instant::now(), &self.ranks) {
            user_output::tell(text);
        }
        self.outputs.pass_on(&outputs, &mut self.supervision.link);
        for local in controls {
            let events = self.ranks.listen(local);
            self.tell(events);
        }
        for local in adopted {
            let events = self.ranks.note_adopted_end(local);
            self.tell(events);
        }
        if others {
            let events = self.ranks.hear_other_ranks();
            self.tell(events);
        }
        if signalled {
            let (end, children) = self.supervision.take_signals();
            if children {
                let events = self.ranks.reap();
                self.tell(events);
            }
            if let Some(signal) = end {
                self.supervision.take_leave(signal);
                return Ok(Some(Stop::Leave(Some(signal))));
            }
        }
        self.supervision.link.flush()?;
        Ok(None)
    }

    /// Tells the head whether all ranks sleep, if it wants to know and that has changed.
    fn tell_rest(&mut self, now: Instant) {
        let Some(rest) = &mut self.rest else {
            return;
        };
        if let Some(shown) = rest.look(now, || self.ranks.rest()) {
            self.say(&FromAgent::Rest { shown });
        }
    }

    fn execute(&mut self, message: ToAgent) -> Result<Option<Stop>, LinkError> {
        let wrong = |text: &str| LinkError::Broken(text.into());
        match message {
            ToAgent::End => return Ok(Some(Stop::End)),
            ToAgent::Over { code } => return Ok(Some(Stop::Over(code))),
            ToAgent::Signal { number } => self.ranks.signal(number),
            ToAgent::Put { values } => self
                .ranks
                .keep_values(&values)
                .map_err(|_| wrong("it hands out values that nobody waits for"))?,
            ToAgent::Fenced => self
                .ranks
                .open_fence()
                .map_err(|_| wrong("it opens a fence that nobody waits at"))?,
            ToAgent::Input { bytes } => self
                .input
                .push(bytes)
                .map_err(|_| wrong("it sends more input than rank 0 takes"))?,
            ToAgent::CloseOutput { rank, error } => self.outputs.close(rank, error),
            ToAgent::Answer { rank, answer } => self.ranks.answer(rank, answer),
            ToAgent::AskRoom => {
                let room = later::room(&mut self.ranks);
                self.say(&FromAgent::Room(room));
            }
            ToAgent::StartLater(later) => self.start_later(&later),
            ToAgent::RecordAddresses { addresses } => {
                self.ranks.record_addresses(&addresses);
                self.say(&FromAgent::AddressesRecorded);
            }
            ToAgent::AnnounceEnd { rank, in_order } => {
                let events = self.ranks.announce_end(rank, in_order);
                self.tell(events);
            }
            ToAgent::AnnounceRemoteEnd { rank, end } => self.ranks.announce_remote_end(rank, end),
            ToAgent::AnnounceAbsence { world } => self.ranks.announce_absence(world),
            ToAgent::Inquire { number, full } => {
                self.inquiry = (self.ranks.inquire(full), number);
            }
            ToAgent::EndRanks { ranks } => self.ranks.end_ranks(&ranks),
            ToAgent::AskClock { asked } => self.say(&FromAgent::Clock {
                asked,
                now: clock::monotonic(),
            }),
            ToAgent::Start(_) | ToAgent::Alive => {}
        }
        Ok(None)
    }

    /// Tells the head what has happened to the ranks.
    fn tell(&mut self, events: Vec<Event>) {
        for event in events {
            match event {
                Event::Notice { rank, told } => self.say(&FromAgent::Notice { rank, told }),
                Event::Waits { rank, mut waits } => {
                    let (here, number) = self.inquiry;
                    // Nobody waits for answers to those before.
                    if waits.inquiry == here {
                        waits.inquiry = number;
                        let waits = Box::new(waits);
                        self.say(&FromAgent::Waits { rank, waits });
                    }
                }
                Event::Fence { values } => {
                    for values in portions(values) {
                        self.say(&FromAgent::Put { values });
                    }
                    self.say(&FromAgent::Fence);
                }
                Event::Asked {
                    rank,
                    request: JobRequest::Spawn(request),
                } if later::is_too_long(&request) => {
                    let reason = "the names and arguments of the processes are too long for a job on several hosts; \
                                  pass less by arguments";
                    let answer = JobAnswer::refuse(Refusal::Spawn, reason);
                    self.ranks.answer(rank, answer);
                }
                Event::Asked { rank, request } => self.say(&FromAgent::Asked { rank, request }),
                Event::Exited { ended } => {
                    for (rank, status) in ended {
                        let status = status.into_raw();
                        self.say(&FromAgent::Exited { rank, status });
                    }
                }
            }
        }
    }

    /// Tells what the ranks have recorded of where their time goes.
    fn tell_profiles(&mut self) {
        for record in self.ranks.take_profiles() {
            let rank = record.rank;
            let bytes = encode(&record);
            let mut pieces = bytes.chunks(PIECE).peekable();
            while let Some(piece) = pieces.next() {
                self.say(&FromAgent::Profile {
                    rank,
                    piece: piece.to_vec(),
                    last: pieces.peek().is_none(),
                });
            }
            self.supervision.link.drain(DRAIN_TIME);
        }
    }

    /// Ends what is left, says what is left to say, and waits for the last word of the head.
    fn finish(mut self, exit: Option<AgentExit>) -> AgentExit {
        let (events, clean) = self.ranks.end(END);
        self.tell(events);
        if let Some(exit) = exit {
            return exit;
        }
        self.outputs
            .pass_on_rest(&mut self.supervision.link, DRAIN_TIME);
        self.input.close();
        self.tell_profiles();
        self.say(&FromAgent::Ended { clean });
        self.is_over = true;
        // The others may run on for long: until the head says that the job is over, or is gone.
        loop {
            match self.turn() {
                Ok(Some(Stop::Over(code))) => return AgentExit::Over(code),
                Ok(Some(Stop::Leave(signal))) => return AgentExit::Ended(signal),
                // The head ends agents that it started by closing their streams.
                Err(LinkError::Closed) => return AgentExit::Ended(None),
                Err(error) => return AgentExit::HeadLost(error),
                Ok(_) => {}
            }
        }
    }
}
