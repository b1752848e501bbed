//! Transmit policy, which decides who may send next: the one place of the Tx multiplexer that decides, behind one small trait.
//!
//! | policy | who is next | bound |
//! |---|---|---|
//! | [`Signalled`] | who became backlogged first, until its queue is empty | none: a client that never pauses keeps the rest waiting |
//! | [`RoundRobin`] | the next backlogged client in a circle, one frame | clients − 1 frames |
//! | [`DeficitRoundRobin`] | the same, counted in bytes and weighted | one round of quanta |
//! | [`StrictPriority`] | the backlogged client of the best level | `bound` frames, see there |
//! | [`Limited`] | whom the inner policy chooses among those within their rate | as the inner one |

mod limit;
mod priority;
mod rotation;
mod signalled;

pub use limit::{Limited, Rate};
pub use priority::StrictPriority;
pub use rotation::{DeficitRoundRobin, RoundRobin};
pub use signalled::Signalled;

use serde::{Deserialize, Serialize};

/// Most clients of a system: one bit each.
pub const CLIENTS: usize = 64;

/// Which clients have a frame waiting, and how long the first one is.
#[derive(Clone, Debug)]
pub struct Backlog {
    /// Bit `i`: client `i` has a frame.
    pub mask: u64,
    /// Bytes of its first frame.
    pub length: [u16; CLIENTS],
}

impl Default for Backlog {
    fn default() -> Self {
        Self {
            mask: 0,
            length: [0; CLIENTS],
        }
    }
}

impl Backlog {
    /// Client `client` has a first frame of so many bytes.
    pub fn set(&mut self, client: usize, length: u16) {
        self.mask |= 1 << client;
        self.length[client] = length;
    }

    /// It has none.
    pub fn clear(&mut self, client: usize) {
        self.mask &= !(1 << client);
    }

    /// Whether it has one.
    #[must_use]
    pub fn has(&self, client: usize) -> bool {
        self.mask & 1 << client != 0
    }
}

/// What a policy says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// The first frame of this client goes now. The policy has counted it.
    Send(usize),
    /// Somebody has a frame, but nobody may send before this moment (monotonic nanoseconds).
    Wait(u64),
    /// Nobody has a frame.
    Idle,
}

/// Decides whose frame goes next. Given the same calls it gives the same answers: time is an argument.
pub trait Policy: Send {
    /// Who is next. On [`Turn::Send`] the caller must send that frame.
    fn next(&mut self, backlog: &Backlog, now: u64) -> Turn;
}

/// The first client of a mask at or after `from`, in a circle.
#[inline]
fn first_from(mask: u64, from: usize) -> Option<usize> {
    if mask == 0 {
        return None;
    }
    let rotated = mask.rotate_right(from as u32);
    Some((from + rotated.trailing_zeros() as usize) % CLIENTS)
}

/// A policy as plain data: what a description says, what is sent to a running system.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// Whose turn it is.
    pub order: Order,
    /// For each client: weight in [`Order::Weighted`], at least 1.
    #[serde(default)]
    pub weights: Vec<u32>,
    /// For each client: level in [`Order::Priority`]; 0 is the best.
    #[serde(default)]
    pub levels: Vec<u32>,
    /// For each client: most bits per second; 0 is no limit.
    #[serde(default)]
    pub limits: Vec<u64>,
    /// Frames that may pass before a waiting client of a lower level gets one.
    #[serde(default = "default_bound")]
    pub bound: u32,
}

/// The order of a [`Choice`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// [`Signalled`].
    Signalled,
    /// [`RoundRobin`].
    RoundRobin,
    /// [`DeficitRoundRobin`].
    Weighted,
    /// [`StrictPriority`].
    Priority,
}

/// Frames that pass a waiting client of a lower level, unless said otherwise.
pub const fn default_bound() -> u32 {
    1024
}

impl Default for Choice {
    fn default() -> Self {
        Self {
            order: Order::RoundRobin,
            weights: Vec::new(),
            levels: Vec::new(),
            limits: Vec::new(),
            bound: default_bound(),
        }
    }
}

impl Choice {
    /// The policy itself. Missing weights are 1, missing levels 0, missing limits none.
    #[must_use]
    pub fn build(&self) -> Box<dyn Policy> {
        let order: Box<dyn Policy> = match self.order {
            Order::Signalled => Box::new(Signalled::default()),
            Order::RoundRobin => Box::new(RoundRobin::default()),
            Order::Weighted => Box::new(DeficitRoundRobin::new(&self.weights)),
            Order::Priority => Box::new(StrictPriority::new(&self.levels, self.bound)),
        };
        if self.limits.iter().all(|&limit| limit == 0) {
            return order;
        }
        let rates: Vec<Option<Rate>> = self
            .limits
            .iter()
            .map(|&bits| (bits > 0).then(|| Rate::of_bits(bits)))
            .collect();
        Box::new(Limited::new(order, &rates))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clients that always have a frame of these lengths: frames and bytes of each after so many turns.
    pub(super) fn saturated(
        policy: &mut dyn Policy,
        lengths: &[u16],
        turns: usize,
    ) -> (Vec<u64>, Vec<u64>) {
        let mut backlog = Backlog::default();
        for (client, &length) in lengths.iter().enumerate() {
            backlog.set(client, length);
        }
        let mut frames = vec![0; lengths.len()];
        let mut bytes = vec![0; lengths.len()];
        for _ in 0..turns {
            match policy.next(&backlog, 0) {
                Turn::Send(client) => {
                    frames[client] += 1;
                    bytes[client] += u64::from(lengths[client]);
                }
                other => panic!("all have frames, but {other:?}"),
            }
        }
        (frames, bytes)
    }

    #[test]
    fn the_circle_closes() {
        assert_eq!(first_from(0, 3), None);
        assert_eq!(first_from(0b1001, 0), Some(0));
        assert_eq!(first_from(0b1001, 1), Some(3));
        assert_eq!(first_from(0b1001, 4), Some(0));
        assert_eq!(first_from(1 << 63, 63), Some(63));
    }

    #[test]
    fn nobody_waiting_is_idle_for_every_policy() {
        for order in [
            Order::Signalled,
            Order::RoundRobin,
            Order::Weighted,
            Order::Priority,
        ] {
            for limits in [vec![], vec![0, 1_000_000]] {
                let choice = Choice {
                    order,
                    limits,
                    ..Choice::default()
                };
                let mut policy = choice.build();
                assert_eq!(policy.next(&Backlog::default(), 5), Turn::Idle);
                let mut backlog = Backlog::default();
                backlog.set(1, 1000);
                assert_eq!(policy.next(&backlog, 5), Turn::Send(1), "{order:?}");
                backlog.clear(1);
                assert_eq!(policy.next(&backlog, 6), Turn::Idle);
            }
        }
    }
}
