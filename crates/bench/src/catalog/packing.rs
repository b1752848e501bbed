//! Experiments on data with gaps: packing compared with a loop written by hand, and messages of such data.

use super::{budget, per_implementation, timed};
use crate::experiment::{
    Budget, Convert, Effort, Experiment, JobKey, Origin, Participants, Plan, Repeat, SeriesPlan,
    Task,
};
use crate::results::{Chart, Role, Scale};
use std::time::Duration;

/// The loop that a program would write, in the legend.
pub(crate) const LOOP: &str = "device: loop written by hand";

/// Bytes of data that are packed.
const PACKED: usize = 1 << 20;
/// The shapes of `measure/packing.c`.
const SHAPES: [&str; 4] = ["vector", "nested", "structs", "indexed"];
/// The lengths of pieces that are plotted. The loops of `measure/packing.c` are written for these, and for
/// every one up to [`SMALL`].
const PIECES: [usize; 15] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128, 512, 4096];
/// The longest piece of those that are measured at every length.
const SMALL: usize = 64;

/// The experiments, in the order of the page.
pub fn experiments() -> Vec<Experiment> {
    let packing = Experiment {
        id: "packing",
        origin: Origin::Beyond,
        title: "Packing and unpacking a megabyte",
        x: "piece [B]",
        y: "bandwidth [MB/s]",
        unit: "MB/s",
        scales: (Scale::Log, Scale::Log),
        lower_is_better: false,
        chart: Chart::Line,
        notes: &[
            "MPI_Pack and MPI_Unpack of 1 MiB of data, in one rank. Vector: pieces with as much room between them. Nested: \
             a vector of vectors of four. Structs: two pieces each, one twice as long. Indexed: blocks of equal length \
             without any rule.",
            "Device series: the loop that a program would write, which knows how long its pieces are, compiled with the \
             measuring program.",
        ],
        plan: packing,
    };
    let sizes = Experiment {
        id: "packing-sizes",
        title: "Packing and unpacking pieces of every size",
        scales: (Scale::Linear, Scale::Log),
        notes: &[
            "As the experiment before it, with pieces of every size from 1 to 64 bytes, which the compiler of the loop moves in as many \
             ways. The first implementation alone, beside the loop.",
        ],
        plan: sizes,
        ..packing
    };
    let gaps = Experiment {
        id: "gaps",
        title: "Latency of messages with gaps",
        x: "data [B]",
        y: "time [µs]",
        unit: "µs",
        lower_is_better: true,
        notes: &[
            "Ping-pong between two ranks of a vector of pieces of 8 bytes with as much room between them; to a vector \
             of the same kind, or to a buffer without gaps.",
        ],
        plan: gaps,
        ..packing
    };
    vec![packing, sizes, gaps]
}

fn packing(participants: &Participants, effort: Effort) -> Plan {
    let pieces = effort.pick(vec![1, 3, 8, 24, 64, 512], PIECES.to_vec());
    Plan {
        budget: budget(effort),
        series: packing_of(participants, &pieces),
        alone: false,
        limit: None,
    }
}

fn sizes(participants: &Participants, effort: Effort) -> Plan {
    let pieces: Vec<usize> = match effort {
        Effort::Quick => (1..=SMALL).step_by(9).collect(),
        Effort::Full => (1..=SMALL).collect(),
    };
    let mut series = packing_of(participants, &pieces);
    series.retain(|one| one.role != Role::Peer);
    Plan {
        budget: Budget {
            time: Duration::from_millis(200),
            sample: Duration::from_millis(1),
            ..budget(effort)
        },
        series,
        alone: false,
        limit: None,
    }
}

/// Each implementation and the loop, with pieces of these lengths.
fn packing_of(participants: &Participants, pieces: &[usize]) -> Vec<SeriesPlan> {
    let mut series = Vec::new();
    for (shape, way) in SHAPES
        .into_iter()
        .flat_map(|shape| ["pack", "unpack"].map(|way| (shape, way)))
    {
        let panel = format!("{way}: {shape}");
        let cells = |implementation: usize, by: &str| -> Vec<(f64, Task)> {
            let cell = |&piece: &usize| {
                let task = Task::Request {
                    job: JobKey {
                        implementation,
                        ranks: 1,
                        multiple: false,
                    },
                    request: format!(
                        "packing shape={shape} way={way} piece={piece} size={PACKED} by={by}"
                    ),
                    repeat: Repeat::Timed,
                    convert: Convert::Megabytes(PACKED as f64),
                };
                (piece as f64, task)
            };
            pieces.iter().map(cell).collect()
        };
        series.extend(per_implementation(participants, "", &panel, |index| {
            cells(index, "mpi")
        }));
        // In the job of the first implementation, like the other device series.
        series.extend(
            participants
                .implementations
                .first()
                .map(|first| SeriesPlan {
                    role: Role::Device,
                    subject: LOOP.into(),
                    variant: String::new(),
                    panel: panel.clone(),
                    cells: cells(first.index, "hand"),
                }),
        );
    }
    series
}

fn gaps(participants: &Participants, effort: Effort) -> Plan {
    let sizes = effort.pick(
        vec![64, 1024, 8192, 65_536, 1 << 20, 4 << 20],
        super::powers(64, 16 << 20),
    );
    let cells = |implementation, flat: u8| {
        let request = |size| format!("gaps shape=vector piece=8 size={size} flat={flat}");
        let cell = |&size: &usize| {
            let task = timed(implementation, 2, request(size), Convert::Microseconds);
            (size as f64, task)
        };
        sizes.iter().map(cell).collect::<Vec<_>>()
    };
    let mut series = per_implementation(participants, "", "to a vector", |index| cells(index, 0));
    series.extend(per_implementation(
        participants,
        "",
        "to a buffer without gaps",
        |index| cells(index, 1),
    ));
    Plan {
        budget: budget(effort),
        series,
        alone: false,
        limit: None,
    }
}
