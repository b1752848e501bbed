//! Calls that end at once, beside and in place of those that may wait, on every fabric.

use std::sync::{Arc, Mutex};

use crate::common::{bytes, everywhere, on_threads, over, pattern};
use weft_fabric::Region;
use weft_mpi::datatype::{Datatype, SignatureCode};
use weft_mpi::events::{Event, EventKind, Listener};
use weft_mpi::p2p::{Listed, Received};
use weft_mpi::{
    Buffer, Comm, ErrorClass, Message, RequestId, SendMode, Source, TagPattern, Target,
};

/// The bytes of a slice that the test keeps alive until the operation has ended.
fn region(bytes: &mut [u8]) -> (Region, SignatureCode) {
    match over(bytes) {
        weft_mpi::Buffer::Flat(region, signature) => (region, signature),
        weft_mpi::Buffer::Typed(_) => unreachable!("bytes lie together"),
    }
}

/// Nothing is at once for the first who comes: the engine is nobody's yet.
fn come_first(world: &Comm) {
    world.iprobe(Source::Any, TagPattern::Any).unwrap();
}

/// A send as a program makes it.
fn send(world: &Comm, bytes: &mut [u8], to: u32, tag: i32) {
    if !world.send_short_at_once(region(bytes), to, tag)
        && !world.send_at_once(region(bytes), to, tag)
    {
        world
            .send(SendMode::Standard, over(bytes), Target::Rank(to), tag)
            .unwrap();
    }
}

/// A receive that ends at once, as the entry point of a program makes it.
fn receive_at_once(
    world: &Comm,
    room: &mut [u8],
    from: Source,
    tag: TagPattern,
) -> Option<Received> {
    match (from, tag) {
        (Source::Rank(rank), TagPattern::Exact(tag)) => {
            let bytes = world.recv_at_once(region(room), rank, tag)?;
            Some(Received {
                source: rank,
                tag,
                bytes,
            })
        }
        _ => world.recv_any_at_once(region(room), from, tag),
    }
}

/// A receive as a program makes it: source, tag and bytes.
fn receive(world: &Comm, room: &mut [u8], from: Source, tag: TagPattern) -> (u32, i32, u64) {
    if let Some(received) = receive_at_once(world, room, from, tag) {
        return (received.source, received.tag, received.bytes);
    }
    let status = world.recv(over(room), from, tag).unwrap();
    (status.source.unwrap(), status.tag, status.bytes)
}

#[test]
fn messages_at_once_keep_their_order_among_others() {
    const MANY: usize = 3000;
    everywhere(2, |process| {
        let world = process.world();
        let peer = 1 - world.rank();
        let length = |number: usize| {
            if number.is_multiple_of(50) {
                20_000
            } else {
                number % 200
            }
        };
        if world.rank() == 0 {
            for number in 0..MANY {
                let mut message = pattern(length(number), number);
                send(&world, &mut message, peer, (number % 2) as i32);
            }
        } else {
            // Of each tag by turns of three: what comes in between waits, some of it behind posted receives.
            let mut next = [0, 1];
            let mut posted: Vec<(RequestId, Vec<u8>, usize)> = Vec::new();
            for step in 0..MANY {
                let tag = step / 3 % 2;
                let tag = if next[tag] < MANY { tag } else { 1 - tag };
                let number = next[tag];
                next[tag] += 2;
                let mut room = vec![0; length(number)];
                if step % 7 == 3 {
                    let (source, pattern) = (Source::Any, TagPattern::Exact(tag as i32));
                    let into = region(&mut room);
                    let request = match world.irecv_at_once(into, source, pattern) {
                        Some(request) => request,
                        None => world.irecv(over(&mut room), source, pattern).unwrap(),
                    };
                    posted.push((request, room, number));
                } else {
                    let of = if step.is_multiple_of(2) {
                        Source::Any
                    } else {
                        Source::Rank(0)
                    };
                    let got = receive(&world, &mut room, of, TagPattern::Exact(tag as i32));
                    assert_eq!(got, (0, tag as i32, length(number) as u64));
                    assert_eq!(room, pattern(length(number), number));
                }
                if posted.len() == 4 {
                    for (request, room, number) in posted.drain(..) {
                        let plain = process.wait_for_plain_at_once(request);
                        match plain.or_else(|| process.wait_at_once(request)) {
                            Some(received) => assert_eq!(received.bytes, room.len() as u64),
                            None => drop(process.wait(request).unwrap()),
                        }
                        assert!(!process.is_live(request));
                        assert_eq!(room, pattern(length(number), number));
                    }
                }
            }
            for (request, room, number) in posted {
                process.wait(request).unwrap();
                assert_eq!(room, pattern(length(number), number));
            }
            assert_eq!(process.counters().received(), MANY as u64);
            assert_eq!(process.counters().posted_now(), 0);
            assert_eq!(process.counters().unexpected_now(), 0);
        }
    });
}

/// The posted receive is older, and gets the first of two messages that both match.
/// Pairs of bytes, and as much room behind each.
fn with_gaps(memory: &mut [u8], pairs: usize) -> Buffer {
    let datatype = Datatype::vector(pairs as i64, 2, 4, &bytes()).unwrap();
    assert!(pairs * 4 <= memory.len());
    // SAFETY: the memory covers all pairs, and the test keeps it alive until the operation has ended.
    unsafe { Buffer::new(memory.as_mut_ptr(), 1, &datatype) }
}

/// Where byte `at` of the data is.
fn place(at: usize) -> usize {
    at / 2 * 4 + at % 2
}

#[test]
fn elements_with_gaps_go_at_once_as_they_always_do() {
    const MANY: usize = 600;
    const MOST: usize = 10_000;
    everywhere(2, |process| {
        let world = process.world();
        come_first(&world);
        let pairs = |number: usize| match number % 40 {
            0 => MOST,
            1 => 0,
            _ => number % 300,
        };
        let mut memory = vec![0; MOST * 4];
        for number in 0..MANY {
            let (pairs, tag) = (pairs(number), (number % 3) as i32);
            if world.rank() == 0 {
                let data = pattern(pairs * 2, number);
                for (at, byte) in data.iter().enumerate() {
                    memory[place(at)] = *byte;
                }
                let elements = with_gaps(&mut memory, pairs);
                if number % 5 == 0 || !world.send_elements_at_once(elements.lend(), 1, tag) {
                    let to = Target::Rank(1);
                    world.send(SendMode::Standard, elements, to, tag).unwrap();
                }
                continue;
            }
            memory.fill(0xee);
            // There may be room for more.
            let room = (pairs + number % 2).min(MOST);
            let elements = with_gaps(&mut memory, room);
            let from = match number % 4 {
                0 => Source::Any,
                _ => Source::Rank(0),
            };
            let expected = TagPattern::Exact(tag);
            let at_once = match number % 7 {
                0 => None,
                _ => world.recv_elements_at_once(elements.lend(), from, expected),
            };
            let got = match at_once {
                Some(received) => (received.source, received.tag, received.bytes),
                None => {
                    let status = world.recv(elements, from, expected).unwrap();
                    (status.source.unwrap(), status.tag, status.bytes)
                }
            };
            assert_eq!(got, (0, tag, pairs as u64 * 2));
            let data = pattern(pairs * 2, number);
            for (at, byte) in memory.iter().enumerate() {
                let of = at / 4 * 2 + at % 4;
                let expected = match at % 4 {
                    0 | 1 if of < data.len() => data[of],
                    _ => 0xee,
                };
                assert_eq!(*byte, expected, "byte {at} of message {number}");
            }
        }
    });
}

#[test]
fn what_elements_cannot_take_is_left_to_the_whole_call() {
    on_threads(2, |process| {
        let world = process.world();
        come_first(&world);
        let mut memory = vec![7; 64];
        if world.rank() == 0 {
            let elements = with_gaps(&mut memory, 8);
            for to in [2, u32::MAX] {
                assert!(
                    !world.send_elements_at_once(elements.lend(), to, 0),
                    "no such rank"
                );
            }
            for tag in [0, 1] {
                world
                    .send(SendMode::Standard, elements.clone(), Target::Rank(1), tag)
                    .unwrap();
            }
            return;
        }
        memory.fill(0xee);
        // The first is too long, whether it waits here or not; what was tried has no effect.
        let (from, short) = (Source::Rank(0), with_gaps(&mut memory, 7));
        for _ in 0..3 {
            world.probe(from, TagPattern::Exact(1)).unwrap();
            assert!(
                world
                    .recv_elements_at_once(short.lend(), from, TagPattern::Exact(0))
                    .is_none()
            );
            assert!(
                world
                    .recv_elements_at_once(short.lend(), Source::Any, TagPattern::Any)
                    .is_none()
            );
            assert!(memory.iter().all(|byte| *byte == 0xee));
        }
        let error = world.recv(short, from, TagPattern::Exact(0)).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Truncate);
        let whole = with_gaps(&mut memory, 8);
        let received = world.recv_elements_at_once(whole.lend(), Source::Any, TagPattern::Any);
        let received = received.map(|received| (received.source, received.tag, received.bytes));
        assert_eq!(received, Some((0, 1, 16)), "it waited here");
    });
}

#[test]
fn a_receive_that_looks_is_younger_than_those_posted() {
    everywhere(1, |process| {
        let world = process.world();
        let (mut older, mut younger) = ([0], [0]);
        come_first(&world);
        let posted = world
            .irecv_at_once(region(&mut older), Source::Any, TagPattern::Any)
            .expect("nothing is in the way");
        for number in [1, 2] {
            send(&world, &mut [number], 0, 5);
        }
        let got = receive(&world, &mut younger, Source::Rank(0), TagPattern::Exact(5));
        assert_eq!(got, (0, 5, 1));
        process.wait(posted).unwrap();
        assert_eq!((older, younger), ([1], [2]));
    });
}

#[test]
fn what_is_not_usual_has_no_effect() {
    everywhere(2, |process| {
        let world = process.world();
        let mut room = [0; 8];
        if world.rank() == 0 {
            assert!(!world.send_at_once(region(&mut room), 2, 0), "no such rank");
            assert!(!world.send_short_at_once(region(&mut room), 2, 0));
            let mut long = vec![0; 1 << 20];
            assert!(!world.send_short_at_once(region(&mut long), 1, 0));
            assert!(
                !world.send_at_once(region(&mut long), 1, 0),
                "it does not go at once"
            );
            assert_eq!(process.counters().eager().messages.get(), 0);
            for mode in [SendMode::Synchronous, SendMode::Standard] {
                let mut message = pattern(16, 1);
                world
                    .send(mode, over(&mut message), Target::Rank(1), 7)
                    .unwrap();
            }
            return;
        }
        let (from, tag) = (Source::Rank(0), TagPattern::Exact(7));
        for nobody in [Source::Rank(2), Source::Null] {
            assert!(receive_at_once(&world, &mut room, nobody, tag).is_none());
        }
        // A synchronous message, and then one that does not fit: for the call that can answer, and that can say so.
        let mut large = [0; 16];
        while world.iprobe(from, tag).unwrap().is_none() {}
        assert!(receive_at_once(&world, &mut large, from, tag).is_none());
        world.recv(over(&mut large), from, tag).unwrap();
        while world.iprobe_finds_nothing() {
            std::thread::yield_now();
        }
        assert!(receive_at_once(&world, &mut room, from, tag).is_none());
        assert!(world.recv(over(&mut room), from, tag).is_err(), "it is cut");
        assert_eq!(process.counters().received(), 2);
    });
}

/// A matched probe as a program makes it.
fn probe(world: &Comm, from: Source, tag: TagPattern) -> (Message, (u32, i32, u64)) {
    if let Some((message, found)) = world.mprobe_at_once(from, tag) {
        return (message, (found.source, found.tag, found.bytes));
    }
    let (message, status) = world.mprobe(from, tag).unwrap();
    let found = (status.source.unwrap(), status.tag, status.bytes);
    (message.expect("it has a sender"), found)
}

#[test]
fn probed_messages_are_received_at_once_if_only_their_data_are_to_be_copied() {
    everywhere(2, |process| {
        let world = process.world();
        come_first(&world);
        if world.rank() == 0 {
            for (number, mode) in [
                SendMode::Standard,
                SendMode::Standard,
                SendMode::Synchronous,
                SendMode::Standard,
            ]
            .into_iter()
            .enumerate()
            {
                let mut message = pattern(16, number);
                let tag = number as i32;
                world
                    .send(mode, over(&mut message), Target::Rank(1), tag)
                    .unwrap();
            }
            return;
        }
        let (any, all) = (Source::Any, TagPattern::Any);
        for nobody in [Source::Rank(2), Source::Null] {
            assert!(world.mprobe_at_once(nobody, all).is_none());
        }
        let mut room = [0; 16];
        // The second one first, and nobody else gets it then.
        let second = probe(&world, Source::Rank(0), TagPattern::Exact(1));
        let first = probe(&world, any, all);
        for (number, (mut message, found)) in [(1, second), (0, first)] {
            assert_eq!(found, (0, number, 16));
            let received = match process.mrecv_at_once(&mut message, region(&mut room)) {
                Some(received) => (received.source, received.tag, received.bytes),
                // Somebody else may have the engine.
                None => {
                    let status = process.mrecv(message, over(&mut room)).unwrap();
                    (status.source.unwrap(), status.tag, status.bytes)
                }
            };
            assert_eq!(received, found);
            assert_eq!(room[..], pattern(16, number as usize));
        }
        // Whose sender waits for an answer, and what does not fit: for the call that can answer, and that can say so.
        let (mut message, _) = probe(&world, any, all);
        assert!(
            process
                .mrecv_at_once(&mut message, region(&mut room))
                .is_none()
        );
        process.mrecv(message, over(&mut room)).unwrap();
        assert_eq!(room[..], pattern(16, 2));
        let (mut message, _) = probe(&world, any, all);
        assert!(
            process
                .mrecv_at_once(&mut message, region(&mut room[..8]))
                .is_none()
        );
        assert!(
            process.mrecv(message, over(&mut room[..8])).is_err(),
            "it is cut"
        );
        assert_eq!(process.counters().received(), 4);
        assert!(world.iprobe(any, all).unwrap().is_none());
    });
}

#[test]
fn tests_find_receives_that_have_ended_and_no_others() {
    everywhere(2, |process| {
        let world = process.world();
        let mut room = [0; 8];
        come_first(&world);
        if world.rank() == 0 {
            world
                .recv(over(&mut room), Source::Any, TagPattern::Any)
                .unwrap();
            return send(&world, &mut [3; 8], 1, 4);
        }
        let request = world
            .irecv_at_once(region(&mut room), Source::Any, TagPattern::Any)
            .expect("nothing is in the way");
        assert_eq!(process.test_at_once(request), Some(None));
        send(&world, &mut [1], 0, 0);
        let received = loop {
            match process.test_at_once(request) {
                Some(Some(received)) => break received,
                Some(None) => std::thread::yield_now(),
                // Asked by somebody who sleeps, in a simulation.
                None => assert!(process.test(request).unwrap().is_none()),
            }
        };
        assert_eq!((received.source, received.tag, received.bytes), (0, 4, 8));
        assert_eq!(room, [3; 8]);
        assert!(!process.is_live(request));
        assert_eq!(process.test_at_once(request), None, "it is stale");
        assert_eq!(process.wait_for_plain_at_once(request), None);
        assert_eq!(process.wait_at_once(request), None);
    });
}

/// It has a request, by which it says what it has received.
#[test]
fn a_receive_of_a_message_that_waits_has_ended_when_it_is_begun() {
    everywhere(2, |process| {
        let world = process.world();
        come_first(&world);
        // The ranks of the other communicator are those of the world in reverse order.
        let key = -world.rank().cast_signed();
        let reversed = world.split(Some(0), key).unwrap().unwrap();
        if world.rank() == 0 {
            send(&world, &mut [1; 8], 1, 4);
            send(&world, &mut [2; 16], 1, 5);
            send(&reversed, &mut [3; 8], 0, 6);
            send(&world, &mut [4; 4], 1, 7);
            return;
        }
        let mut room = [0; 8];
        let (any, exact) = (TagPattern::Any, TagPattern::Exact);
        receive(&world, &mut room, Source::Rank(0), exact(7));
        assert_eq!(process.counters().unexpected_now(), 3);
        assert!(
            world
                .irecv_at_once(region(&mut room), Source::Any, exact(5))
                .is_none(),
            "it does not fit"
        );
        let first = world
            .irecv_at_once(region(&mut room), Source::Any, exact(4))
            .expect("its message is here");
        assert_eq!(room, [1; 8]);
        assert_eq!(process.counters().unexpected_now(), 2);
        assert_eq!(process.counters().posted_now(), 0);
        let later = world
            .irecv_at_once(region(&mut [0; 8]), Source::Rank(0), exact(9))
            .expect("no message is for it");
        assert_eq!(process.counters().posted_now(), 1);
        assert!(process.cancel(later).is_ok());
        process.wait(later).unwrap();
        let received = process.wait_for_plain_at_once(first).unwrap();
        assert_eq!((received.source, received.tag, received.bytes), (0, 4, 8));
        assert!(!process.is_live(first));
        let second = reversed
            .irecv_at_once(region(&mut room), Source::Any, any)
            .expect("its message is here");
        let received = process.wait_at_once(second).unwrap();
        assert_eq!((received.source, received.tag, received.bytes), (1, 6, 8));
        assert_eq!(room, [3; 8]);
        let error = world.recv(over(&mut room), Source::Any, any).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Truncate);
    });
}

/// Short ones, long ones, and those that do not leave at once; beside a receive that is started likewise.
#[test]
fn persistent_messages_start_and_end_at_once_and_say_the_same() {
    everywhere(2, |process| {
        let world = process.world();
        come_first(&world);
        for (length, rounds) in [(8, 40), (512, 10), (1 << 20, 3)] {
            let (mut one, mut rooms) = (pattern(length, 3), vec![0; length]);
            let request = match world.rank() {
                0 => world.send_init(SendMode::Standard, over(&mut one), Target::Rank(1), 4),
                _ => world.recv_init(over(&mut rooms), Source::Rank(0), TagPattern::Exact(4)),
            }
            .unwrap();
            for _ in 0..rounds {
                if !process.start_at_once(request) {
                    process.start(request).unwrap();
                }
                assert!(!process.start_at_once(request), "it is under way");
                let status = process.wait_for_repeated_at_once(request);
                let received = status.unwrap_or_else(|| {
                    let status = process.wait(request).unwrap();
                    status.source.map(|source| Received {
                        source,
                        tag: status.tag,
                        bytes: status.bytes,
                    })
                });
                assert_eq!(process.wait_for_repeated_at_once(request), None);
                let expected = (world.rank() == 1).then_some((0, 4, length as u64));
                let received = received.map(|it| (it.source, it.tag, it.bytes));
                assert_eq!(received, expected);
                world.run(weft_mpi::coll::Collective::Barrier).unwrap();
            }
            process.free_request(request).unwrap();
            let expected = match world.rank() {
                0 => vec![0; length],
                _ => one,
            };
            assert_eq!(rooms, expected);
        }
    });
}

/// A list of requests as a program has it.
fn listed(list: &[Option<RequestId>]) -> impl Iterator<Item = Listed> {
    list.iter().map(|request| match *request {
        None => Listed::Nothing,
        Some(RequestId::DONE) => Listed::Done,
        Some(request) => Listed::Request(request),
    })
}

#[test]
fn one_request_of_a_list_ends_at_once_and_the_others_stay() {
    const MOST: usize = 6;
    everywhere(2, |process| {
        let world = process.world();
        come_first(&world);
        let mut rooms = [[0; 8]; MOST];
        let (any, all) = (Source::Any, TagPattern::Any);
        if world.rank() == 0 {
            world.recv(over(&mut rooms[0]), any, all).unwrap();
            for tag in [4, 1, 0, 2, 3] {
                send(&world, &mut [tag as u8; 8], 1, tag);
            }
            return;
        }
        let mut list = [None; MOST];
        assert!(
            process
                .wait_any_at_once(RequestId::DONE, || listed(&list))
                .is_none(),
            "nothing is under way"
        );
        for (place, room) in rooms[..5].iter_mut().enumerate() {
            let tag = TagPattern::Exact(place as i32);
            let request = world.irecv(over(room), Source::Rank(0), tag);
            list[place] = Some(request.expect("there is room"));
        }
        let first = list[0].expect("it was begun");
        if let Some(tested) = process.test_any_at_once(first, || listed(&list)) {
            assert!(tested.is_none(), "nothing has come");
        }
        list[5] = Some(RequestId::DONE);
        let ended = process.wait_any_at_once(first, || listed(&list));
        assert_eq!(ended, Some((5, None)), "the others are under way");
        list[5] = None;
        send(&world, &mut [1], 0, 0);
        let mut seen = [false; 5];
        for turn in 0..5 {
            let first = list.iter().flatten().next().copied();
            let first = first.expect("one is under way");
            let at_once = match turn {
                0 | 1 => process.test_any_at_once(first, || listed(&list)).flatten(),
                _ => process.wait_any_at_once(first, || listed(&list)),
            };
            let (place, tag) = match at_once {
                Some((place, received)) => {
                    let received = received.expect("it is a receive");
                    assert_eq!((received.source, received.bytes), (0, 8));
                    (place, received.tag)
                }
                None => {
                    let (place, status) = process.wait_any(&list).unwrap().expect("some are");
                    (place, status.tag)
                }
            };
            assert_eq!(place as i32, tag);
            let request = list[place].take().expect("it was there");
            assert!(!process.is_live(request));
            assert!(!std::mem::replace(&mut seen[place], true));
            assert!(list.iter().flatten().all(|other| process.is_live(*other)));
        }
        for (tag, room) in rooms[..5].iter().enumerate() {
            assert_eq!(*room, [tag as u8; 8]);
        }
        // What ends otherwise is for the call that can say so.
        let mut room = [0];
        let persistent = world.recv_init(over(&mut room), any, all).unwrap();
        for other in [Listed::Other, Listed::Request(persistent)] {
            let list = || [Listed::Nothing, other].into_iter();
            assert!(process.wait_any_at_once(persistent, list).is_none());
            assert!(process.test_any_at_once(persistent, list).is_none());
        }
        process.free_request(persistent).unwrap();
        assert!(
            process
                .test_any_at_once(first, || [Listed::Request(first)].into_iter())
                .is_none(),
            "stale"
        );
    });
}

/// Keeps what it hears.
#[derive(Default)]
struct Heard(Mutex<Vec<EventKind>>);

impl Listener for Heard {
    fn now(&self) -> u64 {
        0
    }

    fn event(&self, event: &Event) {
        self.0.lock().unwrap().push(event.kind);
    }

    fn dropped(&self, _kinds: u32, _count: u64) {}
}

#[test]
fn a_listener_hears_of_every_receive() {
    everywhere(1, |process| {
        let world = process.world();
        let heard = Arc::new(Heard::default());
        let kinds = EventKind::MatchedPosted.bit() | EventKind::MatchedUnexpected.bit();
        process.listen(kinds, heard.clone(), 64);
        let mut room = [0];
        for _ in 0..2 {
            send(&world, &mut [9], 0, 1);
            receive(&world, &mut room, Source::Any, TagPattern::Any);
        }
        assert_eq!(heard.0.lock().unwrap().len(), 2);
    });
}

/// Several threads use the engine: the bias is over, and calls end at once or wait, all the same.
#[test]
fn threads_take_turns() {
    const EACH: u32 = 400;
    on_threads(2, |process| {
        let world = process.world();
        let peer = 1 - world.rank();
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let world = &world;
                scope.spawn(move || {
                    for number in 0..EACH {
                        let mut message = number.to_le_bytes();
                        send(world, &mut message, peer, thread);
                        let mut room = [0; 4];
                        let tag = TagPattern::Exact(thread);
                        receive(world, &mut room, Source::Rank(peer), tag);
                        assert_eq!(u32::from_le_bytes(room), number);
                    }
                });
            }
        });
        assert_eq!(process.counters().received(), u64::from(3 * EACH));
        assert_eq!(
            process.counters().eager().messages.get(),
            u64::from(3 * EACH)
        );
    });
}
