//! MPI over any fabric: a [`Process`] is one rank as a value, without globals.
//!
//! ```text
//!  Comm::send / recv / isend …   p2p/        point-to-point: what callers see
//!  Comm::barrier / bcast …       coll/       builders of schedules
//!  Process, Comm                 process, comm/              a rank, its communicators
//!        ▼
//!  Engine                        engine/     matching, requests, progress, protocols, schedules
//!        ▼
//!  Buffer, Datatype, Op, Group   buffer, datatype/, op/, group   the values that the engine works on
//!  dyn Fabric                    (crate weft-fabric)
//! ```
#![deny(unsafe_code)]

pub mod buffer;
pub mod coll;
pub mod comm;
pub mod datatype;
mod ending;
mod engine;
pub mod error;
mod exposed;
pub mod extras;
pub mod group;
mod helper;
pub mod info;
pub mod io;
pub mod left_over;
pub mod marks;
pub mod memory;
pub mod op;
pub mod p2p;
mod process;
pub mod process_set;
pub mod rma;
pub mod wait_times;
pub mod waits;

pub use buffer::Buffer;
pub use comm::Comm;
pub use datatype::Datatype;
pub use engine::{RequestId, SendMode, Status, counters, events, schedule};
pub use error::{Error, ErrorClass, Result};
pub use group::Group;
pub use op::Op;
pub use p2p::{Message, RequestList, Source, TagPattern, Target};
pub use process::Process;
