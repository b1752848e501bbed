//! Allocation of a scheduler: the hosts and ranks that it has given to the job in which `mpiexec` runs, and the command
//! by which they are reached.
//!
//! | scheduler | source | how its hosts are reached |
//! |---|---|---|
//! | [host files](host_file) of an operator | `OMPI_MCA_orte_default_hostfile`, `HYDRA_HOST_FILE`, … | `ssh`, with the options that it sets |
//! | [Flux](flux) | `FLUX_URI`, and what `flux kvs get resource.R` answers | `flux exec` |
//! | [Slurm](slurm) | `SLURM_JOB_NODELIST`, `SLURM_TASKS_PER_NODE` | `srun` |
//! | [LSF](lsf) | `LSB_MCPU_HOSTS`, `LSB_HOSTS` | `blaunch` |
//! | [PBS](pbs) | `PBS_NODEFILE` | `ssh`: its own commands carry no standard input |
//! | [Grid Engine](grid_engine) | `PE_HOSTFILE` | `qrsh -inherit` |
//!
//! They are searched in this order: variables that were set by hand come first, and a scheduler that runs within an
//! allocation of another one before that one. If the command of a scheduler is not installed (in a container, for
//! example), `ssh` is used.
//!
//! Each scheduler is one file, and its parsers are functions of texts. A process's view of its environment is a trait,
//! [`SchedulerEnvironment`], so that tests need no scheduler.

mod environment;
mod flux;
mod grid_engine;
mod host_file;
mod lsf;
mod node_list;
mod pbs;
mod slurm;
/// The text of the file that a variable names.
fn text_named(
    around: &dyn SchedulerEnvironment,
    variable: &str,
    path: &str,
) -> Result<String, Reason> {
    let text = around.file(path);
    text.map_err(|error| format!("{variable} names {path}, which cannot be read: {error}"))
}

#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::fmt::{self, Write as _};

use crate::mapping::{HostAddress, HostSlots};
pub use environment::{SchedulerEnvironment, ThisProcess};

/// Most hosts that an allocation may have: one for each rank, and some more.
const MOST_HOSTS: usize = 100_000;

/// The hosts that a scheduler has given to this job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SchedulerAllocation {
    /// The scheduler's name, as the user knows it: `Slurm`.
    pub scheduler: &'static str,
    /// The variables that were read.
    pub source: String,
    /// Its hosts, each once, with the number of ranks it takes.
    pub hosts: Vec<HostSlots>,
    /// The command that reaches one of them.
    pub command: Vec<OsString>,
}

/// Result of the search for an allocation.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Found {
    /// No scheduler has started this process.
    #[default]
    Nothing,
    /// This.
    Allocation(SchedulerAllocation),
    /// An allocation that cannot be used: a sentence for the user.
    Unusable(String),
}

/// Reason why an allocation cannot be used: completes "the allocation of Slurm is not used: …".
type Reason = String;

/// One scheduler: whether it has started this process, and with which hosts.
type Look = fn(&dyn SchedulerEnvironment) -> Option<Result<SchedulerAllocation, Reason>>;

const SCHEDULERS: [(&str, Look); 6] = [
    (host_file::WHO, host_file::look),
    (flux::WHO, flux::look),
    (slurm::WHO, slurm::look),
    (lsf::WHO, lsf::look),
    (pbs::WHO, pbs::look),
    (grid_engine::WHO, grid_engine::look),
];

/// Finds the allocation of this process, if it has one.
#[must_use]
pub fn find(around: &dyn SchedulerEnvironment) -> Found {
    let found = SCHEDULERS
        .iter()
        .find_map(|(who, look)| look(around).map(|found| (who, found)));
    match found {
        None => Found::Nothing,
        Some((_, Ok(allocation))) => Found::Allocation(allocation),
        Some((who, Err(reason))) => Found::Unusable(format!(
            "the allocation of {who} is not used: {reason} (--no-allocation: without this line)"
        )),
    }
}

impl SchedulerAllocation {
    /// One with these hosts: those of one name are one, and who is here needs no command.
    fn new(
        scheduler: &'static str,
        source: impl Into<String>,
        hosts: impl IntoIterator<Item = HostSlots>,
        command: Vec<OsString>,
        around: &dyn SchedulerEnvironment,
    ) -> Result<Self, Reason> {
        let source = source.into();
        let mut own: Vec<HostSlots> = Vec::new();
        let mut known = std::collections::HashMap::new();
        for mut host in hosts {
            if let Some(&index) = known.get(&host.name) {
                let before: &mut HostSlots = &mut own[index];
                before.slots = match (before.slots, host.slots) {
                    (Some(one), Some(other)) => Some(one.saturating_add(other)),
                    _ => None,
                };
                continue;
            }
            if own.len() == MOST_HOSTS {
                return Err(format!("{source} names more than {MOST_HOSTS} hosts"));
            }
            if around.is_here(&host.name) {
                host.address = HostAddress::Here;
            }
            known.insert(host.name.clone(), own.len());
            own.push(host);
        }
        if own.is_empty() {
            return Err(format!("{source} names no host"));
        }
        Ok(Self {
            scheduler,
            source,
            hosts: own,
            command,
        })
    }

    /// Number of ranks it takes; a host without a number takes one.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        let slots = self.hosts.iter().map(|host| host.slots.unwrap_or(1));
        slots.fold(0, u32::saturating_add)
    }

    /// Its host of this name; the first part of a name is enough, as schedulers and users write it differently.
    #[must_use]
    pub fn host(&self, name: &str) -> Option<&HostSlots> {
        let is = |host: &&HostSlots| same_host(&host.name, name);
        self.hosts.iter().find(is)
    }
}

impl fmt::Display for SchedulerAllocation {
    /// `Slurm's allocation: n1 (2 ranks), n2 (2 ranks); SLURM_JOB_NODELIST`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// A line that lists thousands is no use.
        const SHOWN: usize = 8;
        let mut text = String::new();
        for host in self.hosts.iter().take(SHOWN) {
            let comma = if text.is_empty() { "" } else { ", " };
            write!(text, "{comma}{}:{}", host.name, host.slots.unwrap_or(1))?;
        }
        if let Some(more @ 1..) = self.hosts.len().checked_sub(SHOWN) {
            write!(text, " and {more} more")?;
        }
        write!(out, "{}, {text} (from {})", self.scheduler, self.source)
    }
}

/// Whether two names mean one host: they are the same, or one is the other without its domain.
fn same_host(one: &str, other: &str) -> bool {
    let short = |name: &str| name.split('.').next().unwrap_or("").to_owned();
    let is_address = |name: &str| name.contains(':') || name.parse::<std::net::Ipv4Addr>().is_ok();
    one == other
        || (!is_address(one)
            && !is_address(other)
            && (!one.contains('.') || !other.contains('.'))
            && short(one) == short(other))
}

/// A host of this name with so many ranks.
///
/// # Errors
/// If that is no name of a host.
fn host(name: &str, slots: Option<u32>) -> Result<HostSlots, Reason> {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:".contains(&byte);
    if name.is_empty() || name.starts_with('-') || !name.bytes().all(known) {
        return Err(format!("'{}' is no name of a host", name.escape_debug()));
    }
    Ok(HostSlots {
        slots,
        ..HostSlots::named(name)
    })
}

/// The words of a command, if it is installed; else those of `ssh`.
fn command_or_ssh(around: &dyn SchedulerEnvironment, words: &[&str]) -> Vec<OsString> {
    match around.has_command(words[0]) {
        true => words.iter().map(OsString::from).collect(),
        false => crate::mapping::ssh(),
    }
}
