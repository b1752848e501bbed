//! Messages and signals: order, credit, wrapping round, many lanes, sleep.

mod common;

use std::thread;
use std::time::Duration;

use common::*;
use weft_fabric::waiting::{Step, Waiting};
use weft_fabric::{Fabric, FabricError, Peer, Posted, SyncKey};
use weft_fabric_shm::{Options, Shm};

/// Lengths around every boundary of a slot and of the bulk area.
const LENGTHS: [usize; 16] = [
    0, 1, 3, 4, 7, 8, 9, 16, 17, 24, 25, 88, 89, 1000, 4096, 16384,
];

#[test]
fn order_and_bytes_survive_many_laps() {
    let (mut one, mut two) = pair(&Options::default());
    let (mut sent, mut inbox) = (0u64, Inbox::default());
    while sent < 20_000 {
        // As many as fit, then a look: the lane is full now and then, and empty now and then.
        for _ in 0..(sent % 300) + 1 {
            let data = pattern(sent, LENGTHS[(sent % 16) as usize]);
            if !send(&mut one, 1, sent, &data) {
                break;
            }
            sent += 1;
        }
        two.poll(&mut inbox, 1 + (sent % 500) as usize);
    }
    while two.poll(&mut inbox, 64) > 0 {}
    assert_eq!(inbox.messages.len() as u64, sent);
    for (index, (from, number, data)) in inbox.messages.into_iter().enumerate() {
        assert_eq!((from, number), (Peer(0), index as u64));
        assert!(data == pattern(number, LENGTHS[(number % 16) as usize]));
    }
}

#[test]
fn without_credit_a_send_is_refused_without_effect_and_works_later() {
    for length in [8, 88, 5000, 16384] {
        let (mut one, mut two) = pair(&Options::default());
        let data = pattern(1, length);
        let mut sent = 0;
        while send(&mut one, 1, sent, &data) {
            sent += 1;
            assert!(sent < 10_000, "credit never ends");
        }
        assert!(sent >= 4);
        for _ in 0..3 {
            assert!(!send(&mut one, 1, 999, &data), "still full");
        }
        let mut inbox = Inbox::default();
        while two.poll(&mut inbox, 7) > 0 {}
        assert_eq!(inbox.messages.len() as u64, sent);
        assert!(
            send(&mut one, 1, sent, &data),
            "a drained lane takes any message"
        );
        while two.poll(&mut inbox, 7) > 0 {}
        let numbers: Vec<_> = inbox.messages.iter().map(|message| message.1).collect();
        assert_eq!(numbers, (0..=sent).collect::<Vec<_>>());
    }
}

#[test]
fn a_drained_lane_takes_any_length_at_any_point() {
    // Every shape, lengths that leave the bulk area at awkward places.
    for ranks in [2, 12, 40, 100] {
        let mut group = Shm::group(ranks).expect("endpoints");
        let limit = group[0].limits().data;
        let mut two = group.pop().expect("the last");
        let (to, one) = (ranks - 1, &mut group[0]);
        let mut inbox = Inbox::default();
        for round in 0..400 {
            let length = [limit, 89, limit / 2 + 64, limit - 63, 4096, limit / 3][round % 6];
            let data = pattern(round as u64, length);
            assert!(
                send(one, to, round as u64, &data),
                "{ranks} ranks, {length}"
            );
            assert!(two.poll(&mut inbox, 10) > 0);
            let (_, number, found) = inbox.messages.pop().expect("it came");
            assert!(number == round as u64 && found == data);
        }
    }
}

#[test]
fn sending_to_oneself_works_and_limits_hold() {
    let mut solo = Shm::solo().expect("a job of one");
    assert!(send(&mut solo, 0, 5, b"hello"));
    let mut inbox = Inbox::default();
    assert_eq!(solo.poll(&mut inbox, 10), 1);
    assert_eq!(inbox.messages, [(Peer(0), 5, b"hello".to_vec())]);
    let limit = solo.limits().data;
    assert!(limit >= 4096);
    let error = solo.try_send(Peer(0), &head(0), &vec![0; limit + 1]);
    assert!(matches!(error, Err(FabricError::TooLong { .. })));
    let error = solo.try_send(Peer(1), &head(0), &[]);
    assert!(matches!(error, Err(FabricError::NoSuchPeer { .. })));
    assert!(solo.signal(Peer(9), SyncKey(1)).is_err());
}

#[test]
fn many_senders_hot_and_cold_are_all_served() {
    for options in [Options::default(), kernel_fences(), full_fences()] {
        many_senders(&options);
    }
}

fn many_senders(options: &Options) {
    let mut group = Shm::group_with(24, options).expect("endpoints");
    let mut receiver = group.remove(0);
    let mut inbox = Inbox::default();
    let mut next = vec![0u64; 24];
    // The busy ones change over time, so lanes become hot and cold again.
    for round in 0..3000u64 {
        for (place, sender) in group.iter_mut().enumerate() {
            let rank = place + 1;
            let busy = (round / 300) as usize % 4 * 5;
            if (busy..busy + 6).contains(&place) || round % 97 == place as u64 {
                while !send(sender, 0, next[rank], &pattern(next[rank], rank)) {
                    receiver.poll(&mut inbox, 3);
                }
                next[rank] += 1;
            }
        }
        receiver.poll(&mut inbox, 5);
    }
    while receiver.poll(&mut inbox, 5) > 0 {}
    let mut seen = vec![0u64; 24];
    for (from, number, data) in inbox.messages {
        assert_eq!(number, seen[from.index()], "order of {from}");
        assert!(data == pattern(number, from.index()));
        seen[from.index()] += 1;
    }
    assert_eq!(seen, next, "all came");
}

#[test]
fn a_flood_of_one_does_not_keep_another_waiting() {
    let mut group = Shm::group(3).expect("endpoints");
    let mut receiver = group.remove(0);
    let mut inbox = Inbox::default();
    for number in 0..200 {
        assert!(send(&mut group[0], 0, number, b"flood"));
    }
    assert!(send(&mut group[1], 0, 0, b"single"));
    let mut looks = 0;
    while !inbox.messages.iter().any(|message| message.0 == Peer(2)) {
        receiver.poll(&mut inbox, 1);
        looks += 1;
        assert!(looks < 40, "the single message waits behind the flood");
    }
}

#[test]
fn signals_are_counted_and_do_not_overtake() {
    let (mut one, mut two) = pair(&Options::default());
    assert!(send(&mut one, 1, 1, b"before"));
    for _ in 0..3 {
        assert_eq!(one.signal(Peer(1), SyncKey(7)), Ok(Posted::Done));
    }
    let mut inbox = Inbox::default();
    while inbox.signalled.is_empty() {
        assert_eq!(two.poll(&mut inbox, 1), 1);
        assert_eq!(inbox.messages.len(), 1, "the message came first");
    }
    while two.poll(&mut inbox, 1) > 0 {}
    assert_eq!(two.signals(Peer(0), SyncKey(7)), 3);
    assert_eq!(two.signals(Peer(0), SyncKey(8)), 0);
    assert!(!two.take_signals(Peer(0), SyncKey(7), 4));
    assert!(two.take_signals(Peer(0), SyncKey(7), 2));
    two.forget(SyncKey(7));
    assert_eq!(two.signals(Peer(0), SyncKey(7)), 0);
}

/// Sleeps until something comes, as the layers above do.
fn wait(shm: &mut Shm, inbox: &mut Inbox, spin: bool) {
    let bell = shm.bell();
    let mut waiting = Waiting::new();
    while shm.poll(inbox, 64) == 0 {
        if spin && waiting.step(&*bell) == Step::Look {
            continue;
        }
        let ticket = bell.prepare();
        if shm.poll(inbox, 64) > 0 {
            bell.cancel(ticket);
            return;
        }
        // Far longer than the test takes: a lost wake-up makes it fail, below.
        bell.wait(ticket, Some(Duration::from_secs(20)));
    }
}

fn sleepers_take_turns(options: &Options, spin: bool) {
    const ROUNDS: u64 = 5_000;
    let (one, two) = pair(options);
    let start = std::time::Instant::now();
    let side = move |mut shm: Shm, first: bool| {
        let other = 1 - shm.me().0;
        let mut inbox = Inbox::default();
        for round in 0..ROUNDS {
            if first {
                assert!(send(&mut shm, other, round, &[]));
            }
            while inbox.messages.is_empty() {
                wait(&mut shm, &mut inbox, spin);
            }
            let (_, number, _) = inbox.messages.remove(0);
            assert_eq!(number, round);
            if !first {
                assert!(send(&mut shm, other, round, &[]));
            }
        }
        shm
    };
    let other = thread::spawn(move || side(two, false));
    let one = side(one, true);
    let two = other.join().expect("the other side ends");
    assert!(
        start.elapsed() < Duration::from_secs(18),
        "a wake-up was lost"
    );
    let load = one.bell().load();
    assert_eq!(load.awake, 2, "both are counted as awake again");
    drop(two);
    assert_eq!(one.bell().load().awake, 1);
}

#[test]
fn sleepers_are_woken_whichever_way_is_fenced() {
    for spin in [false, true] {
        sleepers_take_turns(&kernel_fences(), spin);
        sleepers_take_turns(&full_fences(), spin);
    }
}

#[test]
fn a_sender_without_credit_is_woken_when_there_is_room() {
    let (mut one, mut two) = pair(&Options::default());
    let sender = thread::spawn(move || {
        let start = std::time::Instant::now();
        let bell = one.bell();
        let mut inbox = Inbox::default();
        for number in 0..3000 {
            while !send(&mut one, 1, number, &[7; 3000]) {
                let ticket = bell.prepare();
                one.poll(&mut inbox, 10);
                if send(&mut one, 1, number, &[7; 3000]) {
                    bell.cancel(ticket);
                    break;
                }
                bell.wait(ticket, Some(Duration::from_secs(20)));
            }
        }
        assert!(
            start.elapsed() < Duration::from_secs(18),
            "a wake-up was lost"
        );
        one
    });
    let mut inbox = Inbox::default();
    while inbox.messages.len() < 3000 {
        wait(&mut two, &mut inbox, false);
    }
    assert!(inbox.messages.iter().map(|message| message.1).eq(0..3000));
    sender.join().expect("the sender ends");
}

#[test]
fn an_abort_is_told_to_the_others_and_wakes_them() {
    let (one, mut two) = pair(&Options::default());
    let sleeper = thread::spawn(move || {
        let mut inbox = Inbox::default();
        while inbox.lost.is_empty() {
            wait(&mut two, &mut inbox, false);
        }
        assert_eq!(inbox.lost.len(), 1);
        assert!(inbox.lost[0].1.contains("code 7"), "{:?}", inbox.lost);
        assert!(matches!(
            two.try_send(Peer(0), &head(0), &[]),
            Err(FabricError::PeerLost { .. })
        ));
    });
    one.abort(7);
    sleeper.join().expect("it was told");
}

#[test]
fn a_peer_that_has_left_takes_no_more_than_fits() {
    let (mut one, two) = pair(&Options::default());
    drop(two);
    let mut sent = 0;
    let error = loop {
        match one.try_send(Peer(1), &head(sent), &[]) {
            Ok(Posted::Done) => sent += 1,
            other => break other,
        }
        assert!(sent < 10_000);
    };
    assert!(
        matches!(error, Err(FabricError::PeerLost { .. })),
        "{error:?}"
    );
}

/// Threads that sleep, senders that come and go: lanes become hot and cold while others send.
#[test]
fn hot_and_cold_change_under_way_and_nothing_is_lost() {
    const EACH: u64 = 4_000;
    for options in [Options::default(), kernel_fences(), full_fences()] {
        let mut group = Shm::group_with(9, &options).expect("endpoints");
        let mut receiver = group.remove(0);
        let senders: Vec<_> = group
            .into_iter()
            .map(|mut shm| {
                thread::spawn(move || {
                    let mut inbox = Inbox::default();
                    let bell = shm.bell();
                    for number in 0..EACH {
                        while !send(&mut shm, 0, number, &[]) {
                            let ticket = bell.prepare();
                            if send(&mut shm, 0, number, &[]) {
                                bell.cancel(ticket);
                                break;
                            }
                            shm.poll(&mut inbox, 1);
                            bell.wait(ticket, Some(Duration::from_secs(20)));
                        }
                        // Bursts: some lanes are busy while others rest.
                        if number % 500 == u64::from(shm.me().0) * 50 {
                            thread::sleep(Duration::from_millis(1));
                        }
                    }
                    shm
                })
            })
            .collect();
        let start = std::time::Instant::now();
        let mut inbox = Inbox::default();
        let mut next = [0; 9];
        while next.iter().sum::<u64>() < 8 * EACH {
            wait(&mut receiver, &mut inbox, false);
            for (from, number, _) in inbox.messages.drain(..) {
                assert_eq!(number, next[from.index()]);
                next[from.index()] += 1;
            }
        }
        for sender in senders {
            sender.join().expect("it sent all");
        }
        assert!(
            start.elapsed() < Duration::from_secs(18),
            "a wake-up was lost"
        );
    }
}

/// A thousand ranks: nothing but address space until somebody talks.
#[test]
fn a_thousand_ranks_have_lanes_too() {
    let mut group = Shm::group(1024).expect("endpoints");
    let mut last = group.pop().expect("many");
    let limit = last.limits().data;
    let mut inbox = Inbox::default();
    for (place, sender) in group.iter_mut().enumerate().step_by(37) {
        assert!(send(sender, 1023, place as u64, &vec![1; limit]));
    }
    while last.poll(&mut inbox, 100) > 0 {}
    assert_eq!(inbox.messages.len(), 1023usize.div_ceil(37));
    assert!(
        inbox
            .messages
            .iter()
            .all(|(from, number, _)| from.index() as u64 == *number)
    );
}
