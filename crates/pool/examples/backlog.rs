//! Cost of buffers for messages that arrive before their receives: by a pool, and by memory that each slot
//! keeps.
//!
//! ```text
//! backlog KEEPER BYTES DEPTH ROUNDS
//! ```
//!
//! `KEEPER` is `slots`, as in MPI's unexpected store (a list of free slots, the first 64 of which keep the memory of their
//! data), or `pool`: a packet for each message. `DEPTH` messages of `BYTES` arrive, then all are taken, `ROUNDS` times. Prints
//! the bytes that stay allocated for data after that. Instructions: count two numbers of rounds, e.g. by `valgrind
//! --tool=callgrind`, and subtract.

use std::hint::black_box;

use weft_pool::{Local, Packet, Pool};

/// The number of slots that keep the memory of their data, and the most bytes that each keeps: as in the
/// unexpected store.
const SPARE: (usize, usize) = (64, 64 * 1024);

/// Bytes of a packet: the most of a message that is sent at once over shared memory.
const PACKET: usize = 8 * 1024;

/// Keeps messages by name.
trait Keeper {
    fn keep(&mut self, data: &[u8]) -> u32;
    fn data(&self, name: u32) -> &[u8];
    fn end(&mut self, name: u32);
    fn held(&self) -> usize;
}

#[derive(Default)]
struct Slots {
    data: Vec<Vec<u8>>,
    free: Vec<u32>,
}

impl Keeper for Slots {
    #[inline]
    fn keep(&mut self, data: &[u8]) -> u32 {
        let name = self.free.pop().unwrap_or_else(|| {
            self.data.push(Vec::new());
            self.data.len() as u32 - 1
        });
        let kept = &mut self.data[name as usize];
        kept.clear();
        kept.extend_from_slice(data);
        name
    }

    #[inline]
    fn data(&self, name: u32) -> &[u8] {
        &self.data[name as usize]
    }

    #[inline]
    fn end(&mut self, name: u32) {
        let kept = &mut self.data[name as usize];
        if name as usize >= SPARE.0 || kept.capacity() > SPARE.1 {
            *kept = Vec::new();
        }
        self.free.push(name);
    }

    fn held(&self) -> usize {
        self.data.iter().map(Vec::capacity).sum()
    }
}

struct Packets {
    packets: Vec<(Option<Packet>, usize)>,
    free: Vec<u32>,
    local: Local,
    pool: Pool,
    count: usize,
}

impl Packets {
    fn new(count: usize) -> Self {
        let pool = Pool::new(PACKET, count);
        Self {
            packets: Vec::new(),
            free: Vec::new(),
            local: pool.local(),
            pool,
            count,
        }
    }
}

impl Keeper for Packets {
    #[inline]
    fn keep(&mut self, data: &[u8]) -> u32 {
        let name = self.free.pop().unwrap_or_else(|| {
            self.packets.push((None, 0));
            self.packets.len() as u32 - 1
        });
        let mut packet = self.local.get().expect("the pool has one for each");
        packet[..data.len()].copy_from_slice(data);
        self.packets[name as usize] = (Some(packet), data.len());
        name
    }

    #[inline]
    fn data(&self, name: u32) -> &[u8] {
        let (packet, length) = &self.packets[name as usize];
        packet.as_ref().map_or(&[], |packet| &packet[..*length])
    }

    #[inline]
    fn end(&mut self, name: u32) {
        if let Some(packet) = self.packets[name as usize].0.take() {
            self.local.give_back(packet);
        }
        self.free.push(name);
    }

    fn held(&self) -> usize {
        (self.count - self.pool.unmade()) * PACKET
    }
}

fn play(mut keeper: impl Keeper, bytes: usize, depth: usize, rounds: usize) {
    let data = vec![7; bytes];
    let mut into = vec![0; bytes];
    let mut names = Vec::with_capacity(depth);
    for _ in 0..rounds {
        names.extend((0..depth).map(|_| keeper.keep(black_box(&data))));
        for name in names.drain(..) {
            into.copy_from_slice(keeper.data(name));
            keeper.end(name);
            black_box(&into);
        }
    }
    println!("{} bytes held", keeper.held());
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |at: usize| {
        let given = arguments.get(at).map(|given| given.parse::<usize>());
        given.and_then(Result::ok)
    };
    let (Some(bytes), Some(depth), Some(rounds)) = (number(2), number(3), number(4)) else {
        eprintln!("backlog slots|pool BYTES DEPTH ROUNDS");
        std::process::exit(2);
    };
    match arguments[1].as_str() {
        "slots" => play(Slots::default(), bytes, depth, rounds),
        "pool" if bytes <= PACKET => {
            // Other workers cannot reach a worker's loaded magazine, and there is no other worker here.
            play(Packets::new(depth + 64), bytes, depth, rounds);
        }
        other => {
            eprintln!(
                "{other} does not keep messages of {bytes} bytes; `slots` keeps any, `pool` up to {PACKET}"
            );
            std::process::exit(2);
        }
    }
}
