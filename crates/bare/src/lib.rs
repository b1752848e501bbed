//! What the libraries need that only translate: they do without Rust's standard library, of which each would hold a copy.
//!
//! ```text
//!   memory      the allocator of C
//!   lock        a mutual exclusion
//!   line        a line on standard error: `say!`
//!   last_words  what a panic says before the process ends
//!   atomics     those of `core`
//! ```
//!
//! A panic of the standard library can print a backtrace. The reader of debug information that it brings along is two thirds of a
//! library that has little code of its own, and five of these are installed.
//!
//! Where a panic unwinds (debug builds, tests), Rust has no such libraries: the standard library is linked, and allocates and panics. All
//! else is the same.
#![no_std]

#[cfg(any(test, not(panic = "abort")))]
extern crate std;

#[cfg(all(panic = "abort", not(test)))]
mod last_words;
pub mod line;
pub mod lock;
#[cfg(all(panic = "abort", not(test)))]
mod memory;

pub use lock::Mutex;

/// Atomics of `core`: what translates has no structure that a model explores, and `weft-atomic` needs the standard library.
#[allow(clippy::disallowed_types)] // a second door, for libraries that cannot go through the first
pub mod atomics {
    pub use core::sync::atomic::Ordering;

    /// An `i32` shared between threads.
    pub type AtomicI32 = core::sync::atomic::AtomicI32;
    /// A pointer shared between threads.
    pub type AtomicPtr<T> = core::sync::atomic::AtomicPtr<T>;
    /// A `usize` shared between threads.
    pub type AtomicUsize = core::sync::atomic::AtomicUsize;
}

/// Ends the process as one that is broken.
pub fn abort() -> ! {
    // SAFETY: it has no conditions.
    unsafe { libc::abort() }
}
