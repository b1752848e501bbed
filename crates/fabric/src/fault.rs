//! A fabric that makes the one within it harder to live with, by a seed, without breaking the contract.
//!
//! ```text
//!   try_send, signal, get, put ── lot ──► Retry, although there was room      (nothing has happened)
//!   poll                       ── lot ──► 0, without having looked            (news come later)
//! ```
//!
//! Both keep the promises that sleepers rely on. After a refusal the next look that looks says that
//! something moved. After either, the next wait returns at once, and whoever sleeps already is rung.
//! So a layer that hangs on a [`FaultInjector`] fabric would hang on a sound one some day.

use std::sync::Arc;
use std::time::Duration;

use weft_atomic::{AtomicBool, Ordering};

use crate::{
    Bell, Fabric, Head, Operation, Peer, Posted, Region, Result, Sink, SyncKey, Ticket, Token,
    forward_bell, forward_fabric,
};

/// How hard life is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FaultPlan {
    /// Decides when. Each rank draws lots of its own.
    pub seed: u64,
    /// Of a thousand posts, so many are refused.
    pub refuse: u32,
    /// Of a thousand looks, so many do not look.
    pub blind: u32,
}

impl FaultPlan {
    /// Refuses a fifth, looks away a fifth of the time.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            refuse: 200,
            blind: 200,
        }
    }
}

/// A fabric with hardship.
pub struct FaultInjector<F> {
    inner: F,
    hardship: FaultPlan,
    lots: u64,
    bell: Arc<FaultyBell>,
    /// A post was refused: the next look says that there is room.
    room: bool,
}

impl<F: Fabric> FaultInjector<F> {
    /// Wraps `inner`.
    #[must_use]
    pub fn new(inner: F, hardship: FaultPlan) -> Self {
        let bell = Arc::new(FaultyBell {
            inner: inner.bell(),
            owed: AtomicBool::new(false),
        });
        let me = u64::from(inner.me().0) + 1;
        Self {
            lots: hardship.seed ^ me.wrapping_mul(0xD134_2543_DE82_EF95),
            inner,
            hardship,
            bell,
            room: false,
        }
    }

    fn happens(&mut self, permille: u32) -> bool {
        // A linear congruential generator (Knuth's constants); only its high bits are drawn.
        self.lots = self
            .lots
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let happens = (self.lots >> 33) % 1000 < u64::from(permille);
        if happens {
            self.bell.owed.store(true, Ordering::Relaxed);
        }
        happens
    }

    /// Whether a post is refused. Then whoever sleeps for this rank is rung, as by true room.
    fn refuses(&mut self) -> bool {
        let refuses = self.happens(self.hardship.refuse);
        if refuses {
            self.room = true;
            self.bell.inner.ring();
        }
        refuses
    }
}

/// The bell within, which also owes a wake-up after each hardship.
struct FaultyBell {
    inner: Arc<dyn Bell>,
    /// Relaxed: set and taken by whoever uses the endpoint; it orders nothing else.
    owed: AtomicBool,
}

impl Bell for FaultyBell {
    forward_bell!(self => self.inner; prepare, cancel, ring, load, yield_core, polls_per_clock_read);

    fn wait(&self, ticket: Ticket, limit: Option<Duration>) {
        if self.owed.swap(false, Ordering::Relaxed) {
            self.inner.cancel(ticket);
        } else {
            self.inner.wait(ticket, limit);
        }
    }
}

impl<F: Fabric> Fabric for FaultInjector<F> {
    forward_fabric!(self => self.inner; me, peers, limits, now, route, grant, offer, revoke, signals,
        take_signals, forget, is_flushed, farewell);

    fn bell(&self) -> Arc<dyn Bell> {
        self.bell.clone()
    }

    fn try_send(&mut self, to: Peer, head: &Head, data: &[u8]) -> Result<Posted> {
        // What is an error stays one.
        let sound = to.0 < self.peers() && data.len() <= self.limits().data;
        if sound && self.refuses() {
            return Ok(Posted::Retry);
        }
        self.inner.try_send(to, head, data)
    }

    fn poll(&mut self, sink: &mut dyn Sink, budget: usize) -> usize {
        if self.happens(self.hardship.blind) {
            return 0;
        }
        let room = usize::from(std::mem::take(&mut self.room));
        self.inner.poll(sink, budget) + room
    }

    fn get(
        &mut self,
        from: Peer,
        token: Token,
        offset: u64,
        into: Region,
        operation: Operation,
    ) -> Result<Posted> {
        if from.0 < self.peers() && self.refuses() {
            return Ok(Posted::Retry);
        }
        self.inner.get(from, token, offset, into, operation)
    }

    fn put(
        &mut self,
        to: Peer,
        token: Token,
        offset: u64,
        source: Region,
        operation: Operation,
    ) -> Result<Posted> {
        if to.0 < self.peers() && self.refuses() {
            return Ok(Posted::Retry);
        }
        self.inner.put(to, token, offset, source, operation)
    }

    fn signal(&mut self, to: Peer, key: SyncKey) -> Result<Posted> {
        if to.0 < self.peers() && self.refuses() {
            return Ok(Posted::Retry);
        }
        self.inner.signal(to, key)
    }
}
