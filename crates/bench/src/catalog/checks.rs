//! Experiment on the cost of the default checks: Weft with defaults, compared with `mpiexec --check=off
//! --no-deadlock-check`.

use super::{budget, pair};
use crate::experiment::{Budget, Effort, Experiment, Origin, Participants, Plan, SeriesPlan};
use crate::results::{Chart, Role, Scale};
use std::time::Duration;

/// The measurements: panel, request, and numbers of ranks.
const MEASURED: [(&str, &str, &[u32]); 6] = [
    ("latency of 8 B", "pingpong size=8", &[2]),
    (
        "window of 64 messages of 8 B",
        "bandwidth size=8 window=64",
        &[2],
    ),
    ("barrier", "collective call=barrier size=0", &[2, 17]),
    (
        "allreduce 8 B",
        "collective call=allreduce size=8",
        &[2, 17],
    ),
    ("bcast 120 B", "collective call=bcast size=120", &[2, 17]),
    (
        "allgather 64 KiB",
        "collective call=allgather size=65536",
        &[2, 17],
    ),
];

/// The experiment.
pub fn experiments() -> Vec<Experiment> {
    vec![Experiment {
        id: "checks-cost",
        origin: Origin::Beyond,
        title: "What the default checks cost",
        x: "ranks",
        y: "time with the checks over time without",
        unit: "",
        scales: (Scale::Linear, Scale::Linear),
        lower_is_better: true,
        chart: Chart::Line,
        notes: &[
            "The same build twice, one right after the other, each first in every other turn, and a sample is the ratio: as it is, and with mpiexec --check=off --no-deadlock-check. Signatures of messages and \
             notes of collectives travel in both, for ranks with different settings must understand each other: what they cost \
             is among the instructions of the calls.",
            "Latency as in latency-single, windows as in message-rate, collectives as in collectives-small and collectives-ranks.",
        ],
        plan,
    }]
}

fn plan(participants: &Participants, effort: Effort) -> Plan {
    let ours = participants.implementations.iter();
    let mut series = Vec::new();
    for ours in ours.filter(|one| one.role == Role::Ours) {
        let Some(unchecked) = ours.unchecked else {
            continue;
        };
        for (panel, request, ranks) in MEASURED {
            let task = |&ranks: &u32| {
                let task = pair([ours.index, unchecked], ranks, request.into());
                (f64::from(ranks), task)
            };
            series.push(SeriesPlan {
                role: Role::Ours,
                subject: ours.name.clone(),
                variant: String::new(),
                panel: panel.into(),
                cells: ranks.iter().map(task).collect(),
            });
        }
    }
    Plan {
        budget: Budget {
            // So that the median is exact to some thousandths.
            aim: effort.pick(0.005, 0.001),
            least: effort.pick(10, 100),
            most: effort.pick(100, 1000),
            time: effort.pick(Duration::from_millis(600), Duration::from_secs(15)),
            sample: effort.pick(Duration::from_millis(5), Duration::from_millis(20)),
            ..budget(effort)
        },
        series,
        alone: false,
        limit: None,
    }
}
