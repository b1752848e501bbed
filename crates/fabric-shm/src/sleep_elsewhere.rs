//! Sleep elsewhere: what a process shows and hears in the job's memory whose job has another fabric, at whose bell it
//! sleeps.
//!
//! The launcher sees whether it sleeps, as of those that sleep here ([`Watch::rest`](crate::Watch::rest)), and rings the
//! doorbell of its process slot when it inquires. A thread of the process waits there, which wakes those who sleep.

use std::sync::{Arc, Mutex, PoisonError};

use weft_atomic::{FenceMode, Ordering};
use weft_fabric::{Absences, Bell, Peer};
use weft_sys::Futex;

use crate::bell::ShmBell;
use crate::options::Use;
use crate::segment::Segment;
use crate::slots::End;

/// The place in the job's memory of a process that sleeps elsewhere.
#[derive(Debug)]
pub struct SleepElsewhere {
    segment: Arc<Segment>,
    me: u32,
    futex: Futex,
    /// Threads of this process that sleep. Held while the place is marked.
    sleepers: Mutex<u32>,
}

impl SleepElsewhere {
    pub(crate) fn new(segment: Arc<Segment>, me: u32) -> Self {
        Self {
            segment,
            me,
            futex: Futex::shared(),
            sleepers: Mutex::default(),
        }
    }

    /// A thread of this process falls asleep.
    pub fn begins(&self) {
        let mut sleepers = self.sleepers.lock().unwrap_or_else(PoisonError::into_inner);
        *sleepers += 1;
        self.segment.header().run_states.fall_asleep(self.me);
    }

    /// It is awake again.
    pub fn ends(&self) {
        let sleeps = &self.segment.identity(self.me).sleeps;
        // Relaxed: a hint for the launcher that something has moved.
        sleeps.fetch_add(1, Ordering::Relaxed);
        let mut sleepers = self.sleepers.lock().unwrap_or_else(PoisonError::into_inner);
        *sleepers -= 1;
        self.segment.header().run_states.wake(self.me);
    }

    /// Whoever sleeps is not woken by what has been heard. Who rings the doorbell has marked this place as awake before.
    pub fn goes_on(&self) {
        let sleepers = self.sleepers.lock().unwrap_or_else(PoisonError::into_inner);
        if *sleepers > 0 {
            self.segment.header().run_states.fall_asleep(self.me);
        }
    }

    /// As [`Bell::inquiry`].
    #[must_use]
    pub fn inquiry(&self) -> u32 {
        // SYNC job.inquiry.
        self.segment.header().inquiry.load(Ordering::Acquire)
    }

    /// As [`Bell::absences`].
    #[must_use]
    pub fn absences(&self) -> Absences {
        self.segment.absences()
    }

    /// As [`Bell::tell_absence`].
    pub fn tell_absence(&self, world: u32) {
        ShmBell::new(self.segment.clone(), self.me, Use::Off).tell_absence(world);
    }

    /// How often the launcher has told of a change: that a process has ended, or was started. To be asked before [`loss`](Self::loss).
    #[must_use]
    pub fn changes(&self) -> u32 {
        self.segment.changes()
    }

    /// How the process with this number in the memory was lost; `None` if it was not, or has left in order.
    #[must_use]
    pub fn loss(&self, peer: Peer) -> Option<String> {
        let known = peer.0 < self.segment.shape().process_slots;
        match known.then(|| self.segment.end_of(peer.0)).flatten() {
            Some(End::Died(how)) => Some(how),
            Some(End::Left) | None => None,
        }
    }

    /// Whether the process with this number in the memory has ended in order.
    #[must_use]
    pub fn has_left(&self, peer: Peer) -> bool {
        let known = peer.0 < self.segment.shape().process_slots;
        known && self.segment.end_of(peer.0) == Some(End::Left)
    }

    /// Calls `hear` when the launcher may have told something, until it answers that this was enough. For a thread of its own,
    /// of which nothing is shown.
    pub fn attend(&self, mut hear: impl FnMut() -> bool) {
        let doorbell = &self.segment.control(self.me).doorbell;
        loop {
            let ticket = doorbell.prepare(FenceMode::Symmetric, &self.futex);
            if !hear() {
                return doorbell.cancel(ticket);
            }
            let _ = doorbell.wait(ticket, None, &self.futex);
        }
    }

    /// Has the one that [attends](Self::attend) hear something.
    pub fn ring(&self) {
        let doorbell = &self.segment.control(self.me).doorbell;
        doorbell.ring_regardless(&self.futex);
    }
}
