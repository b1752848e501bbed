//! Scheduler: the state that the workers of a runtime share.
//!
//! | owner | state |
//! |---|---|
//! | [`FiberTable`] | context, owner and incarnation of each number |
//! | [`Stacks`] | the stacks, by number |
//! | [`Worker`] | the run queue, the bell and the kept stacks of one worker |
//! | [`IdleWorkers`] | which workers have nothing to do |
//! | [`WorkerThreads`] | the threads of the workers |
//! | [`Lifecycle`] | whether the runtime goes on |
//!
//! It lives for ever, so that a [`Fiber`](crate::Fiber) may be a plain value that outlives everything: a runtime that has
//! ended releases its threads and stacks, and leaves the tables, of which only the pages of numbers that were in use take
//! memory.

use std::fmt;
use std::io;
use std::sync::OnceLock;

use weft_atomic::{AtomicU64, AtomicUsize, Ordering};
use weft_sys::Futex;

use crate::config::Config;
use crate::control::Control;
use crate::fiber_table::{FiberTable, worker_of};
use crate::forever::forever;
use crate::idle::IdleWorkers;
use crate::incarnation::Freed;
use crate::lifecycle::Lifecycle;
use crate::stack::Stacks;
use crate::threads::WorkerThreads;
use crate::worker::{self, Worker};

/// What the workers of one runtime share.
pub(crate) struct Scheduler {
    pub config: Config,
    pub stacks: Stacks,
    pub fibers: FiberTable,
    pub futex: Futex,
    pub idle: IdleWorkers,
    workers: OnceLock<Box<[Worker]>>,
    threads: WorkerThreads,
    lifecycle: Lifecycle,
    /// Fibers started from outside.
    outside: AtomicU64,
    /// Where the next one from outside goes.
    next: AtomicUsize,
}

impl Scheduler {
    pub(crate) fn new(config: Config) -> io::Result<&'static Self> {
        let config = config.bounded();
        let limit = config.fibers;
        let scheduler = forever(Self {
            stacks: Stacks::new(limit, config.guard)?,
            fibers: FiberTable::new(limit)?,
            futex: Futex::private(),
            idle: IdleWorkers::new(),
            workers: OnceLock::new(),
            threads: WorkerThreads::new(&config),
            lifecycle: Lifecycle::new(),
            outside: AtomicU64::new(0),
            next: AtomicUsize::new(0),
            config,
        });
        let config = &scheduler.config;
        let workers: io::Result<Box<[Worker]>> = (0..config.workers)
            .map(|index| Worker::new(index, scheduler, limit, config.order.seed_of(index)))
            .collect();
        _ = scheduler.workers.set(workers?);
        Ok(scheduler)
    }

    /// All workers, whether their threads run or not.
    #[inline]
    pub(crate) fn workers(&self) -> &[Worker] {
        self.workers.get().map_or(&[], |workers| workers)
    }

    /// The control block of a fiber.
    #[inline]
    pub(crate) fn control(&self, number: u32) -> *mut Control {
        self.stacks.block(number).cast()
    }

    /// Sets the bit of a fiber at the worker that owns it.
    #[inline]
    pub(crate) fn signal_at(&self, owner: u32, number: u32) {
        if let Some(index) = worker_of(owner)
            && let Some(worker) = self.workers().get(index)
        {
            worker.signal(number);
        }
    }

    /// A fiber has ended and its result is taken: the number is free. By whoever has the claim.
    pub(crate) fn release(&'static self, number: u32) {
        if self.fibers.incarnation(number).free() == Freed::Retired {
            self.stacks.retire();
            return;
        }
        let class = self.stacks.class_of(number);
        match worker::here() {
            Some(here) if std::ptr::eq(here.runtime, self) => here.keep_stack(class, number),
            _ => self.stacks.give_back(class, &mut std::iter::once(number)),
        }
    }

    /// Takes a worker that has nothing to do, other than `mine`.
    pub(crate) fn claim_idle(&self, mine: usize) -> Option<&Worker> {
        self.idle.claim(mine).map(|index| &self.workers()[index])
    }

    /// Whether each worker may have a core for itself.
    pub(crate) fn have_cores(&self) -> bool {
        self.threads.have_cores()
    }

    /// Starts the thread of a worker, if it does not run yet.
    pub(crate) fn start(&'static self, index: usize) -> io::Result<()> {
        self.threads
            .start(index, move || self.workers()[index].work())
    }

    /// Works as worker 0 on the calling thread until all fibers have ended. `first` starts the first of them, and
    /// nobody else has started any.
    pub(crate) fn work_here<T>(
        &'static self,
        first: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        // Worker 0 needs no thread of its own.
        self.threads.adopt(0);
        let started = first()?;
        self.close();
        self.workers()[0].work();
        self.join();
        Ok(started)
    }

    /// A worker for a fiber from outside: the next in turn.
    pub(crate) fn next_worker(&self) -> usize {
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        next % self.config.workers
    }

    pub(crate) fn count_outside(&self) {
        self.outside.fetch_add(1, Ordering::SeqCst);
    }

    /// How many fibers are live. Exact if nothing changes meanwhile; 0 only if there was a moment without.
    pub(crate) fn live(&self) -> u64 {
        // What has ended is read first: who reads as many starts as ends after that has seen a moment when
        // all that had been started had ended.
        let ended: u64 = self.workers().iter().map(Worker::finished).sum();
        let started: u64 = self.workers().iter().map(Worker::started).sum();
        (started + self.outside.load(Ordering::Acquire)).saturating_sub(ended)
    }

    pub(crate) fn has_stopped(&self) -> bool {
        self.lifecycle.has_stopped()
    }

    /// Whether the end was asked for; for tests.
    #[cfg(test)]
    pub(crate) fn is_closing(&self) -> bool {
        self.lifecycle.is_closing()
    }

    /// Whether an idle worker has something to do about the end.
    pub(crate) fn may_stop(&self) -> bool {
        self.lifecycle.may_stop(|| self.live())
    }

    /// The last one to become idle ends it for all.
    pub(crate) fn stop_if_over(&self) {
        if self.lifecycle.stop_if_over(|| self.live()) {
            self.ring_all();
        }
    }

    fn ring_all(&self) {
        for worker in self.workers() {
            worker.ring();
        }
    }

    /// Ends when the last fiber has: to be followed by joining the threads, or by returning from `work`.
    pub(crate) fn close(&self) {
        self.lifecycle.close();
        self.ring_all();
    }

    /// Waits until all fibers have ended, and gives the stacks back.
    pub(crate) fn join(&self) {
        self.threads.join();
        self.lifecycle.stop();
        for worker in self.workers() {
            worker.give_stacks_back();
        }
        self.stacks.close();
    }
}

impl fmt::Debug for Scheduler {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:?}", self.config)
    }
}
