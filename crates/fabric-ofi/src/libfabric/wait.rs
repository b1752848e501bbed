//! Wait object: the descriptors on which a thread sleeps until a completion queue has something.
//!
//! ```text
//!   Own    sockets ── set of the provider          one of these descriptors: watched by a sleeper for as long as it sleeps
//!   Set    sockets ── set of the provider ── set of the queue       watched always
//!   none   no descriptor reports events
//! ```
//!
//! Over the kernel's network the sender's `send` walks, for each message, the sets that contain the receiver's socket. So there the
//! provider is asked for its own descriptors (`FI_WAIT_POLLFD`), which are in a set only while somebody sleeps.

use std::ffi::c_int;
use std::os::fd::BorrowedFd;
use std::ptr;

use super::layout::{CqEntry, Fid, FidCq, WaitDescriptors};
use super::numbers::{GETWAIT, WAIT_FD, WAIT_NONE, WAIT_POLLFD};

/// Most descriptors of a queue: those of today's libfabric have three.
const MOST: usize = 64;

/// The wanted kind of wait object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// Nothing: its descriptors do not report all events.
    Nothing,
    /// One descriptor, of a set.
    Set,
    /// The provider's own descriptors, or else a set.
    Own,
}

impl Wanted {
    /// Kinds of wait objects, the best first. Every provider has the last one.
    pub fn kinds(self) -> &'static [c_int] {
        let kinds: &[c_int] = &[WAIT_POLLFD, WAIT_FD, WAIT_NONE];
        match self {
            Self::Own => kinds,
            Self::Set => &kinds[1..],
            Self::Nothing => &kinds[2..],
        }
    }
}

/// The wait object of an open queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WaitObject {
    kind: c_int,
    descriptors: Descriptors,
}

/// Descriptors that a queue has reported.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
struct Descriptors {
    /// Changes when they do.
    version: u64,
    all: Vec<c_int>,
}

impl WaitObject {
    /// The wait object of a queue that was opened with this kind. `None`: own descriptors without a set of sockets among them, so that it
    /// is unknown whether they report all events.
    ///
    /// # Safety
    /// The queue is open with this kind, and nothing is under way at it.
    pub unsafe fn of(queue: *mut FidCq, kind: c_int) -> Option<Self> {
        let mut object = Self {
            kind,
            descriptors: Descriptors::default(),
        };
        match kind {
            WAIT_POLLFD => {
                let mut entry = CqEntry {
                    op_context: ptr::null_mut(),
                    flags: 0,
                    len: 0,
                };
                // libfabric adds its sockets' set to the list only after a first wait by this call.
                // SAFETY: the queue is open, as the caller says, and nothing can complete.
                unsafe {
                    ((*(*queue).ops).sread)(queue, &raw mut entry, 1, ptr::null(), 1);
                    object.renew(queue);
                }
                object.descriptors.all.iter().any(is_set).then_some(object)
            }
            WAIT_FD => {
                let mut descriptor: c_int = -1;
                // SAFETY: the queue is open, as the caller says; one number is written.
                let answer = unsafe { control(queue, (&raw mut descriptor).cast()) };
                if answer == 0 && descriptor >= 0 {
                    object.descriptors.all.push(descriptor);
                }
                Some(object)
            }
            _ => Some(object),
        }
    }

    /// Whether own descriptors have changed.
    ///
    /// # Safety
    /// The queue is open, and it is that of `self`.
    pub unsafe fn is_stale(&self, queue: *mut FidCq) -> bool {
        // SAFETY: as the caller says.
        let now = (self.kind == WAIT_POLLFD).then(|| unsafe { own(queue) });
        now.flatten().is_some_and(|now| now != self.descriptors)
    }

    /// Reads the present own descriptors.
    ///
    /// # Safety
    /// As for [`is_stale`](Self::is_stale).
    pub unsafe fn renew(&mut self, queue: *mut FidCq) {
        // SAFETY: as the caller says.
        let now = (self.kind == WAIT_POLLFD).then(|| unsafe { own(queue) });
        if let Some(now) = now.flatten() {
            self.descriptors = now;
        }
    }

    /// Whether there is something to sleep on.
    #[inline]
    pub fn is_some(&self) -> bool {
        !self.descriptors.all.is_empty()
    }

    /// Whether the descriptors are outside of any set of the provider.
    pub fn is_own(&self) -> bool {
        self.kind == WAIT_POLLFD
    }

    /// The descriptors, which become readable when something is to be read.
    ///
    /// # Safety
    /// The queue lives for as long as they are used.
    pub unsafe fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let all = self.descriptors.all.iter();
        // SAFETY: they belong to the queue, which lives, as the caller says.
        all.map(|descriptor| unsafe { BorrowedFd::borrow_raw(*descriptor) })
    }
}

/// Own descriptors of a queue.
///
/// # Safety
/// The queue is open, with a wait object of this kind.
unsafe fn own(queue: *mut FidCq) -> Option<Descriptors> {
    let mut room = [libc::pollfd {
        fd: -1,
        events: 0,
        revents: 0,
    }; MOST];
    let mut list = WaitDescriptors {
        change_index: 0,
        count: room.len(),
        descriptors: room.as_mut_ptr(),
    };
    // SAFETY: the queue is open, as the caller says; at most as many are written as there is room for.
    let answer = unsafe { control(queue, (&raw mut list).cast()) };
    let told = room.get(..list.count).filter(|_| answer == 0)?;
    let known = told.iter().map(|one| one.fd);
    Some(Descriptors {
        version: list.change_index,
        all: known.filter(|descriptor| *descriptor >= 0).collect(),
    })
}

/// # Safety
/// The queue is open, and `written` has room for the result for its kind of wait object.
unsafe fn control(queue: *mut FidCq, written: *mut std::ffi::c_void) -> c_int {
    let queue = queue.cast::<Fid>();
    // SAFETY: as the caller says.
    unsafe { ((*(*queue).ops).control)(queue, GETWAIT, written) }
}

/// Whether a descriptor is a set of others (`epoll`).
fn is_set(descriptor: &c_int) -> bool {
    let name = std::fs::read_link(format!("/proc/self/fd/{descriptor}"));
    name.is_ok_and(|name| name.as_os_str() == "anon_inode:[eventpoll]")
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn each_wish_ends_with_what_every_provider_has() {
        for wanted in [Wanted::Own, Wanted::Set, Wanted::Nothing] {
            assert_eq!(wanted.kinds().last(), Some(&WAIT_NONE));
        }
        assert_eq!(Wanted::Own.kinds()[..2], [WAIT_POLLFD, WAIT_FD]);
    }

    #[test]
    fn a_set_is_told_from_what_stands_in_it() {
        let set = weft_sys::readiness::ReadinessSet::new().expect("a descriptor");
        let event = weft_sys::event::EventFd::new().expect("a descriptor");
        assert!(is_set(&std::os::fd::AsFd::as_fd(&set).as_raw_fd()));
        assert!(!is_set(&std::os::fd::AsFd::as_fd(&event).as_raw_fd()));
    }
}
