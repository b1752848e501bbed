//! Loom models: every interleaving (up to a number of preemptions) of what threads can do to one small table.

use super::*;
use weft_atomic::{Arc, UnsafeCell};

fn insert(table: &Table, key: u64, side: Side, number: u64) -> Option<u64> {
    match table.insert(Key(key), side, Value(number)) {
        Insertion::Matched(found) => Some(found.number()),
        Insertion::Waits => None,
    }
}

fn explore(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 10_000;
    builder.check(model);
}

/// A table and a cell per side, written before inserting.
struct Scene {
    table: Table,
    message: UnsafeCell<u64>,
    receive: UnsafeCell<u64>,
}

// SAFETY: a cell is written before its side is inserted, and read by the thread that matched it.
#[allow(unsafe_code)]
unsafe impl Sync for Scene {}

#[test]
fn the_two_sides_meet_once_and_see_what_was_done_before() {
    explore(3, || {
        let scene = Arc::new(Scene {
            table: Table::new(1),
            message: UnsafeCell::new(0),
            receive: UnsafeCell::new(0),
        });
        let other = {
            let scene = scene.clone();
            loom::thread::spawn(move || {
                // SAFETY: nobody reads it before the insertion.
                #[allow(unsafe_code)]
                scene.message.with_mut(|cell| unsafe { *cell = 11 });
                let found = insert(&scene.table, 5, Side::Message, 1);
                if found.is_some() {
                    // SAFETY: matched, so its inserter is done with it.
                    #[allow(unsafe_code)]
                    scene.receive.with(|cell| assert_eq!(unsafe { *cell }, 22));
                }
                found
            })
        };
        // SAFETY: nobody reads it before the insertion.
        #[allow(unsafe_code)]
        scene.receive.with_mut(|cell| unsafe { *cell = 22 });
        let here = insert(&scene.table, 5, Side::Receive, 2);
        if here.is_some() {
            // SAFETY: matched, so its inserter is done with it.
            #[allow(unsafe_code)]
            scene.message.with(|cell| assert_eq!(unsafe { *cell }, 11));
        }
        let there = other.join().unwrap();
        assert!(
            matches!((here, there), (Some(1), None) | (None, Some(2))),
            "{here:?} {there:?}"
        );
    });
}

#[test]
fn values_of_one_side_are_given_out_once() {
    explore(2, || {
        let table = Arc::new(Table::new(1));
        assert_eq!(insert(&table, 5, Side::Message, 1), None);
        assert_eq!(insert(&table, 5, Side::Message, 2), None);
        let other = {
            let table = table.clone();
            loom::thread::spawn(move || insert(&table, 5, Side::Receive, 8))
        };
        let mut found = vec![insert(&table, 5, Side::Receive, 9), other.join().unwrap()];
        found.sort_unstable();
        assert_eq!(found, [Some(1), Some(2)]);
    });
}

/// The fifth key continues the only bucket, so its inserter doubles the table, while another thread looks for
/// a key that moves or stays. Then both halves are complete.
#[test]
fn growth_and_a_birth_hide_nothing() {
    explore(2, || {
        let table = Arc::new(Table::new(1));
        for key in 0..4 {
            assert_eq!(insert(&table, key, Side::Message, key), None);
        }
        let other = {
            let table = table.clone();
            loom::thread::spawn(move || {
                assert_eq!(insert(&table, 4, Side::Message, 4), None);
                // Under the new mask: the bucket is born now if it was not before.
                assert_eq!(insert(&table, 3, Side::Receive, 0), Some(3));
            })
        };
        assert_eq!(insert(&table, 1, Side::Receive, 0), Some(1));
        assert_eq!(insert(&table, 2, Side::Receive, 0), Some(2));
        other.join().unwrap();
        // One, if keys were removed before the fifth came.
        assert!(table.buckets() <= 2);
        assert_eq!(insert(&table, 0, Side::Receive, 0), Some(0));
        assert_eq!(insert(&table, 4, Side::Receive, 0), Some(4));
        assert_eq!(table.behind.continued.load(Ordering::Relaxed), 0);
    });
}

/// Two threads look for the same new bucket at once.
#[test]
fn a_bucket_is_born_once() {
    explore(3, || {
        let table = Arc::new(Table::new(1));
        for key in 0..5 {
            assert_eq!(insert(&table, key, Side::Message, key), None);
        }
        assert_eq!(table.buckets(), 2);
        let other = {
            let table = table.clone();
            loom::thread::spawn(move || {
                assert_eq!(insert(&table, 0, Side::Receive, 9), Some(0));
                assert_eq!(insert(&table, 1, Side::Receive, 9), Some(1));
            })
        };
        assert_eq!(insert(&table, 2, Side::Receive, 9), Some(2));
        assert_eq!(insert(&table, 3, Side::Receive, 9), Some(3));
        other.join().unwrap();
        assert_eq!(insert(&table, 4, Side::Receive, 9), Some(4));
    });
}
