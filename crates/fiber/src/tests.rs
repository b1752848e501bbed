//! Fibers together.

use std::sync::{Arc, Mutex};
use weft_atomic::{AtomicU32, AtomicUsize, Ordering};

use crate::{Builder, Config, Order, Runtime, current, park, spawn, yield_now};

fn config(workers: usize) -> Config {
    Config {
        workers,
        ..Config::default()
    }
}

#[test]
fn a_fiber_starts_others_and_joins_them() {
    const PARTS: u64 = if cfg!(miri) { 30 } else { 3000 };
    let runtime = Runtime::new(config(2)).expect("memory");
    let sum = runtime.spawn(|| {
        let parts: Vec<_> = (0..PARTS).map(|part| spawn(move || part)).collect();
        parts
            .into_iter()
            .map(|part| part.join().expect("no panic"))
            .sum::<u64>()
    });
    assert_eq!(sum.join().expect("no panic"), PARTS * (PARTS - 1) / 2);
}

#[test]
fn fibers_take_turns() {
    let order = Runtime::run(config(1), || {
        let order = Arc::new(std::sync::Mutex::new(Vec::new()));
        let fibers: Vec<_> = (0..5)
            .map(|me| {
                let order = order.clone();
                spawn(move || {
                    for _ in 0..3 {
                        order.lock().expect("no panic").push(me);
                        yield_now();
                    }
                })
            })
            .collect();
        for fiber in fibers {
            fiber.join().expect("no panic");
        }
        Arc::into_inner(order)
            .expect("all have ended")
            .into_inner()
            .expect("no panic")
    })
    .expect("memory");
    assert_eq!(order.len(), 15);
    for round in order.chunks(5) {
        let mut round = round.to_vec();
        round.sort_unstable();
        assert_eq!(
            round,
            [0, 1, 2, 3, 4],
            "each once before any twice: {order:?}"
        );
    }
}

#[test]
fn a_signal_makes_a_parked_fiber_look_again() {
    for workers in [1, 2] {
        let runtime = Runtime::new(config(workers)).expect("memory");
        let turn = Arc::new(AtomicU32::new(0));
        let players: Vec<_> = (0..2)
            .map(|me| {
                let turn = turn.clone();
                Builder::new()
                    .worker(me as usize)
                    .spawn_on(&runtime, move || {
                        while turn.load(Ordering::Acquire) == 0 {
                            yield_now();
                        }
                        current().expect("a fiber")
                    })
                    .expect("a stack")
            })
            .collect();
        let fibers: Vec<_> = players.iter().map(super::JoinHandle::fiber).collect();
        assert!(fibers[0].number() != fibers[1].number());
        turn.store(1, Ordering::Release);
        for player in players {
            assert!(fibers.contains(&player.join().expect("no panic")));
        }
    }
}

/// Two fibers hand a count to and fro, parked in between.
fn hand_over(runtime: &Runtime, rounds: u32) {
    let count = Arc::new(AtomicU32::new(0));
    let names: Arc<[std::sync::OnceLock<crate::Fiber>; 2]> = Arc::default();
    let player = |me: usize| {
        let (count, names) = (count.clone(), names.clone());
        move || {
            names[me]
                .set(current().expect("a fiber"))
                .expect("set once");
            let other = loop {
                match names[1 - me].get() {
                    Some(other) => break *other,
                    None => yield_now(),
                }
            };
            loop {
                let now = count.load(Ordering::Acquire);
                if now >= rounds {
                    other.signal();
                    return;
                }
                if now as usize % 2 == me {
                    count.store(now + 1, Ordering::Release);
                    other.signal();
                } else {
                    park();
                }
            }
        }
    };
    let players = [0, 1].map(|me| {
        Builder::new()
            .worker(me)
            .spawn_on(runtime, player(me))
            .expect("a stack")
    });
    for player in players {
        player.join().expect("no panic");
    }
    assert_eq!(count.load(Ordering::Relaxed), rounds);
}

#[test]
fn parked_fibers_hand_over_on_one_worker_and_between_two() {
    for workers in [1, 2, 3] {
        let rounds = if cfg!(miri) { 6 } else { 20_000 };
        hand_over(&Runtime::new(config(workers)).expect("memory"), rounds);
    }
}

#[test]
fn a_panic_is_the_result_and_ends_nobody_else() {
    let runtime = Runtime::new(config(1)).expect("memory");
    let bad = runtime.spawn(|| -> u32 { panic!("as asked") });
    let good = runtime.spawn(|| 5);
    let thrown = bad.join().expect_err("it panicked");
    assert_eq!(thrown.downcast_ref::<&str>(), Some(&"as asked"));
    assert_eq!(good.join().expect("no panic"), 5);
}

#[test]
fn what_is_dropped_goes_on_and_what_is_large_is_boxed() {
    let count = Arc::new(AtomicUsize::new(0));
    let runtime = Runtime::new(config(2)).expect("memory");
    let fibers = if cfg!(miri) { 10 } else { 100 };
    for _ in 0..fibers {
        let count = count.clone();
        drop(runtime.spawn(move || {
            yield_now();
            count.fetch_add(1, Ordering::Relaxed);
            // Dropped by whoever cleans up.
            count
        }));
    }
    let large = [7u8; 100_000];
    let back = runtime.spawn(move || large);
    assert_eq!(back.join().expect("no panic"), large);
    drop(runtime);
    assert_eq!(
        count.load(Ordering::Relaxed),
        fibers,
        "dropping waits for all"
    );
    assert_eq!(Arc::strong_count(&count), 1, "results are dropped");
}

#[test]
#[cfg_attr(miri, ignore = "a fiber is a thread there")]
fn fibers_that_may_migrate_go_where_nothing_runs() {
    let runtime = Runtime::new(config(2)).expect("memory");
    let seen = runtime
        .spawn(|| {
            let fibers: Vec<_> = (0..64)
                .map(|_| {
                    // SAFETY: holds nothing but integers across its suspensions.
                    unsafe { Builder::new().migrating() }
                        .spawn(|| {
                            let mut threads = vec![format!("{:?}", std::thread::current().id())];
                            for _ in 0..200 {
                                yield_now();
                                let here = format!("{:?}", std::thread::current().id());
                                if threads.last() != Some(&here) {
                                    threads.push(here);
                                }
                            }
                            threads
                        })
                        .expect("a stack")
                })
                .collect();
            let mut all: Vec<_> = fibers
                .into_iter()
                .flat_map(|fiber| fiber.join().expect("no panic"))
                .collect();
            all.sort();
            all.dedup();
            all.len()
        })
        .join()
        .expect("no panic");
    assert_eq!(seen, 2, "both workers took part");
}

#[test]
fn a_seed_decides_the_order() {
    const FIBERS: usize = if cfg!(miri) { 6 } else { 100 };
    const ROUNDS: usize = if cfg!(miri) { 3 } else { 10 };
    let order = |seed| {
        let config = Config {
            order: Order::Seeded(seed),
            ..config(1)
        };
        Runtime::run(config, || {
            let order = Arc::new(std::sync::Mutex::new(Vec::new()));
            let fibers: Vec<_> = (0..FIBERS)
                .map(|me| {
                    let order = order.clone();
                    spawn(move || {
                        for _ in 0..ROUNDS {
                            order.lock().expect("no panic").push(me);
                            yield_now();
                        }
                    })
                })
                .collect();
            for fiber in fibers {
                fiber.join().expect("no panic");
            }
            Arc::into_inner(order)
                .expect("ended")
                .into_inner()
                .expect("no panic")
        })
        .expect("memory")
    };
    let (one, same, other) = (order(1), order(1), order(2));
    assert_eq!(one.len(), FIBERS * ROUNDS);
    assert_eq!(one, same);
    assert_ne!(one, other);
}

#[test]
fn stacks_are_used_again_and_names_are_not() {
    Runtime::run(config(1), || {
        let first = spawn(|| 1);
        let name = first.fiber();
        assert!(name.is_live());
        first.join().expect("no panic");
        assert!(!name.is_live());
        let second = spawn(|| 2);
        assert_eq!(second.fiber().number(), name.number());
        assert_ne!(second.fiber(), name);
        // A stale signal is a reason to look again, and harmless.
        name.signal();
        assert_eq!(second.join().expect("no panic"), 2);
        name.signal();
        yield_now();
    })
    .expect("memory");
}

#[test]
fn many_fibers_wait_at_once() {
    let count = if cfg!(miri) {
        30
    } else if cfg!(debug_assertions) {
        50_000
    } else {
        200_000
    };
    let runtime = Runtime::new(config(2)).expect("memory");
    let go = Arc::new(AtomicU32::new(0));
    let fibers: Vec<_> = (0..count)
        .map(|_| {
            let go = go.clone();
            runtime.spawn(move || {
                while go.load(Ordering::Acquire) == 0 {
                    park();
                }
                1u32
            })
        })
        .collect();
    go.store(1, Ordering::Release);
    for fiber in &fibers {
        fiber.fiber().signal();
    }
    let sum: u32 = fibers
        .into_iter()
        .map(|fiber| fiber.join().expect("no panic"))
        .sum();
    assert_eq!(sum, count);
}

#[test]
fn a_name_is_found_while_it_is_in_use() {
    let runtime = Runtime::new(config(1)).expect("memory");
    let handle = runtime.spawn(|| 5u8);
    let fiber = handle.into_fiber();
    let (number, incarnation) = (fiber.number(), fiber.incarnation());
    assert_eq!(runtime.find(number, incarnation), Some(fiber));
    assert_eq!(runtime.find(number, incarnation + 4), None);
    assert_eq!(runtime.find(number + 7, incarnation), None);
    assert_eq!(runtime.find(u32::MAX, 1), None);
    // SAFETY: of a handle of the same type.
    let handle = unsafe { crate::JoinHandle::<u8>::claim(fiber) }.expect("nobody has it");
    // SAFETY: as above.
    assert!(unsafe { crate::JoinHandle::<u8>::claim(fiber) }.is_none());
    assert_eq!(handle.join().expect("no panic"), 5);
    assert_eq!(runtime.find(number, incarnation), None);
}

#[test]
fn wrong_use_is_refused_with_a_remedy() {
    let outside = Builder::new().spawn(|| ()).expect_err("no fiber");
    assert!(outside.to_string().contains("Runtime::spawn"), "{outside}");
    let runtime = Runtime::new(config(1)).expect("memory");
    let large = Builder::new()
        .stack(usize::MAX)
        .spawn_on(&runtime, || ())
        .expect_err("too large");
    assert!(large.to_string().contains("67108864"), "{large}");
}

/// Plays the part of a program that overflows, in a process of its own.
#[test]
#[cfg_attr(miri, ignore = "no processes there")]
fn an_overflow_is_caught_and_named() {
    const PART: &str = "WEFT_FIBER_TEST_OVERFLOW";
    fn deeper(level: u64) -> u64 {
        let frame = std::hint::black_box([level; 64]);
        if level == 0 {
            0
        } else {
            deeper(level - 1) + frame[7]
        }
    }
    if std::env::var_os(PART).is_some() {
        let runtime = Runtime::new(config(1)).expect("memory");
        let used = runtime.spawn(|| deeper(std::hint::black_box(100_000)));
        println!("{:?}", used.join());
        return;
    }
    let output = std::process::Command::new(std::env::current_exe().expect("this test"))
        .args([
            "--exact",
            "tests::an_overflow_is_caught_and_named",
            "--nocapture",
        ])
        .env(PART, "1")
        .output()
        .expect("starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("has used up its stack of 64 KiB"), "{said}");
    assert!(said.contains("weft::fiber::Builder::stack"), "{said}");
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&output.status),
        Some(11),
        "it ends by the fault: {said}"
    );
}

/// A worker gives away neither the fiber that is still on its stack, as it yields or parks, nor one whose
/// bit came late, when it was another worker's or had ended.
#[test]
fn only_fibers_of_ones_own_that_are_suspended_are_given_away() {
    const FIBERS: usize = 6;
    const ROUNDS: usize = if cfg!(miri) { 2 } else { 20_000 };
    let turns = |one: usize, round: usize| (one * 5 + round) % 17;
    let runtime = Runtime::new(config(2)).expect("memory");
    let done = runtime.spawn(move || {
        let mut done = 0;
        for round in 0..ROUNDS {
            let all = Arc::new(Mutex::new(Vec::new()));
            let fibers: Vec<_> = (0..FIBERS)
                .map(|one| {
                    let all = Arc::clone(&all);
                    let body = move || {
                        let me = current().expect("a fiber");
                        all.lock().expect("no panic").push(me);
                        let mut count = 0;
                        for turn in 0..turns(one, round) {
                            // Also to oneself, so that to park ends.
                            let others = all.lock().expect("no panic").clone();
                            others.into_iter().for_each(crate::Fiber::signal);
                            if turn % 3 == 2 {
                                park();
                            } else {
                                yield_now();
                            }
                            count += 1;
                        }
                        count
                    };
                    // SAFETY: the fiber holds numbers and a handle that may be sent.
                    unsafe { Builder::new().migrating() }
                        .spawn(body)
                        .expect("memory")
                })
                .collect();
            for fiber in fibers {
                done += fiber.join().expect("no panic");
            }
        }
        done
    });
    let expected: usize = (0..ROUNDS)
        .flat_map(|round| (0..FIBERS).map(move |one| turns(one, round)))
        .sum();
    assert_eq!(done.join().expect("no panic"), expected);
}

mod ends;
