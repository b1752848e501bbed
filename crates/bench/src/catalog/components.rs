//! Experiments of the third source document on single components: matching table, packet pool, scheduler
//! of threads. Each runs the same loop in a program for each library (`crates/bench/peers`, ours in
//! `crates/bench/src/components`).

use super::budget;
use crate::experiment::{
    Budget, ComponentProgram, Convert, Effort, Experiment, Origin, Participants, Plan, SeriesPlan,
    Task,
};
use crate::results::{Chart, Role, Scale};
use std::time::Duration;

/// Initial slots of a table, as in the source.
const TABLE: usize = 1 << 16;
/// Insertions of all threads together: half of the slots, so that no table grows.
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

/// Panel of the source's measurement, if there is another panel.
const SOURCE: &str = "as the source";
/// Panel of a measurement that is not in the source.
const STEADY: &str = "in steady use";

/// A library that takes part in an experiment: a series, if its program is there.
#[derive(Clone, Copy, PartialEq)]
struct Contender {
    /// Stem of its program's source in `crates/bench/peers`.
    stem: &'static str,
    /// Name in the legend.
    name: &'static str,
    /// Verb of the request to its program.
    verb: &'static str,
    /// The parameter that varies besides x and the library.
    variant: &'static str,
    /// Whether it is the machine that is measured, under our loop.
    is_device: bool,
}

const fn contender(stem: &'static str, name: &'static str, verb: &'static str) -> Contender {
    Contender {
        stem,
        name,
        verb,
        variant: "",
        is_device: false,
    }
}

/// A device, under the loops of our program.
const fn device(name: &'static str, verb: &'static str) -> Contender {
    Contender {
        is_device: true,
        ..contender("weft", name, verb)
    }
}

/// A library of threads, and the most threads with which it is measured.
struct Scheduler {
    stem: &'static str,
    name: &'static str,
    /// Verbs of the requests to its program in the two experiments; empty: it takes no part.
    yields: &'static str,
    signals: &'static str,
    /// The most threads with `--quick`, and otherwise.
    quick: usize,
    full: usize,
}

/// An experiment with the fields that all of them share.
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
            "The device is no table: it takes a cache line for each key by one exchange, compares and writes a key there, and releases \
             it; as many lines as the table has, in the same loop and threads. Below it is no table that keeps a key in a line.",
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
                "The device is no scheduler: it writes two cache lines of each stack in turn, at the distances of our stacks, \
                 as a switch does at least.",
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

/// Series of the participants that exist.
fn series(
    participants: &Participants,
    panel: &str,
    contenders: &[Contender],
    cells: impl Fn(&ComponentProgram, &str) -> Vec<(f64, Task)>,
) -> Vec<SeriesPlan> {
    let of_contender = |contender: &Contender| {
        let mut programs = participants.programs.iter();
        let program = programs.find(|program| program.stem == contender.stem)?;
        Some(SeriesPlan {
            role: if contender.is_device {
                Role::Device
            } else {
                program.role
            },
            subject: contender.name.into(),
            variant: contender.variant.into(),
            panel: panel.into(),
            cells: cells(program, contender.verb),
        })
    };
    contenders.iter().filter_map(of_contender).collect()
}

/// A sample is a whole run, so a turn has few, and there are many in all.
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

fn hash_series(
    participants: &Participants,
    effort: Effort,
    panel: &str,
    mode: &str,
    contenders: &[Contender],
) -> Vec<SeriesPlan> {
    let steady = mode == "steady";
    let sweep = match (steady, participants.cache) {
        (true, _) => 64,
        (_, 0) => 64 << 20,
        (_, cache) => (2 * cache).min(256 << 20),
    };
    series(participants, panel, contenders, |program, verb| {
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

const TABLES: [Contender; 3] = [
    contender("weft", "Weft", "hash"),
    contender("cuckoo", "libcuckoo", "hash"),
    contender("tbb", "TBB concurrent_hash_map", "hash"),
];
const TOGETHER: Contender = Contender {
    variant: "handed in together",
    ..contender("weft", "Weft", "hash-all")
};
const ONE_CALL: Contender = contender("cuckoo", "libcuckoo uprase_fn", "hash-one-call");

/// Name of the device that takes a cache line for each key.
pub(crate) const ONE_LINE: &str = "device: a cache line for each key";
/// Name of the device that does what the switches do to memory.
const STACKS: &str = "device: stacks touched in turn";

fn hash_insert(participants: &Participants, effort: Effort) -> Plan {
    let mut contenders = TABLES.to_vec();
    contenders.extend([TOGETHER, device(ONE_LINE, "hash-lines")]);
    Plan {
        budget: runs(effort),
        series: hash_series(participants, effort, "", "insert", &contenders),
        alone: false,
        limit: None,
    }
}

fn hash_match(participants: &Participants, effort: Effort) -> Plan {
    let mut contenders = TABLES.to_vec();
    contenders.extend([TOGETHER, ONE_CALL, device(ONE_LINE, "hash-lines")]);
    let mut series = hash_series(participants, effort, SOURCE, "match", &contenders);
    contenders.retain(|one| *one != TOGETHER);
    series.extend(hash_series(
        participants,
        effort,
        STEADY,
        "steady",
        &contenders,
    ));
    Plan {
        budget: runs(effort),
        series,
        alone: false,
        limit: None,
    }
}

fn packet_pool(participants: &Participants, effort: Effort) -> Plan {
    let contenders: [Contender; 3] = [
        contender("weft", "Weft", "pool"),
        contender("lockfree", "lock-free stack (Boost)", "pool-stack"),
        contender("lockfree", "lock-free queue (Boost)", "pool-queue"),
    ];
    let panel = |panel: &str, mode: &str, rounds: u64| {
        series(participants, panel, &contenders, |program, verb| {
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

/// The libraries of threads, and the memory of their stacks without any.
const SCHEDULERS: [Scheduler; 7] = [
    Scheduler {
        stem: "weft",
        name: "Weft fibers",
        yields: "yield",
        signals: "signal",
        quick: 65_536,
        full: 1 << 20,
    },
    Scheduler {
        stem: "posix",
        name: "POSIX threads",
        yields: "yield",
        signals: "signal",
        quick: 512,
        full: 512,
    },
    Scheduler {
        stem: "boost_fiber",
        name: "Boost.Fiber",
        yields: "yield",
        signals: "signal",
        quick: 4096,
        full: 65_536,
    },
    Scheduler {
        stem: "tasks",
        name: "may (coroutines)",
        yields: "yield-may",
        signals: "signal-may",
        quick: 512,
        full: 512,
    },
    Scheduler {
        stem: "tasks",
        name: "tokio (tasks)",
        yields: "yield-tokio",
        signals: "signal-tokio",
        quick: 65_536,
        full: 1 << 20,
    },
    Scheduler {
        stem: "argobots",
        name: "Argobots",
        yields: "yield",
        signals: "signal",
        quick: 65_536,
        full: 1 << 20,
    },
    Scheduler {
        stem: "weft",
        name: STACKS,
        yields: "stacks",
        signals: "",
        quick: 65_536,
        full: 1 << 20,
    },
];

fn scheduler_series(
    participants: &Participants,
    effort: Effort,
    places: &[usize],
    signals: bool,
    task: impl Fn(&ComponentProgram, &str, usize) -> Task,
) -> Vec<SeriesPlan> {
    let mut all = Vec::new();
    for scheduler in SCHEDULERS {
        let most = effort.pick(scheduler.quick, scheduler.full);
        let verb = if signals {
            scheduler.signals
        } else {
            scheduler.yields
        };
        if verb.is_empty() {
            continue;
        }
        let contender = Contender {
            is_device: scheduler.name == STACKS,
            ..contender(scheduler.stem, scheduler.name, verb)
        };
        all.extend(series(participants, "", &[contender], |program, verb| {
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
    let series = scheduler_series(
        participants,
        effort,
        &places,
        false,
        |program, verb, count| {
            // The kernel's yields take a thousand times as long as the others.
            let yields = if program.stem == "posix" {
                4_000
            } else {
                200_000
            };
            // The end of each thread is in the time as well: at 65536 and three rounds it was three quarters of it.
            let enough = (4_000_000 / count).min(30);
            let rounds = (yields / count).max(enough).max(2);
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
    const CONTENDERS: [Contender; 6] = [
        contender("weft", "Weft fibers", "create"),
        contender("posix", "POSIX threads", "create"),
        contender("boost_fiber", "Boost.Fiber", "create"),
        contender("tasks", "may (coroutines)", "create-may"),
        contender("tasks", "tokio (tasks)", "create-tokio"),
        contender("argobots", "Argobots", "create"),
    ];
    let series = series(participants, "", &CONTENDERS, |program, verb| {
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
    let series = scheduler_series(
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
