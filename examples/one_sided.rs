//! Ranks take tasks from a counter that one of them has, and count what they find in a table that all of them share.
//!
//! `cargo build -p weft --examples && mpiexec -n 4 target/debug/examples/one_sided`

use weft::mpi::{self, op};

const TASKS: u64 = 1000;
/// How many steps a number takes to come to 1 (Collatz), in classes of 25.
const CLASSES: usize = 8;

fn steps(mut number: u64) -> usize {
    let mut steps = 0;
    while number > 1 {
        number = if number.is_multiple_of(2) {
            number / 2
        } else {
            3 * number + 1
        };
        steps += 1;
    }
    steps
}

fn main() -> mpi::Result<()> {
    mpi::run(|world| {
        let own = if world.rank() == 0 { 1 } else { 0 };
        let counter = world.window::<u64>(own)?;
        let table = world.window::<u64>(CLASSES.div_ceil(world.size()))?;

        // Whoever is free takes the next number; rank 0 works, too, and is not asked.
        let tickets = counter.lock_all()?;
        let mut found = [0; CLASSES];
        loop {
            let number = tickets.fetch_and_op(1, 0, 0, op::sum())? + 1;
            if number > TASKS {
                break;
            }
            found[(steps(number) / 25).min(CLASSES - 1)] += 1;
        }
        tickets.end()?;

        // The table lies at all ranks in turn. Between two fences all may add to it.
        let place = |class: usize| (class % world.size(), class / world.size());
        let epoch = table.fence()?;
        for (class, count) in found.into_iter().enumerate() {
            let (rank, index) = place(class);
            epoch.accumulate(vec![count], rank, index, op::sum())?;
        }
        let epoch = epoch.fence()?;
        let sums = (0..CLASSES).map(|class| epoch.get(place(class).0, place(class).1, 1));
        let sums = sums.collect::<mpi::Result<Vec<_>>>()?;
        epoch.end()?;
        if world.rank() == 0 {
            for (class, sum) in sums.into_iter().enumerate() {
                println!("from {:3} steps: {}", 25 * class, sum.take()?[0]);
            }
        }
        table.free()?;
        counter.free()
    })
}
