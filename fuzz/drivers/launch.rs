//! What the launcher reads from others: lines of a launcher that we did not write, messages between head
//! and agents, names of hosts.

use std::collections::VecDeque;

use weft_launch::bootstrap::pmi::client::{Client, Scripted};
use weft_launch::bootstrap::pmi::line::Line;
use weft_launch::hosts::message::{FromAgent, ToAgent, decode, encode};
use weft_launch::hosts::place::{HostSlots, distribute};

/// The first byte chooses who reads the rest.
pub fn run(bytes: &[u8]) {
    let Some((which, rest)) = bytes.split_first() else {
        return;
    };
    match which % 4 {
        0 => {
            if let Ok(line) = Line::parse(rest) {
                assert_eq!(Line::parse(&line.encode()).as_ref(), Ok(&line));
            }
        }
        1 => {
            let script = Scripted {
                answers: VecDeque::from(rest.to_vec()),
                asked: Vec::new(),
            };
            let mut client = Client::new(script);
            match client.begin() {
                Ok(limits) => assert!(limits.name >= 31 && limits.value >= 31),
                Err(error) => assert!(!error.to_string().is_empty()),
            }
            let _ = client.request(&Line::new("barrier_in"), "barrier_out");
        }
        2 => {
            if let Some(message) = decode::<FromAgent>(rest) {
                assert_eq!(decode(&encode(&message)).as_ref(), Some(&message));
            }
            if let Some(message) = decode::<ToAgent>(rest) {
                assert_eq!(decode(&encode(&message)).as_ref(), Some(&message));
            }
        }
        _ => {
            let text = String::from_utf8_lossy(rest);
            let hosts: Result<Vec<_>, _> = text.split(',').map(HostSlots::parse).collect();
            if let Ok(hosts) = hosts {
                let placed = distribute(&hosts, 100);
                assert_eq!(placed.len(), 100);
                assert!(
                    placed.is_sorted() && placed.iter().all(|host| (*host as usize) < hosts.len())
                );
            }
        }
    }
}
