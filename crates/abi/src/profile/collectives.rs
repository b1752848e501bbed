//! Collectives of communicators, numbered in the order in which this rank calls them: so that a collective has the same
//! number on all members.

use weft_atomic::{AtomicU64, Ordering};

/// Communicators whose collectives are numbered, a power of two.
const CONTEXTS: usize = 256;

/// The number of the next collective of each communicator.
pub struct Collectives {
    /// Context + 1 and number, in a hash table by context; 0: free.
    slots: [AtomicU64; CONTEXTS],
}

impl Collectives {
    /// Without any communicator yet.
    pub const fn new() -> Self {
        Self {
            slots: [const { AtomicU64::new(0) }; CONTEXTS],
        }
    }

    /// The number of the next collective of a communicator, from 0; the largest one if there are too many communicators.
    pub fn next(&self, context: u32) -> u32 {
        let key = u64::from(context) + 1;
        let first = context.wrapping_mul(0x9e37_79b9) as usize >> 8;
        for step in 0..CONTEXTS {
            let slot = &self.slots[(first + step) % CONTEXTS];
            let mut found = slot.load(Ordering::Relaxed);
            if found == 0 {
                let taken =
                    slot.compare_exchange(0, key << 32, Ordering::Relaxed, Ordering::Relaxed);
                found = taken.err().unwrap_or(key << 32);
            }
            if found >> 32 == key {
                return slot.fetch_add(1, Ordering::Relaxed) as u32;
            }
        }
        u32::MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_communicator_counts_its_own_collectives() {
        let collectives = Collectives::new();
        for number in 0..3 {
            for context in 0..CONTEXTS as u32 {
                assert_eq!(collectives.next(context), number);
            }
        }
        assert_eq!(collectives.next(1000), u32::MAX, "there is no room for it");
        assert_eq!(collectives.next(7), 3);
    }
}
