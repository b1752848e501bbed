//! The allocator of C as that of Rust.

use core::alloc::{GlobalAlloc, Layout};
use core::ptr;

/// The allocator of C. Blocks of both kinds below are freed in one way.
struct OfC;

#[global_allocator]
static MEMORY: OfC = OfC;

/// The alignment that every block of C has (`max_align_t`).
const ALIGNED: usize = 16;

// SAFETY: C's blocks have the size that was asked for, belong to who asked until they are freed, and are aligned to 16 bytes, or, by
// `posix_memalign`, to what was asked for.
unsafe impl GlobalAlloc for OfC {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= ALIGNED {
            // SAFETY: it has no conditions.
            return unsafe { libc::malloc(layout.size()) }.cast();
        }
        let mut block = ptr::null_mut();
        // SAFETY: the alignment of a layout is a power of two, and this one is a multiple of a pointer's size.
        let code = unsafe { libc::posix_memalign(&raw mut block, layout.align(), layout.size()) };
        match code {
            0 => block.cast(),
            _ => ptr::null_mut(),
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
        // SAFETY: the block is one of those above, and the caller gives it back.
        unsafe { libc::free(block.cast()) }
    }
}
