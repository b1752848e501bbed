//! Distribution of a job's ranks over its agents: each has a block of neighbours, in the order of agents.

use std::ops::Range;

/// The ranks of each agent. *Invariant:* the blocks follow each other without a gap, from rank 0.
#[derive(Debug, Default)]
pub struct Distribution {
    blocks: Vec<Range<u32>>,
}

impl Distribution {
    /// Gives so many ranks to an agent: the next ones that nobody has. It must come after all that have
    /// some.
    pub fn give(&mut self, agent: usize, count: u32) {
        let next = self.given();
        if self.blocks.len() <= agent {
            self.blocks.resize(agent + 1, next..next);
        }
        self.blocks[agent] = next..next + count;
    }

    /// Takes the ranks of an agent back: those after it move up.
    pub fn take_back(&mut self, agent: usize) {
        let mut next = 0;
        for (index, block) in self.blocks.iter_mut().enumerate() {
            let count = if index == agent {
                0
            } else {
                block.len() as u32
            };
            *block = next..next + count;
            next += count;
        }
    }

    /// How many ranks were given to agents.
    pub fn given(&self) -> u32 {
        self.blocks.iter().map(|block| block.len() as u32).sum()
    }

    /// The ranks of an agent.
    pub fn ranks(&self, agent: usize) -> Range<u32> {
        self.blocks.get(agent).cloned().unwrap_or_default()
    }

    /// The agent that has a rank.
    pub fn agent(&self, rank: u32) -> Option<usize> {
        self.blocks.iter().position(|block| block.contains(&rank))
    }

    /// The agents that have ranks.
    pub fn agents(&self) -> impl Iterator<Item = usize> + '_ {
        let blocks = self.blocks.iter().enumerate();
        let some = blocks.filter(|(_, block)| !block.is_empty());
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
        assert_eq!((ranks.ranks(2), ranks.agent(4)), (2..3, Some(3)));
        ranks.take_back(0);
        assert_eq!((ranks.ranks(2), ranks.ranks(3)), (0..1, 1..3));
        assert_eq!(ranks.agents().collect::<Vec<_>>(), [2, 3]);
        ranks.take_back(9);
        assert_eq!((ranks.given(), ranks.agent(3)), (3, None));
    }
}
