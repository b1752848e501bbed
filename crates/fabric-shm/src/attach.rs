//! Attaching: joining a job by the descriptor that the launcher handed over, alone, or as a group within one process.
//! Joining waits for no other process.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use weft_fabric::{FabricError, Result};
use weft_sys::MemoryFile;

use crate::endpoint::Shm;
use crate::layout::{JobSize, MAX_RANKS};
use crate::options::Options;
use crate::segment::{Segment, initialise_job};

fn system(error: std::io::Error) -> FabricError {
    FabricError::System {
        what: error.to_string(),
    }
}

/// A fresh segment for so many ranks.
fn fresh(ranks: u32, channels: impl FnOnce(JobSize, u32) -> JobSize) -> Result<Arc<Segment>> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let cores = u32::try_from(cores).unwrap_or(u32::MAX);
    let size = channels(JobSize::of(ranks), cores);
    let (Some(segment), Some(length)) = (size.segment_size(), size.memory_size()) else {
        return Err(FabricError::System {
            what: format!(
                "a job of {ranks} ranks on one host was asked for; between 1 and {} are possible",
                MAX_RANKS
            ),
        });
    };
    let file = MemoryFile::create("weft", length).map_err(system)?;
    let mapping = file.map_part(0, segment).map_err(system)?;
    initialise_job(&mapping, size, cores)?;
    Segment::of_file(file)
}

impl Shm {
    /// Joins the job whose segment the launcher has handed over as a descriptor.
    ///
    /// # Errors
    /// [`FabricError::System`] if it is no segment of this release, or the rank is taken.
    pub fn attach(segment: OwnedFd, rank: u32) -> Result<Self> {
        Self::attach_with(segment, rank, &Options::default())
    }

    /// As [`attach`](Self::attach), with options.
    ///
    /// # Errors
    /// As [`attach`](Self::attach).
    pub fn attach_with(segment: OwnedFd, rank: u32, options: &Options) -> Result<Self> {
        let file = MemoryFile::adopt_of_job(segment).map_err(system)?;
        let segment = Segment::of_file(file)?;
        if rank >= segment.members() {
            return Err(FabricError::System {
                what: format!(
                    "rank {rank} was to join a job of {} ranks: the launcher and the environment \
                     of this process disagree",
                    segment.members()
                ),
            });
        }
        let slot = segment.slot_of(rank);
        Self::join(segment, slot, options)
    }

    /// A job of one rank, with a segment of its own.
    ///
    /// # Errors
    /// If the system refuses the memory.
    pub fn solo() -> Result<Self> {
        Self::join(fresh(1, JobSize::with_channels_on)?, 0, &Options::default())
    }

    /// All endpoints of a job of `ranks` in this process, for threads and tests.
    ///
    /// # Errors
    /// If the system refuses the memory.
    pub fn group(ranks: u32) -> Result<Vec<Self>> {
        Self::group_with(ranks, &Options::default())
    }

    /// As [`group`](Self::group), with options.
    ///
    /// # Errors
    /// As [`group`](Self::group).
    pub fn group_with(ranks: u32, options: &Options) -> Result<Vec<Self>> {
        Self::group_with_channels(ranks, 1, options)
    }

    /// As [`group_with`](Self::group_with), in a job of so many channels.
    ///
    /// # Errors
    /// As [`group`](Self::group).
    pub fn group_with_channels(ranks: u32, channels: u32, options: &Options) -> Result<Vec<Self>> {
        let segment = fresh(ranks, |size, _| JobSize { channels, ..size })?;
        let mut group = Vec::with_capacity(ranks as usize);
        for rank in 0..ranks {
            let mut member = Self::join(segment.clone(), rank, options)?;
            // The segment has no other mapping: see the safety argument of `portal.rs`.
            member.all_within_process();
            group.push(member);
        }
        Ok(group)
    }
}
