//! Restart times of a component that ends: their rate is limited, not their number. A component that ends
//! again and again costs one start every ten seconds; no number of failures over months ends the system.

use std::collections::VecDeque;

/// Restarts within [`WINDOW`] that are made immediately.
const AT_ONCE: usize = 10;

/// For how long restarts count, in nanoseconds.
const WINDOW: u64 = 60_000_000_000;

/// Delay of the first restart beyond that, in nanoseconds; it doubles for each further one.
const FIRST: u64 = 100_000_000;

/// Longest delay, in nanoseconds.
const LONGEST: u64 = 10_000_000_000;

/// The restarts of one component.
#[derive(Debug, Default)]
pub(super) struct Restarts {
    total: u32,
    /// Times at which it ended, within the window.
    recent: VecDeque<u64>,
}

impl Restarts {
    /// Notes that it has ended, or could not be started; returns when to start it again. Times are
    /// nanoseconds of the monotonic clock.
    pub(super) fn due_after(&mut self, now: u64) -> u64 {
        self.total = self.total.saturating_add(1);
        let is_old = |moment: &u64| moment.saturating_add(WINDOW) <= now;
        while self.recent.front().is_some_and(is_old) {
            self.recent.pop_front();
        }
        self.recent.push_back(now);
        let wait = match self.recent.len().checked_sub(AT_ONCE + 1) {
            None => 0,
            Some(beyond) => LONGEST.min(FIRST << beyond.min(32)),
        };
        now + wait
    }

    /// How many restarts there were.
    pub(super) fn total(&self) -> u32 {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn thousands_over_months_are_made_at_once() {
        let mut restarts = Restarts::default();
        for hour in 0..5_000 {
            let now = hour * 3_600 * SECOND;
            assert_eq!(restarts.due_after(now), now);
        }
        assert_eq!(restarts.total(), 5_000);
    }

    #[test]
    fn one_that_ends_at_once_is_slowed_down_and_never_given_up() {
        let mut restarts = Restarts::default();
        let mut now = SECOND;
        let mut waits = Vec::new();
        for _ in 0..1_000 {
            let due = restarts.due_after(now);
            waits.push(due - now);
            now = due + 1_000_000;
        }
        assert_eq!(waits[..AT_ONCE], [0; AT_ONCE]);
        assert_eq!(waits[AT_ONCE], FIRST);
        assert!(waits.iter().all(|&wait| wait <= LONGEST));
        // A minute never has more than the immediate restarts and the delayed ones.
        assert!(now / (60 * SECOND) >= 1_000 / 20, "{}", now / SECOND);
        // After a quiet minute it is as before.
        now += WINDOW;
        assert_eq!(restarts.due_after(now), now);
        assert!(restarts.recent.len() == 1);
    }
}
