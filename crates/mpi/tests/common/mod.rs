//! What the tests of the engine share: ranks as threads over a fabric, and checked buffers.
#![allow(dead_code, missing_docs)]

use std::sync::Arc;

use weft_fabric::Fabric;
use weft_fabric_shm::Shm;
use weft_mpi::datatype::{Basic, Datatype};
use weft_mpi::{Buffer, Process};

/// Runs `rank` on `ranks` threads over the fabric of shared memory.
pub fn on_shared_memory(ranks: u32, rank: impl Fn(Arc<Process>) + Sync) {
    let endpoints = Shm::group(ranks).expect("a memory file");
    std::thread::scope(|scope| {
        for endpoint in endpoints {
            let rank = &rank;
            scope.spawn(move || rank(Process::new(Box::new(endpoint) as Box<dyn Fabric>)));
        }
    });
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
