//! Runtime: workers and fibers as the program makes, runs and drops them.

use std::io;

use crate::config::Config;
use crate::fiber::Fiber;
use crate::join::JoinHandle;
use crate::scheduler::Scheduler;
use crate::spawn::Builder;
use crate::worker;

/// The tables of a runtime; and what people are told when a fiber uses up its stack.
fn new_scheduler(config: Config) -> io::Result<&'static Scheduler> {
    weft_sys::fault::explain_with(crate::overflow::explain)?;
    Scheduler::new(config)
}

/// Workers and the fibers that they run.
///
/// Dropping it waits until all fibers have ended, and releases the memory of their stacks as soon as no [`JoinHandle`] is
/// left. A fiber of its own that drops it does not wait: the runtime ends with its last fiber, and keeps that memory.
#[derive(Debug)]
pub struct Runtime {
    inner: &'static Scheduler,
}

impl Runtime {
    /// A runtime without fibers; threads are started as they are needed.
    ///
    /// # Errors
    /// If there is no memory for the tables.
    pub fn new(config: Config) -> io::Result<Self> {
        Ok(Self {
            inner: new_scheduler(config)?,
        })
    }

    /// Runs `first` as a fiber on the calling thread, which is worker 0 until all fibers have ended. Nothing is pinned.
    /// For a thread that belongs to something else, such as a rank of the simulation.
    ///
    /// # Errors
    /// If there is no memory.
    ///
    /// # Panics
    /// If `first` does, or the caller is a fiber itself.
    pub fn run<T: Send>(config: Config, first: impl FnOnce() -> T + Send) -> io::Result<T> {
        assert!(
            worker::here().is_none(),
            "Runtime::run within a fiber: spawn one instead, or make the runtime with Runtime::new"
        );
        let inner = new_scheduler(Config {
            pin: None,
            ..config
        })?;
        let mut result = None;
        let place = Borrowed(&raw mut result);
        let body = move || {
            let place = place;
            // SAFETY: `result` lives until all fibers have ended, and nobody else touches it.
            unsafe { *place.0 = Some(first()) };
        };
        let body: Box<dyn FnOnce() + Send + '_> = Box::new(body);
        // SAFETY: what it borrows lives until this function returns or unwinds, which is after the fiber
        // has ended: `work_here` returns only then, or without having started it.
        let body: Box<dyn FnOnce() + Send + 'static> = unsafe { std::mem::transmute(body) };
        let fiber = inner.work_here(|| Builder::new().spawn_at(inner, 0, body))?;
        match fiber.join() {
            Ok(()) => Ok(result.expect("the first fiber has ended")),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    /// Starts a fiber, bound to a worker in turn.
    ///
    /// # Panics
    /// If there is no memory for a stack, or no thread for a worker: see [`Builder::spawn_on`].
    pub fn spawn<T: Send + 'static>(
        &self,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        Builder::new()
            .spawn_on(self, body)
            .expect("a stack and a worker for another fiber")
    }

    /// Most workers that it may have.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.inner.config.workers
    }

    /// Number of live fibers at some moment.
    #[must_use]
    pub fn live(&self) -> u64 {
        self.inner.live()
    }

    /// The fiber with this [number](Fiber::number) and [incarnation](Fiber::incarnation), if it lives or its result waits
    /// to be taken. Any two numbers may be given.
    #[must_use]
    pub fn find(&self, number: u32, incarnation: u32) -> Option<Fiber> {
        let used = (number as usize) < self.inner.config.fibers
            && self.inner.fibers.incarnation(number).is(incarnation);
        used.then(|| Fiber::of_name(self.inner, number, incarnation))
    }

    pub(crate) fn inner(&self) -> &'static Scheduler {
        self.inner
    }
}

/// A pointer that is sent to the fiber whose end is awaited.
struct Borrowed<T>(*mut T);
// SAFETY: used by one fiber, whose end happens before its maker looks again.
unsafe impl<T: Send> Send for Borrowed<T> {}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.inner.close();
        if worker::here().is_some_and(|here| std::ptr::eq(here.runtime, self.inner)) {
            return;
        }
        self.inner.join();
    }
}
