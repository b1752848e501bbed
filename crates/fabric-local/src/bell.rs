//! Bell of one rank, on which it sleeps, and the number of ranks of the group that are awake.
//!
//! The bell is the [`Doorbell`] on a private futex, with full fences on both sides. The count of awake ranks
//! is advice for the waiting strategy: exact when each rank has one thread, and used only to decide how long
//! to spin.

use std::sync::{Arc, OnceLock, Weak};
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
    /// The last inquiry of the watcher of the group. SYNC group.inquiry: stored before the bells are rung, loaded by a thread
    /// that is about to sleep.
    inquiry: Arc<AtomicU32>,
}

impl Awake {
    /// All are awake at first.
    pub(crate) fn new(ranks: usize) -> Self {
        let number = |count| u32::try_from(count).unwrap_or(u32::MAX);
        Self {
            count: Arc::new(AtomicU32::new(number(ranks))),
            cores: number(cores::cores_available()),
            inquiry: Arc::default(),
        }
    }

    /// How many are awake, as far as known.
    pub(crate) fn count(&self) -> u32 {
        self.count.load(Ordering::Relaxed)
    }

    /// The next inquiry, for the watcher: never 0; its lowest bit says whether it is `full`.
    pub(crate) fn next_inquiry(&self, full: bool) -> u32 {
        let last = self.inquiry.load(Ordering::Relaxed);
        let next = (last | 1).wrapping_add(1).max(2) | u32::from(full);
        // SYNC group.inquiry.
        self.inquiry.store(next, Ordering::Release);
        next
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

/// One rank in the count of awake ranks, whatever channels its threads sleep at.
pub(crate) struct Presence {
    /// The number of its threads that sleep.
    sleepers: AtomicU32,
    left: AtomicBool,
    awake: Awake,
}

impl Presence {
    pub(crate) fn new(awake: Awake) -> Self {
        Self {
            sleepers: AtomicU32::new(0),
            left: AtomicBool::new(false),
            awake,
        }
    }

    /// The rank has left the group: it no longer counts as awake.
    pub(crate) fn leave(&self) {
        if !self.left.swap(true, Ordering::Relaxed) {
            self.awake.one_less();
        }
    }
}

/// The bell of one rank in one channel.
pub(crate) struct LocalBell {
    door: Doorbell,
    futex: Futex,
    presence: Arc<Presence>,
    /// The channel whose bell is rung whenever this one is, plus one; 0 if none. SYNC bell.forward: stored before the sleeper
    /// announces itself here, loaded by the thread that takes the announcement.
    rung_as_well: AtomicU32,
    /// The bells of the rank, by channel.
    all: OnceLock<Box<[Weak<LocalBell>]>>,
}

impl LocalBell {
    pub(crate) fn new(presence: Arc<Presence>) -> Self {
        Self {
            door: Doorbell::new(),
            futex: Futex::private(),
            presence,
            rung_as_well: AtomicU32::new(0),
            all: OnceLock::new(),
        }
    }

    /// Links the bells of a rank with each other.
    pub(crate) fn join(all: &[Arc<Self>]) {
        for bell in all {
            let _ = bell.all.set(all.iter().map(Arc::downgrade).collect());
        }
    }

    /// Whether somebody sleeps here, or is about to, ordered after all earlier stores.
    pub(crate) fn is_asleep(&self) -> bool {
        MODE.light();
        self.door.somebody_sleeps()
    }

    /// How often it has rung for a sleeper.
    pub(crate) fn rings(&self) -> u32 {
        self.door.rings()
    }

    /// Wakes every thread that sleeps here, announced or not.
    pub(crate) fn wake_regardless(&self) {
        self.door.ring_regardless(&self.futex);
    }

    /// Somebody has rung this bell: the other one is rung as well.
    #[cold]
    fn pass_on(&self) {
        // SYNC bell.forward.
        let channel = self.rung_as_well.load(Ordering::Acquire) as usize;
        let all = self.all.get().map_or(&[][..], |all| all);
        let other = channel.checked_sub(1).and_then(|index| all.get(index));
        if let Some(other) = other.and_then(Weak::upgrade) {
            other.door.ring(MODE, &other.futex);
        }
    }

    /// The rank has left the group.
    pub(crate) fn leave(&self) {
        self.presence.leave();
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
        // A rank counts as asleep when the first of its threads sleeps: of several threads, one drives.
        if self.presence.sleepers.fetch_add(1, Ordering::Relaxed) == 0 {
            self.presence.awake.one_less();
        }
        let ticket = weft_atomic::Ticket(ticket.0);
        let _ = self.door.wait(ticket, deadline, &self.futex);
        if self.presence.sleepers.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.presence.awake.one_more();
        }
    }

    fn ring(&self) {
        self.door.ring_and(MODE, &self.futex, || self.pass_on());
    }

    fn ring_as_well(&self, channel: Option<u32>) {
        let channel = channel.map_or(0, |channel| channel + 1);
        // SYNC bell.forward.
        self.rung_as_well.store(channel, Ordering::Release);
    }

    fn load(&self) -> Load {
        Load {
            // Never 0, which would mean simulation.
            awake: self.presence.awake.count.load(Ordering::Relaxed).max(1),
            cores: self.presence.awake.cores,
        }
    }

    fn yield_core(&self) -> bool {
        cores::yield_core();
        true
    }

    fn polls_per_clock_read(&self) -> u32 {
        POLLS_PER_CLOCK_READ
    }

    fn inquiry(&self) -> u32 {
        // SYNC group.inquiry.
        self.presence.awake.inquiry.load(Ordering::Acquire)
    }
}
