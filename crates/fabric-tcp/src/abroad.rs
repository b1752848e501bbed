//! Abroad: a fabric with processes of other jobs beside those of its own, for each connection of two jobs a [`Tcp`] of its own.
//!
//! ```text
//!   peer  0..first ────────────► the fabric of the job, as it was
//!         first..  ──place─────► bridge, number there ──► Tcp of that connection
//! ```
//!
//! A *bridge* has as members the processes of both groups that were connected, under numbers that both sides know. The [`Gate`]
//! gives those of the other side numbers of this process, behind all that its own job can have; they are given again when
//! the bridge has ended ([`Sink::succeeded`]). The fabric of the job is not asked for them, and is as fast as it was
//! but for one comparison.
//!
//! # Looking and sleeping
//! A thread of each bridge, the *watcher*, sleeps on its descriptor, and rings the bell of the job's fabric for each arrival, whether
//! or not anybody sleeps. So sockets are looked at when something has come, and now and then.
//!
//! # Ends
//! A bridge that is [closed](Gate::close) hands over what was sent and says goodbye, which is no loss to the other side. One
//! that is open when the process ends does not: who waits there for this process learns that it is gone. For that the side that
//! accepts connects to all of the other one from the start.
//!
//! Tokens: those of a bridge have the highest bit set, as all of [`Tcp`], and its place at the process that grants in bits 24 to
//! 31, which the table of grants does not use.

mod watcher;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weft_atomic::{AtomicBool, Ordering};
use weft_fabric::{
    Bell, Fabric, FabricError, Head, Limits, Next, Operation, Peer, Posted, Region, Result, Rights,
    SharedBytes, SharedKey, SharedMemory, Sink, SyncKey, Token, Traffic, Uses,
};
use weft_secure::Key;

use self::watcher::Watcher;
use crate::card::Listen;
use crate::config::Config;
use crate::endpoint::Tcp;
use crate::errors::system;
use crate::opening::Opening;
use crate::union::Remote;
use crate::wire::DATA;

/// Looks at the job's own fabric between two at a bridge, at most, while nothing comes from it.
const RARELY: u32 = 32;

/// Most bridges of a process at a time: as many as a token can name.
pub const MOST_BRIDGES: usize = 255;

/// Marks the tokens of [`Tcp`].
const REMOTE: u64 = 1 << 63;
/// Where a token names its bridge, counted from 1.
const BRIDGE: u64 = 0xff << 24;

/// A signal that makes a connection and says nothing.
const GREETING: SyncKey = SyncKey(u64::MAX);

/// Where connections with other jobs come in. See the [module page](self).
#[derive(Clone)]
pub struct Gate(Arc<Shared>);

struct Shared {
    first: u32,
    state: Mutex<State>,
    /// Orders wait for the next look.
    has_orders: AtomicBool,
}

#[derive(Default)]
struct State {
    orders: Vec<Order>,
    /// By place: whether somebody has it.
    places: Vec<bool>,
    /// By bridge: whether there is one.
    bridges: Vec<bool>,
}

enum Order {
    Open(usize, Box<Bridge>),
    Close(usize),
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Gate({})", self.0.first)
    }
}

/// A bridge, as it is told to the layer above.
#[derive(Debug)]
pub struct Opened {
    /// By which it is [closed](Gate::close).
    pub bridge: usize,
    /// The processes of the other side, in the order of their numbers.
    pub peers: Vec<Peer>,
}

impl Gate {
    /// The gate of a process whose job can have so many.
    #[must_use]
    pub fn new(peers: u32) -> Self {
        Self(Arc::new(Shared {
            first: peers,
            state: Mutex::default(),
            has_orders: AtomicBool::new(false),
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        let state = &self.0.state;
        state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn order(&self, state: &mut State, order: Order) {
        state.orders.push(order);
        // Relaxed: the lock orders what it announces.
        self.0.has_orders.store(true, Ordering::Relaxed);
    }

    fn has_orders(&self) -> bool {
        self.0.has_orders.load(Ordering::Relaxed)
    }

    /// Puts the processes of other jobs beside those that this fabric has.
    ///
    /// # Errors
    /// If the system refuses a descriptor.
    pub fn widen(&self, fabric: &mut Box<dyn Fabric>) -> Result<()> {
        // Something has to stand in its place for a moment.
        let mut config = Config::new(0, 1, Key::from_bytes([0; Key::BYTES]));
        config.listen = Listen::At(Vec::new());
        let opening = Opening::new(config)?;
        let card = opening.card().clone();
        let own = std::mem::replace(fabric, Box::new(opening.join(vec![card])?));
        *fabric = Box::new(Abroad {
            bell: own.bell(),
            own,
            gate: self.clone(),
            places: Vec::new(),
            bridges: Vec::new(),
        });
        Ok(())
    }

    /// A bridge over this endpoint, whose members `others` are those of the other side. `greets`: this side connects to all of
    /// them. `bell` is that of the job's fabric.
    ///
    /// # Errors
    /// If there are too many, or the system refuses a descriptor or a thread.
    pub fn open(
        &self,
        tcp: Tcp,
        others: std::ops::Range<u32>,
        greets: bool,
        bell: Arc<dyn Bell>,
    ) -> Result<Opened> {
        let watcher = Watcher::start(tcp.network_bell(), Arc::clone(&bell)).map_err(|error| {
            system("nothing to watch the connection to another job with", error)
        })?;
        let state = &mut *self.state();
        let bridge = take_free(&mut state.bridges);
        if bridge >= MOST_BRIDGES {
            state.bridges[bridge] = false;
            return Err(FabricError::System {
                what: format!(
                    "this process has {MOST_BRIDGES} connections to other jobs already; end some (MPI_Comm_disconnect)"
                ),
            });
        }
        let places: Vec<usize> = others
            .clone()
            .map(|_| take_free(&mut state.places))
            .collect();
        let first = self.0.first;
        let peers: Vec<Peer> = places
            .iter()
            .map(|place| Peer(first + *place as u32))
            .collect();
        let opened = Bridge {
            tcp,
            watcher,
            others,
            places,
            greets,
            next: 0,
            pause: 1,
        };
        self.order(state, Order::Open(bridge, Box::new(opened)));
        bell.ring();
        Ok(Opened { bridge, peers })
    }

    /// Ends a bridge, as soon as what was sent has left.
    pub fn close(&self, bridge: usize) {
        self.order(&mut self.state(), Order::Close(bridge));
    }
}

fn take_free(places: &mut Vec<bool>) -> usize {
    let free = places.iter().position(|taken| !taken);
    let place = free.unwrap_or(places.len());
    if place == places.len() {
        places.push(false);
    }
    places[place] = true;
    place
}

/// A connection of two groups of processes.
struct Bridge {
    tcp: Tcp,
    watcher: Watcher,
    /// Numbers of the other side.
    others: std::ops::Range<u32>,
    /// Its places here.
    places: Vec<usize>,
    greets: bool,
    /// Looks until the next one here, and how many there were between the last two.
    next: u32,
    pause: u32,
}

/// The fabric of a job with bridges to others. See the [module page](self).
struct Abroad {
    own: Box<dyn Fabric>,
    bell: Arc<dyn Bell>,
    gate: Gate,
    /// By place: the bridge, and the number there.
    places: Vec<Option<(usize, Peer)>>,
    bridges: Vec<Option<Box<Bridge>>>,
}

impl Abroad {
    fn is_own(&self, peer: Peer) -> bool {
        peer.0 < self.gate.0.first
    }

    fn way(&self, peer: Peer) -> Option<(usize, Peer)> {
        let place = peer.0.checked_sub(self.gate.0.first)?;
        self.places.get(place as usize).copied().flatten()
    }

    /// The endpoint of a bridge, and the number there; the error if there is no such process.
    fn there(&mut self, peer: Peer) -> Result<(usize, Peer, &mut Tcp)> {
        let peers = self.peers();
        let (bridge, number) = self
            .way(peer)
            .ok_or(FabricError::NoSuchPeer { peer, peers })?;
        match self.bridges[bridge].as_mut() {
            Some(found) => Ok((bridge, number, &mut found.tcp)),
            None => Err(FabricError::NoSuchPeer { peer, peers }),
        }
    }

    /// Does something at the bridge of a peer; what it answers with an error names the peer.
    fn act<T>(
        &mut self,
        peer: Peer,
        act: impl FnOnce(&mut Tcp, Peer, usize) -> Result<T>,
    ) -> Result<T> {
        let (bridge, number, tcp) = self.there(peer)?;
        act(tcp, number, bridge).map_err(|error| named(error, peer))
    }

    /// As [`act`](Self::act), of a post.
    fn post(
        &mut self,
        peer: Peer,
        act: impl FnOnce(&mut Tcp, Peer, usize) -> Result<Posted>,
    ) -> Result<Posted> {
        if self.gate.has_orders() {
            // Another process may have this number: that is told first, by the next look.
            return Ok(Posted::Retry);
        }
        self.act(peer, act)
    }

    #[cold]
    fn obey(&mut self, sink: &mut dyn Sink) -> usize {
        let orders = {
            let state = &mut *self.gate.state();
            self.gate.0.has_orders.store(false, Ordering::Relaxed);
            std::mem::take(&mut state.orders)
        };
        let found = orders.len();
        for order in orders {
            match order {
                Order::Open(index, bridge) => self.open(index, bridge, sink),
                Order::Close(index) => self.end(index),
            }
        }
        found
    }

    fn open(&mut self, index: usize, mut bridge: Box<Bridge>, sink: &mut dyn Sink) {
        for (place, number) in bridge.places.iter().zip(bridge.others.clone()) {
            if self.places.len() <= *place {
                self.places.resize(*place + 1, None);
            }
            self.places[*place] = Some((index, Peer(number)));
            sink.succeeded(Peer(self.gate.0.first + *place as u32));
        }
        if bridge.greets {
            for number in bridge.others.clone() {
                // It makes a connection. If that fails, the peer is lost, which the next look reports.
                let _ = bridge.tcp.signal(Peer(number), GREETING);
            }
        }
        if self.bridges.len() <= index {
            self.bridges.resize_with(index + 1, || None);
        }
        self.bridges[index] = Some(bridge);
    }

    /// One look at a bridge, if it is time for one.
    fn look(&mut self, index: usize, sink: &mut dyn Sink, budget: usize, alone: bool) -> usize {
        let Some(bridge) = self.bridges[index].as_mut() else {
            return 0;
        };
        if bridge.next > 0 && !bridge.tcp.network_bell().has_slept() {
            bridge.next -= 1;
            return 0;
        }
        let mut came = 0;
        let mut renamed = Renamed {
            sink,
            first: self.gate.0.first,
            others: &bridge.others,
            places: &bridge.places,
        };
        came += bridge.tcp.poll(&mut renamed, budget);
        if bridge.tcp.has_deferred() {
            let own = &mut self.own;
            bridge.tcp.serve_deferred(&mut |token| own.revoke(token));
            // What came behind it stands in a buffer, and nobody rings for that: the next look is soon.
            came += 1;
        }
        bridge.pause = match came {
            0 => (bridge.pause * 2).min(RARELY),
            _ => 1,
        };
        bridge.next = if alone && bridge.tcp.is_busy() {
            0
        } else {
            bridge.pause
        };
        bridge.watcher.is_due_at(bridge.tcp.network_bell().due());
        came
    }

    /// A bridge is closed: the endpoint hands over what was sent and says goodbye, and its places are free.
    #[cold]
    fn end(&mut self, index: usize) {
        let Some(bridge) = self.bridges[index].take() else {
            return;
        };
        for place in &bridge.places {
            self.places[*place] = None;
        }
        let state = &mut *self.gate.state();
        for place in &bridge.places {
            state.places[*place] = false;
        }
        state.bridges[index] = false;
    }

    fn live(&self) -> impl Iterator<Item = &Bridge> {
        self.bridges.iter().flatten().map(|bridge| &**bridge)
    }
}

impl Drop for Abroad {
    /// Bridges that nobody has closed: the other side is to learn that this process has ended.
    fn drop(&mut self) {
        for bridge in self.bridges.drain(..).flatten() {
            bridge.tcp.die();
        }
    }
}

/// An error of a bridge, with the number that the peer has here.
#[cold]
fn named(error: FabricError, peer: Peer) -> FabricError {
    match error {
        FabricError::PeerLost { reason, .. } => FabricError::PeerLost { peer, reason },
        FabricError::NotGranted { .. } => FabricError::NotGranted { peer },
        FabricError::OutsideGrant { offset, length, .. } => FabricError::OutsideGrant {
            peer,
            offset,
            length,
        },
        FabricError::NotShared { .. } => FabricError::NotShared { peer },
        FabricError::NotAllocated { .. } => FabricError::NotAllocated { peer },
        other => other,
    }
}

/// Gives members of a bridge the numbers that they have here.
struct Renamed<'a> {
    sink: &'a mut dyn Sink,
    first: u32,
    others: &'a std::ops::Range<u32>,
    places: &'a [usize],
}

impl Renamed<'_> {
    fn peer(&self, number: Peer) -> Option<Peer> {
        let index = number.0.checked_sub(self.others.start)?;
        Some(Peer(self.first + *self.places.get(index as usize)? as u32))
    }
}

impl Sink for Renamed<'_> {
    fn message(&mut self, from: Peer, head: &Head, data: SharedBytes<'_>) {
        if let Some(from) = self.peer(from) {
            self.sink.message(from, head, data);
        }
    }

    fn transfer_completed(&mut self, operation: Operation, result: Result<()>) {
        let result = result.map_err(|error| match &error {
            FabricError::PeerLost { peer, .. }
            | FabricError::NotGranted { peer }
            | FabricError::OutsideGrant { peer, .. } => match self.peer(*peer) {
                Some(peer) => named(error, peer),
                None => error,
            },
            _ => error,
        });
        self.sink.transfer_completed(operation, result);
    }

    fn lost(&mut self, peer: Peer, reason: &str) {
        let index = peer.0.saturating_sub(self.others.start);
        if let Some(peer) = self.peer(peer) {
            let reason =
                format!("{reason} (rank {index} of the group that was connected from another job)");
            self.sink.lost(peer, &reason);
        }
    }

    fn signalled(&mut self, from: Peer, key: SyncKey) {
        if let Some(from) = self.peer(from).filter(|_| key != GREETING) {
            self.sink.signalled(from, key);
        }
    }
}

/// A token of a bridge, as whoever grants names it.
fn mark(token: Token, bridge: usize) -> Token {
    Token(token.0 | (bridge as u64 + 1) << BRIDGE.trailing_zeros())
}

/// The same as the endpoint of the bridge knows it.
fn unmarked(token: Token) -> Token {
    match token.0 & REMOTE {
        0 => token,
        _ => Token(token.0 & !BRIDGE),
    }
}

fn bridge_of(token: Token) -> Option<usize> {
    if token.0 & REMOTE == 0 {
        return None;
    }
    (((token.0 & BRIDGE) >> BRIDGE.trailing_zeros()) as usize).checked_sub(1)
}

impl Fabric for Abroad {
    weft_fabric::forward_fabric!(self => self.own; me, now, allocate_shared, release_shared, farewell, channels,
        open_channel);

    fn peers(&self) -> u32 {
        self.gate.0.first + self.gate.state().places.len() as u32
    }

    fn limits(&self) -> Limits {
        let own = self.own.limits();
        Limits {
            data: own.data.min(DATA),
            bulk: own.bulk,
        }
    }

    fn bell(&self) -> Arc<dyn Bell> {
        Arc::clone(&self.bell)
    }

    fn route(&self, peer: Peer) -> &'static str {
        match self.is_own(peer) {
            true => self.own.route(peer),
            false => "tcp to another job",
        }
    }

    #[inline]
    fn try_send(&mut self, to: Peer, head: &Head, data: &[u8]) -> Result<Posted> {
        if self.is_own(to) {
            return self.own.try_send(to, head, data);
        }
        self.post(to, |tcp, to, _| tcp.try_send(to, head, data))
    }

    #[inline]
    fn inject(&mut self, to: Peer, head: &Head, data: &[u8]) -> bool {
        if self.is_own(to) {
            return self.own.inject(to, head, data);
        }
        self.try_send(to, head, data) == Ok(Posted::Done)
    }

    #[inline]
    fn take_next(&mut self, from: Peer, head: &Head, into: &Region) -> Next {
        if self.is_own(from) {
            return self.own.take_next(from, head, into);
        }
        Next::Other
    }

    fn poll(&mut self, sink: &mut dyn Sink, budget: usize) -> usize {
        let mut found = self.own.poll(sink, budget);
        if self.gate.has_orders() {
            found += self.obey(sink);
        }
        let alone = found == 0;
        for index in 0..self.bridges.len() {
            found += self.look(index, sink, budget, alone);
        }
        found
    }

    fn grant(
        &mut self,
        region: Region,
        to: Option<Peer>,
        rights: Rights,
        uses: Uses,
    ) -> Result<Token> {
        match to {
            Some(peer) if !self.is_own(peer) => self.act(peer, |tcp, number, bridge| {
                let token = tcp.grant(region, Some(number), rights, uses)?;
                if token.0 & BRIDGE == 0 {
                    return Ok(mark(token, bridge));
                }
                tcp.revoke(token);
                Err(FabricError::System {
                    what: "more grants live than a token can name".into(),
                })
            }),
            Some(_) => self.own.grant(region, to, rights, uses),
            None => {
                let token = self.own.grant(region, to, rights, uses)?;
                // A network has tokens of its own, which mean nothing to a bridge.
                if token.0 & REMOTE == 0 {
                    for bridge in self.bridges.iter_mut().flatten() {
                        bridge.tcp.grant_as(token, region, rights, uses);
                    }
                }
                Ok(token)
            }
        }
    }

    fn offer(&mut self, to: Peer, token: Token) {
        if self.is_own(to) {
            self.own.offer(to, token);
        } else if let Ok((_, number, tcp)) = self.there(to) {
            tcp.offer(number, unmarked(token));
        }
    }

    fn revoke(&mut self, token: Token) -> bool {
        match bridge_of(token) {
            Some(bridge) => match self.bridges.get_mut(bridge) {
                Some(Some(bridge)) => bridge.tcp.revoke(unmarked(token)),
                _ => false,
            },
            None => {
                if token.0 & REMOTE == 0 {
                    for bridge in self.bridges.iter_mut().flatten() {
                        bridge.tcp.revoke(token);
                    }
                }
                self.own.revoke(token)
            }
        }
    }

    fn get(
        &mut self,
        from: Peer,
        token: Token,
        offset: u64,
        into: Region,
        operation: Operation,
    ) -> Result<Posted> {
        if self.is_own(from) {
            return self.own.get(from, token, offset, into, operation);
        }
        self.post(from, |tcp, from, _| {
            tcp.get(from, unmarked(token), offset, into, operation)
        })
    }

    fn put(
        &mut self,
        to: Peer,
        token: Token,
        offset: u64,
        source: Region,
        operation: Operation,
    ) -> Result<Posted> {
        if self.is_own(to) {
            return self.own.put(to, token, offset, source, operation);
        }
        self.post(to, |tcp, to, _| {
            tcp.put(to, unmarked(token), offset, source, operation)
        })
    }

    fn signal(&mut self, to: Peer, key: SyncKey) -> Result<Posted> {
        if self.is_own(to) {
            return self.own.signal(to, key);
        }
        self.post(to, |tcp, to, _| tcp.signal(to, key))
    }

    fn signals(&self, from: Peer, key: SyncKey) -> u64 {
        if self.is_own(from) {
            return self.own.signals(from, key);
        }
        let bridge = |(bridge, number): (usize, Peer)| {
            let bridge = self.bridges[bridge].as_ref()?;
            Some(bridge.tcp.signals(number, key))
        };
        self.way(from).and_then(bridge).unwrap_or(0)
    }

    fn take_signals(&mut self, from: Peer, key: SyncKey, count: u64) -> bool {
        if self.is_own(from) {
            return self.own.take_signals(from, key, count);
        }
        self.there(from)
            .is_ok_and(|(_, number, tcp)| tcp.take_signals(number, key, count))
    }

    fn forget(&mut self, key: SyncKey) {
        self.own.forget(key);
        for bridge in self.bridges.iter_mut().flatten() {
            bridge.tcp.forget(key);
        }
    }

    fn shares_memory(&self, peer: Peer) -> bool {
        self.is_own(peer) && self.own.shares_memory(peer)
    }

    fn attach_shared(&mut self, peer: Peer, key: SharedKey, length: usize) -> Result<SharedMemory> {
        match self.is_own(peer) {
            true => self.own.attach_shared(peer, key, length),
            false => Err(FabricError::NotShared { peer }),
        }
    }

    fn is_asleep(&mut self, peer: Peer) -> bool {
        self.is_own(peer) && self.own.is_asleep(peer)
    }

    fn wake(&mut self, peer: Peer) {
        if self.is_own(peer) {
            self.own.wake(peer);
        }
    }

    fn is_any_beside(&mut self, peers: &mut dyn Iterator<Item = Peer>) -> Option<bool> {
        let size = self.own.peers();
        self.own
            .is_any_beside(&mut peers.filter(|peer| peer.0 < size))
    }

    fn is_flushed(&mut self) -> bool {
        let mut flushed = self.own.is_flushed() && !self.gate.has_orders();
        for bridge in self.bridges.iter_mut().flatten() {
            if !bridge.tcp.is_flushed() {
                flushed = false;
                bridge.watcher.hurry();
            }
        }
        flushed
    }

    /// While a connection to another job is there, what comes from it may come at any time: nobody is at rest.
    fn traffic(&self) -> Traffic {
        let mut traffic = self.own.traffic();
        traffic.is_at_rest &= self.live().next().is_none() && !self.gate.has_orders();
        traffic
    }
}
