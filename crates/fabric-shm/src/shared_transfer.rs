//! Shared transfer: the blocks of one large transfer, claimed by its two ends. What the blocks are, and when two ends move
//! them, stands in `portal/assist.rs`.
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
//! A claim takes half of what is left, up to a bound (Polychronopoulos and Kuck, "Guided self-scheduling", 1987): each block that is moved by
//! a system call of its own costs a quarter more than its bytes, and halves end at the same time wherever the second end begins.
//!
//! # Ordering
//! * SYNC assist.open: `claim` is stored with Release, swapped with Acquire.
//! * SYNC assist.done: `done` is added to with Release after the bytes, loaded with Acquire.

use std::ops::Range;

use weft_atomic::{AtomicU64, Ordering};

/// In `done`: a block could not be moved.
const FAILED: u64 = 1 << 63;

/// In the lower half of `claim`: closed.
const CLOSED: u32 = u32::MAX;

/// Most blocks of a claim while the other end may take its share: who helps does nothing else meanwhile.
const MOST_OF_HALF: u32 = 16;

/// How much a claim takes of what is left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Share {
    /// Half of it, though not much at a time, for the other end is there, or may come.
    Half,
    /// All of it.
    Rest,
}

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

    /// Both: the next blocks of the transfer `ticket`, below `blocks`; `None` if there is none.
    pub fn claim(&self, ticket: u32, blocks: u32, share: Share) -> Option<Range<u32>> {
        let mut seen = self.claim.load(Ordering::Relaxed);
        loop {
            let next = seen as u32;
            if (seen >> 32) as u32 != ticket || next >= blocks {
                return None;
            }
            let left = blocks - next;
            let claimed = match share {
                Share::Half => left.div_ceil(2).min(MOST_OF_HALF),
                Share::Rest => left,
            };
            // SYNC assist.open.
            match self.claim.compare_exchange_weak(
                seen,
                seen + u64::from(claimed),
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Some(next..next + claimed),
                Err(other) => seen = other,
            }
        }
    }

    /// Anybody: whether its origin is moving blocks. One in 2^32 transfers, whose ticket is 0, is not seen.
    pub fn is_open(&self) -> bool {
        // Relaxed: nothing is read by it but this word, and what it says may be old.
        let seen = self.claim.load(Ordering::Relaxed);
        seen >> 32 != 0 && seen as u32 != CLOSED
    }

    /// The origin: nobody claims any more; answers how many blocks were claimed.
    pub fn close(&self, ticket: u32, blocks: u32) -> u32 {
        let closed = u64::from(ticket) << 32 | u64::from(CLOSED);
        (self.claim.swap(closed, Ordering::AcqRel) as u32).min(blocks)
    }

    /// The helper: so many blocks that it claimed were moved, or could not be.
    pub fn complete(&self, blocks: u32, moved: bool) {
        if !moved {
            self.done.fetch_or(FAILED, Ordering::Relaxed);
        }
        // SYNC assist.done.
        self.done.fetch_add(u64::from(blocks), Ordering::Release);
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
        assert_eq!(shared.claim(6, 10, Share::Half), None, "another transfer");
        let claimed: Vec<u32> = std::thread::scope(|scope| {
            let claimer = || {
                let mut mine = Vec::new();
                while let Some(blocks) = shared.claim(7, 5000, Share::Half) {
                    mine.extend(blocks);
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
        assert_eq!(shared.claim(7, 5000, Share::Half), None);
        shared.open(8);
        assert_eq!(shared.claim(7, 5000, Share::Rest), None, "late");
        assert_eq!(shared.claim(8, 1, Share::Half), Some(0..1));
        assert_eq!(shared.close(8, 1), 1);
    }

    #[test]
    fn a_claim_takes_half_of_what_is_left_or_all_of_it() {
        let shared = SharedTransfer::default();
        assert!(!shared.is_open(), "none was opened");
        shared.open(1);
        let halves = [0..8, 8..12, 12..14, 14..15, 15..16];
        for half in halves {
            assert_eq!(shared.claim(1, 16, Share::Half), Some(half));
        }
        assert_eq!(shared.claim(1, 16, Share::Half), None);
        shared.open(2);
        assert!(shared.is_open());
        assert_eq!(shared.claim(2, 16, Share::Half), Some(0..8));
        assert_eq!(shared.claim(2, 16, Share::Rest), Some(8..16));
        assert_eq!(shared.claim(2, 16, Share::Rest), None);
        shared.complete(8, true);
        assert!(shared.has_completed(8) && !shared.has_completed(9));
        assert_eq!(shared.close(2, 16), 16);
        assert!(!shared.is_open());
        shared.open(3);
        let much = 10 * MOST_OF_HALF;
        assert_eq!(shared.claim(3, much, Share::Half), Some(0..MOST_OF_HALF));
    }
}
