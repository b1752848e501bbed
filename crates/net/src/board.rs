//! A page between one component and the broker: orders in one direction, counters in the other.
//!
//! ```text
//!   broker writes     changes │ stop │ generation of each port │ policy
//!   component writes  acknowledged │ processor time │ counters of each port
//! ```
//!
//! Everything is a 64-bit word, read and written one by one. A component looks at `changes` in each
//! step (SYNC board.changes: the broker's Release after its orders, the component's Acquire). Orders that
//! come with memory are [messages](crate::orders); they are sent before the page speaks of them.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};

use weft_atomic::{AtomicU64, Ordering};
use weft_sys::{Mapping, MemoryFile};

use crate::orders::{NewRegion, Orders, Received, Renewal};
use crate::policy::{CLIENTS, Choice, Order};

/// Most ports of a component: each client, and one towards the driver.
pub const PORTS: usize = CLIENTS + 1;

const CHANGES: usize = 0;
const STOP: usize = 1;
const ACKNOWLEDGED: usize = 2;
const TIME: usize = 3;
const GENERATION: usize = 8;
const POLICY: usize = GENERATION + PORTS + 7;
const WEIGHTS: usize = POLICY + 8;
const LEVELS: usize = WEIGHTS + CLIENTS;
const LIMITS: usize = LEVELS + CLIENTS;
const COUNTERS: usize = LIMITS + CLIENTS;
const EACH: usize = 8;
const WORDS: usize = (COUNTERS + PORTS * EACH).next_multiple_of(512);

/// What a component has counted at one of its ports.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Frames that went on.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Frames dropped because the next queue was full.
    pub full: u64,
    /// Frames dropped because no empty buffer was left.
    pub starved: u64,
    /// Frames dropped because nobody wanted them: an unknown address, too short.
    pub unknown: u64,
    /// Descriptors and indices that a peer should not have written.
    pub faults: u64,
    /// Buffers taken back from a peer that was replaced.
    pub reclaimed: u64,
}

impl Counters {
    fn words(&self) -> [u64; EACH] {
        [
            self.frames,
            self.bytes,
            self.full,
            self.starved,
            self.unknown,
            self.faults,
            self.reclaimed,
            0,
        ]
    }
}

/// The page, mapped.
#[derive(Clone)]
pub struct Board {
    memory: Arc<Mapping>,
    /// Why the component cannot go on: of this process alone.
    failure: Arc<OnceLock<io::Error>>,
}

/// Makes the page of a component.
///
/// # Errors
/// If the kernel refuses.
pub fn create(label: &str) -> io::Result<MemoryFile> {
    MemoryFile::create(label, WORDS * 8)
}

impl Board {
    /// Maps a page that was handed over.
    ///
    /// # Errors
    /// If it is no page of this version.
    pub fn adopt(descriptor: OwnedFd) -> io::Result<Self> {
        let file = MemoryFile::adopt(descriptor)?;
        if file.len() != WORDS * 8 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("a board has {} bytes, {} came", WORDS * 8, file.len()),
            ));
        }
        Ok(Self {
            memory: Arc::new(file.map()?),
            failure: Arc::default(),
        })
    }

    #[inline]
    fn word(&self, index: usize) -> &AtomicU64 {
        // Within, by the length checked in `adopt` and the indices of this file.
        self.memory
            .atomic_u64(index * 8)
            .unwrap_or_else(|| unreachable!("word {index} of a board of {WORDS}"))
    }

    fn set(&self, index: usize, value: u64) {
        self.word(index).store(value, Ordering::Relaxed);
    }

    fn get(&self, index: usize) -> u64 {
        self.word(index).load(Ordering::Relaxed)
    }

    /// How often orders have changed.
    #[inline]
    #[must_use]
    pub fn changes(&self) -> u64 {
        // Acquire: SYNC board.changes.
        self.word(CHANGES).load(Ordering::Acquire)
    }

    /// Broker: lets the component see the orders written before. Ring its bell after this.
    pub fn announce(&self) {
        // Release: SYNC board.changes.
        self.word(CHANGES).fetch_add(1, Ordering::Release);
    }

    /// Component: these changes have been followed.
    pub fn acknowledge(&self, changes: u64) {
        // Release: SYNC board.acknowledged: nothing of the old order is touched after this.
        self.word(ACKNOWLEDGED).store(changes, Ordering::Release);
    }

    /// Broker: the changes that the component has followed.
    #[must_use]
    pub fn acknowledged(&self) -> u64 {
        // Acquire: SYNC board.acknowledged.
        self.word(ACKNOWLEDGED).load(Ordering::Acquire)
    }

    /// Broker: the component shall end.
    pub fn stop(&self, stop: bool) {
        self.set(STOP, stop.into());
    }

    /// Whether the component shall end.
    #[must_use]
    pub fn stopped(&self) -> bool {
        self.get(STOP) != 0
    }

    /// Component: an order could not be followed. Its [`Runner`](crate::component::Runner) ends with this.
    pub fn fail(&self, error: io::Error) {
        // The first reason is the one.
        let _ = self.failure.set(error);
    }

    /// Why the component cannot go on, if it cannot.
    #[must_use]
    pub fn failure(&self) -> Option<&io::Error> {
        self.failure.get()
    }

    /// Generation of the channel at a port.
    #[must_use]
    pub fn generation(&self, port: usize) -> u32 {
        // Acquire: SYNC board.generation.
        self.word(GENERATION + port.min(PORTS - 1))
            .load(Ordering::Acquire) as u32
    }

    /// Broker: another generation of the channel at a port. What belongs to it has been sent before.
    pub fn set_generation(&self, port: usize, generation: u32) {
        // Release: SYNC board.generation: who sees it finds the message that came with it.
        self.word(GENERATION + port.min(PORTS - 1))
            .store(generation.into(), Ordering::Release);
    }

    /// Broker: the policy from now on.
    pub fn set_policy(&self, choice: &Choice) {
        self.set(POLICY + 1, choice.order as u64);
        self.set(POLICY + 2, choice.bound.into());
        for client in 0..CLIENTS {
            let weight = choice.weights.get(client).copied().unwrap_or(1);
            let level = choice.levels.get(client).copied().unwrap_or(0);
            self.set(WEIGHTS + client, weight.into());
            self.set(LEVELS + client, level.into());
            self.set(
                LIMITS + client,
                choice.limits.get(client).copied().unwrap_or(0),
            );
        }
        self.set(POLICY, self.get(POLICY) + 1);
    }

    /// How often the policy was changed, and the policy.
    #[must_use]
    pub fn policy(&self) -> (u64, Choice) {
        let order = match self.get(POLICY + 1) {
            0 => Order::Signalled,
            2 => Order::Weighted,
            3 => Order::Priority,
            _ => Order::RoundRobin,
        };
        let list = |start: usize| (0..CLIENTS).map(move |client| self.get(start + client));
        let choice = Choice {
            order,
            weights: list(WEIGHTS).map(|word| word as u32).collect(),
            levels: list(LEVELS).map(|word| word as u32).collect(),
            limits: list(LIMITS).collect(),
            bound: self.get(POLICY + 2) as u32,
        };
        (self.get(POLICY), choice)
    }

    /// Component: what was counted at a port.
    pub fn show(&self, port: usize, counters: &Counters) {
        for (place, value) in counters.words().into_iter().enumerate() {
            self.set(COUNTERS + port.min(PORTS - 1) * EACH + place, value);
        }
    }

    /// What was counted at a port.
    #[must_use]
    pub fn counters(&self, port: usize) -> Counters {
        let word = |place| self.get(COUNTERS + port.min(PORTS - 1) * EACH + place);
        Counters {
            frames: word(0),
            bytes: word(1),
            full: word(2),
            starved: word(3),
            unknown: word(4),
            faults: word(5),
            reclaimed: word(6),
        }
    }

    /// Component: processor time used, in nanoseconds.
    pub fn set_time(&self, nanoseconds: u64) {
        self.set(TIME, nanoseconds);
    }

    /// Processor time that the component has used, in nanoseconds.
    #[must_use]
    pub fn time(&self) -> u64 {
        self.get(TIME)
    }
}

/// A component's side of its board: what it has seen, what it has counted.
pub struct Station {
    board: Board,
    /// The port of the page at which its own port 0 stands.
    first: usize,
    seen: u64,
    generations: Vec<u32>,
    /// Where memory comes from; `None` for a component that is never given other memory.
    orders: Option<Orders>,
    /// Regions that came and were not asked for yet.
    regions: Vec<NewRegion>,
    /// By port.
    pub counters: Vec<Counters>,
    shown: Vec<Counters>,
}

impl Station {
    /// Of a component whose ports are of these generations.
    #[must_use]
    pub fn new(board: Board, generations: Vec<u32>, orders: Option<Orders>) -> Self {
        Self::at(board, 0, generations, orders)
    }

    /// Of a component whose ports are those of the page from `first` on.
    #[must_use]
    pub fn at(board: Board, first: usize, generations: Vec<u32>, orders: Option<Orders>) -> Self {
        let places = first..first + generations.len();
        // Counters go on where a predecessor was when it died.
        let counters: Vec<Counters> = places.map(|port| board.counters(port)).collect();
        Self {
            // What was ordered since the generations were granted is looked for in the first step.
            seen: board.changes().wrapping_sub(1),
            generations,
            first,
            orders,
            regions: Vec::new(),
            shown: counters.clone(),
            counters,
            board,
        }
    }

    /// The page.
    #[must_use]
    pub fn board(&self) -> &Board {
        &self.board
    }

    /// Whether orders have changed since they were last followed.
    #[inline]
    #[must_use]
    pub fn is_changed(&self) -> bool {
        self.board.changes() != self.seen
    }

    /// The ports whose channel has changed, each with what it is now; to be called when
    /// [`is_changed`](Self::is_changed), and [`followed`](Self::followed) after it.
    ///
    /// # Errors
    /// If what came with an order is not what it should be: this component cannot go on.
    pub fn renewals(&mut self) -> io::Result<Vec<Renewal>> {
        // The page first: what came with the generations that stand there was sent before.
        let mut renewals: Vec<Renewal> = (0..self.generations.len())
            .map(|port| Renewal::new(port, self.board.generation(self.first + port)))
            .collect();
        for received in self.orders.iter_mut().flat_map(Orders::take) {
            match received? {
                Received::Channel(port, channel) => {
                    // A successor finds what was sent before it was granted the same or newer.
                    if let Some(renewal) = renewals.get_mut(port)
                        && channel.is_newer_than(self.generations[port])
                    {
                        renewal.replace(channel);
                    }
                }
                Received::Region(region) => self.regions.push(region),
            }
        }
        renewals.retain(|renewal| {
            let known = &mut self.generations[renewal.port];
            std::mem::replace(known, renewal.generation) != renewal.generation
        });
        Ok(renewals)
    }

    /// Regions in the place of others, which came along with the last [`renewals`](Self::renewals).
    pub fn regions(&mut self) -> Vec<NewRegion> {
        std::mem::take(&mut self.regions)
    }

    /// The orders have been followed, as of `changes` read before.
    ///
    /// Not if one of them could not be: nobody must believe that the old memory is let go of.
    pub fn followed(&mut self, changes: u64, result: io::Result<()>) {
        self.seen = changes;
        if let Err(error) = result {
            self.board.fail(error);
        }
        if self.board.failure().is_none() {
            self.board.acknowledge(changes);
        }
    }

    /// Shows what was counted, where it differs from what is shown.
    #[inline]
    pub fn show(&mut self) {
        for (port, counters) in self.counters.iter().enumerate() {
            if self.shown[port] != *counters {
                self.board.show(self.first + port, counters);
                self.shown[port] = *counters;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_and_counters_pass() {
        let file = create("weft-test").expect("memory files exist here");
        let descriptor = file
            .share()
            .expect("descriptors are left")
            .into_descriptor();
        let broker = Board::adopt(file.into_descriptor()).expect("maps");
        let board = Board::adopt(descriptor).expect("maps");
        let mut station = Station::new(board, vec![0; PORTS], None);
        assert!(station.is_changed(), "a successor looks at once");
        let changes = station.board().changes();
        assert!(station.renewals().expect("no message").is_empty());
        station.followed(changes, Ok(()));
        assert!(!station.is_changed());
        let choice = Choice {
            order: Order::Weighted,
            weights: (0..64).map(|client| client + 1).collect(),
            levels: vec![3; 64],
            limits: vec![1_000_000_000_000; 64],
            bound: 7,
        };
        broker.set_policy(&choice);
        broker.set_generation(PORTS - 1, 9);
        broker.announce();
        assert!(station.is_changed());
        let changes = station.board().changes();
        let renewals = station.renewals().expect("no message");
        assert_eq!(renewals.len(), 1);
        assert_eq!((renewals[0].port, renewals[0].generation), (PORTS - 1, 9));
        assert_eq!(station.board().policy(), (1, choice));
        assert_ne!(broker.acknowledged(), broker.changes());
        station.followed(changes, Ok(()));
        assert_eq!(broker.acknowledged(), broker.changes());
        broker.announce();
        let failed = Err(io::Error::other("no memory"));
        station.followed(broker.changes(), failed);
        assert_ne!(broker.acknowledged(), broker.changes(), "it failed");
        assert!(station.board().failure().is_some());
        station.counters[PORTS - 1].bytes = 77;
        station.show();
        assert_eq!(broker.counters(PORTS - 1).bytes, 77);
        assert_eq!(broker.counters(0), Counters::default());
    }
}
