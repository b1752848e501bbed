//! Mapping: mapped memory, accessed without references to bytes that others may change.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr::NonNull;

use weft_atomic::{AtomicU32, AtomicU64, Doorbell};

use super::page_size;
use crate::error::{check, last_errno, with_errno};
use crate::span::SharedBytes;

/// Mapped memory, readable and writable, unmapped when dropped.
///
/// It is never a slice: other processes may write to it at any time. It is accessed through atomics, through
/// [`SharedBytes`], or through the raw pointer with the caller's own safety argument.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread.
unsafe impl Send for Mapping {}
// SAFETY: the safe methods reach the memory by atomics, or read it as memory that anybody may change.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// `length` zero bytes of this process alone. Memory is taken when a page is first touched.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn private(length: usize) -> io::Result<Self> {
        Self::of(
            length,
            // Miri does not know the last flag; it takes no memory for untouched pages either.
            libc::MAP_PRIVATE
                | libc::MAP_ANONYMOUS
                | if cfg!(miri) { 0 } else { libc::MAP_NORESERVE },
            libc::PROT_READ | libc::PROT_WRITE,
            None,
        )
    }

    /// `length` bytes that the kernel shares through a special descriptor (a socket with rings), at the
    /// offset by which it identifies them.
    pub(crate) fn of_device(device: &impl AsFd, length: usize, at: u64) -> io::Result<Self> {
        Self::of(
            length,
            libc::MAP_SHARED | libc::MAP_POPULATE,
            libc::PROT_READ | libc::PROT_WRITE,
            Some((device.as_fd(), at)),
        )
    }

    pub(super) fn of(
        length: usize,
        flags: libc::c_int,
        protection: libc::c_int,
        file: Option<(BorrowedFd<'_>, u64)>,
    ) -> io::Result<Self> {
        // SAFETY: no address is asked for, so no mapping of ours is replaced.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                protection,
                flags,
                file.map_or(-1, |(file, _)| file.as_raw_fd()),
                file.map_or(0, |(_, at)| at as libc::off_t),
            )
        };
        let purpose = || format!("map {length} bytes of memory");
        if start == libc::MAP_FAILED {
            return Err(with_errno("mmap", last_errno(), purpose()));
        }
        let start = NonNull::new(start.cast())
            .ok_or_else(|| with_errno("mmap", libc::EINVAL, purpose()))?;
        Ok(Self { start, length })
    }

    /// Where it starts. Aligned to a page.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// How many bytes are mapped.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether no bytes are mapped (never).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// A pointer to `length` bytes at `offset`, aligned to `align` (a power of two); `None` if they do
    /// not lie within or the offset is not aligned.
    #[must_use]
    pub fn place(&self, offset: usize, length: usize, align: usize) -> Option<NonNull<u8>> {
        let fits = offset.checked_add(length)? <= self.length && offset.is_multiple_of(align);
        // SAFETY: the sum lies within the mapping.
        fits.then(|| unsafe { self.start.add(offset) })
    }

    /// A view of `length` bytes at `offset`, which others may change at any time.
    #[must_use]
    pub fn bytes(&self, offset: usize, length: usize) -> Option<SharedBytes<'_>> {
        let start = self.place(offset, length, 1)?;
        // SAFETY: within the mapping, which lives as long as the borrow.
        Some(unsafe { SharedBytes::new(start.as_ptr(), length) })
    }

    /// The 32-bit word at `offset`.
    #[must_use]
    pub fn atomic_u32(&self, offset: usize) -> Option<&AtomicU32> {
        let place = self.place(offset, 4, 4)?;
        // SAFETY: within the mapping and aligned; an atomic may be changed by others at any time.
        Some(unsafe { AtomicU32::from_ptr(place.as_ptr().cast()) })
    }

    /// The 64-bit word at `offset`.
    #[must_use]
    pub fn atomic_u64(&self, offset: usize) -> Option<&AtomicU64> {
        let place = self.place(offset, 8, 8)?;
        // SAFETY: within the mapping and aligned; an atomic may be changed by others at any time.
        Some(unsafe { AtomicU64::from_ptr(place.as_ptr().cast()) })
    }

    /// `count` 64-bit words from `offset`, for instance of a bit set.
    #[must_use]
    pub fn atomic_u64s(&self, offset: usize, count: usize) -> Option<&[AtomicU64]> {
        let place = self.place(offset, count.checked_mul(8)?, 8)?;
        // SAFETY: within the mapping and aligned; AtomicU64 has the layout of u64, any bit pattern is
        // valid, and others may change an atomic at any time.
        Some(unsafe { std::slice::from_raw_parts(place.as_ptr().cast::<AtomicU64>(), count) })
    }

    /// The doorbell at `offset` (a multiple of 64).
    #[must_use]
    pub fn doorbell(&self, offset: usize) -> Option<&Doorbell> {
        let place = self.place(offset, size_of::<Doorbell>(), align_of::<Doorbell>())?;
        // SAFETY: within the mapping, which lives as long as the borrow, and aligned.
        Some(unsafe { Doorbell::at(place.as_ptr()) })
    }

    /// Makes `length` bytes at `offset` (both multiples of the page) inaccessible without splitting the
    /// mapping: a guard that costs only an entry in the page table. Kernels from 6.13 on.
    ///
    /// # Errors
    /// If they lie outside, or the kernel does not know such guards.
    pub fn guard_lightly(&self, offset: usize, length: usize) -> io::Result<()> {
        /// Not yet in the headers of the C library.
        const MADV_GUARD_INSTALL: libc::c_int = 102;
        let purpose = || format!("guard {length} bytes at {offset}");
        let place = self
            .place(offset, length, page_size())
            .ok_or_else(|| with_errno("madvise", libc::EINVAL, purpose()))?;
        // SAFETY: within this mapping; the caller gives up these bytes, and nothing else moves.
        let made = unsafe { libc::madvise(place.as_ptr().cast(), length, MADV_GUARD_INSTALL) };
        check(made, "madvise", purpose).map(drop)
    }

    /// As [`guard_lightly`](Self::guard_lightly), by cutting the mapping: works on every kernel, and
    /// takes two of the mappings that a process may have (`vm.max_map_count`, usually 65 530).
    ///
    /// # Errors
    /// If they lie outside, or there are too many mappings already.
    pub fn guard_by_mapping(&self, offset: usize, length: usize) -> io::Result<()> {
        let purpose = || format!("guard {length} bytes at {offset}");
        let place = self
            .place(offset, length, page_size())
            .ok_or_else(|| with_errno("mprotect", libc::EINVAL, purpose()))?;
        // SAFETY: within this mapping; the caller gives up these bytes.
        let made = unsafe { libc::mprotect(place.as_ptr().cast(), length, libc::PROT_NONE) };
        check(made, "mprotect", purpose).map(drop)
    }

    /// Gives the memory of `length` bytes at `offset` (multiples of the page) back; they read as zeros. Bytes
    /// outside of the mapping are left alone.
    pub fn discard(&self, offset: usize, length: usize) {
        if let Some(place) = self.place(offset, length, page_size()) {
            // SAFETY: within this private mapping, whose bytes the caller gives up.
            unsafe { libc::madvise(place.as_ptr().cast(), length, libc::MADV_DONTNEED) };
        }
    }

    /// As [`discard`](Self::discard), for a mapping of a [`MemoryFile`](super::MemoryFile): for all processes that have mapped it. If
    /// the kernel cannot, zeros are written.
    pub fn discard_shared(&self, offset: usize, length: usize) {
        let Some(place) = self.place(offset, length, page_size()) else {
            return;
        };
        // SAFETY: within this mapping, whose bytes the caller gives up on behalf of all.
        let made = unsafe { libc::madvise(place.as_ptr().cast(), length, libc::MADV_REMOVE) };
        if made != 0
            && let Some(words) = self.atomic_u64s(offset, length / 8)
        {
            for word in words {
                word.store(0, weft_atomic::Ordering::Relaxed);
            }
        }
    }

    /// Asks for small pages only: for memory whose pages are touched separately.
    pub fn prefer_small_pages(&self) {
        if cfg!(miri) {
            return;
        }
        // SAFETY: advice about a mapping of ours; contents do not change.
        unsafe {
            libc::madvise(
                self.start.as_ptr().cast(),
                self.length,
                libc::MADV_NOHUGEPAGE,
            )
        };
    }

    /// Asks for large pages. Getting them only changes the speed.
    pub fn prefer_large_pages(&self) {
        // SAFETY: advice about a mapping of ours; contents do not change.
        unsafe { libc::madvise(self.start.as_ptr().cast(), self.length, libc::MADV_HUGEPAGE) };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by us, and every reference into it borrows `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn ranges_outside_or_unaligned_are_refused() {
        let memory = Mapping::private(4096).expect("maps");
        assert!(memory.atomic_u64(4088).is_some());
        assert!(memory.atomic_u64(4092).is_none());
        assert!(memory.atomic_u64(4096).is_none());
        assert!(memory.atomic_u32(2).is_none());
        assert!(memory.doorbell(32).is_none());
        assert!(memory.bytes(1, usize::MAX).is_none());
        assert!(memory.atomic_u64s(0, usize::MAX).is_none());
        assert_eq!(memory.atomic_u64s(8, 511).map(<[_]>::len), Some(511));
        assert!(Mapping::private(0).is_err());
    }

    #[test]
    fn guards_lie_within_and_memory_is_given_back() {
        let page = page_size();
        let memory = Mapping::private(4 * page).expect("maps");
        let word = memory.atomic_u64(3 * page).expect("within");
        word.store(5, Ordering::Relaxed);
        memory.discard(3 * page, page);
        assert_eq!(word.load(Ordering::Relaxed), 0);
        memory.guard_by_mapping(page, page).expect("cuts");
        assert!(memory.guard_by_mapping(4 * page, page).is_err());
        assert!(memory.guard_lightly(4 * page, page).is_err());
        if let Err(error) = memory.guard_lightly(0, page) {
            assert!(error.to_string().contains("madvise"), "{error}");
        }
        word.store(6, Ordering::Relaxed);
    }
}
