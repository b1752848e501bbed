//! Ranks of a host as the memory that they share shows them to one of them.

use std::time::Duration;

use rustix::io::Errno;
use weft_fabric_shm::{ProcessState, Watch};
use weft_sys::error::errno;
use weft_sys::process::{self, ProcessHandle};

use super::HostRanks;
use crate::job::deadlock::WatchedRanks;
use crate::rank_processes::RunningRank;

/// The ranks of a job that are on this host.
pub struct WatchedHost {
    watch: Watch,
    /// Their numbers in the job, by local rank.
    ranks: Vec<u32>,
    /// Stops a process.
    stop: fn(u32),
}

impl WatchedHost {
    /// The ranks beside this one, in this memory.
    pub fn new(watch: Watch, host: &HostRanks) -> Self {
        Self {
            watch,
            ranks: host.hosts.map.ranks_of(host.number()).collect(),
            stop: host.stop,
        }
    }

    /// Their numbers in the job.
    pub fn ranks(&self) -> impl Iterator<Item = u32> {
        self.ranks.iter().copied()
    }

    /// Stops all of them but this process.
    pub fn stop_others(&self) {
        let us = process::id();
        let running = self.running().into_iter().map(|rank| rank.process);
        // Of who has not come to MPI the process is not known.
        running
            .filter(|process| ![0, us].contains(process))
            .for_each(self.stop);
    }

    /// Stops this process.
    pub fn stop_itself(&self) {
        (self.stop)(process::id());
    }

    fn locals(&self) -> impl Iterator<Item = (u32, u32)> {
        (0..).zip(self.ranks.iter().copied())
    }

    /// Tells the others about ranks that have ended with MPI and whose processes are gone: they are at rest.
    ///
    /// The end with MPI alone is not enough: a session may follow.
    pub fn note_ends(&self) {
        for (local, _) in self.locals() {
            let is_over = self.watch.has_finished(local) && !self.watch.has_ended(local);
            if is_over && self.watch.process(local).is_some_and(is_gone) {
                self.watch.tell_of_end(local, 0, true);
            }
        }
    }
}

/// Whether a process has ended. Where the kernel does not tell, none has.
fn is_gone(process: u32) -> bool {
    match ProcessHandle::open(process) {
        Ok(handle) => handle.wait_end(Some(Duration::ZERO)).unwrap_or(false),
        Err(error) => errno(&error) == Some(Errno::SRCH.raw_os_error()),
    }
}

impl WatchedRanks for WatchedHost {
    fn running(&self) -> Vec<RunningRank> {
        let left = self
            .locals()
            .filter(|(local, _)| !self.watch.has_ended(*local));
        let running = left.map(|(local, rank)| RunningRank {
            rank,
            process: self.watch.process(local).unwrap_or(0),
            is_initialised: self.watch.state(local) != ProcessState::Absent,
            // It may begin anew as long as its process lives.
            is_finalised: false,
        });
        running.collect()
    }

    /// Not while there are processes that are not asked: those that were started later, and ranks that may begin with MPI anew.
    fn rest(&self) -> Option<u64> {
        let may_return = |local| self.watch.has_finished(local) && !self.watch.has_ended(local);
        let all_are_asked =
            !self.watch.has_grown() && !self.locals().any(|(local, _)| may_return(local));
        self.watch.rest().filter(|_| all_are_asked)
    }

    fn inquire(&mut self, full: bool) -> u32 {
        self.watch.inquire(full)
    }
}
