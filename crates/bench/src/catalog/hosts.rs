//! Experiments with jobs of several hosts: the time to form them, and the cost of hostile connections.

use super::{budget, timed};
use crate::experiment::{
    Budget, Control, Convert, Effort, Experiment, Formation, JobKey, Origin, Participants, Plan,
    SeriesPlan, Task,
};
use crate::results::{Chart, Role, Scale};
use std::time::Duration;

/// The two controls: the same intruders at a port of their own, or none.
pub(crate) const ELSEWHERE: &str = "against the same intruders elsewhere";
pub(crate) const NOBODY: &str = "against no intruders";
/// The panel of small messages, and that of large ones.
pub(crate) const SMALL: &str = "8 B back and forth";
pub(crate) const LARGE: &str = "windows of 8 × 1 MiB one way";

/// The variant without Hydra's own time.
pub(crate) const OWN: &str = "under Hydra, its own part";

/// The experiments, in the order of the page.
pub fn experiments() -> Vec<Experiment> {
    vec![
        Experiment {
            id: "hosts-strangers",
            origin: Origin::Beyond,
            title: "What hostile connections cost a job over TCP",
            x: "hostile connections per second",
            y: "time, attacked over not attacked",
            unit: "×",
            scales: (Scale::Log, Scale::Linear),
            lower_is_better: true,
            chart: Chart::Line,
            notes: &[
                "Two ranks over TCP (loopback). A process of its own connects to both of their ports at the rate of the \
                 axis, one kind in turn: garbage of 4 KiB and away; half-open, says nothing and stays (200 at a \
                 time); a handshake of this very job, recorded when it began and replayed whole; a handshake with another \
                 key; a slow one that says a byte of that recording now and then (32 at a time, a byte with each new \
                 connection). The full run makes more than 10 000 connections at each rate from 1 000 a second on.",
                "A sample is the time under attack over the time without, measured one right after the other.",
                "The intruders have no machine of their own here: their work, and that of the kernel for their connections, \
                 takes processor time from two ranks that spin on two cores. So the promise is judged against a control \
                 that differs in one thing: the intruders connect at the same rate, with the same bytes, to a port of \
                 their own where they are accepted and dropped unread. What is left is what it costs the ranks to turn \
                 them away. Against no intruders at all: the other series, which holds the intruders' own work, too.",
                "Data: back and forth each message is another one and each is looked at, in both runs; one way they are \
                 looked at after each sample. A job that ends, or delivers something else, fails the experiment.",
            ],
            plan: intruders,
        },
        Experiment {
            id: "hosts-forming",
            origin: Origin::Beyond,
            title: "Forming a job of 2 hosts with 4 ranks each",
            x: "",
            y: "time from start to end of the launcher [ms]",
            unit: "ms",
            scales: (Scale::Linear, Scale::Linear),
            lower_is_better: true,
            chart: Chart::Bars,
            notes: &[
                "Hosts are two network namespaces of this machine, joined by veth; it has no more cores for that. The \
                 program calls MPI_Init, has each rank hear from each other, and calls MPI_Finalize; the time is that of \
                 the launcher from its start to its end. The first start is discarded.",
                "join: the head and the two weft join start at once, with a token made before. hosts: mpiexec --hosts. \
                 Hydra: mpiexec of MPICH. Both reach a host by the same script (nsenter, in place of ssh).",
                "Its own part: Weft's job under Hydra less a job of eight times `true` under Hydra just after.",
            ],
            plan: forming,
        },
        Experiment {
            id: "hosts-collectives",
            origin: Origin::Beyond,
            title: "Collectives of 2 hosts with 4 ranks each",
            x: "",
            y: "time of one call [µs]",
            unit: "µs",
            scales: (Scale::Linear, Scale::Linear),
            lower_is_better: true,
            chart: Chart::Bars,
            notes: &[
                "Hosts as of hosts-forming; each call as of collectives-ranks. MPICH is started by Hydra; Open MPI is not \
                 measured here.",
                "What there is to compare with: the same call of 4 ranks of one host, and 8 B one way between two ranks, one on each host. \
                 A collective has to go between the hosts once each way; the promise is a part beyond that of one host of at most 1.3 \
                 times there and back.",
            ],
            plan: collectives,
        },
    ]
}

/// Panel, call and bytes of each rank.
const COLLECTIVES: [(&str, &str, usize); 6] = [
    ("barrier", "barrier", 0),
    ("allreduce 8 B", "allreduce", 8),
    ("allgather 120 B", "allgather", 120),
    ("bcast 8 B", "bcast", 8),
    ("bcast 1 MiB", "bcast", 1 << 20),
    ("allreduce 1 MiB", "allreduce", 1 << 20),
];

fn collectives(participants: &Participants, effort: Effort) -> Plan {
    let mut series = Vec::new();
    for (panel, call, size) in COLLECTIVES {
        let request = format!("collective call={call} size={size}");
        for one in &participants.implementations {
            let mut line = |role, subject: &str, implementation, ranks, request: &str| {
                let task = timed(implementation, ranks, request.into(), Convert::Microseconds);
                series.push(SeriesPlan {
                    role,
                    subject: subject.into(),
                    variant: String::new(),
                    panel: panel.into(),
                    cells: vec![(0.0, task)],
                });
            };
            let Some(over_hosts) = one.over_hosts else {
                continue;
            };
            line(one.role, &one.name, over_hosts, 8, &request);
            if one.role == Role::Ours {
                line(Role::Device, "4 ranks of one host", one.index, 4, &request);
                let name = "8 B one way between the hosts";
                line(Role::Device, name, over_hosts, 2, "pingpong size=8");
            }
        }
    }
    Plan {
        budget: Budget {
            least: effort.pick(6, 20),
            time: effort.pick(Duration::from_millis(60), Duration::from_secs(10)),
            sample: effort.pick(Duration::from_millis(10), Duration::from_millis(50)),
            turn: 1,
            ..budget(effort)
        },
        series,
        alone: false,
        limit: None,
    }
}

fn intruders(participants: &Participants, effort: Effort) -> Plan {
    let ours = participants
        .implementations
        .iter()
        .find(|one| one.role == Role::Ours);
    let mut series = Vec::new();
    if let Some((ours, implementation)) = ours.and_then(|one| Some((one, one.over_tcp?))) {
        let job = JobKey {
            implementation,
            ranks: 2,
            multiple: false,
        };
        for (panel, request) in [
            (SMALL, "pingpong size=8 check=1"),
            (LARGE, "bandwidth size=1048576 window=8 check=1"),
        ] {
            for (variant, control, rates) in [
                (
                    ELSEWHERE,
                    Control::Elsewhere,
                    effort.pick(vec![100, 1000], vec![100, 300, 1000, 3000]),
                ),
                (
                    NOBODY,
                    Control::Nobody,
                    effort.pick(vec![100], vec![100, 300, 1000, 3000]),
                ),
            ] {
                let cell = |rate| {
                    let task = Task::Attacked {
                        job,
                        request: request.into(),
                        rate,
                        control,
                    };
                    (f64::from(rate), task)
                };
                series.push(SeriesPlan {
                    role: Role::Ours,
                    subject: ours.name.clone(),
                    variant: variant.into(),
                    panel: panel.into(),
                    cells: rates.into_iter().map(cell).collect(),
                });
            }
        }
    }
    Plan {
        budget: Budget {
            least: effort.pick(6, 100),
            most: effort.pick(20, 200),
            time: effort.pick(Duration::from_millis(900), Duration::from_secs(30)),
            turn: 1,
            // Several intruders connect within each sample, even when they are few.
            sample: effort.pick(Duration::from_millis(50), Duration::from_millis(100)),
            launches: effort.pick(1, 4),
            ..budget(effort)
        },
        series,
        alone: false,
        limit: None,
    }
}

fn forming(participants: &Participants, effort: Effort) -> Plan {
    let mut series = Vec::new();
    let hydra = participants
        .implementations
        .iter()
        .find_map(|one| one.hydra.clone());
    for implementation in &participants.implementations {
        let mut line = |role, subject: &str, variant: &str, formation: Formation, less_launcher| {
            let task = Task::Form {
                implementation: implementation.index,
                formation,
                less_launcher,
            };
            series.push(SeriesPlan {
                role,
                subject: subject.into(),
                variant: variant.into(),
                panel: String::new(),
                cells: vec![(0.0, task)],
            });
        };
        let (role, name) = (implementation.role, &*implementation.name);
        if role == Role::Ours {
            line(role, name, "join", Formation::Join, false);
            line(role, name, "hosts", Formation::Hosts, false);
        }
        let Some(hydra) = hydra.clone() else {
            continue;
        };
        // Hydra starts ranks of implementations that understand it: ours, and its own.
        if role == Role::Ours || implementation.hydra.is_some() {
            line(
                role,
                name,
                "under Hydra",
                Formation::Hydra(hydra.clone()),
                false,
            );
        }
        if role == Role::Ours {
            line(role, name, OWN, Formation::Hydra(hydra.clone()), true);
            let alone = Formation::HydraAlone(hydra);
            line(Role::Device, "Hydra, eight times true", "", alone, false);
        }
    }
    Plan {
        budget: Budget {
            least: effort.pick(6, 20),
            most: effort.pick(6, 40),
            time: effort.pick(Duration::from_millis(500), Duration::from_secs(20)),
            turn: 1,
            launches: 1,
            ..budget(effort)
        },
        series,
        alone: false,
        limit: None,
    }
}
