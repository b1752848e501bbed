//! Properties of signals.

use super::Stage;
use super::inbox::Event;
use super::scene::{Scene, peer, sent};
use crate::SyncKey;

const KEY: SyncKey = SyncKey(0x77_0000_0001);

/// Signals that nobody has asked for yet are kept, and two are two.
pub fn early_and_double_signals_are_counted(stage: &dyn Stage) {
    let mut scene = Scene::new(stage, 2);
    assert_eq!(scene.endpoints[1].signals(peer(0), KEY), 0);
    scene.signal(0, 1, KEY);
    scene.signal(0, 1, KEY);
    scene.until("two signals", |scene| {
        scene.endpoints[1].signals(peer(0), KEY) == 2
    });
    scene.settle();
    let told = scene.inboxes[1].events.len();
    assert!((1..=2).contains(&told), "the sink was told {told} times");
    let of = |event: &Event| *event == Event::Signalled(peer(0), KEY);
    assert!(scene.inboxes[1].events.iter().all(of));
    assert!(scene.endpoints[1].take_signals(peer(0), KEY, 1));
    assert_eq!(scene.endpoints[1].signals(peer(0), KEY), 1);
    assert!(scene.endpoints[1].take_signals(peer(0), KEY, 1));
    assert_eq!(scene.endpoints[1].signals(peer(0), KEY), 0);
    assert_eq!(scene.endpoints[0].signals(peer(1), KEY), 0);
}

/// Two that signal each other at once both get theirs.
pub fn crossing_signals_both_arrive(stage: &dyn Stage) {
    let mut scene = Scene::new(stage, 2);
    for round in 0..100 {
        scene.signal(0, 1, KEY);
        scene.signal(1, 0, KEY);
        scene.until("both signals", |scene| {
            (0..2).all(|rank| scene.endpoints[rank].signals(peer(1 - rank), KEY) >= 1)
        });
        for rank in 0..2 {
            assert!(
                scene.endpoints[rank].take_signals(peer(1 - rank), KEY, 1),
                "round {round}"
            );
        }
    }
    scene.settle();
    assert_eq!(scene.endpoints[0].signals(peer(1), KEY), 0);
    assert_eq!(scene.endpoints[1].signals(peer(0), KEY), 0);
}

/// Once a signal is counted, all messages that its sender sent before are handed out.
pub fn signals_do_not_overtake_messages(stage: &dyn Stage) {
    const ROUNDS: u64 = 200;
    let mut scene = Scene::new(stage, 2);
    let (mut number, mut signals) = (0, 0);
    let check = |scene: &Scene| {
        let mut came = 0;
        let mut signalled = 0;
        for event in &scene.inboxes[1].events {
            match event {
                Event::Message { .. } => came += 1,
                Event::Signalled(..) => {
                    signalled += 1;
                    assert!(came >= signalled * 3, "signal {signalled} overtook");
                }
                _ => {}
            }
        }
        // What is counted counts, also if the sink is told once of several.
        assert!(came >= scene.endpoints[1].signals(peer(0), KEY) * 3);
    };
    scene.repeat("messages and signals in turn", |scene| {
        while signals < ROUNDS {
            if number < (signals + 1) * 3 {
                if !scene.try_send(0, 1, number, (number % 300) as usize) {
                    break;
                }
                number += 1;
            } else if sent(scene.endpoints[0].signal(peer(1), KEY)) {
                signals += 1;
            } else {
                break;
            }
        }
        scene.poll(0, 1);
        scene.poll(1, 2);
        assert!(scene.inboxes[1].messages() as u64 >= scene.endpoints[1].signals(peer(0), KEY) * 3);
        scene.endpoints[1].signals(peer(0), KEY) == ROUNDS
    });
    scene.settle();
    check(&scene);
    scene.inboxes[1].check(0, ROUNDS * 3, |number| (number % 300) as usize);
}

/// Taking more than there is takes nothing; taking none always works.
pub fn no_more_can_be_taken_than_there_is(stage: &dyn Stage) {
    let mut scene = Scene::new(stage, 2);
    assert!(!scene.endpoints[1].take_signals(peer(0), KEY, 1));
    assert!(scene.endpoints[1].take_signals(peer(0), KEY, 0));
    for _ in 0..3 {
        scene.signal(0, 1, KEY);
    }
    scene.until("three signals", |scene| {
        scene.endpoints[1].signals(peer(0), KEY) == 3
    });
    assert!(!scene.endpoints[1].take_signals(peer(0), KEY, 4));
    assert!(!scene.endpoints[1].take_signals(peer(0), KEY, u64::MAX));
    assert_eq!(scene.endpoints[1].signals(peer(0), KEY), 3);
    assert!(scene.endpoints[1].take_signals(peer(0), KEY, 3));
    assert!(!scene.endpoints[1].take_signals(peer(0), KEY, 1));
}

/// A thousand keys, two senders: nothing mixes.
pub fn keys_and_senders_are_kept_apart(stage: &dyn Stage) {
    const KEYS: u64 = 1000;
    let key = |number: u64| SyncKey(number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let mut scene = Scene::new(stage, 3);
    for number in 0..KEYS {
        scene.signal(1, 0, key(number));
        if number % 3 == 0 {
            scene.signal(2, 0, key(number));
        }
    }
    scene.signal(2, 0, KEY);
    scene.until("the last of both", |scene| {
        scene.endpoints[0].signals(peer(2), KEY) >= 1
            && scene.endpoints[0].signals(peer(1), key(KEYS - 1)) >= 1
    });
    scene.settle();
    for number in 0..KEYS {
        let there = [1, 2].map(|from| scene.endpoints[0].signals(peer(from), key(number)));
        assert_eq!(there, [1, u64::from(number % 3 == 0)], "key {number}");
    }
    assert_eq!(scene.endpoints[0].signals(peer(1), KEY), 0);
    assert!(scene.endpoints[0].take_signals(peer(1), key(3), 1));
    assert_eq!(scene.endpoints[0].signals(peer(2), key(3)), 1);
}

/// Forgetting drops what is there of that key; later signals count anew.
pub fn forgetting_a_key_drops_its_signals_alone(stage: &dyn Stage) {
    let mut scene = Scene::new(stage, 2);
    let other = SyncKey(KEY.0 + 1);
    scene.signal(0, 1, KEY);
    scene.signal(0, 1, other);
    scene.until("both", |scene| {
        scene.endpoints[1].signals(peer(0), KEY) == 1
            && scene.endpoints[1].signals(peer(0), other) == 1
    });
    scene.endpoints[1].forget(KEY);
    scene.endpoints[1].forget(SyncKey(12345));
    assert_eq!(scene.endpoints[1].signals(peer(0), KEY), 0);
    assert_eq!(scene.endpoints[1].signals(peer(0), other), 1);
    scene.signal(0, 1, KEY);
    scene.until("a new one", |scene| {
        scene.endpoints[1].signals(peer(0), KEY) == 1
    });
}

/// A rank may be its own partner, as in a barrier of one.
pub fn a_rank_signals_itself(stage: &dyn Stage) {
    let mut scene = Scene::new(stage, 1);
    scene.signal(0, 0, KEY);
    scene.signal(0, 0, KEY);
    scene.until("its own signals", |scene| {
        scene.endpoints[0].signals(peer(0), KEY) == 2
    });
}

/// Far more signals than any lane holds.
pub fn many_signals_are_all_counted(stage: &dyn Stage) {
    const COUNT: u64 = 3000;
    let mut scene = Scene::new(stage, 2);
    for _ in 0..COUNT {
        scene.signal(0, 1, KEY);
    }
    scene.until("all signals", |scene| {
        scene.endpoints[1].signals(peer(0), KEY) == COUNT
    });
    scene.settle();
    assert!(scene.endpoints[1].take_signals(peer(0), KEY, COUNT));
}
