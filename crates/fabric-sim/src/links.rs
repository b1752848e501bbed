//! Links between ranks: the time that messages take on each, by the cost model and the faults.
//!
//! ```text
//!   departs ── bytes·G·throttle on the wire ── L + delays + jitter ── partitions ──► arrives
//! ```

use weft_fabric::Peer;
use weft_sys::random::SeededRandom;

use crate::config::{Config, Cost, Fault, nanoseconds};
use crate::partition::{Link, Partitions, concerns};

/// The times of one message on a link, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crossing {
    /// How long the sender's wire is occupied.
    pub wire: u64,
    /// From then until the message has arrived.
    pub latency: u64,
}

#[derive(Debug)]
struct Delay {
    from: Option<Peer>,
    to: Option<Peer>,
    extra: u64,
}

#[derive(Debug)]
struct Throttle {
    from: Option<Peer>,
    to: Option<Peer>,
    factor: u64,
}

/// All links of a run.
#[derive(Debug)]
pub(crate) struct Links {
    cost: Cost,
    /// Percent of the latency.
    jitter: u64,
    delays: Vec<Delay>,
    throttles: Vec<Throttle>,
    partitions: Partitions,
}

impl Links {
    pub(crate) fn new(config: &Config) -> Self {
        let delay = |fault: &Fault| match *fault {
            Fault::Delay { from, to, extra } => {
                let extra = nanoseconds(extra);
                Some(Delay { from, to, extra })
            }
            _ => None,
        };
        let throttle = |fault: &Fault| match *fault {
            Fault::Throttle { from, to, factor } => {
                let factor = u64::from(factor).max(1);
                Some(Throttle { from, to, factor })
            }
            _ => None,
        };
        Self {
            cost: config.cost,
            jitter: u64::from(config.jitter),
            delays: config.faults.iter().filter_map(delay).collect(),
            throttles: config.faults.iter().filter_map(throttle).collect(),
            partitions: Partitions::new(config),
        }
    }

    /// The times of `length` bytes sent now.
    pub(crate) fn crossing(&self, link: Link, length: u64, random: &mut SeededRandom) -> Crossing {
        if link.0 == link.1 {
            return Crossing {
                wire: 0,
                latency: 0,
            };
        }
        let delays = self.delays.iter();
        let delays = delays.filter(|it| concerns(it.from, it.to, link));
        let latency = nanoseconds(self.cost.latency) + delays.map(|it| it.extra).sum::<u64>();
        let throttles = self.throttles.iter();
        let throttles = throttles.filter(|it| concerns(it.from, it.to, link));
        let factor: u64 = throttles.map(|it| it.factor).product();
        let jitter = match latency * self.jitter / 100 {
            0 => 0,
            most => random.up_to(most),
        };
        Crossing {
            wire: length * self.cost.byte * factor / 1000,
            latency: latency + jitter,
        }
    }

    /// The arrival time of a message that leaves at `departure` and takes `crossing`. `None`: it never
    /// arrives.
    pub(crate) fn arrival(&self, link: Link, departure: u64, crossing: u64) -> Option<u64> {
        self.partitions.arrival(link, departure, crossing)
    }

    /// When these two ranks are lost to each other, if ever.
    pub(crate) fn severed(&self, link: Link) -> Option<u64> {
        self.partitions.severed(link)
    }

    /// Whether any two ranks are ever lost to each other.
    pub(crate) fn sever_any(&self) -> bool {
        self.partitions.sever_any()
    }
}
