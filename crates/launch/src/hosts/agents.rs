//! The agents of a job, as its head sees them: how they are reached, what they say, how they are lost.
//!
//! ```text
//!   started:  Greeting ── its mark came: the key goes ──▶ Meeting ──▶ Linked ──▶ Gone
//!   joined:                                                  (reception) ──▶ Linked ──▶ Gone
//! ```
//!
//! Whatever shell stands between us and a started agent may print something first: all up to the mark is
//! passed on to standard error. What the command itself complains about is kept for the message in case
//! that no agent comes.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use weft_secure::Key;
use weft_sys::poll::Entry;
use weft_sys::poll::Interest;
use weft_sys::{descriptor, process, signal};

use super::link::{Link, LinkError, Meeting, Streams};
use super::message::{FromAgent, Hello, RELEASE, ToAgent};
use super::place::HostSlots;
use super::protocol::{self, Protocol};
use super::reception::Reception;
use crate::bootstrap::{name_of_this_host, one_word};
use crate::job::{HANDLED, signal_name};

/// What an agent writes before anything else.
pub const MARK: &[u8] = b"\nweft agent ready\n";
/// Bytes that may come before it.
const NOISE: usize = 64 << 10;
/// A command that has started no agent after so long is mentioned, and waited for: it may ask somebody.
const SLOW: Duration = Duration::from_secs(10);
/// How long an agent that has begun may take to prove the key, and then to say who it is.
const PATIENCE: Duration = Duration::from_secs(10);
/// Most that join beside those that bring ranks: whoever knows the token may come and go.
const VISITORS: usize = 1000;

/// What has happened.
#[derive(Debug)]
pub enum Event {
    /// An agent has proved the key and said who it is.
    Here { agent: usize },
    /// It says something.
    Said { agent: usize, message: FromAgent },
    /// It cannot be reached, or is gone; `None`: as it was expected to be.
    Lost {
        agent: usize,
        reason: Option<String>,
    },
    /// Something to be shown to the user.
    Note(String),
}

/// How far an agent is.
#[derive(Debug)]
enum Phase {
    /// Its command was started.
    Greeting {
        input: File,
        output: File,
        noise: Vec<u8>,
    },
    Meeting(Box<Meeting>),
    Linked(Box<Link>),
    Gone,
}

/// One agent.
#[derive(Debug)]
pub struct Agent {
    /// As the user calls its host; for one that joined as it calls itself.
    pub name: String,
    /// Who it says it is, once it has.
    pub hello: Option<Hello>,
    /// All of its ranks have ended, and it has said everything.
    pub ended: bool,
    phase: Phase,
    /// What it may say.
    protocol: Protocol,
    /// When it must have said who it is; `None` before it has proved the key, and once it has.
    introduces: Option<Instant>,
    /// When to mention that it is not here yet; `None` once that was done.
    slow: Option<Instant>,
    /// What its command complains about.
    errors: Option<File>,
    complaint: Vec<u8>,
    /// Why it leaves, if it has said so.
    farewell: Option<String>,
}

/// One thing to wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Token {
    /// The port and its guests.
    Reception,
    /// An agent's stream may be read.
    Reading(usize),
    /// … may be written.
    Writing(usize),
    /// Its command complains.
    Errors(usize),
}

/// All agents of a job.
#[derive(Debug)]
pub struct Agents {
    all: Vec<Agent>,
    key: Key,
    reception: Option<Reception>,
    /// Most agents that may ever be.
    most: usize,
    silence: Duration,
    /// Nothing was read in the last turn, on purpose.
    held_up: bool,
}

impl Agents {
    /// None: a job on one host.
    ///
    /// # Errors
    /// If the kernel has no random bytes.
    pub fn none(silence: Duration) -> io::Result<Self> {
        Ok(Self {
            all: Vec::new(),
            key: Key::random()?,
            reception: None,
            most: VISITORS,
            silence,
            held_up: false,
        })
    }

    /// Listens for those who join with this token, as many as there are ranks at most.
    ///
    /// # Errors
    /// If that is no address of this host, or the port is taken.
    pub fn listen(&mut self, listen: &str, token: Key, ranks: u32) -> io::Result<String> {
        let reception = Reception::open(listen, token, ranks)?;
        let address = reception.address();
        self.reception = Some(reception);
        self.most = VISITORS + ranks as usize;
        Ok(address)
    }

    /// Starts an agent on a host.
    ///
    /// # Errors
    /// If its command cannot be started.
    pub fn start(&mut self, host: &HostSlots, command: &[OsString]) -> io::Result<()> {
        let us = std::env::current_exe()?;
        let mut command = if is_here(&host.name) {
            Command::new(us)
        } else {
            let (first, rest) = command
                .split_first()
                .ok_or_else(|| io::Error::new(ErrorKind::InvalidInput, "an empty command"))?;
            let mut reach = Command::new(first);
            reach.args(rest).arg(&host.name);
            // A remote shell takes its words apart again.
            let shell = [&b"ssh"[..], b"rsh"]
                .iter()
                .any(|name| first.as_bytes().ends_with(name));
            reach.arg(if shell {
                quoted(us.as_os_str())
            } else {
                us.into()
            });
            reach
        };
        command
            .arg("agent")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        signal::unblock_in_child(&mut command, &HANDLED)?;
        process::child_dies_with_us(&mut command, process::SIGKILL);
        let mut child = command.spawn().map_err(|error| {
            let program = command.get_program().display();
            io::Error::new(error.kind(), format!("{program}: {error}"))
        })?;
        let missing = || io::Error::other("a pipe is missing");
        let output = File::from(OwnedFd::from(child.stdin.take().ok_or_else(missing)?));
        let input = File::from(OwnedFd::from(child.stdout.take().ok_or_else(missing)?));
        let errors = File::from(OwnedFd::from(child.stderr.take().ok_or_else(missing)?));
        descriptor::set_nonblocking(&input, true)?;
        descriptor::set_nonblocking(&errors, true)?;
        self.all.push(Agent {
            name: one_word(&host.name),
            hello: None,
            ended: false,
            phase: Phase::Greeting {
                input,
                output,
                noise: Vec::new(),
            },
            protocol: Protocol::new(),
            introduces: None,
            slow: Some(Instant::now() + SLOW),
            errors: Some(errors),
            complaint: Vec::new(),
            farewell: None,
        });
        Ok(())
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// One of them.
    pub fn agent(&self, agent: usize) -> &Agent {
        &self.all[agent]
    }

    /// Notes that all ranks of an agent have ended.
    pub fn note_end(&mut self, agent: usize) {
        self.all[agent].ended = true;
    }

    /// Lets nobody in any more; answers how many were turned away.
    pub fn close_reception(&mut self) -> u64 {
        self.reception.take().map_or(0, |found| found.turned_away)
    }

    /// Says something to an agent; one that is gone does not hear it.
    pub fn say(&mut self, agent: usize, message: &ToAgent) {
        let agent = &mut self.all[agent];
        if let Phase::Linked(link) = &mut agent.phase {
            link.say(message);
            agent.protocol.said(message);
        }
    }

    /// Hears no more of an agent that has said what members do not say.
    pub fn cut_off(&mut self, agent: usize) {
        self.all[agent].phase = Phase::Gone;
    }

    /// … to all.
    pub fn say_to_all(&mut self, message: &ToAgent) {
        for agent in 0..self.count() {
            self.say(agent, message);
        }
    }

    /// Tells all to end what they have. Those that are not here yet have nothing and would not hear it: no
    /// more is heard of them either.
    pub fn end(&mut self) {
        for agent in &mut self.all {
            match &mut agent.phase {
                Phase::Linked(link) => {
                    link.say(&ToAgent::End);
                    agent.protocol.said(&ToAgent::End);
                }
                _ => agent.phase = Phase::Gone,
            }
        }
    }

    /// What to wait for. If `listening` is false, what agents say is left for later: our own output is
    /// held up.
    pub fn entries(&self, listening: bool) -> Vec<(Token, Entry<'_>)> {
        let mut found = Vec::new();
        if let Some(reception) = &self.reception {
            found.extend(reception.entries().map(|entry| (Token::Reception, entry)));
        }
        for (index, agent) in self.all.iter().enumerate() {
            match &agent.phase {
                Phase::Greeting { input, .. } => {
                    found.push((Token::Reading(index), Entry::new(input, Interest::Read)));
                }
                Phase::Meeting(meeting) => found.push((Token::Reading(index), meeting.reading())),
                Phase::Linked(link) => {
                    if listening {
                        found.push((Token::Reading(index), link.reading()));
                    }
                    if link.is_waiting() {
                        found.push((Token::Writing(index), link.writing()));
                    }
                }
                Phase::Gone => {}
            }
            if let Some(errors) = &agent.errors {
                found.push((Token::Errors(index), Entry::new(errors, Interest::Read)));
            }
        }
        found
    }

    /// When to come back at the latest.
    pub fn next_look(&self) -> Option<Instant> {
        let reception = self.reception.as_ref().and_then(Reception::next_look);
        let links = self.all.iter().filter_map(|agent| match &agent.phase {
            Phase::Linked(link) => {
                let look = link.next_look();
                Some(agent.introduces.map_or(look, |until| look.min(until)))
            }
            Phase::Meeting(meeting) => Some(meeting.deadline),
            Phase::Greeting { .. } => agent.slow,
            Phase::Gone => None,
        });
        links.chain(reception).min()
    }

    /// Goes on: `ready` are the answers to [`entries`](Self::entries), in their order.
    pub fn proceed(&mut self, ready: &[(Token, bool)], listening: bool) -> VecDeque<Event> {
        let now = Instant::now();
        let mut events = VecDeque::new();
        if let Some(reception) = &mut self.reception {
            let knocks = ready.iter().filter(|(token, _)| *token == Token::Reception);
            let knocks: Vec<bool> = knocks.map(|(_, ready)| *ready).collect();
            for mut link in reception.proceed(&knocks, now, self.silence) {
                if self.all.len() >= self.most {
                    reception.turned_away += 1;
                    continue;
                }
                link.set_longest(protocol::LONGEST);
                self.all.push(Agent {
                    name: "?".into(),
                    hello: None,
                    ended: false,
                    phase: Phase::Linked(Box::new(link)),
                    protocol: Protocol::new(),
                    introduces: Some(now + PATIENCE),
                    slow: None,
                    errors: None,
                    complaint: Vec::new(),
                    farewell: None,
                });
            }
        }
        let is_ready = |wanted| ready.contains(&(wanted, true));
        for index in 0..self.all.len() {
            if is_ready(Token::Errors(index)) {
                self.complain(index, &mut events);
            }
            let reading = is_ready(Token::Reading(index));
            let agent = &mut self.all[index];
            let greeting = matches!(agent.phase, Phase::Greeting { .. });
            if greeting && agent.slow.is_some_and(|when| now >= when) {
                agent.slow = None;
                events.push_back(Event::Note(format!(
                    "still waiting for host {}: the command that reaches it has started no agent",
                    agent.name
                )));
            }
            if let Err(error) = self.go_on(index, reading, listening, now, &mut events) {
                self.lose(index, &error, &mut events);
            }
        }
        self.held_up = !listening;
        events
    }

    /// One agent.
    fn go_on(
        &mut self,
        index: usize,
        reading: bool,
        listening: bool,
        now: Instant,
        events: &mut VecDeque<Event>,
    ) -> Result<(), LinkError> {
        let silence = self.silence;
        let agent = &mut self.all[index];
        match &mut agent.phase {
            Phase::Greeting { input, noise, .. } if reading => {
                let mut bytes = [0; 4096];
                match input.read(&mut bytes) {
                    Ok(0) => return Err(LinkError::Closed),
                    Ok(count) => noise.extend_from_slice(&bytes[..count]),
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(error.into()),
                }
                if let Some(before) = noise.strip_suffix(MARK) {
                    if !before.trim_ascii().is_empty() {
                        let text = String::from_utf8_lossy(before.trim_ascii()).into_owned();
                        events.push_back(Event::Note(text));
                    }
                    self.meet(index)?;
                } else if noise.len() > NOISE {
                    return Err(LinkError::Broken(format!(
                        "its command has printed {} bytes and has started no agent",
                        noise.len()
                    )));
                }
            }
            Phase::Meeting(meeting) => {
                if reading && let Some(channel) = meeting.proceed()? {
                    let Phase::Meeting(meeting) = std::mem::replace(&mut agent.phase, Phase::Gone)
                    else {
                        return Ok(());
                    };
                    let mut link = meeting.link(channel, silence);
                    link.set_longest(protocol::LONGEST);
                    agent.introduces = Some(now + PATIENCE);
                    agent.phase = Phase::Linked(Box::new(link));
                } else if now >= meeting.deadline {
                    return Err(LinkError::Late);
                }
            }
            Phase::Linked(link) => {
                if reading {
                    // What came before an end still counts.
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
                        let heard = agent.protocol.heard(&message);
                        heard.map_err(LinkError::Broken)?;
                        match message {
                            FromAgent::Hello(hello) => {
                                agent.introduces = None;
                                if agent.name == "?" {
                                    agent.name = one_word(&hello.host);
                                }
                                agent.hello = Some(hello);
                                events.push_back(Event::Here { agent: index });
                            }
                            FromAgent::Alive => {}
                            FromAgent::Leaving { signal } => {
                                let name = signal_name(signal);
                                agent.farewell = Some(format!(
                                    "Weft was ended there by signal {signal} ({name})"
                                ));
                            }
                            message => events.push_back(Event::Said {
                                agent: index,
                                message,
                            }),
                        }
                    }
                    filled?;
                }
                if !listening || self.held_up {
                    link.excuse();
                }
                link.check(now)?;
                if agent.introduces.is_some_and(|until| now >= until) {
                    return Err(LinkError::Broken("it has not said who it is".into()));
                }
                if link.is_due(now) {
                    link.say(&ToAgent::Alive);
                }
                link.flush()?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Its mark has come: it gets the key, and we prove that we know it too.
    fn meet(&mut self, index: usize) -> Result<(), LinkError> {
        let phase = std::mem::replace(&mut self.all[index].phase, Phase::Gone);
        let Phase::Greeting {
            input, mut output, ..
        } = phase
        else {
            return Ok(());
        };
        output.write_all(format!("{}\n", self.key.to_text()).as_bytes())?;
        let streams = Streams::two(input.into(), output.into())?;
        let meeting = Meeting::begin(&self.key, streams, PATIENCE)?;
        self.all[index].phase = Phase::Meeting(Box::new(meeting));
        Ok(())
    }

    /// Reads what the command of an agent complains about. Once there is an agent, this is for the user;
    /// before, it is the reason why there is none.
    fn complain(&mut self, index: usize, events: &mut VecDeque<Event>) {
        let agent = &mut self.all[index];
        let Some(errors) = &mut agent.errors else {
            return;
        };
        let mut bytes = [0; 4096];
        match errors.read(&mut bytes) {
            Ok(0) => agent.errors = None,
            Ok(count) if agent.complaint.len() < NOISE => {
                agent.complaint.extend_from_slice(&bytes[..count]);
            }
            Ok(_) => {}
            Err(error) => match error.kind() {
                ErrorKind::Interrupted | ErrorKind::WouldBlock => {}
                _ => agent.errors = None,
            },
        }
        if agent.hello.is_some() {
            while let Some(end) = agent.complaint.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = agent.complaint.drain(..=end).collect();
                let line = String::from_utf8_lossy(line.trim_ascii()).into_owned();
                if !line.is_empty() {
                    events.push_back(Event::Note(format!("{}: {line}", agent.name)));
                }
            }
        }
    }

    /// An agent is gone.
    fn lose(&mut self, index: usize, error: &LinkError, events: &mut VecDeque<Event>) {
        // Why, its command may just have said.
        self.complain(index, &mut VecDeque::new());
        let agent = &mut self.all[index];
        agent.phase = Phase::Gone;
        let reason = if agent.ended {
            None
        } else if agent.farewell.is_some() && !matches!(error, LinkError::Broken(_)) {
            agent.farewell.take()
        } else if agent.hello.is_none() && !agent.complaint.is_empty() {
            let said = String::from_utf8_lossy(&agent.complaint);
            let last = said
                .lines()
                .rev()
                .map(str::trim)
                .find(|line| !line.is_empty());
            Some(last.unwrap_or("").to_owned())
        } else {
            Some(error.to_string())
        };
        events.push_back(Event::Lost {
            agent: index,
            reason,
        });
    }

    /// Those that are still there and have not said that all their ranks have ended.
    pub fn left(&self) -> impl Iterator<Item = &Agent> {
        let there = |agent: &&Agent| !matches!(agent.phase, Phase::Gone) && !agent.ended;
        self.all.iter().filter(there)
    }

    /// Sends what is left to say, and parts from all.
    pub fn part(&mut self, last: &ToAgent, limit: Duration) {
        for agent in &mut self.all {
            if let Phase::Linked(link) = &mut agent.phase {
                link.say(last);
                link.drain(limit);
            }
            agent.phase = Phase::Gone;
        }
    }
}

/// Whether a host is this one, so that no command is needed to reach it.
pub fn is_here(name: &str) -> bool {
    let ours = name_of_this_host();
    let short = ours.split('.').next().unwrap_or("");
    ["localhost", "127.0.0.1", "::1", &*ours, short].contains(&name)
}

/// A word as a shell must read it to have it whole.
fn quoted(word: &std::ffi::OsStr) -> OsString {
    use std::os::unix::ffi::OsStringExt;
    let bytes = word.as_bytes();
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+".contains(byte);
    if bytes.iter().all(plain) {
        return word.to_owned();
    }
    let mut text = vec![b'\''];
    for byte in bytes {
        match byte {
            b'\'' => text.extend_from_slice(b"'\\''"),
            other => text.push(*other),
        }
    }
    text.push(b'\'');
    OsString::from_vec(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_comes_through_a_shell_whole() {
        assert_eq!(
            quoted("/opt/weft/bin/mpiexec".as_ref()),
            "/opt/weft/bin/mpiexec"
        );
        assert_eq!(
            quoted("/my 'own'/weft".as_ref()),
            "'/my '\\''own'\\''/weft'"
        );
    }

    #[test]
    fn a_command_that_starts_no_agent_gives_its_complaint_as_reason() {
        let mut agents = Agents::none(Duration::from_secs(20)).expect("random");
        let host = HostSlots::parse("elsewhere").expect("a host");
        let command = ["sh", "-c", "echo noise; echo 'no way there' >&2; exit 3"];
        let command: Vec<OsString> = command.iter().map(OsString::from).collect();
        agents.start(&host, &command).expect("there is a shell");
        let reason = loop {
            let mut found = agents.entries(true);
            let (tokens, mut entries): (Vec<_>, Vec<_>) = found.drain(..).unzip();
            weft_sys::poll::wait(&mut entries, Some(Duration::from_secs(20))).expect("polls");
            let ready: Vec<_> = tokens
                .into_iter()
                .zip(entries.iter().map(Entry::is_ready))
                .collect();
            drop(entries);
            let mut events = agents.proceed(&ready, true);
            if let Some(Event::Lost { reason, .. }) = events.pop_front() {
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
        let command = ["sh", "-c", "read key"].map(OsString::from);
        agents.start(&host, &command).expect("there is a shell");
        assert_eq!(agents.left().count(), 1);
        agents.end();
        assert_eq!(agents.left().count(), 0);
    }
}
