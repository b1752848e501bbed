//! Bridge: a connection of two groups of processes, for one of them.

use weft_fabric::{Fabric, Sink, SyncKey, Token};

use super::places::Places;
use super::renamed::Renamed;
use super::watcher::Watcher;
use crate::endpoint::Tcp;
use crate::union::Remote;

/// Looks at the job's own fabric between two at a bridge, at most, while nothing comes from it.
const RARELY: u32 = 32;

/// A signal that makes a connection and says nothing.
pub(super) const GREETING: SyncKey = SyncKey(u64::MAX);

/// A connection of two groups of processes.
pub(super) struct Bridge {
    tcp: Tcp,
    watcher: Watcher,
    places: Places,
    /// Looks until the next one here, and how many there were between the last two.
    next: u32,
    pause: u32,
}

impl Bridge {
    /// Over this endpoint.
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

    /// Connects to all of the other side. Both sides do: one that waited to be called would never miss who has ended before
    /// it called.
    pub fn greet(&mut self) {
        for number in self.places.numbers() {
            // If that fails, the peer is lost, which the next look reports.
            let _ = self.tcp.signal(number, GREETING);
        }
    }

    /// One look, if it is time for one. `revoke` ends a grant of the job's own fabric; `alone`: nothing has come there.
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
            // What came behind it stands in a buffer, and nobody rings for that: the next look is soon.
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

    /// Whether all that was sent has left; if not, who sleeps looks again soon.
    pub fn is_flushed(&mut self) -> bool {
        let flushed = self.tcp.is_flushed();
        if !flushed {
            self.watcher.hurry();
        }
        flushed
    }

    /// Ends without a goodbye: the other side is to learn that this process has ended.
    pub fn die(self) {
        self.tcp.die();
    }
}
