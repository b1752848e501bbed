//! Waker of tasks that makes a descriptor readable when a task was woken: for loops that sleep in `poll` or
//! `epoll`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::task::{Wake, Waker};

use crate::event::EventFd;

/// A waker of tasks that makes a descriptor readable.
#[derive(Debug)]
pub struct EventWaker {
    event: EventFd,
}

impl EventWaker {
    /// A descriptor that is not readable yet.
    ///
    /// # Errors
    /// If there are no more descriptors.
    pub fn new() -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            event: EventFd::new()?,
        }))
    }

    /// The waker to poll futures with.
    #[must_use]
    pub fn waker(self: &Arc<Self>) -> Waker {
        Waker::from(Arc::clone(self))
    }

    /// Makes the descriptor unreadable again; true if it was readable. To be called before polling.
    #[must_use]
    pub fn clear(&self) -> bool {
        self.event.drain()
    }
}

impl Wake for EventWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Refused only when the counter is full, and then the descriptor is readable anyway.
        self.event.notify();
    }
}

impl AsFd for EventWaker {
    /// Readable after a wake-up, until it is cleared.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wake_up_is_read_once() {
        let event = EventWaker::new().expect("a descriptor");
        assert!(!event.clear());
        event.waker().wake();
        event.waker().wake();
        assert!(event.clear());
        assert!(!event.clear());
    }
}
