//! The one door to atomics and cells, and the structures that are built of nothing else.
//!
//! ```text
//!   types     aliases: core's atomics, or loom's when a model is explored
//!   cell      an UnsafeCell whose accesses loom can see
//!   fence     the pair of fences of every "announce, then look again" protocol
//!   ring      one producer, one consumer, in one process
//!   bits      a two-level bit set: who has something for me
//!   doorbell  sleep until somebody rings, also between processes
//!   lock      a mutex that shows its holder that others wait
//!   table     objects by index and generation, read without a lock
//!   arrivals  who of a group has come how far, with something to tell
//!   admission what others use until its owner takes it back: who is inside, and what becomes of them
//!   reader_bias    who shares a lock leaves its word alone until somebody wants it alone
//!   ticket_lock    a lock that is shared or had alone, in the order of asking, but for who has other locks
//!   stores    what a process has stored and its processor may still keep from others
//!   fault_points   tests end a process after any store of a shared word
//! ```
//!
//! Everything above takes its atomics from here, so that one flag (`--cfg loom`) puts a whole
//! structure under the model checker:
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test --profile models -p weft-atomic --lib
//! ```
//!
//! This room makes no system call. What needs the kernel (sleeping, waking, a fence on other cores)
//! is asked of a [`Kernel`], which the room above provides.
//!
//! Each `Release` names its `Acquire` by a label: `SYNC ring.publish` stands at both ends.

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
    AtomicUsize, CacheLine, Mutex, MutexGuard, Ordering, compiler_fence, fence, spin_loop,
    yield_now,
};
