//! Authentication of connections: both sides prove the job's [`Key`] before any byte of either is
//! interpreted; afterwards bytes are sent plain or sealed, as the job wants it.
//!
//! ```text
//!   initiator                                            responder
//!   Handshake::initiator(key, purpose, hello)            Handshake::responder(key, purpose, hello)
//!      ── key, ephemeral, hello      (FIRST bytes) ──►      knows the key, or is a recording
//!      ◄─ ephemeral, hello          (SECOND bytes) ──       proves the key, and that it is live
//!      ── confirmation               (THIRD bytes) ──►      proves that it is live
//!   Channel { sealer, opener, hello of the other }       the same
//! ```
//!
//! The handshake is Noise (`NNpsk0`, X25519, AES-256-GCM, SHA-256) by the `snow` crate, with the job's key as the
//! pre-shared key. Its three messages have fixed sizes: not even a length is read from a side that has not proved the
//! key. A first message that was recorded and sent again gets an answer, but its sender cannot confirm; with a memory of
//! first messages ([`Heard`]) it gets none. The hello of an initiator is given out only after the confirmation, except on
//! [request](Handshake::first_hello), when it may be a repetition.
//!
//! | file | what |
//! |---|---|
//! | `key` | the 256 bits, and their text form |
//! | `handshake` | bytes in, bytes out; no descriptor, no clock |
//! | `pass` | eight bytes in each message where there are no connections |
//! | `records` | sealed bytes: replay, reordering, loss and change are detected |
//! | `session` | both over a blocking stream, with a deadline: whole messages |
//! | `refusals` | connections that were refused, counted by reason |
//! | `eviction` | which one is closed when too many have not proved the key |
//!
//! # What is guaranteed
//! Without the key nobody completes a handshake with either side, learns a hello, or reads or forges a
//! record. A record that was changed, repeated, omitted or moved ends the channel. Recorded traffic stays
//! secret if the key becomes known later (the ephemeral keys are gone).
//!
//! # What is not guaranteed
//! A channel that is plain after the handshake is authenticated at its start only: an attacker who can change
//! packets on the path can change the bytes. Anybody who holds the job's key is a member of the job.

#![forbid(unsafe_code)]

mod eviction;
mod handshake;
mod key;
mod pass;
mod records;
mod refusals;
mod session;

pub use eviction::{EvictionPolicy, SILENT, Source};
pub use handshake::{Channel, FIRST, HELLO, Handshake, Heard, SECOND, Step, THIRD};
pub use key::{Key, KeyError};
pub use pass::pass;
pub use records::{Broken, LENGTH, Opener, RECORD, Sealer, TAG};
pub use refusals::{Refusal, Refusals};
pub use session::{MESSAGE, Session, SessionError, Stream};
