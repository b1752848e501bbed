//! Inspection of a running job: what it shows to `weft ps`, `weft top` and `weft stacks`, and to a terminal on SIGQUIT.
//!
//! ```text
//!   weft ps ── /proc/net/unix: names ──▶ abstract socket ──▶ supervisor of the job
//!       └───── one question, a line of JSON ──────────────▶     │ what it knows; /proc; counters in the ranks' memory
//!       ◀───── one answer, a line of JSON ─────────────────     │ the inquiry: each rank says what it waits for
//! ```
//!
//! An abstract socket has a name in no file system and goes with its process, however that ends: nothing is left to
//! be recognised as stale. Everybody on the host (of one network namespace) may connect to it, so each side asks the
//! kernel who the other one is, before anything is said: the launcher serves its own user alone, and a
//! command believes nobody else. Where no such socket can be made, the job runs all the same, and cannot be looked at.
//!
//! | module | what |
//! |---|---|
//! | [`protocol`] | questions and answers |
//! | [`socket_name`] | the names of the sockets, and finding them |
//! | [`client`] | the side of who looks |
//! | `job::inspection` | the side of the supervisor |
//! | [`counters`] | counters of a rank, read out of its memory |
//! | [`process`] | what a process does, by `/proc` |
//! | [`wait_text`] | what a rank says that it waits for, as text |
//! | [`report`] | what each rank does, as text |

pub mod client;
pub mod counters;
pub mod process;
pub mod protocol;
pub mod report;
pub mod socket_name;
pub mod wait_text;
