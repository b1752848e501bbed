//! What the tests of the engine share: ranks as threads over a fabric, and checked buffers.
#![allow(dead_code, missing_docs)]

pub mod inquired;
pub mod scripted;
pub mod several;

use std::sync::Arc;

use weft_fabric::Fabric;
use weft_fabric_local::Local;
use weft_fabric_shm::{Options, Shm, Use};
use weft_fabric_sim::{Config, World};
use weft_mpi::datatype::{Basic, Datatype};
use weft_mpi::{Buffer, Process};

/// What each rank does. What starts threads knows no more of it, or it would be compiled once for each test.
pub type Part<'a> = &'a (dyn Fn(Arc<Process>) + Sync);

/// Runs `rank` as so many ranks on every fabric: processes' memory (as threads), threads, and the
/// simulation under several seeds.
pub fn everywhere(ranks: u32, rank: impl Fn(Arc<Process>) + Sync) {
    on_threads(ranks, &rank);
    simulated(ranks, &rank);
}

/// As [`everywhere`], and where peers can move bytes themselves by three grants at a time only.
pub fn everywhere_and_with_few_grants(ranks: u32, rank: impl Fn(Arc<Process>) + Sync) {
    fn with_few_grants(ranks: u32, cross_memory: Use, rank: Part<'_>) {
        let options = Options {
            cross_memory,
            direct_grants: 3,
            ..Options::default()
        };
        let group = Shm::group_with(ranks, &options);
        threads(group.expect("a memory file"), rank);
    }
    with_few_grants(ranks, Use::Auto, &rank);
    with_few_grants(ranks, Use::Off, &rank);
    everywhere(ranks, rank);
}

/// As [`everywhere`] but for the simulation: for what needs threads within a rank.
pub fn on_threads(ranks: u32, rank: impl Fn(Arc<Process>) + Sync) {
    fn on_either(ranks: u32, rank: Part<'_>) {
        threads(Shm::group(ranks).expect("a memory file"), rank);
        threads(Local::group(ranks as usize), rank);
    }
    on_either(ranks, &rank);
}

/// Under the simulation, seeds 0 to 7.
pub fn simulated(ranks: u32, rank: Part<'_>) {
    for seed in 0..8 {
        let world = World::new(Config::new(ranks as usize, seed));
        if let Err(failure) = world.run(|endpoint| to_the_end(endpoint, rank)) {
            panic!("seed {seed}: {failure}");
        }
    }
}

/// Each endpoint as a rank.
pub fn threads<F: Fabric + 'static>(endpoints: Vec<F>, rank: Part<'_>) {
    std::thread::scope(|scope| {
        for endpoint in endpoints {
            scope.spawn(move || to_the_end(endpoint, rank));
        }
    });
}

/// A rank leaves only when what it began to send has left, as `MPI_Finalize` sees to.
fn to_the_end(endpoint: impl Fabric + 'static, rank: Part<'_>) {
    let process = Process::new(Box::new(endpoint));
    rank(Arc::clone(&process));
    process.drain();
}

pub fn bytes() -> Arc<Datatype> {
    Arc::clone(Basic::Byte.datatype())
}

/// A buffer over a slice that the test keeps alive until the operation has ended.
pub fn over(bytes: &mut [u8]) -> Buffer {
    // SAFETY: each test waits for the end of what it starts before it looks at the slice.
    unsafe { Buffer::new(bytes.as_mut_ptr(), bytes.len(), &self::bytes()) }
}

/// Bytes that depend on a seed and their place.
pub fn pattern(length: usize, seed: usize) -> Vec<u8> {
    (0..length)
        .map(|place| (seed * 31 + place * 7 + (place >> 8)) as u8)
        .collect()
}
