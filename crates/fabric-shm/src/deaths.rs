//! Deaths: histories of a whole job in which ranks end after any store and the others live on, each history a function
//! of its seed. The code is the real one, built with `--cfg fault_points`.
//!
//! ```text
//!   machine     the processes of a job as fibers of one thread; interleaved, stopped and killed as drawn
//!   reference   what each rank is to do, and a plain record of what was sent
//!   play        the ranks, the launcher, and what is checked
//!   respawned   the same for jobs whose dead are replaced
//! ```
//!
//! ```text
//! RUSTFLAGS="--cfg fault_points" CARGO_TARGET_DIR=target/fault_points \
//!     cargo test --release -p weft-fabric-shm --lib deaths
//! ```
//!
//! `WEFT_SEEDS=10000000` runs so many histories, `WEFT_SEED=7` one of them and tells it.
//!
//! # What is checked
//! * What arrives is what was sent, in order, each byte; of the dead at least all that they were told was
//!   sent, and nothing after their loss.
//! * Nobody who lives sleeps for ever, and no history goes on for ever.
//! * Each rank hears of each death once before it leaves, and of no other.
//! * A transfer ends once: with its bytes, or because its owner has ended.
//! * At the end nobody is counted as awake.
//!
//! # What is not in it
//! Lanes are short, and few lanes are hot, so that short histories come to the ends of both. Memory is
//! sequentially consistent (loom knows the other sorts); the kernel's fences are off. Bulk data goes by
//! chunks: the direct methods copy for microseconds without a store.

mod machine;
mod play;
mod reference;
mod respawned;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Instant;

use machine::{Simulated, SourceLocation};
use play::{History, Telling};

/// How often a rank was ended after each store of the source.
#[derive(Default)]
struct Tally {
    histories: u64,
    steps: u64,
    killed: BTreeMap<String, u64>,
}

impl Tally {
    fn note(&mut self, place: SourceLocation) {
        *self.killed.entry(place.to_string()).or_default() += 1;
    }

    fn merge(&mut self, other: Self) {
        self.histories += other.histories;
        self.steps += other.steps;
        for (place, count) in other.killed {
            *self.killed.entry(place).or_default() += count;
        }
    }
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name}: a number was expected, not {text:?}")),
    )
}

/// Runs on a fiber of each of two threads: which of them, and the machine.
fn on_two_threads(work: impl Fn(u64, &'static Simulated) + Send + Clone + 'static) {
    let threads: Vec<_> = (0..2)
        .map(|index| {
            let work = work.clone();
            std::thread::spawn(move || {
                let config = weft_fiber::Config {
                    workers: 1,
                    fibers: 1024,
                    stack: 128 << 10,
                    pin: None,
                    ..weft_fiber::Config::default()
                };
                let runtime = weft_fiber::Runtime::new(config).expect("a runtime");
                let played = runtime.spawn(move || work(index, Simulated::new()));
                if let Err(thrown) = played.join() {
                    std::panic::resume_unwind(thrown);
                }
            })
        })
        .collect();
    let results: Vec<_> = threads
        .into_iter()
        .map(std::thread::JoinHandle::join)
        .collect();
    for result in results {
        if let Err(thrown) = result {
            std::panic::resume_unwind(thrown);
        }
    }
}

/// One history; tells it if it went wrong.
fn expect_well(history: History, machine: &'static Simulated, tally: &mut Tally) -> Vec<u64> {
    let outcome = history.run(machine);
    tally.histories += 1;
    tally.steps += outcome.steps;
    outcome
        .killed
        .iter()
        .flatten()
        .for_each(|place| tally.note(place));
    let Some(wrong) = outcome.failure else {
        return outcome.writes;
    };
    let traced = History {
        traced: true,
        ..history
    };
    let trace = traced.run(machine).trace;
    let from = trace.len().saturating_sub(200);
    panic!("{}\n{history:?}: {wrong}", trace[from..].join("\n"));
}

#[test]
fn no_survivor_misses_messages_or_sleeps_for_ever_after_any_death() {
    let began = Instant::now();
    let (from, until) = match number("WEFT_SEED") {
        Some(seed) => (seed, seed + 1),
        None => (0, number("WEFT_SEEDS").unwrap_or(100_000)),
    };
    let total: &'static Mutex<Tally> = Box::leak(Box::default());
    on_two_threads(move |index, machine| {
        let mut tally = Tally::default();
        for seed in (from + index..until).step_by(2) {
            expect_well(History::new(seed), machine, &mut tally);
        }
        total.lock().expect("no panic within").merge(tally);
    });
    let tally = total.lock().expect("no panic within");
    for (place, count) in &tally.killed {
        println!("{count:>9} ended after {place}");
    }
    let deaths: u64 = tally.killed.values().sum();
    println!(
        "{} histories, {} steps, {deaths} deaths at {} places in {:?}",
        tally.histories,
        tally.steps,
        tally.killed.len(),
        began.elapsed()
    );
    if until - from >= 10_000 {
        for protocol in ["bits.rs", "doorbell.rs", "lane.rs", "run_states.rs"] {
            let there = tally.killed.keys().any(|place| place.contains(protocol));
            assert!(there, "nobody died in {protocol}");
        }
    }
}

#[test]
fn respawned_processes_and_the_others_find_each_other() {
    let (from, until) = match number("WEFT_SEED") {
        Some(seed) => (seed, seed + 1),
        None => (0, number("WEFT_SEEDS").unwrap_or(100_000) / 5),
    };
    on_two_threads(move |index, machine| {
        let (mut anew, mut histories) = (0, 0);
        for seed in (from + index..until).step_by(2) {
            match respawned::history(seed, machine, false) {
                Ok(replaced) => anew += replaced,
                Err((wrong, _)) => {
                    let trace = respawned::history(seed, machine, true).err();
                    let trace = trace.map_or(Vec::new(), |(_, trace)| trace);
                    let from = trace.len().saturating_sub(200);
                    panic!("{}\nseed {seed}: {wrong}", trace[from..].join("\n"));
                }
            }
            histories += 1;
        }
        println!("{histories} histories, {anew} processes started anew");
    });
}

/// A few histories with each rank killed after each of its stores in turn.
#[test]
fn every_prefix_of_what_a_rank_writes_is_survived() {
    on_two_threads(|index, machine| {
        let mut tally = Tally::default();
        for seed in (index..24).step_by(2) {
            let unharmed = History {
                killed: Some((0, u64::MAX)),
                ..History::new(seed)
            };
            let writes = expect_well(unharmed, machine, &mut tally);
            let launcher = writes.len() - 1;
            for (rank, &writes) in writes[..launcher].iter().enumerate() {
                for after in 1..=writes {
                    let history = History {
                        killed: Some((rank, after)),
                        ..unharmed
                    };
                    expect_well(history, machine, &mut tally);
                }
            }
        }
        println!(
            "{} histories, {} places",
            tally.histories,
            tally.killed.len()
        );
    });
}

/// The histories can fail: with a part of what is done at a death left out they do.
#[test]
fn what_is_done_at_a_death_is_needed() {
    for telling in [Telling::WithoutWaking, Telling::WithoutMarking] {
        let found: &'static Mutex<Option<String>> = Box::leak(Box::default());
        on_two_threads(move |index, machine| {
            for seed in (index..30_000).step_by(2) {
                let history = History {
                    telling,
                    ..History::new(seed)
                };
                if let Some(wrong) = history.run(machine).failure {
                    assert!(wrong.contains("sleep for ever"), "{wrong}");
                    found
                        .lock()
                        .expect("no panic")
                        .get_or_insert(format!("seed {seed}: {wrong}"));
                    return;
                }
            }
        });
        let found = found.lock().expect("no panic within");
        println!("{telling:?}: {found:?}");
        assert!(found.is_some(), "nothing is found {telling:?}");
    }
}
