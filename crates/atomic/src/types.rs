//! Atomic types under one name each, whether the program runs or a model of it is explored.
//!
//! They are aliases, not re-exports, so that a lint that bans the raw types elsewhere does not see
//! through them.
#![allow(clippy::disallowed_types)] // this is the door

pub use core::sync::atomic::{Ordering, compiler_fence};

#[cfg(loom)]
use loom as base;
#[cfg(not(loom))]
use std as base;

#[cfg(fault_points)]
use crate::fault_points as shared;
/// The source of words that processes may share.
#[cfg(not(fault_points))]
use base::sync::atomic as shared;

/// A boolean shared between threads.
pub type AtomicBool = base::sync::atomic::AtomicBool;
/// A `u8` shared between threads.
pub type AtomicU8 = base::sync::atomic::AtomicU8;
/// A `u16` shared between threads.
pub type AtomicU16 = base::sync::atomic::AtomicU16;
/// A `u32` shared between threads; also the word of a futex.
pub type AtomicU32 = shared::AtomicU32;
/// A `u64` shared between threads.
pub type AtomicU64 = shared::AtomicU64;
/// A `usize` shared between threads.
pub type AtomicUsize = base::sync::atomic::AtomicUsize;
/// An `i32` shared between threads.
pub type AtomicI32 = shared::AtomicI32;
/// An `i64` shared between threads.
pub type AtomicI64 = base::sync::atomic::AtomicI64;
/// A pointer shared between threads.
pub type AtomicPtr<T> = base::sync::atomic::AtomicPtr<T>;
/// A counted reference shared between threads.
pub type Arc<T> = base::sync::Arc<T>;

/// A mutual exclusion between threads, for what is off the hot path.
pub type Mutex<T> = base::sync::Mutex<T>;
/// Access to what a [`Mutex`] protects.
pub type MutexGuard<'a, T> = base::sync::MutexGuard<'a, T>;

/// The word of a futex as it is passed to the kernel.
#[cfg(not(loom))]
#[inline]
#[must_use]
pub fn kernel_word(word: &AtomicU32) -> &core::sync::atomic::AtomicU32 {
    #[cfg(fault_points)]
    return word.plain();
    #[cfg(not(fault_points))]
    word
}

/// A fence between threads. Under loom, only `SeqCst` fences order more than the accesses next to them do.
#[inline]
pub fn fence(order: Ordering) {
    base::sync::atomic::fence(order);
}

/// Tells the core that this is a waiting loop.
pub fn spin_loop() {
    base::hint::spin_loop();
}

/// Comes between two looks at what another core is about to write. The loads of the next look begin when those of this one have
/// ended. Otherwise the processor has the loads of many looks to come under way, and one of them takes the line away from the
/// core that writes, before it has written all that it has for it. A [`spin_loop`] does the same, but may take as long as the line.
#[inline(always)]
pub fn look_again() {
    #[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
    // SAFETY: it orders loads, and does nothing else; every processor of this architecture has it.
    unsafe {
        core::arch::x86_64::_mm_lfence();
    }
    #[cfg(all(target_arch = "aarch64", not(any(loom, miri))))]
    fence(Ordering::Acquire);
    #[cfg(any(loom, miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    spin_loop();
}

/// Lets another thread run.
pub fn yield_now() {
    #[cfg(fault_points)]
    if let Some(machine) = shared::machine() {
        return machine.yield_core();
    }
    base::thread::yield_now();
}

/// A value on cache lines of its own. 128 bytes, because the adjacent-line prefetcher of x86 fetches pairs of
/// lines, so that a neighbour at 64 would still be fetched with it.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct CacheLine<T>(pub T);

impl<T> core::ops::Deref for CacheLine<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> core::ops::DerefMut for CacheLine<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}
