//! What the launcher sees of a running job: how far each rank has come, who aborted with what.
//!
//! All of it is written by the ranks, so it is what they say: good enough for the last line of a
//! launcher, not for a decision about somebody else's process.

use std::sync::Arc;

use weft_atomic::Ordering;
use weft_fabric::Result;
use weft_sys::Mapping;

use crate::layout::{ProcessState, Segment};

/// A look at the segment of a job, without being one of its ranks.
#[derive(Debug, Clone)]
pub struct Watch {
    pub(crate) segment: Arc<Segment>,
}

/// A rank that has called for the end of the job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Abort {
    /// Who.
    pub rank: u32,
    /// With what code.
    pub code: i32,
}

impl Watch {
    /// Looks at a segment that [`initialise`](crate::initialise) has prepared.
    ///
    /// # Errors
    /// If it is none.
    pub fn open(mapping: Mapping) -> Result<Self> {
        Ok(Self {
            segment: Segment::open(mapping)?,
        })
    }

    /// How many ranks the job has.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.segment.members()
    }

    /// How far a rank has come; absent if there is no such rank.
    #[must_use]
    pub fn state(&self, rank: u32) -> ProcessState {
        if rank >= self.ranks() {
            return ProcessState::Absent;
        }
        let state = &self
            .segment
            .control(self.segment.seat_of(rank))
            .identity
            .state;
        // SYNC rank.joined.
        ProcessState::from_number(state.load(Ordering::Acquire))
    }

    /// The process id of a rank as it sees it itself, once it has attached.
    #[must_use]
    pub fn process(&self, rank: u32) -> Option<u32> {
        if self.state(rank) == ProcessState::Absent {
            return None;
        }
        let process = &self
            .segment
            .control(self.segment.seat_of(rank))
            .identity
            .process;
        Some(process.load(Ordering::Relaxed))
    }

    /// The first rank that aborted.
    #[must_use]
    pub fn first_abort(&self) -> Option<Abort> {
        // SYNC job.abort.
        let seat = self
            .segment
            .header()
            .aborted
            .load(Ordering::Acquire)
            .checked_sub(1)?;
        self.abort_of(self.segment.rank_of(seat)?)
    }

    /// What a rank aborted with, if it did.
    #[must_use]
    pub fn abort_of(&self, rank: u32) -> Option<Abort> {
        if rank >= self.ranks() {
            return None;
        }
        let identity = &self.segment.control(self.segment.seat_of(rank)).identity;
        // SYNC job.abort.
        (identity.abort_set.load(Ordering::Acquire) != 0).then(|| Abort {
            rank,
            code: identity.abort_code.load(Ordering::Relaxed),
        })
    }

    /// How many ranks are awake.
    #[must_use]
    pub fn awake(&self) -> u32 {
        let seats = self.segment.shape().ranks;
        self.segment.header().run_states.awake(seats)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, Shm, initialise, segment_size};
    use std::os::fd::AsFd;
    use weft_sys::MemoryFile;

    #[test]
    fn the_launcher_sees_states_and_the_first_abort() {
        let size = segment_size(3).expect("fits");
        let file = MemoryFile::create("weft-test", size).expect("memory files exist here");
        let mapping = file.map().expect("maps");
        initialise(&mapping, 3, 2).expect("the right size");
        let watch = Watch::open(mapping).expect("initialised");
        let attach = |rank| {
            let descriptor = file.as_fd().try_clone_to_owned().expect("duplicates");
            Shm::attach_with(descriptor, rank, &Options::default())
        };
        assert_eq!((watch.ranks(), watch.awake()), (3, 0));
        assert_eq!(watch.process(1), None);
        let one = attach(1).expect("joins");
        assert_eq!(watch.state(1), ProcessState::Joined);
        assert_eq!(watch.process(1), Some(std::process::id()));
        assert!(attach(1).is_err(), "the rank is taken");
        assert!(attach(3).is_err(), "no such rank");
        one.set_state(ProcessState::Initialised);
        assert_eq!(watch.state(1), ProcessState::Initialised);
        assert_eq!(watch.first_abort(), None);
        let two = attach(2).expect("joins");
        assert_eq!(watch.awake(), 2);
        two.abort(-3);
        one.abort(4);
        assert_eq!(watch.first_abort(), Some(Abort { rank: 2, code: -3 }));
        assert_eq!(watch.abort_of(1), Some(Abort { rank: 1, code: 4 }));
        drop((one, two));
        assert_eq!(watch.state(2), ProcessState::Finalised);
        assert_eq!((watch.state(9), watch.awake()), (ProcessState::Absent, 0));
    }
}
