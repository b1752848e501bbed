//! Clocks, in nanoseconds.

use std::time::Duration;

/// The monotonic clock: the one that deadlines of [`crate::futex`] refer to. The same for all
/// processes of the host (of one time namespace).
#[inline]
#[must_use]
pub fn monotonic() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// Nanoseconds since the beginning of 1970: the time on which hosts with synchronised clocks agree.
#[must_use]
pub fn time_of_day() -> u64 {
    read(libc::CLOCK_REALTIME)
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

/// The time of day in UTC, as people read it: `2026-11-22T22:55:04.123Z`.
#[must_use]
pub fn utc_text() -> String {
    utc_text_of(time_of_day() / 1_000_000)
}

/// … `milliseconds` after the beginning of 1970.
fn utc_text_of(milliseconds: u64) -> String {
    let (days, rest) = (milliseconds / 86_400_000, milliseconds % 86_400_000);
    // Years that begin in March, so that the day of a leap year is the last of its year; eras of 400 of them.
    let day = days + 719_468;
    let (era, day) = (day / 146_097, day % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (year, month) = match month {
        0..10 => (era * 400 + year, month + 3),
        _ => (era * 400 + year + 1, month - 9),
    };
    let (hour, minute) = (rest / 3_600_000, rest / 60_000 % 60);
    let (second, thousandth) = (rest / 1000 % 60, rest % 1000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{thousandth:03}Z")
}

/// Measures spans of time within one process by the processor's counter if that runs evenly on all cores,
/// which costs a third of a clock call; by the monotonic clock otherwise.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    counter: bool,
    /// Readings of both when it was made: the ratio since then turns ticks into nanoseconds.
    ticks: u64,
    nanoseconds: u64,
}

impl Default for Stopwatch {
    fn default() -> Self {
        Self::new()
    }
}

impl Stopwatch {
    /// Finds out which one to use.
    #[must_use]
    pub fn new() -> Self {
        let counter = has_even_counter();
        let mut made = Self {
            counter,
            ticks: 0,
            nanoseconds: monotonic(),
        };
        made.ticks = made.read();
        made
    }

    /// Ticks since some fixed moment.
    #[inline]
    #[must_use]
    pub fn read(&self) -> u64 {
        if self.counter { count() } else { monotonic() }
    }

    /// The length of `ticks` ticks. The older the stopwatch, the more exact.
    #[must_use]
    pub fn nanoseconds(&self, ticks: u64) -> u64 {
        if !self.counter {
            return ticks;
        }
        let passed = self.read().saturating_sub(self.ticks).max(1);
        let time = monotonic().saturating_sub(self.nanoseconds);
        let scaled = u128::from(ticks) * u128::from(time) / u128::from(passed);
        u64::try_from(scaled).unwrap_or(u64::MAX)
    }
}

/// Whether the processor reports that its counter runs evenly, whatever the core does.
#[cfg(target_arch = "x86_64")]
fn has_even_counter() -> bool {
    const POWER: u32 = 0x8000_0007;
    const EVEN: u32 = 1 << 8;
    use std::arch::x86_64::__cpuid;
    __cpuid(0x8000_0000).eax >= POWER && __cpuid(POWER).edx & EVEN != 0
}

#[cfg(not(target_arch = "x86_64"))]
fn has_even_counter() -> bool {
    false
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn count() -> u64 {
    // SAFETY: every x86-64 has the instruction, and Linux lets programs use it unless they ask for the
    // contrary by prctl.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn count() -> u64 {
    monotonic()
}

/// Nanoseconds as the kernel takes them, for calls by rustix.
pub(crate) fn kernel_time(nanoseconds: u64) -> rustix::time::Timespec {
    const SECOND: u64 = 1_000_000_000;
    rustix::time::Timespec {
        // At most 18 446 744 073 seconds, which fits.
        tv_sec: (nanoseconds / SECOND) as i64,
        tv_nsec: (nanoseconds % SECOND) as _,
    }
}

/// Nanoseconds as the kernel takes them, for calls by libc.
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
    fn days_are_those_of_the_calendar() {
        for (milliseconds, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_735_689_599_999, "2024-12-31T23:59:59.999Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(utc_text_of(milliseconds), text);
        }
        assert_eq!(utc_text().len(), 24);
    }

    #[test]
    fn a_stopwatch_tells_what_the_clock_tells() {
        let stopwatch = Stopwatch::new();
        let (first, since) = (stopwatch.read(), monotonic());
        std::thread::sleep(Duration::from_millis(20));
        let (ticks, time) = (stopwatch.read() - first, monotonic() - since);
        let told = stopwatch.nanoseconds(ticks);
        // Both were read one after the other, and we may be interrupted in between.
        assert!(told >= 19_000_000, "{told} ns of {time}");
        assert!(
            told <= monotonic() - since + 20_000_000,
            "{told} ns of {time}"
        );
        assert_eq!(stopwatch.nanoseconds(0), 0);
    }

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
