//! A process that ends without a goodbye is lost; one that has said goodbye has left, however it ends.

#![allow(missing_docs)]

mod common;

use std::time::{Duration, Instant};

use common::{Recorder, join, openings};
use weft_fabric::{Fabric, HEAD, Peer, Posted};
use weft_fabric_tcp::Tcp;

fn pair(seal: bool) -> [Tcp; 2] {
    let openings = openings(|config| config.seal = seal);
    let cards = openings.each_ref().map(|one| one.card().clone());
    join(openings, [cards.to_vec(), cards.to_vec()])
}

fn post(from: &mut Tcp, to: u32) {
    assert_eq!(from.try_send(Peer(to), &[0; HEAD], b"x"), Ok(Posted::Done));
}

/// Polls both until each has what the other sent and all is handed over.
fn exchange(pair: &mut [Tcp; 2], recorders: &mut [Recorder; 2], messages: usize) {
    let start = Instant::now();
    loop {
        for (one, recorder) in pair.iter_mut().zip(recorders.iter_mut()) {
            one.poll(recorder, 16);
        }
        let come = recorders
            .iter()
            .all(|recorder| recorder.inbox.messages() == messages);
        if come && pair.iter_mut().all(|one| one.is_flushed()) {
            return;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "waited in vain");
        std::thread::yield_now();
    }
}

/// Looks until `until` holds.
fn watch(one: &mut Tcp, recorder: &mut Recorder, until: impl Fn(&Recorder) -> bool) {
    let start = Instant::now();
    while !until(recorder) && start.elapsed() < Duration::from_secs(20) {
        one.poll(recorder, 16);
        std::thread::yield_now();
    }
}

/// Looks as often as suffices for a refused connection to be noticed.
fn look_on(one: &mut Tcp, recorder: &mut Recorder) {
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(200) {
        one.poll(recorder, 16);
        std::thread::yield_now();
    }
}

#[test]
fn a_peer_that_has_said_goodbye_may_end_in_any_way() {
    for seal in [false, true] {
        let (mut pair, mut recorders) = (pair(seal), <[Recorder; 2]>::default());
        post(&mut pair[0], 1);
        post(&mut pair[1], 0);
        exchange(&mut pair, &mut recorders, 1);
        pair[1].say_goodbye();
        exchange(&mut pair, &mut recorders, 1);
        let [mut stays, goes] = pair;
        goes.die();
        look_on(&mut stays, &mut recorders[0]);
        assert_eq!(recorders[0].lost, None);
        // Messages to the peer would be lost: none is taken, and the sender is told once the peer is found to
        // have ended.
        let told = |stays: &mut Tcp| match stays.try_send(Peer(1), &[0; HEAD], b"x") {
            Ok(posted) => {
                assert_eq!(posted, Posted::Retry);
                false
            }
            Err(_) => true,
        };
        let start = Instant::now();
        while !told(&mut stays) {
            assert!(start.elapsed() < Duration::from_secs(20), "never told");
            stays.poll(&mut recorders[0], 16);
            std::thread::yield_now();
        }
        assert_eq!(recorders[0].lost, None);
        assert!(stays.is_flushed());
    }
}

#[test]
fn a_goodbye_is_read_also_if_sending_fails_first() {
    let (mut pair, mut recorders) = (pair(false), <[Recorder; 2]>::default());
    post(&mut pair[0], 1);
    post(&mut pair[1], 0);
    exchange(&mut pair, &mut recorders, 1);
    let [mut stays, mut goes] = pair;
    post(&mut goes, 0);
    goes.say_goodbye();
    while !goes.is_flushed() {
        std::thread::yield_now();
    }
    goes.die();
    // The first is answered by a reset, the others find the connection broken.
    for _ in 0..3 {
        let _ = stays.try_send(Peer(1), &[0; HEAD], b"x");
        std::thread::sleep(common::MOMENT);
    }
    look_on(&mut stays, &mut recorders[0]);
    assert_eq!(
        (recorders[0].inbox.messages(), &recorders[0].lost),
        (2, &None)
    );
}

#[test]
fn what_is_sent_later_takes_a_goodbye_back() {
    let (mut pair, mut recorders) = (pair(false), <[Recorder; 2]>::default());
    post(&mut pair[0], 1);
    post(&mut pair[1], 0);
    exchange(&mut pair, &mut recorders, 1);
    pair[1].say_goodbye();
    post(&mut pair[1], 0);
    post(&mut pair[0], 1);
    exchange(&mut pair, &mut recorders, 2);
    let [mut stays, goes] = pair;
    goes.die();
    watch(&mut stays, &mut recorders[0], |recorder| {
        recorder.lost.is_some()
    });
    assert!(recorders[0].lost.is_some(), "it ended without a word");
}
