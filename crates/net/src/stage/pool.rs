//! Pool: the buffers of a region, seen by their owner: those at hand, and which parties have the others.

use crate::queue::{Descriptor, Fault, Ledger};

/// The owner's view of a region.
pub struct Pool {
    ledger: Ledger,
    spare: Vec<u32>,
}

impl Pool {
    /// A pool of `count` buffers of `size` bytes each, all at hand.
    #[must_use]
    pub fn new(count: u32, size: u32) -> Self {
        Self {
            ledger: Ledger::new(count, size),
            spare: (0..count).rev().map(|slot| slot * size).collect(),
        }
    }

    /// Takes a buffer to fill.
    #[inline]
    pub fn take(&mut self) -> Option<u32> {
        self.spare.pop()
    }

    /// Puts a taken buffer back unused.
    #[inline]
    pub fn put(&mut self, offset: u32) {
        self.spare.push(offset);
    }

    /// Whether no buffer is at hand.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.spare.is_empty()
    }

    /// Notes that a taken buffer now is with a party.
    ///
    /// # Errors
    /// If the party has it already, or it is not ours.
    #[inline]
    pub fn give(&mut self, descriptor: Descriptor, party: u32) -> Result<(), Fault> {
        self.ledger.give(descriptor, party).map(drop)
    }

    /// Takes a buffer back from a party.
    ///
    /// # Errors
    /// If the party did not have it: then nothing changes.
    #[inline]
    pub fn take_back(&mut self, descriptor: Descriptor, party: u32) -> Result<(), Fault> {
        if self.ledger.take_back(descriptor, party)? {
            self.spare.push(descriptor.offset);
        }
        Ok(())
    }

    /// Takes everything back from a party that was replaced; returns how many buffers became free.
    pub fn reclaim(&mut self, party: u32) -> u64 {
        let before = self.spare.len();
        let spare = &mut self.spare;
        self.ledger.reclaim(party, |offset| spare.push(offset));
        (self.spare.len() - before) as u64
    }

    /// How many buffers a party has.
    #[must_use]
    pub fn held_by(&self, party: u32) -> u32 {
        self.ledger.held_by(party)
    }
}
