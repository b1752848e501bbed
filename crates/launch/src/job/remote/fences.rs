//! Fences of a job on several hosts: the values that its ranks have put, and which hosts have come. A host whose ranks have all
//! ended, or that is lost, is not waited for, once the others were told of the ends.

use std::collections::BTreeSet;

use crate::exchange::{Exchange, PublishedValue};

/// See the [module page](self).
#[derive(Debug)]
pub struct HostFences {
    /// Its members are the agents that have ranks.
    exchange: Exchange,
    /// Ranks of whose end the others were told.
    ended: BTreeSet<u32>,
    /// Agents none of whose ranks comes to a fence any more.
    gone: BTreeSet<usize>,
}

impl HostFences {
    /// Of so many hosts.
    pub fn new(hosts: u32) -> Self {
        Self {
            exchange: Exchange::new(hosts),
            ended: BTreeSet::new(),
            gone: BTreeSet::new(),
        }
    }

    /// Keeps a value. False if there is no room.
    pub fn put(&mut self, value: PublishedValue) -> bool {
        self.exchange.put(value)
    }

    /// All ranks of an agent have come. If it was the last, returns what was put since the fence before: it is to be opened.
    pub fn arrive(&mut self, agent: usize) -> Option<Vec<PublishedValue>> {
        self.exchange.arrive(agent as u32)
    }

    /// The others were told of the end of a rank, of an agent that has `all` these. As [`arrive`](Self::arrive).
    pub fn note_end(
        &mut self,
        rank: u32,
        (agent, all): (usize, &[u32]),
    ) -> Option<Vec<PublishedValue>> {
        self.ended.insert(rank);
        if !all.iter().all(|rank| self.ended.contains(rank)) || !self.gone.insert(agent) {
            return None;
        }
        self.exchange.leave(agent as u32)
    }

    /// Whether ranks of an agent may wait at a fence.
    pub fn may_wait(&self, agent: usize) -> bool {
        !self.gone.contains(&agent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_waited_for_until_the_ends_of_all_its_ranks_were_told() {
        let mut fences = HostFences::new(3);
        assert_eq!(fences.arrive(0), None);
        assert_eq!(fences.note_end(2, (1, &[2, 3])), None);
        assert_eq!(fences.arrive(2), None);
        assert!(fences.may_wait(1));
        assert_eq!(fences.note_end(3, (1, &[2, 3])), Some(Vec::new()));
        assert!(!fences.may_wait(1) && fences.may_wait(2));
        assert_eq!(fences.arrive(2), None, "the next fence");
        assert_eq!(fences.arrive(0), Some(Vec::new()));
        assert_eq!(fences.note_end(5, (2, &[5])), None, "nobody is there");
    }
}
