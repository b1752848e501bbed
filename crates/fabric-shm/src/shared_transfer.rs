//! Shared transfer: the blocks of one large transfer, claimed one at a time by its two ends. What the blocks are,
//! and when two ends move them, stands in `portal/assist.rs`.
//!
//! ```text
//!   claim   63 … 32  ticket: names the transfer      written by the origin, swapped by both
//!           31 …  0  next block; u32::MAX: closed
//!   done    63       a block could not be moved      added to by the helper
//!           62 …  0  blocks that the helper has moved
//! ```
//!
//! The origin opens and closes it; both claim by compare-and-swap on {ticket, next block}; a helper that comes late
//! finds another ticket, or no block. So each block is claimed once.
//!
//! # Ordering
//! * SYNC assist.open: `claim` is stored with Release, swapped with Acquire.
//! * SYNC assist.done: `done` is added to with Release after the bytes, loaded with Acquire.

use weft_atomic::{AtomicU64, Ordering};

/// In `done`: a block could not be moved.
const FAILED: u64 = 1 << 63;

/// The blocks of one large transfer. See the [module page](self).
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct SharedTransfer {
    claim: AtomicU64,
    done: AtomicU64,
}

impl SharedTransfer {
    /// The origin: begins the transfer `ticket`. No block is claimed.
    pub fn open(&self, ticket: u32) {
        self.done.store(0, Ordering::Relaxed);
        // SYNC assist.open.
        self.claim.store(u64::from(ticket) << 32, Ordering::Release);
    }

    /// Both: the next block of the transfer `ticket`, below `blocks`; `None` if there is none.
    pub fn claim(&self, ticket: u32, blocks: u32) -> Option<u32> {
        let mut seen = self.claim.load(Ordering::Relaxed);
        loop {
            let next = seen as u32;
            if (seen >> 32) as u32 != ticket || next >= blocks {
                return None;
            }
            // SYNC assist.open.
            match self.claim.compare_exchange_weak(
                seen,
                seen + 1,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Some(next),
                Err(other) => seen = other,
            }
        }
    }

    /// The origin: nobody claims any more; answers how many blocks were claimed.
    pub fn close(&self, ticket: u32, blocks: u32) -> u32 {
        let closed = u64::from(ticket) << 32 | u64::from(u32::MAX);
        (self.claim.swap(closed, Ordering::AcqRel) as u32).min(blocks)
    }

    /// The helper: a block that it claimed was moved, or could not be.
    pub fn complete_block(&self, moved: bool) {
        if !moved {
            self.done.fetch_or(FAILED, Ordering::Relaxed);
        }
        // SYNC assist.done.
        self.done.fetch_add(1, Ordering::Release);
    }

    /// The origin: whether the helper has completed so many blocks.
    pub fn has_completed(&self, blocks: u64) -> bool {
        // SYNC assist.done.
        self.done.load(Ordering::Acquire) & !FAILED >= blocks
    }

    /// The origin: whether the helper could not move one of its blocks.
    pub fn has_failed(&self) -> bool {
        // SYNC assist.done.
        self.done.load(Ordering::Acquire) & FAILED != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_block_is_claimed_once_and_late_helpers_get_none() {
        let shared = SharedTransfer::default();
        shared.open(7);
        assert_eq!(shared.claim(6, 10), None, "another transfer");
        let claimed: Vec<u32> = std::thread::scope(|scope| {
            let claimer = || {
                let mut mine = Vec::new();
                while let Some(block) = shared.claim(7, 5000) {
                    mine.push(block);
                }
                mine
            };
            let other = scope.spawn(claimer);
            let mut all = claimer();
            all.extend(other.join().expect("ends"));
            all
        });
        let mut sorted = claimed.clone();
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..5000));
        assert_eq!(shared.close(7, 5000), 5000);
        assert_eq!(shared.claim(7, 5000), None);
        shared.open(8);
        assert_eq!(shared.claim(7, 5000), None, "late");
        assert_eq!(shared.claim(8, 1), Some(0));
        assert_eq!(shared.close(8, 1), 1);
    }
}
