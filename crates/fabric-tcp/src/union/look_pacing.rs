//! Pacing of looks: which of them include the network. All do while something comes from there; while nothing does, fewer and fewer.
//!
//! *Invariant:* between two looks at the network are at most [`RARELY`] others.

/// Most looks at shared memory between two looks at sockets from which nothing comes.
const RARELY: u32 = 32;

/// Which looks include the network.
#[derive(Debug)]
pub struct LookPacing {
    /// Looks until the next one at the network, and how many there are between two.
    next: u32,
    pause: u32,
}

impl Default for LookPacing {
    fn default() -> Self {
        Self { next: 0, pause: 1 }
    }
}

impl LookPacing {
    /// Whether this look includes the network: its turn has come, or somebody has slept since the last one.
    #[inline]
    pub fn is_due(&mut self, has_slept: impl FnOnce() -> bool) -> bool {
        let due = self.next == 0 || has_slept();
        if !due {
            self.next -= 1;
        }
        due
    }

    /// A look has included the network, from which something `came`. `at_once`: so does the next one.
    #[inline]
    pub fn note(&mut self, came: bool, at_once: bool) {
        self.pause = match came {
            true => 1,
            false => (self.pause * 2).min(RARELY),
        };
        self.next = match at_once {
            true => 0,
            false => self.pause,
        };
    }

    /// The next look includes the network.
    pub fn hurry(&mut self) {
        self.next = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks until one includes the network.
    fn others(pacing: &mut LookPacing) -> u32 {
        (0..).find(|_| pacing.is_due(|| false)).unwrap_or(u32::MAX)
    }

    #[test]
    fn looks_get_rarer_while_nothing_comes() {
        let mut pacing = LookPacing::default();
        let pauses: Vec<_> = (0..8)
            .map(|_| {
                let pause = others(&mut pacing);
                pacing.note(false, false);
                pause
            })
            .collect();
        assert_eq!(pauses, [0, 2, 4, 8, 16, 32, 32, 32]);
        pacing.note(true, false);
        assert_eq!(others(&mut pacing), 1);
    }

    #[test]
    fn a_sleep_or_a_wait_for_the_network_makes_it_due() {
        let mut pacing = LookPacing::default();
        pacing.note(false, true);
        assert!(pacing.is_due(|| false));
        pacing.note(false, false);
        assert!(!pacing.is_due(|| false));
        assert!(pacing.is_due(|| true));
        pacing.hurry();
        assert!(pacing.is_due(|| false));
    }
}
