//! Catalogue: every experiment that exists or is planned, in the order of the page.
//!
//! [`services`] holds part A, [`sources`] those of the other source documents, [`components`] those of single components, [`threads`] those of many
//! threads in one rank, [`net`] those of the datapath, [`datapath`] further promises of the datapath, [`rma`] one-sided communication, [`io`] files,
//! [`hosts`] jobs of several hosts, [`packing`] data with gaps, [`instructions`] of calls, [`waiting`] beside other work and by polling, [`checks`]
//! the cost of the default checks, [`beyond`] the project's own (some planned in [`scaling`]).

mod beyond;
mod checks;
pub(crate) mod components;
pub(crate) mod datapath;
pub(crate) mod hosts;
mod instructions;
mod io;
mod net;
pub(crate) mod packing;
mod rma;
pub(crate) mod scaling;
mod services;
mod sources;
mod threads;
mod waiting;

use crate::experiment::{
    Budget, Convert, Effort, Experiment, JobKey, MpiImplementation, Participants, Repeat,
    SeriesPlan, Task,
};
use crate::results::Role;
use std::time::Duration;

/// All experiments.
pub fn all() -> Vec<Experiment> {
    let mut all = Vec::new();
    all.extend(services::experiments());
    all.extend(sources::experiments());
    all.extend(components::experiments());
    all.extend(threads::experiments());
    all.extend(beyond::experiments());
    all.extend(waiting::experiments());
    all.extend(checks::experiments());
    all.extend(packing::experiments());
    all.extend(instructions::experiments());
    all.extend(rma::experiments());
    all.extend(io::experiments());
    all.extend(hosts::experiments());
    all.extend(net::experiments());
    all.extend(datapath::experiments());
    all
}

/// Whether a name on the command line names an experiment: its id, or the beginning of its id up to a hyphen
/// (`send` names `send-standard`, `send-synchronous` and their relatives).
pub fn means(name: &str, id: &str) -> bool {
    id.strip_prefix(name)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// The usual budget; experiments change parts of it.
fn budget(effort: Effort) -> Budget {
    Budget {
        aim: 0.01,
        // Below six samples no interval of the median reaches 95 %.
        least: effort.pick(6, 20),
        most: effort.pick(40, 400),
        time: effort.pick(Duration::from_millis(30), Duration::from_secs(4)),
        sample: effort.pick(Duration::from_micros(800), Duration::from_millis(5)),
        turn: 2,
        launches: effort.pick(1, 5),
    }
}

/// Powers of two from `low` to `high`, both included.
fn powers(low: usize, high: usize) -> Vec<usize> {
    (0..usize::BITS)
        .map(|power| 1 << power)
        .filter(|size| (low..=high).contains(size))
        .collect()
}

/// One series per implementation: its cells from a closure that is given the implementation's index.
fn per_implementation(
    participants: &Participants,
    variant: &str,
    panel: &str,
    cells: impl Fn(usize) -> Vec<(f64, Task)>,
) -> Vec<SeriesPlan> {
    let of_implementation = |implementation: &MpiImplementation| SeriesPlan {
        role: implementation.role,
        subject: implementation.name.clone(),
        variant: variant.into(),
        panel: panel.into(),
        cells: cells(implementation.index),
    };
    participants
        .implementations
        .iter()
        .map(of_implementation)
        .collect()
}

/// As [`per_implementation`], for implementations that can be started in another way: `way` gives the index
/// of that job.
fn per_implementation_by(
    way: impl Fn(&MpiImplementation) -> Option<usize>,
    participants: &Participants,
    variant: &str,
    cells: impl Fn(usize) -> Vec<(f64, Task)>,
) -> Vec<SeriesPlan> {
    let of_implementation = |implementation: &MpiImplementation| {
        Some(SeriesPlan {
            role: implementation.role,
            subject: implementation.name.clone(),
            variant: variant.into(),
            panel: String::new(),
            cells: cells(way(implementation)?),
        })
    };
    let implementations = participants.implementations.iter();
    implementations.filter_map(of_implementation).collect()
}

/// The same over TCP between ranks of one host.
fn over_tcp(
    participants: &Participants,
    variant: &str,
    cells: impl Fn(usize) -> Vec<(f64, Task)>,
) -> Vec<SeriesPlan> {
    per_implementation_by(|one| one.over_tcp, participants, variant, cells)
}

/// The same over libfabric's provider tcp.
fn over_libfabric(
    participants: &Participants,
    variant: &str,
    cells: impl Fn(usize) -> Vec<(f64, Task)>,
) -> Vec<SeriesPlan> {
    per_implementation_by(|one| one.over_libfabric, participants, variant, cells)
}

/// The same over TCP, encrypted.
fn encrypted(
    participants: &Participants,
    cells: impl Fn(usize) -> Vec<(f64, Task)>,
) -> Vec<SeriesPlan> {
    per_implementation_by(|one| one.encrypted, participants, "TCP, encrypted", cells)
}

/// The name of [`raw_stream`] in the legend.
pub(crate) const RAW: &str = "device: raw TCP stream between processes";

/// One TCP connection between the two processes of the first implementation's job, used as the experiment
/// uses MPI; given are the mode and further keys.
fn raw_stream(
    participants: &Participants,
    mode: &str,
    sizes: &[usize],
    repeat: impl Fn(usize) -> Repeat,
    convert: impl Fn(usize) -> Convert,
) -> Option<SeriesPlan> {
    let job = JobKey {
        implementation: participants.implementations.first()?.index,
        ranks: 2,
        multiple: false,
    };
    let task = |&size: &usize| {
        let task = Task::Request {
            job,
            request: format!("raw mode={mode} size={size}"),
            repeat: repeat(size),
            convert: convert(size),
        };
        (size as f64, task)
    };
    Some(SeriesPlan {
        role: Role::Device,
        subject: RAW.into(),
        variant: String::new(),
        panel: String::new(),
        cells: sizes.iter().map(task).collect(),
    })
}

/// A request in a single-threaded job of `ranks` ranks, repeated to fill a sample.
fn timed(implementation: usize, ranks: u32, request: String, convert: Convert) -> Task {
    let job = JobKey {
        implementation,
        ranks,
        multiple: false,
    };
    Task::Request {
        job,
        request,
        repeat: Repeat::Timed,
        convert,
    }
}

/// The ratio of a request's times with the first and with the second of two implementations.
fn pair([one, other]: [usize; 2], ranks: u32, request: String) -> Task {
    let job = |implementation| JobKey {
        implementation,
        ranks,
        multiple: false,
    };
    Task::Pair {
        jobs: [job(one), job(other)],
        request,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::ComponentProgram;
    use std::collections::HashSet;

    /// Every id required by the sources.
    const ASKED: [&str; 31] = [
        "portal-throughput",
        "mailbox-latency",
        "send-standard",
        "send-synchronous",
        "hash-insert",
        "hash-match",
        "thread-scheduling",
        "thread-signal",
        "packet-pool",
        "latency-threads-size",
        "latency-threads-count",
        "latency-single",
        "throughput-blocking",
        "throughput-nonblocking",
        "latency-long",
        "net-asymmetric",
        "net-two-equal",
        "net-two-equal-rx16",
        "net-two-priority",
        "net-two-overload",
        "net-two-overload-rx32",
        "net-two-rxtx16",
        "net-tx-limited",
        "net-multicore",
        "net-tx-round-robin",
        "net-tx-priority",
        "net-core-allocation",
        "net-driver-two-threads",
        "net-four-clients",
        "net-four-clients-cores",
        "net-tx-copy",
    ];

    #[test]
    fn every_experiment_of_the_sources_is_listed_once() {
        let ids: Vec<&str> = all().iter().map(|experiment| experiment.id).collect();
        for id in ASKED {
            assert!(ids.contains(&id), "{id} is not in the catalogue");
        }
        assert_eq!(
            ids.iter().collect::<HashSet<_>>().len(),
            ids.len(),
            "an id stands twice"
        );
    }

    #[test]
    fn names_mean_whole_words() {
        assert!(means("send-standard", "send-standard"));
        assert!(means("send", "send-standard"));
        assert!(means("net-two-equal", "net-two-equal-rx16"));
        assert!(!means("sen", "send-standard"));
        assert!(!means("send-standard-delay", "send-standard"));
    }

    #[test]
    fn plans_stand_without_peers_and_with_them() {
        let implementation = |index, name: &str, role| MpiImplementation {
            index,
            over_tcp: Some(index + 2),
            encrypted: (role == Role::Ours).then_some(4),
            over_libfabric: Some(index + 9),
            over_hosts: Some(index + 5),
            unchecked: (role == Role::Ours).then_some(7),
            recording: (role == Role::Ours).then_some(8),
            hydra: (role == Role::Peer).then(|| "mpiexec.hydra".into()),
            name: name.into(),
            role,
        };
        let ours = implementation(0, "Weft", Role::Ours);
        let peer = implementation(1, "MPICH", Role::Peer);
        let program = |(index, stem): (usize, &str)| ComponentProgram {
            index,
            stem: stem.into(),
            role: if stem == "weft" {
                Role::Ours
            } else {
                Role::Peer
            },
        };
        let stems = [
            "weft", "tbb", "cuckoo", "posix", "lockfree", "argobots", "unknown",
        ];
        for implementations in [
            vec![],
            vec![ours.clone()],
            vec![peer.clone()],
            vec![ours, peer],
        ] {
            let programs = stems.into_iter().enumerate().map(program);
            let participants = Participants {
                programs: programs.take(4 * implementations.len()).collect(),
                implementations,
                cache: 1 << 25,
                cores: 2,
            };
            for experiment in all() {
                for effort in [Effort::Quick, Effort::Full] {
                    let plan = (experiment.plan)(&participants, effort);
                    let names: HashSet<_> = plan
                        .series
                        .iter()
                        .map(|line| (line.name(), &line.panel))
                        .collect();
                    assert_eq!(
                        names.len(),
                        plan.series.len(),
                        "{}: two series of one name",
                        experiment.id
                    );
                    assert!(plan.budget.least <= plan.budget.most, "{}", experiment.id);
                    for line in &plan.series {
                        assert!(
                            !line.cells.is_empty(),
                            "{}: {} has no cell",
                            experiment.id,
                            line.name()
                        );
                        let datapath = line.cells.iter().all(|(_, task)| {
                            matches!(task, Task::Net { .. } | Task::Device { .. })
                        });
                        assert!(
                            line.role == Role::Device
                                || datapath
                                || !participants.implementations.is_empty()
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn powers_of_two() {
        assert_eq!(powers(1, 8), [1, 2, 4, 8]);
        assert_eq!(powers(3, 20), [4, 8, 16]);
    }
}
