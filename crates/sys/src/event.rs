//! Events and their waiters: how threads and processes that do not trust each other wake one another.
//!
//! An [`EventFd`] is an event counter of the kernel (`eventfd`), an [`EventWaiter`] a [readiness set](crate::readiness) in which events and other
//! descriptors are registered. A notifier holds the event; a sleeper holds the waiter in which the event is registered, *and not the event*. So:
//!
//! * a sleeper cannot make a notifier wait: it has no descriptor of the event by which it could fill the
//!   counter or remove the non-blocking mode;
//! * a notifier that misbehaves (reads its event, fills it) silences only its own event, as it could by not
//!   notifying: each pair of components has events of its own.
//!
//! Events are registered edge-triggered: each notification is reported once, and nobody reads the counter,
//! which would be full after 2⁶⁴ notifications.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

use crate::clock;
use crate::error::{Purpose, failed, last_errno};
use crate::readiness::{ReadinessSet, Trigger};

/// Wakes the waiter in which it is registered.
#[derive(Debug)]
pub struct EventFd(OwnedFd);

impl EventFd {
    /// An event that is registered nowhere yet.
    ///
    /// # Errors
    /// If there are no descriptors left.
    pub fn new() -> io::Result<Self> {
        eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map(Self)
            .to("eventfd", || "make an event".into())
    }

    /// An event that was handed over.
    #[must_use]
    pub fn adopt(descriptor: OwnedFd) -> Self {
        Self(descriptor)
    }

    /// Another handle of the same event.
    ///
    /// # Errors
    /// If there are no descriptors left.
    pub fn share(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// Notifies: one system call. A failure concerns this pair only, and is ignored.
    pub fn notify(&self) {
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Takes back all notifications so far; true if there were any. For an event that its own side polls: a
    /// thread that waits by an [`EventWaiter`] does not need it.
    #[must_use]
    pub fn drain(&self) -> bool {
        rustix::io::read(&self.0, &mut [0; 8]) == Ok(8)
    }

    /// The descriptor, to be passed on to a notifier.
    #[must_use]
    pub fn into_descriptor(self) -> OwnedFd {
        self.0
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Sleeps until one of its events is notified, or one of its other descriptors is ready.
#[derive(Debug)]
pub struct EventWaiter(ReadinessSet);

impl EventWaiter {
    /// A waiter that nothing wakes yet.
    ///
    /// # Errors
    /// If there are no descriptors left.
    pub fn new() -> io::Result<Self> {
        ReadinessSet::new().map(Self)
    }

    /// A waiter that was handed over.
    #[must_use]
    pub fn adopt(descriptor: OwnedFd) -> Self {
        Self(ReadinessSet::adopt(descriptor))
    }

    /// Another handle of the same waiter.
    ///
    /// # Errors
    /// If there are no descriptors left.
    pub fn share(&self) -> io::Result<Self> {
        self.0.share().map(Self)
    }

    /// Wakes for this event from now on, as long as anybody holds it. A process that outlives the notifier
    /// must hold it: a notification that has not woken anybody yet is lost with the last handle.
    ///
    /// # Errors
    /// If it is registered already, or the kernel refuses.
    pub fn register(&self, event: &EventFd) -> io::Result<()> {
        self.0.register(event, 0, Trigger::EachArrival)
    }

    /// Stops waking for this event, regardless of its other holders. To be called with the very handle that
    /// [`register`](Self::register) was called with: closing that one alone would leave the event registered
    /// as long as anybody has another handle of it.
    ///
    /// # Errors
    /// If it is not registered.
    pub fn deregister(&self, event: &EventFd) -> io::Result<()> {
        self.0.deregister(event)
    }

    /// Wakes also while this descriptor has something to read.
    ///
    /// # Errors
    /// If it is registered already, or cannot be waited for.
    pub fn register_readable(&self, descriptor: &impl AsFd) -> io::Result<()> {
        self.0.register(descriptor, 0, Trigger::Readable)
    }

    /// Wakes from now on whenever another waiter would be woken. The other must be kept alive.
    ///
    /// # Errors
    /// If it is registered already, or the kernel refuses.
    pub fn register_waiter(&self, other: &Self) -> io::Result<()> {
        self.0.register(other, 0, Trigger::EachArrival)
    }

    /// Sleeps until something is notified or the deadline (nanoseconds of the monotonic clock) has
    /// passed. May return early; a signal ends the sleep.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn wait(&self, deadline: Option<u64>) -> io::Result<()> {
        const MOST: usize = 64;
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; MOST];
        let left = deadline.map(|end| clock::timespec(end.saturating_sub(clock::monotonic())));
        let left_pointer = left
            .as_ref()
            .map_or(std::ptr::null(), std::ptr::from_ref::<libc::timespec>);
        // Not by rustix, which rounds the remaining time to milliseconds for kernels before 5.11.
        // SAFETY: the kernel writes at most `MOST` events; `left_pointer` is null or points to
        // `left`; no signal mask is given.
        let answer = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.0.as_fd().as_raw_fd(),
                events.as_mut_ptr(),
                MOST,
                left_pointer,
                std::ptr::null::<libc::sigset_t>(),
                0usize,
            )
        };
        if answer < 0 && last_errno() != libc::EINTR {
            return Err(failed("epoll_pwait2", "wait for an event"));
        }
        Ok(())
    }

    /// The descriptor, to be passed on to the sleeper.
    #[must_use]
    pub fn into_descriptor(self) -> OwnedFd {
        self.0.into_descriptor()
    }
}

impl AsFd for EventWaiter {
    /// Readable when something was notified.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poll::{Interest, PollFd, wait};
    use std::time::Duration;

    fn is_woken(waiter: &EventWaiter) -> bool {
        let mut now = [PollFd::new(waiter, Interest::Read)];
        wait(&mut now, Some(Duration::ZERO)).expect("polls") == 1
    }

    #[test]
    fn each_notification_wakes_once_and_the_waiter_needs_no_event() {
        let (event, waiter) = (
            EventFd::new().expect("made"),
            EventWaiter::new().expect("made"),
        );
        let notifier = event.share().expect("shared");
        waiter.register(&event).expect("registered");
        drop(event);
        for _ in 0..3 {
            assert!(!is_woken(&waiter));
            notifier.notify();
            notifier.notify();
            assert!(is_woken(&waiter));
            waiter.wait(None).expect("something was there");
        }
    }

    #[test]
    fn a_deregistered_event_wakes_nobody_for_any_holder() {
        let (event, waiter) = (
            EventFd::new().expect("made"),
            EventWaiter::new().expect("made"),
        );
        let held = event.share().expect("shared");
        waiter.register(&event).expect("registered");
        held.notify();
        assert!(is_woken(&waiter));
        waiter.deregister(&event).expect("it was registered");
        assert!(waiter.deregister(&event).is_err(), "twice");
        drop(event);
        held.notify();
        assert!(!is_woken(&waiter));
    }

    #[test]
    fn a_deadline_ends_the_sleep() {
        let (event, waiter) = (
            EventFd::new().expect("made"),
            EventWaiter::new().expect("made"),
        );
        waiter.register(&event).expect("registered");
        let end = clock::deadline_after(Duration::from_millis(3));
        while clock::monotonic() < end {
            waiter.wait(Some(end)).expect("sleeps");
        }
    }
}
