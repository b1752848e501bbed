//! Two pieces of each element, moved in one loop.
//!
//! Taken piece by piece, all lines of the elements come into the cache for the first piece, which does little beside waiting for
//! them, and the second one's loads and stores come after that. In one loop both happen at once, as in one that a program
//! would write. Each piece is moved in the way of its size, as elsewhere: there is a loop for each two ways.

use super::{Move, Pieces, Strides, move_all};

/// Longest piece of a pair: from here on loops over one piece are as quick, and one that calls a function has no other beside it.
pub(super) const LONGEST: usize = 128;

/// Where a piece is read and written in the first element.
#[derive(Clone, Copy)]
pub(super) struct Ends {
    pub from: *const u8,
    pub to: *mut u8,
}

/// Pairs of pieces; how the first one is moved is to be chosen.
pub(super) struct Pairs {
    pub first: Ends,
    pub second: Ends,
    /// Of the second piece.
    pub bytes: usize,
    pub elements: Strides,
}

/// How the second one is moved is to be chosen.
struct Chosen<'a, First> {
    first: First,
    pairs: &'a Pairs,
}

impl Pieces for Pairs {
    #[inline]
    unsafe fn each(&self, by: impl Move) {
        let chosen = Chosen {
            first: by,
            pairs: self,
        };
        // SAFETY: the promise of the caller.
        unsafe { move_all::<false>(self.bytes, &chosen) };
    }
}

impl<First: Move> Pieces for Chosen<'_, First> {
    #[inline]
    unsafe fn each(&self, by: impl Move) {
        let Pairs {
            mut first,
            mut second,
            elements,
            ..
        } = *self.pairs;
        for _ in 0..elements.count {
            // SAFETY: the pieces of an element, which the caller promises.
            unsafe {
                self.first.piece(first.from, first.to);
                by.piece(second.from, second.to);
            }
            for ends in [&mut first, &mut second] {
                ends.from = ends.from.wrapping_offset(elements.from);
                ends.to = ends.to.wrapping_offset(elements.to);
            }
        }
    }
}

impl Pairs {
    /// Copies all pairs, of which the first piece has `bytes` bytes. Neither has more than [`LONGEST`].
    ///
    /// # Safety
    /// As for [`Pieces::each`].
    // Apart from the other loops: there are many.
    #[inline(never)]
    pub unsafe fn copy(&self, bytes: usize) {
        debug_assert!(bytes.max(self.bytes) <= LONGEST);
        // SAFETY: the promise of the caller.
        unsafe { move_all::<false>(bytes, self) };
    }
}
