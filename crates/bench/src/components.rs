//! Components of Weft under the same loops as the programs of the compared libraries (`crates/bench/peers`,
//! in C++): with the same protocol, the same numbers from the same seed, and the same clock.
//!
//! ```text
//! weft bench --serve-components      standard input: verb key=value …   standard output: ok sample …
//! ```

mod hash;
mod pool;
mod threads;

use anyhow::{Context, Result, anyhow, bail};
use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::str::FromStr;
use std::sync::Barrier;

/// A request of the harness: `verb key=value …`.
pub(crate) struct Request<'a> {
    verb: &'a str,
    values: HashMap<&'a str, &'a str>,
}

impl<'a> Request<'a> {
    /// Parses a line.
    ///
    /// # Errors
    /// If it is empty, or a word after the verb is not `key=value`.
    pub(crate) fn parse(line: &'a str) -> Result<Self> {
        let mut words = line.split_whitespace();
        let verb = words.next().context("an empty request")?;
        let pair = |word: &'a str| {
            word.split_once('=')
                .ok_or_else(|| anyhow!("not key=value: {word}"))
        };
        Ok(Self {
            verb,
            values: words.map(pair).collect::<Result<_>>()?,
        })
    }

    /// The first word.
    pub(crate) fn verb(&self) -> &'a str {
        self.verb
    }

    /// The value of a key.
    ///
    /// # Errors
    /// If the request does not have it.
    pub(crate) fn text(&self, key: &str) -> Result<&'a str> {
        let found = self.values.get(key).copied();
        found.ok_or_else(|| anyhow!("the request has no {key}"))
    }

    /// The value of a key, a number.
    ///
    /// # Errors
    /// If the request does not have it, or it is not a number of this type.
    pub(crate) fn number<T: FromStr>(&self, key: &str) -> Result<T> {
        let text = self.text(key)?;
        text.parse()
            .map_err(|_| anyhow!("{key}={text} is no number"))
    }
}

/// The samples that a request asks for, in nanoseconds per operation.
fn answer(line: &str) -> Result<Vec<f64>> {
    let request = Request::parse(line)?;
    match request.verb {
        "hash" => hash::samples(&request, hash::Subject::Table),
        "hash-all" => hash::samples(&request, hash::Subject::Together),
        "hash-lines" => hash::samples(&request, hash::Subject::Lines),
        "pool" => pool::samples(&request),
        "yield" => threads::yields(&request),
        "stacks" => threads::stacks(&request),
        "signal" => threads::signals(&request),
        "create" => threads::creates(&request),
        verb => bail!("this program has no {verb}"),
    }
}

/// Measures components, as asked, until standard input ends.
///
/// # Errors
/// If standard input or output fails.
pub(crate) fn serve() -> Result<()> {
    serve_with(answer)
}

/// Answers requests until standard input ends.
///
/// # Errors
/// If standard input or output fails. An error of `answer` is sent as an answer, and does not end the loop.
pub(crate) fn serve_with(mut answer: impl FnMut(&str) -> Result<Vec<f64>>) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "hello Weft {}", env!("CARGO_PKG_VERSION"))?;
    out.flush()?;
    for line in std::io::stdin().lock().lines() {
        match answer(&line?) {
            Ok(samples) => {
                let words: Vec<String> = samples.iter().map(f64::to_string).collect();
                writeln!(out, "ok {}", words.join(" "))?;
            }
            Err(error) => writeln!(out, "error {error:#}")?,
        }
        out.flush()?;
    }
    Ok(())
}

/// Starts `threads` threads at once; returns the mean of their results.
fn mean_of_threads(threads: usize, body: impl Fn(usize) -> Result<f64> + Sync) -> Result<f64> {
    let start = Barrier::new(threads);
    let found: Vec<Result<f64>> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|thread| {
                let (start, body) = (&start, &body);
                scope.spawn(move || {
                    start.wait();
                    body(thread)
                })
            })
            .collect();
        let join = |one: std::thread::ScopedJoinHandle<'_, Result<f64>>| {
            one.join()
                .unwrap_or_else(|_| Err(anyhow!("a measuring thread panicked")))
        };
        running.into_iter().map(join).collect()
    });
    let found: Vec<f64> = found.into_iter().collect::<Result<_>>()?;
    Ok(found.iter().sum::<f64>() / threads as f64)
}

/// Invalidates the caches of all cores, by reading, on each core, more than they hold.
fn sweep(memory: &[u8]) {
    let cores = weft_sys::cores::allowed().unwrap_or_default();
    std::thread::scope(|scope| {
        for core in cores {
            scope.spawn(move || {
                // If this is refused, the core's own caches may keep something, and figures would be too
                // good.
                let _ = weft_sys::cores::pin(&[core]);
                let sum: u64 = memory.iter().step_by(64).map(|byte| u64::from(*byte)).sum();
                std::hint::black_box(sum);
            });
        }
    });
}

/// The index-th random number of a seed (splitmix64, which maps 64 bits one to one).
fn random_of(seed: u64, index: u64) -> u64 {
    let step = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bits = seed.wrapping_add(index.wrapping_add(1).wrapping_mul(step));
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_published_generator() {
        // The first three numbers of splitmix64 seeded with 1234567.
        let found = [0, 1, 2].map(|index| random_of(1_234_567, index));
        assert_eq!(
            found,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }

    #[test]
    fn every_loop_answers_with_as_many_samples_as_runs() {
        for line in [
            "hash mode=insert threads=2 runs=2 size=256 sweep=64 inserts=128 rounds=1 seed=1",
            "hash mode=match threads=2 runs=2 size=256 sweep=64 inserts=128 rounds=1 seed=1",
            "hash mode=steady threads=1 runs=2 size=256 sweep=64 inserts=128 rounds=3 seed=1",
            "hash-all mode=insert threads=1 runs=2 size=256 sweep=64 inserts=128 rounds=1 seed=1",
            "hash-all mode=steady threads=1 runs=2 size=256 sweep=64 inserts=128 rounds=2 seed=1",
            "hash-lines mode=insert threads=2 runs=2 size=256 sweep=64 inserts=128 rounds=1 seed=1",
            "hash-lines mode=match threads=1 runs=2 size=256 sweep=64 inserts=128 rounds=1 seed=1",
            "hash-lines mode=steady threads=1 runs=2 size=256 sweep=64 inserts=128 rounds=2 seed=1",
            "pool mode=source threads=3 runs=2 packets=96 rounds=4 sleep=1000 seed=1",
            "yield count=9 rounds=5 runs=2",
            "stacks count=9 rounds=5 runs=2",
            "signal count=7 runs=2",
            "pool mode=steady threads=2 runs=2 packets=96 rounds=2 sleep=1000 seed=1",
        ] {
            let found = answer(line).unwrap_or_else(|error| panic!("{line}: {error:#}"));
            assert_eq!(found.len(), 2, "{line}");
            assert!(
                found.iter().all(|sample| *sample > 0.0),
                "{line}: {found:?}"
            );
        }
    }

    #[test]
    fn bad_requests_are_refused_with_what_is_wrong() {
        for (line, word) in [
            ("", "empty"),
            ("nonsense", "no nonsense"),
            ("pool mode", "key=value"),
            ("pool mode=source", "no threads"),
            ("pool mode=source threads=x", "no number"),
        ] {
            let error = answer(line).expect_err(line).to_string();
            assert!(error.contains(word), "{line}: {error}");
        }
    }
}
