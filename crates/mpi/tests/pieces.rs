//! Data that come in pieces: asked for by the receiver, packed as they leave, unpacked as they arrive, whatever a peer
//! says and whoever is lost.

use std::sync::Arc;

use crate::common::scripted::{
    BULK, CLEAR, Found, PIECE, READY, READY_IN_PIECES, Script, Wire, rank_zero,
};
use crate::common::{over, pattern};
use weft_fabric::Peer;
use weft_mpi::datatype::{Basic, Datatype};
use weft_mpi::{
    Buffer, Error, ErrorClass, Process, RequestId, SendMode, Source, Status, TagPattern, Target,
};

const SIZE: usize = 3 * BULK + 100;

/// Progress until nothing more is scripted.
fn play(process: &Arc<Process>, script: &Script) {
    while !script.state().looks.is_empty() {
        _ = process.world().iprobe(Source::Any, TagPattern::Exact(99));
    }
    _ = process.world().iprobe(Source::Any, TagPattern::Exact(99));
}

fn outcome(process: &Arc<Process>, request: RequestId) -> Option<Result<Status, Error>> {
    process.test(request).transpose()
}

/// Two bytes, a gap of two.
fn with_gaps(memory: &mut [u8], size: usize) -> Buffer {
    let datatype = Datatype::vector(size as i64 / 2, 2, 4, Basic::Byte.datatype()).unwrap();
    datatype.commit();
    // SAFETY: each test keeps the memory until the request has ended.
    unsafe { Buffer::new(memory.as_mut_ptr(), 1, &datatype) }
}

fn without_gaps(memory: &[u8]) -> Vec<u8> {
    memory
        .chunks(4)
        .flat_map(|four| &four[..2])
        .copied()
        .collect()
}

/// What the script was given to send since the last call.
fn sent(script: &Script) -> Vec<(Wire, Vec<u8>)> {
    let all = std::mem::take(&mut script.state().sent);
    all.into_iter()
        .map(|(_, head, data)| (Wire::of(&head), data))
        .collect()
}

/// The pieces of all data, each behind those before it.
fn joined(pieces: Vec<(Wire, Vec<u8>)>, receive: (u32, u32), token: u64) -> Vec<u8> {
    let mut all = Vec::new();
    for (wire, data) in pieces {
        assert_eq!((wire.kind, wire.size), (PIECE, all.len() as u64));
        assert_eq!(
            (wire.index, wire.generation, wire.token),
            (receive.0, receive.1, token)
        );
        assert!(data.len() <= BULK);
        all.extend(data);
    }
    all
}

#[test]
fn a_send_with_gaps_leaves_in_pieces_when_it_is_asked_for() {
    for mode in [SendMode::Standard, SendMode::Synchronous] {
        let (process, script) = rank_zero(3);
        let mut memory = pattern(2 * SIZE, 1);
        let expected = without_gaps(&memory);
        let buffer = with_gaps(&mut memory, SIZE);
        let request = process
            .world()
            .isend(mode, buffer, Target::Rank(1), 7)
            .unwrap();
        let (ready, data) = sent(&script).remove(0);
        assert_eq!(
            (ready.kind, ready.size, data.len()),
            (READY_IN_PIECES, SIZE as u64, 0)
        );
        assert!(script.state().grants.is_empty(), "nobody pulls it");
        let asked = ready.clear(17, 3);
        // By others, and for another message.
        let other = Wire {
            token: ready.token + 1,
            ..asked
        };
        script.look(vec![asked.from(2), asked.from(0), other.from(1)]);
        play(&process, &script);
        assert!(sent(&script).is_empty() && outcome(&process, request).is_none());
        // Twice, while there is no room.
        script.state().full = true;
        script.look(vec![asked.from(1), asked.from(1)]);
        play(&process, &script);
        assert!(outcome(&process, request).is_none());
        script.state().full = false;
        play(&process, &script);
        assert!(outcome(&process, request).expect("all have left").is_ok());
        assert!(joined(sent(&script), (17, 3), ready.token) == expected);
    }
}

#[test]
fn a_send_without_gaps_may_be_asked_for_in_pieces() {
    let (process, script) = rank_zero(2);
    let mut memory = pattern(SIZE, 2);
    let expected = memory.clone();
    let (world, to) = (process.world(), Target::Rank(1));
    let request = world
        .isend(SendMode::Standard, over(&mut memory), to, 7)
        .unwrap();
    let (ready, _) = sent(&script).remove(0);
    assert_eq!(ready.kind, READY);
    assert!(script.uses(&memory));
    script.look(vec![ready.clear(5, 1).from(1)]);
    play(&process, &script);
    assert!(outcome(&process, request).expect("all have left").is_ok());
    assert!(!script.uses(&memory), "its grant has ended");
    assert!(joined(sent(&script), (5, 1), ready.token) == expected);
}

/// A message from rank 1 that waits to be asked for, its data in pieces, and what asks for them.
fn asked_for(
    process: &Arc<Process>,
    script: &Script,
    early: bool,
    receive: impl FnOnce() -> RequestId,
) -> (RequestId, Wire) {
    let ready = Wire {
        kind: READY_IN_PIECES,
        ..Wire::ready(1, SIZE)
    };
    script.look(vec![ready.from(1)]);
    let request = if early {
        let request = receive();
        play(process, script);
        request
    } else {
        play(process, script);
        receive()
    };
    play(process, script);
    let (asked, _) = sent(script).remove(0);
    assert_eq!(
        (asked.kind, asked.token, asked.index),
        (CLEAR, ready.token, ready.index)
    );
    let place = Wire {
        kind: PIECE,
        index: asked.size as u32,
        generation: (asked.size >> 32) as u32,
        token: ready.token,
        ..Wire::default()
    };
    assert_eq!(
        (place.index, place.generation),
        (request.index(), request.generation())
    );
    (request, place)
}

fn pieces(place: Wire, bytes: &[u8], length: usize) -> Vec<Found> {
    let piece = |(number, data): (usize, &[u8])| {
        let size = (number * length) as u64;
        Wire { size, ..place }.with(1, data)
    };
    bytes.chunks(length).enumerate().map(piece).collect()
}

#[test]
fn a_receive_takes_the_pieces_that_are_due_and_no_others() {
    let bytes = pattern(SIZE, 3);
    for early in [false, true] {
        for (typed, room) in [
            (true, SIZE),
            (false, SIZE),
            (true, SIZE / 2),
            (false, 1000),
            (true, SIZE + 500),
        ] {
            let what = format!("early: {early}, typed: {typed}, room: {room}");
            let (process, script) = rank_zero(3);
            let mut memory = vec![0; 2 * SIZE + 2000];
            let world = process.world();
            let buffer = if typed {
                with_gaps(&mut memory, room)
            } else {
                over(&mut memory[..room])
            };
            let receive = || world.irecv(buffer, Source::Any, TagPattern::Any).unwrap();
            let (request, place) = asked_for(&process, &script, early, receive);
            for (number, found) in pieces(place, &bytes, 997).into_iter().enumerate() {
                let Found::Message(_, head, data) = found else {
                    unreachable!("a piece is a message")
                };
                let wire = Wire::of(&head);
                let forged = [
                    wire.with(2, &data),
                    Wire {
                        token: wire.token + 1,
                        ..wire
                    }
                    .with(1, &data),
                    Wire {
                        size: wire.size + 1,
                        ..wire
                    }
                    .with(1, &data),
                    Wire {
                        generation: wire.generation + 1,
                        ..wire
                    }
                    .with(1, &data),
                    wire.with(1, &[]),
                    wire.with(1, &vec![9; SIZE + 1 - number * 997]),
                ];
                script.look(forged.to_vec());
                play(&process, &script);
                assert!(outcome(&process, request).is_none(), "{what}");
                // And the same one again.
                script.look(vec![wire.with(1, &data), wire.with(1, &data)]);
                play(&process, &script);
            }
            let ended = outcome(&process, request).expect("all have come");
            let fits = room.min(SIZE);
            if room < SIZE {
                assert_eq!(ended.unwrap_err().class(), ErrorClass::Truncate, "{what}");
            } else {
                assert_eq!(ended.unwrap().bytes, SIZE as u64, "{what}");
            }
            let received = if typed {
                without_gaps(&memory)
            } else {
                memory.clone()
            };
            assert!(received[..fits] == bytes[..fits], "{what}: other bytes");
            assert!(
                received[fits..].iter().all(|byte| *byte == 0),
                "{what}: too many"
            );
        }
    }
}

#[test]
fn the_loss_of_the_sender_ends_a_receive_in_pieces() {
    for (come, from) in [(0, Source::Any), (2, Source::Any), (2, Source::Rank(1))] {
        let (process, script) = rank_zero(3);
        let bytes = pattern(SIZE, 4);
        let mut memory = vec![0; 2 * SIZE];
        let buffer = with_gaps(&mut memory, SIZE);
        let world = process.world();
        let receive = || world.irecv(buffer, from, TagPattern::Any).unwrap();
        let (request, place) = asked_for(&process, &script, true, receive);
        let mut found = pieces(place, &bytes, BULK);
        found.truncate(come);
        // Another loss does not matter.
        found.push(Found::Lost(Peer(2)));
        script.look(found);
        play(&process, &script);
        assert!(outcome(&process, request).is_none());
        script.look(vec![Found::Lost(Peer(1))]);
        play(&process, &script);
        let ended = outcome(&process, request).expect("nothing more comes");
        assert_eq!(ended.unwrap_err().class(), ErrorClass::ProcFailed);
    }
}

#[test]
fn a_receive_that_is_matched_with_the_message_of_a_lost_sender_ends() {
    let (process, script) = rank_zero(3);
    let ready = Wire {
        kind: READY_IN_PIECES,
        ..Wire::ready(1, SIZE)
    };
    script.look(vec![ready.from(1), Found::Lost(Peer(1))]);
    play(&process, &script);
    let mut memory = vec![0; 2 * SIZE];
    let buffer = with_gaps(&mut memory, SIZE);
    let request = process
        .world()
        .irecv(buffer, Source::Any, TagPattern::Any)
        .unwrap();
    let ended = outcome(&process, request).expect("nobody can be asked");
    assert_eq!(ended.unwrap_err().class(), ErrorClass::ProcFailed);
}

#[test]
fn the_loss_of_the_receiver_ends_a_send_in_pieces() {
    for asked in [false, true] {
        let (process, script) = rank_zero(2);
        let mut memory = pattern(2 * SIZE, 5);
        let buffer = with_gaps(&mut memory, SIZE);
        let (world, to) = (process.world(), Target::Rank(1));
        let request = world.isend(SendMode::Standard, buffer, to, 7).unwrap();
        let (ready, _) = sent(&script).remove(0);
        script.state().full = true;
        if asked {
            script.look(vec![ready.clear(5, 1).from(1)]);
            play(&process, &script);
        }
        script.look(vec![Found::Lost(Peer(1))]);
        play(&process, &script);
        script.state().full = false;
        play(&process, &script);
        let ended = outcome(&process, request).expect("nobody will ask");
        assert_eq!(ended.unwrap_err().class(), ErrorClass::ProcFailed);
        assert!(
            sent(&script).is_empty(),
            "the memory is the program's again"
        );
    }
}
