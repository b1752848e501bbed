//! Who fences: whether the owner of a bell has the kernel fence those who ring it, or they fence themselves. Each owner
//! decides for its own bell, by what it does.
//!
//! Before a sleep at a bell whose ringers fence lightly the kernel has to fence them, which takes 4 to 10 µs in a crowd; where
//! they fence themselves, each message takes longer instead, by some tens of ns. So it is the packets between two sleeps that decide.
//! Members that have a core each sleep seldom, and on a core that has nothing else to do: there the kernel always fences.

/// Packets between two sleeps that pay for a fence by the kernel.
const WORTH_A_FENCE: u32 = 256;

/// So many sleeps in a row with fewer packets before them have ringers fence.
const HASTY: u32 = 2;

/// Who fences those who ring a bell, and what its owner has done. See the [module page](self).
#[derive(Debug, Default)]
pub(crate) struct WhoFences {
    /// They do themselves.
    ringers: bool,
    /// Packets since the last sleep.
    taken: u32,
    /// Sleeps in a row, before each of which fewer packets came than are worth a fence.
    hasty: u32,
}

/// Change of who fences.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    None,
    /// From now on ringers do.
    ToRingers,
    /// From now on the kernel does.
    ToKernel,
}

impl WhoFences {
    /// The owner is about to sleep, as one of a `crowd` or not.
    pub fn sleeps(&mut self, crowd: bool) -> Change {
        let was_hasty = std::mem::take(&mut self.taken) < WORTH_A_FENCE;
        self.hasty = if was_hasty && crowd {
            self.hasty.saturating_add(1)
        } else {
            0
        };
        if crowd && !self.ringers && self.hasty >= HASTY {
            self.ringers = true;
            return Change::ToRingers;
        }
        if crowd {
            Change::None
        } else {
            self.give_back()
        }
    }

    /// So many packets were taken.
    pub fn took(&mut self, packets: u32) -> Change {
        self.taken = self.taken.saturating_add(packets);
        if self.taken < WORTH_A_FENCE {
            return Change::None;
        }
        self.hasty = 0;
        self.give_back()
    }

    fn give_back(&mut self) -> Change {
        if std::mem::take(&mut self.ringers) {
            Change::ToKernel
        } else {
            Change::None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ringers_fence_while_a_member_of_a_crowd_sleeps_often() {
        let mut who = WhoFences::default();
        assert_eq!(who.sleeps(true), Change::None, "once is not often");
        assert_eq!(who.sleeps(true), Change::ToRingers);
        for _ in 0..10 {
            assert_eq!(who.took(WORTH_A_FENCE / 2), Change::None);
            assert_eq!(who.sleeps(true), Change::None);
        }
        assert_eq!(who.took(WORTH_A_FENCE / 2), Change::None);
        assert_eq!(who.took(WORTH_A_FENCE / 2), Change::ToKernel);
        assert_eq!(who.took(WORTH_A_FENCE), Change::None);
        // It has to be seen anew that it does.
        assert_eq!(who.sleeps(true), Change::None);
        assert_eq!(who.sleeps(true), Change::None);
        assert_eq!(who.sleeps(true), Change::ToRingers);
    }

    #[test]
    fn a_member_that_takes_much_between_its_sleeps_has_the_kernel_fence() {
        let mut who = WhoFences::default();
        for _ in 0..10 {
            assert_eq!(who.took(WORTH_A_FENCE), Change::None);
            assert_eq!(who.sleeps(true), Change::None);
            assert_eq!(who.sleeps(true), Change::None, "once is not often");
        }
    }

    #[test]
    fn where_there_is_a_core_for_each_the_kernel_always_fences() {
        let mut who = WhoFences::default();
        for _ in 0..10 {
            assert_eq!(who.sleeps(false), Change::None);
        }
        assert_eq!(who.sleeps(true), Change::None);
        assert_eq!(who.sleeps(true), Change::ToRingers);
        assert_eq!(who.sleeps(false), Change::ToKernel);
        assert_eq!(who.sleeps(true), Change::None);
    }
}
