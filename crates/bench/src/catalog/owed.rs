//! Experiments that are listed but cannot run yet, with what they wait for.

use crate::experiment::{Build, Experiment, Part};
use crate::results::{Chart, Scale};

/// Id, part, title, and what is missing.
const OWED: [(&str, Part, &str, &str); 16] = [
    (
        "net-asymmetric",
        Part::E,
        "Receive-mostly, transmit-mostly, transmit-initiated client",
        NET,
    ),
    ("net-two-equal", Part::E, "Two equal echo clients", NET),
    (
        "net-two-equal-rx16",
        Part::E,
        "Two equal clients, receive queue of B limited to 16",
        NET,
    ),
    ("net-two-priority", Part::E, "Two clients, A over B", NET),
    (
        "net-two-overload",
        Part::E,
        "A over B, each packet copied and summed 10 times",
        NET,
    ),
    (
        "net-two-overload-rx32",
        Part::E,
        "The same, receive queue of B limited to 32",
        NET,
    ),
    (
        "net-two-rxtx16",
        Part::E,
        "A over B, both queues of B limited to 16",
        NET,
    ),
    (
        "net-tx-limited",
        Part::E,
        "Transmit multiplexer that limits bandwidth",
        NET,
    ),
    ("net-multicore", Part::E, "One core, two cores, Linux", NET),
    (
        "net-tx-round-robin",
        Part::E,
        "Round-robin transmit multiplexer",
        NET,
    ),
    (
        "net-tx-priority",
        Part::E,
        "Priority transmit multiplexer",
        NET,
    ),
    (
        "net-core-allocation",
        Part::E,
        "Components alone on a second core",
        NET,
    ),
    (
        "net-driver-two-threads",
        Part::E,
        "Driver of two threads",
        NET,
    ),
    (
        "net-four-clients",
        Part::E,
        "Four clients on several cores",
        NET,
    ),
    (
        "net-four-clients-cores",
        Part::E,
        "Four clients, utilisation of each core",
        NET,
    ),
    ("net-tx-copy", Part::E, "Transmit copier", NET),
];

const NET: &str = "the network datapath";

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
