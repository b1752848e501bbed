//! A user's buffer as the engine sees it: one span of bytes, or elements to be packed.
#![allow(unsafe_code)]

use std::sync::Arc;

use weft_sys::span::{Region, SharedBytes};

use crate::datatype::{Datatype, SignatureCode};
use crate::error::{Error, ErrorClass, Result};
use crate::memory;

/// Bytes that are packed at a time between elements that are laid out differently: they stay in the first-level cache.
const STAGED: usize = 16 << 10;

/// The memory of a call: `(address, count, datatype)` of the standard.
#[derive(Clone, Debug)]
pub enum Buffer {
    /// One span of bytes, and the code of their signature.
    Flat(Region, SignatureCode),
    /// Elements with gaps.
    Typed(TypedBuffer),
}

/// Elements with gaps: `count` times `datatype` from `base`.
#[derive(Clone, Debug)]
pub struct TypedBuffer {
    base: *mut u8,
    count: usize,
    datatype: Arc<Datatype>,
}

// SAFETY: as for `Region`: an address that its maker promised to be usable until the operation ends,
// from whatever thread moves it along.
unsafe impl Send for TypedBuffer {}
// SAFETY: all methods that touch the memory are about the span promised by the maker, who promised
// that nobody else writes to it meanwhile; a shared reference alone copies addresses only.
unsafe impl Sync for TypedBuffer {}

impl Buffer {
    /// The same buffer, lent.
    #[must_use]
    #[inline]
    pub fn lend(&self) -> Lent<'_> {
        match self {
            Self::Flat(region, code) => Lent::Flat(*region, *code),
            Self::Typed(typed) => Lent::Typed(typed.elements()),
        }
    }

    /// The buffer of a call.
    ///
    /// # Safety
    /// Until the operation that gets this buffer has ended, all bytes that `count` elements of
    /// `datatype` cover from `address` must be valid for reads (and writes, for a receive), and the
    /// rules of the standard on access by others hold (MPI 5.0, sections 3.7.2 and 3.7.3).
    #[must_use]
    #[inline]
    pub unsafe fn new(address: *mut u8, count: usize, datatype: &Arc<Datatype>) -> Self {
        match datatype.flat(count) {
            Some((offset, bytes)) => {
                // SAFETY: all bytes that the elements cover stay valid until the operation has ended, as the
                // maker promises; `flat` names a span of them.
                let region = unsafe { Region::new(address.wrapping_offset(offset), bytes) };
                Self::Flat(region, datatype.code(count))
            }
            None => Self::Typed(TypedBuffer {
                base: address,
                count,
                datatype: Arc::clone(datatype),
            }),
        }
    }

    /// The buffer of a call whose arguments are not checked yet: like [`new`](Self::new), if memory can hold it at all.
    ///
    /// # Safety
    /// As for [`new`](Self::new), unless an error is returned.
    ///
    /// # Errors
    /// `Count` if the elements reach beyond any address of memory.
    #[inline]
    pub unsafe fn checked(
        address: *mut u8,
        count: usize,
        datatype: &Arc<Datatype>,
    ) -> Result<Self> {
        if let Some((offset, bytes)) = datatype.flat(count) {
            let start = address.wrapping_offset(offset);
            let fits = bytes <= memory::END && start.addr() <= memory::END - bytes;
            if fits || bytes == 0 {
                // SAFETY: all bytes that the elements cover stay valid until the operation has ended, as the
                // maker promises; `flat` names a span of them.
                let region = unsafe { Region::new(start, bytes) };
                return Ok(Self::Flat(region, datatype.code(count)));
            }
        }
        // SAFETY: the caller promises the memory of `new` unless there is an error, and that is all that is asked.
        unsafe { Self::checked_with_gaps(address, count, datatype) }
    }

    /// The rest of [`checked`](Self::checked), out of the way of what most calls need.
    ///
    /// # Safety
    /// As there.
    #[inline(never)]
    unsafe fn checked_with_gaps(
        address: *mut u8,
        count: usize,
        datatype: &Arc<Datatype>,
    ) -> Result<Self> {
        check_reach(address, count, datatype)?;
        // SAFETY: the elements reach no further than memory does, so there is no error, and the caller promises that
        // they stay valid until the operation has ended.
        Ok(unsafe { Self::new(address, count, datatype) })
    }

    /// Bytes of which nothing is known but how many.
    #[must_use]
    #[inline]
    pub const fn untyped(region: Region) -> Self {
        Self::Flat(region, SignatureCode::UNKNOWN)
    }

    /// The code of the signature of the data.
    #[must_use]
    #[inline]
    pub fn code(&self) -> SignatureCode {
        match self {
            Self::Flat(_, code) => *code,
            Self::Typed(typed) => typed.elements().code(),
        }
    }

    /// Whether data of this code are certainly what is expected here: the usual case of [`takes`](Self::takes).
    #[inline]
    pub(crate) fn expects(&self, code: SignatureCode) -> bool {
        match self {
            Self::Flat(_, own) => *own == code,
            Self::Typed(typed) => {
                let own = typed.datatype.code(1);
                own == code && !own.is_of_several()
            }
        }
    }

    /// Whether a message of so many bytes with this code may be received here.
    pub(crate) fn takes(&self, code: SignatureCode, bytes: u64) -> bool {
        if self.expects(code) || bytes == 0 || code == SignatureCode::UNKNOWN {
            return true;
        }
        match self {
            // Of fewer bytes than there is room for, the code of several is not known.
            Self::Flat(region, own) => {
                own.is_of_several() && bytes != region.len() as u64 || code.fits(*own)
            }
            Self::Typed(typed) => {
                let expected = typed.datatype.code_of_bytes(bytes);
                expected.is_some_and(|expected| code.fits(expected))
            }
        }
    }

    /// Bytes of data, without gaps.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> usize {
        match self {
            Self::Flat(region, _) => region.len(),
            Self::Typed(typed) => typed.bytes(),
        }
    }

    /// The elements of a run of partitions, of `all` equal ones that the buffer consists of.
    pub(crate) fn partitions(&self, run: std::ops::Range<u32>, all: u32) -> Self {
        let (first, length) = (run.start as usize, run.len());
        match self {
            Self::Flat(region, code) => {
                let each = region.len() / all.max(1) as usize;
                let part = region.part(first * each, length * each);
                let code = Some(*code).filter(|code| !code.is_of_several());
                Self::Flat(part.unwrap_or(Region::EMPTY), code.unwrap_or_default())
            }
            Self::Typed(typed) => {
                let each = typed.count / all.max(1) as usize;
                let distance = (first * each) as isize * typed.datatype.extent();
                Self::Typed(TypedBuffer {
                    base: typed.base.wrapping_offset(distance),
                    count: length * each,
                    datatype: Arc::clone(&typed.datatype),
                })
            }
        }
    }

    /// As many of the same elements, so many bytes further on.
    ///
    /// # Safety
    /// As for [`new`](Self::new), for the elements there.
    #[must_use]
    #[inline]
    pub(crate) unsafe fn moved(&self, distance: isize) -> Self {
        match self {
            Self::Flat(region, code) => {
                let start = region.as_ptr().wrapping_offset(distance);
                // SAFETY: the caller promises that the elements there stay valid until the operation has ended.
                Self::Flat(unsafe { Region::new(start, region.len()) }, *code)
            }
            Self::Typed(typed) => Self::Typed(TypedBuffer {
                base: typed.base.wrapping_offset(distance),
                ..typed.clone()
            }),
        }
    }

    /// Address of the first byte of the first element's data; `None` if there are no data.
    #[must_use]
    #[inline]
    pub fn first_byte(&self) -> Option<usize> {
        match self {
            Self::Flat(region, _) => (!region.is_empty()).then(|| region.as_ptr().addr()),
            Self::Typed(typed) => (typed.bytes() > 0).then(|| {
                let start = typed.datatype.true_lower_bound();
                typed.base.wrapping_offset(start).addr()
            }),
        }
    }

    /// Writes arriving data; answers how many bytes fitted.
    #[inline]
    pub(crate) fn fill(&self, data: SharedBytes<'_>) -> usize {
        match self {
            Self::Flat(region, _) => data.copy_to_region(region),
            Self::Typed(typed) => typed.unpack(data),
        }
    }

    /// Copies the data into another buffer of this rank, as many bytes as both have.
    pub(crate) fn copy_to(&self, into: &Self) {
        match (self, into) {
            (Self::Flat(region, _), _) => {
                into.fill(shared(region));
            }
            (Self::Typed(typed), Self::Flat(region, _)) => {
                typed.pack(region);
            }
            (Self::Typed(typed), Self::Typed(into)) => typed.copy_to(into),
        }
    }

    /// Copies the data without gaps, from byte `from` of them, to the front of `out`; answers how many.
    pub(crate) fn pack_from(&self, from: usize, out: &mut [u8]) -> usize {
        match self {
            Self::Flat(region, _) => {
                let rest = region.len().saturating_sub(from);
                let part = region.part(from, rest).unwrap_or(Region::EMPTY);
                part.copy_to_slice(out)
            }
            // SAFETY: the maker of the buffer promised that the elements are readable.
            Self::Typed(typed) => unsafe {
                typed.datatype.pack(typed.base, typed.count, from, out)
            },
        }
    }

    /// Writes bytes that are data from byte `from` on; answers how many had room.
    pub(crate) fn unpack_from(&self, from: usize, bytes: &[u8]) -> usize {
        match self {
            Self::Flat(region, _) => {
                let rest = region.len().saturating_sub(from);
                let part = region.part(from, rest).unwrap_or(Region::EMPTY);
                part.copy_from_slice(bytes)
            }
            // SAFETY: the maker of the buffer promised that the elements are writable.
            Self::Typed(typed) => unsafe {
                typed.datatype.unpack(typed.base, typed.count, from, bytes)
            },
        }
    }

    /// Writes a part of arriving data, behind `position` bytes of them. What does not fit is dropped.
    pub(crate) fn fill_part(&self, position: usize, data: SharedBytes<'_>) {
        match self {
            Self::Flat(region, _) => {
                let room = region.len().saturating_sub(position);
                if let Some(rest) = region.part(position, room) {
                    data.copy_to_region(&rest);
                }
            }
            Self::Typed(typed) => typed.fill_part(position, data),
        }
    }

    /// All data without gaps, in memory of one's own.
    ///
    /// # Errors
    /// `NoMem` if the system does not give that memory.
    pub fn packed(&self) -> Result<Box<[u8]>> {
        match self {
            Self::Flat(region, _) => {
                let mut bytes = memory::zeroed(region.len())?;
                region.copy_to_slice(&mut bytes);
                Ok(bytes)
            }
            Self::Typed(typed) => typed.packed(),
        }
    }
}

/// A buffer for the time of a call: as [`Buffer`], but that the datatype is the caller's.
#[derive(Clone, Copy, Debug)]
pub enum Lent<'a> {
    /// One span of bytes, and the code of their signature.
    Flat(Region, SignatureCode),
    /// Elements with gaps.
    Typed(Elements<'a>),
}

/// Elements with gaps for the time of a call: `count` times `datatype` from `base`.
#[derive(Clone, Copy, Debug)]
pub struct Elements<'a> {
    base: *mut u8,
    count: usize,
    datatype: &'a Datatype,
}

impl<'a> Lent<'a> {
    /// The buffer of a call whose arguments are not checked yet; `None` if memory cannot hold it.
    ///
    /// # Safety
    /// As for [`Buffer::new`], as long as the buffer or its elements are used, unless there is none.
    #[inline]
    #[must_use]
    pub unsafe fn checked(base: *mut u8, count: usize, datatype: &'a Datatype) -> Option<Self> {
        check_reach(base, count, datatype).ok()?;
        let elements = Elements {
            base,
            count,
            datatype,
        };
        let Some((offset, bytes)) = datatype.flat(count) else {
            return Some(Self::Typed(elements));
        };
        // SAFETY: all bytes that the elements cover are valid, as the caller promises; `flat` names a span of them.
        let region = unsafe { Region::new(base.wrapping_offset(offset), bytes) };
        Some(Self::Flat(region, elements.code()))
    }
}

impl Elements<'_> {
    /// Bytes of data, without gaps.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.datatype.size().saturating_mul(self.count)
    }

    /// The code of the signature of the data.
    #[inline]
    pub(crate) fn code(&self) -> SignatureCode {
        self.datatype.code(self.count)
    }

    /// Writes the data without gaps to the front of `into`; answers how many bytes.
    #[inline]
    pub(crate) fn pack(&self, into: &Region) -> usize {
        // SAFETY: the maker of the buffer promised that the elements are readable.
        unsafe { self.datatype.pack_to(self.base, self.count, 0, into) }
    }

    /// Reads data without gaps into the elements; answers how many bytes fitted.
    #[inline]
    pub(crate) fn unpack(&self, bytes: SharedBytes<'_>) -> usize {
        // SAFETY: the maker of the buffer promised that the elements are writable.
        unsafe { self.datatype.unpack_from(self.base, self.count, 0, bytes) }
    }
}

/// So many bytes of memory that is used for one thing after the other.
pub(crate) fn staged(memory: &mut Vec<u8>, length: usize) -> Region {
    if memory.len() < length {
        memory.resize(length, 0);
    }
    region_of(&mut memory[..length])
}

impl TypedBuffer {
    /// The same for the time of a call.
    #[inline]
    fn elements(&self) -> Elements<'_> {
        Elements {
            base: self.base,
            count: self.count,
            datatype: &self.datatype,
        }
    }

    /// Elements, whether or not they are one piece; if memory can hold them at all.
    ///
    /// # Safety
    /// As for [`Buffer::new`], unless an error is returned.
    ///
    /// # Errors
    /// `Count` if the elements reach further than any memory does.
    pub unsafe fn checked(
        address: *mut u8,
        count: usize,
        datatype: &Arc<Datatype>,
    ) -> Result<Self> {
        check_reach(address, count, datatype)?;
        Ok(Self {
            base: address,
            count,
            datatype: Arc::clone(datatype),
        })
    }

    /// The address that elements are counted from.
    #[must_use]
    pub fn address(&self) -> *mut u8 {
        self.base
    }

    /// Number of elements.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Their datatype.
    #[must_use]
    pub fn datatype(&self) -> &Arc<Datatype> {
        &self.datatype
    }

    /// The first `count` elements, or all if there are fewer.
    #[must_use]
    pub fn first(&self, count: usize) -> Self {
        Self {
            count: self.count.min(count),
            ..self.clone()
        }
    }

    /// The memory of all of them, if it is one piece.
    #[must_use]
    pub fn region(&self) -> Option<Region> {
        let (offset, bytes) = self.datatype.flat(self.count)?;
        // SAFETY: all bytes that the elements cover stay valid until the operation has ended, as the maker of the
        // buffer promised; `flat` names a span of them.
        Some(unsafe { Region::new(self.base.wrapping_offset(offset), bytes) })
    }

    /// Writes the data without gaps from byte `from` of them on to the front of `bytes`; answers how many.
    pub fn pack_part(&self, from: usize, bytes: &mut [u8]) -> usize {
        // SAFETY: the maker of the buffer promised that the elements are readable.
        unsafe { self.datatype.pack(self.base, self.count, from, bytes) }
    }

    /// Reads data without gaps into the elements, the first one as byte `from` of their data; answers how many
    /// bytes had room.
    pub fn unpack_part(&self, from: usize, bytes: &[u8]) -> usize {
        // SAFETY: the maker of the buffer promised that the elements are writable.
        unsafe { self.datatype.unpack(self.base, self.count, from, bytes) }
    }

    /// Bytes of data, without gaps.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.elements().bytes()
    }

    /// All data without gaps.
    ///
    /// # Errors
    /// `NoMem` if the system does not give that memory.
    pub fn packed(&self) -> Result<Box<[u8]>> {
        let length = self.bytes();
        memory::ensure(length)?;
        let mut bytes = Vec::with_capacity(length);
        self.append_to(&mut bytes);
        Ok(bytes.into_boxed_slice())
    }

    /// Appends the data without gaps to `bytes`.
    pub fn append_to(&self, bytes: &mut Vec<u8>) {
        self.append_part(0, self.bytes(), bytes);
    }

    /// Appends the data without gaps from byte `from`, at most `length` bytes, to `bytes`.
    pub(crate) fn append_part(&self, from: usize, length: usize, bytes: &mut Vec<u8>) {
        bytes.reserve_exact(length);
        let room = bytes.spare_capacity_mut().as_mut_ptr().cast();
        // SAFETY: `length` bytes were reserved, and nobody else sees them; `pack_to` writes as many as it answers. The
        // maker of the buffer promised that the elements are readable.
        unsafe {
            let room = Region::new(room, length);
            let packed = self.datatype.pack_to(self.base, self.count, from, &room);
            bytes.set_len(bytes.len() + packed);
        }
    }

    /// Copies the elements to others, as many bytes as both have.
    #[inline(never)]
    pub(crate) fn copy_to(&self, into: &Self) {
        if self.count == into.count && self.datatype.is_laid_out_as(&into.datatype) {
            // SAFETY: the makers of the buffers promised that the elements are readable here, writable there.
            unsafe { self.datatype.copy(self.base, into.base, self.count) };
            return;
        }
        let (all, mut position) = (self.bytes().min(into.bytes()), 0);
        let mut staged = Vec::new();
        while position < all {
            staged.clear();
            self.append_part(position, STAGED.min(all - position), &mut staged);
            into.fill_part(position, SharedBytes::of(&staged));
            position += staged.len();
        }
    }

    /// Reads data without gaps into the elements, behind `position` bytes of them; what does not fit is dropped.
    pub(crate) fn fill_part(&self, position: usize, bytes: SharedBytes<'_>) {
        // SAFETY: the maker of the buffer promised that the elements are writable.
        unsafe {
            self.datatype
                .unpack_from(self.base, self.count, position, bytes)
        };
    }

    /// Writes the data without gaps to the front of `into`; answers how many bytes.
    #[inline(never)]
    pub fn pack(&self, into: &Region) -> usize {
        self.elements().pack(into)
    }

    /// Reads data without gaps into the elements; answers how many bytes fitted.
    #[inline(never)]
    pub fn unpack(&self, bytes: SharedBytes<'_>) -> usize {
        self.elements().unpack(bytes)
    }
}

/// Whether elements, their gaps included, lie where memory can be.
fn check_reach(address: *mut u8, count: usize, datatype: &Datatype) -> Result<()> {
    datatype.bytes(count)?;
    let (lower, length) = datatype.footprint(count)?;
    let start = address.wrapping_offset(lower).addr();
    let fits = length <= memory::END && start <= memory::END - length;
    if fits || length == 0 {
        return Ok(());
    }
    Err(Error::new(
        ErrorClass::Count,
        format!(
            "{count} elements of extent {} from {address:p} reach further than any memory; check count, datatype and displacement",
            datatype.extent()
        ),
    ))
}

/// Memory of the engine as a region, for transfers that the engine itself owns.
///
/// The box must live, and not be looked at, until the transfer has ended: it is kept in the request.
pub(crate) fn region_of(bytes: &mut [u8]) -> Region {
    // SAFETY: requests keep the box until their transfer has ended (`Sending::owned`, `ReceiveState::Moving`), and a
    // box does not move its contents when it is moved itself.
    unsafe { Region::new(bytes.as_mut_ptr(), bytes.len()) }
}

/// Elements in memory of a test, which keeps it until the operation has ended.
#[cfg(test)]
pub(crate) fn elements_of(bytes: &mut [u8], count: usize, datatype: &Arc<Datatype>) -> TypedBuffer {
    let (lower, length) = datatype.footprint(count).expect("it fits");
    assert!(lower >= 0 && lower.cast_unsigned() + length <= bytes.len());
    // SAFETY: all that the elements cover lies in `bytes`, which the test keeps.
    unsafe { TypedBuffer::checked(bytes.as_mut_ptr(), count, datatype) }.expect("it fits")
}

/// The bytes of a region for a call that only copies them.
pub(crate) fn shared(region: &Region) -> SharedBytes<'_> {
    // SAFETY: the maker of the buffer promised that it stays readable while the operation runs.
    unsafe { SharedBytes::new(region.as_ptr(), region.len()) }
}

/// The bytes of a flat region for a call that copies them at once.
pub(crate) fn bytes_of(region: &Region) -> &[u8] {
    // SAFETY: the maker of the buffer promised that nobody writes to it while the operation runs.
    unsafe { region.as_slice() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coll::Blocks;
    use crate::datatype::Basic;

    /// Whether a buffer of these arguments is refused; nobody touches its memory.
    fn refused(address: usize, count: usize, datatype: &Arc<Datatype>) -> bool {
        let address = std::ptr::without_provenance_mut(address);
        // SAFETY: the buffer is dropped without being used.
        match unsafe { Buffer::checked(address, count, datatype) } {
            Ok(_) => false,
            Err(error) => {
                assert_eq!(error.class(), ErrorClass::Count, "{error}");
                true
            }
        }
    }

    #[test]
    fn what_reaches_beyond_memory_is_refused() {
        let int = Basic::Int.datatype();
        let gaps = Datatype::vector(2, 1, 2, int).unwrap();
        let spread = Datatype::resized(0, 1 << 61, int).unwrap();
        let backwards = Datatype::resized(0, -8, int).unwrap();
        let empty = Datatype::contiguous(0, int).unwrap();
        for count in [
            1 << 46,
            1 << 60,
            1 << 61,
            1 << 62,
            i64::MAX as usize,
            usize::MAX,
        ] {
            for datatype in [int, &gaps, &backwards] {
                assert!(refused(4096, count, datatype), "{count} of {datatype:?}");
            }
            assert!(!refused(4096, count, &empty), "{count} of nothing");
        }
        assert!(!refused(4096, 1000, int) && !refused(4096, 1000, &gaps));
        assert!(!refused(4096, 1, &spread) && refused(4096, 2, &spread));
        assert!(!refused(1 << 20, 100, &backwards) && refused(64, 100, &backwards));
        assert!(refused(usize::MAX - 3, 1, int), "beyond the end of memory");
        assert!(!refused(usize::MAX, 0, int), "nothing is anywhere");
    }

    /// Between elements that are laid out alike, and differently, more than are staged at once.
    #[test]
    fn elements_are_copied_to_others() {
        const BYTES: usize = 3 * STAGED + 12;
        let byte = Basic::Byte.datatype();
        let threes = Datatype::vector(1, 3, 5, byte).unwrap();
        let threes = Datatype::resized(0, 5, &threes).unwrap();
        let pairs = Datatype::vector(BYTES as i64 / 2, 2, 3, byte).unwrap();
        let typed = |memory: &mut Vec<u8>, count: usize, datatype: &Arc<Datatype>| {
            // SAFETY: the memory outlives the buffer, and nobody looks at it before that was used.
            match unsafe { Buffer::new(memory.as_mut_ptr(), count, datatype) } {
                Buffer::Typed(typed) => typed,
                Buffer::Flat(..) => panic!("{datatype:?} has gaps"),
            }
        };
        let shapes = [
            (BYTES / 3, &threes),
            (1, &pairs),
            (1, &pairs.duplicate().unwrap()),
        ];
        for (count, datatype) in shapes {
            for (others, other) in shapes {
                let mut from: Vec<u8> = (0..2 * BYTES).map(|at| (at % 251) as u8 + 1).collect();
                let mut into = vec![0; 2 * BYTES];
                let source = typed(&mut from, count, datatype);
                let target = typed(&mut into, others, other);
                source.copy_to(&target);
                let (sent, received) = (source.packed().unwrap(), target.packed().unwrap());
                assert!(sent == received, "{datatype:?} to {other:?}");
                let set = into.iter().filter(|byte| **byte != 0).count();
                assert_eq!(set, BYTES, "{datatype:?} to {other:?}: gaps were written");
            }
        }
    }

    #[test]
    fn blocks_beyond_memory_are_refused() {
        let int = Basic::Int.datatype();
        let base = std::ptr::without_provenance_mut(4096);
        // SAFETY: the blocks are dropped without being used.
        let even = |count, ranks| unsafe { Blocks::even(base, count, int, ranks) }.is_err();
        assert!(even(1 << 44, 4) && even(usize::MAX / 2, 3) && even(i64::MAX as usize, 1));
        assert!(!even(1 << 20, 4));
        let listed = |count, displacement| {
            // SAFETY: the blocks are dropped without being used.
            let blocks = unsafe { Blocks::listed(base, [count], [displacement], int) };
            blocks.is_err()
        };
        for displacement in [i64::MAX, i64::MIN, 1 << 62, 1 << 50, -(1 << 50), -1025] {
            assert!(listed(1, displacement), "{displacement}");
            assert!(!listed(0, displacement), "nothing at {displacement}");
        }
        assert!(listed(-1, 0) && listed(i64::MAX, 0) && !listed(7, -1000));
    }
}
