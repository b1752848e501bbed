//! Bell of a union: the doorbell of the local fabric, which a *watcher* thread rings for the network.
//!
//! The watcher, started with the first sleep, sleeps on the descriptor of the network and rings once when that is ready. It is armed
//! before each sleep (one shot), so it sleeps on while the rank is awake and looks itself.
//!
//! *Invariant:* the watcher is armed only while a thread is in [`wait`](Bell::wait), and ends with the bell.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use weft_fabric::{Absences, Bell, Ticket, forward_bell};
use weft_sys::clock;
use weft_sys::event::EventFd;
use weft_sys::readiness::{ReadinessSet, Trigger};

use crate::bell::NetworkBell;

/// The doorbell of the local fabric, which the watcher rings for the network.
pub(super) struct UnionBell {
    local: Arc<dyn Bell>,
    remote: Arc<NetworkBell>,
    watch: Arc<Watch>,
    watcher: Mutex<Option<std::thread::JoinHandle<()>>>,
}

/// The objects on which the watcher sleeps: the descriptor of the network, once for each time it is armed,
/// and an event for the end.
struct Watch {
    outer: ReadinessSet,
    end: EventFd,
}

const NETWORK_READY: u64 = 0;
const END: u64 = 1;

impl UnionBell {
    /// A bell whose watcher is not started yet.
    ///
    /// # Errors
    /// If the system refuses a descriptor to watch.
    pub fn new(local: Arc<dyn Bell>, remote: Arc<NetworkBell>) -> std::io::Result<Self> {
        let outer = ReadinessSet::new()?;
        let end = EventFd::new()?;
        outer.register(&end, END, Trigger::Readable)?;
        outer.register(&remote.descriptor(), NETWORK_READY, Trigger::Unarmed)?;
        Ok(Self {
            local,
            remote,
            watch: Arc::new(Watch { outer, end }),
            watcher: Mutex::new(None),
        })
    }

    /// Whether somebody slept since the network was last looked at.
    #[inline]
    pub fn has_slept(&self) -> bool {
        self.remote.has_slept()
    }

    fn arm(&self, armed: bool) {
        let trigger = match armed {
            true => Trigger::OnceReadable,
            false => Trigger::Unarmed,
        };
        let descriptor = self.remote.descriptor();
        // Cannot fail for a descriptor that is being watched.
        let _ = self.watch.outer.modify(&descriptor, NETWORK_READY, trigger);
    }

    /// Starts the watcher. True if it runs.
    fn watched(&self) -> bool {
        let mut watcher = self.watcher.lock().unwrap_or_else(PoisonError::into_inner);
        if watcher.is_none() {
            let (watch, local) = (self.watch.clone(), self.local.clone());
            *watcher = weft_sys::signal::spawn_without_signals("weft-watch", move || {
                watch.run(&*local);
            })
            .ok();
        }
        watcher.is_some()
    }
}

impl Watch {
    fn run(&self, local: &dyn Bell) {
        let mut is_over = false;
        while !is_over {
            self.outer.poll_waiting(|ready| match ready.token {
                END => is_over = true,
                _ => local.ring(),
            });
        }
    }
}

impl Drop for UnionBell {
    fn drop(&mut self) {
        self.watch.end.notify();
        let watcher = self
            .watcher
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(watcher) = watcher.take() {
            let _ = watcher.join();
        }
    }
}

impl Bell for UnionBell {
    forward_bell!(self => self.local; ring, load, yield_core, shares_core, change_core, stands_apart, inquiry, tell_absence);

    forward_bell!(self => self.remote; reaching, when_reaching);

    /// Members of this host tell by memory, those of other hosts by a message.
    fn absences(&self) -> Absences {
        self.local.absences().and(self.remote.absences())
    }

    fn prepare(&self) -> Ticket {
        let ticket = self.local.prepare();
        // The look that follows must include the network.
        self.remote.announce();
        self.remote.note_sleep();
        ticket
    }

    fn cancel(&self, ticket: Ticket) {
        self.local.cancel(ticket);
        self.remote.note_woken();
    }

    fn wait(&self, ticket: Ticket, limit: Option<Duration>) {
        let due = self.remote.due();
        let mut left =
            (due != u64::MAX).then(|| Duration::from_nanos(due.saturating_sub(clock::monotonic())));
        if !self.watched() {
            // Without the thread: looks again after a moment, slow but not stuck.
            left = Some(Duration::from_millis(1));
        }
        let limit = match (limit, left) {
            (Some(limit), Some(left)) => Some(limit.min(left)),
            (limit, left) => limit.or(left),
        };
        // Armed after prepare: a ring of the watcher from here on ends the wait.
        self.arm(true);
        self.local.wait(ticket, limit);
        self.arm(false);
        self.remote.note_woken();
    }

    fn polls_per_clock_read(&self) -> u32 {
        self.remote.polls_per_clock_read()
    }
}
