//! Partitioned messages on every fabric.

use std::sync::Arc;

use crate::common::{everywhere, on_threads, over, pattern};
use weft_mpi::datatype::{Basic, Datatype};
use weft_mpi::{Buffer, ErrorClass, Process, RequestId, Target};

/// (partitions of the sender, partitions of the receiver, bytes of the message).
const SHAPES: [(u32, u32, usize); 9] = [
    (1, 1, 0),
    (3, 3, 0),
    (4, 4, 16),
    (6, 4, 24),
    (1, 5, 10_000),
    (5, 1, 10_000),
    (8, 2, 800_000),
    (300, 7, 2100),
    (2, 64, 3_200_000),
];

fn end(process: &Process, request: RequestId) -> weft_mpi::Status {
    process.wait(request).expect("it ends well")
}

#[test]
fn any_division_arrives_whole_whatever_becomes_ready_first() {
    everywhere(2, |process| {
        let world = process.world();
        for (tag, (sent, received, size)) in (0..).zip(SHAPES) {
            let peer = Target::Rank(1 - world.rank());
            let mut memory = vec![0; size];
            if world.rank() == 0 {
                let request = world
                    .psend_init(over(&mut memory), sent, peer, tag)
                    .unwrap();
                for round in 0..4 {
                    memory.copy_from_slice(&pattern(size, round + tag as usize));
                    process.start(request).unwrap();
                    match round {
                        0 => {
                            (0..sent).for_each(|one| process.ready(request, one..one + 1).unwrap())
                        }
                        1 => process.ready(request, 0..sent).unwrap(),
                        2 => (0..sent)
                            .rev()
                            .for_each(|one| process.ready(request, one..one + 1).unwrap()),
                        _ => {
                            let middle = sent / 2;
                            process.ready(request, middle..sent).unwrap();
                            if middle > 0 {
                                process.ready(request, 0..middle).unwrap();
                            }
                        }
                    }
                    end(&process, request);
                }
                process.free_request(request).unwrap();
            } else {
                let request = world
                    .precv_init(over(&mut memory), received, peer, tag)
                    .unwrap();
                for round in 0..4 {
                    memory.fill(0);
                    process.start(request).unwrap();
                    let status = end(&process, request);
                    assert_eq!(
                        (status.source, status.tag, status.bytes),
                        (Some(0), tag, size as u64)
                    );
                    assert_eq!(memory, pattern(size, round + tag as usize), "round {round}");
                    assert!(process.has_arrived(request, 0).unwrap(), "inactive");
                }
                process.free_request(request).unwrap();
            }
        }
    });
}

/// Each partition is there as soon as its bytes are, though others never become ready before it was seen.
#[test]
fn a_partition_is_there_before_the_others_are_ready() {
    on_threads(2, |process| {
        let world = process.world();
        for size in [0, 16, 400_000] {
            let peer = Target::Rank(1 - world.rank());
            let (mut there, mut back) = (vec![0; size], vec![0; size]);
            // Two of ours are one of theirs.
            let (send, receive) = if world.rank() == 0 { (4, 4) } else { (4, 2) };
            let outgoing = world.psend_init(over(&mut there), send, peer, 0).unwrap();
            let incoming = world.precv_init(over(&mut back), receive, peer, 0).unwrap();
            for _ in 0..3 {
                process.start(incoming).unwrap();
                process.start(outgoing).unwrap();
                let arrives = |partition| {
                    while !process.has_arrived(incoming, partition).unwrap() {
                        std::thread::yield_now();
                    }
                };
                if world.rank() == 0 {
                    assert!(!process.has_arrived(incoming, 0).unwrap());
                    process.ready(outgoing, 2..4).unwrap();
                    arrives(1);
                    assert!(!process.has_arrived(incoming, 0).unwrap());
                    process.ready(outgoing, 0..2).unwrap();
                    arrives(0);
                } else {
                    arrives(1);
                    assert!(!process.has_arrived(incoming, 0).unwrap());
                    process.ready(outgoing, 1..2).unwrap();
                    arrives(0);
                    process.ready(outgoing, 0..1).unwrap();
                    process.ready(outgoing, 2..4).unwrap();
                }
                end(&process, incoming);
                end(&process, outgoing);
            }
        }
    });
}

#[test]
fn sends_and_receives_match_in_the_order_of_their_initialisation() {
    everywhere(2, |process| {
        let world = process.world();
        let peer = Target::Rank(1 - world.rank());
        let mut memory = [[0; 4]; 3];
        let requests: Vec<RequestId> = memory
            .iter_mut()
            .map(|one| {
                if world.rank() == 0 {
                    world.psend_init(over(one), 2, peer, 5).unwrap()
                } else {
                    world.precv_init(over(one), 2, peer, 5).unwrap()
                }
            })
            .collect();
        // Freed before anything came, a receive still is the partner of the first send.
        process.free_request(requests[0]).unwrap();
        if world.rank() == 0 {
            memory[1] = [1; 4];
            memory[2] = [2; 4];
        }
        for &request in requests[1..].iter().rev() {
            process.start(request).unwrap();
            if world.rank() == 0 {
                process.ready(request, 0..2).unwrap();
            }
        }
        for &request in &requests[1..] {
            end(&process, request);
        }
        assert_eq!(memory[1..], [[1; 4], [2; 4]]);
    });
}

/// Elements with gaps, on either side.
#[test]
fn elements_with_gaps() {
    let bytes = Basic::Byte.datatype();
    let gaps = Datatype::vector(2, 1, 2, bytes).unwrap();
    let gaps = &Datatype::resized(0, 4, &gaps).unwrap();
    everywhere(2, |process| {
        let world = process.world();
        let peer = Target::Rank(1 - world.rank());
        let mut memory = vec![0_u8; 4 * 12];
        // SAFETY: the request is freed before the memory is.
        let buffer = |memory: &mut Vec<u8>| unsafe { Buffer::new(memory.as_mut_ptr(), 12, gaps) };
        if world.rank() == 0 {
            let request = world.psend_init(buffer(&mut memory), 6, peer, 0).unwrap();
            for (place, byte) in memory.iter_mut().enumerate() {
                *byte = place as u8;
            }
            process.start(request).unwrap();
            process.ready(request, 3..6).unwrap();
            process.ready(request, 0..3).unwrap();
            end(&process, request);
            process.free_request(request).unwrap();
        } else {
            let request = world.precv_init(buffer(&mut memory), 4, peer, 0).unwrap();
            process.start(request).unwrap();
            end(&process, request);
            process.free_request(request).unwrap();
            for (place, byte) in memory.iter().enumerate() {
                let is_gap = ![0, 2].contains(&(place % 4));
                assert_eq!(*byte, if is_gap { 0 } else { place as u8 });
            }
        }
    });
}

#[test]
fn threads_make_partitions_ready_at_once() {
    const THREADS: u32 = 8;
    const EACH: u32 = 25;
    on_threads(2, |process| {
        let world = process.world();
        let peer = Target::Rank(1 - world.rank());
        let count = THREADS * EACH;
        let mut memory = vec![0; count as usize * 40];
        let request = if world.rank() == 0 {
            world.psend_init(over(&mut memory), count, peer, 0).unwrap()
        } else {
            world
                .precv_init(over(&mut memory), THREADS, peer, 0)
                .unwrap()
        };
        for round in 0..10 {
            if world.rank() == 0 {
                memory.copy_from_slice(&pattern(count as usize * 40, round));
            }
            process.start(request).unwrap();
            std::thread::scope(|scope| {
                for thread in 0..THREADS {
                    let process: &Arc<Process> = &process;
                    let rank = world.rank();
                    scope.spawn(move || {
                        if rank == 1 {
                            while !process.has_arrived(request, thread).unwrap() {
                                std::thread::yield_now();
                            }
                            return;
                        }
                        for one in (0..EACH).rev() {
                            let partition = thread + one * THREADS;
                            process.ready(request, partition..partition + 1).unwrap();
                        }
                    });
                }
                end(&process, request);
            });
            if world.rank() == 1 {
                assert_eq!(memory, pattern(count as usize * 40, round));
            }
        }
    });
}

/// The data are there all the same. Sides may differ in their partitions and in what they count, if they mean the same elements.
#[test]
fn data_of_another_type_are_an_error() {
    everywhere(2, |process| {
        let world = process.world();
        let peer = Target::Rank(1 - world.rank());
        let pairs = Datatype::contiguous(2, Basic::Int.datatype()).unwrap();
        for (sent, received, fits) in [
            ((Basic::Int.datatype(), 4), (Basic::Int.datatype(), 4), true),
            ((Basic::Int.datatype(), 4), (&pairs, 2), true),
            (
                (Basic::Byte.datatype(), 16),
                (Basic::Int.datatype(), 4),
                true,
            ),
            (
                (Basic::Int.datatype(), 4),
                (Basic::Float.datatype(), 4),
                false,
            ),
            ((&pairs, 2), (Basic::Float.datatype(), 4), false),
        ] {
            let mut memory = vec![world.rank() as u8; 16];
            // SAFETY: the request is freed before the memory is.
            let buffer = |memory: &mut Vec<u8>, (datatype, count): (_, usize)| unsafe {
                Buffer::new(memory.as_mut_ptr(), count, datatype)
            };
            let sends = world.rank() == 1;
            let request = match sends {
                true => world.psend_init(buffer(&mut memory, sent), 2, peer, 0),
                false => world.precv_init(buffer(&mut memory, received), 1, peer, 0),
            };
            let request = request.unwrap();
            for _ in 0..2 {
                process.start(request).unwrap();
                if sends {
                    process.ready(request, 0..2).unwrap();
                }
                let outcome = process.wait(request);
                if sends || fits {
                    outcome.unwrap();
                } else {
                    let error = outcome.expect_err("numbers of another kind");
                    assert_eq!(error.class(), ErrorClass::Type, "{error}");
                    assert!(error.text().contains("MPI_FLOAT"), "{error}");
                }
                assert_eq!(memory, [1; 16]);
            }
            process.free_request(request).unwrap();
        }
    });
}

/// However the pieces travel: one by one, several in a message, each too long for a message.
#[test]
fn unlike_totals_are_an_error_at_the_receiver() {
    everywhere(2, |process| {
        let world = process.world();
        let peer = Target::Rank(1 - world.rank());
        for (sent, received) in [(100, 40), (40, 100), (4_000_000, 100), (100, 0), (0, 100)] {
            for one_by_one in [false, true] {
                let sends = world.rank() == 1;
                let mut memory = vec![7; if sends { sent } else { received }];
                let request = match sends {
                    true => world.psend_init(over(&mut memory), 4, peer, 0),
                    false => world.precv_init(over(&mut memory), 2, peer, 0),
                };
                let request = request.unwrap();
                for _ in 0..2 {
                    process.start(request).unwrap();
                    if sends && one_by_one {
                        for one in [2, 0, 3, 1] {
                            process.ready(request, one..one + 1).unwrap();
                        }
                    } else if sends {
                        process.ready(request, 0..4).unwrap();
                    }
                    let outcome = process.wait(request);
                    if sends {
                        outcome.unwrap();
                    } else {
                        let error = outcome.expect_err("another length");
                        assert_eq!(error.class(), ErrorClass::Truncate, "{error}");
                        assert!(error.text().contains(&format!("{sent} bytes")), "{error}");
                    }
                }
                process.free_request(request).unwrap();
            }
        }
    });
}

#[test]
fn mistakes_are_named() {
    everywhere(2, |process| {
        let world = process.world();
        let class = |outcome: weft_mpi::Result<()>| outcome.expect_err("a mistake").class();
        let peer = Target::Rank(1 - world.rank());
        let mut memory = vec![0; 12];
        if world.rank() == 0 {
            let request = world.psend_init(over(&mut memory), 3, peer, 0).unwrap();
            let plain = world
                .send_init(weft_mpi::SendMode::Standard, over(&mut []), peer, 1)
                .unwrap();
            assert_eq!(
                class(process.ready(request, 0..1)),
                ErrorClass::Request,
                "inactive"
            );
            assert_eq!(class(process.ready(plain, 0..1)), ErrorClass::Request);
            assert_eq!(
                class(process.has_arrived(request, 0).map(drop)),
                ErrorClass::Request
            );
            process.start(request).unwrap();
            assert_eq!(
                class(process.ready(request, 2..4)),
                ErrorClass::Arg,
                "beyond"
            );
            process.ready(request, 1..2).unwrap();
            assert_eq!(
                class(process.ready(request, 0..2)),
                ErrorClass::Arg,
                "twice"
            );
            assert_eq!(class(process.free_request(request)), ErrorClass::Request);
            assert_eq!(class(process.start(request)), ErrorClass::Request);
            process.ready(request, 0..1).unwrap();
            process.ready(request, 2..3).unwrap();
            end(&process, request);
        } else {
            // Another length than the sender's.
            let mut short = vec![0; 8];
            let request = world.precv_init(over(&mut short), 2, peer, 0).unwrap();
            assert_eq!(
                class(process.has_arrived(request, 2).map(drop)),
                ErrorClass::Arg
            );
            assert_eq!(class(process.ready(request, 0..1)), ErrorClass::Request);
            process.start(request).unwrap();
            let outcome = process.wait(request).map(drop);
            assert_eq!(class(outcome), ErrorClass::Truncate);
        }
    });
}

#[test]
fn nobody_is_a_peer_that_is_always_ready() {
    everywhere(1, |process| {
        let world = process.world();
        let mut memory = [0; 4];
        let send = world
            .psend_init(over(&mut memory), 4, Target::Null, 0)
            .unwrap();
        let receive = world
            .precv_init(over(&mut memory), 4, Target::Null, 0)
            .unwrap();
        for request in [send, receive] {
            process.start(request).unwrap();
        }
        process.ready(send, 0..4).unwrap();
        assert!(process.has_arrived(receive, 3).unwrap());
        end(&process, send);
        assert!(end(&process, receive).null);
    });
}
