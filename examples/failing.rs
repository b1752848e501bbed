//! What becomes of an error: rank 1 leaves `main` by `?`, and the launcher ends the job, as `MPI_Abort` does.
//!
//! `cargo build -p weft --examples && mpiexec -n 3 target/debug/examples/failing`

use weft::mpi;

fn main() -> mpi::Result<()> {
    let mpi = mpi::init()?;
    let world = mpi.world();
    if world.rank() == 1 {
        world.send(&0, 99, 0)?; // there is no such rank
    }
    world.barrier()?;
    mpi.finalize()
}
