//! A bandwidth limit for each client, before any order.

use super::{Backlog, CLIENTS, Policy, Turn};

/// How much a client may send: a bucket of `burst` bytes that fills at a rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    /// Bits per second, counted on whole Ethernet frames without preamble and check sequence.
    pub bits: u64,
    /// Bytes that may go at once.
    pub burst: u32,
}

impl Rate {
    /// A rate with the burst that suits it: what it sends in a millisecond, at least two frames.
    #[must_use]
    pub fn of_bits(bits: u64) -> Self {
        Self {
            bits,
            burst: (bits / 8_000).clamp(3_200, 1 << 20) as u32,
        }
    }

    /// Most nano-bytes that a bucket can hold.
    const fn full(self) -> u128 {
        self.burst as u128 * NANO
    }
}

const NANO: u128 = 1_000_000_000;

#[derive(Clone, Copy)]
struct Bucket {
    rate: Rate,
    /// Billionths of a byte: no rounding, so that the limit is exact over any time.
    level: u128,
    at: u64,
}

impl Bucket {
    fn fill(&mut self, now: u64) {
        let passed = u128::from(now.saturating_sub(self.at));
        // bits/s · ns / 8 = billionths of a byte.
        let gained = passed.saturating_mul(u128::from(self.rate.bits)) / 8;
        self.level = self.level.saturating_add(gained).min(self.rate.full());
        self.at = self.at.max(now);
    }

    /// When there is enough for so many bytes. A frame larger than the bucket goes when it is full.
    fn ready_at(&self, length: u16) -> u64 {
        let need = (u128::from(length) * NANO).min(self.rate.full());
        let missing = need.saturating_sub(self.level);
        let wait = (missing * 8).div_ceil(u128::from(self.rate.bits.max(1)));
        self.at
            .saturating_add(u64::try_from(wait).unwrap_or(u64::MAX))
    }
}

/// Lets the inner policy choose among those clients whose bucket holds enough for their first frame.
pub struct Limited {
    inner: Box<dyn Policy>,
    buckets: [Option<Bucket>; CLIENTS],
}

impl Limited {
    /// With these rates, client by client; `None` is no limit. Buckets begin full.
    #[must_use]
    pub fn new(inner: Box<dyn Policy>, rates: &[Option<Rate>]) -> Self {
        let mut buckets = [None; CLIENTS];
        for (place, rate) in buckets.iter_mut().zip(rates) {
            *place = rate.map(|rate| Bucket {
                rate,
                level: rate.full(),
                at: 0,
            });
        }
        Self { inner, buckets }
    }
}

impl Policy for Limited {
    fn next(&mut self, backlog: &Backlog, now: u64) -> Turn {
        let mut allowed = backlog.mask;
        let mut soonest = u64::MAX;
        let mut rest = backlog.mask;
        while rest != 0 {
            let client = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            let Some(bucket) = &mut self.buckets[client] else {
                continue;
            };
            bucket.fill(now);
            let ready = bucket.ready_at(backlog.length[client]);
            if ready > now {
                allowed &= !(1 << client);
                soonest = soonest.min(ready);
            }
        }
        if allowed == 0 {
            return if backlog.mask == 0 {
                self.inner.next(backlog, now)
            } else {
                Turn::Wait(soonest)
            };
        }
        let permitted = Backlog {
            mask: allowed,
            length: backlog.length,
        };
        let turn = self.inner.next(&permitted, now);
        if let Turn::Send(client) = turn
            && let Some(bucket) = &mut self.buckets[client]
        {
            let price = u128::from(backlog.length[client]) * NANO;
            bucket.level = bucket.level.saturating_sub(price);
        }
        turn
    }
}

#[cfg(test)]
mod tests {
    use super::super::RoundRobin;
    use super::*;

    /// Sends as fast as the policy lets for so long; bytes of each client.
    fn run(policy: &mut dyn Policy, lengths: &[u16], from: u64, until: u64) -> Vec<u64> {
        let mut backlog = Backlog::default();
        for (client, &length) in lengths.iter().enumerate() {
            backlog.set(client, length);
        }
        let mut bytes = vec![0; lengths.len()];
        let mut now = from;
        while now < until {
            match policy.next(&backlog, now) {
                Turn::Send(client) => {
                    bytes[client] += u64::from(lengths[client]);
                    // A wire of 1 Gbit/s.
                    now += u64::from(lengths[client]) * 8;
                }
                Turn::Wait(moment) => now = moment.max(now + 1),
                Turn::Idle => unreachable!("all have frames"),
            }
        }
        bytes
    }

    #[test]
    fn the_limit_is_exact_over_a_second_and_the_rest_goes_to_the_others() {
        let rates = [None, Some(Rate::of_bits(100_000_000))];
        let mut policy = Limited::new(Box::new(RoundRobin::default()), &rates);
        let bytes = run(&mut policy, &[1514, 1514], 0, 1_000_000_000);
        let limited = bytes[1] as f64 * 8.0;
        assert!((limited / 100e6 - 1.0).abs() < 0.01, "{limited}");
        let rest = bytes[0] as f64 * 8.0;
        assert!((rest / 900e6 - 1.0).abs() < 0.01, "{rest}");
    }

    #[test]
    fn all_limited_leaves_the_wire_idle() {
        for bits in [1_000_000, 10_000_000, 333_333_333] {
            let rate = Rate::of_bits(bits);
            let mut policy = Limited::new(Box::new(RoundRobin::default()), &[Some(rate)]);
            let first = run(&mut policy, &[1000], 0, 1_000_000_000)[0];
            let second = run(&mut policy, &[1000], 1_000_000_000, 3_000_000_000)[0];
            // The first second has the full bucket besides.
            let due = bits / 8 + u64::from(rate.burst);
            assert!(
                first <= due + 1000 && first + 2000 > due,
                "{first} of {due}"
            );
            let exact = (second as f64 * 8.0 / (2 * bits) as f64 - 1.0).abs();
            assert!(exact < 0.01, "{second} at {bits}");
        }
    }

    #[test]
    fn a_frame_larger_than_the_bucket_goes_when_it_is_full() {
        let rate = Rate {
            bits: 8_000_000,
            burst: 500,
        };
        let mut policy = Limited::new(Box::new(RoundRobin::default()), &[Some(rate)]);
        let mut backlog = Backlog::default();
        backlog.set(0, 1500);
        assert_eq!(policy.next(&backlog, 0), Turn::Send(0));
        assert_eq!(policy.next(&backlog, 0), Turn::Wait(500_000));
        assert_eq!(policy.next(&backlog, 500_000), Turn::Send(0));
    }
}
