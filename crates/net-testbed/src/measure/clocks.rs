//! Processor time of a measurement: whose time is counted, and how.
//!
//! Times of tasks are those of the scheduler, exact to the microsecond; other programs are not included. The
//! time that a core was busy with anything follows from the kernel's count of its idle time (`cpuidle`, in
//! microseconds); on a machine without that count, from the ticks of `/proc/stat`.

use std::fs;

use weft_sys::{clock, usage};

/// Counts at one moment.
pub(super) struct Clocks {
    /// By client: frames delivered to it.
    pub handled: Vec<u64>,
    /// Nanoseconds of each component.
    pub components: Vec<u64>,
    /// Nanoseconds of all participants.
    pub all: u64,
    idle: IdleTimes,
}

/// How long each core has been idle, at one moment.
pub struct IdleTimes {
    /// Nanoseconds.
    idle: Vec<u64>,
    at: u64,
}

impl IdleTimes {
    /// The idle times now.
    #[must_use]
    pub fn read() -> Self {
        Self {
            idle: idle_times(),
            at: clock::monotonic(),
        }
    }

    /// Busy fraction of each core since an earlier moment, 0 to 1, with any work.
    #[must_use]
    pub fn busy_since(&self, before: &Self) -> Vec<f64> {
        let passed = self.at.saturating_sub(before.at).max(1) as f64;
        let idle = self.idle.iter().zip(&before.idle);
        idle.map(|(now, then)| (1.0 - now.saturating_sub(*then) as f64 / passed).clamp(0.0, 1.0))
            .collect()
    }
}

impl Clocks {
    /// The counts now. `others`: participating processes besides this one.
    pub fn read(handled: Vec<u64>, components: Vec<u64>, others: &[u32]) -> Self {
        let own = usage::of_process();
        let own = (own.user + own.system).as_nanos() as u64;
        let of_others: u64 = others.iter().chain(&packet_threads()).map(on_core).sum();
        Self {
            handled,
            components,
            all: own + of_others,
            idle: IdleTimes::read(),
        }
    }

    /// Busy fraction of each core since an earlier moment.
    pub fn busy_since(&self, before: &Self) -> Vec<f64> {
        self.idle.busy_since(&before.idle)
    }
}

/// Nanoseconds that the first thread of a process has run. Components have no other.
fn on_core(process: &u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{process}/schedstat")).unwrap_or_default();
    let first = text.split_whitespace().next();
    first.and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// The kernel's threads that take over when packets arrive faster than interrupts can handle them.
fn packet_threads() -> Vec<u32> {
    let Ok(folder) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let of_name = |entry: fs::DirEntry| {
        let process: u32 = entry.file_name().to_str()?.parse().ok()?;
        let name = fs::read_to_string(entry.path().join("comm")).ok()?;
        name.starts_with("ksoftirqd/").then_some(process)
    };
    folder.flatten().filter_map(of_name).collect()
}

/// Nanoseconds that each core has been idle.
fn idle_times() -> Vec<u64> {
    let of_core = |core: usize| -> Option<u64> {
        let folder = format!("/sys/devices/system/cpu/cpu{core}/cpuidle");
        let mut sum = None;
        for state in fs::read_dir(folder).ok()?.flatten() {
            let text = fs::read_to_string(state.path().join("time")).ok()?;
            *sum.get_or_insert(0) += text.trim().parse::<u64>().ok()? * 1_000;
        }
        sum
    };
    let exact: Vec<u64> = (0..).map_while(of_core).collect();
    if exact.is_empty() {
        return idle_ticks();
    }
    exact
}

/// The same from `/proc/stat`, in steps of 10 ms.
fn idle_ticks() -> Vec<u64> {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let of_core = |line: &str| {
        let (name, rest) = line.split_once(' ')?;
        name.strip_prefix("cpu")?.parse::<u32>().ok()?;
        let ticks: Vec<u64> = rest
            .split_whitespace()
            .filter_map(|word| word.parse().ok())
            .collect();
        Some((ticks.get(3)? + ticks.get(4)?) * 10_000_000)
    };
    text.lines().filter_map(of_core).collect()
}
