//! Processes of one host: rings in one memory file, doorbells on futex, bulk by cross-memory attach
//! where it is proven to work and by chunks elsewhere.
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
//!   behind it   heap: an arena for each process slot, of which blocks are mapped one by one
//! ```
//!
//! An endpoint is composed of four owners. What stands below or to the right knows nothing of what stands above or to
//! the left:
//!
//! ```text
//!   respawnable ─► endpoint ─► delivery ─┬─► inbound       poll set: which lanes to look at
//!                                        ├─► portal        grants, transfers, methods
//!                                        ├─► outbound      fence, announce, ring
//!                                        └─► membership    who is there, who is lost
//!        lane, bell, poll_set, slots, heap ─► placement ─► segment ─► layout ─► run_states, shared_transfer
//! ```
//!
//! | file | what |
//! |---|---|
//! | `layout`, `segment` | the structures of the memory file, and who may write them; the file as mapped and checked |
//! | `run_states`, `placement`, `bell` | who is awake, and on which core; sleeping and waking |
//! | `lane` | one sender, one receiver: slots, bulk area, credit |
//! | `poll_set` | how a receiver finds work at a cost that does not grow with idle peers; the fences |
//! | `outbound`, `inbound` | the lanes to and from all peers |
//! | `slots`, `membership` | which process has which process slot; who is lost, and why |
//! | `addresses` | where processes that are started later can be reached over a network |
//! | `heap` | memory that processes share by blocks, behind the segment |
//! | `portal` | bulk data: grants, revoking, and the methods that move bytes |
//! | `endpoint`, `delivery` | the [`Fabric`](weft_fabric::Fabric), composed; what is done with what arrives |
//! | `attach` | joining a job |
//! | `watch` | the launcher's side: it sees how far ranks are, and tells of deaths |
//! | `respawnable` | ranks whose processes are started anew |
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

pub use addresses::{Addresses, LONGEST_ADDRESS};
pub use endpoint::{Shm, fences_probe};
pub use layout::{JobSize, MAX_RANKS, MOST_ADDRESSES, ProcessState, job_memory_size, segment_size};
pub use options::{Options, Use};
pub use respawnable::respawnable;
pub use segment::{initialise, initialise_job};
pub use sleep_elsewhere::SleepElsewhere;
pub use watch::{Abort, Watch};
