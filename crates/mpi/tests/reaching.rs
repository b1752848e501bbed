//! A rank that is reaching another one and makes no call is looked for by somebody.

use std::sync::{Barrier, mpsc};
use std::time::Duration;

use crate::common::over;
use weft_fabric::Fabric;
use weft_fabric_local::Local;
use weft_fabric_tcp::{LocalRanks, Tcp, Union};
use weft_mpi::{Process, SendMode, Source, TagPattern, Target};

const TAG: i32 = 1;

/// The sender waits for its receiver by something that is no call of MPI.
fn first_message(endpoints: Vec<Box<dyn Fabric>>, sender: u32) {
    let outside = Barrier::new(2);
    let rank = |endpoint| {
        let process = Process::new(endpoint);
        let world = process.world();
        let other = 1 - world.rank();
        if world.rank() == sender {
            let to = Target::Rank(other);
            world
                .send(SendMode::Standard, over(&mut [7; 8]), to, TAG)
                .unwrap();
        } else {
            let mut room = [0; 8];
            let tag = TagPattern::Exact(TAG);
            world
                .recv(over(&mut room), Source::Rank(other), tag)
                .unwrap();
            assert_eq!(room, [7; 8]);
        }
        outside.wait();
        process.finish().unwrap();
        process.release();
    };
    std::thread::scope(|scope| {
        let rank = &rank;
        for endpoint in endpoints {
            scope.spawn(move || rank(endpoint));
        }
    });
}

/// Two ranks, each alone on its host, which has a fabric of its own or has none.
fn endpoints(with_local: bool) -> Vec<Box<dyn Fabric>> {
    let remote = Tcp::group(2, |_| ()).expect("loopback");
    let one = |(rank, remote): (u32, Tcp)| -> Box<dyn Fabric> {
        if !with_local {
            return Box::new(remote);
        }
        let local = Local::group(1).remove(0);
        let places = LocalRanks::new(2, vec![rank]);
        Box::new(Union::new(local, remote, places).expect("descriptors"))
    };
    (0..).zip(remote).map(one).collect()
}

#[test]
fn a_first_message_comes_while_its_sender_makes_no_call() {
    for (sender, with_local) in [(0, false), (1, false), (0, true), (1, true)] {
        let (said, heard) = mpsc::channel();
        std::thread::spawn(move || {
            first_message(endpoints(with_local), sender);
            said.send(()).unwrap();
        });
        let ended = heard.recv_timeout(Duration::from_secs(100));
        ended.expect("it is heard, and both ranks end");
    }
}
