//! Fabric between processes of several hosts: framed, authenticated streams, one connection for each pair,
//! made on first use.
//!
//! ```text
//!   Opening::new(config)   listens at every usable address       ─► card: host, addresses, ports
//!   launcher               tells every rank the cards of all
//!   Opening::join(cards)   a Fabric; does not wait for other ranks
//!
//!   try_send ─► ring ┐                                  ┌► Sink::message
//!   signal ───► ring ├─► one connection of frames ──────┼► signals
//!   get, put ─► bulk ┘   envelopes first, portals in    └► straight into the target memory
//!                        turn, chunk by chunk
//! ```
//!
//! | file | what |
//! |---|---|
//! | `endpoint` | the [`Fabric`](weft_fabric::Fabric): composes the others |
//! | `opening`, `config` | the stage before: it listens and does not know where the others are |
//! | `connect` | connector: makes one connection for two ranks, and the next one when it breaks |
//! | `peers` | sessions by rank, and which peers are gone |
//! | `directory` | members that are started later, with the numbers of members that have ended |
//! | `session` | what is shared with one peer, whichever connection carries it; its life, as one enum |
//! | `outgoing`, `ring` | frames to be sent, or kept until the peer has processed them |
//! | `portal`, `grants` | bulk data: granted, asked for, or offered before that |
//! | `link`, `sealed` | one connection: bytes in and out |
//! | `wire` | frames, hello: bytes and their checks |
//! | `loopback` | what a rank sends to itself |
//! | `card` | addresses, as ranks publish them |
//! | `network`, `sockets` | what it needs of the system: streams, a clock, readiness |
//! | `bell` | sleeping, on one descriptor |
//! | `watching` | when connections are watched for a sleeper, and when they are not |
//! | `reaching` | whether connections are being made, read on behalf of a rank that makes no call |
//! | `union` | two fabrics as one: shared memory within a host, this one between hosts |
//! | `bridged` | the fabric of a job extended by processes of other jobs |
//! | `simulated` | tests: all of this over a network decided by a seed |
//!
//! # What is guaranteed
//! Besides the contract of [`weft_fabric`]: no byte is interpreted from a sender that has not proved the job's
//! key. A broken connection is replaced and loses and doubles nothing, if that succeeds within the set time;
//! otherwise the peer is lost, with a sentence that says what was tried. Only the kernel and the cipher copy
//! a large transfer on its way out or in, unless it arrives before it is asked for.
//!
//! # What is true today, and not guaranteed
//! Frames are acknowledged after a quarter of the ring at the latest. A rank that computes answers nobody,
//! but its kernel does, so it does not count as dead. Without encryption, an attacker who can change packets
//! on the path can change the data (TCP's checksum does not protect against that).
//!
//! ```
//! use weft_fabric::{Fabric, Peer, Posted};
//! use weft_fabric_tcp::Tcp;
//!
//! let mut group = Tcp::group(2, |_| ()).unwrap();
//! assert_eq!(group[0].try_send(Peer(1), &[0; 32], b"hello"), Ok(Posted::Done));
//! # drop(group.remove(1));
//! ```

#![forbid(unsafe_code)]

mod bell;
pub mod bridged;
mod card;
mod config;
mod connect;
mod directory;
mod endpoint;
mod errors;
mod grants;
mod link;
pub mod loopback;
mod network;
mod opening;
mod outgoing;
mod peers;
pub mod portal;
mod reaching;
mod ring;
mod sealed;
mod session;
#[cfg(test)]
mod simulated;
mod sockets;
mod union;
mod watching;
pub mod wire;

pub use bell::NetworkBell;
pub use card::{Card, CardError, LONGEST, Listen, Offer};
pub use config::Config;
pub use directory::Directory;
pub use endpoint::Tcp;
pub use network::Kernel;
pub use opening::Opening;
pub use union::{LocalRanks, Remote, Union};
pub use watching::Watching;

#[cfg(test)]
mod tests {
    use super::*;
    use weft_fabric::conformance::boxed;

    weft_fabric::conformance!(plain, |count: usize| boxed(
        Tcp::group(count as u32, |_| ()).expect("loopback is there")
    ));

    /// Two members on each host: the fabric of threads within a host, this one between hosts.
    fn hosts_of_two(count: usize) -> Vec<Box<dyn weft_fabric::Fabric>> {
        let remote = Tcp::group(count as u32, |_| ()).expect("loopback is there");
        let mut locals = Vec::new();
        for first in (0..count).step_by(2) {
            let here: Vec<u32> = (first..count.min(first + 2))
                .map(|rank| rank as u32)
                .collect();
            for local in weft_fabric_local::Local::group(here.len()) {
                locals.push((local, LocalRanks::new(count as u32, here.clone())));
            }
        }
        let joined = remote
            .into_iter()
            .zip(locals)
            .map(|(remote, (local, places))| {
                Union::new(local, remote, places).expect("descriptors are left")
            });
        boxed(joined.collect())
    }

    weft_fabric::conformance!(union, hosts_of_two);

    weft_fabric::conformance!(sealed, |count: usize| boxed(
        Tcp::group(count as u32, |config| config.seal = true).expect("loopback is there")
    ));
}
