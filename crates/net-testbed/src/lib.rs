//! The testbed of the datapath: loads for its clients, measurements, trials of its guarantees, and the
//! complete command `weft net`.
//!
//! ```text
//!   Flow ──▶ generator   at the far end of a virtual wire  ──▶ FlowReport of each flow
//!        └─▶ load        over sockets of the host          ──▶
//!
//!   measure     a system under load for a set time: throughput, round trips, processor time
//!   simulation  a whole system in one thread and in virtual time
//!   trial       clients that misbehave, policies that change, components that die
//!   micro       a queue or a policy alone
//! ```

#![forbid(unsafe_code)]

pub mod command;
mod flow;
mod generator;
pub mod load;
pub mod measure;
pub mod micro;
mod payload;
mod report;
pub mod simulation;
pub mod trial;

pub use flow::{Flow, Pattern};
pub use generator::{Generator, Reports};
pub use report::FlowReport;
