//! Eviction policy: which unauthenticated connection is closed when too many wait.
//!
//! A stranger without the key can connect faster than members do, and need not send anything. The stages that
//! a connection reaches distinguish the two:
//!
//! ```text
//!   accepted ─► silent ── the whole first message ──► answered ── confirmation ──► a member
//!               at most SILENT                        as many as members may call
//! ```
//!
//! An *answered* connection has sent what only a member can send first (or has repeated it); no number of
//! silent ones takes its place. A member is *silent* only until its first message arrives, which it sends as
//! soon as it is connected. When there are too many of a kind, one of the older half goes: among those of the
//! [`Source`] that has most connections in that half, one drawn at random.
//!
//! # What is guaranteed
//! * Each connection stays until [`SILENT`]` / 2` more have come after it: at 10,000 a second for 12.8 ms. The
//!   accepting side reads what has arrived on a connection before it closes it: the first message counts from
//!   its arrival, not from when it is read.
//! * After that, a member stays as long as another source has more connections in the older half.
//! * Otherwise chance decides. If the oldest always went, a fast enough flood would evict every member; this
//!   way members that call again get in.

use std::net::IpAddr;

use weft_sys::random::SeededRandom;

/// Most connections that have not said their first message.
pub const SILENT: usize = 256;

/// Where a connection comes from, in terms that its owner cannot choose: an IPv4 address, or an IPv6 network
/// (64 bits of the address).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Source(u64);

impl Source {
    /// This host, where connections have no address.
    pub const LOCAL: Self = Self(0);

    /// The source that an address belongs to.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self(u64::from(address.to_bits())),
            // Only this host's own network begins with 64 zeros.
            IpAddr::V6(address) => Self((address.to_bits() >> 64) as u64),
        }
    }
}

/// Chooses which connection is closed, by random draws that nobody can foresee.
#[derive(Debug)]
pub struct EvictionPolicy {
    random: SeededRandom,
}

impl EvictionPolicy {
    /// Seeded by the kernel's generator.
    #[must_use]
    pub fn new() -> Self {
        // Without random bytes nobody can prove a key either, so any seed will do.
        let seed = weft_sys::random::bytes().map_or(1, u64::from_ne_bytes);
        Self::seeded(seed)
    }

    /// Seeded by this number, for tests: the same draws each time.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self {
            random: SeededRandom::new(seed),
        }
    }

    /// Chooses which of these connections is closed; they are given as number and source, oldest first.
    /// `None` if there is none.
    pub fn victim<I: Copy>(&mut self, waiting: &[(I, Source)]) -> Option<I> {
        let older = &waiting[..waiting.len().div_ceil(2)];
        let mut sources: Vec<Source> = older.iter().map(|(_, source)| *source).collect();
        sources.sort_unstable();
        let shares = || sources.chunk_by(|one, other| one == other);
        let most = shares().map(<[Source]>::len).max()?;
        let heaviest: Vec<Source> = shares()
            .filter(|share| share.len() == most)
            .map(|share| share[0])
            .collect();
        let of_them = |one: &&(I, Source)| heaviest.binary_search(&one.1).is_ok();
        let drawn: Vec<I> = older.iter().filter(of_them).map(|one| one.0).collect();
        let last = drawn.len().checked_sub(1)?;
        drawn.get(self.random.up_to(last as u64) as usize).copied()
    }
}

impl Default for EvictionPolicy {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn host(number: u32) -> Source {
        Source::of(IpAddr::V4(Ipv4Addr::from_bits(0x0A00_0000 + number)))
    }

    #[test]
    fn addresses_that_one_owner_has_are_one_source() {
        let v6 = |text: &str| Source::of(text.parse::<Ipv6Addr>().expect("an address").into());
        assert_eq!(v6("fd00:1::1"), v6("fd00:1::ffff:1"));
        assert_ne!(v6("fd00:1::1"), v6("fd00:1:0:1::1"));
        assert_eq!(v6("::ffff:10.0.0.7"), host(7));
        assert_ne!(host(7), host(8));
    }

    #[test]
    fn one_of_the_older_half_from_the_heaviest_source_goes() {
        let mut policy = EvictionPolicy::seeded(7);
        assert_eq!(policy.victim::<usize>(&[]), None);
        let mut seen = [0; 12];
        // 0 and 1 are alone in their sources; of the others, which share one source, 2 to 5 are in the older
        // half.
        let waiting: Vec<_> = (0..12)
            .map(|number| (number, host((number as u32).min(2))))
            .collect();
        for _ in 0..1000 {
            seen[policy.victim(&waiting).expect("there are some")] += 1;
        }
        assert!(seen[2..6].iter().all(|count| *count > 100), "{seen:?}");
        assert_eq!(seen[2..6].iter().sum::<u32>(), 1000);
        // All alone: any of the older half.
        let waiting: Vec<_> = (0..12)
            .map(|number| (number, host(number as u32)))
            .collect();
        let victims: Vec<_> = (0..1000).filter_map(|_| policy.victim(&waiting)).collect();
        assert!((0..6).all(|number| victims.contains(&number)));
        assert!(victims.iter().all(|number| *number < 6));
    }

    /// A connection in the model; times in microseconds.
    #[derive(Clone, Copy)]
    struct Connection {
        number: usize,
        source: Source,
        /// When the first message of a member comes; `None`: never.
        speaks: Option<u64>,
    }

    /// 10,000 connections of non-members a second for a second, from `hosts` hosts, and every 7 ms a member from host 0,
    /// which sends its first message `delay` after it was accepted. Returns how many of the members were closed.
    fn flood(seed: u64, hosts: u32, delay: u64) -> usize {
        let mut policy = EvictionPolicy::seeded(seed);
        let mut silent: Vec<Connection> = Vec::new();
        let mut lost = 0;
        for step in 0..10_000 {
            let now = step * 100;
            silent.retain(|guest| guest.speaks.is_none_or(|when| when > now));
            let intruder = Connection {
                number: 2 * step as usize,
                source: host(step as u32 % hosts),
                speaks: None,
            };
            let member = Connection {
                number: intruder.number + 1,
                source: host(0),
                speaks: Some(now + delay),
            };
            let comes = step % 70 == 0;
            for guest in [Some(intruder), comes.then_some(member)]
                .into_iter()
                .flatten()
            {
                if silent.len() == SILENT {
                    let waiting: Vec<_> =
                        silent.iter().map(|one| (one.number, one.source)).collect();
                    let victim = policy.victim(&waiting).expect("there are many");
                    silent.retain(|one| one.number != victim);
                    lost += victim % 2;
                }
                silent.push(guest);
            }
        }
        lost
    }

    /// The bound of the page, for any seed: at 10,000 connections a second, no member that speaks within 12
    /// ms goes.
    #[test]
    fn a_member_that_speaks_in_time_outlasts_any_flood() {
        for seed in 0..5 {
            for hosts in [1, 2, 1000] {
                for delay in [0, 6000, 12_000] {
                    let lost = flood(seed, hosts, delay);
                    assert_eq!(lost, 0, "seed {seed}, {hosts} hosts, {delay} µs");
                }
            }
        }
    }

    /// After that, chance decides, and not against all: a member that calls again gets in.
    #[test]
    fn a_member_that_is_later_has_a_chance() {
        const MEMBERS: usize = 10_000 / 70;
        let lost: usize = (0..5).map(|seed| flood(seed, 1, 20_000)).sum();
        let all = 5 * MEMBERS;
        assert!(lost > all / 5 && lost < all * 4 / 5, "{lost} of {all}");
    }
}
