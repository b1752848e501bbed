//! Experiments of the source documents that run today: parts B and D, and `latency-single` of C.

use super::{budget, encrypted, over_tcp, per_implementation, powers, raw_stream, timed};
use crate::device::Device;
use crate::experiment::{
    Budget, Convert, Effort, Experiment, JobKey, Origin, Participants, Plan, Repeat, SeriesPlan,
    Task,
};
use crate::results::{Chart, Role, Scale};
use std::time::Duration;

/// Note on the series with TCP in their name.
const TCP: &str = "TCP: both ranks on this host, told to talk over TCP (loopback): Weft by --fabric tcp, MPICH by \
                   MPIR_CVAR_NOLOCAL=1 with the tcp provider, Open MPI by --mca pml ob1 --mca btl tcp,self.";

/// Note on the device.
const RAW_STREAM: &str = "Device: the same back and forth by write and read on one TCP connection between two \
                          processes that spin, each reading into a buffer of a message, with a send buffer of 512 KiB.";

/// The experiments, in the order of the page.
pub fn experiments() -> Vec<Experiment> {
    vec![
        Experiment {
            id: "latency-single",
            origin: Origin::C,
            title: "Latency of one message between two ranks",
            x: "message size [B]",
            y: "latency [µs]",
            unit: "µs",
            scales: (Scale::Log, Scale::Log),
            lower_is_better: true,
            chart: Chart::Line,
            notes: &[
                "Half of a round trip, as the OSU latency test takes it. The source's figure ends at 16 KiB; the \
                 sizes beyond are the project's own.",
                "Devices: what the machine gives without any MPI. The cache line holds a few bytes whatever the \
                 axis says; the copy is one system call (process_vm_readv) between the two processes.",
                TCP,
            ],
            plan: latency_single,
        },
        send(
            "send-standard",
            "Standard send: bandwidth as the sender sees it",
            &[
                "As the source: 20 000 MPI_Send one way, the receiver only receives; bandwidth = 8 · size · samples / \
               (2^20 · (t2 − t1)), both times taken by the sender. One sample here is one such loop of 20 000.",
            ],
            |participants, effort| send_bandwidth(participants, effort, "standard", 20_000),
        ),
        delay(
            "send-standard-delay",
            "Standard send: delay of an empty message",
            &[
                "Mean time of a 0-byte MPI_Send over 20 000, taken by the sender, as in the source (there: 1 µs).",
            ],
            |participants, effort| send_delay(participants, effort, "standard", 20_000),
        ),
        send(
            "send-synchronous",
            "Synchronous send: bandwidth as the sender sees it",
            &[
                "As send-standard, with 1 000 MPI_Ssend per sample. In the source it grows in line with the size.",
            ],
            |participants, effort| send_bandwidth(participants, effort, "synchronous", 1_000),
        ),
        delay(
            "send-synchronous-delay",
            "Synchronous send: delay of an empty message",
            &[
                "Mean time of a 0-byte MPI_Ssend over 1 000, taken by the sender (in the source: 1 ms).",
            ],
            |participants, effort| send_delay(participants, effort, "synchronous", 1_000),
        ),
        throughput(
            "throughput-blocking",
            "Throughput back and forth, blocking, shared memory and TCP",
            &[
                "Barrier, then MPI_Send and MPI_Recv in turn until each side has sent 1 GB (2^30 bytes); all bytes of \
                 both directions over the time from the first rank's stamp to the second rank's end.",
                "With --quick each side sends 4 MiB per sample, in at least 4 and at most 2 000 messages.",
                TCP,
                RAW_STREAM,
            ],
            |participants, effort| throughput_plan(participants, effort, "blocking"),
        ),
        throughput(
            "throughput-nonblocking",
            "Throughput back and forth, non-blocking, shared memory and TCP",
            &[
                "As throughput-blocking with MPI_Isend, MPI_Irecv and MPI_Waitall: as in the source both directions \
                 are under way at once. The source used one buffer for both, which MPI forbids; here they are two.",
                "With --quick each side sends 4 MiB per sample, in at least 4 and at most 2 000 messages.",
                TCP,
                RAW_STREAM,
            ],
            |participants, effort| throughput_plan(participants, effort, "nonblocking"),
        ),
        Experiment {
            id: "latency-long",
            origin: Origin::D,
            title: "Latency of an 8-byte long, blocking and non-blocking, shared memory and TCP",
            x: "",
            y: "time of one message [ns]",
            unit: "ns",
            scales: (Scale::Linear, Scale::Linear),
            lower_is_better: true,
            chart: Chart::Bars,
            notes: &[
                "Total time over number of messages, 100 000 each way (2 000 with --quick). Non-blocking sends and \
                 receives at once, so two messages are under way: this is why it is ahead, here as in the source.",
                "The source over TCP between two hosts: blocking 34 086 ns, non-blocking 24 615 ns (means).",
                "The source on shared memory: blocking 685 ns (628 to 1013), non-blocking 494 ns (461 to 719), n = 100.",
                TCP,
            ],
            plan: latency_long,
        },
    ]
}

fn latency_single(participants: &Participants, effort: Effort) -> Plan {
    let sizes = effort.pick(
        vec![
            1,
            8,
            64,
            512,
            4096,
            16_384,
            65_536,
            262_144,
            1 << 20,
            4 << 20,
        ],
        powers(1, 4 << 20),
    );
    let convert = Convert::Microseconds;
    let request = |size: usize| format!("pingpong size={size}");
    let mut series = per_implementation(participants, "", "", |implementation| {
        sizes
            .iter()
            .map(|&size| {
                (
                    size as f64,
                    timed(implementation, 2, request(size), convert),
                )
            })
            .collect()
    });
    series.extend(per_implementation(
        participants,
        "MPI_THREAD_MULTIPLE",
        "",
        |implementation| {
            let job = JobKey {
                implementation,
                ranks: 2,
                multiple: true,
            };
            let task = |size| Task::Request {
                job,
                request: request(size),
                repeat: Repeat::Timed,
                convert,
            };
            sizes
                .iter()
                .map(|&size| (size as f64, task(size)))
                .collect()
        },
    ));
    let plain = |implementation| {
        sizes
            .iter()
            .map(|&size| {
                (
                    size as f64,
                    timed(implementation, 2, request(size), convert),
                )
            })
            .collect()
    };
    series.extend(over_tcp(participants, "TCP", plain));
    series.extend(encrypted(participants, plain));
    // The peers' thread-multiple latency is only part of the full picture.
    series.retain(|line| {
        line.variant != "MPI_THREAD_MULTIPLE" || line.role == Role::Ours || effort == Effort::Full
    });
    let device = |device: Device, low: usize, high: usize| {
        let places = sizes.iter().filter(|size| (low..=high).contains(*size));
        SeriesPlan {
            role: Role::Device,
            subject: device.name().into(),
            variant: String::new(),
            panel: String::new(),
            cells: places
                .map(|&size| {
                    (
                        size as f64,
                        Task::Device {
                            device,
                            size,
                            convert,
                        },
                    )
                })
                .collect(),
        }
    };
    series.push(device(Device::CacheLine, 1, 64));
    series.push(device(Device::UnixSocket, 1, 16_384));
    series.push(device(Device::Loopback, 1, 16_384));
    series.extend(bare_copy(participants, &sizes, 4096, |_| convert));
    Plan {
        budget: budget(effort),
        series,
        alone: false,
        limit: None,
    }
}

/// The copy between two processes, which needs two of them: those of the first implementation's job.
pub(super) fn bare_copy(
    participants: &Participants,
    sizes: &[usize],
    from: usize,
    convert: impl Fn(usize) -> Convert,
) -> Option<SeriesPlan> {
    let first = participants.implementations.first()?.index;
    let places = sizes.iter().filter(|size| **size >= from);
    Some(SeriesPlan {
        role: Role::Device,
        subject: "device: one copy between processes".into(),
        variant: String::new(),
        panel: String::new(),
        cells: places
            .map(|&size| {
                (
                    size as f64,
                    timed(first, 2, format!("copy size={size}"), convert(size)),
                )
            })
            .collect(),
    })
}

fn send(
    id: &'static str,
    title: &'static str,
    notes: &'static [&'static str],
    plan: fn(&Participants, Effort) -> Plan,
) -> Experiment {
    Experiment {
        id,
        origin: Origin::B,
        title,
        x: "message size [B]",
        y: "bandwidth [Mbit/s, 2^20]",
        unit: "Mbit/s",
        scales: (Scale::Linear, Scale::Linear),
        lower_is_better: false,
        chart: Chart::Line,
        notes,
        plan,
    }
}

fn delay(
    id: &'static str,
    title: &'static str,
    notes: &'static [&'static str],
    plan: fn(&Participants, Effort) -> Plan,
) -> Experiment {
    let (x, y, unit, chart) = ("", "delay [ms]", "ms", Chart::Bars);
    Experiment {
        x,
        y,
        unit,
        chart,
        lower_is_better: true,
        ..send(id, title, notes, plan)
    }
}

/// Few samples: each is already the mean of thousands of sends, and there are 2 049 sizes.
fn send_budget(effort: Effort) -> Budget {
    Budget {
        least: effort.pick(3, 6),
        most: effort.pick(4, 20),
        turn: 1,
        launches: effort.pick(1, 2),
        ..budget(effort)
    }
}

fn send_bandwidth(
    participants: &Participants,
    effort: Effort,
    mode: &'static str,
    samples: u64,
) -> Plan {
    let series = per_implementation(participants, "", "", |implementation| {
        let job = JobKey {
            implementation,
            ranks: 2,
            multiple: false,
        };
        let task = |size: usize| Task::Request {
            job,
            request: format!("stream mode={mode} size={size}"),
            repeat: Repeat::Exactly(samples),
            convert: Convert::BinaryMegabits(size as f64),
        };
        // Size 0 has no bandwidth; the source writes it as the point (0, 0).
        (1..=2048)
            .filter(|size| size % effort.pick(64, 1) == 0)
            .map(|size| (size as f64, task(size)))
            .collect()
    });
    Plan {
        budget: send_budget(effort),
        series,
        alone: false,
        limit: None,
    }
}

fn send_delay(
    participants: &Participants,
    effort: Effort,
    mode: &'static str,
    samples: u64,
) -> Plan {
    let series = per_implementation(participants, "", "", |implementation| {
        let job = JobKey {
            implementation,
            ranks: 2,
            multiple: false,
        };
        let (repeat, convert) = (Repeat::Exactly(samples), Convert::Milliseconds);
        vec![(
            0.0,
            Task::Request {
                job,
                request: format!("stream mode={mode} size=0"),
                repeat,
                convert,
            },
        )]
    });
    Plan {
        budget: Budget {
            least: effort.pick(6, 20),
            ..budget(effort)
        },
        series,
        alone: false,
        limit: None,
    }
}

fn throughput(
    id: &'static str,
    title: &'static str,
    notes: &'static [&'static str],
    plan: fn(&Participants, Effort) -> Plan,
) -> Experiment {
    Experiment {
        id,
        origin: Origin::D,
        title,
        x: "message size [B]",
        y: "throughput [MB/s]",
        unit: "MB/s",
        scales: (Scale::Log, Scale::Log),
        lower_is_better: false,
        chart: Chart::Range,
        notes,
        plan,
    }
}

fn throughput_plan(participants: &Participants, effort: Effort, mode: &'static str) -> Plan {
    let sizes = effort.pick(
        vec![64, 1024, 16_384, 65_536, 262_144, 1 << 20, 4 << 20],
        powers(64, 4 << 20),
    );
    let repeat = |size: usize| {
        Repeat::Exactly(effort.pick(((4 << 20) / size).clamp(4, 2000), (1 << 30) / size) as u64)
    };
    let convert = |size: usize| Convert::Megabytes(2.0 * size as f64);
    let cells = |implementation| {
        let job = JobKey {
            implementation,
            ranks: 2,
            multiple: false,
        };
        let task = |size: usize| Task::Request {
            job,
            request: format!("exchange mode={mode} size={size}"),
            repeat: repeat(size),
            convert: convert(size),
        };
        sizes
            .iter()
            .map(|&size| (size as f64, task(size)))
            .collect()
    };
    let mut series = per_implementation(participants, "", "", cells);
    series.extend(over_tcp(participants, "TCP", cells));
    series.extend(raw_stream(participants, mode, &sizes, repeat, convert));
    let budget = Budget {
        least: effort.pick(6, 20),
        most: effort.pick(10, 20),
        time: effort.pick(Duration::from_millis(30), Duration::from_secs(60)),
        turn: 1,
        launches: effort.pick(1, 4),
        ..budget(effort)
    };
    Plan {
        budget,
        series,
        alone: false,
        limit: None,
    }
}

fn latency_long(participants: &Participants, effort: Effort) -> Plan {
    let mut series = Vec::new();
    for (variant, mode) in [("blocking", "blocking"), ("non-blocking", "nonblocking")] {
        let cells = |implementation| {
            let job = JobKey {
                implementation,
                ranks: 2,
                multiple: false,
            };
            let request = format!("pingpong size=8 mode={mode}");
            let (repeat, convert) = (
                Repeat::Exactly(effort.pick(2_000, 100_000)),
                Convert::Nanoseconds,
            );
            vec![(
                8.0,
                Task::Request {
                    job,
                    request,
                    repeat,
                    convert,
                },
            )]
        };
        series.extend(per_implementation(participants, variant, "", cells));
        series.extend(over_tcp(participants, &format!("{variant}, TCP"), cells));
    }
    let budget = Budget {
        least: effort.pick(20, 100),
        most: effort.pick(60, 200),
        ..budget(effort)
    };
    Plan {
        budget,
        series,
        alone: false,
        limit: None,
    }
}
