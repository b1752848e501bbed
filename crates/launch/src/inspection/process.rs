//! State of a process, by `/proc`: whether its threads run, sleep or are stopped, where in the kernel they sleep, how
//! much of a core they use, and their memory.

use std::fs;

use serde::{Deserialize, Serialize};

/// Most threads of a process that are looked at.
const MOST_THREADS: usize = 256;

/// A process as it is now.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessState {
    /// Its threads.
    pub threads: u32,
    /// Number of threads that run, are runnable, or wait for a disk.
    pub running: u32,
    /// It is stopped, by a signal or a debugger.
    pub stopped: bool,
    /// The kernel function in which its first thread sleeps, if it does and the kernel reveals it.
    pub sleeps_in: Option<String>,
    /// Nanoseconds of a core that all its threads have used so far.
    pub core_time: u64,
    /// Bytes of memory that it has.
    pub memory: u64,
}

impl ProcessState {
    /// Reads it; `None` if there is no such process, or `/proc` does not show it.
    #[must_use]
    pub fn look(process: u32) -> Option<Self> {
        let folder = format!("/proc/{process}");
        let first = Stat::parse(&fs::read_to_string(format!("{folder}/stat")).ok()?)?;
        let mut state = Self {
            stopped: first.is_stopped(),
            memory: first.pages * rustix::param::page_size() as u64,
            core_time: first.ticks * (1_000_000_000 / rustix::param::clock_ticks_per_second()),
            ..Self::default()
        };
        let threads = fs::read_dir(format!("{folder}/task")).ok()?;
        let mut exact = Some(0);
        for thread in threads.flatten().take(MOST_THREADS) {
            let file = |name: &str| fs::read_to_string(thread.path().join(name));
            let Some(stat) = file("stat").ok().and_then(|text| Stat::parse(&text)) else {
                continue;
            };
            state.threads += 1;
            state.running += u32::from(stat.is_running());
            // Nanoseconds, where the kernel counts them; those of threads that have ended are missing.
            let used = file("schedstat").ok();
            let used = used.and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
            exact = exact.zip(used).map(|(sum, used)| sum + used);
        }
        // The one is coarse, the other may leave out threads.
        state.core_time = state.core_time.max(exact.unwrap_or(0));
        if state.running == 0 && !state.stopped {
            let place = fs::read_to_string(format!("{folder}/wchan")).ok();
            state.sleeps_in = place.filter(|place| !place.is_empty() && place != "0");
        }
        Some(state)
    }
}

/// Whether a process is another one, or was started below it, as far as `/proc` shows it.
#[must_use]
pub fn descends(process: u32, ancestor: u32) -> bool {
    /// A tree of processes is not deeper, in earnest.
    const DEEPEST: usize = 64;
    let mut process = process;
    for _ in 0..DEEPEST {
        if process == ancestor {
            return true;
        }
        let stat = fs::read_to_string(format!("/proc/{process}/stat"));
        match stat.ok().and_then(|line| Stat::parse(&line)) {
            Some(stat) if stat.parent != 0 => process = stat.parent,
            _ => return false,
        }
    }
    false
}

/// What is used of a line of `/proc/PID/stat`.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    state: char,
    parent: u32,
    /// Processor time, in clock ticks.
    ticks: u64,
    /// Pages in memory.
    pages: u64,
}

impl Stat {
    fn parse(line: &str) -> Option<Self> {
        // The second field is a name in brackets that may hold anything; the third one comes first here.
        let fields: Vec<&str> = line[line.rfind(')')? + 1..]
            .split_ascii_whitespace()
            .collect();
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        Some(Self {
            state: fields.first()?.chars().next()?,
            parent: u32::try_from(number(4)?).ok()?,
            ticks: number(14)?.checked_add(number(15)?)?,
            pages: number(24)?,
        })
    }

    fn is_running(&self) -> bool {
        matches!(self.state, 'R' | 'D')
    }

    fn is_stopped(&self) -> bool {
        matches!(self.state, 'T' | 't')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_look_like_fields() {
        let line =
            "12 (a) R 9 9) S 1 12 12 0 -1 4194560 100 0 0 0 30 4 0 0 20 0 1 0 99 8192 25 1844";
        let expected = Stat {
            state: 'S',
            parent: 1,
            ticks: 34,
            pages: 25,
        };
        assert_eq!(Stat::parse(line), Some(expected));
        for line in ["", "12 (a", "12 (a)", "12 (a) R 1 2 3", "12 (a) "] {
            assert_eq!(Stat::parse(line), None, "{line}");
        }
    }

    #[test]
    fn this_process_runs() {
        let state = ProcessState::look(std::process::id()).expect("/proc shows us");
        assert!(state.running >= 1 && state.threads >= state.running && !state.stopped);
        assert!(state.memory > 0);
        assert_eq!(ProcessState::look(0), None);
        let us = std::process::id();
        let parent = std::os::unix::process::parent_id();
        assert!(descends(us, us) && descends(us, parent) && !descends(parent, us));
    }
}
