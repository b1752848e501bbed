//! Fabric between processes of several hosts over the networks that libfabric supports: reliable endpoints of
//! one of its providers, opened at run time.
//!
//! ```text
//!   Opening::new(config)   chooses a provider, opens an endpoint    ─► card: provider, address, number
//!   launcher               tells every rank the cards of all
//!   Opening::join(cards)   a Fabric; does not wait for other ranks
//!
//!   try_send, signal ─► a message: header with a pass, credits ─► buffers that are ready ─► Sink
//!   get, put ─► a message that asks ─► the owner moves the bytes by reads and writes of the asker's memory
//! ```
//!
//! | file | what |
//! |---|---|
//! | `endpoint` | the [`Fabric`](weft_fabric::Fabric): composes the others |
//! | `opening`, `card`, `choice` | the stage before: which provider, and its address |
//! | `mail`, `links` | messages to all peers; what is shared with each: credits, counts |
//! | `held`, `passes` | what has not left yet, and for which peers; what distinguishes messages of the job from others |
//! | `serving`, `asked` | transfers that peers have asked for, and that peers were asked for; by messages where there is no remote access to memory |
//! | `liveness` | which peers have died: TCP connections that carry nothing else |
//! | `later` | members that are started while the job runs |
//! | `wire` | headers and bodies: bytes and their checks |
//! | `libfabric` | the library, called only there |
//!
//! # What is guaranteed
//! Besides the contract of [`weft_fabric`]: no message is processed whose sender lacks the job's pass for this very endpoint;
//! on one host nothing listens on outside addresses. Only the owner accesses its granted memory, so a grant that has ended has
//! ended, whatever a network card does. Memory of a transfer is registered with the card from the request to the end.
//!
//! # What is not guaranteed
//! libfabric does not report the death of a peer to which nothing is sent: a [`Tcp`](weft_fabric_tcp::Tcp) with the same members does
//! ([`Ofi::watched_by`]). libfabric's connections neither authenticate callers nor encrypt: the network must be one whose members are trusted not to
//! read or change the traffic of others.

#![deny(unsafe_code)]

mod asked;
mod card;
mod choice;
mod endpoint;
mod held;
mod later;
#[allow(unsafe_code)]
mod libfabric;
mod links;
mod liveness;
mod mail;
mod opening;
mod passes;
mod serving;
pub mod wire;

pub use card::{Card, CardError, LONGEST};
pub use choice::{Extent, Found, found, hardware};
pub use endpoint::Ofi;
pub use later::Directory;
pub use libfabric::library::{LibraryError, VARIABLE};
pub use opening::{Config, Opening};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::libfabric::mask::Mask;
    use weft_fabric::conformance::boxed;

    /// Without libfabric there is nothing to test; the test says so, and the properties are then checked of
    /// threads.
    fn group(count: usize, mask: Mask) -> Vec<Box<dyn weft_fabric::Fabric>> {
        if let Err(error) = found() {
            eprintln!("not tried over libfabric: {error}");
            return boxed(weft_fabric_local::Local::group(count));
        }
        let count = u32::try_from(count).expect("a small group");
        boxed(Ofi::group_under(count, "tcp", mask).expect("an endpoint on loopback"))
    }

    weft_fabric::conformance!(over_tcp, |count| group(count, Mask::default()));

    // With the requirements of verbs (memory and keys) and efa (order).
    weft_fabric::conformance!(over_what_hardware_is_like, |count| {
        let mask = Mask {
            unregistered: true,
            chosen_keys: true,
            ordered_writes: true,
            ..Mask::default()
        };
        group(count, mask)
    });

    weft_fabric::conformance!(over_messages_alone, |count| {
        let mask = Mask {
            remote_access: true,
            unregistered: true,
            ..Mask::default()
        };
        group(count, mask)
    });

    // With the requirements of cxi.
    mod over_short_keys {
        use super::*;

        weft_fabric::conformance_properties! {
            |count| {
                let mask = Mask { long_keys: true, ..Mask::default() };
                group(count, mask)
            };
            portals::every_length_can_be_read,
            portals::every_length_can_be_written,
            portals::many_transfers_are_under_way_at_once,
        }
    }

    /// Rank 1 has another key: its messages are counted, and not delivered.
    #[test]
    fn a_peer_without_the_key_is_ignored() {
        use weft_fabric::conformance::{Inbox, PATIENCE};
        use weft_fabric::{Fabric, HEAD, Peer, Posted};
        use weft_secure::Key;

        if found().is_err() {
            return;
        }
        let open = |me| {
            Opening::new(Config {
                me,
                peers: 2,
                provider: Some("tcp".into()),
                extent: Extent::OneHost,
                neighbours: 2,
            })
            .expect("an endpoint on loopback")
        };
        let openings = [open(0), open(1)];
        let cards: Vec<_> = openings
            .iter()
            .map(|one| Some(one.card().clone()))
            .collect();
        let [mut rank, mut stranger] = openings.map(|opening| {
            let key = Key::random().expect("random bytes");
            opening.join(key, cards.clone()).expect("an endpoint")
        });
        assert_eq!(
            stranger.try_send(Peer(0), &[0; HEAD], b"let me in"),
            Ok(Posted::Done)
        );
        let (mut inbox, start) = (Inbox::default(), std::time::Instant::now());
        while rank.turned_away() == 0 {
            rank.poll(&mut inbox, 32);
            stranger.poll(&mut Inbox::default(), 32);
            assert!(start.elapsed() < PATIENCE, "nothing came");
        }
        assert!(inbox.events.is_empty());
    }
}
