//! Bell of a rank: one descriptor to sleep on, which covers all its connections, its listeners, and an event
//! that its own threads ring.
//!
//! What arrives on a connection stays readable until it is read, so nothing published by a peer can be missed
//! between the last look and the sleep. Threads of the rank itself ring the [`Doorbell`] that all fabrics
//! use; here its sleep is `epoll_wait`, its wake-up a write to the event.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use weft_atomic::{AtomicBool, AtomicU32, AtomicU64, Doorbell, FenceMode, Kernel, Ordering, Woken};
use weft_fabric::{Absences, Bell, Load, Reaching, Ticket};
use weft_sys::clock;
use weft_sys::event::EventFd;
use weft_sys::readiness::{ReadinessSet, Trigger};

use crate::network::{EventSource, Poller, Readiness};
use crate::reaching::ReachingWord;

const MODE: FenceMode = FenceMode::Symmetric;

impl EventSource {
    fn token(self) -> u64 {
        let (kind, index) = match self {
            Self::Bell => (0, 0),
            Self::Listener(index) => (1, index),
            Self::Candidate(index) => (2, index),
            Self::Peer(index) => (3, index),
        };
        kind << 32 | u64::from(index)
    }

    fn of(token: u64) -> Self {
        let index = token as u32;
        match token >> 32 {
            1 => Self::Listener(index),
            2 => Self::Candidate(index),
            3 => Self::Peer(index),
            _ => Self::Bell,
        }
    }
}

/// The bell of one rank.
#[derive(Debug)]
pub struct NetworkBell {
    door: Doorbell,
    kernel: Sleeper,
    load: Load,
    reaching: ReachingWord,
    /// Worlds in which a member on another host has announced its absence. Relaxed: the thread that sets a
    /// bit by a look is the one that asks.
    absences: AtomicU64,
}

#[derive(Debug)]
struct Sleeper {
    set: ReadinessSet,
    event: EventFd,
    sleepers: AtomicU32,
    /// When the endpoint has something to do by itself, in nanoseconds of the monotonic clock.
    due: AtomicU64,
    /// Somebody slept: the next look should see everything.
    slept: AtomicBool,
    /// The next sleep is to be short: the awaited event makes nothing readable.
    hurry: AtomicBool,
    /// Somebody is about to sleep.
    prepared: AtomicBool,
    /// How many are about to sleep, or asleep, here or elsewhere, on the descriptor.
    announced: AtomicU32,
    /// Streams are not watched: a sleep ends at once.
    deaf: AtomicBool,
}

impl NetworkBell {
    /// A bell that watches nothing yet.
    ///
    /// # Errors
    /// If the system refuses a descriptor.
    pub fn new(load: Load) -> std::io::Result<Self> {
        let bell = Self {
            door: Doorbell::new(),
            kernel: Sleeper {
                set: ReadinessSet::new()?,
                event: EventFd::new()?,
                sleepers: AtomicU32::new(0),
                due: AtomicU64::new(u64::MAX),
                slept: AtomicBool::new(false),
                hurry: AtomicBool::new(false),
                prepared: AtomicBool::new(false),
                announced: AtomicU32::new(0),
                deaf: AtomicBool::new(false),
            },
            load,
            reaching: ReachingWord::default(),
            absences: AtomicU64::new(0),
        };
        let kernel = &bell.kernel;
        let token = EventSource::Bell.token();
        kernel
            .set
            .register(&kernel.event, token, Trigger::Readable)?;
        Ok(bell)
    }

    /// The descriptor that is readable when a stream is ready, for threads that sleep elsewhere.
    #[must_use]
    pub fn descriptor(&self) -> impl AsFd + '_ {
        &self.kernel.set
    }

    /// When a thread that sleeps elsewhere should look, in nanoseconds of the monotonic clock.
    #[must_use]
    pub fn due(&self) -> u64 {
        self.kernel.next()
    }

    /// Somebody sleeps, or has slept, elsewhere on the descriptor of this bell.
    pub(crate) fn note_sleep(&self) {
        self.kernel.slept.store(true, Ordering::Relaxed);
        self.kernel.prepared.store(true, Ordering::Relaxed);
    }

    /// Somebody is about to sleep here, or elsewhere on the descriptor of this bell: it looks once more before.
    pub(crate) fn announce(&self) {
        // Relaxed, like all that looks read about sleepers: the lock of the layer above orders the look that follows after this,
        // and before or after any other look.
        self.kernel.announced.fetch_add(1, Ordering::Relaxed);
        self.kernel.prepared.store(true, Ordering::Relaxed);
    }

    /// A thread that had announced a sleep is awake, or does not sleep after all.
    pub(crate) fn note_woken(&self) {
        self.kernel.announced.fetch_sub(1, Ordering::Relaxed);
        self.kernel.slept.store(true, Ordering::Relaxed);
    }

    /// Watches one more descriptor, for reading.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn watch_descriptor(&self, descriptor: &impl AsFd) -> std::io::Result<()> {
        let token = EventSource::Peer(0).token();
        self.kernel
            .set
            .register(descriptor, token, Trigger::Readable)
    }

    /// Stops watching such a descriptor. It stays open.
    pub fn unwatch_descriptor(&self, descriptor: &impl AsFd) {
        // Fails only if it is not watched.
        let _ = self.kernel.set.deregister(descriptor);
    }

    /// Whether somebody has announced a sleep and not yet woken.
    #[inline]
    #[must_use]
    pub fn has_sleepers(&self) -> bool {
        self.kernel.announced.load(Ordering::Relaxed) > 0
    }

    /// Whether somebody was about to sleep since this was last asked, as [`Poller::take_prepared`].
    #[inline]
    pub fn take_prepared(&self) -> bool {
        // Relaxed: it was set by the same thread, or by one that handed the look over under the lock of the
        // layer above.
        self.kernel.prepared.load(Ordering::Relaxed)
            && self.kernel.prepared.swap(false, Ordering::Relaxed)
    }

    /// Everything has been looked at: that somebody slept needs no further look.
    #[inline]
    pub fn note_look(&self) {
        // Relaxed: a hint for where to look.
        if self.has_slept() {
            self.kernel.slept.store(false, Ordering::Relaxed);
        }
    }

    /// Whether somebody is about to sleep, as [`take_prepared`](Self::take_prepared).
    #[inline]
    #[must_use]
    pub fn is_prepared(&self) -> bool {
        self.kernel.prepared.load(Ordering::Relaxed)
    }

    /// When the endpoint has something to do by itself, in nanoseconds of the monotonic clock; `u64::MAX`: never.
    pub fn is_due_at(&self, due: u64) {
        self.set_due(due);
    }

    /// The next sleep is to be a millisecond at most: the awaited event makes nothing readable.
    pub fn sleep_shortly(&self) {
        self.hurry();
    }

    /// Takes over from another bell of this member who is absent.
    pub fn hear_absences(&self, absences: Absences) {
        if absences != Absences::default() {
            self.absences
                .fetch_or(absences.to_word(), Ordering::Relaxed);
        }
    }

    /// Whether somebody slept since the last look.
    #[inline]
    pub(crate) fn has_slept(&self) -> bool {
        self.kernel.slept.load(Ordering::Relaxed)
    }
}

impl Poller<OwnedFd> for NetworkBell {
    fn watch(&self, stream: &OwnedFd, source: EventSource, room: bool) -> std::io::Result<()> {
        let set = &self.kernel.set;
        set.register(stream, source.token(), trigger(room))
    }

    fn rewatch(&self, stream: &OwnedFd, source: EventSource, room: bool) -> std::io::Result<()> {
        let set = &self.kernel.set;
        set.modify(stream, source.token(), trigger(room))
    }

    fn unwatch(&self, stream: &OwnedFd) {
        self.unwatch_descriptor(stream);
    }

    fn poll(&self, mut report: impl FnMut(Readiness)) {
        self.kernel.set.poll(|ready| {
            report(Readiness {
                source: EventSource::of(ready.token),
                writable: ready.writable,
            });
        });
    }

    fn set_due(&self, due: u64) {
        // Relaxed: set by the thread that polls; a sleeper on another thread looks again in time, as a ring
        // woke it.
        self.kernel.due.store(due, Ordering::Relaxed);
    }

    /// It lasts a millisecond at most.
    fn hurry(&self) {
        self.kernel.hurry.store(true, Ordering::Relaxed);
    }

    #[inline]
    fn slept(&self) -> bool {
        // Relaxed: a hint for where to look first.
        self.kernel.slept.load(Ordering::Relaxed)
            && self.kernel.slept.swap(false, Ordering::Relaxed)
    }

    #[inline]
    fn take_prepared(&self) -> bool {
        NetworkBell::take_prepared(self)
    }

    #[inline]
    fn has_sleepers(&self) -> bool {
        NetworkBell::has_sleepers(self)
    }

    fn set_reaching(&self, under_way: bool) {
        self.reaching.set(under_way);
    }

    #[inline]
    fn note_reached_for(&self) {
        self.reaching.note_look();
    }

    fn set_deaf(&self, deaf: bool) {
        // Relaxed: as `due`. A sleeper looks after it has announced its sleep, and that look ends deafness.
        self.kernel.deaf.store(deaf, Ordering::Relaxed);
    }
}

fn trigger(room: bool) -> Trigger {
    match room {
        true => Trigger::ReadableOrWritable,
        false => Trigger::Readable,
    }
}

impl Kernel for Sleeper {
    fn wait(&self, word: &AtomicU32, expected: u32, deadline: Option<u64>) -> Woken {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        let woken = self.sleep(word, expected, deadline);
        let last = self.sleepers.fetch_sub(1, Ordering::SeqCst) == 1;
        if last && woken == Woken::Woken {
            // The last sleeper to leave silences the event; those that come later have another ticket.
            let _ = self.event.drain();
        }
        woken
    }

    fn wake(&self, _: &AtomicU32, _: u32) {
        self.event.notify();
    }

    fn barrier(&self) {
        weft_sys::Futex::private().barrier();
    }
}

impl Sleeper {
    /// When the sleep must end.
    fn next(&self) -> u64 {
        if self.deaf.load(Ordering::Relaxed) {
            return 0;
        }
        let due = self.due.load(Ordering::Relaxed);
        if self.hurry.swap(false, Ordering::Relaxed) {
            return due.min(clock::deadline_after(Duration::from_millis(1)));
        }
        due
    }

    fn sleep(&self, word: &AtomicU32, expected: u32, deadline: Option<u64>) -> Woken {
        // Acquire: SYNC doorbell.word. A ring from here on leaves the event readable.
        if word.load(Ordering::Acquire) != expected {
            return Woken::Changed;
        }
        let due = self.next();
        let end = deadline.map_or(due, |deadline| deadline.min(due));
        let left = (end != u64::MAX).then(|| end.saturating_sub(clock::monotonic()));
        match self.set.wait(left) {
            true => Woken::Woken,
            false => Woken::TimedOut,
        }
    }
}

impl Bell for NetworkBell {
    fn prepare(&self) -> Ticket {
        self.announce();
        Ticket(self.door.prepare(MODE, &self.kernel).0)
    }

    fn cancel(&self, ticket: Ticket) {
        self.door.cancel(weft_atomic::Ticket(ticket.0));
        self.note_woken();
    }

    fn wait(&self, ticket: Ticket, limit: Option<Duration>) {
        let deadline = limit.map(clock::deadline_after);
        let _ = self
            .door
            .wait(weft_atomic::Ticket(ticket.0), deadline, &self.kernel);
        self.note_woken();
    }

    fn ring(&self) {
        self.door.ring(MODE, &self.kernel);
    }

    fn load(&self) -> Load {
        self.load
    }

    fn absences(&self) -> Absences {
        Absences::from_word(self.absences.load(Ordering::Relaxed))
    }

    fn tell_absence(&self, world: u32) {
        self.hear_absences(Absences::of(world));
    }

    fn reaching(&self) -> Reaching {
        self.reaching.ask(self.has_sleepers())
    }

    fn when_reaching(&self, call: Box<dyn Fn() + Send + Sync>) {
        self.reaching.when_it_begins(call);
    }

    fn yield_core(&self) -> bool {
        std::thread::yield_now();
        true
    }

    /// A rank that is alone on its host shares its core with no other member.
    fn shares_core(&self) -> Option<bool> {
        (self.load.awake == 1).then_some(false)
    }

    /// A look is a system call.
    fn polls_per_clock_read(&self) -> u32 {
        8
    }
}
