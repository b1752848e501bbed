//! Transmit policy: decides which client may send next. All decisions of the Tx multiplexer are behind one
//! small trait.
//!
//! | policy | who is next | bound |
//! |---|---|---|
//! | [`Signalled`] | who became backlogged first, until its queue is empty | none: a client that never pauses keeps the rest waiting |
//! | [`RoundRobin`] | the next backlogged client in a circle, one frame | clients − 1 frames |
//! | [`DeficitRoundRobin`] | the same, counted in bytes and weighted | one round of quanta |
//! | [`StrictPriority`] | the backlogged client of the best level | `bound` frames, see there |
//! | [`Limited`] | whom the inner policy chooses among those within their rate | as the inner one |

mod backlog;
mod limit;
mod priority;
mod rotation;
mod signalled;

pub use backlog::{Backlog, CLIENTS};
pub use limit::{Limited, Rate};
pub use priority::StrictPriority;
pub use rotation::{DeficitRoundRobin, RoundRobin};
pub use signalled::Signalled;

use serde::{Deserialize, Serialize};

/// The decision of a policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// The first frame of this client goes now. The policy has counted it.
    Send(usize),
    /// Some client has a frame, but none may send before this moment (monotonic nanoseconds).
    Wait(u64),
    /// No client has a frame.
    Idle,
}

/// Decides which client's frame goes next. The same calls give the same results: time is an argument.
pub trait Policy: Send {
    /// The next client. On [`Turn::Send`] the caller must send that frame.
    fn next(&mut self, backlog: &Backlog, now: u64) -> Turn;
}

/// A policy as plain data: as in a description, and as sent to a running system.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// The order of turns.
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

    /// Clients that always have a frame of these lengths: frames and bytes of each after `turns` turns.
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
