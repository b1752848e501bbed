//! Experiments beyond the sources: the project's own promises of speed, each beside the peers.

use super::scaling::{
    collectives_forms, collectives_ranks, collectives_small, growth, matching_depth,
};
use super::sources::bare_copy;
use super::{
    budget, encrypted, over_libfabric, over_tcp, pair, per_implementation, powers, raw_stream,
    timed,
};
use crate::device::Device;
use crate::experiment::{
    Budget, Convert, Effort, Experiment, JobKey, Origin, Participants, Plan, Repeat, SeriesPlan,
    Task,
};
use crate::results::{Chart, Role, Scale};
use std::time::Duration;

/// Messages in one window of the bandwidth test.
const WINDOW: usize = 64;

/// An experiment with the fields that all of them share.
fn base(
    id: &'static str,
    title: &'static str,
    plan: fn(&Participants, Effort) -> Plan,
) -> Experiment {
    Experiment {
        id,
        origin: Origin::Beyond,
        title,
        x: "message size [B]",
        y: "time [µs]",
        unit: "µs",
        scales: (Scale::Log, Scale::Log),
        lower_is_better: true,
        chart: Chart::Line,
        notes: &[],
        plan,
    }
}

/// The experiments, in the order of the page.
pub fn experiments() -> Vec<Experiment> {
    let scales = (Scale::Linear, Scale::Log);
    let bars = |experiment: Experiment| Experiment {
        x: "",
        chart: Chart::Bars,
        ..experiment
    };
    let linear = (Scale::Linear, Scale::Linear);
    vec![
        Experiment {
            id: "ofi-latency",
            origin: Origin::Beyond,
            title: "Latency of one message by libfabric's provider tcp",
            x: "message size [B]",
            y: "latency [µs]",
            unit: "µs",
            scales: (Scale::Log, Scale::Log),
            lower_is_better: true,
            chart: Chart::Line,
            notes: &[
                "Half of a round trip. Both ranks on this host, told to talk by libfabric's provider tcp (loopback): Weft by \
                 --fabric ofi:tcp, MPICH by MPIR_CVAR_NOLOCAL=1 and FI_PROVIDER=tcp, Open MPI by its mtl ofi. Where a peer brings a \
                 libfabric, Weft loads that one (WEFT_LIBFABRIC).",
                "TCP: the same without libfabric, by Weft's own use of sockets (--fabric tcp).",
            ],
            plan: ofi_latency,
        },
        Experiment {
            y: "bandwidth [MB/s]",
            unit: "MB/s",
            lower_is_better: false,
            notes: &[
                "Windows of 64 MPI_Isend from one buffer to one buffer, then a 4-byte answer, as the OSU bandwidth test.",
                "Device series: memcpy within one thread; one process_vm_readv per message between two processes; a raw \
                 TCP stream over loopback between two processes that spin: 64 times write of a message, read into a \
                 buffer of a message, and then the same 4-byte answer. Its send buffer is 512 KiB, with which large messages \
                 are quicker than with the kernel's choice.",
                "TCP: both ranks on this host, told to talk over TCP as in latency-single; encrypted: mpiexec --encrypt.",
            ],
            ..base(
                "bandwidth",
                "Bandwidth with a window of 64 messages",
                bandwidth,
            )
        },
        Experiment {
            y: "messages [million/s]",
            unit: "million/s",
            lower_is_better: false,
            notes: &["Windows of 64 messages one way; messages over time, answers not counted."],
            ..base(
                "message-rate",
                "Rate of small messages with a window of 64",
                message_rate,
            )
        },
        Experiment {
            y: "time recorded over time as it is",
            unit: "",
            notes: &[
                "Windows of 64 messages one way, as message-rate: ours with mpiexec --profile or --timeline, and as it is, one right \
                 after the other, each first in every other turn; a sample is the ratio. What is recorded goes to /dev/null at the end.",
            ],
            ..base(
                "profile-cost",
                "Cost of a profile and of a timeline",
                profile_cost,
            )
        },
        Experiment {
            notes: &[
                "Two ranks on cores of their own. Each call timed on every rank, an untimed barrier after it; a sample \
                 is the mean over iterations and ranks (the OSU loop). A barrier, which has no size, stands at 1 B.",
                "Flags in shared memory: the same among two processes without a library, each on a core, that set a flag of their \
                 own, read that of the other, and copy up to 4 KiB that stand beside it; in the same loop, in the same run.",
            ],
            ..base(
                "collectives-small",
                "Collectives of two ranks",
                collectives_small,
            )
        },
        Experiment {
            notes: &[
                "Two ranks on cores of their own, blocks of so many bytes; timed as in collectives-small. Non-blocking calls are begun and \
                 waited for at once. A barrier stands at 1 B.",
            ],
            ..base(
                "collectives-forms",
                "Other collectives of two ranks, and non-blocking ones",
                collectives_forms,
            )
        },
        Experiment {
            x: "ranks",
            scales,
            notes: &[
                "More ranks than cores: here the waiting strategy decides. Timed as in collectives-small.",
                "Context-switch limit: where all wait for all, each rank has to run once: ranks / cores times a switch between two \
                 processes that yield one core to each other, measured in the same run.",
                "Flags in shared memory: so many processes without a library, each on one core in turn, that set a flag of their own and \
                 read those of the others. One that waits for another of its core yields it at once, else after 48 looks. Where not all \
                 wait for all, the time depends on who leaves the untimed barrier first, so there is no such line.",
                "No implementation is given any setting; Open MPI is told to accept more ranks than cores, or it \
                 refuses.",
            ],
            ..base(
                "collectives-ranks",
                "Collectives against the number of ranks",
                collectives_ranks,
            )
        },
        Experiment {
            x: "messages waiting",
            y: "time per message [ns]",
            unit: "ns",
            notes: &[
                "So many receives posted, or so many unexpected messages arrived, one tag each; then all are matched \
                 in the order of the panel. Time over number of messages, as the receiver sees it.",
                "One message waiting includes the way there (posted) or the cost of one receive (unexpected).",
            ],
            ..base(
                "matching-depth",
                "Cost of matching among many",
                matching_depth,
            )
        },
        Experiment {
            x: "ranks",
            y: "time from start to end of mpiexec [ms]",
            unit: "ms",
            notes: &[
                "mpiexec -n N of a program that calls MPI_Init and MPI_Finalize; the first start is discarded.",
            ],
            ..base("startup", "Start and end of a job", startup)
        },
        Experiment {
            y: "processor time of a rank blocked in MPI_Recv [% of a core]",
            unit: "%",
            scales: linear,
            notes: &[
                "Two ranks; one blocked in MPI_Recv for 4 s (0.3 s with --quick), the other asleep outside of MPI. \
                      From getrusage, all threads of the blocked rank.",
            ],
            ..bars(base("idle-cpu", "What a blocked receive costs", idle_cpu))
        },
        Experiment {
            y: "proportional set size of a rank [MB]",
            unit: "MB",
            scales: linear,
            notes: &[
                "Four idle ranks that have talked to each other once; pages shared by n processes count 1/n. \
                      One sample per rank.",
            ],
            ..bars(base("memory", "Memory of an idle rank of four", memory))
        },
        Experiment {
            y: "share of a core of the slower one [%]",
            unit: "%",
            lower_is_better: false,
            scales: linear,
            notes: &[
                "Two jobs of one rank each compute at once without communicating; 100 % is a core each.",
            ],
            ..bars(base("two-jobs", "Two jobs at once", two_jobs))
        },
        Experiment {
            x: "how many",
            y: "latency of 8 B [µs]",
            notes: &[
                "Ping-pong of 8 B between ranks 0 and 1 while one thing grows. Ranks: others sleep outside of MPI. Idle \
                 peers: others are blocked in MPI_Recv. Communicators: on the last of so many duplicates. Posted \
                 receives: beside so many that nothing matches.",
            ],
            ..base("growth", "How latency grows with what is not used", growth)
        },
    ]
}

fn ofi_latency(participants: &Participants, effort: Effort) -> Plan {
    let sizes = effort.pick(vec![8, 4096, 65_536, 1 << 20], powers(8, 4 << 20));
    let cells = |implementation| {
        let task = |size: usize| {
            let request = format!("pingpong size={size}");
            timed(implementation, 2, request, Convert::Microseconds)
        };
        sizes
            .iter()
            .map(|&size| (size as f64, task(size)))
            .collect()
    };
    let mut series = over_libfabric(participants, "libfabric, tcp", cells);
    let plain = over_tcp(participants, "TCP", cells);
    series.extend(plain.into_iter().filter(|line| line.role == Role::Ours));
    Plan {
        budget: budget(effort),
        series,
        alone: false,
        limit: None,
    }
}

fn bandwidth(participants: &Participants, effort: Effort) -> Plan {
    let sizes = effort.pick(
        vec![8, 64, 512, 4096, 32_768, 262_144, 524_288, 1 << 20, 4 << 20],
        powers(1, 4 << 20),
    );
    let cells = |implementation| {
        let task = |size: usize| {
            let request = format!("bandwidth size={size} window={WINDOW}");
            timed(
                implementation,
                2,
                request,
                Convert::Megabytes((size * WINDOW) as f64),
            )
        };
        sizes
            .iter()
            .map(|&size| (size as f64, task(size)))
            .collect()
    };
    let mut series = per_implementation(participants, "", "", cells);
    series.extend(over_tcp(participants, "TCP", cells));
    series.extend(encrypted(participants, cells));
    series.extend(raw_stream(
        participants,
        &format!("window window={WINDOW}"),
        &sizes,
        |_| Repeat::Timed,
        |size| Convert::Megabytes((size * WINDOW) as f64),
    ));
    let memcpy = |&size: &usize| {
        let task = Task::Device {
            device: Device::Memcpy,
            size,
            convert: Convert::Megabytes(size as f64),
        };
        (size as f64, task)
    };
    series.push(SeriesPlan {
        role: Role::Device,
        subject: Device::Memcpy.name().into(),
        variant: String::new(),
        panel: String::new(),
        cells: sizes
            .iter()
            .filter(|size| **size >= 4096)
            .map(memcpy)
            .collect(),
    });
    series.extend(bare_copy(participants, &sizes, 4096, |size| {
        Convert::Megabytes(size as f64)
    }));
    Plan {
        budget: budget(effort),
        series,
        alone: false,
        limit: None,
    }
}

fn message_rate(participants: &Participants, effort: Effort) -> Plan {
    let sizes = effort.pick(vec![1, 8, 64, 1024], powers(1, 8192));
    let series = per_implementation(participants, "", "", |implementation| {
        let request = |size| format!("bandwidth size={size} window={WINDOW}");
        let task = |size| {
            timed(
                implementation,
                2,
                request(size),
                Convert::Millions(WINDOW as f64),
            )
        };
        sizes
            .iter()
            .map(|&size| (size as f64, task(size)))
            .collect()
    });
    Plan {
        budget: budget(effort),
        series,
        alone: false,
        limit: None,
    }
}

fn profile_cost(participants: &Participants, effort: Effort) -> Plan {
    let sizes = effort.pick(vec![8], vec![8, 1024]);
    let ours = participants
        .implementations
        .iter()
        .find(|one| one.role == Role::Ours);
    let series = |(variant, recording, plain): (&str, usize, usize)| SeriesPlan {
        role: Role::Ours,
        subject: ours.map_or_else(String::new, |one| one.name.clone()),
        variant: variant.into(),
        panel: String::new(),
        cells: sizes
            .iter()
            .map(|&size| {
                let request = format!("bandwidth size={size} window={WINDOW}");
                (size as f64, pair([recording, plain], 2, request))
            })
            .collect(),
    };
    let found = ours.and_then(|one| Some((one.index, one.recording?)));
    let all = found.map(|(plain, recording)| {
        [
            ("--profile", recording, plain),
            ("--timeline", recording + 1, plain),
        ]
    });
    Plan {
        // Recording happens at the beginning of periods of 50 ms: a sample lasts several.
        budget: Budget {
            aim: effort.pick(0.005, 0.001),
            least: effort.pick(10, 40),
            most: effort.pick(60, 400),
            time: effort.pick(Duration::from_secs(30), Duration::from_secs(150)),
            sample: Duration::from_millis(250),
            ..budget(effort)
        },
        series: all.into_iter().flatten().map(series).collect(),
        alone: false,
        limit: None,
    }
}

fn startup(participants: &Participants, effort: Effort) -> Plan {
    let ranks: &[u32] = effort.pick(&[2, 64], &[1, 2, 4, 8, 16, 64]);
    let mut series = per_implementation(participants, "", "", |implementation| {
        let task = |ranks| Task::Launch {
            implementation,
            ranks,
        };
        ranks
            .iter()
            .map(|&ranks| (f64::from(ranks), task(ranks)))
            .collect()
    });
    // 64 ranks of the peers take seconds; the promise about them concerns Weft alone.
    if effort == Effort::Quick {
        for line in series.iter_mut().filter(|line| line.role != Role::Ours) {
            line.cells.retain(|(ranks, _)| *ranks < 64.0);
        }
    }
    let budget = Budget {
        least: effort.pick(3, 10),
        most: effort.pick(8, 60),
        time: effort.pick(Duration::from_millis(300), Duration::from_secs(20)),
        launches: 1,
        ..budget(effort)
    };
    Plan {
        budget,
        series,
        alone: false,
        limit: None,
    }
}

fn idle_cpu(participants: &Participants, effort: Effort) -> Plan {
    let milliseconds = effort.pick(300, 4000);
    let series = per_implementation(participants, "", "", |implementation| {
        let job = JobKey {
            implementation,
            ranks: 2,
            multiple: false,
        };
        let request = format!("idle milliseconds={milliseconds}");
        let convert = Convert::Percent(milliseconds as f64 * 1e6);
        vec![(
            0.0,
            Task::Request {
                job,
                request,
                repeat: Repeat::Exactly(1),
                convert,
            },
        )]
    });
    let (least, launches) = (effort.pick(3, 6), effort.pick(1, 2));
    Plan {
        budget: Budget {
            least,
            most: least,
            turn: 1,
            time: Duration::from_secs(effort.pick(1, 60)),
            launches,
            ..budget(effort)
        },
        series,
        alone: false,
        limit: None,
    }
}

fn memory(participants: &Participants, effort: Effort) -> Plan {
    let series = per_implementation(participants, "", "", |implementation| {
        vec![(
            0.0,
            Task::Memory {
                job: JobKey {
                    implementation,
                    ranks: 4,
                    multiple: false,
                },
            },
        )]
    });
    let budget = Budget {
        least: effort.pick(4, 20),
        most: effort.pick(4, 20),
        launches: 1,
        ..budget(effort)
    };
    Plan {
        budget,
        series,
        alone: true,
        limit: None,
    }
}

fn two_jobs(participants: &Participants, effort: Effort) -> Plan {
    let milliseconds = effort.pick(100, 1000);
    let series = per_implementation(participants, "", "", |implementation| {
        vec![(
            0.0,
            Task::TwoJobs {
                implementation,
                milliseconds,
            },
        )]
    });
    let budget = Budget {
        least: effort.pick(4, 20),
        most: effort.pick(4, 20),
        launches: 1,
        ..budget(effort)
    };
    Plan {
        budget,
        series,
        alone: true,
        limit: None,
    }
}
