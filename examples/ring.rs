//! A message around a ring of ranks.
//!
//! `cargo build -p weft --examples && mpiexec -n 4 target/debug/examples/ring`

use weft::mpi;

fn main() -> mpi::Result<()> {
    mpi::run(|world| {
        let (rank, size) = (world.rank(), world.size());
        let (left, right) = ((rank + size - 1) % size, (rank + 1) % size);
        if rank == 0 {
            world.send("around the ring:", right, 0)?;
            let (text, _) = world.receive_vec::<u8>(left, 0)?;
            println!("{}", String::from_utf8_lossy(&text));
        } else {
            let (text, _) = world.receive_vec::<u8>(left, 0)?;
            let text = String::from_utf8_lossy(&text);
            world.send(&format!("{text} {rank}"), right, 0)?;
        }
        Ok(())
    })
}
