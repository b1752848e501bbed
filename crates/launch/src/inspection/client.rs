//! Client: the side of the command that inspects the jobs of a host.

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use weft_sys::{passing, process};

use super::process::ProcessState;
use super::protocol::{Answer, Asked, JobReport, LONGEST_ANSWER, Question, decode, encode};
use super::socket_name::{self, SocketName};

/// How long a launcher may be silent. It answers at once, or within the time that ranks have to answer, as soon as it gets a core: that
/// took longer than 3 s in a job of 300 ranks beside other work. One that is stopped never does.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often it is looked whether one that is silent is stopped: then nobody waits for it.
const LOOK: Duration = Duration::from_millis(100);
/// By this name a supervisor shows in `/proc`.
const SUPERVISOR: &str = "weft-supervisor";

/// A job that can be asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobSocket {
    name: SocketName,
    /// Its supervisor, as this process numbers it.
    pub supervisor: u32,
}

/// A launcher of the same user whose job cannot be inspected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unseen {
    /// Its supervisor.
    pub supervisor: u32,
    /// Why.
    pub reason: String,
}

impl JobSocket {
    /// Connects, if a process of this user is at the other end.
    fn connect(name: &SocketName) -> io::Result<(UnixStream, u32)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        let address = SocketAddrUnix::new_abstract_name(name.as_bytes())?;
        // One that is stopped takes nobody in: who waited for room in its queue would wait as long.
        net::connect(&socket, &address).map_err(|error| match error {
            Errno::AGAIN => io::Error::new(ErrorKind::TimedOut, "too many wait for it already"),
            error => error.into(),
        })?;
        let stream = UnixStream::from(socket);
        stream.set_nonblocking(false)?;
        // Before a word is said or believed.
        let peer = passing::peer_credentials(&stream)?;
        if peer.user != process::user() {
            let reason = format!("user {} has taken the name of a job", peer.user);
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
        }
        Ok((stream, peer.process))
    }

    /// Asks it.
    ///
    /// # Errors
    /// If it has ended, is stopped, does not answer in time, or refuses.
    pub fn ask(&self, question: Question) -> io::Result<JobReport> {
        let (stream, supervisor) = Self::connect(&self.name)?;
        ask_over(stream, supervisor, question)
    }
}

fn ask_over(mut stream: UnixStream, supervisor: u32, question: Question) -> io::Result<JobReport> {
    stream.set_read_timeout(Some(LOOK))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(&encode(&Asked { ask: question }))?;
    let line = read_answer(&mut stream, supervisor)?;
    match decode(&line) {
        Some(Answer::Job(job)) => Ok(job),
        Some(Answer::Refused(reason)) => Err(io::Error::other(reason)),
        None if line.is_empty() => Err(io::Error::new(
            io::ErrorKind::ConnectionReset,
            "it has ended",
        )),
        None => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "its answer cannot be understood: it may be of another release of Weft",
        )),
    }
}

/// All that a supervisor says, up to the end.
fn read_answer(stream: &mut UnixStream, supervisor: u32) -> io::Result<Vec<u8>> {
    let late = |reason: String| io::Error::new(ErrorKind::TimedOut, reason);
    let begun = Instant::now();
    let mut line = Vec::new();
    let mut stream = stream.take(LONGEST_ANSWER as u64);
    loop {
        // Data from before an error stay.
        match stream.read_to_end(&mut line) {
            Ok(_) => return Ok(line),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        if ProcessState::look(supervisor).is_some_and(|state| state.stopped) {
            return Err(late(format!(
                "it is stopped, by a signal or a debugger; kill -CONT {supervisor} lets it go on"
            )));
        }
        if begun.elapsed() >= PATIENCE {
            let patience = PATIENCE.as_secs();
            return Err(late(format!("it has not answered within {patience} s")));
        }
    }
}

/// A job, and what it has answered.
pub type Answered = (JobSocket, io::Result<JobReport>);

/// Asks all of these side by side: their answers as they come, so that one which is late keeps no other one back.
#[must_use]
pub fn ask_all(sockets: Vec<JobSocket>, question: Question) -> Receiver<Answered> {
    let (sender, answers) = channel();
    for socket in sockets {
        let (tell, asked) = (sender.clone(), socket.clone());
        let ask = move || {
            let answer = asked.ask(question);
            // A client that has found what it looked for reads no more.
            let _ = tell.send((asked, answer));
        };
        if let Err(error) = thread::Builder::new().spawn(ask) {
            let _ = sender.send((socket, Err(error)));
        }
    }
    answers
}

/// The jobs of this user that can be asked here.
///
/// # Errors
/// If the sockets of this host cannot be listed.
pub fn sockets() -> io::Result<Vec<JobSocket>> {
    let names = socket_name::of_user(process::user())?;
    let socket = |name: SocketName| {
        // One that has just ended, or is somebody else's, is none.
        let (_, supervisor) = JobSocket::connect(&name).ok()?;
        Some(JobSocket { name, supervisor })
    };
    let mut found: Vec<_> = names.into_iter().filter_map(socket).collect();
    found.sort_by_key(|job| job.supervisor);
    Ok(found)
}

/// Whether an error says that the job has ended meanwhile.
#[must_use]
pub fn has_ended(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionRefused | ConnectionReset)
}

/// Supervisors of this user that no socket was found of.
#[must_use]
pub fn unlisted(seen: &[u32]) -> Vec<Unseen> {
    let Ok(processes) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for entry in processes.flatten() {
        let number = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        let Some(supervisor) = number.filter(|number| !seen.contains(number)) else {
            continue;
        };
        let folder = entry.path();
        let name = fs::read_to_string(folder.join("comm")).unwrap_or_default();
        if name.trim_end() == SUPERVISOR && is_ours(&folder) {
            let reason = why_unlisted(&folder);
            found.push(Unseen { supervisor, reason });
        }
    }
    found
}

fn is_ours(folder: &std::path::Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(folder).is_ok_and(|facts| facts.uid() == process::user())
}

fn why_unlisted(folder: &std::path::Path) -> String {
    let namespace = |folder: PathBuf| fs::read_link(folder.join("ns/net")).ok();
    let theirs = namespace(folder.to_path_buf());
    if theirs.is_some() && theirs != namespace("/proc/self".into()) {
        return "it runs in another network namespace (a container?): look from within, or with \
                nsenter --net"
            .into();
    }
    let words = fs::read(folder.join("cmdline")).unwrap_or_default();
    let agent = words
        .split(|byte| *byte == 0)
        .skip(1)
        .take(1)
        .any(|word| word == b"agent" || word == b"join");
    if agent {
        return "it has ranks of a job on several hosts: ask where its mpiexec runs".into();
    }
    "it has no socket: it is about to start or to end, or could make none".into()
}
