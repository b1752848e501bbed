//! Schedule: the order of turns. It is random, so that a slow minute of the machine affects all series
//! equally, and seeded, so that a run can be repeated in the same order.

use weft_sys::random::SeededRandom;

/// Source of the order of turns of one experiment.
pub struct Schedule {
    random: SeededRandom,
}

impl Schedule {
    /// The schedule of an experiment under a seed. Experiments of one run draw independent orders.
    pub fn new(seed: u64, experiment: &str) -> Schedule {
        // FNV-1a of the name makes the order of one experiment independent of the other ones.
        let name = experiment
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
        Schedule {
            random: SeededRandom::new(seed ^ name),
        }
    }

    /// The next pass over these turns, each once, in a new order.
    pub fn pass(&mut self, turns: &[usize]) -> Vec<usize> {
        let mut order = turns.to_vec();
        self.random.shuffle(&mut order);
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passes(seed: u64, experiment: &str) -> Vec<Vec<usize>> {
        let turns: Vec<usize> = (0..20).collect();
        let mut schedule = Schedule::new(seed, experiment);
        (0..5).map(|_| schedule.pass(&turns)).collect()
    }

    #[test]
    fn the_seed_decides_the_order() {
        assert_eq!(passes(7, "startup"), passes(7, "startup"));
        assert_ne!(passes(7, "startup"), passes(8, "startup"));
        assert_ne!(passes(7, "startup"), passes(7, "bandwidth"));
    }

    #[test]
    fn every_pass_is_a_new_permutation() {
        let found = passes(1, "latency-single");
        for pass in &found {
            let mut sorted = pass.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..20).collect::<Vec<_>>());
        }
        assert_ne!(found[0], found[1]);
    }
}
