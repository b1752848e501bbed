//! A corked endpoint sends what it has taken when it is uncorked, and in one piece.

#![allow(missing_docs)]

mod common;

use std::time::{Duration, Instant};

use common::Recorder;
use weft_fabric::{Fabric, HEAD, Peer, Posted};
use weft_fabric_tcp::Tcp;

/// How long a message may take to arrive.
const WHILE: Duration = Duration::from_secs(20);

fn look_until(one: &mut Tcp, inbox: &mut Recorder, messages: usize) {
    let start = Instant::now();
    while inbox.inbox.messages() < messages {
        one.poll(inbox, 64);
        assert!(start.elapsed() < WHILE, "never came");
        std::thread::yield_now();
    }
}

#[test]
fn what_a_corked_endpoint_takes_arrives_in_one_look() {
    for seal in [false, true] {
        let group = Tcp::group(2, |config| config.seal = seal).expect("loopback is there");
        let Ok([mut sender, mut receiver]) = <[Tcp; 2]>::try_from(group) else {
            unreachable!("two were made");
        };
        let mut inbox = Recorder::default();
        let head = [0; HEAD];
        // Until the first has come, there is no connection.
        assert_eq!(sender.try_send(Peer(1), &head, &[]), Ok(Posted::Done));
        let start = Instant::now();
        while inbox.inbox.messages() < 1 {
            sender.poll(&mut Recorder::default(), 64);
            receiver.poll(&mut inbox, 64);
            assert!(start.elapsed() < WHILE, "never came");
        }
        sender.cork();
        for length in [0, 8, 300] {
            let data = vec![7; length];
            assert_eq!(sender.try_send(Peer(1), &head, &data), Ok(Posted::Done));
        }
        assert_eq!(
            sender.signal(Peer(1), weft_fabric::SyncKey(3)),
            Ok(Posted::Done)
        );
        for _ in 0..1000 {
            receiver.poll(&mut inbox, 64);
        }
        assert_eq!(inbox.inbox.messages(), 1, "it is corked");
        sender.uncork();
        look_until(&mut receiver, &mut inbox, 2);
        assert_eq!(inbox.inbox.messages(), 4, "all came in one piece");
        assert_eq!(receiver.signals(Peer(0), weft_fabric::SyncKey(3)), 1);
    }
}
