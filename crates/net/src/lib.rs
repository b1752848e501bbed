//! The datapath: one network card in user space, shared by clients that do not trust each other.
//!
//! ```text
//!              ┌──────── Rx multiplexer ──▶ Rx copier A ──▶ client A ─┐
//!   wire ◀──▶ driver      (by address)  └─▶ Rx copier B ──▶ client B ─┤
//!              └──────── Tx multiplexer ◀─────────────────────────────┘
//!                          (policy)
//! ```
//!
//! ```text
//!   queue        rings of descriptors, ledgers, channels       buffers   regions of frames
//!   stage        moves frames: drivers, copiers, multiplexers
//!   control      orders and counters of a component            control_loop  follows and reports around a stage
//!   component    runs in an event loop                         runner        that loop
//!   policy       who may send next                             wire          what a driver sees of a network
//!   client       port, IP stack, work                          socket        the same for other programs
//!   system       all memory, and which component gets which    broker        components as processes
//!   description  the wanted system, in TOML                    command       weft net up, status, policy, down
//! ```
//!
//! Loads, measurements and trials are in `weft-net-testbed`.
//!
//! A component works until its queues are empty, then sleeps until a neighbour notifies it. Two components
//! are connected by one [`queue::channel`]. Buffers belong to the component that fills them, and return to
//! it.
//!
//! | component | maps | may write |
//! |---|---|---|
//! | driver | the card's buffers, clients' send regions | the card's buffers |
//! | Rx multiplexer | the card's buffers | – |
//! | Rx copier of A | the card's buffers, A's receive region | A's receive region |
//! | Tx multiplexer | – | – |
//! | client-side driver of A, if it has one | – | – |
//! | client A | A's receive region, A's send region | both |

#[cfg(all(test, loom))]
extern crate loom;

pub mod queue;

#[cfg(not(loom))]
pub mod broker;
#[cfg(not(loom))]
pub mod buffers;
#[cfg(not(loom))]
pub mod client;
#[cfg(not(loom))]
pub mod command;
#[cfg(not(loom))]
pub mod component;
#[cfg(not(loom))]
pub mod control;
#[cfg(not(loom))]
pub mod control_loop;
#[cfg(not(loom))]
pub mod description;
#[cfg(not(loom))]
pub mod plan;
#[cfg(not(loom))]
pub mod policy;
#[cfg(not(loom))]
pub mod runner;
#[cfg(not(loom))]
pub mod socket;
#[cfg(not(loom))]
pub mod stage;
#[cfg(not(loom))]
pub mod system;
#[cfg(not(loom))]
pub mod wire;
