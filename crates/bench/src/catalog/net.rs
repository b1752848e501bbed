//! Experiments of the datapath: systems of weft-net under UDP load of 1472 bytes.
//!
//! One measurement of a setting yields throughput, processor time and round trips at once, so that the panels
//! of a figure belong together.

use std::time::Duration;

use weft_net::client::Work;
use weft_net::description::{Description, DriverThreads, Run, WireDescription};
use weft_net::policy::Order;
use weft_net_testbed::measure::{Setting, Testbed};

use crate::catalog::datapath::{SOCKETS, STRAIGHT};
use crate::experiment::{
    Budget, Effort, Experiment, Metric, Origin, Participants, Plan, SeriesPlan, Task,
};
use crate::results::{Chart, Role, Scale};

/// One system of an experiment: its name, and its difference from equal echo clients.
struct Variant {
    name: &'static str,
    clients: usize,
    change: fn(&mut Description, u64),
    /// Mbit/s towards each client, from the Mbit/s on the axis; `None`: the same for all.
    rates: Option<fn(u64, usize) -> u64>,
}

const fn variant(name: &'static str, clients: usize, change: fn(&mut Description, u64)) -> Variant {
    Variant {
        name,
        clients,
        change,
        rates: None,
    }
}

/// The figures drawn besides throughput and processor time.
#[derive(Clone, Copy, PartialEq)]
enum Also {
    Nothing,
    RoundTrips,
    Received,
    Cores,
}

struct Row {
    id: &'static str,
    title: &'static str,
    also: Also,
    variants: &'static [Variant],
}

fn plain(_: &mut Description, _: u64) {}

fn two_threads(description: &mut Description, _: u64) {
    description.driver_threads = DriverThreads::Two;
}

/// A's client and copier above B's: B's run with the scheduler's lowest share.
fn a_over_b(description: &mut Description, _: u64) {
    for name in ["rx-copier-b", "b"] {
        description.nice.insert(name.into(), 19);
    }
}

fn overload(description: &mut Description, x: u64) {
    a_over_b(description, x);
    for client in &mut description.clients {
        client.work = Some(Work::ComputeHeavy { rounds: 10 });
    }
}

/// All components on core 0, except the named ones on core 1.
fn on_second(description: &mut Description, second: &[&str]) {
    let mut names = vec!["driver".to_owned(), "rx-mux".into(), "tx-mux".into()];
    for client in &description.clients {
        names.push(format!("rx-copier-{}", client.name));
        names.push(client.name.clone());
    }
    for name in names {
        let core = usize::from(second.iter().any(|word| name.starts_with(word)));
        description.cores.of.insert(name, core);
    }
}

static ROWS: [Row; 16] = [
    Row {
        id: "net-asymmetric",
        title: "Receive-mostly, transmit-mostly, transmit-initiated client, beside echo",
        also: Also::Received,
        variants: &[
            variant("echo", 1, plain),
            variant("receive-mostly", 1, |description, _| {
                description.clients[0].work = Some(Work::ReceiveMostly { every: 100 });
            }),
            Variant {
                name: "transmit-mostly",
                clients: 1,
                change: |description, _| {
                    description.clients[0].work = Some(Work::TransmitMostly { times: 10 });
                },
                rates: Some(|x, _| x.div_ceil(10)),
            },
            Variant {
                name: "transmit-initiated",
                clients: 1,
                change: |description, x| {
                    let bits = x * 1_000_000;
                    description.clients[0].work = Some(Work::TransmitInitiated { bits });
                },
                rates: Some(|_, _| 0),
            },
        ],
    },
    Row {
        id: "net-two-equal",
        title: "Two equal echo clients",
        also: Also::RoundTrips,
        variants: &[variant("", 2, plain)],
    },
    Row {
        id: "net-two-equal-rx16",
        title: "Two equal clients, receive queue of B limited to 16",
        also: Also::RoundTrips,
        variants: &[variant("", 2, |description, _| {
            description.clients[1].rx_queue = Some(16)
        })],
    },
    Row {
        id: "net-two-priority",
        title: "Two clients, A over B",
        also: Also::RoundTrips,
        variants: &[variant("", 2, a_over_b)],
    },
    Row {
        id: "net-two-overload",
        title: "A over B, each packet copied and summed 10 times",
        also: Also::RoundTrips,
        variants: &[variant("", 2, overload)],
    },
    Row {
        id: "net-two-overload-rx32",
        title: "The same, receive queue of B limited to 32",
        also: Also::RoundTrips,
        variants: &[variant("", 2, |description, x| {
            overload(description, x);
            description.clients[1].rx_queue = Some(32);
        })],
    },
    Row {
        id: "net-two-rxtx16",
        title: "A over B, both queues of B limited to 16",
        also: Also::RoundTrips,
        variants: &[variant("", 2, |description, x| {
            a_over_b(description, x);
            description.clients[1].rx_queue = Some(16);
            description.clients[1].tx_queue = Some(16);
        })],
    },
    Row {
        id: "net-tx-limited",
        title: "Transmit multiplexer that limits bandwidth: B to 100 Mbit/s",
        also: Also::RoundTrips,
        variants: &[variant("", 2, |description, _| {
            // 100 Mbit/s of payload, converted to whole frames.
            description.clients[1].limit = 100_000_000 * 1514 / 1472;
        })],
    },
    Row {
        id: "net-multicore",
        title: "One core, two cores, one thread, Linux",
        also: Also::RoundTrips,
        variants: &[
            variant("one core", 2, |description, _| on_second(description, &[])),
            variant("two cores", 2, plain),
            variant("fused in one thread", 2, |description, _| {
                description.run = Run::Fused
            }),
        ],
    },
    Row {
        id: "net-tx-round-robin",
        title: "Round-robin transmit multiplexer",
        also: Also::RoundTrips,
        variants: &[variant("", 2, |description, _| {
            description.policy.order = Order::RoundRobin
        })],
    },
    Row {
        id: "net-tx-priority",
        title: "Priority transmit multiplexer: A over B",
        also: Also::RoundTrips,
        variants: &[variant("", 2, |description, _| {
            description.policy.order = Order::Priority;
            description.clients[1].level = 1;
        })],
    },
    Row {
        id: "net-core-allocation",
        title: "Components alone on a second core",
        also: Also::Cores,
        variants: &[
            variant("all on one", 2, |description, _| {
                on_second(description, &[])
            }),
            variant("driver", 2, |description, _| {
                on_second(description, &["driver"])
            }),
            variant("multiplexers", 2, |description, _| {
                on_second(description, &["rx-mux", "tx-mux"])
            }),
            variant("copiers", 2, |description, _| {
                on_second(description, &["rx-copier"])
            }),
            variant("clients", 2, |description, _| {
                on_second(description, &["a", "b"])
            }),
        ],
    },
    Row {
        id: "net-driver-two-threads",
        title: "Driver of two threads",
        also: Also::Nothing,
        variants: &[
            variant("one thread", 2, plain),
            variant("two threads", 2, two_threads),
        ],
    },
    Row {
        id: "net-four-clients",
        title: "Four clients on several cores",
        also: Also::Nothing,
        variants: &[
            variant("one thread", 4, plain),
            variant("two threads", 4, two_threads),
        ],
    },
    Row {
        id: "net-four-clients-cores",
        title: "Four clients, utilisation of each core",
        also: Also::Cores,
        variants: &[
            variant("one thread", 4, plain),
            variant("two threads", 4, two_threads),
        ],
    },
    Row {
        id: "net-tx-copy",
        title: "Transmit copier",
        also: Also::RoundTrips,
        variants: &[
            variant("in place", 2, plain),
            variant("copied", 2, |description, _| {
                description
                    .clients
                    .iter_mut()
                    .for_each(|client| client.tx_copier = true);
            }),
        ],
    },
];

/// Notes on all of these.
const NOTES: [&str; 4] = [
    "x is what is asked of each client, y the payload of what came back or was sent unasked.",
    "virtual: a wire of 1 Gbit/s in the driver's thread, so the generator at its far end is part of the processor time; \
     components are threads of one process.",
    "veth: each component is a process (but where a line says fused), frames by the best driver that works, load from the \
     host's own stack.",
    "A over B: the scheduler gives B's copier and client its smallest share (nice 19), which is no strict priority.",
];

const THROUGHPUT: &str = "throughput [Mbit/s]";
const RECEIVED: &str = "received [Mbit/s]";
const MEDIAN: &str = "median round trip [µs]";
const TAIL: &str = "99th percentile [µs]";
const COMPONENTS: &str = "processor, components [% of a core]";
const ALL: &str = "processor, all with the generator [% of a core]";
const CORES: &str = "busy part of each core, with all other programs [%]";

/// In the order of the page.
const PANELS: [&str; 7] = [THROUGHPUT, RECEIVED, MEDIAN, TAIL, COMPONENTS, ALL, CORES];

/// The experiments.
pub fn experiments() -> Vec<Experiment> {
    let plans: [fn(&Participants, Effort) -> Plan; 16] = [
        plan::<0>, plan::<1>, plan::<2>, plan::<3>, plan::<4>, plan::<5>, plan::<6>, plan::<7>,
        plan::<8>, plan::<9>, plan::<10>, plan::<11>, plan::<12>, plan::<13>, plan::<14>,
        plan::<15>,
    ];
    let experiment = |(row, plan): (&Row, fn(&Participants, Effort) -> Plan)| Experiment {
        id: row.id,
        origin: Origin::E,
        title: row.title,
        x: "asked of each client [Mbit/s]",
        y: "see the panel",
        unit: "",
        scales: (Scale::Linear, Scale::Linear),
        lower_is_better: false,
        chart: Chart::Line,
        notes: &NOTES,
        plan,
    };
    ROWS.iter().zip(plans).map(experiment).collect()
}

fn plan<const ROW: usize>(_cast: &Participants, effort: Effort) -> Plan {
    let row = &ROWS[ROW];
    let most = if row.variants[0].clients > 2 {
        240
    } else {
        480
    };
    let asked: Vec<u64> = effort.pick(
        // As much as the wire carries, and more.
        vec![most / 2, most * 5 / 4],
        vec![
            most / 10,
            most / 5,
            most * 2 / 5,
            most * 3 / 5,
            most * 4 / 5,
            most,
            most * 5 / 4,
        ],
    );
    // A bucket may hold what a limit allows in 5 ms: over a shorter time the limit is not visible.
    let limited = row.id == "net-tx-limited";
    let milliseconds = effort.pick(if limited { 250 } else { 50 }, 1_000);
    let mut series = Vec::new();
    // Where the privilege for a veth is missing, the notes say so.
    for testbed in [Testbed::Virtual, Testbed::Veth] {
        for variant in row.variants {
            series.extend(series_of(row, variant, testbed, &asked, milliseconds));
        }
    }
    let first = &row.variants[0];
    series.extend(series_of(
        row,
        first,
        Testbed::Sockets,
        &asked,
        milliseconds,
    ));
    // By figure, in the same order for all.
    series.sort_by_key(|line| PANELS.iter().position(|&panel| panel == line.panel));
    Plan {
        budget: Budget {
            aim: 0.01,
            least: effort.pick(1, 10),
            most: effort.pick(1, 20),
            time: effort.pick(Duration::from_millis(500), Duration::from_secs(30)),
            sample: Duration::from_millis(milliseconds),
            turn: 1,
            launches: 1,
        },
        series,
        alone: true,
        limit: None,
    }
}

fn series_of(
    row: &Row,
    variant: &Variant,
    testbed: Testbed,
    asked: &[u64],
    milliseconds: u64,
) -> Vec<SeriesPlan> {
    let sockets = testbed == Testbed::Sockets;
    let (role, subject) = match testbed {
        Testbed::Virtual => (Role::Ours, "Weft, virtual"),
        Testbed::Veth => (Role::Ours, "Weft, veth"),
        Testbed::Sockets => (Role::Device, SOCKETS),
        Testbed::Reflector => (Role::Device, STRAIGHT),
    };
    let setting = |x: u64| {
        let mut description = Description::of(&vec![Work::Echo; variant.clients]);
        if testbed == Testbed::Veth {
            description.run = Run::Processes;
            description.wire = WireDescription::Veth { driver: None };
        }
        (variant.change)(&mut description, x);
        let rate = |client| variant.rates.map_or(x, |rates| rates(x, client));
        Setting {
            description,
            rates: (0..variant.clients).map(rate).collect(),
            testbed,
            apart: false,
        }
    };
    let line = |panel: &str, name: &str, metric: Metric| SeriesPlan {
        role,
        subject: subject.into(),
        variant: [variant.name, name]
            .into_iter()
            .filter(|part| !(part.is_empty() || sockets && *part == variant.name))
            .collect::<Vec<_>>()
            .join(", "),
        panel: panel.into(),
        cells: asked
            .iter()
            .map(|&x| {
                let setting = Box::new(setting(x));
                (
                    x as f64,
                    Task::Net {
                        setting,
                        metric,
                        milliseconds,
                    },
                )
            })
            .collect(),
    };
    let names = ["A", "B", "C", "D"];
    let mut series = Vec::new();
    for (client, name) in names.iter().take(variant.clients).enumerate() {
        series.push(line(THROUGHPUT, name, Metric::Rate(client)));
        if row.also == Also::Received && !sockets {
            series.push(line(RECEIVED, name, Metric::Received(client)));
        }
        if row.also == Also::RoundTrips {
            series.push(line(MEDIAN, name, Metric::RoundTrip(client, 0.5)));
            series.push(line(TAIL, name, Metric::RoundTrip(client, 0.99)));
        }
    }
    if variant.clients > 1 {
        series.push(line(THROUGHPUT, "together", Metric::Together));
    }
    if !sockets {
        series.push(line(COMPONENTS, "", Metric::Utilisation));
    }
    series.push(line(ALL, "", Metric::Process));
    if row.also == Also::Cores {
        for core in 0..2 {
            series.push(line(CORES, ["core 0", "core 1"][core], Metric::Core(core)));
        }
    }
    series
}
