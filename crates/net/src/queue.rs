//! Queues of descriptors between two components, in memory that they share.
//!
//! ```text
//!                    used: full buffers
//!   source  ─────────────────────────────────▶  sink
//!  (producer of data)                    (consumer of data)
//!           ◀─────────────────────────────────
//!                    free: empty buffers
//! ```
//!
//! Buffers belong to the source: in the beginning, and after each reattachment, it has all of them. The
//! [`ring`] moves descriptors, the [`ledger`] validates them, a [`channel`] is the pair of rings with the
//! events of both sides.

#[cfg(not(loom))]
pub mod channel;
mod descriptor;
mod ledger;
mod ring;

#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(not(loom))]
pub use channel::{ChannelMemory, Sink, Source};
pub use descriptor::Descriptor;
pub use ledger::{Fault, Ledger};
pub use ring::{Consumer, Full, MOST, Producer};
