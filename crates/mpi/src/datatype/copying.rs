//! The one place where the memory of a user's elements is touched: packing and unpacking.
//!
//! A [walk](super::walk) over the layout yields loop nests over pieces of one size. Which loop copies them
//! is chosen once for each nest by that size: pieces of up to 128 bytes are moved as one word, or as two that
//! may overlap, of 1, 2, 4, … 64 bytes; larger ones by `memmove`. Two pieces of an element are moved in [one loop](pairs).
//! Both directions are the same loops with the sides exchanged.
//!
//! Safety: the caller of [`Datatype::pack_to`] promises the memory that the elements cover, no more; the
//! layout was checked at construction to lie within the true bounds, so no piece reaches outside. On
//! the packed side every nest is asserted to end within the bytes that the caller promised there.
#![allow(unsafe_code)]

mod pairs;

use std::ptr;
use std::sync::Arc;

use weft_sys::span::{Region, SharedBytes};

use super::Datatype;
use super::layout::Piece;
use super::walk::{Loop, Run, Spot, Times, Visit};
use pairs::{Ends, Pairs};

/// A way to move one piece.
trait Move: Copy {
    /// # Safety
    /// As [`ptr::copy`] of all bytes of the piece.
    unsafe fn piece(self, from: *const u8, to: *mut u8);
}

/// One word, or the few that the compiler makes of it.
#[derive(Clone, Copy)]
struct One<const N: usize>;

/// Two words: the first bytes of a piece, and its last, which begin at the offset. They may overlap.
#[derive(Clone, Copy)]
struct Two<const N: usize>(usize);

/// So many bytes, by a call.
#[derive(Clone, Copy)]
struct Many(usize);

impl<const N: usize> Move for One<N> {
    #[inline(always)]
    unsafe fn piece(self, from: *const u8, to: *mut u8) {
        // SAFETY: the caller promises N bytes on both sides; arrays of bytes have no alignment to keep.
        unsafe { to.cast::<[u8; N]>().write(from.cast::<[u8; N]>().read()) };
    }
}

impl<const N: usize> Move for Two<N> {
    #[inline(always)]
    unsafe fn piece(self, from: *const u8, to: *mut u8) {
        // SAFETY: the caller promises N bytes from the start and from the offset on both sides; arrays of
        // bytes have no alignment to keep.
        unsafe {
            let first = from.cast::<[u8; N]>().read();
            let last = from.add(self.0).cast::<[u8; N]>().read();
            to.cast::<[u8; N]>().write(first);
            to.add(self.0).cast::<[u8; N]>().write(last);
        }
    }
}

impl Move for Many {
    #[inline(always)]
    unsafe fn piece(self, from: *const u8, to: *mut u8) {
        // SAFETY: the promise of the caller is that of `copy`.
        unsafe { ptr::copy(from, to, self.0) };
    }
}

/// Pieces of one size, of which each is to be moved.
trait Pieces {
    /// # Safety
    /// All pieces are valid for reads on one side and for writes on the other.
    unsafe fn each(&self, by: impl Move);
}

/// Moves pieces of `bytes` bytes, which are no more than [`pairs::LONGEST`] unless they may be `LONG`. Sizes that are a power of two, or thrice
/// one, have a way of their own.
///
/// # Safety
/// As for [`Pieces::each`].
#[inline]
unsafe fn move_all<const LONG: bool>(bytes: usize, pieces: &impl Pieces) {
    // SAFETY: the promise of the caller; each way moves `bytes` bytes.
    unsafe {
        match bytes {
            0 => {}
            1 => pieces.each(One::<1>),
            2 => pieces.each(One::<2>),
            3 => pieces.each(One::<3>),
            4 => pieces.each(One::<4>),
            6 => pieces.each(One::<6>),
            5..=7 => pieces.each(Two::<4>(bytes - 4)),
            8 => pieces.each(One::<8>),
            12 => pieces.each(One::<12>),
            9..=15 => pieces.each(Two::<8>(bytes - 8)),
            16 => pieces.each(One::<16>),
            24 => pieces.each(One::<24>),
            17..=31 => pieces.each(Two::<16>(bytes - 16)),
            32 => pieces.each(One::<32>),
            48 => pieces.each(One::<48>),
            33..=63 => pieces.each(Two::<32>(bytes - 32)),
            64 => pieces.each(One::<64>),
            96 => pieces.each(One::<96>),
            65..=128 => pieces.each(Two::<64>(bytes - 64)),
            _ if LONG => pieces.each(Many(bytes)),
            _ => unreachable!("a piece of {bytes} bytes, which is too long for a pair"),
        }
    }
}

/// A loop over pieces: how often, how far apart they are read, how far apart they are written.
#[derive(Clone, Copy)]
struct Strides {
    count: usize,
    from: isize,
    to: isize,
}

/// Pieces of a loop nest.
struct Nest {
    from: *const u8,
    to: *mut u8,
    inner: Strides,
    outer: Strides,
}

impl Pieces for Nest {
    #[inline]
    unsafe fn each(&self, by: impl Move) {
        let Self { inner, outer, .. } = *self;
        let (mut from_row, mut to_row) = (self.from, self.to);
        for _ in 0..outer.count {
            let (mut from, mut to) = (from_row, to_row);
            for _ in 0..inner.count / 4 {
                // Four at a time: what a loop costs beside its loads and stores shows with small pieces.
                let mut at = (from, to);
                for _ in 0..4 {
                    // SAFETY: one of the pieces, which the caller promises.
                    unsafe { by.piece(at.0, at.1) };
                    at = (
                        at.0.wrapping_offset(inner.from),
                        at.1.wrapping_offset(inner.to),
                    );
                }
                (from, to) = at;
            }
            for _ in 0..inner.count % 4 {
                // SAFETY: as above.
                unsafe { by.piece(from, to) };
                from = from.wrapping_offset(inner.from);
                to = to.wrapping_offset(inner.to);
            }
            from_row = from_row.wrapping_offset(outer.from);
            to_row = to_row.wrapping_offset(outer.to);
        }
    }
}

impl Nest {
    /// Copies all pieces of `bytes` bytes.
    ///
    /// # Safety
    /// As for [`Pieces::each`].
    #[inline]
    unsafe fn copy(mut self, mut bytes: usize) {
        let length = bytes.cast_signed();
        if (self.inner.from, self.inner.to) == (length, length) {
            bytes *= self.inner.count;
            self.inner.count = 1;
        }
        // SAFETY: the promise of the caller; pieces that follow each other on both sides are one.
        unsafe { move_all::<true>(bytes, &self) };
    }
}

/// Pieces at given displacements that are read, and written one after the other.
struct Gather<'a> {
    from: *const u8,
    to: *mut u8,
    offsets: &'a [isize],
    bytes: usize,
}

impl Pieces for Gather<'_> {
    #[inline]
    unsafe fn each(&self, by: impl Move) {
        let mut to = self.to;
        for offset in self.offsets {
            // SAFETY: one of the pieces, which the caller promises.
            unsafe { by.piece(self.from.wrapping_offset(*offset), to) };
            to = to.wrapping_add(self.bytes);
        }
    }
}

/// Pieces that are read one after the other, and written at given displacements.
struct Scatter<'a> {
    from: *const u8,
    to: *mut u8,
    offsets: &'a [isize],
    bytes: usize,
}

impl Pieces for Scatter<'_> {
    #[inline]
    unsafe fn each(&self, by: impl Move) {
        let mut from = self.from;
        for offset in self.offsets {
            // SAFETY: one of the pieces, which the caller promises.
            unsafe { by.piece(from, self.to.wrapping_offset(*offset)) };
            from = from.wrapping_add(self.bytes);
        }
    }
}

/// Elements that are packed.
///
/// Invariant, by who makes one: the elements of the walk are valid for reads, `length` bytes from
/// `packed` for writes.
struct Packing {
    elements: *const u8,
    packed: *mut u8,
    length: usize,
}

/// Elements that are unpacked; the other way round.
struct Unpacking {
    elements: *mut u8,
    packed: *const u8,
    length: usize,
}

/// Elements that are copied to others of the same layout: no packed side. Both are valid.
struct Copying {
    from: *const u8,
    to: *mut u8,
}

/// A loop whose pieces are read from memory and written to packed data.
fn packing(of: Loop) -> Strides {
    Strides {
        count: of.count,
        from: of.stride,
        to: of.step.cast_signed(),
    }
}

/// The other way round.
fn unpacking(of: Loop) -> Strides {
    Strides {
        count: of.count,
        from: of.step.cast_signed(),
        to: of.stride,
    }
}

/// From memory to memory.
fn copying(of: Loop) -> Strides {
    Strides {
        count: of.count,
        from: of.stride,
        to: of.stride,
    }
}

/// Whether these go in one loop.
#[inline]
fn are_paired(runs: &[Run; 2]) -> bool {
    runs.iter().all(|run| run.bytes <= pairs::LONGEST)
}

impl Visit for Packing {
    #[inline]
    fn run(&mut self, run: &Run) {
        assert!(run.end() <= self.length);
        let nest = Nest {
            from: self.elements.wrapping_offset(run.first.offset),
            to: self.packed.wrapping_add(run.first.position),
            inner: packing(run.inner),
            outer: packing(run.outer),
        };
        // SAFETY: a walk stays within the elements, which are readable, and this run within the packed
        // bytes, which are writable.
        unsafe { nest.copy(run.bytes) };
    }

    #[inline]
    fn even(&mut self, first: Spot, bytes: usize, offsets: &[isize]) {
        assert!(first.position + bytes * offsets.len() <= self.length);
        let list = Gather {
            from: self.elements.wrapping_offset(first.offset),
            to: self.packed.wrapping_add(first.position),
            offsets,
            bytes,
        };
        // SAFETY: as in `run`.
        unsafe { move_all::<true>(bytes, &list) };
    }

    #[inline]
    fn pairs(&mut self, first: Spot, turns: Loop, pieces: [Piece; 2]) {
        let runs = pieces.map(|piece| Run::of_elements(first, turns, piece));
        if !are_paired(&runs) {
            return runs.iter().for_each(|run| self.run(run));
        }
        assert!(runs.iter().all(|run| run.end() <= self.length));
        let ends = |run: &Run| Ends {
            from: self.elements.wrapping_offset(run.first.offset),
            to: self.packed.wrapping_add(run.first.position),
        };
        let pairs = Pairs {
            first: ends(&runs[0]),
            second: ends(&runs[1]),
            bytes: runs[1].bytes,
            elements: packing(turns),
        };
        // SAFETY: as in `run`, for both.
        unsafe { pairs.copy(runs[0].bytes) };
    }
}

impl Visit for Unpacking {
    #[inline]
    fn run(&mut self, run: &Run) {
        assert!(run.end() <= self.length);
        let nest = Nest {
            from: self.packed.wrapping_add(run.first.position),
            to: self.elements.wrapping_offset(run.first.offset),
            inner: unpacking(run.inner),
            outer: unpacking(run.outer),
        };
        // SAFETY: a walk stays within the elements, which are writable, and this run within the packed
        // bytes, which are readable.
        unsafe { nest.copy(run.bytes) };
    }

    #[inline]
    fn even(&mut self, first: Spot, bytes: usize, offsets: &[isize]) {
        assert!(first.position + bytes * offsets.len() <= self.length);
        let list = Scatter {
            from: self.packed.wrapping_add(first.position),
            to: self.elements.wrapping_offset(first.offset),
            offsets,
            bytes,
        };
        // SAFETY: as in `run`.
        unsafe { move_all::<true>(bytes, &list) };
    }

    #[inline]
    fn pairs(&mut self, first: Spot, turns: Loop, pieces: [Piece; 2]) {
        let runs = pieces.map(|piece| Run::of_elements(first, turns, piece));
        if !are_paired(&runs) {
            return runs.iter().for_each(|run| self.run(run));
        }
        assert!(runs.iter().all(|run| run.end() <= self.length));
        let ends = |run: &Run| Ends {
            from: self.packed.wrapping_add(run.first.position),
            to: self.elements.wrapping_offset(run.first.offset),
        };
        let pairs = Pairs {
            first: ends(&runs[0]),
            second: ends(&runs[1]),
            bytes: runs[1].bytes,
            elements: unpacking(turns),
        };
        // SAFETY: as in `run`, for both.
        unsafe { pairs.copy(runs[0].bytes) };
    }
}

impl Visit for Copying {
    #[inline]
    fn run(&mut self, run: &Run) {
        let nest = Nest {
            from: self.from.wrapping_offset(run.first.offset),
            to: self.to.wrapping_offset(run.first.offset),
            inner: copying(run.inner),
            outer: copying(run.outer),
        };
        // SAFETY: a walk stays within the elements, which are readable on one side and writable on the other.
        unsafe { nest.copy(run.bytes) };
    }

    #[inline]
    fn pairs(&mut self, first: Spot, turns: Loop, pieces: [Piece; 2]) {
        let runs = pieces.map(|piece| Run::of_elements(first, turns, piece));
        if !are_paired(&runs) {
            return runs.iter().for_each(|run| self.run(run));
        }
        let ends = |run: &Run| Ends {
            from: self.from.wrapping_offset(run.first.offset),
            to: self.to.wrapping_offset(run.first.offset),
        };
        let pairs = Pairs {
            first: ends(&runs[0]),
            second: ends(&runs[1]),
            bytes: runs[1].bytes,
            elements: copying(turns),
        };
        // SAFETY: as in `run`, for both.
        unsafe { pairs.copy(runs[0].bytes) };
    }
}

impl Datatype {
    /// Copies the data of `count` elements at `base`, without gaps, from byte `from_byte` of the data,
    /// to the front of `into`; answers how many bytes. Call again further on for what did not fit.
    ///
    /// # Safety
    /// All bytes that `count` elements of this datatype cover from `base` must be valid for reads, and
    /// nobody may write to them meanwhile.
    pub unsafe fn pack_to(
        &self,
        base: *const u8,
        count: usize,
        from_byte: usize,
        into: &Region,
    ) -> usize {
        let total = self.size().saturating_mul(count);
        let length = into.len().min(total.saturating_sub(from_byte));
        let mut packing = Packing {
            elements: base,
            packed: into.as_ptr(),
            length,
        };
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

    /// Copies `bytes` to the data of `count` elements at `base`, where the first of them is byte
    /// `from_byte` of the data; answers how many bytes had room. Bytes are only copied, so others may
    /// write to them meanwhile. Where pieces of elements overlap, which the standard forbids here, any
    /// of them wins.
    ///
    /// # Safety
    /// All bytes that `count` elements of this datatype cover from `base` must be valid for writes, and
    /// nobody may look at them meanwhile.
    pub unsafe fn unpack_from(
        &self,
        base: *mut u8,
        count: usize,
        from_byte: usize,
        bytes: SharedBytes<'_>,
    ) -> usize {
        let total = self.size().saturating_mul(count);
        let length = bytes.len().min(total.saturating_sub(from_byte));
        let mut unpacking = Unpacking {
            elements: base,
            packed: bytes.as_ptr(),
            length,
        };
        self.walk(count, from_byte, length, &mut unpacking);
        length
    }

    /// Copies the data of `count` elements at `from` to `count` elements at `to`. Gaps are left alone.
    ///
    /// # Safety
    /// All bytes that the elements cover must be valid, from `from` for reads and from `to` for writes, and
    /// nobody may write to those, nor look at these, meanwhile.
    pub unsafe fn copy(&self, from: *const u8, to: *mut u8, count: usize) {
        let length = self.size().saturating_mul(count);
        self.walk(count, 0, length, &mut Copying { from, to });
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
