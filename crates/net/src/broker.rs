//! The broker: it builds a system, starts each component as a process with only its own capabilities,
//! replaces components that die, gives places to programs that attach, and answers questions.
//!
//! ```text
//!   weft net up ── broker ──capabilities over a socket──▶ process of each component
//!                    │ ▲
//!                    │ └── weft net status | policy | down, and programs that attach:
//!                    │      one local socket without a name in any file system
//!                    └── notices an end by a descriptor of the process
//! ```
//!
//! The broker moves no frames and touches no buffers. It waits for nobody: callers that send slowly or do not
//! read, and components that cannot be started, are handled when there is news of them (`callers.rs`,
//! `restarts.rs`).

mod callers;
mod journal;
mod line;
mod messages;
mod process;
mod restarts;
mod slots;
mod status;

pub use callers::{CALL, CALLS};
pub use line::{LONGEST, LineProgress, PartialLine};
pub use messages::{Answer, ClientStatus, ComponentStatus, Question, Status, ask, attach};
pub use process::{FarEnd, Start, component_main};

use std::collections::HashMap;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::time::Duration;

use weft_sys::netns::NetworkNamespace;
use weft_sys::poll::{self, Interest, PollFd};
use weft_sys::process::SIGKILL;
use weft_sys::{clock, descriptor, process as processes};

use crate::description::{Description, DriverThreads, WireDescription};
use crate::system::{ComponentId, PHASES, System, card_buffers};
use crate::wire::{Access, HOST, NEAR, TapInterface, Veth};
use callers::{CallNumber, Callers, Turn};
use journal::Journal;
use process::{Running, VirtualWire, WireMessage};
use restarts::Restarts;
use slots::{ClientSlot, PendingAttachment};

/// A running system of processes.
pub struct Broker {
    system: System,
    start: Start,
    wire: Wire,
    /// The components that the broker runs.
    lives: HashMap<ComponentId, Life>,
    restarts: HashMap<ComponentId, Restarts>,
    /// Occupied places of programs that attach, by client.
    slots: HashMap<usize, ClientSlot>,
    /// Programs that get a place as soon as it is ready.
    pending: Vec<PendingAttachment>,
    callers: Callers<UnixListener>,
    journal: Journal,
}

/// The life of a component.
enum Life {
    Running(Running),
    Ended {
        /// When it is started again, in nanoseconds.
        due: u64,
        /// Whether its neighbours have been told.
        reattached: bool,
    },
}

impl Life {
    fn process(&self) -> Option<&Running> {
        match self {
            Self::Running(running) => Some(running),
            Self::Ended { .. } => None,
        }
    }
}

enum Wire {
    Virtual(u64),
    Real(Box<RealWire>),
}

/// An interface of the host.
struct RealWire {
    access: Access,
    name: String,
    /// The namespace of its far end, if that was made for the run.
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
                let place = TapInterface::create()?;
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

/// How long a neighbour may take to release what a dead component had.
const FOLLOW: Duration = Duration::from_millis(100);

/// Time until something that the kernel refused is tried again, in nanoseconds.
const RETRY: u64 = 100_000_000;

/// How long all components together may take to end when the system goes down.
const FAREWELL: Duration = Duration::from_millis(500);

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
        // A large system has more descriptors than a program may usually have.
        descriptor::raise_limit()?;
        let listener = UnixListener::bind_addr(&address(&name)?).map_err(|error| {
            io::Error::new(
                error.kind(),
                format!(
                    "a system called {name:?} seems to run already ({error}): weft net down {name}, or \
                     give this one another name"
                ),
            )
        })?;
        listener.set_nonblocking(true)?;
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
            lives: HashMap::new(),
            restarts: HashMap::new(),
            slots: HashMap::new(),
            pending: Vec::new(),
            callers: Callers::new(listener, processes::user()),
            journal: Journal::default(),
            system,
            start,
            wire,
        };
        for id in broker.system.components() {
            if broker.is_ours(id) {
                broker.launch(id)?;
            }
        }
        Ok(broker)
    }

    /// Whether the broker runs it: a client without work is a place for attaching programs.
    fn is_ours(&self, id: ComponentId) -> bool {
        match id {
            ComponentId::Client(index) => self.system.description().clients[index].work.is_some(),
            _ => true,
        }
    }

    fn wire(&self, id: ComponentId) -> io::Result<WireMessage> {
        if !matches!(id, ComponentId::Driver | ComponentId::TxDriver) {
            return Ok(WireMessage::None);
        }
        Ok(match &self.wire {
            Wire::Virtual(bits) => WireMessage::Virtual(VirtualWire {
                bits: *bits,
                clients: self.system.description().clients.len(),
            }),
            Wire::Real(real) if id == ComponentId::TxDriver => {
                WireMessage::Plug(real.access.sending_plug(&real.name)?)
            }
            Wire::Real(real) => WireMessage::Plug(real.access.plug()?),
        })
    }

    fn launch(&mut self, id: ComponentId) -> io::Result<()> {
        let name = self.system.name(id);
        let capabilities = self.system.capabilities(id)?;
        let core = self.system.description().cores.of.get(&name).copied();
        let nice = self.system.description().nice.get(&name).copied();
        let wire = self.wire(id)?;
        let running = Running::launch(&self.start, &name, capabilities, wire, (core, nice))?;
        self.lives.insert(id, Life::Running(running));
        Ok(())
    }

    /// Makes the neighbours of a component that is gone take back its buffers.
    ///
    /// # Errors
    /// If there is no memory for the replacements: to be tried again.
    fn reattach(&mut self, gone: ComponentId) -> io::Result<()> {
        for phase in 0..PHASES {
            let reattached = self.system.reattach(gone, phase)?;
            for id in reattached.cut_off {
                // It has not read hundreds of messages: it is replaced, and its successor starts from the
                // present state.
                if let Some(running) = self.lives.get(&id).and_then(Life::process) {
                    let _ = running.handle.signal(SIGKILL);
                }
            }
            let end = clock::deadline_after(FOLLOW);
            for id in reattached.told {
                // A client need not behave; a neighbour that is dead itself is reattached in its own turn.
                while self.is_alive(id) && !self.system.has_followed(id) && clock::monotonic() < end
                {
                    weft_sys::cores::yield_core();
                }
            }
        }
        Ok(())
    }

    fn is_alive(&self, id: ComponentId) -> bool {
        let running = self.lives.get(&id).and_then(Life::process);
        !matches!(id, ComponentId::Client(_))
            && running.is_some_and(|running| {
                matches!(running.handle.wait_end(Some(Duration::ZERO)), Ok(false))
            })
    }

    /// Serves until told to go down.
    ///
    /// # Errors
    /// Never today: whatever the kernel refuses is tried again later.
    pub fn serve(&mut self) -> io::Result<()> {
        loop {
            let ready = match self.wait() {
                Ok(ready) => ready,
                Err(error) => {
                    self.say(format_args!("{error}; it goes on in 0.1 s"));
                    // Without entries this only sleeps.
                    let _ = poll::wait(&mut [], Some(Duration::from_nanos(RETRY)));
                    Readiness::default()
                }
            };
            for id in ready.ended {
                self.note_end(id);
            }
            for client in ready.left {
                self.slots.insert(client, ClientSlot::Leaving);
            }
            self.clear_slots();
            self.start_again();
            let turn = self.callers.turn(&ready.callers, clock::monotonic());
            if self.answer_all(turn) {
                return Ok(());
            }
            self.attach_pending();
        }
    }

    /// Waits for news, or until something is due.
    fn wait(&self) -> io::Result<Readiness> {
        let mut ready = Readiness::default();
        let mut entries = Vec::new();
        let mut components = Vec::new();
        for (id, life) in &self.lives {
            if let Life::Running(running) = life {
                components.push(*id);
                entries.push(PollFd::new(&running.handle, Interest::Read));
            }
        }
        let mut clients = Vec::new();
        for (client, slot) in &self.slots {
            if let ClientSlot::Taken(attached) = slot {
                attached.watch(&mut entries);
                clients.resize(entries.len() - components.len(), *client);
            }
        }
        self.callers.watch(&mut entries);
        let limit = self
            .deadline()
            .map(|due| Duration::from_nanos(due.saturating_sub(clock::monotonic())));
        poll::wait(&mut entries, limit)?;
        let mut found = entries.iter().map(PollFd::is_ready);
        ready.ended = components
            .into_iter()
            .zip(&mut found)
            .filter_map(|(id, is_ready)| is_ready.then_some(id))
            .collect();
        for client in clients {
            if found.next() == Some(true) && !ready.left.contains(&client) {
                ready.left.push(client);
            }
        }
        ready.callers = found.collect();
        Ok(ready)
    }

    /// When something is due even without news.
    fn deadline(&self) -> Option<u64> {
        /// How often to check whether components have followed an order, in nanoseconds: nothing announces
        /// it.
        const LOOK: u64 = 500_000;
        let now = clock::monotonic();
        let ended = self.lives.values().filter_map(|life| match life {
            Life::Running(_) => None,
            Life::Ended { due, .. } => Some(*due),
        });
        let leaving = self
            .slots
            .values()
            .any(|slot| matches!(slot, ClientSlot::Leaving));
        let pending = !self.pending.is_empty();
        ended
            .chain(self.callers.deadline())
            .chain(leaving.then_some(now + RETRY))
            .chain(pending.then_some(now + LOOK))
            .min()
    }

    fn say(&mut self, sentence: std::fmt::Arguments<'_>) {
        self.journal.say(clock::monotonic(), sentence);
    }

    /// A component has ended: schedules its successor.
    fn note_end(&mut self, id: ComponentId) {
        let Some(Life::Running(mut running)) = self.lives.remove(&id) else {
            return;
        };
        let ended = match running.child.wait() {
            Ok(ended) => ended.to_string(),
            Err(error) => error.to_string(),
        };
        let now = clock::monotonic();
        let due = self.restarts.entry(id).or_default().due_after(now);
        let name = self.system.name(id);
        let wait = (due - now) as f64 * 1e-9;
        match due > now {
            true => self.say(format_args!(
                "{name} ended ({ended}) once more and is replaced in {wait:.1} s"
            )),
            false => self.say(format_args!("{name} ended ({ended}) and is replaced")),
        }
        let reattached = false;
        self.lives.insert(id, Life::Ended { due, reattached });
    }

    /// Tells the neighbours of components that have ended, and starts successors that are due.
    fn start_again(&mut self) {
        let ended: Vec<(ComponentId, u64, bool)> = self
            .lives
            .iter()
            .filter_map(|(&id, life)| match *life {
                Life::Ended { due, reattached } => Some((id, due, reattached)),
                Life::Running(_) => None,
            })
            .collect();
        for (id, mut due, mut reattached) in ended {
            let now = clock::monotonic();
            let mut tried = Ok(());
            if !reattached {
                tried = self.reattach(id);
                reattached = tried.is_ok();
            }
            if reattached && due <= now {
                tried = self.launch(id);
                if tried.is_ok() {
                    continue;
                }
                due = self.restarts.entry(id).or_default().due_after(now);
            }
            if let Err(error) = tried {
                let name = self.system.name(id);
                self.say(format_args!("{name} could not be replaced yet: {error}"));
                due = due.max(now + RETRY);
            }
            self.lives.insert(id, Life::Ended { due, reattached });
        }
    }

    /// Answers the questions; true if the system is to go down.
    fn answer_all(&mut self, turn: Turn) -> bool {
        if let Some(error) = turn.trouble {
            self.say(format_args!("nobody can be answered for now: {error}"));
        }
        if let Some(user) = turn.stranger {
            self.say(format_args!("user {user} was refused"));
        }
        let mut is_over = false;
        for (number, question) in turn.questions {
            is_over |= self.answer(number, &question);
        }
        is_over
    }

    fn answer(&mut self, number: CallNumber, question: &[u8]) -> bool {
        let mut is_over = false;
        let answer = match serde_json::from_slice(question) {
            Ok(Question::Status) => Answer::Status(self.status()),
            Ok(Question::Policy(choice)) => {
                self.system.set_policy(&choice);
                Answer::Done
            }
            Ok(Question::Down) => {
                is_over = true;
                Answer::Done
            }
            Ok(Question::Attach(name)) => match self.ask_for_place(number, &name) {
                Ok(()) => return false,
                Err(refusal) => Answer::Refused(refusal),
            },
            Err(error) => Answer::Refused(format!(
                "the question is not understood ({error}): both sides must be of the same version"
            )),
        };
        self.callers.answer(number, &answer);
        is_over
    }
}

/// The sources that have news.
#[derive(Default)]
struct Readiness {
    /// Components that have ended.
    ended: Vec<ComponentId>,
    /// Clients whose program is gone.
    left: Vec<usize>,
    callers: Vec<bool>,
}

impl Drop for Broker {
    fn drop(&mut self) {
        for id in self.system.components() {
            self.system.control_page(id).stop(true);
            self.system.order(id);
        }
        let end = clock::deadline_after(FAREWELL);
        for (_, life) in self.lives.drain() {
            let Life::Running(mut running) = life else {
                continue;
            };
            // A component that does not end by itself is killed.
            let left = Duration::from_nanos(end.saturating_sub(clock::monotonic()));
            if !matches!(running.handle.wait_end(Some(left)), Ok(true)) {
                let _ = running.child.kill();
            }
            let _ = running.child.wait();
        }
    }
}
