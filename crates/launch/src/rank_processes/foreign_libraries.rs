//! Foreign MPI libraries that ranks have loaded and that do not learn of the job: reported once, by name.
//!
//! A program that names such a library is refused before it starts ([`linkage`]); one over MPICH's library asks by PMI
//! and is served. The rest are programs, mostly scripts, that load Open MPI's own library instead of ours: each is then a job of
//! one rank, and ends well. Only the processes' memory maps show that; they are checked while a rank that might load one
//! has not initialised MPI, with those of the processes that it has started (a rank may be a script): whenever the launcher wakes up, for example for a rank's output, and a few times by itself,
//! ever more rarely.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::RankProcesses;
use crate::linkage;

/// When ranks are looked at by themselves, after the start, and how often that doubles.
const FIRST: Duration = Duration::from_millis(100);
const TIMES: u32 = 7;
/// How much time is between two looks at least.
const REST: Duration = Duration::from_millis(20);

/// How many processes of a rank are looked at.
const MOST: usize = 64;

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
        let (rank, own, (file, whose)) = silent.find_map(|(rank, process)| {
            let mut all = with_descendants(process).into_iter();
            all.find_map(|id| Some((rank, id == process, alone_with(id)?)))
        })?;
        self.over = true;
        let who = if own { "rank" } else { "a program of rank" };
        Some(format!(
            "{who} {rank} has loaded {}, the library of {whose}, which does not learn of this job: each rank that uses it is alone, \
             as rank 0 of 1. Start the program with the mpiexec of {whose}, or have it load Weft's library of the same name \
             (MPI4PY_LIBMPI for mpi4py), which is in the folder that is first in LD_LIBRARY_PATH",
            file.display()
        ))
    }
}

/// The library of an implementation that Weft has no protocol for, if a process has loaded one and no launcher of that
/// implementation has started it.
fn alone_with(process: u32) -> Option<(PathBuf, &'static str)> {
    let found = linkage::foreign_library_of(process)?;
    let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
    let mut variables = environment.split(|byte| *byte == 0);
    (!variables.any(|variable| variable.starts_with(b"PMIX_NAMESPACE="))).then_some(found)
}

/// A process and what descends from it, as far as the kernel tells; at most [`MOST`].
fn with_descendants(process: u32) -> Vec<u32> {
    let mut found = vec![process];
    let mut at = 0;
    while at < found.len() && found.len() < MOST {
        let threads = fs::read_dir(format!("/proc/{}/task", found[at]));
        for thread in threads.into_iter().flatten().flatten() {
            let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            found.extend(
                children
                    .split_ascii_whitespace()
                    .filter_map(|id| id.parse::<u32>().ok()),
            );
        }
        at += 1;
    }
    found.truncate(MOST);
    found
}
