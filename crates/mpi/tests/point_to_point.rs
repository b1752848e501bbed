//! Point-to-point on every fabric.

use crate::common::{everywhere, everywhere_and_with_few_grants, on_threads, over, pattern};
use weft_mpi::{ErrorClass, RequestId, SendMode, Source, Status, TagPattern, Target};

const SIZES: [usize; 12] = [
    0, 1, 8, 24, 25, 88, 89, 4096, 16384, 16385, 100_000, 3_000_000,
];

#[test]
fn every_mode_and_size_arrives_whole() {
    everywhere(2, |process| {
        let world = process.world();
        let peer = 1 - world.rank();
        for mode in [SendMode::Standard, SendMode::Synchronous, SendMode::Ready] {
            for (tag, size) in (0..).zip(SIZES) {
                let mut message = pattern(size, tag as usize);
                if world.rank() == 0 {
                    world
                        .send(mode, over(&mut message), Target::Rank(peer), tag)
                        .unwrap();
                } else {
                    let mut room = vec![0; size + 1];
                    let status = world
                        .recv(over(&mut room), Source::Any, TagPattern::Exact(tag))
                        .unwrap();
                    assert_eq!(
                        (status.source, status.tag, status.bytes),
                        (Some(0), tag, size as u64)
                    );
                    assert_eq!(room[..size], message);
                }
            }
        }
    });
}

#[test]
fn more_messages_than_credit_keep_their_order() {
    const MANY: usize = 5000;
    everywhere(2, |process| {
        let world = process.world();
        if world.rank() == 0 {
            let mut messages: Vec<_> = (0..MANY)
                .map(|number| pattern(number % 300, number))
                .collect();
            let requests: Vec<_> = messages
                .iter_mut()
                .map(|message| {
                    Some(
                        world
                            .isend(SendMode::Standard, over(message), Target::Rank(1), 3)
                            .unwrap(),
                    )
                })
                .collect();
            process
                .wait_all(&mut (&requests[..], &mut Vec::new()))
                .unwrap();
        } else {
            for number in 0..MANY {
                let mut room = [0; 300];
                let status = world
                    .recv(over(&mut room), Source::Rank(0), TagPattern::Any)
                    .unwrap();
                assert_eq!(room[..status.bytes as usize], pattern(number % 300, number));
            }
        }
    });
}

/// Many large messages wait for their receives, more than a fabric may have room for, and do not hold up one to
/// somebody else, on which the receives depend.
#[test]
fn more_large_messages_than_grants_hold_nobody_up() {
    const COUNT: usize = 200;
    const LENGTH: usize = 20_000;
    everywhere_and_with_few_grants(3, |process| {
        let world = process.world();
        let mut into = vec![0; LENGTH];
        match world.rank() {
            0 => {
                let mut messages: Vec<_> = (0..COUNT).map(|seed| pattern(LENGTH, seed)).collect();
                let requests: Vec<_> = messages
                    .iter_mut()
                    .map(|message| {
                        world.isend(SendMode::Standard, over(message), Target::Rank(1), 0)
                    })
                    .collect();
                world
                    .send(SendMode::Standard, over(&mut into), Target::Rank(2), 0)
                    .unwrap();
                for request in requests {
                    process.wait(request.unwrap()).unwrap();
                }
            }
            1 => {
                world
                    .recv(over(&mut []), Source::Rank(2), TagPattern::Any)
                    .unwrap();
                for seed in 0..COUNT {
                    world
                        .recv(over(&mut into), Source::Rank(0), TagPattern::Any)
                        .unwrap();
                    assert!(into == pattern(LENGTH, seed), "message {seed}");
                }
            }
            _ => {
                world
                    .recv(over(&mut into), Source::Rank(0), TagPattern::Any)
                    .unwrap();
                world
                    .send(SendMode::Standard, over(&mut []), Target::Rank(1), 0)
                    .unwrap();
            }
        }
    });
}

#[test]
fn both_ways_at_once_with_more_than_fits_anywhere() {
    everywhere(4, |process| {
        let world = process.world();
        let size = world.size() as usize;
        let mut out: Vec<_> = (0..size)
            .map(|to| pattern(200_000, world.rank() as usize * 8 + to))
            .collect();
        let mut into: Vec<_> = (0..size).map(|_| vec![0; 200_000]).collect();
        let mut requests = Vec::new();
        for (to, message) in (0..).zip(&mut out) {
            requests.push(Some(
                world
                    .isend(SendMode::Standard, over(message), Target::Rank(to), 1)
                    .unwrap(),
            ));
        }
        for (from, room) in (0..).zip(&mut into) {
            requests.push(Some(
                world
                    .irecv(over(room), Source::Rank(from), TagPattern::Exact(1))
                    .unwrap(),
            ));
        }
        process
            .wait_all(&mut (&requests[..], &mut Vec::new()))
            .unwrap();
        for (from, room) in into.iter().enumerate() {
            assert_eq!(*room, pattern(200_000, from * 8 + world.rank() as usize));
        }
        // Nobody leaves while another may still pull from it.
        process.drain();
    });
}

#[test]
fn truncation_keeps_what_fits_and_the_next_message() {
    everywhere(1, |process| {
        let itself = process.itself();
        for size in [100, 100_000] {
            let mut message = pattern(size, 1);
            let sent = itself
                .isend(SendMode::Standard, over(&mut message), Target::Rank(0), 1)
                .unwrap();
            let mut room = [0; 8];
            let error = itself
                .recv(over(&mut room), Source::Rank(0), TagPattern::Exact(1))
                .unwrap_err();
            assert_eq!(error.class(), ErrorClass::Truncate);
            assert_eq!(room, pattern(size, 1)[..8]);
            process.wait(sent).unwrap();
            itself
                .send(
                    SendMode::Standard,
                    over(&mut pattern(5, 2)),
                    Target::Rank(0),
                    1,
                )
                .unwrap();
            let status = itself
                .recv(over(&mut room), Source::Rank(0), TagPattern::Exact(1))
                .unwrap();
            assert_eq!((status.bytes, &room[..5]), (5, &pattern(5, 2)[..]));
        }
    });
}

#[test]
fn requests_are_taken_once() {
    everywhere(1, |process| {
        let itself = process.itself();
        let mut room = [0; 4];
        let request = itself
            .irecv(over(&mut room), Source::Any, TagPattern::Any)
            .unwrap();
        assert_eq!(process.test(request).unwrap(), None);
        process.cancel(request).unwrap();
        assert!(process.wait(request).unwrap().cancelled);
        assert_eq!(
            process.wait(request).unwrap_err().class(),
            ErrorClass::Request
        );
        let error = itself
            .send(SendMode::Standard, over(&mut room), Target::Rank(1), 0)
            .unwrap_err();
        assert_eq!(error.class(), ErrorClass::Rank);
        assert!(error.text().contains("no rank 1"), "{error}");
        let status = itself
            .recv(over(&mut room), Source::Null, TagPattern::Any)
            .unwrap();
        assert!(status.null && status.bytes == 0);
    });
}

#[test]
fn a_receive_from_nobody_has_ended_when_it_is_begun() {
    everywhere(2, |process| {
        let mut room = [0; 4];
        let nothing = RequestId::NOTHING_RECEIVED;
        let begun = process
            .world()
            .irecv(over(&mut room), Source::Null, TagPattern::Exact(1));
        assert_eq!(begun.unwrap(), nothing);
        assert!(process.wait(nothing).unwrap().null);
        assert!(process.test(nothing).unwrap().unwrap().null);
        assert!(process.peek(nothing).unwrap().unwrap().null);
        process.cancel(nothing).unwrap();
        process.free_request(nothing).unwrap();
        assert!(process.is_live(nothing) && process.context_of(nothing).is_none());
        let both = [Some(RequestId::DONE), Some(nothing)];
        let mut statuses = Vec::new();
        process.wait_all(&mut (&both[..], &mut statuses)).unwrap();
        assert_eq!(statuses, [Status::empty(), Status::null()]);
        let (place, status) = process.wait_any(&both[1..]).unwrap().unwrap();
        assert!(place == 0 && status.null);

        let named = process.name_apart(nothing).unwrap();
        assert!(!named.is_done() && process.name_apart(named).unwrap() == named);
        assert!(process.wait(named).unwrap().null);
        assert_eq!(
            process.wait(named).unwrap_err().class(),
            ErrorClass::Request
        );
        let named = process.name_apart(RequestId::DONE).unwrap();
        let status = process.wait(named).unwrap();
        assert!(!status.null && !status.message && status.bytes == 0);
    });
}

#[test]
fn persistent_requests_start_again() {
    everywhere(2, |process| {
        let world = process.world();
        let peer = 1 - world.rank();
        let (mut out, mut into) = ([0; 5000], [0; 5000]);
        let send = world
            .send_init(SendMode::Synchronous, over(&mut out), Target::Rank(peer), 9)
            .unwrap();
        let receive = world
            .recv_init(over(&mut into), Source::Any, TagPattern::Exact(9))
            .unwrap();
        for round in 0..40 {
            out.copy_from_slice(&pattern(5000, round));
            process.start(send).unwrap();
            process.start(receive).unwrap();
            assert_eq!(
                process.start(receive).unwrap_err().class(),
                ErrorClass::Request
            );
            process
                .wait_all(&mut (&[Some(send), Some(receive)][..], &mut Vec::new()))
                .unwrap();
            assert_eq!(into[..], pattern(5000, round));
        }
    });
}

/// Messages that end a posted receive in few steps, and others, by turns.
#[test]
fn a_persistent_receive_stays_whatever_ends_it() {
    const ROOM: usize = 8;
    const LENGTHS: [usize; 4] = [ROOM, 3, ROOM, 12];
    everywhere(2, |process| {
        let world = process.world();
        let (mut room, mut nothing) = ([0; ROOM], []);
        if world.rank() == 0 {
            for round in 0..24 {
                world
                    .recv(over(&mut nothing), Source::Rank(1), TagPattern::Exact(1))
                    .unwrap();
                let mode = match round % 5 {
                    4 => SendMode::Synchronous,
                    _ => SendMode::Standard,
                };
                let mut message = pattern(LENGTHS[round % 4], round);
                world
                    .send(mode, over(&mut message), Target::Rank(1), 2)
                    .unwrap();
            }
            return;
        }
        let receive = world
            .recv_init(over(&mut room), Source::Rank(0), TagPattern::Exact(2))
            .unwrap();
        for round in 0..24 {
            process.start(receive).unwrap();
            world
                .send(SendMode::Standard, over(&mut nothing), Target::Rank(0), 1)
                .unwrap();
            let ended = match round % 3 {
                0 => process.wait(receive),
                1 => process.wait_any(&[Some(receive)]).map(|end| end.unwrap().1),
                _ => loop {
                    if let Some(ended) = process.test(receive).transpose() {
                        break ended;
                    }
                },
            };
            let length = LENGTHS[round % 4];
            let status = match ended {
                Ok(status) => match status.error {
                    None => status,
                    Some(error) => {
                        assert_eq!((error.class(), length), (ErrorClass::Truncate, 12));
                        continue;
                    }
                },
                Err(error) => {
                    assert_eq!((error.class(), length), (ErrorClass::Truncate, 12));
                    continue;
                }
            };
            assert_eq!(
                (status.source, status.tag, status.bytes),
                (Some(0), 2, length as u64)
            );
            assert_eq!(room[..length], pattern(length, round));
            assert!(process.is_live(receive));
            assert_eq!(process.wait(receive).unwrap(), Status::empty());
        }
        process.free_request(receive).unwrap();
        assert!(!process.is_live(receive));
    });
}

#[test]
fn probes_see_and_take() {
    everywhere(2, |process| {
        let world = process.world();
        if world.rank() == 0 {
            for size in [10, 60_000] {
                world
                    .send(
                        SendMode::Standard,
                        over(&mut pattern(size, size)),
                        Target::Rank(1),
                        size as i32,
                    )
                    .unwrap();
            }
        } else {
            let status = world.probe(Source::Any, TagPattern::Exact(60_000)).unwrap();
            assert_eq!((status.source, status.bytes), (Some(0), 60_000));
            let (message, status) = world.mprobe(Source::Rank(0), TagPattern::Any).unwrap();
            assert_eq!(status.bytes, 10);
            let mut room = vec![0; 60_000];
            process.mrecv(message.unwrap(), over(&mut room)).unwrap();
            assert_eq!(room[..10], pattern(10, 10));
            world
                .recv(over(&mut room), Source::Rank(0), TagPattern::Any)
                .unwrap();
            assert_eq!(room, pattern(60_000, 60_000));
            assert_eq!(world.iprobe(Source::Any, TagPattern::Any).unwrap(), None);
        }
    });
}

#[test]
fn buffered_sends_end_at_once_and_are_bounded() {
    everywhere(2, |process| {
        let world = process.world();
        if world.rank() == 0 {
            let refused = world.send(SendMode::Buffered, over(&mut [1; 100]), Target::Rank(1), 0);
            assert_eq!(refused.unwrap_err().class(), ErrorClass::Buffer);
            process.attach_buffer(600_000);
            for seed in 0..5 {
                world
                    .send(
                        SendMode::Buffered,
                        over(&mut pattern(100_000, seed)),
                        Target::Rank(1),
                        0,
                    )
                    .unwrap();
            }
            process.detach_buffer();
        } else {
            for seed in 0..5 {
                let mut room = vec![0; 100_000];
                world
                    .recv(over(&mut room), Source::Rank(0), TagPattern::Exact(0))
                    .unwrap();
                assert_eq!(room, pattern(100_000, seed));
            }
        }
    });
}

#[test]
fn buffers_of_communicators_are_waited_for_apart() {
    everywhere(2, |process| {
        let world = process.world();
        let twin = world.dup().unwrap();
        let mut room = vec![0; 100_000];
        let from = Source::Rank(1 - world.rank());
        if world.rank() == 0 {
            process.attach_buffer(600_000);
            for (comm, seed) in [(&world, 1), (&twin, 2)] {
                let mut data = pattern(100_000, seed);
                comm.send(SendMode::Buffered, over(&mut data), Target::Rank(1), 0)
                    .unwrap();
            }
            // The other rank receives the first message only when it is told that the second has left.
            process.flush_buffer_of(|context| context == twin.context());
            world
                .send(SendMode::Standard, over(&mut [1]), Target::Rank(1), 1)
                .unwrap();
            process.detach_buffer();
        } else {
            twin.recv(over(&mut room), from, TagPattern::Any).unwrap();
            assert_eq!(room, pattern(100_000, 2));
            world
                .recv(over(&mut [0]), from, TagPattern::Exact(1))
                .unwrap();
            world
                .recv(over(&mut room), from, TagPattern::Exact(0))
                .unwrap();
            assert_eq!(room, pattern(100_000, 1));
        }
    });
}

#[test]
fn threads_of_a_rank_wait_side_by_side() {
    const THREADS: i32 = 8;
    on_threads(2, |process| {
        std::thread::scope(|scope| {
            for tag in 0..THREADS {
                let world = process.world();
                scope.spawn(move || {
                    let peer = 1 - world.rank();
                    for round in 0..200 {
                        let length = (round * 37) % 500;
                        let mut room = [0; 500];
                        let mut message = pattern(length, round + tag as usize);
                        if world.rank() == 0 {
                            world
                                .send(
                                    SendMode::Standard,
                                    over(&mut message),
                                    Target::Rank(peer),
                                    tag,
                                )
                                .unwrap();
                        }
                        let status = world
                            .recv(over(&mut room), Source::Rank(peer), TagPattern::Exact(tag))
                            .unwrap();
                        assert_eq!(room[..status.bytes as usize], message);
                        if world.rank() == 1 {
                            world
                                .send(
                                    SendMode::Standard,
                                    over(&mut message),
                                    Target::Rank(peer),
                                    tag,
                                )
                                .unwrap();
                        }
                    }
                });
            }
        });
    });
}

#[test]
fn a_pair_is_one_request() {
    everywhere(3, |process| {
        let world = process.world();
        let (rank, size) = (world.rank(), world.size());
        let (next, last) = ((rank + 1) % size, (rank + size - 1) % size);
        for bytes in SIZES {
            let mut message = pattern(bytes, rank as usize);
            let mut room = vec![0; bytes];
            let pair = world
                .isendrecv(
                    (over(&mut message), Target::Rank(next), 4),
                    (over(&mut room), Source::Any, TagPattern::Any),
                )
                .unwrap();
            let status = process.wait(pair).unwrap();
            assert_eq!(
                (status.source, status.tag, status.bytes),
                (Some(last), 4, bytes as u64)
            );
            assert_eq!(room, pattern(bytes, last as usize));
            let pair = world
                .isendrecv_replace(
                    over(&mut message),
                    (Target::Rank(next), 5),
                    (Source::Rank(last), TagPattern::Exact(5)),
                )
                .unwrap();
            assert_eq!(process.wait(pair).unwrap().source, Some(last));
            assert_eq!(message, pattern(bytes, last as usize));
        }
        // One side may be nobody.
        let mut byte = [7];
        let pair = world
            .isendrecv(
                (over(&mut []), Target::Null, 0),
                (over(&mut byte), Source::Null, TagPattern::Any),
            )
            .unwrap();
        let status = process.wait(pair).unwrap();
        assert!(status.null && status.bytes == 0);
        // A receive that is too short is the error of the pair.
        let mut long = pattern(100, 1);
        let pair = world
            .isendrecv(
                (over(&mut long), Target::Rank(next), 6),
                (over(&mut byte), Source::Rank(last), TagPattern::Exact(6)),
            )
            .unwrap();
        let error = process.wait(pair).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Truncate);
    });
}
