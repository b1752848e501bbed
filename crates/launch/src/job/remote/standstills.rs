//! Standstills of a job on several hosts: found by a [watch](DeadlockWatch), told once all ranks are [stopped](Stopping).
//!
//! *Invariant:* a standstill is told once, after all agents were asked to stop their ranks.

use std::time::Instant;

use weft_mpi::waits::RankWaits;
use weft_sys::clock::monotonic;
use weft_sys::process::SIGSTOP;

use super::ranks::{Asked, RemoteRanks};
use super::stopping::Stopping;
use crate::hosts::agents::Agents;
use crate::hosts::message::ToAgent;
use crate::job::deadlock::{self, DeadlockWatch, Standstill};
use crate::job::rank_hosts::Event;
use crate::options::OnDeadlock;

/// Whether the ranks of a job can go on.
pub struct Standstills {
    reaction: OnDeadlock,
    /// `None` if nobody is to find out.
    watch: Option<DeadlockWatch>,
    /// A standstill that is told next.
    stopping: Option<Stopping>,
}

impl Standstills {
    /// Watches from now on, unless standstills are to be ignored.
    pub fn new(reaction: OnDeadlock, now: Instant) -> Self {
        let watched = reaction != OnDeadlock::Ignore;
        Self {
            reaction,
            watch: watched.then(|| DeadlockWatch::new(now)),
            stopping: None,
        }
    }

    /// Whether anybody is to find out.
    pub fn are_watched(&self) -> bool {
        self.watch.is_some()
    }

    /// A rank has said what it waits for.
    pub fn hear(&mut self, rank: u32, waits: &RankWaits, now: Instant) {
        // Also for who looks at the job, and may have asked just before.
        let watch = self.watch.as_mut();
        if let Some(watch) = watch.filter(|watch| watch.has_asked(waits.inquiry)) {
            watch.hear(rank, waits.clone(), now);
        }
    }

    /// An agent has said what its clock says when it was asked then. Whether that says that its ranks are stopped.
    pub fn hear_clock(&mut self, agent: usize, asked: u64) -> bool {
        let stopping = self.stopping.as_mut();
        stopping.is_some_and(|stopping| stopping.hear(agent, asked))
    }

    /// An agent is lost.
    pub fn lose(&mut self, agent: usize) {
        if let Some(stopping) = &mut self.stopping {
            stopping.lose(agent);
        }
    }

    /// When to [look](Self::look) next.
    pub fn next_look(&self) -> Option<Instant> {
        let watch = self.watch.as_ref().and_then(DeadlockWatch::next_look);
        let stopping = self.stopping.as_ref().map(Stopping::next_look);
        watch.into_iter().chain(stopping).min()
    }

    /// Looks whether the ranks, which are of these agents, can go on; tells that they cannot once all are stopped.
    pub fn look(
        &mut self,
        ranks: &mut RemoteRanks,
        agents: &mut Agents,
        with_ranks: impl Iterator<Item = usize>,
    ) -> Vec<Event> {
        let asked = &mut Asked { ranks, agents };
        let watch = self.watch.as_mut();
        if let Some(found) = watch.and_then(|watch| watch.look(Instant::now(), asked)) {
            self.stop(found, agents, with_ranks);
        }
        let stopping = self.stopping.as_ref();
        let Some(found) = stopping.and_then(|stopping| stopping.stopped(Instant::now())) else {
            return Vec::new();
        };
        let events = self.tell(found, ranks, agents);
        self.stopping = None;
        events
    }

    /// No rank can ever go on: all are stopped before that is told.
    fn stop(
        &mut self,
        found: Standstill,
        agents: &mut Agents,
        with_ranks: impl Iterator<Item = usize>,
    ) {
        agents.say_to_all(&ToAgent::Signal { number: SIGSTOP });
        let asked = monotonic();
        let with_ranks: Vec<usize> = with_ranks.collect();
        for agent in &with_ranks {
            agents.say(*agent, &ToAgent::AskClock { asked });
        }
        let with_ranks = with_ranks.into_iter();
        self.stopping = Some(Stopping::new(found, asked, with_ranks, Instant::now()));
    }

    /// No rank can ever go on, and all are stopped.
    fn tell(&self, found: &Standstill, ranks: &RemoteRanks, agents: &Agents) -> Vec<Event> {
        if self.reaction != OnDeadlock::Stop {
            return deadlock::report(found, None);
        }
        let running = ranks.running().map(|(agent, one)| {
            let host = agents.agent(agent).name();
            format!("{} on {host} (rank {})", one.process, one.rank)
        });
        let processes: Vec<String> = running.collect();
        deadlock::report(found, Some(&processes))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_standstill_is_told_once_when_the_ranks_are_stopped() {
        let mut ranks = RemoteRanks::default();
        let mut agents = Agents::none(Duration::from_secs(10)).expect("descriptors are left");
        let mut standstills = Standstills::new(OnDeadlock::End, Instant::now());
        let now = Instant::now();
        let found = Standstill::new(BTreeMap::new());
        standstills.stopping = Some(Stopping::new(found, 7, [0].into_iter(), now));
        assert!(!standstills.hear_clock(0, 6), "that was for a profile");
        assert!(standstills.hear_clock(0, 7));
        let mut look = || standstills.look(&mut ranks, &mut agents, std::iter::empty());
        assert!(!look().is_empty());
        assert!(look().is_empty());
    }

    #[test]
    fn nobody_looks_if_standstills_are_ignored() {
        let standstills = Standstills::new(OnDeadlock::Ignore, Instant::now());
        assert!(!standstills.are_watched());
        assert_eq!(standstills.next_look(), None);
    }
}
