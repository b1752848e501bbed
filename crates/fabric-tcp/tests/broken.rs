//! Connections that break, change bytes, or lead nowhere.

#![allow(missing_docs)]

mod common;

use std::net::TcpListener;
use std::time::Duration;

use common::proxy::{Harm, Proxy};
use common::{Recorder, both, converse, join, offer, openings, with_offers};
use weft_fabric::{Fabric, HEAD, Peer, Posted};

/// Both ways through proxies that cut at random places: in the handshake, in frames, in chunks.
#[test]
fn cuts_lose_and_double_nothing() {
    for (seed, seal, most) in [(1, false, 30_000), (2, true, 30_000), (3, false, 900_000)] {
        let openings = openings(|config| config.seal = seal);
        let cards = openings.each_ref().map(|one| one.card().clone());
        let times = 25;
        let proxies = cards.each_ref().map(|card| {
            let to = card.offers[0].address;
            Proxy::new(to, Harm::Cut { seed, most, times })
        });
        let through = [0, 1]
            .map(|rank| with_offers(&cards[rank], vec![offer("proxy", proxies[rank].address)]));
        let pair = join(openings, [through.to_vec(), through.to_vec()]);
        both(pair, |fabric| converse(fabric, 1500, 12, 300_000));
        let cuts: u64 = proxies
            .iter()
            .map(|proxy| proxy.cuts.load(weft_atomic::Ordering::SeqCst))
            .sum();
        assert!(cuts >= 5, "the test did not cut: {cuts}");
    }
}

/// Delayed and throttled, in pieces that ignore the bounds of frames and records.
#[test]
fn what_drips_arrives_whole() {
    for (seed, seal) in [(1, false), (2, true), (3, false), (4, true)] {
        let openings = openings(|config| config.seal = seal);
        let cards = openings.each_ref().map(|one| one.card().clone());
        let proxies = cards
            .each_ref()
            .map(|card| Proxy::new(card.offers[0].address, Harm::Drip { seed }));
        let through = [0, 1]
            .map(|rank| with_offers(&cards[rank], vec![offer("proxy", proxies[rank].address)]));
        let pair = join(openings, [through.to_vec(), through.to_vec()]);
        both(pair, |fabric| converse(fabric, 200, 4, 100_000));
    }
}

fn poll_until(
    pair: &mut [weft_fabric_tcp::Tcp; 2],
    recorders: &mut [Recorder; 2],
    mut done: impl FnMut(&[Recorder; 2]) -> bool,
) {
    let start = std::time::Instant::now();
    while !done(recorders) {
        for (one, recorder) in pair.iter_mut().zip(recorders.iter_mut()) {
            one.poll(recorder, 16);
        }
        assert!(start.elapsed() < Duration::from_secs(30), "waited in vain");
        std::thread::yield_now();
    }
}

/// Under encryption, a changed bit never becomes a message: the side that finds it gives the peer up and says
/// why.
#[test]
fn a_flipped_bit_is_found_under_encryption() {
    for after in [1000, 1003, 2000, 5000, 20_000] {
        let openings = openings(|config| {
            config.seal = true;
            config.patience = Duration::from_secs(1);
        });
        let cards = openings.each_ref().map(|one| one.card().clone());
        let proxy = Proxy::new(cards[1].offers[0].address, Harm::Flip { after });
        let through = with_offers(&cards[1], vec![offer("proxy", proxy.address)]);
        let views = [
            vec![cards[0].clone(), through],
            vec![with_offers(&cards[0], vec![]), cards[1].clone()],
        ];
        let mut pair = join(openings, views);
        let mut recorders = [Recorder::default(), Recorder::default()];
        let mut sent = 0u64;
        let start = std::time::Instant::now();
        while recorders.iter().all(|recorder| recorder.lost.is_none()) {
            let head = weft_fabric::conformance::numbered(0, sent);
            let data = weft_fabric::conformance::message_data(0, sent, 500);
            if let Ok(Posted::Done) = pair[0].try_send(Peer(1), &head, &data) {
                sent += 1;
            }
            for (one, recorder) in pair.iter_mut().zip(recorders.iter_mut()) {
                one.poll(recorder, 16);
            }
            assert!(
                start.elapsed() < Duration::from_secs(30),
                "not found: {after}"
            );
        }
        let reasons: Vec<_> = recorders
            .iter()
            .filter_map(|recorder| recorder.lost.clone())
            .collect();
        assert!(
            reasons.iter().any(|reason| reason.contains("changed")),
            "{reasons:?}"
        );
        let came = recorders[1].inbox.messages() as u64;
        recorders[1].inbox.check(0, came, |_| 500);
        // The side that was not told would wait for the other, which cannot answer in this same thread.
        pair.into_iter().for_each(weft_fabric_tcp::Tcp::die);
    }
}

/// Addresses that lead to the rank itself, to a silent listener, to nobody, to a black hole: the one that
/// works is found among them.
#[test]
fn decoys_cost_nothing_but_their_sockets() {
    let openings = openings(|_| ());
    let cards = openings.each_ref().map(|one| one.card().clone());
    let silent = Proxy::new(cards[0].offers[0].address, Harm::Silence);
    let closed = TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .expect("a port is left");
    let decoyed = [0, 1].map(|rank: usize| {
        let own = cards[1 - rank].offers[0].address;
        with_offers(
            &cards[rank],
            vec![
                offer("same", own),
                offer("silent", silent.address),
                offer("closed", closed),
                offer("hole", "192.0.2.1:9".parse().expect("an address")),
                cards[rank].offers[0].clone(),
            ],
        )
    });
    let pair = join(openings, [decoyed.to_vec(), decoyed.to_vec()]);
    let start = std::time::Instant::now();
    both(pair, |fabric| converse(fabric, 1, 0, 0));
    println!("first messages beside decoys: {:?}", start.elapsed());
}

/// A connection that cannot work is an error that names host, interface, peer and port.
#[test]
fn what_cannot_be_reached_is_named() {
    for hole in [false, true] {
        let openings = openings(|config| config.connect = Duration::from_millis(300));
        let cards = openings.each_ref().map(|one| one.card().clone());
        let address = match hole {
            true => "192.0.2.1:4321".parse().expect("an address"),
            false => TcpListener::bind("127.0.0.1:0")
                .and_then(|listener| listener.local_addr())
                .expect("a port is left"),
        };
        let wrong = with_offers(&cards[1], vec![offer("eth7", address)]);
        let views = [
            vec![cards[0].clone(), wrong],
            vec![cards[0].clone(), cards[1].clone()],
        ];
        let mut pair = join(openings, views);
        let mut recorders = [Recorder::default(), Recorder::default()];
        assert_eq!(
            pair[0].try_send(Peer(1), &[0; HEAD], b"lost"),
            Ok(Posted::Done)
        );
        poll_until(&mut pair, &mut recorders, |recorders| {
            recorders[0].lost.is_some()
        });
        let reason = recorders[0].lost.clone().expect("just seen");
        for part in ["rank 1", &cards[1].host, "eth7", &address.to_string()] {
            assert!(reason.contains(part), "'{part}' is not in: {reason}");
        }
        let refused = pair[0].try_send(Peer(1), &[0; HEAD], b"later");
        assert!(refused.is_err(), "{refused:?}");
    }
}

/// A listener that does not know the key is reported as such.
#[test]
fn a_peer_that_does_not_know_the_key_is_named() {
    let openings = openings(|config| config.connect = Duration::from_millis(300));
    let cards = openings.each_ref().map(|one| one.card().clone());
    let intruder = Proxy::new(cards[1].offers[0].address, Harm::Slam);
    let wrong = with_offers(&cards[1], vec![offer("eth7", intruder.address)]);
    let mut pair = join(openings, [vec![cards[0].clone(), wrong], cards.to_vec()]);
    let mut recorders = [Recorder::default(), Recorder::default()];
    let sent = pair[0].try_send(Peer(1), &[0; HEAD], b"lost");
    assert_eq!(sent, Ok(Posted::Done));
    poll_until(&mut pair, &mut recorders, |recorders| {
        recorders[0].lost.is_some()
    });
    let reason = recorders[0].lost.clone().expect("just seen");
    let said = format!(
        "{} (eth7): it left before it had proved the key",
        intruder.address
    );
    assert!(reason.contains(&said), "'{said}' is not in: {reason}");
}

/// While a silent listener, perhaps the computing peer, answers at one address, the others are called again
/// even after patience has ended, and the caller sleeps in between.
#[test]
fn beside_somebody_silent_other_addresses_are_called_again() {
    let patience = Duration::from_millis(200);
    let openings = openings(|config| config.connect = patience);
    let cards = openings.each_ref().map(|one| one.card().clone());
    let silent = Proxy::new(cards[1].offers[0].address, Harm::Silence);
    let later = TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .expect("a port is left");
    let offers = vec![offer("silent", silent.address), offer("later", later)];
    let views = [
        vec![cards[0].clone(), with_offers(&cards[1], offers)],
        cards.to_vec(),
    ];
    let mut pair = join(openings, views);
    let mut recorders = [Recorder::default(), Recorder::default()];
    let sent = pair[0].try_send(Peer(1), &[0; HEAD], b"found");
    assert_eq!(sent, Ok(Posted::Done));
    let start = std::time::Instant::now();
    poll_until(&mut pair, &mut recorders, |_| {
        start.elapsed() > 2 * patience
    });
    // The rank sleeps at least half of the pauses between calls.
    let slept = std::time::Instant::now();
    for _ in 0..10 {
        let bell = pair[0].bell();
        let ticket = bell.prepare();
        bell.wait(ticket, Some(Duration::from_millis(20)));
        pair[0].poll(&mut recorders[0], 16);
    }
    assert!(slept.elapsed() > Duration::from_millis(60), "nobody slept");
    let listener = TcpListener::bind(later).expect("it is free still");
    let _opened = Proxy::at(listener, cards[1].offers[0].address, Harm::Drip { seed: 1 });
    poll_until(&mut pair, &mut recorders, |recorders| {
        recorders[1].inbox.messages() == 1
    });
    assert_eq!(recorders[0].lost, None);
}

/// A peer whose process has ended without a goodbye is lost at once, and what waited for it ends.
#[test]
fn a_peer_that_is_gone_is_lost_with_its_transfers() {
    use weft_fabric::conformance::Memory;
    use weft_fabric::{Operation, Token};
    let openings = openings(|_| ());
    let cards = openings.each_ref().map(|one| one.card().clone());
    let [mut left, right] = join(openings, [cards.to_vec(), cards.to_vec()]);
    let mut recorder = Recorder::default();
    let stays = std::thread::spawn(move || {
        let mut right = right;
        let mut recorder = Recorder::default();
        while recorder.inbox.messages() == 0 {
            right.poll(&mut recorder, 8);
        }
        right.die();
    });
    assert_eq!(
        left.try_send(Peer(1), &[0; HEAD], b"last"),
        Ok(Posted::Done)
    );
    while !stays.is_finished() {
        left.poll(&mut recorder, 8);
    }
    stays.join().expect("it only listened");
    let mine = Memory::filled(100, 0);
    let asked = left.get(Peer(1), Token(1), 0, mine.region(), Operation(7));
    let start = std::time::Instant::now();
    while recorder.lost.is_none() {
        left.poll(&mut recorder, 8);
        assert!(start.elapsed() < Duration::from_secs(30), "never lost");
    }
    let reason = recorder.lost.clone().expect("just seen");
    assert!(reason.contains(&cards[1].host), "{reason}");
    if asked == Ok(Posted::Pending) {
        left.poll(&mut recorder, 8);
        let ended = recorder
            .inbox
            .transfer_completed(Operation(7))
            .expect("it has ended");
        assert!(ended.is_err(), "{ended:?}");
    }
}
