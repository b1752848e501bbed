//! Cost of one message in the engine: one post and one arrival, in nanoseconds, with 1, 100 and 10 000
//! outstanding, matched in three orders. `cargo run --release -p weft-matching --example cost`
//!
//! Each figure is the median of some rounds; a round posts (or lets arrive) all of one side, then matches
//! all.

use std::hint::black_box;
use std::time::{Duration, Instant};

use weft_matching::{Context, Envelope, Matching, Pattern, Source, SourcePattern, Tag, TagPattern};

type Engine = Matching<u64, u32>;

/// One way to use the engine: which side comes first, and which patterns.
struct Case {
    name: &'static str,
    receives_first: bool,
    any_source: bool,
    any_tag: bool,
    /// Tags are never reused.
    fresh: bool,
    /// A receive with wildcards waits in another context all the time.
    service: bool,
}

const PLAIN: Case = Case {
    name: "receives first",
    receives_first: true,
    any_source: false,
    any_tag: false,
    fresh: false,
    service: false,
};

const CASES: [Case; 8] = [
    PLAIN,
    Case {
        name: "receives first, new tags",
        fresh: true,
        ..PLAIN
    },
    Case {
        name: "receives first, any source",
        any_source: true,
        ..PLAIN
    },
    Case {
        name: "receives first, a service waits",
        service: true,
        ..PLAIN
    },
    Case {
        name: "messages first",
        receives_first: false,
        ..PLAIN
    },
    Case {
        name: "messages first, new tags",
        receives_first: false,
        fresh: true,
        ..PLAIN
    },
    Case {
        name: "messages first, any source",
        receives_first: false,
        any_source: true,
        ..PLAIN
    },
    Case {
        name: "messages first, any of both",
        receives_first: false,
        any_source: true,
        any_tag: true,
        ..PLAIN
    },
];

impl Case {
    fn envelope(&self, tag: i32) -> Envelope {
        Envelope {
            context: Context(1),
            source: Source(2),
            tag: Tag(tag),
        }
    }

    fn pattern(&self, tag: i32) -> Pattern {
        let mut pattern = Pattern::from(self.envelope(tag));
        if self.any_source {
            pattern.source = SourcePattern::Any;
        }
        if self.any_tag {
            pattern.tag = TagPattern::Any;
        }
        pattern
    }

    fn round(&self, engine: &mut Engine, base: i32, order: &[i32]) {
        let post = |engine: &mut Engine, tag: i32| {
            let _ = black_box(engine.post(self.pattern(black_box(base + tag)), 0));
        };
        let arrive = |engine: &mut Engine, tag: i32| {
            let _ = black_box(engine.arrive(self.envelope(black_box(base + tag)), || 0));
        };
        if self.receives_first {
            (0..).take(order.len()).for_each(|tag| post(engine, tag));
            order.iter().for_each(|tag| arrive(engine, *tag));
        } else {
            (0..).take(order.len()).for_each(|tag| arrive(engine, tag));
            order.iter().for_each(|tag| post(engine, *tag));
        }
    }

    /// Nanoseconds per message.
    fn cost(&self, order: &[i32]) -> f64 {
        let mut engine = Engine::new();
        if self.service {
            let anything = Pattern {
                context: Context(0),
                source: SourcePattern::Any,
                tag: TagPattern::Any,
            };
            let _ = engine.post(anything, 1);
        }
        let repeat = (10_000 / order.len()).max(1);
        let mut base = 0;
        let mut samples = Vec::new();
        let end = Instant::now() + Duration::from_millis(60);
        while samples.len() < 5 || Instant::now() < end {
            let start = Instant::now();
            for _ in 0..repeat {
                self.round(&mut engine, base, order);
                if self.fresh {
                    base = (base + order.len() as i32) % (1 << 30);
                }
            }
            samples.push(start.elapsed().as_nanos() as f64 / (repeat * order.len()) as f64);
        }
        let left = usize::from(self.service);
        assert_eq!((engine.posted_len(), engine.unexpected_len()), (left, 0));
        samples.sort_by(f64::total_cmp);
        samples[samples.len() / 2]
    }
}

/// All numbers below `count`, shuffled by a fixed xorshift.
fn shuffled(count: i32) -> Vec<i32> {
    let mut order: Vec<i32> = (0..count).collect();
    let mut state = 0x1234_5678_9abc_def1_u64;
    for last in (1..order.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        order.swap(last, (state % (last as u64 + 1)) as usize);
    }
    order
}

fn main() {
    println!(
        "{:32} {:>12} {:>9} {:>9} {:>9}   ns a message",
        "case", "outstanding", "in order", "reversed", "shuffled"
    );
    for case in &CASES {
        for count in [1, 100, 10_000] {
            let forward: Vec<i32> = (0..count).collect();
            let backward: Vec<i32> = (0..count).rev().collect();
            let [one, two, three] =
                [forward, backward, shuffled(count)].map(|order| case.cost(&order));
            println!(
                "{:32} {count:>12} {one:>9.1} {two:>9.1} {three:>9.1}",
                case.name
            );
        }
    }
}
