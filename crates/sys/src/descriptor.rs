//! Descriptors: pipes, socket pairs, what a child inherits.
//!
//! Everything made here closes on `exec`. What a child is meant to have is named with [`hand_over`],
//! which opens it in that child alone.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::error::check;

/// A pipe: the reading and the writing end.
///
/// # Errors
/// If there are no descriptors left.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [-1; 2];
    // SAFETY: the kernel writes two numbers into `ends`.
    let made = unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) };
    check(made, "pipe2", || "make a pipe".into())?;
    // SAFETY: just made for us.
    Ok(unsafe { own(ends) })
}

/// What a socket pair carries.
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
        Carries::Bytes => libc::SOCK_STREAM,
        Carries::Messages => libc::SOCK_SEQPACKET,
    };
    let mut ends = [-1; 2];
    // SAFETY: the kernel writes two numbers into `ends`.
    let made = unsafe {
        libc::socketpair(
            libc::AF_UNIX,
            kind | libc::SOCK_CLOEXEC,
            0,
            ends.as_mut_ptr(),
        )
    };
    check(made, "socketpair", || "make a pair of sockets".into())?;
    // SAFETY: just made for us.
    Ok(unsafe { own(ends) })
}

/// # Safety
/// Both must be open and owned by nobody yet.
unsafe fn own(ends: [RawFd; 2]) -> (OwnedFd, OwnedFd) {
    // SAFETY: promised by the caller.
    unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) }
}

/// Whether the descriptor closes on `exec`.
///
/// # Errors
/// If the kernel refuses.
pub fn set_close_on_exec(descriptor: &impl AsFd, close: bool) -> io::Result<()> {
    let number = descriptor.as_fd().as_raw_fd();
    let flags = if close { libc::FD_CLOEXEC } else { 0 };
    // SAFETY: fcntl with numbers on an open descriptor.
    let set = unsafe { libc::fcntl(number, libc::F_SETFD, flags) };
    check(set, "fcntl", || format!("mark descriptor {number}")).map(drop)
}

/// Whether calls on the descriptor return instead of waiting.
///
/// # Errors
/// If the kernel refuses.
pub fn set_nonblocking(descriptor: &impl AsFd, nonblocking: bool) -> io::Result<()> {
    let number = descriptor.as_fd().as_raw_fd();
    let purpose = || format!("change the mode of descriptor {number}");
    // SAFETY: fcntl with numbers on an open descriptor.
    let flags = check(
        unsafe { libc::fcntl(number, libc::F_GETFL) },
        "fcntl",
        purpose,
    )?;
    let flags = if nonblocking {
        flags | libc::O_NONBLOCK
    } else {
        flags & !libc::O_NONBLOCK
    };
    // SAFETY: as above.
    let set = unsafe { libc::fcntl(number, libc::F_SETFL, flags) };
    check(set, "fcntl", purpose).map(drop)
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
            let number = descriptor.as_raw_fd();
            if libc::fcntl(number, libc::F_SETFD, 0) == -1 {
                return Err(io::Error::last_os_error());
            }
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
    // SAFETY: fcntl with numbers; a number that is not open gives an error. The copy is a new
    // descriptor, so no other owner is disturbed.
    let copy = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) };
    check(copy, "fcntl", purpose)?;
    // SAFETY: just made for us.
    let owned = unsafe { OwnedFd::from_raw_fd(copy) };
    // SAFETY: as for the first fcntl; changes only whether a later child inherits it.
    let marked = unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
    check(marked, "fcntl", purpose)?;
    Ok(owned)
}

/// Raises the number of descriptors that this process may open to what the host permits; answers it.
///
/// # Errors
/// If the kernel refuses.
pub fn raise_limit() -> io::Result<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    let purpose = || "raise the number of open descriptors".to_owned();
    // SAFETY: the kernel writes into `limit`.
    let read = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    check(read, "getrlimit", purpose)?;
    if limit.rlim_cur < limit.rlim_max {
        limit.rlim_cur = limit.rlim_max;
        // SAFETY: the kernel reads `limit`.
        let set = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
        check(set, "setrlimit", purpose)?;
    }
    Ok(limit.rlim_cur)
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
                "echo hello >&{number}; test ! -e /proc/self/fd/{}",
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
