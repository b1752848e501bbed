//! Random numbers: unpredictable bytes for keys and nonces, and draws that a seed decides.

use std::io;

use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::error::Purpose;

/// Fills `bytes` from the kernel's generator.
///
/// # Errors
/// If the kernel refuses (a filter).
pub fn fill(bytes: &mut [u8]) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        let rest = &mut bytes[done..];
        let wanted = rest.len();
        match getrandom(rest, GetRandomFlags::empty()) {
            Ok(count) => done += count,
            Err(Errno::INTR) => {}
            refused => _ = refused.to("getrandom", || format!("get {wanted} random bytes"))?,
        }
    }
    Ok(())
}

/// `N` unpredictable bytes.
///
/// # Errors
/// As [`fill`].
pub fn bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    fill(&mut bytes)?;
    Ok(bytes)
}

/// Random draws decided by a seed, for simulations, trials and tests: SplitMix64 (Steele, Lea, Flood: "Fast
/// splittable pseudorandom number generators", OOPSLA 2014). The same seed gives the same draws, on every
/// machine and in every version.
#[derive(Clone, Debug)]
pub struct SeededRandom {
    state: u64,
}

impl SeededRandom {
    /// Begins the draws of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next number: all 64 bits are equally good.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// One of `0..=most`, all equally likely.
    #[inline]
    pub fn up_to(&mut self, most: u64) -> u64 {
        // The upper half of a product: fair to within most / 2⁶⁴.
        ((u128::from(self.next_u64()) * (u128::from(most) + 1)) >> 64) as u64
    }

    /// True in `permille` of a thousand cases. Draws nothing for never.
    pub fn happens(&mut self, permille: u32) -> bool {
        permille > 0 && self.up_to(999) < u64::from(permille)
    }

    /// Fills these bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for piece in bytes.chunks_mut(8) {
            let drawn = self.next_u64().to_le_bytes();
            piece.copy_from_slice(&drawn[..piece.len()]);
        }
    }

    /// Shuffles these; all orders are equally likely (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.up_to(last as u64) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_secrets_differ() {
        let secret = || bytes::<32>().expect("the kernel has a generator");
        assert_ne!(secret(), secret());
    }

    #[test]
    fn draws_stay_in_range_and_reach_both_ends() {
        let mut random = SeededRandom::new(1);
        let drawn: Vec<u64> = (0..1000).map(|_| random.up_to(9)).collect();
        assert_eq!(drawn.iter().max(), Some(&9));
        assert_eq!(drawn.iter().min(), Some(&0));
        assert_eq!(SeededRandom::new(1).up_to(0), 0);
    }

    #[test]
    fn chances_come_true_about_as_often_as_said() {
        let mut random = SeededRandom::new(7);
        let times = (0..10_000).filter(|_| random.happens(250)).count();
        assert!((2_200..2_800).contains(&times), "{times}");
        assert!(!random.happens(0));
        assert!(random.happens(1000));
    }

    #[test]
    fn the_numbers_are_those_of_the_paper() {
        // The first of seed 0, as its reference implementation gives them.
        let mut random = SeededRandom::new(0);
        assert_eq!(random.next_u64(), 0xE220_A839_7B1D_CDAF);
        assert_eq!(random.next_u64(), 0x6E78_9E6A_A1B9_65F4);
    }

    #[test]
    fn a_shuffle_loses_nothing() {
        let mut items: Vec<u32> = (0..100).collect();
        SeededRandom::new(5).shuffle(&mut items);
        assert!(items.windows(2).any(|pair| pair[0] > pair[1]));
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }
}
