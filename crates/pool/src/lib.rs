//! Packet pool: packets of one size, taken and returned without contention.
//!
//! ```text
//!   worker 0                worker 1                 each has a Local
//!   ┌────────┐┌──────────┐  ┌────────┐┌──────────┐
//!   │ loaded ││ previous │  │ loaded ││ previous │   magazines: stacks of packets; the loaded one is private
//!   └───┬────┘└────┬─────┘  └───┬────┘└────┬─────┘
//!       └──────────┴ whole magazines ──────┘
//!                      depot                         lock-free, shared
//! ```
//!
//! Taking and returning touch only the worker's loaded magazine. Once in a magazine's worth of calls it is
//! exchanged with the previous one, and that with the depot. A worker that finds its own magazines and the depot empty, and
//! may make no more packets, takes the previous magazine of another worker. With two magazines, a worker that alternates
//! at the edge of one does not go to the depot each time. Packets that one worker takes and another
//! returns travel back in magazines.
//!
//! Packets are made when first needed, up to the pool's count, so an unused pool costs
//! nothing. After that nothing is allocated.
//!
//! # Guaranteed
//! * At most `count` packets exist at a time. A [`Packet`] that is dropped instead of returned frees
//!   its memory, and its place can be used for a new one.
//! * A packet has one owner. It keeps what was written to it: a new owner must write before
//!   reading.
//!
//! # True today
//! * Other workers cannot take packets of a worker's loaded magazine, so another worker may
//!   find the pool empty meanwhile. Hence a pool should hold
//!   [`Pool::idle_share`] packets per worker more than are in use at once.
//!
//! Magazines over a depot, and their names, are those of Bonwick and Adams, "Magazines and Vmem", USENIX 2001; taking
//! the previous magazine of another worker is an addition.
//!
//! ```
//! let pool = weft_pool::Pool::new(1024, 256);
//! let mut local = pool.local();
//! let mut packet = local.get().expect("256 are left");
//! packet[..5].copy_from_slice(b"hello");
//! local.give_back(packet);
//! ```

mod depot;
mod packet;
mod pool;

pub use packet::Packet;
pub use pool::{Local, Pool};
