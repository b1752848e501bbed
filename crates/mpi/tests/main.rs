//! MPI over any fabric: the engine with ranks that are threads, processes' memory, or simulated.
//!
//! One test program, as each would be linked with all fabrics: `cargo test -p weft-mpi --test engine deaths::` runs the
//! tests of one file.
#![allow(missing_docs)]

mod asking;
mod at_once;
mod boards;
mod collectives;
mod common;
mod communicators;
mod counters;
mod crowd;
mod deadlocks;
mod deadlocks_of_threads;
mod deaths;
mod divided;
mod driving;
mod fibers;
mod flow;
mod left_over;
mod losses;
mod one_sided;
mod one_sided_locks;
mod one_sided_random;
mod one_sided_unlike;
mod outstanding;
mod partitioned;
mod pieces;
mod point_to_point;
mod program_code;
mod reaching;
mod recovery;
mod side_by_side;
mod traffic;
mod transfers;
mod worlds;
