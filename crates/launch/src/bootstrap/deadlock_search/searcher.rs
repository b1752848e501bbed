//! Searcher: the thread of the rank that searches.

use std::io::{self, ErrorKind, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::net::{SendFlags, send};
use weft_fabric_shm::Watch;
use weft_mpi::waits::RankWaits;
use weft_sys::event::EventFd;
use weft_sys::poll::{self, Interest, PollFd};
use weft_sys::{passing, process, signal};

use super::agent::Agent;
use super::head::Head;
use super::{Member, OUTCOME, VARIABLE};
use crate::bootstrap::key_listener::KeyListener;
use crate::control::{LONGEST, Message, WaitsInPieces};
use crate::hosts::link::Link;
use crate::job::deadlock::{self, Standstill};
use crate::options::OnDeadlock;

/// Messages of one rank that are read before others get their turn.
const AT_ONCE: usize = 64;
/// After what was said the job ends: how long a launcher has to pass it on. Hydra ends without waiting for what comes last.
const PASSED_ON: Duration = Duration::from_millis(200);
/// How long a launcher has to end the job. A launcher that knows that MPI is over does not notice an abort, only how this
/// process ends.
pub const ENDS: Duration = Duration::from_secs(3);

/// An order to the thread.
enum Order {
    /// A rank of another host has called, which searches there.
    TakeIn(u32, Box<Link>),
    /// To end.
    End,
}

/// The thread, for its owner.
#[derive(Debug)]
pub struct Search {
    orders: Sender<Order>,
    /// Says that there is an order.
    wake: Arc<EventFd>,
    /// The link that is kept until this process ends.
    left: Receiver<Link>,
    thread: JoinHandle<()>,
}

impl Search {
    /// Begins to search for this rank, to whose listener the others connect. Whether ranks of other hosts can call it,
    /// and those that have done so before.
    ///
    /// # Errors
    /// If there is no thread, or no descriptor.
    pub fn begin(
        member: Arc<Member>,
        watch: Watch,
        listener: OwnedFd,
        (may_judge, called): (bool, Vec<(u32, Link)>),
    ) -> io::Result<Self> {
        let wake = Arc::new(EventFd::new()?);
        let (orders, ordered) = channel();
        let (leave, left) = channel();
        let role = member.role(&watch, may_judge);
        let searcher = Searcher {
            watch,
            listener: KeyListener::new(listener, member.host.hosts.key.clone())?,
            connections: Vec::new(),
            role,
            wake: Arc::clone(&wake),
            ordered,
            leave,
            member,
        };
        // By this name it does not count as a thread of the program.
        let thread = signal::spawn_without_signals("weft-watch", move || searcher.run())?;
        let search = Self {
            orders,
            wake,
            left,
            thread,
        };
        called
            .into_iter()
            .for_each(|(rank, link)| search.take_in(rank, link));
        Ok(search)
    }

    /// A rank of another host has called, which searches there.
    pub fn take_in(&self, rank: u32, link: Link) {
        self.order(Order::TakeIn(rank, Box::new(link)));
    }

    /// Ends the search. Answers to inquiries from now on find no searcher. Returns the link by whose end another host
    /// learns of that of this process.
    pub fn end(self) -> Option<Link> {
        self.order(Order::End);
        let _ = self.thread.join();
        self.left.try_recv().ok()
    }

    fn order(&self, order: Order) {
        // A thread that has ended needs none.
        let _ = self.orders.send(order);
        self.wake.notify();
    }
}

/// The connection of a rank that has come.
struct RankConnection {
    rank: u32,
    socket: OwnedFd,
    waits: WaitsInPieces,
}

/// The part of the searching rank of a host beside asking its ranks.
pub enum Role {
    /// It judges.
    Head(Box<Head>),
    /// It reports to the one that judges.
    Agent(Box<Agent>),
}

impl Role {
    fn entries(&self) -> Vec<PollFd<'_>> {
        match self {
            Self::Head(head) => head.entries().collect(),
            Self::Agent(agent) => agent.entries().collect(),
        }
    }

    fn next_look(&self) -> Option<Instant> {
        match self {
            Self::Head(head) => head.next_look(),
            Self::Agent(agent) => Some(agent.next_look()),
        }
    }

    /// The agent that is to stop all ranks of its host.
    fn hear_hosts(&mut self, ready: &[bool]) -> Option<&Agent> {
        match self {
            Self::Head(head) => {
                head.hear_hosts(ready);
                None
            }
            Self::Agent(agent) => (ready.contains(&true) && agent.execute()).then_some(&**agent),
        }
    }

    fn hear(&mut self, rank: u32, waits: RankWaits) {
        match self {
            Self::Head(head) => head.hear(rank, waits),
            Self::Agent(agent) => agent.hear(rank, waits),
        }
    }
}

struct Searcher {
    member: Arc<Member>,
    watch: Watch,
    wake: Arc<EventFd>,
    ordered: Receiver<Order>,
    leave: Sender<Link>,
    listener: KeyListener,
    connections: Vec<RankConnection>,
    role: Role,
}

impl Searcher {
    fn run(mut self) {
        loop {
            match self.turn() {
                Ok(true) => {}
                Ok(false) => break,
                Err(_) => return,
            }
        }
        if let Role::Agent(agent) = self.role
            && let Some(link) = agent.leave()
        {
            let _ = self.leave.send(link);
        }
    }

    /// A rank of another host has called, which searches there.
    fn take_in(&mut self, rank: u32, link: Link) {
        if let (Role::Agent(agent), Some(place)) = (&mut self.role, self.member.place.get())
            && agent.is_to_judge(&**place)
        {
            self.role = self.member.head(&self.watch);
        }
        // A rank that is not to be the head closes the link: the caller looks for another one.
        if let Role::Head(head) = &mut self.role {
            head.take_in(rank, link);
        }
    }

    /// Waits for something to happen, and attends to it. False: it ends.
    fn turn(&mut self) -> io::Result<bool> {
        let mut entries = vec![PollFd::new(&*self.wake, Interest::Read)];
        let listener = self.listener.sockets();
        entries.extend(listener.map(|socket| PollFd::new(socket, Interest::Read)));
        let connections_at = entries.len();
        let connections = self.connections.iter();
        entries
            .extend(connections.map(|connection| PollFd::new(&connection.socket, Interest::Read)));
        let hosts_at = entries.len();
        entries.extend(self.role.entries());
        let look = self.role.next_look();
        let left = look.map(|look| look.saturating_duration_since(Instant::now()));
        poll::wait(&mut entries, left)?;
        let ready: Vec<bool> = entries.iter().map(PollFd::is_ready).collect();
        drop(entries);
        if let Some(agent) = self.role.hear_hosts(&ready[hosts_at..]) {
            note_outcome(&self.member, &self.connections);
            agent.stop();
        }
        if ready[0] {
            let _ = self.wake.drain();
            while let Ok(order) = self.ordered.try_recv() {
                match order {
                    Order::TakeIn(rank, link) => self.take_in(rank, *link),
                    Order::End => return Ok(false),
                }
            }
        }
        self.hear(&ready[connections_at..hosts_at]);
        if ready[1..connections_at].contains(&true) {
            let came = self.listener.take().into_iter();
            self.connections.extend(came.map(|came| RankConnection {
                rank: came.rank,
                socket: came.socket,
                waits: WaitsInPieces::default(),
            }));
            // Their message is usually there already.
            let all = vec![true; self.connections.len()];
            self.hear(&all);
        }
        let now = Instant::now();
        let found = match (&mut self.role, self.member.place.get()) {
            (Role::Head(head), _) => head.look(now),
            (Role::Agent(agent), Some(place)) => {
                if agent.look(now, &**place) {
                    self.role = self.member.head(&self.watch);
                }
                None
            }
            (Role::Agent(_), None) => None,
        };
        if let Some(found) = found {
            self.tell(&found);
        }
        Ok(true)
    }

    fn hear(&mut self, ready: &[bool]) {
        let mut ready = ready.iter();
        let role = &mut self.role;
        self.connections
            .retain_mut(|connection| ready.next() != Some(&true) || connection.hear(role).is_ok());
    }

    /// No rank can ever go on.
    fn tell(&mut self, found: &Standstill) {
        let Role::Head(head) = &mut self.role else {
            return;
        };
        if self.member.host.on_deadlock == OnDeadlock::Stop {
            return stop(head, found);
        }
        let left = head.running().len();
        let (text, code) = deadlock::told_by_ranks(found, left, None);
        if head.is_on_several_hosts() {
            // Hosts do not end at the same moment: nobody is to complain of the end of another one.
            note_outcome(&self.member, &self.connections);
            head.stop_others();
        }
        say(&text);
        let _ = poll::wait(&mut [], Some(PASSED_ON));
        let summary = format!("a deadlock: {}", found.summary());
        self.member.end_job(code, &summary);
        let _ = poll::wait(&mut [], Some(ENDS));
        process::end_at_once(code);
    }
}

/// The ranks of this host are about to be ended: who finds another one lost does not complain, should it go on once more before that, as
/// some launchers let it.
fn note_outcome(member: &Member, connections: &[RankConnection]) {
    let _ = member.outcome.set(());
    for connection in connections {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let _ = send(&connection.socket, OUTCOME, flags);
    }
}

/// It is told, and the ranks stay for a debugger: this one is stopped last.
fn stop(head: &mut Head, found: &Standstill) {
    let running = head.running();
    let named: Vec<String> = running.iter().map(|rank| head.name(rank)).collect();
    let by = format!("{VARIABLE}=stop");
    let (text, _) = deadlock::told_by_ranks(found, running.len(), Some((&by, &named)));
    say(&text);
    head.stop_others();
    head.stop_itself();
}

impl RankConnection {
    /// Reads what it has to say; an error: it is gone.
    fn hear(&mut self, role: &mut Role) -> io::Result<()> {
        let mut bytes = [0; LONGEST];
        for _ in 0..AT_ONCE {
            let count = match passing::receive(&self.socket, &mut bytes) {
                Ok((0, _)) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok((count, _)) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            if let Some(Message::Waits { last, piece }) = Message::decode(&bytes[..count])
                && let Some(waits) = self.waits.take(last, &piece)
            {
                role.hear(self.rank, waits);
            }
        }
        Ok(())
    }
}

/// Once for the job, at once.
fn say(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}
