//! Instructions of calls, counted one by one: exact on any machine, however busy it is.

use super::{budget, per_implementation};
use crate::experiment::{
    Budget, Convert, Effort, Experiment, JobKey, Origin, Participants, Plan, Repeat, Task,
};
use crate::results::{Chart, Scale};

/// The calls of `measure/instructions.c`, by its names and by common names.
const CALLS: [(&str, &str); 21] = [
    ("send", "MPI_Send"),
    ("isend", "MPI_Isend and MPI_Wait"),
    ("recv", "MPI_Recv, the message is there but was not seen"),
    ("unexpected", "MPI_Recv of an unexpected message"),
    ("irecv", "MPI_Irecv and MPI_Wait"),
    (
        "posted",
        "MPI_Wait for a receive whose message is there but was not seen",
    ),
    (
        "waitall",
        "MPI_Waitall for 16 receives whose messages are there, for each",
    ),
    ("test", "MPI_Test in vain"),
    ("iprobe", "MPI_Iprobe in vain"),
    ("barrier", "MPI_Barrier of two, the other is there"),
    ("bcast", "MPI_Bcast of two, the root has shown its data"),
    ("gather", "MPI_Gather of two, the other is there"),
    ("allgather", "MPI_Allgather of two, the other is there"),
    ("alltoall", "MPI_Alltoall of two, the other is there"),
    ("reduce", "MPI_Reduce of two, the other is there"),
    ("allreduce", "MPI_Allreduce of two, the other is there"),
    ("put", "MPI_Put and MPI_Win_flush"),
    ("get", "MPI_Get and MPI_Win_flush"),
    ("fetch_and_op", "MPI_Fetch_and_op and MPI_Win_flush"),
    ("compare_and_swap", "MPI_Compare_and_swap and MPI_Win_flush"),
    ("accumulate", "MPI_Accumulate and MPI_Win_flush"),
];

/// Those in which both ranks take part.
const TOGETHER: [&str; 7] = [
    "barrier",
    "bcast",
    "gather",
    "allgather",
    "alltoall",
    "reduce",
    "allreduce",
];

/// The experiment.
pub fn experiments() -> Vec<Experiment> {
    vec![Experiment {
        id: "instructions",
        origin: Origin::Beyond,
        title: "Instructions of a call",
        x: "message [B]",
        y: "instructions",
        unit: "instructions",
        scales: (Scale::Log, Scale::Log),
        lower_is_better: true,
        chart: Chart::Line,
        notes: &[
            "Two ranks of one host. A second process steps the caller through the call, from outside of MPI to outside of \
             MPI, and counts. What the call needs is there, so that it does not wait.",
        ],
        plan: instructions,
    }]
}

fn instructions(participants: &Participants, effort: Effort) -> Plan {
    let sizes = effort.pick(vec![8, 512], vec![8, 64, 512, 4096]);
    let mut series = Vec::new();
    for (call, panel) in CALLS {
        // These work on one element, or are counted with little data, for which no implementation needs an answer.
        let single =
            matches!(call, "fetch_and_op" | "compare_and_swap") || TOGETHER.contains(&call);
        let sizes = if single { &sizes[..1] } else { &sizes };
        series.extend(per_implementation(participants, "", panel, |index| {
            let cell = |&size: &u32| {
                let job = JobKey {
                    implementation: index,
                    ranks: 2,
                    multiple: false,
                };
                let task = Task::Request {
                    job,
                    request: format!("instructions call={call} size={size}"),
                    repeat: Repeat::Exactly(1),
                    // A count is not converted.
                    convert: Convert::Nanoseconds,
                };
                (f64::from(size), task)
            };
            sizes.iter().map(cell).collect()
        }));
    }
    // Counts are the same each time, except for random conditions within a call.
    let budget = Budget {
        least: 3,
        ..budget(effort)
    };
    Plan {
        budget,
        series,
        alone: false,
        limit: None,
    }
}
