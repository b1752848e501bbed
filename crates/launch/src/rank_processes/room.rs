//! Room of a host: process slots for processes that are started later. Each is used by one process after the other.

use weft_fabric_shm::Watch;

use super::host_ranks::HostRanks;
use super::rank::{Rank, Vacancy};
use super::share::HostShare;

/// State of the room, for processes that are started later.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RoomState {
    /// Those that can be taken now, by their local rank.
    pub free: Vec<u32>,
    /// Those whose process has ended, or is about to.
    pub soon: usize,
    /// Ranks that have not called MPI since such an end.
    pub behind: Option<u32>,
}

impl RoomState {
    /// The state of the room of a share, of which these ranks were started, by what `watch` shows of their progress.
    pub(super) fn of(share: &HostShare, ranks: &HostRanks, watch: &Watch) -> Self {
        let first = share.ranks.len();
        let most = first + share.room as usize;
        let is_running = |local: u32| ranks.get(local as usize).is_some_and(Rank::is_running);
        let mut state = Self::default();
        for (local, rank) in (0u32..).zip(ranks.iter()).skip(first) {
            match rank.vacancy() {
                Vacancy::Free => state.free.push(local),
                Vacancy::OnceHeard(change) => {
                    match watch.may_be_reused(local, change, is_running) {
                        Ok(()) => state.free.push(local),
                        Err(behind) => {
                            state.soon += 1;
                            state.behind = Some(ranks[behind as usize].number());
                        }
                    }
                }
                Vacancy::Soon => state.soon += 1,
                Vacancy::None => {}
            }
        }
        // Slots that were never used, once all ranks that the job has from the start are there.
        if ranks.len() >= first {
            state.free.extend(ranks.len() as u32..most as u32);
        }
        state
    }
}
