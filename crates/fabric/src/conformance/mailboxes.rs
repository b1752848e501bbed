//! Properties of the mailbox.

use super::Stage;
use super::inbox::{Event, message_data, number_of, numbered};
use super::memory::Memory;
use super::scene::{Numbered, Scene, peer};
use crate::{FabricError, HEAD, Next, Posted, SharedBytes, Sink};

/// More messages than any lane may take without its receiver looking.
const BEYOND_ANY_LANE: u64 = 1 << 17;

/// Lengths around which fabrics change their ways: head, one and several slots, pages, the limit.
fn lengths(limit: usize) -> Vec<usize> {
    let mut lengths = vec![
        0, 1, 7, 8, 9, 23, 24, 25, 87, 88, 89, 95, 96, 97, 119, 120, 121,
    ];
    for power in 6..=12 {
        let edge = 1usize << power;
        lengths.extend([edge - 33, edge - 32, edge - 31, edge - 1, edge, edge + 1]);
    }
    lengths.extend([4095, 4096, limit - 1, limit]);
    lengths.retain(|length| *length <= limit);
    lengths
}

/// First in, first out, for each sender; each message once.
pub fn messages_of_one_sender_keep_their_order(stage: &dyn Stage) {
    let mut scene = Scene::new(stage, 3);
    const COUNT: u64 = 300;
    let length = |number: u64| (number as usize * 37) % 400;
    let mut next = [0; 2];
    scene.repeat("three hundred messages of two senders", |scene| {
        for (index, next) in next.iter_mut().enumerate() {
            // Runs of different lengths, so that the senders interleave unevenly.
            for _ in 0..=(*next % 5) {
                if *next < COUNT && scene.try_send(index + 1, 0, *next, length(*next)) {
                    *next += 1;
                }
            }
        }
        scene.drive();
        next == [COUNT; 2] && scene.inboxes[0].messages() as u64 >= 2 * COUNT
    });
    scene.settle();
    scene.inboxes[0].check(1, COUNT, length);
    scene.inboxes[0].check(2, COUNT, length);
}

/// Of senders that always have something, none is kept waiting for long.
pub fn senders_are_served_in_turn(stage: &dyn Stage) {
    const SENDERS: usize = 3;
    const EACH: u64 = 400;
    let mut scene = Scene::new(stage, SENDERS + 1);
    let mut next = [0; SENDERS];
    scene.repeat("messages of saturating senders", |scene| {
        for (index, next) in next.iter_mut().enumerate() {
            while *next < EACH && scene.try_send(index + 1, 0, *next, 16) {
                *next += 1;
            }
        }
        scene.poll(0, 4);
        // Senders return their credits.
        for rank in 1..=SENDERS {
            scene.poll(rank, 4);
        }
        // Stop as soon as one runs dry: from there on the others rightly get more.
        next.contains(&EACH)
    });
    let all = scene.inboxes[0].messages();
    for sender in 1..=SENDERS {
        let of = scene.inboxes[0].of(sender).count();
        // An even share is a third. A tenth, of what was taken beyond the first few, is starving.
        assert!(
            all < 60 || of * 10 >= all,
            "sender {sender} got {of} of {all} messages through"
        );
    }
    scene.repeat("the rest", |scene| {
        for (index, next) in next.iter_mut().enumerate() {
            while *next < EACH && scene.try_send(index + 1, 0, *next, 16) {
                *next += 1;
            }
        }
        scene.drive();
        scene.inboxes[0].messages() as u64 == EACH * SENDERS as u64
    });
    for sender in 1..=SENDERS {
        scene.inboxes[0].check(sender, EACH, |_| 16);
    }
}

/// Credits end; a refused message leaves no trace and is taken once the receiver has looked.
pub fn a_refused_post_has_no_effect_and_is_taken_later(stage: &dyn Stage) {
    for length in [0, 120, 4096] {
        let mut scene = Scene::new(stage, 2);
        let mut taken = 0;
        while taken < BEYOND_ANY_LANE && scene.try_send(0, 1, taken, length) {
            taken += 1;
        }
        assert!(taken < BEYOND_ANY_LANE, "a lane is bounded");
        // Further tries, refused or not, must not upset anything.
        for _ in 0..3 {
            if scene.try_send(0, 1, taken, length) {
                taken += 1;
            }
        }
        scene.until("what was taken", |scene| {
            scene.inboxes[1].messages() as u64 >= taken
        });
        scene.settle();
        scene.inboxes[1].check(0, taken, |_| length);
        scene.send(0, 1, taken, length);
        scene.until("what was refused before", |scene| {
            scene.inboxes[1].messages() as u64 > taken
        });
        scene.settle();
        scene.inboxes[1].check(0, taken + 1, |_| length);
    }
}

/// A message is injected, or that has no effect; what is injected keeps its order among messages that are sent.
pub fn injected_messages_are_like_others(stage: &dyn Stage) {
    let mut scene = Scene::new(stage, 2);
    let limit = scene.endpoints[0].limits().data;
    let lengths = lengths(limit);
    let length = |number: u64| lengths[number as usize % lengths.len()];
    let mut next = 0;
    // Nobody looks: at some number there is no room.
    while next < BEYOND_ANY_LANE && scene.inject(0, 1, next, length(next)) {
        next += 1;
        if next % 3 == 0 && scene.try_send(0, 1, next, length(next)) {
            next += 1;
        }
    }
    assert!(0 < next && next < BEYOND_ANY_LANE, "a lane is bounded");
    for _ in 0..3 {
        if scene.inject(0, 1, next, length(next)) {
            next += 1;
        }
    }
    // Nor has it an effect where the other one says what is wrong.
    let too_long = vec![0; limit + 1];
    let endpoint = &mut scene.endpoints[0];
    assert!(!endpoint.inject(peer(1), &[0; HEAD], &too_long));
    assert!(!endpoint.inject(peer(2), &[0; HEAD], &[]));
    scene.until("what was injected", |scene| {
        scene.inboxes[1].messages() as u64 >= next
    });
    scene.settle();
    scene.inboxes[1].check(0, next, length);
}

/// What is written to a lane keeps its order among messages that are sent, and is found; what is refused has no effect.
pub fn written_messages_are_like_others(stage: &dyn Stage) {
    const COUNT: u64 = 3000;
    let mut scene = Scene::new(stage, 2);
    let length = |number: u64| [8, 0, 64, 3, 65, 17, 88][number as usize % 7];
    let (mut next, mut round) = (0, 0);
    scene.repeat("room for what is written", |scene| {
        round += 1;
        // Now and then more than there is room for, while nobody looks.
        for _ in 0..[1, 3, 40, BEYOND_ANY_LANE][round % 4] {
            let length = length(next);
            let has_left = next < COUNT
                && match next % 5 {
                    0 => scene.try_send(0, 1, next, length),
                    1 => scene.inject(0, 1, next, length),
                    _ => scene.write(0, 1, next, length) || scene.inject(0, 1, next, length),
                };
            if !has_left {
                break;
            }
            next += 1;
        }
        scene.drive();
        next == COUNT
    });
    scene.until("what was written", |scene| {
        scene.inboxes[1].messages() as u64 >= COUNT
    });
    scene.settle();
    scene.inboxes[1].check(0, COUNT, length);
}

/// What is packed as it leaves keeps its order among messages that are sent; what is refused is not asked for.
pub fn packed_messages_are_like_others(stage: &dyn Stage) {
    let mut scene = Scene::new(stage, 2);
    let limit = scene.endpoints[0].limits().data;
    let lengths = lengths(limit);
    let length = |number: u64| lengths[number as usize % lengths.len()];
    let mut next = 0;
    // Nobody looks: at some number there is no room.
    while next < BEYOND_ANY_LANE && scene.send_packed(0, 1, next, length(next)) {
        next += 1;
        if next % 3 == 0 && scene.try_send(0, 1, next, length(next)) {
            next += 1;
        }
    }
    assert!(0 < next && next < BEYOND_ANY_LANE, "a lane is bounded");
    for _ in 0..3 {
        if scene.send_packed(0, 1, next, length(next)) {
            next += 1;
        }
    }
    let endpoint = &mut scene.endpoints[0];
    // What cannot leave at all is not asked for either.
    let mut source = Numbered::of(0, 0, limit + 1);
    let answer = endpoint.try_send_part(peer(1), &[0; HEAD], &mut source, 0..limit + 1);
    let too_long = FabricError::TooLong {
        length: limit + 1,
        limit,
    };
    assert!(answer.is_none_or(|answer| answer == Err(too_long)));
    let answer = endpoint.try_send_part(peer(2), &[0; HEAD], &mut source, 0..1);
    let (peer, peers) = (peer(2), 2);
    let nobody = FabricError::NoSuchPeer { peer, peers };
    assert!(answer.is_none_or(|answer| answer == Err(nobody)));
    assert_eq!(source.asked, 0);
    scene.until("what was packed", |scene| {
        scene.inboxes[1].messages() as u64 >= next
    });
    // Around any ring, with room.
    let all = next + 3 * lengths.len() as u64;
    while next < all {
        scene.repeat("room for what is packed", |scene| {
            let sent = scene.send_packed(0, 1, next, length(next));
            scene.drive();
            sent
        });
        next += 1;
    }
    scene.until("the rest of what was packed", |scene| {
        scene.inboxes[1].messages() as u64 >= next
    });
    scene.settle();
    scene.inboxes[1].check(0, next, length);
}

/// The message that comes next of a peer is taken by who asks for it, once and in its turn; to ask for another one has no effect.
pub fn what_comes_next_is_taken_by_its_head(stage: &dyn Stage) {
    const COUNT: u64 = 600;
    let mut scene = Scene::new(stage, 3);
    let limit = scene.endpoints[0].limits().data;
    let lengths = [8, 0, 64, 3, 200, 65, 88, 17, 89, limit.min(5000), limit];
    let length = |number: u64| lengths[number as usize % lengths.len()];
    let mut sent = [0; 2];
    let mut round = 0;
    scene.repeat("what comes next", |scene| {
        round += 1;
        for (index, sent) in sent.iter_mut().enumerate() {
            // Runs of different lengths, so that sometimes nothing is there.
            for _ in 0..*sent % 5 + 1 {
                if *sent < COUNT && scene.inject(index + 1, 0, *sent, length(*sent)) {
                    *sent += 1;
                }
            }
        }
        for from in [1, 2] {
            let next = scene.inboxes[0].of(from).count() as u64;
            let right = (numbered(from, next), length(next));
            let longer = (right.0, right.1 + 1);
            let later = (numbered(from, next + 1), right.1);
            for (head, length) in [longer, later, right] {
                let memory = Memory::filled(length, 0xee);
                let region = memory.region();
                let answer = scene.endpoints[0].take_next(peer(from), &head, &region);
                if answer == Next::Taken {
                    assert_eq!((head, length), right, "this one was asked for");
                    let data = memory.bytes();
                    scene.inboxes[0].message(peer(from), &head, SharedBytes::of(&data));
                } else {
                    assert!(memory.bytes().iter().all(|byte| *byte == 0xee));
                }
            }
        }
        if round % 3 == 0 {
            scene.drive();
        }
        scene.inboxes[0].messages() as u64 >= 2 * COUNT
    });
    scene.settle();
    scene.inboxes[0].check(1, COUNT, length);
    scene.inboxes[0].check(2, COUNT, length);
}

/// Messages of all interesting lengths arrive, head and data intact, in order.
pub fn every_length_arrives_whole(stage: &dyn Stage) {
    let mut scene = Scene::new(stage, 2);
    let limit = scene.endpoints[0].limits().data;
    let lengths = lengths(limit);
    for (number, length) in lengths.iter().enumerate() {
        scene.send(0, 1, number as u64, *length);
    }
    scene.until("all lengths", |scene| {
        scene.inboxes[1].messages() >= lengths.len()
    });
    scene.settle();
    scene.inboxes[1].check(0, lengths.len() as u64, |number| lengths[number as usize]);
}

/// Long and short messages mixed, many times around any ring.
pub fn random_lengths_arrive_whole(stage: &dyn Stage) {
    const COUNT: u64 = 1500;
    let mut scene = Scene::new(stage, 2);
    let limit = scene.endpoints[0].limits().data;
    let length = |number: u64| {
        let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33;
        let room = if mixed.is_multiple_of(16) { limit } else { 256 };
        (mixed / 16) as usize % (room + 1)
    };
    for number in 0..COUNT {
        scene.send(0, 1, number, length(number));
        // Let the lane run full at some times and empty at others.
        if (number / 100) % 2 == 0 {
            scene.drive();
        }
    }
    scene.until("all of them", |scene| {
        scene.inboxes[1].messages() as u64 >= COUNT
    });
    scene.settle();
    scene.inboxes[1].check(0, COUNT, length);
}

/// One byte too many is an error with both numbers, and nothing happens.
pub fn a_message_beyond_the_limit_is_refused(stage: &dyn Stage) {
    let mut scene = Scene::new(stage, 2);
    let limit = scene.endpoints[0].limits().data;
    for length in [limit + 1, limit * 2] {
        let long = vec![1; length];
        assert_eq!(
            scene.endpoints[0].try_send(peer(1), &[0; HEAD], &long),
            Err(FabricError::TooLong { length, limit })
        );
    }
    scene.send(0, 1, 0, limit);
    scene.until("the message that fits", |scene| {
        scene.inboxes[1].messages() > 0
    });
    scene.settle();
    scene.inboxes[1].check(0, 1, |_| limit);
}

/// Messages to oneself come back, in order.
pub fn a_rank_reaches_itself(stage: &dyn Stage) {
    let mut scene = Scene::new(stage, 2);
    let length = |number: u64| number as usize * 41;
    for number in 0..50 {
        scene.send(1, 1, number, length(number));
    }
    scene.until("messages to oneself", |scene| {
        scene.inboxes[1].messages() >= 50
    });
    scene.settle();
    scene.inboxes[1].check(1, 50, length);
    assert_eq!(scene.inboxes[0].messages(), 0);
}

/// A peer that does not exist is an error with its name and the number of those that do.
pub fn there_is_nobody_beyond_the_last(stage: &dyn Stage) {
    use crate::{Operation, Region, SyncKey, Token};
    let mut scene = Scene::new(stage, 2);
    for stranger in [crate::Peer(2), crate::Peer(u32::MAX)] {
        let nobody = Err(FabricError::NoSuchPeer {
            peer: stranger,
            peers: 2,
        });
        let fabric = &mut scene.endpoints[0];
        assert_eq!(fabric.try_send(stranger, &[0; HEAD], &[1]), nobody);
        assert_eq!(fabric.signal(stranger, SyncKey(1)), nobody);
        let got = fabric.get(stranger, Token(1), 0, Region::EMPTY, Operation(1));
        assert_eq!(got, nobody);
        let put = fabric.put(stranger, Token(1), 0, Region::EMPTY, Operation(2));
        assert_eq!(put, nobody);
        assert_eq!(fabric.signals(stranger, SyncKey(1)), 0);
        assert!(!fabric.take_signals(stranger, SyncKey(1), 1));
    }
    scene.settle();
    assert!(scene.inboxes.iter().all(|inbox| inbox.events.is_empty()));
}

/// A look hands out about as much as it may, and says how much.
pub fn a_look_respects_its_budget(stage: &dyn Stage) {
    const BUDGET: usize = 4;
    let mut scene = Scene::new(stage, 4);
    let mut sent = 0;
    // As many as the lanes take, at most 30, from three senders, before the receiver looks.
    for number in 0..10 {
        for sender in 1..4 {
            // Only while the numbers are without gaps.
            if sent == number * 3 + sender - 1 && scene.try_send(sender as usize, 0, number, 16) {
                sent += 1;
            }
        }
    }
    scene.repeat("all, in small portions", |scene| {
        let before = scene.inboxes[0].messages();
        let found = scene.poll(0, BUDGET);
        let came = scene.inboxes[0].messages() - before;
        assert!(
            came <= 2 * BUDGET,
            "{came} messages at a budget of {BUDGET}"
        );
        assert!(found >= came, "{found} was said, {came} were handed out");
        for sender in 1..4 {
            scene.poll(sender, BUDGET);
        }
        scene.inboxes[0].messages() as u64 == sent
    });
}

/// Where nothing happens a look finds nothing, so that waiters fall asleep.
pub fn a_quiet_fabric_finds_nothing(stage: &dyn Stage) {
    let mut scene = Scene::new(stage, 3);
    scene.settle();
    scene.send(0, 1, 0, 16);
    scene.until("one message", |scene| scene.inboxes[1].messages() == 1);
    scene.settle();
    assert_eq!(scene.inboxes[0].events, []);
    assert_eq!(scene.inboxes[1].events.len(), 1);
    assert_eq!(scene.inboxes[2].events, []);
}

/// What an endpoint says of itself.
pub fn the_face_is_sound(stage: &dyn Stage) {
    let mut scene = Scene::new(stage, 2);
    for endpoint in &mut scene.endpoints {
        let limits = endpoint.limits();
        assert!(limits.data >= 4096, "{limits:?}");
        assert!(limits.bulk > 0, "{limits:?}");
        let load = endpoint.bell().load();
        assert!(load.cores > 0, "{load:?}");
        assert!(!endpoint.route(peer(0)).is_empty());
        assert!(!endpoint.route(peer(1)).is_empty());
        assert!(endpoint.now() <= endpoint.now(), "time goes forward");
    }
    // The caller's memory is free at once: a message does not change after it was sent.
    let mut data = message_data(0, 7, 100);
    let mut head = numbered(0, 7);
    scene.repeat("room", |scene| {
        let answer = scene.endpoints[0].try_send(peer(1), &head, &data);
        scene.drive();
        answer == Ok(Posted::Done)
    });
    data.fill(0);
    head.fill(0);
    scene.until("it", |scene| scene.inboxes[1].messages() == 1);
    let Event::Message { head, data, .. } = &scene.inboxes[1].events[0] else {
        panic!("something else came: {:?}", scene.inboxes[1].events);
    };
    assert_eq!(number_of(head), 7);
    assert_eq!(data, &message_data(0, 7, 100));
}
