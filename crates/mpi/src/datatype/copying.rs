//! The one place where the memory of a user's elements is touched: packing and unpacking.
//!
//! A walk over the layout yields pieces; each is copied. Pieces of the usual sizes a stride apart have
//! loops of their own, so that a column of a matrix is not copied by calls of `memcpy`.
//!
//! Safety: the caller of [`Datatype::pack`] promises the memory that the elements cover, no more; the
//! layout was checked at construction to lie within the true bounds, so no piece reaches outside. The
//! contiguous side is an ordinary slice, and every copy is bounded by what is left of it: a walk over
//! `n` bytes yields pieces of `n` bytes in all, which is asserted by the split of the slice.
#![allow(unsafe_code)]

use std::ptr;

use super::Datatype;
use super::layout::{Times, Visit};

/// Copies pieces to a slice.
struct Packing {
    base: *const u8,
    out: *mut u8,
    /// Bytes of `out` that were not written yet.
    room: usize,
}

/// Copies a slice to pieces.
struct Unpacking<'a> {
    base: *mut u8,
    bytes: &'a [u8],
}

impl Visit for Packing {
    #[inline]
    fn block(&mut self, offset: isize, bytes: usize) {
        let bytes = bytes.min(self.room);
        // SAFETY: the piece lies in the memory promised to `pack`; `out` has `room` bytes left, and is
        // borrowed mutably by `pack`, so it does not overlap with what the caller promised readable.
        unsafe {
            ptr::copy_nonoverlapping(self.base.wrapping_offset(offset), self.out, bytes);
            self.out = self.out.add(bytes);
        }
        self.room -= bytes;
    }

    #[inline]
    fn strided(&mut self, offset: isize, count: usize, stride: isize, bytes: usize) {
        let count = count.min(self.room / bytes);
        match bytes {
            4 => self.gather::<4>(offset, count, stride),
            8 => self.gather::<8>(offset, count, stride),
            16 => self.gather::<16>(offset, count, stride),
            _ => {
                for index in 0..count {
                    self.block(
                        offset.wrapping_add(stride.wrapping_mul(index.cast_signed())),
                        bytes,
                    );
                }
            }
        }
    }
}

impl Packing {
    fn gather<const N: usize>(&mut self, offset: isize, count: usize, stride: isize) {
        let mut from = self.base.wrapping_offset(offset);
        for _ in 0..count {
            // SAFETY: as in `block`; `strided` has bounded `count` by what is left of `out`. Arrays of
            // bytes have no alignment to keep.
            unsafe {
                self.out
                    .cast::<[u8; N]>()
                    .write(from.cast::<[u8; N]>().read());
                self.out = self.out.add(N);
            }
            from = from.wrapping_offset(stride);
        }
        self.room -= count * N;
    }
}

impl Visit for Unpacking<'_> {
    #[inline]
    fn block(&mut self, offset: isize, bytes: usize) {
        let (now, later) = self.bytes.split_at(bytes.min(self.bytes.len()));
        // SAFETY: the piece lies in the memory promised to `unpack`, which is writable and overlaps no
        // slice; `now` is an ordinary slice.
        unsafe {
            ptr::copy_nonoverlapping(now.as_ptr(), self.base.wrapping_offset(offset), now.len())
        };
        self.bytes = later;
    }

    #[inline]
    fn strided(&mut self, offset: isize, count: usize, stride: isize, bytes: usize) {
        match bytes {
            4 => self.spread::<4>(offset, count, stride),
            8 => self.spread::<8>(offset, count, stride),
            16 => self.spread::<16>(offset, count, stride),
            _ => {
                for index in 0..count {
                    self.block(
                        offset.wrapping_add(stride.wrapping_mul(index.cast_signed())),
                        bytes,
                    );
                }
            }
        }
    }
}

impl Unpacking<'_> {
    fn spread<const N: usize>(&mut self, offset: isize, count: usize, stride: isize) {
        let mut into = self.base.wrapping_offset(offset);
        let (pieces, _) = self.bytes.as_chunks::<N>();
        let count = count.min(pieces.len());
        for piece in &pieces[..count] {
            // SAFETY: as in `block`. Arrays of bytes have no alignment to keep.
            unsafe { into.cast::<[u8; N]>().write(*piece) };
            into = into.wrapping_offset(stride);
        }
        self.bytes = &self.bytes[count * N..];
    }
}

impl Datatype {
    /// Copies the data of `count` elements at `base`, without gaps, from byte `from_byte` of the data,
    /// to the front of `out`; answers how many bytes. Call again further on for what did not fit.
    ///
    /// # Safety
    /// All bytes that `count` elements of this datatype cover from `base` must be valid for reads, and
    /// nobody may write to them meanwhile.
    pub unsafe fn pack(
        &self,
        base: *const u8,
        count: usize,
        from_byte: usize,
        out: &mut [u8],
    ) -> usize {
        let total = self.size().saturating_mul(count);
        let bytes = out.len().min(total.saturating_sub(from_byte));
        let mut packing = Packing {
            base,
            out: out.as_mut_ptr(),
            room: bytes,
        };
        self.walk(count, from_byte, bytes, &mut packing);
        bytes
    }

    /// Copies `bytes` to the data of `count` elements at `base`, where the first of them is byte
    /// `from_byte` of the data; answers how many bytes had room.
    ///
    /// # Safety
    /// All bytes that `count` elements of this datatype cover from `base` must be valid for writes, and
    /// nobody may look at them meanwhile.
    pub unsafe fn unpack(
        &self,
        base: *mut u8,
        count: usize,
        from_byte: usize,
        bytes: &[u8],
    ) -> usize {
        let total = self.size().saturating_mul(count);
        let length = bytes.len().min(total.saturating_sub(from_byte));
        let mut unpacking = Unpacking {
            base,
            bytes: &bytes[..length],
        };
        self.walk(count, from_byte, length, &mut unpacking);
        length
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
            times.walk(self.layout.offset, from, length, visit);
        }
    }
}
