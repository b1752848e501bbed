//! Inspection of a job, the side of its supervisor: a socket at which its own user may ask what its ranks do.
//!
//! ```text
//!   accept ──▶ who is it? ──▶ Reading ──▶ Waiting, for the ranks ──▶ Writing ──▶ closed
//!                └ another user: closed        └ Patience              └ PATIENCE
//! ```
//!
//! Nothing here waits, and no caller can delay the job: their number is limited, and each has a bound on its question and
//! a time limit. What is known of the ranks comes from the [`Event`]s that the supervisor handles anyway.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use weft_fabric::MOST_CHANNELS;
use weft_mpi::waits::RankWaits;
use weft_sys::poll::{Interest, PollFd};
use weft_sys::socket::NotAccepted;
use weft_sys::{passing, process};

use super::rank_hosts::{Event, RankHosts, WorldRank};
use crate::control::Notice;
use crate::inspection::counters::{CounterPlaces, CounterValues};
use crate::inspection::process::{ProcessState, descends};
use crate::inspection::protocol::{
    Answer, Asked, JobReport, LONGEST_QUESTION, Phase, Question, RankReport, decode, encode,
};
use crate::inspection::{report, socket_name, wait_text};
use crate::mapping::Allocation;
use crate::plan::Plan;

/// Most who may ask at the same time; others wait in the queue of the kernel.
const MOST_CLIENTS: usize = 16;
/// How long one may take for its question, and to take the answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long ranks may take to say what they wait for. One that waits in MPI answers as soon as it gets a core.
const INQUIRY: Duration = Duration::from_millis(250);
/// The same for the first time: to say where in the program it waits, it reads the debug information of that. In Rust, without optimization, this
/// takes a third of a second of processor time.
const FIRST_INQUIRY: Duration = Duration::from_secs(2);
/// A share of a core is told if it was observed for so long.
const OBSERVED: Duration = Duration::from_millis(50);
/// How long nobody is let in when no descriptor is left.
const REST: Duration = Duration::from_millis(100);

/// The known facts about a rank.
#[derive(Debug)]
struct Row {
    world: Option<WorldRank>,
    /// The process that was started as this rank.
    process: u32,
    phase: Phase,
    /// It was asked what it waits for.
    was_asked: bool,
    /// The counters of each engine that it has told of.
    places: Vec<CounterPlaces>,
}

impl Row {
    const AWAITED: Self = Self {
        world: None,
        process: 0,
        phase: Phase::Awaited,
        was_asked: false,
        places: Vec::new(),
    };

    /// The rank, for people.
    fn name(&self, number: u32) -> String {
        match self.world {
            None => number.to_string(),
            Some(WorldRank { world, rank }) => format!("{world}.{rank}"),
        }
    }

    /// The process that is the rank: the one that has initialised MPI, if it is known to be below the one that was
    /// started.
    fn known_process(&self) -> u32 {
        self.told_process().unwrap_or(self.process)
    }

    /// A rank may tell what it likes, and its numbers may be those of another PID namespace.
    fn told_process(&self) -> Option<u32> {
        let told = self.places.first()?.process();
        descends(told, self.process).then_some(told)
    }

    /// It has told where counters stand: of one more engine, or, as another process, of its first one.
    fn hear_of(&mut self, places: &CounterPlaces) {
        if (self.places.first()).is_some_and(|known| known.process() != places.process()) {
            self.places.clear();
        }
        if self.places.len() < MOST_CHANNELS as usize && !self.places.contains(places) {
            self.places.push(places.clone());
        }
    }

    /// The sums of the counters of its engines in this process, if they can be read.
    fn counters(&self, process: u32) -> Option<CounterValues> {
        let places = self.places.iter();
        let places = places.filter(|places| places.process() == process);
        let values = places.map(CounterPlaces::read);
        values.reduce(|sum, more| Some(sum?.plus(more?)))?
    }
}

/// How far one is that asks.
#[derive(Debug)]
enum Stage {
    Reading(Vec<u8>),
    /// For the end of an inquiry.
    Waiting,
    Writing {
        line: Vec<u8>,
        written: usize,
    },
}

/// One that asks.
#[derive(Debug)]
struct Client {
    stream: UnixStream,
    stage: Stage,
    deadline: Instant,
}

/// Ranks are asked what they wait for.
#[derive(Debug)]
struct Inquiry {
    begun: Instant,
    deadline: Instant,
    /// The core time of each process when it began.
    core_time: BTreeMap<u32, u64>,
    /// What was answered.
    answers: BTreeMap<u32, RankWaits>,
}

/// What the supervisor shows of its job.
#[derive(Debug)]
pub struct Inspection {
    /// `None` if no socket could be made: the job runs all the same.
    listener: Option<UnixListener>,
    rests_until: Option<Instant>,
    clients: Vec<Client>,
    inquiry: Option<Inquiry>,
    /// A report is to be printed when the inquiry has ended.
    print: bool,
    launcher: u32,
    programs: Vec<String>,
    begun: Instant,
    started: u64,
    ranks: BTreeMap<u32, Row>,
    ended: u32,
    /// All ranks run on this host.
    here: bool,
}

impl Inspection {
    /// Of a job that this process starts for the process `launcher`.
    pub fn new(plan: &Plan, launcher: u32) -> Self {
        let listener = socket_name::listen(process::user(), launcher).ok();
        let programs = plan.programs.iter();
        let name = |program: &crate::plan::Program| {
            let name = program.words.first();
            name.map_or_else(
                || program.executable.display().to_string(),
                |name| name.to_string_lossy().into_owned(),
            )
        };
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            listener,
            rests_until: None,
            clients: Vec::new(),
            inquiry: None,
            print: false,
            launcher,
            programs: programs.map(name).collect(),
            begun: Instant::now(),
            started: since.unwrap_or_default().as_secs(),
            ranks: (0..plan.ranks()).map(|rank| (rank, Row::AWAITED)).collect(),
            ended: 0,
            here: matches!(plan.allocation, Allocation::ThisHost),
        }
    }

    /// Notes what has happened to the ranks.
    pub fn note(&mut self, event: &Event) {
        match event {
            Event::Started { rank, process, .. } => self.note_start(*rank, None, *process),
            Event::Spawned {
                rank,
                world,
                process,
                ..
            } => self.note_start(*rank, Some(*world), *process),
            Event::Notice { rank, told } => {
                let Some(row) = self.ranks.get_mut(rank) else {
                    return;
                };
                match told {
                    Notice::Initialised if row.phase != Phase::After => row.phase = Phase::Within,
                    Notice::Finalised => row.phase = Phase::After,
                    Notice::Counters(places) => row.hear_of(places),
                    _ => {}
                }
            }
            Event::Waits { rank, waits } => self.note_answer(*rank, waits),
            Event::Exited { ended } => ended.iter().for_each(|(rank, _)| self.note_end(*rank)),
            Event::HostLost { ranks, .. } => ranks.iter().for_each(|rank| self.note_end(*rank)),
            Event::Note(_)
            | Event::Assigned
            | Event::Output { .. }
            | Event::GivenUp { .. }
            | Event::Abandoned { .. }
            | Event::Failed(_) => {}
        }
    }

    fn note_answer(&mut self, rank: u32, waits: &RankWaits) {
        let Some(inquiry) = &mut self.inquiry else {
            return;
        };
        // Somebody else may have asked as well, who did not want to know where.
        if waits.waits.iter().any(|wait| !wait.call.is_empty())
            || !inquiry.answers.contains_key(&rank)
        {
            inquiry.answers.insert(rank, waits.clone());
        }
        let running = self.ranks.iter();
        let mut running = running.filter(|(_, row)| row.phase != Phase::Awaited);
        if running.all(|(rank, _)| inquiry.answers.contains_key(rank)) {
            inquiry.deadline = inquiry.begun;
        }
    }

    /// A rank was started, or started anew.
    pub fn note_start(&mut self, rank: u32, world: Option<WorldRank>, process: u32) {
        let row = Row {
            world,
            process,
            phase: Phase::Before,
            was_asked: false,
            places: Vec::new(),
        };
        self.ranks.insert(rank, row);
    }

    fn note_end(&mut self, rank: u32) {
        if self.ranks.remove(&rank).is_some() {
            self.ended += 1;
        }
    }

    /// What to wait for.
    pub fn entries(&self) -> impl Iterator<Item = PollFd<'_>> {
        let lets_in = self.rests_until.is_none() && self.clients.len() < MOST_CLIENTS;
        let listener = self.listener.iter().filter(move |_| lets_in);
        let listener = listener.map(|listener| PollFd::new(listener, Interest::Read));
        listener.chain(self.clients.iter().map(|client| {
            let interest = match client.stage {
                Stage::Reading(_) => Interest::Read,
                Stage::Waiting => Interest::Nothing,
                Stage::Writing { .. } => Interest::Write,
            };
            PollFd::new(&client.stream, interest)
        }))
    }

    /// When to [`proceed`](Self::proceed) at the latest.
    pub fn next_look(&self) -> Option<Instant> {
        let clients = self.clients.iter().map(|client| client.deadline);
        let inquiry = self.inquiry.iter().map(|inquiry| inquiry.deadline);
        clients.chain(inquiry).chain(self.rests_until).min()
    }

    /// Prints what the ranks do, as soon as they have said it.
    pub fn print_soon(&mut self, hosts: &mut dyn RankHosts) {
        self.print = true;
        self.inquire(hosts);
    }

    /// Goes on; answers lines to be printed.
    pub fn proceed(&mut self, hosts: &mut dyn RankHosts) -> Vec<String> {
        let now = Instant::now();
        if self.rests_until.is_some_and(|until| until <= now) {
            self.rests_until = None;
        }
        self.let_in(now);
        let mut clients = std::mem::take(&mut self.clients);
        clients.retain_mut(|client| self.serve(client, hosts, now));
        self.clients = clients;
        self.end_inquiry(hosts, now)
    }

    fn let_in(&mut self, now: Instant) {
        let Some(listener) = &self.listener else {
            return;
        };
        while self.clients.len() < MOST_CLIENTS && self.rests_until.is_none() {
            let stream = match listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) => match NotAccepted::from_error(&error) {
                    NotAccepted::Nobody => return,
                    NotAccepted::Lost => continue,
                    NotAccepted::Exhausted => {
                        self.rests_until = Some(now + REST);
                        return;
                    }
                },
            };
            let peer = passing::peer_credentials(&stream);
            let may = peer.is_ok_and(|peer| peer.user == process::user());
            if may && stream.set_nonblocking(true).is_ok() {
                self.clients.push(Client {
                    stream,
                    stage: Stage::Reading(Vec::new()),
                    deadline: now + PATIENCE,
                });
            }
        }
    }

    /// Goes on with one. False if it is done with.
    fn serve(&mut self, client: &mut Client, hosts: &mut dyn RankHosts, now: Instant) -> bool {
        if now >= client.deadline {
            return false;
        }
        if let Stage::Reading(line) = &mut client.stage {
            match read_line(&mut client.stream, line) {
                Some(false) => return true,
                None => return false,
                Some(true) => {}
            }
            let answer = match decode::<Asked>(line) {
                Some(Asked {
                    ask: Question::Waits,
                }) => {
                    self.inquire(hosts);
                    client.stage = Stage::Waiting;
                    return true;
                }
                Some(Asked { ask }) => Answer::Job(self.report(ask, hosts)),
                None => Answer::Refused(
                    "the question is not understood: command and job may be of different releases \
                     of Weft"
                        .into(),
                ),
            };
            client.answer(&answer, now);
        }
        client.write()
    }

    /// Asks the ranks what they wait for, unless they are asked already.
    fn inquire(&mut self, hosts: &mut dyn RankHosts) {
        if self.inquiry.is_some() {
            return;
        }
        let (begun, patience) = (Instant::now(), patience(self.ranks.values_mut()));
        let here = self.ranks.iter().filter(|_| self.here);
        let core_time = here.filter_map(|(rank, row)| {
            let state = ProcessState::look(row.known_process())?;
            Some((*rank, state.core_time))
        });
        self.inquiry = Some(Inquiry {
            begun,
            deadline: begun + patience,
            core_time: core_time.collect(),
            answers: BTreeMap::new(),
        });
        hosts.inquire();
    }

    /// Answers all who wait for the inquiry, if it has ended; and what is to be printed.
    fn end_inquiry(&mut self, hosts: &dyn RankHosts, now: Instant) -> Vec<String> {
        let Some(inquiry) = self.inquiry.take_if(|inquiry| now >= inquiry.deadline) else {
            return Vec::new();
        };
        let names = self.ranks.iter();
        let names: BTreeMap<u32, String> = names
            .map(|(number, row)| (*number, row.name(*number)))
            .collect();
        let mut job = self.report(Question::Waits, hosts);
        let observed = inquiry.begun.elapsed();
        for rank in &mut job.ranks {
            if let Some(said) = inquiry.answers.get(&rank.number) {
                rank.waits = Some(wait_text::waits(&names, said));
                rank.unreceived = wait_text::unreceived(&names, said);
                rank.locks = wait_text::locks(&names, said);
            }
            let before = inquiry.core_time.get(&rank.number);
            if let (Some(before), Some(state)) = (before, &rank.state)
                && observed >= OBSERVED
            {
                let used = state.core_time.saturating_sub(*before);
                rank.core_share = Some(used as f64 / observed.as_nanos() as f64);
            }
        }
        let lines = match std::mem::take(&mut self.print) {
            true => report::lines(&job),
            false => Vec::new(),
        };
        let answer = Answer::Job(job);
        for client in &mut self.clients {
            if matches!(client.stage, Stage::Waiting) {
                client.answer(&answer, now);
            }
        }
        self.clients.retain_mut(Client::write);
        lines
    }

    fn report(&self, question: Question, hosts: &dyn RankHosts) -> JobReport {
        let ranks = self.ranks.iter().map(|(number, row)| {
            let mut rank = RankReport {
                name: row.name(*number),
                number: *number,
                process: row.process,
                host: hosts.host(*number).map(str::to_owned),
                phase: row.phase,
                ..RankReport::default()
            };
            if self.here && row.phase != Phase::Awaited {
                rank.process = row.known_process();
                rank.state = ProcessState::look(rank.process);
                if question != Question::Job && row.phase == Phase::Within {
                    rank.counters = row.counters(rank.process);
                }
            }
            rank
        });
        JobReport {
            release: env!("CARGO_PKG_VERSION").into(),
            launcher: self.launcher,
            supervisor: process::id(),
            programs: self.programs.clone(),
            started: self.started,
            seconds: self.begun.elapsed().as_secs_f64(),
            ranks: ranks.collect(),
            ended: self.ended,
        }
    }
}

/// How long ranks may take for the answer that they are asked for now.
fn patience<'a>(ranks: impl Iterator<Item = &'a mut Row>) -> Duration {
    let mut known = true;
    for row in ranks.filter(|row| row.phase == Phase::Within) {
        // All of them are asked.
        known &= std::mem::replace(&mut row.was_asked, true);
    }
    if known { INQUIRY } else { FIRST_INQUIRY }
}

/// Reads up to the end of a line. `Some(true)` if it is there, `None` if it never will be.
fn read_line(stream: &mut UnixStream, line: &mut Vec<u8>) -> Option<bool> {
    let mut bytes = [0; LONGEST_QUESTION];
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return None,
            Ok(count) => line.extend_from_slice(&bytes[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Some(false),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
        if let Some(end) = line.iter().position(|byte| *byte == b'\n') {
            line.truncate(end);
            return Some(true);
        }
        if line.len() > LONGEST_QUESTION {
            return None;
        }
    }
}

impl Client {
    fn answer(&mut self, answer: &Answer, now: Instant) {
        self.deadline = now + PATIENCE;
        self.stage = Stage::Writing {
            line: encode(answer),
            written: 0,
        };
    }

    /// Writes what there is room for. False when nothing is left to do.
    fn write(&mut self) -> bool {
        let Stage::Writing { line, written } = &mut self.stage else {
            return true;
        };
        while *written < line.len() {
            match self.stream.write(&line[*written..]) {
                Ok(count) => *written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_have_more_time_for_their_first_answer() {
        let mut rows = [Row::AWAITED, Row::AWAITED];
        let mut asked = |phases: [Phase; 2]| {
            for (row, phase) in rows.iter_mut().zip(phases) {
                row.phase = phase;
            }
            patience(rows.iter_mut())
        };
        assert_eq!(
            asked([Phase::Before, Phase::Before]),
            INQUIRY,
            "nobody is in MPI"
        );
        assert_eq!(asked([Phase::Within, Phase::Before]), FIRST_INQUIRY);
        assert_eq!(asked([Phase::Within, Phase::Before]), INQUIRY);
        assert_eq!(asked([Phase::Within, Phase::Within]), FIRST_INQUIRY);
        assert_eq!(asked([Phase::Within, Phase::Within]), INQUIRY);
    }
}
