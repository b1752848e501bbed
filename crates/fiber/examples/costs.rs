//! What fibers cost here: `cargo run --release -p weft-fiber --example costs`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Instant;

use weft_fiber::{Builder, Config, Fiber, Runtime, current, park, spawn, yield_now};

fn config(workers: usize) -> Config {
    Config {
        workers,
        ..Config::default()
    }
}

/// Nanoseconds of a yield among so many fibers.
fn yields(fibers: u32) -> f64 {
    let rounds = (20_000_000 / fibers).clamp(4, 1_000_000);
    Runtime::run(config(1), move || {
        let start = Arc::new(AtomicBool::new(false));
        let handles: Vec<_> = (0..fibers)
            .map(|_| {
                let start = start.clone();
                spawn(move || {
                    while !start.load(Ordering::Relaxed) {
                        yield_now();
                    }
                    for _ in 0..rounds {
                        yield_now();
                    }
                })
            })
            .collect();
        yield_now();
        yield_now();
        start.store(true, Ordering::Relaxed);
        let began = Instant::now();
        for handle in handles {
            handle.join().expect("no panic");
        }
        began.elapsed().as_nanos() as f64 / f64::from(fibers) / f64::from(rounds)
    })
    .expect("memory")
}

fn create_run_join() -> f64 {
    Runtime::run(config(1), || {
        const COUNT: u32 = 2_000_000;
        let mut best = f64::MAX;
        for _ in 0..5 {
            let began = Instant::now();
            for number in 0..COUNT {
                assert_eq!(spawn(move || number).join().expect("no panic"), number);
            }
            best = best.min(began.elapsed().as_nanos() as f64 / f64::from(COUNT));
        }
        best
    })
    .expect("memory")
}

fn parked(
    runtime: &Runtime,
    worker: usize,
    count: usize,
    ran: &Arc<AtomicU32>,
    end: &Arc<AtomicBool>,
) -> Vec<Fiber> {
    (0..count)
        .map(|_| {
            let (ran, end) = (ran.clone(), end.clone());
            Builder::new()
                .worker(worker)
                .spawn_on(runtime, move || {
                    // A signal that comes before the first suspension would not count.
                    loop {
                        ran.fetch_add(1, Ordering::Relaxed);
                        park();
                        if end.load(Ordering::Relaxed) {
                            return;
                        }
                    }
                })
                .expect("a stack")
                .fiber()
        })
        .collect()
}

/// Signals fibers of worker `target` from a fiber of worker 0: nanoseconds each to the sender.
fn signals(target: usize, count: usize) -> (f64, f64) {
    let runtime = Runtime::new(config(2)).expect("memory");
    let (ran, end) = (
        Arc::new(AtomicU32::new(0)),
        Arc::new(AtomicBool::new(false)),
    );
    let fibers = parked(&runtime, target, count, &ran, &end);
    let result = Builder::new()
        .worker(0)
        .spawn_on(&runtime, move || {
            let mut best = (f64::MAX, f64::MAX);
            for round in 1..20 {
                while (ran.load(Ordering::Acquire) as usize) < round * count {
                    yield_now();
                }
                std::thread::sleep(std::time::Duration::from_micros(100));
                let began = Instant::now();
                for fiber in &fibers {
                    fiber.signal();
                }
                let sent = began.elapsed().as_nanos() as f64 / count as f64;
                while (ran.load(Ordering::Acquire) as usize) < (round + 1) * count {
                    yield_now();
                }
                let all = began.elapsed().as_nanos() as f64 / count as f64;
                best = (best.0.min(sent), best.1.min(all));
            }
            end.store(true, Ordering::Relaxed);
            for fiber in &fibers {
                fiber.signal();
            }
            best
        })
        .expect("a stack");
    result.join().expect("no panic")
}

fn main() {
    for fibers in [2, 8, 64, 256, 512, 4096, 65_536, 1_000_000] {
        println!("yield among {fibers:8} fibers {:7.1} ns", yields(fibers));
    }
    println!("create, run, join          {:7.1} ns", create_run_join());
    for count in [1, 1000, 10_000] {
        for (name, target) in [("same", 0), ("other", 1)] {
            let (sent, all) = signals(target, count);
            println!(
                "signal {count:6} of the {name:5} worker: sender {sent:6.1} ns, until all ran {all:6.1} ns each"
            );
        }
    }
    assert!(current().is_none());
}
