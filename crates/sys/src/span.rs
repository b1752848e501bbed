//! Spans of memory that are not plain Rust slices: memory that another process may change at any time, and
//! memory that a caller lends for the duration of an operation.
//!
//! [`SharedBytes`] is read-only and never turned into a `&[u8]`: a peer may write while we read, so each byte
//! is copied out once and only the copy is looked at. [`Region`] is the caller's buffer; its maker promises
//! that it outlives its use, so everything above is safe code.

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::sync::OnceLock;

use weft_atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64};

/// Bytes that are fetched into a cache together.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const CACHE_LINE: usize = 64;

/// A view of bytes that somebody else may change while they are read.
#[derive(Clone, Copy)]
pub struct SharedBytes<'a> {
    start: *const u8,
    length: usize,
    owner: PhantomData<&'a [u8]>,
}

impl<'a> SharedBytes<'a> {
    /// A view of `length` bytes from `start`.
    ///
    /// # Safety
    /// `start..start + length` must stay mapped and readable for `'a`.
    #[inline]
    #[must_use]
    pub unsafe fn new(start: *const u8, length: usize) -> Self {
        Self {
            start,
            length,
            owner: PhantomData,
        }
    }

    /// A view of ordinary bytes.
    #[inline]
    #[must_use]
    pub fn of(bytes: &'a [u8]) -> Self {
        Self {
            start: bytes.as_ptr(),
            length: bytes.len(),
            owner: PhantomData,
        }
    }

    /// How many bytes there are.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are none.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Splits at `middle`, or at the end if that comes first.
    #[inline]
    #[must_use]
    pub fn split_at(self, middle: usize) -> (Self, Self) {
        let middle = middle.min(self.length);
        // SAFETY: both halves lie within a span that stays mapped and readable for `'a`, as promised to
        // `SharedBytes::new`.
        unsafe {
            (
                Self::new(self.start, middle),
                Self::new(self.start.add(middle), self.length - middle),
            )
        }
    }

    /// Copies the first `N` bytes out; `None` if there are fewer.
    #[must_use]
    pub fn read<const N: usize>(&self) -> Option<[u8; N]> {
        if self.length < N {
            return None;
        }
        let mut copy = [0; N];
        // SAFETY: N bytes are mapped and readable, as promised to `SharedBytes::new`; `copy` is ours alone.
        unsafe { std::ptr::copy_nonoverlapping(self.start, copy.as_mut_ptr(), N) };
        read_once();
        Some(copy)
    }

    /// Copies as many bytes as both sides hold; returns how many.
    pub fn copy_to(&self, into: &mut [u8]) -> usize {
        let length = self.length.min(into.len());
        // SAFETY: both spans hold `length` bytes, ours mapped and readable as promised to
        // `SharedBytes::new`; `into` is borrowed mutably, so nothing else sees it.
        unsafe { std::ptr::copy_nonoverlapping(self.start, into.as_mut_ptr(), length) };
        read_once();
        length
    }

    /// Replaces the contents of a vector by all bytes.
    #[inline]
    pub fn copy_to_vec(&self, into: &mut Vec<u8>) {
        into.clear();
        into.reserve(self.length);
        // SAFETY: the vector has room for `length` bytes, which are mapped and readable as promised to
        // `SharedBytes::new`, and are all written before the length is set.
        unsafe {
            copy_short(self.start, into.as_mut_ptr(), self.length);
            into.set_len(self.length);
        }
        read_once();
    }

    /// Copies as many bytes as both sides hold into a lent region; returns how many.
    #[inline]
    pub fn copy_to_region(&self, into: &Region) -> usize {
        let length = self.length.min(into.length);
        // SAFETY: `self` is mapped and readable, as promised to `SharedBytes::new`; `into` is valid for writes and
        // nobody else uses it, as promised to `Region::new`.
        // They may overlap when a rank sends to itself in place, which `copy_short` allows.
        unsafe { copy_short(self.start, into.start, length) };
        read_once();
        length
    }

    /// Lets the processor fetch the bytes, which are about to be read: all lines of them at the same time.
    #[inline]
    pub fn prefetch(&self) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let mut at = 0;
            while at < self.length {
                // SAFETY: a prefetch of any address has no effect but on the cache.
                unsafe { _mm_prefetch::<_MM_HINT_T0>(self.start.wrapping_add(at).cast()) };
                at += CACHE_LINE;
            }
        }
    }

    /// Copies all bytes into a lent region if they are few ([`SHORT`]) and the region has exactly as many. Returns whether it did.
    /// It calls nothing, so its users need not save registers.
    #[inline(always)]
    #[must_use]
    pub fn fill_if_short(&self, into: &Region) -> bool {
        // SAFETY: as in `copy_to_region`, of as many bytes as both sides hold.
        let copied = self.length == into.length
            && unsafe { copy_if_short(self.start, into.start, self.length) };
        read_once();
        copied
    }

    /// All bytes as a new vector.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut copy = Vec::with_capacity(self.length);
        // SAFETY: the vector has room for `length` bytes, which are mapped and readable as promised to
        // `SharedBytes::new`, and are all written before the length is set.
        unsafe {
            std::ptr::copy_nonoverlapping(self.start, copy.as_mut_ptr(), self.length);
            copy.set_len(self.length);
        }
        read_once();
        copy
    }

    /// Where the bytes are. For copying with one's own SAFETY argument.
    #[inline]
    #[must_use]
    pub fn as_ptr(&self) -> *const u8 {
        self.start
    }
}

/// Memory for one copy of shared bytes at a time. It is not initialised: that would take longer than a small copy.
#[derive(Debug)]
pub struct Scratch<const N: usize>([MaybeUninit<u8>; N]);

impl<const N: usize> Scratch<N> {
    /// Memory for up to `N` bytes.
    #[inline(always)]
    #[must_use]
    pub const fn new() -> Self {
        Self([const { MaybeUninit::uninit() }; N])
    }

    /// Copies all bytes here; the copy, until the next one. `None` if they are too many.
    #[inline(always)]
    pub fn fill(&mut self, from: SharedBytes<'_>) -> Option<&mut [u8]> {
        let into = self.0.get_mut(..from.length)?;
        // SAFETY: `into` has as many bytes, and is borrowed mutably; the source is mapped and readable, as promised to
        // `SharedBytes::new`.
        unsafe { copy_short(from.start, into.as_mut_ptr().cast(), from.length) };
        read_once();
        // SAFETY: all of it has just been written.
        Some(unsafe { into.assume_init_mut() })
    }
}

impl<const N: usize> Default for Scratch<N> {
    fn default() -> Self {
        Self::new()
    }
}

/// Most bytes that [`copy_short`] copies without a call.
pub const SHORT: usize = 64;

/// Copies bytes, the usual small numbers of them ([`SHORT`]) without a call.
///
/// # Safety
/// As [`std::ptr::copy`]: the spans may overlap.
#[inline]
pub unsafe fn copy_short(from: *const u8, to: *mut u8, length: usize) {
    // SAFETY: as the caller promises.
    unsafe {
        if !copy_if_short(from, to, length) {
            if length < LARGE {
                std::ptr::copy(from, to, length);
            } else {
                copy_large(from, to, length);
            }
        }
    }
}

/// From so many bytes on it is worth to ask how the processor copies best.
const LARGE: usize = 1 << 20;

/// Copies many bytes.
///
/// # Safety
/// As [`std::ptr::copy`].
#[cold]
#[inline(never)]
unsafe fn copy_large(from: *const u8, to: *mut u8, length: usize) {
    // Bytes are copied in ascending order.
    let are_overwritten = to.addr().wrapping_sub(from.addr()) < length;
    // SAFETY: as the caller promises; no byte is read after it was written.
    unsafe {
        if copies_strings_well() && !are_overwritten {
            copy_string(from, to, length);
        } else {
            std::ptr::copy(from, to, length);
        }
    }
}

/// Copies bytes by the instruction for strings, in ascending order: it need not fetch the lines that it overwrites.
///
/// # Safety
/// As [`std::ptr::copy`], of a destination that does not begin within the source.
#[cfg(not(any(miri, sanitizer = "address", sanitizer = "thread")))]
unsafe fn copy_string(from: *const u8, to: *mut u8, length: usize) {
    // SAFETY: both sides hold `length` bytes, as the caller promises; the direction flag is clear between instructions of Rust.
    unsafe {
        std::arch::asm!(
            "rep movsb",
            inout("rcx") length => _,
            inout("rsi") from => _,
            inout("rdi") to => _,
            options(nostack, preserves_flags),
        );
    }
}

/// Where accesses are watched, no instruction may hide from it.
///
/// # Safety
/// As [`std::ptr::copy`].
#[cfg(any(miri, sanitizer = "address", sanitizer = "thread"))]
unsafe fn copy_string(from: *const u8, to: *mut u8, length: usize) {
    // SAFETY: as the caller promises.
    unsafe { std::ptr::copy(from, to, length) };
}

/// Whether this processor copies what is larger than its second-level cache faster by [`copy_string`] than libc does by vectors: those of
/// AMD's family 1Ah, for which it was measured. Older ones take much longer at some alignments, and libc leaves it to vectors on all of them.
fn copies_strings_well() -> bool {
    use std::arch::x86_64::__cpuid;
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| {
        if cfg!(miri) {
            return false;
        }
        let vendor = __cpuid(0);
        let family = |eax: u32| (eax >> 8 & 0xf) + (eax >> 20 & 0xff);
        [vendor.ebx, vendor.edx, vendor.ecx]
            == [*b"Auth", *b"enti", *b"cAMD"].map(u32::from_le_bytes)
            && family(__cpuid(1).eax) == 0x1a
    })
}

/// Sixteen bytes, in a register that calls do not save.
type Sixteen = std::arch::x86_64::__m128i;

/// Copies bytes if they are few ([`SHORT`]), without a call. Returns whether they were.
///
/// # Safety
/// As [`std::ptr::copy`]: the spans may overlap.
#[inline(always)]
pub unsafe fn copy_if_short(from: *const u8, to: *mut u8, length: usize) -> bool {
    // SAFETY: each access lies within the first `length` bytes of both sides, valid by the caller's
    // promise; both may be unaligned. All is read before anything is written.
    unsafe {
        // First of all cases: most messages are one number.
        if length == 8 {
            to.cast::<u64>()
                .write_unaligned(from.cast::<u64>().read_unaligned());
            return true;
        }
        match length {
            0 => {}
            9..=16 => {
                let first = from.cast::<u64>().read_unaligned();
                let last = from.add(length - 8).cast::<u64>().read_unaligned();
                to.cast::<u64>().write_unaligned(first);
                to.add(length - 8).cast::<u64>().write_unaligned(last);
            }
            4..=7 => {
                let first = from.cast::<u32>().read_unaligned();
                let last = from.add(length - 4).cast::<u32>().read_unaligned();
                to.cast::<u32>().write_unaligned(first);
                to.add(length - 4).cast::<u32>().write_unaligned(last);
            }
            1..=3 => {
                let first = from.read();
                let middle = from.add(length / 2).read();
                let last = from.add(length - 1).read();
                to.write(first);
                to.add(length / 2).write(middle);
                to.add(length - 1).write(last);
            }
            17..=32 => {
                let first = from.cast::<Sixteen>().read_unaligned();
                let last = from.add(length - 16).cast::<Sixteen>().read_unaligned();
                to.cast::<Sixteen>().write_unaligned(first);
                to.add(length - 16).cast::<Sixteen>().write_unaligned(last);
            }
            33..=64 => {
                let first = from.cast::<[Sixteen; 2]>().read_unaligned();
                let last = from
                    .add(length - 32)
                    .cast::<[Sixteen; 2]>()
                    .read_unaligned();
                to.cast::<[Sixteen; 2]>().write_unaligned(first);
                to.add(length - 32)
                    .cast::<[Sixteen; 2]>()
                    .write_unaligned(last);
            }
            _ => return false,
        }
    }
    true
}

/// Ends a copy out of shared memory. The compiler may otherwise turn "copy, look at the copy, copy the copy"
/// into reading the source twice, and a peer could slip in other bytes after they were checked. For the
/// compiler, the source may have changed at this place. Costs no instruction.
#[inline]
fn read_once() {
    weft_atomic::compiler_fence(weft_atomic::Ordering::SeqCst);
}

impl std::fmt::Debug for SharedBytes<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "SharedBytes({} bytes)", self.length)
    }
}

/// A caller's memory, lent for the length of an operation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Region {
    start: *mut u8,
    length: usize,
}

// SAFETY: a Region is an address and a length. Its maker promised to `Region::new` that the memory is valid
// until the operation ends, whichever thread carries it out.
unsafe impl Send for Region {}
// SAFETY: as above; a shared reference copies the address, it does not look at the memory.
unsafe impl Sync for Region {}

impl Region {
    /// A region of no bytes.
    pub const EMPTY: Self = Self {
        start: std::ptr::null_mut(),
        length: 0,
    };

    /// Lends `length` bytes from `start`.
    ///
    /// # Safety
    /// Until the operation that gets this region has ended, the span must be valid for reads, and for
    /// writes if the operation writes, and nobody else may write to it (nor read, if it is written).
    #[inline]
    #[must_use]
    pub const unsafe fn new(start: *mut u8, length: usize) -> Self {
        Self { start, length }
    }

    /// How many bytes there are.
    #[inline]
    #[must_use]
    pub const fn len(&self) -> usize {
        self.length
    }

    /// Whether there are none.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Where it starts.
    #[must_use]
    pub const fn as_ptr(&self) -> *mut u8 {
        self.start
    }

    /// The part of `length` bytes from `offset`; `None` if it does not lie within.
    #[inline]
    #[must_use]
    pub fn part(&self, offset: usize, length: usize) -> Option<Self> {
        let end = offset.checked_add(length)?;
        // `wrapping_add` keeps this safe for the empty region; within bounds it is the plain sum.
        (end <= self.length).then(|| Self {
            start: self.start.wrapping_add(offset),
            length,
        })
    }

    /// Whether any byte belongs to both.
    #[inline]
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        let (one, two) = (self.start.addr(), other.start.addr());
        let (end, other_end) = (
            one.saturating_add(self.length),
            two.saturating_add(other.length),
        );
        one.max(two) < end.min(other_end)
    }

    /// The first `length` bytes, or all if there are fewer.
    #[must_use]
    pub fn prefix(&self, length: usize) -> Self {
        Self {
            start: self.start,
            length: length.min(self.length),
        }
    }

    /// The address of `width` bytes at `offset`, if they lie within and are aligned to as many.
    #[inline]
    fn word(&self, offset: usize, width: usize) -> Option<*mut u8> {
        let place = self.start.wrapping_add(offset);
        let fits = offset.checked_add(width)? <= self.length && place.addr().is_multiple_of(width);
        fits.then_some(place)
    }

    /// The byte at `offset` as an atomic: for memory that several threads or processes change at a time.
    #[inline]
    #[must_use]
    pub fn atomic_u8(&self, offset: usize) -> Option<&AtomicU8> {
        let place = self.word(offset, 1)?;
        // SAFETY: within the region, which stays valid for reads and writes as promised to `Region::new`.
        Some(unsafe { AtomicU8::from_ptr(place) })
    }

    /// The two bytes at `offset`, which is aligned to them, as an atomic.
    #[inline]
    #[must_use]
    pub fn atomic_u16(&self, offset: usize) -> Option<&AtomicU16> {
        let place = self.word(offset, 2)?;
        // SAFETY: within the region and aligned; valid for reads and writes as promised to `Region::new`.
        Some(unsafe { AtomicU16::from_ptr(place.cast()) })
    }

    /// The four bytes at `offset`, which is aligned to them, as an atomic.
    #[inline]
    #[must_use]
    pub fn atomic_u32(&self, offset: usize) -> Option<&AtomicU32> {
        let place = self.word(offset, 4)?;
        // SAFETY: within the region and aligned; valid for reads and writes as promised to `Region::new`.
        Some(unsafe { AtomicU32::from_ptr(place.cast()) })
    }

    /// The eight bytes at `offset`, which is aligned to them, as an atomic.
    #[inline]
    #[must_use]
    pub fn atomic_u64(&self, offset: usize) -> Option<&AtomicU64> {
        let place = self.word(offset, 8)?;
        // SAFETY: within the region and aligned; valid for reads and writes as promised to `Region::new`.
        Some(unsafe { AtomicU64::from_ptr(place.cast()) })
    }

    /// Its first `N` bytes; `None` if there are fewer.
    #[inline]
    #[must_use]
    pub fn read<const N: usize>(&self) -> Option<[u8; N]> {
        // SAFETY: the region is valid for reads, as promised to `Region::new`, and has `N` bytes; arrays of bytes have no
        // alignment.
        (self.length >= N).then(|| unsafe { self.start.cast::<[u8; N]>().read() })
    }

    /// Sets its first `N` bytes. False, without effect, if there are fewer.
    #[inline]
    #[must_use]
    pub fn write<const N: usize>(&self, bytes: [u8; N]) -> bool {
        if self.length < N {
            return false;
        }
        // SAFETY: the region is valid for writes, as promised to `Region::new`, and has `N` bytes; arrays of bytes have
        // no alignment.
        unsafe { self.start.cast::<[u8; N]>().write(bytes) };
        true
    }

    /// Copies as many bytes as both hold into `into`; returns how many.
    #[inline]
    pub fn copy_to_slice(&self, into: &mut [u8]) -> usize {
        let length = self.length.min(into.len());
        // SAFETY: the region is valid for reads, as promised to `Region::new`; `into` is borrowed mutably.
        unsafe { copy_short(self.start, into.as_mut_ptr(), length) };
        length
    }

    /// Copies as many bytes as both hold from `from`; returns how many.
    #[inline]
    pub fn copy_from_slice(&self, from: &[u8]) -> usize {
        let length = self.length.min(from.len());
        // SAFETY: the region is valid for writes, as promised to `Region::new`; `copy_short` allows an overlap.
        unsafe { copy_short(from.as_ptr(), self.start, length) };
        length
    }

    /// Copies as many bytes as both hold from `from`; returns how many.
    #[inline]
    pub fn copy_from(&self, from: &Self) -> usize {
        let length = self.length.min(from.length);
        // SAFETY: one region is valid for reads, the other for writes, as promised to `Region::new`; `copy_short`
        // allows an overlap.
        unsafe { copy_short(from.start, self.start, length) };
        length
    }

    /// As [`copy_from`](Self::copy_from) if there are few bytes ([`SHORT`]), without a call; returns whether
    /// there were.
    #[inline(always)]
    pub fn copy_from_if_short(&self, from: &Self) -> bool {
        let length = self.length.min(from.length);
        // SAFETY: as for `copy_from`.
        unsafe { copy_if_short(from.start, self.start, length) }
    }

    /// Gives `reader` the bytes as a slice. As with the copies, copies of one region must not be used against each
    /// other: `reader` must not use this region.
    #[inline]
    pub fn read_by<R>(&self, reader: impl FnOnce(&[u8]) -> R) -> R {
        if self.length == 0 {
            return reader(&[]);
        }
        // SAFETY: valid for reads until the operation ends, in which nobody else writes, as promised to `Region::new`;
        // the slice ends with this call.
        reader(unsafe { std::slice::from_raw_parts(self.start, self.length) })
    }

    /// Gives `writer` the bytes as a slice that it fills, as [`Self::read_by`].
    #[inline]
    pub fn write_by<R>(&self, writer: impl FnOnce(&mut [u8]) -> R) -> R {
        if self.length == 0 {
            return writer(&mut []);
        }
        // SAFETY: valid for reads and writes until the operation ends, in which nobody else reads or writes, as promised
        // to `Region::new`; the slice ends with this call.
        writer(unsafe { std::slice::from_raw_parts_mut(self.start, self.length) })
    }

    /// The bytes as a slice, for handing to a call that reads them.
    ///
    /// # Safety
    /// Nobody may write to the region while the slice lives.
    #[inline]
    #[must_use]
    pub unsafe fn as_slice<'a>(&self) -> &'a [u8] {
        if self.length == 0 {
            return &[];
        }
        // SAFETY: valid for reads as promised to `Region::new`; nobody writes while the slice lives, as the caller
        // of this function promises.
        unsafe { std::slice::from_raw_parts(self.start, self.length) }
    }
}

impl std::fmt::Debug for Region {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Region({:p}, {} bytes)", self.start, self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scratch_holds_one_copy_at_a_time() {
        let mut scratch = Scratch::<100>::new();
        for length in [0, 3, 64, 65, 100] {
            let bytes: Vec<u8> = (1..=length).collect();
            assert_eq!(
                scratch.fill(SharedBytes::of(&bytes)),
                Some(&mut bytes.clone()[..])
            );
        }
        assert!(scratch.fill(SharedBytes::of(&[0; 101])).is_none());
    }

    #[test]
    fn parts_stay_within() {
        let mut memory = [1u8, 2, 3, 4, 5];
        // SAFETY: `memory` outlives the region, and is not touched otherwise meanwhile.
        let region = unsafe { Region::new(memory.as_mut_ptr(), memory.len()) };
        assert!(region.part(3, 3).is_none());
        assert!(region.part(usize::MAX, 2).is_none());
        let part = region.part(1, 3).expect("lies within");
        part.copy_from_slice(&[9, 9, 9, 9]);
        assert_eq!(part.read(), Some([9, 9]));
        assert_eq!(part.read::<4>(), None);
        assert!(part.write([7; 2]) && !part.write([8; 4]));
        assert_eq!(memory, [1, 7, 7, 9, 5]);
    }

    #[test]
    fn regions_overlap_that_share_a_byte() {
        let mut memory = [0; 8];
        // SAFETY: `memory` outlives the region, and is not touched otherwise meanwhile.
        let region = unsafe { Region::new(memory.as_mut_ptr(), memory.len()) };
        let part = |offset, length| region.part(offset, length).expect("lies within");
        assert!(part(0, 3).overlaps(&part(2, 3)) && part(2, 3).overlaps(&part(0, 3)));
        assert!(part(1, 1).overlaps(&part(0, 8)));
        assert!(!part(0, 3).overlaps(&part(3, 3)) && !part(3, 3).overlaps(&part(0, 3)));
        for at in 1..7 {
            let nothing = part(at, 0);
            let overlaps = nothing.overlaps(&part(2, 3)) || part(2, 3).overlaps(&nothing);
            assert!(!overlaps, "nothing at {at} has no byte");
        }
    }

    /// Large copies to other memory at any alignment, and to memory that overlaps on either side.
    #[test]
    #[cfg_attr(miri, ignore = "megabytes")]
    fn large_copies_are_whole() {
        let pattern: Vec<u8> = (0..2 * LARGE + 300).map(|at| (at % 251) as u8).collect();
        let length = LARGE + 77;
        for (from, to) in [(0, 0), (0, 17), (5, 0), (63, 1)] {
            let mut into = vec![0; length + 100];
            // SAFETY: both hold so many bytes, and are different memory.
            unsafe { copy_short(pattern[from..].as_ptr(), into.as_mut_ptr().add(to), length) };
            assert!(into[..to].iter().all(|byte| *byte == 0));
            assert!(into[to..to + length] == pattern[from..from + length]);
            assert!(into[to + length..].iter().all(|byte| *byte == 0));
        }
        for (from, to) in [(0, 1), (1, 0), (200, 0), (0, 200), (8, 8)] {
            let mut memory = pattern.clone();
            let start = memory.as_mut_ptr();
            // SAFETY: both spans lie within the vector.
            unsafe { copy_short(start.add(from), start.add(to), length) };
            assert!(memory[to..to + length] == pattern[from..from + length]);
            assert!(memory[..to] == pattern[..to]);
            assert!(memory[to + length..] == pattern[to + length..]);
        }
    }

    #[test]
    fn shared_bytes_copy_what_fits() {
        let bytes = SharedBytes::of(&[1, 2, 3]);
        assert_eq!(bytes.read::<4>(), None);
        assert_eq!(bytes.read::<2>(), Some([1, 2]));
        let (head, tail) = bytes.split_at(1);
        assert_eq!((head.to_vec(), tail.to_vec()), (vec![1], vec![2, 3]));
        let mut two = [0; 2];
        assert_eq!(bytes.copy_to(&mut two), 2);
        assert_eq!(two, [1, 2]);
    }
}
