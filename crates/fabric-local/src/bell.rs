//! Bell of one rank, where it sleeps, and the number of ranks of the group that are awake.
//!
//! The sleeping is the [`Doorbell`] on a private futex, with full fences on both sides. The count of
//! those awake is advice for the waiting strategy: exact when each rank has one thread, and never
//! relied upon for anything but how long to spin.

use std::sync::Arc;
use std::time::Duration;

use weft_atomic::{AtomicBool, AtomicU32, Doorbell, FenceMode, Ordering};
use weft_fabric::waiting::POLLS_PER_CLOCK_READ;
use weft_fabric::{Bell, Load, Ticket};
use weft_sys::{Futex, clock, cores};

const MODE: FenceMode = FenceMode::Symmetric;

/// How many ranks of the group are awake, and how many cores they have.
#[derive(Clone)]
pub(crate) struct Awake {
    count: Arc<AtomicU32>,
    cores: u32,
}

impl Awake {
    /// All are awake at first.
    pub(crate) fn new(ranks: usize) -> Self {
        let number = |count| u32::try_from(count).unwrap_or(u32::MAX);
        Self {
            count: Arc::new(AtomicU32::new(number(ranks))),
            cores: number(cores::cores_available()),
        }
    }

    // Relaxed throughout: a hint, see the page.
    fn one_more(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    fn one_less(&self) {
        // Never below 0: a helper may still fall asleep after its rank has left.
        let less = |count: u32| count.checked_sub(1);
        let _ = self
            .count
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }
}

/// The bell of one rank.
pub(crate) struct LocalBell {
    door: Doorbell,
    futex: Futex,
    /// Threads of this rank that sleep here.
    sleepers: AtomicU32,
    left: AtomicBool,
    awake: Awake,
}

impl LocalBell {
    pub(crate) fn new(awake: Awake) -> Self {
        Self {
            door: Doorbell::new(),
            futex: Futex::private(),
            sleepers: AtomicU32::new(0),
            left: AtomicBool::new(false),
            awake,
        }
    }

    /// Whether somebody sleeps here, or is about to, after all that was stored before.
    pub(crate) fn is_asleep(&self) -> bool {
        MODE.light();
        self.door.somebody_sleeps()
    }

    /// The rank has left the group: it is not awake any more.
    pub(crate) fn leave(&self) {
        if !self.left.swap(true, Ordering::Relaxed) {
            self.awake.one_less();
        }
    }
}

impl Bell for LocalBell {
    fn prepare(&self) -> Ticket {
        Ticket(self.door.prepare(MODE, &self.futex).0)
    }

    fn cancel(&self, ticket: Ticket) {
        self.door.cancel(weft_atomic::Ticket(ticket.0));
    }

    fn wait(&self, ticket: Ticket, limit: Option<Duration>) {
        let deadline = limit.map(clock::deadline_after);
        // A rank sleeps when the first of its threads does: where there are several, one drives.
        if self.sleepers.fetch_add(1, Ordering::Relaxed) == 0 {
            self.awake.one_less();
        }
        let ticket = weft_atomic::Ticket(ticket.0);
        let _ = self.door.wait(ticket, deadline, &self.futex);
        if self.sleepers.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.awake.one_more();
        }
    }

    fn ring(&self) {
        self.door.ring(MODE, &self.futex);
    }

    fn load(&self) -> Load {
        Load {
            // Never 0, which would mean simulation.
            awake: self.awake.count.load(Ordering::Relaxed).max(1),
            cores: self.awake.cores,
        }
    }

    fn yield_core(&self) -> bool {
        cores::yield_core();
        true
    }

    fn polls_per_clock_read(&self) -> u32 {
        POLLS_PER_CLOCK_READ
    }
}
