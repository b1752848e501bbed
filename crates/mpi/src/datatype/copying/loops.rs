//! Loops over pieces of one size: nests of two loops, and pieces at given displacements.

use super::super::layout::Piece;
use super::moves::{Move, Pieces, move_all, move_one};

/// A loop over pieces: how often, how far apart they are read, how far apart they are written.
#[derive(Clone, Copy)]
pub(super) struct Strides {
    pub count: usize,
    pub from: isize,
    pub to: isize,
}

impl Strides {
    /// From behind the last turn of an inner loop, which has begun at one turn of this one, to the next turn.
    fn to_next_after(self, inner: Self) -> (isize, isize) {
        let rest = |outer: isize, inner_stride: isize| {
            outer.wrapping_sub(inner_stride.wrapping_mul(inner.count.cast_signed()))
        };
        (rest(self.from, inner.from), rest(self.to, inner.to))
    }
}

/// Pieces of a loop nest.
pub(super) struct Nest {
    pub first: Ends,
    pub inner: Strides,
    pub outer: Strides,
}

/// Where a piece is read and written.
#[derive(Clone, Copy)]
pub(super) struct Ends {
    pub from: *const u8,
    pub to: *mut u8,
}

impl Ends {
    /// Those of a piece that lies so far from this one, on both sides.
    #[inline(always)]
    pub fn moved(self, (from, to): (isize, isize)) -> Self {
        Self {
            from: self.from.wrapping_offset(from),
            to: self.to.wrapping_offset(to),
        }
    }

    /// Goes on to a piece that lies so far from this one.
    #[inline(always)]
    pub fn advance(&mut self, steps: (isize, isize)) {
        *self = self.moved(steps);
    }

    /// Moves so many pieces.
    ///
    /// # Safety
    /// As for [`Pieces::each`].
    #[inline(always)]
    unsafe fn moves<M: Move>(&mut self, mut count: usize, by: M, steps: (isize, isize)) {
        while M::IS_WORD && count >= 4 {
            // Addresses of the form base + index * scale, which take no instruction of their own, instead of one addition behind the other.
            let times = |turns: isize| {
                self.moved((steps.0.wrapping_mul(turns), steps.1.wrapping_mul(turns)))
            };
            for at in [*self, times(1), times(2), times(3)] {
                // SAFETY: the promise of the caller.
                unsafe { by.piece(at.from, at.to) };
            }
            *self = times(4);
            count -= 4;
        }
        for _ in 0..count {
            // SAFETY: the promise of the caller.
            unsafe { by.piece(self.from, self.to) };
            self.advance(steps);
        }
    }
}

impl Nest {
    /// Moves the pieces of rows, each of so many.
    ///
    /// # Safety
    /// As for [`Pieces::each`].
    #[inline(always)]
    unsafe fn rows<const ROW: usize>(&self, by: impl Move) {
        let Self { inner, outer, .. } = *self;
        let mut at = self.first;
        for _ in 0..outer.count {
            // SAFETY: the pieces of a row, which the caller promises.
            unsafe { at.moves(ROW, by, (inner.from, inner.to)) };
            at.advance(outer.to_next_after(inner));
        }
    }
}

impl Pieces for Nest {
    // What a loop costs beside its loads and stores shows with small pieces. So there is one pair of addresses, and nothing that
    // has to go to the stack; some pieces are moved in one turn, and so are those that are left.
    #[inline]
    unsafe fn each(&self, by: impl Move) {
        const fn of<M: Move>(_: &M) -> (usize, bool) {
            (M::GROUP, M::SHORT_ROWS)
        }
        let (group, has_short_rows) = of(&by);
        let Self { inner, outer, .. } = *self;
        // SAFETY: the promise of the caller.
        unsafe {
            match inner.count {
                4 if has_short_rows => return self.rows::<4>(by),
                5 if has_short_rows => return self.rows::<5>(by),
                6 if has_short_rows => return self.rows::<6>(by),
                7 if has_short_rows => return self.rows::<7>(by),
                _ => {}
            }
        }
        let (steps, to_next) = ((inner.from, inner.to), outer.to_next_after(inner));
        let mut at = self.first;
        for _ in 0..outer.count {
            // Read anew for each row: else the compiler makes a nest of its own for each number of pieces that are left.
            // SAFETY: a field of this value.
            let count = unsafe { (&raw const self.inner.count).read_volatile() };
            // SAFETY: the pieces of a row, which the caller promises.
            unsafe {
                for _ in 0..count / group {
                    at.moves(group, by, steps);
                }
                if group > 4 && count & 4 != 0 {
                    at.moves(4, by, steps);
                }
                if count & 2 != 0 {
                    at.moves(2, by, steps);
                }
                if count & 1 != 0 {
                    at.moves(1, by, steps);
                }
            }
            at.advance(to_next);
        }
    }
}

/// From so many pieces of a row on, vectors of every other one are worth to be asked for.
const VECTORS: usize = 16;

impl Nest {
    /// Copies all pieces of `bytes` bytes.
    ///
    /// # Safety
    /// As for [`Pieces::each`].
    #[inline]
    pub(super) unsafe fn copy(mut self, mut bytes: usize) {
        let length = bytes.cast_signed();
        let steps = (self.inner.from, self.inner.to);
        if steps == (length, length) {
            bytes *= self.inner.count;
            self.inner.count = 1;
        }
        // SAFETY: the promise of the caller; pieces that follow each other on both sides are one.
        unsafe {
            if self.inner.count >= VECTORS {
                let apart = length.wrapping_mul(2);
                match (bytes, steps == (apart, length), steps == (length, apart)) {
                    (2, true, _) => return self.spaced::<u16, 2, 1>(),
                    (4, true, _) => return self.spaced::<u32, 2, 1>(),
                    (8, true, _) => return self.spaced::<u64, 2, 1>(),
                    (1, _, true) => return self.spaced::<u8, 1, 2>(),
                    (2, _, true) => return self.spaced::<u16, 1, 2>(),
                    (4, _, true) => return self.spaced::<u32, 1, 2>(),
                    _ => {}
                }
            }
            move_all(bytes, &self);
        }
    }

    /// Moves the `T`s of each row, of which one is read at each `FROM` and written at each `TO`: every other one of memory, as the real parts of complex
    /// numbers and the points of one colour are, to or from data without gaps. The distances are known to the compiler, which makes vectors of
    /// what it gathers, and no addition for each piece of what it scatters.
    ///
    /// # Safety
    /// As for [`Pieces::each`], of pieces that are as long as a `T` and that far apart.
    unsafe fn spaced<T: Copy, const FROM: usize, const TO: usize>(&self) {
        let mut at = self.first;
        for _ in 0..self.outer.count {
            let (from, to) = (at.from.cast::<T>(), at.to.cast::<T>());
            for index in 0..self.inner.count {
                // SAFETY: one of the pieces, which the caller promises.
                unsafe {
                    let piece = from.add(FROM * index).read_unaligned();
                    to.add(TO * index).write_unaligned(piece);
                }
            }
            at.advance((self.outer.from, self.outer.to));
        }
    }
}

/// Pieces at given displacements in memory, one after the other in packed data.
pub(super) struct List<'a, Steps> {
    /// What both count from.
    pub first: Ends,
    pub offsets: &'a [isize],
    pub bytes: usize,
    /// How far apart pieces are read and written, by how far apart they are in memory and in packed data.
    pub steps: Steps,
}

impl<Steps: Fn(isize, isize) -> (isize, isize)> Pieces for List<'_, Steps> {
    #[inline]
    unsafe fn each(&self, by: impl Move) {
        let to_next = (self.steps)(0, self.bytes.cast_signed());
        let mut at = self.first;
        for offset in self.offsets {
            let piece = at.moved((self.steps)(*offset, 0));
            // SAFETY: one of the pieces, which the caller promises.
            unsafe { by.piece(piece.from, piece.to) };
            at.advance(to_next);
        }
    }
}

/// Moves pieces of any sizes; `ends` says where each is read and written.
///
/// # Safety
/// All pieces are valid for reads on one side and for writes on the other.
#[inline]
pub(super) unsafe fn move_listed(pieces: &[Piece], ends: impl Fn(&Piece) -> Ends) {
    for piece in pieces {
        let Ends { from, to } = ends(piece);
        // SAFETY: the promise of the caller.
        unsafe { move_one(from, to, piece.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of every other piece, as many as make vectors and fewer.
    #[test]
    fn every_other_piece_comes_from_where_it_lies_and_goes_back() {
        const ROWS: usize = 3;
        let data: Vec<u8> = (0..=u8::MAX).cycle().take(8 * 80 * ROWS).collect();
        for bytes in 1..=9 {
            for count in [VECTORS - 1, VECTORS, 21, 39] {
                let row = 2 * bytes * count - 1;
                if row * ROWS > data.len() {
                    continue;
                }
                let mut packed = vec![0; bytes * count * ROWS + 1];
                let nest = Nest {
                    first: Ends {
                        from: data.as_ptr(),
                        to: packed.as_mut_ptr(),
                    },
                    inner: Strides {
                        count,
                        from: 2 * bytes.cast_signed(),
                        to: bytes.cast_signed(),
                    },
                    outer: Strides {
                        count: ROWS,
                        from: row.cast_signed(),
                        to: (bytes * count).cast_signed(),
                    },
                };
                let turned = |strides: Strides| Strides {
                    count: strides.count,
                    from: strides.to,
                    to: strides.from,
                };
                let nest_back = (turned(nest.inner), turned(nest.outer));
                // SAFETY: rows of pieces within the data, and room for all of them.
                unsafe { nest.copy(bytes) };
                let piece = |place: usize| {
                    let at = place / count * row + place % count * 2 * bytes;
                    &data[at..at + bytes]
                };
                let mut expected: Vec<u8> = (0..count * ROWS).flat_map(piece).copied().collect();
                expected.push(0);
                assert_eq!(packed, expected, "{count} pieces of {bytes} bytes");

                let mut memory = vec![0; row * ROWS + 1];
                let back = Nest {
                    first: Ends {
                        from: packed.as_ptr(),
                        to: memory.as_mut_ptr(),
                    },
                    inner: nest_back.0,
                    outer: nest_back.1,
                };
                // SAFETY: as above.
                unsafe { back.copy(bytes) };
                let is_data = |at: usize| at < row * ROWS && (at % row / bytes).is_multiple_of(2);
                let expected: Vec<u8> = (0..memory.len())
                    .map(|at| if is_data(at) { data[at] } else { 0 })
                    .collect();
                assert_eq!(memory, expected, "{count} pieces of {bytes} bytes back");
            }
        }
    }
}
