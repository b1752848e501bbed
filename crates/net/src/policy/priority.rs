//! Strict priority, with a bound on how long the others wait.

use super::backlog::first_from;
use super::{Backlog, CLIENTS, Policy, Turn};

/// The backlogged client of the best level goes first, in a circle within a level.
///
/// **Starvation bound.** After `bound` consecutive frames that passed a client of a worse level, the next
/// passed-over client in a circle gets one frame. So a client that is backlogged sends one of its frames
/// after at most `(clients − 1) · (bound + 1)` frames of others, and the best level keeps at least `bound /
/// (bound + 1)` of the wire.
pub struct StrictPriority {
    level: [u32; CLIENTS],
    bound: u32,
    passed: u32,
    next: usize,
    relief: usize,
}

impl StrictPriority {
    /// With these levels, client by client; 0 is the best and the default.
    #[must_use]
    pub fn new(levels: &[u32], bound: u32) -> Self {
        let mut level = [0; CLIENTS];
        for (place, &given) in level.iter_mut().zip(levels) {
            *place = given;
        }
        Self {
            level,
            bound: bound.max(1),
            passed: 0,
            next: 0,
            relief: 0,
        }
    }
}

impl Policy for StrictPriority {
    fn next(&mut self, backlog: &Backlog, _now: u64) -> Turn {
        let mut best = u32::MAX;
        let mut first = 0u64;
        let mut rest = backlog.mask();
        while rest != 0 {
            let client = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            if self.level[client] < best || first == 0 {
                best = self.level[client];
                first = 0;
            }
            if self.level[client] == best {
                first |= 1 << client;
            }
        }
        let worse = backlog.mask() & !first;
        if worse == 0 {
            self.passed = 0;
        } else if self.passed >= self.bound {
            self.passed = 0;
            if let Some(client) = first_from(worse, self.relief) {
                self.relief = (client + 1) % CLIENTS;
                return Turn::Send(client);
            }
        } else {
            self.passed += 1;
        }
        match first_from(first, self.next) {
            Some(client) => {
                self.next = (client + 1) % CLIENTS;
                Turn::Send(client)
            }
            None => Turn::Idle,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::saturated;
    use super::*;

    #[test]
    fn the_best_level_goes_first_and_nobody_starves() {
        let mut policy = StrictPriority::new(&[1, 0, 2, 0], 9);
        let (frames, _) = saturated(&mut policy, &[1000; 4], 1000);
        assert_eq!(frames, [50, 450, 50, 450]);
    }

    #[test]
    fn the_bound_is_the_documented_one() {
        let bound = 5;
        let mut policy = StrictPriority::new(&[0, 1, 1], bound);
        let mut backlog = Backlog::default();
        (0..3).for_each(|client| backlog.set(client, 100));
        let (mut waited, mut worst) = (0, 0);
        for _ in 0..1000 {
            if policy.next(&backlog, 0) == Turn::Send(2) {
                worst = worst.max(waited);
                waited = 0;
            } else {
                waited += 1;
            }
        }
        assert!(worst > 0 && worst <= 2 * (bound + 1), "{worst}");
    }

    #[test]
    fn alone_a_low_level_is_not_held_back() {
        let mut policy = StrictPriority::new(&[0, 7], 3);
        let mut backlog = Backlog::default();
        backlog.set(1, 100);
        for _ in 0..10 {
            assert_eq!(policy.next(&backlog, 0), Turn::Send(1));
        }
    }
}
