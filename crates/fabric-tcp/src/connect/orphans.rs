//! Orphans: connections to members whose process has ended according to the directory, but which do not end, because a
//! child that the process forked holds its sockets open.
//!
//! ```text
//!   connected, and the directory knows of the loss ─► a quiet spell: nothing was handed out ─► … enough in a row ─► given up
//!                                                     else: from the first one again
//! ```
//!
//! What a dead process of this host handed over is in this host's kernel, and each look reads as much as there is room for: a second
//! suffices. What one of another host handed over may be on its way for as long as a connection is made anew: that long nothing may
//! come. A spell ends only with a look, so a rank that does not look does not mistake its own pause for silence.

use std::time::Duration;

/// How long a spell is, in nanoseconds.
const SPELL: u64 = 250_000_000;
/// After this many quiet spells in a row nothing comes any more from a process of this host.
const SPELLS: u32 = 4;

/// One orphan.
#[derive(Debug)]
struct Orphan {
    peer: u32,
    /// When the present spell ends.
    until: u64,
    /// Quiet spells before it, and after how many nothing comes any more.
    quiet: u32,
    enough: u32,
    /// How many frames had been handed out when it began.
    received: u64,
}

/// All orphans of one rank. See the [module page](self).
#[derive(Debug, Default)]
pub struct Orphans(Vec<Orphan>);

impl Orphans {
    /// Adds a connected member whose process has ended. `received`: how many of its frames were handed out. `patience`: for how
    /// long what it has sent may be on its way; `None`: it is on this host.
    pub fn add(&mut self, peer: u32, now: u64, received: u64, patience: Option<Duration>) {
        if !self.0.iter().any(|orphan| orphan.peer == peer) {
            let patience = patience.map_or(0, |patience| patience.as_nanos() / u128::from(SPELL));
            self.0.push(Orphan {
                peer,
                until: now + SPELL,
                quiet: 0,
                enough: u32::try_from(patience).unwrap_or(u32::MAX).max(SPELLS),
                received,
            });
        }
    }

    /// When a spell ends.
    pub fn due(&self) -> Option<u64> {
        self.0.iter().map(|orphan| orphan.until).min()
    }

    /// Ends the spells that are over; returns the members from whom nothing comes any more. `received` gives how many frames
    /// of a member were handed out, if its connection still exists.
    pub fn take_silent(&mut self, now: u64, received: impl Fn(u32) -> Option<u64>) -> Vec<u32> {
        let mut silent = Vec::new();
        self.0.retain_mut(|orphan| {
            let Some(count) = received(orphan.peer) else {
                return false;
            };
            if now < orphan.until {
                return true;
            }
            let is_quiet = count == orphan.received;
            orphan.quiet = if is_quiet { orphan.quiet + 1 } else { 0 };
            (orphan.until, orphan.received) = (now + SPELL, count);
            if orphan.quiet < orphan.enough {
                return true;
            }
            silent.push(orphan.peer);
            false
        });
        silent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_given_up_after_quiet_looks_in_a_row() {
        let mut orphans = Orphans::default();
        orphans.add(3, 0, 7, None);
        orphans.add(3, 9, 9, None);
        assert_eq!(orphans.due(), Some(SPELL));
        // A rank that looks after an hour ends one spell by that look.
        let mut now = 3_600_000_000_000;
        for received in [7, 7, 8, 8, 8, 8] {
            assert_eq!(orphans.take_silent(now, |_| Some(received)), [0; 0]);
            assert_eq!(
                orphans.take_silent(now, |_| Some(received)),
                [0; 0],
                "the same look"
            );
            now += SPELL;
        }
        assert_eq!(orphans.take_silent(now, |_| Some(8)), [3]);
        assert_eq!(orphans.due(), None);
        orphans.add(4, now, 0, None);
        assert_eq!(
            orphans.take_silent(now + SPELL, |_| None),
            [0; 0],
            "it has ended"
        );
        assert_eq!(orphans.due(), None);
    }

    #[test]
    fn one_to_another_host_is_waited_for_as_long_as_data_may_be_on_their_way() {
        for (seconds, spells) in [(3, 12), (0, SPELLS)] {
            let mut orphans = Orphans::default();
            orphans.add(3, 0, 7, Some(Duration::from_secs(seconds)));
            let mut now = 0;
            let mut silent = || {
                now += SPELL;
                orphans.take_silent(now, |_| Some(7))
            };
            for _ in 1..spells {
                assert_eq!(silent(), [0; 0]);
            }
            assert_eq!(silent(), [3]);
        }
    }
}
