//! Experiments of the third source document on single components: matching table, packet pool, scheduler
//! of threads. Each runs the same loop in a program for each library (`crates/bench/peers`, ours in
//! `crates/bench/src/components`).

use super::budget;
use crate::experiment::{
    Budget, ComponentProgram, Convert, Effort, Experiment, Origin, Participants, Plan, SeriesPlan,
    Task,
};
use crate::results::{Chart, Scale};
use std::time::Duration;

/// Slots that a table is made with, as the source has it.
const TABLE: usize = 1 << 16;
/// Insertions of all threads together: half of that, so that nothing grows.
const INSERTS: usize = 1 << 15;
/// Keys of a thread that come and go in steady use.
const WINDOW: usize = 256;
/// Packets of a pool.
const PACKETS: usize = 4096;
/// The seed of all keys, numbers and times.
const SEED: u64 = 2018;

/// Whether an experiment runs in programs of components alone: no implementation of MPI is needed.
pub fn is_one(id: &str) -> bool {
    experiments().iter().any(|experiment| experiment.id == id)
}

/// Panel of what the source measures, where there is another beside it.
const SOURCE: &str = "as the source";
/// Panel of what the source does not measure.
const STEADY: &str = "in steady use";

/// Who takes part with which verb: stem of the program, name in the legend, verb, variant.
type Entry = (&'static str, &'static str, &'static str, &'static str);

/// What all of them share; each changes what differs.
fn base() -> Experiment {
    Experiment {
        id: "hash-insert",
        origin: Origin::C,
        title: "Hash table: insert, no item with the key",
        x: "threads",
        y: "time per operation [ns]",
        unit: "ns",
        scales: (Scale::Log, Scale::Log),
        lower_is_better: true,
        chart: Chart::Box,
        notes: &[
            "Table of 2^16 slots, 2^15 insertions divided among the threads, every thread its own keys; keys are \
             random 64-bit numbers (source and tag), the same for each library, hashed by its own function. A sample \
             is a run: the mean over its threads of the time of an operation, each by its own clock.",
            "Caches are invalidated between runs: every core reads twice what the largest cache holds, after the table \
             has been made.",
            "\"handed in together\": Weft's insert_all, which fetches the buckets of the next eight keys; the others \
             have no such call.",
            "The source: flat at about 50 ns, libcuckoo and TBB above it and rising with the threads.",
        ],
        plan: hash_insert,
    }
}

/// The experiments, in the order of the page.
pub fn experiments() -> Vec<Experiment> {
    vec![
        base(),
        Experiment {
            id: "hash-match",
            title: "Hash table: insert finds the item, then erase",
            notes: &[
                "The keys are there: each thread inserts each of its keys, which finds it, and erases it. Weft does both \
                 in one call; libcuckoo has one for it too (uprase_fn), which is a line of its own. Else as \
                 hash-insert.",
                "In steady use: each thread inserts 256 keys and matches them, 40 times; time of one insertion or match, \
                 caches warm.",
            ],
            plan: hash_match,
            ..base()
        },
        Experiment {
            id: "packet-pool",
            title: "Packet pool: get, sleep, return",
            y: "time per get and return [ns]",
            notes: &[
                "A pool of 4096 packets. Each thread takes a random number of packets, at most 4096 / threads, sleeps for \
                 up to 20 µs, and returns them; 8 times a run. Sleep is not counted. Numbers from the same seed for \
                 each library.",
                "In steady use: each thread takes 8 and returns them, 5 000 times.",
                "The source: 100 to 150 ns, flat; stack and queue rise with the threads.",
            ],
            plan: packet_pool,
            ..base()
        },
        Experiment {
            id: "thread-scheduling",
            title: "Yield among many threads of one worker",
            y: "time of a yield [µs]",
            unit: "µs",
            chart: Chart::Line,
            notes: &[
                "So many threads of one worker on one core give way in turn; time of all yields over their number. The \
                 source's table (one figure each): POSIX threads 0.75, Argobots 0.08, its own 0.02 µs.",
                "Argobots is in no package registry: --peer argobots=PREFIX measures a build of yours. may does not always \
                 come to the end of this loop, with 2 048 coroutines and more never within 15 s: it is measured to 512. tokio's \
                 tasks have no stack: their yield is a return to the executor.",
            ],
            plan: thread_scheduling,
            ..base()
        },
        Experiment {
            id: "thread-signal",
            title: "Signal to threads of another worker",
            y: "time of a signal, at its sender [µs]",
            unit: "µs",
            chart: Chart::Line,
            notes: &[
                "So many threads wait on a worker of one core, a worker of another core signals each of them once; the \
                 sender's time over their number. POSIX threads and Boost.Fiber: mutex and condition, Argobots: \
                 eventual, may: unpark, tokio: Notify. The worker sleeps when the first signal comes; to wake it takes the \
                 sender 5 to 10 µs in every library, so with few targets that is what is measured. The source's table: POSIX threads 1.15, Argobots 0.30, its own 0.01 µs.",
            ],
            plan: thread_signal,
            ..base()
        },
        Experiment {
            id: "thread-create",
            title: "Create, run and join a thread",
            x: "",
            y: "time of one [ns]",
            chart: Chart::Bars,
            notes: &[
                "One after another, made and joined by a thread of the same kind and worker; stacks of 16 KiB where there \
                 are any, from a pool where the library has one. tokio's tasks have no stack.",
            ],
            plan: thread_create,
            ..base()
        },
    ]
}

/// Series of those that take part and are there.
fn series(
    participants: &Participants,
    panel: &str,
    parts: &[Entry],
    cells: impl Fn(&ComponentProgram, &str) -> Vec<(f64, Task)>,
) -> Vec<SeriesPlan> {
    let of_part = |(stem, subject, verb, variant): &Entry| {
        let program = participants.programs.iter().find(|one| one.stem == *stem)?;
        Some(SeriesPlan {
            role: program.role,
            subject: subject.to_string(),
            variant: variant.to_string(),
            panel: panel.into(),
            cells: cells(program, verb),
        })
    };
    parts.iter().filter_map(of_part).collect()
}

/// A sample is a whole run, so there are few in a turn and many in all.
fn runs(effort: Effort) -> Budget {
    Budget {
        least: effort.pick(6, 100),
        most: effort.pick(12, 1000),
        time: effort.pick(Duration::from_millis(150), Duration::from_secs(30)),
        launches: effort.pick(1, 5),
        ..budget(effort)
    }
}

fn threads(effort: Effort) -> Vec<usize> {
    effort.pick(vec![1, 2, 8, 32], vec![1, 2, 4, 8, 16, 32])
}

fn hash_lines(
    participants: &Participants,
    effort: Effort,
    panel: &str,
    mode: &str,
    parts: &[Entry],
) -> Vec<SeriesPlan> {
    let steady = mode == "steady";
    let sweep = match (steady, participants.cache) {
        (true, _) => 64,
        (_, 0) => 64 << 20,
        (_, cache) => (2 * cache).min(256 << 20),
    };
    series(participants, panel, parts, |program, verb| {
        let task = |threads: usize| {
            let (inserts, rounds) = if steady {
                (WINDOW * threads, 40)
            } else {
                (INSERTS, 1)
            };
            Task::Program {
                program: program.index,
                request: format!(
                    "{verb} mode={mode} threads={threads} size={TABLE} inserts={inserts} rounds={rounds} \
                     sweep={sweep} seed={SEED}"
                ),
                operations: (inserts * if steady { 2 * rounds } else { 1 }) as u64,
                convert: Convert::Nanoseconds,
            }
        };
        let places = threads(effort);
        places.into_iter().map(|x| (x as f64, task(x))).collect()
    })
}

const TABLES: [Entry; 3] = [
    ("weft", "Weft", "hash", ""),
    ("cuckoo", "libcuckoo", "hash", ""),
    ("tbb", "TBB concurrent_hash_map", "hash", ""),
];
const TOGETHER: Entry = ("weft", "Weft", "hash-all", "handed in together");
const ONE_CALL: Entry = ("cuckoo", "libcuckoo uprase_fn", "hash-one-call", "");

fn hash_insert(participants: &Participants, effort: Effort) -> Plan {
    let mut parts = TABLES.to_vec();
    parts.push(TOGETHER);
    Plan {
        budget: runs(effort),
        series: hash_lines(participants, effort, "", "insert", &parts),
        alone: false,
        limit: None,
    }
}

fn hash_match(participants: &Participants, effort: Effort) -> Plan {
    let mut parts = TABLES.to_vec();
    parts.extend([TOGETHER, ONE_CALL]);
    let mut series = hash_lines(participants, effort, SOURCE, "match", &parts);
    parts.retain(|part| *part != TOGETHER);
    series.extend(hash_lines(participants, effort, STEADY, "steady", &parts));
    Plan {
        budget: runs(effort),
        series,
        alone: false,
        limit: None,
    }
}

fn packet_pool(participants: &Participants, effort: Effort) -> Plan {
    let parts: [Entry; 3] = [
        ("weft", "Weft", "pool", ""),
        ("lockfree", "lock-free stack (Boost)", "pool-stack", ""),
        ("lockfree", "lock-free queue (Boost)", "pool-queue", ""),
    ];
    let panel = |panel: &str, mode: &str, rounds: u64| {
        series(participants, panel, &parts, |program, verb| {
            let task = |threads: usize| Task::Program {
                program: program.index,
                request: format!(
                    "{verb} mode={mode} threads={threads} packets={PACKETS} rounds={rounds} sleep=20000 \
                     seed={SEED}"
                ),
                operations: match mode {
                    "steady" => 800 * rounds,
                    _ => rounds * (PACKETS / threads) as u64 / 2,
                },
                convert: Convert::Nanoseconds,
            };
            let places = threads(effort);
            places.into_iter().map(|x| (x as f64, task(x))).collect()
        })
    };
    let mut series = panel(SOURCE, "source", 8);
    series.extend(panel(STEADY, "steady", 50));
    Plan {
        budget: runs(effort),
        series,
        alone: false,
        limit: None,
    }
}

/// Libraries of threads (program, name, verbs of the two experiments), each with how many threads it is measured at most (with --quick, and else).
const SCHEDULERS: [(Entry, usize, usize); 6] = [
    (("weft", "Weft fibers", "yield", "signal"), 65_536, 1 << 20),
    (("posix", "POSIX threads", "yield", "signal"), 512, 512),
    (
        ("boost_fiber", "Boost.Fiber", "yield", "signal"),
        4096,
        65_536,
    ),
    (
        ("tasks", "may (coroutines)", "yield-may", "signal-may"),
        512,
        512,
    ),
    (
        ("tasks", "tokio (tasks)", "yield-tokio", "signal-tokio"),
        65_536,
        1 << 20,
    ),
    (("argobots", "Argobots", "yield", "signal"), 65_536, 1 << 20),
];

fn scheduler_lines(
    participants: &Participants,
    effort: Effort,
    places: &[usize],
    signals: bool,
    task: impl Fn(&ComponentProgram, &str, usize) -> Task,
) -> Vec<SeriesPlan> {
    let mut all = Vec::new();
    for ((stem, name, yields, signal), quick, full) in SCHEDULERS {
        let most = effort.pick(quick, full);
        let part = (stem, name, if signals { signal } else { yields }, "");
        all.extend(series(participants, "", &[part], |program, verb| {
            let places = places.iter().filter(|count| **count <= most);
            places
                .map(|&count| (count as f64, task(program, verb, count)))
                .collect()
        }));
    }
    all
}

fn thread_scheduling(participants: &Participants, effort: Effort) -> Plan {
    let places = effort.pick(
        vec![2, 8, 64, 512, 4096, 65_536],
        vec![2, 8, 64, 512, 4096, 65_536, 262_144, 1 << 20],
    );
    let series = scheduler_lines(
        participants,
        effort,
        &places,
        false,
        |program, verb, count| {
            // The kernel's yields take a thousand times as long as others'.
            let yields = if program.stem == "posix" {
                4_000
            } else {
                200_000
            };
            let rounds = (yields / count).max(2);
            Task::Program {
                program: program.index,
                request: format!("{verb} count={count} rounds={rounds}"),
                operations: (count * rounds) as u64,
                convert: Convert::Microseconds,
            }
        },
    );
    Plan {
        budget: runs(effort),
        series,
        alone: false,
        limit: None,
    }
}

fn thread_create(participants: &Participants, effort: Effort) -> Plan {
    const PARTS: [Entry; 6] = [
        ("weft", "Weft fibers", "create", ""),
        ("posix", "POSIX threads", "create", ""),
        ("boost_fiber", "Boost.Fiber", "create", ""),
        ("tasks", "may (coroutines)", "create-may", ""),
        ("tasks", "tokio (tasks)", "create-tokio", ""),
        ("argobots", "Argobots", "create", ""),
    ];
    let series = series(participants, "", &PARTS, |program, verb| {
        let count = if program.stem == "posix" { 200 } else { 10_000 };
        let task = Task::Program {
            program: program.index,
            request: format!("{verb} count={count}"),
            operations: count,
            convert: Convert::Nanoseconds,
        };
        vec![(0.0, task)]
    });
    Plan {
        budget: runs(effort),
        series,
        alone: false,
        limit: None,
    }
}

fn thread_signal(participants: &Participants, effort: Effort) -> Plan {
    let places = [1, 8, 64, 512, 4096, 16_384];
    let series = scheduler_lines(
        participants,
        effort,
        &places,
        true,
        |program, verb, count| Task::Program {
            program: program.index,
            request: format!("{verb} count={count}"),
            operations: count as u64,
            convert: Convert::Microseconds,
        },
    );
    Plan {
        budget: Budget {
            turn: 5,
            ..runs(effort)
        },
        series,
        alone: false,
        limit: None,
    }
}
