//! A request is complete only when nothing moves its buffer's bytes any more: whatever a look finds, in whatever
//! order, and whatever a peer says.

use std::sync::Arc;

use crate::common::scripted::{BULK, EAGER, FINISHED, Found, Script, Wire, rank_zero};
use crate::common::{over, pattern};
use weft_fabric::Peer;
use weft_mpi::coll::{self, Blocks, Members};
use weft_mpi::datatype::{Basic, Datatype};
use weft_mpi::{
    Buffer, Error, ErrorClass, Process, RequestId, SendMode, Source, Status, TagPattern, Target,
};

const SIZE: usize = 2 * BULK;

/// Looks until nothing more is scripted, and says how the request stands.
fn play(process: &Arc<Process>, script: &Script, id: RequestId) -> Option<Result<Status, Error>> {
    let mut ended = None;
    loop {
        if ended.is_none() {
            ended = process.test(id).transpose();
        } else {
            // Progress without a request.
            _ = process.world().iprobe(Source::Any, TagPattern::Exact(99));
        }
        if script.state().looks.is_empty() {
            return ended;
        }
    }
}

/// All orders of some things.
fn orders<T: Clone>(things: &[T]) -> Vec<Vec<T>> {
    if things.is_empty() {
        return vec![Vec::new()];
    }
    (0..things.len())
        .flat_map(|first| {
            let mut rest = things.to_vec();
            let first = rest.remove(first);
            orders(&rest).into_iter().map(move |mut order| {
                order.insert(0, first.clone());
                order
            })
        })
        .collect()
}

/// Two bytes, a gap of two.
fn with_gaps() -> Arc<Datatype> {
    let datatype = Datatype::vector(SIZE as i64 / 2, 2, 4, Basic::Byte.datatype()).unwrap();
    datatype.commit();
    datatype
}

/// Posts a receive of `SIZE` bytes, of elements with gaps or without.
fn receive(process: &Arc<Process>, room: &mut [u8], from: Source, typed: bool) -> RequestId {
    let buffer = if typed {
        // SAFETY: each test keeps the memory until the request has ended.
        unsafe { Buffer::new(room.as_mut_ptr(), 1, &with_gaps()) }
    } else {
        over(&mut room[..SIZE])
    };
    let world = process.world();
    world.irecv(buffer, from, TagPattern::Any).unwrap()
}

fn received(room: &[u8], typed: bool) -> Vec<u8> {
    if typed {
        room.chunks(4)
            .flat_map(|four| &four[..2])
            .copied()
            .collect()
    } else {
        room[..SIZE].to_vec()
    }
}

#[test]
fn a_loss_beside_a_matched_message_does_not_end_its_receive() {
    let bytes = pattern(SIZE, 1);
    // The sender is lost, somebody else is, both are.
    for losses in [vec![1], vec![2], vec![1, 2]] {
        let found: Vec<Found> = losses.iter().map(|peer| Found::Lost(Peer(*peer))).collect();
        let mut all = found.clone();
        all.push(Wire::ready(1, SIZE).from(1));
        for (number, order) in orders(&all).into_iter().enumerate() {
            for (source, typed) in [
                (Source::Any, false),
                (Source::Any, true),
                (Source::Rank(1), false),
                (Source::Rank(1), true),
            ] {
                // Nothing comes of a peer after its loss.
                let at = |wanted: fn(&Found) -> bool| order.iter().position(wanted);
                let message = at(|one| matches!(one, Found::Message(..)));
                let loss = at(|one| matches!(one, Found::Lost(Peer(1))));
                if loss.is_some() && loss < message {
                    continue;
                }
                let what = format!("{losses:?} lost, order {number}, {source:?}, typed: {typed}");
                let (process, script) = rank_zero(4);
                script.state().says_loss_late = true;
                let mut room = vec![0; 2 * SIZE];
                let request = receive(&process, &mut room, source, typed);
                script.look(order.clone());
                let early = play(&process, &script, request);
                assert!(early.is_none(), "{what}: ended with {early:?}");
                let get = script.get();
                if losses.contains(&1) {
                    script.look(vec![script.fail(get)]);
                    let ended = play(&process, &script, request).expect("the transfer has ended");
                    assert_eq!(ended.unwrap_err().class(), ErrorClass::ProcFailed, "{what}");
                } else {
                    script.look(vec![script.finish(get, &bytes)]);
                    let ended = play(&process, &script, request).expect("the transfer has ended");
                    assert_eq!(ended.unwrap().bytes, SIZE as u64, "{what}");
                    assert!(received(&room, typed) == bytes, "{what}: other bytes");
                }
                assert!(!script.uses(&room), "{what}");
            }
        }
    }
}

#[test]
fn a_loss_beside_the_end_of_a_transfer_leaves_what_the_transfer_says() {
    let bytes = pattern(SIZE, 2);
    for typed in [false, true] {
        for lost_first in [false, true] {
            let (process, script) = rank_zero(3);
            let mut room = vec![0; 2 * SIZE];
            let request = receive(&process, &mut room, Source::Any, typed);
            script.look(vec![Wire::ready(1, SIZE).from(1)]);
            assert!(play(&process, &script, request).is_none());
            let mut found = vec![script.finish(script.get(), &bytes), Found::Lost(Peer(1))];
            if lost_first {
                found.reverse();
            }
            script.look(found);
            let ended = play(&process, &script, request).expect("the transfer has ended");
            assert_eq!(ended.unwrap().bytes, SIZE as u64);
            assert!(received(&room, typed) == bytes);
        }
    }
}

#[test]
fn a_transfer_that_found_no_room_ends_by_the_loss_of_its_sender() {
    for typed in [false, true] {
        let (process, script) = rank_zero(3);
        script.state().refused_gets = 2;
        let mut room = vec![0; 2 * SIZE];
        let request = receive(&process, &mut room, Source::Any, typed);
        script.look(vec![Wire::ready(1, SIZE).from(1)]);
        script.look(vec![Found::Lost(Peer(2)), Found::Lost(Peer(1))]);
        script.look(Vec::new());
        let ended = play(&process, &script, request).expect("nobody moves its data");
        assert_eq!(ended.unwrap_err().class(), ErrorClass::ProcFailed);
        assert!(script.state().gets.is_empty());
    }
}

#[test]
fn a_collective_that_is_broken_off_waits_for_its_transfers() {
    for lost_first in [false, true] {
        let (process, script) = rank_zero(3);
        let world = process.world();
        let mut room = vec![0; SIZE];
        let schedule = coll::bcast(&Members::of(&world), &over(&mut room), 1).unwrap();
        let request = world.begin(schedule).unwrap();
        let ready = Wire {
            context: 1,
            // The first of the collectives that do not block.
            tag: 1,
            ..Wire::ready(0, SIZE)
        };
        let mut found = vec![ready.from(1), Found::Lost(Peer(2))];
        if lost_first {
            found.reverse();
        }
        script.look(found);
        let early = play(&process, &script, request);
        assert!(early.is_none(), "ended with {early:?}");
        let get = script.get();
        script.look(vec![script.finish(get, &pattern(SIZE, 3))]);
        let ended = play(&process, &script, request).expect("nothing is under way");
        assert_eq!(ended.unwrap_err().class(), ErrorClass::ProcFailed);
    }
}

/// What the engine has sent last.
fn last_sent(script: &Script) -> Wire {
    let state = script.state();
    Wire::of(&state.sent.last().expect("something was sent").1)
}

#[test]
fn an_answer_before_its_message_has_left_ends_nothing() {
    for (mode, size) in [
        (SendMode::Standard, 64),
        (SendMode::Synchronous, 64),
        (SendMode::Standard, SIZE),
    ] {
        let (process, script) = rank_zero(2);
        script.state().full = true;
        let mut lent = pattern(size, 4);
        let (world, to) = (process.world(), Target::Rank(1));
        let request = world.isend(mode, over(&mut lent), to, 1).unwrap();
        // The peer guesses.
        for token in 0..8 {
            let forged = Wire {
                kind: FINISHED,
                index: request.index(),
                generation: request.generation(),
                token,
                ..Wire::default()
            };
            script.look(vec![forged.from(1)]);
        }
        assert!(
            play(&process, &script, request).is_none(),
            "{mode:?} {size}"
        );
        script.state().full = false;
        script.look(Vec::new());
        let ended = play(&process, &script, request);
        let sent = last_sent(&script);
        if sent.kind == EAGER {
            assert!(matches!(ended, Some(Ok(_))));
            continue;
        }
        assert!(
            ended.is_none(),
            "the answer that came before does not count"
        );
        script.look(vec![sent.finished().from(1)]);
        assert!(matches!(play(&process, &script, request), Some(Ok(_))));
        assert!(!script.uses(&lent));
    }
}

#[test]
fn an_answer_ends_the_grant_of_a_buffer() {
    let (process, script) = rank_zero(3);
    let mut lent = pattern(SIZE, 5);
    let (world, to) = (process.world(), Target::Rank(1));
    let mode = SendMode::Standard;
    let request = world.isend(mode, over(&mut lent), to, 1).unwrap();
    let sent = last_sent(&script);
    let other_token = Wire {
        token: sent.token + 1,
        ..sent
    };
    for (peer, forged) in [(2, sent), (0, sent), (1, other_token)] {
        script.look(vec![forged.finished().from(peer)]);
        assert!(play(&process, &script, request).is_none(), "{peer}");
        assert!(script.uses(&lent));
    }
    // Not having read anything, and saying so twice.
    script.look(vec![sent.finished().from(1), sent.finished().from(1)]);
    assert!(matches!(play(&process, &script, request), Some(Ok(_))));
    assert!(!script.uses(&lent), "the peer could read it still");
}

#[test]
fn an_old_answer_ends_no_later_send() {
    for (mode, size) in [(SendMode::Synchronous, 64), (SendMode::Standard, SIZE)] {
        let (process, script) = rank_zero(2);
        let mut lent = pattern(size, 6);
        let (world, to) = (process.world(), Target::Rank(1));
        let mut first = None;
        // As many as make the name of a request come again.
        for round in 0..=1u32 << RequestId::GENERATION_BITS {
            let request = world.isend(mode, over(&mut lent), to, 1).unwrap();
            let sent = last_sent(&script);
            let old = *first.get_or_insert(sent);
            if round > 0 {
                script.look(vec![old.finished().from(1)]);
                let early = play(&process, &script, request);
                assert!(early.is_none(), "round {round}: ended by {old:?}");
            }
            script.look(vec![sent.finished().from(1)]);
            assert!(matches!(play(&process, &script, request), Some(Ok(_))));
        }
    }
}

#[test]
fn a_send_whose_receiver_is_lost_lends_nothing_any_more() {
    for full in [false, true] {
        for answered in [false, true] {
            let (process, script) = rank_zero(2);
            script.state().full = full;
            let mut lent = pattern(SIZE, 7);
            let (world, to) = (process.world(), Target::Rank(1));
            let mode = SendMode::Standard;
            let request = world.isend(mode, over(&mut lent), to, 1).unwrap();
            let mut found = vec![Found::Lost(Peer(1))];
            if answered && !full {
                found.insert(0, last_sent(&script).finished().from(1));
            }
            script.look(found);
            let ended = play(&process, &script, request).expect("nobody will answer");
            assert_eq!(ended.is_ok(), answered && !full);
            assert!(!script.uses(&lent));
        }
    }
}

/// Rank 0 of four, which has been told that rank 1 is lost.
fn beside_the_lost() -> (Arc<Process>, Script) {
    let (process, script) = rank_zero(4);
    script.look(vec![Found::Lost(Peer(1))]);
    _ = process.world().iprobe(Source::Rank(2), TagPattern::Any);
    (process, script)
}

#[test]
fn a_request_that_could_not_be_started_is_inactive() {
    let (process, script) = beside_the_lost();
    let world = process.world();
    let init = |bytes: &mut Vec<u8>, mode, to| {
        let request = world.send_init(mode, over(bytes), Target::Rank(to), 1);
        request.unwrap()
    };
    for (mode, size) in [
        (SendMode::Standard, 8),
        (SendMode::Synchronous, 8),
        (SendMode::Standard, SIZE),
        (SendMode::Buffered, 8),
    ] {
        let mut bytes = vec![1; size];
        let request = init(&mut bytes, mode, 1);
        for _ in 0..2 {
            let error = process.start(request).unwrap_err();
            let class = if mode == SendMode::Buffered {
                ErrorClass::Buffer
            } else {
                ErrorClass::ProcFailed
            };
            assert_eq!(error.class(), class, "{mode:?} {size}");
            assert_eq!(process.wait(request).unwrap(), Status::empty());
        }
        process.free_request(request).unwrap();
        assert!(!process.is_live(request));
        assert!(!script.uses(&bytes));
    }
    // Of several the others begin.
    let mut bytes = [vec![1; 8], vec![2; 8], vec![3; 8]];
    let [one, two, three] = &mut bytes;
    let mode = SendMode::Synchronous;
    let all = [init(one, mode, 2), init(two, mode, 1), init(three, mode, 3)];
    let error = process.start_all(all.iter().copied()).unwrap_err();
    assert_eq!(error.class(), ErrorClass::ProcFailed);
    let sent = |peer: u32| {
        let state = script.state();
        let of = |(to, ..): &&(Peer, _, _)| *to == Peer(peer);
        state
            .sent
            .iter()
            .find(of)
            .map(|(_, head, _)| Wire::of(head))
    };
    for (peer, request) in [(2, all[0]), (3, all[2])] {
        assert!(process.test(request).unwrap().is_none());
        script.look(vec![
            sent(peer).expect("it has begun").finished().from(peer),
        ]);
        process.wait(request).unwrap();
    }
    assert_eq!(process.wait(all[1]).unwrap(), Status::empty());
    // Nothing of a list with one that is under way.
    process.start(all[0]).unwrap();
    let before = script.state().sent.len();
    assert_eq!(
        process
            .start_all([all[2], all[0]].into_iter())
            .unwrap_err()
            .class(),
        ErrorClass::Request
    );
    assert_eq!(script.state().sent.len(), before);
}

#[test]
fn a_sendrecv_whose_send_fails_leaves_no_receive() {
    for size in [8, SIZE] {
        for early in [false, true] {
            let (process, script) = beside_the_lost();
            let world = process.world();
            let (mut out, mut room) = (vec![1; size], vec![0; SIZE]);
            if early {
                // Its message is there: the receive is matched at once.
                script.look(vec![Wire::ready(3, SIZE).from(2)]);
                _ = world.iprobe(Source::Any, TagPattern::Exact(99));
                script.state().moves = Some(9);
            }
            let send = (over(&mut out), Target::Rank(1), 1);
            let receive = (over(&mut room), Source::Rank(2), TagPattern::Exact(3));
            let error = world.sendrecv(send, receive).unwrap_err();
            assert_eq!(error.class(), ErrorClass::ProcFailed);
            assert!(!script.uses(&room) && !script.uses(&out));
            assert_eq!(room, vec![if early { 9 } else { 0 }; SIZE]);
            script.look(vec![Wire::ready(3, SIZE).from(2)]);
            assert!(
                world
                    .iprobe(Source::Rank(2), TagPattern::Exact(3))
                    .unwrap()
                    .is_some()
            );
            assert!(!script.uses(&room));
            // A rank that is none is seen before anything is posted.
            let send = (over(&mut out), Target::Rank(9), 1);
            let receive = (over(&mut room), Source::Rank(3), TagPattern::Exact(3));
            let error = world.sendrecv(send, receive).unwrap_err();
            assert_eq!(error.class(), ErrorClass::Rank);
        }
    }
}

#[test]
fn a_collective_that_fails_half_way_leaves_no_receive() {
    let (process, script) = rank_zero(3);
    let world = process.world();
    script.state().no_grant = true;
    let (mut out, mut room) = (vec![1; 3 * SIZE], vec![0; 3 * SIZE]);
    let blocks = |bytes: &mut Vec<u8>| {
        // SAFETY: the memory outlives what is run.
        unsafe { Blocks::even(bytes.as_mut_ptr(), SIZE, &crate::common::bytes(), 3) }.unwrap()
    };
    let schedule = coll::alltoall(
        &Members::of(&world),
        Some(&blocks(&mut out)),
        &blocks(&mut room),
    );
    let request = world.begin(schedule.unwrap()).unwrap();
    let ended = play(&process, &script, request).expect("nothing of it is under way");
    assert_eq!(ended.unwrap_err().class(), ErrorClass::Intern);
    let late = Wire {
        context: 1,
        ..Wire::ready(0, SIZE)
    };
    script.look(vec![late.from(1), late.from(2)]);
    script.look(Vec::new());
    _ = world.iprobe(Source::Any, TagPattern::Any);
    assert!(script.state().gets.is_empty() && !script.uses(&room));
    assert_eq!(process.unexpected_messages(), 2);
}
