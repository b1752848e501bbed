//! Estimate of the calls that were left out: frequent ones are recorded in slices of time, and only counted between them.
//!
//! ```text
//!   slice k: n calls recorded, s of them at this place │ L calls counted, places unknown │ slice k + 1 …
//!                                                        s/n · L of them were at this place
//! ```
//!
//! The count of a call is always exact. Its place in the program, its bytes and its duration are taken from the calls of
//! the slice before. The error is that of a systematic sample, by successive differences (Cochran, *Sampling Techniques*,
//! section 8.11): half of the mean squared difference between a slice and the next one is the variance of each. A call
//! that is made at only one place has no error in its count.

use super::layout::{call, site};

/// Counts of a place at the end of a slice, since it began.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Slice {
    /// Calls that were left out since then.
    pub left_out: u64,
    /// Calls that were recorded in it, at all places.
    pub recorded: u64,
    /// … of which at this place.
    pub count: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Calls that were timed.
    pub timed: u64,
    /// Ticks of these, without waits.
    pub own: u64,
    /// Ticks that all of these waited, without long sleeps.
    pub waited: u64,
}

impl Slice {
    /// By the words of the place, and the row of its call.
    #[must_use]
    pub fn of(words: &[u64], row: &[u64]) -> Self {
        let now = now(words);
        let since = |word: usize| now[word].saturating_sub(words[site::BEFORE + word]);
        Self {
            left_out: row[call::LEFT_OUT].saturating_sub(row[call::LEFT_OUT_BEFORE]),
            recorded: row[call::RECORDED],
            count: since(0),
            bytes: since(1),
            timed: since(2),
            own: since(3),
            waited: since(4),
        }
    }
}

/// The words of a place that [`site::BEFORE`] keeps of the beginning of a slice.
#[must_use]
pub fn now(words: &[u64]) -> [u64; 5] {
    let waited = words[site::WAITED].saturating_add(words[site::WAITED_UNTIMED]);
    [
        words[site::COUNT],
        words[site::BYTES],
        words[site::TIMED],
        words[site::TICKS].saturating_sub(words[site::WAITED]),
        waited.saturating_sub(words[site::SLEPT]),
    ]
}

/// Estimates for the calls at a place that were left out.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Estimate {
    /// Calls.
    pub count: f64,
    /// Bytes.
    pub bytes: f64,
    /// Ticks, including waits, without long sleeps.
    pub ticks: f64,
    /// Ticks waited, without long sleeps.
    pub waited: f64,
    /// Square of the standard error of the count.
    pub count_variance: f64,
    /// … of the ticks.
    pub ticks_variance: f64,
    /// Part of the calls that were at this place in the last slice; less than nothing if there was none.
    share: f64,
    /// Ticks at this place, for each call at any, in the last slice.
    cost: f64,
}

impl Estimate {
    /// Before the first slice.
    pub const NONE: Self = Self {
        count: 0.0,
        bytes: 0.0,
        ticks: 0.0,
        waited: 0.0,
        count_variance: 0.0,
        ticks_variance: 0.0,
        share: -1.0,
        cost: 0.0,
    };
    /// Words that it takes.
    pub const WORDS: usize = 8;

    /// As words.
    #[must_use]
    pub fn to_words(self) -> [u64; Self::WORDS] {
        let all = [
            self.count,
            self.bytes,
            self.ticks,
            self.waited,
            self.count_variance,
            self.ticks_variance,
            self.share + 1.0,
            self.cost,
        ];
        all.map(f64::to_bits)
    }

    /// From words; all zero is [`Self::NONE`].
    #[must_use]
    pub fn from_words(words: [u64; Self::WORDS]) -> Self {
        // The writer is not trusted: a value that is no number counts as 0.
        let [
            count,
            bytes,
            ticks,
            waited,
            count_variance,
            ticks_variance,
            share,
            cost,
        ] = words.map(f64::from_bits).map(|value| match value {
            sane if sane.is_finite() && sane >= 0.0 => sane,
            _ => 0.0,
        });
        Self {
            count,
            bytes,
            ticks,
            waited,
            count_variance,
            ticks_variance,
            share: share - 1.0,
            cost,
        }
    }

    /// Adds what was left out after a slice. `usual`: ticks of a call at this place without waits, for a slice in which none was timed.
    #[must_use]
    pub fn after(mut self, slice: &Slice, usual: f64) -> Self {
        if slice.recorded == 0 || slice.left_out == 0 {
            return self;
        }
        let (left_out, recorded) = (slice.left_out as f64, slice.recorded as f64);
        let share = (slice.count as f64 / recorded).min(1.0);
        let own = match slice.timed {
            0 => usual,
            timed => slice.own as f64 / timed as f64,
        };
        let waited = slice.waited as f64 / recorded;
        let cost = share * own + waited;
        self.count += share * left_out;
        self.bytes += slice.bytes as f64 / recorded * left_out;
        self.ticks += cost * left_out;
        self.waited += waited * left_out;
        if self.share >= 0.0 {
            let scale = left_out * left_out / 2.0;
            self.count_variance += (share - self.share).powi(2) * scale;
            self.ticks_variance += (cost - self.cost).powi(2) * scale;
        }
        (self.share, self.cost) = (share, cost);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(left_out: u64, recorded: u64, count: u64) -> Slice {
        Slice {
            left_out,
            recorded,
            count,
            bytes: 8 * count,
            timed: count / 2,
            own: 100 * (count / 2),
            waited: 10 * count,
        }
    }

    #[test]
    fn a_call_at_one_place_has_no_error() {
        let found = (0..20).fold(Estimate::NONE, |found, _| {
            found.after(&slice(1_000_003, 64, 64), 0.0)
        });
        assert_eq!(found.count as u64, 20 * 1_000_003);
        assert_eq!(found.bytes as u64, 8 * 20 * 1_000_003);
        assert_eq!(found.ticks as u64, 110 * 20 * 1_000_003);
        assert_eq!((found.count_variance, found.ticks_variance), (0.0, 0.0));
        assert_eq!(Estimate::from_words(found.to_words()), found);
        assert_eq!(Estimate::from_words([0; 8]), Estimate::NONE);
    }

    #[test]
    fn the_truth_is_within_the_error_that_is_said() {
        // Two places share a call at random, one of them with probability 0.3 that drifts: many such jobs.
        let mut state = 7_u64;
        let mut random = || {
            state = state
                .wrapping_mul(0x5851_f42d_4c95_7f2d)
                .wrapping_add(0x1405_7b7e_f767_814f);
            (state >> 33) as f64 / f64::from(1_u32 << 31)
        };
        let (mut within, jobs) = (0, 300);
        for _ in 0..jobs {
            let (mut truth, mut found) = (0.0, Estimate::NONE);
            for period in 0..40 {
                let chance = 0.3 + 0.1 * (f64::from(period) / 7.0).sin();
                let count = (0..200).filter(|_| random() < chance).count() as u64;
                let left_out = 5_000 + (random() * 1_000.0) as u64;
                truth += (0..left_out).filter(|_| random() < chance).count() as f64;
                found = found.after(&slice(left_out, 200, count), 0.0);
            }
            within += u32::from((found.count - truth).abs() < 2.0 * found.count_variance.sqrt());
        }
        // Of a normal distribution 95 % are within twice the standard error.
        assert!(within > jobs * 85 / 100, "{within} of {jobs}");
    }

    #[test]
    fn nothing_that_was_written_is_believed() {
        for words in [
            [u64::MAX; 8],
            [f64::INFINITY.to_bits(); 8],
            [(-1.0_f64).to_bits(); 8],
        ] {
            assert_eq!(Estimate::from_words(words), Estimate::NONE);
        }
    }
}
