//! One-way time of small messages between two ranks that are threads, without launcher or ABI: what
//! the engine adds to the fabric. `cargo run --release -p weft-mpi --example latency`.

use std::time::Instant;

use weft_fabric_shm::Shm;
use weft_mpi::datatype::Basic;
use weft_mpi::{Buffer, Process, SendMode, Source, TagPattern, Target};

const ROUNDS: u32 = 20_000;
const BLOCKS: usize = 15;

fn main() {
    let endpoints = Shm::group(2).expect("a memory file");
    std::thread::scope(|scope| {
        for endpoint in endpoints {
            scope.spawn(move || {
                let process = Process::new(Box::new(endpoint));
                let world = process.world();
                for size in [0, 8, 64, 256, 1024, 4096, 16384, 65536] {
                    let mut bytes = vec![1u8; size];
                    let mut fastest = f64::INFINITY;
                    for _ in 0..BLOCKS {
                        let begun = Instant::now();
                        for _ in 0..ROUNDS {
                            for turn in 0..2 {
                                // SAFETY: `bytes` outlives the call, which is over when it returns.
                                let buffer = unsafe {
                                    Buffer::new(bytes.as_mut_ptr(), size, Basic::Byte.datatype())
                                };
                                if turn == world.rank() {
                                    world
                                        .send(
                                            SendMode::Standard,
                                            buffer,
                                            Target::Rank(1 - world.rank()),
                                            1,
                                        )
                                        .unwrap();
                                } else {
                                    world
                                        .recv(
                                            buffer,
                                            Source::Rank(1 - world.rank()),
                                            TagPattern::Exact(1),
                                        )
                                        .unwrap();
                                }
                            }
                        }
                        fastest =
                            fastest.min(begun.elapsed().as_secs_f64() / f64::from(ROUNDS) / 2.0);
                    }
                    if world.rank() == 0 {
                        println!(
                            "{size:>6} bytes: {:.0} ns one way (fastest of {BLOCKS} blocks)",
                            fastest * 1e9
                        );
                    }
                }
            });
        }
    });
}
