//! Table of a job's ranks: how far each has come with MPI, how it ended, and whether its end is a failure.
//!
//! ```text
//!   Awaited ── its host is known ──▶ Started ── reaped ──▶ Ended ── restarted ──▶ Started
//! ```

use std::process::ExitStatus;

use super::outcome::{Failure, Progress};
use crate::control::Told;

/// How far the process of a rank is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Life {
    Awaited,
    Started,
    Ended(ExitStatus),
}

#[derive(Clone, Debug)]
struct Row {
    life: Life,
    progress: Progress,
}

impl Row {
    const NEW: Self = Self {
        life: Life::Awaited,
        progress: Progress::Before,
    };
}

/// All ranks of a job, as their hosts tell of them.
#[derive(Debug)]
pub struct RankTable {
    rows: Vec<Row>,
}

impl RankTable {
    /// So many ranks, none of which was started.
    pub fn new(size: u32) -> Self {
        Self {
            rows: vec![Row::NEW; size as usize],
        }
    }

    /// Notes that a rank was started, or restarted.
    pub fn start(&mut self, rank: u32) {
        self.rows[rank as usize] = Row {
            life: Life::Started,
            ..Row::NEW
        };
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
            Life::Awaited | Life::Started => None,
        }
    }

    /// Whether all ranks have ended.
    pub fn has_ended(&self) -> bool {
        let mut rows = self.rows.iter();
        rows.all(|row| matches!(row.life, Life::Ended(_)))
    }

    /// Those that were started and have not ended.
    pub fn running(&self) -> Vec<u32> {
        let rows = self.rows.iter().enumerate();
        let running = rows.filter(|(_, row)| row.life == Life::Started);
        running.map(|(rank, _)| rank as u32).collect()
    }

    /// Notes what a rank has told; answers the failure that this is or shows.
    pub fn tell(&mut self, rank: u32, told: Told) -> Option<Failure> {
        let progress = &mut self.rows[rank as usize].progress;
        match told {
            Told::Initialised => {
                // What was told twice, by the rank and by the segment, may come late.
                if *progress == Progress::Before {
                    *progress = Progress::Within;
                }
                self.left_too_early(rank)
            }
            Told::Finalised => {
                *progress = Progress::After;
                None
            }
            Told::Abort { code, text } => Some(Failure::Aborted { rank, code, text }),
        }
    }

    /// A rank has initialised: has another one left already, for whom it will wait in vain?
    fn left_too_early(&self, other: u32) -> Option<Failure> {
        let left = self.rows.iter().position(|row| {
            let well = matches!(row.life, Life::Ended(status) if status.success());
            well && row.progress == Progress::Before
        })?;
        Some(Failure::NotInitialised {
            rank: left as u32,
            other,
        })
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
            Progress::Within => Some(Failure::NotFinalised { rank }),
            Progress::Before => {
                let mut rows = self.rows.iter();
                let other = rows.position(|row| row.progress != Progress::Before)?;
                Some(Failure::NotInitialised {
                    rank,
                    other: other as u32,
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
    fn an_end_is_judged_by_what_was_told_before() {
        let mut ranks = RankTable::new(2);
        assert_eq!(ranks.running(), [0; 0], "none was started");
        ranks.start_all();
        let well = ExitStatus::from_raw(0);
        assert_eq!(ranks.tell(0, Told::Initialised), None);
        assert!(ranks.end(0, well));
        assert!(!ranks.end(0, well), "it has ended already");
        assert_eq!(ranks.judge(0), Some(Failure::NotFinalised { rank: 0 }));
        assert_eq!(ranks.tell(0, Told::Finalised), None);
        assert_eq!(ranks.judge(0), None);
        assert_eq!(ranks.running(), [1]);
        assert!(ranks.end(1, well) && ranks.has_ended());
        let without = Failure::NotInitialised { rank: 1, other: 0 };
        assert_eq!(ranks.judge(1), Some(without));
    }

    #[test]
    fn who_left_without_mpi_is_found_when_another_initialises() {
        let mut ranks = RankTable::new(2);
        ranks.start_all();
        ranks.end(1, ExitStatus::from_raw(0));
        assert_eq!(ranks.judge(1), None, "nobody uses MPI so far");
        let without = Failure::NotInitialised { rank: 1, other: 0 };
        assert_eq!(ranks.tell(0, Told::Initialised), Some(without));
    }

    #[test]
    fn a_rank_that_was_restarted_begins_anew() {
        let mut ranks = RankTable::new(1);
        ranks.start(0);
        ranks.tell(0, Told::Initialised);
        assert!(ranks.end(0, ExitStatus::from_raw(libc::SIGKILL)));
        ranks.start(0);
        assert_eq!(ranks.running(), [0]);
        assert!(ranks.end(0, ExitStatus::from_raw(0)));
        assert_eq!(ranks.judge(0), None, "nobody uses MPI so far");
    }
}
