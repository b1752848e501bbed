//! An agent: on its host it does what the supervisor does for a job on one host, and tells the head.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use weft_fabric_shm::{ProcessState, Watch};
use weft_secure::Key;
use weft_sys::descriptor;
use weft_sys::poll::{self, Entry, Interest};
use weft_sys::process::{self, SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGSTOP, SIGTERM};
use weft_sys::signal::Signals;

use super::link::{Link, LinkError};
use super::message::{Assignment, FromAgent, Hello, ToAgent, Told};
use crate::bootstrap::HostMap;
use crate::control::{Answer, Message};
use crate::exchange::{Exchange, portions};
use crate::job::HANDLED;
use crate::job::ranks::{Question, Ranks};
use crate::job::spawn::{Seat, Spawner};
use crate::plan::Program;
use crate::segment::{self, Segment};
use crate::tree;

/// How long everything has at most to disappear once it was killed.
const END: Duration = Duration::from_secs(2);
/// How long it may take to say that we leave.
const LEAVE: Duration = Duration::from_millis(200);
/// How long we wait for the last word of the head.
const LAST_WORD: Duration = Duration::from_secs(10);

/// Bytes for rank 0 that the head may send before they are taken, and as many again.
const INPUT: usize = 512 << 10;
/// Longest silence that means life.
const SILENCE: Duration = Duration::from_secs(86_400);

/// How an agent ends.
#[derive(Debug)]
pub enum Outcome {
    /// The job is over, with this code.
    Over(u8),
    /// The head is gone.
    HeadLost(LinkError),
    /// We were told to end, by this signal, or our guard is gone.
    Ended(Option<i32>),
}

/// One output of a rank.
#[derive(Debug)]
struct Stream {
    rank: u32,
    error: bool,
    pipe: File,
}

/// What rank 0 reads.
#[derive(Debug, Default)]
struct Input {
    pipe: Option<File>,
    held: VecDeque<u8>,
    /// Nothing more will come.
    ended: bool,
}

/// An agent with its ranks.
struct Agent {
    link: Link,
    signals: Signals,
    guard: OwnedFd,
    ranks: Ranks,
    watch: Watch,
    /// The ranks here, by their number on this host.
    seats: Vec<(u32, u32)>,
    /// How many ranks the job has, and their places as the head wrote them.
    size: u32,
    places: String,
    key: Key,
    exchange: Exchange,
    /// All ranks here have come to a fence, and the head has not opened it.
    at_fence: bool,
    streams: Vec<Stream>,
    input: Input,
    /// What the head knows of each rank already.
    initialised: Vec<bool>,
    finalised: Vec<bool>,
    abort_told: bool,
}

/// Attends to the ranks that the head assigns, until the job is over. `guard` closes when our guard is
/// gone; `own` is the program that the ranks run if not that of the head.
///
/// # Errors
/// If the kernel refuses what every job needs.
pub fn run(
    mut link: Link,
    guard: OwnedFd,
    hello: Hello,
    own: Option<Program>,
) -> io::Result<Outcome> {
    // Out of the process group of whoever started us. Fails only if we are that far.
    let _ = rustix::process::setsid();
    process::adopt_orphans()?;
    let signals = Signals::new(&HANDLED)?;
    link.say(&FromAgent::Hello(hello));
    // Until there is something to do.
    let assignment = loop {
        match link.next() {
            Ok(Some(ToAgent::Start(assignment))) if !assignment.seats.is_empty() => {
                break assignment;
            }
            Ok(Some(ToAgent::Over { code })) => return Ok(Outcome::Over(code)),
            Ok(Some(ToAgent::End)) => {
                link.say(&FromAgent::Ended { clean: true });
                continue;
            }
            Ok(Some(_)) => continue,
            Ok(None) => {}
            Err(error) => return Ok(Outcome::HeadLost(error)),
        }
        if let Err(error) = idle(&mut link, &signals, &guard)? {
            return Ok(error);
        }
    };
    let assignment = *assignment;
    link.set_silence(Duration::from_millis(assignment.silence.max(1)).min(SILENCE));
    let segment = match provide(&assignment) {
        Ok(segment) => segment,
        Err(error) => {
            let rank = assignment.seats[0].0;
            let reason = error.to_string();
            link.say(&FromAgent::NotStarted { rank, reason });
            link.drain(LAST_WORD);
            return Ok(Outcome::Ended(None));
        }
    };
    let local = assignment.seats.len();
    let mut agent = Agent {
        link,
        signals,
        guard,
        ranks: Ranks::new(Some(segment.watch.clone())),
        watch: segment.watch,
        seats: assignment.seats.clone(),
        size: assignment.size,
        places: assignment.hosts.clone(),
        key: Key::from_bytes(assignment.key),
        exchange: Exchange::new(local as u32),
        at_fence: false,
        streams: Vec::new(),
        input: Input::default(),
        initialised: vec![false; local],
        finalised: vec![false; local],
        abort_told: false,
    };
    agent.start(&segment.descriptor, assignment, own);
    drop(segment.descriptor);
    let outcome = agent.attend();
    Ok(agent.finish(outcome))
}

/// What the ranks of an assignment need: memory to share. The assignment must be one.
fn provide(assignment: &Assignment) -> io::Result<Segment> {
    let local = assignment.seats.len() as u32;
    let seats = &assignment.seats;
    let there = seats.iter().all(|(rank, _)| *rank < assignment.size);
    if !there || !seats.is_sorted_by(|one, other| one.0 < other.0) {
        return Err(io::Error::other(
            "the head's list of ranks is not understood",
        ));
    }
    HostMap::decode(&assignment.hosts, assignment.size)
        .filter(|hosts| hosts.size() == assignment.size)
        .ok_or_else(|| io::Error::other("the head's list of hosts is not understood"))?;
    // Four descriptors a rank. If the limit cannot be raised, the start of a rank will say so.
    let wanted = 4 * u64::from(local) + 64;
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    if limit.current.is_some_and(|limit| limit < wanted) {
        let _ = descriptor::raise_limit();
    }
    segment::create(local, 0)
}

/// Waits for the head to say something.
fn idle(link: &mut Link, signals: &Signals, guard: &OwnedFd) -> io::Result<Result<(), Outcome>> {
    let now = Instant::now();
    let step = |link: &mut Link| -> Result<(), LinkError> {
        link.check(now)?;
        if link.is_due(now) {
            link.say(&FromAgent::Alive);
        }
        link.flush()
    };
    if let Err(error) = step(link) {
        return Ok(Err(Outcome::HeadLost(error)));
    }
    let mut entries = vec![
        link.reading(),
        Entry::new(guard, Interest::Nothing),
        Entry::new(signals, Interest::Read),
    ];
    if link.is_waiting() {
        entries.push(link.writing());
    }
    let limit = link.next_look().saturating_duration_since(Instant::now());
    poll::wait(&mut entries, Some(limit))?;
    let (reading, orphaned) = (entries[0].is_ready(), entries[1].ended());
    drop(entries);
    if orphaned {
        return Ok(Err(Outcome::Ended(None)));
    }
    if let Some(signal) = told_to_end(signals) {
        take_leave(link, signal);
        return Ok(Err(Outcome::Ended(Some(signal))));
    }
    if reading && let Err(error) = link.fill() {
        return Ok(Err(Outcome::HeadLost(error)));
    }
    Ok(Ok(()))
}

/// The signal that ends programs, if one has come.
fn told_to_end(signals: &Signals) -> Option<i32> {
    let mut end = None;
    while let Ok(Some(signal)) = signals.next() {
        if [SIGINT, SIGTERM, SIGHUP, SIGQUIT].contains(&signal) {
            end = end.or(Some(signal));
        }
    }
    end
}

/// Tells the head why nothing more will be heard: at once, before the ends of the ranks could be.
fn take_leave(link: &mut Link, signal: i32) {
    link.say(&FromAgent::Leaving { signal });
    link.drain(LEAVE);
}

impl Agent {
    /// The rank of the job that is this one here.
    fn rank(&self, index: usize) -> u32 {
        self.seats[index].0
    }

    /// Starts all ranks of this host; tells if one cannot be.
    fn start(&mut self, memory: &OwnedFd, assignment: Assignment, own: Option<Program>) {
        let programs: Vec<Program> = assignment.programs.into_iter().map(Program::from).collect();
        let mut reads = assignment.input;
        let size = assignment.size;
        let refuse = |link: &mut Link, rank, reason: String| {
            link.say(&FromAgent::NotStarted { rank, reason });
        };
        let mut spawner = match Spawner::new(memory, false) {
            Ok(spawner) => spawner,
            Err(error) => return refuse(&mut self.link, self.seats[0].0, error.to_string()),
        };
        for (index, (rank, appnum)) in self.seats.clone().into_iter().enumerate() {
            let seat = Seat {
                rank,
                size,
                local_rank: index as u32,
                local_size: self.seats.len() as u32,
                appnum,
            };
            let Some(program) = own.as_ref().or(programs.get(appnum as usize)) else {
                return refuse(&mut self.link, rank, "no program was named".into());
            };
            if let Some(folder) = program.folder.as_ref().filter(|folder| !folder.is_dir()) {
                let folder = folder.display();
                let reason = format!("there is no folder {folder} there; name another with -wdir");
                return refuse(&mut self.link, rank, reason);
            }
            let mut input = Stdio::null();
            if std::mem::take(&mut reads)
                && let Ok((its, ours)) = descriptor::pipe()
                && descriptor::set_nonblocking(&ours, true).is_ok()
            {
                self.input.pipe = Some(File::from(ours));
                input = Stdio::from(its);
            }
            match spawner.start(seat, program, input) {
                Ok(started) => {
                    let process = started.process;
                    for (pipe, error) in started.outputs.into_iter().flatten().zip([false, true]) {
                        self.streams.push(Stream { rank, error, pipe });
                    }
                    self.ranks.add(process, started.control, started.lifeline);
                    self.link.say(&FromAgent::Started { rank, process });
                }
                Err(error) => {
                    let remedy = match error.kind() {
                        ErrorKind::NotFound => {
                            "; it must be there too, at the same path, or weft join must name another program"
                        }
                        _ => "",
                    };
                    return refuse(&mut self.link, rank, format!("{error}{remedy}"));
                }
            }
        }
    }

    /// Until all ranks have ended, or all must.
    fn attend(&mut self) -> Option<Outcome> {
        loop {
            if self.ranks.running().is_empty() {
                return None;
            }
            match self.turn(self.link.next_look()) {
                Ok(None) => {}
                Ok(Some(Stop::End)) => return None,
                Ok(Some(Stop::Leave(signal))) => return Some(Outcome::Ended(signal)),
                Ok(Some(Stop::Over(code))) => return Some(Outcome::Over(code)),
                Err(error) => return Some(Outcome::HeadLost(error)),
            }
        }
    }

    /// Does what the head has said and is here, until it wants an end.
    fn obey_all(&mut self) -> Result<Option<Stop>, LinkError> {
        while let Some(message) = self.link.next()? {
            if let Some(stop) = self.obey(message)? {
                return Ok(Some(stop));
            }
        }
        Ok(None)
    }

    /// Waits for something to happen, at most until then, and attends to it.
    fn turn(&mut self, until: Instant) -> Result<Option<Stop>, LinkError> {
        let now = Instant::now();
        // What came together with something else is waited for by nobody.
        if let Some(stop) = self.obey_all()? {
            return Ok(Some(stop));
        }
        self.link.check(now)?;
        if self.link.is_due(now) {
            self.link.say(&FromAgent::Alive);
        }
        self.link.flush()?;
        let full = self.link.is_full();
        let mut entries = vec![
            Entry::new(&self.signals, Interest::Read),
            Entry::new(&self.guard, Interest::Nothing),
        ];
        entries.push(self.link.reading());
        let streams_at = entries.len();
        if !full {
            let streams = self.streams.iter();
            entries.extend(streams.map(|stream| Entry::new(&stream.pipe, Interest::Read)));
        }
        let controls_at = entries.len();
        let mut controls = Vec::new();
        // What ranks tell goes over the link as well.
        for (index, control) in self.ranks.controls().filter(|_| !full) {
            controls.push(index);
            entries.push(Entry::new(control, Interest::Read));
        }
        let rest_at = entries.len();
        if self.link.is_waiting() {
            entries.push(self.link.writing());
        }
        if let Some(pipe) = self
            .input
            .pipe
            .as_ref()
            .filter(|_| !self.input.held.is_empty())
        {
            entries.push(Entry::new(pipe, Interest::Write));
        }
        poll::wait(&mut entries, Some(until.saturating_duration_since(now)))?;
        let (signalled, orphaned) = (entries[0].readable(), entries[1].ended());
        let hearing = entries[2].is_ready();
        let streams: Vec<bool> = entries[streams_at..controls_at]
            .iter()
            .map(Entry::is_ready)
            .collect();
        let controls: Vec<usize> = controls
            .into_iter()
            .zip(&entries[controls_at..rest_at])
            .filter(|(_, entry)| entry.is_ready())
            .map(|(index, _)| index)
            .collect();
        drop(entries);
        if orphaned {
            return Ok(Some(Stop::Leave(None)));
        }
        if hearing {
            // What came before an end still counts.
            let filled = self.link.fill();
            if let Some(stop) = self.obey_all()? {
                return Ok(Some(stop));
            }
            filled?;
        }
        self.feed_input();
        self.read_streams(&streams);
        for index in controls {
            self.listen(index);
        }
        if signalled && let Some(signal) = self.handle_signals() {
            take_leave(&mut self.link, signal);
            return Ok(Some(Stop::Leave(Some(signal))));
        }
        self.link.flush()?;
        Ok(None)
    }

    fn obey(&mut self, message: ToAgent) -> Result<Option<Stop>, LinkError> {
        let wrong = |text: &str| Err(LinkError::Broken(text.into()));
        match message {
            ToAgent::End => return Ok(Some(Stop::End)),
            ToAgent::Over { code } => return Ok(Some(Stop::Over(code))),
            ToAgent::Signal { number } => match number {
                // Those that stop, continue or end reach all below; others the ranks alone.
                SIGINT | SIGTERM | SIGHUP | SIGQUIT | SIGSTOP | SIGCONT => {
                    tree::signal(number, &self.ranks.processes());
                }
                other => {
                    for process in self.ranks.processes() {
                        let _ = process::signal(process, other);
                    }
                }
            },
            ToAgent::Put { entries } => {
                let size = self.size;
                if !self.at_fence || entries.iter().any(|entry| entry.rank >= size) {
                    return wrong("it hands out values that nobody waits for");
                }
                for entry in &entries {
                    self.exchange.keep(entry);
                }
            }
            ToAgent::Fenced => {
                if !std::mem::take(&mut self.at_fence) {
                    return wrong("it opens a fence that nobody waits at");
                }
                for index in 0..self.ranks.count() as usize {
                    self.ranks.answer(index, &Answer::Taken);
                }
            }
            ToAgent::Input { bytes } => {
                self.input.ended |= bytes.is_empty();
                self.input.held.extend(bytes);
                if self.input.held.len() > INPUT {
                    return wrong("it sends more input than rank 0 takes");
                }
            }
            ToAgent::Deaf { rank, error } => {
                let other = |stream: &Stream| (stream.rank, stream.error) != (rank, error);
                self.streams.retain(other);
            }
            ToAgent::Start(_) | ToAgent::Alive => {}
        }
        Ok(None)
    }

    /// Passes on what rank 0 is to read. The head sends more as it is taken: what it sends otherwise
    /// must never wait behind it.
    fn feed_input(&mut self) {
        let mut taken = 0;
        while !self.input.held.is_empty() {
            let first = self.input.held.as_slices().0;
            let count = match self.input.pipe.as_mut().map(|pipe| pipe.write(first)) {
                Some(Ok(count)) => count,
                Some(Err(error)) if error.kind() == ErrorKind::Interrupted => 0,
                Some(Err(error)) if error.kind() == ErrorKind::WouldBlock => break,
                // It has closed its input: nobody wants it.
                Some(Err(_)) | None => {
                    self.input.pipe = None;
                    self.input.held.len()
                }
            };
            self.input.held.drain(..count);
            taken += count as u64;
        }
        if taken > 0 {
            self.link.say(&FromAgent::InputTaken { bytes: taken });
        }
        if self.input.ended && self.input.held.is_empty() {
            self.input.pipe = None;
        }
    }

    /// Reads those outputs that have something, and drops those that have ended.
    fn read_streams(&mut self, ready: &[bool]) {
        let mut bytes = [0; 32 << 10];
        let mut index = 0;
        let link = &mut self.link;
        self.streams.retain_mut(|stream| {
            index += 1;
            if ready.get(index - 1) != Some(&true) {
                return true;
            }
            let (rank, error) = (stream.rank, stream.error);
            let count = match stream.pipe.read(&mut bytes) {
                Ok(count) => count,
                Err(cause) => match cause.kind() {
                    ErrorKind::Interrupted | ErrorKind::WouldBlock => return true,
                    _ => 0,
                },
            };
            let bytes = bytes[..count].to_vec();
            link.say(&FromAgent::Output { rank, error, bytes });
            count > 0
        });
    }

    fn tell(&mut self, index: usize, told: Told) {
        let rank = self.rank(index);
        self.link.say(&FromAgent::Told { rank, told });
    }

    /// Reads what a rank has to say: passes it on, or answers.
    fn listen(&mut self, index: usize) {
        for message in self.ranks.hear(index) {
            match message {
                Message::Initialised => {
                    self.initialised[index] = true;
                    self.tell(index, Told::Initialised);
                }
                Message::Finalised => {
                    self.finalised[index] = true;
                    self.tell(index, Told::Finalised);
                }
                Message::Abort { code, text } => {
                    self.abort_told = true;
                    self.tell(index, Told::Abort { code, text });
                }
                // Questions: noted here, answered below.
                other => drop(self.ranks.take(index, other)),
            }
        }
        for (asker, question) in self.ranks.questions() {
            let answer = match question {
                Question::Put(mut entry) => {
                    entry.rank = self.rank(asker);
                    match self.exchange.put(entry) {
                        true => Answer::Taken,
                        false => Answer::no_room(),
                    }
                }
                Question::Get { rank, name } => {
                    Answer::Value(self.exchange.get(rank, &name).cloned())
                }
                Question::Places { from } => Answer::places(&self.key, &self.places, from),
                Question::Fence => {
                    // Who waits at one already does not come to another.
                    if !self.at_fence
                        && let Some(entries) = self.exchange.arrive(asker as u32)
                    {
                        for entries in portions(entries) {
                            self.link.say(&FromAgent::Put { entries });
                        }
                        self.link.say(&FromAgent::Fence);
                        self.at_fence = true;
                    }
                    continue;
                }
            };
            self.ranks.answer(asker, &answer);
        }
    }

    /// The signal by which we are to end, if one has come.
    fn handle_signals(&mut self) -> Option<i32> {
        let mut children = false;
        let mut end = None;
        while let Ok(Some(signal)) = self.signals.next() {
            match signal {
                SIGCHLD => children = true,
                SIGINT | SIGTERM | SIGHUP | SIGQUIT => end = end.or(Some(signal)),
                _ => {}
            }
        }
        while children && let Ok(Some((process, status))) = process::reap() {
            self.record(process, status);
        }
        end
    }

    /// A child has ended. What it said before comes first: an abort explains an exit.
    fn record(&mut self, process: u32, status: ExitStatus) {
        let Some(index) = self.ranks.record(process, status) else {
            return;
        };
        self.listen(index);
        // What only the memory tells.
        if let Some(abort) = self.watch.first_abort()
            && !std::mem::replace(&mut self.abort_told, true)
        {
            let (code, text) = (abort.code, String::new());
            self.tell(abort.rank as usize, Told::Abort { code, text });
        }
        let state = self.watch.state(index as u32);
        if state != ProcessState::Absent && !self.initialised[index] {
            self.tell(index, Told::Initialised);
        }
        if state == ProcessState::Finalised && !self.finalised[index] {
            self.tell(index, Told::Finalised);
        }
        let rank = self.rank(index);
        let status = status.into_raw();
        self.link.say(&FromAgent::Exited { rank, status });
    }

    /// Ends what is left, says what is left to say, and waits for the last word of the head.
    fn finish(mut self, outcome: Option<Outcome>) -> Outcome {
        let known = self.ranks.processes();
        let mut ended = Vec::new();
        let clean = tree::end(&known, END, |process, status| ended.push((process, status)));
        for (process, status) in ended {
            self.record(process, status);
        }
        if let Some(outcome) = outcome {
            return outcome;
        }
        // Nobody who could write is left, except somebody who fled.
        while !self.streams.is_empty() {
            let before = self.streams.len();
            let mut entries: Vec<_> = self
                .streams
                .iter()
                .map(|stream| Entry::new(&stream.pipe, Interest::Read))
                .collect();
            let found = poll::wait(&mut entries, Some(Duration::ZERO)).unwrap_or(0);
            let ready: Vec<bool> = entries.iter().map(Entry::is_ready).collect();
            drop(entries);
            if found == 0 {
                break;
            }
            self.read_streams(&ready);
            if self.link.is_full() {
                self.link.drain(LAST_WORD);
            }
            if self.link.is_full() && self.streams.len() == before {
                break;
            }
        }
        self.link.say(&FromAgent::Ended { clean });
        // The others may run on for long: until the head says that the job is over, or is gone.
        loop {
            match self.turn(self.link.next_look()) {
                Ok(Some(Stop::Over(code))) => return Outcome::Over(code),
                Ok(Some(Stop::Leave(signal))) => return Outcome::Ended(signal),
                // The head ends agents that it started by closing their streams.
                Err(LinkError::Closed) => return Outcome::Ended(None),
                Err(error) => return Outcome::HeadLost(error),
                Ok(_) => {}
            }
        }
    }
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
