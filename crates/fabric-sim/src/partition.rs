//! Partitions: links that are down for a while, or for ever.
//!
//! ```text
//!          at                at + length
//!   ───────┤    nothing arrives ├───────►
//!     sent ┘ or here ┘          └► crosses anew, in order
//! ```
//!
//! A link that is down for longer than [`Config::longest_partition`] is cut: when that time has passed, the two
//! ranks are lost to each other, in both directions, and what has not arrived never does.

use weft_fabric::Peer;

use crate::config::{Config, Fault, nanoseconds};

/// A link as an ordered pair of ranks: sender and receiver.
pub(crate) type Link = (u32, u32);

/// Whether a fault between these peers (`None`: any peer) concerns this link.
pub(crate) fn concerns(from: Option<Peer>, to: Option<Peer>, link: Link) -> bool {
    from.is_none_or(|peer| peer.0 == link.0) && to.is_none_or(|peer| peer.0 == link.1)
}

#[derive(Clone, Copy, Debug)]
struct Partition {
    from: Option<Peer>,
    to: Option<Peer>,
    start: u64,
    length: u64,
}

/// All partitions of a run. They are known from the start, so each result is a function of time.
#[derive(Debug)]
pub(crate) struct Partitions {
    partitions: Vec<Partition>,
    /// Length beyond which a partition does not end, in nanoseconds.
    longest: u64,
}

impl Partitions {
    pub(crate) fn new(config: &Config) -> Self {
        let partition = |fault: &Fault| match *fault {
            Fault::Partition {
                from,
                to,
                at,
                length,
            } => Some(Partition {
                from,
                to,
                start: nanoseconds(at),
                length: nanoseconds(length),
            }),
            _ => None,
        };
        Self {
            partitions: config.faults.iter().filter_map(partition).collect(),
            longest: nanoseconds(config.longest_partition),
        }
    }

    fn of(&self, link: Link) -> impl Iterator<Item = &Partition> {
        let concerned = move |it: &&Partition| link.0 != link.1 && concerns(it.from, it.to, link);
        self.partitions.iter().filter(concerned)
    }

    /// The arrival time of a message that leaves at `departure` and takes `crossing`. `None`: it never
    /// arrives.
    pub(crate) fn arrival(&self, link: Link, departure: u64, crossing: u64) -> Option<u64> {
        let mut at = departure + crossing;
        let end_of_outage = |at: u64| {
            let ends = self.of(link).filter_map(|it| {
                let end = it.start.saturating_add(it.length);
                (it.start..end).contains(&at).then_some(end)
            });
            ends.max()
        };
        while let Some(end) = end_of_outage(at) {
            at = end.saturating_add(crossing);
        }
        let severed = self.severed(link);
        severed.is_none_or(|severed| at < severed).then_some(at)
    }

    /// When these two ranks are lost to each other, if ever.
    pub(crate) fn severed(&self, link: Link) -> Option<u64> {
        let both = self.of(link).chain(self.of((link.1, link.0)));
        both.filter(|it| it.length > self.longest)
            .map(|it| it.start + self.longest)
            .min()
    }

    /// Whether any two ranks are ever lost to each other.
    pub(crate) fn sever_any(&self) -> bool {
        self.partitions.iter().any(|it| it.length > self.longest)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn partition(from: u32, to: u32, at: u64, length: u64) -> Fault {
        Fault::Partition {
            from: Some(Peer(from)),
            to: Some(Peer(to)),
            at: Duration::from_nanos(at),
            length: Duration::from_nanos(length),
        }
    }

    #[test]
    fn what_would_arrive_in_a_partition_crosses_again_after_it() {
        let mut config = Config::exact(2);
        config.longest_partition = Duration::from_nanos(500);
        for fault in [
            partition(0, 1, 100, 50),
            partition(0, 1, 155, 20),
            partition(1, 0, 1000, 501),
        ] {
            config.faults.push(fault);
        }
        let partitions = Partitions::new(&config);
        assert_eq!(partitions.arrival((0, 1), 80, 10), Some(90));
        // Delayed by the first into the second, and by that one as well.
        assert_eq!(partitions.arrival((0, 1), 91, 10), Some(185));
        assert_eq!(partitions.arrival((0, 1), 140, 10), Some(150));
        assert_eq!(partitions.arrival((1, 0), 91, 10), Some(101));
        // The last one is for ever, for both.
        assert_eq!(partitions.arrival((1, 0), 995, 10), None);
        assert_eq!(partitions.arrival((0, 1), 1480, 10), Some(1490));
        assert_eq!(partitions.arrival((0, 1), 1490, 10), None);
        assert_eq!(partitions.arrival((1, 1), 2000, 0), Some(2000));
    }
}
