//! Connection to one agent, as the head of the job sees it: its state, the agent's messages, and why it is lost.
//!
//! ```text
//!   started:  Starting ── its mark came: the key goes ──▶ Proving ──▶ Connected ──▶ Gone
//!   joined:                                          (join listener) ──▶ Connected ──▶ Gone
//! ```
//!
//! A shell between the head and a started agent may print something first: everything up to the mark is passed on to
//! standard error. The command's own complaints are kept for the error message in case no agent comes.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::time::{Duration, Instant};

use weft_secure::Key;
use weft_sys::poll::{Interest, PollFd};

use super::reach::{Reached, reach};
use super::{Event, Token};
use crate::bootstrap::one_word;
use crate::hosts::handshake::LinkHandshake;
use crate::hosts::link::{Link, LinkError, Streams};
use crate::hosts::message::{FromAgent, Hello, MARK, RELEASE, ToAgent};
use crate::hosts::protocol::{self, Protocol};
use crate::mapping::{AgentCommand, HostSlots};
use crate::signals;

/// Bytes that may come before the mark.
const NOISE: usize = 64 << 10;
/// A command that has started no agent after so long is mentioned, and waited for: it may ask somebody.
const SLOW: Duration = Duration::from_secs(10);
/// How long an agent that has begun may take to prove the key, and then to say who it is.
const PATIENCE: Duration = Duration::from_secs(10);

/// How far an agent is.
#[derive(Debug)]
enum Phase {
    /// Its command was started.
    Starting {
        input: File,
        output: File,
        noise: Vec<u8>,
    },
    Proving(Box<LinkHandshake>),
    Connected(Box<Link>),
    Gone,
}

/// One agent.
#[derive(Debug)]
pub struct AgentConnection {
    /// As the user calls its host; for one that joined as it calls itself, once it has.
    name: Option<String>,
    /// Its own introduction, once it has come.
    hello: Option<Hello>,
    /// All of its ranks have ended, and it has said everything.
    ended: bool,
    phase: Phase,
    /// What it may say.
    protocol: Protocol,
    /// When it must have said who it is; `None` before it has proved the key, and once it has.
    introduces: Option<Instant>,
    /// When to mention that it is not here yet; `None` once that was done.
    slow: Option<Instant>,
    /// What its command complains about.
    errors: Option<File>,
    error_output: Vec<u8>,
    /// Why it leaves, if it has said so.
    leaving_reason: Option<String>,
}

/// Data for all agents in one turn.
#[derive(Clone, Copy, Debug)]
pub struct Turn<'a> {
    /// Proves that an agent that was started is ours.
    pub key: &'a Key,
    /// After so long without a word an agent is dead.
    pub silence: Duration,
    /// Their messages were not read, in this turn or the last one, on purpose.
    pub reading_paused: bool,
    /// When it began.
    pub now: Instant,
}

impl AgentConnection {
    fn new(name: Option<String>, phase: Phase) -> Self {
        Self {
            name,
            hello: None,
            ended: false,
            phase,
            protocol: Protocol::new(),
            introduces: None,
            slow: None,
            errors: None,
            error_output: Vec::new(),
            leaving_reason: None,
        }
    }

    /// Starts an agent on a host.
    ///
    /// # Errors
    /// If its command cannot be started.
    pub fn start(host: &HostSlots, way: &AgentCommand) -> io::Result<Self> {
        let Reached {
            input,
            output,
            errors,
        } = reach(host, way)?;
        let phase = Phase::Starting {
            input,
            output,
            noise: Vec::new(),
        };
        Ok(Self {
            slow: Some(Instant::now() + SLOW),
            errors: Some(errors),
            ..Self::new(Some(one_word(&host.name)), phase)
        })
    }

    /// An agent that has joined, and has proved the token.
    pub fn joined(link: Link, now: Instant) -> Self {
        let mut agent = Self::new(None, Phase::Gone);
        agent.link(link, now);
        agent
    }

    /// It has proved the key.
    fn link(&mut self, mut link: Link, now: Instant) {
        link.set_longest(protocol::LONGEST);
        self.introduces = Some(now + PATIENCE);
        self.phase = Phase::Connected(Box::new(link));
    }

    /// The name of its host, for people.
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or("?")
    }

    /// Its introduction, once it has come.
    pub fn hello(&self) -> Option<&Hello> {
        self.hello.as_ref()
    }

    /// Notes that all of its ranks have ended, and that it has sent everything.
    pub fn note_end(&mut self) {
        self.ended = true;
    }

    /// Whether it is still there and has not said that all of its ranks have ended.
    pub fn is_left(&self) -> bool {
        !matches!(self.phase, Phase::Gone) && !self.ended
    }

    /// Sends it a message; lost if it is gone.
    pub fn say(&mut self, message: &ToAgent) {
        if let Phase::Connected(link) = &mut self.phase {
            link.say(message);
            self.protocol.said(message);
        }
    }

    /// Reads no more from it.
    pub fn cut_off(&mut self) {
        self.phase = Phase::Gone;
    }

    /// Tells it to end its ranks. An agent that has not connected yet has none and would not receive it: nothing more is
    /// read from it either, not even what its command says about being cut off.
    pub fn end(&mut self) {
        match &self.phase {
            Phase::Connected(_) => self.say(&ToAgent::End),
            Phase::Gone => {}
            Phase::Starting { .. } | Phase::Proving(_) => {
                self.cut_off();
                self.errors = None;
            }
        }
    }

    /// Sends what is left to send and then this, at most for the limit, and closes.
    pub fn part(&mut self, last: &ToAgent, limit: Duration) {
        if let Phase::Connected(link) = &mut self.phase {
            link.say(last);
            link.drain(limit);
        }
        self.phase = Phase::Gone;
    }

    /// The descriptors to wait for, as the agent of this number; see [`Agents::entries`](super::Agents::entries).
    pub fn entries(&self, index: usize, listening: bool) -> Vec<(Token, PollFd<'_>)> {
        let mut found = Vec::new();
        match &self.phase {
            Phase::Starting { input, .. } => {
                found.push((Token::Reading(index), PollFd::new(input, Interest::Read)));
            }
            Phase::Proving(handshake) => found.push((Token::Reading(index), handshake.reading())),
            Phase::Connected(link) => {
                if listening {
                    found.push((Token::Reading(index), link.reading()));
                }
                if link.is_waiting() {
                    found.push((Token::Writing(index), link.writing()));
                }
            }
            Phase::Gone => {}
        }
        if let Some(errors) = &self.errors {
            found.push((Token::Errors(index), PollFd::new(errors, Interest::Read)));
        }
        found
    }

    /// When to come back at the latest.
    pub fn next_look(&self) -> Option<Instant> {
        match &self.phase {
            Phase::Connected(link) => {
                let look = link.next_look();
                Some(self.introduces.map_or(look, |until| look.min(until)))
            }
            Phase::Proving(handshake) => Some(handshake.deadline()),
            Phase::Starting { .. } => self.slow,
            Phase::Gone => None,
        }
    }

    /// Goes on, as the agent of this number. `reading`: its stream may be read.
    pub fn proceed(
        &mut self,
        index: usize,
        reading: bool,
        turn: Turn<'_>,
        events: &mut Vec<Event>,
    ) {
        let starting = matches!(self.phase, Phase::Starting { .. });
        if starting && self.slow.is_some_and(|when| turn.now >= when) {
            self.slow = None;
            events.push(Event::Note(format!(
                "still waiting for host {}: the command that reaches it has started no agent",
                self.name()
            )));
        }
        let result = match &self.phase {
            Phase::Starting { .. } if reading => self.await_mark(turn.key, events),
            Phase::Proving(_) => self.prove(reading, turn),
            Phase::Connected(_) => self.converse(index, reading, turn, events),
            Phase::Starting { .. } | Phase::Gone => Ok(()),
        };
        if let Err(error) = result {
            self.lose(index, &error, events);
        }
    }

    /// Reads what comes before the mark. Once it has come, the agent gets the key, and we prove that we know
    /// it too.
    fn await_mark(&mut self, key: &Key, events: &mut Vec<Event>) -> Result<(), LinkError> {
        let Phase::Starting { input, noise, .. } = &mut self.phase else {
            return Ok(());
        };
        let mut bytes = [0; 4096];
        match input.read(&mut bytes) {
            Ok(0) => return Err(LinkError::Closed),
            Ok(count) => noise.extend_from_slice(&bytes[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
        let Some(before) = noise.strip_suffix(MARK) else {
            if noise.len() > NOISE {
                return Err(LinkError::Broken(format!(
                    "its command has printed {} bytes and has started no agent",
                    noise.len()
                )));
            }
            return Ok(());
        };
        if !before.trim_ascii().is_empty() {
            let text = String::from_utf8_lossy(before.trim_ascii()).into_owned();
            events.push(Event::Note(text));
        }
        let phase = std::mem::replace(&mut self.phase, Phase::Gone);
        if let Phase::Starting {
            input, mut output, ..
        } = phase
        {
            output.write_all(format!("{}\n", key.to_text()).as_bytes())?;
            let streams = Streams::two(input.into(), output.into())?;
            let handshake = LinkHandshake::begin(key, streams, PATIENCE)?;
            self.phase = Phase::Proving(Box::new(handshake));
        }
        Ok(())
    }

    fn prove(&mut self, reading: bool, turn: Turn<'_>) -> Result<(), LinkError> {
        let Phase::Proving(handshake) = &mut self.phase else {
            return Ok(());
        };
        if reading && let Some(channel) = handshake.proceed()? {
            let phase = std::mem::replace(&mut self.phase, Phase::Gone);
            if let Phase::Proving(handshake) = phase {
                self.link(handshake.link(channel, turn.silence), turn.now);
            }
        } else if turn.now >= handshake.deadline() {
            return Err(LinkError::Late);
        }
        Ok(())
    }

    /// Hears what it says, and sends what it is told.
    fn converse(
        &mut self,
        index: usize,
        reading: bool,
        turn: Turn<'_>,
        events: &mut Vec<Event>,
    ) -> Result<(), LinkError> {
        if reading {
            self.hear(index, events)?;
        }
        let Phase::Connected(link) = &mut self.phase else {
            return Ok(());
        };
        if turn.reading_paused {
            link.restart_clock();
        }
        link.check(turn.now)?;
        if self.introduces.is_some_and(|until| turn.now >= until) {
            return Err(LinkError::Broken("it has not said who it is".into()));
        }
        if link.is_due(turn.now) {
            link.say(&ToAgent::Alive);
        }
        link.flush()
    }

    fn hear(&mut self, index: usize, events: &mut Vec<Event>) -> Result<(), LinkError> {
        let Phase::Connected(link) = &mut self.phase else {
            return Ok(());
        };
        // Messages from before an end still count.
        let filled = link.fill();
        while let Some(message) = link.next::<FromAgent>()? {
            if let FromAgent::Hello(hello) = &message
                && hello.release != RELEASE
            {
                return Err(LinkError::Broken(format!(
                    "it is of another release of Weft (protocol {}, here {RELEASE})",
                    hello.release
                )));
            }
            let heard = self.protocol.heard(&message);
            heard.map_err(LinkError::Broken)?;
            match message {
                FromAgent::Hello(hello) => {
                    self.introduces = None;
                    self.name.get_or_insert_with(|| one_word(&hello.host));
                    self.hello = Some(hello);
                    events.push(Event::Introduced { agent: index });
                }
                FromAgent::Alive => {}
                FromAgent::Leaving { signal } => {
                    let name = signals::name(signal);
                    self.leaving_reason =
                        Some(format!("Weft was ended there by signal {signal} ({name})"));
                }
                message => events.push(Event::Said {
                    agent: index,
                    message,
                }),
            }
        }
        filled
    }

    /// Reads what its command complains about. Once there is an agent, this is for the user; before, it is
    /// the reason why there is none.
    pub fn read_error_output(&mut self, events: &mut Vec<Event>) {
        let Some(errors) = &mut self.errors else {
            return;
        };
        let mut bytes = [0; 4096];
        match errors.read(&mut bytes) {
            Ok(0) => self.errors = None,
            Ok(count) if self.error_output.len() < NOISE => {
                self.error_output.extend_from_slice(&bytes[..count]);
            }
            Ok(_) => {}
            Err(error) => match error.kind() {
                ErrorKind::Interrupted | ErrorKind::WouldBlock => {}
                _ => self.errors = None,
            },
        }
        if self.hello.is_some() {
            while let Some(end) = self.error_output.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.error_output.drain(..=end).collect();
                let line = String::from_utf8_lossy(line.trim_ascii()).into_owned();
                if !line.is_empty() {
                    events.push(Event::Note(format!("{}: {line}", self.name())));
                }
            }
        }
    }

    /// It is gone.
    fn lose(&mut self, index: usize, error: &LinkError, events: &mut Vec<Event>) {
        // Why, its command may just have said.
        self.read_error_output(&mut Vec::new());
        self.phase = Phase::Gone;
        let reason = if self.ended {
            None
        } else if self.leaving_reason.is_some() && !matches!(error, LinkError::Broken(_)) {
            self.leaving_reason.take()
        } else if self.hello.is_none() && !self.error_output.is_empty() {
            let said = String::from_utf8_lossy(&self.error_output);
            let last = said
                .lines()
                .rev()
                .map(str::trim)
                .find(|line| !line.is_empty());
            Some(last.unwrap_or("").to_owned())
        } else {
            Some(error.to_string())
        };
        events.push(Event::Lost {
            agent: index,
            reason,
        });
    }
}
