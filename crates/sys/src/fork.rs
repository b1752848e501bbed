//! Fork: a second process of the same program, without another start: for a launcher whose guard must be
//! there before anything that it guards.

use std::fs;
use std::io;

use crate::error::{check, with_errno};

/// Who we are after [`fork_alone`].
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
/// If there are other threads, or `/proc` does not tell, or the kernel refuses.
pub fn fork_alone() -> io::Result<Fork> {
    let threads = fs::read_dir("/proc/self/task")
        .map_err(|error| {
            let errno = error.raw_os_error().unwrap_or(libc::ENOENT);
            with_errno("open", errno, "count our threads in /proc/self/task")
        })?
        .count();
    if threads != 1 {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "a process of {threads} threads cannot be forked: call before starting threads"
            ),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_threads_is_not_forked() {
        // The test runs in a thread of its own, beside the main one.
        let error = fork_alone().expect_err("there are at least two threads");
        assert!(error.to_string().contains("threads"), "{error}");
    }
}
