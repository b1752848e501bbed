//! Threads compute the parts of one message; each part is on its way as soon as it is ready. The receiver uses the parts in
//! the order in which they come, in twice as many of its own.
//!
//! `cargo build -p weft --examples && mpiexec -n 2 target/debug/examples/partitioned`

use std::thread;

use weft::mpi;

const THREADS: usize = 4;
const COUNT: usize = 100_000;

fn send(world: &mpi::Communicator) -> mpi::Result<()> {
    let mut message = world.psend_init(vec![0.0_f64; THREADS * COUNT], THREADS, 1, 0)?;
    let parts = message.start()?;
    thread::scope(|threads| {
        let compute = |mut part: mpi::Partition<'_, f64>| {
            let number = part.number() as f64;
            part.fill(number);
            part.ready()
        };
        let started = parts
            .into_iter()
            .map(|part| threads.spawn(move || compute(part)));
        let started: Vec<_> = started.collect();
        let mut ended = started
            .into_iter()
            .map(|thread| thread.join().expect("it computes"));
        ended.try_for_each(|ready| ready)
    })?;
    message.wait()
}

fn receive(world: &mpi::Communicator) -> mpi::Result<f64> {
    let mut message = world.preceive_init(vec![0.0_f64; THREADS * COUNT], 2 * THREADS, 0, 0)?;
    message.start()?;
    let mut left: Vec<usize> = (0..2 * THREADS).collect();
    let mut sum = 0.0;
    while let Some(part) = left.pop() {
        match message.arrived(part)? {
            Some(numbers) => sum += numbers.iter().sum::<f64>(),
            None => left.insert(0, part),
        }
    }
    message.wait()?;
    Ok(sum)
}

fn main() -> mpi::Result<()> {
    mpi::run(|world| {
        match (world.rank(), world.size()) {
            (_, 1) => {
                eprintln!("start it with two ranks: mpiexec -n 2");
                world.abort(2)
            }
            (0, _) => send(world)?,
            (1, _) => println!("the sum is {}", receive(world)?),
            _ => {}
        }
        Ok(())
    })
}
