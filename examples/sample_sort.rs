//! Collectives: numbers that lie on all ranks, sorted by samples. Each rank gets those between two of the splitters.
//!
//! `cargo build -p weft --examples && mpiexec -n 4 target/debug/examples/sample_sort 100000`

#![forbid(unsafe_code)]

use std::cmp::Ordering;

use weft::mpi::{self, Blocks, Communicator, Element, op};

/// What is sorted: a key, and where it came from.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug, Element)]
struct Item {
    key: f64,
    from: u32,
}

/// Samples of each rank: the more, the more even the parts.
const SAMPLES: usize = 64;

fn sort(world: &Communicator, mut mine: Vec<Item>) -> mpi::Result<Vec<Item>> {
    let order = |one: &Item, two: &Item| one.key.total_cmp(&two.key);
    mine.sort_by(order);
    let step = (mine.len() / SAMPLES).max(1);
    let samples: Vec<Item> = mine.iter().copied().step_by(step).collect();
    let mut samples = world.allgatherv(&samples)?.into_elements();
    samples.sort_by(order);
    let splitter = |rank: usize| samples.get(rank * samples.len() / world.size());
    let mut rest = &mine[..];
    let blocks: Blocks<Item> = (1..=world.size())
        .map(|rank| {
            let end = match splitter(rank) {
                Some(splitter) if rank < world.size() => {
                    rest.partition_point(|item| order(item, splitter).is_lt())
                }
                _ => rest.len(),
            };
            let (block, behind) = rest.split_at(end);
            rest = behind;
            block
        })
        .collect();
    let mut part = world.alltoallv(&blocks)?.into_elements();
    part.sort_by(order);
    Ok(part)
}

/// Numbers of a linear congruential generator.
fn numbers(count: usize, rank: usize) -> Vec<Item> {
    let mut state = rank as u64 + 1;
    let mut next = || {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 11) as f64
    };
    (0..count)
        .map(|_| Item {
            key: next(),
            from: rank as u32,
        })
        .collect()
}

fn main() -> mpi::Result<()> {
    mpi::run(|world| {
        let count = std::env::args().nth(1).and_then(|word| word.parse().ok());
        let count = count.unwrap_or(10_000);
        let part = sort(world, numbers(count, world.rank()))?;
        assert!(part.is_sorted_by(|one, two| one.key <= two.key));
        // The last of each rank is not above the first of the next.
        let ends = part
            .first()
            .zip(part.last())
            .map_or([f64::NAN; 2], |(first, last)| [first.key, last.key]);
        let ends = world.allgather(&ends)?;
        assert!(
            ends[1..]
                .windows(2)
                .step_by(2)
                .all(|pair| pair[0].partial_cmp(&pair[1]) != Some(Ordering::Greater))
        );
        let total = world.allreduce(&part.len(), op::sum())?;
        let most = world.reduce(&part.len(), op::max(), 0)?;
        if let Some(most) = most {
            println!(
                "{total} items on {} ranks, at most {most} on one",
                world.size()
            );
        }
        Ok(())
    })
}
