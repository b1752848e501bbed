//! Pool and worker caches: each worker has a loaded and a previous magazine over the common depot.

use std::sync::PoisonError;

#[cfg(loom)]
use loom::sync::{Mutex, MutexGuard};
#[cfg(not(loom))]
use std::sync::{Mutex, MutexGuard};

use weft_atomic::{Arc, CacheLine};

use crate::depot::Depot;
use crate::packet::{Home, Packet};

/// Packets of a magazine: large enough that the depot is touched rarely (each exchange moves a line or two
/// between cores, about 100 ns, hence 3 ns a packet), small enough that few packets are idle.
const MAGAZINE: usize = 32;

/// Places of the depot for parts of magazines.
const PARTS: usize = if cfg!(loom) { 2 } else { 64 };

/// A private stack of packets. Never grows beyond the room it was made with.
type Magazine = Vec<Packet>;

/// A worker's second magazine: its own, but reachable for others that have nothing else. A lock suffices,
/// because its owner comes once in a magazine's worth of calls, and others hardly ever.
type PreviousMagazine = CacheLine<Mutex<Magazine>>;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nobody panics between two states of a magazine.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Shared {
    depot: Depot<Magazine>,
    /// The previous magazines of all workers.
    previous: Mutex<Vec<Arc<PreviousMagazine>>>,
    home: Arc<Home>,
    magazine: usize,
}

/// Packets of one size, for any number of workers. A clone is the same pool.
#[derive(Clone)]
pub struct Pool {
    shared: Arc<Shared>,
}

impl Pool {
    /// A pool of at most `count` packets of at least `packet_size` bytes (rounded up to whole cache
    /// lines). Takes no memory for packets yet.
    #[must_use]
    pub fn new(packet_size: usize, count: usize) -> Self {
        // A small pool has small magazines, or one worker would hold all of it.
        let magazine = (count / 8).clamp(1, MAGAZINE);
        // There are at most `count / magazine` full ones; workers that end leave parts of magazines.
        let slots = count / magazine + PARTS;
        Self {
            shared: Arc::new(Shared {
                depot: Depot::new(u32::try_from(slots).unwrap_or(u32::MAX)),
                previous: Mutex::new(Vec::new()),
                home: Arc::new(Home::new(packet_size, count)),
                magazine,
            }),
        }
    }

    /// Bytes of a packet.
    #[must_use]
    pub fn packet_size(&self) -> usize {
        self.shared.home.size()
    }

    /// A worker's part. Make one for each thread (or fiber scheduler) that uses packets.
    #[must_use]
    pub fn local(&self) -> Local {
        let full = self.shared.magazine;
        let previous = Arc::new(CacheLine(Mutex::new(Vec::with_capacity(full))));
        locked(&self.shared.previous).push(previous.clone());
        Local {
            shared: self.shared.clone(),
            full,
            loaded: Vec::with_capacity(full),
            previous,
        }
    }

    /// How many packets one worker may hold unused, out of reach of the others.
    #[must_use]
    pub fn idle_share(&self) -> usize {
        self.shared.magazine
    }

    /// How many packets could still be made, besides those that exist.
    #[must_use]
    pub fn unmade(&self) -> usize {
        self.shared.home.unmade()
    }
}

impl core::fmt::Debug for Pool {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(
            out,
            "Pool(packets of {} bytes, {} not made yet)",
            self.packet_size(),
            self.unmade()
        )
    }
}

/// A worker's part of a pool.
pub struct Local {
    shared: Arc<Shared>,
    /// Packets of a full magazine; a copy, for the hot path.
    full: usize,
    /// Where the next packet comes from and goes to.
    loaded: Magazine,
    /// The second magazine: in steady use full or empty.
    previous: Arc<PreviousMagazine>,
}

impl Local {
    /// A packet, with whatever its last user left in it; `None` if all are in use.
    #[inline]
    pub fn get(&mut self) -> Option<Packet> {
        match self.loaded.pop() {
            Some(packet) => Some(packet),
            None => self.refill(),
        }
    }

    /// Gives a packet back. One of another pool is freed instead.
    #[inline]
    pub fn give_back(&mut self, packet: Packet) {
        if !packet.is_of(&self.shared.home) {
            return;
        }
        if self.loaded.len() >= self.full {
            self.make_room();
        }
        self.loaded.push(packet);
    }

    /// Bytes of a packet.
    #[must_use]
    pub fn packet_size(&self) -> usize {
        self.shared.home.size()
    }

    /// The loaded magazine is empty: takes from the previous one, the depot, a new packet, or the previous
    /// magazine of another worker, in this order.
    #[cold]
    fn refill(&mut self) -> Option<Packet> {
        core::mem::swap(&mut self.loaded, &mut *locked(&self.previous));
        if self.loaded.is_empty() && !self.shared.depot.take(&mut self.loaded) {
            // One at a time, so that no packet is made before somebody needs it.
            if let Some(packet) = Packet::make(&self.shared.home) {
                return Some(packet);
            }
            self.steal();
        }
        self.loaded.pop()
    }

    /// Takes the previous magazine of the first worker that has packets in it.
    fn steal(&mut self) {
        for previous in locked(&self.shared.previous).iter() {
            // A locked one is being emptied or filled by its owner, and reaches others by the depot.
            if let Ok(mut magazine) = previous.try_lock()
                && !magazine.is_empty()
            {
                core::mem::swap(&mut self.loaded, &mut *magazine);
                return;
            }
        }
    }

    /// The loaded magazine is full: it becomes the previous one, which goes to the depot if it is full, too.
    #[cold]
    fn make_room(&mut self) {
        core::mem::swap(&mut self.loaded, &mut *locked(&self.previous));
        if self.loaded.len() >= self.full && !self.shared.depot.put(&mut self.loaded) {
            // No room, because workers that ended left many parts: these packets are freed, and made
            // again when needed.
            self.loaded.clear();
        }
        // Allocates only until each magazine of the pool has been used once.
        self.loaded.reserve_exact(self.full - self.loaded.len());
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        locked(&self.shared.previous).retain(|other| !Arc::ptr_eq(other, &self.previous));
        for magazine in [&mut self.loaded, &mut *locked(&self.previous)] {
            if !magazine.is_empty() {
                // A magazine that does not fit is freed here, and its places can be reused.
                let _ = self.shared.depot.put(magazine);
            }
        }
    }
}

impl core::fmt::Debug for Local {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(
            out,
            "Local({} packets)",
            self.loaded.len() + locked(&self.previous).len()
        )
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_pool_holds_what_it_says() {
        let pool = Pool::new(100, 20);
        assert_eq!((pool.packet_size(), pool.unmade()), (128, 20));
        let mut local = pool.local();
        let mut held: Vec<_> = std::iter::from_fn(|| local.get()).collect();
        assert_eq!((held.len(), pool.unmade()), (20, 0));
        for (index, packet) in held.iter_mut().enumerate() {
            assert_eq!(packet.len(), 128);
            assert!(packet.as_ptr().addr().is_multiple_of(64));
            packet.fill(index as u8);
        }
        for (index, packet) in held.iter().enumerate() {
            assert!(packet.iter().all(|&byte| byte == index as u8));
        }
        for packet in held {
            local.give_back(packet);
        }
        let again: Vec<_> = std::iter::from_fn(|| local.get()).collect();
        assert_eq!((again.len(), pool.unmade()), (20, 0));
        drop(again);
        assert_eq!(pool.unmade(), 20, "dropped packets leave their places");
    }

    #[test]
    fn an_impossible_size_makes_an_empty_pool() {
        assert!(Pool::new(usize::MAX, 3).local().get().is_none());
        assert_eq!(
            Pool::new(0, 1).local().get().map(|packet| packet.len()),
            Some(64)
        );
    }

    #[test]
    fn a_worker_that_ends_leaves_its_packets() {
        let pool = Pool::new(64, 5);
        let mut first = pool.local();
        let mut held: Vec<_> = std::iter::from_fn(|| first.get()).collect();
        held[0][0] = 42;
        for packet in held {
            first.give_back(packet);
        }
        drop(first);
        let mut second = pool.local();
        let held: Vec<_> = std::iter::from_fn(|| second.get()).collect();
        assert_eq!(held.len(), 5);
        assert_eq!(
            held.iter().map(|packet| packet[0]).max(),
            Some(42),
            "not new"
        );
    }

    #[test]
    fn a_previous_magazine_can_be_taken_by_others() {
        let pool = Pool::new(64, 64);
        let (mut idle, mut busy) = (pool.local(), pool.local());
        let held: Vec<_> = std::iter::from_fn(|| idle.get()).collect();
        held.into_iter().for_each(|packet| idle.give_back(packet));
        let all: Vec<_> = std::iter::from_fn(|| busy.get()).collect();
        // All packets except those in the idle worker's loaded magazine.
        assert!(all.len() >= 64 - pool.idle_share(), "{}", all.len());
        let rest: Vec<_> = std::iter::from_fn(|| idle.get()).collect();
        assert_eq!(all.len() + rest.len(), 64);
        all.into_iter().for_each(|packet| busy.give_back(packet));
        drop((idle, busy, rest));
        let mut last = pool.local();
        let all: Vec<_> = std::iter::from_fn(|| last.get()).collect();
        assert_eq!(all.len(), 64);
    }

    #[test]
    fn a_foreign_packet_is_freed_at_home() {
        let (one, two) = (Pool::new(64, 1), Pool::new(64, 1));
        let (mut here, mut there) = (one.local(), two.local());
        there.give_back(here.get().expect("one is left"));
        assert_eq!((one.unmade(), two.unmade()), (1, 1));
    }

    #[test]
    fn packets_that_another_gives_back_come_home() {
        let rounds = if cfg!(miri) { 60 } else { 50_000 };
        let pool = Pool::new(64, 256);
        let (mut out, mut back) = weft_atomic::ring::ring::<Packet>(64);
        let giver = {
            let mut local = pool.local();
            std::thread::spawn(move || {
                for expected in 0..rounds {
                    let packet = loop {
                        match back.pop() {
                            Some(packet) => break packet,
                            None => std::thread::yield_now(),
                        }
                    };
                    let bytes: [u8; 4] = packet[..4].try_into().expect("four");
                    assert_eq!(u32::from_le_bytes(bytes), expected);
                    local.give_back(packet);
                }
            })
        };
        let mut local = pool.local();
        for round in 0..rounds {
            let mut packet = loop {
                match local.get() {
                    Some(packet) => break packet,
                    None => std::thread::yield_now(),
                }
            };
            packet[..4].copy_from_slice(&round.to_le_bytes());
            while let Err(full) = out.push(packet) {
                packet = full;
                std::thread::yield_now();
            }
        }
        giver.join().expect("no panic");
        drop(local);
        let mut local = pool.local();
        let all: Vec<_> = std::iter::from_fn(|| local.get()).collect();
        assert_eq!(all.len(), 256, "none is lost");
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;

    /// The contents of all packets that a worker can get.
    fn drain(local: &mut Local) -> Vec<u8> {
        // All are held until the end: the place of a dropped one would be used for a new one.
        let all: Vec<_> = std::iter::from_fn(|| local.get()).collect();
        all.iter().map(|packet| packet[0]).collect()
    }

    fn bounded(model: impl Fn() + Send + Sync + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(2);
        // Each execution makes packets and searches the depot.
        builder.max_branches = 20_000;
        builder.check(model);
    }

    /// The owner has packets in both magazines and takes them all, while another, which finds
    /// nothing else, takes the previous magazine.
    #[test]
    fn a_previous_magazine_is_emptied_by_its_owner_or_by_another() {
        bounded(|| {
            let pool = Pool::new(64, 2);
            let mut owner = pool.local();
            let held: Vec<_> = (0..2)
                .map(|number| {
                    let mut packet = owner.get().expect("two are left");
                    packet[0] = number;
                    packet
                })
                .collect();
            // Magazines of one: one packet loaded, one in the previous.
            held.into_iter().for_each(|packet| owner.give_back(packet));
            let other = {
                let pool = pool.clone();
                loom::thread::spawn(move || {
                    let mut local = pool.local();
                    let taken = local.get();
                    let number = taken.as_ref().map(|packet| packet[0]);
                    taken.into_iter().for_each(|packet| local.give_back(packet));
                    number
                })
            };
            let mine = [owner.get(), owner.get()];
            let mut seen: Vec<u8> = mine.iter().flatten().map(|packet| packet[0]).collect();
            assert!(
                !seen.is_empty(),
                "the loaded magazine is out of the other's reach"
            );
            mine.into_iter()
                .flatten()
                .for_each(|packet| owner.give_back(packet));
            other.join().unwrap();
            // The other thread gave back what it took, and left it when it ended.
            seen = drain(&mut owner);
            seen.sort_unstable();
            assert_eq!(seen, [0, 1], "none is lost or doubled");
        });
    }

    /// The owner fills its previous magazine and sends what was there to the depot, while another takes from both.
    #[test]
    fn what_goes_over_a_previous_magazine_arrives_once() {
        bounded(|| {
            let pool = Pool::new(64, 3);
            let mut owner = pool.local();
            let held: Vec<_> = (0..3)
                .map(|number| {
                    let mut packet = owner.get().expect("three are left");
                    packet[0] = number;
                    packet
                })
                .collect();
            let other = {
                let mut local = pool.local();
                loom::thread::spawn(move || {
                    let taken = local.get();
                    (taken.as_ref().map(|packet| packet[0]), taken)
                })
            };
            held.into_iter().for_each(|packet| owner.give_back(packet));
            let (number, taken) = other.join().unwrap();
            let mut seen = drain(&mut owner);
            seen.extend(number);
            drop(taken);
            seen.sort_unstable();
            assert_eq!(seen, [0, 1, 2], "none is lost or doubled");
        });
    }
}
