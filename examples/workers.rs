//! Processes that a program starts while it runs: workers, which are this program again, share a sum.
//!
//! `cargo build -p weft --examples && mpiexec -n 2 target/debug/examples/workers 3`

use weft::mpi::{self, Environment, Program, op};

/// Terms of the series for pi.
const TERMS: usize = 100_000;

fn master(mpi: &Environment, workers: u32) -> mpi::Result<()> {
    let world = mpi.world();
    let program = std::env::current_exe().expect("a program has a name");
    let workers = world.spawn(0, &[Program::new(program, workers)])?;
    // A sum over an intercommunicator is that of the other side.
    let pi = workers.allreduce(&0.0_f64, op::sum())?;
    if world.rank() == 0 {
        println!("{pi:.4} by {} workers", workers.remote_size());
    }
    Ok(())
}

fn main() -> mpi::Result<()> {
    let mpi = mpi::init()?;
    match mpi.parent() {
        None => {
            let workers = std::env::args().nth(1).and_then(|word| word.parse().ok());
            master(&mpi, workers.unwrap_or(2))?;
        }
        Some(masters) => {
            let (rank, size) = (mpi.world().rank(), mpi.world().size());
            let term = |n: usize| if n.is_multiple_of(2) { 4.0 } else { -4.0 } / (2 * n + 1) as f64;
            let share: f64 = (rank..TERMS).step_by(size).map(term).sum();
            masters.allreduce(&share, op::sum())?;
        }
    }
    mpi.finalize()
}
