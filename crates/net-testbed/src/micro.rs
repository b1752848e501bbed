//! Micro-benchmarks of the datapath: a queue and a policy, each alone.

use std::hint::{black_box, spin_loop};
use std::io;
use std::sync::Barrier;
use std::time::Instant;

use weft_net::policy::{Backlog, CLIENTS, Choice, Order, Turn};
use weft_net::queue::{ChannelMemory, Descriptor};
use weft_sys::cores;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Micro {
    /// Push and pop of one item by one thread, `size` at a time.
    OneCore,
    /// The same by two threads on two cores; time per item of the slower one.
    TwoCores,
    /// One decision of a policy among `size` clients that all have frames; optionally with a limit for each
    /// client.
    Policy(Order, bool),
}

const CAPACITY: u32 = 512;

impl Micro {
    /// Samples, each the mean nanoseconds of `iterations` operations, after a warm-up.
    ///
    /// # Errors
    /// If memory is refused, or two cores are needed and there is one.
    pub fn sample(
        self,
        size: usize,
        warmup: u64,
        iterations: u64,
        samples: usize,
    ) -> io::Result<Vec<f64>> {
        match self {
            Self::OneCore => one_core(size, warmup, iterations, samples),
            Self::TwoCores => two_cores(size, warmup, iterations, samples),
            Self::Policy(order, limited) => {
                Ok(policy(order, limited, size, warmup, iterations, samples))
            }
        }
    }
}

fn time(
    warmup: u64,
    iterations: u64,
    samples: usize,
    mut operation: impl FnMut(u64) -> u64,
) -> Vec<f64> {
    operation(warmup.max(1));
    let mut one = || {
        let start = Instant::now();
        let done = operation(iterations);
        start.elapsed().as_nanos() as f64 / done.max(1) as f64
    };
    (0..samples).map(|_| one()).collect()
}

fn one_core(size: usize, warmup: u64, iterations: u64, samples: usize) -> io::Result<Vec<f64>> {
    let size = size.clamp(1, CAPACITY as usize) as u32;
    let memory = ChannelMemory::create("weft-micro", CAPACITY)?;
    let mut source = memory.source(0, CAPACITY, None)?;
    let mut sink = memory.sink(0, None)?;
    Ok(time(warmup, iterations, samples, |count| {
        let mut done = 0;
        let mut sum = 0u64;
        while done < count {
            for item in 0..size {
                // There is room: all was taken in the last turn.
                let _ = source.push(Descriptor::empty(item));
            }
            source.settle();
            while let Some(item) = sink.take() {
                sum += u64::from(item.offset);
                done += 1;
            }
            sink.settle();
        }
        black_box(sum);
        done
    }))
}

fn two_cores(size: usize, warmup: u64, iterations: u64, samples: usize) -> io::Result<Vec<f64>> {
    let size = size.clamp(1, CAPACITY as usize / 2) as u32;
    let (first, second) = match cores::allowed()?[..] {
        [first, second, ..] => (first, second),
        _ => {
            return Err(io::Error::other(
                "two cores are needed, and this process may use one",
            ));
        }
    };
    let memory = ChannelMemory::create("weft-micro", CAPACITY)?;
    let mut source = memory.source(0, CAPACITY, None)?;
    let mut sink = memory.sink(0, None)?;
    let round = |count: u64| count.max(1).next_multiple_of(u64::from(size));
    let all = round(warmup) + round(iterations) * samples as u64;
    let pinned = Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // A refusal makes the figure worse, never wrong.
            let _ = cores::pin(&[second]);
            pinned.wait();
            let mut taken = 0;
            let mut held = 0;
            let mut sum = 0u64;
            while taken < all {
                match sink.take() {
                    Some(item) => {
                        sum += u64::from(item.offset);
                        taken += 1;
                        held += 1;
                        if held == size {
                            held = 0;
                            sink.release();
                        }
                    }
                    None => spin_loop(),
                }
            }
            black_box(sum);
        });
        let pushing = scope.spawn(|| {
            let _ = cores::pin(&[first]);
            pinned.wait();
            time(warmup, iterations, samples, |count| {
                let count = round(count);
                let mut done = 0;
                while done < count {
                    // Reads the consumer's index only when the known room is not enough.
                    while source.backlog() + size > CAPACITY && source.depth() + size > CAPACITY {
                        spin_loop();
                    }
                    for item in 0..size {
                        let _ = source.push(Descriptor::empty(item));
                    }
                    source.settle();
                    done += u64::from(size);
                }
                done
            })
        });
        pushing
            .join()
            .map_err(|_| io::Error::other("the thread that pushes panicked"))
    })
}

fn policy(
    order: Order,
    limited: bool,
    clients: usize,
    warmup: u64,
    iterations: u64,
    samples: usize,
) -> Vec<f64> {
    let clients = clients.clamp(1, CLIENTS);
    let choice = Choice {
        order,
        weights: (1..=clients as u32).collect(),
        levels: (0..clients as u32).map(|client| client % 4).collect(),
        // Below their demand: every decision meets a client that must wait.
        limits: vec![if limited { 100_000_000 } else { 0 }; clients],
        ..Choice::default()
    };
    let mut policy = choice.build();
    let mut backlog = Backlog::default();
    for client in 0..clients {
        backlog.set(client, 1514);
    }
    let mut now = 0;
    time(warmup, iterations, samples, |count| {
        for _ in 0..count {
            match policy.next(black_box(&backlog), now) {
                Turn::Send(client) => {
                    // Its next frame comes to the front, as in the multiplexer.
                    backlog.clear(client);
                    backlog.set(client, 1514);
                }
                Turn::Wait(moment) => now = moment,
                Turn::Idle => {}
            }
        }
        count
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_gives_as_many_samples_as_asked() {
        let mut all = vec![Micro::OneCore];
        if cores::allowed().is_ok_and(|cores| cores.len() > 1) {
            all.push(Micro::TwoCores);
        }
        for order in [
            Order::Signalled,
            Order::RoundRobin,
            Order::Weighted,
            Order::Priority,
        ] {
            all.extend([Micro::Policy(order, false), Micro::Policy(order, true)]);
        }
        for micro in all {
            for size in [1, 7, 64, 100_000] {
                let found = micro.sample(size, 10, 500, 3).expect("measured");
                assert_eq!(found.len(), 3, "{micro:?}");
                assert!(found.iter().all(|ns| *ns > 0.0), "{micro:?} {found:?}");
            }
        }
    }
}
