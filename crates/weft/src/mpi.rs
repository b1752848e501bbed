//! MPI for Rust programs: typed, safe, blocking and `async`.
//!
//! A rank is a process started by `mpiexec`, or a thread of a test. Ranks send each other messages, and call
//! *collectives* together. A [`Communicator`] is the group of ranks that communicate; the first one is the world, all
//! ranks of the job.
//!
//! ```
//! use weft::mpi::{self, op};
//!
//! // As threads: in a test, or here.
//! mpi::test(4, |world| {
//!     let (rank, size) = (world.rank(), world.size());
//!     // A message around a ring.
//!     let (left, right) = ((rank + size - 1) % size, (rank + 1) % size);
//!     let (word, status) = world.send_receive(&format!("from {rank}"), right, 0, left, 0)?;
//!     assert_eq!(word, format!("from {left}").into_bytes());
//!     assert_eq!(status.source(), Some(left));
//!     // A sum over all ranks.
//!     assert_eq!(world.allreduce(&rank, op::sum())?, 6);
//!     Ok(())
//! });
//! ```
//!
//! As a program, `cargo build` and `mpiexec -n 4 target/debug/program`:
//!
//! ```no_run
//! use weft::mpi;
//!
//! fn main() -> mpi::Result<()> {
//!     mpi::run(|world| {
//!         println!("rank {} of {}", world.rank(), world.size());
//!         world.barrier()
//!     })
//! }
//! ```
//!
//! Started alone, the program is a job of one. An error that leaves `main` ends the job.
//!
//! # Where to look
//!
//! | for | see |
//! |---|---|
//! | what can be sent: numbers, arrays, tuples, structs by `#[derive(Element)]` | [`Element`], [`Buffer`] |
//! | messages from one rank to another | [`PointToPoint`] |
//! | broadcast, gather, reduce and the like | [`Communicator`], [`coll`] |
//! | operations of reductions, and functions of the program | [`op`], [`Op`] |
//! | operations under way: requests that own their buffer, and scopes for those that borrow it | [`request`], [`scope`](scope()) |
//! | `.await` | [`Request`], [`Completing`], [`block_on`] |
//! | operations that are repeated | [`Persistent`] |
//! | messages whose parts become ready one by one | [`PartitionedSend`], [`PartitionedReceive`] |
//! | parts of the world, groups | [`Communicator::split`], [`Group`] |
//! | processes by the names of sets, communicators without a world, for libraries | [`Session`] |
//! | grids and graphs of neighbours | [`Grid`], [`Graph`] |
//! | memory of other ranks: put, get, counters | [`Window`] |
//! | files that all ranks read and write | [`File`] |
//! | starting processes while the program runs | [`Program`] |
//! | connecting groups without a common communicator | [`Port`], [`Service`] |
//! | communication of two groups | [`Intercommunicator`] |
//! | values cached with a communicator or a window; hints | [`Key`], [`Info`] |
//! | counts of a rank's own work | [`PerformanceVariables`] |
//! | start and end of processes | [`init`], [`run`], [`Environment`] |
//! | ranks as threads | [`test()`], [`run_ranks`] |
//!
//! # What is promised
//! * No call can read memory that is not initialised, or write to memory that a reference points to, whatever is dropped, leaked or
//!   sent by others. Received data are checked if their type has invalid bit patterns (`bool`, `char`, enums).
//! * The error of every call is an [`Error`] with its [class](ErrorClass) and a sentence; no call panics unless it says so.
//! * All types may be used from any thread, at the same time (`MPI_THREAD_MULTIPLE`), and from [fibers](crate::fiber).
//! * There are no globals: many ranks may live in one process.

mod attribute;
mod blocks;
mod buffer;
pub mod coll;
mod communicator;
mod element;
mod envelope;
mod environment;
mod file;
mod future;
mod group;
mod immediate;
mod inter;
mod memory;
pub mod op;
mod p2p;
mod partitioned;
mod persistent;
mod ports;
mod processes;
mod ranks;
mod recovery;
pub mod request;
mod scope;
mod session;
mod state;
mod tools;
mod topology;
mod window;

pub use weft_derive::Element;
pub use weft_mpi::info::Info;
pub use weft_mpi::{Error, ErrorClass, Result};

pub use attribute::Key;
pub use blocks::Blocks;
pub use buffer::{Buffer, BufferMut};
pub use communicator::{Communicator, Comparison, PointToPoint};
pub use element::{Complex, Element, Located};
pub use envelope::{Any, Destination, MAX_TAG, Source, Status, Tag};
pub use environment::{Environment, init, run};
pub use file::{AccessMode, File, Whence};
pub use future::{Completing, block_on};
pub use group::Group;
pub use inter::{Intercommunicator, Root};
pub use op::Op;
pub use p2p::Message;
pub use partitioned::{Partition, PartitionedReceive, PartitionedSend};
pub use persistent::{Persistent, start_all};
pub use ports::{Port, Service};
pub use processes::Program;
pub use ranks::{run_ranks, test};
pub use recovery::Agreement;
pub use request::{Request, Tested, wait_all, wait_any};
pub use scope::{Scope, scope};
pub use session::Session;
pub use tools::PerformanceVariables;
pub use topology::{Graph, Grid, Neighbourhood, dims_create};
pub use window::{ActiveEpoch, Epoch, Expected, Exposure, Window};

/// What `#[derive(Element)]` writes.
#[doc(hidden)]
pub mod derived {
    pub use super::element::{cached, structure};

    /// The datatype of a type.
    pub type Shared = std::sync::Arc<weft_mpi::Datatype>;
}
