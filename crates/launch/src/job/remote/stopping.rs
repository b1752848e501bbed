//! Stopping: a standstill of several hosts that was found, and is reported once the ranks of all hosts are stopped.
//!
//! ```text
//!   Signal(SIGSTOP), AskClock ──▶ each agent ──▶ its ranks are stopped ──▶ Clock
//!                                                  all have answered, are lost, or a time is over ──▶ the standstill is told
//! ```
//!
//! The report ends the job, and hosts do not end at the same moment: a rank that still runs when the connections of
//! another host break would report a loss that is none.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::job::deadlock::Standstill;

/// How long agents may take to stop their ranks. A standstill is told within a second.
const LIMIT: Duration = Duration::from_millis(400);

/// A standstill, and the agents that have not said yet that they have stopped their ranks.
#[derive(Debug)]
pub struct Stopping {
    found: Standstill,
    /// When they were asked for their clocks, by which an answer is known.
    asked: u64,
    left: BTreeSet<usize>,
    until: Instant,
}

impl Stopping {
    /// These agents were told to stop their ranks, and then, at `asked`, for the time.
    pub fn new(
        found: Standstill,
        asked: u64,
        agents: impl Iterator<Item = usize>,
        now: Instant,
    ) -> Self {
        Self {
            found,
            asked,
            left: agents.collect(),
            until: now + LIMIT,
        }
    }

    /// An agent has said what its clock says when it was asked then. Whether that is an answer to this.
    pub fn hear(&mut self, agent: usize, asked: u64) -> bool {
        asked == self.asked && self.left.remove(&agent)
    }

    /// An agent is lost: there is nobody whom it could keep from anything.
    pub fn lose(&mut self, agent: usize) {
        self.left.remove(&agent);
    }

    /// When to look at the latest.
    pub fn next_look(&self) -> Instant {
        self.until
    }

    /// The standstill, once it may be told.
    pub fn stopped(&self, now: Instant) -> Option<&Standstill> {
        (self.left.is_empty() || now >= self.until).then_some(&self.found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn stopping(now: Instant) -> Stopping {
        Stopping::new(Standstill::new(BTreeMap::new()), 7, [0, 2].into_iter(), now)
    }

    #[test]
    fn it_is_told_when_all_have_answered_or_are_lost() {
        let now = Instant::now();
        let mut stopping = stopping(now);
        assert!(!stopping.hear(0, 6), "that was for a profile");
        assert!(stopping.stopped(now).is_none());
        assert!(stopping.hear(0, 7) && !stopping.hear(0, 7));
        assert!(stopping.stopped(now).is_none());
        stopping.lose(2);
        assert!(stopping.stopped(now).is_some());
    }

    #[test]
    fn it_is_told_in_time() {
        let now = Instant::now();
        let stopping = stopping(now);
        assert!(stopping.stopped(now).is_none());
        assert!(stopping.stopped(stopping.next_look()).is_some());
    }
}
