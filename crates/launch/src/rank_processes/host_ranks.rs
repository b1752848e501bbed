//! Ranks of a host, by their local rank.
//!
//! *Invariant:* a rank stands at the position of its local rank. One that takes the place of another takes its position: others
//! never move.

use std::ops::{Index, IndexMut};

use weft_sys::process::ProcessHandle;

use super::pmi;
use super::rank::{Rank, RunningRank};
use super::share::HostShare;
use crate::adoption::AdoptedProcess;
use crate::control::Answer;

/// The ranks of a host that were started so far, or were there before.
#[derive(Default)]
pub struct HostRanks(Vec<Rank>);

impl HostRanks {
    /// The ranks of a share that another launcher has started, none of which has come to us.
    pub fn of_other_launcher(share: &HostShare) -> Self {
        let all = 0..share.ranks.len();
        Self(
            all.map(|local| Rank::of_other_launcher(share.numbers(local)))
                .collect(),
        )
    }

    /// How many there are, or were.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether none was started.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them, by their local rank.
    pub fn iter(&self) -> impl Iterator<Item = &Rank> {
        self.0.iter()
    }

    /// One of them.
    pub fn get(&self, local: usize) -> Option<&Rank> {
        self.0.get(local)
    }

    /// One of them.
    pub fn get_mut(&mut self, local: usize) -> Option<&mut Rank> {
        self.0.get_mut(local)
    }

    /// Adds a rank in the place of one that has ended, or as the next.
    pub fn put(&mut self, local: usize, rank: Rank) {
        match self.0.get_mut(local) {
            Some(before) => *before = rank,
            None => self.0.push(rank),
        }
    }

    /// The local rank of the rank with this number.
    pub fn local(&self, number: u32) -> Option<usize> {
        self.0.iter().position(|rank| rank.number() == number)
    }

    /// The local rank of the rank that this process runs.
    pub fn run_by(&self, process: u32) -> Option<usize> {
        let runs = |rank: &Rank| rank.process() == process && rank.is_running();
        self.0.iter().position(runs)
    }

    /// Those that were started and have not ended.
    pub fn running(&self) -> impl Iterator<Item = RunningRank> {
        self.0.iter().filter_map(Rank::running)
    }

    /// Whether any of them has not ended.
    pub fn is_any_running(&self) -> bool {
        self.0.iter().any(Rank::is_running)
    }

    /// The processes of those that run among these numbers.
    pub fn processes_of(&self, numbers: &[u32]) -> Vec<u32> {
        let running = self.0.iter().filter(|rank| rank.is_running());
        let chosen = running.filter(|rank| numbers.contains(&rank.number()));
        chosen.map(Rank::process).collect()
    }

    /// The processes of those that have not ended and are children of ours; the lifeline of another ends it.
    pub fn children(&self) -> Vec<u32> {
        self.0.iter().filter_map(Rank::child).collect()
    }

    /// The processes that were there before and run, by their local ranks.
    pub fn adopted(&self) -> impl Iterator<Item = (usize, &ProcessHandle)> {
        let all = self.0.iter().enumerate();
        all.filter_map(|(local, rank)| Some((local, rank.adopted()?)))
    }

    /// Takes in a rank of another launcher, once.
    pub fn adopt(&mut self, process: AdoptedProcess) {
        let mut ranks = self.0.iter_mut();
        let rank = ranks.find(|rank| rank.number() == process.rank);
        if let Some(rank) = rank.filter(|rank| rank.is_unadopted()) {
            // One whose socket the kernel refuses is as if it had not come.
            let _ = rank.adopt(process);
        }
    }

    /// Answers those at the fence, which has opened.
    pub fn let_through(&mut self) {
        for rank in &mut self.0 {
            let by_pmi = rank.pmi_mut().is_some_and(pmi::Connection::leave_barrier);
            if !by_pmi {
                rank.answer(&Answer::Taken);
            }
        }
    }

    /// The local ranks of those that run and have not come to us.
    pub fn unadopted(&self) -> impl Iterator<Item = usize> {
        let all = self.0.iter().enumerate();
        let unadopted = all.filter(|(_, rank)| rank.is_running() && rank.is_unadopted());
        unadopted.map(|(local, _)| local)
    }
}

impl Index<usize> for HostRanks {
    type Output = Rank;

    fn index(&self, local: usize) -> &Rank {
        &self.0[local]
    }
}

impl IndexMut<usize> for HostRanks {
    fn index_mut(&mut self, local: usize) -> &mut Rank {
        &mut self.0[local]
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use super::*;
    use crate::binding::BindingRequest;
    use weft_sys::descriptor::{self, Carries};

    fn share() -> HostShare {
        HostShare {
            size: 5,
            ranks: vec![(3, 0), (4, 0)],
            room: 0,
            spares: 1,
            addresses: 0,
            binding: BindingRequest::default(),
        }
    }

    fn started(local: usize, process: u32) -> Rank {
        let (control, _) = descriptor::socket_pair(Carries::Messages).expect("descriptors");
        let lifeline = descriptor::pipe().expect("descriptors").1;
        Rank::new(share().numbers(local), process, control, lifeline)
    }

    #[test]
    fn a_successor_takes_the_position_of_who_has_ended() {
        let mut ranks = HostRanks::default();
        for local in 0..2 {
            ranks.put(local, started(local, 100 + local as u32));
        }
        assert_eq!((ranks.local(4), ranks.run_by(101)), (Some(1), Some(1)));
        ranks[1].end(ExitStatus::from_raw(9));
        assert_eq!(ranks.run_by(101), None, "the id may mean another process");
        assert_eq!(
            (ranks.children(), ranks.processes_of(&[3, 4])),
            (vec![100], vec![100])
        );
        ranks.put(1, started(1, 102));
        assert_eq!((ranks.len(), ranks.run_by(102)), (2, Some(1)));
        assert_eq!(ranks.children(), [100, 102]);
    }

    #[test]
    fn those_of_another_launcher_are_no_children() {
        let mut ranks = HostRanks::of_other_launcher(&share());
        assert!(ranks.is_any_running() && ranks.children().is_empty());
        assert_eq!(ranks.unadopted().collect::<Vec<_>>(), [0, 1]);
        ranks[0].end(ExitStatus::from_raw(0));
        assert_eq!(ranks.unadopted().collect::<Vec<_>>(), [1]);
        assert_eq!((ranks.running().count(), ranks.adopted().count()), (0, 0));
    }
}
