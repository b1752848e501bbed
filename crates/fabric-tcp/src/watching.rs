//! Watching: whether the connections of an endpoint are in the set of descriptors that a sleeper waits for.
//!
//! While ranks spin and connections are few, each look reads them directly, and membership in the set only costs: for each
//! arrival the kernel walks the set, on the sender's core, before its `send` returns. So the connections are taken out after
//! some looks that have found something, and entered again when somebody announces a sleep.
//!
//! *Invariant:* they are not taken out while somebody is asleep, or about to be and has looked: a sleeper announces its sleep
//! before a look ([`Poller::has_sleepers`](crate::network::Poller::has_sleepers)), which enters them.

/// After this many looks that find something, with nobody about to sleep, the connections are taken out: entering them again
/// costs about as much as a few messages gain.
const LOOKS: u32 = if cfg!(test) { 4 } else { 256 };

/// See the module.
#[derive(Debug)]
pub struct Watching {
    is_on: bool,
    /// Sleepers always announce it before a look; otherwise they are never taken out.
    is_announced: bool,
    /// Looks that found something since somebody slept.
    looks: u32,
}

impl Watching {
    /// The connections are in the set. `is_announced`: sleepers announce it before a look.
    pub fn new(is_announced: bool) -> Self {
        Self {
            is_on: true,
            is_announced,
            looks: 0,
        }
    }

    /// Whether the connections are in the set.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// Notes that they were entered, or taken out.
    pub fn set(&mut self, is_on: bool) {
        self.is_on = is_on;
        self.looks = 0;
    }

    /// A look has found something; `sleepers`: somebody is asleep, or about to be. True: they are to be taken out.
    #[inline]
    #[must_use]
    pub fn note_found(&mut self, sleepers: bool) -> bool {
        if !self.is_on || !self.is_announced {
            return false;
        }
        self.looks = if sleepers { 0 } else { self.looks + 1 };
        self.looks >= LOOKS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many looks that find something it takes, trying twice as many as it should.
    fn looks(watching: &mut Watching) -> Option<u32> {
        (1..=2 * LOOKS).find(|_| watching.note_found(false))
    }

    #[test]
    fn nobody_who_is_asleep_is_made_deaf() {
        let mut watching = Watching::new(true);
        assert_eq!(looks(&mut watching), Some(LOOKS));
        watching.set(false);
        assert_eq!(looks(&mut watching), None, "out already");
        watching.set(true);
        assert!((0..2 * LOOKS).all(|_| !watching.note_found(true)));
        assert_eq!(looks(&mut watching), Some(LOOKS));
    }

    #[test]
    fn whose_sleepers_say_nothing_stays_in_the_set() {
        assert_eq!(looks(&mut Watching::new(false)), None);
    }
}
