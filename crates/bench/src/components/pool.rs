//! Packet pool under the loop of `peers/pool.hpp`.

use super::{Request, mean_of_threads, random_of};
use anyhow::{Context, Result, bail};
use std::time::{Duration, Instant};
use weft_pool::{Packet, Pool};

/// Bytes of a packet, as in the other programs. The loop does not access them.
const PACKET: usize = 64;

/// Packets taken and returned at a time in steady use, and how often in one round.
const STEADY: (usize, usize) = (8, 100);

/// Samples of one request.
pub(super) fn samples(request: &Request<'_>) -> Result<Vec<f64>> {
    let steady = match request.text("mode")? {
        "source" => false,
        "steady" => true,
        other => bail!("mode={other} is not source or steady"),
    };
    let (threads, runs): (usize, u64) = (request.number("threads")?, request.number("runs")?);
    let (packets, rounds): (usize, u64) = (request.number("packets")?, request.number("rounds")?);
    let (seed, longest): (u64, u64) = (request.number("seed")?, request.number("sleep")?);
    let most = packets / threads.max(1);
    if threads == 0 || most < STEADY.0 || longest == 0 {
        bail!("threads and sleep must be at least 1, packets at least 8 per thread");
    }
    let pool = Pool::new(PACKET, packets);
    // The other programs make all their packets before they start; so does this one.
    let mut first = pool.local();
    let all: Vec<Packet> = std::iter::from_fn(|| first.get()).collect();
    all.into_iter().for_each(|packet| first.give_back(packet));
    drop(first);
    let run = |run: u64| {
        let seed = seed.wrapping_add(run);
        mean_of_threads(threads, |thread| {
            let random = |index| random_of(seed.wrapping_add((thread as u64) << 40), index);
            let mut local = pool.local();
            let mut held: Vec<Packet> = Vec::with_capacity(most);
            let (mut time, mut slept, mut taken) = (Duration::ZERO, Duration::ZERO, 0);
            for round in 0..rounds {
                let (count, repeats) = if steady {
                    STEADY
                } else {
                    (1 + (random(2 * round) % most as u64) as usize, 1)
                };
                let start = Instant::now();
                for _ in 0..repeats {
                    for _ in 0..count {
                        let packet = local.get();
                        held.push(packet.context("the pool is empty although it cannot be")?);
                    }
                    if !steady {
                        let pause = Instant::now();
                        std::thread::sleep(Duration::from_nanos(random(2 * round + 1) % longest));
                        slept += pause.elapsed();
                    }
                    held.drain(..).for_each(|packet| local.give_back(packet));
                    taken += count;
                }
                time += start.elapsed();
            }
            Ok((time - slept).as_nanos() as f64 / taken as f64)
        })
    };
    (0..runs).map(run).collect()
}
