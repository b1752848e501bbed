//! Experiments on one-sided communication, on windows that the implementation allocated, between two ranks of one host.

use super::{budget, per_implementation, powers, timed};
use crate::device::Device;
use crate::experiment::{
    Convert, Effort, Experiment, Origin, Participants, Plan, SeriesPlan, Task,
};
use crate::results::{Chart, Role, Scale};

/// Operations between two flushes where a rate or a bandwidth is measured.
const BATCH: usize = 64;

/// Panel of a window that combines many elements at a time.
const GRANULAR: &str = "accumulate, granularity of 64 KiB";

/// Note on the target.
const TARGET: &str = "Windows from MPI_Win_allocate, within one lock_all of the whole measurement; the target waits in MPI_Barrier.";

/// An experiment with the fields that all of them share.
fn base(
    id: &'static str,
    title: &'static str,
    notes: &'static [&'static str],
    plan: fn(&Participants, Effort) -> Plan,
) -> Experiment {
    Experiment {
        id,
        origin: Origin::Beyond,
        title,
        x: "size [B]",
        y: "time [µs]",
        unit: "µs",
        scales: (Scale::Log, Scale::Log),
        lower_is_better: true,
        chart: Chart::Line,
        notes,
        plan,
    }
}

/// The experiments, in the order of the page.
pub fn experiments() -> Vec<Experiment> {
    let rising = |experiment: Experiment, y, unit| Experiment {
        y,
        unit,
        lower_is_better: false,
        ..experiment
    };
    vec![
        base(
            "rma-latency",
            "One-sided operation and its completion",
            &["One operation and MPI_Win_flush.", TARGET],
            latency,
        ),
        rising(
            base(
                "rma-bandwidth",
                "Bandwidth of one-sided operations",
                &[
                    "64 operations on the same bytes, then MPI_Win_flush; accumulate is MPI_SUM on MPI_DOUBLE. Device: memcpy \
                     within one thread.",
                    "Granularity: the info key mpi_accumulate_granularity of MPI 4.1, 65536 for everybody. Without it elements \
                     may be combined one by one.",
                    TARGET,
                ],
                bandwidth,
            ),
            "bandwidth [MB/s]",
            "MB/s",
        ),
        rising(
            base(
                "rma-rate",
                "Rate of small one-sided operations",
                &[
                    "64 operations, then MPI_Win_flush; operations over time.",
                    TARGET,
                ],
                rate,
            ),
            "operations [million/s]",
            "million/s",
        ),
        base(
            "rma-epochs",
            "Epochs with one put of 8 B",
            &[
                "A put of rank 0 to rank 1 and its epoch: MPI_Win_fence by both ranks; lock_all and unlock_all; an exclusive lock \
                 and unlock. Windows from MPI_Win_allocate.",
            ],
            epochs,
        ),
    ]
}

/// The same call at several sizes.
fn calls(
    participants: &Participants,
    (call, batch): (&str, usize),
    sizes: &[usize],
    convert: impl Fn(usize) -> Convert,
) -> Vec<SeriesPlan> {
    let (call, panel) = match call {
        GRANULAR => ("accumulate granularity=65536", GRANULAR),
        call => (call, call),
    };
    per_implementation(participants, "", panel, |implementation| {
        let task = |size: usize| {
            let request = format!("rma call={call} epoch=flush batch={batch} size={size}");
            timed(implementation, 2, request, convert(size))
        };
        sizes
            .iter()
            .map(|&size| (size as f64, task(size)))
            .collect()
    })
}

fn plan_of(effort: Effort, series: Vec<SeriesPlan>) -> Plan {
    Plan {
        budget: budget(effort),
        series,
        alone: false,
        limit: None,
    }
}

fn latency(participants: &Participants, effort: Effort) -> Plan {
    let sizes = effort.pick(vec![8, 512, 4096, 65_536], powers(1, 1 << 20));
    let convert = |_| Convert::Microseconds;
    let mut series = Vec::new();
    for call in ["put", "get"] {
        series.extend(calls(participants, (call, 1), &sizes, convert));
    }
    for call in ["fetch_and_op", "compare_and_swap", "accumulate"] {
        series.extend(calls(participants, (call, 1), &[8], convert));
    }
    plan_of(effort, series)
}

fn bandwidth(participants: &Participants, effort: Effort) -> Plan {
    let sizes = effort.pick(vec![4096, 65_536, 262_144, 1 << 20], powers(8, 4 << 20));
    let megabytes = |size: usize| Convert::Megabytes((size * BATCH) as f64);
    let mut series = calls(participants, ("put", BATCH), &sizes, megabytes);
    let memcpy = |&size: &usize| {
        let task = Task::Device {
            device: Device::Memcpy,
            size,
            convert: Convert::Megabytes(size as f64),
        };
        (size as f64, task)
    };
    let large = sizes.iter().filter(|size| **size >= 4096);
    series.push(SeriesPlan {
        role: Role::Device,
        subject: Device::Memcpy.name().into(),
        variant: String::new(),
        panel: "put".into(),
        cells: large.map(memcpy).collect(),
    });
    for call in ["get", "accumulate", GRANULAR] {
        series.extend(calls(participants, (call, BATCH), &sizes, megabytes));
    }
    plan_of(effort, series)
}

fn rate(participants: &Participants, effort: Effort) -> Plan {
    let mut series = Vec::new();
    for call in ["put", "get", "fetch_and_op"] {
        let millions = |_| Convert::Millions(BATCH as f64);
        series.extend(calls(participants, (call, BATCH), &[8], millions));
    }
    plan_of(effort, series)
}

fn epochs(participants: &Participants, effort: Effort) -> Plan {
    let mut series = Vec::new();
    for epoch in ["fence", "lock_all", "lock"] {
        series.extend(per_implementation(
            participants,
            "",
            epoch,
            |implementation| {
                let request = format!("rma call=put epoch={epoch} size=8");
                vec![(
                    8.0,
                    timed(implementation, 2, request, Convert::Microseconds),
                )]
            },
        ));
    }
    plan_of(effort, series)
}
