//! Fiber: the name by which a fiber is signalled.

use std::fmt;

use weft_atomic::Ordering;

use crate::fiber_table::NOBODY;
use crate::incarnation::Incarnation;
use crate::scheduler::Scheduler;
use crate::worker;

/// The name of a fiber: it can be copied freely, sent anywhere, and is valid for ever. After the end of the fiber it
/// names no fiber, or another fiber that was given its place, for which a signal is only a reason to look again.
#[derive(Clone, Copy)]
pub struct Fiber {
    runtime: &'static Scheduler,
    number: u32,
    incarnation: u32,
}

/// A worker among all of the process: those of one runtime differ, and those of different runtimes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WorkerId {
    /// The address of its runtime, which lives for ever.
    runtime: usize,
    owner: u32,
}

/// The fiber that calls, if it is one.
#[must_use]
pub fn current() -> Option<Fiber> {
    let worker = worker::here()?;
    Some(Fiber::of(worker.runtime, worker.running()?))
}

impl Fiber {
    /// The present fiber with a number.
    pub(crate) fn of(runtime: &'static Scheduler, number: u32) -> Self {
        let incarnation = runtime.fibers.incarnation(number).name();
        Self::of_name(runtime, number, incarnation)
    }

    /// The fiber with a number and an incarnation.
    #[inline]
    pub(crate) fn of_name(runtime: &'static Scheduler, number: u32, incarnation: u32) -> Self {
        Self {
            runtime,
            number,
            incarnation,
        }
    }

    /// Where it runs, for its handle.
    #[inline]
    pub(crate) fn runtime(self) -> &'static Scheduler {
        self.runtime
    }

    /// Signals the fiber: it runs at least once after this. Idempotent until it does. See [the crate's page](crate) for
    /// how to wait.
    ///
    /// Takes one atomic OR, and no atomic at all if the fiber belongs to the calling worker. Memory written before is
    /// seen by the fiber afterwards.
    #[inline(never)]
    pub fn signal(self) {
        let owner = self
            .runtime
            .fibers
            .owner(self.number)
            .load(Ordering::Acquire);
        if let Some(here) = worker::here()
            && here.serves(self.runtime, owner)
        {
            here.make_runnable(self.number);
            return;
        }
        self.runtime.signal_at(owner, self.number);
    }

    /// Whether the fiber has not ended.
    #[must_use]
    pub fn is_live(self) -> bool {
        self.runtime
            .fibers
            .owner(self.number)
            .load(Ordering::Acquire)
            != NOBODY
            && self.incarnation_word().is(self.incarnation)
    }

    /// A number that no other live fiber of its runtime has, from 0 up: an index for tables.
    #[inline]
    #[must_use]
    pub fn number(self) -> u32 {
        self.number
    }

    pub(crate) fn worker(self) -> WorkerId {
        WorkerId {
            runtime: std::ptr::from_ref(self.runtime).addr(),
            owner: self
                .runtime
                .fibers
                .owner(self.number)
                .load(Ordering::Relaxed),
        }
    }

    /// A number that is never 0 and changes each time the number is reused; together with the number, the name of this
    /// one fiber.
    #[must_use]
    pub fn incarnation(self) -> u32 {
        self.incarnation
    }

    pub(crate) fn incarnation_word(self) -> Incarnation<'static> {
        self.runtime.fibers.incarnation(self.number)
    }
}

impl PartialEq for Fiber {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.runtime, other.runtime)
            && (self.number, self.incarnation) == (other.number, other.incarnation)
    }
}

impl Eq for Fiber {}

impl fmt::Debug for Fiber {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Fiber({}.{})", self.number, self.incarnation)
    }
}
