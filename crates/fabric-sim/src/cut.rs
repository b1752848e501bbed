//! Links that are down for a while, and what lots decide to go wrong.
//!
//! ```text
//!          at                at + length
//!   ───────┤    nothing arrives ├───────►
//!     sent ┘ or here ┘          └► crosses anew, in order
//! ```
//!
//! A link that is down for longer than [`Config::longest_cut`] comes to its end: so long after the
//! cut the two ranks are lost to each other, in both directions, and what had not arrived never does.

use std::time::Duration;

use weft_fabric::Peer;

use crate::config::{Config, Fault};
use crate::network::{Network, concerns, nanoseconds};
use crate::random::Random;
use crate::rank::News;

/// How a rank is said to be lost that cannot be reached any more.
pub(crate) const OUT_OF_REACH: &str = "the link to it was down for too long (a simulated fault)";

/// How a rank is said to be lost that has died.
pub(crate) const DIED: &str = "it died (a simulated fault)";

impl Network {
    fn cuts(&self, pair: (u32, u32)) -> impl Iterator<Item = (u64, u64)> {
        let cut = move |fault: &Fault| match *fault {
            Fault::Cut {
                from,
                to,
                at,
                length,
            } if pair.0 != pair.1 && concerns(from, to, pair) => {
                Some((nanoseconds(at), nanoseconds(length)))
            }
            _ => None,
        };
        self.config.faults.iter().filter_map(cut)
    }

    /// When what needs so long from one to the other is there, if it sets out then. `None`: never.
    pub(crate) fn arrival(&self, pair: (u32, u32), departure: u64, crossing: u64) -> Option<u64> {
        let mut at = departure + crossing;
        let covers = |at: u64| {
            let over = self.cuts(pair).filter_map(|(start, length)| {
                let end = start.saturating_add(length);
                (start..end).contains(&at).then_some(end)
            });
            over.max()
        };
        while let Some(end) = covers(at) {
            at = end.saturating_add(crossing);
        }
        let severed = self.severed(pair);
        severed.is_none_or(|severed| at < severed).then_some(at)
    }

    /// When these two are lost to each other, if that ever comes to pass.
    pub(crate) fn severed(&self, pair: (u32, u32)) -> Option<u64> {
        let longest = nanoseconds(self.config.longest_cut);
        let both = self.cuts(pair).chain(self.cuts((pair.1, pair.0)));
        both.filter(|(_, length)| *length > longest)
            .map(|(start, _)| start + longest)
            .min()
    }

    /// Puts under way what long cuts will have to tell.
    pub(crate) fn foretell(&mut self) {
        let long = |fault: &Fault| matches!(fault, Fault::Cut { length, .. } if *length > self.config.longest_cut);
        if !self.config.faults.iter().any(long) {
            return;
        }
        for me in 0..self.peers() {
            for other in 0..self.peers() {
                if let Some(at) = self.severed((me, other)) {
                    let (peer, reason) = (Peer(other), OUT_OF_REACH);
                    self.deliver(me, at, News::Lost { peer, reason });
                }
            }
        }
    }
}

impl Config {
    /// A lively machine on a bad network: links that are slow, and links that are down for a while, all
    /// chosen by the seed. Nothing is lost for it: no cut is too long.
    #[must_use]
    pub fn faulty(ranks: usize, seed: u64) -> Self {
        let mut config = Self::new(ranks, seed);
        // Not the lots of the network itself.
        let mut random = Random::new(seed ^ 0x6661_756C_7479);
        let last = ranks.saturating_sub(1) as u64;
        let anybody = |random: &mut Random| {
            let some = random.happens(700);
            some.then(|| Peer(random.up_to(last) as u32))
        };
        // Between 2^`least` and 2^`most` nanoseconds, each magnitude as likely.
        let time = |random: &mut Random, least: u64, most: u64| {
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
            config.faults.push(Fault::Cut {
                from: anybody(&mut random),
                to: anybody(&mut random),
                at: time(&mut random, 8, 21),
                length: time(&mut random, 8, 18),
            });
        }
        config
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(from: u32, to: u32, at: u64, length: u64) -> Fault {
        Fault::Cut {
            from: Some(Peer(from)),
            to: Some(Peer(to)),
            at: Duration::from_nanos(at),
            length: Duration::from_nanos(length),
        }
    }

    #[test]
    fn what_would_arrive_in_a_cut_crosses_again_after_it() {
        let mut config = Config::exact(2);
        config.longest_cut = Duration::from_nanos(500);
        for fault in [cut(0, 1, 100, 50), cut(0, 1, 155, 20), cut(1, 0, 1000, 501)] {
            config.faults.push(fault);
        }
        let network = Network::new(config);
        assert_eq!(network.arrival((0, 1), 80, 10), Some(90));
        // Into the first, from there into the second, and from there.
        assert_eq!(network.arrival((0, 1), 91, 10), Some(185));
        assert_eq!(network.arrival((0, 1), 140, 10), Some(150));
        assert_eq!(network.arrival((1, 0), 91, 10), Some(101));
        // The last one is for ever, for both.
        assert_eq!(network.arrival((1, 0), 995, 10), None);
        assert_eq!(network.arrival((0, 1), 1480, 10), Some(1490));
        assert_eq!(network.arrival((0, 1), 1490, 10), None);
        assert_eq!(network.arrival((1, 1), 2000, 0), Some(2000));
    }

    #[test]
    fn lots_decide_and_no_cut_is_too_long() {
        let mut kinds = [0; 3];
        for seed in 0..50 {
            let config = Config::faulty(3, seed);
            assert_eq!(config, Config::faulty(3, seed));
            assert_ne!(config.faults, Config::faulty(3, seed + 1).faults);
            for fault in &config.faults {
                kinds[match fault {
                    Fault::Delay { .. } => 0,
                    Fault::Throttle { .. } => 1,
                    Fault::Cut { .. } => 2,
                    Fault::Death { .. } | Fault::DeathAfter { .. } => {
                        unreachable!("nobody dies by lot")
                    }
                }] += 1;
            }
            let network = Network::new(config);
            assert_eq!(network.severed((0, 1)), None);
        }
        assert!(kinds.iter().all(|count| *count > 20), "{kinds:?}");
    }
}
