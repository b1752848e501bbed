//! Ranks write one table together, each its columns, and read it back by rows.
//!
//! `cargo build -p weft --examples && mpiexec -n 4 target/debug/examples/files /tmp/table`

use weft::mpi::{self, File};

const ROWS: usize = 8;
const MINE: usize = 2;

fn main() -> mpi::Result<()> {
    let path = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "table".to_owned());
    mpi::run(|world| {
        let (rank, size) = (world.rank(), world.size());
        let number = |row: usize, column: usize| (100 * row + rank * MINE + column) as u32;
        let columns = (0..ROWS).flat_map(|row| (0..MINE).map(move |column| number(row, column)));

        let file = File::create(world, &path)?;
        file.set_view_of_blocks::<u32>(rank * MINE, MINE, size * MINE)?;
        // While it is written, something else could be computed.
        let written = file.iwrite_all(columns.collect())?;
        written.wait()?;
        file.sync()?;

        file.set_view::<u32>(0)?;
        let row = size * MINE;
        let numbers = file.read_at_all::<u32>((rank % ROWS * row) as u64, row)?;
        println!(
            "row {}: {} to {}",
            rank % ROWS,
            numbers[0],
            numbers[row - 1]
        );
        file.close()
    })
}
