//! Calls between the hosts of a job that another launcher has started: by them a process that needs a launcher of Weft
//! has it started on all hosts.
//!
//! ```text
//!   lowest rank of each host    a port, and a thread that sleeps at it          where it is: in the launcher's store
//!
//!   a rank asks for processes ── Begin ──► rank 0: starts the head               ◄── where the head listens
//!                             ── Join ───► the lowest rank of each host: starts an agent, which joins the head
//!                                                                               ◄── joined: the head has all hosts
//!   the lowest rank of a host ── Watch ──► rank 0: each misses the other          (under launchers that do not tell of deaths)
//!   who searches on a host ── Search ────► the lowest rank of the first host that can be called, which judges  (deadlocks)
//! ```
//!
//! There is one head even if several processes ask at the same time: only rank 0 starts it, and once. What was begun and
//! failed may be begun again. A caller proves the job's key, by the handshake of agents; strangers are bounded as for a
//! job that waits for `weft join`. A thread receives calls because ranks compute, or sleep, outside of MPI for as long as
//! they like. It exists from initialisation until MPI is finalised; a job that starts nothing has no other costs.
//!
//! | file | what |
//! |---|---|
//! | `listener` | the thread of the lowest rank of a host |
//! | `caller` | the calling side |
//! | `host_watch` | hosts detect each other's loss |

mod caller;
mod host_watch;
mod listener;

use serde::{Deserialize, Serialize};
use weft_secure::Key;

pub use self::caller::{Judge, call_all, call_to_search};
pub use self::host_watch::Losses;
pub use self::listener::{CallListener, Start};
use super::hosts::HostMap;

/// Under which name the lowest rank of a host says where it can be called.
pub const NAME: &str = "calls";

/// Answers where the lowest rank of a host, which it is given, can be called.
pub type ListenAddressOf = dyn Fn(u32) -> Option<Vec<u8>> + Send + Sync;

/// The hosts of a job, for callers and listeners.
#[derive(Clone, Debug)]
pub struct CalledHosts {
    /// The host of each rank.
    pub map: HostMap,
    /// By which the ranks prove to each other that they belong to the job.
    pub key: Key,
    /// Number of processes expected to be useful.
    pub universe: u32,
}

impl CalledHosts {
    /// The rank that is called on a host.
    fn called(&self, host: u32) -> u32 {
        self.map.ranks_of(host).next().unwrap_or(0)
    }
}

/// A question of a caller.
#[derive(Debug, Serialize, Deserialize)]
enum Call {
    /// To start the head, if there is none.
    Begin,
    /// To start the agent of the host, if there is none, which joins the head that listens there.
    Join { head: String },
    /// To miss this rank, the lowest of its host, when it ends without a goodbye. The link is kept for that.
    Watch { rank: u32 },
    /// To judge over the ranks of the host on which this one searches for deadlocks. The link is kept for that.
    Search { rank: u32 },
}

/// The answer to a caller.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Answered {
    /// There is a head, which listens there.
    Begun { head: String },
    /// The agent of the host has its ranks: all hosts have come.
    Joined,
    /// It cannot be done.
    Refused { reason: String },
}

#[cfg(test)]
mod tests;
