//! TCP fabric, for processes of several hosts: framed streams, authenticated, one connection for each pair, made on first
//! use.
//!
//! ```text
//!   Opening::new(config)   listens at every usable address       ─► card: host, addresses, ports
//!   launcher               tells every rank the cards of all
//!   Opening::join(cards)   a Fabric; waits for no other rank
//!
//!   try_send ─► ring ┐                                  ┌► Sink::message
//!   signal ───► ring ├─► one connection of frames ──────┼► signals
//!   get, put ─► bulk ┘   envelopes first, portals in    └► straight into the memory it is for
//!                        turn, chunk by chunk
//! ```
//!
//! | file | what |
//! |---|---|
//! | `endpoint` | the [`Fabric`](weft_fabric::Fabric): composes the others |
//! | `opening`, `config` | an endpoint that listens and does not know yet where the others are |
//! | `connect` | connector: how two ranks come to share a connection, and a new one when it breaks |
//! | `peers` | sessions by rank, and which peers are gone |
//! | `directory` | members that are started later, with reused numbers of members that have ended |
//! | `session` | the state shared with one peer across connections; its life, as one enum |
//! | `outgoing`, `ring` | bytes to be sent, kept until the peer has processed them |
//! | `portal`, `grants` | bulk data: granted, asked for, or offered before that |
//! | `link`, `sealed` | one connection: bytes in and out |
//! | `wire` | frames, hello: bytes and their checks |
//! | `loopback` | messages of a rank to itself |
//! | `card` | addresses, as they are published |
//! | `network`, `sockets` | requirements on the system: streams, a clock, readiness |
//! | `bell` | sleeping, on one descriptor |
//! | `watching` | when connections are watched for a sleeper, and when not |
//! | `reaching` | whether connections are being made, for a thread that polls on behalf of a rank that makes no call |
//! | `union` | two fabrics as one: shared memory within a host, this one between hosts |
//! | `abroad` | the fabric of a job with processes of other jobs beside it |
//! | `simulated` | tests: all of this over a network driven by a seed |
//!
//! # What is guaranteed
//! Besides the contract of [`weft_fabric`]: no byte of a peer that has not proved the job's key is interpreted.
//! A connection that breaks is made anew and loses and doubles nothing, if that succeeds
//! within the set time; otherwise the peer is lost, with a sentence that says what was tried. A large
//! transfer is copied on its way out and in only by the kernel and the cipher, unless it comes before it is
//! asked for.
//!
//! # What is merely true today
//! Frames are acknowledged after a quarter of the ring at the latest. A rank that computes does not answer
//! meanwhile, but its kernel does, so it does not count as dead. Without encryption, anyone who can change
//! packets on the path can change the data (TCP's checksum is no protection against that).
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

pub mod abroad;
mod bell;
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

    /// Two members on each host: the fabric of threads within, this one between.
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
