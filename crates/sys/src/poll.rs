//! Readiness of descriptors: `poll`, for sets that differ from call to call. For one that
//! stays there is [`readiness`](crate::readiness).

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

use crate::clock;
use crate::error::{failed, last_errno};

/// The event for which to wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interest {
    /// Something to read (or the end).
    Read,
    /// Room to write.
    Write,
    /// Either.
    Both,
    /// Only the end of the other side, or an error.
    Nothing,
}

/// A descriptor in a set to be waited for. It stays open as long as this lives.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct PollFd<'a> {
    inner: libc::pollfd,
    descriptor: PhantomData<BorrowedFd<'a>>,
}

impl<'a> PollFd<'a> {
    /// Waits for `interest` on a descriptor.
    #[must_use]
    pub fn new(descriptor: &'a impl AsFd, interest: Interest) -> Self {
        let mut entry = Self {
            inner: libc::pollfd {
                fd: descriptor.as_fd().as_raw_fd(),
                events: 0,
                revents: 0,
            },
            descriptor: PhantomData,
        };
        entry.set_interest(interest);
        entry
    }

    /// Changes what is waited for.
    pub fn set_interest(&mut self, interest: Interest) {
        self.inner.events = match interest {
            Interest::Read => libc::POLLIN,
            Interest::Write => libc::POLLOUT,
            Interest::Both => libc::POLLIN | libc::POLLOUT,
            Interest::Nothing => 0,
        };
    }

    /// Whether a read would not wait: there are bytes, or the end, or an error.
    #[must_use]
    pub fn readable(&self) -> bool {
        self.has(libc::POLLIN | libc::POLLHUP | libc::POLLERR)
    }

    /// Whether a write would not wait: there is room, or an error.
    #[must_use]
    pub fn writable(&self) -> bool {
        self.has(libc::POLLOUT | libc::POLLERR)
    }

    /// Whether the other side is gone, or the descriptor is broken.
    #[must_use]
    pub fn ended(&self) -> bool {
        self.has(libc::POLLHUP | libc::POLLERR | libc::POLLNVAL)
    }

    /// Whether anything was found.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.inner.revents != 0
    }

    fn has(&self, events: libc::c_short) -> bool {
        self.inner.revents & events != 0
    }
}

impl std::fmt::Debug for PollFd<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            out,
            "PollFd({}: wanted {:#x}, found {:#x})",
            self.inner.fd, self.inner.events, self.inner.revents
        )
    }
}

/// Waits until one of them is ready or the limit (`None`: for ever) has passed. Returns how many are ready. A
/// signal does not end the wait.
///
/// # Errors
/// If the kernel refuses, for instance because the set is larger than the limit of open descriptors.
pub fn wait(polled: &mut [PollFd<'_>], limit: Option<Duration>) -> io::Result<usize> {
    let end = limit.map(clock::deadline_after);
    loop {
        let left = end.map(|end| clock::timespec(end.saturating_sub(clock::monotonic())));
        let left_pointer = left
            .as_ref()
            .map_or(std::ptr::null(), std::ptr::from_ref::<libc::timespec>);
        // SAFETY: a PollFd is a pollfd; the kernel reads and writes as many as are said to be there.
        // `left_pointer` is null or points to `left`; no signal mask is given.
        let ready = unsafe {
            libc::ppoll(
                polled.as_mut_ptr().cast(),
                polled.len() as libc::nfds_t,
                left_pointer,
                std::ptr::null(),
            )
        };
        match usize::try_from(ready) {
            Ok(count) => return Ok(count),
            Err(_) if last_errno() == libc::EINTR => {}
            Err(_) => {
                return Err(failed(
                    "ppoll",
                    format!("wait for {} descriptors", polled.len()),
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::descriptor::pipe;
    use std::io::Write;

    #[test]
    fn what_is_ready_is_found() {
        let (reader, writer) = pipe().expect("descriptors are left");
        let mut polled = [
            PollFd::new(&reader, Interest::Read),
            PollFd::new(&writer, Interest::Write),
        ];
        assert_eq!(wait(&mut polled, None).expect("polls"), 1);
        assert!(!polled[0].readable() && polled[1].writable());
        polled[1].set_interest(Interest::Nothing);
        assert_eq!(wait(&mut polled, Some(Duration::ZERO)).expect("polls"), 0);
        assert!(!polled[1].is_ready());
    }

    #[test]
    fn the_end_of_the_other_side_is_found() {
        let (reader, writer) = pipe().expect("descriptors are left");
        let mut writer = std::fs::File::from(writer);
        writer.write_all(b"x").expect("there is room");
        drop(writer);
        let mut polled = [PollFd::new(&reader, Interest::Read)];
        assert_eq!(wait(&mut polled, None).expect("polls"), 1);
        assert!(polled[0].readable() && polled[0].ended());
    }

    #[test]
    fn a_limit_ends_the_wait() {
        let start = clock::monotonic();
        let ready = wait(&mut [], Some(Duration::from_millis(3))).expect("polls");
        assert_eq!(ready, 0);
        assert!(clock::monotonic() - start >= 3_000_000);
    }
}
