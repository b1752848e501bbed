//! Ranks on other hosts, as reported by their agents: what the head watches for deadlocks. If another launcher has
//! started the job, ranks are its head and its agents.
//!
//! ```text
//!   agent: its ranks rest ──▶ RestTold ─┐
//!   agent: …                  ──────────┴▶ all rest ──▶ Inquire to all ──▶ Waits of each rank
//! ```

use std::collections::BTreeMap;

use crate::control::Notice;
use crate::hosts::agents::Agents;
use crate::hosts::message::ToAgent;
use crate::job::deadlock::WatchedRanks;
use crate::rank_processes::RunningRank;

/// What is known of the ranks of a job on several hosts.
#[derive(Debug, Default)]
pub struct RemoteRanks {
    /// Those that are to start, run, or will soon have ended; with their agents.
    running: BTreeMap<u32, (usize, RunningRank)>,
    /// By agent: what the memory of its host shows while all of its ranks sleep.
    rests: BTreeMap<usize, u64>,
    /// The last inquiry.
    inquiry: u32,
}

impl RemoteRanks {
    /// An agent has this rank, or is about to.
    pub fn assign(&mut self, agent: usize, rank: u32) {
        let known = RunningRank {
            rank,
            process: 0,
            is_initialised: false,
            is_finalised: false,
        };
        self.running.insert(rank, (agent, known));
    }

    /// A rank runs as this process of its host.
    pub fn start(&mut self, agent: usize, rank: u32, process: u32) {
        self.assign(agent, rank);
        if let Some((_, known)) = self.running.get_mut(&rank) {
            known.process = process;
        }
    }

    /// A rank has told this of itself.
    pub fn tell(&mut self, rank: u32, told: &Notice) {
        let Some((_, known)) = self.running.get_mut(&rank) else {
            return;
        };
        match told {
            Notice::Initialised => known.is_initialised = true,
            Notice::Finalised => known.is_finalised = true,
            _ => {}
        }
    }

    /// A rank has ended.
    pub fn end(&mut self, rank: u32) {
        self.running.remove(&rank);
    }

    /// An agent is lost with its ranks.
    pub fn lose(&mut self, agent: usize) {
        self.running.retain(|_, (of, _)| *of != agent);
        self.rests.remove(&agent);
    }

    /// All ranks of an agent sleep, with a number that changes when one of them is woken; or not all of them.
    pub fn rest(&mut self, agent: usize, shown: Option<u64>) {
        match shown {
            Some(shown) => _ = self.rests.insert(agent, shown),
            None => _ = self.rests.remove(&agent),
        }
    }

    /// Those that run, with their agents.
    pub fn running(&self) -> impl Iterator<Item = (usize, RunningRank)> {
        self.running.values().copied()
    }

    /// What each agent with a rank in MPI shows, if the ranks of all of them sleep.
    pub fn shown(&self) -> Option<Vec<u64>> {
        let judged = self.running().filter(|(_, rank)| !rank.is_finalised);
        let mut agents: Vec<usize> = judged.map(|(agent, _)| agent).collect();
        agents.sort_unstable();
        agents.dedup();
        let mut agents = agents.iter();
        agents.try_fold(Vec::new(), |mut shown, agent| {
            shown.push(*self.rests.get(agent)?);
            Some(shown)
        })
    }

    /// Asks all of them what they wait for; answers the number of this inquiry.
    pub fn inquire(&mut self, agents: &mut Agents, full: bool) -> u32 {
        self.inquiry = self.inquiry.wrapping_add(1).max(1);
        let number = self.inquiry;
        agents.say_to_all(&ToAgent::Inquire { number, full });
        number
    }
}

/// What several hosts show, as one number that changes when one of theirs does.
pub fn mixed(shown: &[u64]) -> u64 {
    let mix = |mixed: u64, one: &u64| mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ one;
    shown.iter().fold(0, mix)
}

/// The ranks, and who asks them.
pub struct Asked<'a> {
    pub ranks: &'a mut RemoteRanks,
    pub agents: &'a mut Agents,
}

impl WatchedRanks for Asked<'_> {
    fn running(&self) -> Vec<RunningRank> {
        self.ranks.running().map(|(_, rank)| rank).collect()
    }

    fn rest(&self) -> Option<u64> {
        let shown = self.ranks.shown().filter(|shown| !shown.is_empty())?;
        Some(mixed(&shown))
    }

    fn inquire(&mut self, full: bool) -> u32 {
        self.ranks.inquire(self.agents, full)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn all_rest_when_each_agent_with_a_rank_in_mpi_has_said_so() {
        let mut agents = Agents::none(Duration::from_secs(1)).expect("random bytes");
        let mut ranks = RemoteRanks::default();
        let mut rest = |ranks: &mut RemoteRanks| {
            let agents = &mut agents;
            Asked { ranks, agents }.rest()
        };
        assert_eq!(rest(&mut ranks), None, "there is none");
        ranks.assign(0, 0);
        ranks.assign(1, 1);
        ranks.rest(0, Some(7));
        assert_eq!(rest(&mut ranks), None, "one host has said nothing");
        ranks.rest(1, Some(3));
        let both = rest(&mut ranks).expect("both rest");
        ranks.rest(1, Some(4));
        assert_ne!(rest(&mut ranks), Some(both), "one was woken");
        ranks.rest(1, None);
        assert_eq!(rest(&mut ranks), None, "one is awake");
        ranks.tell(1, &Notice::Finalised);
        assert!(rest(&mut ranks).is_some(), "it can send nothing any more");
    }
}
