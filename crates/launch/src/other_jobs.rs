//! Other jobs: how processes of two jobs of one user find each other, and open a bridge.
//!
//! ```text
//!   MPI_Open_port     binds an abstract socket ── named by user, job and number of the port
//!                     and a door for other hosts ── address and key are in the name of the port
//!   MPI_Comm_connect  finds either by the name of the port ──► on one host both ends ask the kernel who is there, between
//!                     hosts both prove the key ──► a line of two roots
//!                     ── over which they agree ([`weft_mpi::comm`]) ──► a bridge ([`weft_fabric_tcp::bridged`])
//! ```
//!
//! The socket is in no file system and disappears with its process: nothing stale is left to be found. It belongs to the
//! process, as the door does, so no launcher takes part, whichever has started the two jobs. Any process that knows the
//! name of a port may connect from another host: it is a secret, and no text for the user has it whole
//! ([`PortName::shown`]).
//!
//! The bridge is TCP: over loopback, or over all interfaces if one of the jobs is on several hosts or the roots are on
//! two. Each connecting process proves a key that was drawn for this bridge and sent over the line and over what the
//! ranks of a job share.
//!
//! | file | what |
//! |---|---|
//! | `port_address` | the contents of a port's name |
//! | `open_port` | the thread that takes the calls |
//! | `local_line`, `network_line` | a connection between two roots |

mod local_line;
mod network_line;
mod open_port;
mod port_address;

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, mpsc};

use rustix::io::Errno;
use weft_fabric::{Fabric, Peer};
use weft_fabric_tcp::bridged::Gate;
use weft_fabric_tcp::{Card, Config, Listen, Opening};
use weft_mpi::comm::{BridgeMembers, JobConnector, Line, ListeningEnd, Terms};
use weft_mpi::{Error, ErrorClass, Process, Result};
use weft_secure::Key;
use weft_sys::{process, signal};

use self::local_line::LocalLine;
use self::network_line::NetworkLine;
use self::open_port::{OpenPort, open_door};
use self::port_address::{Door, PortAddress, full_name, this_host};
use crate::bootstrap::{PortName, abstract_socket};
use crate::hosts::dial::dial;

pub use self::open_port::Wanted;

/// A process's means to connect to those of other jobs. See the [module page](self).
#[derive(Debug)]
pub struct OtherJobs {
    process: Weak<Process>,
    gate: Gate,
    ports: Mutex<HashMap<u32, OpenPort>>,
    /// What goes from host to host is encrypted.
    is_sealed: bool,
}

fn open<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn refused(text: String) -> Error {
    Error::new(ErrorClass::Port, text)
}

fn socket_name(job: &str, number: u32) -> String {
    format!("weft-port-{}-{job}-{number}", process::user())
}

impl OtherJobs {
    /// For this process, which is notified of callers. `is_sealed`: its job encrypts data between hosts.
    #[must_use]
    pub fn of(process: &Arc<Process>, is_sealed: bool) -> Arc<Self> {
        let others = Arc::new(Self {
            process: Arc::downgrade(process),
            gate: Gate::new(process.peers()),
            ports: Mutex::default(),
            is_sealed,
        });
        let connector: Arc<dyn JobConnector> = Arc::<Self>::clone(&others);
        process.set_connector(connector);
        others
    }

    /// Lets other jobs call at a port that the launcher has opened for this process. Answers its whole name; if the system
    /// refuses, it is a port for this job alone, or this host, as its name says.
    ///
    /// # Errors
    /// `Other` if the system refuses what the program wants.
    pub fn open_port(&self, name: &str, wanted: Wanted) -> Result<String> {
        let Some((job, port)) = PortName::parse(name) else {
            return Ok(name.to_owned());
        };
        let door = match open_door(wanted) {
            Ok(door) => door,
            Err(error) if wanted.address.is_some() || wanted.port.is_some() => {
                return Err(Error::new(
                    ErrorClass::Other,
                    format!(
                        "the port cannot listen where the info keys say (ip_address {}, ip_port {}): {error}; name an address of \
                         this host and a port that is free, or leave them out",
                        wanted.address.map_or("any".into(), |one| one.to_string()),
                        wanted.port.map_or("any".into(), |one| one.to_string()),
                    ),
                ));
            }
            Err(_) => None,
        };
        let (listener, door) = door.unzip();
        let opened = abstract_socket::listen(&socket_name(job, port.number))
            .map_err(io::Error::from)
            .and_then(|local| OpenPort::new(local, listener, self.process.clone()));
        Ok(match opened {
            Ok(opened) => {
                open(&self.ports).insert(port.number, opened);
                full_name(name, door.as_ref())
            }
            Err(_) => name.to_owned(),
        })
    }

    /// Callers at the port that were not taken are turned away.
    pub fn close_port(&self, name: &str) {
        if let Some((_, port)) = PortName::parse(name) {
            open(&self.ports).remove(&port.number);
        }
    }

    /// A connection to the process that accepts at a port of another job.
    ///
    /// # Errors
    /// `Port`, if no process accepts there, or not for this process.
    pub fn call(&self, name: &str) -> Result<Box<dyn Line>> {
        let shown = PortName::shown(name);
        let (job, port) = PortName::parse(name).ok_or_else(|| {
            refused(format!(
                "'{shown}' is no name of a port of another job; pass what MPI_Open_port gave there, entire"
            ))
        })?;
        let Some(port_address) = PortAddress::of(name) else {
            return Err(refused(format!(
                "the port '{shown}' belongs to another job, which cannot be called there: the name is not entire, is of another release of \
                 Weft, or its system has refused a local socket; start both sides by one command (mpiexec -n 1 one : -n 1 other)"
            )));
        };
        if port_address.user == process::user()
            && let Some(line) = self.call_here(shown, &socket_name(job, port.number))?
        {
            return Ok(line);
        }
        match port_address.door {
            Some(door) => self.call_elsewhere(shown, port_address.host, door),
            None => Err(no_door(shown, &port_address)),
        }
    }

    /// A way to a process of this host; `None` if there is none.
    fn call_here(&self, shown: &str, socket: &str) -> Result<Option<Box<dyn Line>>> {
        let socket = match abstract_socket::connect(socket) {
            Ok(socket) => socket,
            Err(Errno::CONNREFUSED) => return Ok(None),
            Err(error) => {
                return Err(refused(format!(
                    "the port '{shown}' of another job cannot be called: {}; close connections that are not needed any more",
                    io::Error::from(error)
                )));
            }
        };
        if !abstract_socket::runs_as_us(&socket) {
            return Err(refused(format!(
                "at the port '{shown}' there is a process of another user, which is not the one that the name means; open another port"
            )));
        }
        let line = LocalLine::new(socket, self.process.clone()).map_err(no_thread)?;
        Ok(Some(Box::new(line)))
    }

    /// A way to a process of another host. Progress is made while it is looked for.
    fn call_elsewhere(&self, shown: &str, host: &str, door: Door) -> Result<Box<dyn Line>> {
        let process = self.process.upgrade().ok_or_else(gone)?;
        let (tell, heard) = mpsc::channel();
        let told = self.process.clone();
        let dialler = move || {
            let _ = tell.send(dial(&door.key, &door.addresses));
            notify(&told);
        };
        signal::spawn_without_signals("weft-watch", dialler).map_err(no_thread)?;
        let dialled = wait_for(&process, &heard).ok_or_else(gone)?;
        let link = dialled.map_err(|tried| {
            refused(format!(
                "the port '{shown}' belongs to another job, and from this host, {}, nobody is found there ({host}: {tried}): it was \
                 closed, its process has ended, or the network between the hosts does not let connections through; open it with \
                 MPI_Open_port where this host can come (info keys ip_address and ip_port), and pass the name entire",
                this_host()
            ))
        })?;
        let line = NetworkLine::new(link, self.process.clone()).map_err(no_thread)?;
        Ok(Box::new(line))
    }
}

fn no_thread(error: io::Error) -> Error {
    refused(format!(
        "no thread to hear another job: {error}; raise the limit of processes (ulimit -u)"
    ))
}

/// Why nobody is found at a port that other hosts cannot come to.
fn no_door(shown: &str, PortAddress { user, host, .. }: &PortAddress<'_>) -> Error {
    let here = this_host();
    let own = process::user();
    refused(if *user != own {
        format!(
            "the port '{shown}' belongs to a job of user {user}, and this is one of user {own}; only jobs of one user can be \
             connected: start both as the same"
        )
    } else if *host != here {
        format!(
            "the port '{shown}' belongs to another job, whose process is on host {host}, and this one is on {here}; the port is none \
             that other hosts can come to: that host has no network, or the info key ip_address keeps it to itself"
        )
    } else {
        format!(
            "the port '{shown}' belongs to another job, and nobody is there: it was closed, its process has ended, or it is in another \
             network namespace (a container) than this one; open one with MPI_Open_port, where both can see it"
        )
    })
}

fn notify(process: &Weak<Process>) {
    if let Some(process) = process.upgrade() {
        process.notify();
    }
}

fn gone() -> Error {
    refused(
        "the other job has closed the port, has given up, or has ended; look at its own last output".into(),
    )
}

/// The next message on a line, if it has come.
fn taken(heard: &mpsc::Receiver<Vec<u8>>) -> Option<Result<Vec<u8>>> {
    match heard.try_recv() {
        Ok(said) => Some(Ok(said)),
        Err(mpsc::TryRecvError::Disconnected) => Some(Err(gone())),
        Err(mpsc::TryRecvError::Empty) => None,
    }
}

/// What another thread says; `None` if it says nothing more. Progress is made meanwhile.
fn wait_for<T>(process: &Process, heard: &mpsc::Receiver<T>) -> Option<T> {
    let mut found = None;
    process.wait_until(|| {
        found = match heard.try_recv() {
            Ok(said) => Some(Some(said)),
            Err(mpsc::TryRecvError::Disconnected) => Some(None),
            Err(mpsc::TryRecvError::Empty) => None,
        };
        found.is_some()
    });
    found.flatten()
}

impl JobConnector for OtherJobs {
    fn listens_at(&self, port: u32) -> bool {
        open(&self.ports).contains_key(&port)
    }

    fn take_caller(&self, port: u32) -> Option<Box<dyn Line>> {
        open(&self.ports).get(&port)?.take_caller()
    }

    fn give_back(&self, port: u32, line: Box<dyn Line>) {
        if let Some(port) = open(&self.ports).get(&port) {
            port.give_back(line);
        }
    }

    fn draw_key(&self) -> Result<[u8; 32]> {
        let key = Key::random().map_err(|error| refused(format!("no key: {error}")))?;
        Ok(*key.as_bytes())
    }

    fn is_sealed(&self) -> bool {
        self.is_sealed
    }

    fn listen(&self, terms: Terms) -> Result<Box<dyn ListeningEnd>> {
        let process = self.process.upgrade().ok_or_else(gone)?;
        // The number of this process among them is known when all listen.
        let mut config = Config::new(0, u32::MAX, Key::from_bytes([0; Key::BYTES]));
        config.neighbours = process.load().awake;
        // Loopback is read by nobody.
        config.seal = terms.sealed && terms.wide;
        config.listen = match terms.wide {
            true => Listen::Interfaces,
            false => Listen::Loopback,
        };
        let opening = Opening::new(config).map_err(|error| refused(error.to_string()))?;
        let gate = self.gate.clone();
        Ok(Box::new(BridgeListener {
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
struct BridgeListener {
    opening: Opening,
    gate: Gate,
    process: Arc<Process>,
}

impl ListeningEnd for BridgeListener {
    fn address(&self) -> String {
        self.opening.card().to_string()
    }

    fn join(self: Box<Self>, members: BridgeMembers) -> Result<(usize, Vec<Peer>)> {
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
        let opened = gate.open(tcp, members.others, process.own_bell());
        let opened = opened.map_err(|error| failed(error.to_string()))?;
        Ok((opened.bridge, opened.peers))
    }
}
