//! Bridge: one process's side of a connection between two groups of processes.

use weft_fabric::{Fabric, Sink, SyncKey, Token};

use super::places::Places;
use super::renamed::Renamed;
use super::watcher::Watcher;
use crate::endpoint::Tcp;
use crate::union::Remote;

/// Most looks at the job's own fabric between two looks at a bridge from which nothing comes.
const RARELY: u32 = 32;

/// A signal that only makes the connection.
pub(super) const GREETING: SyncKey = SyncKey(u64::MAX);

/// A connection of two groups of processes.
pub(super) struct Bridge {
    tcp: Tcp,
    watcher: Watcher,
    places: Places,
    /// Looks until the next look at this bridge, and how many there were between the last two.
    next: u32,
    pause: u32,
}

impl Bridge {
    /// A bridge over this endpoint.
    pub fn new(tcp: Tcp, watcher: Watcher, places: Places) -> Self {
        Self {
            tcp,
            watcher,
            places,
            next: 0,
            pause: 1,
        }
    }

    pub fn places(&self) -> &Places {
        &self.places
    }

    pub fn tcp(&self) -> &Tcp {
        &self.tcp
    }

    pub fn tcp_mut(&mut self) -> &mut Tcp {
        &mut self.tcp
    }

    /// Connects to all processes of the other side. Both sides do this: a side that only waited for calls would never
    /// notice a process that ended before it called.
    pub fn greet(&mut self) {
        for number in self.places.numbers() {
            // If that fails, the peer is lost, which the next look reports.
            let _ = self.tcp.signal(number, GREETING);
        }
    }

    /// One look, if it is time for one. `revoke` ends a grant of the job's own fabric; `alone` means that
    /// nothing has arrived there.
    pub fn look(
        &mut self,
        sink: &mut dyn Sink,
        budget: usize,
        alone: bool,
        revoke: &mut dyn FnMut(Token) -> bool,
    ) -> usize {
        if self.next > 0 && !self.tcp.network_bell().has_slept() {
            self.next -= 1;
            return 0;
        }
        let mut renamed = Renamed::new(sink, &self.places);
        let mut came = self.tcp.poll(&mut renamed, budget);
        if self.tcp.has_deferred() {
            self.tcp.serve_deferred(revoke);
            // More may be waiting in a buffer, for which nobody rings, so the next look is soon.
            came += 1;
        }
        self.pause = match came {
            0 => (self.pause * 2).min(RARELY),
            _ => 1,
        };
        self.next = if alone && self.tcp.is_busy() {
            0
        } else {
            self.pause
        };
        self.watcher.is_due_at(self.tcp.network_bell().due());
        came
    }

    /// Whether all that was sent has left; if not, a sleeper looks again soon.
    pub fn is_flushed(&mut self) -> bool {
        let flushed = self.tcp.is_flushed();
        if !flushed {
            self.watcher.hurry();
        }
        flushed
    }

    /// Ends without a goodbye: the other side shall learn that this process has ended.
    pub fn die(self) {
        self.tcp.die();
    }
}
