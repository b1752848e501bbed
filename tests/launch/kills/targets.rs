//! Targets of kills: the kinds of processes that a job has, and the host of each.

use std::fs;

use crate::harness::{Member, Running};
use crate::network::Network;

/// The purpose of a process of a job.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// The process that the user sees: our `mpiexec`, or that of MPICH.
    Frontend,
    /// The supervisor, as the head of agents.
    Head,
    /// The ssh that carries an agent, by its destination.
    Carrier,
    /// The process that the secure shell server has started for it.
    Session,
    /// The first of the two processes of `weft agent` or `weft join`.
    Guard,
    /// The second one, which starts the ranks.
    Agent,
    /// The proxy of Hydra.
    Proxy,
    /// A process that an agent or proxy has started.
    Rank,
    /// A process that a rank has started.
    Below,
    /// A process on its way to becoming one of the others.
    Other,
}

/// A process to kill.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Target {
    pub kind: Kind,
    pub host: usize,
}

/// A process of a job that exists.
#[derive(Clone, Debug)]
pub struct Found {
    pub kind: Kind,
    pub host: usize,
    pub member: Member,
}

/// These kinds on each host where they are: frontend and head on the first one only.
pub fn on_hosts(kinds: &[Kind], hosts: usize) -> Vec<Target> {
    let mut targets = Vec::new();
    for &kind in kinds {
        let on = match kind {
            Kind::Frontend | Kind::Head => 0..1,
            _ => 0..hosts,
        };
        targets.extend(on.map(|host| Target { kind, host }));
    }
    targets
}

impl Target {
    /// Its process, if it exists.
    pub fn find(&self, all: &[Found]) -> Option<u32> {
        let it = |found: &&Found| found.kind == self.kind && found.host == self.host;
        all.iter().find(it).map(|found| found.member.id)
    }
}

fn words(id: u32) -> Vec<String> {
    let line = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
    let words = line.split(|&byte| byte == 0);
    words
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect()
}

/// All processes of a job, and the sessions that carry its agents.
pub fn members(running: &Running, network: &Network) -> Vec<Found> {
    let members = running.members();
    let lines: Vec<_> = members.iter().map(|member| words(member.id)).collect();
    let above = |at: usize| {
        let parent = members[at].parent;
        members.iter().position(|member| member.id == parent)
    };
    let mut all: Vec<Found> = Vec::new();
    for (at, member) in members.iter().enumerate() {
        let words = &lines[at];
        let word = |number: usize| words.get(number).map_or("", String::as_str);
        let parent = above(at);
        // It still is the same program as its parent.
        let same = |at: usize| parent.is_some_and(|parent| lines[parent] == lines[at]);
        let launcher = |at: usize| {
            let line = &lines[at];
            line.first().is_some_and(|word| word.ends_with("/weft")) && line.len() > 1
        };
        let kind = if member.id == running.frontend() {
            Kind::Frontend
        } else if launcher(at) {
            let depth = if !same(at) {
                0
            } else {
                1 + usize::from(
                    parent
                        .and_then(above)
                        .is_some_and(|above| lines[above] == *words),
                )
            };
            match (word(1), depth) {
                ("run", 1) => Kind::Head,
                ("agent" | "join", 0) => Kind::Guard,
                ("agent" | "join", 1) => Kind::Agent,
                _ => Kind::Other,
            }
        } else if word(0).ends_with("hydra_pmi_proxy") && !same(at) {
            Kind::Proxy
        } else if words.iter().any(|word| word.contains("hydra_pmi_proxy")) {
            Kind::Other
        } else if word(0) == "ssh" {
            Kind::Carrier
        } else if word(0) == "ip" || word(0).is_empty() {
            Kind::Other
        } else {
            // Under Hydra, ranks are the programs that initialise MPI; with our launcher, the processes that
            // the agent knows.
            let proxy = |parent: usize| {
                let first = lines[parent].first();
                first.is_some_and(|word| word.ends_with("hydra_pmi_proxy"))
            };
            let hydra = lines.iter().any(|line| line[0].contains("hydra"));
            let started = parent.is_some_and(|parent| launcher(parent) || proxy(parent));
            match (hydra, &*member.name) {
                (true, "rank") => Kind::Rank,
                (false, _) if started => Kind::Rank,
                _ => Kind::Below,
            }
        };
        let to = (0..network.hosts.len())
            .find(|host| kind == Kind::Carrier && words.contains(&network.address(*host)));
        let Some(host) = to.or_else(|| network.host_of(member.id)) else {
            continue;
        };
        let member = member.clone();
        all.push(Found { kind, host, member });
    }
    // The mark passes through a secure shell, but its server does not have it.
    let guards = all.iter().filter(|found| found.kind == Kind::Guard);
    let sessions: Vec<Found> = guards
        .filter(|guard| {
            members
                .iter()
                .all(|member| member.id != guard.member.parent)
        })
        .filter_map(|guard| {
            let member = Member::read(guard.member.parent)?;
            let host = network.host_of(member.id)?;
            member.name.starts_with("sshd").then_some(Found {
                kind: Kind::Session,
                host,
                member,
            })
        })
        .collect();
    all.extend(sessions);
    all
}
