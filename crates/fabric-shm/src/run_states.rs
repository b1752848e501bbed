//! Run states: two bits for each process slot, whether it has a process and whether that sleeps. The number of awake
//! processes is counted from them.
//!
//! ```text
//!   group of 64 slots   present   0 1 1 1 0 …    set by who joins; cleared by who leaves, and for the dead
//!                       asleep    0 0 1 0 0 …    set by who falls asleep; cleared by who wakes it, or itself
//!                       awake  =  present and not asleep
//! ```
//!
//! Each change is one atomic operation, so a process that is killed leaves nothing half done behind: a number that is
//! kept beside the flags would be wrong for ever. A bit of `asleep` means nothing while that of `present` is not set: a
//! ringer may wake a slot whose process has ended without its knowledge.
//!
//! The number is a hint: only the time to sleep depends on it. Hence no ordering beyond that of each word.

use weft_atomic::{AtomicU64, Ordering};

/// Process slots of a group: the bits of a word.
const GROUP: usize = 64;

/// Groups that hold so many process slots.
pub(crate) const fn groups_for(slots: u32) -> usize {
    (slots as usize).div_ceil(GROUP)
}

/// Run states of up to 64 process slots.
#[derive(Debug)]
#[repr(C)]
struct Group {
    present: AtomicU64,
    asleep: AtomicU64,
}

/// Run states of all process slots. All zeros: nobody is here.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct RunStates<const GROUPS: usize> {
    groups: [Group; GROUPS],
}

impl<const GROUPS: usize> RunStates<GROUPS> {
    fn at(&self, slot: u32) -> (&Group, u64) {
        let slot = slot as usize;
        (&self.groups[slot / GROUP], 1 << (slot % GROUP))
    }

    /// The process of this process slot is here, and awake.
    pub fn join(&self, slot: u32) {
        let (group, bit) = self.at(slot);
        group.present.fetch_or(bit, Ordering::AcqRel);
    }

    /// The process of this process slot has left, or died.
    pub fn leave(&self, slot: u32) {
        let (group, bit) = self.at(slot);
        group.present.fetch_and(!bit, Ordering::AcqRel);
    }

    /// The process of this slot falls asleep.
    pub fn fall_asleep(&self, slot: u32) {
        let (group, bit) = self.at(slot);
        group.asleep.fetch_or(bit, Ordering::AcqRel);
    }

    /// The process of this slot is awake, or as good as: it was rung.
    pub fn wake(&self, slot: u32) {
        let (group, bit) = self.at(slot);
        // Most who wake were counted by their ringer already.
        if group.asleep.load(Ordering::Relaxed) & bit != 0 {
            group.asleep.fetch_and(!bit, Ordering::AcqRel);
        }
    }

    /// Whether this process slot sleeps.
    pub fn sleeps(&self, slot: u32) -> bool {
        let (group, bit) = self.at(slot);
        group.asleep.load(Ordering::Relaxed) & bit != 0
    }

    /// Whether a process is in this process slot.
    pub fn is_present(&self, slot: u32) -> bool {
        let (group, bit) = self.at(slot);
        group.present.load(Ordering::Relaxed) & bit != 0
    }

    /// How many of the first `slots` are here, awake or not.
    pub fn present(&self, slots: u32) -> u32 {
        let groups = self.groups.iter().take(groups_for(slots));
        let present = |group: &Group| group.present.load(Ordering::Relaxed).count_ones();
        groups.map(present).sum()
    }

    /// Those of the first `slots` who are awake.
    pub fn each_awake(&self, slots: u32) -> impl Iterator<Item = u32> {
        let groups = self.groups.iter().take(groups_for(slots)).zip(0u32..);
        groups.flat_map(|(group, index)| {
            let present = group.present.load(Ordering::Relaxed);
            let mut left = present & !group.asleep.load(Ordering::Relaxed);
            std::iter::from_fn(move || {
                let bit = left.trailing_zeros();
                left &= left.wrapping_sub(1);
                (bit < 64).then_some(index * 64 + bit)
            })
        })
    }

    /// How many of the first `slots` are awake.
    #[inline]
    pub fn awake(&self, slots: u32) -> u32 {
        let awake = |group: &Group| {
            let present = group.present.load(Ordering::Relaxed);
            (present & !group.asleep.load(Ordering::Relaxed)).count_ones()
        };
        let groups = self.groups.iter().take(groups_for(slots));
        groups.map(awake).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: u32 = 4096;

    #[test]
    fn a_present_member_that_does_not_sleep_is_awake() {
        // SAFETY: all zeros are a valid value: atomics only.
        let states: Box<RunStates<{ groups_for(MAX) }>> =
            unsafe { Box::new_zeroed().assume_init() };
        for slot in [0, 63, 64, MAX - 1] {
            states.join(slot);
        }
        assert_eq!((states.awake(MAX), states.awake(64)), (4, 2));
        states.fall_asleep(63);
        states.fall_asleep(63);
        assert!(states.sleeps(63) && !states.sleeps(64));
        assert_eq!(states.awake(MAX), 3);
        states.leave(64);
        // Rung by somebody who does not know that it has left.
        states.wake(64);
        states.wake(63);
        assert_eq!((states.awake(MAX), states.awake(64)), (3, 2));
        assert_eq!((states.present(MAX), states.present(64)), (3, 2));
        assert!(states.each_awake(MAX).eq([0, 63, MAX - 1]));
        assert!(states.each_awake(64).eq([0, 63]));
    }
}
