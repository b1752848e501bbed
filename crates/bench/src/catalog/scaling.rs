//! Plans of the experiments in which a number grows: ranks of a collective, waiting messages, unused
//! resources.

use super::{budget, per_implementation, powers, timed};
use crate::experiment::{
    Budget, Convert, Effort, JobKey, Participants, Plan, Repeat, SeriesPlan, Task,
};
use crate::results::Role;
use std::time::Duration;

/// The panels of [`COLLECTIVES`] in which all ranks wait for all. In the others a rank that leaves the untimed barrier early waits for
/// the root, or the root is there before: with more ranks than cores that decides the time, and no device is a limit.
const ALL_WAIT: [&str; 3] = ["barrier", "allreduce 8 B", "allgather 120 B"];

/// Panel, call and size of each collective that is measured against the number of ranks.
const COLLECTIVES: [(&str, &str, usize); 8] = [
    ("barrier", "barrier", 0),
    ("allreduce 8 B", "allreduce", 8),
    ("bcast 120 B", "bcast", 120),
    ("gather 120 B", "gather", 120),
    ("allgather 120 B", "allgather", 120),
    ("bcast 64 KiB", "bcast", 65_536),
    ("gather 64 KiB", "gather", 65_536),
    ("allgather 64 KiB", "allgather", 65_536),
];

pub(super) fn collectives_small(participants: &Participants, effort: Effort) -> Plan {
    let calls = [
        "barrier",
        "allreduce",
        "bcast",
        "reduce",
        "gather",
        "allgather",
        "alltoall",
    ];
    let sizes = effort.pick(vec![8, 1024, 65_536], powers(8, 1 << 20));
    of_two_ranks(participants, effort, "collective", &calls, &sizes)
}

pub(super) fn collectives_forms(participants: &Participants, effort: Effort) -> Plan {
    let calls = [
        "scatter",
        "gatherv",
        "scatterv",
        "allgatherv",
        "alltoallv",
        "scan",
        "exscan",
        "reduce_scatter",
        "reduce_scatter_block",
        "neighbor_allgather",
        "neighbor_alltoall",
        "ibarrier",
        "ibcast",
        "igather",
        "iallgather",
        "ialltoall",
        "ireduce",
        "iallreduce",
    ];
    let sizes = effort.pick(vec![8, 1024], vec![8, 64, 512, 4096, 32_768, 262_144]);
    of_two_ranks(participants, effort, "form", &calls, &sizes)
}

/// Collectives of two ranks at some sizes, a panel for each call; `verb` is the workload of the measuring program.
fn of_two_ranks(
    participants: &Participants,
    effort: Effort,
    verb: &str,
    calls: &[&'static str],
    sizes: &[usize],
) -> Plan {
    let mut series = Vec::new();
    for &call in calls {
        // A barrier has no size, and a logarithmic axis no zero.
        let sizes = match call {
            "barrier" | "ibarrier" => &[0],
            _ => sizes,
        };
        series.extend(per_implementation(
            participants,
            "",
            call,
            |implementation| {
                let request = |size| format!("{verb} call={call} size={size}");
                let task = |size| timed(implementation, 2, request(size), Convert::Microseconds);
                let place = |size: usize| size.max(1) as f64;
                sizes
                    .iter()
                    .map(|&size| (place(size), task(size)))
                    .collect()
            },
        ));
        if verb == "collective" {
            let places = sizes.iter().map(|&size| (size.max(1) as f64, 2, size));
            series.extend(flags(participants, call, call, places));
        }
    }
    Plan {
        budget: budget(effort),
        series,
        alone: false,
        limit: None,
    }
}

pub(super) fn collectives_ranks(participants: &Participants, effort: Effort) -> Plan {
    let ranks = effort.pick(vec![4, 17], vec![2, 4, 8, 16, 17]);
    let mut series = Vec::new();
    for (panel, call, size) in COLLECTIVES {
        series.extend(per_implementation(
            participants,
            "",
            panel,
            |implementation| {
                let request = format!("collective call={call} size={size}");
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
        if ALL_WAIT.contains(&panel) {
            let places = ranks.iter().map(|&ranks| (f64::from(ranks), ranks, size));
            series.extend(flags(participants, panel, call, places));
            series.extend(switch_limit(participants, panel, &ranks));
        }
    }
    // One call of an implementation that spins can take a tenth of a second here.
    let budget = Budget {
        least: effort.pick(6, 20),
        time: effort.pick(Duration::from_millis(60), Duration::from_secs(10)),
        // Long enough for some dozens of calls: the first after a pause finds all ranks asleep.
        sample: effort.pick(Duration::from_millis(10), Duration::from_millis(50)),
        turn: 1,
        ..budget(effort)
    };
    Plan {
        budget,
        series,
        alone: false,
        limit: None,
    }
}

/// The name of [`switch_limit`] in the legend.
pub(crate) const SWITCHES: &str = "context-switch limit";

/// The shortest time until each rank has run once, where there are more of them than cores: by two processes, those of the
/// first implementation's job, that yield one core to each other.
fn switch_limit(participants: &Participants, panel: &str, ranks: &[u32]) -> Option<SeriesPlan> {
    let first = participants.implementations.first()?.index;
    let cores = weft_sys::cores::allowed().map_or(usize::MAX, |cores| cores.len());
    let crowds = ranks.iter().filter(|ranks| **ranks as usize > cores);
    let task = |ranks: u32| {
        let request = format!("switches ranks={ranks} cores={cores}");
        timed(first, 2, request, Convert::Microseconds)
    };
    Some(SeriesPlan {
        role: Role::Device,
        subject: SWITCHES.into(),
        variant: String::new(),
        panel: panel.into(),
        cells: crowds
            .map(|&ranks| (f64::from(ranks), task(ranks)))
            .collect(),
    })
}

/// The name of [`flags`] in the legend.
pub(crate) const FLAGS: &str = "flags in shared memory";

/// Most bytes of a block that [`flags`] shows: longer ones go in pieces, which is a question of the algorithm.
const FLAGS_MOST: usize = 4096;

/// What a collective takes among processes that do nothing but set and read flags in shared memory, and copy the data
/// that stand there: children of the first implementation's job. `places` are x, number of processes and size.
fn flags(
    participants: &Participants,
    panel: &str,
    call: &str,
    places: impl Iterator<Item = (f64, u32, usize)>,
) -> Option<SeriesPlan> {
    let first = participants.implementations.first()?.index;
    let cores = weft_sys::cores::allowed().unwrap_or_default();
    let task = |processes: u32, size: usize| {
        let used: Vec<String> = cores
            .iter()
            .take(processes as usize)
            .map(ToString::to_string)
            .collect();
        let request = format!(
            "flags call={call} size={size} processes={processes} cores={}",
            used.join(",")
        );
        timed(first, 2, request, Convert::Microseconds)
    };
    let cells: Vec<(f64, Task)> = places
        .filter(|(_, _, size)| *size <= FLAGS_MOST)
        .map(|(x, processes, size)| (x, task(processes, size)))
        .collect();
    (!cells.is_empty()).then(|| SeriesPlan {
        role: Role::Device,
        subject: FLAGS.into(),
        variant: String::new(),
        panel: panel.into(),
        cells,
    })
}

pub(super) fn matching_depth(participants: &Participants, effort: Effort) -> Plan {
    let depths = effort.pick(vec![1, 1000, 10_000], vec![1, 10, 100, 1000, 10_000]);
    let mut series = Vec::new();
    for kind in ["posted", "unexpected"] {
        for order in ["forward", "reverse", "random"] {
            series.extend(per_implementation(
                participants,
                "",
                &format!("{kind}, {order}"),
                |implementation| {
                    let request =
                        |depth| format!("matching kind={kind} order={order} depth={depth}");
                    let job = JobKey {
                        implementation,
                        ranks: 2,
                        multiple: false,
                    };
                    // As many messages in a sample whatever the depth; the deepest is one round.
                    let task = |depth: u64| Task::Request {
                        job,
                        request: request(depth),
                        repeat: Repeat::Exactly((effort.pick(500, 10_000) / depth).max(1)),
                        convert: Convert::Nanoseconds,
                    };
                    depths
                        .iter()
                        .map(|&depth| (depth as f64, task(depth)))
                        .collect()
                },
            ));
        }
    }
    // Among 10 000 a peer that searches a list takes a second per sample: too long for --quick, where
    // Weft alone goes that far.
    if effort == Effort::Quick {
        for line in series.iter_mut().filter(|line| line.role != Role::Ours) {
            line.cells.retain(|(depth, _)| *depth <= 1000.0);
        }
    }
    let budget = Budget {
        least: effort.pick(6, 20),
        turn: 1,
        ..budget(effort)
    };
    Plan {
        budget,
        series,
        alone: false,
        limit: None,
    }
}

pub(super) fn growth(participants: &Participants, effort: Effort) -> Plan {
    let mut series = Vec::new();
    let mut panel = |name: &str, places: Vec<u64>, job: &dyn Fn(u64) -> (u32, String)| {
        series.extend(per_implementation(
            participants,
            "",
            name,
            |implementation| {
                let task = |many: u64| {
                    let (ranks, keys) = job(many);
                    timed(
                        implementation,
                        ranks,
                        format!("pingpong size=8 {keys}"),
                        Convert::Microseconds,
                    )
                };
                places
                    .iter()
                    .map(|&many| (many as f64, task(many)))
                    .collect()
            },
        ));
    };
    panel(
        "ranks of the job",
        effort.pick(vec![2, 17], vec![2, 4, 8, 16, 32, 64]),
        &|many| (many as u32, String::new()),
    );
    panel(
        "idle peers",
        effort.pick(vec![1, 15], vec![1, 2, 6, 15, 30]),
        &|many| (many as u32 + 2, "idle=1".into()),
    );
    panel(
        "communicators",
        effort.pick(vec![1, 100], vec![1, 10, 100, 1000]),
        &|many| (2, format!("communicators={many}")),
    );
    panel(
        "posted receives",
        effort.pick(vec![1, 1000], vec![1, 10, 100, 1000, 10_000]),
        &|many| (2, format!("posted={many}")),
    );
    Plan {
        budget: Budget {
            // Idle ranks look on for a while before they sleep, each on a core that others want: a sample outlasts that.
            sample: effort.pick(Duration::from_millis(5), Duration::from_millis(20)),
            time: effort.pick(Duration::from_millis(100), Duration::from_secs(4)),
            launches: effort.pick(1, 3),
            ..budget(effort)
        },
        series,
        alone: false,
        limit: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::MpiImplementation;

    fn participants() -> Participants {
        let ours = MpiImplementation {
            index: 0,
            over_tcp: None,
            encrypted: None,
            over_libfabric: None,
            recording: None,
            over_hosts: None,
            unchecked: None,
            hydra: None,
            name: "Weft".into(),
            role: Role::Ours,
        };
        Participants {
            implementations: vec![ours],
            programs: Vec::new(),
            cache: 0,
            cores: 2,
        }
    }

    /// Panels, places and requests of the device's cells.
    fn of_flags(plan: &Plan) -> Vec<(&str, f64, &str)> {
        let lines = plan.series.iter().filter(|line| line.subject == FLAGS);
        lines
            .flat_map(|line| {
                line.cells.iter().map(|(x, task)| match task {
                    Task::Request { job, request, .. } if job.ranks == 2 => {
                        (&*line.panel, *x, &**request)
                    }
                    other => panic!("not a request to two ranks: {other:?}"),
                })
            })
            .collect()
    }

    #[test]
    fn flags_stand_beside_each_small_collective_of_two_ranks() {
        let plan = collectives_small(&participants(), Effort::Quick);
        let found = of_flags(&plan);
        let ours = plan.series.iter().filter(|line| line.role == Role::Ours);
        let small = |line: &SeriesPlan| line.cells.iter().filter(|(x, _)| *x <= 4096.0).count();
        assert_eq!(found.len(), ours.map(small).sum::<usize>());
        assert!(
            found
                .iter()
                .all(|(panel, _, request)| request.contains(&format!("call={panel} ")))
        );
    }

    #[test]
    fn flags_stand_where_all_ranks_wait_for_all() {
        let plan = collectives_ranks(&participants(), Effort::Full);
        let found = of_flags(&plan);
        assert_eq!(found.len(), 5 * ALL_WAIT.len());
        for (panel, ranks, request) in found {
            assert!(ALL_WAIT.contains(&panel), "{panel}");
            assert!(
                request.contains(&format!(" processes={ranks} ")),
                "{request}"
            );
        }
    }
}
