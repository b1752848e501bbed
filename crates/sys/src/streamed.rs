//! Streamed stores: copies that bypass the caches of the copying core, for memory whose lines another core
//! has.
//!
//! An ordinary store waits until its line was taken from the other core; a streamed store does not, if the whole line is written.
//! The reader gets the data from memory, so this is for much data: for a single message that is waited for, ordinary stores are
//! visible sooner.
//!
//! # Ordering
//! Such stores become visible in any order, and a later ordinary store may be visible before them, even if it is a Release.
//! So [`Stores`] fences when it is dropped: later stores become visible after them.

use std::marker::PhantomData;

/// The copying of one message, in one piece or several. What it has copied becomes visible before anything
/// stored after it is dropped.
#[derive(Debug)]
#[must_use]
pub struct Stores {
    is_streamed: bool,
    /// The fence orders only the stores of the thread that makes it.
    thread: PhantomData<*const ()>,
}

impl Stores {
    /// Copies with ordinary stores.
    #[inline]
    pub fn ordinary() -> Self {
        Self {
            is_streamed: false,
            thread: PhantomData,
        }
    }

    /// Copies past the caches.
    #[inline]
    pub fn streamed() -> Self {
        Self {
            is_streamed: true,
            thread: PhantomData,
        }
    }

    /// Copies a piece of `length` bytes. With streaming, whole lines of 64 bytes are streamed if `to` is aligned to
    /// 16.
    ///
    /// # Safety
    /// As of [`std::ptr::copy_nonoverlapping`], but others may read and write the bytes at `to` meanwhile, as with memory that
    /// processes share. The copying thread does not access them before this value is dropped.
    #[inline]
    pub unsafe fn copy(&mut self, from: *const u8, to: *mut u8, length: usize) {
        let streamed = match self.is_streamed {
            // SAFETY: the caller promises it.
            true => unsafe { stream_lines(from, to, length) },
            false => 0,
        };
        // SAFETY: the rest of what the caller promises.
        unsafe {
            std::ptr::copy_nonoverlapping(from.add(streamed), to.add(streamed), length - streamed);
        }
    }
}

impl Drop for Stores {
    fn drop(&mut self) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if self.is_streamed {
            // SAFETY: every processor of this kind has SSE.
            unsafe { core::arch::x86_64::_mm_sfence() };
        }
    }
}

/// Copies as many whole lines of 64 bytes as there are; returns how many bytes that is.
///
/// # Safety
/// As of [`Stores::copy`].
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
unsafe fn stream_lines(from: *const u8, to: *mut u8, length: usize) -> usize {
    use core::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
    const WORD: usize = size_of::<__m128i>();
    const LINE: usize = 4 * WORD;
    if !to.addr().is_multiple_of(WORD) {
        return 0;
    }
    let whole = length - length % LINE;
    let mut position = 0;
    while position < whole {
        // SAFETY: `position + LINE` is at most `length`, so the words lie within what the caller promises; those of `to` are aligned,
        // as was asked. The fence is that of the drop.
        unsafe {
            let from = from.add(position).cast::<__m128i>();
            let to = to.add(position).cast::<__m128i>();
            let line = [
                _mm_loadu_si128(from),
                _mm_loadu_si128(from.add(1)),
                _mm_loadu_si128(from.add(2)),
                _mm_loadu_si128(from.add(3)),
            ];
            _mm_stream_si128(to, line[0]);
            _mm_stream_si128(to.add(1), line[1]);
            _mm_stream_si128(to.add(2), line[2]);
            _mm_stream_si128(to.add(3), line[3]);
        }
        position += LINE;
    }
    whole
}

/// Nothing is streamed here.
///
/// # Safety
/// None is needed.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline]
unsafe fn stream_lines(_from: *const u8, _to: *mut u8, _length: usize) -> usize {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_copied_from_and_to_anywhere() {
        let from: Vec<u8> = (0..4200u32).map(|at| (at % 251) as u8 + 1).collect();
        for length in (0..200).chain([1000, 2048, 4096, 4097]) {
            for (first, second) in [(0, 0), (1, 0), (0, 1), (3, 16), (8, 24)] {
                let mut to = vec![0; 4200];
                let mut stores = Stores::streamed();
                // SAFETY: both vectors have that many bytes behind these, and nobody looks before the drop.
                unsafe {
                    let to = to.as_mut_ptr().add(second);
                    stores.copy(from.as_ptr().add(first), to, length);
                }
                drop(stores);
                assert_eq!(to[second..second + length], from[first..first + length]);
                let around = to[..second].iter().chain(&to[second + length..]);
                assert!(around.copied().all(|byte| byte == 0), "{length}");
            }
        }
    }
}
