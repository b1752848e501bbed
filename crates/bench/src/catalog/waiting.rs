//! Experiments on difficult waits: beside a process that computes all the time, and among more ranks than cores that
//! poll instead of waiting.

use super::{budget, per_implementation, timed};
use crate::experiment::{
    Budget, Convert, Effort, Experiment, JobKey, Origin, Participants, Plan, Repeat, Task,
};
use crate::results::{Chart, Scale};
use std::time::Duration;

/// Operations beside a process that computes, by the names of `measure/beside.c` and common names.
const OPERATIONS: [(&str, &str); 3] = [
    ("pingpong", "latency of 8 B"),
    ("barrier", "barrier"),
    ("allreduce", "allreduce of 8 B"),
];

/// Calls that poll, likewise.
const CALLS: [(&str, &str); 5] = [
    ("test", "MPI_Test"),
    ("iprobe", "MPI_Iprobe"),
    ("testany", "MPI_Testany"),
    ("testsome", "MPI_Testsome"),
    ("status", "MPI_Request_get_status"),
];

/// Note on the process that computes.
const HOW: &str = "The processes that compute are children of rank 0, started with each request, on any core. They make no \
     call. What a sample shows depends on whether such a process had one of the cores just then, so samples are long.";

/// The experiments.
pub fn experiments() -> Vec<Experiment> {
    let base = |id, title, y, unit, notes, plan| Experiment {
        id,
        origin: Origin::Beyond,
        title,
        x: "processes that compute",
        y,
        unit,
        scales: (Scale::Linear, Scale::Log),
        lower_is_better: true,
        chart: Chart::Line,
        notes,
        plan,
    };
    vec![
        base(
            "beside-work",
            "Two ranks beside processes that compute",
            "time [µs]",
            "µs",
            &[HOW],
            beside_work as fn(&Participants, Effort) -> Plan,
        ),
        Experiment {
            scales: (Scale::Linear, Scale::Linear),
            lower_is_better: false,
            ..base(
                "beside-work-share",
                "What a process that computes gets beside two ranks",
                "share of a core [%]",
                "%",
                &[HOW],
                share,
            )
        },
        Experiment {
            x: "ranks",
            ..base(
                "polling-crowd",
                "A message goes round ranks that ask for it",
                "time of a hop [µs]",
                "µs",
                &[
                    "Each rank asks in a loop, by the call of the panel, until the message is there, and hands it on. With more \
                     ranks than cores it comes only if those who ask in vain give their cores away.",
                ],
                polling_crowd,
            )
        },
    ]
}

fn patient(effort: Effort) -> Budget {
    Budget {
        least: effort.pick(6, 20),
        time: effort.pick(Duration::from_millis(150), Duration::from_secs(6)),
        // Some time slices.
        sample: effort.pick(Duration::from_millis(10), Duration::from_millis(50)),
        turn: 1,
        ..budget(effort)
    }
}

fn beside_work(participants: &Participants, effort: Effort) -> Plan {
    let counts = effort.pick(vec![0, 1], vec![0, 1, 2, 3]);
    let mut series = Vec::new();
    for (call, panel) in OPERATIONS {
        series.extend(per_implementation(
            participants,
            "",
            panel,
            |implementation| {
                let request = |count| format!("beside call={call} foreign={count}");
                let task = |count| timed(implementation, 2, request(count), Convert::Microseconds);
                counts
                    .iter()
                    .map(|&count| (f64::from(count), task(count)))
                    .collect()
            },
        ));
    }
    Plan {
        budget: patient(effort),
        series,
        alone: false,
        limit: None,
    }
}

fn share(participants: &Participants, effort: Effort) -> Plan {
    let counts = effort.pick(vec![1], vec![1, 2, 3]);
    let milliseconds = effort.pick(60, 400);
    let mut series = Vec::new();
    for (call, panel) in OPERATIONS {
        series.extend(per_implementation(
            participants,
            "",
            panel,
            |implementation| {
                let task = |count: i32| Task::Request {
                    job: JobKey {
                        implementation,
                        ranks: 2,
                        multiple: false,
                    },
                    request: format!(
                        "beside call={call} foreign={count} milliseconds={milliseconds}"
                    ),
                    repeat: Repeat::Exactly(1),
                    convert: Convert::Percent(1e9),
                };
                counts
                    .iter()
                    .map(|&count| (f64::from(count), task(count)))
                    .collect()
            },
        ));
    }
    let least = effort.pick(4, 12);
    Plan {
        budget: Budget {
            least,
            most: least,
            ..patient(effort)
        },
        series,
        alone: false,
        limit: None,
    }
}

fn polling_crowd(participants: &Participants, effort: Effort) -> Plan {
    let ranks = effort.pick(vec![2, 4], vec![2, 4, 8, 16]);
    let calls = effort.pick(&CALLS[..2], &CALLS[..]);
    let mut series = Vec::new();
    for (call, panel) in calls {
        series.extend(per_implementation(
            participants,
            "",
            panel,
            |implementation| {
                let request = format!("polling call={call}");
                let task = |ranks| {
                    timed(
                        implementation,
                        ranks,
                        request.clone(),
                        Convert::Microseconds,
                    )
                };
                ranks
                    .iter()
                    .map(|&ranks| (f64::from(ranks), task(ranks)))
                    .collect()
            },
        ));
    }
    Plan {
        budget: patient(effort),
        series,
        alone: false,
        limit: None,
    }
}
