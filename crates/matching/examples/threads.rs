//! Matching rate of the threads of one communicator: the [engine](Matching) under one lock compared with the [concurrent
//! table](concurrent::Table), exact receives only, each thread with its own tags. In million pairs of a receive and its message
//! per second. `cargo run --release -p weft-matching --example threads`
//!
//! Both only match here: no request, no packet, no copy. The lock is that of a rank's engine ([`weft_atomic::lock`]),
//! with turns: taken anew by each operation, as by each MPI call; and once for a window of each side, the fewest times
//! that calls could take it.

use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use weft_atomic::FenceMode;
use weft_atomic::lock::Lock;
use weft_matching::concurrent::{Insertion, Key, Side, Table, Value};
use weft_matching::{Arrival, Context, Envelope, Matching, Posting, Source, Tag};
use weft_sys::futex::Futex;

/// Receives that a thread posts before their messages arrive.
const WINDOW: u64 = 32;

/// Windows of each thread in a sample.
const WINDOWS: u64 = 4_000;

/// Samples of each figure.
const SAMPLES: usize = 15;

/// The owner of a window, and how its messages are distinguished.
#[derive(Clone, Copy)]
struct Window {
    thread: u64,
    round: u64,
    /// Whether each message has its own tag; otherwise all messages of the thread share one.
    tags: bool,
}

impl Window {
    fn tag(self, one: u64) -> Tag {
        let one = if self.tags { one } else { 0 };
        Tag(black_box(self.thread * WINDOW + one) as i32)
    }

    fn envelope(self, one: u64) -> Envelope {
        Envelope {
            context: Context(1),
            source: Source(0),
            tag: self.tag(one),
        }
    }

    fn post(self, engine: &mut Engine, one: u64) {
        let posted = engine.post(self.envelope(one).into(), self.round + one);
        assert!(matches!(posted, Posting::Posted(_)));
    }

    fn arrive(self, engine: &mut Engine, one: u64) {
        let arrived = engine.arrive(self.envelope(one), || 0);
        assert_eq!(arrived, Arrival::Matched(self.round + one));
    }
}

type Engine = Matching<u64, u64>;

/// The state that threads share.
trait Shared: Sync {
    /// Posts a window of receives and lets its messages arrive.
    fn play(&self, window: Window);
}

/// The engine, locked for each operation.
struct ByOperation(Lock<Engine>, Futex);

/// The engine, locked for the receives of a window, and for its messages.
struct ByWindow(Lock<Engine>, Futex);

impl Shared for ByOperation {
    fn play(&self, window: Window) {
        for one in 0..WINDOW {
            window.post(&mut self.0.lock(&self.1), one);
        }
        for one in 0..WINDOW {
            let mut engine = self.0.lock(&self.1);
            window.arrive(&mut engine, one);
            if one + 1 == WINDOW && engine.is_due() {
                // Like `MPI_Waitall` at its end.
                engine.pass_on();
            }
        }
    }
}

impl Shared for ByWindow {
    fn play(&self, window: Window) {
        let mut engine = self.0.lock(&self.1);
        (0..WINDOW).for_each(|one| window.post(&mut engine, one));
        drop(engine);
        let mut engine = self.0.lock(&self.1);
        (0..WINDOW).for_each(|one| window.arrive(&mut engine, one));
        if engine.is_due() {
            engine.pass_on();
        }
    }
}

impl Shared for Table {
    fn play(&self, window: Window) {
        let value = |number| Value::new(number).expect("48 bits");
        let key = |one| Key::new(Source(0), window.tag(one));
        for one in 0..WINDOW {
            let posted = self.insert(key(one), Side::Receive, value(window.round + one));
            assert_eq!(posted, Insertion::Waits);
        }
        for one in 0..WINDOW {
            let arrived = self.insert(key(one), Side::Message, value(0));
            assert_eq!(arrived, Insertion::Matched(value(window.round + one)));
        }
    }
}

/// Million pairs per second that `threads` threads match together.
fn sample(shared: &dyn Shared, threads: u64, tags: bool) -> f64 {
    let (begin, end) = (
        Barrier::new(threads as usize + 1),
        Barrier::new(threads as usize + 1),
    );
    let took = std::thread::scope(|scope| {
        for thread in 0..threads {
            let (begin, end) = (&begin, &end);
            scope.spawn(move || {
                begin.wait();
                for round in 0..WINDOWS {
                    shared.play(Window {
                        thread,
                        round: round * WINDOW,
                        tags,
                    });
                }
                end.wait();
            });
        }
        begin.wait();
        let begun = Instant::now();
        end.wait();
        begun.elapsed()
    });
    (threads * WINDOWS * WINDOW) as f64 / took.max(Duration::from_nanos(1)).as_secs_f64() / 1e6
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

fn main() {
    let mode = if weft_sys::membarrier::register_own().is_available() {
        FenceMode::Asymmetric
    } else {
        FenceMode::Symmetric
    };
    let engine = || Lock::new(Matching::new(), mode);
    let all: [(&str, Box<dyn Shared>); 3] = [
        (
            "engine, lock for each operation",
            Box::new(ByOperation(engine(), Futex::private())),
        ),
        (
            "engine, lock for each window",
            Box::new(ByWindow(engine(), Futex::private())),
        ),
        ("concurrent table", Box::new(Table::new(1 << 12))),
    ];
    println!(
        "{:34} {:>14} {:>10} {:>11} {:>15}",
        "million pairs a second", "tags of each", "one thread", "two threads", "two against one"
    );
    for (tags, number) in [(false, 1), (true, WINDOW)] {
        for (name, shared) in &all {
            // Samples alternate, and ratios are taken from neighbours, so that other load on the machine
            // affects both.
            let pairs: Vec<_> = (0..SAMPLES)
                .map(|_| (sample(&**shared, 1, tags), sample(&**shared, 2, tags)))
                .collect();
            let one = median(pairs.iter().map(|pair| pair.0).collect());
            let two = median(pairs.iter().map(|pair| pair.1).collect());
            let ratio = median(pairs.iter().map(|pair| pair.1 / pair.0).collect());
            println!("{name:34} {number:>14} {one:>10.1} {two:>11.1} {ratio:>15.2}");
        }
    }
}
