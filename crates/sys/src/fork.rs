//! Fork: a second process of the same program, without `exec`: for a launcher whose guard must exist before
//! anything that it guards.

use std::fs;
use std::io;

use crate::error::{check, failed, last_errno};

/// The process in which [`fork_alone`] returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fork {
    /// The process that called; `child` is the new one.
    Parent {
        /// The id of the new process.
        child: u32,
    },
    /// The new process: a copy, with copies of all descriptors.
    Child,
}

/// Forks, if this process has one thread only: then no lock can be held by a thread that the copy does
/// not have, and the copy may do whatever the original may.
///
/// # Errors
/// If there are other threads, or neither `/proc` nor the kernel shows that, or the kernel refuses.
pub fn fork_alone() -> io::Result<Fork> {
    let several = match fs::read_dir("/proc/self/task") {
        Ok(threads) => threads.count() != 1,
        Err(_) => has_other_threads()?,
    };
    if several {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "a process of several threads cannot be forked: call before starting threads",
        ));
    }
    // SAFETY: we are the only thread, so nobody holds a lock and nothing is half-changed; nobody but
    // us could have started another thread since we counted.
    let child = unsafe { libc::fork() };
    check(child, "fork", || "make a second process".into())?;
    Ok(match child {
        0 => Fork::Child,
        child => Fork::Parent {
            child: child.unsigned_abs(),
        },
    })
}

/// Whether there are other threads, as the kernel knows without `/proc`: only a single thread can leave its own thread group, and
/// then without any effect.
fn has_other_threads() -> io::Result<bool> {
    // SAFETY: a number; who is alone is left as it is, and everybody else as well.
    match unsafe { libc::unshare(libc::CLONE_THREAD) } {
        0 => Ok(false),
        _ if last_errno() == libc::EINVAL => Ok(true),
        _ => Err(failed(
            "unshare",
            "find out whether we are the only thread, without /proc",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_threads_is_not_forked() {
        // The test runs in a thread of its own, beside the main one.
        let error = fork_alone().expect_err("there are at least two threads");
        assert!(error.to_string().contains("threads"), "{error}");
        assert!(has_other_threads().expect("the kernel knows"));
    }
}
