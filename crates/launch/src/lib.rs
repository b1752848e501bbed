//! The launcher and the bootstrap of a rank.
//!
//! ```text
//!   mpiexec ── front ──────────── supervisor ─────────────── rank 0 … rank n-1
//!              what the user      outside of the front's      each with: the segment, a control
//!              sees: terminal,    process group: starts,      socket, a lifeline
//!              signals, code      watches, prints, ends
//! ```
//!
//! | module | what |
//! |---|---|
//! | [`command`] | `mpiexec` from its arguments to its exit code |
//! | [`options`] | the spellings it understands: `tables/options.toml` |
//! | [`plan`] | what is to be started: programs found, environments, numbers of ranks |
//! | `linked` | whether a program was linked with another MPI |
//! | `job` | the two processes of a running job, output, failures, the end |
//! | `tree` | all processes that descend from us, and their end |
//! | `segment` | the shared memory that the ranks of a host start with |
//! | `exchange` | values that ranks exchange through their launchers |
//! | `hosts` | jobs on several hosts: head, agents, `weft join` |
//! | [`wrapper`] | `mpicc`, `mpicxx` |
//! | [`bootstrap`] | the other side: how a process learns which rank it is |
//! | [`fabric`] | and by what it reaches the others |
//!
//! # Nothing is left behind
//! Front and supervisor watch each other; whichever dies, the other ends every process that descends
//! from the job and exits. Both adopt orphans, so whatever a rank starts stays below one of them. If
//! both are killed at once, ranks end by themselves: by the parent-death signal those started directly,
//! by their lifeline ([`weft_sys::lifeline`]) those that have initialised MPI. No file and no port is
//! made, so none is left.

#![forbid(unsafe_code)]

pub mod bootstrap;
pub mod command;
mod control;
mod exchange;
mod exit_status;
pub mod fabric;
mod guard;
mod hex;
pub mod hosts;
mod job;
mod linkage;
pub mod mapping;
pub mod options;
pub mod plan;
mod rank_processes;
mod segment;
mod signals;
mod tree;
pub mod wrapper;
