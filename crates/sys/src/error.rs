//! Errors of system calls: what was attempted, and the kernel's answer.

use std::fmt;
use std::io;

/// A refused system call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SystemError {
    /// The call, as its manual page is named.
    pub call: &'static str,
    /// The number of the error.
    pub errno: i32,
    /// The purpose of the call, with the values.
    pub purpose: String,
}

impl fmt::Display for SystemError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = io::Error::from_raw_os_error(self.errno);
        write!(out, "could not {}: {}: {reason}", self.purpose, self.call)
    }
}

impl std::error::Error for SystemError {}

impl From<SystemError> for io::Error {
    fn from(error: SystemError) -> Self {
        let kind = io::Error::from_raw_os_error(error.errno).kind();
        io::Error::new(kind, error)
    }
}

/// The number of an error that came from this crate or from the standard library.
#[must_use]
pub fn errno(error: &io::Error) -> Option<i32> {
    error.raw_os_error().or_else(|| {
        let inner = error.get_ref()?.downcast_ref::<SystemError>()?;
        Some(inner.errno)
    })
}

/// Calls `body` and leaves the calling thread's `errno` as it was before: for calls during which other code
/// may run on this thread, or which may return on another thread.
#[inline]
pub fn keep_errno<T>(body: impl FnOnce() -> T) -> T {
    // SAFETY: the address of this thread's `errno`, asked for anew after the body.
    let errno = unsafe { *libc::__errno_location() };
    let answer = body();
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
    answer
}

/// The number that the last call of this thread left.
pub(crate) fn last_errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// The error of the last call. `purpose` completes "could not …".
#[cold]
pub(crate) fn failed(call: &'static str, purpose: impl Into<String>) -> io::Error {
    with_errno(call, last_errno(), purpose)
}

/// An error with a known number.
#[cold]
pub(crate) fn with_errno(call: &'static str, errno: i32, purpose: impl Into<String>) -> io::Error {
    SystemError {
        call,
        errno,
        purpose: purpose.into(),
    }
    .into()
}

/// Turns the usual "-1 and errno" into a result.
pub(crate) fn check<T: PartialEq + From<i8>>(
    answer: T,
    call: &'static str,
    purpose: impl FnOnce() -> String,
) -> io::Result<T> {
    if answer == T::from(-1) {
        Err(failed(call, purpose()))
    } else {
        Ok(answer)
    }
}

/// Adds the purpose to an error of a call by rustix.
pub(crate) trait Purpose<T> {
    /// The error carries the call and this purpose, which completes "could not …".
    fn to(self, call: &'static str, purpose: impl FnOnce() -> String) -> io::Result<T>;
}

impl<T> Purpose<T> for rustix::io::Result<T> {
    #[inline]
    fn to(self, call: &'static str, purpose: impl FnOnce() -> String) -> io::Result<T> {
        self.map_err(|errno| with_errno(call, errno.raw_os_error(), purpose()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_and_the_kind_survive() {
        let error = with_errno("open", libc::EACCES, "open the map of 4096 bytes");
        assert_eq!(errno(&error), Some(libc::EACCES));
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        assert!(
            error
                .to_string()
                .starts_with("could not open the map of 4096 bytes: open: ")
        );
        assert_eq!(errno(&io::Error::other("no number")), None);
    }
}
