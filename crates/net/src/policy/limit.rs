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
    /// A rate with the burst that suits it: what it sends in 5 ms, at least two frames. So a multiplexer that
    /// has no processor for a few milliseconds catches up, and the rate over a second is exact to half a per
    /// cent.
    #[must_use]
    pub fn of_bits(bits: u64) -> Self {
        Self {
            bits,
            burst: (bits / 1_600).clamp(3_200, 1 << 20) as u32,
        }
    }

    /// Most nano-bytes that a bucket can hold.
    const fn full(self) -> u64 {
        self.burst as u64 * NANO
    }
}

const NANO: u64 = 1_000_000_000;

#[derive(Clone, Copy)]
struct Bucket {
    rate: Rate,
    /// Nanoseconds in which it fills from empty.
    whole: u64,
    /// Billionths of a byte at the time `at`: rounding errors do not accumulate, so the limit is exact.
    level: u64,
    at: u64,
    /// A frame length for which the bucket is not enough before that time.
    refused: (u16, u64),
}

impl Bucket {
    /// A full one. Bursts are at most 2²⁰ bytes: nano-bytes times 8 stay far below 2⁶⁴.
    fn full(rate: Rate) -> Self {
        let rate = Rate {
            bits: rate.bits.clamp(1, 1 << 50),
            burst: rate.burst.min(1 << 20),
        };
        let whole = (u128::from(rate.full()) * 8).div_ceil(u128::from(rate.bits));
        Self {
            rate,
            whole: u64::try_from(whole).unwrap_or(u64::MAX),
            level: rate.full(),
            at: 0,
            refused: (0, 0),
        }
    }

    fn fill(&mut self, now: u64) {
        let passed = now.saturating_sub(self.at);
        self.level = if passed >= self.whole {
            self.rate.full()
        } else {
            // bits/s · ns / 8 = billionths of a byte; less than a full bucket, so within range.
            (self.level + passed * self.rate.bits / 8).min(self.rate.full())
        };
        self.at = self.at.max(now);
    }

    /// The longest frame for which the bucket was enough at the last look. A frame larger than the bucket goes
    /// when it is full.
    fn enough_for(&self) -> u16 {
        if self.level >= self.rate.full() {
            return u16::MAX;
        }
        u16::try_from(self.level / NANO).unwrap_or(u16::MAX)
    }

    /// When there is enough for `length` bytes: `now` if there is already.
    #[inline]
    fn ready_at(&mut self, length: u16, now: u64) -> u64 {
        let need = (u64::from(length) * NANO).min(self.rate.full());
        if self.refused.0 == length && now < self.refused.1 {
            return self.refused.1;
        }
        self.fill(now);
        if self.level >= need {
            return now;
        }
        let missing = u128::from(need - self.level) * 8;
        let wait = missing.div_ceil(u128::from(self.rate.bits));
        let wait = u64::try_from(wait).unwrap_or(u64::MAX);
        self.refused = (length, self.at.saturating_add(wait));
        self.refused.1
    }

    fn pay(&mut self, length: u16) {
        self.level = self.level.saturating_sub(u64::from(length) * NANO);
    }
}

/// Lets the inner policy choose among those clients whose bucket holds enough for their first frame.
///
/// Most decisions need only what is known about the buckets already, in one pass without a branch: the longest
/// frame that each is enough for. The other buckets are filled and checked one by one.
pub struct Limited {
    inner: Box<dyn Policy>,
    /// By client, [`Bucket::enough_for`]; a client without limit has enough for all frames.
    enough: [u16; CLIENTS],
    buckets: [Option<Bucket>; CLIENTS],
}

impl Limited {
    /// With these rates, client by client; `None` is no limit. Buckets begin full.
    #[must_use]
    pub fn new(inner: Box<dyn Policy>, rates: &[Option<Rate>]) -> Self {
        let mut buckets = [None; CLIENTS];
        for (place, rate) in buckets.iter_mut().zip(rates) {
            *place = rate.map(Bucket::full);
        }
        Self {
            inner,
            enough: [u16::MAX; CLIENTS],
            buckets,
        }
    }

    /// The clients whose bucket is known to be enough for their first frame.
    #[inline]
    fn known_to_have_enough(&self, backlog: &Backlog) -> u64 {
        let pairs = self.enough.iter().zip(backlog.lengths()).enumerate();
        pairs.fold(0, |mask, (client, (enough, length))| {
            mask | u64::from(length <= enough) << client
        })
    }
}

impl Policy for Limited {
    fn next(&mut self, backlog: &Backlog, now: u64) -> Turn {
        let mut allowed = backlog.mask() & self.known_to_have_enough(backlog);
        let mut soonest = u64::MAX;
        let mut rest = backlog.mask() & !allowed;
        while rest != 0 {
            let client = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            let Some(bucket) = &mut self.buckets[client] else {
                continue;
            };
            let ready = bucket.ready_at(backlog.length(client), now);
            if ready > now {
                soonest = soonest.min(ready);
            } else {
                self.enough[client] = bucket.enough_for();
                allowed |= 1 << client;
            }
        }
        if allowed == 0 {
            return if backlog.mask() == 0 {
                self.inner.next(backlog, now)
            } else {
                Turn::Wait(soonest)
            };
        }
        let permitted = backlog.only(allowed);
        let turn = self.inner.next(&permitted, now);
        if let Turn::Send(client) = turn
            && let Some(bucket) = &mut self.buckets[client]
        {
            bucket.pay(backlog.length(client));
            self.enough[client] = bucket.enough_for();
        }
        turn
    }
}

#[cfg(test)]
mod tests {
    use super::super::RoundRobin;
    use super::*;

    /// Sends as fast as the policy permits between two times; returns the bytes of each client.
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
            // The first second has the full bucket in addition.
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
