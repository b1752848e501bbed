//! LSF: the environment has the hosts of a job, each with its slots, or once for each slot.

use super::{Reason, SchedulerAllocation, SchedulerEnvironment, command_or_ssh, host};
use crate::mapping::HostSlots;

pub const WHO: &str = "LSF";

pub fn look(around: &dyn SchedulerEnvironment) -> Option<Result<SchedulerAllocation, Reason>> {
    around.variable("LSB_JOBID")?;
    let (source, hosts) = match around.variable("LSB_MCPU_HOSTS") {
        Some(list) => ("LSB_MCPU_HOSTS", pairs(&list)),
        // It is not set for jobs of very many slots.
        None => ("LSB_HOSTS", each(&around.variable("LSB_HOSTS")?)),
    };
    let command = command_or_ssh(around, &["blaunch"]);
    Some(hosts.and_then(|hosts| SchedulerAllocation::new(WHO, source, hosts, command, around)))
}

/// `a 4 b 2`.
fn pairs(list: &str) -> Result<Vec<HostSlots>, Reason> {
    let words: Vec<&str> = list.split_whitespace().collect();
    let pair = |pair: &[&str]| match *pair {
        [name, slots] => match slots.parse() {
            Ok(slots) if slots > 0 => host(name, Some(slots)),
            _ => Err(format!("'{}' is no number of slots", slots.escape_debug())),
        },
        _ => Err("the last host of LSB_MCPU_HOSTS has no number of slots".into()),
    };
    words.chunks(2).map(pair).collect()
}

/// `a a a a b b`.
fn each(list: &str) -> Result<Vec<HostSlots>, Reason> {
    let names = list.split_whitespace();
    names.map(|name| host(name, Some(1))).collect()
}
