//! Experiments that are listed but cannot run yet, with what they wait for.

use crate::experiment::{Build, Experiment, Part};
use crate::results::{Chart, Scale};

/// Id, part, title, and what is missing.
const OWED: [(&str, Part, &str, &str); 9] = [
    (
        "portal-throughput",
        Part::A,
        "Throughput of broadcast, gather, allgather, ping-pong through portals",
        MAILBOX,
    ),
    (
        "mailbox-latency",
        Part::A,
        "Latency of broadcast, gather, allgather, ping-pong through mailboxes",
        MAILBOX,
    ),
    (
        "hash-insert",
        Part::C,
        "Hash table: insert, no item with the key",
        TABLE,
    ),
    (
        "hash-match",
        Part::C,
        "Hash table: insert finds the item, then erase",
        TABLE,
    ),
    (
        "thread-scheduling",
        Part::C,
        "Yield among many threads",
        FIBERS,
    ),
    (
        "thread-signal",
        Part::C,
        "Signal to a thread of another worker",
        FIBERS,
    ),
    (
        "packet-pool",
        Part::C,
        "Packet pool: get, sleep, return",
        TABLE,
    ),
    (
        "latency-threads-size",
        Part::C,
        "Latency of 14 threads a side, against size",
        FIBERS,
    ),
    (
        "latency-threads-count",
        Part::C,
        "Latency of 64 B, against the number of threads",
        FIBERS,
    ),
];

const MAILBOX: &str = "the mailbox and portal commands of the library";
const FIBERS: &str = "fibers";
const TABLE: &str = "the compared structures from other packages";

/// The experiments.
pub fn experiments() -> Vec<Experiment> {
    let owed =
        |(id, part, title, missing): (&'static str, Part, &'static str, &'static str)| Experiment {
            id,
            part,
            title,
            x: "",
            y: "",
            unit: "",
            scales: (Scale::Linear, Scale::Linear),
            lower_is_better: true,
            chart: Chart::Line,
            notes: &[],
            build: Build::Missing(missing),
        };
    OWED.into_iter().map(owed).collect()
}
