//! Table of a job's ranks: how far each has come with MPI, how it ended, and whether its end is a failure.
//!
//! ```text
//!   Awaited ── its host is known ──▶ Started ── reaped ──▶ Ended ── restarted ──▶ Started
//!   Vacant  ── started from within a program ──▶ Started ── reaped ──▶ Ended ── the next one ──▶ Started
//! ```

use std::process::ExitStatus;

use super::outcome::{Failure, Progress};
use super::rank_hosts::WorldRank;
use crate::control::Notice;

/// How far the process of a rank is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Life {
    /// Nobody has been started under this number.
    Vacant,
    Awaited,
    Started,
    Ended(ExitStatus),
}

#[derive(Clone, Debug)]
struct Row {
    life: Life,
    progress: Progress,
    /// If it was started from within a program.
    world: Option<WorldRank>,
    /// It has begun a session after it had finalised MPI, and not ended it.
    resumed: bool,
    /// It goes no further because another one is lost.
    ends_by_loss: bool,
    /// It has communicators with processes of other worlds.
    connected: bool,
    /// It has told of such a one: a process that was started from within a program has met those who have had it started.
    has_met: bool,
    /// It goes on when others die.
    handles_losses: bool,
    /// Its world is lost or was not started as a whole, and so its end is no failure.
    given_up: bool,
}

impl Row {
    fn is_of(&self, world: u32) -> bool {
        self.world.is_some_and(|own| own.world == world)
    }

    const NEW: Self = Self {
        life: Life::Awaited,
        progress: Progress::Before,
        world: None,
        resumed: false,
        ends_by_loss: false,
        connected: true,
        has_met: false,
        handles_losses: false,
        given_up: false,
    };
}

/// All ranks of a job, as their hosts tell of them.
#[derive(Debug)]
pub struct RankTable {
    rows: Vec<Row>,
    /// So many of the first are processes that somebody else has started: that they end is seen, but not how.
    adopted: u32,
}

impl RankTable {
    /// So many ranks, none of which was started.
    pub fn new(size: u32) -> Self {
        Self {
            rows: vec![Row::NEW; size as usize],
            adopted: 0,
        }
    }

    /// So many ranks, all of which somebody else has started.
    pub fn adopted(size: u32) -> Self {
        Self {
            adopted: size,
            ..Self::new(size)
        }
    }

    /// Notes that a rank was started, or restarted.
    pub fn start(&mut self, rank: u32) {
        self.rows[rank as usize] = Row {
            life: Life::Started,
            ..Row::NEW
        };
    }

    /// Notes that a process was started from within a program.
    pub fn start_later(&mut self, rank: u32, world: WorldRank) {
        let index = rank as usize;
        while self.rows.len() <= index {
            self.rows.push(Row {
                life: Life::Vacant,
                ..Row::NEW
            });
        }
        self.rows[index] = Row {
            life: Life::Started,
            world: Some(world),
            ..Row::NEW
        };
    }

    /// The world of a process that was started from within a program, and its rank there.
    pub fn world(&self, rank: u32) -> Option<WorldRank> {
        self.rows.get(rank as usize)?.world
    }

    /// A rank, for people.
    pub fn name(&self, rank: u32) -> String {
        match self.world(rank) {
            None => format!("rank {rank}"),
            Some(WorldRank { world, rank }) => format!("rank {rank} of spawned world {world}"),
        }
    }

    /// Processes of a world that have not ended.
    pub fn running_of(&self, world: u32) -> Vec<u32> {
        let rows = self.rows.iter().enumerate();
        let running = rows.filter(|(_, row)| row.life == Life::Started && row.is_of(world));
        running.map(|(rank, _)| rank as u32).collect()
    }

    /// A process of a world that runs and has not begun with MPI.
    pub fn first_before(&self, world: u32) -> Option<u32> {
        let mut running = self.running_of(world).into_iter();
        running.find(|rank| self.rows[*rank as usize].progress == Progress::Before)
    }

    /// Whether a process belongs to a world that has nothing to do with others (MPI 5.0, section 11.10.4): its death
    /// concerns that world alone.
    pub fn is_independent(&self, rank: u32) -> bool {
        let Some(WorldRank { world, .. }) = self.world(rank) else {
            return false;
        };
        let mut own = self.rows.iter().filter(|row| row.is_of(world));
        own.all(|row| !row.connected || row.progress == Progress::After)
    }

    /// Notes that the ends of a world's processes are no failures from now on.
    pub fn give_up(&mut self, world: u32) {
        for row in self.rows.iter_mut().filter(|row| row.is_of(world)) {
            row.given_up = true;
        }
    }

    /// Whether the end of this process is no failure whatever happened.
    pub fn is_given_up(&self, rank: u32) -> bool {
        self.rows.get(rank as usize).is_some_and(|row| row.given_up)
    }

    /// Whether a failure of this rank follows from the loss of another one, which may not be known yet.
    pub fn is_ended_by_loss(&self, rank: u32) -> bool {
        self.rows
            .get(rank as usize)
            .is_some_and(|row| row.ends_by_loss)
    }

    /// Notes that all ranks have their hosts.
    pub fn start_all(&mut self) {
        for row in &mut self.rows {
            if row.life == Life::Awaited {
                row.life = Life::Started;
            }
        }
    }

    /// Notes the end of a rank. False if it has ended already.
    pub fn end(&mut self, rank: u32, status: ExitStatus) -> bool {
        let row = &mut self.rows[rank as usize];
        let first = !matches!(row.life, Life::Ended(_));
        if first {
            row.life = Life::Ended(status);
        }
        first
    }

    /// How a rank ended, if it has.
    pub fn status(&self, rank: u32) -> Option<ExitStatus> {
        match self.rows[rank as usize].life {
            Life::Ended(status) => Some(status),
            Life::Vacant | Life::Awaited | Life::Started => None,
        }
    }

    /// Whether all ranks have ended.
    pub fn has_ended(&self) -> bool {
        let mut rows = self.rows.iter();
        rows.all(|row| matches!(row.life, Life::Ended(_) | Life::Vacant))
    }

    /// Those that were started and have not ended.
    pub fn running(&self) -> Vec<u32> {
        let rows = self.rows.iter().enumerate();
        let running = rows.filter(|(_, row)| row.life == Life::Started);
        running.map(|(rank, _)| rank as u32).collect()
    }

    /// Notes what a rank has told; answers the failure that this is or shows.
    pub fn tell(&mut self, rank: u32, told: Notice) -> Option<Failure> {
        let Row {
            progress,
            resumed,
            ends_by_loss,
            connected,
            has_met,
            handles_losses,
            ..
        } = &mut self.rows[rank as usize];
        match told {
            Notice::EndsByLoss => {
                *ends_by_loss = true;
                None
            }
            Notice::Connected | Notice::Independent => {
                *connected = told == Notice::Connected;
                *has_met = true;
                None
            }
            Notice::HandlesLosses => {
                *handles_losses = true;
                None
            }
            Notice::Initialised => {
                // A notice that comes twice, by the rank and by the segment, may come late.
                match *progress {
                    Progress::Before => *progress = Progress::Within,
                    Progress::Within => {}
                    Progress::After => *resumed = true,
                }
                self.left_too_early(rank)
            }
            Notice::Finalised => {
                (*progress, *resumed) = (Progress::After, false);
                None
            }
            Notice::Abort { code, text } => Some(Failure::Aborted { rank, code, text }),
            Notice::Counters(_) | Notice::Absent => None,
        }
    }

    /// A rank has initialised: has another one left already, for whom it will wait in vain?
    fn left_too_early(&self, other: u32) -> Option<Failure> {
        let left = self.rows.iter().position(|row| {
            let well = matches!(row.life, Life::Ended(status) if status.success());
            well && row.progress == Progress::Before && !row.given_up
        })?;
        Some(Failure::NotInitialised {
            rank: left as u32,
            other,
            spawned: self.world(left as u32).is_some(),
        })
    }

    /// Whether the job goes on without a rank that has died: it died in the middle of MPI, and all that run and have not
    /// finalised handle that; at least one, or one that has finalised meanwhile.
    pub fn is_loss_handled(&self, rank: u32) -> bool {
        let row = self.rows.get(rank as usize);
        let mut within = self
            .rows
            .iter()
            .filter(|row| row.life == Life::Started && row.progress != Progress::After);
        let mut left = self
            .rows
            .iter()
            .filter(|row| row.life == Life::Started || row.progress == Progress::After);
        row.is_some_and(|row| row.progress == Progress::Within)
            && left.any(|row| row.handles_losses)
            && within.all(|row| row.handles_losses)
    }

    /// The world of a process that was started from within a program, if it has not met those who have had that started: without it
    /// the world cannot begin.
    pub fn unmet_world(&self, rank: u32) -> Option<u32> {
        let row = self.rows.get(rank as usize)?;
        let unmet = !row.has_met && !row.given_up && row.progress != Progress::After;
        row.world.filter(|_| unmet).map(|own| own.world)
    }

    /// Whether the job goes on without a world that has not begun: all others that are in the middle of MPI handle losses.
    pub fn is_handled_without(&self, world: u32) -> bool {
        let mut others = self.rows.iter().filter(|row| {
            row.life == Life::Started && row.progress != Progress::After && !row.is_of(world)
        });
        let any = self
            .rows
            .iter()
            .any(|row| row.life == Life::Started && !row.is_of(world) && row.handles_losses);
        any && others.all(|row| row.handles_losses || row.given_up)
    }

    /// Whether a rank has ended while others are in the middle of MPI, or may still come to it: it has used sessions only.
    pub fn is_left_early(&self, rank: u32) -> bool {
        let goes_on = |row: &Row| row.life == Life::Started && row.progress != Progress::After;
        self.has_finalised(rank) && self.rows.iter().any(goes_on)
    }

    /// Whether a rank has finalised MPI.
    pub fn has_finalised(&self, rank: u32) -> bool {
        let row = self.rows.get(rank as usize);
        row.is_some_and(|row| row.progress == Progress::After)
    }

    /// Whether a rank has finalised MPI, and does not use it in a session again: no other one needs anything of it any more.
    pub fn has_left(&self, rank: u32) -> bool {
        let resumed = self.rows.get(rank as usize).is_some_and(|row| row.resumed);
        self.has_finalised(rank) && !resumed
    }

    /// Sorts ranks that were seen to have ended at the same time: first those that more likely are why the others have.
    pub fn sort_by_cause(&self, ended: &mut [(u32, ExitStatus)]) {
        ended.sort_by_key(|(rank, _)| self.judge(*rank).map(|failure| failure.order()));
    }

    /// Whether the end of a rank is a failure.
    pub fn judge(&self, rank: u32) -> Option<Failure> {
        let status = self.status(rank)?;
        let progress = self.rows[rank as usize].progress;
        if !status.success() {
            return Some(Failure::Ended {
                rank,
                status,
                progress,
            });
        }
        match progress {
            Progress::After => None,
            Progress::Within => Some(Failure::NotFinalised {
                rank,
                how_is_known: rank >= self.adopted,
            }),
            Progress::Before => {
                let mut rows = self.rows.iter();
                let other = rows.position(|row| row.progress != Progress::Before)?;
                Some(Failure::NotInitialised {
                    rank,
                    other: other as u32,
                    spawned: self.world(rank).is_some(),
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn of_ends_that_are_seen_together_the_cause_comes_first() {
        let mut ranks = RankTable::new(4);
        let statuses = [0, 3 << 8, libc::SIGKILL, 0].map(ExitStatus::from_raw);
        let mut ended: Vec<_> = (0..).zip(statuses).collect();
        for &(rank, status) in &ended {
            ranks.start(rank);
            ranks.tell(rank, Notice::Initialised);
            ranks.end(rank, status);
        }
        ranks.tell(3, Notice::Finalised);
        ranks.sort_by_cause(&mut ended);
        let order: Vec<u32> = ended.iter().map(|(rank, _)| *rank).collect();
        assert_eq!(order, [3, 2, 1, 0], "the first is no failure");
    }

    #[test]
    fn an_end_is_judged_by_what_was_told_before() {
        let mut ranks = RankTable::new(2);
        assert_eq!(ranks.running(), [0; 0], "none was started");
        ranks.start_all();
        let well = ExitStatus::from_raw(0);
        assert_eq!(ranks.tell(0, Notice::Initialised), None);
        assert!(ranks.end(0, well));
        assert!(!ranks.end(0, well), "it has ended already");
        let not_finalised = |how_is_known| Failure::NotFinalised {
            rank: 0,
            how_is_known,
        };
        assert_eq!(ranks.judge(0), Some(not_finalised(true)));
        ranks.adopted = 1;
        assert_eq!(ranks.judge(0), Some(not_finalised(false)));
        assert_eq!(ranks.tell(0, Notice::Finalised), None);
        assert_eq!(ranks.judge(0), None);
        assert_eq!(ranks.running(), [1]);
        assert!(ranks.end(1, well) && ranks.has_ended());
        let without = Failure::NotInitialised {
            rank: 1,
            other: 0,
            spawned: false,
        };
        assert_eq!(ranks.judge(1), Some(without));
    }

    #[test]
    fn a_rank_that_ended_without_mpi_is_found_when_another_initialises() {
        let mut ranks = RankTable::new(2);
        ranks.start_all();
        ranks.end(1, ExitStatus::from_raw(0));
        assert_eq!(ranks.judge(1), None, "nobody uses MPI so far");
        let without = Failure::NotInitialised {
            rank: 1,
            other: 0,
            spawned: false,
        };
        assert_eq!(ranks.tell(0, Notice::Initialised), Some(without));
    }

    #[test]
    fn a_rank_that_begins_a_session_after_it_had_finalised_has_not_left() {
        let mut ranks = RankTable::new(1);
        ranks.start_all();
        let told = [
            (Notice::Initialised, false),
            (Notice::Initialised, false),
            (Notice::Finalised, true),
            (Notice::Initialised, false),
            (Notice::Finalised, true),
        ];
        for (notice, left) in told {
            ranks.tell(0, notice);
            assert_eq!(ranks.has_left(0), left);
        }
    }

    #[test]
    fn a_rank_that_finalises_before_others_initialise_leaves_early() {
        let mut ranks = RankTable::new(2);
        ranks.start_all();
        ranks.tell(1, Notice::Initialised);
        ranks.tell(1, Notice::Finalised);
        ranks.end(1, ExitStatus::from_raw(0));
        assert!(ranks.is_left_early(1), "the other one may still come to it");
        ranks.tell(0, Notice::Initialised);
        assert!(ranks.is_left_early(1) && !ranks.is_left_early(0));
        ranks.tell(0, Notice::Finalised);
        assert!(!ranks.is_left_early(1), "nobody is in the middle of it");
    }

    #[test]
    fn a_world_is_independent_when_all_of_it_is() {
        let mut ranks = RankTable::new(1);
        ranks.start(0);
        for (number, rank) in [(3, 0), (4, 1)] {
            ranks.start_later(number, WorldRank { world: 1, rank });
        }
        assert_eq!(
            (ranks.running_of(1), ranks.has_ended()),
            (vec![3, 4], false)
        );
        assert_eq!(ranks.first_before(1), Some(3), "none has begun");
        ranks.tell(3, Notice::Initialised);
        assert_eq!(ranks.first_before(1), Some(4));
        assert!(!ranks.is_independent(3) && !ranks.is_independent(0));
        ranks.tell(3, Notice::Independent);
        assert!(!ranks.is_independent(3), "the other one is not");
        ranks.tell(4, Notice::Finalised);
        assert!(ranks.is_independent(3));
        ranks.tell(3, Notice::Connected);
        assert!(!ranks.is_independent(3));
        ranks.give_up(1);
        assert!(ranks.is_given_up(4) && !ranks.is_given_up(0));
        for rank in [0, 3, 4] {
            ranks.end(rank, ExitStatus::from_raw(0));
        }
        assert!(ranks.has_ended(), "nobody was started under the others");
    }

    #[test]
    fn a_loss_is_handled_when_all_that_are_in_mpi_handle_it() {
        let mut ranks = RankTable::new(4);
        ranks.start_all();
        let killed = ExitStatus::from_raw(libc::SIGKILL);
        for rank in 0..4 {
            ranks.tell(rank, Notice::Initialised);
        }
        ranks.tell(1, Notice::HandlesLosses);
        ranks.end(0, killed);
        assert!(!ranks.is_loss_handled(0), "two of them do not");
        ranks.tell(2, Notice::HandlesLosses);
        ranks.tell(3, Notice::Finalised);
        assert!(ranks.is_loss_handled(0));
        ranks.end(3, killed);
        assert!(!ranks.is_loss_handled(3), "it had finalised");
        for rank in [1, 2] {
            ranks.end(rank, killed);
        }
        assert!(!ranks.is_loss_handled(1), "nobody is left");
    }

    #[test]
    fn a_world_that_has_not_met_is_lost_with_any_of_it() {
        let mut ranks = RankTable::new(1);
        ranks.start(0);
        ranks.tell(0, Notice::Initialised);
        for (number, rank) in [(3, 0), (4, 1)] {
            ranks.start_later(number, WorldRank { world: 1, rank });
            ranks.tell(number, Notice::Initialised);
        }
        assert!(!ranks.is_handled_without(1), "the first one does not");
        ranks.tell(0, Notice::HandlesLosses);
        assert!(ranks.is_handled_without(1) && ranks.unmet_world(0).is_none());
        ranks.tell(3, Notice::Connected);
        ranks.end(4, ExitStatus::from_raw(libc::SIGKILL));
        assert_eq!(
            (ranks.unmet_world(3), ranks.unmet_world(4)),
            (None, Some(1))
        );
        ranks.give_up(1);
        assert!(ranks.unmet_world(4).is_none(), "once");
        ranks.start_later(5, WorldRank { world: 2, rank: 0 });
        assert!(!ranks.is_handled_without(1), "that one does not");
        assert!(ranks.is_handled_without(2));
    }

    #[test]
    fn a_rank_that_was_restarted_begins_anew() {
        let mut ranks = RankTable::new(1);
        ranks.start(0);
        ranks.tell(0, Notice::Initialised);
        assert!(ranks.end(0, ExitStatus::from_raw(libc::SIGKILL)));
        ranks.start(0);
        assert_eq!(ranks.running(), [0]);
        assert!(ranks.end(0, ExitStatus::from_raw(0)));
        assert_eq!(ranks.judge(0), None, "nobody uses MPI so far");
    }
}
