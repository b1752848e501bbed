//! Payloads: the places, in a member's share of a board, of data that do not fit into its line.
//!
//! ```text
//!   share of one member
//!   LONG      row 0                             │ row 1                             2 rows, half of the share each
//!   MIDDLE    row 0  │ row 2  │ row 4  │ row 6  │ row 1  │ row 3  │ …               8 rows, an eighth
//!   SHORT     0 8 …  │ 2 10 … │ 4 12 … │ 6 14 … │ 1 9 …  │ 3 11 … │ …               32 rows
//! ```
//!
//! The length of the data decides how many rows there are for them, so that a member that sends little may be ahead by
//! many epochs, and one that sends much has room for it. The rows are nested: a row of many lies within the row of few
//! that an epoch of that number would have. So data of an epoch overlap those of an earlier epoch only if the two numbers
//! are equal modulo the smaller number of rows, and [`Written`] says how far back that is.

use weft_atomic::arrivals::ROWS;

/// Rows of long data: the fewest that [`Arrivals::has_room`](weft_atomic::arrivals::Arrivals::has_room) takes. No member is ahead
/// of another with them.
pub(super) const LONG: usize = 2;
/// Rows of data of middle length.
pub(super) const MIDDLE: usize = 8;
/// Rows of short data.
pub(super) const SHORT: usize = ROWS;

const _: () = assert!(SHORT == 32, "the masks of `Written` have 32 bits");

/// The smallest piece of a share is a multiple of this.
const PIECE: usize = 128;
/// Most of a member's share: a quarter of the second-level cache of today's processors.
const MOST_SHARE: usize = 256 << 10;
/// All shares together.
const ALL_SHARES: usize = 2 << 20;

/// The share of each of so many members.
#[inline]
pub(super) fn of_a_member(members: usize) -> usize {
    // Without a division, which takes longer than a short copy.
    if members <= ALL_SHARES / MOST_SHARE {
        return MOST_SHARE;
    }
    let share = (ALL_SHARES / members.max(1)).min(MOST_SHARE);
    share / (SHORT * PIECE) * (SHORT * PIECE)
}

/// Most bytes of data in so many rows of a share.
#[inline]
pub(super) const fn most(share: usize, rows: usize) -> usize {
    share / rows
}

/// How many rows there are for data of a length.
#[inline]
fn rows_for(share: usize, length: usize) -> usize {
    if length <= most(share, SHORT) {
        SHORT
    } else if length <= most(share, MIDDLE) {
        MIDDLE
    } else {
        LONG
    }
}

/// Where in a share the data of a row are, which have this length.
#[inline]
pub(super) fn place(share: usize, row: usize, length: usize) -> usize {
    let rows = rows_for(share, length);
    let half = row % LONG * most(share, LONG);
    let eighth = row / LONG % (MIDDLE / LONG) * most(share, MIDDLE);
    let piece = row / MIDDLE % (SHORT / MIDDLE) * most(share, SHORT);
    match rows {
        LONG => half,
        MIDDLE => half + eighth,
        _ => half + eighth + piece,
    }
}

/// What a member has written lately: which of its last 32 epochs have long data, and which have data of middle length. The
/// lowest bit stands for the epoch at which it is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Written {
    long: u32,
    middle: u32,
    /// The same of the next epoch, in the lowest bit.
    next_long: u32,
    next_middle: u32,
}

/// Epochs before the next one whose number is equal to its own modulo [`LONG`] and [`MIDDLE`], other than by 32.
const EVERY_SECOND: u32 = 0xaaaa_aaaa;
const EVERY_EIGHTH: u32 = 0x8080_8080;
/// The last 8 of them.
const LAST_EIGHT: u32 = 0xff;

impl Written {
    /// Data of this length are written for the next epoch.
    #[inline]
    pub fn write(&mut self, share: usize, length: usize) {
        let rows = rows_for(share, length);
        self.next_long = u32::from(rows == LONG);
        self.next_middle = u32::from(rows == MIDDLE);
    }

    /// The member arrives at the next epoch.
    #[inline]
    pub fn arrive(&mut self) {
        self.long = self.long << 1 | self.next_long;
        self.middle = self.middle << 1 | self.next_middle;
        (self.next_long, self.next_middle) = (0, 0);
    }

    /// How many epochs back the youngest one is over whose data those of the next epoch would lie, if they have this
    /// length.
    #[inline]
    pub fn rows(&self, share: usize, length: usize) -> usize {
        let rows = rows_for(share, length);
        let before = match rows {
            LONG => return LONG,
            MIDDLE => self.long & EVERY_SECOND & LAST_EIGHT,
            _ => self.long & EVERY_SECOND | self.middle & EVERY_EIGHTH,
        };
        rows.min(before.trailing_zeros() as usize + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_bounded_and_divided_evenly() {
        for members in 2..=super::super::MOST_MEMBERS {
            let share = of_a_member(members);
            assert!((8 << 10..=MOST_SHARE).contains(&share) && share * members <= ALL_SHARES);
            assert!(most(share, SHORT).is_multiple_of(PIECE));
        }
    }

    /// Everything a member wrote is there until all have room for what lies over it, whatever it writes.
    #[test]
    fn nothing_lies_over_what_may_be_read() {
        let share = of_a_member(8);
        let lengths = [
            200,
            most(share, SHORT),
            9000,
            most(share, MIDDLE),
            40_000,
            most(share, LONG),
        ];
        let mut random = weft_sys::random::SeededRandom::new(7);
        for _ in 0..200 {
            let mut written = Written::default();
            // The place and length of what each epoch wrote.
            let mut all: Vec<Option<(usize, usize)>> = Vec::new();
            for epoch in 0..100_usize {
                let length = lengths[random.up_to(lengths.len() as u64 - 1) as usize];
                if random.up_to(3) == 0 {
                    all.push(None);
                    written.arrive();
                    continue;
                }
                let rows = written.rows(share, length);
                let at = place(share, epoch % ROWS, length);
                assert!(at + length <= share);
                let first = all.len().saturating_sub(rows - 1);
                for (other, before) in all.iter().enumerate().skip(first) {
                    let Some((start, long)) = *before else {
                        continue;
                    };
                    assert!(
                        at + length <= start || start + long <= at,
                        "{length} bytes of epoch {epoch} lie over {long} of epoch {other}, with {rows} rows"
                    );
                }
                written.write(share, length);
                written.arrive();
                all.push(Some((at, length)));
            }
        }
    }

    #[test]
    fn who_writes_little_may_be_far_ahead() {
        let share = of_a_member(4);
        let mut written = Written::default();
        for _ in 0..40 {
            written.write(share, 120);
            written.arrive();
        }
        assert_eq!(written.rows(share, 120), SHORT);
        assert_eq!(written.rows(share, 20_000), MIDDLE);
        assert_eq!(written.rows(share, 100_000), LONG);
        written.write(share, 20_000);
        written.arrive();
        assert_eq!(
            written.rows(share, 120),
            SHORT,
            "not over the one just before"
        );
        (0..7).for_each(|_| written.arrive());
        assert_eq!(written.rows(share, 120), MIDDLE);
        (0..8).for_each(|_| written.arrive());
        assert_eq!(written.rows(share, 120), 2 * MIDDLE);
    }
}
