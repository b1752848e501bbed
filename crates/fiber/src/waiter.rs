//! Who waits, as a value: a thread, a fiber, or a task of an asynchronous executor.

use std::sync::Arc;
use std::task::Waker;
use std::thread::{self, Thread};

use crate::fiber::Fiber;
use crate::worker;

/// Somebody who waits and can be woken. Waking is telling: look again at what you wait for.
#[derive(Clone, Debug)]
pub enum Waiter {
    /// A thread, asleep on a futex of its own.
    Thread(Thread),
    /// A fiber: the worker runs others meanwhile.
    Fiber(Fiber),
    /// A task of some executor.
    Task(Waker),
}

impl Waiter {
    /// The caller: the fiber if it is one, the thread otherwise.
    #[must_use]
    pub fn current() -> Self {
        match worker::current() {
            Some(fiber) => Self::Fiber(fiber),
            None => Self::Thread(thread::current()),
        }
    }

    /// Makes it look again.
    #[inline]
    pub fn wake(self) {
        match self {
            Self::Thread(thread) => thread.unpark(),
            Self::Fiber(fiber) => fiber.signal(),
            Self::Task(waker) => waker.wake(),
        }
    }
}

/// Suspends the calling fiber until it is signalled; a thread that is no fiber is parked until it is
/// unparked. May return early, and a signal from before the last suspension does not count: see
/// [the crate's page](crate).
#[inline]
pub fn park() {
    if !worker::park() {
        thread::park();
    }
}

/// How to wake a worker that sleeps elsewhere than on its own doorbell.
pub(crate) type Ringer = Arc<dyn Fn() + Send + Sync>;

/// Has the caller's *worker* sleep in `wait`, for instance on a doorbell that other processes ring too;
/// for a fiber that drives what others of its worker wait for, when none of them is runnable. `ring` must
/// end that sleep: it is called when a fiber of the worker becomes runnable meanwhile. Does not sleep if
/// one is already: then it answers false. On a thread that is no worker it just waits.
pub fn sleep_elsewhere(ring: &Arc<dyn Fn() + Send + Sync>, wait: impl FnOnce()) -> bool {
    worker::sleep_elsewhere(ring, wait)
}
