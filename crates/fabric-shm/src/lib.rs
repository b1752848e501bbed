//! Processes of one host: rings in one memory file, doorbells on futex, bulk by cross-memory attach
//! where it is proven to work and by chunks elsewhere.
//!
//! ```text
//!   launcher   segment_size(n) → memory file → initialise → n processes inherit the descriptor
//!   rank       Shm::attach(descriptor, rank) → a Fabric
//!
//!   one segment ┌────────┬──────────────┬─────────────┬───────────────────────────────┐
//!               │ Header │ n × Control  │ n × grants  │ n·n lanes, grouped by receiver │
//!               └────────┴──────────────┴─────────────┴───────────────────────────────┘
//!                who is    doorbell       what others    LaneHead │ slots │ bulk area
//!                here      news           may move
//!                          who it is
//! ```
//!
//! | file | what |
//! |---|---|
//! | `layout` | where everything stands, and who may write it |
//! | `lane` | one sender, one receiver: slots, bulk area, credit |
//! | `news` | how a receiver finds work at a cost that does not grow with idle peers; the fences |
//! | `bell`, `run_states` | sleeping, waking, and who is awake |
//! | `grants`, `revoke` | bulk data: permission, and taking it back while others are at it |
//! | `portal`, `chunks` | the direct ways, the way that always works |
//! | `assist` | two cores for one large transfer |
//! | `attach` | joining a job |
//! | `endpoint`, `receive` | the [`Fabric`](weft_fabric::Fabric): sending and looking |
//! | `watch` | what the launcher sees |
//! | `seats`, `seated` | who died, and who was started in their place |
//!
//! # What is guaranteed
//! Besides the contract of [`weft_fabric`]: no name in any file system, no port; nothing is left when
//! processes die, whichever; a rank of another user or without the descriptor cannot attach, since
//! there is nothing to open. Attaching waits for nobody.
//!
//! # What is merely true today
//! A message of up to 24 bytes of data moves one cache line. A rank that dies is noticed by the
//! launcher, not here; a rank that aborts is. Memory is taken by what is touched: a lane that is never
//! used costs address space.
//!
//! # Trust
//! Whoever has the descriptor may write anything anywhere in the segment at any time. That can spoil
//! the job; it cannot make a rank touch memory outside of the segment or of what it granted itself:
//! cursors, sizes and regions are private, what is read is read once and checked.

mod assist;
mod attach;
mod bell;
mod chunks;
#[cfg(all(test, fault_points))]
mod deaths;
mod endpoint;
mod grants;
mod lane;
mod layout;
mod news;
mod options;
mod portal;
mod receive;
mod revoke;
mod run_states;
mod seated;
mod seats;
mod watch;

pub use endpoint::{Shm, fences_probe};
pub use layout::{MAX_RANKS, ProcessState, initialise, initialise_with_spares, segment_size};
pub use options::{Options, Use};
pub use seated::seated;
pub use watch::{Abort, Watch};
