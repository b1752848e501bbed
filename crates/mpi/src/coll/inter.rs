//! Collectives over intercommunicators (MPI 5.0, section 6.2.3).
//!
//! ```text
//!   rooted:  one process of one group  ◄─►  all of the other
//!   all:     each group gets what the other one gives
//! ```
//!
//! A schedule numbers all processes: `0..size` is the local group, the ranks of the remote group follow. So a half that
//! runs within the local group is a collective of [`Members`], unchanged; in between, rank 0 of a group, its *leader*,
//! communicates for it. There is no in-place form.
//!
//! Everything that must be the same on all ranks of both groups is in the [note](CollectiveNote): the root with its
//! group, the operation, and the datatype of data that go one way. If data go both ways, each direction may have a
//! datatype of its own. Ranks beside the root do and send nothing.

mod moving;
mod reducing;

#[cfg(test)]
mod tests;

pub use moving::{allgather, alltoall, barrier, bcast, gather, scatter};
pub use reducing::{allreduce, reduce, reduce_scatter};

use super::blocks::Blocks;
use super::reduce::Reduction;
use super::{Members, Placement};
use crate::buffer::Buffer;
use crate::comm::Comm;
use crate::engine::collective_note::CollectiveNote;
use crate::error::{Error, ErrorClass, Result};

/// The facts about the two groups that a builder needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sides {
    /// Rank of this process in its group.
    pub rank: usize,
    /// Size of the local group.
    pub size: usize,
    /// Size of the remote group.
    pub remote: usize,
    /// As for [`Members`]; the same on both sides.
    pub crowded: bool,
    /// The local group is that with the lowest process.
    pub is_first: bool,
}

/// The root of a collective, as this process sees it. Within one group it is always a rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Root {
    /// The root is that rank, of an intercommunicator that of the remote group: this process is of the
    /// group that it talks to.
    Rank(usize),
    /// `MPI_ROOT`: this process is it.
    ThisRank,
    /// `MPI_PROC_NULL`: the root is another process of the local group.
    ProcNull,
}

impl Sides {
    /// Those of an intercommunicator.
    #[must_use]
    pub fn of(comm: &Comm) -> Option<Self> {
        let remote = comm.remote_group()?.size();
        let load = comm.process().load();
        let groups = [comm.group(), comm.remote_group()?].map(|group| &**group);
        // Of several hosts nobody knows of another whether it is crowded, nor of another job.
        let is_one_host = comm.meeting().is_none()
            && matches!(comm.process().placement(groups), Placement::OneHost);
        Some(Self {
            rank: comm.rank() as usize,
            size: comm.size() as usize,
            remote: remote as usize,
            crowded: load.awake != 0 && comm.size() + remote > load.cores && is_one_host,
            is_first: groups[0].members().min() < groups[1].members().min(),
        })
    }

    /// The local group by itself.
    fn local(&self) -> Members {
        Members::some(self.rank, self.size, self.crowded)
    }

    /// The remote group, as its own processes see it who are not asked here who they are.
    fn other(&self) -> Members {
        Members::some(0, self.remote, self.crowded)
    }

    /// The number of a rank of the remote group.
    fn there(&self, rank: usize) -> usize {
        self.size + rank
    }

    /// The same note with the root.
    fn with_root(&self, note: CollectiveNote, root: Root) -> CollectiveNote {
        match root {
            Root::Rank(rank) => note.at_group(rank, !self.is_first),
            Root::ThisRank => note.at_group(self.rank, self.is_first),
            Root::ProcNull => note,
        }
    }

    /// The same note with what is combined.
    fn with_reduction(
        note: CollectiveNote,
        reduction: &Reduction,
        data: &Buffer,
    ) -> CollectiveNote {
        note.with(reduction.op.as_predefined())
            .of_elements(Some(data))
    }

    /// The same note with what the blocks of the root are.
    fn with_blocks(note: CollectiveNote, blocks: &Blocks) -> CollectiveNote {
        let mut all = (0..blocks.len()).map(|rank| blocks.block(rank));
        note.of_elements(all.find(|block| block.bytes() > 0).as_ref())
    }

    fn is_leader(&self) -> bool {
        self.rank == 0
    }

    fn check_root(&self, name: &str, root: Root) -> Result<()> {
        match root {
            Root::Rank(rank) if rank >= self.remote => Err(Error::new(
                ErrorClass::Root,
                format!(
                    "{name}: there is no root {rank}: the remote group has {} ranks (0 to {}); check the root against MPI_Comm_remote_size",
                    self.remote,
                    self.remote.saturating_sub(1)
                ),
            )),
            _ => Ok(()),
        }
    }

    /// One entry for each rank of the remote group.
    fn check_entries(&self, name: &str, entries: usize) -> Result<()> {
        if entries == self.remote {
            return Ok(());
        }
        Err(Error::new(
            ErrorClass::Count,
            format!(
                "{name}: {entries} counts for {} ranks of the remote group; give one for each",
                self.remote
            ),
        ))
    }
}
