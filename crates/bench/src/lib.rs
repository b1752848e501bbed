//! Benchmark of Weft and its peers: experiments as values, one harness, statistics of all samples, a page of
//! plots.
//!
//! ```text
//!  catalog ──> experiment ──> harness ──> results ──> report (index.html)
//!  what is      a value:      turns in     the JSON,     a pure function
//!  measured     series,       random       all samples   of the results
//!               cells         order
//!                               │
//!              job (a launched MPI job, asked over a socket) · device (threads of this process)
//!              program (one library's component; ours: `components`)
//! ```
//!
//! An [`experiment::Experiment`] is a value that plans *cells*: one series at one place of the x axis. The
//! [`harness`] visits all cells of an experiment in an order drawn anew for every pass, asks each for a few
//! samples, and continues until the standard error is small or the budget ends. Everything that is recorded
//! is in `results.json`; the page shows nothing else.
#![forbid(unsafe_code)]

pub mod catalog;
pub mod command;
mod components;
pub mod device;
pub mod experiment;
pub mod harness;
mod hosts;
pub mod implementation;
mod intruders;
pub mod job;
pub mod machine;
mod process;
pub mod program;
pub mod report;
pub mod results;
pub mod schedule;
pub mod statistics;
pub mod summary;
