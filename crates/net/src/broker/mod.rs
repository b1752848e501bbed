//! The broker: builds a system, starts each component as a process that gets its own grant and
//! nothing else, replaces what dies, hands places to programs that attach, answers questions.
//!
//! ```text
//!   weft net up ── broker ──grant over a socket──▶ process of each component
//!                    │ ▲
//!                    │ └── weft net status | policy | down, and programs that attach:
//!                    │      one local socket without a name in any file system
//!                    └── notices an end by a descriptor of the process
//! ```
//!
//! The broker moves no frames and touches no buffers, except to overwrite those of a client that is
//! gone before another gets its place.

mod messages;
mod process;

pub use messages::{Answer, ClientStatus, ComponentStatus, Question, Status, ask, attach};
pub use process::{Start, component_main};

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

use weft_sys::netns::NetworkNamespace;
use weft_sys::poll::{self, Entry, Interest};
use weft_sys::{clock, passing, process as processes};

use crate::description::{Description, DriverThreads, WireDescription};
use crate::system::{Id, PHASES, System, card_buffers};
use crate::wire::{Access, Flow, HOST, NEAR, Pattern, TapPlace, Veth};
use messages::grant_message;
use process::{Running, TapMessage};

/// A running system of processes.
pub struct Broker {
    system: System,
    start: Start,
    wire: Wire,
    running: HashMap<Id, Running>,
    restarts: HashMap<Id, u32>,
    /// Programs that attached, by client.
    attached: HashMap<usize, UnixStream>,
    listener: UnixListener,
}

enum Wire {
    Virtual(u64),
    Real(Box<RealWire>),
}

/// An interface of the host.
struct RealWire {
    access: Access,
    name: String,
    /// Where its far end is, if that was made for the run.
    namespace: Option<NetworkNamespace>,
}

impl Wire {
    fn open(description: &Description) -> io::Result<Self> {
        let buffers = card_buffers(description);
        let (access, name, namespace) = match &description.wire {
            WireDescription::Virtual { bits } => return Ok(Self::Virtual(*bits)),
            WireDescription::Veth { driver } => {
                let veth = Veth::create()?;
                let access = Access::to_veth(&veth, *driver, buffers)?;
                (access, NEAR.into(), Some(veth.namespace))
            }
            WireDescription::Tap => {
                let place = TapPlace::create()?;
                (Access::to_tap(&place)?, HOST.into(), Some(place.namespace))
            }
            WireDescription::Interface { name, driver } => {
                let access = Access::to_interface(name, *driver, buffers)?;
                (access, name.clone(), None)
            }
        };
        Ok(Self::Real(Box::new(RealWire {
            access,
            name,
            namespace,
        })))
    }
}

/// How long a neighbour may take to let go of what a dead component had.
const FOLLOW: Duration = Duration::from_millis(100);

/// The address of a system of this name and user: abstract, so it is gone with the broker.
///
/// # Errors
/// If the name is too long.
pub fn address(name: &str) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("weft-net-{}-{name}", processes::user()))
}

impl Broker {
    /// Starts everything.
    ///
    /// # Errors
    /// If a system of this name runs already, a privilege is missing, or the kernel refuses.
    pub fn up(description: Description, start: Start) -> io::Result<Self> {
        let name = description.name.clone();
        let listener = UnixListener::bind_addr(&address(&name)?).map_err(|error| {
            io::Error::new(
                error.kind(),
                format!(
                    "a system called {name:?} seems to run already ({error}): weft net down {name}, or \
                     give this one another name"
                ),
            )
        })?;
        let wire = Wire::open(&description)?;
        if matches!(wire, Wire::Virtual(_)) && description.driver_threads == DriverThreads::Two {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "driver-threads = \"two\": the two halves of a virtual wire share memory of one \
                 process; write run = \"threads\", or choose another wire",
            ));
        }
        let system = System::create(description)?;
        let mut broker = Self {
            running: HashMap::new(),
            restarts: HashMap::new(),
            attached: HashMap::new(),
            system,
            start,
            wire,
            listener,
        };
        for id in broker.system.components() {
            if broker.is_ours(id) {
                broker.launch(id)?;
            }
        }
        Ok(broker)
    }

    /// Whether the broker runs it: a client without work is a place for others.
    fn is_ours(&self, id: Id) -> bool {
        match id {
            Id::Client(index) => self.system.description.clients[index].work.is_some(),
            _ => true,
        }
    }

    fn tap(&self, id: Id) -> io::Result<TapMessage> {
        if !matches!(id, Id::Driver | Id::TxDriver) {
            return Ok(TapMessage::None);
        }
        Ok(match &self.wire {
            Wire::Virtual(bits) => {
                let clients = 0..self.system.description.clients.len();
                let flow = |client| Flow {
                    client,
                    // A steady trickle, so that something can be seen.
                    bits: 10_000_000,
                    payload: 1472,
                    from: 0,
                    until: u64::MAX,
                    pattern: Pattern::Steady,
                };
                TapMessage::Virtual(*bits, clients.map(flow).collect())
            }
            Wire::Real(real) if id == Id::TxDriver => {
                TapMessage::Plug(real.access.sending_plug(&real.name)?)
            }
            Wire::Real(real) => TapMessage::Plug(real.access.plug()?),
        })
    }

    fn launch(&mut self, id: Id) -> io::Result<()> {
        let name = self.system.name(id);
        let grant = self.system.grant(id)?;
        let core = self.system.description.cores.of.get(&name).copied();
        let nice = self.system.description.nice.get(&name).copied();
        let tap = self.tap(id)?;
        let running = Running::launch(&self.start, &name, grant, tap, (core, nice))?;
        self.running.insert(id, running);
        Ok(())
    }

    /// Lets the neighbours of a component that is gone take back what it had.
    fn renew(&mut self, gone: Id) {
        for phase in 0..PHASES {
            let told = self.system.renew(gone, phase);
            let end = clock::deadline_after(FOLLOW);
            for id in told {
                // A client need not behave; what is dead itself is renewed in its own turn.
                let alive = self.running.contains_key(&id) && !matches!(id, Id::Client(_));
                while alive && !self.system.has_followed(id) && clock::monotonic() < end {
                    weft_sys::cores::give_way();
                }
            }
        }
    }

    /// Serves until told to go down.
    ///
    /// # Errors
    /// If the kernel refuses to let it wait, or a component dies again and again.
    pub fn serve(&mut self) -> io::Result<()> {
        loop {
            let mut ids: Vec<Id> = Vec::new();
            let mut clients: Vec<usize> = Vec::new();
            let mut ready: Vec<bool>;
            {
                let mut entries = vec![Entry::new(&self.listener, Interest::Read)];
                for (id, running) in &self.running {
                    ids.push(*id);
                    entries.push(Entry::new(&running.handle, Interest::Read));
                }
                for (client, stream) in &self.attached {
                    clients.push(*client);
                    entries.push(Entry::new(stream, Interest::Read));
                }
                poll::wait(&mut entries, None)?;
                ready = entries.iter().map(Entry::is_ready).collect();
            }
            let gone_clients = ready.split_off(1 + ids.len());
            for (place, id) in ids.into_iter().enumerate() {
                if ready[1 + place] {
                    self.replace(id)?;
                }
            }
            for (client, _) in clients
                .into_iter()
                .zip(gone_clients)
                .filter(|(_, gone)| *gone)
            {
                self.attached.remove(&client);
                self.renew(Id::Client(client));
                self.system.wipe(client)?;
            }
            if ready[0] {
                let (stream, _) = self.listener.accept()?;
                match self.answer(stream) {
                    Ok(true) => return Ok(()),
                    Ok(false) => {}
                    // A caller that breaks off harms nobody else.
                    Err(error) => eprintln!("weft net: a question was not answered: {error}"),
                }
            }
        }
    }

    fn replace(&mut self, id: Id) -> io::Result<()> {
        const MOST: u32 = 100;
        let Some(mut running) = self.running.remove(&id) else {
            return Ok(());
        };
        let ended = running.child.wait()?;
        let restarts = self.restarts.entry(id).or_default();
        *restarts += 1;
        let name = self.system.name(id);
        eprintln!("weft net: {name} ended ({ended}) and is replaced");
        if *restarts > MOST {
            return Err(io::Error::other(format!(
                "{name} has ended {restarts} times: see what it says above"
            )));
        }
        self.renew(id);
        if let Id::Client(client) = id {
            self.system.wipe(client)?;
        }
        self.launch(id)
    }

    /// Answers one question; true if it was to go down.
    fn answer(&mut self, stream: UnixStream) -> io::Result<bool> {
        let peer = passing::peer_credentials(&stream)?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        stream.set_write_timeout(Some(Duration::from_secs(1)))?;
        let mut line = String::new();
        BufReader::new(io::Read::take(&stream, 64 << 10)).read_line(&mut line)?;
        let mut down = false;
        let answer = if peer.user != processes::user() && peer.user != 0 {
            Answer::Refused(format!(
                "this system belongs to user {}, you are {}",
                processes::user(),
                peer.user
            ))
        } else {
            match serde_json::from_str(&line) {
                Ok(Question::Status) => Answer::Status(self.status()),
                Ok(Question::Policy(choice)) => {
                    self.system.set_policy(&choice);
                    Answer::Done
                }
                Ok(Question::Down) => {
                    down = true;
                    Answer::Done
                }
                Ok(Question::Attach(name)) => return self.attach(&name, stream).map(|()| false),
                Err(error) => Answer::Refused(format!(
                    "the question is not understood ({error}): both sides must be of the same version"
                )),
            }
        };
        let mut text = serde_json::to_string(&answer)?;
        text.push('\n');
        (&stream).write_all(text.as_bytes())?;
        Ok(down)
    }

    fn attach(&mut self, name: &str, stream: UnixStream) -> io::Result<()> {
        let clients = &self.system.description.clients;
        let found = clients.iter().position(|client| client.name == name);
        let refuse = |message: String| {
            let mut text = serde_json::to_string(&Answer::Refused(message))?;
            text.push('\n');
            (&stream).write_all(text.as_bytes())
        };
        let places = || -> Vec<&str> {
            let free = clients.iter().filter(|client| client.work.is_none());
            free.map(|client| client.name.as_str()).collect()
        };
        match found {
            None => refuse(format!(
                "there is no client {name:?}; free places are {:?}",
                places()
            )),
            Some(index) if clients[index].work.is_some() => refuse(format!(
                "client {name:?} has work of its own; free places are {:?}",
                places()
            )),
            Some(index) if self.attached.contains_key(&index) => refuse(format!(
                "the place {name:?} is taken: describe another [[client]]"
            )),
            Some(index) => {
                let grant = self.system.grant(Id::Client(index))?;
                grant_message(&stream, grant)?;
                self.attached.insert(index, stream);
                Ok(())
            }
        }
    }

    fn status(&self) -> Status {
        let component = |id: Id| ComponentStatus {
            name: self.system.name(id),
            process: self
                .running
                .get(&id)
                .map_or(0, |running| running.child.id()),
            restarts: self.restarts.get(&id).copied().unwrap_or(0),
            seconds: self.system.board(id).time() as f64 / 1e9,
        };
        let client = |index: usize| {
            let mux = self.system.board(Id::RxMux).counters(1 + index);
            let copier = self.system.board(Id::RxCopier(index)).counters(1);
            let tx = self.system.board(Id::TxMux).counters(1 + index);
            let driver = match self.system.description.clients[index].driver {
                true => {
                    let board = self.system.board(Id::ClientDriver(index));
                    let all = (0..4).map(|port| board.counters(port));
                    all.fold((0, 0), |(faults, reclaimed), one| {
                        (faults + one.faults, reclaimed + one.reclaimed)
                    })
                }
                false => (0, 0),
            };
            let attached = self.attached.contains_key(&index);
            ClientStatus {
                name: self.system.description.clients[index].name.clone(),
                attached: attached || self.running.contains_key(&Id::Client(index)),
                received: copier.frames,
                received_bytes: copier.bytes,
                sent: tx.frames,
                sent_bytes: tx.bytes,
                dropped_full: mux.full + copier.full,
                dropped_starved: copier.starved,
                faults: copier.faults + tx.faults + mux.faults + driver.0,
                reclaimed: copier.reclaimed + tx.reclaimed + driver.1,
                depth: self.system.waiting_for(index),
            }
        };
        let (wire, namespace) = match &self.wire {
            Wire::Virtual(bits) => (format!("virtual, {bits} bit/s"), None),
            Wire::Real(real) => {
                let path = |namespace: &NetworkNamespace| {
                    let number = namespace.as_fd().as_raw_fd();
                    format!("/proc/{}/fd/{number}", processes::id())
                };
                let how = format!("{} through {}", real.name, real.access.how);
                (how, real.namespace.as_ref().map(path))
            }
        };
        Status {
            name: self.system.description.name.clone(),
            namespace,
            wire,
            missed: self.system.board(Id::Driver).counters(0).full,
            unknown: self.system.board(Id::RxMux).counters(0).unknown,
            policy: self.system.board(Id::TxMux).policy().1,
            components: self
                .system
                .components()
                .into_iter()
                .map(component)
                .collect(),
            clients: (0..self.system.description.clients.len())
                .map(client)
                .collect(),
        }
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        for id in self.system.components() {
            self.system.board(id).stop(true);
            self.system.order(id);
        }
        for (_, mut running) in self.running.drain() {
            // One that does not end by itself is ended.
            let ended = running.handle.wait_end(Some(Duration::from_millis(500)));
            if !matches!(ended, Ok(true)) {
                let _ = running.child.kill();
            }
            let _ = running.child.wait();
        }
    }
}
