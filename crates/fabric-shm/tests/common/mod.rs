//! Common parts of the tests: a sink that keeps everything, and endpoints with options.
#![allow(dead_code)]

use weft_fabric::{
    Fabric, HEAD, Head, Operation, Peer, Posted, Region, Result, SharedBytes, Sink, SyncKey,
};
use weft_fabric_shm::{Options, Shm, Use};

/// Keeps everything that arrives.
#[derive(Default, Debug)]
pub struct Inbox {
    pub messages: Vec<(Peer, u64, Vec<u8>)>,
    pub completed: Vec<(Operation, Result<()>)>,
    pub lost: Vec<(Peer, String)>,
    pub signalled: Vec<(Peer, SyncKey)>,
}

impl Sink for Inbox {
    fn message(&mut self, from: Peer, head: &Head, data: SharedBytes<'_>) {
        let number = u64::from_le_bytes(head[..8].try_into().expect("eight bytes"));
        self.messages.push((from, number, data.to_vec()));
    }
    fn transfer_completed(&mut self, operation: Operation, result: Result<()>) {
        self.completed.push((operation, result));
    }
    fn lost(&mut self, peer: Peer, reason: &str) {
        self.lost.push((peer, reason.into()));
    }
    fn signalled(&mut self, from: Peer, key: SyncKey) {
        self.signalled.push((from, key));
    }
}

pub fn head(number: u64) -> Head {
    let mut head = [0; HEAD];
    head[..8].copy_from_slice(&number.to_le_bytes());
    head
}

/// Bytes that show where they belong.
pub fn pattern(seed: u64, length: usize) -> Vec<u8> {
    (0..length as u64)
        .map(|at| (at.wrapping_mul(31) ^ seed.wrapping_mul(0x9e37_79b9) ^ (at >> 8)) as u8)
        .collect()
}

/// Lends a vector.
pub fn lend(bytes: &mut [u8]) -> Region {
    // SAFETY: the tests keep the vectors until the transfers have ended and do not touch them before.
    unsafe { Region::new(bytes.as_mut_ptr(), bytes.len()) }
}

pub fn without_attach() -> Options {
    Options {
        cross_memory: Use::Off,
        ..Options::default()
    }
}

pub fn kernel_fences() -> Options {
    Options {
        kernel_fences: Use::On,
        ..Options::default()
    }
}

pub fn full_fences() -> Options {
    Options {
        kernel_fences: Use::Off,
        ..Options::default()
    }
}

pub fn pair(options: &Options) -> (Shm, Shm) {
    let mut group = Shm::group_with(2, options).expect("two endpoints");
    let second = group.pop().expect("two");
    (group.pop().expect("two"), second)
}

pub fn send(from: &mut Shm, to: u32, number: u64, data: &[u8]) -> bool {
    match from.try_send(Peer(to), &head(number), data) {
        Ok(Posted::Done) => true,
        Ok(Posted::Retry) => false,
        other => panic!("a send answered {other:?}"),
    }
}
