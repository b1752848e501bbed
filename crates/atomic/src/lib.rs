//! The one door to atomics and cells, and the structures that are built only from these.
//!
//! ```text
//!   types     aliases: core's atomics, or loom's when a model is explored
//!   cell      an UnsafeCell whose accesses loom can see
//!   fence     the pair of fences of every "announce, then look again" protocol
//!   ring      one producer, one consumer, in one process
//!   bits      a two-level bit set: which peers have something for me
//!   doorbell  sleep until somebody rings, also between processes
//!   lock      a mutex whose holder sees that others wait
//!   table     objects by index and generation, read without a lock
//!   arrivals  how far each member of a group has come, with some data
//!   admission things that others use until their owner takes them back: which users are inside
//!   reader_bias    sharers of a lock leave its word alone until somebody wants it alone
//!   ticket_lock    a lock that is shared or had alone, in order of asking, except for threads with other locks
//!   stores    stores of a process that its processor may still hold back
//!   fault_points   tests end a process after any store of a shared word
//! ```
//!
//! All rooms above take their atomics from here, so that one flag (`--cfg loom`) puts a whole structure under
//! the model checker:
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test --profile models -p weft-atomic --lib
//! ```
//!
//! This room makes no system call. Operations that need the kernel (sleep, wake, a fence on other cores) go
//! through a [`Kernel`], which the room above provides.
//!
//! Each `Release` names its `Acquire` by a label: `SYNC ring.publish` is at both ends.

pub mod admission;
pub mod arrivals;
pub mod biased;
pub mod bits;
pub mod cell;
pub mod doorbell;
#[cfg(fault_points)]
pub mod fault_points;
pub mod fence;
pub mod kernel;
pub mod lock;
pub mod reader_bias;
pub mod ring;
pub mod stores;
pub mod table;
pub mod ticket_lock;
pub mod types;

#[cfg(test)]
mod testing;

pub use cell::UnsafeCell;
pub use doorbell::{Doorbell, Ticket};
pub use fence::FenceMode;
pub use kernel::{Kernel, Woken};
pub use stores::StoresInFlight;
pub use types::{
    Arc, AtomicBool, AtomicI32, AtomicI64, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64,
    AtomicUsize, CacheLine, Mutex, MutexGuard, Ordering, compiler_fence, fence, look_again,
    spin_loop, yield_now,
};
