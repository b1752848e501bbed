//! Nobody waits for a node that is gone.

use super::*;
use std::time::Duration;
use weft_fabric::Peer;
use weft_fabric_sim::Fault;

pub fn a_waiter_for_a_node_that_left_is_told(stage: &dyn Stage) {
    stage.run(3, &|endpoint| {
        let node = Node::alone(endpoint);
        barrier(&node);
        if node.me() == 2 {
            return node.leave();
        }
        let inbox = node.inbox(0).expect("free");
        let gone = inbox.read_from(2, &mut [0; 8]).expect_err("it has left");
        assert_eq!(gone.code(), Code::NodeLost);
        assert!(gone.to_string().contains("node 2"), "{gone}");
        assert_eq!(
            code(node.outbox(2, 0).expect("opens").write(&[1])),
            Code::NodeLost
        );
        assert_eq!(
            code(node.outportal(2, 0).expect("opens").write(&[1])),
            Code::NodeLost
        );
        let inportal = node.inportal(0).expect("free");
        assert_eq!(code(inportal.read(2, 0, &mut [0; 8])), Code::NodeLost);
        let list = [node.me(), 2];
        let waiter = node.waiter(SyncKind::AllToOne, &list).expect("the one");
        assert_eq!(code(waiter.wait()), Code::NodeLost);
        // The rest goes on.
        let other = 1 - node.me();
        node.outbox(other, 0)
            .expect("opens")
            .write(&[9])
            .expect("goes");
        inbox.read(&mut [0; 8]).expect("comes");
        node.leave();
    });
}

/// A node dies while others wait for it in every way: each is told, by name, and goes on.
#[test]
fn a_waiter_for_a_node_that_dies_is_told() {
    for seed in 0..20 {
        let config = Config::new(5, seed).with(Fault::Death {
            peer: Peer(4),
            at: Duration::from_micros(300),
        });
        let played = World::new(config).run(|endpoint| {
            let node = Node::alone(Box::new(endpoint));
            let inbox = node.inbox(0).expect("free");
            let lost = match node.me() {
                0 => inbox.read(&mut [0; 8]).map(|_| ()),
                1 => inbox.read_from(4, &mut [0; 8]).map(|_| ()),
                2 => node
                    .outportal(4, 0)
                    .and_then(|portal| portal.write(&vec![1; 100_000]))
                    .map(|_| ()),
                3 => node
                    .inportal(0)
                    .and_then(|portal| portal.read(4, 0, &mut vec![0; 100_000]))
                    .map(|_| ()),
                _ => {
                    // Waits for what never comes, until it dies.
                    let _ = inbox.read(&mut [0; 8]);
                    unreachable!("it is dead");
                }
            };
            let error = lost.expect_err("node 4 is dead");
            assert_eq!(error.code(), Code::NodeLost);
            assert!(error.to_string().contains("node 4"), "{error}");
            // Told once: the next read finds a message.
            let next = (node.me() + 1) % 4;
            node.outbox(next, 1)
                .expect("opens")
                .write(&[1])
                .expect("goes");
            node.inbox(1)
                .expect("free")
                .read(&mut [0; 8])
                .expect("comes");
        });
        assert!(played.is_ok(), "seed {seed}: {:?}", played.err());
    }
}
