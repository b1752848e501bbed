//! Control of the components by the broker: a page of orders and counters for each, and messages that carry
//! new memory.
//!
//! ```text
//!   broker ──orders──▶ ControlPage ──▶ ControlPort ──▶ ControlLoop ──reattach, set policy──▶ Stage
//!          ◀─counters─             ◀──             ◀──             ◀──frames counted──────
//!          ──messages with memory──▶ Orders ──▶
//! ```

pub mod orders;
mod page;
mod port;

pub use page::{ControlPage, Counters, PORTS};
pub use port::ControlPort;
