//! Random programs whose ranks have several threads, of which many come to a standstill: who watches by inquiries proves a
//! standstill where there is one, and nowhere else. The threads are real, and what they do besides is what the kernel shows of them: they
//! wait for each other, compute, or sleep. The [reference] has gone through all states that the program can have.
//!
//! `WEFT_SEEDS=100000` runs so many programs, `WEFT_FIRST_SEED=50000` begins later, `WEFT_RIGHT=1` leaves out
//! those that may come to a standstill.

mod common;
#[path = "deadlocks/judge.rs"]
mod judge;
#[path = "deadlocks/reference.rs"]
mod reference;

use std::collections::BTreeMap;
use std::sync::{Arc, Barrier, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use common::inquired::Inquired;
use common::over;
use judge::Judge;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng};
use reference::{Fates, Places, Programs, SEMAPHORES, Step, fates};
use weft_atomic::{AtomicU8, AtomicU32, Ordering};
use weft_fabric::{Bell, Fabric};
use weft_fabric_local::Local;
use weft_fabric_shm::Shm;
use weft_mpi::coll::{self, Members};
use weft_mpi::waits::RankWaits;
use weft_mpi::{Comm, Process, SendMode, Source, TagPattern, Target};

/// Communicators that messages are sent on; one more is for the end.
const COMMS: u8 = 3;

/// A program that has neither ended nor been proven to stand still by then will not be.
const PATIENCE: Duration = Duration::from_secs(60);

fn open<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Somebody has ended the run.
#[derive(Debug)]
struct Over;

/// Semaphores of one rank.
#[derive(Default)]
struct Semaphores {
    counts: Mutex<([u32; SEMAPHORES], bool)>,
    changed: Condvar,
}

impl Semaphores {
    fn post(&self, which: u8) {
        open(&self.counts).0[usize::from(which)] += 1;
        self.changed.notify_all();
    }

    fn acquire(&self, which: u8) -> Result<(), Over> {
        let mut counts = open(&self.counts);
        loop {
            if counts.1 {
                return Err(Over);
            }
            let count = &mut counts.0[usize::from(which)];
            if *count > 0 {
                *count -= 1;
                return Ok(());
            }
            counts = self.changed.wait(counts).expect("no panic");
        }
    }

    fn end(&self) {
        open(&self.counts).1 = true;
        self.changed.notify_all();
    }
}

/// What the watch knows of a rank.
struct Watched {
    inquiry: Arc<AtomicU32>,
    bells: Arc<Mutex<Vec<Arc<dyn Bell>>>>,
    /// The rank's own threads.
    threads: Arc<Mutex<Vec<u32>>>,
    places: Vec<AtomicU8>,
    semaphores: Semaphores,
    comms: Mutex<Vec<Arc<Comm>>>,
}

/// What the ranks tell.
#[derive(Default)]
struct Told {
    answers: Mutex<BTreeMap<u32, RankWaits>>,
    ended: Mutex<BTreeMap<u32, Vec<weft_mpi::waits::Link>>>,
    something: Condvar,
}

/// A program: made such that all fits, then spoilt here and there.
fn programs(random: &mut StdRng, right: bool) -> Programs {
    let ranks = random.random_range(2..4_u8);
    let mut all: Programs = (0..ranks)
        .map(|_| vec![Vec::new(); random.random_range(1..4)])
        .collect();
    for _ in 0..random.random_range(1..8) {
        let one = random.random_range(0..usize::from(ranks));
        let thread = |random: &mut StdRng, rank: usize| random.random_range(0..all[rank].len());
        match random.random_range(0..10) {
            0 => {
                let twin = random.random_bool(0.3);
                all.iter_mut()
                    .for_each(|rank| rank[0].push(Step::Barrier { twin }));
            }
            1 => {
                let thread = thread(random, one);
                let most = if random.random_bool(0.1) { 3000 } else { 200 };
                all[one][thread].push(Step::Compute {
                    microseconds: random.random_range(1..most),
                    asleep: random.random_bool(0.3),
                });
            }
            2 | 3 => {
                let (posts, awaits) = (thread(random, one), thread(random, one));
                let which = random.random_range(0..SEMAPHORES as u8);
                all[one][posts].push(Step::Post(which));
                all[one][awaits].push(Step::Await(which));
            }
            _ => {
                let other = random.random_range(0..usize::from(ranks));
                let (sends, receives) = (thread(random, one), thread(random, other));
                let tag = random.random_range(0..2);
                let comm = random.random_range(0..COMMS);
                let from = Some(one as u8);
                all[one][sends].push(Step::Send {
                    to: other as u8,
                    tag,
                    comm,
                    synchronous: random.random_bool(0.4),
                });
                if random.random_bool(0.1) {
                    all[other][receives].push(Step::Probe { from, comm });
                }
                all[other][receives].push(Step::Receive {
                    from: from.filter(|_| random.random_bool(0.7)),
                    tag: random.random_bool(0.7).then_some(tag),
                    comm,
                });
            }
        }
    }
    let spoilt = if right { 0 } else { random.random_range(0..3) };
    for _ in 0..spoilt {
        let rank = &mut all[random.random_range(0..usize::from(ranks))];
        let threads = rank.len();
        let one = &mut rank[random.random_range(0..threads)];
        if one.is_empty() {
            continue;
        }
        let at = random.random_range(0..one.len());
        match random.random_range(0..3) {
            0 => _ = one.remove(at),
            1 => one.swap(0, at),
            _ if matches!(one[at], Step::Barrier { .. }) => {}
            _ => one.insert(at, one[at]),
        }
    }
    // Barriers are of the first threads alone.
    all
}

fn compute(microseconds: u16, asleep: bool) {
    let time = Duration::from_micros(microseconds.into());
    if asleep {
        std::thread::sleep(time);
        return;
    }
    let begin = Instant::now();
    while begin.elapsed() < time {
        std::hint::spin_loop();
    }
}

fn barrier(comm: &Comm) -> Result<(), Over> {
    let barrier = coll::barrier(&Members::of(comm)).map_err(|_| Over)?;
    comm.run(barrier).map_err(|_| Over)
}

fn play(
    program: &[Step],
    place: &AtomicU8,
    comms: &[Arc<Comm>],
    semaphores: &Semaphores,
) -> Result<(), Over> {
    let source = |from: Option<u8>| from.map_or(Source::Any, |from| Source::Rank(from.into()));
    let mut data = [7_u8; 8];
    for step in program {
        match *step {
            Step::Send {
                to,
                tag,
                comm,
                synchronous,
            } => {
                let mode = match synchronous {
                    true => SendMode::Synchronous,
                    false => SendMode::Standard,
                };
                let to = Target::Rank(to.into());
                let sent = comms[usize::from(comm)].send(mode, over(&mut data), to, tag.into());
                sent.map_err(|_| Over)?;
            }
            Step::Receive { from, tag, comm } => {
                let tag = tag.map_or(TagPattern::Any, |tag| TagPattern::Exact(tag.into()));
                let got = comms[usize::from(comm)].recv(over(&mut data), source(from), tag);
                got.map_err(|_| Over)?;
            }
            Step::Probe { from, comm } => {
                let found = comms[usize::from(comm)].probe(source(from), TagPattern::Any);
                found.map_err(|_| Over)?;
            }
            Step::Barrier { twin } => barrier(&comms[usize::from(twin)])?,
            Step::Post(which) => semaphores.post(which),
            Step::Await(which) => semaphores.acquire(which)?,
            Step::Compute {
                microseconds,
                asleep,
            } => compute(microseconds, asleep),
        }
        place.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// One rank, whose first thread this is.
fn rank(
    fabric: Box<dyn Fabric>,
    programs: &[Vec<Step>],
    at_once: bool,
    (me, watched, told): (u32, &Watched, &Arc<Told>),
) {
    let process = Process::new(Box::new(Inquired {
        inner: fabric,
        inquiry: Arc::clone(&watched.inquiry),
        bells: Arc::clone(&watched.bells),
    }));
    if at_once {
        process.let_threads_call_at_once();
    }
    let threads = Arc::clone(&watched.threads);
    open(&threads).push(weft_sys::process::thread_id());
    process.set_threads(move || open(&threads).clone());
    let world = process.world();
    let comms: Vec<Arc<Comm>> = (0..=COMMS)
        .map(|_| world.dup().expect("all of them"))
        .collect();
    open(&watched.comms).clone_from(&comms);
    let listener = Arc::clone(told);
    process.hear_waits(move |waits| {
        open(&listener.answers).insert(me, waits);
        listener.something.notify_all();
    });
    let there = Barrier::new(programs.len());
    let played = std::thread::scope(|scope| {
        let others: Vec<_> = (1..programs.len())
            .map(|thread| {
                let (there, comms) = (&there, &comms);
                scope.spawn(move || {
                    let id = weft_sys::process::thread_id();
                    open(&watched.threads).push(id);
                    there.wait();
                    let place = &watched.places[thread];
                    let played = play(&programs[thread], place, comms, &watched.semaphores);
                    open(&watched.threads).retain(|other| *other != id);
                    played
                })
            })
            .collect();
        there.wait();
        let first = &watched.places[0];
        let played = play(&programs[0], first, &comms, &watched.semaphores);
        let others = others.into_iter().map(|one| one.join().expect("no panic"));
        let ended = others.fold(played, Result::and);
        ended.and_then(|()| {
            first.fetch_add(1, Ordering::Relaxed);
            barrier(&comms[usize::from(COMMS)])
        })
    });
    if played.is_ok() {
        process.drain();
        watched.places[0].fetch_add(1, Ordering::Relaxed);
    }
    open(&told.ended).insert(me, Vec::new());
    told.something.notify_all();
    drop(world);
    open(&watched.comms).clear();
    process.release();
}

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
