//! Segment: the shared memory that the ranks of a host start with. Its layout belongs to the shared-memory fabric.

use std::io;
use std::os::fd::OwnedFd;

use weft_fabric_shm::{JobSize, Watch};
use weft_sys::{MemoryFile, cores};

/// A prepared segment: the descriptor for the ranks, and the launcher's own view of it.
pub struct Segment {
    /// To be inherited by every rank.
    pub descriptor: OwnedFd,
    /// The progress of the ranks, by their own word.
    pub watch: Watch,
}

/// Cores that the ranks of this host may use.
pub fn cores() -> u32 {
    u32::try_from(cores::cores_available()).unwrap_or(u32::MAX)
}

/// Makes the segment of a job.
///
/// # Errors
/// If there are too many ranks, or the kernel refuses the memory.
pub fn create(job: JobSize) -> io::Result<Segment> {
    let sizes = job.segment_size().zip(job.memory_size());
    let (segment, size) = sizes.ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "{} ranks were asked for, and room for {} more; between 1 and {} are possible on one host",
                job.ranks,
                job.room,
                weft_fabric_shm::MAX_RANKS
            ),
        )
    })?;
    let file = MemoryFile::create("weft", size).map_err(|error| {
        let remedy = match weft_sys::error::errno(&error) {
            Some(libc::EFBIG) => {
                "; the limit of the size of files is too low: raise it (ulimit -f)"
            }
            _ => "",
        };
        io::Error::new(error.kind(), format!("{error}{remedy}"))
    })?;
    let mapping = file.map_part(0, segment).map_err(|error| {
        let remedy = match weft_sys::error::errno(&error) {
            Some(libc::ENOMEM) => "; raise the limits of memory (ulimit -v, control group)",
            _ => "",
        };
        io::Error::new(error.kind(), format!("{error}{remedy}"))
    })?;
    weft_fabric_shm::initialise_job(&mapping, job, cores()).map_err(io::Error::other)?;
    let watch = Watch::open(&file).map_err(io::Error::other)?;
    Ok(Segment {
        descriptor: file.into_descriptor(),
        watch,
    })
}

/// Takes over the segment that a process has made for itself and others.
///
/// # Errors
/// If it is none of this release.
pub fn adopt(descriptor: OwnedFd) -> io::Result<Segment> {
    let file = MemoryFile::adopt_of_job(descriptor)?;
    let watch = Watch::open(&file).map_err(io::Error::other)?;
    Ok(Segment {
        descriptor: file.into_descriptor(),
        watch,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_fabric_shm::ProcessState;

    #[test]
    fn a_segment_is_ready_for_its_ranks() {
        let segment = create(JobSize::of(3)).expect("memory files exist here");
        assert_eq!(segment.watch.ranks(), 3);
        assert_eq!(segment.watch.state(2), ProcessState::Absent);
        assert!(MemoryFile::adopt_of_job(segment.descriptor).is_ok());
        assert!(create(JobSize::of(0)).is_err() && create(JobSize::of(u32::MAX)).is_err());
    }
}
