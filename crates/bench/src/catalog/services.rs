//! Experiments of part A: the routines of the first source through mailboxes and portals, and over MPI.

use super::budget;
use crate::device::Device;
use crate::experiment::{
    Budget, Convert, Effort, Experiment, JobKey, Origin, Participants, Plan, Repeat, SeriesPlan,
    Task,
};
use crate::results::{Chart, Role, Scale};
use std::time::Duration;

/// Slaves of the source; with the master there are as many ranks and one.
const NODES: u32 = 16;

/// The routines of the source, and its published means for portals of 4 to 64 KiB [MiB/s].
const PORTAL: [(&str, [f64; 5]); 4] = [
    ("broadcast", [7.82, 8.80, 9.37, 9.76, 9.80]),
    ("gather", [61.4, 73.1, 80.4, 84.6, 86.8]),
    ("allgather", [133.5, 189.7, 233.1, 269.0, 296.5]),
    ("pingpong", [62.9, 74.9, 82.5, 86.9, 89.4]),
];

/// Where the source's means for mailboxes are known, and those in µs.
const PLACES: [u32; 9] = [1, 2, 4, 5, 8, 9, 12, 13, 16];
const MAILBOX: [(&str, [f64; 9]); 4] = [
    (
        "broadcast",
        [111., 235., 482., 695., 1064., 1277., 1644., 1860., 2224.],
    ),
    (
        "gather",
        [159., 193., 259., 292., 392., 425., 524., 555., 656.],
    ),
    (
        "allgather",
        [69., 121., 254., 316., 496., 569., 715., 785., 905.],
    ),
    (
        "pingpong",
        [189., 420., 861., 1084., 1746., 1964., 2631., 2853., 3516.],
    ),
];

/// The experiments.
pub fn experiments() -> Vec<Experiment> {
    vec![
        Experiment {
            id: "portal-throughput",
            origin: Origin::A,
            title: "Throughput of four routines through portals, 1 + 16 nodes",
            x: "block [KiB]",
            y: "throughput [MiB/s]",
            unit: "MiB/s",
            scales: (Scale::Log, Scale::Log),
            lower_is_better: false,
            chart: Chart::Line,
            notes: &[
                "As the source: barrier, exchange, the longest time of those who matter; the volume is that of one \
                 input: one block of a broadcast, 16 of the others. 10 iterations are discarded, then 40 make one \
                 sample (2 and 4 with --quick). Data are proven once, outside of the time.",
                "wall: from the barrier to the end of the exchange. counter: what ioctl says of the input; it does not \
                 count the time in a node's own write, during which data for it land already, and flatters allgather.",
                "allgather is the source's exchange of P - 1 steps (it calls it Bruck's); bruck is Bruck's algorithm \
                 of 5 steps, of 1, 2, 4, 8 and 1 blocks.",
                "Over MPI the same routines, by MPI_Send, MPI_Recv and MPI_Sendrecv, with 17 ranks; over TCP: loopback, \
                 nothing through shared memory.",
                "one way: one node to one other and back, halved; the data are written anew before each transfer, for the \
                 portal as for the memcpy between two cores. Ports and peers beside it should not show.",
                "Where the standard error is above 1 %: 17 processes share the cores, and how many turns of others an \
                 iteration takes is the kernel's choice. Of the services' barrier, as of the source's, the master is out \
                 first, and each slave has to be run once before it can write: gather is charged with that, while MPI's \
                 barriers may let the master out last.",
                "Source (published means): Kalray MPPA-256, one core of 400 MHz per node. Here 17 nodes share the \
                 cores of one machine: the exchanges of allgather cannot all run at once.",
            ],
            plan: portals,
        },
        Experiment {
            id: "mailbox-latency",
            origin: Origin::A,
            title: "Latency of four routines through mailboxes of 120 B",
            x: "slaves",
            y: "latency [µs]",
            unit: "µs",
            scales: (Scale::Linear, Scale::Log),
            lower_is_better: true,
            chart: Chart::Line,
            notes: &[
                "As portal-throughput, with one message of 120 B in place of a block.",
                "Source (published means): broadcast shows a step of about 90 µs at 5, 9 and 13 slaves, for four \
                 channels can be open there at once; nothing here has such steps.",
                "In shared memory a write costs about as much as a read, so broadcast may meet gather.",
            ],
            plan: mailboxes,
        },
    ]
}

/// Samples are means of many iterations each.
fn plan(effort: Effort, series: Vec<SeriesPlan>) -> Plan {
    Plan {
        budget: Budget {
            least: effort.pick(2, 20),
            most: effort.pick(3, 200),
            time: effort.pick(Duration::from_millis(10), Duration::from_secs(2)),
            turn: 1,
            launches: effort.pick(1, 3),
            ..budget(effort)
        },
        series,
        alone: false,
        limit: None,
    }
}

/// One routine of one implementation at one place.
fn task(implementation: usize, request: String, effort: Effort, convert: Convert) -> Task {
    let job = JobKey {
        implementation,
        ranks: NODES + 1,
        multiple: false,
    };
    let request = format!("{request} discard={}", effort.pick(2, 10));
    Task::Request {
        job,
        request,
        repeat: Repeat::Exactly(effort.pick(4, 40)),
        convert,
    }
}

/// The series of one routine: the services by both clocks, then each implementation of MPI; and the same
/// over TCP, of the peers not with `--quick`: 17 of their processes that spin on two cores take seconds.
fn series_of(
    participants: &Participants,
    panel: &str,
    effort: Effort,
    cells: impl Fn(usize, &str) -> Vec<(f64, Task)>,
) -> Vec<SeriesPlan> {
    let mut series = Vec::new();
    for implementation in &participants.implementations {
        let ours = implementation.role == Role::Ours;
        let mut line = |variant: &str, index: Option<usize>, how: &str| {
            series.extend(index.map(|index| SeriesPlan {
                role: implementation.role,
                subject: implementation.name.clone(),
                variant: variant.into(),
                panel: panel.into(),
                cells: cells(index, how),
            }));
        };
        let here = Some(implementation.index);
        if ours {
            line("services", here, "via=services metric=wall");
            line("services, counter", here, "via=services metric=counter");
            line(
                "services over TCP",
                implementation.over_tcp,
                "via=services metric=wall",
            );
        }
        line("MPI", here, "via=mpi metric=wall");
        if effort.pick(ours, true) {
            line(
                "MPI over TCP",
                implementation.over_tcp,
                "via=mpi metric=wall",
            );
        }
    }
    series
}

fn published(panel: &str, cells: Vec<(f64, Task)>) -> SeriesPlan {
    SeriesPlan {
        role: Role::Device,
        subject: "source (published)".into(),
        variant: String::new(),
        panel: panel.into(),
        cells,
    }
}

fn portals(participants: &Participants, effort: Effort) -> Plan {
    let sizes = effort.pick(vec![4, 64], vec![4, 8, 16, 32, 64]);
    let mut series = Vec::new();
    for call in ["broadcast", "gather", "allgather", "bruck", "pingpong"] {
        let volume = if call == "broadcast" {
            1.0
        } else {
            f64::from(NODES)
        };
        let cells = |implementation: usize, how: &str| {
            let cell = |&size: &u32| {
                let bytes = size * 1024;
                let request =
                    format!("routine service=portal call={call} size={bytes} nodes={NODES} {how}");
                let convert = Convert::Mebibytes(volume * f64::from(bytes));
                (
                    f64::from(size),
                    task(implementation, request, effort, convert),
                )
            };
            sizes.iter().map(cell).collect()
        };
        series.extend(series_of(participants, call, effort, cells));
        if let Some((_, means)) = PORTAL.iter().find(|(name, _)| *name == call) {
            let points = [4, 8, 16, 32, 64].into_iter().zip(means);
            let cells = points.filter(|(size, _)| sizes.contains(size));
            let cells = cells.map(|(size, mean)| (f64::from(size), Task::Published(*mean)));
            series.push(published(call, cells.collect()));
        }
    }
    series.extend(one_way(participants, "portal", &[65_536], |size| {
        Convert::Mebibytes(size as f64)
    }));
    plan(effort, series)
}

/// One node to one other: the services with few and many ports and peers, and what bounds them.
fn one_way(
    participants: &Participants,
    service: &str,
    sizes: &[usize],
    convert: impl Fn(usize) -> Convert,
) -> Vec<SeriesPlan> {
    let panel = "one way";
    // The place on the axis is that of the routines: KiB, or one slave.
    let place = |size: usize| {
        if service == "portal" {
            size as f64 / 1024.0
        } else {
            1.0
        }
    };
    let mut series = Vec::new();
    for implementation in participants
        .implementations
        .iter()
        .filter(|implementation| implementation.role == Role::Ours)
    {
        for (variant, ranks, ports) in [
            ("services", 2, 0),
            ("services, 200 ports more", 2, 200),
            ("services, 15 idle peers more", NODES + 1, 0),
        ] {
            let job = JobKey {
                implementation: implementation.index,
                ranks,
                multiple: false,
            };
            let task = |&size: &usize| {
                let request = format!("oneway service={service} size={size} ports={ports}");
                let repeat = Repeat::Timed;
                let convert = convert(size);
                (
                    place(size),
                    Task::Request {
                        job,
                        request,
                        repeat,
                        convert,
                    },
                )
            };
            series.push(SeriesPlan {
                role: implementation.role,
                subject: implementation.name.clone(),
                variant: variant.into(),
                panel: panel.into(),
                cells: sizes.iter().map(task).collect(),
            });
        }
    }
    let (device, bound) = match service {
        "portal" => (Device::Handover, 65_536),
        _ => (Device::CacheLine, 8),
    };
    series.push(SeriesPlan {
        role: Role::Device,
        subject: device.name().into(),
        variant: String::new(),
        panel: panel.into(),
        cells: vec![(
            place(bound),
            Task::Device {
                device,
                size: bound,
                convert: convert(bound),
            },
        )],
    });
    series
}

fn mailboxes(participants: &Participants, effort: Effort) -> Plan {
    let places = effort.pick(vec![1, 4, 16], (1..=NODES).collect::<Vec<_>>());
    let mut series = Vec::new();
    for (call, means) in MAILBOX {
        let cells = |implementation: usize, how: &str| {
            let cell = |&nodes: &u32| {
                let request =
                    format!("routine service=mailbox call={call} size=120 nodes={nodes} {how}");
                (
                    f64::from(nodes),
                    task(implementation, request, effort, Convert::Microseconds),
                )
            };
            places.iter().map(cell).collect()
        };
        series.extend(series_of(participants, call, effort, cells));
        let points = PLACES.into_iter().zip(means);
        let cells = points.filter(|(place, _)| places.contains(place));
        let cells = cells.map(|(place, mean)| (f64::from(place), Task::Published(mean)));
        series.push(published(call, cells.collect()));
    }
    series.extend(one_way(participants, "mailbox", &[120], |_| {
        Convert::Microseconds
    }));
    plan(effort, series)
}
