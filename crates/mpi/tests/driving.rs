//! Whoever waits makes progress, whatever the fibers do that the driver lets run: they may compute, block
//! their worker, or wait for somebody whose message has come.

use std::sync::mpsc;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use crate::common::{on_threads, over};
use weft_atomic::{AtomicU32, Ordering};
use weft_fiber::{Builder, Config, JoinHandle, Runtime};
use weft_mpi::comm::Comm;
use weft_mpi::{SendMode, Source, TagPattern, Target};

/// Tags: that something is asked for, its answer, and what ends the wait of a fiber.
const ASK: i32 = 1;
const ANSWER: i32 = 2;
const END: i32 = 3;

fn send(world: &Comm, to: u32, tag: i32) {
    world
        .send(SendMode::Standard, over(&mut [7; 8]), Target::Rank(to), tag)
        .unwrap();
}

fn receive(world: &Comm, from: u32, tag: i32) {
    let mut room = [0; 8];
    let tag = TagPattern::Exact(tag);
    world
        .recv(over(&mut room), Source::Rank(from), tag)
        .unwrap();
    assert_eq!(room, [7; 8]);
}

/// Lets what was started come as far as it can. Whatever it has come to, the test must end.
fn settle() {
    std::thread::sleep(Duration::from_millis(20));
}

/// Runs `part` as rank 0 in a fiber of worker 0, and beside it a rank that answers what is asked, and ends a
/// wait when the part is through.
fn beside_a_rank_that_answers(part: impl Fn(Arc<Comm>) + Copy + Send + Sync + 'static) {
    let (said, heard) = mpsc::channel();
    std::thread::spawn(move || {
        on_threads(2, |process| {
            let world = process.world();
            if world.rank() == 1 {
                receive(&world, 0, ASK);
                settle();
                send(&world, 0, ANSWER);
                receive(&world, 0, END);
                return;
            }
            let config = Config {
                workers: 2,
                ..Config::default()
            };
            let runtime = Runtime::new(config).unwrap();
            let fiber = Builder::new().worker(0).spawn_on(&runtime, {
                let world = world.clone();
                move || part(world)
            });
            fiber.unwrap().join().unwrap();
            send(&world, 1, END);
        });
        said.send(()).unwrap();
    });
    let heard = heard.recv_timeout(Duration::from_secs(60));
    heard.expect("the part has ended: otherwise it stands still");
}

/// A fiber of this worker, which waits in its call when this returns: it has let the caller run.
fn fiber_here(body: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    let begun = Arc::new(AtomicU32::new(0));
    let here = begun.clone();
    let fiber = Builder::new().worker(0).spawn(move || {
        begun.store(1, Ordering::Relaxed);
        body();
    });
    while here.load(Ordering::Relaxed) == 0 {
        weft_fiber::yield_now();
    }
    fiber.unwrap()
}

/// A fiber of this worker that drives until it is told to end.
fn driver(world: &Arc<Comm>) -> JoinHandle<()> {
    let world = world.clone();
    fiber_here(move || receive(&world, 0, END))
}

fn thread_that_asks(world: &Arc<Comm>) -> std::thread::JoinHandle<()> {
    let (world, begun) = (world.clone(), Arc::new(Barrier::new(2)));
    let here = begun.clone();
    let thread = std::thread::spawn(move || {
        begun.wait();
        receive(&world, 1, ANSWER);
    });
    here.wait();
    thread
}

#[test]
fn a_thread_gets_its_message_while_fibers_block_the_driver() {
    // The thread begins to wait before the worker is blocked, or after; while the driver drives, or rests.
    for late in [false, true] {
        beside_a_rank_that_answers(move |world| {
            let driver = driver(&world);
            let thread = thread_that_asks(&world);
            send(&world, 1, ASK);
            if late {
                settle();
            }
            weft_fiber::yield_now();
            thread.join().unwrap();
            send(&world, 0, END);
            driver.join().unwrap();
        });
    }
}

#[test]
fn a_thread_that_was_parked_is_called_when_the_driver_lets_others_run() {
    beside_a_rank_that_answers(|world| {
        let driver = driver(&world);
        let me = weft_fiber::current().unwrap();
        let asks = world.clone();
        let (said, heard) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let waits = thread_that_asks(&asks);
            // The driver is alone, and the other thread parked behind it.
            settle();
            said.send(waits).unwrap();
            me.signal();
        });
        let waits = loop {
            // Parked, so that nothing but the driver runs here.
            weft_fiber::park();
            if let Ok(waits) = heard.try_recv() {
                break waits;
            }
        };
        send(&world, 1, ASK);
        waits.join().unwrap();
        thread.join().unwrap();
        send(&world, 0, END);
        driver.join().unwrap();
    });
}

#[test]
fn a_fiber_of_another_worker_gets_its_message_while_fibers_block_the_driver() {
    beside_a_rank_that_answers(|world| {
        let driver = driver(&world);
        let (said, heard) = mpsc::channel();
        let other = world.clone();
        let waits = Builder::new().worker(1).spawn(move || {
            receive(&other, 1, ANSWER);
            said.send(()).unwrap();
        });
        settle();
        weft_fiber::yield_now();
        send(&world, 1, ASK);
        // Blocks the worker.
        heard.recv().unwrap();
        waits.unwrap().join().unwrap();
        send(&world, 0, END);
        driver.join().unwrap();
    });
}

/// The one that has waited longest is a fiber that cannot run: to hand progress to it alone is to stop it.
#[test]
fn a_driver_that_ends_and_computes_hands_over_to_a_thread_that_can_run() {
    beside_a_rank_that_answers(|world| {
        let here = world.clone();
        let (told, tell) = mpsc::channel::<std::thread::JoinHandle<()>>();
        let first = fiber_here(move || {
            receive(&here, 0, ASK);
            // It drove, has its message, and blocks the worker.
            tell.recv().unwrap().join().unwrap();
        });
        let second = driver(&world);
        let other = world.clone();
        let thread = std::thread::spawn(move || {
            let waits = thread_that_asks(&other);
            settle();
            told.send(waits).unwrap();
            send(&other, 1, ASK);
            send(&other, 0, ASK);
        });
        first.join().unwrap();
        thread.join().unwrap();
        send(&world, 0, END);
        second.join().unwrap();
    });
}

/// Two drivers of one worker, and one of another, that pass progress on all the time: each goes on where it
/// was, in the same stack.
#[test]
fn progress_is_passed_on_very_often() {
    beside_a_rank_that_answers(|world| {
        let drivers: Vec<_> = (0..6)
            .map(|number: usize| {
                let world = world.clone();
                let body = move || receive(&world, 0, 100 + number as i32);
                Builder::new()
                    .worker(number % 2)
                    .stack(32 * 1024)
                    .spawn(body)
            })
            .collect();
        let busy: Vec<_> = (0..2)
            .map(|worker| {
                let body = || {
                    for _ in 0..2_000 {
                        weft_fiber::yield_now();
                    }
                };
                Builder::new().worker(worker).spawn(body)
            })
            .collect();
        for one in busy {
            one.unwrap().join().unwrap();
        }
        for number in 0..6 {
            send(&world, 0, 100 + number);
        }
        for driver in drivers {
            driver.unwrap().join().unwrap();
        }
        send(&world, 1, ASK);
        receive(&world, 1, ANSWER);
    });
}
