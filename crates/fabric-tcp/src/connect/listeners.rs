//! Listeners: the sockets at which this rank accepts, one for each address; they pause while the process has no
//! descriptor left.

use std::sync::Arc;
use std::time::Duration;

use weft_secure::Source;
use weft_sys::socket::NotAccepted;

use crate::network::{EventSource, Network, Poller};

/// How long nobody is accepted when no descriptor is left, not even one held by a connection that has not
/// proved the key.
const REST: Duration = Duration::from_millis(100);

/// The sockets, watched by the bell of this rank.
pub struct Listeners<N: Network> {
    sockets: Vec<N::Stream>,
    bell: Arc<N::Bell>,
    /// No descriptor was left: when to accept again.
    rests_until: Option<u64>,
}

impl<N: Network> Listeners<N> {
    /// Watches these sockets.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn new(sockets: Vec<N::Stream>, bell: Arc<N::Bell>) -> std::io::Result<Self> {
        for (index, socket) in sockets.iter().enumerate() {
            bell.watch(socket, EventSource::Listener(index as u32), false)?;
        }
        Ok(Self {
            sockets,
            bell,
            rests_until: None,
        })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.sockets.len()
    }

    /// Accepts a connection.
    ///
    /// # Errors
    /// None was accepted.
    pub fn accept(&self, network: &N, index: u32) -> Result<(N::Stream, Source), NotAccepted> {
        match self.sockets.get(index as usize) {
            Some(socket) => network.accept(socket),
            None => Err(NotAccepted::Nobody),
        }
    }

    /// Stops accepting and watching for a while: waiting callers keep the listeners readable, and nobody
    /// could sleep.
    pub fn rest(&mut self, network: &N) {
        for socket in &self.sockets {
            self.bell.unwatch(socket);
        }
        self.rests_until = Some(network.after(REST));
    }

    /// When the rest is over, if they rest.
    pub fn rest_until(&self) -> Option<u64> {
        self.rests_until
    }

    /// Accepts again, once the rest is over.
    pub fn wake(&mut self, network: &N, now: u64) {
        if self.rests_until.is_none_or(|until| now < until) {
            return;
        }
        self.rests_until = None;
        let mut watched = true;
        for (index, socket) in self.sockets.iter().enumerate() {
            let source = EventSource::Listener(index as u32);
            watched &= self.bell.watch(socket, source, false).is_ok();
        }
        if !watched {
            self.rest(network);
        }
    }
}
