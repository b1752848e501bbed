//! Fault injector: a wrapper that refuses posts and skips polls by a seed, within the contract.
//!
//! ```text
//!   try_send, signal, get, put ── random draw ──► Retry, although there was room      (nothing has happened)
//!   poll                       ── random draw ──► 0, without having polled            (what has come is handed out later)
//! ```
//!
//! Both keep the promises that sleepers rely on. After a refusal the next poll that is not skipped reports that something
//! moved. After either, the next wait returns at once, and a thread that sleeps already is rung. So a layer that hangs on
//! a [`FaultInjector`] can hang on a correct fabric, too.

use std::sync::Arc;
use std::time::Duration;

use weft_atomic::{AtomicBool, Ordering};

use crate::{
    Bell, Fabric, Head, Next, Operation, Peer, Posted, Region, Result, Sink, SyncKey, Ticket,
    Token, forward_bell, forward_fabric,
};

/// Which faults happen, and how often.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FaultPlan {
    /// Seed of the faults. Each rank has random draws of its own.
    pub seed: u64,
    /// Posts refused, of a thousand.
    pub refuse: u32,
    /// Polls skipped, of a thousand.
    pub skip: u32,
}

impl FaultPlan {
    /// Refuses a fifth of the posts and skips a fifth of the polls.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            refuse: 200,
            skip: 200,
        }
    }
}

/// A fabric with faults by a [`FaultPlan`].
pub struct FaultInjector<F> {
    inner: F,
    plan: FaultPlan,
    /// The state of the random draws.
    random: u64,
    bell: Arc<FaultyBell>,
    /// A post was refused: the next poll says that there is room.
    room: bool,
}

impl<F: Fabric> FaultInjector<F> {
    /// Wraps `inner`.
    #[must_use]
    pub fn new(inner: F, plan: FaultPlan) -> Self {
        let bell = Arc::new(FaultyBell {
            inner: inner.bell(),
            wake_due: AtomicBool::new(false),
        });
        let me = u64::from(inner.me().0) + 1;
        Self {
            random: plan.seed ^ me.wrapping_mul(0xD134_2543_DE82_EF95),
            inner,
            plan,
            bell,
            room: false,
        }
    }

    fn happens(&mut self, permille: u32) -> bool {
        // A linear congruential generator (Knuth's constants); only its high bits are drawn.
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let happens = (self.random >> 33) % 1000 < u64::from(permille);
        if happens {
            self.bell.wake_due.store(true, Ordering::Relaxed);
        }
        happens
    }

    /// Whether a post is refused. Then whoever sleeps for this rank is rung, as by true room.
    fn refuses(&mut self) -> bool {
        let refuses = self.happens(self.plan.refuse);
        if refuses {
            self.room = true;
            self.bell.inner.ring();
        }
        refuses
    }
}

/// The bell within, whose next wait returns at once after each fault.
struct FaultyBell {
    inner: Arc<dyn Bell>,
    /// Relaxed: set and taken by whoever uses the endpoint; it orders nothing else.
    wake_due: AtomicBool,
}

impl Bell for FaultyBell {
    forward_bell!(self => self.inner; prepare, cancel, ring, load, yield_core, shares_core, change_core, stands_apart,
        polls_per_clock_read, inquiry, absences, tell_absence, reaching, when_reaching);

    fn wait(&self, ticket: Ticket, limit: Option<Duration>) {
        if self.wake_due.swap(false, Ordering::Relaxed) {
            self.inner.cancel(ticket);
        } else {
            self.inner.wait(ticket, limit);
        }
    }
}

impl<F: Fabric> Fabric for FaultInjector<F> {
    forward_fabric!(self => self.inner; me, peers, incarnation, cause_of_loss, has_unreported_members, may_return, limits, now, route, grant, offer, revoke, signals,
        take_signals, forget, shares_memory, allocate_shared, release_shared, attach_shared,
        is_asleep, wake, is_any_beside, is_flushed, traffic, say_goodbye, abandon_unreached, announce_absence);

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

    fn inject(&mut self, to: Peer, head: &Head, data: &[u8]) -> bool {
        self.try_send(to, head, data) == Ok(Posted::Done)
    }

    /// Faults are those of `poll`.
    fn take_next(&mut self, _from: Peer, _head: &Head, _into: &Region) -> Next {
        Next::Other
    }

    fn poll(&mut self, sink: &mut dyn Sink, budget: usize) -> usize {
        if self.happens(self.plan.skip) {
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
