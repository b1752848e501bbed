//! Shared-memory fabric, for processes of one host: rings in one memory file, doorbells on futexes, bulk data by cross-memory
//! attach where a probe shows that it works and by chunks elsewhere.
//!
//! ```text
//!   launcher   job_memory_size(n) → memory file → initialise → n processes inherit the descriptor
//!   rank       Shm::attach(descriptor, rank) → a Fabric
//!
//!   one segment ┌────────┬──────────────┬─────────────┬───────────────────────────────┐
//!               │ Header │ n × Control  │ n × grants  │ n·n lanes, grouped by receiver │
//!               └────────┴──────────────┴─────────────┴───────────────────────────────┘
//!                run       doorbell       what others    LaneHead │ slots │ bulk area
//!                states    pending lanes  may move
//!                          identity
//!   after it    heap: an arena for each process slot, whose blocks are mapped one by one
//! ```
//!
//! An endpoint is composed of four owners. A module does not depend on those above it or to its left:
//!
//! ```text
//!   respawnable ─► endpoint ─► delivery ─┬─► inbound       poll set: which lanes to look at
//!                                        ├─► portal        grants, transfers, methods
//!                                        ├─► outbound      fence, announce, ring
//!                                        └─► membership    which peers exist, which are lost
//!        lane, bell, poll_set, slots, heap ─► placement ─► segment ─► layout ─► run_states, shared_transfer
//! ```
//!
//! | file | what |
//! |---|---|
//! | `layout`, `segment` | the structures of the memory file, and which process may write them; the file as mapped and checked |
//! | `run_states`, `placement`, `bell`, `who_fences` | which ranks are awake, and on which core; sleeping and waking |
//! | `lane` | one sender, one receiver: slots, bulk area, credit |
//! | `poll_set` | how a receiver finds work at a cost that does not grow with idle peers; the fences |
//! | `outbound`, `inbound` | the lanes to and from all peers |
//! | `slots`, `membership` | which process has which process slot; which peers are lost, and why |
//! | `addresses` | where processes that are started later can be reached over a network |
//! | `heap` | memory that processes share by blocks, after the segment |
//! | `portal` | bulk data: grants, revoking, and the methods that move bytes |
//! | `endpoint`, `delivery` | the [`Fabric`](weft_fabric::Fabric), composed; the handling of arrivals |
//! | `attach` | joining a job |
//! | `watch` | the launcher's side: it sees how far ranks are, and reports deaths |
//! | `respawnable` | ranks whose processes are started anew |
//!
//! # What is guaranteed
//! Besides the contract of [`weft_fabric`]: no name in any file system, no port; nothing is left whichever
//! processes die; a process of another user or without the descriptor cannot attach, since
//! there is nothing to open. Attaching waits for no other process.
//!
//! # What is merely true today
//! A message of up to 24 bytes of data moves one cache line. The death of a rank is noticed by the
//! launcher, not here; an abort is noticed here. Only touched memory is used: a lane that is never
//! used costs address space.
//!
//! # Trust
//! Any process with the descriptor may write anything anywhere in the segment at any time. That can break
//! the job; it cannot make a rank access memory outside of the segment or of its own grants:
//! cursors, sizes and regions are private, and bytes are read once and checked.

mod addresses;
mod attach;
mod bell;
#[cfg(all(test, fault_points))]
mod deaths;
mod delivery;
mod endpoint;
mod heap;
mod inbound;
mod lane;
mod layout;
mod membership;
mod options;
mod outbound;
mod placement;
mod poll_set;
mod portal;
mod respawnable;
mod run_states;
mod segment;
mod shared_transfer;
mod sleep_elsewhere;
mod slots;
mod watch;
mod who_fences;

pub use addresses::{Addresses, LONGEST_ADDRESS, RemoteEnd};
pub use endpoint::{Shm, fences_probe};
pub use layout::{JobSize, MAX_RANKS, MOST_ADDRESSES, ProcessState, job_memory_size, segment_size};
pub use options::{Options, Use};
pub use respawnable::respawnable;
pub use segment::{initialise, initialise_job};
pub use sleep_elsewhere::SleepElsewhere;
pub use watch::{Abort, Watch};
