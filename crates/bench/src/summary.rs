//! Summary: the table on top of the page, which compares each promise of speed with the measurement.
//!
//! A row compares Weft with the better peer (or a device, or itself) at every place that the promise
//! covers and shows the worst one. The ratio's interval follows from the intervals of the two medians;
//! a promise counts as met or missed only when the whole interval says so.

mod figures;
mod promises;

use crate::results::{ExperimentResult, Point, Results, Role, Series};
use figures::{axis, place_name};
use promises::{Reference, TARGETS, Target};
use serde::Serialize;

pub use figures::figure;

/// Whether a promise was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The whole interval keeps it.
    Met,
    /// The whole interval misses it.
    Missed,
    /// The interval holds the limit.
    Undecided,
    /// There is nothing to compare in these results.
    Unmeasured,
}

/// One row of the table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The promise.
    pub claim: String,
    /// Which experiment shows it.
    pub experiment: String,
    /// The worst place: panel and x.
    pub place: String,
    /// Weft's median there, with its unit.
    pub ours: String,
    /// The series that it is compared with, and its median.
    pub reference: String,
    /// Ours divided by the reference (or ours, if there is none).
    pub ratio: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end of its interval.
    pub high: f64,
    /// Confidence of the less certain one of the two medians.
    pub confidence: f64,
    /// The limit that the ratio must reach.
    pub limit: f64,
    /// Whether it must be at least the limit.
    pub at_least: bool,
    /// The number of places at which it is met, and of all places.
    pub met: (usize, usize),
    /// Whether the promise was kept at the worst place.
    pub verdict: Verdict,
}

/// All rows of a run whose experiments took part.
pub fn rows(results: &Results) -> Vec<Row> {
    let of_target = |target: &Target| {
        let experiment = results
            .experiments
            .iter()
            .find(|experiment| experiment.id == target.experiment)?;
        Some(row(target, experiment))
    };
    TARGETS.iter().filter_map(of_target).collect()
}

fn row(target: &Target, experiment: &ExperimentResult) -> Row {
    let mut places = Vec::new();
    for ours in &experiment.series {
        let covered = ours.role == Role::Ours
            && ours.variant == target.variant
            && ours.panel.starts_with(target.panel);
        if !covered {
            continue;
        }
        for point in &ours.points {
            let first =
                matches!(target.reference, Reference::First) && ours.points.first() == Some(point);
            if point.x >= target.places.0 && point.x <= target.places.1 && !first {
                places.extend(compare(target, experiment, ours, point));
            }
        }
    }
    let badness = |row: &Row| {
        if target.at_least {
            -row.ratio
        } else {
            row.ratio
        }
    };
    let met = (
        places
            .iter()
            .filter(|row| row.verdict == Verdict::Met)
            .count(),
        places.len(),
    );
    match places
        .into_iter()
        .max_by(|left, right| badness(left).total_cmp(&badness(right)))
    {
        Some(worst) => Row { met, ..worst },
        None => Row {
            claim: target.claim.into(),
            experiment: target.experiment.into(),
            place: String::new(),
            ours: String::new(),
            reference: String::new(),
            ratio: 0.0,
            low: 0.0,
            high: 0.0,
            confidence: 0.0,
            limit: target.limit,
            at_least: target.at_least,
            met,
            verdict: Verdict::Unmeasured,
        },
    }
}

/// The comparison at one place; `None` if the other side has no point there.
fn compare(
    target: &Target,
    experiment: &ExperimentResult,
    ours: &Series,
    point: &Point,
) -> Option<Row> {
    let own = |variant: &str| {
        let mut all = experiment.series.iter();
        all.find(|series| {
            series.role == Role::Ours && series.variant == variant && series.panel == ours.panel
        })
    };
    let (name, other) = match target.reference {
        Reference::Absolute => (String::new(), None),
        Reference::BetterPeer => {
            let (series, other) = better_peer(experiment, ours, point.x)?;
            (series.name.clone(), Some(other))
        }
        Reference::BetterPeerOf(variant) => {
            let like = Series {
                variant: variant.into(),
                points: Vec::new(),
                ..ours.clone()
            };
            let (series, other) = better_peer(experiment, &like, point.x)?;
            (series.name.clone(), Some(other))
        }
        Reference::Series(name) => {
            let mut all = experiment.series.iter();
            let series = all.find(|one| one.subject == name && one.panel == ours.panel)?;
            (name.to_string(), Some(series.at(point.x)?))
        }
        Reference::Device(device) => (
            device.to_string(),
            Some(experiment.series(device, &ours.panel, "")?.at(point.x)?),
        ),
        Reference::Variant(variant) => {
            (own(variant)?.name.clone(), Some(own(variant)?.at(point.x)?))
        }
        Reference::At(x) => (format!("at {}", figure(x)), Some(ours.at(x)?)),
        Reference::First => {
            let first = ours.points.first()?;
            (format!("at {}", figure(first.x)), Some(first))
        }
    };
    let other = other.map(|other| &other.statistics);
    let found = &point.statistics;
    let (ratio, low, high) = other.map_or(
        (found.median, found.median_low, found.median_high),
        |other| {
            (
                found.median / other.median,
                found.median_low / other.median_high,
                found.median_high / other.median_low,
            )
        },
    );
    let keeps = |ratio: f64| {
        if target.at_least {
            ratio >= target.limit
        } else {
            ratio <= target.limit
        }
    };
    let verdict = match (keeps(low), keeps(high)) {
        (true, true) => Verdict::Met,
        (false, false) => Verdict::Missed,
        _ => Verdict::Undecided,
    };
    let unit = &experiment.unit;
    let x = if experiment.x.is_empty() {
        String::new()
    } else {
        place_name(point.x, axis(&experiment.x))
    };
    let place = [ours.panel.as_str(), &x]
        .into_iter()
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(", ");
    Some(Row {
        claim: target.claim.into(),
        experiment: experiment.id.clone(),
        place,
        ours: format!("{} {unit}", figure(found.median)),
        reference: other.map_or(String::new(), |other| {
            format!("{name}: {} {unit}", figure(other.median))
        }),
        ratio,
        low,
        high,
        confidence: other.map_or(found.confidence, |other| {
            found.confidence.min(other.confidence)
        }),
        limit: target.limit,
        at_least: target.at_least,
        met: (0, 0),
        verdict,
    })
}

/// The peer with the better median at the place of our point.
pub fn better_peer<'r>(
    experiment: &'r ExperimentResult,
    ours: &Series,
    x: f64,
) -> Option<(&'r Series, &'r Point)> {
    let same = |series: &&Series| {
        series.role == Role::Peer && series.panel == ours.panel && series.variant == ours.variant
    };
    let sign = if experiment.lower_is_better {
        1.0
    } else {
        -1.0
    };
    let points = experiment
        .series
        .iter()
        .filter(same)
        .filter_map(|series| Some((series, series.at(x)?)));
    points.min_by(|left, right| {
        (sign * left.1.statistics.median).total_cmp(&(sign * right.1.statistics.median))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::sample;

    #[test]
    fn compares_with_the_better_peer() {
        let results = sample();
        let rows = rows(&results);
        let eight = rows
            .iter()
            .find(|row| row.claim == "latency of 8 B")
            .expect("row");
        assert!(eight.reference.starts_with("Open MPI"), "{eight:?}");
        assert!((eight.ratio - 0.667).abs() < 0.02, "{eight:?}");
        assert_eq!(eight.verdict, Verdict::Met);
        assert!(eight.low < eight.ratio && eight.ratio < eight.high);
    }

    #[test]
    fn shows_the_worst_place_and_counts_the_rest() {
        let mut results = sample();
        let point = &mut results.experiments[0].series[0].points[1].statistics;
        (point.median, point.median_low, point.median_high) = (9.0, 9.0, 9.0);
        let row = rows(&results)
            .into_iter()
            .find(|row| row.claim == "latency at every size")
            .expect("row");
        assert_eq!(
            (row.verdict, row.met, row.place.as_str()),
            (Verdict::Missed, (1, 2), "64 B")
        );
    }

    #[test]
    fn an_interval_around_the_limit_decides_nothing() {
        let mut results = sample();
        let point = &mut results.experiments[0].series[0].points[0].statistics;
        (point.median_low, point.median_high) = (point.median * 0.8, point.median * 1.2);
        let row = rows(&results)
            .into_iter()
            .find(|row| row.claim == "latency of 8 B")
            .expect("row");
        assert_eq!(row.verdict, Verdict::Undecided);
    }

    #[test]
    fn without_weft_nothing_is_claimed() {
        let mut results = sample();
        results.experiments[0].series.remove(0);
        assert!(
            rows(&results)
                .iter()
                .all(|row| row.verdict == Verdict::Unmeasured)
        );
    }
}
