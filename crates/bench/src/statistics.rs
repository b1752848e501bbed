//! Statistics of a set of samples: mean, median, quartiles, extremes, standard error, and the
//! interval in which the median lies with 95 % confidence.
//!
//! The interval makes no assumption about the distribution: it is bounded by two order statistics whose ranks
//! follow from the binomial distribution with p = 1/2 (the number of samples below the true median). With
//! fewer than six samples no pair of order statistics reaches 95 %; then the extremes are given, and
//! [`Statistics::confidence`] is their confidence.
//!
//! Samples of one launch have its placement in memory in common, so they are not independent of each other, and launches
//! may differ by more than samples of one do. The interval of several launches is the hull of two: that of all samples, and
//! that of the median of each launch, by the same rule. If the second widens the first, its confidence counts: with
//! fewer than six launches it is less than 95 %, however many samples there are. The standard error, likewise, is the
//! larger one of that of the samples and that of the means of the launches.

use serde::{Deserialize, Serialize};
use statrs::distribution::{Binomial, DiscreteCDF};

/// Figures that describe one set of samples. The names of the fields are those in `results.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Statistics {
    /// Number of samples.
    pub n: usize,
    /// Arithmetic mean.
    pub mean: f64,
    /// Middle sample, or mean of the two middle samples.
    pub median: f64,
    /// Smallest sample.
    pub min: f64,
    /// Largest sample.
    pub max: f64,
    /// First quartile, interpolated linearly between samples.
    pub q1: f64,
    /// Third quartile, interpolated linearly between samples.
    pub q3: f64,
    /// Standard error of the mean; 0 with one sample. With several launches at least that of their means.
    pub stderr: f64,
    /// Lower end of the interval of the median.
    pub median_low: f64,
    /// Upper end of the interval of the median.
    pub median_high: f64,
    /// Confidence that the interval really has; at least 0.95 from six samples on, and from six launches on if launches differ.
    pub confidence: f64,
}

impl Statistics {
    /// Describes the samples of one launch; `None` when there are none or one of them is not a finite number.
    pub fn of(samples: &[f64]) -> Option<Statistics> {
        if samples.is_empty() || samples.iter().any(|sample| !sample.is_finite()) {
            return None;
        }
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        let (mean, stderr) = mean_and_error(&sorted);
        let (low, high, confidence) = median_ranks(n);
        Some(Statistics {
            n,
            mean,
            median: quantile(&sorted, 0.5),
            min: sorted[0],
            max: sorted[n - 1],
            q1: quantile(&sorted, 0.25),
            q3: quantile(&sorted, 0.75),
            stderr,
            median_low: sorted[low],
            median_high: sorted[high],
            confidence,
        })
    }

    /// Describes the samples of several launches, one after the other, of which `sizes` says how many each has; samples
    /// beyond these are of one more launch. `None` as of [`Statistics::of`].
    pub fn of_launches(samples: &[f64], sizes: &[usize]) -> Option<Statistics> {
        let all = Statistics::of(samples)?;
        let mut rest = samples;
        let mut launches = Vec::new();
        for &size in sizes {
            let (launch, later) = rest.split_at_checked(size).unwrap_or((rest, &[]));
            launches.extend(Statistics::of(launch));
            rest = later;
        }
        launches.extend(Statistics::of(rest));
        if launches.len() < 2 {
            return Some(all);
        }
        let medians: Vec<f64> = launches.iter().map(|launch| launch.median).collect();
        let means: Vec<f64> = launches.iter().map(|launch| launch.mean).collect();
        let between = Statistics::of(&medians)?;
        let widens = between.median_low < all.median_low || between.median_high > all.median_high;
        Some(Statistics {
            stderr: all.stderr.max(mean_and_error(&means).1),
            median_low: all.median_low.min(between.median_low),
            median_high: all.median_high.max(between.median_high),
            confidence: if widens {
                all.confidence.min(between.confidence)
            } else {
                all.confidence
            },
            ..all
        })
    }

    /// Standard error as a part of the mean; infinite while it is unknown (one sample).
    pub fn relative_error(&self) -> f64 {
        if self.n < 2 {
            f64::INFINITY
        } else if self.stderr == 0.0 {
            0.0
        } else {
            self.stderr / self.mean.abs()
        }
    }
}

/// Mean of the values, and its standard error: 0 for a single value.
fn mean_and_error(values: &[f64]) -> (f64, f64) {
    let n = values.len();
    let mean = values.iter().sum::<f64>() / n as f64;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let stderr = if n > 1 {
        (squares / (n - 1) as f64 / n as f64).sqrt()
    } else {
        0.0
    };
    (mean, stderr)
}

/// The value below which `part` of the sorted samples lie, interpolated linearly.
fn quantile(sorted: &[f64], part: f64) -> f64 {
    let place = part * (sorted.len() - 1) as f64;
    let below = place.floor() as usize;
    let above = place.ceil() as usize;
    sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64)
}

/// Indices (from 0) of the two samples that bound the median's interval, and its true confidence.
///
/// The interval [x(l), x(n-1-l)] covers the median unless at most l samples lie on one side of it:
/// confidence = 1 - 2 P(B <= l), B binomial(n, 1/2). The largest such l with at least 95 % is taken.
fn median_ranks(n: usize) -> (usize, usize, f64) {
    let last = n - 1;
    let Ok(below) = Binomial::new(0.5, n as u64) else {
        return (0, last, 0.0);
    };
    let outside = |rank: usize| 2.0 * below.cdf(rank as u64);
    let mut low = 0;
    // The quantile is a first guess; the loop corrects an error of one by rounding.
    if n > 50 {
        low = (below.inverse_cdf(0.025) as usize).saturating_sub(2);
    }
    while low < last / 2 && outside(low + 1) <= 0.05 {
        low += 1;
    }
    (low, last - low, (1.0 - outside(low)).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        let found = Statistics::of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).expect("samples");
        assert_eq!((found.n, found.mean, found.median), (8, 5.0, 4.5));
        assert_eq!(
            (found.min, found.max, found.q1, found.q3),
            (2.0, 9.0, 4.0, 5.5)
        );
        // Sum of squares 32, sample variance 32/7, standard error sqrt(32/7/8).
        assert!((found.stderr - (32.0_f64 / 7.0 / 8.0).sqrt()).abs() < 1e-12);
    }

    #[test]
    fn interval_of_the_median_has_the_published_ranks() {
        // Ranks (from 1) of the usual table for 95 %: n = 6: 1..6, 10: 2..9, 20: 6..15, 50: 18..33,
        // 100: 40..61.
        for (n, low, high) in [
            (6, 1, 6),
            (10, 2, 9),
            (20, 6, 15),
            (50, 18, 33),
            (100, 40, 61),
        ] {
            let (found_low, found_high, confidence) = median_ranks(n);
            assert_eq!((found_low + 1, found_high + 1), (low, high), "n = {n}");
            assert!(confidence >= 0.95, "n = {n}: {confidence}");
        }
    }

    #[test]
    fn few_samples_do_not_claim_confidence() {
        for n in 1..6 {
            let (low, high, confidence) = median_ranks(n);
            assert_eq!((low, high), (0, n - 1));
            assert!(confidence < 0.95, "n = {n}: {confidence}");
        }
        let one = Statistics::of(&[3.0]).expect("one sample");
        assert_eq!(
            (one.median, one.stderr, one.median_low, one.median_high),
            (3.0, 0.0, 3.0, 3.0)
        );
        assert!(one.relative_error().is_infinite());
    }

    /// Twenty samples from `least` on, 0.01 apart.
    fn launch(least: f64) -> Vec<f64> {
        (0..20).map(|step| least + 0.01 * f64::from(step)).collect()
    }

    #[test]
    fn launches_that_differ_widen_the_interval_to_their_medians() {
        let samples = [launch(1.0), launch(2.0), launch(3.0)].concat();
        let pooled = Statistics::of(&samples).expect("samples");
        let found = Statistics::of_launches(&samples, &[20, 20, 20]).expect("samples");
        // The order statistics of 60 samples lie in the second launch: 22nd and 39th.
        assert!(pooled.median_low >= 2.0 && pooled.median_high < 2.2);
        assert!(pooled.confidence >= 0.95);
        let ends = (found.median_low, found.median_high);
        assert!(
            (ends.0 - 1.095).abs() < 1e-9 && (ends.1 - 3.095).abs() < 1e-9,
            "{ends:?}"
        );
        // All of three medians on one side of the true one: 2 / 2^3.
        assert!((found.confidence - 0.75).abs() < 1e-9, "{found:?}");
        // The means are 1 apart: sample variance 1, standard error sqrt(1/3).
        assert!(
            (found.stderr - (1.0_f64 / 3.0).sqrt()).abs() < 1e-9,
            "{found:?}"
        );
        assert_eq!(
            (found.n, found.median, found.mean),
            (60, pooled.median, pooled.mean)
        );
    }

    #[test]
    fn six_launches_that_differ_have_the_confidence_that_is_claimed() {
        let samples: Vec<f64> = (0..6).flat_map(|one| launch(f64::from(one))).collect();
        let found = Statistics::of_launches(&samples, &[20; 6]).expect("samples");
        assert!(
            found.median_low < 0.1 && found.median_high > 5.0,
            "{found:?}"
        );
        assert!(found.confidence >= 0.95, "{found:?}");
    }

    #[test]
    fn launches_that_do_not_differ_leave_the_interval_of_the_samples() {
        let samples = [launch(1.0), launch(1.0), launch(1.0)].concat();
        let pooled = Statistics::of(&samples);
        assert_eq!(Statistics::of_launches(&samples, &[20, 20, 20]), pooled);
        // One launch, and launches that gave no sample, are no difference either.
        assert_eq!(Statistics::of_launches(&samples, &[60]), pooled);
        assert_eq!(Statistics::of_launches(&samples, &[0, 60, 0]), pooled);
        assert_eq!(Statistics::of_launches(&samples, &[]), pooled);
    }

    #[test]
    fn refuses_what_is_no_sample() {
        assert_eq!(Statistics::of(&[]), None);
        assert_eq!(Statistics::of(&[1.0, f64::NAN]), None);
        assert_eq!(Statistics::of_launches(&[], &[0, 0]), None);
    }
}
