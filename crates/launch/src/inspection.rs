//! Inspection of a running job: its data for `weft ps`, `weft top` and `weft stacks`, and for a terminal on SIGQUIT.
//!
//! ```text
//!   weft ps ── /proc/net/unix: names ──▶ abstract socket ──▶ supervisor of the job
//!       └───── one question, a line of JSON ──────────────▶     │ what it knows; /proc; counters in the ranks' memory
//!       ◀───── one answer, a line of JSON ─────────────────     │ the inquiry: each rank says what it waits for
//! ```
//!
//! An abstract socket has a name in no file system and disappears with its process, however that ends: nothing stale is
//! left. Every process on the host (in one network namespace) may connect to it, so each side asks the kernel for the
//! other's user, before anything is said: the launcher serves only its own user, and a command trusts only its own user.
//! If no such socket can be made, the job runs all the same, but cannot be inspected.
//!
//! | module | what |
//! |---|---|
//! | [`protocol`] | questions and answers |
//! | [`socket_name`] | the names of the sockets, and finding them |
//! | [`client`] | the side of the command |
//! | `job::inspection` | the side of the supervisor |
//! | [`counters`] | counters of a rank, read from its memory |
//! | [`process`] | what a process does, by `/proc` |
//! | [`wait_text`] | a rank's description of what it waits for, as text |
//! | [`report`] | what each rank does, as text |

pub mod client;
pub mod counters;
pub mod process;
pub mod protocol;
pub mod report;
pub mod socket_name;
pub mod wait_text;
