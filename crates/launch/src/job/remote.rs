//! Remote hosts of a job: agents start the ranks there, and report what happens to them.
//!
//! | file | what |
//! |---|---|
//! | `gathering`, `distribution` | how agents come, and which ranks each has |
//! | `assignments` | what each agent is told to start |
//! | `ranks` | the ranks as their agents report them |
//! | `spawning` | processes that are started later, ports and services |
//! | `standstills`, `stopping` | that no rank can go on, and how that is told |
//! | `fences` | values that ranks exchange, and which hosts are waited for |
//! | `ends` | how processes have ended, for the ranks of other hosts |
//! | `input`, `profiles` | standard input of rank 0; where the ranks' time goes |
//! | here | what follows from a message of an agent |

mod assignments;
mod distribution;
mod ends;
mod fences;
mod gathering;
mod input;
mod profiles;
mod ranks;
mod spawning;
mod standstills;
mod stopping;

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use weft_secure::Key;
use weft_sys::poll::PollFd;
use weft_sys::process;

use super::local::END;
use super::outcome::Failure;
use super::output::OutputKind;
use super::rank_hosts::{Event, RankHosts, Token};
use crate::adoption::AdoptedHosts;
use crate::exchange::{PublishedValue, portions};
use crate::hosts::agents::{self, Agents};
use crate::hosts::message::{FromAgent, ToAgent};
use crate::mapping::Allocation;
use crate::options::Input;
use crate::plan::Plan;
use crate::profile::RankRecord;
use crate::{rank_processes, tree};
use assignments::{Assignee, Assignments, Common};
use ends::Ends;
use fences::HostFences;
use gathering::Gathering;
use input::RemoteInput;
use profiles::RemoteProfiles;
use spawning::{Consequences, RemoteSpawning};
use standstills::Standstills;

pub use ranks::{RemoteRanks, mixed};

/// How long the last word to each may take.
const DRAIN_TIME: Duration = Duration::from_millis(500);

/// The agents of a job, and what it has given them.
pub struct RemoteHosts<'a> {
    plan: &'a Plan,
    agents: Agents,
    gathering: Gathering<'a>,
    /// The key of the fabric.
    key: Key,
    input: RemoteInput,
    fences: HostFences,
    /// Processes that are started later, ports and services.
    spawning: RemoteSpawning,
    ranks: RemoteRanks,
    ends: Ends,
    standstills: Standstills,
    profiles: RemoteProfiles,
}

impl<'a> RemoteHosts<'a> {
    /// Agents for a plan; none is started yet.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn new(plan: &'a Plan) -> io::Result<Self> {
        rank_processes::make_room(plan.ranks());
        Ok(Self {
            plan,
            agents: Agents::none(plan.silence)?,
            gathering: Gathering::new(plan),
            key: Key::random()?,
            input: RemoteInput::default(),
            fences: HostFences::new(0),
            spawning: RemoteSpawning::new(plan),
            ranks: RemoteRanks::default(),
            ends: Ends::default(),
            standstills: Standstills::new(plan.on_deadlock, Instant::now()),
            profiles: RemoteProfiles::default(),
        })
    }

    /// For ranks that are there already, whose agents come.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn adopt(plan: &'a Plan, hosts: AdoptedHosts) -> io::Result<Self> {
        let mut remote = Self::new(plan)?;
        remote.key = hosts.key.clone();
        remote.gathering.await_arrival(hosts);
        Ok(remote)
    }

    fn name(&self, agent: usize) -> &str {
        self.agents.agent(agent).name()
    }

    /// Assigns the ranks to their agents, once enough are here. False if they are not.
    fn assign(&mut self) -> bool {
        if !self.gathering.complete(&self.agents) {
            return false;
        }
        let distribution = self.gathering.distribution();
        let agents = &self.agents;
        let described = |agent| {
            let connection = agents.agent(agent);
            let hello = connection.hello();
            let host = hello.map_or_else(String::new, |hello| hello.host.clone());
            Assignee {
                agent,
                names: [connection.name().to_owned(), host],
                has_programs: hello.is_some_and(|hello| hello.program),
            }
        };
        let assignments = Assignments::new(self.plan, distribution, described);
        let hosts = assignments.hosts();
        self.fences = HostFences::new(hosts.len() as u32);
        let common = Common {
            key: &self.key,
            room: self.spawning.assign(hosts),
            capacity: self.spawning.capacity(),
            watched: self.standstills.are_watched(),
            input: self.input.is_open(),
        };
        for (agent, assignment) in assignments.all(&common) {
            for (rank, _) in &assignment.ranks {
                self.ranks.assign(agent, *rank);
            }
            let start = ToAgent::Start(Box::new(assignment));
            self.agents.say(agent, &start);
            if self.plan.profile.is_any() {
                self.agents.say(agent, &RemoteProfiles::ask_clock());
            }
        }
        true
    }

    /// An agent has said who it is.
    fn greet(&mut self, agent: usize, events: &mut Vec<Event>) {
        let Some(hello) = self.agents.agent(agent).hello().cloned() else {
            return;
        };
        let agents = &mut self.agents;
        if !self.gathering.welcome(agent, &hello, agents, events) {
            return;
        }
        if self.plan.verbose {
            let (name, host) = (self.name(agent), &hello.host);
            let ranks = self.gathering.distribution().ranks(agent);
            let ranks: Vec<String> = ranks.iter().map(u32::to_string).collect();
            let ranks = ranks.join(", ");
            let name = match *name == **host {
                true => name.to_string(),
                false => format!("{name} ({host})"),
            };
            events.push(Event::Note(format!("{name} is here, for ranks {ranks}")));
        }
        if self.assign() {
            events.push(Event::Assigned);
            let away = self.agents.close_listener();
            if away > 0 {
                events.push(Event::Note(format!(
                    "{away} connections were turned away: they did not prove the token"
                )));
            }
        }
    }

    /// An agent is gone; without a reason if that was expected.
    fn lose(&mut self, agent: usize, reason: Option<String>, events: &mut Vec<Event>) {
        let Some(reason) = reason else {
            return;
        };
        let host = self.name(agent).to_owned();
        self.agents.note_end(agent);
        self.ranks.lose(agent);
        self.standstills.lose(agent);
        if !self.gathering.is_over() {
            events.extend(self.gathering.lose(agent, host, reason));
            return;
        }
        let mut ranks = self.gathering.distribution().ranks(agent).to_vec();
        ranks.extend(self.spawning.running(agent));
        let then = self.spawning.lose_host(agent, &host, &ranks, self.plan);
        events.push(Event::HostLost {
            host,
            ranks,
            reason,
        });
        self.carry_out(then, events);
    }

    /// The agent that has a process, of those that the job starts with or of later ones.
    fn agent_of(&self, rank: u32) -> Option<usize> {
        let first = self.gathering.distribution().agent(rank);
        first.or_else(|| self.spawning.agent(rank))
    }

    /// All ranks of the job that are left have come to a fence, before which these values were put.
    fn open_fence(&mut self, values: Vec<PublishedValue>) {
        let fences = &self.fences;
        let mut say = |message: ToAgent| {
            (self.agents).say_by(|agent| fences.may_wait(agent).then_some(&message));
        };
        for values in portions(values) {
            say(ToAgent::Put { values });
        }
        say(ToAgent::Fenced);
    }

    /// Says and does what follows from what was said about later processes.
    fn carry_out(&mut self, then: Consequences, events: &mut Vec<Event>) {
        for (agent, message) in then.say {
            self.agents.say(agent, &message);
        }
        events.extend(then.events);
        self.end_ranks(&then.end);
        for (rank, answer) in then.answers {
            if let Some(agent) = self.agent_of(rank) {
                self.agents.say(agent, &ToAgent::Answer { rank, answer });
            }
        }
    }

    /// What an agent says that may say it: see [`hosts::protocol`](crate::hosts::protocol).
    fn hear(&mut self, agent: usize, message: FromAgent, events: &mut Vec<Event>) {
        match message {
            FromAgent::Started {
                rank,
                process,
                cores,
            } => {
                self.ranks.start(agent, rank, process);
                let name = self.name(agent);
                let told = cores.map(|cores| Event::Note(format!("rank {rank} on {name} {cores}")));
                events.push(Event::Started {
                    rank,
                    process,
                    detail: format!(" on {name}"),
                    outputs: None,
                });
                events.extend(told);
            }
            FromAgent::NotStarted { rank, reason } => {
                events.push(Event::Failed(Failure::NotStarted { rank, reason }));
            }
            FromAgent::Output { rank, error, bytes } => {
                let kind = OutputKind::of_error(error);
                events.push(Event::Output { rank, kind, bytes });
            }
            FromAgent::Notice { rank, told } => {
                self.ranks.tell(rank, &told);
                events.push(Event::Notice { rank, told });
            }
            FromAgent::Rest { shown } => self.ranks.rest(agent, shown),
            FromAgent::Waits { rank, waits } => {
                self.standstills.hear(rank, &waits, Instant::now());
                let waits = *waits;
                events.push(Event::Waits { rank, waits });
            }
            FromAgent::Exited { rank, status } => {
                self.ranks.end(rank);
                self.ends.note(rank, status);
                let then = self.spawning.end(rank);
                let ended = vec![(rank, ExitStatus::from_raw(status))];
                events.push(Event::Exited { ended });
                events.extend(then);
            }
            FromAgent::Asked { rank, request } => {
                let then = self.spawning.serve(rank, request);
                self.carry_out(then, events);
            }
            FromAgent::Room(room) => {
                let then = self.spawning.hear_room(self.plan, agent, room);
                self.carry_out(then, events);
            }
            FromAgent::StartedLater { processes, reason } => {
                for (number, process) in &processes {
                    self.ranks.start(agent, *number, *process);
                }
                let name = self.name(agent).to_owned();
                let then = self.spawning.started(agent, &name, processes, reason);
                self.carry_out(then, events);
            }
            FromAgent::AddressesRecorded => {
                let then = self.spawning.recorded(agent);
                self.carry_out(then, events);
            }
            FromAgent::Clock { asked, now } => {
                if self.standstills.hear_clock(agent, asked) {
                    return;
                }
                if self.profiles.hear_clock(agent, asked, now) {
                    self.agents.say(agent, &RemoteProfiles::ask_clock());
                }
            }
            FromAgent::Profile { rank, piece, last } => {
                let host = self.name(agent).to_owned();
                self.profiles.hear(agent, &host, rank, (&piece, last));
            }
            FromAgent::InputTaken { bytes } => self.input.note_taken(bytes),
            FromAgent::Put { values } => {
                // Its agent keeps as many of a rank as we do.
                if !values.into_iter().all(|value| self.fences.put(value)) {
                    let reason = "it puts more values than its ranks can";
                    self.agents.cut_off(agent);
                    self.lose(agent, Some(reason.into()), events);
                }
            }
            FromAgent::Fence => {
                if let Some(values) = self.fences.arrive(agent) {
                    self.open_fence(values);
                }
            }
            FromAgent::Ended { clean } => {
                self.agents.note_end(agent);
                if !clean {
                    events.push(Event::Note(format!(
                        "processes of the job that run as another user could not be ended on {}",
                        self.name(agent)
                    )));
                }
            }
            FromAgent::Hello(_) | FromAgent::Leaving { .. } | FromAgent::Alive => {}
        }
    }
}

impl RankHosts for RemoteHosts<'_> {
    fn start(&mut self, input: Option<OwnedFd>) -> Vec<Event> {
        if self.plan.input == Input::First {
            let ours = || io::stdin().as_fd().try_clone_to_owned();
            let input = input.map_or_else(ours, Ok);
            self.input = RemoteInput::new(input.ok().map(File::from));
        }
        let plan = self.plan;
        let agents = &mut self.agents;
        let event = match &plan.allocation {
            Allocation::ThisHost => None,
            Allocation::Adopted => self.gathering.listen_to_hosts(agents).err().map(|error| {
                Event::Failed(Failure::NotReady {
                    reason: error.to_string(),
                })
            }),
            Allocation::Started { hosts, way } => self
                .gathering
                .start_agents(hosts, way, agents)
                .err()
                .map(Event::Failed),
            Allocation::Joined { listen, token_file } => Some(
                match self.gathering.listen(listen, token_file.as_deref(), agents) {
                    Ok(note) => Event::Note(note),
                    Err(error) => Event::Failed(Failure::NotReady {
                        reason: error.to_string(),
                    }),
                },
            ),
        };
        event.into_iter().collect()
    }

    fn entries(&self, held_up: bool) -> Vec<(Token, PollFd<'_>)> {
        let agents = self.agents.entries(!held_up);
        let mut found: Vec<_> = agents
            .into_iter()
            .map(|(token, entry)| (Token::Agents(token), entry))
            .collect();
        let input = self.input.entry().filter(|_| self.gathering.is_over());
        found.extend(input.map(|entry| (Token::Input, entry)));
        let asker = self.gathering.asker();
        found.extend(asker.map(|entry| (Token::Asker, entry)));
        found
    }

    fn next_look(&self) -> Option<Instant> {
        let looks = [
            self.agents.next_look(),
            self.spawning.next_look(),
            self.standstills.next_look(),
            self.gathering.next_look(),
        ];
        looks.into_iter().flatten().min()
    }

    fn proceed(&mut self, ready: &[(Token, bool)], held_up: bool) -> Vec<Event> {
        let mut events = Vec::new();
        if ready.contains(&(Token::Input, true))
            && let Some((bytes, trouble)) = self.input.read()
            && let Some(first) = self.gathering.distribution().agent(0)
        {
            self.agents.say(first, &ToAgent::Input { bytes });
            let told = |error| {
                format!("standard input could not be read: {error}; it ends there for rank 0")
            };
            events.extend(trouble.map(told).map(Event::Note));
        }
        let tokens = ready.iter().filter_map(|(token, ready)| match token {
            Token::Agents(token) => Some((*token, *ready)),
            Token::Control(_)
            | Token::Adopted(_)
            | Token::OtherRanks
            | Token::Input
            | Token::Asker => None,
        });
        let tokens: Vec<_> = tokens.collect();
        let found = self.agents.proceed(&tokens, !held_up);
        for event in found {
            match event {
                agents::Event::Note(text) => {
                    events.extend(text.lines().map(|line| Event::Note(line.to_owned())));
                }
                agents::Event::Introduced { agent } => self.greet(agent, &mut events),
                agents::Event::Lost { agent, reason } => self.lose(agent, reason, &mut events),
                agents::Event::Said { agent, message } => self.hear(agent, message, &mut events),
            }
        }
        let asker_is_gone = ready.contains(&(Token::Asker, true));
        events.extend(self.gathering.look_after_arrival(asker_is_gone));
        let then = self.spawning.look();
        self.carry_out(then, &mut events);
        let with_ranks = self.gathering.distribution().agents();
        let told = (self.standstills).look(&mut self.ranks, &mut self.agents, with_ranks);
        events.extend(told);
        events
    }

    fn reap(&mut self) -> Vec<Event> {
        // The commands by which hosts are reached: that they have ended shows in their streams.
        while let Ok(Some(_)) = process::reap() {}
        Vec::new()
    }

    fn signal(&mut self, number: i32) {
        self.agents.say_to_all(&ToAgent::Signal { number });
    }

    fn close_output(&mut self, rank: u32, kind: OutputKind) {
        if let Some(agent) = self.agent_of(rank) {
            let error = kind == OutputKind::Error;
            self.agents
                .say(agent, &ToAgent::CloseOutput { rank, error });
        }
    }

    fn end_ranks(&mut self, ranks: &[u32]) {
        let agents: BTreeSet<usize> = ranks
            .iter()
            .filter_map(|rank| self.agent_of(*rank))
            .collect();
        for agent in agents {
            let there = |rank: &&u32| self.agent_of(**rank) == Some(agent);
            let ranks = ranks.iter().filter(there).copied().collect();
            self.agents.say(agent, &ToAgent::EndRanks { ranks });
        }
    }

    fn announce_end(&mut self, rank: u32, in_order: bool) {
        // Its host knows the rest.
        let here = ToAgent::AnnounceEnd { rank, in_order };
        let end = self.ends.take(rank, in_order);
        let elsewhere = ToAgent::AnnounceRemoteEnd { rank, end };
        let host = self.agent_of(rank);
        self.agents.say_by(|agent| match Some(agent) == host {
            true => Some(&here),
            false => Some(&elsewhere),
        });
        let first = self.gathering.distribution();
        if let Some(agent) = first.agent(rank)
            && let Some(values) = self.fences.note_end(rank, (agent, first.ranks(agent)))
        {
            self.open_fence(values);
        }
    }

    fn announce_absence(&mut self, world: u32) {
        self.agents.say_to_all(&ToAgent::AnnounceAbsence { world });
    }

    fn lose_world(&mut self, world: u32, reason: &str) {
        self.spawning.lose(world, reason);
        self.announce_absence(world);
    }

    fn restart(&mut self, _rank: u32) -> Result<(u32, Option<[File; 2]>), String> {
        Err("it is on another host".into())
    }

    fn inquire(&mut self) {
        self.ranks.inquire(&mut self.agents, true);
    }

    fn host(&self, rank: u32) -> Option<&str> {
        Some(self.name(self.agent_of(rank)?))
    }

    fn begin_end(&mut self) {
        self.input.close();
        self.agents.close_listener();
        self.agents.end();
    }

    fn unfinished(&self) -> Vec<String> {
        let left = self.agents.left();
        left.map(|agent| agent.name().to_owned()).collect()
    }

    fn kill(&mut self) -> (Vec<Event>, bool) {
        (Vec::new(), tree::end(&[], END, |_, _| {}))
    }

    fn read_rest(&mut self) -> Vec<Event> {
        Vec::new()
    }

    fn take_profiles(&mut self) -> Vec<RankRecord> {
        self.profiles.take()
    }

    fn part(&mut self, code: u8) {
        self.agents.part(&ToAgent::Over { code }, DRAIN_TIME);
    }
}
