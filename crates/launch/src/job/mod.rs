//! A running job: two processes that watch each other.
//!
//! ```text
//!   shell ── front ──────────── supervisor (own session) ───┬── rank 0 ── whatever it starts
//!             │  terminal          │  reads and prints       ├── rank 1
//!             │  signals           │  notices who fails      └── …
//!             │  exit code         │  ends all
//!             └── "vitals" pipe ───┘
//! ```
//!
//! | dies | who notices | what follows |
//! |---|---|---|
//! | a rank | supervisor, as its parent | it ends the others, prints the last line |
//! | front | supervisor: the pipe closes | it ends all and itself |
//! | supervisor | front, as its parent; ranks are handed to it as orphans | it ends them, exits 128 + n |
//! | front's process group | supervisor, which is not in it | as for the front |
//! | both at once | the kernel: parent-death signal, lifelines | ranks end |
//!
//! If the ranks run on other hosts, the supervisor starts agents instead, and hears from them what it
//! would see itself: [`remote`], [`crate::hosts`].

mod front;
mod output;
pub mod ranks;
mod remote;
mod sink;
pub mod spawn;
mod supervisor;
mod verdict;

pub use front::{guarded, run};
pub use supervisor::HANDLED;
pub(crate) use verdict::name as signal_name;
