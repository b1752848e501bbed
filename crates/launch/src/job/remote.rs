//! The side of the supervisor when the ranks are on other hosts: agents start them, and tell.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use weft_secure::Key;
use weft_sys::poll::{Entry, Interest};

use super::output::Kind;
use super::supervisor::Job;
use super::verdict::{Failure, how};
use crate::bootstrap::HostMap;
use crate::control::Message;
use crate::exchange::{Exchange, portions};
use crate::hosts::agents::{Agents, Event, Token, is_here};
use crate::hosts::message::{Assignment, FromAgent, ProgramText, ToAgent, Told};
use crate::hosts::place::{Place, distribute};
use crate::options::Input;
use crate::plan::{Plan, Program};

/// How long agents have to end what they have. They are told, and end it at once; what takes longer are
/// lost ones.
const END: Duration = Duration::from_secs(3);
/// How long the last word to each may take.
const LAST_WORD: Duration = Duration::from_millis(500);

/// Bytes for rank 0 that may be under way: it may never read them.
const INPUT: u64 = 256 << 10;

/// One thing to wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    Agents(Token),
    /// What rank 0 reads.
    Input,
}

/// The agents of a job, and which ranks each has.
pub struct Remote {
    agents: Agents,
    /// For each agent the ranks that it has, ascending.
    seats: Vec<Vec<u32>>,
    size: u32,
    /// The ranks were handed out.
    complete: bool,
    /// Who has rank 0.
    first: usize,
    /// The key of the fabric.
    key: Key,
    input: Option<File>,
    /// Bytes that were sent to rank 0 and that it has not taken.
    untaken: u64,
}

impl Remote {
    /// Agents for a plan; none is started yet.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn new(plan: &Plan) -> io::Result<Self> {
        Ok(Self {
            agents: Agents::none(plan.silence)?,
            seats: Vec::new(),
            size: plan.ranks(),
            complete: false,
            first: 0,
            key: Key::random()?,
            input: None,
            untaken: 0,
        })
    }

    /// Whether the ranks were handed out.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// When to come back at the latest.
    pub fn next_look(&self) -> Option<Instant> {
        self.agents.next_look()
    }

    /// What to wait for; see [`Agents::entries`].
    pub fn entries(&self, listening: bool) -> Vec<(Source, Entry<'_>)> {
        let agents = self.agents.entries(listening);
        let mut found: Vec<_> = agents
            .into_iter()
            .map(|(token, entry)| (Source::Agents(token), entry))
            .collect();
        if let Some(input) = self.input.as_ref().filter(|_| self.complete)
            && self.untaken < INPUT
        {
            found.push((Source::Input, Entry::new(input, Interest::Read)));
        }
        found
    }

    /// The name of the host of a rank, once it has one.
    pub fn host(&self, rank: u32) -> Option<&str> {
        let agent = self.seats.iter().position(|seats| seats.contains(&rank))?;
        Some(&self.agents.agent(agent).name)
    }

    /// Hands a signal on to all ranks.
    pub fn signal(&mut self, number: i32) {
        self.agents.say_to_all(&ToAgent::Signal { number });
    }

    /// Says to all that the job is over, and with what code.
    pub fn part(&mut self, code: u8) {
        self.agents.part(&ToAgent::Over { code }, LAST_WORD);
    }

    /// Reads what rank 0 is to read.
    fn pump(&mut self) {
        let Some(input) = &mut self.input else {
            return;
        };
        let mut bytes = [0; 16 << 10];
        let count = match input.read(&mut bytes) {
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => return,
            Err(_) => 0,
        };
        if count == 0 {
            self.input = None;
        }
        self.untaken += count as u64;
        let bytes = bytes[..count].to_vec();
        self.agents.say(self.first, &ToAgent::Input { bytes });
    }

    /// Hands out the ranks, once enough agents are here.
    fn hand_out(&mut self, plan: &Plan) -> bool {
        let here = |agent: usize| self.agents.agent(agent).hello.is_some();
        let offered: usize = self.seats.iter().map(Vec::len).sum();
        let mut wanted = (0..self.seats.len()).filter(|agent| !self.seats[*agent].is_empty());
        if self.complete || offered < self.size as usize || !wanted.all(here) {
            return false;
        }
        self.complete = true;
        let first = self.seats.iter().position(|seats| seats.contains(&0));
        self.first = first.unwrap_or(0);
        let mut host_of = vec![0; self.size as usize];
        for (agent, seats) in self.seats.iter().enumerate() {
            for rank in seats {
                host_of[*rank as usize] = agent;
            }
        }
        let named = |agent: &usize| (*agent, self.agents.agent(*agent).name.clone());
        let hosts = HostMap::group(host_of.iter().map(named));
        let appnums = plan.appnums();
        // There as here: in the folder where we are, unless another was named.
        let here = std::env::current_dir().unwrap_or_default();
        let there = |program: &Program| {
            let folder = program.folder.as_ref();
            let folder = folder.map_or_else(|| here.clone(), |folder| here.join(folder));
            ProgramText::from(&Program {
                folder: Some(folder),
                ..program.clone()
            })
        };
        let texts: Vec<ProgramText> = plan.programs.iter().map(there).collect();
        for agent in 0..self.seats.len() {
            if self.seats[agent].is_empty() {
                continue;
            }
            let own = self.agents.agent(agent).hello.as_ref();
            let own = own.is_some_and(|hello| hello.program);
            let seats = &self.seats[agent];
            let assignment = Assignment {
                key: *self.key.as_bytes(),
                hosts: hosts.encode(),
                size: self.size,
                seats: seats
                    .iter()
                    .map(|rank| (*rank, appnums[*rank as usize]))
                    .collect(),
                programs: if own { Vec::new() } else { texts.clone() },
                silence: plan.silence.as_millis() as u64,
                input: self.input.is_some() && seats.first() == Some(&0),
            };
            self.agents
                .say(agent, &ToAgent::Start(Box::new(assignment)));
        }
        true
    }
}

/// What shows, without a job, whether a host can be reached.
fn to_try(host: &str, command: &[OsString]) -> String {
    if is_here(host) {
        return String::new();
    }
    let us = std::env::current_exe().unwrap_or_default();
    let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
    format!(
        "; this must work from here, and ask nothing: {} {host} {} --version",
        words.join(" "),
        us.display()
    )
}

impl Job<'_> {
    /// Starts the agents, or the port through which they come; or sets the failure.
    pub fn start_remote(&mut self, input: Option<OwnedFd>) {
        let Some(remote) = &mut self.remote else {
            return;
        };
        if self.plan.input == Input::First {
            let ours = || io::stdin().as_fd().try_clone_to_owned();
            remote.input = input.map_or_else(ours, Ok).ok().map(File::from);
        }
        self.ranks.add_remote(remote.size);
        let result = match &self.plan.place {
            Place::Here => Ok(()),
            Place::Hosts { hosts, command } => {
                // Only those that get a rank.
                let placed = distribute(hosts, remote.size);
                let each = hosts.iter().enumerate();
                let mut result = Ok(());
                for (index, host) in each {
                    let mine = |&rank: &u32| placed[rank as usize] == index as u32;
                    let seats: Vec<u32> = (0..remote.size).filter(mine).collect();
                    if seats.is_empty() || result.is_err() {
                        continue;
                    }
                    remote.seats.push(seats);
                    result =
                        remote
                            .agents
                            .start(host, command)
                            .map_err(|error| Failure::HostLost {
                                host: host.name.clone(),
                                ranks: Vec::new(),
                                reason: error.to_string() + &to_try(&host.name, command),
                            });
                }
                result
            }
            Place::Joined { listen, token_file } => {
                let opened = crate::hosts::join::token(token_file.as_deref()).and_then(|token| {
                    let address = remote.agents.listen(listen, token.clone(), remote.size)?;
                    Ok((address, token))
                });
                opened
                    .map(|(address, token)| {
                        let how = match token_file {
                            Some(file) => format!("--token-file {}", file.display()),
                            None => format!("--token {}", token.to_text()),
                        };
                        let size = remote.size;
                        self.output.say(&format!(
                            "weft: waiting for {size} ranks: weft join {how} {address}"
                        ));
                    })
                    .map_err(|error| Failure::NotReady {
                        reason: error.to_string(),
                    })
            }
        };
        let members = remote.seats.len() as u32;
        self.exchange = Exchange::new(members);
        if let Err(failure) = result {
            self.fail(failure);
        }
    }

    /// Goes on with the agents: `ready` is what a wait has found.
    pub fn hear_remote(&mut self, ready: &[(Source, bool)]) {
        let listening = !self.output.is_held_up();
        let Some(remote) = &mut self.remote else {
            return;
        };
        if ready.contains(&(Source::Input, true)) {
            remote.pump();
        }
        let tokens = ready.iter().filter_map(|(source, ready)| match source {
            Source::Agents(token) => Some((*token, *ready)),
            Source::Input => None,
        });
        let tokens: Vec<_> = tokens.collect();
        let mut events: VecDeque<Event> = remote.agents.proceed(&tokens, listening);
        while let Some(event) = events.pop_front() {
            self.handle(event);
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Note(text) => {
                for line in text.lines() {
                    self.output.say(&format!("weft: {line}"));
                }
            }
            Event::Here { agent } => self.greet(agent),
            Event::Lost { agent, reason } => self.lost(agent, reason),
            Event::Said { agent, message } => self.heard(agent, message),
        }
    }

    /// An agent has said who it is.
    fn greet(&mut self, agent: usize) {
        let Some(remote) = &mut self.remote else {
            return;
        };
        let Some(hello) = remote.agents.agent(agent).hello.clone() else {
            return;
        };
        // One that was started has its seats already.
        if !matches!(self.plan.place, Place::Hosts { .. }) {
            let taken: u32 = remote.seats.iter().map(|seats| seats.len() as u32).sum();
            let gets = match hello.ranks {
                0 => remote.size - taken,
                offered => offered.min(remote.size - taken),
            };
            let count = remote.agents.count();
            remote.seats.resize(count, Vec::new());
            let no_program = self.plan.programs[0].words.is_empty() && !hello.program;
            if gets > 0 && gets < hello.ranks && !no_program {
                self.output.say(&format!(
                    "weft: {} offers {} ranks; the job needs {gets} more",
                    remote.agents.agent(agent).name,
                    hello.ranks
                ));
            }
            if gets == 0 || remote.complete || no_program {
                let what = if no_program {
                    "it names no program to run, and neither does this job: write one after the address"
                } else {
                    "the job has all its ranks"
                };
                self.output.say(&format!(
                    "weft: {} is sent away: {what}",
                    remote.agents.agent(agent).name
                ));
                remote.agents.note_end(agent);
                remote.agents.say(agent, &ToAgent::Over { code: 1 });
                return;
            }
            remote.seats[agent] = (taken..taken + gets).collect();
        }
        if self.plan.verbose {
            let name = &remote.agents.agent(agent).name;
            let (host, seats) = (&hello.host, &remote.seats[agent]);
            let ranks: Vec<String> = seats.iter().map(u32::to_string).collect();
            let ranks = ranks.join(", ");
            self.output
                .say(&format!("weft: {name} ({host}) is here, for ranks {ranks}"));
        }
        if remote.hand_out(self.plan) {
            let members = remote.seats.iter().filter(|seats| !seats.is_empty());
            self.exchange = Exchange::new(members.count() as u32);
            let away = remote.agents.close_reception();
            if away > 0 {
                self.output.say(&format!(
                    "weft: {away} connections were turned away: they did not prove the token"
                ));
            }
        }
    }

    /// An agent is gone; without a reason if that was expected.
    fn lost(&mut self, agent: usize, reason: Option<String>) {
        let Some(remote) = &mut self.remote else {
            return;
        };
        let Some(reason) = reason else {
            return;
        };
        let name = remote.agents.agent(agent).name.clone();
        remote.agents.note_end(agent);
        let mut ranks = remote.seats.get(agent).cloned().unwrap_or_default();
        if !remote.complete {
            // Nobody who joins later is missed; one that was started is.
            if !matches!(self.plan.place, Place::Hosts { .. }) {
                self.output.say(&format!("weft: {name} has left: {reason}"));
                if let Some(seats) = remote.seats.get_mut(agent) {
                    seats.clear();
                }
                return self.renumber();
            }
            ranks.clear();
        }
        let reason = match &self.plan.place {
            Place::Hosts { command, .. } if !remote.complete => reason + &to_try(&name, command),
            _ => reason,
        };
        ranks.retain(|rank| self.ranks.status(*rank as usize).is_none());
        // The wait status of a process that was killed.
        let killed = ExitStatus::from_raw(libc::SIGKILL);
        for rank in &ranks {
            self.ranks.record_remote(*rank as usize, killed);
        }
        self.fail(Failure::HostLost {
            host: name,
            ranks,
            reason,
        });
    }

    /// One of those who had joined has left before the start: the others move up.
    fn renumber(&mut self) {
        let Some(remote) = &mut self.remote else {
            return;
        };
        let mut next = 0;
        for seats in &mut remote.seats {
            for rank in seats {
                *rank = next;
                next += 1;
            }
        }
    }

    /// What an agent says that may say it: see [`hosts::protocol`](crate::hosts::protocol).
    fn heard(&mut self, agent: usize, message: FromAgent) {
        match message {
            FromAgent::Started { rank, process } => {
                if self.plan.verbose {
                    let name = self.name(agent);
                    self.output
                        .say(&format!("weft: rank {rank} is process {process} on {name}"));
                }
            }
            FromAgent::NotStarted { rank, reason } => {
                self.fail(Failure::NotStarted { rank, reason });
            }
            FromAgent::Output { rank, error, bytes } => {
                let kind = if error { Kind::Error } else { Kind::Out };
                let heard = self.output.feed(rank, kind, &bytes);
                if let Some(remote) = self.remote.as_mut().filter(|_| !heard) {
                    remote.agents.say(agent, &ToAgent::Deaf { rank, error });
                }
            }
            FromAgent::Told { rank, told } => {
                let message = match told {
                    Told::Initialised => Message::Initialised,
                    Told::Finalised => Message::Finalised,
                    Told::Abort { code, text } => Message::Abort { code, text },
                };
                if let Some(failure) = self.ranks.take(rank as usize, message) {
                    self.fail(failure);
                }
            }
            FromAgent::Exited { rank, status } => {
                let status = ExitStatus::from_raw(status);
                if self.ranks.record_remote(rank as usize, status) {
                    if self.plan.verbose {
                        self.output
                            .say(&format!("weft: rank {rank} {}", how(status)));
                    }
                    if let Some(failure) = self.ranks.judge(rank as usize) {
                        self.fail(failure);
                    }
                }
            }
            FromAgent::InputTaken { bytes } => {
                if let Some(remote) = &mut self.remote {
                    remote.untaken = remote.untaken.saturating_sub(bytes);
                }
            }
            FromAgent::Put { entries } => {
                // Its agent keeps as many of a rank as we do.
                if !entries.into_iter().all(|entry| self.exchange.put(entry)) {
                    let reason = "it puts more values than its ranks can";
                    if let Some(remote) = &mut self.remote {
                        remote.agents.cut_off(agent);
                    }
                    self.lost(agent, Some(reason.into()));
                }
            }
            FromAgent::Fence => {
                if let Some(entries) = self.exchange.arrive(agent as u32)
                    && let Some(remote) = &mut self.remote
                {
                    for entries in portions(entries) {
                        remote.agents.say_to_all(&ToAgent::Put { entries });
                    }
                    remote.agents.say_to_all(&ToAgent::Fenced);
                }
            }
            FromAgent::Ended { clean } => {
                if let Some(remote) = &mut self.remote {
                    remote.agents.note_end(agent);
                }
                if !clean {
                    let name = self.name(agent);
                    self.output.say(&format!(
                        "weft: processes of the job that run as another user could not be ended on {name}"
                    ));
                }
            }
            FromAgent::Hello(_) | FromAgent::Leaving { .. } | FromAgent::Alive => {}
        }
    }

    fn name(&self, agent: usize) -> String {
        let remote = self.remote.as_ref();
        remote.map_or(String::new(), |remote| {
            remote.agents.agent(agent).name.clone()
        })
    }

    /// Has all agents end what they have, and hears what they have to say about it. Those that do not do so in
    /// time are named.
    pub fn end_remote(&mut self) {
        let Some(remote) = &mut self.remote else {
            return;
        };
        remote.input = None;
        remote.agents.close_reception();
        remote.agents.end();
        let deadline = Instant::now() + END;
        let left = |job: &Self| -> Vec<String> {
            let agents = job.remote.iter().flat_map(|remote| remote.agents.left());
            agents.map(|agent| agent.name.clone()).collect()
        };
        while !left(self).is_empty() {
            let look = self.remote.as_ref().and_then(Remote::next_look);
            let wake = look.map_or(deadline, |look| look.min(deadline));
            match self.wait(Some(wake)) {
                Ok(found) if !found.orphaned && Instant::now() < deadline => {
                    self.hear_remote(&found.remote);
                    self.output.forward(Instant::now());
                }
                _ => break,
            }
        }
        for name in left(self) {
            let seconds = END.as_secs();
            self.output.say(&format!(
                "weft: host {name} was told to end its ranks and has not said within {seconds} s that it did; \
                 if it lives, look there for processes of this job"
            ));
        }
    }
}
