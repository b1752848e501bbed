//! Communicators whose members receive no `MPI_ANY_TAG`: their messages are divided among the engines of each rank, by tag.
//!
//! `WEFT_SEEDS=1000` plays so many random programs of threads on each fabric, `WEFT_SECONDS=120` as many as begin within two minutes:
//! [`crate::common::several::random_programs`].

use std::sync::{Arc, Barrier};

use crate::common::several::{barrier, random_programs, receive, send, side_by_side};
use crate::common::{over, pattern};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng};
use weft_fabric_local::Local;
use weft_mpi::info::Info;
use weft_mpi::{
    Comm, Error, ErrorClass, Process, RequestId, SendMode, Source, Status, TagPattern, Target,
};

const HINT: &str = "mpi_assert_no_any_tag";

/// Beyond what goes with its envelope.
const LARGE: usize = 300_000;

fn hint(value: &str) -> Info {
    let mut info = Info::default();
    info.set(HINT, value).unwrap();
    info
}

/// A copy of which all members assert that they receive no any tag.
fn asserted(comm: &Comm) -> Arc<Comm> {
    comm.dup_with_info(Some(&hint("true"))).unwrap()
}

/// The engine of a request.
fn engine_of(request: RequestId) -> u32 {
    request.generation() % 4
}

fn begin_receive(comm: &Comm, room: &mut [u8], tag: i32) -> RequestId {
    comm.irecv(over(room), Source::Any, TagPattern::Exact(tag))
        .unwrap()
}

fn begin_send(comm: &Comm, data: &mut [u8], to: u32, tag: i32) -> RequestId {
    comm.isend(SendMode::Synchronous, over(data), Target::Rank(to), tag)
        .unwrap()
}

/// What the communicator says of the hint.
fn told(comm: &Comm) -> String {
    let info = comm.info().unwrap();
    info.get(HINT).unwrap().unwrap().to_owned()
}

fn is_error<T>(result: Result<T, Error>, class: ErrorClass) {
    let error = result.map(drop).expect_err("it must fail");
    assert_eq!(error.class(), class, "{error}");
}

#[test]
fn tags_that_follow_each_other_are_in_different_engines() {
    side_by_side(2, 3, |process| {
        let comm = asserted(&process.world());
        assert_eq!(told(&comm), "true");
        let other = 1 - comm.rank();
        let mut engines = Vec::new();
        for tag in 0..6 {
            let mut room = vec![0; LARGE];
            let mut data = pattern(LARGE, tag as usize);
            let incoming = begin_receive(&comm, &mut room, tag);
            let outgoing = begin_send(&comm, &mut data, other, tag);
            assert_eq!(engine_of(incoming), engine_of(outgoing));
            engines.push(engine_of(incoming));
            let status = process.wait(incoming).unwrap();
            process.wait(outgoing).unwrap();
            assert_eq!((status.source, status.tag), (Some(other), tag));
            assert_eq!(room, pattern(LARGE, tag as usize));
        }
        assert_eq!(engines, [0, 1, 2, 0, 1, 2]);
        // What is done together is done as ever, and copies are communicators like others.
        barrier(&comm);
        let copy = comm.dup().unwrap();
        barrier(&copy);
        copy.iprobe(Source::Any, TagPattern::Any).unwrap();
        assert_eq!(process.unexpected_messages(), 0);
    });
}

#[test]
fn the_hint_holds_if_every_member_gives_it() {
    side_by_side(3, 2, |process| {
        let world = process.world();
        let mine = [None, Some(hint("true")), Some(hint("false"))];
        let comm = world.dup_with_info(mine[world.rank() as usize].as_ref());
        let comm = comm.unwrap();
        assert_eq!(told(&comm), "false");
        comm.iprobe(Source::Any, TagPattern::Any).unwrap();
        let comm = asserted(&comm);
        assert_eq!(told(&comm), "true");
        is_error(comm.iprobe(Source::Any, TagPattern::Any), ErrorClass::Tag);
        // Of a part of the processes, of one of them, and of a communicator made so.
        let group = Arc::new(world.group().include(&[2, 0]).unwrap());
        let some = comm.create_from_group(&group, 3, Some(&hint("true")));
        let alone = Arc::new(
            world
                .group()
                .include(&[world.rank().cast_signed()])
                .unwrap(),
        );
        let alone = world.create_from_group(&alone, 4, Some(&hint("true")));
        let some = some.unwrap().into_iter().chain(alone.unwrap());
        for some in some {
            is_error(some.iprobe(Source::Any, TagPattern::Any), ErrorClass::Tag);
            let last = some.size() - 1 - some.rank();
            for tag in 0..4 {
                send(&some, last, tag, vec![7; 30]);
                assert_eq!(receive(&some, last, tag, 30), [7; 30]);
            }
            barrier(&some);
        }
        assert_eq!(process.unexpected_messages(), 0);
    });
}

#[test]
fn without_threads_nothing_is_divided() {
    let group = Local::group_with_channels(2, 2);
    std::thread::scope(|scope| {
        for endpoint in group {
            scope.spawn(|| {
                let process = Process::new(Box::new(endpoint));
                let comm = asserted(&process.world());
                assert_eq!(told(&comm), "true");
                let mut room = [0; 4];
                for tag in 0..3 {
                    let request = begin_receive(&comm, &mut room, tag);
                    assert_eq!(engine_of(request), 0);
                    process.cancel(request).unwrap();
                    process.wait(request).unwrap();
                }
                process.finish().unwrap();
            });
        }
    });
}

#[test]
fn a_receive_of_any_tag_is_an_error_that_is_named() {
    side_by_side(1, 2, |process| {
        let comm = asserted(&process.world());
        let mut room = [0; 4];
        let any = TagPattern::Any;
        for from in [Source::Any, Source::Rank(0)] {
            is_error(comm.recv(over(&mut room), from, any), ErrorClass::Tag);
            is_error(comm.irecv(over(&mut room), from, any), ErrorClass::Tag);
            is_error(comm.recv_init(over(&mut room), from, any), ErrorClass::Tag);
            is_error(comm.probe(from, any), ErrorClass::Tag);
            is_error(comm.iprobe(from, any), ErrorClass::Tag);
            is_error(comm.mprobe(from, any), ErrorClass::Tag);
            is_error(comm.improbe(from, any), ErrorClass::Tag);
            let to = |tag| (over(&mut [0; 4]), Target::Rank(0), tag);
            let pair = (over(&mut room), from, any);
            is_error(comm.sendrecv(to(1), pair.clone()), ErrorClass::Tag);
            is_error(comm.isendrecv(to(1), pair), ErrorClass::Tag);
        }
        // From nobody comes nothing, whatever its tag.
        let status = comm.recv(over(&mut room), Source::Null, any).unwrap();
        assert_eq!(status.source, Status::null().source);
        let error = comm.iprobe(Source::Any, any).unwrap_err();
        assert!(error.text().contains(HINT), "{error}");
        assert_eq!(process.live_requests(), 0);
        assert_eq!(process.unexpected_messages(), 0);
    });
}

#[test]
fn every_kind_of_message_finds_its_part() {
    side_by_side(2, 3, |process| {
        let comm = asserted(&process.world());
        let other = 1 - comm.rank();
        process.attach_buffer(1 << 20);
        for tag in 0..6 {
            let (length, number) = ([8, 70_000, LARGE][tag as usize % 3], tag as usize);
            let exact = TagPattern::Exact(tag);
            let mut data = pattern(length, number);
            let (to, next) = (Target::Rank(other), TagPattern::Exact(tag + 1));

            let kept = comm
                .send_init(SendMode::Standard, over(&mut data), to, tag)
                .unwrap();
            let mut room = vec![0; length];
            let wanted = comm.recv_init(over(&mut room), Source::Any, exact).unwrap();
            for _ in 0..2 {
                process.start_all([wanted, kept].into_iter()).unwrap();
                process
                    .wait_all(&mut (&[Some(kept), Some(wanted)][..], &mut Vec::new()))
                    .unwrap();
            }
            process.free_request(kept).unwrap();
            process.free_request(wanted).unwrap();
            assert_eq!(room, pattern(length, number));

            comm.send(SendMode::Buffered, over(&mut data), to, tag)
                .unwrap();
            let status = comm.probe(Source::Any, exact).unwrap();
            assert_eq!((status.tag, status.bytes), (tag, length as u64));
            let (message, _) = comm.mprobe(Source::Rank(other), exact).unwrap();
            room.fill(0);
            let message = message.expect("of a rank");
            process.mrecv(message, over(&mut room)).unwrap();
            assert_eq!(room, pattern(length, number));
            process.flush_buffer();

            // Two engines in one call.
            let mut room = vec![0; length];
            let incoming = (over(&mut room), Source::Any, next);
            // Each rank receives what the other one sends with the next tag.
            let first = comm.sendrecv((over(&mut data), to, tag + 1), incoming);
            assert_eq!(first.unwrap().tag, tag + 1);
            assert_eq!(room, pattern(length, number));
            let tags = match comm.rank() {
                0 => (tag, tag + 1),
                _ => (tag + 1, tag),
            };
            room.fill(0);
            let incoming = (over(&mut room), Source::Any, TagPattern::Exact(tags.1));
            let both = comm.sendrecv((over(&mut data), to, tags.0), incoming);
            assert_eq!(both.unwrap().tag, tags.1);
            assert_eq!(room, pattern(length, number));
            room.fill(0);
            let incoming = (over(&mut room), Source::Any, TagPattern::Exact(tags.1));
            let both = comm
                .isendrecv((over(&mut data), to, tags.0), incoming)
                .unwrap();
            let status = process.wait(both).unwrap();
            assert_eq!((status.source, status.tag), (Some(other), tags.1));
            assert_eq!(room, pattern(length, number));
            let both = comm.isendrecv_replace(
                over(&mut data),
                (to, tags.0),
                (Source::Rank(other), TagPattern::Exact(tags.1)),
            );
            process.wait(both.unwrap()).unwrap();
            assert_eq!(data, pattern(length, number));

            let (mut sent, mut room) = (pattern(length, 9), vec![0; length]);
            let outgoing = comm.psend_init(over(&mut sent), 2, to, tag).unwrap();
            let incoming = comm.precv_init(over(&mut room), 2, to, tag).unwrap();
            assert_eq!(engine_of(outgoing), engine_of(incoming));
            process.start_all([outgoing, incoming].into_iter()).unwrap();
            process.ready(outgoing, 0..2).unwrap();
            process.wait(incoming).unwrap();
            process.wait(outgoing).unwrap();
            process.free_request(outgoing).unwrap();
            process.free_request(incoming).unwrap();
            assert_eq!(room, pattern(length, 9));
        }
        comm.settle().unwrap();
        assert_eq!(process.live_requests(), 0);
        assert_eq!(process.unexpected_messages(), 0);
    });
}

#[test]
fn a_pair_of_two_engines_ends_with_what_goes_wrong_in_either() {
    side_by_side(1, 2, |process| {
        let comm = asserted(&process.world());
        let (mut data, mut room) = (vec![5; 40], vec![0; 8]);
        // Its receive gets too much; its send ends well.
        send(&comm, 0, 1, vec![5; 40]);
        let to = (over(&mut data), Target::Rank(0), 0);
        let from = (over(&mut room), Source::Any, TagPattern::Exact(1));
        let both = comm.isendrecv(to, from).unwrap();
        is_error(process.wait(both), ErrorClass::Truncate);
        assert_eq!(receive(&comm, 0, 0, 40), [5; 40]);
        // To or from nobody.
        let to = (over(&mut data), Target::Null, 0);
        let from = (over(&mut room), Source::Null, TagPattern::Any);
        let both = comm.isendrecv(to, from).unwrap();
        process.wait(both).unwrap();
        // It is not over before a large send is.
        let mut large = pattern(LARGE, 1);
        let to = (over(&mut large), Target::Rank(0), 0);
        let from = (over(&mut room), Source::Any, TagPattern::Exact(1));
        let both = comm.isendrecv(to, from).unwrap();
        send(&comm, 0, 1, vec![6; 8]);
        for _ in 0..100 {
            assert_eq!(process.test(both).unwrap(), None);
        }
        assert_eq!(receive(&comm, 0, 0, LARGE), pattern(LARGE, 1));
        assert_eq!(process.wait(both).unwrap().tag, 1);
        assert_eq!(process.live_requests(), 0);
    });
}

#[test]
fn what_is_left_over_is_found_in_every_part() {
    side_by_side(1, 3, |process| {
        let comm = asserted(&process.world());
        for tag in 0..7 {
            send(&comm, 0, tag, vec![1; 10]);
        }
        let mut rooms = [[0; 4]; 3];
        let requests: Vec<RequestId> = rooms
            .iter_mut()
            .zip(20..)
            .map(|(room, tag)| begin_receive(&comm, room, tag))
            .collect();
        let mut found = comm.unreceived(None);
        found.sort_unstable_by_key(|(_, tag)| *tag);
        let tags: Vec<i32> = found.iter().map(|(_, tag)| *tag).collect();
        assert_eq!(tags, [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(comm.unreceived(Some(4)).len(), 1);
        let waiting = comm.waiting();
        assert_eq!((waiting.messages, waiting.receives), (7, 3));
        assert_eq!(waiting.bytes, 70);
        assert_eq!(comm.contexts().count(), 4);
        for request in requests {
            process.cancel(request).unwrap();
            assert!(process.wait(request).unwrap().cancelled);
        }
        let (count, first) = comm.drop_messages().expect("seven");
        assert_eq!((count, first.bytes), (7, 10));
        comm.sever();
        assert_eq!(process.unexpected_messages(), 0);
    });
}

#[test]
fn all_parts_are_revoked_at_all_members() {
    side_by_side(2, 3, |process| {
        let world = process.world();
        let comm = asserted(&world);
        if comm.rank() == 0 {
            std::thread::scope(|scope| {
                let comm = &comm;
                for tag in 0..3 {
                    let process = &process;
                    scope.spawn(move || {
                        let mut room = [0; 4];
                        let request = begin_receive(comm, &mut room, tag);
                        is_error(process.wait(request), ErrorClass::Revoked);
                    });
                }
                send(&world, 1, 5, vec![1]);
            });
        } else {
            receive(&world, 0, 5, 1);
            comm.revoke();
        }
        for tag in 0..3 {
            let mut room = [0; 4];
            // Each engine hears of it by a message of its own.
            while comm
                .iprobe(Source::Any, TagPattern::Exact(tag))
                .is_ok_and(|found| found.is_none())
            {}
            let exact = TagPattern::Exact(tag);
            is_error(
                comm.recv(over(&mut room), Source::Any, exact),
                ErrorClass::Revoked,
            );
        }
        assert!(comm.is_revoked());
        let left = comm.shrink().unwrap();
        barrier(&left);
        comm.drop_messages();
        comm.sever();
        barrier(&world);
    });
}

#[test]
fn a_loss_is_acknowledged_for_all_parts() {
    let mut group = Local::group_with_channels(3, 2);
    let last = group.pop().expect("three");
    // All have made it before one is lost.
    let made = Arc::new(Barrier::new(3));
    let met = Arc::clone(&made);
    let lost = std::thread::spawn(move || {
        let process = Process::new(Box::new(last));
        process.let_threads_call_at_once();
        let comm = asserted(&process.world());
        met.wait();
        drop(comm);
        process.release();
        panic!("this rank is lost");
    });
    let acknowledged = Barrier::new(2);
    let rank = |endpoint: Local| {
        let process = Process::new(Box::new(endpoint));
        process.let_threads_call_at_once();
        let comm = asserted(&process.world());
        made.wait();
        let other = 1 - comm.rank();
        for tag in 0..2 {
            let (exact, mut room) = (TagPattern::Exact(tag), [0; 4]);
            // From the lost one, and from anybody until the loss is acknowledged.
            let lost = comm.recv(over(&mut room), Source::Rank(2), exact);
            is_error(lost, ErrorClass::ProcFailed);
            let any = comm.recv(over(&mut room), Source::Any, exact);
            is_error(any, ErrorClass::ProcFailed);
            assert_eq!(comm.failed().size(), 1, "known after its error");
        }
        assert_eq!(comm.acknowledge_failed(9), 1);
        // No receive above gets what is sent below.
        acknowledged.wait();
        for tag in 0..2 {
            let mut room = [0; 4];
            let incoming = begin_receive(&comm, &mut room, tag);
            send(&comm, other, tag, vec![3; 4]);
            assert_eq!(process.wait(incoming).unwrap().source, Some(other));
            assert_eq!(room, [3; 4]);
        }
        let mut flag = 3;
        comm.agree(&mut flag).unwrap();
        process.drain();
    };
    std::thread::scope(|scope| {
        for endpoint in group {
            let rank = &rank;
            scope.spawn(move || rank(endpoint));
        }
    });
    assert!(lost.join().is_err());
}

/// One thread of a rank, with tags of its own on the common communicator, and its like at the other rank, which draws the
/// same.
fn pair(process: &Arc<Process>, comm: &Comm, thread: i32, threads: i32, seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    let (me, other) = (comm.rank(), 1 - comm.rank());
    for step in 0..80_usize {
        let first = random.random_range(0..2) == me;
        let tag = thread + threads * random.random_range(0..3);
        let length = [0, 8, 500, 9_000, 70_000][random.random_range(0..5)];
        let exact = TagPattern::Exact(tag);
        match random.random_range(0..12) {
            0 => {
                // A receive that nobody sends for is taken back.
                let mut room = [0; 8];
                let request = begin_receive(comm, &mut room, thread + threads * 9);
                process.cancel(request).unwrap();
                assert!(process.wait(request).unwrap().cancelled);
            }
            1 if !first => {
                let status = comm.probe(Source::Any, exact).unwrap();
                assert_eq!((status.tag, status.bytes), (tag, length as u64));
                assert_eq!(receive(comm, other, tag, length), pattern(length, step));
            }
            2 if !first => {
                let (message, _) = loop {
                    if let Some(found) = comm.improbe(Source::Rank(other), exact).unwrap() {
                        break found;
                    }
                };
                let mut room = vec![0; length];
                process.mrecv(message.unwrap(), over(&mut room)).unwrap();
                assert_eq!(room, pattern(length, step));
            }
            3 => {
                // Windows in both directions, whose order shows.
                let mut out: Vec<Vec<u8>> =
                    (0..10).map(|one| pattern(length, step + one)).collect();
                let mut rooms = vec![vec![0; length]; 10];
                let mut ids: Vec<_> = rooms
                    .iter_mut()
                    .map(|room| Some(begin_receive(comm, room, tag)))
                    .collect();
                for data in &mut out {
                    let to = Target::Rank(other);
                    let sent = comm.isend(SendMode::Standard, over(data), to, tag);
                    ids.push(Some(sent.unwrap()));
                }
                process.wait_all(&mut (&ids[..], &mut Vec::new())).unwrap();
                assert_eq!(rooms, out);
            }
            4 => {
                // Both at once, in two engines or in one.
                let next = thread + threads * random.random_range(3..6);
                let (mut data, mut room) = (pattern(length, step), vec![0; length]);
                let (own, its) = if me == 0 { (tag, next) } else { (next, tag) };
                let outgoing = (over(&mut data), Target::Rank(other), own);
                let incoming = (over(&mut room), Source::Any, TagPattern::Exact(its));
                let both = comm.isendrecv(outgoing, incoming).unwrap();
                assert_eq!(process.wait(both).unwrap().tag, its);
                assert_eq!(room, pattern(length, step));
            }
            _ if first => send(comm, other, tag, pattern(length, step)),
            _ => assert_eq!(receive(comm, other, tag, length), pattern(length, step)),
        }
    }
}

/// Twelve threads of each of two ranks on one communicator; the others go on while all ranks meet.
fn all_draw(process: &Arc<Process>, comm: &Arc<Comm>, seed: u64) {
    const THREADS: i32 = 12;
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let seed = seed * THREADS as u64 + thread as u64;
            scope.spawn(move || pair(process, comm, thread, THREADS, seed));
        }
        for _ in 0..50 {
            barrier(comm);
        }
    });
    barrier(comm);
    assert_eq!(process.live_requests(), 0);
    assert_eq!(process.unexpected_messages(), 0);
    // Who goes on may send by another communicator before this rank has looked.
    barrier(comm);
}

#[test]
fn threads_of_one_communicator_do_what_they_draw() {
    random_programs(2, 3, |seed| {
        move |process: Arc<Process>| {
            let world = process.world();
            all_draw(&process, &asserted(&world), seed);
            // The same where nothing is divided.
            all_draw(&process, &world.dup().unwrap(), seed);
        }
    });
}
