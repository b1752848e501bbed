//! Foreign MPI libraries that ranks have loaded and that do not learn of the job: reported once, by name.
//!
//! A program that names such a library is refused before it starts ([`linkage`]); one over MPICH's library asks by PMI
//! and is served. The rest are programs, mostly scripts, that load Open MPI's library themselves: each is then a job of
//! one rank, and ends well. Only the processes' memory maps show that; they are checked while a rank that might load one
//! has not initialised MPI: whenever the launcher wakes up, for example for a rank's output, and a few times by itself,
//! ever more rarely.

use std::time::{Duration, Instant};

use crate::linkage;
use crate::rank_processes::RankProcesses;

/// When ranks are looked at by themselves, after the start, and how often that doubles.
const FIRST: Duration = Duration::from_millis(100);
const TIMES: u32 = 7;
/// How much time is between two looks at least.
const REST: Duration = Duration::from_millis(20);

/// The watch for such libraries.
#[derive(Debug)]
pub struct ForeignLibraries {
    begun: Instant,
    last: Option<Instant>,
    /// Looks by itself that were made.
    looks: u32,
    over: bool,
}

impl ForeignLibraries {
    /// Of ranks that are about to start. If there is but one, none believes wrongly to be alone.
    pub fn new(ranks: u32, now: Instant) -> Self {
        Self {
            begun: now,
            last: None,
            looks: 0,
            over: ranks < 2,
        }
    }

    /// When to look at the latest.
    pub fn next_look(&self) -> Option<Instant> {
        (!self.over).then(|| self.begun + FIRST * 2_u32.pow(self.looks))
    }

    /// Looks, if it is time; what it has found is to be said.
    pub fn look(&mut self, now: Instant, processes: &RankProcesses) -> Option<String> {
        let due = self.next_look()?;
        if now < due && self.last.is_some_and(|last| now < last + REST) {
            return None;
        }
        self.last = Some(now);
        if now >= due {
            self.looks += 1;
            // A process that has not loaded it by then would have to be watched for ever.
            self.over = self.looks >= TIMES;
        }
        let mut silent = processes.silent().peekable();
        if silent.peek().is_none() {
            self.over = true;
            return None;
        }
        let (rank, (file, whose)) = silent
            .find_map(|(rank, process)| Some((rank, linkage::foreign_library_of(process)?)))?;
        self.over = true;
        Some(format!(
            "rank {rank} has loaded {}, the library of {whose}, which does not learn of this job: each rank that uses it is alone, \
             as rank 0 of 1. Start the program with the mpiexec of {whose}, or have it load Weft's library (a package of Python: \
             the one that is built for MPICH, or for the MPI ABI)",
            file.display()
        ))
    }
}
