//! Experiments with many threads on each side, each thread with its own tag: the last two figures of part C.

use super::{budget, per_implementation, powers};
use crate::experiment::{
    Budget, Convert, Effort, Experiment, JobKey, Origin, Participants, Plan, Repeat, SeriesPlan,
    Task,
};
use crate::results::{Chart, Role, Scale};
use std::time::Duration;

/// Note on both.
const HOW: &str = "Two ranks; each thread of one plays ping-pong with its like at the other, known by its tag. The \
     time of a message is that of the whole run over all messages of all threads, both ways, so it does not \
     grow with the number of threads by itself. Threads are made outside of the time that is taken.";

/// The experiments, in the order of the page.
pub fn experiments() -> Vec<Experiment> {
    let experiment = |id, title, x, notes, plan| Experiment {
        id,
        origin: Origin::C,
        title,
        x,
        y: "time of a message [µs]",
        unit: "µs",
        scales: (Scale::Log, Scale::Log),
        lower_is_better: true,
        chart: Chart::Line,
        notes,
        plan,
    };
    vec![
        experiment(
            "latency-threads-size",
            "Latency of 14 threads a side, against size",
            "message size [B]",
            &[
                HOW,
                "The source has 14 threads on as many cores a side; here they share the cores of one machine. A \
                 thread of the system that waits must be woken by it, which is what the others' series show.",
            ],
            latency_size,
        ),
        experiment(
            "latency-threads-count",
            "Latency of 64 B, against the number of threads",
            "threads of each rank",
            &[
                HOW,
                "POSIX threads end at 4096 a side with --quick off, 256 with it: beyond, one run takes minutes. \
                 Fibers end at 1 048 576 (4096 with --quick), which takes about 10 GB of memory on both sides.",
            ],
            latency_count,
        ),
        Experiment {
            y: "messages [million/s]",
            unit: "million/s",
            scales: (Scale::Log, Scale::Linear),
            lower_is_better: false,
            ..experiment(
                "rate-threads",
                "Messages that the POSIX threads of one rank carry together",
                "threads",
                &[
                    "One rank with MPI_THREAD_MULTIPLE. Each thread sends 4 bytes to itself: windows of 32 MPI_Irecv, 32 \
                     MPI_Isend, MPI_Waitall; the content is compared. Messages of all threads over the time of all. \
                     With more ranks the threads would share the cores with those who answer.",
                    "Nothing tells the implementation that the communicators are used by one thread each. Hint: the one communicator \
                     is made with mpi_assert_no_any_tag, and each thread has a tag of its own.",
                ],
                rate,
            )
        },
    ]
}

fn rate(participants: &Participants, effort: Effort) -> Plan {
    let counts = effort.pick(vec![1, 2, 4, 16], vec![1, 2, 4, 8, 16, 64]);
    let mut all = Vec::new();
    for (kind, variant) in [
        ("own=1", "a communicator each"),
        ("own=0", "one communicator"),
        ("hint=1", "one communicator, hint"),
    ] {
        all.extend(per_implementation(
            participants,
            variant,
            "",
            |implementation| {
                let cell = |threads: usize| Task::Request {
                    job: JobKey {
                        implementation,
                        ranks: 1,
                        multiple: true,
                    },
                    request: format!("carried threads={threads} {kind}"),
                    repeat: Repeat::Timed,
                    convert: Convert::Millions(1.0),
                };
                let places = counts.iter();
                places.map(|&x| (x as f64, cell(x))).collect()
            },
        ));
    }
    Plan {
        budget: Budget {
            least: effort.pick(12, 40),
            time: effort.pick(Duration::from_millis(150), Duration::from_secs(6)),
            sample: effort.pick(Duration::from_millis(4), Duration::from_millis(10)),
            ..budget(effort)
        },
        series: all,
        alone: false,
        limit: None,
    }
}

fn task(implementation: usize, request: String, repeat: Repeat) -> Task {
    Task::Request {
        job: JobKey {
            implementation,
            ranks: 2,
            multiple: true,
        },
        request,
        repeat,
        convert: Convert::Microseconds,
    }
}

/// A series of fibers for each of ours, and one of POSIX threads for every implementation.
fn series(
    participants: &Participants,
    places: impl Fn(Role, bool) -> Vec<usize>,
    cell: impl Fn(usize, usize, bool) -> Task,
) -> Vec<SeriesPlan> {
    let mut series = Vec::new();
    for (fibers, variant) in [(true, "fibers"), (false, "POSIX threads")] {
        series.extend(per_implementation(
            participants,
            variant,
            "",
            |implementation| {
                let mut implementations = participants.implementations.iter();
                let found = implementations.find(|one| one.index == implementation);
                let role = found.map_or(Role::Peer, |found| found.role);
                places(role, fibers)
                    .into_iter()
                    .map(|place| (place as f64, cell(implementation, place, fibers)))
                    .collect()
            },
        ));
    }
    series.retain(|line| !line.cells.is_empty());
    series
}

fn kind(fibers: bool) -> &'static str {
    if fibers { "fibers" } else { "posix" }
}

fn patient(effort: Effort) -> Budget {
    Budget {
        least: effort.pick(6, 20),
        time: effort.pick(Duration::from_millis(60), Duration::from_secs(10)),
        turn: 1,
        ..budget(effort)
    }
}

fn latency_size(participants: &Participants, effort: Effort) -> Plan {
    let sizes = effort.pick(vec![1, 64, 1024, 16_384], powers(1, 16_384));
    let places = |role: Role, fibers: bool| match (role, fibers) {
        (Role::Ours, _) | (_, false) => sizes.clone(),
        _ => Vec::new(),
    };
    let cell = |implementation, size, fibers| {
        let request = format!("threads kind={} threads=14 size={size}", kind(fibers));
        // The same number of messages in a sample of every implementation, several of each thread.
        task(
            implementation,
            request,
            Repeat::Exactly(effort.pick(14 * 20, 14 * 500)),
        )
    };
    Plan {
        budget: patient(effort),
        series: series(participants, places, cell),
        alone: false,
        limit: None,
    }
}

fn latency_count(participants: &Participants, effort: Effort) -> Plan {
    let places = |role: Role, fibers: bool| -> Vec<usize> {
        let most = match (role, fibers) {
            (Role::Ours, true) => effort.pick(4096, 1 << 20),
            (Role::Ours, false) => effort.pick(256, 4096),
            (_, false) => effort.pick(16, 256),
            (_, true) => 0,
        };
        let counts = effort.pick(vec![4, 16, 64, 256, 4096], powers(4, 1 << 20));
        counts.into_iter().filter(|count| *count <= most).collect()
    };
    let cell = |implementation, threads: usize, fibers| {
        let request = format!("threads kind={} threads={threads} size=64", kind(fibers));
        // Each thread plays at least four times.
        let messages = (threads as u64 * 4).max(effort.pick(1_000, 20_000));
        task(implementation, request, Repeat::Exactly(messages))
    };
    Plan {
        budget: Budget {
            // The largest take seconds each.
            least: effort.pick(6, 10),
            ..patient(effort)
        },
        series: series(participants, places, cell),
        alone: false,
        limit: None,
    }
}
