//! Simulated network: the whole protocol over a network that a seed decides. The tests run the real endpoint,
//! from the dial to the goodbye.
//!
//! ```text
//!   explore     many plays, one for each seed; the shortest that fails
//!   play        one thread drives all endpoints, as a seed decides: the order, and how it ends
//!   action      what a step does, and how often: sends, grants, transfers, looks, time that passes
//!   access      what a transfer asks for
//!   job         what is done, at an endpoint and in the model alike
//!   members     the endpoints
//!   counts      what members count of their traffic, and what that proves
//!   model       what was taken for sending, and what must come of it
//!   notices     what messages of a play say of grants
//!   world       streams under virtual time: pieces, delay, slowness, stalls, cuts at any byte
//!   conditions  where addresses lead, how quick and how reliable the network is
//!   decoys      what addresses cost that do not work
//!   growth      members that are started later, under numbers of others that have ended
//!   crowd       many who call one rank at once, members and others; no descriptors left
//! ```
//!
//! # What is replaced
//! Only the kernel and the wire: streams, listening, the events of the descriptor, the clock. The connector with its
//! handshakes, the records of encryption, selection, acknowledging, resending and portals are real. Simulated
//! streams do what TCP does, but not how: bytes arrive in order or not at all; bytes that were handed over and not
//! delivered are lost with the connection; delivered bytes can be read even after a reset; a side may learn late
//! that its connection is gone; what the other host has not received counts as unacknowledged, and so, for a while,
//! does what it has received.
//!
//! # A failure
//! names its seed, is shortened as far as possible, and shows what happened. Play it again by `WEFT_SEED=…
//! cargo test -p weft-fabric-tcp simulated`, with `WEFT_STEPS=…` for a shorter part.

mod access;
mod action;
mod conditions;
mod counts;
mod crowd;
mod decoys;
mod explore;
mod growth;
mod job;
mod members;
mod model;
mod notices;
mod play;
mod world;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use weft_fabric::{Bell, Load, Region, Ticket};
use weft_secure::Source;
use weft_sys::readiness::AT_ONCE;
use weft_sys::socket::{NotAccepted, SendSlice};

use crate::network::{EventSource, Network, Poller, Readiness, Stream};
use world::{Id, World};

/// The world, as seen by one rank.
#[derive(Clone)]
struct Simulated {
    world: Arc<Mutex<World>>,
    node: usize,
}

/// An end of a simulated connection, or a listener.
struct SimulatedStream {
    world: Arc<Mutex<World>>,
    id: Id,
}

fn locked(world: &Mutex<World>) -> MutexGuard<'_, World> {
    // A failing test leaves it poisoned, and its endpoints are still to be dropped.
    world.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Simulated {
    fn world(&self) -> MutexGuard<'_, World> {
        locked(&self.world)
    }

    fn stream(&self, id: Id) -> SimulatedStream {
        let world = self.world.clone();
        SimulatedStream { world, id }
    }
}

impl Stream for SimulatedStream {
    fn send(&self, parts: &[SendSlice<'_>]) -> io::Result<Option<usize>> {
        Ok(locked(&self.world).send(self.id, parts)?)
    }

    fn receive(&self, lent: Region, rest: &mut [u8]) -> io::Result<Option<usize>> {
        Ok(locked(&self.world).receive(self.id, lent, rest)?)
    }

    fn unacknowledged(&self) -> io::Result<usize> {
        Ok(locked(&self.world).unacknowledged(self.id))
    }

    fn acknowledge(&self) {
        locked(&self.world).acknowledge(self.id);
    }

    /// The seed decides the buffers.
    fn fit(&self) {}

    fn is_connected(&self) -> io::Result<bool> {
        Ok(locked(&self.world).is_connected(self.id)?)
    }
}

impl Drop for SimulatedStream {
    fn drop(&mut self) {
        locked(&self.world).close(self.id);
    }
}

impl Network for Simulated {
    type Stream = SimulatedStream;
    type Bell = Self;

    fn now(&self) -> u64 {
        self.world().now()
    }

    fn connect(&self, address: &SocketAddr, _: Duration) -> io::Result<SimulatedStream> {
        let id = self.world().connect(self.node, address)?;
        Ok(self.stream(id))
    }

    fn accept(&self, listener: &SimulatedStream) -> Result<(SimulatedStream, Source), NotAccepted> {
        let (id, from) = self.world().accept(listener.id)?;
        let source = Source::of(IpAddr::from([10, 0, 0, from as u8]));
        Ok((self.stream(id), source))
    }
}

impl Poller<SimulatedStream> for Simulated {
    fn watch(&self, stream: &SimulatedStream, source: EventSource, room: bool) -> io::Result<()> {
        self.world().watch(self.node, stream.id, source, room);
        Ok(())
    }

    fn rewatch(&self, stream: &SimulatedStream, source: EventSource, room: bool) -> io::Result<()> {
        self.watch(stream, source, room)
    }

    fn unwatch(&self, stream: &SimulatedStream) {
        self.world().unwatch(self.node, stream.id);
    }

    fn poll(&self, report: impl FnMut(Readiness)) {
        let ready = self.world().ready(self.node);
        ready.into_iter().take(AT_ONCE).for_each(report);
    }

    fn set_due(&self, due: u64) {
        self.world().set_due(self.node, due);
    }

    fn hurry(&self) {}

    /// Looks differ more, the more often the seed decides their kind.
    fn slept(&self) -> bool {
        self.world().one_in(3)
    }

    fn take_prepared(&self) -> bool {
        self.world().take_prepared(self.node)
    }

    fn has_sleepers(&self) -> bool {
        self.world().has_sleepers(self.node)
    }

    /// Everybody looks all the time.
    fn set_reaching(&self, _: bool) {}

    fn note_reached_for(&self) {}

    /// Sleepers here have always looked before.
    fn set_deaf(&self, _: bool) {}
}

impl Bell for Simulated {
    fn prepare(&self) -> Ticket {
        Ticket(0)
    }

    fn cancel(&self, _: Ticket) {}

    /// Nobody else runs: time passes.
    fn wait(&self, _: Ticket, limit: Option<Duration>) {
        let limit = limit.unwrap_or(Duration::from_millis(1));
        self.world().pass(limit);
    }

    fn ring(&self) {}

    fn load(&self) -> Load {
        Load { awake: 0, cores: 1 }
    }

    fn yield_core(&self) -> bool {
        false
    }

    fn polls_per_clock_read(&self) -> u32 {
        weft_fabric::waiting::POLLS_PER_CLOCK_READ
    }
}
