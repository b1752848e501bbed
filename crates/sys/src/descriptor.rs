//! Descriptors: pipes, socket pairs, inheritance by children.
//!
//! Everything made here closes on `exec`. A descriptor for a child is passed by [`hand_over`], which opens it
//! in that child alone.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::error::{Purpose, with_errno};

/// A pipe: the reading and the writing end.
///
/// # Errors
/// If there are no descriptors left.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    pipe_with(PipeFlags::CLOEXEC).to("pipe2", || "make a pipe".into())
}

/// How many descriptors this process may have open; `None`: without limit.
#[must_use]
pub fn limit() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// The kind of data that a socket pair carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Carries {
    /// A stream of bytes.
    Bytes,
    /// Whole messages, in order.
    Messages,
}

/// Two connected local sockets without a name.
///
/// # Errors
/// If there are no descriptors left.
pub fn socket_pair(carries: Carries) -> io::Result<(OwnedFd, OwnedFd)> {
    let kind = match carries {
        Carries::Bytes => SocketType::STREAM,
        Carries::Messages => SocketType::SEQPACKET,
    };
    socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)
        .to("socketpair", || "make a pair of sockets".into())
}

/// Sets whether the descriptor closes on `exec`.
///
/// # Errors
/// If the kernel refuses.
pub fn set_close_on_exec(descriptor: &impl AsFd, close: bool) -> io::Result<()> {
    let flags = if close {
        FdFlags::CLOEXEC
    } else {
        FdFlags::empty()
    };
    fcntl_setfd(descriptor, flags).to("fcntl", || {
        format!("mark descriptor {}", descriptor.as_fd().as_raw_fd())
    })
}

/// Sets whether calls on the descriptor return instead of waiting.
///
/// # Errors
/// If the kernel refuses.
pub fn set_nonblocking(descriptor: &impl AsFd, nonblocking: bool) -> io::Result<()> {
    let purpose = || {
        let number = descriptor.as_fd().as_raw_fd();
        format!("change the mode of descriptor {number}")
    };
    let mut flags = fcntl_getfl(descriptor).to("fcntl", purpose)?;
    flags.set(OFlags::NONBLOCK, nonblocking);
    fcntl_setfl(descriptor, flags).to("fcntl", purpose)
}

/// Lets the child that `command` starts inherit the descriptor, under the number that is returned
/// (tell the child by an argument or a variable). This process's copy closes with the command. No
/// other child inherits it.
pub fn hand_over(command: &mut Command, descriptor: OwnedFd) -> RawFd {
    let number = descriptor.as_raw_fd();
    // SAFETY: between fork and exec only async-signal-safe calls are allowed; fcntl is one. The
    // descriptor is kept open by the closure, which the command owns.
    unsafe {
        command.pre_exec(move || {
            fcntl_setfd(&descriptor, FdFlags::empty())?;
            Ok(())
        });
    }
    number
}

/// The descriptor that the parent left under this number, as one of our own that closes on `exec`.
/// The inherited one is marked to close on `exec` too and otherwise left alone.
///
/// # Errors
/// If nothing is open under this number.
pub fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    let purpose =
        || format!("take over descriptor {number}, which the launcher should have left open");
    if number < 0 {
        return Err(with_errno("fcntl", libc::EBADF, purpose()));
    }
    // SAFETY: borrowed for two calls that the kernel refuses if nothing is open there. The first makes a
    // descriptor of its own, so no other owner is disturbed; the second changes only whether a later child
    // inherits the one that is there.
    let there = unsafe { BorrowedFd::borrow_raw(number) };
    let owned = fcntl_dupfd_cloexec(there, 3).to("fcntl", purpose)?;
    fcntl_setfd(there, FdFlags::CLOEXEC).to("fcntl", purpose)?;
    Ok(owned)
}

/// Raises the number of descriptors that this process may open to the most that the host permits; returns it.
///
/// # Errors
/// If the kernel refuses.
pub fn raise_limit() -> io::Result<u64> {
    let limit = getrlimit(Resource::Nofile);
    // `None` is no limit at all.
    if limit.current != limit.maximum {
        let raised = Rlimit {
            current: limit.maximum,
            ..limit
        };
        setrlimit(Resource::Nofile, raised).to("setrlimit", || {
            "raise the number of open descriptors".into()
        })?;
    }
    Ok(limit.maximum.unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read, Write};

    #[test]
    fn a_child_inherits_what_was_handed_over_and_nothing_else() {
        let (reader, writer) = pipe().expect("descriptors are left");
        let (_other_reader, other) = pipe().expect("descriptors are left");
        let mut command = Command::new("/bin/sh");
        let number = hand_over(&mut command, writer);
        let status = command
            .arg("-c")
            .arg(format!(
                // `>&` is for numbers of one digit in some shells.
                "echo hello >/proc/self/fd/{number}; test ! -e /proc/self/fd/{}",
                other.as_raw_fd()
            ))
            .status()
            .expect("there is a shell");
        assert!(status.success());
        drop(command);
        let mut heard = String::new();
        File::from(reader)
            .read_to_string(&mut heard)
            .expect("readable");
        assert_eq!(heard, "hello\n");
    }

    #[test]
    fn a_number_that_is_not_open_is_an_error() {
        assert!(inherited(-1).is_err());
        let (reader, writer) = pipe().expect("descriptors are left");
        let copy = inherited(writer.as_raw_fd()).expect("it is open");
        drop(writer);
        File::from(copy).write_all(b"x").expect("the copy is open");
        let mut heard = Vec::new();
        File::from(reader)
            .read_to_end(&mut heard)
            .expect("readable");
        assert_eq!(heard, b"x");
    }

    #[test]
    fn a_nonblocking_read_returns() {
        let (reader, _writer) = pipe().expect("descriptors are left");
        set_nonblocking(&reader, true).expect("may be set");
        let error = File::from(reader)
            .read(&mut [0])
            .expect_err("nothing is there");
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }
}
