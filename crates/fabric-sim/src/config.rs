//! What a simulated machine is like.

use std::time::Duration;

use weft_fabric::{Limits, Peer};

/// The cost of communication, after LogGP. All times are virtual.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Cost {
    /// L: from the end of sending to the beginning of receiving.
    pub latency: Duration,
    /// o: that a processor is busy with sending or receiving one message.
    pub overhead: Duration,
    /// g: least time between two messages of one sender.
    pub gap: Duration,
    /// G: time of each byte on the wire, in picoseconds (100 is 10 GB/s).
    pub byte: u64,
    /// What a look that finds nothing costs: so that looking passes time.
    pub look: Duration,
}

impl Default for Cost {
    /// About what a good local network of today does.
    fn default() -> Self {
        Self {
            latency: Duration::from_nanos(1000),
            overhead: Duration::from_nanos(100),
            gap: Duration::from_nanos(50),
            byte: 100,
            look: Duration::from_nanos(50),
        }
    }
}

/// Something that goes wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Everything between these (`None`: anybody) takes longer.
    Delay {
        /// The sender.
        from: Option<Peer>,
        /// The receiver.
        to: Option<Peer>,
        /// By so much.
        extra: Duration,
    },
    /// Each byte between these (`None`: anybody) takes `factor` times as long.
    Throttle {
        /// The sender.
        from: Option<Peer>,
        /// The receiver.
        to: Option<Peer>,
        /// How many times.
        factor: u32,
    },
    /// The link between these (`None`: anybody) is down: nothing arrives meanwhile, and what was sent
    /// arrives afterwards, in order. Down for longer than [`Config::longest_cut`], the two are lost to
    /// each other, both ways.
    Cut {
        /// The sender.
        from: Option<Peer>,
        /// The receiver.
        to: Option<Peer>,
        /// Since when.
        at: Duration,
        /// For how long.
        length: Duration,
    },
    /// This rank dies: it is unwound, its result is `None`, the others are told after
    /// [`Config::detection`].
    Death {
        /// Who.
        peer: Peer,
        /// When, at its own clock.
        at: Duration,
    },
    /// This rank dies within the call by which it does its k-th deed: a post that was taken, a grant made
    /// or ended. What that has done to others stands; the caller never learns of it. Like
    /// [`Death`](Self::Death) otherwise.
    DeathAfter {
        /// Who.
        peer: Peer,
        /// How many deeds it does, from 1.
        deeds: u64,
    },
}

/// What a simulated machine is like. Plain data: change what you need.
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    /// How many ranks there are.
    pub ranks: usize,
    /// Decides everything that is left open.
    pub seed: u64,
    /// What communication costs.
    pub cost: Cost,
    /// Messages and signals that a lane takes before its receiver looks. Small, to exercise refusal.
    pub credits: u32,
    /// Each message takes up to so many percent of the latency longer.
    pub jitter: u32,
    /// So many of a thousand posts are refused without need.
    pub refuse: u32,
    /// So many of a thousand transfers end late ([`weft_fabric::Posted::Pending`]).
    pub late: u32,
    /// What goes wrong.
    pub faults: Vec<Fault>,
    /// Time until the death of a rank is noticed.
    pub detection: Duration,
    /// How long a link may be down before its two ranks are lost to each other.
    pub longest_cut: Duration,
    /// What fits. Small, so that short programs use portals too.
    pub limits: Limits,
    /// Bytes of stack for each rank.
    pub stack: usize,
    /// How many of the last events a report or a failure shows.
    pub trace: usize,
    /// How long, in virtual time, a rank may look in vain while nobody else can do anything.
    pub patience: Duration,
    /// Keep all ranks on the core that starts them. Only one runs at a time, and handing over within a
    /// core is quicker.
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
            longest_cut: Duration::from_millis(10),
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

    /// A calm machine: every message takes exactly what the cost model says, nothing is refused while
    /// there are credits, of which there are many. For predicting times.
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

    /// With one more fault.
    #[must_use]
    pub fn with(mut self, fault: Fault) -> Self {
        self.faults.push(fault);
        self
    }
}
