//! Services for programs: mailbox, portal and sync with ports, names and counters.
//!
//! ```text
//!   Server · Client                 server/   a request and its value in one call
//!   Inbox · Outbox · Inportal · …   ends/     with types, for Rust
//!   Node                            node/     the calls, by id; blocking; the C face calls these
//!        │
//!   Core: mailbox · portal · sync · name      what there is, without the endpoint; never blocks
//!        │                          host/     who polls: the services alone, or the engine of MPI
//!        ▼
//!   dyn Fabric                      (crate weft-fabric)
//! ```
//!
//! A node is a value: many fit in one process, so that everything here runs under simulation, among
//! threads, and among processes.
//!
//! ```
//! use weft_service::Node;
//!
//! let mut group = weft_fabric_local::Local::group(2);
//! let [one, two] = [0, 1].map(|_| Node::alone(Box::new(group.remove(0))));
//! let writer = std::thread::spawn(move || two.outbox(0, 7)?.write(b"hello"));
//! let mut text = [0; 120];
//! let mail = one.inbox(7)?.read(&mut text)?;
//! assert_eq!((&text[..mail.length], mail.node), (&b"hello"[..], 1));
//! writer.join().unwrap()?;
//! # Ok::<(), weft_service::Error>(())
//! ```
//!
//! # What is guaranteed
//! * Messages of one output to one port arrive in the order written, once each; writers are served in
//!   turn. A message is dropped only with its writer's or reader's process.
//! * Data move through a portal only into memory whose reader has permitted that one transfer.
//! * Signals are counted and kept.
//! * A call that needs a node that is gone does not wait: it gets [`Code::NodeLost`], and the sentence names the node.
//!
//! Progress is made within calls: a node that computes answers no other node.

#![deny(unsafe_code)]

mod awaited;
mod common;
mod counters;
mod ends;
mod error;
mod frame;
mod host;
pub mod mailbox;
#[allow(unsafe_code)]
mod memory;
pub mod name;
mod node;
mod nodes;
mod outbox;
pub mod portal;
mod ports;
pub mod server;
mod state;
pub mod sync;
mod table;

pub use awaited::Awaited;
pub use counters::Request;
pub use ends::{Inbox, Inportal, Mail, Outbox, Outportal, Signaller, Waiter};
pub use error::{Code, Error, Result};
pub use frame::FIRST as FIRST_KIND;
pub use host::Host;
pub use node::Node;
pub use ports::PORTS;
pub use server::{Client, Server};
pub use state::Core;
pub use table::{IDS, Table};
