//! Lanes alone: counters that wrap, and peers that write what they want.

use std::sync::Arc;

use super::*;
use weft_atomic::Ordering;
use weft_fabric::conformance::Memory;
use weft_fabric::{Next, SharedBytes};
use weft_sys::{Mapping, random};

fn segment(ranks: u32) -> Arc<Segment> {
    let length = crate::segment_size(ranks).expect("fits");
    let mapping = Mapping::private(length).expect("maps");
    crate::initialise(&mapping, ranks, 2).expect("the right size");
    Segment::open(mapping).expect("just initialised")
}

fn take(lane: &mut InLane) -> Option<(Head, Vec<u8>)> {
    // SAFETY: the tests keep the segment longer than the lane, and the item ends with this function.
    match unsafe { lane.peek() } {
        Found::Packet(packet) => {
            let taken = (packet.head, packet.data.to_vec());
            lane.consume(packet.mark());
            Some(taken)
        }
        Found::Nothing => None,
        Found::Malformed => panic!("malformed"),
    }
}

#[test]
fn counters_may_wrap_round() {
    let segment = segment(2);
    let (mut out, mut lane) = (
        OutLane::new(&segment, 0, 1, writers(&segment, 0)),
        InLane::new(&segment, 0, 1),
    );
    // As if this many had passed; a slot of an honest lane never holds the number that comes next.
    let many = u32::MAX - 700;
    let progress = u64::from(many) | u64::from(many) << 32;
    let memory = LaneMemory::of(&segment, 0, 1);
    memory.head().progress.store(progress, Ordering::Relaxed);
    for position in 0..memory.slots() {
        // SAFETY: a slot of the lane.
        let (word, _) = unsafe { atomics(memory.slot(position)) };
        word.store(u64::from(many) << 32, Ordering::Relaxed);
    }
    out.pretend_passed(many);
    lane.pretend_passed(many);
    for number in 0..3000u32 {
        let length = [8, 200, 16 << 10][number as usize % 3];
        let data = vec![number as u8; length];
        let head = [number as u8; HEAD];
        assert!(out.push(PacketKind::Message, &head, SharedBytes::of(&data)));
        assert_eq!(take(&mut lane), Some((head, data)));
        assert_eq!(take(&mut lane), None);
    }
    let (sent, bulk_sent) = out.all_sent();
    assert!(sent < many && bulk_sent < many, "both have wrapped");
}

#[test]
fn a_lying_receiver_gets_no_more_than_its_lane() {
    let segment = segment(2);
    let mut out = OutLane::new(&segment, 0, 1, writers(&segment, 0));
    let memory = LaneMemory::of(&segment, 0, 1);
    let head = [0; HEAD];
    let mut state = 1u64;
    for round in 0..20_000u32 {
        // Any progress at all: backwards, far ahead, bulk and slots apart.
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        memory.head().progress.store(state, Ordering::Relaxed);
        let length = [0, 88, 89, 5000, 16 << 10][round as usize % 5];
        out.push(
            PacketKind::Message,
            &head,
            SharedBytes::of(&vec![1; length]),
        );
        out.assert_bounds();
    }
}

#[test]
fn a_lying_sender_is_found_out_or_harmless() {
    let segment = segment(2);
    let shape = *segment.shape();
    for round in 0..50_000u32 {
        let lane = InLane::new(&segment, 0, 1);
        let memory = LaneMemory::of(&segment, 0, 1);
        let slot = memory.slot(0);
        // SAFETY: a slot of the lane.
        let (word, _) = unsafe { atomics(slot) };
        let noise = u64::from_ne_bytes(random::bytes().expect("random bytes"));
        // The right number, and anything else in the rest; now and then in bounds but at the edge.
        let bits = match round % 4 {
            0 => noise & 0xffff_ffff,
            1 => u64::from(BULK | shape.data),
            2 => u64::from(BULK | (noise as u32 & 0x7fff)),
            _ => noise & 0x7f,
        };
        word.store(1 << 32 | bits, Ordering::Relaxed);
        let span = match round % 3 {
            0 => noise,
            1 => u64::from(shape.bulk - shape.data) + u64::from(round & 1),
            _ => u64::from(noise as u32 % shape.bulk),
        };
        // SAFETY: the first eight bytes of the slot's data, aligned.
        unsafe { &*slot.cast::<u8>().add(DATA_AT).cast::<AtomicU64>() }
            .store(span, Ordering::Relaxed);
        // SAFETY: the segment outlives the packet.
        match unsafe { lane.peek() } {
            Found::Packet(packet) => {
                let start = packet.data.as_ptr().addr();
                let first = segment.lane(0, 1).addr();
                let last = memory.bulk(shape.bulk).addr();
                assert!(start >= first && start + packet.data.len() <= last);
                assert!(packet.data.len() <= shape.data as usize);
                let _ = packet.data.to_vec();
            }
            Found::Malformed => {
                let length = bits as u32 & !BULK;
                let into = Memory::filled((length & 0xf_ffff) as usize, 0xee);
                // The head in the slot is right.
                let (answer, _) = lane.take_long(&[0; HEAD], &into.region());
                assert_eq!(answer, Next::Other);
            }
            Found::Nothing => panic!("the number was right"),
        }
    }
}

#[test]
fn what_an_earlier_lap_left_is_not_taken_again() {
    let segment = segment(2);
    let (mut out, mut lane) = (
        OutLane::new(&segment, 0, 1, writers(&segment, 0)),
        InLane::new(&segment, 0, 1),
    );
    for _ in 0..5 * segment.shape().lane_slots {
        assert!(out.push(PacketKind::Message, &[1; HEAD], SharedBytes::of(&[1; 8])));
        assert!(take(&mut lane).is_some());
        assert!(take(&mut lane).is_none());
    }
}

#[test]
fn a_message_that_is_not_short_is_taken_by_its_head_and_length() {
    let segment = segment(2);
    let (mut out, mut lane) = (
        OutLane::new(&segment, 0, 1, writers(&segment, 0)),
        InLane::new(&segment, 0, 1),
    );
    let most = segment.shape().data as usize;
    // Several times around the slots and the bulk area.
    for number in 0..5 * segment.shape().lane_slots {
        let length = [65, 88, 89, 300, 5000, most][number as usize % 6];
        let head = [number as u8; HEAD];
        let into = Memory::filled(length, 0xee);
        let (answer, _) = lane.take_long(&head, &into.region());
        assert_eq!(answer, Next::Nothing);

        let data = Memory::patterned(length, u64::from(number)).bytes();
        assert!(out.push(PacketKind::Message, &head, SharedBytes::of(&data)));
        let longer = Memory::filled(length + 1, 0xee);
        let other = [number as u8 ^ 1; HEAD];
        for (head, into) in [(&head, &longer), (&other, &into)] {
            let (answer, _) = lane.take_long(head, &into.region());
            assert_eq!(answer, Next::Other, "{length}");
            assert!(into.bytes().iter().all(|byte| *byte == 0xee));
        }

        let (answer, mark) = lane.take_long(&head, &into.region());
        assert_eq!(answer, Next::Taken, "{length}");
        assert_eq!(into.bytes(), data);
        if lane.consume_long(mark) {
            lane.publish_room();
        }
    }
    // What is not a message of the layer above is handed out by `peek` alone.
    let data = [1; 200];
    assert!(out.push(PacketKind::Chunk, &[7; HEAD], SharedBytes::of(&data)));
    let into = Memory::filled(200, 0xee);
    let (answer, _) = lane.take_long(&[7; HEAD], &into.region());
    assert_eq!(answer, Next::Other);
    assert_eq!(take(&mut lane), Some(([7; HEAD], data.to_vec())));
}
