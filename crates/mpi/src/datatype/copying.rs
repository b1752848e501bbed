//! Copying: packing and unpacking, the only code that touches the memory of a user's elements.
//!
//! A [walk](super::walk) over the layout yields loop nests over pieces of one size. That size decides once for each nest
//! which of the [loops] copies it: pieces of up to 128 bytes are [moved](moves) as a few words; larger ones by `memmove`.
//! Two pieces of an element are moved in [one loop](pairs). A [direction](Direction) says which sides are elements.
//!
//! Safety: the caller of [`Datatype::pack_to`] promises only the memory that the elements cover; the layout was checked
//! at construction to lie within the true bounds, so no piece reaches outside. On the packed side every nest is asserted
//! to end within the bytes that the caller promised there.
#![allow(unsafe_code)]

mod loops;
mod moves;
mod pairs;

use std::marker::PhantomData;
use std::sync::Arc;

use weft_sys::span::{Region, SharedBytes};

use super::Datatype;
use super::layout::Piece;
use super::walk::{Loop, Run, Spot, Times, Visit};
use loops::{Ends, List, Nest, Strides, move_listed};
use moves::{LONGEST, move_all};
use pairs::Pairs;

/// Which sides of a copy are elements in memory; the others are packed data.
trait Direction {
    /// How far apart on both sides two pieces are read and written that are so far apart in memory, and in packed data.
    fn steps(memory: isize, packed: isize) -> (isize, isize);
}

/// From elements to packed data.
struct Packing;

impl Direction for Packing {
    #[inline(always)]
    fn steps(memory: isize, packed: isize) -> (isize, isize) {
        (memory, packed)
    }
}

/// From packed data to elements.
struct Unpacking;

impl Direction for Unpacking {
    #[inline(always)]
    fn steps(memory: isize, packed: isize) -> (isize, isize) {
        (packed, memory)
    }
}

/// From elements to others of the same layout.
struct Copying;

impl Direction for Copying {
    #[inline(always)]
    fn steps(memory: isize, _: isize) -> (isize, isize) {
        (memory, memory)
    }
}

/// A copy of the pieces of a walk.
///
/// Invariant, by who makes one: the elements of the walk are valid, and `length` bytes of packed data, for reads on one side and for
/// writes on the other.
struct Moving<D> {
    /// Where offsets and positions count from.
    start: Ends,
    /// Bytes of packed data.
    length: usize,
    direction: PhantomData<D>,
}

impl<D: Direction> Moving<D> {
    fn new(from: *const u8, to: *mut u8, length: usize) -> Self {
        Self {
            start: Ends { from, to },
            length,
            direction: PhantomData,
        }
    }

    /// Where a piece at this spot is read and written.
    #[inline(always)]
    fn ends(&self, at: Spot) -> Ends {
        self.start
            .moved(D::steps(at.offset, at.position.cast_signed()))
    }

    /// Those of each turn of a loop.
    #[inline(always)]
    fn strides(of: Loop) -> Strides {
        let (from, to) = D::steps(of.stride, of.step.cast_signed());
        Strides {
            count: of.count,
            from,
            to,
        }
    }
}

/// Bytes of data before the first of these.
#[inline]
fn before(pieces: &[Piece]) -> usize {
    pieces.first().map_or(0, |piece| piece.before)
}

/// The end of the last of these among the packed data, where the first one goes to a spot.
#[inline]
fn end_of(first: Spot, pieces: &[Piece]) -> usize {
    let last = pieces.last();
    last.map_or(0, |last| {
        first.position + (last.before - before(pieces)) + last.bytes
    })
}

/// Whether these go in one loop.
#[inline]
fn are_paired(runs: &[Run; 2]) -> bool {
    runs.iter().all(|run| run.bytes <= LONGEST)
}

impl<D: Direction> Visit for Moving<D> {
    #[inline]
    fn run(&mut self, run: &Run) {
        assert!(run.end() <= self.length);
        let nest = Nest {
            first: self.ends(run.first),
            inner: Self::strides(run.inner),
            outer: Self::strides(run.outer),
        };
        // SAFETY: a walk stays within the elements, and this run within the packed bytes: readable on one side and writable on the
        // other.
        unsafe { nest.copy(run.bytes) };
    }

    #[inline]
    fn even(&mut self, first: Spot, bytes: usize, offsets: &[isize]) {
        assert!(first.position + bytes * offsets.len() <= self.length);
        let list = List {
            first: self.ends(first),
            offsets,
            bytes,
            steps: D::steps,
        };
        // SAFETY: as in `run`.
        unsafe { move_all(bytes, &list) };
    }

    #[inline]
    fn pieces(&mut self, first: Spot, pieces: &[Piece]) {
        assert!(end_of(first, pieces) <= self.length);
        let before = before(pieces).cast_signed();
        let origin = self.ends(first).moved(D::steps(0, before.wrapping_neg()));
        let ends = |piece: &Piece| {
            let distance = D::steps(piece.offset, piece.before.cast_signed());
            origin.moved(distance)
        };
        // SAFETY: as in `run`; pieces of a list follow each other among the packed bytes.
        unsafe { move_listed(pieces, ends) };
    }

    #[inline]
    fn pairs(&mut self, first: Spot, turns: Loop, pieces: [Piece; 2]) {
        let runs = pieces.map(|piece| Run::of_elements(first, turns, piece));
        if !are_paired(&runs) {
            return runs.iter().for_each(|run| self.run(run));
        }
        assert!(runs.iter().all(|run| run.end() <= self.length));
        let pairs = Pairs {
            first: self.ends(runs[0].first),
            second: self.ends(runs[1].first),
            bytes: runs[1].bytes,
            elements: Self::strides(turns),
        };
        // SAFETY: as in `run`, for both.
        unsafe { pairs.copy(runs[0].bytes) };
    }
}

impl Datatype {
    /// Copies the data of `count` elements at `base`, without gaps, from byte `from_byte` of the data, to the front of
    /// `into`; returns the number of bytes. Call it again with a later `from_byte` for the rest.
    ///
    /// # Safety
    /// All bytes that `count` elements of this datatype cover from `base` must be valid for reads, and must not be
    /// written meanwhile.
    pub unsafe fn pack_to(
        &self,
        base: *const u8,
        count: usize,
        from_byte: usize,
        into: &Region,
    ) -> usize {
        let total = self.size().saturating_mul(count);
        let length = into.len().min(total.saturating_sub(from_byte));
        let mut packing = Moving::<Packing>::new(base, into.as_ptr(), length);
        self.walk(count, from_byte, length, &mut packing);
        length
    }

    /// As [`pack_to`](Self::pack_to), to ordinary bytes.
    ///
    /// # Safety
    /// As there.
    pub unsafe fn pack(
        &self,
        base: *const u8,
        count: usize,
        from_byte: usize,
        out: &mut [u8],
    ) -> usize {
        // SAFETY: `out` is borrowed mutably until the end; the caller promises the rest.
        unsafe {
            let into = Region::new(out.as_mut_ptr(), out.len());
            self.pack_to(base, count, from_byte, &into)
        }
    }

    /// As [`unpack_from`](Self::unpack_from), from ordinary bytes.
    ///
    /// # Safety
    /// As there.
    pub unsafe fn unpack(
        &self,
        base: *mut u8,
        count: usize,
        from_byte: usize,
        bytes: &[u8],
    ) -> usize {
        // SAFETY: the caller promises it.
        unsafe { self.unpack_from(base, count, from_byte, SharedBytes::of(bytes)) }
    }

    /// Copies `bytes` to the data of `count` elements at `base`, where the first of them is byte `from_byte` of the data;
    /// returns how many bytes had room. Bytes are only copied, so others may write to them meanwhile. Where pieces of
    /// elements overlap, which the standard forbids here, any of them wins.
    ///
    /// # Safety
    /// All bytes that `count` elements of this datatype cover from `base` must be valid for writes, and must not be
    /// accessed meanwhile.
    pub unsafe fn unpack_from(
        &self,
        base: *mut u8,
        count: usize,
        from_byte: usize,
        bytes: SharedBytes<'_>,
    ) -> usize {
        let total = self.size().saturating_mul(count);
        let length = bytes.len().min(total.saturating_sub(from_byte));
        let mut unpacking = Moving::<Unpacking>::new(bytes.as_ptr(), base, length);
        self.walk(count, from_byte, length, &mut unpacking);
        length
    }

    /// Copies the data of `count` elements at `from` to `count` elements at `to`. Gaps are not touched.
    ///
    /// # Safety
    /// All bytes that the elements cover must be valid, at `from` for reads and at `to` for writes; meanwhile those at
    /// `from` must not be written, and those at `to` must not be accessed.
    pub unsafe fn copy(&self, from: *const u8, to: *mut u8, count: usize) {
        let length = self.size().saturating_mul(count);
        self.walk(
            count,
            0,
            length,
            &mut Moving::<Copying>::new(from, to, length),
        );
    }

    /// Whether its elements lie as those of another.
    pub(crate) fn is_laid_out_as(&self, other: &Self) -> bool {
        let same = match (&self.layout.node, &other.layout.node) {
            (Some(one), Some(two)) => Arc::ptr_eq(one, two),
            (one, two) => one.is_none() && two.is_none(),
        };
        same && (self.layout.offset, self.extent()) == (other.layout.offset, other.extent())
    }

    /// Visits `length` bytes of the data of `count` elements from byte `from`.
    pub(super) fn walk(&self, count: usize, from: usize, length: usize, visit: &mut impl Visit) {
        let Some(body) = self.layout.node.as_deref() else {
            return;
        };
        if length > 0 {
            let times = Times {
                count,
                stride: self.extent(),
                body,
            };
            let first = Spot {
                offset: self.layout.offset,
                position: 0,
            };
            times.walk(first, from, length, visit);
        }
    }
}
