//! Jobs of several hosts: how quickly they are formed, and what strangers cost them.

use super::budget;
use crate::experiment::{
    Attack, Budget, Cast, Convert, Effort, Experiment, JobKey, Line, Part, Plan, Task, Way,
};
use crate::results::{Chart, Role, Scale};
use std::time::Duration;

/// What the strangers of the control are called.
pub(crate) const ELSEWHERE: &str = "strangers elsewhere";
/// Those at the ports of the ranks.
pub(crate) const HERE: &str = "strangers at its ports";
/// The panel of small messages.
pub(crate) const SMALL: &str = "8 B back and forth [µs]";
/// The panel of large ones.
pub(crate) const LARGE: &str = "8 × 1 MiB one way [µs]";

/// What Hydra's own time is taken off.
pub(crate) const OWN: &str = "under Hydra, its own part";

/// The experiments, in the order of the page.
pub fn experiments() -> Vec<Experiment> {
    vec![
        Experiment {
            id: "hosts-strangers",
            part: Part::Beyond,
            title: "What hostile connections cost a job over TCP",
            x: "hostile connections per second",
            y: "time [µs]",
            unit: "µs",
            scales: (Scale::Linear, Scale::Linear),
            lower_is_better: true,
            chart: Chart::Line,
            notes: &[
                "Two ranks over TCP (loopback). A process of its own connects to both of their ports at the rate of the \
                 axis, one kind in turn: garbage of 4 KiB and away; half-open, says nothing and stays (200 at a \
                 time); a handshake of this very job, recorded when it began and replayed whole; a handshake with another \
                 key; a slow one that says a byte of that recording now and then (32 at a time, a byte with each new \
                 connection). The full run makes more than 10 000 connections at each rate from 1 000 a second on.",
                "The strangers have no machine of their own here: their work, and that of the kernel for their connections, \
                 takes processor time from two ranks that spin on two cores. So the promise is about two runs that differ \
                 in one thing: in one the strangers attack the job's ports, in the other, at the same rate, with the same \
                 bytes, a port of their own where they are accepted and dropped unread. No strangers at all: at 0.",
                "Data: back and forth each message is another one and each is looked at, in both runs; one way they are \
                 looked at after each sample. A job that ends, or delivers something else, fails the experiment.",
            ],
            plan: strangers,
        },
        Experiment {
            id: "hosts-forming",
            part: Part::Beyond,
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
    ]
}

fn strangers(cast: &Cast, effort: Effort) -> Plan {
    let rates = effort.pick(vec![100, 1000], vec![100, 300, 1000, 3000]);
    let ours = cast.members.iter().find(|one| one.role == Role::Ours);
    let mut lines = Vec::new();
    if let Some((member, implementation)) = ours.and_then(|one| Some((one, one.network?))) {
        let job = JobKey {
            implementation,
            ranks: 2,
            multiple: false,
        };
        for (panel, request) in [
            (SMALL, "pingpong size=8 check=1"),
            (LARGE, "bandwidth size=1048576 window=8 check=1"),
        ] {
            for (variant, at_ranks) in [(HERE, true), (ELSEWHERE, false)] {
                let cell = |rate: u32| {
                    let task = Task::Attacked {
                        job,
                        request: request.into(),
                        attack: Attack { rate, at_ranks },
                        convert: Convert::Microseconds,
                    };
                    (f64::from(rate), task)
                };
                let nobody = at_ranks.then(|| cell(0));
                lines.push(Line {
                    role: Role::Ours,
                    subject: member.name.clone(),
                    variant: variant.into(),
                    panel: panel.into(),
                    cells: nobody
                        .into_iter()
                        .chain(rates.iter().copied().map(cell))
                        .collect(),
                });
            }
        }
    }
    Plan {
        budget: Budget {
            least: effort.pick(8, 20),
            most: effort.pick(16, 100),
            time: effort.pick(Duration::from_millis(450), Duration::from_secs(12)),
            // Several of the strangers come in each sample, also when they are few.
            sample: effort.pick(Duration::from_millis(25), Duration::from_millis(120)),
            launches: effort.pick(1, 3),
            ..budget(effort)
        },
        lines,
        alone: false,
        limit: None,
    }
}

fn forming(cast: &Cast, effort: Effort) -> Plan {
    let mut lines = Vec::new();
    let hydra = cast.members.iter().find_map(|one| one.hydra.clone());
    for member in &cast.members {
        let mut line = |role, subject: &str, variant: &str, way: Way, less_launcher| {
            let task = Task::Form {
                implementation: member.index,
                way,
                less_launcher,
            };
            lines.push(Line {
                role,
                subject: subject.into(),
                variant: variant.into(),
                panel: String::new(),
                cells: vec![(0.0, task)],
            });
        };
        let (role, name) = (member.role, &*member.name);
        if role == Role::Ours {
            line(role, name, "join", Way::Join, false);
            line(role, name, "hosts", Way::Hosts, false);
        }
        let Some(hydra) = hydra.clone() else {
            continue;
        };
        // Hydra starts ranks of those who understand it: ours, and those it belongs to.
        if role == Role::Ours || member.hydra.is_some() {
            line(role, name, "under Hydra", Way::Hydra(hydra.clone()), false);
        }
        if role == Role::Ours {
            line(role, name, OWN, Way::Hydra(hydra.clone()), true);
            let alone = Way::HydraAlone(hydra);
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
        lines,
        alone: false,
        limit: None,
    }
}
