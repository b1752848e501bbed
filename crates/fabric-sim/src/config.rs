//! Configuration of a simulated machine: sizes, costs, and what goes wrong.

use std::time::Duration;

use weft_fabric::{Limits, Peer};
use weft_sys::random::SeededRandom;

/// A time in nanoseconds, as the simulation counts it.
pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The cost of communication, after LogGP. All times are virtual.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Cost {
    /// L: from the end of sending to the beginning of receiving.
    pub latency: Duration,
    /// o: how long a processor is busy with sending or receiving one message.
    pub overhead: Duration,
    /// g: least time between two messages of one sender.
    pub gap: Duration,
    /// G: time of each byte on the wire, in picoseconds (100 is 10 GB/s).
    pub byte: u64,
    /// Cost of a poll that finds nothing, so that polling passes time.
    pub poll: Duration,
}

impl Default for Cost {
    /// About that of a good local network of today.
    fn default() -> Self {
        Self {
            latency: Duration::from_nanos(1000),
            overhead: Duration::from_nanos(100),
            gap: Duration::from_nanos(50),
            byte: 100,
            poll: Duration::from_nanos(50),
        }
    }
}

/// Something that goes wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Everything between these peers (`None`: any peer) takes longer.
    Delay {
        /// The sender.
        from: Option<Peer>,
        /// The receiver.
        to: Option<Peer>,
        /// The extra time.
        extra: Duration,
    },
    /// Each byte between these peers (`None`: any peer) takes `factor` times as long.
    Throttle {
        /// The sender.
        from: Option<Peer>,
        /// The receiver.
        to: Option<Peer>,
        /// The factor.
        factor: u32,
    },
    /// The link between these peers (`None`: any peer) is down: nothing arrives until it is up again; then
    /// what was sent arrives, in order. If it is down for longer than [`Config::longest_partition`], the two
    /// are lost to each other, both ways.
    Partition {
        /// The sender.
        from: Option<Peer>,
        /// The receiver.
        to: Option<Peer>,
        /// The beginning.
        at: Duration,
        /// The duration.
        length: Duration,
    },
    /// This rank dies: it is unwound, its result is `None`, the others learn of it after
    /// [`Config::detection`].
    Death {
        /// The rank.
        peer: Peer,
        /// When, by its own clock.
        at: Duration,
    },
    /// This rank dies within the call of its k-th action: a post that was taken, a grant made or ended. The
    /// effect of the action on others remains; the caller never learns of it. Like [`Death`](Self::Death)
    /// otherwise.
    DeathAfter {
        /// The rank.
        peer: Peer,
        /// How many actions it takes, from 1.
        actions: u64,
    },
}

/// The properties of a simulated machine. Plain data: change what you need.
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    /// How many ranks there are.
    pub ranks: usize,
    /// Decides everything that is not specified.
    pub seed: u64,
    /// The cost of communication.
    pub cost: Cost,
    /// Messages and signals that a lane takes before its receiver polls. Small, to exercise refusal.
    pub credits: u32,
    /// Most extra time of a message, in percent of the latency.
    pub jitter: u32,
    /// How many of a thousand posts are refused without need.
    pub refuse: u32,
    /// How many of a thousand transfers end late ([`weft_fabric::Posted::Pending`]).
    pub late: u32,
    /// The faults.
    pub faults: Vec<Fault>,
    /// Time until the death of a rank is noticed.
    pub detection: Duration,
    /// How long a link may be down before its two ranks are lost to each other.
    pub longest_partition: Duration,
    /// Whether the ranks share memory, as if they were on one host.
    pub shares_memory: bool,
    /// Size limits. Small, so that short programs use portals too.
    pub limits: Limits,
    /// Bytes of stack for each rank.
    pub stack: usize,
    /// How many of the last events a report or a failure shows.
    pub trace: usize,
    /// How long, in virtual time, a rank may poll and find nothing while nobody else can do anything.
    pub patience: Duration,
    /// Keep all ranks on the core that starts them. Only one runs at a time, and handing over within a core
    /// is faster.
    pub one_core: bool,
}

impl Config {
    /// A lively machine: jitter, few credits, refusals and late transfers, all by the seed.
    #[must_use]
    pub fn new(ranks: usize, seed: u64) -> Self {
        Self {
            ranks,
            seed,
            cost: Cost::default(),
            credits: 4,
            jitter: 100,
            refuse: 30,
            late: 500,
            faults: Vec::new(),
            detection: Duration::from_micros(50),
            longest_partition: Duration::from_millis(10),
            shares_memory: true,
            limits: Limits {
                data: 4096,
                bulk: 2048,
            },
            stack: 512 * 1024,
            trace: 0,
            patience: Duration::from_secs(60),
            one_core: true,
        }
    }

    /// A calm machine: every message takes exactly what the cost model says, nothing is refused while there
    /// are credits, and there are many. For predicting times.
    #[must_use]
    pub fn exact(ranks: usize) -> Self {
        Self {
            credits: 64,
            jitter: 0,
            refuse: 0,
            late: 0,
            ..Self::new(ranks, 0)
        }
    }

    /// A lively machine on a bad network: links that are slow, and links that are down for a while, all
    /// chosen by the seed. No rank is lost by it: no partition is too long.
    #[must_use]
    pub fn faulty(ranks: usize, seed: u64) -> Self {
        let mut config = Self::new(ranks, seed);
        // Draws independent of those of the machine itself.
        let mut random = SeededRandom::new(seed ^ 0x6661_756C_7479);
        let last = ranks.saturating_sub(1) as u64;
        let anybody = |random: &mut SeededRandom| {
            let some = random.happens(700);
            some.then(|| Peer(random.up_to(last) as u32))
        };
        // Between 2^`least` and 2^`most` nanoseconds, each magnitude equally likely.
        let time = |random: &mut SeededRandom, least: u64, most: u64| {
            let magnitude = least + random.up_to(most - least);
            Duration::from_nanos((1 << magnitude) + random.up_to((1 << magnitude) - 1))
        };
        for _ in 0..random.up_to(2) {
            let (from, to) = (anybody(&mut random), anybody(&mut random));
            let extra = time(&mut random, 6, 16);
            config.faults.push(Fault::Delay { from, to, extra });
        }
        for _ in 0..random.up_to(2) {
            let (from, to) = (anybody(&mut random), anybody(&mut random));
            let factor = 2 << random.up_to(5);
            config.faults.push(Fault::Throttle { from, to, factor });
        }
        for _ in 0..=2 + random.up_to(2 * ranks as u64) {
            config.faults.push(Fault::Partition {
                from: anybody(&mut random),
                to: anybody(&mut random),
                at: time(&mut random, 8, 21),
                length: time(&mut random, 8, 18),
            });
        }
        config
    }

    /// With one more fault.
    #[must_use]
    pub fn with(mut self, fault: Fault) -> Self {
        self.faults.push(fault);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partition::Partitions;

    #[test]
    fn draws_decide_and_no_partition_is_too_long() {
        let mut kinds = [0; 3];
        for seed in 0..50 {
            let config = Config::faulty(3, seed);
            assert_eq!(config, Config::faulty(3, seed));
            assert_ne!(config.faults, Config::faulty(3, seed + 1).faults);
            for fault in &config.faults {
                kinds[match fault {
                    Fault::Delay { .. } => 0,
                    Fault::Throttle { .. } => 1,
                    Fault::Partition { .. } => 2,
                    Fault::Death { .. } | Fault::DeathAfter { .. } => {
                        unreachable!("nobody dies by a draw")
                    }
                }] += 1;
            }
            assert_eq!(Partitions::new(&config).severed((0, 1)), None);
        }
        assert!(kinds.iter().all(|count| *count > 20), "{kinds:?}");
    }
}
