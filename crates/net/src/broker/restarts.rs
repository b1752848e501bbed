//! Restart times of a component that ends: a rate, not a number. One that ends again and again
//! costs a start every ten seconds; nothing that happens in the course of months ends the system.

use std::collections::VecDeque;

/// Restarts within [`WINDOW`] that are made at once.
const AT_ONCE: usize = 10;

/// How far back restarts count, in nanoseconds.
const WINDOW: u64 = 60_000_000_000;

/// How long the first one beyond that waits, in nanoseconds; each further one twice as long.
const FIRST: u64 = 100_000_000;

/// How long none waits more than, in nanoseconds.
const LONGEST: u64 = 10_000_000_000;

/// The restarts of one component.
#[derive(Debug, Default)]
pub(super) struct Restarts {
    total: u32,
    /// When it ended, within the window.
    recent: VecDeque<u64>,
}

impl Restarts {
    /// Notes that it has ended, or could not be started; answers when to start it again. Times are
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

    /// How many there were.
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
        // A minute has never more than those at once and those that double.
        assert!(now / (60 * SECOND) >= 1_000 / 20, "{}", now / SECOND);
        // After a quiet minute it is as before.
        now += WINDOW;
        assert_eq!(restarts.due_after(now), now);
        assert!(restarts.recent.len() == 1);
    }
}
