//! Matching table under the loop of `peers/hash.hpp`.

use super::{Request, mean_of_threads, random_of, sweep};
use anyhow::{Context, Result, bail};
use std::hint::black_box;
use std::time::Instant;
use weft_matching::concurrent::{Insertion, Key, Side, Table, Value};

/// The operations of a run on its table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Insert,
    Match,
    Steady,
}

/// Inserts these entries and counts those that matched.
fn insert(table: &Table, side: Side, entries: &[(Key, Value)], together: bool) -> usize {
    let mut matched = 0;
    let mut count = |outcome: Insertion| {
        matched += usize::from(matches!(outcome, Insertion::Matched(_)));
    };
    if together {
        table.insert_all(side, entries.iter().copied(), |_, _, outcome| {
            count(outcome)
        });
    } else {
        for (key, value) in entries {
            count(table.insert(*key, side, *value));
        }
    }
    black_box(matched)
}

/// Samples of one request. `together`: the keys of a thread are passed at once.
pub(super) fn samples(request: &Request<'_>, together: bool) -> Result<Vec<f64>> {
    let mode = match request.text("mode")? {
        "insert" => Mode::Insert,
        "match" => Mode::Match,
        "steady" => Mode::Steady,
        other => bail!("mode={other} is not insert, match or steady"),
    };
    let (threads, runs): (usize, usize) = (request.number("threads")?, request.number("runs")?);
    let (size, rounds): (usize, usize) = (request.number("size")?, request.number("rounds")?);
    let each = request.number::<usize>("inserts")? / threads.max(1);
    if threads == 0 || each == 0 {
        bail!("threads and inserts per thread must be at least 1");
    }
    let seed = request.number("seed")?;
    let swept = vec![1; request.number("sweep")?];
    let entries: Vec<(Key, Value)> = (0..(each * threads) as u64)
        .map(|index| Some((Key(random_of(seed, index)), Value::new(index)?)))
        .collect::<Option<_>>()
        .context("too many keys")?;
    let run = |_| -> Result<f64> {
        let table = Table::new(size);
        let of_thread = |thread: usize| &entries[thread * each..(thread + 1) * each];
        if mode == Mode::Match {
            mean_of_threads(threads, |thread| {
                insert(&table, Side::Message, of_thread(thread), false);
                Ok(0.0)
            })?;
        }
        sweep(&swept);
        mean_of_threads(threads, |thread| {
            let entries = of_thread(thread);
            let start = Instant::now();
            let (matched, operations) = match mode {
                Mode::Insert => (
                    each + insert(&table, Side::Message, entries, together),
                    each,
                ),
                Mode::Match => (insert(&table, Side::Receive, entries, together), each),
                Mode::Steady => {
                    let mut matched = 0;
                    for _ in 0..rounds {
                        insert(&table, Side::Message, entries, together);
                        matched = insert(&table, Side::Receive, entries, together);
                    }
                    (matched, 2 * each * rounds)
                }
            };
            let took = start.elapsed().as_nanos() as f64;
            if matched != each {
                bail!("{matched} of {each} keys were treated as they should");
            }
            Ok(took / operations as f64)
        })
    };
    (0..runs).map(run).collect()
}
