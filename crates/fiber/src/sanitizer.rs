//! Sanitizers: the calls that tell them of stacks. Compiled in only by `--cfg sanitizer="thread"` or `"address"`, which
//! `cargo xtask sanitize` sets; otherwise each function is empty.
//!
//! * ThreadSanitizer keeps a call stack and a clock for each thread. It is given one of its own "fibers" for
//!   each stack, whose handle lies in the frame of the suspended context (see [`switch`](crate::switch)). A
//!   switch orders what was before it before what comes after: both run on one thread.
//! * AddressSanitizer marks the bytes around local variables. The last frames of a fiber that has ended are never left,
//!   so their marks would stay on a stack that is reused: they are removed. It is not told the bounds of stacks, so it
//!   must run with `detect_stack_use_after_return=0`.

use weft_atomic::AtomicPtr;
#[cfg(any(sanitizer = "thread", sanitizer = "address"))]
use weft_atomic::Ordering;

/// Whether whoever watches (Miri's play of switches, too) is to be told of the end of a stack from another one.
pub(crate) const FOLLOWS_STACKS: bool =
    cfg!(any(miri, sanitizer = "thread", sanitizer = "address"));

#[cfg(sanitizer = "thread")]
mod thread {
    use crate::switch::Context;

    /// What ThreadSanitizer knows a stack by.
    pub(crate) type Handle = *mut core::ffi::c_void;

    unsafe extern "C" {
        fn __tsan_get_current_fiber() -> Handle;
        fn __tsan_create_fiber(flags: core::ffi::c_uint) -> Handle;
        fn __tsan_switch_to_fiber(fiber: Handle, flags: core::ffi::c_uint);
        fn __tsan_destroy_fiber(fiber: Handle);
    }

    /// The handle of the context that runs.
    #[inline(always)]
    pub(crate) fn current() -> Handle {
        // SAFETY: no condition.
        unsafe { __tsan_get_current_fiber() }
    }

    /// A handle for a new stack.
    pub(crate) fn create() -> Handle {
        // SAFETY: no condition.
        unsafe { __tsan_create_fiber(0) }
    }

    /// Where the handle of a suspended context lies.
    ///
    /// # Safety
    /// `context` is suspended.
    #[inline(always)]
    unsafe fn handle(context: Context) -> Handle {
        // SAFETY: the second word of a frame, as drawn in `switch`.
        unsafe { context.cast::<Handle>().add(1).read() }
    }

    /// The next instruction that is watched is of `next`.
    ///
    /// # Safety
    /// `next` is suspended, and the caller goes on with it at once.
    #[inline(always)]
    pub(crate) unsafe fn before_switch(next: Context) {
        // SAFETY: the handle was stored by `switch` or `prepare`; its stack has not ended.
        unsafe { __tsan_switch_to_fiber(handle(next), 0) }
    }

    /// # Safety
    /// `context` is suspended for ever.
    pub(crate) unsafe fn ended(context: Context) {
        // SAFETY: nobody switches to it any more, so nobody names the handle again.
        unsafe { __tsan_destroy_fiber(handle(context)) }
    }
}

#[cfg(sanitizer = "thread")]
pub(crate) use thread::{Handle, before_switch, create, current};

/// The context whose place this is has ended; what is between it and `top` will be used by another.
///
/// # Safety
/// `place` holds what its last switch stored, which will never go on; its stack is still mapped up to `top`.
#[inline(always)]
#[cfg_attr(not(sanitizer = "address"), allow(unused_variables))]
pub(crate) unsafe fn ended(place: &AtomicPtr<u8>, top: *mut u8) {
    #[cfg(sanitizer = "thread")]
    // SAFETY: `place` holds a stored context that never goes on, as the caller promises; its handle is destroyed once.
    unsafe {
        thread::ended(place.load(Ordering::Relaxed));
    }
    #[cfg(sanitizer = "address")]
    {
        unsafe extern "C" {
            fn __asan_unpoison_memory_region(start: *const core::ffi::c_void, length: usize);
        }
        let low = place.load(Ordering::Relaxed);
        // SAFETY: from the stored context to `top`, which the caller promises to be mapped, is a part of one stack.
        unsafe { __asan_unpoison_memory_region(low.cast(), top.addr() - low.addr()) };
    }
}
