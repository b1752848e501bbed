//! Grid Engine: a file names the hosts of a parallel environment, a line for each queue.

use super::{Reason, SchedulerAllocation, SchedulerEnvironment, command_or_ssh, host, text_named};
use crate::mapping::HostSlots;

pub const WHO: &str = "Grid Engine";

const FILE: &str = "PE_HOSTFILE";

pub fn look(around: &dyn SchedulerEnvironment) -> Option<Result<SchedulerAllocation, Reason>> {
    around.variable("JOB_ID")?;
    let path = around.variable(FILE)?;
    Some(found(around, &path))
}

fn found(around: &dyn SchedulerEnvironment, path: &str) -> Result<SchedulerAllocation, Reason> {
    let text = text_named(around, FILE, path)?;
    let command = command_or_ssh(around, &["qrsh", "-inherit"]);
    SchedulerAllocation::new(WHO, FILE, queues(&text)?, command, around)
}

/// `host slots queue processors` in each line.
fn queues(text: &str) -> Result<Vec<HostSlots>, Reason> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let queue = |line: &str| {
        let mut words = line.split_whitespace();
        let name = words.next().unwrap_or_default();
        match words.next().and_then(|slots| slots.parse().ok()) {
            Some(slots) if slots > 0 => host(name, Some(slots)),
            _ => Err(format!(
                "a line of {FILE} has no number of slots: '{}'",
                line.escape_debug()
            )),
        }
    };
    lines.map(queue).collect()
}
