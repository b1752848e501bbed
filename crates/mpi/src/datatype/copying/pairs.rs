//! Pairs: two pieces of each element, moved in one loop.
//!
//! Taken piece by piece, all lines of the elements come into the cache for the first piece, which does little but wait
//! for them, and the second one's loads and stores come after that. In one loop both happen at once, as in a hand-written
//! one. Each piece is moved by the method for its size: there is a loop for each pair of methods.

use super::loops::{Ends, Strides};
use super::moves::{LONGEST, Move, Pieces, move_beside};

/// Pairs of pieces, by where they are in the first element; how the first one is moved is to be chosen.
pub(super) struct Pairs {
    pub first: Ends,
    pub second: Ends,
    /// Of the second piece.
    pub bytes: usize,
    pub elements: Strides,
}

/// Elements that are moved in one turn of the loop.
const GROUP: usize = 2;

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
        unsafe { move_beside(self.bytes, &chosen) };
    }
}

impl<First: Move> Pieces for Chosen<'_, First> {
    #[inline]
    unsafe fn each(&self, by: impl Move) {
        let Pairs {
            first,
            second,
            elements,
            ..
        } = *self.pairs;
        // One pair of addresses, and where the second piece is from the first one: else two more pointers had to be advanced.
        let apart = (
            second
                .from
                .addr()
                .wrapping_sub(first.from.addr())
                .cast_signed(),
            second.to.addr().wrapping_sub(first.to.addr()).cast_signed(),
        );
        let mut at = first;
        let one = |at: Ends| {
            let beside = at.moved(apart);
            // SAFETY: the pieces of an element, which the caller promises.
            unsafe {
                self.first.piece(at.from, at.to);
                by.piece(beside.from, beside.to);
            }
        };
        let steps = (elements.from, elements.to);
        for _ in 0..elements.count / GROUP {
            for _ in 0..GROUP {
                one(at);
                at.advance(steps);
            }
        }
        for _ in 0..elements.count % GROUP {
            one(at);
            at.advance(steps);
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
        unsafe { move_beside(bytes, self) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Elements of two pieces with a byte behind each, to data without gaps and back.
    #[test]
    fn pieces_of_any_two_sizes_are_copied() {
        const COUNT: usize = 3;
        let sizes = if cfg!(miri) { 15..=18 } else { 1..=LONGEST };
        for (first, second) in sizes
            .clone()
            .flat_map(|one| sizes.clone().map(move |other| (one, other)))
        {
            let (step, stride) = (first + second, first + second + 2);
            let data: Vec<u8> = (0..step * COUNT)
                .map(|at| (at * 7 + at / 256 + 1) as u8)
                .collect();
            let mut memory = vec![0u8; stride * COUNT];
            let mut packed = vec![0u8; step * COUNT];
            let ends = |from: *const u8, to: *mut u8| Ends { from, to };
            let (from, to) = (data.as_ptr(), memory.as_mut_ptr());
            let pairs = Pairs {
                first: ends(from, to),
                second: ends(from.wrapping_add(first), to.wrapping_add(first + 1)),
                bytes: second,
                elements: Strides {
                    count: COUNT,
                    from: step.cast_signed(),
                    to: stride.cast_signed(),
                },
            };
            // SAFETY: the vectors have room for all elements.
            unsafe { pairs.copy(first) };
            for (element, expected) in memory.chunks(stride).zip(data.chunks(step)) {
                let what = format!("{first} and {second} bytes");
                assert_eq!(element[..first], expected[..first], "{what}");
                assert_eq!(element[first + 1..stride - 1], expected[first..], "{what}");
                assert_eq!([element[first], element[stride - 1]], [0, 0], "{what}");
            }
            let (from, to) = (memory.as_ptr(), packed.as_mut_ptr());
            let back = Pairs {
                first: ends(from, to),
                second: ends(from.wrapping_add(first + 1), to.wrapping_add(first)),
                bytes: second,
                elements: Strides {
                    count: COUNT,
                    from: stride.cast_signed(),
                    to: step.cast_signed(),
                },
            };
            // SAFETY: as above.
            unsafe { back.copy(first) };
            assert!(packed == data, "{first} and {second} bytes back");
        }
    }
}
