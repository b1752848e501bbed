//! Two processes and one segment: what a message and a transfer cost, next to a cache line that
//! bounces between the same two cores.
//!
//! ```text
//! cargo run --release -p weft-fabric-shm --example shm_pingpong
//! ```
//!
//! `WITHOUT_ATTACH`, `WITHOUT_KERNEL_FENCES` and `WITHOUT_ASSIST` in the environment show the other ways.
//!
//! The smallest of many short blocks is shown: the machine may be busy with other things.

use std::env;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use weft_atomic::{AtomicU64, Ordering};
use weft_fabric::waiting::{Step, Waiting};

use weft_fabric::{
    Bell, Fabric, HEAD, Head, Operation, Peer, Posted, Region, Result, Rights, SharedBytes, Sink,
    SyncKey, Uses,
};
use weft_fabric_shm::{Options, Shm, Use, initialise, segment_size};
use weft_sys::{Mapping, MemoryFile, descriptor};

const BLOCKS: usize = 100;

/// Counts what arrives, copies the data out as a receive would.
struct Count {
    messages: usize,
    completed: usize,
    head: Head,
    buffer: Vec<u8>,
}

impl Sink for Count {
    fn message(&mut self, _: Peer, head: &Head, data: SharedBytes<'_>) {
        self.head = *head;
        data.copy_to(&mut self.buffer);
        self.messages += 1;
    }
    fn transfer_completed(&mut self, _: Operation, result: Result<()>) {
        result.expect("the transfer is granted");
        self.completed += 1;
    }
    fn lost(&mut self, peer: Peer, reason: &str) {
        panic!("peer {peer} is lost: {reason}");
    }
    fn signalled(&mut self, _: Peer, _: SyncKey) {}
}

struct Side {
    shm: Shm,
    bell: Arc<dyn Bell>,
    sink: Count,
    other: Peer,
}

impl Side {
    fn send(&mut self, head: &Head, data: &[u8]) {
        while self.shm.try_send(self.other, head, data).expect("a peer") != Posted::Done {
            self.shm.poll(&mut self.sink, 64);
        }
    }

    fn receive(&mut self, count: usize) {
        let mut waiting = Waiting::new();
        while self.sink.messages < count {
            if self.shm.poll(&mut self.sink, 64) > 0 {
                waiting.found();
            } else if waiting.step(&*self.bell) == Step::Sleep {
                let ticket = self.bell.prepare();
                if self.shm.poll(&mut self.sink, 64) > 0 {
                    self.bell.cancel(ticket);
                } else {
                    self.bell.wait(ticket, None);
                }
            }
        }
        self.sink.messages -= count;
    }

    /// One way, in nanoseconds: the smallest of many blocks.
    fn ping_pong(&mut self, first: bool, length: usize, rounds: usize) -> f64 {
        let (head, data) = ([1; HEAD], vec![7; length]);
        let mut best = f64::MAX;
        for _ in 0..BLOCKS {
            let start = Instant::now();
            for _ in 0..rounds {
                if first {
                    self.send(&head, &data);
                    self.receive(1);
                } else {
                    self.receive(1);
                    self.send(&head, &data);
                }
            }
            best = best.min(start.elapsed().as_nanos() as f64 / (2 * rounds) as f64);
        }
        best
    }

    /// Messages in a row, answered by one: nanoseconds for each.
    fn stream(&mut self, first: bool, length: usize, window: usize) -> f64 {
        let (head, data) = ([1; HEAD], vec![7; length]);
        let mut best = f64::MAX;
        for _ in 0..BLOCKS {
            let start = Instant::now();
            if first {
                for _ in 0..window {
                    self.send(&head, &data);
                }
                self.receive(1);
            } else {
                self.receive(window);
                self.send(&head, &[]);
            }
            best = best.min(start.elapsed().as_nanos() as f64 / window as f64);
        }
        best
    }

    /// Gets of memory that the other side grants: bytes per nanosecond.
    fn get(&mut self, first: bool, length: usize, rounds: usize) -> f64 {
        let mut memory = vec![1; length];
        // SAFETY: `memory` lives until the end of the function, after the last transfer.
        let region = unsafe { Region::new(memory.as_mut_ptr(), length) };
        let mut best = f64::MAX;
        if first {
            self.receive(1);
            let word = self.sink.head[..8].try_into().expect("eight bytes");
            let token = weft_fabric::Token(u64::from_ne_bytes(word));
            for _ in 0..rounds {
                let start = Instant::now();
                match self.shm.get(self.other, token, 0, region, Operation(1)) {
                    Ok(Posted::Pending) => {
                        while self.sink.completed == 0 {
                            self.shm.poll(&mut self.sink, 64);
                        }
                        self.sink.completed = 0;
                    }
                    Ok(Posted::Done) => {}
                    other => panic!("{other:?}"),
                }
                best = best.min(start.elapsed().as_nanos() as f64);
            }
            self.send(&[0; HEAD], &[]);
        } else {
            let token = self
                .shm
                .grant(region, Some(self.other), Rights::Read, Uses::Many)
                .expect("a grant");
            let mut head = [0; HEAD];
            head[..8].copy_from_slice(&token.0.to_ne_bytes());
            self.send(&head, &[]);
            self.receive(1);
            assert!(self.shm.revoke(token));
        }
        length as f64 / best
    }
}

/// A word that two processes hand to each other: one way, in nanoseconds.
fn bounce(line: &AtomicU64, first: bool) -> f64 {
    const ROUNDS: u64 = 2000;
    let (mut best, mut turn) = (f64::MAX, 0);
    for _ in 0..BLOCKS {
        let start = Instant::now();
        for _ in 0..ROUNDS {
            if first {
                line.store(turn + 1, Ordering::Release);
            }
            let wanted = if first { turn + 2 } else { turn + 1 };
            let mut empty = 0u32;
            while line.load(Ordering::Acquire) != wanted {
                empty += 1;
                if empty > 10_000 {
                    std::thread::yield_now();
                }
            }
            if !first {
                line.store(turn + 2, Ordering::Release);
            }
            turn += 2;
        }
        best = best.min(start.elapsed().as_nanos() as f64 / (2 * ROUNDS) as f64);
    }
    best
}

fn run(rank: u32, segment: OwnedFd, line: &Mapping) {
    let first = rank == 0;
    let show = |what: &str, value: f64, unit: &str| {
        if first {
            println!("{what:<44} {value:>9.1} {unit}");
        }
    };
    let unless = |variable: &str| match env::var_os(variable) {
        Some(_) => Use::Off,
        None => Use::Auto,
    };
    let options = Options {
        cross_memory: unless("WITHOUT_ATTACH"),
        kernel_fences: unless("WITHOUT_KERNEL_FENCES"),
        assist: unless("WITHOUT_ASSIST"),
        ..Options::default()
    };
    let shm = Shm::attach_with(segment, rank, &options).expect("the segment of this example");
    let mut side = Side {
        bell: shm.bell(),
        shm,
        sink: Count {
            messages: 0,
            completed: 0,
            head: [0; HEAD],
            buffer: vec![0; 1 << 20],
        },
        other: Peer(1 - rank),
    };
    let word = line.atomic_u64(0).expect("a page");
    show("a bounced cache line, one way", bounce(word, first), "ns");
    for length in [0, 8, 24, 64, 256, 1024, 4096, 16384] {
        let rounds = if length > 1024 { 50 } else { 300 };
        let time = side.ping_pong(first, length, rounds);
        show(&format!("ping-pong, {length} bytes, one way"), time, "ns");
    }
    for length in [8, 1024, 16384] {
        let time = side.stream(first, length, 64);
        show(&format!("64 in a row, {length} bytes, each"), time, "ns");
    }
    for length in [
        64,
        1 << 10,
        2 << 10,
        4 << 10,
        8 << 10,
        16 << 10,
        64 << 10,
        128 << 10,
        256 << 10,
        512 << 10,
        1 << 20,
        2 << 20,
        4 << 20,
    ] {
        let rate = side.get(first, length, 50);
        show(&format!("get of {length} bytes"), rate, "GB/s");
    }
    show(side.shm.route(side.other), 0.0, "");
    let bell = side.shm.bell();
    let mut best = f64::MAX;
    for _ in 0..100 {
        let start = Instant::now();
        let ticket = bell.prepare();
        bell.cancel(ticket);
        best = best.min(start.elapsed().as_nanos() as f64);
    }
    show("to announce a sleep", best, "ns");
}

fn main() {
    if let Some(rank) = env::args().nth(1) {
        let inherited = |at: usize| {
            let number = env::args().nth(at).and_then(|word| word.parse().ok());
            descriptor::inherited(number.expect("a descriptor")).expect("the parent passed it on")
        };
        let (segment, line) = (inherited(2), inherited(3));
        let line = MemoryFile::adopt(line)
            .and_then(|file| file.map())
            .expect("a page");
        return run(rank.parse().expect("a rank"), segment, &line);
    }
    let make = |length| MemoryFile::create("weft-example", length).expect("memory");
    let (segment, line) = (make(segment_size(2).expect("two fit")), make(4096));
    initialise(&segment.map().expect("maps"), 2, 2).expect("the right size");
    let children: Vec<_> = (0..2)
        .map(|rank| {
            let mut command = Command::new(env::current_exe().expect("this program"));
            command.arg(rank.to_string()).stdin(Stdio::null());
            for file in [&segment, &line] {
                let copy = file.as_fd().try_clone_to_owned().expect("duplicates");
                let number = descriptor::hand_over(&mut command, copy);
                command.arg(number.to_string());
            }
            command.spawn().expect("a child")
        })
        .collect();
    for mut child in children {
        assert!(child.wait().expect("a child of ours").success());
    }
}
