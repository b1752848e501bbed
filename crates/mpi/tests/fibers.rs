//! Very many fibers, each blocked in a call: nothing is lost, nothing comes twice.

use std::sync::Arc;

use crate::common::{everywhere, on_threads, over, pattern};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use weft_fabric_sim::{Config as Simulated, World};
use weft_fiber::{Builder, Config, Order, Runtime};
use weft_mpi::comm::Comm;
use weft_mpi::{Process, SendMode, Source, TagPattern, Target};

/// How a message is received, by its number.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    /// From rank 1, by its tag.
    Exact,
    /// From anybody, by its tag.
    AnySource,
    /// From rank 2, whatever the tag.
    AnyTag,
    /// On a communicator of its own, whatever comes.
    Anything,
}

fn kind(number: u32) -> Kind {
    match number % 4 {
        0 => Kind::Exact,
        1 => Kind::AnySource,
        2 => Kind::AnyTag,
        _ => Kind::Anything,
    }
}

/// Who sends it.
fn sender(number: u32) -> u32 {
    match kind(number) {
        Kind::Exact => 1,
        Kind::AnyTag => 2,
        // Not rank 2: who waits for any tag of it would take messages that others wait for by tag.
        Kind::AnySource => 1 + number / 4 % 2 * 2,
        Kind::Anything => 1 + number / 4 % 3,
    }
}

fn content(number: u32) -> Vec<u8> {
    let mut content = pattern(40, number as usize);
    content[..4].copy_from_slice(&number.to_le_bytes());
    content
}

/// What one fiber does: one blocking receive. The answer is the number that came.
fn receive(world: &Comm, other: &Comm, number: u32) -> u32 {
    let mut room = [0u8; 40];
    let tag = TagPattern::Exact(number as i32);
    let (comm, source, tag) = match kind(number) {
        Kind::Exact => (world, Source::Rank(1), tag),
        Kind::AnySource => (world, Source::Any, tag),
        Kind::AnyTag => (world, Source::Rank(2), TagPattern::Any),
        Kind::Anything => (other, Source::Any, TagPattern::Any),
    };
    let status = comm.recv(over(&mut room), source, tag).unwrap();
    let came = u32::from_le_bytes(room[..4].try_into().unwrap());
    assert_eq!(room[..], content(came), "the content is whole");
    assert_eq!(status.tag, came as i32);
    assert_eq!(status.source, Some(sender(came)));
    assert_eq!(kind(came), kind(number));
    if matches!(kind(number), Kind::Exact | Kind::AnySource) {
        assert_eq!(came, number);
    }
    came
}

/// Ranks 1 to 3 send in random order; rank 0 has a fiber for each message.
fn play(process: &Arc<Process>, fibers: u32, seed: u64, start: &dyn Fn(Part) -> Vec<u32>) {
    let world = process.world();
    let other = world.dup().unwrap();
    if world.rank() == 0 {
        let part = Part {
            world,
            other,
            fibers,
        };
        let mut came = start(part);
        came.sort_unstable();
        assert!(came.into_iter().eq(0..fibers), "each came exactly once");
    } else {
        let mut mine: Vec<_> = (0..fibers)
            .filter(|number| sender(*number) == world.rank())
            .collect();
        mine.shuffle(&mut StdRng::seed_from_u64(seed + u64::from(world.rank())));
        for number in mine {
            let comm = match kind(number) {
                Kind::Anything => &other,
                _ => &world,
            };
            let mut message = content(number);
            comm.send(
                SendMode::Standard,
                over(&mut message),
                Target::Rank(0),
                number as i32,
            )
            .unwrap();
        }
    }
}

struct Part {
    world: Arc<Comm>,
    other: Arc<Comm>,
    fibers: u32,
}

impl Part {
    /// Starts all fibers and joins them, in a fiber.
    fn run(self, workers: usize, order: &mut StdRng) -> Vec<u32> {
        let mut numbers: Vec<_> = (0..self.fibers).collect();
        numbers.shuffle(order);
        let fibers: Vec<_> = numbers
            .into_iter()
            .map(|number| {
                let (world, other) = (self.world.clone(), self.other.clone());
                Builder::new()
                    .worker(number as usize % workers)
                    .spawn(move || receive(&world, &other, number))
                    .unwrap()
            })
            .collect();
        fibers
            .into_iter()
            .map(|fiber| fiber.join().unwrap())
            .collect()
    }
}

#[test]
fn ten_thousand_fibers_on_two_workers_lose_nothing() {
    on_threads(4, |process| {
        play(&process, 10_000, 1, &|part| {
            let config = Config {
                workers: 2,
                ..Config::default()
            };
            let runtime = Runtime::new(config).unwrap();
            let all = runtime.spawn(move || part.run(2, &mut StdRng::seed_from_u64(7)));
            all.join().unwrap()
        });
    });
}

#[test]
fn ten_thousand_fibers_in_random_orders_under_the_simulation() {
    for seed in 0..3 {
        let world = World::new(Simulated::new(4, seed));
        let outcome = world.run(|endpoint| {
            let process = Process::new(Box::new(endpoint));
            play(&process, 10_000, seed, &|part| {
                let config = Config {
                    workers: 1,
                    order: Order::Seeded(seed),
                    ..Config::default()
                };
                Runtime::run(config, || part.run(1, &mut StdRng::seed_from_u64(seed))).unwrap()
            });
            process.drain();
        });
        if let Err(failure) = outcome {
            panic!("seed {seed}: {failure}");
        }
    }
}

#[test]
fn fibers_of_two_ranks_pass_messages_around() {
    everywhere(2, |process| {
        let world = process.world();
        let (me, peer) = (world.rank(), 1 - world.rank());
        let part = move || {
            let fibers: Vec<_> = (0..50)
                .map(|number| {
                    let world = world.clone();
                    weft_fiber::spawn(move || {
                        for round in 0..20 {
                            // Small and large: eager, and pulled by the receiver.
                            let size = if (number + round) % 5 == 0 {
                                70_000
                            } else {
                                100
                            };
                            let seed = (number * 100 + round) as usize;
                            let mut out = pattern(size, seed);
                            let mut into = vec![0; size];
                            let send = |out: &mut Vec<u8>| {
                                world
                                    .send(SendMode::Standard, over(out), Target::Rank(peer), number)
                                    .unwrap();
                            };
                            let receive = |into: &mut Vec<u8>| {
                                world
                                    .recv(over(into), Source::Rank(peer), TagPattern::Exact(number))
                                    .unwrap();
                            };
                            if me == 0 {
                                send(&mut out);
                                receive(&mut into);
                            } else {
                                receive(&mut into);
                                send(&mut out);
                            }
                            assert_eq!(into, pattern(size, seed));
                        }
                    })
                })
                .collect();
            for fiber in fibers {
                fiber.join().unwrap();
            }
        };
        let config = Config {
            workers: 1,
            ..Config::default()
        };
        Runtime::run(config, part).unwrap();
    });
}

/// So many threads of each rank play ping-pong with their likes, on one communicator and on their own.
fn threads_play(threads: i32, own: bool) {
    on_threads(2, |process| {
        let world = process.world();
        let comms: Vec<_> = (0..threads)
            .map(|_| match own {
                true => world.dup().unwrap(),
                false => world.clone(),
            })
            .collect();
        let rounds = 4000 / threads;
        std::thread::scope(|scope| {
            for (tag, comm) in (0..threads).zip(comms) {
                scope.spawn(move || {
                    let (me, peer) = (comm.rank(), 1 - comm.rank());
                    for round in 0..rounds {
                        let seed = (tag * 1000 + round) as usize;
                        let mut into = [0; 64];
                        let mut out = pattern(64, seed);
                        let send = |out: &mut Vec<u8>| {
                            comm.send(SendMode::Standard, over(out), Target::Rank(peer), tag)
                                .unwrap();
                        };
                        if me == 0 {
                            send(&mut out);
                        }
                        comm.recv(over(&mut into), Source::Rank(peer), TagPattern::Exact(tag))
                            .unwrap();
                        if me == 1 {
                            send(&mut out);
                        }
                        assert_eq!(into[..], pattern(64, seed));
                    }
                });
            }
        });
    });
}

#[test]
fn threads_of_one_communicator_get_their_own_messages() {
    for threads in [16, 64, 256] {
        threads_play(threads, false);
    }
}

#[test]
fn threads_of_communicators_of_their_own_get_their_messages() {
    for threads in [16, 64] {
        threads_play(threads, true);
    }
}

/// Runs a future on a loop over one descriptor, as an executor of one's own would.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let event = weft_sys::wake::EventWaker::new().unwrap();
    let waker = event.waker();
    let mut future = std::pin::pin!(future);
    loop {
        let polled = future
            .as_mut()
            .poll(&mut std::task::Context::from_waker(&waker));
        if let std::task::Poll::Ready(answer) = polled {
            return answer;
        }
        let interest = weft_sys::poll::Interest::Read;
        let mut entries = [weft_sys::poll::PollFd::new(&*event, interest)];
        weft_sys::poll::wait(&mut entries, None).unwrap();
        assert!(event.clear(), "it ends by a wake-up");
    }
}

#[test]
fn requests_are_awaited_through_a_descriptor() {
    on_threads(2, |process| {
        let world = process.world();
        let peer = Target::Rank(1 - world.rank());
        for round in 0..50 {
            let mut into = [vec![0; 100], vec![0; 60_000]];
            let mut out = [pattern(100, round), pattern(60_000, round)];
            let receives: Vec<_> = (0..)
                .zip(&mut into)
                .map(|(tag, into)| {
                    let id = world
                        .irecv(over(into), Source::Any, TagPattern::Exact(tag))
                        .unwrap();
                    process.completion(id)
                })
                .collect();
            let sends: Vec<_> = (0..)
                .zip(&mut out)
                .map(|(tag, out)| {
                    let id = world
                        .isend(SendMode::Standard, over(out), peer, tag)
                        .unwrap();
                    process.completion(id)
                })
                .collect();
            block_on(async {
                for (receive, size) in receives.into_iter().zip([100, 60_000]) {
                    assert_eq!(receive.await.unwrap().bytes, size);
                }
                for send in sends {
                    send.await.unwrap();
                }
            });
            assert_eq!(into, [pattern(100, round), pattern(60_000, round)]);
        }
        // A future that is dropped lets the operation go on.
        let mut late = [0; 4];
        let id = world
            .irecv(over(&mut late), Source::Any, TagPattern::Exact(9))
            .unwrap();
        drop(process.completion(id));
        world
            .send(SendMode::Standard, over(&mut [5; 4]), peer, 9)
            .unwrap();
        world
            .sendrecv(
                (over(&mut [0; 1]), peer, 10),
                (over(&mut [0; 1]), Source::Any, TagPattern::Exact(10)),
            )
            .unwrap();
        assert_eq!(late, [5; 4]);
    });
}
