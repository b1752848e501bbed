//! The matching engine: it maps (context, source, tag) to posted receives or unexpected messages, in MPI
//! order.
//!
//! ```text
//!  arrive(envelope) ──► posted:     oldest receive that matches  ──► Matched
//!                         └ none ─► unexpected: kept             ──► Unexpected
//!  post(pattern)    ──► unexpected: oldest message that matches  ──► Matched
//!                         └ none ─► posted: waits                ──► Posted
//! ```
//!
//! **Guaranteed** (MPI 5.0, sections 3.5 and 3.8): a message goes to the receive that was posted first
//! among those that match it, a receive takes the message that arrived first among those that match
//! it, wildcards of either kind included; if messages of one sender are handed in the order sent,
//! none overtakes another. Each receive and each message is matched at most once.
//!
//! **Cost.** Every operation takes constant time, whatever else waits and for any kind of pattern: usually
//! one look-up for each kind of pattern in use, none if the oldest fits. Two walks cost more, but each is
//! paid for by earlier operations: at most 256 receives or messages that no look-up has passed before, each
//! indexed once in its life; and, the first time that a kind of wildcard is used, all messages waiting then.
//! Nothing is allocated while no backlog exceeds the largest so far.
//!
//! **Who may touch what.** One engine belongs to one thread at a time (`&mut`): no atomics, no locks, no
//! `unsafe`. Envelopes are only data: none makes the engine panic.
//!
//! The idea of the table (two writes per message in the common case) comes from the matching table of LCI
//! (Dang, Snir and others); this adds order and wildcards.
//!
//! For many threads at once and exact keys only there is [`concurrent`], a separate table.

#![deny(unsafe_code)]

#[allow(unsafe_code)] // in `memory` alone, as `cargo xtask layers` checks
pub mod concurrent;
mod index;
mod key;
mod matching;
mod posted;
mod store;
mod unexpected;

pub use key::{Context, Envelope, Pattern, Source, SourcePattern, Tag, TagPattern};
pub use matching::{Arrival, Found, Leftover, Matching, Posting};
pub use posted::{Handle, OldestReceive};

/// How many receives or messages may wait outside the indices in use. A higher limit makes a look-up that
/// passes all of them for the first time slower (about 10 ns each); a lower one makes windows of messages
/// that match in order slower (below the limit they need no index at all).
const LAG: u32 = if cfg!(test) { 5 } else { 256 };

#[cfg(test)]
mod tests;
