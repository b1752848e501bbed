//! Waiters for arrivals: threads, fibers and tasks that look again whenever something unexpected arrives.
//!
//! A waiter for a request is kept with the request ([`OnComplete`](super::on_complete::OnComplete)); all others are here.
//! The [`Callbacks`] wake both, because the waker of a task is the program's code.

use weft_fiber::Waiter;

use super::callbacks::Callbacks;

/// Waiters for anything that arrives.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    for_arrivals: Vec<Waiter>,
    /// A thread was woken that may need the core of the one that drives.
    thread_woken: bool,
}

impl Waiters {
    /// Has somebody woken when something arrives next.
    pub(super) fn await_arrival(&mut self, waiter: Waiter) {
        self.for_arrivals.push(waiter);
    }

    /// Something has arrived.
    pub(super) fn wake_for_arrival(&mut self, callbacks: &mut Callbacks) {
        for waiter in self.for_arrivals.drain(..) {
            callbacks.wake(waiter);
        }
    }

    /// The request of this one has ended.
    pub(super) fn wake_for_request(&mut self, waiter: Waiter, callbacks: &mut Callbacks) {
        self.thread_woken |= waiter.is_thread();
        callbacks.wake(waiter);
    }

    /// Whether a thread was woken for its request since this was asked last.
    #[inline]
    pub(super) fn take_thread_woken(&mut self) -> bool {
        std::mem::take(&mut self.thread_woken)
    }
}
