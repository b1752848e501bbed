//! Gate: where connections with other jobs are opened and closed, from any thread. The orders are carried out
//! by the thread that looks at the fabric.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weft_atomic::{AtomicBool, Ordering};
use weft_fabric::{Bell, Fabric, FabricError, Peer, Result};
use weft_secure::Key;

use super::Bridged;
use super::bridge::Bridge;
use super::marks::MOST_BRIDGES;
use super::places::Places;
use super::watcher::Watcher;
use crate::card::Listen;
use crate::config::Config;
use crate::endpoint::Tcp;
use crate::errors::system;
use crate::opening::Opening;
use crate::union::Remote;

/// Where connections with other jobs are opened. See the [module page](super).
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

/// Orders for bridges, carried out by the thread that looks at the fabric.
pub(super) enum Order {
    Open(usize, Box<Bridge>),
    Close(usize),
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Gate({})", self.0.first)
    }
}

/// A bridge, as reported to the layer above.
#[derive(Debug)]
pub struct Opened {
    /// The index by which it is [closed](Gate::close).
    pub bridge: usize,
    /// The processes of the other side, in the order of their numbers.
    pub peers: Vec<Peer>,
}

impl Gate {
    /// The gate of a process whose job can have `peers` members.
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

    /// The first number of processes of other jobs.
    pub(super) fn first(&self) -> u32 {
        self.0.first
    }

    /// The number of places: the most that processes of other jobs have had at once.
    pub(super) fn places(&self) -> u32 {
        self.state().places.len() as u32
    }

    /// Takes all orders; the caller must carry them out.
    pub(super) fn take_orders(&self) -> Vec<Order> {
        let state = &mut *self.state();
        self.0.has_orders.store(false, Ordering::Relaxed);
        std::mem::take(&mut state.orders)
    }

    /// A bridge has ended, and its places are free.
    pub(super) fn free(&self, bridge: usize, places: &Places) {
        let state = &mut *self.state();
        for place in places.iter() {
            state.places[place] = false;
        }
        state.bridges[bridge] = false;
    }

    pub(super) fn has_orders(&self) -> bool {
        self.0.has_orders.load(Ordering::Relaxed)
    }

    /// Puts the processes of other jobs beside those that this fabric has.
    ///
    /// # Errors
    /// If the system refuses a descriptor.
    pub fn widen(&self, fabric: &mut Box<dyn Fabric>) -> Result<()> {
        // A placeholder fabric, for a moment.
        let mut config = Config::new(0, 1, Key::from_bytes([0; Key::BYTES]));
        config.listen = Listen::At(Vec::new());
        let opening = Opening::new(config)?;
        let card = opening.card().clone();
        let own = std::mem::replace(fabric, Box::new(opening.join(vec![card])?));
        *fabric = Box::new(Bridged::new(own, self.clone()));
        Ok(())
    }

    /// Opens a bridge over this endpoint; `others` are the numbers of its members on the other side. `bell`
    /// is that of the job's fabric.
    ///
    /// # Errors
    /// If there are too many, or the system refuses a descriptor or a thread.
    pub fn open(
        &self,
        tcp: Tcp,
        others: std::ops::Range<u32>,
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
        let places = Places::new(self.0.first, others, places);
        let peers = places.peers().collect();
        let opened = Bridge::new(tcp, watcher, places);
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
