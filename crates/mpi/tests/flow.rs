//! Flow control: a sender that floods waits instead of filling its receiver's memory, and no program that is right comes
//! to a standstill by that.

use std::sync::Arc;

use crate::common::{everywhere, over};
use weft_mpi::coll::{self, Members};
use weft_mpi::{Buffer, Comm, Process, RequestId, SendMode, Source, TagPattern, Target};

/// A window of thirty messages of eight bytes.
const WINDOW: u32 = 30 * 264;

/// What a receiver keeps of one sender at most.
const MOST: u64 = 4 * 30 + (WINDOW as u64 / 256) + 1;

/// So many are far more than that.
const COUNT: u64 = 3000;

fn with_small_windows(ranks: u32, rank: impl Fn(Arc<Process>) + Sync) {
    everywhere(ranks, |process| {
        process.set_credit_window(WINDOW);
        rank(process);
    });
}

fn barrier(comm: &Comm) {
    let barrier = coll::barrier(&Members::of(comm)).expect("members");
    comm.run(barrier).expect("nobody is lost");
}

fn number(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

fn send(comm: &Comm, mode: SendMode, to: u32, tag: i32, value: u64) {
    let mut bytes = number(value);
    comm.send(mode, over(&mut bytes), Target::Rank(to), tag)
        .expect("it is received");
}

fn receive(comm: &Comm, from: Source, tag: TagPattern) -> (i32, u64) {
    let mut bytes = [0; 8];
    let status = comm.recv(over(&mut bytes), from, tag).expect("it was sent");
    assert_eq!(status.bytes, 8);
    (status.tag, u64::from_le_bytes(bytes))
}

/// Starts a send of each of these bytes; the tag is the place.
fn isend_all(comm: &Comm, bytes: &mut [[u8; 8]], to: u32) -> Vec<RequestId> {
    let send = |(bytes, tag): (&mut [u8; 8], i32)| {
        comm.isend(SendMode::Standard, over(bytes), Target::Rank(to), tag)
            .expect("it only begins")
    };
    bytes.iter_mut().zip(0..).map(send).collect()
}

fn wait_all(process: &Process, requests: Vec<RequestId>) {
    for request in requests {
        process.wait(request).expect("it was received");
    }
}

fn numbers() -> Vec<[u8; 8]> {
    (0..COUNT).map(number).collect()
}

#[test]
fn a_rank_that_does_not_receive_keeps_a_bounded_number_of_messages() {
    with_small_windows(3, |process| {
        let world = process.world();
        match process.me().0 {
            0 => {
                for value in 0..COUNT {
                    let modes = [SendMode::Standard, SendMode::Ready, SendMode::Standard];
                    send(&world, modes[value as usize % 3], 1, 7, value);
                }
            }
            1 => {
                // It receives from another one, and looks for what nobody sends.
                for value in 0..COUNT / 3 {
                    assert_eq!(receive(&world, Source::Rank(2), TagPattern::Any).1, value);
                    send(&world, SendMode::Standard, 2, 1, value);
                    let none = world.iprobe(Source::Rank(0), TagPattern::Exact(8));
                    assert_eq!(none.expect("a probe"), None);
                }
                while process.counters().unexpected_now() < 60 {
                    let none = world.iprobe(Source::Rank(0), TagPattern::Exact(8));
                    assert_eq!(none.expect("a probe"), None);
                }
                for value in 0..COUNT {
                    let pattern = [TagPattern::Any, TagPattern::Exact(7)][value as usize % 2];
                    assert_eq!(receive(&world, Source::Rank(0), pattern), (7, value));
                }
                let most = process.counters().unexpected_most.get();
                assert!((60..=MOST + 4).contains(&most), "{most} were kept");
            }
            _ => {
                for value in 0..COUNT / 3 {
                    send(&world, SendMode::Standard, 1, 2, value);
                    receive(&world, Source::Rank(1), TagPattern::Exact(1));
                }
            }
        }
        barrier(&world);
    });
}

#[test]
fn sends_that_nobody_receives_yet_are_held_by_their_sender() {
    with_small_windows(3, |process| {
        let world = process.world();
        let other = world.dup().expect("all of them");
        match process.me().0 {
            0 => {
                let mut bytes = numbers();
                let requests = isend_all(&world, &mut bytes, 1);
                assert!(process.withheld() > 0);
                // What concerns another communicator, or another rank, is not held up.
                send(&other, SendMode::Synchronous, 1, 5, 77);
                send(&world, SendMode::Synchronous, 2, 5, 77);
                barrier(&world);
                wait_all(&process, requests);
                assert_eq!(process.withheld(), 0);
            }
            1 => {
                assert_eq!(receive(&other, Source::Any, TagPattern::Any), (5, 77));
                // Another one's message is waited for, beside those that are held back.
                assert_eq!(
                    receive(&world, Source::Any, TagPattern::Exact(1 << 20)).1,
                    9
                );
                barrier(&world);
                let most = process.counters().unexpected_most.get();
                assert!((60..=2 * MOST).contains(&most), "{most} were kept");
                for value in 0..COUNT {
                    let tag = i32::try_from(value).expect("it is small");
                    let patterns = [TagPattern::Any, TagPattern::Exact(tag)];
                    let pattern = patterns[value as usize % 2];
                    assert_eq!(receive(&world, Source::Any, pattern), (tag, value));
                }
                let most = process.counters().unexpected_most.get();
                assert!(most <= 2 * MOST, "{most} were kept");
            }
            _ => {
                assert_eq!(receive(&world, Source::Rank(0), TagPattern::Any), (5, 77));
                send(&world, SendMode::Standard, 1, 1 << 20, 9);
                barrier(&world);
            }
        }
        barrier(&world);
    });
}

#[test]
fn the_last_of_many_is_received_first_and_probed() {
    with_small_windows(2, |process| {
        let world = process.world();
        if process.me().0 == 0 {
            let mut bytes = numbers();
            let requests = isend_all(&world, &mut bytes, 1);
            wait_all(&process, requests);
        } else {
            let last = i32::try_from(COUNT).expect("it is small") - 1;
            let middle = last / 2;
            let probed = world.probe(Source::Rank(0), TagPattern::Exact(middle));
            assert_eq!(probed.expect("it is sent").tag, middle);
            while world
                .iprobe(Source::Any, TagPattern::Exact(middle + 300))
                .expect("a probe")
                .is_none()
            {}
            for tag in (0..=last).rev() {
                let got = receive(&world, Source::Any, TagPattern::Exact(tag));
                assert_eq!(got, (tag, tag as u64));
            }
        }
        barrier(&world);
    });
}

#[test]
fn receives_that_are_posted_before_what_is_held_back_match_in_order() {
    with_small_windows(2, |process| {
        let world = process.world();
        if process.me().0 == 0 {
            let mut bytes = numbers();
            let requests = isend_all(&world, &mut bytes, 1);
            wait_all(&process, requests);
        } else {
            // Every second one names its tag, the others take what is the oldest.
            let mut into = vec![[0; 8]; COUNT as usize];
            let last = i32::try_from(COUNT).expect("it is small") - 1;
            let requests: Vec<RequestId> = into
                .iter_mut()
                .zip(0..)
                .map(|(bytes, place)| {
                    let tag = match place % 2 {
                        0 => TagPattern::Exact(last - place / 2),
                        _ => TagPattern::Any,
                    };
                    let posted = world.irecv(over(bytes), Source::Rank(0), tag);
                    posted.expect("it only begins")
                })
                .collect();
            wait_all(&process, requests);
            for (place, bytes) in into.iter().enumerate() {
                let (place, value) = (place as u64, u64::from_le_bytes(*bytes));
                let expected = match place % 2 {
                    0 => COUNT - 1 - place / 2,
                    _ => place / 2,
                };
                assert_eq!(value, expected, "at {place}");
            }
        }
        barrier(&world);
    });
}

#[test]
fn a_rank_floods_itself_and_buffered_sends_end_at_once() {
    with_small_windows(1, |process| {
        let world = process.world();
        let mut bytes = numbers();
        let requests = isend_all(&world, &mut bytes, 0);
        process.attach_buffer(COUNT as usize * (8 + 128));
        for value in 0..COUNT {
            send(&world, SendMode::Buffered, 0, 1 << 20, value);
        }
        for value in 0..COUNT {
            let got = receive(&world, Source::Any, TagPattern::Exact(1 << 20));
            assert_eq!(got.1, value);
            assert_eq!(receive(&world, Source::Any, TagPattern::Any).1, value);
        }
        wait_all(&process, requests);
    });
}

#[test]
fn large_and_small_messages_keep_their_order() {
    with_small_windows(2, |process| {
        let world = process.world();
        let sizes = |place: usize| [8, 20_000, 0, 3000, 100_000][place % 5];
        if process.me().0 == 0 {
            let mut all: Vec<Vec<u8>> = (0..300)
                .map(|place| crate::common::pattern(sizes(place), place))
                .collect();
            let send = |bytes: &mut Vec<u8>| {
                let buffer: Buffer = over(bytes);
                let sent = world.isend(SendMode::Standard, buffer, Target::Rank(1), 3);
                sent.expect("it only begins")
            };
            let requests = all.iter_mut().map(send).collect();
            barrier(&world);
            wait_all(&process, requests);
        } else {
            barrier(&world);
            for place in 0..300 {
                let mut into = vec![0; sizes(place)];
                let got = world.recv(over(&mut into), Source::Rank(0), TagPattern::Exact(3));
                assert_eq!(got.expect("it was sent").bytes, sizes(place) as u64);
                assert!(
                    into == crate::common::pattern(sizes(place), place),
                    "at {place}"
                );
            }
        }
        barrier(&world);
    });
}
