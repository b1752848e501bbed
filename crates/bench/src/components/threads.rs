//! Fibers under the loops of `peers/threads.hpp`.

use super::Request;
use anyhow::{Context, Result, bail};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use weft_atomic::{AtomicU64, Ordering};
use weft_fiber::{Builder, Config, Fiber, JoinHandle, Runtime, park, yield_now};
use weft_sys::Mapping;

/// Two workers on a core each, for all requests.
fn runtime() -> Result<&'static Runtime> {
    static RUNTIME: OnceLock<Result<Runtime, String>> = OnceLock::new();
    let made = RUNTIME.get_or_init(|| {
        let config = Config {
            workers: 2,
            pin: Some(0),
            ..Config::default()
        };
        Runtime::new(config).map_err(|error| error.to_string())
    });
    match made {
        Ok(runtime) => Ok(runtime),
        Err(error) => bail!("no runtime of fibers: {error}"),
    }
}

/// Starts fibers on a worker.
fn start<B: FnOnce() + Send + 'static>(
    worker: usize,
    count: u64,
    mut body: impl FnMut() -> B,
) -> Result<Vec<JoinHandle<()>>> {
    let runtime = runtime()?;
    (0..count)
        .map(|_| {
            Builder::new()
                .worker(worker)
                .spawn_on(runtime, body())
                .context("no more fibers")
        })
        .collect()
}

fn join(fibers: Vec<JoinHandle<()>>) -> Result<()> {
    for fiber in fibers {
        if fiber.join().is_err() {
            bail!("a measuring fiber panicked");
        }
    }
    Ok(())
}

/// State that the fibers that yield share. They share a worker, so nothing is contended.
#[derive(Default)]
struct Yielding {
    running: AtomicU64,
    ended: AtomicU64,
    begin: OnceLock<Instant>,
    end: OnceLock<Instant>,
}

/// Time of a yield among the fibers of one worker.
pub(super) fn yields(request: &Request<'_>) -> Result<Vec<f64>> {
    let (count, rounds): (u64, u64) = (request.number("count")?, request.number("rounds")?);
    let runs: usize = request.number("runs")?;
    let run = |_| -> Result<f64> {
        let all = Arc::new(Yielding::default());
        let fibers = start(0, count, || {
            let all = all.clone();
            move || {
                all.running.fetch_add(1, Ordering::Relaxed);
                while all.running.load(Ordering::Relaxed) < count {
                    yield_now();
                }
                all.begin.get_or_init(Instant::now);
                for _ in 0..rounds {
                    yield_now();
                }
                if all.ended.fetch_add(1, Ordering::Relaxed) + 1 == count {
                    all.end.get_or_init(Instant::now);
                }
            }
        })?;
        join(fibers)?;
        let (begin, end) = (all.begin.get(), all.end.get());
        let took = end
            .zip(begin)
            .map(|(end, begin)| end.duration_since(*begin));
        let took = took.context("count=0 leaves nothing to measure")?;
        Ok(took.as_nanos() as f64 / (count * rounds) as f64)
    };
    (0..runs).map(run).collect()
}

/// What a yield among so many fibers does to memory at least, by no scheduler: two lines at the top of each stack are
/// written, stack by stack, at the distances of the default. Which stack is the next is known long before, so the processor
/// fetches several at once.
pub(super) fn stacks(request: &Request<'_>) -> Result<Vec<f64>> {
    /// As stacks have it: by their number their tops are so many lines lower.
    const COLOURS: usize = 64;
    const LINE: usize = 64;
    let (count, rounds): (usize, usize) = (request.number("count")?, request.number("rounds")?);
    let runs: usize = request.number("runs")?;
    if count * rounds == 0 {
        bail!("count=0 leaves nothing to measure");
    }
    let stack = Config::default().stack;
    let memory = Mapping::private(count * stack).context("no memory for so many stacks")?;
    let touch = |round: usize| {
        for number in 0..count {
            let top = (number + 1) * stack - (number % COLOURS) * LINE;
            for line in [3, 2] {
                // The words of a frame: the lowest is read, and written with the next.
                let at = top - line * LINE;
                if let (Some(low), Some(next)) = (memory.atomic_u64(at), memory.atomic_u64(at + 8))
                {
                    let before = low.load(Ordering::Relaxed);
                    low.store(before.wrapping_add(round as u64), Ordering::Relaxed);
                    next.store(before, Ordering::Relaxed);
                }
            }
        }
    };
    // The memory is there from here on.
    touch(0);
    let run = |_| {
        let begin = Instant::now();
        (0..rounds).for_each(touch);
        begin.elapsed().as_nanos() as f64 / (count * rounds) as f64
    };
    Ok((0..runs).map(run).collect())
}

/// Time to create, run and join a fiber, by another of the same worker.
pub(super) fn creates(request: &Request<'_>) -> Result<Vec<f64>> {
    let (count, runs): (u64, usize) = (request.number("count")?, request.number("runs")?);
    let run = |_| -> Result<f64> {
        let all = Builder::new().worker(0).spawn_on(runtime()?, move || {
            let begin = Instant::now();
            for number in 0..count {
                let joined = weft_fiber::spawn(move || number).join();
                assert_eq!(joined.ok(), Some(number));
            }
            begin.elapsed().as_nanos() as f64 / count as f64
        });
        match all.context("no more fibers")?.join() {
            Ok(time) if time.is_finite() => Ok(time),
            Ok(_) => bail!("count=0 leaves nothing to measure"),
            Err(_) => bail!("a measuring fiber panicked"),
        }
    };
    (0..runs).map(run).collect()
}

/// Time that a signal to each fiber of another worker costs its sender.
pub(super) fn signals(request: &Request<'_>) -> Result<Vec<f64>> {
    let (count, rounds): (u64, u64) = (request.number("count")?, request.number("runs")?);
    if count == 0 {
        bail!("count=0 leaves nothing to measure");
    }
    // How often fibers have begun to wait, and how many rounds of signals were begun.
    let ready = Arc::new(AtomicU64::new(0));
    let begun = Arc::new(AtomicU64::new(0));
    let waiting = start(1, count, || {
        let (ready, begun) = (ready.clone(), begun.clone());
        move || {
            for round in 0..rounds {
                ready.fetch_add(1, Ordering::Relaxed);
                // Acquire: SYNC signals.begun.
                while begun.load(Ordering::Acquire) <= round {
                    park();
                }
            }
        }
    })?;
    let fibers: Vec<Fiber> = waiting.iter().map(JoinHandle::fiber).collect();
    let sender = Builder::new().worker(0).spawn_on(runtime()?, move || {
        let mut samples = Vec::new();
        for round in 1..=rounds {
            while ready.load(Ordering::Relaxed) < round * count {
                yield_now();
            }
            // The last of them may still be between counting itself and parking.
            std::thread::sleep(Duration::from_micros(200));
            let start = Instant::now();
            // Release: SYNC signals.begun.
            begun.store(round, Ordering::Release);
            for fiber in &fibers {
                fiber.signal();
            }
            samples.push(start.elapsed().as_nanos() as f64 / count as f64);
        }
        samples
    });
    let samples = sender.context("no more fibers")?.join();
    join(waiting)?;
    match samples {
        Ok(samples) => Ok(samples),
        Err(_) => bail!("the sending fiber panicked"),
    }
}
