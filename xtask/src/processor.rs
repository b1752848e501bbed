//! Processor time: how much steps use, and how much of the cores was idle.

use std::fs;
use std::process::Child;
use std::thread::available_parallelism;

use anyhow::{Context, Result};
use rustix::param::clock_ticks_per_second;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

/// Waits until a child has ended, and returns the seconds of processor time that the child and all children that it waited for
/// have used. The child can still be waited for.
pub fn taken(child: &Child) -> Result<f64> {
    let pid = Pid::from_child(child);
    waitid(
        WaitId::Pid(pid),
        WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
    )?;
    let file = format!("/proc/{}/stat", child.id());
    let text = fs::read_to_string(&file).with_context(|| format!("cannot read {file}"))?;
    let ticks = ticks(&text).with_context(|| format!("{file} is not as expected: {text}"))?;
    Ok(seconds(ticks))
}

/// Ticks of a process and of the children that it has waited for, in user and in kernel mode. The name before them is in
/// parentheses, and may contain any characters.
fn ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let times = fields.split_whitespace().skip(11).take(4);
    times.map(|field| field.parse::<u64>().ok()).sum()
}

fn seconds(ticks: u64) -> f64 {
    ticks as f64 / clock_ticks_per_second() as f64
}

/// How busy all cores together were since the system started, in seconds.
#[derive(Clone, Copy)]
pub struct Cores {
    idle: f64,
    number: f64,
}

impl Cores {
    /// The state at this moment.
    pub fn now() -> Result<Self> {
        let text = fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
        let idle = idle_ticks(&text).context("/proc/stat is not as expected")?;
        Ok(Self {
            idle: seconds(idle),
            number: available_parallelism().map_or(1.0, |number| number.get() as f64),
        })
    }

    /// The share of the time of the cores, between 0 and 1, in which they had nothing to do, in the `seconds`
    /// since `then`.
    pub fn idle_since(&self, then: &Self, seconds: f64) -> f64 {
        ((self.idle - then.idle) / (self.number * seconds)).clamp(0.0, 1.0)
    }
}

/// Ticks in which the cores were idle, or idle while some process waited for a disk.
fn idle_ticks(stat: &str) -> Option<u64> {
    let all = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let times = all.split_whitespace().skip(3).take(2);
    times.map(|field| field.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn times_are_found_behind_any_name() {
        let stat = "7 (a) b 9) S 1 7 7 0 -1 4194560 1 2 3 4 100 20 3000 400 20 0 1 0 5 6 7";
        assert_eq!(ticks(stat), Some(3520));
        assert_eq!(ticks("7 (a) S 1"), Some(0));
        assert_eq!(
            idle_ticks("cpu  1 2 3 40 5 6\ncpu0 1 2 3 4 5 6\n"),
            Some(45)
        );
        assert_eq!(idle_ticks("cpu0 1 2 3 4 5 6\n"), None);
    }

    #[test]
    fn a_process_that_has_ended_is_asked_and_can_be_waited_for() {
        let mut command = Command::new("sh");
        // It computes in a child process.
        command.args([
            "-c",
            "sh -c 'i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done'; exit 3",
        ]);
        let mut child = command.spawn().expect("sh");
        assert!(taken(&child).expect("it has ended") > 0.0);
        assert_eq!(child.wait().expect("ours").code(), Some(3));
    }
}
