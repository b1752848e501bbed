//! Flux: an instance knows its resources, and its environment says how to ask it.
//!
//! The answer is a resource set (Flux RFC 20): ranks of brokers with their cores, and the names of their hosts in the
//! order of these ranks. `flux exec` names a host by the rank of its broker.

use serde::Deserialize;

use super::{Reason, SchedulerAllocation, SchedulerEnvironment, host, node_list};
use crate::mapping::{HostAddress, HostSlots};

pub const WHO: &str = "Flux";

const ASK: [&str; 4] = ["flux", "kvs", "get", "resource.R"];

/// The part of a resource set that counts here.
#[derive(Deserialize)]
struct ResourceSet {
    execution: Execution,
}

#[derive(Deserialize)]
struct Execution {
    #[serde(rename = "R_lite")]
    resources: Vec<Resources>,
    nodelist: Vec<String>,
}

/// What some brokers have alike.
#[derive(Deserialize)]
struct Resources {
    rank: String,
    children: Children,
}

#[derive(Deserialize)]
struct Children {
    core: String,
}

pub fn look(around: &dyn SchedulerEnvironment) -> Option<Result<SchedulerAllocation, Reason>> {
    around.variable("FLUX_URI")?;
    Some(found(around))
}

fn found(around: &dyn SchedulerEnvironment) -> Result<SchedulerAllocation, Reason> {
    if let Some(job) = around.variable("FLUX_JOB_ID") {
        return Err(format!(
            "this launcher is itself a task of job {job} (flux run), not the initial program of an instance; start it by \
             flux batch or flux alloc"
        ));
    }
    let asked = ASK.join(" ");
    let answer = around
        .output(&ASK)
        .map_err(|error| format!("{asked}: {error}"))?;
    let hosts = resources(&answer).map_err(|reason| format!("{asked}: {reason}"))?;
    let command = ["flux", "exec", "--rank"].map(Into::into).to_vec();
    SchedulerAllocation::new(WHO, format!("FLUX_URI, {asked}"), hosts, command, around)
}

/// The hosts of a resource set, each with a rank for each core.
fn resources(text: &str) -> Result<Vec<HostSlots>, Reason> {
    let set: ResourceSet = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let mut brokers = Vec::new();
    for resources in &set.execution.resources {
        let cores = node_list::numbers(&resources.children.core)?.len() as u32;
        for rank in node_list::numbers(&resources.rank)? {
            brokers.push((rank, cores));
        }
    }
    brokers.sort_unstable();
    let names = node_list::names(&set.execution.nodelist.join(","))?;
    if names.len() != brokers.len() {
        return Err(format!(
            "{} brokers on {} hosts; as many were expected",
            brokers.len(),
            names.len()
        ));
    }
    let all = names.iter().zip(brokers);
    all.map(|(name, (rank, cores))| {
        Ok(HostSlots {
            address: HostAddress::Other(rank.to_string()),
            ..host(name, Some(cores.max(1)))?
        })
    })
    .collect()
}
