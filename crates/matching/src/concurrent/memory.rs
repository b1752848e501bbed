//! Zeroed lines: on the heap, or, from 2 MiB on, in a mapping of large pages, where a line costs one
//! look-up of its address instead of up to three.

use core::ops::Deref;
use core::ptr::NonNull;

use weft_atomic::AtomicU64;
#[cfg(not(all(target_arch = "x86_64", not(miri), not(loom))))]
use weft_atomic::Ordering;

use super::bucket::{BucketLine, ENTRIES};

/// Bytes of a large page.
const LARGE: usize = 2 << 20;

/// The owner of the memory, kept to free it.
type Owner = Box<dyn core::any::Any + Send + Sync>;

/// Lines in one piece.
pub(super) struct Lines {
    start: NonNull<BucketLine>,
    count: usize,
    _owner: Owner,
}

// SAFETY: lines are atomics all through, which any thread may use; the memory is owned by `self`.
unsafe impl Send for Lines {}
// SAFETY: a shared reference gives out shared references to lines, which are atomics all through.
unsafe impl Sync for Lines {}

impl Lines {
    /// `count` lines of zeros; `None` if there is no memory for them.
    pub(super) fn new(count: usize) -> Option<Self> {
        let bytes = count.checked_mul(size_of::<BucketLine>())?;
        let (start, _owner) = if bytes < LARGE || cfg!(loom) {
            on_heap(count)
        } else {
            in_large_pages(bytes)?
        };
        Some(Self {
            start,
            count,
            _owner,
        })
    }
}

/// Prefetches a line that will be written soon.
#[inline]
pub(super) fn prefetch(line: &BucketLine) {
    #[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
    {
        use core::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        // SAFETY: a processor without this instruction does nothing instead; no memory is changed.
        unsafe { _mm_prefetch::<_MM_HINT_ET0>(core::ptr::from_ref(line).cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri), not(loom))))]
    let _ = line;
}

/// Which of the keys of a line are this one, a bit for each. The caller holds the lock of the bucket that the line belongs
/// to: nobody else writes its keys.
///
/// By vectors: a processor goes on with the buckets of the next keys while a line comes from memory, as far as its
/// room for waiting instructions reaches; these are a third of those of a comparison one by one.
#[inline]
pub(super) fn same_keys(keys: &[AtomicU64; ENTRIES], key: u64) -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
    {
        use core::arch::x86_64::{
            __m128i, _mm_castsi128_ps, _mm_cmpeq_epi32, _mm_loadu_si128, _mm_movemask_ps,
            _mm_packs_epi32, _mm_set1_epi32, _mm_set1_epi64x,
        };
        let pairs = core::ptr::from_ref(keys).cast::<__m128i>();
        // SAFETY: two vectors are as large as the four keys, which lie in one piece; each thread that writes them holds
        // the lock, which the caller of this function holds. Vectors of 16 bytes belong to x86-64.
        unsafe {
            let key = _mm_set1_epi64x(key as i64);
            let first = _mm_cmpeq_epi32(_mm_loadu_si128(pairs), key);
            let second = _mm_cmpeq_epi32(_mm_loadu_si128(pairs.add(1)), key);
            // Each half of a key has become 16 bits, of zeros or of ones; both have to be ones.
            let halves = _mm_packs_epi32(first, second);
            let whole = _mm_cmpeq_epi32(halves, _mm_set1_epi32(-1));
            _mm_movemask_ps(_mm_castsi128_ps(whole)) as u64
        }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri), not(loom))))]
    {
        let mut same = 0;
        for (place, kept) in keys.iter().enumerate() {
            same |= u64::from(kept.load(Ordering::Relaxed) == key) << place;
        }
        same
    }
}

fn on_heap(count: usize) -> (NonNull<BucketLine>, Owner) {
    let lines: Vec<BucketLine> = (0..count).map(|_| BucketLine::default()).collect();
    (NonNull::from(&lines[..]).cast(), Box::new(lines))
}

#[cfg(not(loom))]
fn in_large_pages(bytes: usize) -> Option<(NonNull<BucketLine>, Owner)> {
    // Extra room, to begin at a large page.
    let mapping = weft_sys::Mapping::private(bytes.checked_add(LARGE)?).ok()?;
    mapping.prefer_large_pages();
    let offset = mapping.as_ptr().addr().wrapping_neg() % LARGE;
    let start = mapping.place(offset, bytes, align_of::<BucketLine>())?;
    Some((start.cast(), Box::new(mapping)))
}

#[cfg(loom)]
fn in_large_pages(_: usize) -> Option<(NonNull<BucketLine>, Owner)> {
    None
}

impl Deref for Lines {
    type Target = [BucketLine];
    #[inline]
    fn deref(&self) -> &[BucketLine] {
        // SAFETY: `start` is aligned and followed by `count` lines: those of the vector, which is never
        // changed, or of the mapping, whose pages are zero, which is a line without entries. Both live as
        // long as `self`. Lines are only ever changed through their atomics.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr(), self.count) }
    }
}

impl core::fmt::Debug for Lines {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(out, "Lines({})", self.count)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn small_and_large_pieces_are_zero_and_aligned() {
        let counts: &[usize] = if cfg!(miri) {
            &[3]
        } else {
            &[1, 3, 1 << 15, 40_000]
        };
        for &count in counts {
            let lines = Lines::new(count).expect("memory");
            assert_eq!(lines.len(), count);
            assert!(lines.as_ptr().addr().is_multiple_of(64));
            assert!(lines.iter().all(|line| line.control().0 == 0));
        }
        assert!(Lines::new(usize::MAX / 8).is_none());
    }
}
