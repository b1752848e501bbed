//! Spare lines, which continue full buckets and hold queues of values. They are identified by numbers; 0
//! means none.
//!
//! ```text
//!  free ─► line 7 ─► line 3 ─► 0      a stack; its head is { turn 32, line 32 }
//!  made: 9                            lines from here on were never used
//! ```
//!
//! Each change of the head increments its turn, so that a compare-and-swap by a thread that looked long ago
//! fails even if the same line is on top again. The control word of a free line holds the number of the next
//! one; a late reader discards what it read when its swap fails.
//!
//! A line belongs to the thread that took it, until it is given back. The lines stay where they are until the
//! table is dropped; each piece of memory is twice as large as the one before.

use std::sync::OnceLock;

use weft_atomic::{AtomicU32, AtomicU64, CacheLine, Ordering};

use super::bucket::{BucketLine, Control};
use super::memory::Lines;

/// Lines of the first piece, as a power of two.
const FIRST: u32 = if cfg!(any(loom, test)) { 1 } else { 6 };
/// Pieces; together they have nearly 2³² lines.
const PIECES: usize = 31 - FIRST as usize;

/// The spare lines of a table.
#[derive(Debug)]
pub(super) struct Spares {
    free: CacheLine<AtomicU64>,
    made: AtomicU32,
    pieces: [OnceLock<Lines>; PIECES],
}

/// The piece, and the place in it, of line `number`.
fn place_of(number: u32) -> (usize, usize) {
    let shifted = number + (1 << FIRST);
    let piece = shifted.ilog2() - FIRST;
    (piece as usize, (shifted - (1 << (piece + FIRST))) as usize)
}

impl Spares {
    pub(super) fn new() -> Self {
        Self {
            free: CacheLine(AtomicU64::new(0)),
            // Number 0 is none.
            made: AtomicU32::new(1),
            pieces: [const { OnceLock::new() }; PIECES],
        }
    }

    /// A line by its number, which [`take`](Self::take) gave.
    pub(super) fn line(&self, number: u32) -> &BucketLine {
        let (piece, place) = place_of(number);
        match self.pieces[piece].get() {
            Some(lines) => &lines[place],
            None => unreachable!("a spare line is used before it was made"),
        }
    }

    /// Takes a line; its contents are undefined.
    ///
    /// # Panics
    /// If there is no memory, as any allocation in Rust.
    pub(super) fn take(&self) -> u32 {
        // Acquire: SYNC spare.free.
        let mut head = self.free.load(Ordering::Acquire);
        while head as u32 != 0 {
            let next = self.line(head as u32).control().next();
            let turn = (head >> 32).wrapping_add(1) << 32;
            // Acquire: SYNC spare.free, also on failure, for the line found instead.
            match self.free.compare_exchange_weak(
                head,
                turn | u64::from(next),
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return head as u32,
                Err(found) => head = found,
            }
        }
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let (piece, _) = place_of(number);
        assert!(
            piece < PIECES,
            "a matching table is full: 2^32 spare lines are in use"
        );
        self.pieces[piece].get_or_init(|| {
            let count = 1 << (piece as u32 + FIRST);
            Lines::new(count)
                .unwrap_or_else(|| panic!("no memory for {count} lines of a matching table"))
        });
        number
    }

    /// Gives a line back.
    pub(super) fn give_back(&self, number: u32) {
        let line = self.line(number);
        let mut head = self.free.load(Ordering::Relaxed);
        loop {
            line.set_control(Control::default().before(head as u32));
            let turn = (head >> 32).wrapping_add(1) << 32;
            // Release: SYNC spare.free.
            match self.free.compare_exchange_weak(
                head,
                turn | u64::from(number),
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(found) => head = found,
            }
        }
    }
}

#[cfg(test)]
impl Spares {
    /// How many lines are taken.
    pub(super) fn in_use(&self) -> usize {
        let mut free = 0;
        let mut line = self.free.load(Ordering::Relaxed) as u32;
        while line != 0 {
            free += 1;
            line = self.line(line).control().next();
        }
        self.made.load(Ordering::Relaxed) as usize - 1 - free
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_places_one_after_the_other() {
        let mut expected = (0, 0);
        for number in 0..1000 {
            assert_eq!(place_of(number), expected);
            expected.1 += 1;
            if expected.1 == 1 << (expected.0 as u32 + FIRST) {
                expected = (expected.0 + 1, 0);
            }
        }
    }

    #[test]
    fn lines_are_taken_once_and_used_again() {
        let spares = Spares::new();
        let taken: Vec<u32> = (0..100).map(|_| spares.take()).collect();
        assert_eq!(taken, (1..=100).collect::<Vec<_>>());
        taken.iter().for_each(|line| spares.give_back(*line));
        assert_eq!(spares.in_use(), 0);
        let again: Vec<u32> = (0..100).map(|_| spares.take()).collect();
        assert_eq!(again, (1..=100).rev().collect::<Vec<_>>());
        assert_eq!((spares.in_use(), spares.take()), (100, 101));
    }
}
