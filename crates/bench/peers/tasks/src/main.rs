//! The loops of `../threads.hpp` for tasks of tokio and for coroutines of may, under the same protocol.

use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Keeps the calling thread on the n-th core.
fn pin(place: usize) {
    if let Some(cores) = core_affinity::get_core_ids()
        && !cores.is_empty()
    {
        core_affinity::set_for_current(cores[place % cores.len()]);
    }
}

/// The shared state of the tasks that yield.
#[derive(Default)]
struct Yielding {
    running: AtomicU64,
    ended: AtomicU64,
    begin: OnceLock<Instant>,
    end: OnceLock<Instant>,
}

impl Yielding {
    fn end(&self, count: u64) {
        if self.ended.fetch_add(1, Ordering::Relaxed) + 1 == count {
            self.end.get_or_init(Instant::now);
        }
    }

    fn took(&self) -> f64 {
        match (self.begin.get(), self.end.get()) {
            (Some(begin), Some(end)) => end.duration_since(*begin).as_nanos() as f64,
            _ => f64::NAN,
        }
    }
}

fn current_thread() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime of tokio")
}

fn yield_tokio(count: u64, rounds: u64) -> f64 {
    let all = Arc::new(Yielding::default());
    let shared = all.clone();
    let worker = std::thread::spawn(move || {
        pin(0);
        current_thread().block_on(async move {
            let tasks: Vec<_> = (0..count)
                .map(|_| {
                    let all = shared.clone();
                    tokio::spawn(async move {
                        all.running.fetch_add(1, Ordering::Relaxed);
                        while all.running.load(Ordering::Relaxed) < count {
                            tokio::task::yield_now().await;
                        }
                        all.begin.get_or_init(Instant::now);
                        for _ in 0..rounds {
                            tokio::task::yield_now().await;
                        }
                        all.end(count);
                    })
                })
                .collect();
            for task in tasks {
                task.await.expect("no panic");
            }
        });
    });
    worker.join().expect("no panic");
    all.took()
}

fn yield_may(count: u64, rounds: u64) -> f64 {
    let all = Arc::new(Yielding::default());
    let coroutines: Vec<_> = (0..count)
        .map(|_| {
            let all = all.clone();
            may::go!(move || {
                all.running.fetch_add(1, Ordering::Relaxed);
                while all.running.load(Ordering::Relaxed) < count {
                    may::coroutine::yield_now();
                }
                all.begin.get_or_init(Instant::now);
                for _ in 0..rounds {
                    may::coroutine::yield_now();
                }
                all.end(count);
            })
        })
        .collect();
    for coroutine in coroutines {
        coroutine.join().expect("no panic");
    }
    all.took()
}

fn create_tokio(count: u64) -> f64 {
    let worker = std::thread::spawn(move || {
        pin(0);
        current_thread().block_on(async move {
            // A task waits for all, as in the other libraries a thread of their own kind does.
            let all = tokio::spawn(async move {
                let start = Instant::now();
                for _ in 0..count {
                    tokio::spawn(async {}).await.expect("no panic");
                }
                start.elapsed().as_nanos() as f64
            });
            all.await.expect("no panic")
        })
    });
    worker.join().expect("no panic")
}

fn create_may(count: u64) -> f64 {
    let all = may::go!(move || {
        let start = Instant::now();
        for _ in 0..count {
            may::go!(|| ()).join().expect("no panic");
        }
        start.elapsed().as_nanos() as f64
    });
    all.join().expect("no panic")
}

/// The sender's rounds: one signal to each once all wait.
fn send(
    count: u64,
    rounds: u64,
    ready: &AtomicU64,
    mut signal: impl FnMut(usize, u64),
) -> Vec<f64> {
    let mut samples = Vec::new();
    for round in 1..=rounds {
        while ready.load(Ordering::Relaxed) < round * count {
            std::thread::yield_now();
        }
        // The last of them may still be between counting itself and waiting.
        std::thread::sleep(Duration::from_micros(200));
        let start = Instant::now();
        for index in 0..count as usize {
            signal(index, round);
        }
        samples.push(start.elapsed().as_nanos() as f64 / count as f64);
    }
    samples
}

fn signal_tokio(count: u64, rounds: u64) -> Vec<f64> {
    let ready = Arc::new(AtomicU64::new(0));
    let waiters: Arc<Vec<tokio::sync::Notify>> =
        Arc::new((0..count).map(|_| tokio::sync::Notify::new()).collect());
    let worker = {
        let (ready, waiters) = (ready.clone(), waiters.clone());
        std::thread::spawn(move || {
            pin(1);
            current_thread().block_on(async move {
                let tasks: Vec<_> = (0..count as usize)
                    .map(|index| {
                        let (ready, waiters) = (ready.clone(), waiters.clone());
                        tokio::spawn(async move {
                            for _ in 0..rounds {
                                ready.fetch_add(1, Ordering::Relaxed);
                                waiters[index].notified().await;
                            }
                        })
                    })
                    .collect();
                for task in tasks {
                    task.await.expect("no panic");
                }
            });
        })
    };
    let sender = std::thread::spawn(move || {
        pin(0);
        send(count, rounds, &ready, |index, _| {
            waiters[index].notify_one()
        })
    });
    let samples = sender.join().expect("no panic");
    worker.join().expect("no panic");
    samples
}

fn signal_may(count: u64, rounds: u64) -> Vec<f64> {
    let ready = Arc::new(AtomicU64::new(0));
    let begun = Arc::new(AtomicU64::new(0));
    let coroutines: Vec<_> = (0..count)
        .map(|_| {
            let (ready, begun) = (ready.clone(), begun.clone());
            may::go!(move || {
                for round in 0..rounds {
                    ready.fetch_add(1, Ordering::Relaxed);
                    while begun.load(Ordering::Acquire) <= round {
                        may::coroutine::park();
                    }
                }
            })
        })
        .collect();
    let targets: Vec<_> = coroutines
        .iter()
        .map(|coroutine| coroutine.coroutine().clone())
        .collect();
    let sender = std::thread::spawn(move || {
        send(count, rounds, &ready, |index, round| {
            begun.store(round, Ordering::Release);
            targets[index].unpark();
        })
    });
    let samples = sender.join().expect("no panic");
    for coroutine in coroutines {
        coroutine.join().expect("no panic");
    }
    samples
}

fn answer(line: &str) -> Result<Vec<f64>, String> {
    let mut words = line.split_whitespace();
    let verb = words.next().unwrap_or_default();
    let values: HashMap<&str, &str> = words.filter_map(|word| word.split_once('=')).collect();
    let number = |key: &str| -> Result<u64, String> {
        let text = values.get(key).ok_or(format!("the request has no {key}"))?;
        text.parse()
            .map_err(|_| format!("{key}={text} is no number"))
    };
    let (count, runs) = (number("count")?, number("runs")?);
    let yields = |one: fn(u64, u64) -> f64| -> Result<Vec<f64>, String> {
        let rounds = number("rounds")?;
        let of_run = |_| one(count, rounds) / (count * rounds) as f64;
        Ok((0..runs).map(of_run).collect())
    };
    let creates = |one: fn(u64) -> f64| -> Vec<f64> {
        (0..runs).map(|_| one(count) / count as f64).collect()
    };
    match verb {
        "yield-tokio" => yields(yield_tokio),
        "yield-may" => yields(yield_may),
        "create-tokio" => Ok(creates(create_tokio)),
        "create-may" => Ok(creates(create_may)),
        "signal-tokio" => Ok(signal_tokio(count, runs)),
        "signal-may" => Ok(signal_may(count, runs)),
        _ => Err(format!("this program has no {verb}")),
    }
}

fn main() {
    // One worker, shared by the yielding coroutines; the sender of signals is a separate thread.
    may::config().set_workers(1).set_stack_size(0x800);
    println!("hello tokio 1, may 0.3");
    let mut out = std::io::stdout();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let text = match answer(&line) {
            Ok(samples) => {
                let words: Vec<String> = samples.iter().map(f64::to_string).collect();
                format!("ok {}", words.join(" "))
            }
            Err(error) => format!("error {error}"),
        };
        let _ = writeln!(out, "{text}");
        let _ = out.flush();
    }
}
