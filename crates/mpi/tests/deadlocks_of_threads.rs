//! Random programs whose ranks have several threads, of which many come to a standstill: who watches by inquiries proves a
//! standstill where there is one, and nowhere else. The threads are real, and what they do besides is what the kernel shows of them: they
//! wait for each other, compute, or sleep. The [reference] has gone through all states that the program can have.
//!
//! `WEFT_SEEDS=100000` runs so many programs, `WEFT_FIRST_SEED=50000` begins later, `WEFT_RIGHT=1` leaves out
//! those that may come to a standstill.

#[path = "deadlocks/players.rs"]
mod players;
#[path = "deadlocks/random_threads.rs"]
mod random_threads;
#[path = "deadlocks/reference.rs"]
mod reference;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use players::{Semaphores, Told, Watched, open, rank};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng};
use random_threads::programs;
use reference::{Fates, Places, Programs, Step, fates};
use weft_atomic::{AtomicU8, Ordering};
use weft_fabric::Fabric;
use weft_fabric_local::Local;
use weft_fabric_shm::Shm;

use crate::deadlocks::judge::Judge;

/// A program that has neither ended nor been proven to stand still by then will not be.
const PATIENCE: Duration = Duration::from_secs(60);

/// What became of a program.
enum Seen {
    Ended,
    /// It was proven to stand still, with its threads there.
    Proven(Places),
    /// Too long.
    Neither(String),
}

/// Asks until a standstill is proven, or until all have ended.
fn watch(all: &[Watched], told: &Told, random: &mut StdRng) -> Seen {
    let ranks = all.len();
    let begin = Instant::now();
    let mut judge = Judge::default();
    for number in 1.. {
        open(&told.answers).clear();
        for one in all {
            one.inquiry.store(2 * number, Ordering::SeqCst);
            open(&one.bells).iter().for_each(|bell| bell.ring());
        }
        // Those that compute do not answer in time.
        let until = Instant::now() + Duration::from_micros(random.random_range(50..2_000));
        let mut answers = open(&told.answers);
        loop {
            answers.retain(|_, answer| answer.inquiry == 2 * number);
            let left = until.saturating_duration_since(Instant::now());
            let ended = open(&told.ended).len();
            if ended == ranks {
                return Seen::Ended;
            }
            if answers.len() + ended >= ranks || left.is_zero() {
                break;
            }
            (answers, _) = told
                .something
                .wait_timeout(answers, left)
                .expect("no panic");
        }
        let answers = std::mem::take(&mut *answers);
        let ended = open(&told.ended).clone();
        if judge.is_standstill(ranks as u32, answers.clone(), ended) {
            let places = |one: &Watched| {
                let places = one.places.iter();
                places.map(|place| place.load(Ordering::Relaxed)).collect()
            };
            return Seen::Proven(all.iter().map(places).collect());
        }
        if begin.elapsed() > PATIENCE {
            let places = all.iter().map(|one| &one.places).collect::<Vec<_>>();
            return Seen::Neither(format!("{places:?} {answers:#?}"));
        }
    }
    unreachable!("numbers of inquiries do not end")
}

/// The fabric that a seed is run on, and whether the threads call at once.
fn fabrics(seed: u64, ranks: u32) -> (Vec<Box<dyn Fabric>>, bool) {
    fn boxed<F: Fabric + 'static>(group: Vec<F>) -> Vec<Box<dyn Fabric>> {
        let boxed = group
            .into_iter()
            .map(|one| Box::new(one) as Box<dyn Fabric>);
        boxed.collect()
    }
    match seed % 4 {
        0 | 1 => (boxed(Local::group(ranks as usize)), false),
        2 => (boxed(Local::group_with_channels(ranks as usize, 3)), true),
        _ => (boxed(Shm::group(ranks).expect("a memory file")), false),
    }
}

/// Runs it: where its threads stood still, as was proven.
fn run(seed: u64, programs: &Programs) -> Option<Places> {
    let watched: Vec<Watched> = programs
        .iter()
        .map(|threads| Watched {
            inquiry: Arc::default(),
            bells: Arc::default(),
            threads: Arc::default(),
            places: threads.iter().map(|_| AtomicU8::new(0)).collect(),
            semaphores: Semaphores::default(),
            comms: Mutex::default(),
        })
        .collect();
    let told = Arc::new(Told::default());
    let (endpoints, at_once) = fabrics(seed, programs.len() as u32);
    for (one, endpoint) in watched.iter().zip(&endpoints) {
        open(&one.bells).push(endpoint.bell());
    }
    std::thread::scope(|scope| {
        for (me, endpoint) in endpoints.into_iter().enumerate() {
            let (watched, told, program) = (&watched[me], &told, &programs[me]);
            scope.spawn(move || rank(endpoint, program, at_once, (me as u32, watched, told)));
        }
        let seen = watch(&watched, &told, &mut StdRng::seed_from_u64(!seed));
        if !matches!(seen, Seen::Ended) {
            // What they wait for ends in errors.
            for one in &watched {
                one.semaphores.end();
                let comms = open(&one.comms).clone();
                comms.iter().for_each(|comm| comm.revoke());
            }
        }
        match seen {
            Seen::Ended => None,
            Seen::Proven(places) => Some(places),
            Seen::Neither(found) => panic!("seed {seed}: neither proven nor ended: {found}"),
        }
    })
}

/// Rank 0 asks for a message from anybody, and then for its own, which it sends when rank 1 has written on another
/// communicator: what came first of that is not said, so the first receive may take its own one.
#[test]
fn what_comes_on_two_communicators_has_no_order() {
    let receive = |from, tag, comm| Step::Receive { from, tag, comm };
    let send = |tag, comm| Step::Send {
        to: 0,
        tag,
        comm,
        synchronous: false,
    };
    let program = |second: u8| {
        let first = vec![receive(None, Some(0), 0), receive(Some(0), Some(0), 0)];
        let other = vec![receive(Some(1), Some(1), second), send(0, 0)];
        let of_one = vec![vec![send(0, 0), send(1, second)]];
        vec![vec![first, other], of_one]
    };
    let standstills = |second| fates(&program(second)).expect("few states").standstills;
    assert_eq!(standstills(0).len(), 0);
    assert_eq!(standstills(1).len(), 1);
}

#[test]
fn what_is_proven_of_threads_is_a_standstill_and_each_standstill_is_proven() {
    let number = |name: &str| -> Option<u64> { std::env::var(name).ok()?.parse().ok() };
    let right = number("WEFT_RIGHT") == Some(1);
    let seeds = match number("WEFT_SEED") {
        Some(seed) => seed..seed + 1,
        None => {
            let first = number("WEFT_FIRST_SEED").unwrap_or(0);
            first..first + number("WEFT_SEEDS").unwrap_or(600)
        }
    };
    let (mut stood, mut ended, mut open_ended, mut left_out) = (0, 0, 0, 0);
    for seed in seeds.clone() {
        if seed % 10_000 == 0 {
            println!("from {seed} on, {stood} and {ended} so far");
        }
        let programs = programs(&mut StdRng::seed_from_u64(seed), right);
        let expected = match fates(&programs) {
            Some(Fates {
                is_unjudged: false,
                ends,
                standstills,
            }) if !right || standstills.is_empty() => (ends, standstills),
            _ => {
                left_out += 1;
                continue;
            }
        };
        if seeds.end - seeds.start == 1 {
            println!("{programs:#?}\n{expected:?}");
        }
        let (ends, standstills) = expected;
        open_ended += u32::from(ends && !standstills.is_empty());
        match run(seed, &programs) {
            Some(places) => {
                assert!(
                    standstills.contains(&places),
                    "seed {seed}: accused at {places:?}, may stand still at {standstills:?}"
                );
                stood += 1;
            }
            None => {
                assert!(ends, "seed {seed}: the reference knows of no end");
                ended += 1;
            }
        }
    }
    println!(
        "{stood} standstills, {ended} programs that came to their end ({open_ended} that could have done either), {left_out} left out"
    );
    if seeds.end - seeds.start > 100 {
        let few = (stood + ended) / 20;
        assert!(
            (right || stood >= few) && ended >= few,
            "{stood} and {ended}"
        );
    }
}
