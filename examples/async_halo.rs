//! Requests that are awaited: heat in a rod, whose ends each rank exchanges with its neighbours while it computes the middle.
//!
//! `cargo build -p weft --examples && mpiexec -n 4 target/debug/examples/async_halo`

use weft::mpi::{self, Communicator, op};

const CELLS: usize = 1000;
const STEPS: usize = 500;

/// One step. Beyond the ends of the rod it is cold.
async fn step(world: &Communicator, rod: &[f64]) -> mpi::Result<Vec<f64>> {
    let (rank, last) = (world.rank(), rod.len() - 1);
    let left = rank.checked_sub(1);
    let right = Some(rank + 1).filter(|right| *right < world.size());
    let from_left = world.ireceive(vec![0.0], left, 0)?;
    let from_right = world.ireceive(vec![0.0], right, 1)?;
    let to_left = world.isend(vec![rod[0]], left, 1)?;
    let to_right = world.isend(vec![rod[last]], right, 0)?;
    let between = |left: f64, here: f64, right: f64| here + 0.25 * (left - 2.0 * here + right);
    let mut next = vec![0.0; rod.len()];
    for cell in 1..last {
        next[cell] = between(rod[cell - 1], rod[cell], rod[cell + 1]);
    }
    // From nobody comes nothing.
    let end = |came: Vec<f64>| came.first().copied().unwrap_or(0.0);
    next[0] = between(end(from_left.await?.0), rod[0], rod[1]);
    next[last] = between(rod[last - 1], rod[last], end(from_right.await?.0));
    to_left.await?;
    to_right.await?;
    Ok(next)
}

async fn heat(world: &Communicator) -> mpi::Result<f64> {
    let mut rod = vec![0.0; CELLS / world.size() + 2];
    // The middle of the rod lies between two ranks, or in the middle of one.
    if world.rank() == world.size() / 2 {
        let middle = rod.len() / 2 * (world.size() % 2);
        rod[middle] = 1000.0;
    }
    for _ in 0..STEPS {
        rod = step(world, &rod).await?;
    }
    let total = world.iallreduce(vec![rod.iter().sum()], op::sum())?;
    Ok(total.await?[0])
}

fn main() -> mpi::Result<()> {
    mpi::run(|world| {
        let total = mpi::block_on(heat(world))?;
        if world.rank() == 0 {
            println!("{total:.3} after {STEPS} steps");
        }
        Ok(())
    })
}
