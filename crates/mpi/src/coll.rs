//! Collectives (MPI 5.0, chapter 6) as builders of [`Schedule`](crate::schedule::Schedule)s.
//!
//! ```text
//!   arguments ──► builder ──► Schedule ──► Comm::run       blocking
//!                  │  ▲                └─► Comm::begin     non-blocking
//!            choice ┘  └ Plan, Blocks  └─► Comm::prepare   persistent
//! ```
//!
//! A builder checks the arguments, asks `choice` for an algorithm and writes down the steps of this rank; nothing is sent
//! before the schedule is run. Each collective has its file, with all its algorithms. Data with gaps are packed before
//! the first step and unpacked after the last (`plan`), so that algorithms see only contiguous bytes.
//!
//! All ranks must make the same choice: it depends on the size of the communicator, on which ranks share a host, on
//! whether that host is crowded (the same for all ranks of a host, and asked only for what they do among themselves) and
//! on sizes that the standard makes equal on all ranks. If a program breaks that rule, a receive that gets more or fewer
//! bytes than it expects ends the call with `Truncate` and its name.
//!
//! `None` stands for `MPI_IN_PLACE` if the buffer is an `Option`; reductions take the receive buffer as send buffer, too,
//! since both may be the same memory.

mod allgather;
mod allreduce;
mod alltoall;
pub(crate) mod alone;
mod barrier;
mod bcast;
mod blocks;
mod choice;
mod collective;
mod gather;
mod hosts;
pub mod inter;
mod neighbour;
pub(crate) mod on_board;
mod plan;
mod reduce;
mod reduce_scatter;
mod scan;
mod scatter;
mod tree;

#[cfg(test)]
mod interpreter;
#[cfg(test)]
mod tests;

pub use allgather::{allgather, allgatherv};
pub use allreduce::allreduce;
pub use alltoall::{alltoall, alltoallv};
pub use barrier::barrier;
pub use bcast::bcast;
pub use blocks::Blocks;
pub use collective::Collective;
pub use gather::{gather, gatherv};
pub use hosts::Hosts;
pub(crate) use hosts::Placement;
pub use on_board::at_once::Elements;
pub use on_board::place;
pub(crate) use plan::Cut;

pub use neighbour::{NeighbourExchange, neighbour_allgather, neighbour_alltoall};
pub use reduce::{Reduction, ReductionArgument, reduce};
pub use reduce_scatter::{reduce_scatter, reduce_scatter_block};
pub use scan::{exscan, scan};
pub use scatter::{scatter, scatterv};

use std::sync::Arc;

use crate::comm::Comm;
use crate::error::{Error, ErrorClass, Result};

/// The facts about a communicator that a builder needs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Members {
    /// Rank of this process.
    pub rank: usize,
    /// Number of members.
    pub size: usize,
    /// There are more members on this rank's host than it has cores: then the number of wake-ups counts, not the number
    /// of hops of a message. The same on all ranks of a host.
    pub crowded: bool,
    /// Their hosts, if known and more than one.
    pub hosts: Option<Arc<Hosts>>,
}

impl Members {
    /// Those of a communicator.
    #[must_use]
    pub fn of(comm: &Comm) -> Self {
        let load = comm.process().load();
        let rank = comm.rank() as usize;
        let (hosts, here) = match comm.placement() {
            Placement::OneHost => (None, comm.size()),
            Placement::Several(hosts) => {
                let here = hosts.ranks_beside(rank).len() as u32;
                (Some(Arc::clone(hosts)), here)
            }
            // Of another host nobody knows whether it is crowded.
            Placement::Unknown => (None, 0),
        };
        Self {
            rank,
            size: comm.size() as usize,
            // Nobody is awake: simulation, where time is virtual and cores are not shared. How many
            // are awake just now must not matter, for the others may see another number.
            crowded: load.awake != 0 && here > load.cores,
            hosts,
        }
    }

    /// This rank alone.
    pub(crate) fn one() -> Self {
        Self::some(0, 1, false)
    }

    /// Some of them, of whom this process is number `rank`, and who are all on one host or each on its own.
    fn some(rank: usize, size: usize, crowded: bool) -> Self {
        Self {
            rank,
            size,
            crowded,
            hosts: None,
        }
    }

    /// The rank `distance` places further on.
    fn after(&self, distance: usize) -> usize {
        (self.rank + distance) % self.size
    }

    /// The rank `distance` places back.
    fn before(&self, distance: usize) -> usize {
        (self.rank + self.size - distance % self.size) % self.size
    }

    /// All other ranks, the next one first.
    fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let (rank, size) = (self.rank, self.size);
        (1..size).map(move |distance| (rank + distance) % size)
    }

    fn check_root(&self, name: &str, root: usize) -> Result<()> {
        if root < self.size {
            return Ok(());
        }
        Err(Error::new(
            ErrorClass::Root,
            format!(
                "{name}: there is no root {root}: the communicator has {} ranks (0 to {}); check the root against MPI_Comm_size",
                self.size,
                self.size.saturating_sub(1)
            ),
        ))
    }

    /// One entry for each rank.
    fn check_entries(&self, name: &str, entries: usize) -> Result<()> {
        if entries == self.size {
            return Ok(());
        }
        Err(Error::new(
            ErrorClass::Count,
            format!(
                "{name}: {entries} counts for {} ranks; give one for each",
                self.size
            ),
        ))
    }
}

/// A buffer that only the root may leave out is missing.
#[cold]
fn missing(name: &str, what: &str) -> Error {
    Error::new(
        ErrorClass::Buffer,
        format!(
            "{name}: the {what} buffer is missing here; only where the standard says so may it be left out or MPI_IN_PLACE"
        ),
    )
}

/// What a rank gives itself is not what it expects of itself.
#[cold]
fn mismatch(name: &str, came: usize, expected: usize) -> Error {
    Error::new(
        ErrorClass::Truncate,
        format!(
            "{name}: this rank sends {came} bytes to itself but expects {expected}; count and datatype of both sides must agree"
        ),
    )
}
