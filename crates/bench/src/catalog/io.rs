//! Experiments on files: four ranks of one host, whose blocks alternate in the file.

use super::{budget, per_implementation, timed};
use crate::experiment::{Convert, Effort, Experiment, Origin, Participants, Plan, SeriesPlan};
use crate::results::{Chart, Scale};

/// Ranks.
const RANKS: u32 = 4;
/// Bytes of each rank in one call.
const BYTES: usize = 4 << 20;

/// The experiments, in the order of the page.
pub fn experiments() -> Vec<Experiment> {
    let base = |id, title, plan| Experiment {
        id,
        origin: Origin::Beyond,
        title,
        x: "block [B]",
        y: "bandwidth [MB/s]",
        unit: "MB/s",
        scales: (Scale::Log, Scale::Log),
        lower_is_better: false,
        chart: Chart::Line,
        notes: &[
            "Four ranks, 4 MiB of each in one call, blocks in turn through a view; a file in memory (/dev/shm). Bytes of all ranks \
             over the time of a call and the barrier behind it.",
        ],
        plan,
    };
    vec![
        base(
            "io-collective",
            "Collective access to interleaved blocks",
            collective,
        ),
        base(
            "io-independent",
            "Independent access to interleaved blocks",
            independent,
        ),
    ]
}

fn calls(participants: &Participants, effort: Effort, names: [&str; 2]) -> Plan {
    let blocks = effort.pick(
        vec![64, 1024, 16_384, 262_144, 1 << 20],
        (6..=20).map(|power| 1 << power).collect(),
    );
    let series: Vec<SeriesPlan> = names
        .into_iter()
        .flat_map(|call| {
            per_implementation(participants, "", call, |implementation| {
                let task = |block: usize| {
                    let request = format!("io call={call} block={block} bytes={BYTES}");
                    let convert = Convert::Megabytes((RANKS as usize * BYTES) as f64);
                    timed(implementation, RANKS, request, convert)
                };
                let cells = blocks.iter();
                cells.map(|&block| (block as f64, task(block))).collect()
            })
        })
        .collect();
    Plan {
        budget: budget(effort),
        series,
        alone: false,
        limit: None,
    }
}

fn collective(participants: &Participants, effort: Effort) -> Plan {
    calls(participants, effort, ["write_all", "read_all"])
}

fn independent(participants: &Participants, effort: Effort) -> Plan {
    calls(participants, effort, ["write", "read"])
}
