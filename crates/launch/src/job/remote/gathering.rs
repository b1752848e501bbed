//! Gathering of a job's hosts: agents connect, and get ranks, until all ranks have an agent.
//!
//! ```text
//!   agents are started on hosts │ join │ have ranks that are there already ──► is_complete ──► over: the distribution stands
//! ```

use std::ffi::OsStr;
use std::io;
use std::time::{Duration, Instant};

use weft_sys::passing;
use weft_sys::poll::{Interest, PollFd};

use super::distribution::Distribution;
use crate::adoption::AdoptedHosts;
use crate::control::{ANSWER, Answer};
use crate::hosts::agents::Agents;
use crate::hosts::message::{Hello, ToAgent};
use crate::hosts::{listen_addresses, token};
use crate::job::outcome::Failure;
use crate::job::rank_hosts::Event;
use crate::mapping::{AgentCommand, Allocation, HostSlots, distribute};
use crate::plan::Plan;

/// How long the agents of ranks that are there already may take to come.
const PATIENCE: Duration = Duration::from_secs(30);

/// How ranks come to this launcher that another one has started on several hosts.
struct Arrival {
    hosts: AdoptedHosts,
    /// By when all must have come.
    until: Instant,
}

/// Gathering of a job's hosts: which ranks each agent has.
pub struct Gathering<'a> {
    plan: &'a Plan,
    /// Final once it is over.
    distribution: Distribution,
    /// All ranks have an agent, which is here.
    is_over: bool,
    /// While ranks that are there already are waited for.
    arrival: Option<Arrival>,
}

impl<'a> Gathering<'a> {
    /// That of a job; nobody has come.
    pub fn new(plan: &'a Plan) -> Self {
        Self {
            plan,
            distribution: Distribution::default(),
            is_over: false,
            arrival: None,
        }
    }

    /// The agents of these hosts come, whose ranks are there already.
    pub fn await_arrival(&mut self, hosts: AdoptedHosts) {
        let until = Instant::now() + PATIENCE;
        self.arrival = Some(Arrival { hosts, until });
    }

    /// Which ranks each agent has.
    pub fn distribution(&self) -> &Distribution {
        &self.distribution
    }

    /// Whether the ranks were assigned to their agents.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Starts agents on those hosts that get a rank.
    pub fn start_agents(
        &mut self,
        hosts: &[HostSlots],
        way: &AgentCommand,
        agents: &mut Agents,
    ) -> Result<(), Failure> {
        let size = self.plan.ranks();
        let mapped = distribute(hosts, size, self.plan.cyclic);
        for (index, host) in hosts.iter().enumerate() {
            let own = (0..size).filter(|rank| mapped[*rank as usize] as usize == index);
            let own: Vec<u32> = own.collect();
            if own.is_empty() {
                continue;
            }
            self.distribution.give_these(agents.count(), own);
            let started = agents.start(host, way);
            started.map_err(|error| Failure::HostLost {
                host: host.name.clone(),
                ranks: Vec::new(),
                reason: error.to_string() + &to_try(host, way),
            })?;
        }
        Ok(())
    }

    /// Opens the port through which agents come; answers what to tell the user.
    pub fn listen(
        &self,
        listen: &str,
        token_file: Option<&OsStr>,
        agents: &mut Agents,
    ) -> io::Result<String> {
        let size = self.plan.ranks();
        let token = token::obtain(token_file)?;
        let address = agents.listen(listen, token.clone(), size)?;
        let how = match token_file {
            Some(file) => format!("--token-file {}", file.display()),
            None => format!("--token {}", token.to_text()),
        };
        Ok(format!(
            "waiting for {size} ranks: weft join {how} {address}"
        ))
    }

    /// Opens the port through which the agents of ranks come that are there already, and says where it is to who has asked.
    pub fn listen_to_hosts(&self, agents: &mut Agents) -> io::Result<()> {
        let Some(arrival) = &self.arrival else {
            return Ok(());
        };
        let key = arrival.hosts.key.clone();
        let addresses = agents.listen_to_hosts(key, self.plan.ranks())?;
        let text = listen_addresses::text(&addresses, ANSWER / 2).unwrap_or_default();
        let answer = Answer::Value(Some(text.into_bytes()));
        passing::send(&arrival.hosts.control, &answer.encode(), &[]).map(drop)
    }

    /// The process that has asked for the arrival of ranks that are there already; it may be gone.
    pub fn asker(&self) -> Option<PollFd<'_>> {
        let arrival = self.arrival.as_ref()?;
        Some(PollFd::new(&arrival.hosts.control, Interest::Nothing))
    }

    /// When to [look](Self::look_after_arrival) at the latest.
    pub fn next_look(&self) -> Option<Instant> {
        self.arrival.as_ref().map(|arrival| arrival.until)
    }

    /// Gives up if not all ranks that are there already have come in time, or who has asked for this is gone.
    pub fn look_after_arrival(&mut self, gone: bool) -> Option<Event> {
        let arrival = self.arrival.as_ref()?;
        if !gone && Instant::now() < arrival.until {
            return None;
        }
        self.arrival = None;
        let missing = (0..self.plan.ranks()).find(|rank| self.distribution.agent(*rank).is_none());
        let reason = match missing.filter(|_| !gone) {
            Some(rank) => format!(
                "no launcher for the processes that this job starts: the host of rank {rank} has not come within {} s",
                PATIENCE.as_secs()
            ),
            None => "no launcher for the processes that this job starts: rank 0 has ended".into(),
        };
        Some(Event::Failed(Failure::NotReady { reason }))
    }

    /// An agent has said who it is. False if it is sent away.
    pub fn welcome(
        &mut self,
        agent: usize,
        hello: &Hello,
        agents: &mut Agents,
        events: &mut Vec<Event>,
    ) -> bool {
        match self.plan.allocation {
            // One that was started has its ranks already.
            Allocation::Started { .. } => true,
            Allocation::Adopted => self.take_in(agent, hello.adopted.clone(), agents, events),
            Allocation::ThisHost | Allocation::Joined { .. } => {
                self.accept(agent, hello, agents, events)
            }
        }
    }

    /// Takes in an agent with ranks that are there already. False if it is sent away: they are none, or others have them.
    fn take_in(
        &mut self,
        agent: usize,
        ranks: Vec<u32>,
        agents: &mut Agents,
        events: &mut Vec<Event>,
    ) -> bool {
        let is_free =
            |rank: &u32| *rank < self.plan.ranks() && self.distribution.agent(*rank).is_none();
        if self.is_over || ranks.is_empty() || !ranks.iter().all(is_free) {
            let what = "the job does not miss the ranks that it brings";
            send_away(agent, what, agents, events);
            return false;
        }
        self.distribution.give_these(agent, ranks);
        true
    }

    /// Gives ranks to an agent that has joined. False if it is sent away.
    fn accept(
        &mut self,
        agent: usize,
        hello: &Hello,
        agents: &mut Agents,
        events: &mut Vec<Event>,
    ) -> bool {
        let missing = self.plan.ranks() - self.distribution.given();
        let gets = match hello.ranks {
            0 => missing,
            offered => offered.min(missing),
        };
        let no_program = self.plan.programs[0].words.is_empty() && !hello.program;
        if gets > 0 && gets < hello.ranks && !no_program {
            events.push(Event::Note(format!(
                "{} offers {} ranks; the job needs {gets} more",
                agents.agent(agent).name(),
                hello.ranks
            )));
        }
        if gets == 0 || self.is_over || no_program {
            let what = if no_program {
                "it names no program to run, and neither does this job: write one after the address"
            } else {
                "the job has all its ranks"
            };
            send_away(agent, what, agents, events);
            return false;
        }
        self.distribution.give(agent, gets);
        true
    }

    /// Whether enough agents are here: then their ranks stand, and it is over. False if that was so before.
    pub fn complete(&mut self, agents: &Agents) -> bool {
        let here = |agent: usize| agents.agent(agent).hello().is_some();
        if self.is_over
            || self.distribution.given() < self.plan.ranks()
            || !self.distribution.agents().all(here)
        {
            return false;
        }
        self.is_over = true;
        if let Some(arrival) = self.arrival.take() {
            // The process that has asked is gone, or hears that it is done.
            let _ = passing::send(&arrival.hosts.control, &Answer::Taken.encode(), &[]);
        }
        true
    }

    /// An agent is gone before it is over. What follows from that; `None` if that is nothing.
    pub fn lose(&mut self, agent: usize, host: String, mut reason: String) -> Option<Event> {
        match &self.plan.allocation {
            Allocation::Started { hosts, way } => {
                let known = hosts.iter().find(|known| known.name == host);
                reason += &known.map_or(String::new(), |host| to_try(host, way));
                Some(Event::HostLost {
                    host,
                    ranks: Vec::new(),
                    reason,
                })
            }
            Allocation::Adopted => {
                // Another agent of its host may come.
                self.distribution.give_these(agent, Vec::new());
                None
            }
            Allocation::ThisHost | Allocation::Joined { .. } => {
                // Nobody who joins later is missed.
                self.distribution.take_back(agent);
                Some(Event::Note(format!("{host} has left: {reason}")))
            }
        }
    }
}

/// Nothing is left for an agent to do here.
fn send_away(agent: usize, what: &str, agents: &mut Agents, events: &mut Vec<Event>) {
    let name = agents.agent(agent).name();
    events.push(Event::Note(format!("{name} is sent away: {what}")));
    agents.note_end(agent);
    agents.say(agent, &ToAgent::Over { code: 1 });
}

/// What shows, without a job, whether a host can be reached.
fn to_try(host: &HostSlots, way: &AgentCommand) -> String {
    if host.is_here() {
        return String::new();
    }
    let weft = way.weft().unwrap_or_default();
    let words: Vec<_> = way
        .command
        .iter()
        .map(|word| word.to_string_lossy())
        .collect();
    format!(
        "; this must work from here, and ask nothing: {} {} {} --version",
        words.join(" "),
        host.address(),
        weft.display()
    )
}
