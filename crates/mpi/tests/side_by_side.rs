//! Communicators of several channels: each rank has several engines, and is one rank all the same.
//!
//! `WEFT_SEEDS=1000` plays so many random programs of 24 threads on each fabric, `WEFT_SECONDS=120` as many as begin within two minutes:
//! [`crate::common::several::random_programs`].

use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::inquired::Inquired;
use crate::common::several::{barrier, random_programs, receive, send, side_by_side};
use crate::common::{over, pattern};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng};
use weft_atomic::{AtomicU32, Ordering};
use weft_fabric::Fabric;
use weft_fabric_local::Local;
use weft_mpi::waits::RankWaits;
use weft_mpi::{Comm, ErrorClass, Process, RequestId, SendMode, Source, TagPattern, Target};

/// Beyond what goes with its envelope.
const LARGE: usize = 300_000;

#[test]
fn communicators_take_turns_among_the_channels() {
    side_by_side(3, 2, |process| {
        let world = process.world();
        let comms: Vec<_> = (0..4).map(|_| world.dup().unwrap()).collect();
        let half = world.split(Some((world.rank() % 2).cast_signed()), 0);
        let half = half.unwrap().expect("it has a color");
        let me = world.rank();
        let (right, left) = ((me + 1) % 3, (me + 2) % 3);
        let mut engines = Vec::new();
        for (number, comm) in comms.iter().enumerate() {
            let mut data = pattern(1000, number);
            let mut room = vec![0; 1000];
            let tag = TagPattern::Exact(5);
            let incoming = comm.irecv(over(&mut room), Source::Rank(left), tag);
            let outgoing = comm.isend(
                SendMode::Synchronous,
                over(&mut data),
                Target::Rank(right),
                5,
            );
            let (incoming, outgoing) = (incoming.unwrap(), outgoing.unwrap());
            engines.push(incoming.generation() % 4);
            process.wait(outgoing).unwrap();
            process.wait(incoming).unwrap();
            assert_eq!(room, pattern(1000, number));
            for _ in 0..6 {
                barrier(comm);
            }
        }
        assert_eq!(engines, [1, 0, 1, 0], "in turn among two channels");
        barrier(&half);
        // What is made of one in another channel is a communicator like others.
        let again = comms[0].dup().unwrap();
        barrier(&again);
        let group = Arc::clone(comms[0].group());
        let made = comms[2].create_group(&group, 7).unwrap().unwrap();
        send(&made, me, 1, vec![3; 20]);
        assert_eq!(receive(&made, me, 1, 20), [3; 20]);
        assert_eq!(process.unexpected_messages(), 0);
    });
}

#[test]
fn who_is_blocked_in_one_engine_goes_on_with_the_others() {
    side_by_side(2, 3, |process| {
        let world = process.world();
        let comms = [world.dup().unwrap(), world.dup().unwrap(), world];
        // What is begun on one is waited for by the other before it answers on another.
        let pairs = [(0, 1), (1, 0), (2, 0), (0, 2)];
        let ways = pairs
            .iter()
            .flat_map(|pair| [0, 1, 2].map(|way| (*pair, way)));
        for ((begun, awaited), way) in ways {
            let (begun, awaited) = (&comms[begun], &comms[awaited]);
            if process.me().0 == 0 {
                let mut data = pattern(LARGE, 1);
                let mut small: Vec<Vec<u8>> = (0..1000).map(|number| pattern(9, number)).collect();
                let to = Target::Rank(1);
                let large = begun.isend(SendMode::Standard, over(&mut data), to, 1);
                let many: Vec<_> = small
                    .iter_mut()
                    .map(|one| begun.isend(SendMode::Standard, over(one), to, 2).unwrap())
                    .collect();
                let mut room = [0; 4];
                let tag = TagPattern::Exact(3);
                match way {
                    0 => assert_eq!(receive(awaited, 1, 3, 4), [4; 4]),
                    1 => {
                        let incoming = awaited.irecv(over(&mut room), Source::Any, tag).unwrap();
                        while process.test(incoming).unwrap().is_none() {}
                    }
                    _ => {
                        let incoming = awaited.irecv(over(&mut room), Source::Any, tag).unwrap();
                        // As the entry points ask.
                        while process.test_at_once(incoming) == Some(None) {}
                        while process.is_live(incoming) && process.test(incoming).unwrap().is_none()
                        {
                        }
                    }
                }
                process.wait(large.unwrap()).unwrap();
                many.into_iter().for_each(|one| {
                    process.wait(one).unwrap();
                });
            } else {
                assert_eq!(receive(begun, 0, 1, LARGE), pattern(LARGE, 1));
                for number in 0..1000 {
                    assert_eq!(receive(begun, 0, 2, 9), pattern(9, number));
                }
                send(awaited, 0, 3, vec![4; 4]);
            }
        }
    });
}

#[test]
fn lists_of_requests_of_several_engines_are_lists_as_others() {
    side_by_side(2, 3, |process| {
        let world = process.world();
        let comms = [world.dup().unwrap(), world.dup().unwrap(), world.clone()];
        let other = 1 - world.rank();
        for round in 0..30 {
            let mut rooms = vec![vec![0; 40]; 9];
            let ids: Vec<Option<RequestId>> = rooms
                .iter_mut()
                .zip(comms.iter().cycle())
                .zip(0..)
                .map(|((room, comm), tag)| {
                    let tag = TagPattern::Exact(tag);
                    Some(comm.irecv(over(room), Source::Rank(other), tag).unwrap())
                })
                .collect();
            let (mut left, mut statuses) = (ids.clone(), Vec::new());
            assert!(!process.test_all(&mut (&left[..], &mut statuses)).unwrap());
            assert_eq!(process.test_any(&left).unwrap(), None);
            assert_eq!(process.test_some(&left).unwrap(), Some(Vec::new()));
            barrier(&world);
            let part = |tags: std::ops::Range<usize>| {
                for tag in tags {
                    send(&comms[tag % 3], other, tag as i32, pattern(40, tag + round));
                }
            };
            part(0..5);
            if round % 2 == 0 {
                let (place, status) = process.wait_any(&left).unwrap().expect("under way");
                assert_eq!(status.tag, place as i32);
                left[place] = None;
                while left[..5].iter().any(Option::is_some) {
                    for (place, status) in process.wait_some(&left).unwrap().expect("under way") {
                        assert_eq!((status.tag, status.bytes), (place as i32, 40));
                        left[place] = None;
                    }
                }
            }
            part(5..9);
            let mut statuses = Vec::new();
            process.wait_all(&mut (&left[..], &mut statuses)).unwrap();
            for (tag, room) in rooms.iter().enumerate() {
                assert_eq!(*room, pattern(40, tag + round));
            }
            assert_eq!(process.wait_any(&[None, None]).unwrap(), None);
            let stale = process.wait_all(&mut (&ids[..], &mut Vec::new()));
            assert_eq!(stale.unwrap_err().class(), ErrorClass::Request);
            // Also what names an engine that was never opened.
            let strange = [ids[0], Some(RequestId::new(5, 3)), ids[2]];
            let stale = process.wait_any(&strange).unwrap_err();
            assert_eq!(stale.class(), ErrorClass::Request);
            let stale = process.test_some(&strange).unwrap_err();
            assert_eq!(stale.class(), ErrorClass::Request);
            barrier(&world);
        }
    });
}

#[test]
fn threads_enter_collectives_of_different_communicators_in_different_orders() {
    const THREADS: usize = 4;
    side_by_side(3, 3, |process| {
        let world = process.world();
        let comms: Vec<_> = (0..THREADS).map(|_| world.dup().unwrap()).collect();
        std::thread::scope(|scope| {
            for (number, comm) in comms.iter().enumerate() {
                let me = world.rank() as usize;
                scope.spawn(move || {
                    // One waits for its like at other ranks, which begin later and later.
                    for round in 0..40 {
                        if (round + number + me).is_multiple_of(5) {
                            std::thread::yield_now();
                        }
                        barrier(comm);
                    }
                });
            }
        });
        assert_eq!(process.live_requests(), 0);
    });
}

/// One thread of a rank and its like at the other rank, which draws the same. What all threads share is a communicator, where each makes
/// others by a tag of its own.
fn pair(process: &Arc<Process>, parent: &Arc<Comm>, shared: (&Arc<Comm>, i32), seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    let (me, other) = (parent.rank(), 1 - parent.rank());
    let mut comm = parent.dup().unwrap();
    for step in 0..60_usize {
        let first = random.random_range(0..2) == me;
        let tag = random.random_range(0..4);
        let length = [0, 8, 500, 9_000, 70_000][random.random_range(0..5)];
        match random.random_range(0..12) {
            0 => {
                let made = comm.dup().unwrap();
                comm.drop_messages();
                comm = made;
            }
            1 => barrier(&comm),
            2 => {
                // A receive that nobody sends for is taken back.
                let mut room = [0; 8];
                let never = TagPattern::Exact(99);
                let request = comm.irecv(over(&mut room), Source::Any, never).unwrap();
                process.cancel(request).unwrap();
                assert!(process.wait(request).unwrap().cancelled);
            }
            3 if !first => {
                let status = comm.probe(Source::Any, TagPattern::Any).unwrap();
                assert_eq!((status.tag, status.bytes), (tag, length as u64));
                assert_eq!(receive(&comm, other, tag, length), pattern(length, step));
            }
            4 => {
                let mut data = pattern(length, step);
                let mut room = vec![0; length];
                let tag_of = TagPattern::Exact(tag);
                let incoming = comm.irecv(over(&mut room), Source::Any, tag_of).unwrap();
                let outgoing = comm
                    .isend(
                        SendMode::Standard,
                        over(&mut data),
                        Target::Rank(other),
                        tag,
                    )
                    .unwrap();
                process.wait(incoming).unwrap();
                process.wait(outgoing).unwrap();
                assert_eq!(room, pattern(length, step));
            }
            5 => {
                // Beside those that other threads make of the same communicator.
                let (all, number) = shared;
                let made = all.create_group(&Arc::clone(all.group()), number);
                let made = made.unwrap().expect("a member");
                if first {
                    send(&made, other, tag, pattern(length, step));
                } else {
                    assert_eq!(receive(&made, other, tag, length), pattern(length, step));
                }
                made.drop_messages();
            }
            6 if !first => {
                // Taken out of the matching before it is received.
                let (message, _) = loop {
                    let found = comm.improbe(Source::Any, TagPattern::Exact(tag));
                    if let Some(found) = found.unwrap() {
                        break found;
                    }
                };
                let mut room = vec![0; length];
                process.mrecv(message.unwrap(), over(&mut room)).unwrap();
                assert_eq!(room, pattern(length, step));
            }
            _ if first => send(&comm, other, tag, pattern(length, step)),
            _ => assert_eq!(receive(&comm, other, tag, length), pattern(length, step)),
        }
    }
}

#[test]
fn twenty_four_threads_do_what_they_draw() {
    const THREADS: u64 = 12;
    random_programs(2, 3, |seed| {
        move |process: Arc<Process>| {
            let world = process.world();
            let parents: Vec<_> = (0..THREADS).map(|_| world.dup().unwrap()).collect();
            std::thread::scope(|scope| {
                for (parent, number) in parents.iter().zip(0..) {
                    let (process, world) = (&process, &world);
                    scope.spawn(move || {
                        pair(
                            process,
                            parent,
                            (world, number as i32),
                            seed * THREADS + number,
                        );
                    });
                }
            });
            assert_eq!(process.live_requests(), 0);
            assert_eq!(process.unexpected_messages(), 0);
        }
    });
}

#[test]
fn fibers_of_one_worker_wait_in_several_engines() {
    side_by_side(2, 3, |process| {
        let world = process.world();
        let comms = [world.dup().unwrap(), world.dup().unwrap(), world.clone()];
        let other = 1 - world.rank();
        let config = weft_fiber::Config {
            workers: 1,
            ..Default::default()
        };
        let runtime = weft_fiber::Runtime::new(config).unwrap();
        let fibers: Vec<_> = (0..12_usize)
            .map(|number| {
                let comm = comms[number % 3].clone();
                let me = world.rank();
                let fiber = weft_fiber::Builder::new().spawn_on(&runtime, move || {
                    let tag = number as i32;
                    for step in 0..30 {
                        if (step + number).is_multiple_of(2) == (me == 0) {
                            send(&comm, other, tag, pattern(64, step));
                        } else {
                            assert_eq!(receive(&comm, other, tag, 64), pattern(64, step));
                        }
                    }
                });
                fiber.unwrap()
            })
            .collect();
        for fiber in fibers {
            fiber.join().unwrap();
        }
    });
}

#[test]
fn buffered_messages_of_all_engines_are_flushed() {
    side_by_side(2, 2, |process| {
        let world = process.world();
        let comms = [world.dup().unwrap(), world.clone()];
        process.attach_buffer(1 << 20);
        if world.rank() == 0 {
            for comm in &comms {
                let mut data = pattern(LARGE, 2);
                let buffer = over(&mut data);
                comm.send(SendMode::Buffered, buffer, Target::Rank(1), 0)
                    .unwrap();
            }
            let request = process.begin_flush_of(None, |_| true).unwrap();
            assert_eq!(process.test(request).unwrap(), None);
            barrier(&world);
            process.wait(request).unwrap();
            process.flush_buffer();
        } else {
            barrier(&world);
            for comm in &comms {
                assert_eq!(receive(comm, 0, 0, LARGE), pattern(LARGE, 2));
            }
        }
    });
}

#[test]
fn a_loss_ends_what_waits_in_every_engine() {
    let mut group = Local::group_with_channels(2, 2);
    let lost = group.pop().expect("two");
    let process = Process::new(Box::new(group.pop().expect("two")));
    process.let_threads_call_at_once();
    let (tell, told) = mpsc::channel();
    let other = std::thread::spawn(move || {
        let process = Process::new(Box::new(lost));
        let world = process.world();
        let apart = world.dup().unwrap();
        told.recv().unwrap();
        drop((world, apart));
        process.release();
        panic!("this rank is lost");
    });
    let world = process.world();
    let apart = world.dup().unwrap();
    std::thread::scope(|scope| {
        for comm in [&world, &apart] {
            scope.spawn(|| {
                let mut room = [0; 4];
                let from = Source::Rank(1);
                let error = comm
                    .recv(over(&mut room), from, TagPattern::Any)
                    .expect_err("it is lost");
                assert_eq!(error.class(), ErrorClass::ProcFailed);
            });
        }
        tell.send(()).unwrap();
    });
    assert!(other.join().is_err());
}

/// Inquires until two answers, one after the other, are of the same activity: the first stands in `answer`, the second is
/// answered. Who had looked may still have been on its way to sleep; from some inquiry on nothing happens.
fn until_nothing_happens(
    answer: &mut RankWaits,
    mut number: u32,
    inquire: &impl Fn(u32) -> RankWaits,
) -> RankWaits {
    let mut again = inquire(number + 2);
    let last = number + 2000;
    while again.activity != answer.activity && number < last {
        number += 2;
        *answer = std::mem::replace(&mut again, inquire(number + 2));
    }
    again
}

#[test]
fn all_that_wait_in_any_engine_are_told_at_once() {
    let endpoint = Local::group_with_channels(1, 3).pop().expect("one");
    let inquiry = Arc::new(AtomicU32::new(0));
    let bells = Arc::new(Mutex::new(vec![endpoint.bell()]));
    let process = Process::new(Box::new(Inquired {
        inner: Box::new(endpoint),
        inquiry: Arc::clone(&inquiry),
        bells: Arc::clone(&bells),
    }));
    process.let_threads_call_at_once();
    let (tell, told) = mpsc::channel::<RankWaits>();
    process.hear_waits(move |waits| tell.send(waits).unwrap());
    let world = process.world();
    let comms = [world.dup().unwrap(), world.dup().unwrap(), world.clone()];
    let inquire = |number: u32| {
        inquiry.store(number, Ordering::Release);
        bells.lock().unwrap().iter().for_each(|bell| bell.ring());
        loop {
            let answer = told
                .recv_timeout(Duration::from_secs(60))
                .expect("an answer");
            if answer.inquiry == number {
                return answer;
            }
        }
    };
    std::thread::scope(|scope| {
        for comm in &comms[..2] {
            for tag in 0..2 {
                scope.spawn(move || receive(comm, 0, tag, 4));
            }
        }
        // Until all of them wait, others are at work.
        let mut number = 2;
        let mut answer = inquire(number);
        while answer.waits.len() < 4 {
            number += 2;
            answer = inquire(number);
        }
        let contexts: std::collections::BTreeSet<u32> = answer.contexts().collect();
        let again = until_nothing_happens(&mut answer, number, &inquire);
        let (first, second) = (answer.activity, again.activity);
        let waits = again.waits.len();
        for comm in &comms[..2] {
            for tag in 0..2 {
                send(comm, 0, tag, vec![0; 4]);
            }
        }
        // They have what they wait for: a failure ends the test.
        assert_eq!(contexts.len(), 2, "{answer:?}");
        assert_eq!(second, first, "nothing has happened");
        assert_eq!(waits, 4);
    });
    // One that waits for any of several engines names what it waits for in each.
    let mut rooms = [[0_u8; 4]; 2];
    let ids: Vec<_> = comms[..2]
        .iter()
        .zip(&mut rooms)
        .map(|(comm, room)| {
            let (from, tag) = (Source::Rank(0), TagPattern::Exact(7));
            Some(comm.irecv(over(room), from, tag).unwrap())
        })
        .collect();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| process.wait_any(&ids).unwrap());
        // Beyond all that was asked before: the last of those again would be no new one, and not be answered.
        let mut number = 1_000_000;
        let mut answer = inquire(number);
        while answer.waits[0].operations.len() < 2 {
            number += 2;
            answer = inquire(number);
        }
        let again = until_nothing_happens(&mut answer, number, &inquire);
        send(&comms[1], 0, 7, vec![9; 4]);
        let (place, _) = waits.join().unwrap().expect("under way");
        // It has what it waits for: a failure ends the test.
        assert_eq!(place, 1);
        assert!(answer.waits[0].any && !answer.awaits_outside, "{answer:?}");
        let contexts: std::collections::BTreeSet<u32> = answer.contexts().collect();
        assert_eq!(contexts.len(), 2, "{answer:?}");
        assert_eq!(again.activity, answer.activity, "nothing has happened");
    });
    send(&comms[0], 0, 7, vec![8; 4]);
    process.wait_any(&ids[..1]).unwrap();
    assert_eq!(rooms, [[8; 4], [9; 4]]);
}

#[test]
fn who_hears_of_counters_hears_of_those_of_every_engine() {
    let endpoint = Local::group_with_channels(1, 3).pop().expect("one");
    let process = Process::new(Box::new(endpoint));
    process.let_threads_call_at_once();
    let world = process.world();
    let told = Arc::new(Mutex::new(Vec::new()));
    let _first = world.dup().unwrap();
    let heard = Arc::clone(&told);
    process.tell_counters(move |counters| {
        heard
            .lock()
            .unwrap()
            .push(std::ptr::from_ref(counters).addr());
    });
    assert_eq!(told.lock().unwrap().len(), 2, "those that are open");
    let _others = [world.dup().unwrap(), world.dup().unwrap()];
    let all = process
        .all_counters()
        .map(|counters| std::ptr::from_ref(counters).addr());
    let mut told = told.lock().unwrap().clone();
    told.sort_unstable();
    let mut all: Vec<usize> = all.collect();
    all.sort_unstable();
    assert_eq!(told, all);
    assert_eq!(told.len(), 3);
}
