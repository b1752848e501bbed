//! Stall detection: distinguishes a run in which ranks poll for ever and nothing happens from one that
//! computes.
//!
//! Polls that find nothing pass virtual time, and their time doubles after every [`DOUBLING`] of them, so that such a
//! run soon uses up its patience. Any event at any rank starts the count anew.

use std::time::Duration;

use crate::config::nanoseconds;

/// Idle polls of each rank after which the time of a poll doubles.
const DOUBLING: u64 = 1024;

/// Most ranks that are counted for this.
const CROWD: usize = 16;

/// Most doublings.
const DOUBLINGS: u64 = 20;

/// Idle polls of all ranks since anything happened to any of them, and the time that they took.
#[derive(Debug)]
pub(crate) struct StallDetector {
    polls: u64,
    idle: u64,
    /// In nanoseconds, as `idle` is.
    patience: u64,
    /// Polls after which the time of a poll doubles.
    doubling: u64,
}

impl StallDetector {
    pub(crate) fn new(ranks: usize, patience: Duration) -> Self {
        Self {
            polls: 0,
            idle: 0,
            patience: nanoseconds(patience),
            doubling: DOUBLING * ranks.min(CROWD) as u64,
        }
    }

    /// Something happened to somebody.
    pub(crate) fn progressed(&mut self) {
        (self.polls, self.idle) = (0, 0);
    }

    /// A rank computed for `time`. A loop that computes and polls for ever must be ended, a long computation must
    /// not.
    pub(crate) fn computed(&mut self, time: u64) {
        self.idle += time.min(self.patience / 1024);
        self.polls = 0;
    }

    /// Counts an idle poll; returns how long it takes, if the first ones take `cost`.
    pub(crate) fn poll(&mut self, cost: u64) -> u64 {
        self.polls += 1;
        cost << (self.polls / self.doubling).min(DOUBLINGS)
    }

    /// Time passed, and nothing is known to come. True if patience is used up.
    #[must_use]
    pub(crate) fn waited(&mut self, time: u64) -> bool {
        self.idle += time;
        self.idle > self.patience
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_ends_soon_when_nothing_happens_and_never_when_something_does() {
        let mut stall = StallDetector::new(2, Duration::from_secs(60));
        let mut polls = 0_u64;
        loop {
            let time = stall.poll(50);
            polls += 1;
            if stall.waited(time) {
                break;
            }
        }
        assert!(polls < 2 * DOUBLING * DOUBLINGS * 2, "{polls}");
        for _ in 0..polls {
            let time = stall.poll(50);
            stall.progressed();
            assert!(!stall.waited(time));
            stall.progressed();
        }
    }
}
