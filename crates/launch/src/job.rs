//! Job: two processes that watch each other, and the ranks.
//!
//! ```text
//!   shell ── frontend ───────── supervisor (own session) ───┬── rank 0 ── whatever it starts
//!             │  terminal          │  reads and prints       ├── rank 1
//!             │  signals           │  notices who fails      └── …
//!             │  exit code         │  ends all
//!             └─ liveness pipe ────┘
//! ```
//!
//! | dies | noticed by | consequence |
//! |---|---|---|
//! | a rank | supervisor, as its parent | it ends the others, prints the last line |
//! | frontend | supervisor: the pipe closes | it ends all and itself |
//! | supervisor | frontend, as its parent; ranks are handed to it as orphans | it ends them, exits 128 + n |
//! | frontend's process group | supervisor, which is not in it | as for the frontend |
//! | both at once | the kernel: parent-death signal, lifelines | ranks end |
//!
//! The supervisor decides; it sees the ranks through the [hosts](rank_hosts) that have them: this one, or others, where
//! agents ([`crate::hosts`]) start them and report what happens.
//!
//! | module | what |
//! |---|---|
//! | `frontend` | the process that the user started; the guard of the supervisor |
//! | `supervisor` | the job, while it runs |
//! | `wakeups` | what the supervisor waits for |
//! | `judge` | what follows from the ends of ranks, and from what they tell |
//! | `departure`, `slow_starts` | the end that a signal has asked for; worlds that do not begin with MPI |
//! | [`rank_hosts`] | the interface of the job to the hosts of its ranks; `local` and `remote` implement it |
//! | `spawning`, `placement` | processes that are started from within a program; on which hosts |
//! | `rank_table` | how far each rank has come, and whether its end is a failure |
//! | `outcome` | the failure that counts, the exit code, the last line |
//! | `inspection` | data for the inspection of the running job |
//! | `output`, `standard_stream` | the ranks' output, on its way to the launcher's own |

pub mod deadlock;
mod departure;
mod frontend;
mod inspection;
mod judge;
mod local;
mod outcome;
mod output;
mod placement;
mod rank_hosts;
mod rank_table;
mod remote;
mod slow_starts;
mod spawning;
mod standard_stream;
mod supervisor;
mod wakeups;

pub use frontend::{run, run_adopted};
pub use remote::{RemoteRanks, mixed};
