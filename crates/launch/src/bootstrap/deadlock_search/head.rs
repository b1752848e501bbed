//! Head: the searching rank of the first host at which one can be called, which judges.

use std::time::Instant;

use weft_fabric_shm::Watch;
use weft_mpi::waits::RankWaits;
use weft_sys::poll::PollFd;

use super::HostRanks;
use super::other_hosts::WatchedJob;
use crate::hosts::link::Link;
use crate::job::deadlock::{DeadlockWatch, Standstill, WatchedRanks};
use crate::rank_processes::RunningRank;

/// The watch of a job over all of its ranks.
pub struct Head {
    watch: DeadlockWatch,
    ranks: WatchedJob,
}

impl Head {
    /// Judges from now on, on this host.
    pub fn new(watch: Watch, host: &HostRanks) -> Self {
        Self {
            watch: DeadlockWatch::new(Instant::now()),
            ranks: WatchedJob::new(watch, host),
        }
    }

    /// To wait for.
    pub fn entries(&self) -> impl Iterator<Item = PollFd<'_>> {
        self.ranks.entries()
    }

    /// When to look next; `None` for never.
    pub fn next_look(&self) -> Option<Instant> {
        self.watch.next_look()
    }

    /// A rank of another host searches there from now on.
    pub fn take_in(&mut self, rank: u32, link: Link) {
        let heard = self.ranks.take_in(rank, link);
        heard
            .into_iter()
            .for_each(|(rank, waits)| self.hear(rank, waits));
    }

    /// Reads from those of [`entries`](Self::entries) that are ready.
    pub fn hear_hosts(&mut self, ready: &[bool]) {
        let heard = self.ranks.hear(ready);
        heard
            .into_iter()
            .for_each(|(rank, waits)| self.hear(rank, waits));
    }

    /// A rank waits for this.
    pub fn hear(&mut self, rank: u32, waits: RankWaits) {
        self.watch.hear(rank, waits, Instant::now());
    }

    /// Looks, if it is time to. Returns a proven standstill, once.
    pub fn look(&mut self, now: Instant) -> Option<Standstill> {
        if self.watch.next_look().is_none_or(|look| look > now) {
            return None;
        }
        self.ranks.note_ends();
        self.watch.look(now, &mut self.ranks)
    }

    /// The ranks that have not ended.
    pub fn running(&self) -> Vec<RunningRank> {
        self.ranks.running()
    }

    /// Name of a rank's process, for the user.
    pub fn name(&self, rank: &RunningRank) -> String {
        self.ranks.name(rank)
    }

    /// Whether ranks are on other hosts.
    pub fn is_on_several_hosts(&self) -> bool {
        self.ranks.is_on_several_hosts()
    }

    /// Stops all ranks but this process, on all hosts.
    pub fn stop_others(&mut self) {
        self.ranks.stop_others();
    }

    /// Stops this process.
    pub fn stop_itself(&self) {
        self.ranks.stop_itself();
    }
}
