//! Conditions of the simulated network: where addresses lead, how quick and how reliable it is.

use rand::Rng;
use rand::rngs::StdRng;

/// Where an address leads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Route {
    /// To a listener of a rank.
    To(usize, usize),
    /// To a host on which nobody listens.
    Refused,
    /// Likewise, and the system reports it at once, as it may on one host.
    RefusedAtOnce,
    /// There is never an answer.
    Hole,
    /// The system reports at once that there is no route.
    Nowhere,
}

/// The properties of the network, drawn from a seed.
#[derive(Clone, Debug)]
pub struct Conditions {
    /// Nanoseconds from one host to the other, and the most that chance adds.
    pub latency: u64,
    pub jitter: u64,
    /// Picoseconds that each byte takes.
    pub byte: u64,
    /// Bytes that a connection holds.
    pub buffer: usize,
    /// Longest piece in which bytes travel.
    pub piece: usize,
    /// How many connections of a thousand will be cut at a byte, and the most cuts.
    pub doomed: u32,
    pub cuts: u32,
}

impl Conditions {
    pub fn by(random: &mut StdRng) -> Self {
        let magnitude = |random: &mut StdRng, least: u32, most: u32| -> u64 {
            let power = random.random_range(least..=most);
            (1 << power) + random.random_range(0..1 << power)
        };
        Self {
            latency: magnitude(random, 12, 20),
            jitter: magnitude(random, 1, 20),
            byte: magnitude(random, 4, 14),
            buffer: magnitude(random, 11, 21) as usize,
            piece: magnitude(random, 7, 17) as usize,
            doomed: [0, 200, 500, 1000][random.random_range(0..4)],
            cuts: random.random_range(0..8),
        }
    }
}
