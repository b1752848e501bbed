//! Questions to a running system, and its answers: one line of JSON each, over its local socket.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weft_sys::descriptor::{Carries, set_nonblocking, socket_pair};
use weft_sys::{passing, process};

use super::address;
use super::process::{StartMessage, receive, send};
use crate::policy::Choice;
use crate::system::Capabilities;

/// The possible questions.
#[derive(Debug, Serialize, Deserialize)]
pub enum Question {
    /// The state of the system.
    Status,
    /// Sets the policy from now on.
    Policy(Choice),
    /// Ends the system.
    Down,
    /// Gives the place of this client to the asking program.
    Attach(String),
}

/// The possible answers.
#[derive(Debug, Serialize, Deserialize)]
pub enum Answer {
    /// It is done.
    Done,
    /// The answer to [`Question::Status`].
    Status(Status),
    /// The reason of a refusal, and what to do.
    Refused(String),
}

/// The state of a system.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Status {
    /// Name of the system.
    pub name: String,
    /// The path of the network namespace of a veth: for `nsenter --net=…`.
    pub namespace: Option<String>,
    /// How the wire is accessed, and why not in a better way.
    pub wire: String,
    /// Frames that the card lost for lack of buffers, since the driver started.
    pub missed: u64,
    /// Frames for an address that nobody has.
    pub unknown: u64,
    /// The policy now.
    pub policy: Choice,
    /// Components, those nearest the wire first.
    pub components: Vec<ComponentStatus>,
    /// Clients, in order.
    pub clients: Vec<ClientStatus>,
}

/// The state of a component.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ComponentStatus {
    /// Its name.
    pub name: String,
    /// Its process; 0 if none runs.
    pub process: u32,
    /// How often it was replaced.
    pub restarts: u32,
    /// Processor time, in seconds, used by its present process.
    pub seconds: f64,
}

/// The state of a client.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClientStatus {
    /// Its name.
    pub name: String,
    /// Whether a program is attached.
    pub attached: bool,
    /// Frames handed to it.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Frames sent for it.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Frames for it dropped because its queue was full.
    pub dropped_full: u64,
    /// Frames for it dropped because it had not returned buffers.
    pub dropped_starved: u64,
    /// Its invalid writes.
    pub faults: u64,
    /// Buffers taken back from it or its neighbours.
    pub reclaimed: u64,
    /// Frames that wait for it.
    pub depth: u32,
}

/// How long the broker may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Most bytes of an answer.
const ANSWER: u64 = 1 << 20;

fn connect(name: &str) -> io::Result<UnixStream> {
    let stream = UnixStream::connect_addr(&address(name)?).map_err(|error| {
        io::Error::new(
            error.kind(),
            format!("no system called {name:?} runs for this user ({error}): start one by weft net up FILE"),
        )
    })?;
    // Anybody may listen under such a name: answers of another user are not believed.
    let owner = passing::peer_credentials(&stream)?.user;
    if owner != process::user() && owner != 0 {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "what listens as the system {name:?} belongs to user {owner}, not to you: give your system \
                 another name"
            ),
        ));
    }
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Sends the question. The broker may have refused the caller and closed before: its answer can be read all
/// the same.
fn say(mut stream: &UnixStream, question: &Question) -> io::Result<()> {
    let mut text = serde_json::to_string(question)?;
    text.push('\n');
    match stream.write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

/// Reads an answer that begins with these bytes.
fn hear(stream: &UnixStream, first: &[u8]) -> io::Result<Answer> {
    let mut line = first.to_vec();
    BufReader::new(stream.take(ANSWER)).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "the system hung up without an answer: it may be busy with others, or going down; try again",
        ));
    }
    Ok(serde_json::from_slice(&line)?)
}

/// Asks a running system.
///
/// # Errors
/// If there is none of this name and user, or it does not answer within five seconds.
pub fn ask(name: &str, question: &Question) -> io::Result<Answer> {
    let stream = connect(name)?;
    say(&stream, question)?;
    hear(&stream, &[])
}

/// Takes the place of a client: its capabilities, and the connection that keeps the place. The place belongs
/// to this process: it is free again when the connection closes, and when this process ends, even if another
/// process still has the connection.
///
/// # Errors
/// If there is no such place, or it is taken.
pub fn attach(name: &str, client: &str) -> io::Result<(Capabilities, UnixStream)> {
    let stream = connect(name)?;
    say(&stream, &Question::Attach(client.into()))?;
    // Capabilities begin with a distinct byte; a refusal is a line of JSON.
    let mut first = [0; 1];
    let length = (&stream).read(&mut first)?;
    if first[..length] != *b"G" {
        return Err(match hear(&stream, &first[..length])? {
            Answer::Refused(why) => io::Error::new(io::ErrorKind::PermissionDenied, why),
            other => io::Error::other(format!("an unexpected answer: {other:?}")),
        });
    }
    // They are sent over a pair of sockets that preserves message boundaries; one of its ends arrives first.
    let (_, mut ends) = passing::receive(&stream, &mut first)?;
    let end = ends
        .pop()
        .ok_or_else(|| io::Error::other("the broker broke off before it sent any capabilities"))?;
    let (message, descriptors) = receive(&end)?;
    Ok((Capabilities::from_parts(message.role, descriptors), stream))
}

/// Sends capabilities to a program that attaches, without waiting for it.
pub(super) fn send_capabilities(stream: &UnixStream, capabilities: Capabilities) -> io::Result<()> {
    let (ours, theirs) = socket_pair(Carries::Messages)?;
    set_nonblocking(&ours, true)?;
    let mut writer = stream;
    writer.write_all(b"G")?;
    passing::send(stream, b"s", &[theirs.as_fd()])?;
    let (role, descriptors) = capabilities.into_parts();
    let message = StartMessage {
        role,
        virtual_wire: None,
        core: None,
        nice: None,
        descriptors: descriptors.len(),
        plug: None,
    };
    send(&ours, &message, &descriptors)
}
