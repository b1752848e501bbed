//! Assignments: what each agent is told to start, once it is known which ranks it has.
//!
//! *Invariant:* hosts are numbered by their lowest rank, in whatever order their agents have come; the numbers of later processes of a
//! host follow those of the host before it.

use super::distribution::Distribution;
use super::spawning::Host;
use crate::bootstrap::HostMap;
use crate::hosts::message::{Assignment, ProgramText};
use crate::plan::{Plan, Program};
use weft_secure::Key;

/// An agent that has ranks.
#[derive(Clone, Debug)]
pub struct Assignee {
    pub agent: usize,
    /// As the user calls it, and as it calls itself.
    pub names: [String; 2],
    /// It has the programs, and needs none from us.
    pub has_programs: bool,
}

/// What all agents are told alike.
pub struct Common<'a> {
    /// The key of the fabric.
    pub key: &'a Key,
    /// How many processes more each host may have, and how many processes the job may.
    pub room: u32,
    pub capacity: u32,
    /// Agents say when all of their ranks sleep.
    pub watched: bool,
    /// Rank 0 reads what we send.
    pub input: bool,
}

/// The assignments of a job whose ranks are distributed.
pub struct Assignments<'a> {
    plan: &'a Plan,
    distribution: &'a Distribution,
    /// In the order of their hosts.
    assignees: Vec<Assignee>,
    /// The host of each rank.
    map: String,
}

impl<'a> Assignments<'a> {
    /// For agents that have all ranks of the plan, each of which is `described`.
    pub fn new(
        plan: &'a Plan,
        distribution: &'a Distribution,
        described: impl Fn(usize) -> Assignee,
    ) -> Self {
        let mut assignees: Vec<_> = distribution.agents().map(described).collect();
        assignees.sort_by_key(|one| distribution.ranks(one.agent).first().copied());
        let host = |rank| {
            let agent = distribution.agent(rank).unwrap_or(0);
            let name = assignees.iter().find(|one| one.agent == agent);
            (
                agent,
                name.map_or_else(String::new, |one| one.names[0].clone()),
            )
        };
        let map = HostMap::group((0..plan.ranks()).map(host)).encode();
        Self {
            plan,
            distribution,
            assignees,
            map,
        }
    }

    /// The hosts, by number.
    pub fn hosts(&self) -> Vec<Host> {
        let host = |one: &Assignee| Host {
            agent: one.agent,
            names: one.names.clone(),
            first: self.distribution.ranks(one.agent).len() as u32,
        };
        self.assignees.iter().map(host).collect()
    }

    /// The assignment of each agent.
    pub fn all(&self, common: &Common) -> Vec<(usize, Assignment)> {
        let (plan, size, appnums) = (self.plan, self.plan.ranks(), self.plan.appnums());
        let texts = self.program_texts();
        let profile = plan.profile.variable();
        let profile = profile.and_then(|(_, value)| value.into_string().ok());
        let assignment = |(host, one): (u32, &Assignee)| {
            let ranks = self.distribution.ranks(one.agent);
            let with_program = |&rank: &u32| (rank, appnums[rank as usize]);
            let assignment = Assignment {
                key: *common.key.as_bytes(),
                hosts: self.map.clone(),
                size,
                ranks: ranks.iter().map(with_program).collect(),
                programs: match one.has_programs {
                    true => Vec::new(),
                    false => texts.clone(),
                },
                silence: plan.silence.as_millis() as u64,
                input: common.input && ranks.contains(&0),
                room: common.room,
                first_later: size + host * common.room,
                capacity: common.capacity,
                watched: common.watched,
                binding: plan.binding.clone(),
                profile: profile.clone(),
            };
            (one.agent, assignment)
        };
        (0..).zip(&self.assignees).map(assignment).collect()
    }

    /// The programs. They run there as here: in the folder where we are, unless another was named.
    fn program_texts(&self) -> Vec<ProgramText> {
        let here = std::env::current_dir().unwrap_or_default();
        let there = |program: &Program| {
            let folder = program.folder.as_ref();
            let folder = folder.map_or_else(|| here.clone(), |folder| here.join(folder));
            ProgramText::from(&Program {
                folder: Some(folder),
                ..program.clone()
            })
        };
        self.plan.programs.iter().map(there).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{CommandLine, ProgramLine};
    use crate::plan;

    #[test]
    fn hosts_are_numbered_by_their_lowest_rank() {
        let program = ProgramLine {
            words: vec!["sh".into()],
            ranks: Some(4),
            ..ProgramLine::default()
        };
        let line = CommandLine {
            programs: vec![program],
            ..CommandLine::default()
        };
        let plan = plan::make(line).expect("a plan");
        let mut distribution = Distribution::default();
        distribution.give_these(0, vec![1, 3]);
        distribution.give_these(2, vec![0, 2]);
        let described = |agent| Assignee {
            agent,
            names: [format!("host{agent}"), format!("node{agent}")],
            has_programs: agent == 0,
        };
        let assignments = Assignments::new(&plan, &distribution, described);
        let hosts = assignments.hosts();
        let numbered: Vec<_> = hosts.iter().map(|host| (host.agent, host.first)).collect();
        assert_eq!(numbered, [(2, 2), (0, 2)]);
        let common = Common {
            key: &Key::random().expect("random bytes"),
            room: 5,
            capacity: 14,
            watched: true,
            input: true,
        };
        let all = assignments.all(&common);
        let agents: Vec<_> = all.iter().map(|(agent, _)| *agent).collect();
        assert_eq!(agents, [2, 0]);
        let (first, second) = (&all[0].1, &all[1].1);
        assert_eq!(first.ranks, [(0, 0), (2, 0)]);
        assert_eq!(second.ranks, [(1, 0), (3, 0)]);
        assert_eq!((first.first_later, second.first_later), (4, 9));
        assert!(first.input && !second.input, "rank 0 reads it");
        assert!(!first.programs.is_empty() && second.programs.is_empty());
        assert_eq!(first.hosts, second.hosts);
    }
}
