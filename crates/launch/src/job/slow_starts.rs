//! Slow starts: worlds that were started from within programs, each of which is mentioned if it has not begun with MPI after a
//! while. Whoever has started it waits, and sees nothing.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How long a world may take before it is mentioned.
pub const SLOW: Duration = Duration::from_secs(10);

/// Worlds that may not have begun, in the order in which they were started, with when to mention that.
#[derive(Debug, Default)]
pub struct SlowStarts {
    worlds: VecDeque<(Instant, u32)>,
}

impl SlowStarts {
    /// Notes that a process of a world was started. Those of one world come one after the other.
    pub fn note(&mut self, world: u32, now: Instant) {
        if self.worlds.back().is_none_or(|(_, last)| *last != world) {
            self.worlds.push_back((now + SLOW, world));
        }
    }

    /// When the next world is due.
    pub fn next_look(&self) -> Option<Instant> {
        self.worlds.front().map(|(when, _)| *when)
    }

    /// A world that was started long ago; each comes once.
    pub fn take_due(&mut self, now: Instant) -> Option<u32> {
        self.next_look().filter(|when| *when <= now)?;
        self.worlds.pop_front().map(|(_, world)| world)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_world_is_due_once() {
        let start = Instant::now();
        let mut starts = SlowStarts::default();
        for (world, after) in [(1, 0), (1, 1), (2, 2)] {
            starts.note(world, start + Duration::from_secs(after));
        }
        assert_eq!(starts.next_look(), Some(start + SLOW));
        assert_eq!(starts.take_due(start), None);
        let late = start + SLOW + Duration::from_secs(2);
        assert_eq!(starts.take_due(late), Some(1));
        assert_eq!(starts.take_due(late), Some(2));
        assert_eq!((starts.take_due(late), starts.next_look()), (None, None));
    }
}
