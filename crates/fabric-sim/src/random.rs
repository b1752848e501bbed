//! Random draws: all that the seed decides.

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014):
/// small, and good for draws.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// One of `0..=most`, all equally likely.
    pub(crate) fn up_to(&mut self, most: u64) -> u64 {
        // The upper half of a product: fair to within most / 2⁶⁴.
        ((u128::from(self.next()) * (u128::from(most) + 1)) >> 64) as u64
    }

    /// True in `permille` of a thousand cases. Draws nothing for never.
    pub(crate) fn happens(&mut self, permille: u32) -> bool {
        permille > 0 && self.up_to(999) < u64::from(permille)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_stay_in_range_and_reach_both_ends() {
        let mut random = Random::new(1);
        let drawn: Vec<u64> = (0..1000).map(|_| random.up_to(9)).collect();
        assert_eq!(drawn.iter().max(), Some(&9));
        assert_eq!(drawn.iter().min(), Some(&0));
        assert_eq!(Random::new(1).up_to(0), 0);
    }

    #[test]
    fn chances_come_true_about_as_often_as_said() {
        let mut random = Random::new(7);
        let times = (0..10_000).filter(|_| random.happens(250)).count();
        assert!((2_200..2_800).contains(&times), "{times}");
        assert!(!random.happens(0));
        assert!(random.happens(1000));
    }
}
