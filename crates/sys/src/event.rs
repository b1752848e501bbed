//! Bells and ears: how components that do not trust each other wake one another.
//!
//! A [`EventFd`] is an event counter of the kernel (`eventfd`), an [`EventWaiter`] a set (`epoll`) in which bells
//! and other descriptors lie. Who may ring holds the bell, who is woken holds the ear with the bell
//! in it, *and not the bell*. So:
//!
//! * a listener cannot make a ringer wait: it has no descriptor of the bell through which it could
//!   fill the counter or take away its non-blocking mode;
//! * a ringer that misbehaves (reads its bell, fills it) silences its own bell and no other, as it
//!   could by not ringing: each pair of components has bells of its own.
//!
//! Bells lie in an ear edge-triggered: each ringing is reported once, and nobody ever reads the
//! counter. It would be full after 2⁶⁴ rings.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::clock;
use crate::error::{check, failed, last_errno};

/// Wakes whoever has it in its ear.
#[derive(Debug)]
pub struct EventFd(OwnedFd);

impl EventFd {
    /// A bell that nobody hears yet.
    ///
    /// # Errors
    /// If there are no descriptors left.
    pub fn new() -> io::Result<Self> {
        // SAFETY: takes numbers only.
        let made = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        check(made, "eventfd", || "make a bell".into())?;
        // SAFETY: just made for us.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(made) }))
    }

    /// A bell that was handed over.
    #[must_use]
    pub fn adopt(descriptor: OwnedFd) -> Self {
        Self(descriptor)
    }

    /// Another handle of the same bell.
    ///
    /// # Errors
    /// If there are no descriptors left.
    pub fn share(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// Rings: one system call. A bell that cannot be rung is a matter of its pair alone, and ignored.
    pub fn ring(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: the kernel reads eight bytes of `one`.
        unsafe { libc::write(self.0.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    /// Takes back all rings so far; true if there were any. For a bell that its own side hears: who
    /// hears by an [`EventWaiter`] has no need of it.
    #[must_use]
    pub fn silence(&self) -> bool {
        let mut count = 0u64;
        // SAFETY: the kernel writes eight bytes into the number.
        let read = unsafe { libc::read(self.0.as_raw_fd(), (&raw mut count).cast(), 8) };
        read == 8
    }

    /// The descriptor, to be passed on to a ringer.
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

/// Sleeps until one of its bells rings, or one of its other descriptors is ready.
#[derive(Debug)]
pub struct EventWaiter(OwnedFd);

impl EventWaiter {
    /// An ear that hears nothing.
    ///
    /// # Errors
    /// If there are no descriptors left.
    pub fn new() -> io::Result<Self> {
        // SAFETY: takes a number only.
        let made = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        check(made, "epoll_create1", || "make an ear".into())?;
        // SAFETY: just made for us.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(made) }))
    }

    /// An ear that was handed over.
    #[must_use]
    pub fn adopt(descriptor: OwnedFd) -> Self {
        Self(descriptor)
    }

    /// Another handle of the same ear.
    ///
    /// # Errors
    /// If there are no descriptors left.
    pub fn share(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// Hears this bell from now on, as long as anybody holds it. Somebody who outlives the ringer must:
    /// with the last handle a ring that was not heard yet is gone.
    ///
    /// # Errors
    /// If it is heard already, or the kernel refuses.
    pub fn hear(&self, bell: &EventFd) -> io::Result<()> {
        self.add(bell, libc::EPOLLIN as u32 | libc::EPOLLET as u32)
    }

    /// Hears this bell no more, whoever else holds it. To be called with the very handle that
    /// [`hear`](Self::hear) was called with: closing that one alone would leave the bell in the ear as
    /// long as anybody has another handle of it.
    ///
    /// # Errors
    /// If it is not heard.
    pub fn forget(&self, bell: &EventFd) -> io::Result<()> {
        let number = bell.as_fd().as_raw_fd();
        // SAFETY: both descriptors are open; no event is needed to take one away.
        let removed = unsafe {
            libc::epoll_ctl(
                self.0.as_raw_fd(),
                libc::EPOLL_CTL_DEL,
                number,
                std::ptr::null_mut(),
            )
        };
        check(removed, "epoll_ctl", || {
            format!("hear descriptor {number} no more")
        })
        .map(drop)
    }

    /// Wakes also while this descriptor has something to read.
    ///
    /// # Errors
    /// If it is in the ear already, or cannot be waited for.
    pub fn watch(&self, descriptor: &impl AsFd) -> io::Result<()> {
        self.add(descriptor, libc::EPOLLIN as u32)
    }

    /// Hears what another ear hears from now on. Somebody must keep the other.
    ///
    /// # Errors
    /// If it is heard already, or the kernel refuses.
    pub fn hear_ear(&self, other: &Self) -> io::Result<()> {
        self.add(other, libc::EPOLLIN as u32 | libc::EPOLLET as u32)
    }

    fn add(&self, descriptor: &impl AsFd, events: u32) -> io::Result<()> {
        let number = descriptor.as_fd().as_raw_fd();
        let mut event = libc::epoll_event { events, u64: 0 };
        // SAFETY: the kernel reads `event`; both descriptors are open.
        let added = unsafe {
            libc::epoll_ctl(
                self.0.as_raw_fd(),
                libc::EPOLL_CTL_ADD,
                number,
                &raw mut event,
            )
        };
        check(added, "epoll_ctl", || format!("hear descriptor {number}")).map(drop)
    }

    /// Sleeps until something is heard or the deadline (nanoseconds of the monotonic clock) has
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
        // SAFETY: the kernel writes at most `MOST` events; `left_pointer` is null or points to
        // `left`; no signal mask is given.
        let answer = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.0.as_raw_fd(),
                events.as_mut_ptr(),
                MOST,
                left_pointer,
                std::ptr::null::<libc::sigset_t>(),
                0usize,
            )
        };
        if answer < 0 && last_errno() != libc::EINTR {
            return Err(failed("epoll_pwait2", "wait for a bell"));
        }
        Ok(())
    }

    /// The descriptor, to be passed on to the sleeper.
    #[must_use]
    pub fn into_descriptor(self) -> OwnedFd {
        self.0
    }
}

impl AsFd for EventWaiter {
    /// Readable when something is heard.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poll::{Entry, Interest, wait};
    use std::time::Duration;

    fn heard(ear: &EventWaiter) -> bool {
        let now = [Entry::new(ear, Interest::Read)];
        let mut now = now;
        wait(&mut now, Some(Duration::ZERO)).expect("polls") == 1
    }

    #[test]
    fn each_ringing_is_heard_once_and_the_listener_needs_no_bell() {
        let (bell, ear) = (
            EventFd::new().expect("made"),
            EventWaiter::new().expect("made"),
        );
        let ringer = bell.share().expect("shared");
        ear.hear(&bell).expect("heard");
        drop(bell);
        for _ in 0..3 {
            assert!(!heard(&ear));
            ringer.ring();
            ringer.ring();
            assert!(heard(&ear));
            ear.wait(None).expect("something was there");
        }
    }

    #[test]
    fn a_bell_that_is_forgotten_wakes_nobody_whoever_holds_it() {
        let (bell, ear) = (
            EventFd::new().expect("made"),
            EventWaiter::new().expect("made"),
        );
        let held = bell.share().expect("shared");
        ear.hear(&bell).expect("heard");
        held.ring();
        assert!(heard(&ear));
        ear.forget(&bell).expect("it was heard");
        assert!(ear.forget(&bell).is_err(), "twice");
        drop(bell);
        held.ring();
        assert!(!heard(&ear));
    }

    #[test]
    fn a_deadline_ends_the_sleep() {
        let (bell, ear) = (
            EventFd::new().expect("made"),
            EventWaiter::new().expect("made"),
        );
        ear.hear(&bell).expect("heard");
        let end = clock::deadline_after(Duration::from_millis(3));
        while clock::monotonic() < end {
            ear.wait(Some(end)).expect("sleeps");
        }
    }
}
