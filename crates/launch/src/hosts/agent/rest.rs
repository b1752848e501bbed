//! Rest of an agent's ranks: whether all of them sleep, for the head, which asks none while one is awake.

use std::time::{Duration, Instant};

/// Time between looks.
const LOOK: Duration = Duration::from_millis(125);

/// The state of this host's memory, and what the head knows of it.
pub struct Rest {
    next: Instant,
    shown: Option<u64>,
    told: Option<u64>,
}

impl Rest {
    /// The head knows of none.
    pub fn new(now: Instant) -> Self {
        Self {
            next: now + LOOK,
            shown: None,
            told: None,
        }
    }

    /// When to look next.
    pub fn next_look(&self) -> Instant {
        self.next
    }

    /// Looks, if it is time to: `show` says whether all sleep, with a number that changes when one is woken. Returns the
    /// report for the head: that one is awake, at once; that all sleep, when two looks were equal.
    pub fn look(
        &mut self,
        now: Instant,
        show: impl FnOnce() -> Option<u64>,
    ) -> Option<Option<u64>> {
        if now < self.next {
            return None;
        }
        self.next = now + LOOK;
        let shown = show();
        let stays = shown == std::mem::replace(&mut self.shown, shown);
        let news = shown != self.told && (stays || shown.is_none());
        news.then(|| {
            self.told = shown;
            shown
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_is_told_what_stays_and_that_somebody_is_awake() {
        let mut now = Instant::now();
        let mut rest = Rest::new(now);
        let mut look = |shown: Option<u64>| {
            now += LOOK;
            rest.look(now, || shown)
        };
        let told: Vec<_> = [
            None,
            Some(1),
            Some(1),
            Some(1),
            Some(2),
            Some(2),
            None,
            None,
        ]
        .into_iter()
        .map(&mut look)
        .collect();
        let (rests, awake) = (|number| Some(Some(number)), Some(None));
        let expected = [None, None, rests(1), None, None, rests(2), awake, None];
        assert_eq!(told, expected);
        assert_eq!(rest.look(now, || Some(5)), None, "it is not time to");
    }
}
