//! A descriptor that is readable when somebody was woken: for loops that sleep in `poll` or `epoll`.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::task::{Wake, Waker};

use crate::error::check;

/// A waker of tasks that makes a descriptor readable.
#[derive(Debug)]
pub struct EventWaker {
    descriptor: OwnedFd,
}

impl EventWaker {
    /// A descriptor that is not readable yet.
    ///
    /// # Errors
    /// If there are no more descriptors.
    pub fn new() -> io::Result<Arc<Self>> {
        // SAFETY: takes numbers only.
        let number = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        let number = check(number, "eventfd", || "make a descriptor to wake by".into())?;
        // SAFETY: just made for us.
        let descriptor = unsafe { OwnedFd::from_raw_fd(number) };
        Ok(Arc::new(Self { descriptor }))
    }

    /// The waker to poll futures with.
    #[must_use]
    pub fn waker(self: &Arc<Self>) -> Waker {
        Waker::from(Arc::clone(self))
    }

    /// Makes the descriptor unreadable again; true if it was readable. To be called before polling.
    #[must_use]
    pub fn clear(&self) -> bool {
        let mut count = 0u64;
        // SAFETY: the kernel writes eight bytes into the number.
        let read = unsafe { libc::read(self.descriptor.as_raw_fd(), (&raw mut count).cast(), 8) };
        read == 8
    }
}

impl Wake for EventWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let one = 1u64;
        // SAFETY: the kernel reads eight bytes. It is refused only when the count is at its end, and then
        // the descriptor is readable anyway.
        unsafe { libc::write(self.descriptor.as_raw_fd(), (&raw const one).cast(), 8) };
    }
}

impl AsFd for EventWaker {
    /// Readable after a wake-up, until it is cleared.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
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
