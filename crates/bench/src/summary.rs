//! The table on top of the page: each promise of speed beside what was measured.
//!
//! A row compares Weft with the better peer (or a device, or itself) at every place that the promise
//! covers and shows the worst one. The ratio's interval follows from the intervals of the two medians;
//! a promise counts as met or missed only when the whole interval says so.

use crate::results::{ExperimentResult, Point, Results, Role, Series};
use serde::Serialize;

/// What Weft is compared with.
#[derive(Clone, Copy)]
enum Reference {
    /// The peer with the better median at the same place.
    BetterPeer,
    /// The better peer among the series of another variant (that ours has no match for).
    BetterPeerOf(&'static str),
    /// A device series at the same place.
    Device(&'static str),
    /// Weft's series of another variant.
    Variant(&'static str),
    /// Weft's own first point of the same series.
    First,
    /// Weft's own point of the same series at this x.
    Place(f64),
    /// The series of this subject.
    Series(&'static str),
    /// Nothing: the figure itself.
    Absolute,
}

/// One promise.
struct Target {
    claim: &'static str,
    experiment: &'static str,
    /// Beginning of the panels that it covers.
    panel: &'static str,
    variant: &'static str,
    /// First and last place on the x axis that it covers.
    places: (f64, f64),
    reference: Reference,
    /// Whether the ratio must be at least the limit, not at most.
    at_least: bool,
    limit: f64,
}

const ANY: (f64, f64) = (f64::NEG_INFINITY, f64::INFINITY);
const EIGHT: (f64, f64) = (8.0, 8.0);
const LINE: &str = "device: cache line bounced";
const LOOPBACK: &str = "device: TCP loopback, spinning";
use crate::catalog::RAW;
use crate::catalog::datapath::SOCKETS;
use crate::catalog::hosts::{ELSEWHERE, LARGE, NOBODY, OWN, SMALL};
const COST: &str = "processor time of all";
const COPY: &str = "device: one copy between processes";

const fn at_most(claim: &'static str, experiment: &'static str, limit: f64) -> Target {
    let reference = Reference::BetterPeer;
    Target {
        claim,
        experiment,
        panel: "",
        variant: "",
        places: ANY,
        reference,
        at_least: false,
        limit,
    }
}

/// The promises, in the order of the page.
const TARGETS: &[Target] = &[
    Target {
        places: EIGHT,
        ..at_most("latency of 8 B", "latency-single", 0.7)
    },
    Target {
        places: EIGHT,
        reference: Reference::Device(LINE),
        ..at_most(
            "latency of 8 B, against a cache line one way",
            "latency-single",
            2.5,
        )
    },
    at_most("latency at every size", "latency-single", 0.95),
    Target {
        places: EIGHT,
        variant: "TCP",
        ..at_most("latency of 8 B over TCP", "latency-single", 0.8)
    },
    Target {
        places: EIGHT,
        variant: "TCP",
        reference: Reference::Device(LOOPBACK),
        ..at_most(
            "latency of 8 B over TCP, against spinning sockets",
            "latency-single",
            1.15,
        )
    },
    Target {
        variant: "TCP",
        ..at_most("latency at every size over TCP", "latency-single", 0.95)
    },
    Target {
        places: EIGHT,
        variant: "MPI_THREAD_MULTIPLE",
        reference: Reference::Variant(""),
        ..at_most(
            "MPI_THREAD_MULTIPLE, against single-threaded, 8 B",
            "latency-single",
            1.05,
        )
    },
    Target {
        places: EIGHT,
        at_least: true,
        ..at_most("message rate of 8 B", "message-rate", 1.5)
    },
    Target {
        at_least: true,
        ..at_most("bandwidth at every size", "bandwidth", 1.0)
    },
    Target {
        places: (262_144.0, 1_048_576.0),
        reference: Reference::Device(COPY),
        at_least: true,
        ..at_most(
            "bandwidth of 256 KiB to 1 MiB, against one copy",
            "bandwidth",
            0.95,
        )
    },
    Target {
        variant: "TCP",
        reference: Reference::Device(RAW),
        at_least: true,
        ..at_most(
            "bandwidth over TCP, against a raw stream",
            "bandwidth",
            0.95,
        )
    },
    Target {
        places: (1_048_576.0, 1_048_576.0),
        variant: "TCP, encrypted",
        reference: Reference::Variant("TCP"),
        at_least: true,
        ..at_most(
            "bandwidth over TCP of 1 MiB, encrypted against plain",
            "bandwidth",
            0.7,
        )
    },
    // At most 0.95 of the time is at least 1.05 of the throughput.
    Target {
        variant: "TCP",
        at_least: true,
        ..at_most(
            "throughput back and forth over TCP, blocking",
            "throughput-blocking",
            1.05,
        )
    },
    Target {
        variant: "TCP",
        at_least: true,
        ..at_most(
            "throughput both ways over TCP, non-blocking",
            "throughput-nonblocking",
            1.05,
        )
    },
    Target {
        variant: "blocking, TCP",
        ..at_most("a long over TCP, blocking", "latency-long", 0.8)
    },
    Target {
        variant: "non-blocking, TCP",
        ..at_most("a long over TCP, non-blocking", "latency-long", 0.8)
    },
    Target {
        panel: SMALL,
        places: (1.0, 1000.0),
        variant: ELSEWHERE,
        reference: Reference::Absolute,
        ..at_most(
            "8 B over TCP beside up to 1 000 strangers a second",
            "hosts-strangers",
            1.05,
        )
    },
    Target {
        panel: LARGE,
        places: (1.0, 1000.0),
        variant: ELSEWHERE,
        reference: Reference::Absolute,
        ..at_most(
            "1 MiB over TCP beside up to 1 000 strangers a second",
            "hosts-strangers",
            1.05,
        )
    },
    Target {
        places: (100.0, 100.0),
        variant: NOBODY,
        reference: Reference::Absolute,
        ..at_most(
            "100 strangers a second, their own work included",
            "hosts-strangers",
            1.05,
        )
    },
    Target {
        variant: "join",
        reference: Reference::Absolute,
        ..at_most(
            "2 hosts × 4 ranks by weft join [ms]",
            "hosts-forming",
            1000.0,
        )
    },
    Target {
        variant: OWN,
        reference: Reference::Absolute,
        ..at_most(
            "2 hosts × 4 ranks under Hydra, our own part [ms]",
            "hosts-forming",
            300.0,
        )
    },
    Target {
        panel: "barrier",
        places: (4.0, 17.0),
        ..at_most("barrier, 4 to 17 ranks", "collectives-ranks", 0.5)
    },
    Target {
        panel: "allreduce",
        places: (4.0, 17.0),
        ..at_most("allreduce 8 B, 4 to 17 ranks", "collectives-ranks", 0.5)
    },
    Target {
        panel: "bcast",
        places: (4.0, 17.0),
        ..at_most("bcast, 4 to 17 ranks", "collectives-ranks", 0.5)
    },
    Target {
        panel: "gather",
        places: (4.0, 17.0),
        ..at_most("gather, 4 to 17 ranks", "collectives-ranks", 0.5)
    },
    Target {
        panel: "allgather",
        places: (4.0, 17.0),
        ..at_most("allgather, 4 to 17 ranks", "collectives-ranks", 0.5)
    },
    Target {
        panel: "posted",
        places: (10_000.0, 10_000.0),
        reference: Reference::First,
        ..at_most("10 000 posted receives, against one", "matching-depth", 2.0)
    },
    Target {
        panel: "unexpected",
        places: (10_000.0, 10_000.0),
        reference: Reference::First,
        ..at_most(
            "10 000 unexpected messages, against one",
            "matching-depth",
            2.0,
        )
    },
    Target {
        places: (2.0, 2.0),
        ..at_most("start and end of two ranks", "startup", 0.3)
    },
    Target {
        places: (2.0, 2.0),
        reference: Reference::Absolute,
        ..at_most("start and end of two ranks [ms]", "startup", 30.0)
    },
    Target {
        places: (64.0, 64.0),
        reference: Reference::Absolute,
        ..at_most("start and end of 64 ranks [ms]", "startup", 400.0)
    },
    Target {
        reference: Reference::Absolute,
        ..at_most("processor time of a blocked receive [%]", "idle-cpu", 1.0)
    },
    Target {
        reference: Reference::Absolute,
        ..at_most("memory of an idle rank of four [MB]", "memory", 2.5)
    },
    Target {
        reference: Reference::Absolute,
        at_least: true,
        ..at_most("core share of each of two jobs [%]", "two-jobs", 95.0)
    },
    // The promise says "flat"; a fifth more is what this page calls flat.
    Target {
        panel: "ranks",
        reference: Reference::First,
        ..at_most("latency as the job has more ranks: flat", "growth", 1.2)
    },
    Target {
        panel: "idle peers",
        reference: Reference::First,
        ..at_most("latency beside more idle peers: flat", "growth", 1.2)
    },
    Target {
        panel: "communicators",
        reference: Reference::First,
        ..at_most("latency beside more communicators: flat", "growth", 1.2)
    },
    Target {
        panel: "posted",
        reference: Reference::First,
        ..at_most("latency beside more posted receives: flat", "growth", 1.2)
    },
    at_most("hash table, insert", "hash-insert", 0.3),
    Target {
        variant: "handed in together",
        reference: Reference::BetterPeerOf(""),
        ..at_most("hash table, insert, handed in together", "hash-insert", 0.3)
    },
    Target {
        panel: "as the source",
        ..at_most("hash table, match", "hash-match", 0.3)
    },
    Target {
        panel: "as the source",
        variant: "handed in together",
        reference: Reference::BetterPeerOf(""),
        ..at_most("hash table, match, handed in together", "hash-match", 0.3)
    },
    Target {
        reference: Reference::First,
        ..at_most("hash table, insert: flat", "hash-insert", 1.5)
    },
    Target {
        panel: "as the source",
        reference: Reference::First,
        ..at_most("hash table, match: flat", "hash-match", 1.5)
    },
    Target {
        panel: "in steady use",
        reference: Reference::Absolute,
        ..at_most("hash table in steady use [ns]", "hash-match", 10.0)
    },
    Target {
        panel: "as the source",
        ..at_most("packet pool", "packet-pool", 0.25)
    },
    Target {
        panel: "in steady use",
        reference: Reference::Absolute,
        ..at_most("packet pool in steady use [ns]", "packet-pool", 5.0)
    },
    Target {
        places: (8.0, 512.0),
        reference: Reference::Absolute,
        ..at_most("yield, 8 to 512 fibers [µs]", "thread-scheduling", 0.008)
    },
    Target {
        places: (1_048_576.0, 1_048_576.0),
        reference: Reference::Absolute,
        ..at_most("yield, 1 048 576 fibers [µs]", "thread-scheduling", 0.06)
    },
    at_most("yield", "thread-scheduling", 0.3),
    Target {
        reference: Reference::Series("POSIX threads"),
        ..at_most("yield, against POSIX threads", "thread-scheduling", 0.05)
    },
    Target {
        reference: Reference::Absolute,
        ..at_most("create, run and join a fiber [ns]", "thread-create", 80.0)
    },
    Target {
        places: (1000.0, f64::INFINITY),
        reference: Reference::Absolute,
        ..at_most(
            "signal to another worker, 1 000 and more [µs]",
            "thread-signal",
            0.02,
        )
    },
    Target {
        places: (512.0, f64::INFINITY),
        reference: Reference::Series("POSIX threads"),
        ..at_most(
            "signal to 512 and more, against a POSIX condition",
            "thread-signal",
            0.05,
        )
    },
    Target {
        places: (64.0, 64.0),
        variant: "fibers",
        reference: Reference::BetterPeerOf("POSIX threads"),
        ..at_most(
            "14 fibers a side, 64 B, against the peers' POSIX threads",
            "latency-threads-size",
            0.1,
        )
    },
    Target {
        places: (64.0, 64.0),
        variant: "fibers",
        reference: Reference::Variant("POSIX threads"),
        ..at_most(
            "14 fibers a side, 64 B, against our POSIX threads",
            "latency-threads-size",
            0.33,
        )
    },
    Target {
        places: (64.0, 64.0),
        variant: "POSIX threads",
        ..at_most("14 POSIX threads a side, 64 B", "latency-threads-size", 1.0)
    },
    Target {
        places: (1_048_576.0, 1_048_576.0),
        variant: "fibers",
        reference: Reference::Place(64.0),
        ..at_most(
            "message among 1 048 576 fibers, against 64",
            "latency-threads-count",
            6.0,
        )
    },
    Target {
        places: (2.0, 2.0),
        variant: "a communicator each",
        reference: Reference::First,
        at_least: true,
        ..at_most(
            "messages of two threads against one, a communicator each",
            "rate-threads",
            1.7,
        )
    },
    Target {
        places: (2.0, 2.0),
        variant: "one communicator",
        reference: Reference::First,
        at_least: true,
        ..at_most(
            "messages of two threads against one, one communicator",
            "rate-threads",
            1.0,
        )
    },
    Target {
        panel: COST,
        places: (3_000.0, f64::INFINITY),
        variant: "processes",
        reference: Reference::Device(SOCKETS),
        ..at_most("packet, isolated, 3 Gbit/s and more", "net-cost", 1.0)
    },
    Target {
        panel: COST,
        places: (970.0, 970.0),
        variant: "processes",
        reference: Reference::Device(SOCKETS),
        ..at_most("packet, isolated, 970 Mbit/s", "net-cost", 1.5)
    },
    Target {
        panel: COST,
        variant: "fused",
        reference: Reference::Device(SOCKETS),
        ..at_most("packet, fused", "net-cost", 0.9)
    },
    Target {
        panel: "throughput",
        variant: "processes",
        reference: Reference::Device(SOCKETS),
        at_least: true,
        ..at_most("packets that come back, isolated", "net-cost", 1.0)
    },
    Target {
        panel: "throughput",
        variant: "fused",
        reference: Reference::Device(SOCKETS),
        at_least: true,
        ..at_most("packets that come back, fused", "net-cost", 1.0)
    },
    Target {
        panel: "99th",
        places: (0.0, 2_000.0),
        variant: "processes",
        reference: Reference::Device(SOCKETS),
        ..at_most("99th percentile to 2 Gbit/s, isolated", "net-cost", 1.0)
    },
    Target {
        panel: "99th",
        places: (0.0, 2_000.0),
        variant: "fused",
        reference: Reference::Device(SOCKETS),
        ..at_most("99th percentile to 2 Gbit/s, fused", "net-cost", 1.0)
    },
    Target {
        reference: Reference::Absolute,
        ..at_most("shares over one second: exact to [%]", "net-shares", 3.0)
    },
    Target {
        reference: Reference::Absolute,
        ..at_most("limits over one second: exact to [%]", "net-limits", 1.0)
    },
    Target {
        variant: "one core",
        reference: Reference::Absolute,
        ..at_most("queue, one core [ns]", "net-queue", 10.0)
    },
    Target {
        places: (32.0, 64.0),
        variant: "two cores",
        reference: Reference::Absolute,
        ..at_most("queue, in batches across cores [ns]", "net-queue", 6.0)
    },
    Target {
        variant: "round robin",
        reference: Reference::Absolute,
        ..at_most("policy, round robin [ns]", "net-policy", 150.0)
    },
    Target {
        variant: "who signalled",
        reference: Reference::Absolute,
        ..at_most("policy, who signalled [ns]", "net-policy", 150.0)
    },
    Target {
        variant: "weighted",
        reference: Reference::Absolute,
        ..at_most("policy, weighted [ns]", "net-policy", 150.0)
    },
    Target {
        variant: "priority",
        reference: Reference::Absolute,
        ..at_most("policy, priority [ns]", "net-policy", 150.0)
    },
    Target {
        variant: "round robin, limited",
        reference: Reference::Absolute,
        ..at_most("policy, limited [ns]", "net-policy", 150.0)
    },
];

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
    /// What is promised.
    pub claim: String,
    /// Which experiment shows it.
    pub experiment: String,
    /// The worst place: panel and x.
    pub place: String,
    /// Weft's median there, with its unit.
    pub ours: String,
    /// What it is compared with, and its median.
    pub reference: String,
    /// Ours over the reference (or ours, where there is none).
    pub ratio: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end of its interval.
    pub high: f64,
    /// What the ratio must reach.
    pub limit: f64,
    /// Whether it must be at least the limit.
    pub at_least: bool,
    /// At how many places it is met, of how many.
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
        Reference::Place(x) => (format!("at {}", figure(x)), Some(ours.at(x)?)),
        Reference::First => {
            let first = ours.points.first()?;
            (format!("at {}", figure(first.x)), Some(first))
        }
    };
    let (ratio, low, high) = other.map_or(
        (point.median, point.median_low, point.median_high),
        |other| {
            (
                point.median / other.median,
                point.median_low / other.median_high,
                point.median_high / other.median_low,
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
        ours: format!("{} {unit}", figure(point.median)),
        reference: other.map_or(String::new(), |other| {
            format!("{name}: {} {unit}", figure(other.median))
        }),
        ratio,
        low,
        high,
        limit: target.limit,
        at_least: target.at_least,
        met: (0, 0),
        verdict,
    })
}

/// The peer with the better median beside a point of ours.
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
    points.min_by(|left, right| (sign * left.1.median).total_cmp(&(sign * right.1.median)))
}

/// A number with three significant digits, without an exponent.
pub fn figure(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    if value.fract() == 0.0 && value.abs() < 1e7 {
        return format!("{value}");
    }
    let digits = 2 - value.abs().log10().floor() as i32;
    format!("{value:.*}", usize::try_from(digits).unwrap_or(0))
}

/// A place of the x axis with its noun; bytes in Ki and Mi where they are whole.
fn place_name(x: f64, noun: &str) -> String {
    let powers = [(f64::from(1 << 20), "MiB"), (1024.0, "KiB")];
    match powers
        .iter()
        .find(|(size, _)| noun == "B" && x >= *size && x % size == 0.0)
    {
        Some((size, unit)) => format!("{} {unit}", x / size),
        None => format!("{} {noun}", figure(x)),
    }
}

/// Unit or noun of an x axis: what stands in brackets, or the whole label. Where every panel counts
/// something else, the panel's name is the noun.
fn axis(label: &str) -> &str {
    if label == "how many" {
        return "";
    }
    label
        .split_once('[')
        .map_or(label, |(_, rest)| rest.trim_end_matches(']'))
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
        let point = &mut results.experiments[0].series[0].points[1];
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
        let point = &mut results.experiments[0].series[0].points[0];
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

    #[test]
    fn figures_have_three_digits() {
        assert_eq!(place_name(262_144.0, "B"), "256 KiB");
        assert_eq!(place_name(1500.0, "B"), "1500 B");
        assert_eq!(place_name(17.0, "ranks"), "17 ranks");
        assert_eq!(figure(0.242_13), "0.242");
        assert_eq!(figure(12.345), "12.3");
        assert_eq!(figure(12_345.6), "12346");
        assert_eq!(figure(64.0), "64");
    }
}
