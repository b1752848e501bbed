//! Shared memory: a span of mapped memory that several processes, or several ranks of one process, have in common, for
//! safe code.
//!
//! ```text
//!   SharedMemory ── start, length
//!        └─ counts ─► Mapping         unmapped when the last handle of it is dropped
//! ```
//!
//! Invariant: the span lies within the mapping. Others may change any byte at any time, so the span is never a slice:
//! bytes are copied in and out, words are accessed as atomics, and each access is checked against the bounds.
//! Concurrent writes without atomics may be torn, but have no other effect.

use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use weft_atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Kernel, Woken};

use crate::Futex;
use crate::memory::{Mapping, page_size};
use crate::span::{Region, SharedBytes, copy_short};

/// The word of a futex in shared memory may be slept on by another process.
static FUTEX: Futex = Futex::shared();

/// A span of memory that others share. See the [module page](self). Cheap to clone.
#[derive(Clone)]
pub struct SharedMemory {
    start: NonNull<u8>,
    length: usize,
    mapping: Arc<Mapping>,
}

// SAFETY: the span belongs to the process, not to a thread, and is counted.
unsafe impl Send for SharedMemory {}
// SAFETY: all safe methods reach the memory by atomics or copy bytes that anybody may change, see the module page.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// `length` bytes from `offset` of a mapping; `None` if they do not lie within.
    #[must_use]
    pub fn new(mapping: Arc<Mapping>, offset: usize, length: usize) -> Option<Self> {
        let start = mapping.place(offset, length, 1)?;
        Some(Self {
            start,
            length,
            mapping,
        })
    }

    /// `length` zero bytes that only this process has, aligned to a page.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn of_this_process(length: usize) -> io::Result<Self> {
        let mapping = Arc::new(Mapping::private(length.max(1))?);
        Ok(Self {
            start: mapping.place(0, length, 1).unwrap_or(NonNull::dangling()),
            length,
            mapping,
        })
    }

    /// How many bytes there are.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The start, for a program that may use its own memory as it likes. It stays mapped as long as a handle
    /// exists.
    #[inline]
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// A handle of `length` bytes from `offset`; `None` if they do not lie within.
    #[must_use]
    pub fn part(&self, offset: usize, length: usize) -> Option<Self> {
        Some(Self {
            start: self.place(offset, length)?,
            length,
            mapping: self.mapping.clone(),
        })
    }

    #[inline]
    fn place(&self, offset: usize, length: usize) -> Option<NonNull<u8>> {
        let fits = offset.checked_add(length)? <= self.length;
        // SAFETY: the sum lies within the span.
        fits.then(|| unsafe { self.start.add(offset) })
    }

    #[inline]
    fn word(&self, offset: usize, width: usize) -> Option<NonNull<u8>> {
        let place = self.place(offset, width)?;
        place.addr().get().is_multiple_of(width).then_some(place)
    }

    /// A view of `length` bytes from `offset`, for reading each once.
    #[inline]
    #[must_use]
    pub fn bytes(&self, offset: usize, length: usize) -> Option<SharedBytes<'_>> {
        let start = self.place(offset, length)?;
        // SAFETY: within the span, which is mapped as long as `self` lives.
        Some(unsafe { SharedBytes::new(start.as_ptr(), length) })
    }

    /// Copies bytes from `offset` out. False, without effect, if there are fewer.
    #[inline]
    #[must_use]
    pub fn read(&self, offset: usize, into: &mut [u8]) -> bool {
        let bytes = self.bytes(offset, into.len());
        bytes.is_some_and(|bytes| bytes.copy_to(into) == into.len())
    }

    /// Copies bytes in to `offset`. False, without effect, if there is no room for them.
    #[inline]
    #[must_use]
    pub fn write(&self, offset: usize, from: &[u8]) -> bool {
        let Some(place) = self.place(offset, from.len()) else {
            return false;
        };
        // SAFETY: within the span, which is mapped and writable as long as `self` lives; `copy_short` allows an overlap.
        unsafe { copy_short(from.as_ptr(), place.as_ptr(), from.len()) };
        true
    }

    /// Copies bytes from `offset` into a caller's memory. False, without effect, if there are fewer.
    #[inline]
    #[must_use]
    pub fn read_into(&self, offset: usize, into: &Region) -> bool {
        let bytes = self.bytes(offset, into.len());
        bytes.is_some_and(|bytes| bytes.copy_to_region(into) == into.len())
    }

    /// Copies a caller's memory in to `offset`. False, without effect, if there is no room for it.
    #[inline]
    #[must_use]
    pub fn write_from(&self, offset: usize, from: &Region) -> bool {
        let Some(place) = self.place(offset, from.len()) else {
            return false;
        };
        // SAFETY: the span is mapped and writable as long as `self` lives; the region is valid for reads, as promised to
        // `Region::new`; `copy_short` allows an overlap.
        unsafe { copy_short(from.as_ptr(), place.as_ptr(), from.len()) };
        true
    }

    /// `length` bytes from `offset` as memory lent to an operation; `None` if they do not lie within.
    ///
    /// # Safety
    /// A handle of this memory must live until the operation has ended, and nobody may rely on untorn elements if
    /// others write to the span at the same time.
    #[inline]
    #[must_use]
    pub unsafe fn region(&self, offset: usize, length: usize) -> Option<Region> {
        let place = self.place(offset, length)?;
        // SAFETY: mapped, readable and writable as long as a handle lives, which the caller promises.
        Some(unsafe { Region::new(place.as_ptr(), length) })
    }

    /// The byte at `offset` as an atomic.
    #[inline]
    #[must_use]
    pub fn atomic_u8(&self, offset: usize) -> Option<&AtomicU8> {
        let place = self.word(offset, 1)?;
        // SAFETY: within the span; an atomic may be changed by others at any time.
        Some(unsafe { AtomicU8::from_ptr(place.as_ptr()) })
    }

    /// The two bytes at `offset`, which is aligned to them, as an atomic.
    #[inline]
    #[must_use]
    pub fn atomic_u16(&self, offset: usize) -> Option<&AtomicU16> {
        let place = self.word(offset, 2)?;
        // SAFETY: within the span and aligned; an atomic may be changed by others at any time.
        Some(unsafe { AtomicU16::from_ptr(place.as_ptr().cast()) })
    }

    /// The four bytes at `offset`, which is aligned to them, as an atomic.
    #[inline]
    #[must_use]
    pub fn atomic_u32(&self, offset: usize) -> Option<&AtomicU32> {
        let place = self.word(offset, 4)?;
        // SAFETY: within the span and aligned; an atomic may be changed by others at any time.
        Some(unsafe { AtomicU32::from_ptr(place.as_ptr().cast()) })
    }

    /// The eight bytes at `offset`, which is aligned to them, as an atomic.
    #[inline]
    #[must_use]
    pub fn atomic_u64(&self, offset: usize) -> Option<&AtomicU64> {
        let place = self.word(offset, 8)?;
        // SAFETY: within the span and aligned; an atomic may be changed by others at any time.
        Some(unsafe { AtomicU64::from_ptr(place.as_ptr().cast()) })
    }

    /// The `N` words of eight bytes each from `offset` on, which is aligned to them, as atomics.
    #[inline]
    #[must_use]
    pub fn atomic_u64s<const N: usize>(&self, offset: usize) -> Option<&[AtomicU64; N]> {
        let place = self.place(offset, N * size_of::<u64>())?;
        if !place.addr().get().is_multiple_of(align_of::<AtomicU64>()) {
            return None;
        }
        // SAFETY: within the span and aligned; atomics may be changed by others at any time.
        Some(unsafe { place.cast().as_ref() })
    }

    /// Sleeps while the word at `offset` holds `expected`, until [`wake`](Self::wake) or the deadline (nanoseconds of
    /// [`clock::monotonic`](crate::clock::monotonic)); `None` if there is no such word. May return early. Blocks the
    /// thread: not for ranks of a simulation, nor for a thread that must drive progress meanwhile.
    #[must_use]
    pub fn wait(&self, offset: usize, expected: u32, deadline: Option<u64>) -> Option<Woken> {
        Some(FUTEX.wait(self.atomic_u32(offset)?, expected, deadline))
    }

    /// Wakes at most `count` of the threads that sleep on the word at `offset`, in any process.
    pub fn wake(&self, offset: usize, count: u32) {
        if let Some(word) = self.atomic_u32(offset) {
            FUTEX.wake(word, count);
        }
    }

    /// Whether both are spans of one mapping that start at the same byte.
    #[must_use]
    pub fn starts_with(&self, other: &Self) -> bool {
        self.start == other.start
    }
}

impl std::fmt::Debug for SharedMemory {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "SharedMemory({:p}, {} bytes)", self.start, self.length)
    }
}

/// Bytes of whole pages that hold `length` bytes; `None` if there are more than a mapping can have.
#[must_use]
pub fn whole_pages(length: usize) -> Option<usize> {
    length
        .max(1)
        .checked_next_multiple_of(page_size())
        .filter(|bytes| isize::try_from(*bytes).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use weft_atomic::Ordering;

    #[test]
    fn accesses_lie_within_and_words_are_aligned() {
        let memory = SharedMemory::of_this_process(100).expect("maps");
        assert!(memory.write(92, &[7; 8]) && !memory.write(93, &[7; 8]));
        let mut out = [0; 9];
        assert!(memory.read(91, &mut out) && !memory.read(92, &mut out));
        assert_eq!(out, [0, 7, 7, 7, 7, 7, 7, 7, 7]);
        assert!(memory.atomic_u8(99).is_some() && memory.atomic_u8(100).is_none());
        assert!(memory.atomic_u16(98).is_some() && memory.atomic_u16(97).is_none());
        assert!(memory.atomic_u32(96).is_some() && memory.atomic_u32(98).is_none());
        assert!(memory.atomic_u64(88).is_some() && memory.atomic_u64(96).is_none());
        assert!(memory.bytes(usize::MAX, 2).is_none() && memory.part(99, 2).is_none());
        let tail = memory.part(90, 10).expect("within");
        drop(memory);
        assert_eq!(tail.bytes(2, 8).expect("within").read(), Some([7; 8]));
        assert!(tail.atomic_u32(0).is_none(), "askew in memory");
    }

    #[test]
    fn a_region_is_copied_in_and_out() {
        let memory = SharedMemory::of_this_process(4096).expect("maps");
        let mut bytes = [5u8; 100];
        // SAFETY: `bytes` outlives the region, and is looked at only in between.
        let region = unsafe { Region::new(bytes.as_mut_ptr(), bytes.len()) };
        assert!(memory.write_from(3996, &region) && !memory.write_from(3997, &region));
        assert!(memory.write(4095, &[6]));
        assert!(memory.read_into(3996, &region) && !memory.read_into(3997, &region));
        assert_eq!(bytes[98..], [5, 6]);
    }

    #[test]
    fn nothing_is_a_span_too() {
        let memory = SharedMemory::of_this_process(0).expect("maps");
        assert!(memory.is_empty() && memory.write(0, &[]) && !memory.write(0, &[1]));
        assert!(!memory.as_ptr().is_null());
        assert_eq!(whole_pages(0), Some(page_size()));
        assert_eq!(whole_pages(usize::MAX), None);
    }

    #[test]
    fn a_sleeper_on_a_word_is_woken() {
        let memory = SharedMemory::of_this_process(64).expect("maps");
        assert_eq!(memory.wait(4, 1, None), Some(Woken::Changed));
        assert_eq!(memory.wait(2, 0, None), None);
        let sleeper = std::thread::spawn({
            let memory = memory.clone();
            move || {
                let word = memory.atomic_u32(4).expect("within");
                while word.load(Ordering::Acquire) == 0 {
                    let _ = memory.wait(4, 0, None);
                }
            }
        });
        std::thread::sleep(Duration::from_millis(1));
        let word = memory.atomic_u32(4).expect("within");
        word.store(1, Ordering::Release);
        memory.wake(4, u32::MAX);
        sleeper.join().expect("it was woken");
    }
}
