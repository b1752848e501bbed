//! The packet pool: packets of one size, taken and given back without contention.
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
//! Getting and giving back touch only the worker's loaded magazine. Once in a magazine's worth of calls it is
//! exchanged with the previous one, and that with the depot. A worker that finds its own and the depot empty, and
//! may make no more, takes the previous magazine of another worker. With two magazines, a worker that swings back
//! and forth at the edge of one does not go to the depot each time. Packets that one worker gets and another
//! gives back travel home in magazines.
//!
//! Packets are made when first needed, up to the pool's count, so a pool that is not used costs
//! nothing. After that nothing is allocated.
//!
//! # Guaranteed
//! * At most `count` packets exist at a time. A [`Packet`] that is dropped instead of given back frees
//!   its memory, and its place can be used for a new one.
//! * A packet has one owner. It keeps what was written to it: whoever gets it must write before
//!   reading.
//!
//! # True today
//! * A worker's loaded magazine is out of others' reach: another worker may
//!   find the pool empty meanwhile. Hence a pool should hold
//!   [`Pool::idle_share`] packets a worker more than are in use at once.
//!
//! Magazines over a depot, and their names, are those of Bonwick and Adams, "Magazines and Vmem", USENIX 2001; that
//! others may take the previous one is not.
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
