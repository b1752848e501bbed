//! Run states of all seats: who is here, and who of them sleeps. Two bits for each seat, from which the number of those who are
//! awake is counted.
//!
//! ```text
//!   group of 64 seats   present   0 1 1 1 0 …    set by who joins; cleared by who leaves, and for the dead
//!                       asleep    0 0 1 0 0 …    set by who falls asleep; cleared by who wakes it, or itself
//!                       awake  =  present and not asleep
//! ```
//!
//! Each change is one atomic operation, so whoever is killed leaves nothing half done behind: a number
//! that is kept beside the flags would be wrong for ever. A bit of `asleep` means nothing while the one of
//! `present` is not set: a ringer may wake a seat whose process has ended, for all it knows.
//!
//! The number is advice: nothing but the time to sleep depends on it. Hence no ordering beyond that of
//! each word.

use weft_atomic::{AtomicU64, Ordering};

use crate::layout::MAX_RANKS;

/// Seats of a group: the bits of a word.
const GROUP: usize = 64;

/// Up to 64 seats.
#[derive(Debug)]
#[repr(C)]
struct Group {
    present: AtomicU64,
    asleep: AtomicU64,
}

/// Run states of all seats. All zeros: nobody is here.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct RunStates {
    groups: [Group; MAX_RANKS as usize / GROUP],
}

impl RunStates {
    fn at(&self, seat: u32) -> (&Group, u64) {
        let seat = seat as usize;
        (&self.groups[seat / GROUP], 1 << (seat % GROUP))
    }

    /// The process of this seat is here, and awake.
    pub fn join(&self, seat: u32) {
        let (group, bit) = self.at(seat);
        group.present.fetch_or(bit, Ordering::AcqRel);
    }

    /// The process of this seat has left, or died.
    pub fn leave(&self, seat: u32) {
        let (group, bit) = self.at(seat);
        group.present.fetch_and(!bit, Ordering::AcqRel);
    }

    /// This seat falls asleep.
    pub fn fall_asleep(&self, seat: u32) {
        let (group, bit) = self.at(seat);
        group.asleep.fetch_or(bit, Ordering::AcqRel);
    }

    /// This seat is awake, or as good as: it was rung.
    pub fn wake(&self, seat: u32) {
        let (group, bit) = self.at(seat);
        // Most who wake were counted by their ringer already.
        if group.asleep.load(Ordering::Relaxed) & bit != 0 {
            group.asleep.fetch_and(!bit, Ordering::AcqRel);
        }
    }

    /// Whether this seat sleeps.
    pub fn sleeps(&self, seat: u32) -> bool {
        let (group, bit) = self.at(seat);
        group.asleep.load(Ordering::Relaxed) & bit != 0
    }

    /// How many of the first `seats` are awake.
    #[inline]
    pub fn awake(&self, seats: u32) -> u32 {
        let awake = |group: &Group| {
            let present = group.present.load(Ordering::Relaxed);
            (present & !group.asleep.load(Ordering::Relaxed)).count_ones()
        };
        let groups = self.groups.iter().take((seats as usize).div_ceil(GROUP));
        groups.map(awake).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_here_and_does_not_sleep_is_awake() {
        // SAFETY: all zeros are a valid value: atomics only.
        let states: Box<RunStates> = unsafe { Box::new_zeroed().assume_init() };
        for seat in [0, 63, 64, MAX_RANKS - 1] {
            states.join(seat);
        }
        assert_eq!((states.awake(MAX_RANKS), states.awake(64)), (4, 2));
        states.fall_asleep(63);
        states.fall_asleep(63);
        assert!(states.sleeps(63) && !states.sleeps(64));
        assert_eq!(states.awake(MAX_RANKS), 3);
        states.leave(64);
        // Rung by somebody who does not know that it has left.
        states.wake(64);
        states.wake(63);
        assert_eq!((states.awake(MAX_RANKS), states.awake(64)), (3, 2));
    }
}
