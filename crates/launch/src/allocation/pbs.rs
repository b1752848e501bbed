//! PBS and Torque: a file names the host of each rank.
//!
//! PBS's own commands (`pbsdsh`, `pbs_tmrsh`) start a process by the task manager, which gives it no standard input: an
//! agent could not receive messages from its launcher. So hosts are reached by `ssh`.

use super::{Reason, SchedulerAllocation, SchedulerEnvironment, host, text_named};
use crate::mapping::ssh;

pub const WHO: &str = "PBS";

const FILE: &str = "PBS_NODEFILE";

pub fn look(around: &dyn SchedulerEnvironment) -> Option<Result<SchedulerAllocation, Reason>> {
    around.variable("PBS_JOBID")?;
    let path = around.variable(FILE)?;
    Some(found(around, &path))
}

fn found(around: &dyn SchedulerEnvironment, path: &str) -> Result<SchedulerAllocation, Reason> {
    let text = text_named(around, FILE, path)?;
    SchedulerAllocation::new(WHO, FILE, ranks(&text)?, ssh(), around)
}

/// A line for each rank: the name of its host.
fn ranks(text: &str) -> Result<Vec<crate::mapping::HostSlots>, Reason> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.map(|line| host(line, Some(1))).collect()
}
