//! Clocks, in nanoseconds.

use std::time::Duration;

/// The monotonic clock: the one that deadlines of [`crate::futex`] refer to. The same for all
/// processes of the host (of one time namespace).
#[inline]
#[must_use]
pub fn monotonic() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// Processor time that the calling thread has used.
#[must_use]
pub fn thread_time() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Processor time that this process has used.
#[must_use]
pub fn process_time() -> u64 {
    read(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// The moment `limit` from now, as a deadline; far in the future if it does not fit.
#[must_use]
pub fn deadline_after(limit: Duration) -> u64 {
    monotonic().saturating_add(u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX))
}

/// A deadline as the kernel takes it.
pub(crate) fn timespec(nanoseconds: u64) -> libc::timespec {
    const SECOND: u64 = 1_000_000_000;
    libc::timespec {
        // At most 18 446 744 073 seconds, which fits.
        tv_sec: libc::time_t::try_from(nanoseconds / SECOND).unwrap_or(libc::time_t::MAX),
        tv_nsec: (nanoseconds % SECOND) as libc::c_long,
    }
}

#[inline]
fn read(clock: libc::clockid_t) -> u64 {
    let mut now = timespec(0);
    // SAFETY: `now` is a timespec of ours. These clocks exist on every Linux, so the call succeeds.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_go_forward() {
        let first = monotonic();
        assert!(first > 0);
        assert!(monotonic() >= first);
        assert!(deadline_after(Duration::from_secs(1)) > first);
        assert_eq!(deadline_after(Duration::MAX), u64::MAX);
        assert!(process_time() > 0 && thread_time() > 0);
    }
}
