//! Control page: one page shared by a component and the broker, with orders in one direction and counters in
//! the other.
//!
//! ```text
//!   broker writes     changes │ stop │ generation of each port │ policy
//!   component writes  acknowledged │ processor time │ counters of each port
//! ```
//!
//! Everything is a 64-bit word, read and written one by one. A component looks at `changes` in each step
//! (SYNC control.changes: the broker's Release after its orders, the component's Acquire). Orders with memory
//! are [messages](super::orders); they are sent before the page mentions them.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};

use weft_atomic::{AtomicU64, Ordering};
use weft_sys::{Mapping, MemoryFile};

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

/// The counts of a component at one of its ports.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Frames that were passed on.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Frames dropped because the next queue was full.
    pub full: u64,
    /// Frames dropped because no empty buffer was left.
    pub starved: u64,
    /// Frames dropped as undeliverable: an unknown address, too short.
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
pub struct ControlPage {
    memory: Arc<Mapping>,
    /// Why the component cannot continue; known only in this process.
    failure: Arc<OnceLock<io::Error>>,
}

impl ControlPage {
    /// Makes the memory of a page, all zeros.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn create(label: &str) -> io::Result<MemoryFile> {
        MemoryFile::create(label, WORDS * 8)
    }

    /// Maps a page that was handed over.
    ///
    /// # Errors
    /// If it is not a page of this version.
    pub fn adopt(descriptor: OwnedFd) -> io::Result<Self> {
        let file = MemoryFile::adopt(descriptor)?;
        if file.len() != WORDS * 8 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!(
                    "a control page has {} bytes, {} came",
                    WORDS * 8,
                    file.len()
                ),
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
            .unwrap_or_else(|| unreachable!("word {index} of a control page of {WORDS}"))
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
        // Acquire: SYNC control.changes.
        self.word(CHANGES).load(Ordering::Acquire)
    }

    /// Broker: makes the orders written before visible to the component. Its event must be notified after
    /// this.
    pub fn announce(&self) {
        // Release: SYNC control.changes.
        self.word(CHANGES).fetch_add(1, Ordering::Release);
    }

    /// Component: acknowledges that these changes have been followed.
    pub fn acknowledge(&self, changes: u64) {
        // Release: SYNC control.acknowledged: nothing of the old state is touched after this.
        self.word(ACKNOWLEDGED).store(changes, Ordering::Release);
    }

    /// Broker: the changes that the component has followed.
    #[must_use]
    pub fn acknowledged(&self) -> u64 {
        // Acquire: SYNC control.acknowledged.
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

    /// Component: an order could not be followed. Its [`Runner`](crate::runner::Runner) ends with this.
    pub fn fail(&self, error: io::Error) {
        // The first reason counts.
        let _ = self.failure.set(error);
    }

    /// Why the component cannot continue, if it cannot.
    #[must_use]
    pub fn failure(&self) -> Option<&io::Error> {
        self.failure.get()
    }

    /// Generation of the channel at a port.
    #[must_use]
    pub fn generation(&self, port: usize) -> u32 {
        // Acquire: SYNC control.generation.
        self.word(GENERATION + port.min(PORTS - 1))
            .load(Ordering::Acquire) as u32
    }

    /// Broker: sets the generation of the channel at a port. The message that belongs to it has been sent
    /// before.
    pub fn set_generation(&self, port: usize, generation: u32) {
        // Release: SYNC control.generation: a component that sees it finds the message that belongs to it.
        self.word(GENERATION + port.min(PORTS - 1))
            .store(generation.into(), Ordering::Release);
    }

    /// Broker: sets the policy.
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
        // Release: SYNC control.policy: a component that sees this version finds its policy, or a newer one.
        self.word(POLICY).fetch_add(1, Ordering::Release);
    }

    /// How often the policy was changed. To be read before [`policy`](Self::policy): a change that comes in
    /// between is then found by its version later.
    #[must_use]
    pub fn policy_version(&self) -> u64 {
        // Acquire: SYNC control.policy.
        self.word(POLICY).load(Ordering::Acquire)
    }

    /// The policy.
    #[must_use]
    pub fn policy(&self) -> Choice {
        let order = match self.get(POLICY + 1) {
            0 => Order::Signalled,
            2 => Order::Weighted,
            3 => Order::Priority,
            _ => Order::RoundRobin,
        };
        let list = |start: usize| (0..CLIENTS).map(move |client| self.get(start + client));
        Choice {
            order,
            weights: list(WEIGHTS).map(|word| word as u32).collect(),
            levels: list(LEVELS).map(|word| word as u32).collect(),
            limits: list(LIMITS).collect(),
            bound: self.get(POLICY + 2) as u32,
        }
    }

    /// Component: what was counted at a port.
    pub fn show(&self, port: usize, counters: &Counters) {
        for (index, value) in counters.words().into_iter().enumerate() {
            self.set(COUNTERS + port.min(PORTS - 1) * EACH + index, value);
        }
    }

    /// The counts at a port.
    #[must_use]
    pub fn counters(&self, port: usize) -> Counters {
        let word = |index| self.get(COUNTERS + port.min(PORTS - 1) * EACH + index);
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
