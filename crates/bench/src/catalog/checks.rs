//! Experiment of what the checks cost that are on by default: Weft as it is beside the same with `mpiexec --check=off
//! --no-deadlock-check`.

use super::{budget, timed};
use crate::experiment::{
    Budget, Convert, Effort, Experiment, Origin, Participants, Plan, SeriesPlan,
};
use crate::results::{Chart, Role, Scale};
use std::time::Duration;

/// What is measured: panel, request, how a sample becomes a value, and numbers of ranks.
const MEASURED: [(&str, &str, Convert, &[u32]); 6] = [
    (
        "latency of 8 B",
        "pingpong size=8",
        Convert::Microseconds,
        &[2],
    ),
    (
        "window of 64 messages of 8 B",
        "bandwidth size=8 window=64",
        Convert::Microseconds,
        &[2],
    ),
    (
        "barrier",
        "collective call=barrier size=0",
        Convert::Microseconds,
        &[2, 17],
    ),
    (
        "allreduce 8 B",
        "collective call=allreduce size=8",
        Convert::Microseconds,
        &[2, 17],
    ),
    (
        "bcast 120 B",
        "collective call=bcast size=120",
        Convert::Microseconds,
        &[2, 17],
    ),
    (
        "allgather 64 KiB",
        "collective call=allgather size=65536",
        Convert::Microseconds,
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
        y: "time [µs]",
        unit: "µs",
        scales: (Scale::Linear, Scale::Log),
        lower_is_better: true,
        chart: Chart::Line,
        notes: &[
            "The same build twice, in turns: as it is, and with mpiexec --check=off --no-deadlock-check. Signatures of messages and \
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
        for (panel, request, convert, ranks) in MEASURED {
            for (variant, implementation) in [("", ours.index), ("--check=off", unchecked)] {
                let task = |&ranks: &u32| {
                    let task = timed(implementation, ranks, request.into(), convert);
                    (f64::from(ranks), task)
                };
                series.push(SeriesPlan {
                    role: Role::Ours,
                    subject: ours.name.clone(),
                    variant: variant.into(),
                    panel: panel.into(),
                    cells: ranks.iter().map(task).collect(),
                });
            }
        }
    }
    Plan {
        budget: Budget {
            least: effort.pick(10, 40),
            time: effort.pick(Duration::from_millis(150), Duration::from_secs(8)),
            sample: effort.pick(Duration::from_millis(5), Duration::from_millis(20)),
            ..budget(effort)
        },
        series,
        alone: false,
        limit: None,
    }
}
