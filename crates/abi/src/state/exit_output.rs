//! Output of a process that is about to end, written without waiting for any lock.
//!
//! Other threads may be anywhere: one may hold the lock of a stream of the C library for ever (standard
//! input, while it reads), another may be stuck in a write to a pipe that nobody reads. So messages go
//! directly to the descriptor, and only the streams standard output and standard error are flushed, each if
//! its lock is free at once. Data in other streams of the program are lost, as with any `_exit`.

use std::ffi::c_int;

/// Bytes that a ready pipe takes without waiting (`PIPE_BUF` of Linux).
const AT_ONCE: usize = 4096;

#[allow(
    clippy::duplicated_attributes,
    reason = "names of the C library, which the crate `libc` does not have"
)]
unsafe extern "C" {
    static stdout: *mut libc::FILE;
    static stderr: *mut libc::FILE;
    fn ftrylockfile(stream: *mut libc::FILE) -> c_int;
    fn funlockfile(stream: *mut libc::FILE);
    fn __fpending(stream: *mut libc::FILE) -> usize;
}

/// Whether a descriptor takes [`AT_ONCE`] bytes without waiting.
fn is_ready(descriptor: c_int) -> bool {
    let mut entry = libc::pollfd {
        fd: descriptor,
        events: libc::POLLOUT,
        revents: 0,
    };
    // SAFETY: one entry, which outlives the call; no time is waited.
    unsafe { libc::poll(&raw mut entry, 1, 0) == 1 && entry.revents & libc::POLLOUT != 0 }
}

/// Writes a message to standard error, however long that takes.
pub fn say(text: &str) {
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        // SAFETY: the bytes are a slice.
        let written = unsafe { libc::write(libc::STDERR_FILENO, rest.as_ptr().cast(), rest.len()) };
        match usize::try_from(written) {
            Ok(written) if written > 0 => rest = &rest[written.min(rest.len())..],
            _ if std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted => {}
            _ => return,
        }
    }
}

/// Writes a message to standard error if that does not have to wait; returns whether it did so.
pub fn say_if_ready(text: &str) -> bool {
    let ready = text.len() <= AT_ONCE && is_ready(libc::STDERR_FILENO);
    if ready {
        say(text);
    }
    ready
}

/// Flushes standard output and standard error as far as possible without waiting.
pub fn flush_if_ready() {
    // SAFETY: the streams of the C library exist as long as the process.
    unsafe {
        flush_stream(stdout, libc::STDOUT_FILENO, true);
        flush_stream(stderr, libc::STDERR_FILENO, true);
    }
}

/// Flushes standard output and standard error if no other thread uses them, however long it takes to
/// write.
pub fn flush() {
    // SAFETY: the streams of the C library exist as long as the process.
    unsafe {
        flush_stream(stdout, libc::STDOUT_FILENO, false);
        flush_stream(stderr, libc::STDERR_FILENO, false);
    }
}

/// # Safety
/// The stream is one of the C library's own.
unsafe fn flush_stream(stream: *mut libc::FILE, descriptor: c_int, only_if_ready: bool) {
    // SAFETY: the stream is null or one of the C library's own, which exist as long as the process. The lock is taken
    // before the stream is accessed, and may be taken twice by one thread, which `fflush` does.
    unsafe {
        if stream.is_null() || ftrylockfile(stream) != 0 {
            return;
        }
        let pending = __fpending(stream);
        let now = !only_if_ready || (pending <= AT_ONCE && is_ready(descriptor));
        if pending > 0 && now {
            libc::fflush(stream);
        }
        funlockfile(stream);
    }
}
