//! Experiments on promises of the datapath beyond the sources: the cost of a packet and its growth, the
//! exactness of shares and limits, and the smallest parts alone.

use std::time::Duration;

use weft_net::client::Work;
use weft_net::description::{Description, Run, WireDescription, WireDriver};
use weft_net::policy::Order;
use weft_net_testbed::measure::{Setting, Testbed};
use weft_net_testbed::micro::Micro;

use crate::device::Device;
use crate::experiment::{
    Budget, Convert, Effort, Experiment, Metric, Origin, Participants, Plan, Promise, SeriesPlan,
    Task,
};
use crate::results::{Chart, Role, Scale};

const fn experiment(
    id: &'static str,
    title: &'static str,
    axes: (&'static str, &'static str, &'static str),
    scales: (Scale, Scale),
    notes: &'static [&'static str],
    plan: fn(&Participants, Effort) -> Plan,
) -> Experiment {
    let (x, y, unit) = axes;
    Experiment {
        id,
        origin: Origin::Beyond,
        title,
        x,
        y,
        unit,
        scales,
        lower_is_better: true,
        chart: Chart::Line,
        notes,
        plan,
    }
}

/// The experiments.
pub fn experiments() -> Vec<Experiment> {
    vec![
        experiment(
            "net-cost",
            "Cost of a packet, beside plain sockets",
            ("offered to A and B together [Mbit/s]", "see the panel", ""),
            (Scale::Linear, Scale::Linear),
            &[
                "Echo of A and B on a veth, 1472 bytes. The system, or the plain program of a thread and a socket for each \
                 client, has core 0, the generator core 1.",
                "Processor time is that of all that take part: components or program, generator, and the kernel on their \
                 behalf; time of other programs is not in it, nor what an idle core needs to wake.",
                "The device that sends frames straight back: one thread with an AF_XDP socket that swaps addresses and ports, \
                 without queues, clients and their stack. It has the same kernel and generator as the system: no system \
                 on this wire costs less.",
                "processes: each component has its own and maps what its role needs. fused: all in one thread, without \
                 protection.",
            ],
            cost,
        ),
        experiment(
            "net-cost-clients",
            "Cost of a packet as a system has more clients and rules",
            ("clients", "processor time of all for a packet [µs]", "µs"),
            (Scale::Log, Scale::Linear),
            &[
                "400 Mbit/s in all, spread over the echo clients, on a veth. With rules: each client has a weight and a \
                 limit that it does not reach.",
                "More clients at the same load means fewer packets for each wake-up of a client's process.",
            ],
            cost_clients,
        ),
        experiment(
            "net-shares",
            "Shares: weights against what was sent in one second",
            ("weight of the client", "difference from its share [%]", "%"),
            (Scale::Linear, Scale::Linear),
            &[
                "Four clients that always have something to send, weights 1 to 4, on the virtual wire of 1 Gbit/s.",
            ],
            shares,
        ),
        experiment(
            "net-limits",
            "Limits: what was allowed against what was sent in one second",
            (
                "limit [Mbit/s of payload]",
                "difference from the limit [%]",
                "%",
            ),
            (Scale::Log, Scale::Linear),
            &[
                "A client that always has something to send, beside one without a limit that does too, on the virtual wire \
                 of 1 Gbit/s.",
            ],
            limits,
        ),
        experiment(
            "net-queue",
            "Queue: push and pop of one item",
            ("items published at once", "time for an item [ns]", "ns"),
            (Scale::Log, Scale::Log),
            &[
                "On one core a thread pushes so many and takes them again; across cores one pushes, the other takes.",
            ],
            queue,
        ),
        experiment(
            "net-policy",
            "Policy: one decision",
            ("clients that have a frame", "time for a frame [ns]", "ns"),
            (Scale::Log, Scale::Linear),
            &[
                "Limited: each client may send 100 Mbit/s and asks for more, time passes only when all must wait: the worst \
                 case of a decision.",
            ],
            policy,
        ),
    ]
}

/// One measurement yields all figures of a setting.
fn budget(effort: Effort, milliseconds: u64, quick: usize) -> Budget {
    Budget {
        aim: 0.01,
        least: effort.pick(quick, 10),
        most: effort.pick(quick, 20),
        time: effort.pick(Duration::from_secs(1), Duration::from_secs(60)),
        sample: Duration::from_millis(milliseconds),
        turn: 1,
        launches: 1,
    }
}

fn echo(clients: usize, run: Run, driver: Option<WireDriver>) -> Description {
    let mut description = Description::of(&vec![Work::Echo; clients]);
    description.run = run;
    description.wire = WireDescription::Veth { driver };
    description
}

fn cost(_: &Participants, effort: Effort) -> Plan {
    let offered: Vec<u64> = effort.pick(
        vec![970, 2_000, 3_000],
        vec![100, 200, 500, 970, 1_500, 2_000, 2_500, 3_000, 4_000, 5_000],
    );
    let milliseconds = effort.pick(100, 500);
    let packet = Some(WireDriver::Packet);
    // Name in the legend; how the system is run, and its driver.
    let mut subjects = vec![
        ("processes", (Run::Processes, None)),
        ("fused", (Run::Fused, None)),
    ];
    if effort == Effort::Full {
        subjects.push(("threads", (Run::Threads, None)));
        subjects.push(("processes, packet sockets", (Run::Processes, packet)));
        subjects.push(("fused, packet sockets", (Run::Fused, packet)));
    }
    let panels = [
        ("processor time of all for a packet [µs]", Metric::Cost),
        ("throughput [Mbit/s]", Metric::Together),
        ("lost [%]", Metric::Lost),
        ("median round trip [µs]", Metric::RoundTrip(0, 0.5)),
        ("99th percentile [µs]", Metric::RoundTrip(0, 0.99)),
    ];
    let mut series = Vec::new();
    let ours = subjects
        .into_iter()
        .map(|(variant, system)| (Role::Ours, "Weft", variant, system, Testbed::Veth));
    let none = (Run::Threads, None);
    let devices = [(SOCKETS, Testbed::Sockets), (STRAIGHT, Testbed::Reflector)]
        .map(|(name, testbed)| (Role::Device, name, "", none, testbed));
    let subjects: Vec<_> = ours.chain(devices).collect();
    for (panel, metric) in panels {
        for &(role, subject, variant, (run, driver), testbed) in &subjects {
            let cell = |&rate: &u64| {
                let setting = Box::new(Setting {
                    description: echo(2, run, driver),
                    rates: vec![rate / 2; 2],
                    testbed,
                    apart: true,
                });
                let task = Task::Net {
                    setting,
                    metric,
                    milliseconds,
                };
                (rate as f64, task)
            };
            series.push(SeriesPlan {
                role,
                subject: subject.into(),
                variant: variant.into(),
                panel: panel.into(),
                cells: offered.iter().map(cell).collect(),
            });
        }
    }
    Plan {
        budget: budget(effort, milliseconds, 3),
        series,
        alone: true,
        limit: None,
    }
}

/// The name in the legend of a thread that sends frames straight back.
pub(crate) const STRAIGHT: &str = "device: frames sent straight back";

/// The plain program's name in the legend.
pub(crate) const SOCKETS: &str = "plain sockets, veth";

fn cost_clients(_: &Participants, effort: Effort) -> Plan {
    let milliseconds = effort.pick(100, 500);
    let counts: Vec<usize> = effort.pick(vec![1, 8, 32], vec![1, 2, 4, 8, 16, 32]);
    let line = |variant: &str, run: Option<Run>, rules: bool| {
        let cell = |&clients: &usize| {
            let mut description = echo(clients, run.unwrap_or(Run::Threads), None);
            if rules {
                description.policy.order = Order::Weighted;
                for (index, client) in description.clients.iter_mut().enumerate() {
                    client.weight = 1 + index as u32 % 4;
                    client.limit = 900_000_000;
                }
            }
            let setting = Box::new(Setting {
                description,
                rates: vec![400 / clients as u64; clients],
                testbed: if run.is_some() {
                    Testbed::Veth
                } else {
                    Testbed::Sockets
                },
                apart: true,
            });
            let task = Task::Net {
                setting,
                metric: Metric::Cost,
                milliseconds,
            };
            (clients as f64, task)
        };
        SeriesPlan {
            role: if run.is_some() {
                Role::Ours
            } else {
                Role::Device
            },
            subject: if run.is_some() {
                "Weft".into()
            } else {
                SOCKETS.into()
            },
            variant: variant.into(),
            panel: String::new(),
            cells: counts.iter().map(cell).collect(),
        }
    };
    Plan {
        budget: budget(effort, milliseconds, 1),
        series: vec![
            line("processes", Some(Run::Processes), false),
            line("processes, with rules", Some(Run::Processes), true),
            line("fused", Some(Run::Fused), false),
            line("fused, with rules", Some(Run::Fused), true),
            line("", None, false),
        ],
        alone: true,
        limit: None,
    }
}

/// Clients that always have something to send, on the virtual wire.
fn hogs(clients: usize) -> Setting {
    Setting {
        description: Description::of(&vec![
            Work::TransmitInitiated {
                bits: 1_000_000_000
            };
            clients
        ]),
        rates: vec![0; clients],
        testbed: Testbed::Virtual,
        apart: false,
    }
}

const SECOND: u64 = 1_000;

fn shares(_: &Participants, effort: Effort) -> Plan {
    let mut setting = hogs(4);
    setting.description.policy.order = Order::Weighted;
    for (index, client) in setting.description.clients.iter_mut().enumerate() {
        client.weight = 1 + index as u32;
    }
    let cell = |client: usize| {
        let weight = (1 + client) as f64;
        let task = Task::Net {
            setting: Box::new(setting.clone()),
            metric: Metric::Deviation(client, Promise::Share(weight / 10.0)),
            milliseconds: SECOND,
        };
        (weight, task)
    };
    Plan {
        budget: budget(effort, SECOND, 1),
        series: vec![line_of("", (0..4).map(cell).collect())],
        alone: true,
        limit: None,
    }
}

fn limits(_: &Participants, effort: Effort) -> Plan {
    let rates: Vec<u64> = effort.pick(vec![20, 100, 300], vec![5, 10, 20, 50, 100, 200, 300, 400]);
    let cell = |&rate: &u64| {
        let mut setting = hogs(2);
        // A limit counts whole frames.
        setting.description.clients[0].limit = rate * 1_000_000 * 1514 / 1472;
        let task = Task::Net {
            setting: Box::new(setting),
            metric: Metric::Deviation(0, Promise::Rate(rate as f64)),
            milliseconds: SECOND,
        };
        (rate as f64, task)
    };
    Plan {
        budget: budget(effort, SECOND, 1),
        series: vec![line_of("", rates.iter().map(cell).collect())],
        alone: true,
        limit: None,
    }
}

fn line_of(variant: &str, cells: Vec<(f64, Task)>) -> SeriesPlan {
    SeriesPlan {
        role: Role::Ours,
        subject: "Weft".into(),
        variant: variant.into(),
        panel: String::new(),
        cells,
    }
}

fn micro(variant: &str, part: Micro, sizes: &[usize]) -> SeriesPlan {
    let cell = |&size: &usize| {
        let task = Task::Device {
            device: Device::Datapath(part),
            size,
            convert: Convert::Nanoseconds,
        };
        (size as f64, task)
    };
    line_of(variant, sizes.iter().map(cell).collect())
}

fn queue(_: &Participants, effort: Effort) -> Plan {
    let sizes = super::powers(1, 64);
    Plan {
        budget: super::budget(effort),
        series: vec![
            micro("one core", Micro::OneCore, &sizes),
            micro("two cores", Micro::TwoCores, &sizes),
        ],
        alone: true,
        limit: None,
    }
}

fn policy(_: &Participants, effort: Effort) -> Plan {
    let clients = super::powers(1, 64);
    let orders = [
        ("who signalled", Order::Signalled),
        ("round robin", Order::RoundRobin),
        ("weighted", Order::Weighted),
        ("priority", Order::Priority),
    ];
    let line = |(name, order): (&str, Order)| micro(name, Micro::Policy(order, false), &clients);
    let mut series: Vec<SeriesPlan> = orders.into_iter().map(line).collect();
    let limited = Micro::Policy(Order::RoundRobin, true);
    series.push(micro("round robin, limited", limited, &clients));
    Plan {
        budget: super::budget(effort),
        series,
        alone: true,
        limit: None,
    }
}
