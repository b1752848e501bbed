//! Call listener: the thread of the lowest rank of a host, which starts launchers when it is called.
//!
//! ```text
//!   head   (rank 0 alone)   none ── Begin ─► starting ── it listens ─► waiting ── all hosts have come ─► complete
//!                            ▲                  └── gone ◄────────────────┘ gone
//!   agent                   none ── Join ──► starting ── it has the ranks ─► this process is adopted
//!                            ▲                  └── gone
//! ```

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use std::{fmt, io};

use weft_sys::event::EventFd;
use weft_sys::poll::{self, Interest, PollFd};
use weft_sys::signal;

use super::host_watch::{HostWatch, Losses};
use super::{Answered, Call, CalledHosts};
use crate::bootstrap::adopted::{Adopted, StartingLauncher, hear};
use crate::control::Answer;
use crate::hosts::dial::SILENCE;
use crate::hosts::join_listener::JoinListener;
use crate::hosts::link::{Link, LinkError};

/// How long an answer may take to leave.
const LEAVE: Duration = Duration::from_secs(1);

/// The launchers that a rank starts when it is called, and its reaction to their state.
pub trait Start: Send + Sync + 'static {
    /// The head. It says over this socket where it listens, and then that all hosts have come.
    ///
    /// # Errors
    /// Why there is none.
    fn head(&self) -> Result<OwnedFd, String>;

    /// The agent of this host, which is to join the head that listens there.
    ///
    /// # Errors
    /// Why there is none.
    fn agent(&self, head: &str) -> Result<StartingLauncher, String>;

    /// Whether this process has a launcher.
    fn is_adopted(&self) -> bool;

    /// This process is adopted by this launcher.
    fn adopt(&self, launcher: Adopted);

    /// This rank searches for deadlocks on its host, and reports the findings over the link.
    fn search(&self, rank: u32, link: Link);
}

/// The thread that receives calls. It ends when this is dropped.
pub struct CallListener {
    end: Arc<EventFd>,
    thread: Option<JoinHandle<()>>,
}

impl CallListener {
    /// Receives calls at this port, as the lowest rank of this host. With `losses` the hosts detect each other's loss
    /// from the return on, if rank 0 can be called.
    ///
    /// # Errors
    /// If there is no thread, or no descriptor.
    pub fn begin(
        port: TcpListener,
        hosts: &CalledHosts,
        rank: u32,
        start: Arc<impl Start>,
        losses: Option<Losses>,
    ) -> io::Result<Self> {
        let end = Arc::new(EventFd::new()?);
        let count = hosts.map.count() as usize;
        let listener_thread = ListenerThread {
            port: JoinListener::over(port, hosts.key.clone(), count)?,
            end: Arc::clone(&end),
            rank,
            start,
            callers: Vec::new(),
            head: Head::None,
            agent: None,
            watch: HostWatch::new(hosts.clone(), losses),
        };
        let (begun, watch_begun) = mpsc::channel();
        let thread =
            signal::spawn_without_signals("weft-calls", move || listener_thread.run(begun))?;
        // A rank that dies before rank 0 has heard of it is missed by nobody. It ends when the other end is dropped: dialling and its answer
        // have limits.
        let _: Result<(), _> = watch_begun.recv();
        Ok(Self {
            end,
            thread: Some(thread),
        })
    }
}

impl fmt::Debug for CallListener {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("CallListener")
    }
}

impl Drop for CallListener {
    fn drop(&mut self) {
        self.end.notify();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The head, as who has started it sees it.
enum Head {
    None,
    /// It was started, and says over this socket where it listens.
    Starting(OwnedFd),
    /// It waits for agents, and says when all have come.
    Waiting {
        control: OwnedFd,
        place: String,
    },
    /// It has all hosts.
    Complete {
        place: String,
    },
}

/// The callers.
struct Caller {
    link: Link,
    /// For the head, or the agent; `None`: for nothing.
    waits: Option<Awaited>,
    /// For what its link is kept.
    kept: Option<Kept>,
}

/// A link that is kept is that of this rank.
#[derive(Clone, Copy)]
enum Kept {
    /// It is to be missed.
    Watched(u32),
    /// It searches for deadlocks.
    Searches(u32),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Awaited {
    Head,
    Agent,
}

struct ListenerThread<S> {
    port: JoinListener,
    end: Arc<EventFd>,
    /// Of this process.
    rank: u32,
    start: Arc<S>,
    callers: Vec<Caller>,
    head: Head,
    agent: Option<StartingLauncher>,
    watch: HostWatch,
}

impl<S: Start> ListenerThread<S> {
    /// `begun` is dropped once the watch has begun.
    fn run(mut self, begun: mpsc::Sender<()>) {
        self.watch.begin(self.rank);
        drop(begun);
        while let Ok(true) = self.turn() {}
        self.watch.part();
    }

    /// Waits for something to happen, and attends to it. False: it ends.
    fn turn(&mut self) -> io::Result<bool> {
        let mut entries = vec![PollFd::new(&*self.end, Interest::Read)];
        let head = self.head.control();
        entries.extend(head.map(|control| PollFd::new(control, Interest::Read)));
        let agent_at = entries.len();
        let agent = self.agent.as_ref().map(StartingLauncher::control);
        entries.extend(agent.map(|control| PollFd::new(control, Interest::Read)));
        let callers_at = entries.len();
        entries.extend(self.callers.iter().map(|caller| caller.link.reading()));
        let watched_at = entries.len();
        entries.extend(self.watch.entries());
        let port_at = entries.len();
        entries.extend(self.port.entries());
        let looks = self.port.next_look().into_iter();
        let look = looks.chain(self.watch.next_look()).min();
        let left = look.map(|look| look.saturating_duration_since(Instant::now()));
        poll::wait(&mut entries, left)?;
        let ready: Vec<bool> = entries.iter().map(PollFd::is_ready).collect();
        drop(entries);
        if ready[0] {
            return Ok(false);
        }
        if ready[1..agent_at].contains(&true) {
            self.hear_head();
        }
        if ready[agent_at..callers_at].contains(&true) {
            self.hear_agent();
        }
        self.watch
            .proceed(&ready[watched_at..port_at], Instant::now());
        self.hear_callers(&ready[callers_at..watched_at]);
        let came = (self.port).proceed(&ready[port_at..], Instant::now(), SILENCE);
        for link in came {
            let mut caller = Caller {
                link,
                waits: None,
                kept: None,
            };
            // Its first call is often here already.
            if self.hear_caller(&mut caller, false).is_ok() {
                self.keep(caller);
            }
        }
        Ok(true)
    }

    fn hear_callers(&mut self, ready: &[bool]) {
        let callers = std::mem::take(&mut self.callers);
        for (index, mut caller) in callers.into_iter().enumerate() {
            let reading = ready.get(index) == Some(&true);
            if !reading || self.hear_caller(&mut caller, true).is_ok() {
                self.keep(caller);
            }
        }
    }

    fn keep(&mut self, caller: Caller) {
        match caller.kept {
            Some(Kept::Watched(rank)) => self.watch.called(rank, caller.link),
            Some(Kept::Searches(rank)) => self.start.search(rank, caller.link),
            None => self.callers.push(caller),
        }
    }

    /// Does what a caller asks; an error: it is gone.
    fn hear_caller(&mut self, caller: &mut Caller, reading: bool) -> Result<(), LinkError> {
        // Messages from before the end count.
        let filled = match reading {
            true => caller.link.fill(),
            false => Ok(()),
        };
        while let Some(call) = caller.link.next()? {
            let answered = match call {
                Call::Begin => self.begin(caller),
                Call::Join { head } => self.join(caller, &head),
                // Later messages go to whoever has the link then.
                Call::Watch { rank } => {
                    caller.kept = Some(Kept::Watched(rank));
                    return Ok(());
                }
                Call::Search { rank } => {
                    caller.kept = Some(Kept::Searches(rank));
                    return Ok(());
                }
            };
            if let Some(answered) = answered {
                caller.answer(&answered);
            }
        }
        filled
    }

    /// `None`: it is answered later.
    fn begin(&mut self, caller: &mut Caller) -> Option<Answered> {
        match &self.head {
            Head::Waiting { place, .. } | Head::Complete { place } => {
                let head = place.clone();
                return Some(Answered::Begun { head });
            }
            Head::Starting(_) => {}
            Head::None if self.rank != 0 => {
                let reason = "the head of a job is beside rank 0".into();
                return Some(Answered::Refused { reason });
            }
            Head::None => match self.start.head() {
                Ok(control) => self.head = Head::Starting(control),
                Err(reason) => return Some(Answered::Refused { reason }),
            },
        }
        caller.waits = Some(Awaited::Head);
        None
    }

    fn join(&mut self, caller: &mut Caller, head: &str) -> Option<Answered> {
        if self.start.is_adopted() {
            return Some(Answered::Joined);
        }
        if self.agent.is_none() {
            match self.start.agent(head) {
                Ok(agent) => self.agent = Some(agent),
                Err(reason) => return Some(Answered::Refused { reason }),
            }
        }
        caller.waits = Some(Awaited::Agent);
        None
    }

    fn answer_all(&mut self, awaited: Awaited, answered: &Answered) {
        for caller in &mut self.callers {
            if caller.waits == Some(awaited) {
                caller.answer(answered);
            }
        }
    }

    /// The head says something, or is gone.
    fn hear_head(&mut self) {
        let head = std::mem::replace(&mut self.head, Head::None);
        let Some(control) = head.control() else {
            return self.head = head;
        };
        let said = hear(control).ok().flatten();
        self.head = match (head, said) {
            (Head::Starting(control), Some(Answer::Value(Some(place)))) => {
                let place = String::from_utf8_lossy(&place).into_owned();
                let head = place.clone();
                self.answer_all(Awaited::Head, &Answered::Begun { head });
                Head::Waiting { control, place }
            }
            (Head::Waiting { place, .. }, Some(Answer::Taken)) => Head::Complete { place },
            (_, said) => {
                let reason = match said {
                    Some(Answer::Refused { reason }) => reason,
                    _ => "it has ended; all must be of the same release of Weft".into(),
                };
                self.answer_all(Awaited::Head, &Answered::Refused { reason });
                Head::None
            }
        };
    }

    /// The agent has taken the ranks of this host, or has not.
    fn hear_agent(&mut self) {
        let Some(agent) = self.agent.take() else {
            return;
        };
        let answered = match agent.finish() {
            Ok(adopted) => {
                self.start.adopt(adopted);
                Answered::Joined
            }
            Err(reason) => Answered::Refused { reason },
        };
        self.answer_all(Awaited::Agent, &answered);
    }
}

impl Head {
    fn control(&self) -> Option<&OwnedFd> {
        match self {
            Self::Starting(control) | Self::Waiting { control, .. } => Some(control),
            Self::None | Self::Complete { .. } => None,
        }
    }
}

impl Caller {
    fn answer(&mut self, answered: &Answered) {
        self.waits = None;
        self.link.say(answered);
        self.link.drain(LEAVE);
    }
}
