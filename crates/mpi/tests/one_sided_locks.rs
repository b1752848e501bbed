//! Random programs of locks, under simulation: ranks that share several locks of a window at a time, in any order, within epochs of all and one
//! by one, and ranks that want one alone. The simulated machine knows when nobody can go on, which is never. Locks in the memory of one
//! host, and by messages. `WEFT_SEEDS=100000` runs so many programs of each.
#![allow(missing_docs)]

use std::sync::Arc;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use weft_fabric::Region;
use weft_fabric_local::Local;
use weft_fabric_sim::{Config, World};
use weft_mpi::coll::{self, Members};
use weft_mpi::datatype::Basic;
use weft_mpi::info::Info;
use weft_mpi::p2p::{SendMode, Source, TagPattern, Target};
use weft_mpi::rma::{Allocation, Assertion, Ends, Flavor, LockKind, TargetBuffer, Window};
use weft_mpi::{Buffer, Comm, ErrorClass, Process};

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

/// Two windows in memory that all members share, if they share any.
fn two_windows(comm: &Arc<Comm>) -> [Arc<Window>; 2] {
    [0, 1].map(|_| {
        let allocation = Allocation::OfWeft(16);
        Window::new(comm, Flavor::Allocate, allocation, 8, &Info::default()).expect("a window")
    })
}

/// Nobody uses them any more.
fn end_with(comm: &Comm, process: &Process, windows: &[Arc<Window>]) {
    barrier(comm);
    for window in windows {
        window.free().expect("no epoch is open");
    }
    process.drain();
}

/// Locks of two windows at a time: those of one are kept while epochs of the other come and go.
fn of_both(one: &mut Player<'_>, other: &mut Player<'_>) {
    let size = one.window.size();
    one.window.lock_all(NONE).expect("no epoch");
    for _ in 0..one.dice.random_range(1..4) {
        other.window.lock_all(NONE).expect("no epoch");
        for _ in 0..one.dice.random_range(0..5) {
            let rank = one.dice.random_range(0..size);
            match one.dice.random::<bool>() {
                true => one.look(rank),
                false => other.look(rank),
            }
        }
        other.window.unlock_all().expect("it is open");
    }
    one.window.unlock_all().expect("it is open");
}

/// One of each of two windows.
fn of_each<'a>(one: &mut Player<'a>, other: &mut Player<'a>) {
    let size = one.window.size();
    let ranks = [0, 1].map(|_| one.dice.random_range(0..size));
    let shared = LockKind::Shared;
    for (player, rank) in [(&mut *one, ranks[0]), (&mut *other, ranks[1])] {
        player.window.lock(shared, rank, NONE).expect("not held");
        player.look(rank);
    }
    one.window.unlock(ranks[0]).expect("it is held");
    other.window.unlock(ranks[1]).expect("it is held");
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
fn every_rank_that_wants_a_lock_gets_it() {
    let usual = if cfg!(miri) { 1 } else { 400 };
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

/// To or from another rank, with nothing in it.
fn send(comm: &Comm, to: u32) {
    let nothing = Buffer::untyped(over(&mut []));
    let sent = comm.send(SendMode::Standard, nothing, Target::Rank(to), 1);
    sent.expect("nobody dies");
}

fn receive(comm: &Comm, from: u32) {
    let nothing = Buffer::untyped(over(&mut []));
    let received = comm.recv(nothing, Source::Rank(from), TagPattern::Exact(1));
    received.expect("nobody dies");
}

/// Time goes by, for whoever waits to have come to stand in line.
fn pass_time(comm: &Comm, first: u32, second: u32) {
    for _ in 0..10 {
        if comm.rank() == first {
            send(comm, second);
            receive(comm, second);
        } else {
            receive(comm, first);
            send(comm, first);
        }
    }
}

/// Rank 0 is alone at its own lock; rank 1 waits to share it, then rank 2 to be alone. When rank 0 has left, rank 3, which has another lock, asks
/// for this one, and finds a reader first in line that has not looked yet. It waits; and if rank 1 comes in, it goes past the writer as
/// soon as that is first. Rank 1 stays until it has. So the writer has to tell it.
#[test]
fn a_first_writer_tells_which_readers_may_go_past() {
    let seeds = if cfg!(miri) { 1 } else { 200 };
    for seed in 0..seeds {
        let world = World::new(Config {
            shares_memory: true,
            ..Config::new(4, seed)
        });
        let played = world.run(|endpoint| {
            let process = Process::new(Box::new(endpoint));
            let comm = process.world();
            let window = Window::new(
                &comm,
                Flavor::Allocate,
                Allocation::OfWeft(16),
                8,
                &Info::default(),
            );
            let window: Arc<Window> = window.expect("a window");
            let (shared, exclusive) = (LockKind::Shared, LockKind::Exclusive);
            let lock = |kind, rank| window.lock(kind, rank, NONE).expect("not held");
            let unlock = |rank| window.unlock(rank).expect("it is held");
            if comm.rank() == 0 {
                lock(exclusive, 0);
            }
            barrier(&comm);
            match comm.rank() {
                0 => {
                    pass_time(&comm, 0, 3);
                    pass_time(&comm, 0, 3);
                    unlock(0);
                    send(&comm, 3);
                }
                1 => {
                    lock(shared, 0);
                    receive(&comm, 3);
                    unlock(0);
                }
                2 => {
                    receive(&comm, 3);
                    lock(exclusive, 0);
                    unlock(0);
                }
                _ => {
                    lock(shared, 3);
                    pass_time(&comm, 0, 3);
                    send(&comm, 2);
                    pass_time(&comm, 0, 3);
                    receive(&comm, 0);
                    lock(shared, 0);
                    send(&comm, 1);
                    unlock(0);
                    unlock(3);
                }
            }
            barrier(&comm);
            window.free().expect("no epoch is open");
            process.drain();
        });
        if let Err(failure) = played {
            panic!("seed {seed}: {failure}");
        }
    }
}

/// Two windows of one host: nobody waits for ever whatever is kept of one while locks of the other are asked for.
#[test]
fn locks_of_two_windows_are_shared_in_any_order() {
    let usual = if cfg!(miri) { 1 } else { 500 };
    let seeds = std::env::var("WEFT_SEEDS").ok();
    let seeds = seeds.and_then(|number| number.parse().ok());
    for seed in 0..seeds.unwrap_or(usual) {
        let ranks = 3 + seed as usize % 5;
        let world = World::new(Config {
            shares_memory: true,
            ..Config::new(ranks, seed)
        });
        let played = world.run(|endpoint| {
            let process = Process::new(Box::new(endpoint));
            let comm = process.world();
            let windows = two_windows(&comm);
            let mut number = 0;
            let [mut one, mut other] = windows.each_ref().map(|window: &Arc<Window>| {
                number += 1;
                Player {
                    window,
                    dice: StdRng::seed_from_u64(
                        seed << 9 | u64::from(comm.rank()) << 1 | number & 1,
                    ),
                    changes: 0,
                }
            });
            for _ in 0..12 {
                match one.dice.random_range(0..8) {
                    0..=1 => one.play(1),
                    2..=3 => other.play(1),
                    4 => of_both(&mut one, &mut other),
                    5 => of_both(&mut other, &mut one),
                    6 => of_each(&mut one, &mut other),
                    _ => of_each(&mut other, &mut one),
                }
            }
            end_with(&comm, &process, &windows);
        });
        if let Err(failure) = played {
            panic!("{ranks} ranks, seed {seed}: {failure}");
        }
    }
}

/// Epochs of all, of two windows, which all ranks begin in the same order. Rank 1 has gone past the writer at the second window before, and rank 2
/// past that at the first one, so that each would stand behind that writer now; and each has come in past the other's.
#[test]
fn epochs_of_two_windows_hold_nobody_up_for_ever() {
    for seed in 0..if cfg!(miri) { 1 } else { 20 } {
        let world = World::new(Config {
            shares_memory: true,
            ..Config::new(6, seed)
        });
        let played = world.run(|endpoint| {
            let process = Process::new(Box::new(endpoint));
            let comm = process.world();
            let windows = two_windows(&comm);
            let player = |at: usize| Player {
                window: &windows[at],
                dice: StdRng::seed_from_u64(seed),
                changes: 0,
            };
            let meet = |other| {
                send(&comm, other);
                receive(&comm, other);
            };
            match comm.rank() {
                0 => (0..10).for_each(|_| pass_time(&comm, 0, 5)),
                // Epochs of all: `mine` is where this rank has gone past a writer before.
                me @ (1 | 2) => {
                    let (mine, first) = (player(2 - me as usize), player(me as usize - 1));
                    receive(&comm, 5);
                    mine.window.lock_all(NONE).expect("no epoch");
                    mine.look(0);
                    mine.window.unlock_all().expect("it is open");
                    meet(3 - me);
                    for window in &windows {
                        window.lock_all(NONE).expect("no epoch");
                    }
                    first.look(0);
                    meet(3 - me);
                    mine.look(0);
                    for window in &windows {
                        window.unlock_all().expect("it is open");
                    }
                }
                me @ (3 | 4) => {
                    receive(&comm, 5);
                    player(me as usize - 3).change(0);
                }
                // Whoever is in before, and stays for a while.
                _ => {
                    for window in &windows {
                        window.lock(LockKind::Shared, 0, NONE).expect("not held");
                    }
                    for writer in [3, 4] {
                        send(&comm, writer);
                    }
                    pass_time(&comm, 0, 5);
                    for reader in [1, 2] {
                        send(&comm, reader);
                    }
                    (1..10).for_each(|_| pass_time(&comm, 0, 5));
                    for window in &windows {
                        window.unlock(0).expect("it is held");
                    }
                }
            }
            end_with(&comm, &process, &windows);
        });
        if let Err(failure) = played {
            panic!("seed {seed}: {failure}");
        }
    }
}

/// Rank 1 has a lock of one window, rank 2 one of the other; two ranks stand in line for each of them alone; then the first two ask for each other's.
#[test]
fn a_lock_of_another_window_is_another_lock() {
    for seed in 0..if cfg!(miri) { 1 } else { 20 } {
        let world = World::new(Config {
            shares_memory: seed % 2 == 0,
            ..Config::new(5, seed)
        });
        let played = world.run(|endpoint| {
            let process = Process::new(Box::new(endpoint));
            let comm = process.world();
            let windows = two_windows(&comm);
            match comm.rank() {
                0 => (0..2).for_each(|reader| pass_time(&comm, 0, 1 + reader)),
                me @ (1 | 2) => {
                    let [mine, other] = [me - 1, 2 - me].map(|at| &windows[at as usize]);
                    mine.lock(LockKind::Shared, 0, NONE).expect("not held");
                    send(&comm, me + 2);
                    pass_time(&comm, 0, me);
                    other.lock(LockKind::Shared, 0, NONE).expect("not held");
                    mine.unlock(0).expect("it is held");
                    other.unlock(0).expect("it is held");
                }
                me => {
                    receive(&comm, me - 2);
                    let window = &windows[me as usize - 3];
                    window.lock(LockKind::Exclusive, 0, NONE).expect("not held");
                    window.unlock(0).expect("it is held");
                }
            }
            end_with(&comm, &process, &windows);
        });
        if let Err(failure) = played {
            panic!("seed {seed}: {failure}");
        }
    }
}

/// Of two threads of a rank one waits for a lock, and the other is told so: both would be woken by one bit, which is the rank's.
#[test]
fn one_thread_of_a_rank_waits_for_a_lock() {
    let ranks = Local::group(2).into_iter();
    let ranks: Vec<_> = ranks.map(|one| Process::new(Box::new(one))).collect();
    std::thread::scope(|scope| {
        for process in &ranks {
            scope.spawn(move || {
                let comm = process.world();
                let windows = two_windows(&comm);
                let window = &windows[0];
                let lock = || window.lock(LockKind::Exclusive, 0, NONE);
                if comm.rank() == 0 {
                    lock().expect("not held");
                    barrier(&comm);
                    receive(&comm, 1);
                    window.unlock(0).expect("it is held");
                } else {
                    barrier(&comm);
                    let outcomes = std::thread::scope(|scope| {
                        let threads = [(); 2].map(|()| {
                            scope.spawn(|| {
                                let outcome = lock();
                                if outcome.is_err() {
                                    send(&comm, 0);
                                }
                                outcome
                            })
                        });
                        threads.map(|thread| thread.join().expect("no panic"))
                    });
                    let errors: Vec<_> = outcomes.into_iter().filter_map(Result::err).collect();
                    let [error] = &errors[..] else {
                        panic!("one of them waits: {errors:?}");
                    };
                    assert_eq!(error.class(), ErrorClass::RmaSync);
                    assert!(error.to_string().contains("another thread"), "{error}");
                    window.unlock(0).expect("the other one has it");
                }
                end_with(&comm, process, &windows);
            });
        }
    });
}
