//! Bridges of one process, and which of them leads to which peer.

use weft_fabric::{Fabric, FabricError, Peer, Posted, Result, Sink, SyncKey};

use super::bridge::Bridge;
use super::gate::{Gate, Order};
use super::renamed::named;
use crate::endpoint::Tcp;

/// All bridges of a process.
pub(super) struct Bridges {
    gate: Gate,
    /// By place: the bridge, and the peer's number on it.
    places: Vec<Option<(usize, Peer)>>,
    all: Vec<Option<Box<Bridge>>>,
}

impl Bridges {
    /// None yet.
    pub fn new(gate: Gate) -> Self {
        Self {
            gate,
            places: Vec::new(),
            all: Vec::new(),
        }
    }

    /// Whether a process is one of the job.
    #[inline]
    pub fn is_own(&self, peer: Peer) -> bool {
        peer.0 < self.gate.first()
    }

    fn way(&self, peer: Peer) -> Option<(usize, Peer)> {
        let place = peer.0.checked_sub(self.gate.first())?;
        self.places.get(place as usize).copied().flatten()
    }

    /// The bridge of a peer, the peer's number on it, and its endpoint; an error if there is no such process.
    pub fn there(&mut self, peer: Peer) -> Result<(usize, Peer, &mut Tcp)> {
        let peers = self.peers();
        let (bridge, number) = self
            .way(peer)
            .ok_or(FabricError::NoSuchPeer { peer, peers })?;
        match self.all[bridge].as_mut() {
            Some(found) => Ok((bridge, number, found.tcp_mut())),
            None => Err(FabricError::NoSuchPeer { peer, peers }),
        }
    }

    /// Runs an operation at the bridge of a peer; an error that it returns names the peer.
    pub fn act<T>(
        &mut self,
        peer: Peer,
        act: impl FnOnce(&mut Tcp, Peer, usize) -> Result<T>,
    ) -> Result<T> {
        let (bridge, number, tcp) = self.there(peer)?;
        act(tcp, number, bridge).map_err(|error| named(error, peer))
    }

    /// As [`act`](Self::act), for a post.
    pub fn post(
        &mut self,
        peer: Peer,
        act: impl FnOnce(&mut Tcp, Peer, usize) -> Result<Posted>,
    ) -> Result<Posted> {
        if self.gate.has_orders() {
            // Another process may have this number now; the next look reports that first.
            return Ok(Posted::Retry);
        }
        self.act(peer, act)
    }

    /// Whether something was ordered.
    pub fn has_orders(&self) -> bool {
        self.gate.has_orders()
    }

    /// How many processes there can be.
    pub fn peers(&self) -> u32 {
        self.gate.first() + self.gate.places()
    }

    /// Carries out what was ordered.
    #[cold]
    pub fn obey(&mut self, sink: &mut dyn Sink) -> usize {
        let orders = self.gate.take_orders();
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
        let places = bridge.places();
        for (place, number) in places.iter().zip(places.numbers()) {
            if self.places.len() <= place {
                self.places.resize(place + 1, None);
            }
            self.places[place] = Some((index, number));
        }
        places.peers().for_each(|peer| sink.replaced(peer));
        bridge.greet();
        if self.all.len() <= index {
            self.all.resize_with(index + 1, || None);
        }
        self.all[index] = Some(bridge);
    }

    /// Looks at each bridge whose turn it is. `own` is the fabric of the job; `alone` means that nothing has
    /// arrived there.
    pub fn look(
        &mut self,
        own: &mut dyn Fabric,
        sink: &mut dyn Sink,
        budget: usize,
        alone: bool,
    ) -> usize {
        let mut found = 0;
        for bridge in self.all.iter_mut().flatten() {
            found += bridge.look(sink, budget, alone, &mut |token| own.revoke(token));
        }
        found
    }

    /// Closes a bridge: its endpoint hands over what was sent and says goodbye, and its places are free.
    #[cold]
    fn end(&mut self, index: usize) {
        let Some(bridge) = self.all[index].take() else {
            return;
        };
        for place in bridge.places().iter() {
            self.places[place] = None;
        }
        self.gate.free(index, bridge.places());
    }

    /// All endpoints.
    pub fn endpoints(&mut self) -> impl Iterator<Item = &mut Tcp> {
        let live = self.all.iter_mut().flatten();
        live.map(|bridge| bridge.tcp_mut())
    }

    /// The endpoint of a bridge.
    pub fn endpoint(&mut self, bridge: usize) -> Option<&mut Tcp> {
        let found = self.all.get_mut(bridge)?.as_mut()?;
        Some(found.tcp_mut())
    }

    /// As [`Fabric::signals`], for a process of another job.
    pub fn signals(&self, from: Peer, key: SyncKey) -> u64 {
        let there = |(bridge, number): (usize, Peer)| {
            let bridge = self.all[bridge].as_ref()?;
            Some(bridge.tcp().signals(number, key))
        };
        self.way(from).and_then(there).unwrap_or(0)
    }

    /// Whether all that was sent has left, and nothing is ordered.
    pub fn is_flushed(&mut self) -> bool {
        let bridges = self.all.iter_mut().flatten();
        // Each is asked, so that each one with something left looks again soon.
        let flushed = bridges.fold(true, |flushed, bridge| bridge.is_flushed() & flushed);
        flushed && !self.gate.has_orders()
    }

    /// Whether there is no bridge, and none is about to be made.
    pub fn is_empty(&self) -> bool {
        self.all.iter().flatten().next().is_none() && !self.gate.has_orders()
    }
}

impl Drop for Bridges {
    /// Ends the bridges that nobody has closed without a goodbye: the other side shall learn that this
    /// process has ended.
    fn drop(&mut self) {
        for bridge in self.all.drain(..).flatten() {
            bridge.die();
        }
    }
}
