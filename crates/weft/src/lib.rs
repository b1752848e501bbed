//! Weft's library for Rust programs; the command `weft` is in the same crate.
//!
//! A program joins its job by [`init`] and communicates with the other nodes by [`mailbox`], [`portal`] and [`sync`];
//! [`name`] finds nodes by the names of ports. `weft run -n 17 ./program` starts it as 17 nodes; started alone it is a
//! job of one.
//!
//! ```
//! let node = weft::init()?;
//! let inbox = node.inbox(0)?;
//! node.outbox(node.me(), 0)?.write(b"to myself")?;
//! let mut text = [0; weft::mailbox::MAX];
//! let mail = inbox.read(&mut text)?;
//! assert_eq!(&text[..mail.length], b"to myself");
//! # Ok::<(), weft::Error>(())
//! ```
//!
//! [`mpi`] is typed MPI.

// What `#[derive(Element)]` writes names the crate.
extern crate self as weft;

mod job;
pub mod mpi;

pub use job::{Services, init};
pub use weft_service::{
    Client, Code, Error, Inbox, Inportal, Mail, Node, Outbox, Outportal, PORTS, Result, Server,
    Signaller, Waiter,
};
pub use weft_service::{mailbox, name, portal, server, sync};

/// Fibers: user-level threads, of which a million may wait at once, also in MPI calls.
pub use weft_fiber as fiber;

/// Sockets for a program that is a client of a shared network card (`weft net`).
pub mod net {
    pub use weft_net::socket::{Network, TcpStream, UdpSocket};
}

/// The pages of the guide for Rust programs: their code is run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/rust.md")]
#[doc = include_str!("../../../docs/guide/services.md")]
mod guide {}
