//! Distribution of a job's ranks over its agents: each has a block of neighbours, in the order of agents, or those that it was given
//! by number.

/// The ranks of each agent. *Invariant:* together they are the first ranks of the job, each once; those of an agent ascend.
#[derive(Debug, Default)]
pub struct Distribution {
    ranks: Vec<Vec<u32>>,
}

impl Distribution {
    /// Gives so many ranks to an agent: the next ones that nobody has. It must come after all that have
    /// some.
    pub fn give(&mut self, agent: usize, count: u32) {
        let next = self.given();
        self.give_these(agent, (next..next + count).collect());
    }

    /// Gives these ranks, which nobody has, to an agent that has none. In the end there must be no gap.
    pub fn give_these(&mut self, agent: usize, ranks: Vec<u32>) {
        if self.ranks.len() <= agent {
            self.ranks.resize(agent + 1, Vec::new());
        }
        self.ranks[agent] = ranks;
    }

    /// Takes the ranks of an agent back: those after them move up.
    pub fn take_back(&mut self, agent: usize) {
        let Some(gone) = self.ranks.get_mut(agent).map(std::mem::take) else {
            return;
        };
        for rank in self.ranks.iter_mut().flatten() {
            *rank -= gone.partition_point(|lower| lower < rank) as u32;
        }
    }

    /// How many ranks were given to agents.
    pub fn given(&self) -> u32 {
        self.ranks.iter().map(|ranks| ranks.len() as u32).sum()
    }

    /// The ranks of an agent.
    pub fn ranks(&self, agent: usize) -> &[u32] {
        self.ranks.get(agent).map_or(&[], Vec::as_slice)
    }

    /// The agent that has a rank.
    pub fn agent(&self, rank: u32) -> Option<usize> {
        let has = |ranks: &Vec<u32>| ranks.binary_search(&rank).is_ok();
        self.ranks.iter().position(has)
    }

    /// The agents that have ranks.
    pub fn agents(&self) -> impl Iterator<Item = usize> + '_ {
        let ranks = self.ranks.iter().enumerate();
        let some = ranks.filter(|(_, ranks)| !ranks.is_empty());
        some.map(|(agent, _)| agent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_after_one_that_has_left_move_up() {
        let mut ranks = Distribution::default();
        ranks.give(0, 2);
        ranks.give(2, 1);
        ranks.give(3, 2);
        assert_eq!(ranks.given(), 5);
        assert_eq!((ranks.ranks(2), ranks.agent(4)), (&[2][..], Some(3)));
        ranks.take_back(0);
        assert_eq!((ranks.ranks(2), ranks.ranks(3)), (&[0][..], &[1, 2][..]));
        assert_eq!(ranks.agents().collect::<Vec<_>>(), [2, 3]);
        ranks.take_back(9);
        assert_eq!((ranks.given(), ranks.agent(3)), (3, None));
    }

    #[test]
    fn ranks_may_be_dealt() {
        let mut ranks = Distribution::default();
        ranks.give_these(0, vec![0, 2, 4]);
        ranks.give_these(1, vec![1, 3]);
        assert_eq!((ranks.given(), ranks.agent(3)), (5, Some(1)));
        assert_eq!(ranks.ranks(0), [0, 2, 4]);
    }
}
