//! Several threads of one node, where a fabric allows them.

use super::*;

const THREADS: u8 = 4;
const ROUNDS: u32 = 200;

/// Each thread echoes at a port of its own; none misses what another thread has polled.
fn echoes(stage: &dyn Stage) {
    play(stage, 2, |node| {
        let other = 1 - node.me();
        std::thread::scope(|scope| {
            for port in 0..THREADS {
                scope.spawn(move || {
                    let inbox = node.inbox(port).expect("free");
                    let outbox = node.outbox(other, port + THREADS).expect("opens");
                    for _ in 0..ROUNDS {
                        let mut body = [0; 4];
                        inbox.read(&mut body).expect("comes");
                        outbox.write(&body).expect("goes");
                    }
                });
            }
            for port in 0..THREADS {
                scope.spawn(move || {
                    let inbox = node.inbox(port + THREADS).expect("free");
                    let outbox = node.outbox(other, port).expect("opens");
                    for round in 0..ROUNDS {
                        outbox.write(&round.to_le_bytes()).expect("goes");
                        let mut body = [0; 4];
                        inbox.read(&mut body).expect("comes");
                        assert_eq!(u32::from_le_bytes(body), round);
                    }
                });
            }
        });
    });
}

#[test]
fn threads_of_a_node_do_not_miss_what_others_polled() {
    echoes(&|count| boxed(Local::group(count)));
    echoes(&|count| boxed(Shm::group(count as u32).expect("endpoints")));
    echoes(&|count| boxed(Tcp::group(count as u32, |_| ()).expect("loopback is there")));
}
