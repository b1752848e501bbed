//! Orphans: connections to members whose process has ended according to the directory, but which do not end, because a
//! child that the process forked holds its sockets open.
//!
//! ```text
//!   connected, and the directory knows of the loss ─► a quiet spell: nothing was handed out ─► … SPELLS in a row ─► given up
//!                                                     else: from the first one again
//! ```
//!
//! What the dead process handed over is in this host's kernel, since the directory reports only processes of this host, and each
//! look reads as much as there is room for. A spell ends only with a look, so a rank that does not look does not mistake its own
//! pause for silence.

/// How long a spell is, in nanoseconds.
const SPELL: u64 = 250_000_000;
/// After this many quiet spells in a row nothing comes any more.
const SPELLS: u32 = 4;

/// One orphan.
#[derive(Debug)]
struct Orphan {
    peer: u32,
    /// When the present spell ends.
    until: u64,
    /// Quiet spells before it.
    quiet: u32,
    /// How many frames had been handed out when it began.
    received: u64,
}

/// All orphans of one rank. See the [module page](self).
#[derive(Debug, Default)]
pub struct Orphans(Vec<Orphan>);

impl Orphans {
    /// Adds a connected member whose process has ended. `received`: how many of its frames were handed out.
    pub fn add(&mut self, peer: u32, now: u64, received: u64) {
        if !self.0.iter().any(|orphan| orphan.peer == peer) {
            self.0.push(Orphan {
                peer,
                until: now + SPELL,
                quiet: 0,
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
            if orphan.quiet < SPELLS {
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
        orphans.add(3, 0, 7);
        orphans.add(3, 9, 9);
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
        orphans.add(4, now, 0);
        assert_eq!(
            orphans.take_silent(now + SPELL, |_| None),
            [0; 0],
            "it has ended"
        );
        assert_eq!(orphans.due(), None);
    }
}
