//! Waiter: the value that stands for what waits: a thread, a fiber, or a task of an asynchronous executor.

use std::sync::Arc;
use std::task::Waker;

use weft_sys::Futex;

use crate::fiber::{self, Fiber, WorkerId};
use crate::parker::{Parker, YIELDS};
use crate::worker;

static FUTEX: Futex = Futex::private();

thread_local! {
    static PARKER: Arc<Parker> = Arc::new(Parker::new());
}

/// A thread that is no fiber.
#[derive(Clone, Debug)]
pub struct ParkedThread(Arc<Parker>);

/// A waiter that can be woken. Waking it means: look again at what you wait for.
#[derive(Clone, Debug)]
pub enum Waiter {
    /// A thread. It lets others run for a moment, then sleeps on a futex of its own.
    Thread(ParkedThread),
    /// A fiber: the worker runs others meanwhile.
    Fiber(Fiber),
    /// A task of some executor.
    Task(Waker),
}

impl Waiter {
    /// The caller: the fiber if it is one, the thread otherwise.
    #[must_use]
    pub fn current() -> Self {
        match fiber::current() {
            Some(fiber) => Self::Fiber(fiber),
            // A thread that is being torn down gets a parker that nobody parks on: it does not sleep.
            None => Self::Thread(ParkedThread(
                PARKER
                    .try_with(Arc::clone)
                    .unwrap_or_else(|_| Arc::new(Parker::new())),
            )),
        }
    }

    /// Whether it is a thread, which needs a core of its own to go on.
    #[must_use]
    pub fn is_thread(&self) -> bool {
        matches!(self, Self::Thread(_))
    }

    /// Whether waking the one wakes the other; false where an executor cannot tell.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Thread(ParkedThread(one)), Self::Thread(ParkedThread(other))) => {
                Arc::ptr_eq(one, other)
            }
            (Self::Fiber(one), Self::Fiber(other)) => one == other,
            (Self::Task(one), Self::Task(other)) => one.will_wake(other),
            _ => false,
        }
    }

    /// The worker that runs it, if it is a fiber; for a suspended fiber, the worker that will continue it.
    #[must_use]
    pub fn worker(&self) -> Option<WorkerId> {
        match self {
            Self::Fiber(fiber) => Some(fiber.worker()),
            Self::Thread(_) | Self::Task(_) => None,
        }
    }

    /// Wakes it: it looks again.
    #[inline]
    pub fn wake(self) {
        match self {
            Self::Thread(ParkedThread(parker)) => parker.wake(&FUTEX),
            Self::Fiber(fiber) => fiber.signal(),
            Self::Task(waker) => waker.wake(),
        }
    }

    /// Like [`wake`](Self::wake), and keeps it.
    #[inline]
    pub fn wake_by_ref(&self) {
        match self {
            Self::Thread(ParkedThread(parker)) => parker.wake(&FUTEX),
            Self::Fiber(fiber) => fiber.signal(),
            Self::Task(waker) => waker.wake_by_ref(),
        }
    }
}

/// Suspends the calling fiber until it is signalled; a thread that is no fiber waits until its
/// [`Waiter`] is woken. May return early, and a signal from before the last suspension does not count: see
/// [the crate's page](crate).
#[inline]
pub fn park() {
    park_after(YIELDS);
}

/// Like [`park`]; a thread sleeps at once: it has [yielded](give_way_before_park) before.
#[inline]
pub fn park_at_once() {
    park_after(0);
}

/// For use before a [`park_at_once`]: a thread that is no fiber lets others run for as long as [`park`] does, and looks
/// each time that it is back, and up to `looks` times before, while `look` says that there is a point in it. What it looks at may wake
/// it; then this ends.
pub fn give_way_before_park(looks: u32, look: impl FnMut() -> bool) {
    if fiber::current().is_none() {
        let _ = PARKER.try_with(|parker| parker.give_way(YIELDS, looks, look));
    }
}

#[inline]
fn park_after(yields: u32) {
    if !worker::park() {
        let parked = PARKER.try_with(|parker| parker.park(yields, &FUTEX));
        if parked.is_err() {
            std::thread::yield_now();
        }
    }
}

/// Makes the caller's *worker* sleep in `wait`, for instance on a doorbell that other processes ring too; for a fiber
/// that drives what others of its worker wait for, when none of them is runnable. `ring` must end that sleep: it is
/// called when a fiber of the worker becomes runnable meanwhile. Does not sleep and returns false if one is runnable
/// already. On a thread that is no worker it just waits.
pub fn sleep_elsewhere(ring: &Arc<dyn Fn() + Send + Sync>, wait: impl FnOnce()) -> bool {
    worker::sleep_elsewhere(ring, wait)
}
