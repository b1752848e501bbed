//! Launcher of jobs, and bootstrap of their ranks.
//!
//! ```text
//!   mpiexec ── frontend ───────── supervisor ─────────────── rank 0 … rank n-1
//!              what the user      outside of the frontend's   each with: the segment, a control
//!              sees: terminal,    process group: starts,      socket, a lifeline
//!              signals, code      watches, prints, ends
//! ```
//!
//! In this order each module needs only those below it:
//!
//! | module | what |
//! |---|---|
//! | [`command`] | `mpiexec` from its arguments to its exit code |
//! | `job` | the two processes of a running job, output, failures, the end |
//! | [`hosts`] | jobs on several hosts: head, agents, `weft join` |
//! | `rank_processes` | the rank processes of one host: of a job on this host, or below an agent |
//! | `guard` | two processes that watch each other, and end together |
//! | [`plan`] | the job before its start: programs found, environments, numbers of ranks |
//! | `linkage` | whether a program was linked with another MPI |
//! | [`options`] | the spellings of the command line: `tables/options.toml` |
//! | [`allocation`] | the hosts that a scheduler has given: Slurm, PBS, LSF, Grid Engine, Flux, host files of operators |
//! | [`mapping`] | the hosts of a job, and which ranks each gets |
//! | [`binding`] | the cores of their host that ranks run on |
//! | `control`, `exchange` | messages of a rank to its launcher; values that ranks exchange through it |
//! | [`profile`] | where the time of the ranks goes: their records, the table, the timeline |
//! | [`inspection`] | looking at a running job: `weft ps`, `weft top`, `weft stacks` |
//! | `job_request`, `worlds` | requests of a rank to the job as a whole; processes that were started later, ports, services |
//! | `segment` | the shared memory that the ranks of a host start with |
//! | `tree`, `signals`, `exit_status` | all processes that descend from the launcher, and their end |
//!
//! | module beside these | what |
//! |---|---|
//! | [`check_mode`] | which checks of programs are on |
//! | [`bootstrap`] | the side of a rank: how a process learns which rank it is |
//! | [`fabric`] | by which fabric it reaches the others |
//! | [`other_jobs`] | how it reaches processes of other jobs |
//! | [`runtime`] | MPI and the services at one endpoint of that fabric |
//! | [`wrapper`] | `mpicc`, `mpicxx` |
//!
//! # Nothing is left behind
//! Frontend and supervisor watch each other; whichever dies, the other ends every process that descends
//! from the job and exits. Both adopt orphans, so any process that a rank starts stays below one of them. If
//! both are killed at once, ranks end by themselves: those started directly by the parent-death signal,
//! those that have initialised MPI by their lifeline ([`weft_sys::lifeline`]). No file and no port is
//! made, so none is left.

#![forbid(unsafe_code)]

pub mod adoption;
pub mod allocation;
pub mod binding;
pub mod bootstrap;
pub mod check_mode;
pub mod command;
mod control;
mod exchange;
mod exit_status;
pub mod fabric;
mod guard;
mod hex;
pub mod hosts;
pub mod inspection;
mod job;
mod job_request;
mod linkage;
pub mod mapping;
pub mod options;
pub mod other_jobs;
pub mod plan;
pub mod profile;
mod rank_processes;
pub mod runtime;
mod segment;
mod signals;
mod tree;
pub mod user_output;
mod worlds;
pub mod wrapper;

/// Deadlocks of ranks that nobody of ours has started: those that are threads.
pub mod deadlock {
    pub use crate::job::deadlock::{DeadlockWatch, RunningRank, Standstill, WatchedRanks};
}
