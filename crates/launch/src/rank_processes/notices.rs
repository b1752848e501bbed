//! Notices of ranks: told by themselves, or shown by the segment when some have ended.
//!
//! *Invariant:* what a rank has told is not told once more because the segment shows it, and the segment shows one abort at most.

use weft_fabric_shm::{ProcessState, Watch};

use super::Event;
use super::host_ranks::HostRanks;
use crate::control::Notice;

/// The notices that were given so far.
#[derive(Default)]
pub struct Notices {
    /// An abort was told: no other counts.
    abort_told: bool,
}

impl Notices {
    /// Notes what was told of a rank.
    pub fn tell(&mut self, ranks: &mut HostRanks, local: usize, told: Notice) -> Event {
        self.abort_told |= matches!(told, Notice::Abort { .. });
        let rank = &mut ranks[local];
        rank.note(&told);
        let rank = rank.number();
        Event::Notice { rank, told }
    }

    /// Tells what only the segment tells, of those that have just ended, and of the others if that
    /// matters: one has ended without MPI, on which they may count.
    pub fn look_into_segment(
        &mut self,
        ranks: &mut HostRanks,
        watch: &Watch,
        ended: &[usize],
    ) -> Vec<Event> {
        let mut events = Vec::new();
        // Ranks can write there what they like, also that one has aborted that was never started.
        let abort = watch.first_abort().filter(|abort| {
            let was_started = (abort.rank as usize) < ranks.len();
            !self.abort_told && was_started
        });
        if let Some(abort) = abort {
            let (code, text) = (abort.code, String::new());
            let told = Notice::Abort { code, text };
            events.push(self.tell(ranks, abort.rank as usize, told));
        }
        for &local in ended {
            self.tell_state(ranks, watch, local, &mut events);
        }
        let is_without_mpi = |local: &usize| {
            let rank = &ranks[*local];
            !rank.is_initialised() && !rank.is_finalised()
        };
        if ended.iter().any(is_without_mpi) {
            for local in 0..ranks.len() {
                self.tell_state(ranks, watch, local, &mut events);
            }
        }
        events
    }

    /// Tells how far the segment shows a rank to be, beyond what is known of it.
    fn tell_state(
        &mut self,
        ranks: &mut HostRanks,
        watch: &Watch,
        local: usize,
        events: &mut Vec<Event>,
    ) {
        let state = watch.state(local as u32);
        let rank = &ranks[local];
        let (initialised, finalised) = (rank.is_initialised(), rank.is_finalised());
        if state != ProcessState::Absent && !initialised {
            events.push(self.tell(ranks, local, Notice::Initialised));
        }
        if state == ProcessState::Finalised && !finalised {
            events.push(self.tell(ranks, local, Notice::Finalised));
        }
    }
}
