//! A connection with another job: a process that is gone there is missed, even if it went before it had
//! connected to anybody.

#![allow(missing_docs)]

mod common;

use std::time::{Duration, Instant};

use common::openings;
use weft_fabric::Fabric;
use weft_fabric::conformance::Inbox;
use weft_fabric_local::Local;
use weft_fabric_tcp::bridged::Gate;

#[test]
fn a_process_that_ends_before_it_has_connected_is_lost_on_either_side() {
    for me in [0, 1] {
        let [first, second] = openings(|_| {});
        let cards = vec![first.card().clone(), second.card().clone()];
        let (stays, goes) = match me {
            0 => (first, second),
            _ => (second, first),
        };
        // It has published its address, and ends.
        drop(goes);
        let own = Local::group(1).pop().expect("one member");
        let mut fabric: Box<dyn Fabric> = Box::new(own);
        let gate = Gate::new(1);
        gate.widen(&mut fabric).expect("descriptors are there");
        let tcp = stays.join(cards).expect("the other one's card is right");
        let other = 1 - me;
        let opened = gate.open(tcp, other..other + 1, fabric.bell());
        let opened = opened.expect("descriptors and threads are there");
        let mut inbox = Inbox::default();
        let start = Instant::now();
        while !inbox.has_lost(opened.peers[0]) {
            assert!(start.elapsed() < Duration::from_secs(20), "never told");
            // The waiting rank sleeps on the bell, and only then looks.
            let bell = fabric.bell();
            let ticket = bell.prepare();
            if fabric.poll(&mut inbox, 16) > 0 {
                bell.cancel(ticket);
                continue;
            }
            bell.wait(ticket, Some(Duration::from_secs(20)));
        }
    }
}
