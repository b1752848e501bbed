//! Times collectives among ranks that are threads over shared memory:
//! `cargo run --release -p weft-mpi --example collectives -- [RANKS] [REPETITIONS]`.
//!
//! Prints the mean of all repetitions, in microseconds, as seen by rank 0: for comparing two states of
//! the code on a quiet machine. Numbers to be published come from `weft bench`.

use std::sync::Arc;
use std::time::Instant;

use weft_fabric_shm::Shm;
use weft_mpi::coll::{self, Blocks, Members, Reduction};
use weft_mpi::datatype::Basic;
use weft_mpi::op::Predefined;
use weft_mpi::schedule::Schedule;
use weft_mpi::{Buffer, Comm, Op, Process};

const SIZES: [usize; 6] = [8, 120, 1024, 64 * 1024, 256 * 1024, 1024 * 1024];

fn main() {
    let mut arguments = std::env::args().skip(1).filter_map(|one| one.parse().ok());
    let ranks = arguments.next().unwrap_or(2);
    let repetitions = arguments.next().unwrap_or(1000);
    let endpoints = Shm::group(ranks as u32).expect("a memory file");
    std::thread::scope(|scope| {
        for endpoint in endpoints {
            scope.spawn(move || {
                let process = Process::new(Box::new(endpoint));
                measure(&process.world(), repetitions);
                process.drain();
            });
        }
    });
}

fn measure(world: &Comm, repetitions: usize) {
    let members = Members::of(world);
    time(world, "barrier", 0, repetitions, || coll::barrier(&members));
    let datatype = Basic::Double.datatype();
    for size in SIZES {
        let repetitions = (repetitions * 1024 / (size + 1024)).max(5);
        let mut one = vec![1.0f64; size / 8];
        let mut two = vec![0.0f64; size / 8];
        let mut all = vec![0.0f64; size / 8 * members.size];
        // SAFETY: the vectors live until the last repetition has ended, and are not looked at before.
        let (send, receive, blocks) = unsafe {
            let (one, two) = (one.as_mut_ptr().cast(), two.as_mut_ptr().cast());
            (
                Buffer::new(one, size / 8, datatype),
                Buffer::new(two, size / 8, datatype),
                Blocks::even(all.as_mut_ptr().cast(), size / 8, datatype, members.size).unwrap(),
            )
        };
        let reduction = Reduction {
            count: size / 8,
            datatype: Arc::clone(datatype),
            op: Op::predefined(Predefined::Sum),
        };
        let root = (members.rank == 0).then_some(&blocks);
        time(world, "bcast", size, repetitions, || {
            coll::bcast(&members, &send, 0)
        });
        time(world, "gather", size, repetitions, || {
            coll::gather(&members, Some(&send), root, 0)
        });
        time(world, "allgather", size, repetitions, || {
            coll::allgather(&members, Some(&send), &blocks)
        });
        time(world, "allreduce", size, repetitions, || {
            coll::allreduce(&members, &send, &receive, &reduction)
        });
    }
}

fn time(
    world: &Comm,
    name: &str,
    size: usize,
    repetitions: usize,
    plan: impl Fn() -> weft_mpi::Result<Schedule>,
) {
    let once = || world.run(plan().expect("right arguments")).expect("a run");
    (0..repetitions / 10 + 1).for_each(|_| once());
    let start = Instant::now();
    (0..repetitions).for_each(|_| once());
    let mean = start.elapsed().as_secs_f64() * 1e6 / repetitions as f64;
    if world.rank() == 0 {
        println!("{name:10} {size:8} B  {mean:10.2} us");
    }
}
