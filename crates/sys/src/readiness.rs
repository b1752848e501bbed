//! Readiness set (`epoll`): descriptors that stay registered, each with a token and with what it is watched for.
//!
//! For sets that differ from call to call there is [`poll`](crate::poll); for components that do not trust each
//! other, events in an [`EventWaiter`](crate::event::EventWaiter), which is built on this.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};

use crate::error::Purpose;

/// Descriptors that one call reports, at most.
pub const AT_ONCE: usize = 32;

/// When a registered descriptor is reported, and how often.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trigger {
    /// Each time, as long as there is something to read.
    Readable,
    /// Each time, as long as there is something to read, or room to write.
    ReadableOrWritable,
    /// Once for each arrival of something to read.
    EachArrival,
    /// Once, when there is something to read; then not until it is armed again.
    OnceReadable,
    /// Only for its end, until it is armed.
    Unarmed,
}

impl Trigger {
    fn flags(self) -> EventFlags {
        match self {
            Self::Readable => EventFlags::IN,
            Self::ReadableOrWritable => EventFlags::IN | EventFlags::OUT,
            Self::EachArrival => EventFlags::IN | EventFlags::ET,
            Self::OnceReadable => EventFlags::IN | EventFlags::ONESHOT,
            Self::Unarmed => EventFlags::ONESHOT,
        }
    }
}

/// A descriptor that is ready.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadyDescriptor {
    /// The token with which it was registered.
    pub token: u64,
    /// Whether there is room to write. If not, there is something to read, or it has ended.
    pub writable: bool,
}

/// A set of registered descriptors. Readable itself while one of them is ready.
#[derive(Debug)]
pub struct ReadinessSet(OwnedFd);

impl ReadinessSet {
    /// An empty set.
    ///
    /// # Errors
    /// If there are no descriptors left.
    pub fn new() -> io::Result<Self> {
        epoll::create(CreateFlags::CLOEXEC)
            .map(Self)
            .to("epoll_create1", || "make a readiness set".into())
    }

    /// A set that was handed over.
    #[must_use]
    pub fn adopt(descriptor: OwnedFd) -> Self {
        Self(descriptor)
    }

    /// Another handle of the same set.
    ///
    /// # Errors
    /// If there are no descriptors left.
    pub fn share(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// The descriptor, to be passed on.
    #[must_use]
    pub fn into_descriptor(self) -> OwnedFd {
        self.0
    }

    /// Registers a descriptor, as long as anybody has a handle of the same open file.
    ///
    /// # Errors
    /// If it is registered already, or cannot be waited for.
    pub fn register(&self, descriptor: &impl AsFd, token: u64, trigger: Trigger) -> io::Result<()> {
        epoll::add(
            &self.0,
            descriptor,
            EventData::new_u64(token),
            trigger.flags(),
        )
        .to("epoll_ctl", || {
            format!("wait for descriptor {}", number_of(descriptor))
        })
    }

    /// Watches a registered descriptor in another way from now on, or arms it again.
    ///
    /// # Errors
    /// If it is not registered.
    pub fn modify(&self, descriptor: &impl AsFd, token: u64, trigger: Trigger) -> io::Result<()> {
        epoll::modify(
            &self.0,
            descriptor,
            EventData::new_u64(token),
            trigger.flags(),
        )
        .to("epoll_ctl", || {
            format!("wait for descriptor {}", number_of(descriptor))
        })
    }

    /// Removes a descriptor, even if others have handles of the same open file. To be called with the very
    /// handle that was registered.
    ///
    /// # Errors
    /// If it is not registered.
    pub fn deregister(&self, descriptor: &impl AsFd) -> io::Result<()> {
        epoll::delete(&self.0, descriptor).to("epoll_ctl", || {
            format!("wait for descriptor {} no more", number_of(descriptor))
        })
    }

    /// Reports descriptors that are ready now, without waiting. If they are many, it reports some, and the
    /// next call reports the rest. It reports nothing if a signal came.
    #[inline]
    pub fn poll(&self, report: impl FnMut(ReadyDescriptor)) {
        let none = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        self.report(Some(&none), report);
    }

    /// Waits until one of them is ready, and reports as [`poll`](Self::poll) does.
    pub fn poll_waiting(&self, report: impl FnMut(ReadyDescriptor)) {
        self.report(None, report);
    }

    #[inline]
    fn report(&self, limit: Option<&Timespec>, mut report: impl FnMut(ReadyDescriptor)) {
        let mut events = [const { MaybeUninit::<Event>::uninit() }; AT_ONCE];
        // Refused only because of a signal: the next call sees the same.
        let Ok((found, _)) = epoll::wait(&self.0, &mut events[..], limit) else {
            return;
        };
        for event in &*found {
            // Flags and data are copied: the kernel's structure is packed.
            let (flags, data) = (event.flags, event.data);
            report(ReadyDescriptor {
                token: data.u64(),
                writable: flags.contains(EventFlags::OUT),
            });
        }
    }

    /// Waits until one of them is ready, at most for `limit` nanoseconds (`None`: for ever), rounded up to
    /// whole milliseconds: old kernels know nothing finer. False if none is. A signal ends the wait.
    pub fn wait(&self, limit: Option<u64>) -> bool {
        let limit = limit.map(|limit| {
            let milliseconds = limit.div_ceil(1_000_000).min(1_000_000_000);
            Timespec {
                tv_sec: (milliseconds / 1000) as i64,
                tv_nsec: (milliseconds % 1000 * 1_000_000) as _,
            }
        });
        let mut events = [const { MaybeUninit::<Event>::uninit() }; 1];
        !matches!(
            epoll::wait(&self.0, &mut events[..], limit.as_ref()),
            Ok(([], _))
        )
    }
}

impl AsFd for ReadinessSet {
    /// Readable while one of its descriptors is ready.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn number_of(descriptor: &impl AsFd) -> i32 {
    descriptor.as_fd().as_raw_fd()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::EventFd;

    fn ready(set: &ReadinessSet) -> Vec<ReadyDescriptor> {
        let mut found = Vec::new();
        set.poll(|one| found.push(one));
        found.sort_by_key(|one| one.token);
        found
    }

    fn readable(token: u64) -> ReadyDescriptor {
        ReadyDescriptor {
            token,
            writable: false,
        }
    }

    #[test]
    fn what_is_ready_is_reported_by_its_token_and_as_often_as_was_asked() {
        let set = ReadinessSet::new().expect("made");
        let events = [(); 3].map(|()| EventFd::new().expect("made"));
        for (event, (token, trigger)) in events.iter().zip([
            (7, Trigger::Readable),
            (8, Trigger::EachArrival),
            (9, Trigger::OnceReadable),
        ]) {
            set.register(event, token, trigger).expect("registered");
            assert!(set.register(event, token, trigger).is_err(), "twice");
        }
        assert!(!set.wait(Some(1)), "nothing is there");
        events.iter().for_each(EventFd::notify);
        assert!(set.wait(None));
        assert_eq!(ready(&set)[..2], [readable(7), readable(8)]);
        assert_eq!(ready(&set), [readable(7)], "the others were reported");
        events[1..].iter().for_each(EventFd::notify);
        assert_eq!(ready(&set), [readable(7), readable(8)]);
        set.modify(&events[2], 9, Trigger::OnceReadable)
            .expect("registered");
        assert_eq!(ready(&set), [readable(7), readable(9)]);
        set.deregister(&events[0]).expect("registered");
        assert_eq!(ready(&set), []);
        set.modify(&events[1], 8, Trigger::ReadableOrWritable)
            .expect("registered");
        assert!(ready(&set)[0].writable);
    }
}
