//! A process that is absent tells its peers, whatever they do meanwhile, and may end at once.

#![allow(missing_docs)]

mod common;

use std::time::{Duration, Instant};

use common::Recorder;
use weft_fabric::{Fabric, HEAD, Peer, Posted};
use weft_fabric_tcp::Tcp;
use weft_secure::Key;

/// How long a notice may take to arrive.
const WHILE: Duration = Duration::from_secs(20);

/// Looks; returns whether the rank learns of the absence.
fn hears(one: &mut Tcp) -> bool {
    one.poll(&mut Recorder::default(), 16);
    one.bell().absences().include(0)
}

fn looks_until_it_hears(one: &mut Tcp) {
    let start = Instant::now();
    while !hears(one) {
        assert!(start.elapsed() < WHILE, "never told");
        std::thread::yield_now();
    }
}

/// Waits until all its notices have left it. Nobody else looks.
fn flush(one: &mut Tcp) {
    let start = Instant::now();
    while !one.is_flushed() {
        assert!(start.elapsed() < WHILE, "it does not leave");
        std::thread::yield_now();
    }
}

#[test]
fn an_absent_peer_is_known_to_peers_that_look_after_its_end() {
    for seal in [false, true] {
        let group = Tcp::group(4, |config| config.seal = seal).expect("loopback is there");
        let Ok([mut stays, mut goes, mut late, gone]) = <[Tcp; 4]>::try_from(group) else {
            unreachable!("four were made");
        };
        gone.die();
        for peer in [0, 2, 3] {
            goes.announce_absence(Peer(peer));
        }
        flush(&mut goes);
        goes.die();
        looks_until_it_hears(&mut stays);
        looks_until_it_hears(&mut late);
        assert_eq!(stays.refusals().all(), 0, "it is no stranger");
        assert!(stays.traffic().links.is_empty(), "nor has it a connection");
        assert!(stays.is_flushed());
    }
}

/// A notice is not a connection: both talk as before, and the peer is not lost.
#[test]
fn an_existing_connection_is_kept() {
    let mut pair = Tcp::group(2, |_| ()).expect("loopback is there");
    let mut recorders = [Recorder::default(), Recorder::default()];
    let mut heard = 0;
    for turn in 1..=2 {
        for (from, to) in [(0, 1), (1, 0)] {
            let sent = pair[from].try_send(Peer(to), &[0; HEAD], b"x");
            assert_eq!(sent, Ok(Posted::Done));
        }
        let start = Instant::now();
        while recorders.iter().any(|one| one.inbox.messages() < turn) {
            for (one, recorder) in pair.iter_mut().zip(&mut recorders) {
                one.poll(recorder, 16);
            }
            assert!(start.elapsed() < WHILE, "waited in vain");
        }
        heard += usize::from(pair[0].bell().absences().include(0));
        pair[1].announce_absence(Peer(0));
        flush(&mut pair[1]);
        looks_until_it_hears(&mut pair[0]);
    }
    assert_eq!(heard, 1, "it is known from the first notice on");
    assert!(recorders.iter().all(|one| one.lost.is_none()));
}

/// A stranger without the key is not believed.
#[test]
fn a_stranger_tells_nothing() {
    let openings = common::openings(|config| {
        if config.me == 1 {
            config.key = Key::from_bytes([7; Key::BYTES]);
        }
    });
    let cards = openings.each_ref().map(|one| one.card().clone());
    let [mut stays, mut stranger] = common::join(openings, [cards.to_vec(), cards.to_vec()]);
    stranger.announce_absence(Peer(0));
    flush(&mut stranger);
    let start = Instant::now();
    while stays.refusals().all() == 0 {
        assert!(!hears(&mut stays) && start.elapsed() < WHILE);
    }
    assert!(!hears(&mut stays));
}
