//! Random programs of locks, under simulation: ranks that share several locks of a window at a time, in any order, within epochs of all and one
//! by one, and ranks that want one alone. The simulated machine knows when nobody can go on, which is never. Locks in the memory of one
//! host, and by messages. `WEFT_SEEDS=100000` runs so many programs of each.
#![allow(missing_docs)]

mod common;

use std::sync::Arc;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use weft_fabric::Region;
use weft_fabric_sim::{Config, World};
use weft_mpi::coll::{self, Members};
use weft_mpi::datatype::Basic;
use weft_mpi::info::Info;
use weft_mpi::rma::{Allocation, Assertion, Ends, Flavor, LockKind, TargetBuffer, Window};
use weft_mpi::{Buffer, Comm, Process};

const NONE: Assertion = Assertion {
    no_check: false,
    no_precede: false,
    no_succeed: false,
};

fn over(numbers: &mut [i64]) -> Region {
    // SAFETY: each is kept until what uses it has ended.
    unsafe { Region::new(numbers.as_mut_ptr().cast(), size_of_val(numbers)) }
}

/// What one rank does: in the memory of each are two words that are alike for whoever has the lock.
struct Player<'a> {
    window: &'a Window,
    dice: StdRng,
    changes: i64,
}

impl Player<'_> {
    fn place(&self, rank: u32, word: i64) -> TargetBuffer<'static> {
        TargetBuffer {
            rank,
            displacement: word,
            count: 1,
            datatype: Basic::Int64.datatype(),
        }
    }

    fn read(&self, rank: u32, word: i64) -> i64 {
        let mut found = [-1];
        let into = Buffer::untyped(over(&mut found));
        let got = self
            .window
            .get(into, &self.place(rank, word), Ends::WithEpoch);
        got.expect("a lock is held");
        self.window.flush(rank).expect("a lock is held");
        found[0]
    }

    fn look(&self, rank: u32) {
        assert_eq!(self.read(rank, 0), self.read(rank, 1), "beside a writer");
    }

    fn change(&mut self, rank: u32) {
        let exclusive = LockKind::Exclusive;
        self.window.lock(exclusive, rank, NONE).expect("no epoch");
        for word in [0, 1] {
            let mut number = [self.read(rank, word) + 1];
            let source = Buffer::untyped(over(&mut number));
            let put = self
                .window
                .put(source, &self.place(rank, word), Ends::WithEpoch);
            put.expect("a lock is held");
            self.window.flush(rank).expect("a lock is held");
        }
        self.window.unlock(rank).expect("it is held");
        self.changes += 1;
    }

    fn several(&mut self) {
        let (size, first) = (self.window.size(), self.dice.random::<u32>());
        let step = self.dice.random_range(1..size);
        let count = self.dice.random_range(1..=size.min(3));
        let mut held = Vec::new();
        for rank in (0..count).map(|at| first.wrapping_add(at * step) % size) {
            if held.contains(&rank) {
                continue;
            }
            let shared = LockKind::Shared;
            self.window.lock(shared, rank, NONE).expect("not held");
            held.push(rank);
            self.look(rank);
        }
        for rank in held {
            self.window.unlock(rank).expect("it is held");
        }
    }

    fn all(&mut self) {
        self.window.lock_all(NONE).expect("no epoch");
        for _ in 0..self.dice.random_range(0..4) {
            let rank = self.dice.random_range(0..self.window.size());
            self.look(rank);
        }
        self.window.unlock_all().expect("it is open");
    }

    fn play(&mut self, steps: usize) {
        for _ in 0..steps {
            match self.dice.random_range(0..8) {
                0..=2 => {
                    let rank = self.dice.random_range(0..self.window.size());
                    self.change(rank);
                }
                3..=4 => self.several(),
                _ => self.all(),
            }
        }
    }
}

fn barrier(comm: &Comm) {
    let schedule = coll::barrier(&Members::of(comm)).expect("a schedule");
    comm.run(schedule).expect("nobody dies");
}

fn play(ranks: usize, seed: u64, shares_memory: bool, flavor: Flavor) {
    let config = if seed.is_multiple_of(3) {
        Config::faulty(ranks, seed)
    } else {
        Config::new(ranks, seed)
    };
    let world = World::new(Config {
        shares_memory,
        ..config
    });
    let played = world.run(|endpoint| {
        let process = Process::new(Box::new(endpoint));
        let comm = process.world();
        let mut memory = [0i64; 2];
        let allocation = match flavor {
            Flavor::Create => Allocation::OfProgram(over(&mut memory)),
            _ => Allocation::OfWeft(16),
        };
        let window = Window::new(&comm, flavor, allocation, 8, &Info::default());
        let window: Arc<Window> = window.expect("a window");
        let mut player = Player {
            window: &window,
            dice: StdRng::seed_from_u64(seed << 8 | u64::from(comm.rank())),
            changes: 0,
        };
        player.play(12);
        barrier(&comm);
        // As often as all have changed any.
        let sum = |word| (0..window.size()).map(|rank| player.read(rank, word)).sum();
        window.lock_all(NONE).expect("no epoch");
        let both: [i64; 2] = [sum(0), sum(1)];
        window.unlock_all().expect("it is open");
        assert!(both[0] == both[1] && both[0] >= player.changes);
        window.free().expect("no epoch is open");
        process.drain();
    });
    if let Err(failure) = played {
        panic!("{ranks} ranks, seed {seed}, one host: {shares_memory}, {flavor:?}: {failure}");
    }
}

#[test]
fn whoever_wants_a_lock_gets_it() {
    let usual = if cfg!(miri) { 1 } else { 1000 };
    let seeds = std::env::var("WEFT_SEEDS").ok();
    let seeds = seeds.and_then(|number| number.parse().ok());
    for seed in 0..seeds.unwrap_or(usual) {
        let ranks = 3 + seed as usize % 5;
        let flavors = [Flavor::Allocate, Flavor::Create];
        let flavor = flavors[seed as usize / 2 % 2];
        play(ranks, seed, true, flavor);
        play(ranks, seed, false, flavor);
    }
}
