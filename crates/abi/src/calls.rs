//! Calls, written by hand: one module for each group of `tables/functions`. A public function is the call of
//! its name, in both forms (for a collective: the function that builds the schedule of all its forms); `cargo
//! xtask codegen` finds it here. Entry points have checked each argument alone; calls check what depends on
//! several arguments.

pub mod abi;
pub mod attribute;
pub mod buffering;
pub mod coll;
pub mod comm;
pub mod convert;
pub mod datatype;
pub mod errhandler;
pub mod file;
pub mod group;
pub mod info;
pub mod init;
pub mod memory;
pub mod misc;
pub mod neighborhood;
pub mod op;
pub mod p2p;
pub mod partitioned;
pub mod process;
pub mod recovery;
pub mod request;
pub mod rma;
pub mod tool;
pub mod topology;
