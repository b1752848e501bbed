//! The process that starts the ranks, reads their output, notices failures and ends them all.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::Stdio;
use std::time::{Duration, Instant};

use weft_sys::poll::{self, Entry, Interest};
use weft_sys::process::{self, SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGSTOP, SIGTERM};
use weft_sys::signal::Signals;

use super::output::Output;
use super::ranks::{Question, Ranks};
use super::remote::{Remote, Source};
use super::sink::Sink;
use super::spawn::{Seat, Spawner};
use super::verdict::{Failure, how};
use crate::control::Answer;
use crate::exchange::Exchange;
use crate::hosts::place::Place;
use crate::options::{Input, OnDeath};
use crate::plan::Plan;
use crate::segment;
use crate::tree;

/// How long everything has at most to disappear once it was killed.
const END: Duration = Duration::from_secs(5);
/// How long ranks may tidy up after a signal before they are killed.
const GRACE: Duration = Duration::from_secs(1);
/// … after SIGTERM, by which batch systems announce the end.
const GRACE_TERM: Duration = Duration::from_secs(3);
/// What is taken by descriptor here, and must reach the ranks as ever.
pub const HANDLED: [i32; 9] = [
    SIGCHLD,
    SIGINT,
    SIGTERM,
    SIGHUP,
    SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGTSTP,
    SIGCONT,
];
/// The same signal again after so long means: now.
const AGAIN: Duration = Duration::from_millis(300);

/// The job, while it runs.
pub(super) struct Job<'a> {
    pub plan: &'a Plan,
    /// The segment, for the ranks to inherit; `None` if they are on other hosts.
    memory: Option<OwnedFd>,
    pub ranks: Ranks,
    pub exchange: Exchange,
    pub output: Output,
    /// Those who have the ranks, if they are on other hosts.
    pub remote: Option<Remote>,
    pub signals: Signals,
    pub front: OwnedFd,
    /// The failure that counts.
    pub failure: Option<Failure>,
    /// The first death that did not end the job, of a rank that was not started anew.
    died: Option<Failure>,
    /// A signal was passed on: when it came, and when patience ends.
    leaving: Option<(Instant, Instant)>,
    deadline: Option<Instant>,
}

/// Runs the job to its end and answers the exit code. `front` closes when the front is gone; `input` is
/// what rank 0 reads instead of our standard input.
pub fn run(plan: &Plan, front: OwnedFd, input: Option<OwnedFd>) -> u8 {
    let mut job = match Job::prepare(plan, front) {
        Ok(job) => job,
        Err(error) => {
            eprintln!("weft: the job could not be prepared: {error}");
            return 1;
        }
    };
    job.start(input);
    let orphaned = job.attend();
    // Those that we have to end.
    let running = job.started();
    if !orphaned {
        job.end_remote();
    }
    let known = job.ranks.processes();
    let gone = tree::end(&known, END, |process, status| {
        job.ranks.record(process, status);
    });
    if orphaned {
        return 128 + 9;
    }
    let code = job.finish(&running, gone);
    if let Some(remote) = &mut job.remote {
        remote.part(code);
    }
    code
}

impl<'a> Job<'a> {
    fn prepare(plan: &'a Plan, front: OwnedFd) -> io::Result<Self> {
        // Out of the front's process group and away from its terminal. Fails only if we are that far.
        let _ = rustix::process::setsid();
        process::adopt_orphans()?;
        let signals = Signals::new(&HANDLED)?;
        let ranks = plan.ranks();
        // Four descriptors a rank, and more while one is started. Ranks inherit the limit, and some
        // programs mind a large one: only if it must be.
        let wanted = 4 * u64::from(ranks + plan.spares()) + 64;
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        if limit.current.is_some_and(|limit| limit < wanted) {
            // If it cannot be, the start of a rank will say so.
            let _ = weft_sys::descriptor::raise_limit();
        }
        let (out, error) = (io::stdout(), io::stderr());
        let mut sinks = vec![Sink::new(out.as_fd())?];
        if !Sink::same(out.as_fd(), error.as_fd()) {
            sinks.push(Sink::new(error.as_fd())?);
        }
        let mut output = Output::new(sinks, plan.tags);
        let (mut memory, mut watch, mut remote) = (None, None, None);
        if plan.place == Place::Here {
            let segment = segment::create(ranks, plan.spares())?;
            memory = Some(segment.descriptor);
            watch = Some(segment.watch);
        } else {
            output.add_remote(ranks);
            remote = Some(Remote::new(plan)?);
        }
        Ok(Self {
            memory,
            ranks: Ranks::new(watch),
            exchange: Exchange::new(ranks),
            output,
            remote,
            signals,
            front,
            failure: None,
            died: None,
            leaving: None,
            deadline: plan
                .timeout
                .and_then(|limit| Instant::now().checked_add(limit)),
            plan,
        })
    }

    /// The ranks that were started and have not ended.
    fn started(&self) -> Vec<u32> {
        match &self.remote {
            Some(remote) if !remote.is_complete() => Vec::new(),
            _ => self.ranks.running(),
        }
    }

    /// Starts all ranks, or sets the failure.
    fn start(&mut self, input: Option<OwnedFd>) {
        let Some(memory) = &self.memory else {
            return self.start_remote(input);
        };
        let mut input = Some(input.map_or_else(Stdio::inherit, Stdio::from));
        let size = self.plan.ranks();
        let straight = size == 1 && !self.plan.tags;
        let mut spawner = match Spawner::new(memory, straight) {
            Ok(spawner) => spawner,
            Err(error) => {
                self.failure = Some(Failure::NotStarted {
                    rank: 0,
                    reason: error.to_string(),
                });
                return;
            }
        };
        for (rank, appnum) in self.plan.appnums().into_iter().enumerate() {
            let rank = rank as u32;
            let program = &self.plan.programs[appnum as usize];
            let seat = Seat {
                rank,
                size,
                local_rank: rank,
                local_size: size,
                appnum,
            };
            let reads = self.plan.input == Input::First;
            let input = input.take().filter(|_| reads).unwrap_or_else(Stdio::null);
            match spawner.start(seat, program, input) {
                Ok(started) => {
                    if self.plan.verbose {
                        let file = program.executable.display();
                        self.output.say(&format!(
                            "weft: rank {rank} is process {}: {file}",
                            started.process
                        ));
                    }
                    if let Some(outputs) = started.outputs {
                        self.output.add(rank, outputs);
                    }
                    self.ranks
                        .add(started.process, started.control, started.lifeline);
                }
                Err(error) => {
                    let reason = error.to_string();
                    self.failure = Some(Failure::NotStarted { rank, reason });
                    return;
                }
            }
        }
    }

    /// Attends to the job until all ranks have ended, or all must. True if the front is gone.
    fn attend(&mut self) -> bool {
        let mut next = None;
        while self.failure.is_none() || self.leaving.is_some() {
            let running = self.ranks.running();
            if running.is_empty() {
                return false;
            }
            let now = Instant::now();
            if let Some((_, patience)) = self.leaving {
                if now >= patience {
                    return false;
                }
            } else if self.deadline.is_some_and(|deadline| now >= deadline) {
                self.failure = Some(Failure::Timeout {
                    limit: self.plan.timeout.unwrap_or_default(),
                    running: self.started(),
                });
                return false;
            }
            let patience = self.leaving.map(|(_, patience)| patience);
            let look = self.remote.as_ref().and_then(Remote::next_look);
            let wake = [next, patience.or(self.deadline), look]
                .into_iter()
                .flatten()
                .min();
            let Ok(found) = self.wait(wake) else {
                // Nothing can be waited for: nobody can be attended to.
                self.failure.get_or_insert(Failure::NotStarted {
                    rank: 0,
                    reason: "the system refuses to wait".into(),
                });
                return false;
            };
            if found.orphaned {
                return true;
            }
            for index in found.streams {
                self.output.read(index);
            }
            for rank in found.controls {
                self.listen(rank);
            }
            self.hear_remote(&found.remote);
            if found.signals && self.handle_signals() {
                return false;
            }
            next = self.output.forward(Instant::now());
        }
        false
    }

    /// Waits for something to happen.
    pub fn wait(&self, until: Option<Instant>) -> io::Result<Found> {
        let mut entries = vec![
            Entry::new(&self.signals, Interest::Read),
            Entry::new(&self.front, Interest::Nothing),
        ];
        entries.extend(
            self.output
                .writable()
                .map(|sink| Entry::new(sink, Interest::Write)),
        );
        let streams_at = entries.len();
        let mut streams = Vec::new();
        for (index, pipe) in self.output.readable() {
            streams.push(index);
            entries.push(Entry::new(pipe, Interest::Read));
        }
        let controls_at = entries.len();
        let mut controls = Vec::new();
        for (index, control) in self.ranks.controls() {
            controls.push(index);
            entries.push(Entry::new(control, Interest::Read));
        }
        let remote_at = entries.len();
        let mut tokens = Vec::new();
        if let Some(remote) = &self.remote {
            for (token, entry) in remote.entries(!self.output.is_held_up()) {
                tokens.push(token);
                entries.push(entry);
            }
        }
        let limit = until.map(|until| until.saturating_duration_since(Instant::now()));
        poll::wait(&mut entries, limit)?;
        let remote = tokens.into_iter().zip(&entries[remote_at..]);
        let remote = remote
            .map(|(token, entry)| (token, entry.is_ready()))
            .collect();
        let readable = |at: usize, numbers: Vec<usize>| -> Vec<usize> {
            let ready = entries[at..remote_at]
                .iter()
                .zip(numbers)
                .filter(|(entry, _)| entry.readable());
            ready.map(|(_, number)| number).collect()
        };
        Ok(Found {
            signals: entries[0].readable(),
            orphaned: entries[1].ended(),
            streams: readable(streams_at, streams),
            controls: readable(controls_at, controls),
            remote,
        })
    }

    /// Handles what has come. True if everything must end now.
    fn handle_signals(&mut self) -> bool {
        let mut children = false;
        while let Ok(Some(signal)) = self.signals.next() {
            match signal {
                SIGCHLD => children = true,
                SIGINT | SIGTERM | SIGHUP | SIGQUIT => {
                    let now = Instant::now();
                    match self.leaving {
                        Some((since, _)) if now < since + AGAIN => {}
                        Some(_) => return true,
                        None => {
                            let grace = if signal == SIGTERM { GRACE_TERM } else { GRACE };
                            self.leaving = Some((now, now + grace));
                            self.failure.get_or_insert(Failure::Signal { signal });
                            self.pass_on(signal);
                        }
                    }
                }
                libc::SIGTSTP => self.pass_on(SIGSTOP),
                SIGCONT => self.pass_on(SIGCONT),
                other if self.remote.is_some() => self.pass_on(other),
                other => {
                    for process in self.ranks.processes() {
                        let _ = process::signal(process, other);
                    }
                }
            }
        }
        if children {
            self.fetch();
        }
        false
    }

    /// Hands a signal on to everything that belongs to the job.
    fn pass_on(&mut self, signal: i32) {
        match &mut self.remote {
            Some(remote) => remote.signal(signal),
            None => tree::signal(signal, &self.ranks.processes()),
        }
    }

    /// Fetches the children that have ended, and judges.
    fn fetch(&mut self) {
        let mut ended = Vec::new();
        while let Ok(Some((process, status))) = process::reap() {
            ended.extend(self.ranks.record(process, status));
        }
        // What they said before they ended comes first: an abort explains an exit.
        for &index in &ended {
            self.listen(index);
            if let (true, Some(status)) = (self.plan.verbose, self.ranks.status(index)) {
                self.output
                    .say(&format!("weft: rank {index} {}", how(status)));
            }
        }
        if let Some(abort) = self.ranks.first_abort() {
            self.fail(abort);
        }
        if self.plan.on_death != OnDeath::End && self.failure.is_none() && self.leaving.is_none() {
            for index in ended {
                match self.ranks.judge(index) {
                    Some(failure) => self.survive(index, failure),
                    // Whoever is started later is to know.
                    None => self.ranks.tell_of_death(index),
                }
            }
            return;
        }
        let failures = ended.iter().filter_map(|&index| self.ranks.judge(index));
        if let Some(first) = failures.min_by_key(Failure::order) {
            self.fail(first);
        }
    }

    /// A rank has died, and the job goes on without it, or with another process of it.
    fn survive(&mut self, index: usize, failure: Failure) {
        self.ranks.tell_of_death(index);
        let status = self.ranks.status(index);
        let badly = status.is_some_and(|status| !status.success());
        let how = status.map_or_else(String::new, how);
        let anew = badly && self.plan.on_death == OnDeath::Restart;
        let then = match anew.then(|| self.start_anew(index)) {
            Some(Ok(process)) => format!("started anew as process {process}"),
            Some(Err(reason)) => format!("not started anew: {reason}"),
            None => "the others were told (--on-death)".into(),
        };
        if !then.starts_with("started") {
            self.died.get_or_insert(failure);
        }
        self.output
            .say(&format!("weft: rank {index} {how}; {then}"));
    }

    /// Starts another process of a rank that has died.
    fn start_anew(&mut self, index: usize) -> Result<u32, String> {
        let rank = index as u32;
        let memory = self.memory.as_ref().ok_or("it is on another host")?;
        let appnums = self.plan.appnums();
        let appnum = appnums[index];
        let size = self.plan.ranks();
        let seat = Seat {
            rank,
            size,
            local_rank: rank,
            local_size: size,
            appnum,
        };
        if !self.ranks.seat_anew(index) {
            return Err(format!(
                "{} processes of this job were started anew before",
                self.plan.spares()
            ));
        }
        let program = &self.plan.programs[appnum as usize];
        let straight = size == 1 && !self.plan.tags;
        let started = Spawner::new(memory, straight)
            .and_then(|mut spawner| spawner.start(seat, program, Stdio::null()))
            .map_err(|error| error.to_string())?;
        if let Some(outputs) = started.outputs {
            self.output.add(rank, outputs);
        }
        let process = started.process;
        self.ranks
            .replace(index, process, started.control, started.lifeline);
        Ok(process)
    }

    /// Reads what a rank has to tell, and answers what it asks.
    fn listen(&mut self, index: usize) {
        for failure in self.ranks.listen(index) {
            self.fail(failure);
        }
        for (asker, question) in self.ranks.questions() {
            let answer = match question {
                Question::Put(entry) => match self.exchange.put(entry) {
                    true => Answer::Taken,
                    false => Answer::no_room(),
                },
                Question::Get { rank, name } => {
                    Answer::Value(self.exchange.get(rank, &name).cloned())
                }
                Question::Fence => {
                    if self.exchange.arrive(asker as u32).is_some() {
                        for index in 0..self.ranks.count() as usize {
                            self.ranks.answer(index, &Answer::Taken);
                        }
                    }
                    continue;
                }
                Question::Places { .. } => Answer::Refused {
                    reason: "all ranks of this job are on one host: there is nothing to tell"
                        .into(),
                },
            };
            self.ranks.answer(asker, &answer);
        }
    }

    /// The first failure counts; only the text of an abort is added to what the segment told before.
    pub fn fail(&mut self, failure: Failure) {
        match (&mut self.failure, failure) {
            (
                Some(Failure::Aborted { rank, text, .. }),
                Failure::Aborted {
                    rank: same,
                    text: more,
                    ..
                },
            ) if *rank == same && text.is_empty() => {
                *text = more;
            }
            (Some(_), _) => {}
            (none, failure) => *none = Some(failure),
        }
    }

    /// Hands out what is left of the output and says the last line. `ended` ranks had to be ended.
    fn finish(&mut self, ended: &[u32], gone: bool) -> u8 {
        for index in 0..self.ranks.count() as usize {
            self.listen(index);
        }
        let at_fault = self.failure.as_ref().and_then(Failure::rank);
        if !self.flush(at_fault) {
            return 128 + 9;
        }
        if !gone {
            self.output
                .say("weft: processes of the job that run as another user could not be ended");
        }
        let code = match &self.failure {
            None => self.died.as_ref().map_or(0, Failure::code),
            Some(failure) => {
                let others = ended.iter().filter(|rank| Some(**rank) != at_fault).count();
                let host = at_fault.and_then(|rank| self.remote.as_ref()?.host(rank));
                let line = failure.line(host, others);
                self.output.say(&line);
                failure.code()
            }
        };
        self.flush(None);
        code
    }

    /// Writes everything. False if the front is gone, or somebody insists on the end.
    fn flush(&mut self, last: Option<u32>) -> bool {
        while !self.output.finish(last) {
            let mut entries = vec![
                Entry::new(&self.signals, Interest::Read),
                Entry::new(&self.front, Interest::Nothing),
            ];
            entries.extend(
                self.output
                    .writable()
                    .map(|sink| Entry::new(sink, Interest::Write)),
            );
            if poll::wait(&mut entries, None).is_err() || entries[1].ended() {
                return false;
            }
            while let Ok(Some(signal)) = self.signals.next() {
                if [SIGINT, SIGTERM, SIGHUP, SIGQUIT].contains(&signal) {
                    self.failure.get_or_insert(Failure::Signal { signal });
                    return false;
                }
            }
        }
        true
    }
}

/// What a wait has found.
pub(super) struct Found {
    signals: bool,
    pub orphaned: bool,
    streams: Vec<usize>,
    controls: Vec<usize>,
    pub remote: Vec<(Source, bool)>,
}
