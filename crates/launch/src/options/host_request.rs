//! Request for hosts: the options of the command line about the hosts of a job, and the hosts that follow from them and
//! from the allocation of a scheduler.

use std::ffi::OsString;
use std::path::PathBuf;

use super::{CommandLine, ProgramLine};
use crate::allocation::{Found, SchedulerAllocation};
use crate::mapping::{
    self, AgentCommand, Allocation, HostAddress, HostSlots, distribute, is_here, ssh,
};

/// Options of the command line about hosts.
#[derive(Default)]
pub struct HostRequest {
    /// The hosts that it names.
    pub hosts: Vec<HostSlots>,
    /// This many ranks on each host, overriding the numbers of single hosts.
    pub per_host: Option<u32>,
    /// The command that reaches a host.
    pub command: Option<Vec<OsString>>,
    /// The folder of Weft on other hosts, if it is not the same as here.
    pub prefix: Option<PathBuf>,
    /// Hosts are reached by `ssh`, also those of a scheduler.
    pub by_ssh: bool,
    /// Where to wait for hosts that join.
    pub listen: Option<String>,
    /// File with their token.
    pub token_file: Option<OsString>,
    /// Ranks are dealt to hosts one after the other.
    pub cyclic: bool,
    /// The allocation of a scheduler is ignored.
    pub no_allocation: bool,
}

impl HostRequest {
    /// Whether ranks are brought in by others.
    pub fn are_joined(&self) -> bool {
        self.listen.is_some()
    }

    /// Decides which hosts a job gets, and the number of ranks of a single program without a number.
    ///
    /// # Errors
    /// A sentence, if options contradict each other.
    pub fn settle(
        mut self,
        line: &mut CommandLine,
        find: &dyn Fn() -> Found,
    ) -> Result<(), String> {
        line.cyclic = self.cyclic;
        if self.command.is_none() && self.by_ssh {
            self.command = Some(ssh());
        }
        if let Some(listen) = self.listen.take() {
            return self.settle_joined(line, listen);
        }
        if self.token_file.is_some() {
            return Err("--token-file belongs to --listen ADDRESS:PORT, which is missing".into());
        }
        let found = match self.no_allocation {
            true => Found::Nothing,
            false => find(),
        };
        match found {
            Found::Nothing => self.settle_named(line),
            Found::Allocation(allocation) if self.hosts.is_empty() => {
                self.settle_allocated(line, allocation);
            }
            Found::Allocation(allocation) => self.settle_within(line, &allocation),
            Found::Unusable(reason) => {
                // Of no interest to who names the hosts.
                if self.hosts.is_empty() {
                    line.ignored.push(reason);
                }
                self.settle_named(line);
            }
        }
        Ok(())
    }

    fn settle_joined(self, line: &mut CommandLine, listen: String) -> Result<(), String> {
        if !self.hosts.iter().all(|host| is_here(&host.name)) {
            return Err(
                "ranks are either started on --hosts or brought in by weft join (--listen): leave one out"
                    .into(),
            );
        }
        // Hosts that join are not known here; those of this job have said how many ranks they take.
        set_ranks(
            line,
            mapping::slots(&self.hosts).filter(|_| !self.hosts.is_empty()),
        );
        line.allocation = Allocation::Joined {
            listen,
            token_file: self.token_file,
        };
        Ok(())
    }

    /// Hosts as the command line names them; this one if it names none.
    fn settle_named(mut self, line: &mut CommandLine) {
        self.spread();
        let elsewhere = !self.hosts.iter().all(HostSlots::is_here);
        // A command that was named is used, whatever the hosts are called.
        let started = elsewhere || (self.command.is_some() && !self.hosts.is_empty());
        set_ranks(
            line,
            match &self.hosts[..] {
                [] => self.per_host,
                [_] => mapping::slots(&self.hosts),
                hosts => one_if_silent(hosts, started),
            },
        );
        line.allocation = match started {
            true => Allocation::Started {
                hosts: self.hosts,
                way: AgentCommand {
                    command: self.command.unwrap_or_else(ssh),
                    prefix: self.prefix,
                },
            },
            false => Allocation::ThisHost,
        };
    }

    /// Hosts of a scheduler, of which the command line names none.
    fn settle_allocated(mut self, line: &mut CommandLine, allocation: SchedulerAllocation) {
        self.hosts.clone_from(&allocation.hosts);
        self.spread();
        set_ranks(line, mapping::slots(&self.hosts));
        let (ranks, slots) = (total(&line.programs), allocation.ranks());
        if ranks > slots {
            line.ignored.push(format!(
                "{ranks} ranks on the {slots} slots of the allocation of {}: cores are shared",
                allocation.scheduler
            ));
        }
        // Most of all in a job on one node: no agent, and no command.
        let here = match ranks <= weft_fabric_shm::MAX_RANKS {
            true => distribute(&self.hosts, ranks, self.cyclic)
                .iter()
                .all(|&host| self.hosts[host as usize].is_here()),
            false => false,
        };
        line.allocation = match here {
            true => Allocation::ThisHost,
            false => self.reached_as(&allocation),
        };
        line.origin = Some(allocation);
    }

    /// Hosts as the command line names them, where a scheduler has given some: if all are of those, by its means.
    fn settle_within(mut self, line: &mut CommandLine, allocation: &SchedulerAllocation) {
        let given = |host: &HostSlots| allocation.host(&host.name);
        match self
            .hosts
            .iter()
            .find(|host| given(host).is_none() && !host.is_here())
        {
            Some(stranger) => {
                line.ignored.push(format!(
                    "the allocation of {} is not used: {} is named, which is none of its hosts",
                    allocation.scheduler, stranger.name
                ));
                self.settle_named(line);
            }
            None => {
                for host in &mut self.hosts {
                    if let Some(given) = allocation.host(&host.name) {
                        host.address.clone_from(&given.address);
                        host.name.clone_from(&given.name);
                    }
                }
                // A command that was named is used, and knows hosts by their names.
                if self.command.is_some() {
                    self.forget_addresses();
                } else if !self.hosts.iter().all(HostSlots::is_here) {
                    self.command = Some(allocation.command.clone());
                }
                self.settle_named(line);
                line.origin = Some(allocation.clone());
            }
        }
    }

    /// These hosts, by the means of the scheduler unless the command line names others.
    fn reached_as(mut self, allocation: &SchedulerAllocation) -> Allocation {
        if self.command.is_some() {
            self.forget_addresses();
        }
        let command = self.command.unwrap_or_else(|| allocation.command.clone());
        Allocation::Started {
            hosts: self.hosts,
            way: AgentCommand {
                command,
                prefix: self.prefix,
            },
        }
    }

    /// Names hosts by their names to a command that knows no others.
    fn forget_addresses(&mut self) {
        for host in &mut self.hosts {
            if matches!(host.address, HostAddress::Other(_)) {
                host.address = HostAddress::Name;
            }
        }
    }

    /// So many on each.
    fn spread(&mut self) {
        if self.per_host.is_some() {
            for host in &mut self.hosts {
                host.slots = self.per_host;
            }
        }
    }
}

/// How many ranks several hosts take if one that does not say takes one; `None` if no host says, and each is `started`: how
/// many these get is not decided here.
fn one_if_silent(hosts: &[HostSlots], started: bool) -> Option<u32> {
    let silent = started && hosts.iter().all(|host| host.slots.is_none());
    let ranks = hosts.iter().map(|host| host.slots.unwrap_or(1));
    (!silent).then(|| ranks.fold(0, u32::saturating_add))
}

/// If the number of ranks of each host is given, `-n` is not needed.
fn set_ranks(line: &mut CommandLine, slots: Option<u32>) {
    if let [only] = &mut line.programs[..] {
        only.ranks = only.ranks.or(slots);
    }
}

/// How many ranks a command line has.
fn total(programs: &[ProgramLine]) -> u32 {
    let ranks = programs.iter().map(|program| program.ranks.unwrap_or(1));
    ranks.fold(0, u32::saturating_add)
}
