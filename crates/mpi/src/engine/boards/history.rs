//! History of a member on a board, and the length of its data, as a note contains them.

use weft_fabric::board::{Board, Note};

use super::super::collective_note::CollectiveNote;

/// Bits of a note's length that are the length.
const LENGTH_BITS: u32 = 17;

/// Set in them if the other 16 are not the length, but a hash of it: data that go over a board slice by slice.
const HASHED: u32 = 1 << (LENGTH_BITS - 1);

/// The length of a collective's data as it stands in a note, beside the history.
#[inline]
pub(super) fn length_of(bytes: usize) -> u32 {
    match u32::try_from(bytes) {
        Ok(bytes) if bytes < HASHED => bytes,
        _ => HASHED | ((bytes as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as u32,
    }
}

/// The bytes that one member shows where each shows a number of its own, as they stand in a note: most are below
/// [`MOST_OWN`]. `None` if it shows nothing, and sends messages.
#[inline]
pub(super) fn own_length(bytes: Option<usize>) -> u32 {
    let bytes = bytes.and_then(|bytes| u32::try_from(bytes).ok());
    bytes.filter(|bytes| *bytes < HASHED).unwrap_or(HASHED)
}

/// The bytes that a member shows where each shows a number of its own; `None` if it sends messages.
#[inline]
pub(crate) fn shown_by(board: &Board, member: usize) -> Option<usize> {
    shown_in(board.note_of(member))
}

/// The same by its note.
#[inline]
pub(super) fn shown_in(note: Note) -> Option<usize> {
    length_in(note.length).ok().map(|bytes| bytes as usize)
}

/// One more than the most bytes that fit a note as they are.
pub(crate) const MOST_OWN: usize = HASHED as usize;

/// The bits of a note's length that all members have alike where each shows a number of bytes of its own: the history.
pub(super) const HISTORY_BITS: u32 = u32::MAX << LENGTH_BITS;

/// The length in a note: `Err` if it is only known which it is not.
#[inline]
pub(super) fn length_in(length: u32) -> std::result::Result<u32, u32> {
    let length = length & ((1 << LENGTH_BITS) - 1);
    if length < HASHED {
        Ok(length)
    } else {
        Err(length)
    }
}

/// What a member has done on a board before: a hash of the calls, roots and operations. The upper bits of the length in its notes are
/// the upper bits of this, so that members who have parted without noticing (each the root of its own broadcast) are found when they next
/// meet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct History {
    hash: u64,
    pub(super) last: CollectiveNote,
}

impl History {
    /// As it stands in a note.
    #[inline]
    pub(super) fn bits(self) -> u32 {
        (self.hash >> (32 + LENGTH_BITS) << LENGTH_BITS) as u32
    }

    #[inline]
    pub(super) fn add(&mut self, call: u64) {
        self.last = CollectiveNote::from_bits(call);
        let mixed = self.hash ^ self.last.without_signature();
        self.hash = mixed.rotate_left(23).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histories_differ_by_root_order_and_call() {
        let of = |calls: &[u64]| {
            let mut history = History::default();
            calls.iter().for_each(|call| history.add(*call));
            history.bits()
        };
        let (bcast, other_root, barrier) = (2, 2 | 1 << 16, 1);
        let all = [
            of(&[]),
            of(&[bcast]),
            of(&[other_root]),
            of(&[bcast, barrier]),
            of(&[barrier, bcast]),
        ];
        for (place, one) in all.iter().enumerate() {
            assert_eq!(
                one & ((1 << LENGTH_BITS) - 1),
                0,
                "the length has its place"
            );
            assert!(all[..place].iter().all(|other| other != one), "{all:x?}");
        }
        // Datatypes that differ may fit.
        assert_eq!(
            of(&[bcast | 7 << 48, barrier]),
            of(&[bcast | 9 << 48, barrier])
        );
    }

    #[test]
    fn what_one_member_shows_is_told_apart_from_nothing() {
        assert_eq!(length_in(own_length(Some(0))), Ok(0));
        assert_eq!(length_in(own_length(Some(MOST_OWN - 1))), Ok(65_535));
        assert!(length_in(own_length(Some(MOST_OWN))).is_err());
        assert!(length_in(own_length(None)).is_err());
        assert_eq!(
            own_length(None) & HISTORY_BITS,
            0,
            "the history has its place"
        );
    }

    #[test]
    fn lengths_that_differ_are_told_apart() {
        assert_eq!(length_in(length_of(0)), Ok(0));
        assert_eq!(length_in(length_of(65_535)), Ok(65_535));
        let long = [1 << 16, (1 << 16) + 8, 1 << 17, 1 << 20, 1 << 30, 1 << 40].map(length_of);
        for (place, one) in long.iter().enumerate() {
            assert_eq!(length_in(*one), Err(*one), "the history has its own bits");
            assert!(!long[..place].contains(one), "{long:x?}");
        }
    }
}
