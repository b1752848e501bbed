//! Matching table under the loop of `peers/hash.hpp`; and lines of memory under the same loop, which are no table.

use super::{Request, mean_of_threads, random_of, sweep};
use anyhow::{Context, Result, bail};
use std::hint::black_box;
use std::time::Instant;
use weft_atomic::{AtomicU64, Ordering};
use weft_matching::concurrent::{Insertion, Key, Side, Table, Value};

/// The operations of a run on its table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Insert,
    Match,
    Steady,
}

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject {
    /// The table, one key at a time.
    Table,
    /// The table, all keys of a thread at once.
    Together,
    /// [`Lines`], one key at a time.
    Lines,
}

/// As many lines as a table of as many slots has, of which each key takes one as an insertion has to at least: by one exchange; a
/// key that is there is compared, an entry is written in its place, and one store releases the line. No line is ever full and
/// nothing grows. What that costs here is the cost of a cache line, of which the processor fetches several at once, since no
/// key depends on what came of another.
struct Lines(Vec<Line>);

/// A control word, a key and a value.
#[derive(Default)]
#[repr(align(64))]
struct Line {
    control: AtomicU64,
    key: AtomicU64,
    value: AtomicU64,
}

impl Lines {
    fn new(slots: usize) -> Self {
        let lines = slots.div_ceil(4).next_power_of_two();
        Self((0..lines).map(|_| Line::default()).collect())
    }

    /// Takes the line of a key, leaves this entry there, and answers whether its key was there.
    #[inline]
    fn take(&self, key: u64, value: u64) -> bool {
        const HELD: u64 = 1 << 63;
        let product = u128::from(key) * 0x9e37_79b9_7f4a_7c15_u128;
        let hash = product as u64 ^ (product >> 64) as u64;
        let line = &self.0[hash as usize & (self.0.len() - 1)];
        let mut free = line.control.load(Ordering::Relaxed) & !HELD;
        // Acquire: SYNC lines.control.
        while let Err(found) =
            line.control
                .compare_exchange(free, free | HELD, Ordering::Acquire, Ordering::Relaxed)
        {
            free = found & !HELD;
            std::thread::yield_now();
        }
        let is_there = line.key.load(Ordering::Relaxed) == key;
        line.key.store(key, Ordering::Relaxed);
        line.value.store(value, Ordering::Relaxed);
        // Release: SYNC lines.control.
        line.control.store(free + 1, Ordering::Release);
        is_there
    }
}

/// What a run works on.
enum Made {
    Table(Box<Table>, bool),
    Lines(Lines),
}

impl Made {
    fn new(subject: Subject, size: usize) -> Self {
        match subject {
            Subject::Table => Self::Table(Box::new(Table::new(size)), false),
            Subject::Together => Self::Table(Box::new(Table::new(size)), true),
            Subject::Lines => Self::Lines(Lines::new(size)),
        }
    }

    /// Inserts these entries and counts those that matched.
    fn insert(&self, side: Side, entries: &[(Key, Value)]) -> usize {
        let mut matched = 0;
        let mut count = |outcome: Insertion| {
            matched += usize::from(matches!(outcome, Insertion::Matched(_)));
        };
        match self {
            Self::Table(table, true) => {
                table.insert_all(side, entries.iter().copied(), |_, _, outcome| {
                    count(outcome);
                });
            }
            Self::Table(table, false) => {
                for (key, value) in entries {
                    count(table.insert(*key, side, *value));
                }
            }
            Self::Lines(lines) => {
                for (key, value) in entries {
                    black_box(lines.take(key.0, value.number()));
                }
                // So that it passes for a table.
                matched = if side == Side::Receive {
                    entries.len()
                } else {
                    0
                };
            }
        }
        black_box(matched)
    }
}

/// Samples of one request.
pub(super) fn samples(request: &Request<'_>, subject: Subject) -> Result<Vec<f64>> {
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
        let made = Made::new(subject, size);
        let of_thread = |thread: usize| &entries[thread * each..(thread + 1) * each];
        if mode == Mode::Match {
            mean_of_threads(threads, |thread| {
                made.insert(Side::Message, of_thread(thread));
                Ok(0.0)
            })?;
        }
        sweep(&swept);
        mean_of_threads(threads, |thread| {
            let entries = of_thread(thread);
            let start = Instant::now();
            let (matched, operations) = match mode {
                Mode::Insert => (each + made.insert(Side::Message, entries), each),
                Mode::Match => (made.insert(Side::Receive, entries), each),
                Mode::Steady => {
                    let mut matched = 0;
                    for _ in 0..rounds {
                        made.insert(Side::Message, entries);
                        matched = made.insert(Side::Receive, entries);
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
