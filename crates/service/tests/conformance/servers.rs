//! Properties of servers and clients.

use super::*;
use std::time::Duration;
use weft_fabric::Peer;
use weft_fabric_sim::Fault;

/// Serves until so many clients have said that they are done.
fn serve(node: &Node, mut clients: u32) -> Result<()> {
    let server = node.serve("values")?;
    let mut values = vec![vec![0; 20_000]; 256];
    while clients > 0 {
        let request = server.next()?;
        match *request.text() {
            [b'p', key, length] => {
                let room = usize::from(length) * 100;
                let _ = server.take(&request, &mut values[usize::from(key)][..room]);
            }
            [b'g', key, length] => {
                let _ = server.give(
                    &request,
                    &values[usize::from(key)][..usize::from(length) * 100],
                );
            }
            _ => {
                assert_eq!(code(server.take(&request, &mut [0])), Code::Invalid);
                assert_eq!(code(server.give(&request, &[0])), Code::Invalid);
                clients -= 1;
            }
        }
    }
    Ok(())
}

pub fn values_go_both_ways(stage: &dyn Stage) {
    play(stage, 4, |node| {
        if node.me() == 2 {
            return serve(node, 3).expect("nobody dies");
        }
        let (client, key) = (
            node.client("values").expect("a port is free"),
            node.me() as u8,
        );
        for length in [1, 30, 200] {
            let value = vec![key + length; usize::from(length) * 100];
            assert_eq!(client.give(&[b'p', key, length], &value), Ok(value.len()));
            let mut copy = vec![0; value.len() + 1];
            assert_eq!(
                client.take(&[b'g', key, length], &mut copy),
                Ok(value.len())
            );
            assert_eq!(copy[..value.len()], value);
        }
        client.tell(b"end").expect("it serves");
    });
}

pub fn wrong_sizes_are_told_and_change_nothing(stage: &dyn Stage) {
    play(stage, 2, |node| {
        if node.me() == 0 {
            return serve(node, 1).expect("nobody dies");
        }
        let client = node.client("values").expect("a port is free");
        let long = [b'x'; weft_service::server::MAX + 1];
        assert_eq!(code(client.tell(&long)), Code::Invalid);
        assert_eq!(code(client.give(&long, &[1])), Code::Invalid);
        assert_eq!(code(client.take(&long, &mut [1])), Code::Invalid);
        assert_eq!(code(client.give(b"p\x01\x01", &[1; 101])), Code::TooLong);
        assert_eq!(
            code(client.take(b"g\x01\x02", &mut [0; 199])),
            Code::TooLong
        );
        assert_eq!(client.give(b"p\x01\x02", &[7; 200]), Ok(200));
        let mut copy = [0; 200];
        assert_eq!(client.take(b"g\x01\x02", &mut copy), Ok(200));
        assert_eq!(copy, [7; 200]);
        client.tell(b"end").expect("it serves");
    });
}

/// Whenever the server dies: each client is told, by its number, and waits for nothing.
#[test]
fn clients_of_a_server_that_dies_are_told() {
    for seed in 0..30 {
        let config = Config::new(4, seed).with(Fault::Death {
            peer: Peer(0),
            at: Duration::from_micros(100 + 20 * seed),
        });
        let played = World::new(config).run(|endpoint| {
            let node = Node::alone(Box::new(endpoint));
            if node.me() == 0 {
                let _ = serve(&node, 4);
                unreachable!("it is dead");
            }
            let client = node.client("values").expect("a port is free");
            let (key, mut copy) = (node.me() as u8, [0; 10_000]);
            let died = loop {
                let moved = client
                    .give(&[b'p', key, 100], &[key; 10_000])
                    .and_then(|_| client.take(&[b'g', key, 100], &mut copy));
                match moved {
                    Ok(_) => assert_eq!(copy, [key; 10_000]),
                    Err(error) => break error,
                }
            };
            assert_eq!(died.code(), Code::NodeLost);
            assert!(died.to_string().contains("node 0"), "{died}");
        });
        assert!(played.is_ok(), "seed {seed}: {:?}", played.err());
    }
}
