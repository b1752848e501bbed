//! The table against a plain map of queues, alone and under threads.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Barrier;

use proptest::prelude::*;

use super::*;

fn value(number: u64) -> Value {
    Value::new(number).expect("48 bits")
}

impl Table {
    /// Everything that waits: key to side and values, oldest first. Panics if a key occurs twice.
    fn contents(&self) -> BTreeMap<u64, (bool, VecDeque<u64>)> {
        let mut all: BTreeMap<u64, (bool, VecDeque<u64>)> = BTreeMap::new();
        for index in 0..self.buckets() as u64 {
            let bucket = self.line(index);
            let control = bucket.control();
            let behind = &self.behind;
            let chain = Chain::new(behind, bucket, control);
            let mut here: BTreeMap<u64, (bool, VecDeque<u64>)> = BTreeMap::new();
            chain.each(|key, receive, value| {
                let (side, values) = here.entry(key).or_insert((receive, VecDeque::new()));
                assert_eq!(*side, receive, "both sides wait under key {key}");
                values.push_back(value);
            });
            for (key, found) in here {
                assert!(
                    all.insert(key, found).is_none(),
                    "key {key} is in two buckets"
                );
            }
        }
        all
    }
}

/// The expected behaviour of the table, as a map.
#[derive(Default)]
struct Naive(BTreeMap<u64, (bool, VecDeque<u64>)>);

impl Naive {
    fn insert(&mut self, key: u64, receive: bool, value: u64) -> Option<u64> {
        let (side, values) = self.0.entry(key).or_insert((receive, VecDeque::new()));
        if *side == receive {
            values.push_back(value);
            return None;
        }
        let oldest = values.pop_front();
        self.drop_if_empty(key);
        oldest
    }

    fn remove(&mut self, key: u64, receive: bool, value: u64) -> bool {
        let Some((side, values)) = self.0.get_mut(&key) else {
            return false;
        };
        let place = values.iter().position(|kept| *kept == value);
        let found = *side == receive && place.is_some();
        if let (true, Some(place)) = (found, place) {
            values.remove(place);
        }
        self.drop_if_empty(key);
        found
    }

    fn drop_if_empty(&mut self, key: u64) {
        if self
            .0
            .get(&key)
            .is_some_and(|(_, values)| values.is_empty())
        {
            self.0.remove(&key);
        }
    }
}

fn side(receive: bool) -> Side {
    if receive {
        Side::Receive
    } else {
        Side::Message
    }
}

fn insert(table: &Table, key: u64, receive: bool, number: u64) -> Option<u64> {
    match table.insert(Key(key), side(receive), value(number)) {
        Insertion::Matched(found) => Some(found.number()),
        Insertion::Waits => None,
    }
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u64, bool),
    Remove(u64, bool, u64),
}

/// Few keys, so that queues form; or many, so that the table grows.
fn steps(keys: u64, count: usize) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..keys, any::<bool>()).prop_map(|(key, receive)| Step::Insert(key, receive)),
        1 => (0..keys, any::<bool>(), 0..count as u64)
            .prop_map(|(key, receive, value)| Step::Remove(key, receive, value)),
    ];
    proptest::collection::vec(step, 0..count)
}

fn behaves_as_the_map(entries: usize, steps: &[Step]) {
    let table = Table::new(entries);
    let mut naive = Naive::default();
    for (number, step) in steps.iter().enumerate() {
        let number = number as u64;
        match *step {
            Step::Insert(key, receive) => {
                let expected = naive.insert(key, receive, number);
                assert_eq!(
                    insert(&table, key, receive, number),
                    expected,
                    "step {number}"
                );
            }
            Step::Remove(key, receive, wanted) => {
                let expected = naive.remove(key, receive, wanted);
                let found = table.remove(Key(key), side(receive), value(wanted));
                assert_eq!(found, expected, "step {number}");
            }
        }
    }
    assert_eq!(table.contents(), naive.0);
    for (key, (receive, values)) in naive.0 {
        for expected in values {
            assert_eq!(insert(&table, key, !receive, 0), Some(expected));
        }
    }
    assert!(table.contents().is_empty());
    assert_eq!(table.behind.spares.in_use(), 0, "spare lines come back");
    assert_eq!(table.behind.continued.load(Ordering::Relaxed), 0);
}

proptest! {
    #[test]
    fn few_keys_with_queues(steps in steps(5, if cfg!(miri) { 30 } else { 120 })) {
        behaves_as_the_map(1, &steps);
    }

    #[test]
    fn many_keys_with_growth(steps in steps(200, if cfg!(miri) { 40 } else { 400 })) {
        behaves_as_the_map(1, &steps);
    }
}

#[test]
fn a_value_may_be_any_number_of_48_bits() {
    assert!(Value::new(1 << 48).is_none());
    let table = Table::new(16);
    for number in [0, 1, u64::from(u32::MAX), 1 << 32, (1 << 48) - 1] {
        assert_eq!(insert(&table, u64::MAX, false, number), None);
        assert_eq!(insert(&table, u64::MAX, false, number), None);
        assert_eq!(insert(&table, u64::MAX, true, 9), Some(number));
        assert_eq!(insert(&table, u64::MAX, true, 9), Some(number));
    }
}

#[test]
fn many_at_once_are_as_one_after_the_other() {
    for count in [0, 1, 7, 8, 9, 40] {
        let table = Table::new(4);
        let entries = || (0..count).map(|number| (Key(number % 30), value(number)));
        let mut seen = Vec::new();
        table.insert_all(Side::Message, entries(), |key, value, outcome| {
            assert_eq!(outcome, Insertion::Waits);
            seen.push((key, value));
        });
        assert_eq!(seen, entries().collect::<Vec<_>>());
        let mut met = Vec::new();
        table.insert_all(Side::Receive, entries(), |_, own, outcome| {
            met.push((own, outcome));
        });
        // In order under each key, so each number meets its equal.
        assert!(
            met.iter()
                .all(|(own, outcome)| *outcome == Insertion::Matched(*own))
        );
        assert_eq!(met.len() as u64, count);
    }
}

#[test]
fn source_and_tag_of_any_sign_make_a_key() {
    let keys = [(1, -1), (1, 1), (0, -1), (u32::MAX, i32::MIN)];
    let keys = keys.map(|(source, tag)| Key::new(Source(source), Tag(tag)).0);
    assert_eq!(
        keys,
        [
            0x1_ffff_ffff,
            0x1_0000_0001,
            0xffff_ffff,
            0xffff_ffff_8000_0000
        ]
    );
}

#[test]
fn a_table_does_not_grow_below_what_it_was_made_for_and_grows_beyond() {
    let entries = if cfg!(miri) { 8 } else { 1 << 13 };
    let table = Table::new(2 * entries);
    let before = table.buckets();
    for key in 0..entries as u64 {
        assert_eq!(insert(&table, key << 32, false, key), None);
    }
    if !cfg!(miri) {
        // With this many buckets the number of continued ones is far from the limit.
        assert_eq!(table.buckets(), before);
    }
    for key in entries as u64..8 * entries as u64 {
        assert_eq!(insert(&table, key << 32, false, key), None);
    }
    assert!(table.buckets() >= 2 * before, "{table:?}");
    for key in 0..8 * entries as u64 {
        assert_eq!(insert(&table, key << 32, true, 0), Some(key));
    }
    assert!(table.contents().is_empty());
}

#[test]
fn ten_thousand_under_one_key_come_out_in_order() {
    let count = if cfg!(miri) { 40 } else { 10_000 };
    let table = Table::new(1);
    (0..count).for_each(|number| assert_eq!(insert(&table, 7, true, number), None));
    assert_eq!(table.buckets(), 1, "one key is no reason to grow");
    (0..count).for_each(|number| assert_eq!(insert(&table, 7, false, 0), Some(number)));
}

/// Each key has one thread that inserts its messages and one that inserts its receives, so the
/// numbers must meet one to one, although the table grows and splits under them all the time.
#[test]
fn threads_meet_in_order_while_the_table_grows() {
    let (keys, rounds) = if cfg!(miri) { (10, 2) } else { (3_000, 40) };
    let table = Table::new(1);
    let start = Barrier::new(4);
    let met: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4_u64)
            .map(|thread| {
                let (table, start) = (&table, &start);
                scope.spawn(move || {
                    start.wait();
                    let (group, receive) = (thread / 2, thread % 2 == 1);
                    let mut met = 0;
                    for round in 0..rounds {
                        // The two sides of a key go through them in different orders.
                        for step in 0..keys {
                            let key = 2 * if receive { keys - 1 - step } else { step } + group;
                            if let Some(other) = insert(table, key, receive, round << 32 | key) {
                                assert_eq!(other, round << 32 | key);
                                met += 1;
                            }
                        }
                    }
                    met
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .sum()
    });
    assert_eq!(met, 2 * keys * rounds, "each pair meets once");
    assert!(table.contents().is_empty());
    assert_eq!(table.behind.spares.in_use(), 0);
}

/// Key, whether a receive, the inserted value, the value that it met.
type Outcome = (u64, bool, u64, Option<u64>);

/// All threads use all keys, both sides, and remove what they can: nothing is lost or doubled.
#[test]
fn threads_that_mix_everything_lose_and_double_nothing() {
    let (threads, rounds, keys) = if cfg!(miri) {
        (3, 40, 7)
    } else {
        (4, 40_000, 23)
    };
    let table = Table::new(1);
    let outcomes: Vec<Vec<Outcome>> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|thread| {
                let table = &table;
                scope.spawn(move || {
                    let mut random = 0x9e37_79b9_u64 + thread;
                    let mut seen = Vec::new();
                    for round in 0..rounds {
                        random ^= random << 13;
                        random ^= random >> 7;
                        random ^= random << 17;
                        let (key, receive) = (random % keys, random & 1 << 40 != 0);
                        let own = thread << 32 | round;
                        let found = insert(table, key, receive, own);
                        if found.is_none()
                            && random >> 60 == 0
                            && table.remove(Key(key), side(receive), value(own))
                        {
                            continue;
                        }
                        seen.push((key, receive, own, found));
                    }
                    seen
                })
            })
            .collect();
        running
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .collect()
    });
    // A waiting value is either matched later or still there.
    let mut waiting: BTreeMap<(u64, bool, u64), ()> = BTreeMap::new();
    let all = outcomes.into_iter().flatten();
    let (matches, waits): (Vec<_>, Vec<_>) = all.partition(|(.., found)| found.is_some());
    for (key, receive, own, _) in waits {
        assert!(waiting.insert((key, receive, own), ()).is_none());
    }
    for (key, receive, own, found) in matches {
        let other = found.expect("a match");
        let known = waiting.remove(&(key, !receive, other));
        assert!(
            known.is_some(),
            "{own:#x} met {other:#x} under {key}, which did not wait there"
        );
    }
    let mut left = Vec::new();
    for (key, (receive, values)) in table.contents() {
        left.extend(values.into_iter().map(|value| (key, receive, value)));
    }
    left.sort_unstable();
    assert_eq!(left, waiting.into_keys().collect::<Vec<_>>());
}
