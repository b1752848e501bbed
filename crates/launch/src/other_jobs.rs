//! Other jobs: how processes of two jobs of one user find each other, and open a bridge.
//!
//! ```text
//!   MPI_Open_port     binds an abstract socket ── named by user, job and number of the port
//!   MPI_Comm_connect  finds it by the name of the port ──► both ends ask the kernel who is there ──► a line of two roots
//!                     ── over which they agree ([`weft_mpi::comm`]) ──► a bridge ([`weft_fabric_tcp::abroad`])
//! ```
//!
//! The socket stands in no file system, is no port of a network, and is gone with its process: nothing stale is left to
//! be found. It is the process's own, so no launcher takes part, whichever has started the two jobs.
//!
//! The bridge is TCP: over loopback, or over all interfaces if one of the jobs is on several hosts. Who connects proves a key that was
//! drawn for this bridge and went by the line and by what the ranks of a job share.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, mpsc};

use rustix::io::Errno;
use rustix::net::{Shutdown, SocketFlags, accept_with, shutdown};
use weft_fabric::{Fabric, Peer};
use weft_fabric_tcp::abroad::Gate;
use weft_fabric_tcp::{Card, Config, Listen, Opening};
use weft_mpi::comm::{Abroad, Joining, Line, Listening};
use weft_mpi::{Error, ErrorClass, Process, Result};
use weft_secure::Key;
use weft_sys::event::EventFd;
use weft_sys::poll::{self, Interest, PollFd};
use weft_sys::{descriptor, passing, process, signal};

use crate::bootstrap::{PortName, abstract_socket, name_of_this_host};

/// Bytes of one piece of a message on a line.
const PIECE: usize = 32 << 10;

/// Callers that wait at a port at most; who comes then is turned away.
const MOST_CALLERS: usize = 1024;

/// How a process meets those of other jobs. See the [module page](self).
#[derive(Debug)]
pub struct OtherJobs {
    process: Weak<Process>,
    gate: Gate,
    ports: Mutex<HashMap<u32, OpenPort>>,
}

/// Those who have called at a port, in order.
type Callers = Arc<Mutex<VecDeque<Box<dyn Line>>>>;

struct OpenPort {
    callers: Callers,
    end: Arc<EventFd>,
}

impl std::fmt::Debug for OpenPort {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("OpenPort")
    }
}

impl Drop for OpenPort {
    fn drop(&mut self) {
        self.end.notify();
    }
}

fn open<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn refused(text: String) -> Error {
    Error::new(ErrorClass::Port, text)
}

/// What the name of a port says beyond the job, for other jobs: whose it is, and where.
struct Place<'a> {
    user: u32,
    host: &'a str,
}

impl<'a> Place<'a> {
    fn of(name: &'a str) -> Option<Self> {
        let (user, host) = name.splitn(5, ':').nth(4)?.split_once('@')?;
        let user = user.parse().ok()?;
        Some(Self { user, host })
    }
}

fn socket_name(job: &str, number: u32) -> String {
    format!("weft-port-{}-{job}-{number}", process::user())
}

impl OtherJobs {
    /// Those of this process, which hears of them.
    #[must_use]
    pub fn of(process: &Arc<Process>) -> Arc<Self> {
        let others = Arc::new(Self {
            process: Arc::downgrade(process),
            gate: Gate::new(process.peers()),
            ports: Mutex::default(),
        });
        let abroad: Arc<dyn Abroad> = Arc::<Self>::clone(&others);
        process.set_abroad(abroad);
        others
    }

    /// Lets other jobs call at a port that the launcher has opened for this process. Answers its whole name; if the system
    /// refuses, it is a port for this job alone, as its name says.
    #[must_use]
    pub fn open_port(&self, name: &str) -> String {
        let Some((job, port)) = PortName::parse(name) else {
            return name.to_owned();
        };
        match self.listen_at(&socket_name(job, port.number)) {
            Ok(open_port) => {
                open(&self.ports).insert(port.number, open_port);
                format!("{name}:{}@{}", process::user(), name_of_this_host())
            }
            Err(_) => name.to_owned(),
        }
    }

    /// Who has called at a port and was not taken is turned away.
    pub fn close_port(&self, name: &str) {
        if let Some((_, port)) = PortName::parse(name) {
            open(&self.ports).remove(&port.number);
        }
    }

    fn listen_at(&self, name: &str) -> io::Result<OpenPort> {
        let listener = abstract_socket::listen(name)?;
        let end = Arc::new(EventFd::new()?);
        let callers = Callers::default();
        let opened = OpenPort {
            callers: Arc::clone(&callers),
            end: Arc::clone(&end),
        };
        let process = self.process.clone();
        signal::spawn_without_signals("weft-watch", move || {
            take_calls(&listener, &end, &callers, &process);
        })?;
        Ok(opened)
    }

    /// A way to the process that accepts at a port of another job.
    ///
    /// # Errors
    /// `Port`, if nobody does there, or not for this process.
    pub fn call(&self, name: &str) -> Result<Box<dyn Line>> {
        let wrong = || {
            refused(format!(
                "'{name}' is no name of a port of another job; pass what MPI_Open_port gave there, entire"
            ))
        };
        let (job, port) = PortName::parse(name).ok_or_else(wrong)?;
        let Some(Place { user, host }) = Place::of(name) else {
            return Err(refused(format!(
                "the port '{name}' belongs to another job, which cannot be called there: it is of another release of Weft, or its \
                 system has refused a local socket; start both sides by one command (mpiexec -n 1 one : -n 1 other)"
            )));
        };
        if user != process::user() {
            return Err(refused(format!(
                "the port '{name}' belongs to a job of user {user}, and this is one of user {}; only jobs of one user can be \
                 connected: start both as the same",
                process::user()
            )));
        }
        let here = name_of_this_host();
        let called = abstract_socket::connect(&socket_name(job, port.number));
        let socket = called.map_err(|error| match error {
            Errno::CONNREFUSED if host != here => refused(format!(
                "the port '{name}' belongs to another job, whose process is on host {host}, and this one is on {here}; the two roots \
                 must be on one host: connect from a process there, or start both sides by one command (mpiexec -n 1 one : -n 1 other)"
            )),
            Errno::CONNREFUSED => refused(format!(
                "the port '{name}' belongs to another job, and nobody is there: it was closed, its process has ended, or it is \
                 in another network namespace (a container) than this one; open one with MPI_Open_port, where both can see it"
            )),
            error => refused(format!(
                "the port '{name}' of another job cannot be called: {}; close connections that are not needed any more",
                io::Error::from(error)
            )),
        })?;
        if !abstract_socket::runs_as_us(&socket) {
            return Err(refused(format!(
                "at the port '{name}' there is a process of another user, which is not the one that the name means; open another port"
            )));
        }
        let line = LocalLine::new(socket, self.process.clone());
        let line = line.map_err(|error| {
            refused(format!(
                "no thread to hear another job: {error}; raise the limit of processes (ulimit -u)"
            ))
        })?;
        Ok(Box::new(line))
    }
}

/// Lets callers of this user in until the end.
fn take_calls(
    listener: &OwnedFd,
    end: &EventFd,
    callers: &Mutex<VecDeque<Box<dyn Line>>>,
    process: &Weak<Process>,
) {
    loop {
        let mut waited = [
            PollFd::new(listener, Interest::Read),
            PollFd::new(end, Interest::Read),
        ];
        if poll::wait(&mut waited, None).is_err() {
            continue;
        }
        if waited[1].readable() {
            return;
        }
        let Ok(socket) = accept_with(listener, SocketFlags::CLOEXEC) else {
            continue;
        };
        let full = open(callers).len() >= MOST_CALLERS;
        if full || !abstract_socket::runs_as_us(&socket) {
            continue;
        }
        let Ok(line) = LocalLine::new(socket, process.clone()) else {
            continue;
        };
        open(callers).push_back(Box::new(line));
        match process.upgrade() {
            Some(process) => process.notify(),
            None => return,
        }
    }
}

/// A local socket to the root of another job, and a thread that hears what comes, so that nobody waits for it without
/// making progress.
struct LocalLine {
    socket: Arc<OwnedFd>,
    heard: mpsc::Receiver<Vec<u8>>,
    process: Weak<Process>,
}

impl LocalLine {
    fn new(socket: OwnedFd, process: Weak<Process>) -> io::Result<Self> {
        descriptor::set_nonblocking(&socket, false)?;
        let socket = Arc::new(socket);
        let (tell, heard) = mpsc::channel();
        let (hears, told) = (Arc::clone(&socket), process.clone());
        signal::spawn_without_signals("weft-watch", move || {
            while let Some(message) = hear(&hears) {
                if tell.send(message).is_err() {
                    return;
                }
                notify(&told);
            }
            drop(tell);
            notify(&told);
        })?;
        Ok(Self {
            socket,
            heard,
            process,
        })
    }
}

fn notify(process: &Weak<Process>) {
    if let Some(process) = process.upgrade() {
        process.notify();
    }
}

/// A message; `None` if the other side is gone.
fn hear(socket: &OwnedFd) -> Option<Vec<u8>> {
    let mut message = Vec::new();
    let mut piece = vec![0; PIECE + 1];
    loop {
        let (count, _) = passing::receive(socket, &mut piece).ok()?;
        let (more, bytes) = piece[..count].split_first()?;
        message.extend(bytes);
        if *more == 0 {
            return Some(message);
        }
    }
}

fn gone() -> Error {
    refused(
        "the other job has closed the port, has given up, or has ended; look at its own last output".into(),
    )
}

impl Line for LocalLine {
    fn send(&mut self, message: &[u8]) -> Result<()> {
        let pieces: Vec<&[u8]> = match message.is_empty() {
            true => vec![message],
            false => message.chunks(PIECE).collect(),
        };
        for (number, part) in pieces.iter().enumerate() {
            let more = u8::from(number + 1 < pieces.len());
            let mut piece = vec![more];
            piece.extend(*part);
            passing::send(&*self.socket, &piece, &[]).map_err(|_| gone())?;
        }
        Ok(())
    }

    fn receive(&mut self) -> Result<Vec<u8>> {
        let process = self.process.upgrade().ok_or_else(gone)?;
        let mut found = None;
        process.wait_until(|| {
            found = match self.heard.try_recv() {
                Ok(message) => Some(Some(message)),
                Err(mpsc::TryRecvError::Disconnected) => Some(None),
                Err(mpsc::TryRecvError::Empty) => None,
            };
            found.is_some()
        });
        found.flatten().ok_or_else(gone)
    }
}

impl Drop for LocalLine {
    fn drop(&mut self) {
        // The thread hears the end.
        let _ = shutdown(&*self.socket, Shutdown::Both);
    }
}

impl Abroad for OtherJobs {
    fn listens_at(&self, port: u32) -> bool {
        open(&self.ports).contains_key(&port)
    }

    fn take_caller(&self, port: u32) -> Option<Box<dyn Line>> {
        let ports = open(&self.ports);
        let mut callers = open(&ports.get(&port)?.callers);
        callers.pop_front()
    }

    fn give_back(&self, port: u32, line: Box<dyn Line>) {
        if let Some(port) = open(&self.ports).get(&port) {
            open(&port.callers).push_front(line);
        }
    }

    fn draw_key(&self) -> Result<[u8; 32]> {
        let key = Key::random().map_err(|error| refused(format!("no key: {error}")))?;
        Ok(*key.as_bytes())
    }

    fn listen(&self, wide: bool) -> Result<Box<dyn Listening>> {
        let process = self.process.upgrade().ok_or_else(gone)?;
        // Who this is among them is known when all listen.
        let mut config = Config::new(0, u32::MAX, Key::from_bytes([0; Key::BYTES]));
        config.neighbours = process.load().awake;
        config.listen = match wide {
            true => Listen::Interfaces,
            false => Listen::Loopback,
        };
        let opening = Opening::new(config).map_err(|error| refused(error.to_string()))?;
        let gate = self.gate.clone();
        Ok(Box::new(Half {
            opening,
            gate,
            process,
        }))
    }

    fn widen(&self, fabric: &mut Box<dyn Fabric>) -> Result<()> {
        let widened = self.gate.widen(fabric);
        widened.map_err(|error| refused(error.to_string()))
    }

    fn close(&self, bridge: usize) {
        self.gate.close(bridge);
    }
}

/// One end of a bridge that is not open yet.
struct Half {
    opening: Opening,
    gate: Gate,
    process: Arc<Process>,
}

impl Listening for Half {
    fn address(&self) -> String {
        self.opening.card().to_string()
    }

    fn join(self: Box<Self>, members: Joining) -> Result<(usize, Vec<Peer>)> {
        let Self {
            mut opening,
            gate,
            process,
        } = *self;
        let failed = |reason: String| refused(reason);
        opening.set_place(members.me, members.addresses.len() as u32);
        opening.set_key(Key::from_bytes(members.key));
        let cards: std::result::Result<Vec<Card>, _> =
            members.addresses.iter().map(|text| text.parse()).collect();
        let cards = cards.map_err(|error| failed(error.to_string()))?;
        let tcp = opening
            .join(cards)
            .map_err(|error| failed(error.to_string()))?;
        let opened = gate.open(tcp, members.others, members.greets, process.own_bell());
        let opened = opened.map_err(|error| failed(error.to_string()))?;
        Ok((opened.bridge, opened.peers))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_whose_it_is_and_where() {
        let place = Place::of("weft:0a:3:7:1000@node-1").expect("entire");
        assert_eq!((place.user, place.host), (1000, "node-1"));
        for name in ["weft:0a:3:7", "weft:0a:3:7:", "weft:0a:3:7:x@y", ""] {
            assert!(Place::of(name).is_none(), "{name}");
        }
    }

    #[test]
    fn messages_of_any_length_go_by_a_line_and_its_end_is_heard() {
        let (one, other) =
            descriptor::socket_pair(descriptor::Carries::Messages).expect("descriptors are left");
        let mut line = LocalLine::new(one, Weak::new()).expect("a thread");
        let mut message = vec![0; 3 * PIECE + 5];
        message[PIECE] = 7;
        for message in [&message[..], &[], &message[..PIECE]] {
            line.send(message).expect("somebody hears");
            assert_eq!(hear(&other).as_deref(), Some(message));
        }
        drop(line);
        assert_eq!(hear(&other), None);
    }
}
