//! Resource usage of a thread, or of the process, so far.

use std::time::Duration;

/// Resources used since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Processor time in the program.
    pub user: Duration,
    /// Processor time in the kernel on its behalf.
    pub system: Duration,
    /// How often it gave up its core by waiting.
    pub voluntary_switches: u64,
    /// How often its core was taken away.
    pub involuntary_switches: u64,
    /// Page faults that needed no disk.
    pub minor_faults: u64,
    /// Page faults that needed the disk.
    pub major_faults: u64,
    /// Most memory the process has had resident, in KiB.
    pub most_resident: u64,
}

/// Usage of the calling thread.
#[must_use]
pub fn of_thread() -> Usage {
    read(libc::RUSAGE_THREAD)
}

/// Usage of all threads of this process.
#[must_use]
pub fn of_process() -> Usage {
    read(libc::RUSAGE_SELF)
}

/// Usage of all children that have ended and were waited for.
#[must_use]
pub fn of_children() -> Usage {
    read(libc::RUSAGE_CHILDREN)
}

fn read(who: libc::c_int) -> Usage {
    // SAFETY: an rusage of zeros is valid.
    let mut found: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes into `found`. Only a wrong `who` is an error; then it stays zero.
    unsafe { libc::getrusage(who, &raw mut found) };
    let time = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec.unsigned_abs())
            + Duration::from_micros(time.tv_usec.unsigned_abs())
    };
    Usage {
        user: time(found.ru_utime),
        system: time(found.ru_stime),
        voluntary_switches: found.ru_nvcsw.unsigned_abs(),
        involuntary_switches: found.ru_nivcsw.unsigned_abs(),
        minor_faults: found.ru_minflt.unsigned_abs(),
        major_faults: found.ru_majflt.unsigned_abs(),
        most_resident: found.ru_maxrss.unsigned_abs(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_is_a_voluntary_switch() {
        let before = of_thread();
        std::thread::sleep(Duration::from_millis(1));
        let after = of_thread();
        assert!(after.voluntary_switches > before.voluntary_switches);
        assert!(of_process().most_resident > 0);
    }
}
