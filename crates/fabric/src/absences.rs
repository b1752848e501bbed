//! Absences: the worlds of which a member will not meet the others at the end.
//!
//! A *world* is the set of processes that are started together; its number is never reused. One bit stands for all worlds
//! whose numbers differ by a multiple of [`BITS`](Absences::BITS), so that the set is one word in memory that a host
//! shares: a job that starts more worlds may take the absence of one for that of another, which only costs the meeting.

/// Worlds of which a member is absent.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Absences(u64);

impl Absences {
    /// Number of worlds that are told apart.
    pub const BITS: u32 = u64::BITS;

    /// Of this world alone.
    #[must_use]
    pub fn of(world: u32) -> Self {
        Self(1 << (world % Self::BITS))
    }

    /// As a word.
    #[must_use]
    pub fn to_word(self) -> u64 {
        self.0
    }

    /// From a [word](Self::to_word). Any value is valid.
    #[must_use]
    pub fn from_word(word: u64) -> Self {
        Self(word)
    }

    /// The union of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether a member of this world is absent.
    #[must_use]
    pub fn include(self, world: u32) -> bool {
        self.0 & Self::of(world).0 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::Absences;

    #[test]
    fn worlds_are_told_apart_unless_they_share_a_bit() {
        let none = Absences::default();
        assert!((0..200).all(|world| !none.include(world)));
        for world in [0, 1, 63, 64, u32::MAX] {
            let one = Absences::from_word(Absences::of(world).to_word());
            assert!(one.include(world) && !one.include(world ^ 1));
            assert!(one.include(world.wrapping_add(Absences::BITS)));
            let both = one.and(Absences::of(7));
            assert!(both.include(world) && both.include(7) && !both.include(8));
        }
    }
}
