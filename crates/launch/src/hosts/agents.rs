//! Agents of a job, as its head sees them: all [connections](connection), and the port through which more may join.

mod connection;
mod reach;

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use weft_secure::Key;
use weft_sys::poll::PollFd;

use super::join_listener::JoinListener;
use super::listen_addresses;
use super::message::{FromAgent, ToAgent};
use crate::mapping::{AgentCommand, HostSlots};
pub use connection::AgentConnection;
use connection::Turn;

/// Most that join beside those that bring ranks: whoever knows the token may come and go.
const MOST_WITHOUT_RANKS: usize = 1000;

/// An event of the agents.
#[derive(Debug)]
pub enum Event {
    /// An agent has proved the key and introduced itself.
    Introduced { agent: usize },
    /// An agent has sent a message.
    Said { agent: usize, message: FromAgent },
    /// An agent cannot be reached, or is gone; `None`: as was expected.
    Lost {
        agent: usize,
        reason: Option<String>,
    },
    /// Something to be shown to the user.
    Note(String),
}

/// One thing to wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Token {
    /// The port, and those who have not proved the token.
    JoinListener,
    /// An agent's stream may be read.
    Reading(usize),
    /// … may be written.
    Writing(usize),
    /// Its command complains.
    Errors(usize),
}

/// All agents of a job, numbered as they came.
#[derive(Debug)]
pub struct Agents {
    all: Vec<AgentConnection>,
    key: Key,
    listener: Option<JoinListener>,
    /// Most agents that may ever be.
    most: usize,
    silence: Duration,
    /// Nothing was read in the last turn, on purpose.
    held_up: bool,
}

impl Agents {
    /// None yet.
    ///
    /// # Errors
    /// If the kernel has no random bytes.
    pub fn none(silence: Duration) -> io::Result<Self> {
        Ok(Self {
            all: Vec::new(),
            key: Key::random()?,
            listener: None,
            most: MOST_WITHOUT_RANKS,
            silence,
            held_up: false,
        })
    }

    /// Listens for agents that join with this token, at most as many as there are ranks.
    ///
    /// # Errors
    /// If that is no address of this host, or the port is taken.
    pub fn listen(&mut self, listen: &str, token: Key, ranks: u32) -> io::Result<String> {
        let listener = JoinListener::open(listen, token, ranks as usize)?;
        let address = listener.address();
        self.listener = Some(listener);
        self.most = MOST_WITHOUT_RANKS + ranks as usize;
        Ok(address)
    }

    /// Starts an agent on a host.
    ///
    /// # Errors
    /// If its command cannot be started.
    pub fn start(&mut self, host: &HostSlots, way: &AgentCommand) -> io::Result<()> {
        self.all.push(AgentConnection::start(host, way)?);
        Ok(())
    }

    /// Listens at all addresses of this host for agents that join with this token, at most this many. Returns the address
    /// for them.
    ///
    /// # Errors
    /// If the kernel refuses, or this host has no network.
    pub fn listen_to_hosts(&mut self, token: Key, hosts: u32) -> io::Result<Vec<SocketAddr>> {
        let way = listen_addresses::listen(None, 0)?;
        let (listener, addresses) =
            way.ok_or_else(|| io::Error::other("this host has no network that others reach"))?;
        self.listener = Some(JoinListener::over(listener, token, hosts as usize)?);
        self.most = MOST_WITHOUT_RANKS + hosts as usize;
        Ok(addresses)
    }

    /// Number of agents.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// One of them.
    pub fn agent(&self, agent: usize) -> &AgentConnection {
        &self.all[agent]
    }

    /// Notes that all ranks of an agent have ended.
    pub fn note_end(&mut self, agent: usize) {
        self.all[agent].note_end();
    }

    /// Lets no further agent in; returns how many were turned away.
    pub fn close_listener(&mut self) -> u64 {
        let closed = self.listener.take();
        closed.map_or(0, |listener| listener.turned_away())
    }

    /// Sends a message to an agent; lost if the agent is gone.
    pub fn say(&mut self, agent: usize, message: &ToAgent) {
        self.all[agent].say(message);
    }

    /// … to all.
    pub fn say_to_all(&mut self, message: &ToAgent) {
        for agent in &mut self.all {
            agent.say(message);
        }
    }

    /// … to each its own, if there is one for it.
    pub fn say_by<'m>(&mut self, message: impl Fn(usize) -> Option<&'m ToAgent>) {
        for (index, agent) in self.all.iter_mut().enumerate() {
            if let Some(message) = message(index) {
                agent.say(message);
            }
        }
    }

    /// Reads no more from an agent that has sent something invalid.
    pub fn cut_off(&mut self, agent: usize) {
        self.all[agent].cut_off();
    }

    /// Tells all to end their ranks.
    pub fn end(&mut self) {
        for agent in &mut self.all {
            agent.end();
        }
    }

    /// The descriptors to wait for. If `listening` is false, messages of agents are left for later: our own output is
    /// blocked.
    pub fn entries(&self, listening: bool) -> Vec<(Token, PollFd<'_>)> {
        let mut found = Vec::new();
        if let Some(listener) = &self.listener {
            found.extend(listener.entries().map(|entry| (Token::JoinListener, entry)));
        }
        for (index, agent) in self.all.iter().enumerate() {
            found.extend(agent.entries(index, listening));
        }
        found
    }

    /// When to come back at the latest.
    pub fn next_look(&self) -> Option<Instant> {
        let listener = self.listener.as_ref().and_then(JoinListener::next_look);
        let agents = self.all.iter().filter_map(AgentConnection::next_look);
        agents.chain(listener).min()
    }

    /// Goes on: `ready` are the answers to [`entries`](Self::entries), in their order.
    pub fn proceed(&mut self, ready: &[(Token, bool)], listening: bool) -> Vec<Event> {
        let now = Instant::now();
        let mut events = Vec::new();
        self.let_in(ready, now);
        let turn = Turn {
            key: &self.key,
            silence: self.silence,
            reading_paused: !listening || self.held_up,
            now,
        };
        let is_ready = |wanted| ready.contains(&(wanted, true));
        for (index, agent) in self.all.iter_mut().enumerate() {
            if is_ready(Token::Errors(index)) {
                agent.read_error_output(&mut events);
            }
            agent.proceed(index, is_ready(Token::Reading(index)), turn, &mut events);
        }
        self.held_up = !listening;
        events
    }

    /// Takes over those who have proved the token.
    fn let_in(&mut self, ready: &[(Token, bool)], now: Instant) {
        let Some(listener) = &mut self.listener else {
            return;
        };
        let at_port = ready
            .iter()
            .filter(|(token, _)| *token == Token::JoinListener);
        let at_port: Vec<bool> = at_port.map(|(_, ready)| *ready).collect();
        for link in listener.proceed(&at_port, now, self.silence) {
            if self.all.len() < self.most {
                self.all.push(AgentConnection::joined(link, now));
            } else {
                listener.note_turned_away();
            }
        }
    }

    /// The agents that are still connected and have not reported the end of all their ranks.
    pub fn left(&self) -> impl Iterator<Item = &AgentConnection> {
        self.all.iter().filter(|agent| agent.is_left())
    }

    /// Sends what is left to send, and closes all connections; each takes at most the limit.
    pub fn part(&mut self, last: &ToAgent, limit: Duration) {
        for agent in &mut self.all {
            agent.part(last, limit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By this command.
    fn way(command: &[&str]) -> AgentCommand {
        AgentCommand {
            command: command.iter().map(Into::into).collect(),
            prefix: None,
        }
    }

    #[test]
    fn a_command_that_starts_no_agent_gives_its_complaint_as_reason() {
        let mut agents = Agents::none(Duration::from_secs(20)).expect("random");
        let host = HostSlots::parse("elsewhere").expect("a host");
        let command = ["sh", "-c", "echo noise; echo 'no way there' >&2; exit 3"];
        agents
            .start(&host, &way(&command))
            .expect("there is a shell");
        let reason = loop {
            let mut found = agents.entries(true);
            let (tokens, mut entries): (Vec<_>, Vec<_>) = found.drain(..).unzip();
            weft_sys::poll::wait(&mut entries, Some(Duration::from_secs(20))).expect("polls");
            let ready: Vec<_> = tokens
                .into_iter()
                .zip(entries.iter().map(PollFd::is_ready))
                .collect();
            drop(entries);
            let events = agents.proceed(&ready, true);
            if let Some(Event::Lost { reason, .. }) = events.into_iter().next() {
                break reason;
            }
        };
        assert_eq!(reason.as_deref(), Some("no way there"));
        assert_eq!(agents.left().count(), 0);
    }

    #[test]
    fn nobody_waits_for_the_end_of_an_agent_that_has_not_come() {
        let mut agents = Agents::none(Duration::from_secs(20)).expect("random");
        let host = HostSlots::parse("elsewhere").expect("a host");
        let way = way(&["sh", "-c", "read key"]);
        agents.start(&host, &way).expect("there is a shell");
        assert_eq!(agents.left().count(), 1);
        agents.end();
        assert_eq!(agents.left().count(), 0);
    }
}
