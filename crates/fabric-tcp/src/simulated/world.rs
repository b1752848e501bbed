//! World: all hosts, and the streams between them under virtual time.
//!
//! ```text
//!   send ─► flight: pieces, each with its time ─► queue, of the other host ─► receive
//!                 └── cut: lost, and counted as unacknowledged for ever
//! ```
//!
//! The receiving host acknowledges what has arrived with its next data, when asked, or [`DELAY`] later.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rustix::io::Errno;
use weft_fabric::Region;
use weft_sys::socket::{NotAccepted, SendSlice};

use super::conditions::{Conditions, Route};
use super::model::POISON;
use crate::network::{EventSource, Readiness};

/// Bytes that a new connection takes at once, as every kernel does.
const AT_ONCE: usize = 1000;

/// How long a kernel delays an acknowledgement, to send it with something else, in nanoseconds.
pub const DELAY: u64 = 40_000_000;

/// A stream: a listener of a rank, or one side of a connection; the caller's side is 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Id {
    Listener(usize, usize),
    End(usize, usize),
}

#[derive(Default)]
struct Half {
    flight: VecDeque<(u64, Vec<u8>)>,
    queue: VecDeque<u8>,
    /// When the last piece so far arrives.
    last: u64,
    /// Bytes that were ever handed over.
    taken: usize,
    /// Bytes that were handed over and will not arrive.
    lost: usize,
    /// Bytes that have arrived and are not acknowledged, and by when they are at the latest.
    delayed: Option<(u64, usize)>,
    /// When the sender's end of the stream arrives.
    end: Option<u64>,
}

impl Half {
    /// Bytes on their way do not arrive.
    fn lose_flight(&mut self) {
        let gone = self.flight.drain(..).map(|(_, piece)| piece.len());
        self.lost += gone.sum::<usize>();
    }
}

#[derive(Default)]
struct Side {
    /// Somebody holds the stream, or will.
    open: bool,
    /// When its kernel learns that the connection is gone, and how.
    error: Option<(u64, Errno)>,
    reported: bool,
}

struct Connection {
    nodes: [usize; 2],
    listener: usize,
    /// When the call is answered, until it is.
    calling: Option<u64>,
    /// The bytes that this side has sent.
    halves: [Half; 2],
    sides: [Side; 2],
    dead: bool,
    /// Cut when this many more bytes of this side have arrived.
    fate: Option<(usize, usize)>,
}

struct Node {
    backlogs: Vec<VecDeque<usize>>,
    watched: BTreeMap<Id, (EventSource, bool)>,
    due: u64,
    alive: bool,
    /// Somebody is asleep, or about to be.
    asleep: bool,
    /// … and has not looked since announcing it.
    prepared: bool,
}

/// All hosts and the network between them.
pub struct World {
    now: u64,
    random: StdRng,
    pub conditions: Conditions,
    nodes: Vec<Node>,
    connections: Vec<Connection>,
    pub routes: HashMap<SocketAddr, Route>,
    /// While the network stands still: until when.
    stalled: u64,
    /// For ever: nothing arrives, nobody is told.
    severed: bool,
    /// Memory was read that is no longer lent.
    pub poisoned: bool,
    /// No descriptor is left for callers, and how often one was asked for.
    pub exhausted: bool,
    pub accepts: usize,
    /// The events, if they are to be shown.
    pub trace: Option<Vec<String>>,
}

impl World {
    pub fn new(seed: u64, listeners: &[usize]) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let conditions = Conditions::by(&mut random);
        let node = |count: &usize| Node {
            backlogs: (0..*count).map(|_| VecDeque::new()).collect(),
            watched: BTreeMap::new(),
            due: u64::MAX,
            alive: true,
            asleep: false,
            prepared: false,
        };
        Self {
            now: 1,
            random,
            conditions,
            nodes: listeners.iter().map(node).collect(),
            connections: Vec::new(),
            routes: HashMap::new(),
            stalled: 0,
            severed: false,
            poisoned: false,
            exhausted: false,
            accepts: 0,
            trace: None,
        }
    }

    pub fn now(&self) -> u64 {
        self.now
    }

    /// True once in `of` draws.
    pub fn one_in(&mut self, of: u32) -> bool {
        self.random.random_range(0..of) == 0
    }

    pub fn note(&mut self, text: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:>12.3} µs  {}", self.now as f64 / 1e3, text()));
        }
    }

    fn crossing(&mut self) -> u64 {
        self.conditions.latency + self.random.random_range(0..=self.conditions.jitter)
    }

    pub fn set_due(&mut self, node: usize, due: u64) {
        self.nodes[node].due = due;
    }

    /// Sets, on all hosts, whether somebody is about to sleep.
    pub fn set_asleep(&mut self, asleep: bool) {
        for node in &mut self.nodes {
            (node.asleep, node.prepared) = (asleep, asleep);
        }
    }

    /// Whether somebody has announced a sleep; it may find out at once that it need not sleep.
    pub fn take_prepared(&mut self, node: usize) -> bool {
        std::mem::take(&mut self.nodes[node].prepared) || self.one_in(20)
    }

    pub fn has_sleepers(&mut self, node: usize) -> bool {
        self.nodes[node].asleep || self.one_in(8)
    }

    pub fn unwatch(&mut self, node: usize, id: Id) {
        self.nodes[node].watched.remove(&id);
    }

    pub fn watch(&mut self, node: usize, id: Id, source: EventSource, room: bool) {
        self.nodes[node].watched.insert(id, (source, room));
    }

    /// The watched streams of a host that are ready.
    pub fn ready(&mut self, node: usize) -> Vec<Readiness> {
        let mut ready = Vec::new();
        for (id, (source, watched)) in &self.nodes[node].watched {
            let (readable, room) = match *id {
                Id::Listener(node, index) => (!self.nodes[node].backlogs[index].is_empty(), false),
                Id::End(connection, side) => self.state(connection, side),
            };
            let writable = room && *watched;
            if readable || writable {
                ready.push(Readiness {
                    source: *source,
                    writable,
                });
            }
        }
        // In no order.
        let turn = self.random.random_range(0..ready.len().max(1));
        ready.rotate_left(turn);
        ready
    }

    fn state(&self, connection: usize, side: usize) -> (bool, bool) {
        let connection = &self.connections[connection];
        let error = connection.error(side, self.now).is_some();
        let incoming = &connection.halves[1 - side];
        let ended = incoming.end.is_some_and(|end| end <= self.now) && incoming.flight.is_empty();
        let readable = error || !incoming.queue.is_empty() || ended;
        let room = error || connection.calling.is_none() && self.room(connection, side) > 0;
        (readable, room)
    }

    fn room(&self, connection: &Connection, side: usize) -> usize {
        let half = &connection.halves[side];
        let held: usize = half.flight.iter().map(|(_, piece)| piece.len()).sum();
        let held = held + half.queue.len() + half.lost;
        self.conditions.buffer.saturating_sub(held)
    }

    pub fn connect(&mut self, node: usize, address: &SocketAddr) -> Result<Id, Errno> {
        let route = self.routes.get(address).copied().unwrap_or(Route::Nowhere);
        let (to, listener) = match route {
            Route::To(to, listener) => (to, listener),
            Route::Refused | Route::Hole => (usize::MAX, 0),
            Route::RefusedAtOnce => return Err(Errno::CONNREFUSED),
            Route::Nowhere => return Err(Errno::NETUNREACH),
        };
        let answered = (self.now + self.crossing() + self.crossing()).max(self.stalled);
        let never = route == Route::Hole || self.severed;
        let mut connection = Connection {
            nodes: [node, to],
            listener,
            calling: Some(if never { u64::MAX } else { answered }),
            halves: Default::default(),
            sides: Default::default(),
            dead: false,
            fate: None,
        };
        connection.sides[0].open = true;
        let number = self.connections.len();
        if to != usize::MAX
            && self.conditions.cuts > 0
            && self.random.random_range(0..1000) < self.conditions.doomed
        {
            self.conditions.cuts -= 1;
            // In the first few frames as often as elsewhere.
            let power = self.random.random_range(3..18);
            let bytes = match self.random.random() {
                true => self.random.random_range(0..500),
                false => self.random.random_range(0..1 << power),
            };
            connection.fate = Some((self.random.random_range(0..2), bytes));
        }
        self.note(|| {
            format!(
                "rank {node} calls {address}, {route:?}: connection {number}, fate {:?}",
                connection.fate
            )
        });
        self.connections.push(connection);
        Ok(Id::End(number, 0))
    }

    /// Accepts a connection, and says from which host.
    pub fn accept(&mut self, listener: Id) -> Result<(Id, usize), NotAccepted> {
        let Id::Listener(node, index) = listener else {
            return Err(NotAccepted::Exhausted);
        };
        self.accepts += 1;
        let backlog = &mut self.nodes[node].backlogs[index];
        if self.exhausted && !backlog.is_empty() {
            return Err(NotAccepted::Exhausted);
        }
        let connection = backlog.pop_front().ok_or(NotAccepted::Nobody)?;
        self.note(|| format!("rank {node} accepts connection {connection}"));
        Ok((
            Id::End(connection, 1),
            self.connections[connection].nodes[0],
        ))
    }

    pub fn is_connected(&mut self, id: Id) -> Result<bool, Errno> {
        let Id::End(number, side) = id else {
            return Err(Errno::INVAL);
        };
        let connection = &mut self.connections[number];
        match connection.error(side, self.now) {
            Some(error) => Err(error),
            None => Ok(connection.calling.is_none()),
        }
    }

    pub fn send(&mut self, id: Id, parts: &[SendSlice<'_>]) -> Result<Option<usize>, Errno> {
        let Id::End(number, side) = id else {
            return Err(Errno::INVAL);
        };
        let now = self.now;
        if let Some(error) = self.connections[number].error(side, now) {
            self.connections[number].sides[side].reported = true;
            self.note(|| format!("side {side} of connection {number} cannot send: {error:?}"));
            return Err(error);
        }
        let total: usize = parts.iter().map(SendSlice::len).sum();
        let young = self.connections[number].halves[side].taken + total <= AT_ONCE;
        let room = self.room(&self.connections[number], side);
        if total > 0 && !young && (room == 0 || self.one_in(20)) {
            return Ok(None);
        }
        let mut taken = if young { total } else { total.min(room) };
        if taken > 1 && !young && self.one_in(4) {
            taken = self.random.random_range(1..=taken);
        }
        self.note(|| format!("side {side} of connection {number} sends {taken} bytes"));
        self.connections[number].halves[side].taken += taken;
        self.connections[number].halves[1 - side].delayed = None;
        if self.connections[number].dead || !self.connections[number].sides[1 - side].open {
            // Its kernel takes them, and learns from the other that there is no such connection.
            let heard = now + self.crossing() + self.crossing();
            let connection = &mut self.connections[number];
            connection.halves[side].lost += taken;
            if !self.severed {
                connection.learn(side, heard, Errno::CONNRESET);
            }
            return Ok(Some(taken));
        }
        let mut bytes = Vec::with_capacity(taken);
        for part in parts {
            let count = part.len().min(taken - bytes.len());
            match part {
                SendSlice::Bytes(piece) => bytes.extend_from_slice(&piece[..count]),
                SendSlice::Lent(region) => {
                    let start = bytes.len();
                    bytes.resize(start + count, 0);
                    region.prefix(count).copy_to_slice(&mut bytes[start..]);
                    self.poisoned |= bytes[start..].contains(&POISON);
                }
            }
        }
        // Few pieces for long data.
        let longest = self.conditions.piece.max(bytes.len() / 16);
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let length = self.random.random_range(1..=longest).min(rest.len());
            let (piece, after) = rest.split_at(length);
            let slow = length as u64 * self.conditions.byte / 1000;
            let at = (now + self.crossing() + slow).max(self.stalled);
            let half = &mut self.connections[number].halves[side];
            half.last = at.max(half.last + slow);
            half.flight.push_back((half.last, piece.to_vec()));
            rest = after;
        }
        Ok(Some(taken))
    }

    pub fn receive(
        &mut self,
        id: Id,
        lent: Region,
        rest: &mut [u8],
    ) -> Result<Option<usize>, Errno> {
        let Id::End(number, side) = id else {
            return Err(Errno::INVAL);
        };
        let now = self.now;
        let fewer = self.one_in(4);
        let connection = &mut self.connections[number];
        if connection.halves[1 - side].queue.is_empty() {
            // Bytes first: they were there before the error.
            if let Some(error) = connection.error(side, now) {
                let known = std::mem::replace(&mut connection.sides[side].reported, true);
                self.note(|| {
                    format!("side {side} of connection {number} cannot receive: {error:?}")
                });
                return if known { Ok(Some(0)) } else { Err(error) };
            }
            let incoming = &connection.halves[1 - side];
            let ended = incoming.end.is_some_and(|end| end <= now) && incoming.flight.is_empty();
            if ended {
                self.note(|| format!("side {side} of connection {number} has come to the end"));
            }
            return Ok(ended.then_some(0));
        }
        let queue = &mut connection.halves[1 - side].queue;
        let mut count = queue.len().min(lent.len() + rest.len());
        if fewer && count > 1 {
            count = self.random.random_range(1..=count);
        }
        let bytes: Vec<u8> = queue.drain(..count).collect();
        self.note(|| format!("side {side} of connection {number} receives {count} bytes"));
        let direct = count.min(lent.len());
        lent.prefix(direct).copy_from_slice(&bytes[..direct]);
        rest[..count - direct].copy_from_slice(&bytes[direct..]);
        Ok(Some(count))
    }

    pub fn unacknowledged(&self, id: Id) -> usize {
        let Id::End(number, side) = id else {
            return 0;
        };
        let half = &self.connections[number].halves[side];
        let flying: usize = half.flight.iter().map(|(_, piece)| piece.len()).sum();
        let delayed = half.delayed.filter(|(until, _)| *until > self.now);
        flying + half.lost + delayed.map_or(0, |(_, count)| count)
    }

    /// The kernel of this side acknowledges what has arrived.
    pub fn acknowledge(&mut self, id: Id) {
        if let Id::End(number, side) = id {
            self.connections[number].halves[1 - side].delayed = None;
        }
    }

    /// The holder of this end lets go of it.
    pub fn close(&mut self, id: Id) {
        match id {
            Id::Listener(node, index) => {
                self.nodes[node].watched.remove(&id);
                self.nodes[node].alive = false;
                for connection in std::mem::take(&mut self.nodes[node].backlogs[index]) {
                    self.close(Id::End(connection, 1));
                }
            }
            Id::End(number, side) => {
                if let Some(node) = self.nodes.get_mut(self.connections[number].nodes[side]) {
                    node.watched.remove(&id);
                }
                let (there, later) = (self.now + self.crossing(), self.crossing());
                let keep = self.random.random_range(0..4);
                self.note(|| format!("side {side} of connection {number} is closed"));
                let connection = &mut self.connections[number];
                connection.sides[side].open = false;
                if connection.dead || connection.calling.is_some() {
                    return;
                }
                let unread = !connection.halves[1 - side].queue.is_empty();
                let coming = !connection.halves[1 - side].flight.is_empty();
                let half = &mut connection.halves[side];
                if unread {
                    // A reset, which may overtake what waits here to be sent.
                    while half.flight.len() > keep {
                        let piece = half.flight.pop_back();
                        half.lost += piece.map_or(0, |(_, piece)| piece.len());
                    }
                    let last = half.flight.back().map_or(0, |(at, _)| *at);
                    connection.learn(1 - side, there.max(last), Errno::CONNRESET);
                } else {
                    half.end = Some(there.max(half.last));
                    if coming {
                        let last = half.last;
                        connection.learn(1 - side, there.max(last) + later, Errno::CONNRESET);
                    }
                }
            }
        }
    }

    /// The connection is gone: what was under way is lost. At least one side learns of it soon.
    fn cut(&mut self, number: usize) {
        let soon = [self.now + self.crossing(), self.now + self.crossing()];
        let late = self.now + self.random.random_range(1_000_000..4_000_000_000);
        let who = self.random.random_range(0..4);
        let connection = &mut self.connections[number];
        if connection.dead {
            return;
        }
        connection.dead = true;
        for half in &mut connection.halves {
            half.lose_flight();
            half.end = None;
        }
        for (side, soon) in soon.into_iter().enumerate() {
            let at = if who == side { late } else { soon };
            connection.learn(side, at, Errno::CONNRESET);
        }
        self.note(|| format!("connection {number} is cut; side {who} learns late"));
    }

    /// Cuts one of the existing connections.
    pub fn cut_one(&mut self) {
        let there = |connection: &Connection| {
            !connection.dead
                && connection.calling.is_none()
                && connection.sides[0].open
                && connection.sides[1].open
        };
        let there: Vec<usize> = (0..self.connections.len())
            .filter(|number| there(&self.connections[*number]))
            .collect();
        if !there.is_empty() && self.conditions.cuts > 0 {
            self.conditions.cuts -= 1;
            let number = there[self.random.random_range(0..there.len())];
            self.cut(number);
        }
    }

    /// Nothing new sets out for a while.
    pub fn stall(&mut self, time: u64) {
        self.stalled = self.stalled.max(self.now) + time;
        self.note(|| format!("the network stands still for {time} ns"));
    }

    /// From now on nothing arrives, and kernels give up after `patience`.
    pub fn sever(&mut self, patience: Duration) {
        self.severed = true;
        let at = self.now + patience.as_nanos() as u64;
        for connection in &mut self.connections {
            connection.dead = true;
            connection.calling = connection.calling.map(|_| u64::MAX);
            for half in &mut connection.halves {
                half.lose_flight();
                half.end = half.end.filter(|end| *end <= self.now);
            }
            for side in &mut connection.sides {
                side.error = side
                    .error
                    .filter(|(at, _)| *at <= self.now)
                    .or(Some((at, Errno::TIMEDOUT)));
            }
        }
        self.note(|| "all links are down, for good".into());
    }

    /// When the next event happens by itself.
    fn next(&self) -> Option<u64> {
        let mut next = u64::MAX;
        let mut at = |time: u64| {
            if time > self.now {
                next = next.min(time);
            }
        };
        for connection in self
            .connections
            .iter()
            .filter(|connection| connection.sides[0].open || connection.sides[1].open)
        {
            connection.calling.into_iter().for_each(&mut at);
            for half in &connection.halves {
                half.flight
                    .front()
                    .into_iter()
                    .for_each(|(time, _)| at(*time));
                half.end.into_iter().for_each(&mut at);
                half.delayed.into_iter().for_each(|(until, _)| at(until));
            }
            for side in connection.sides.iter().filter(|side| side.open) {
                side.error.into_iter().for_each(|(time, _)| at(time));
            }
        }
        for node in self.nodes.iter().filter(|node| node.alive) {
            at(node.due);
        }
        (next != u64::MAX).then_some(next)
    }

    /// Moves the clock to the next event. False: there is none.
    pub fn jump(&mut self) -> bool {
        let Some(next) = self.next() else {
            return false;
        };
        // A look finds one piece or several.
        let later = self.conditions.latency >> self.random.random_range(0..12);
        self.now = next + later;
        self.happen();
        true
    }

    /// Lets time pass.
    pub fn pass(&mut self, time: Duration) {
        self.now += time.as_nanos() as u64;
        self.happen();
    }

    fn happen(&mut self) {
        let now = self.now;
        for number in 0..self.connections.len() {
            let connection = &mut self.connections[number];
            if connection.calling.is_some_and(|at| at <= now) {
                connection.calling = None;
                let (to, listener) = (connection.nodes[1], connection.listener);
                if connection.sides[0].open && self.nodes.get(to).is_some_and(|node| node.alive) {
                    connection.sides[1].open = true;
                    self.nodes[to].backlogs[listener].push_back(number);
                } else {
                    connection.learn(0, now, Errno::CONNREFUSED);
                    connection.dead = true;
                }
            }
            if !connection.sides[0].open && !connection.sides[1].open {
                continue;
            }
            let mut cut = false;
            let mut orphans = [false; 2];
            for (side, orphan) in orphans.iter_mut().enumerate() {
                let half = &mut connection.halves[side];
                while !cut && half.flight.front().is_some_and(|(at, _)| *at <= now) {
                    let Some((_, mut piece)) = half.flight.pop_front() else {
                        break;
                    };
                    if let Some((doomed, left)) = &mut connection.fate
                        && *doomed == side
                    {
                        cut = piece.len() >= *left;
                        half.lost += piece.len().saturating_sub(*left);
                        piece.truncate(*left);
                        *left -= piece.len();
                    }
                    if connection.sides[1 - side].open {
                        half.queue.extend(&piece);
                        let delayed = half.delayed.filter(|(until, _)| *until > now);
                        let (until, count) = delayed.unwrap_or((now + DELAY, 0));
                        half.delayed = Some((until, count + piece.len()));
                    } else {
                        half.lost += piece.len();
                        *orphan = true;
                    }
                }
            }
            for side in (0..2).filter(|side| orphans[*side]) {
                // Nobody is there: a reset comes back.
                connection.learn(side, now + self.conditions.latency, Errno::CONNRESET);
            }
            if cut {
                self.cut(number);
            }
        }
    }
}

impl Connection {
    fn error(&self, side: usize, now: u64) -> Option<Errno> {
        let error = self.sides[side].error.filter(|(at, _)| *at <= now);
        error.map(|(_, error)| error)
    }

    fn learn(&mut self, side: usize, at: u64, error: Errno) {
        let known = &mut self.sides[side].error;
        if known.is_none_or(|(other, _)| at < other) {
            *known = Some((at, error));
        }
    }
}
