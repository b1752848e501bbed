//! Adoption: a launcher for a process that was started without one, when it starts others; or for ranks whose launcher
//! starts no later processes.
//!
//! ```text
//!   the process ── weft adopt ──► detached: a launcher that is nobody's child ── frontend ── supervisor ── later processes
//!        │                                                                          pidfd ──► its end is seen
//!        └── memory, lifeline, ports and names, over the socket that is the standard input;
//!            of one rank of several also the socket at which the others come, and a pipe that closes with the last of them
//!
//!   on several hosts (by calls: bootstrap::calls)
//!   rank 0 ────────────────── weft adopt ──► the head: listens, waits for an agent of each host, decides
//!   the lowest of each host ── weft adopt ──► an agent: joins the head, has the ranks of its host as above
//! ```
//!
//! Deaths: the launcher sees the end of the process by a handle, and then ends everything that belongs to the job unless
//! MPI was finalised. The end of the launcher ends the process by its lifeline. The launcher is no child of the process,
//! which may wait for children of its own. Head and agents lose each other as in any job on several hosts.
//!
//! | file | what |
//! |---|---|
//! | `handover` | what a process hands over: a message, with descriptors |
//! | `command` | `weft adopt`: takes it over |
//! | `installed` | the launcher of this installation |
//! | here | what was taken over, for the job, or for the agent of a host |

mod command;
mod handover;
mod installed;

use std::os::fd::OwnedFd;

use weft_secure::Key;
use weft_sys::passing;
use weft_sys::process::ProcessHandle;

use crate::control::Answer;
use crate::exchange::PublishedValue;
use crate::worlds::Worlds;

pub use command::main;
pub use handover::{Adoption, AgentRole};
pub use installed::find_launcher;

/// A process that was not started by its launcher.
#[derive(Debug)]
pub struct AdoptedProcess {
    /// The process, by a handle that keeps meaning it.
    pub process: ProcessHandle,
    /// Its rank.
    pub rank: u32,
    /// The socket for its messages and questions.
    pub control: OwnedFd,
    /// Never written to: closes when we end, and ends the process then.
    pub lifeline: OwnedFd,
}

/// A job that was not started by its launcher: its first process here, and what belongs to all of them.
#[derive(Debug)]
pub struct AdoptedJob {
    /// The process that has asked for the launcher.
    pub first: AdoptedProcess,
    /// The memory that the processes have made for themselves and others.
    pub memory: OwnedFd,
    /// Ports and names.
    pub worlds: Worlds,
    /// The other ranks, if another launcher may have started some.
    pub others: Option<OtherRanks>,
}

/// The other ranks of a host, which come when they need a launcher.
#[derive(Debug)]
pub struct OtherRanks {
    /// The socket to which they connect.
    pub listener: OwnedFd,
    /// The key that they show.
    pub key: Key,
    /// Closes when all ranks of the host have ended.
    pub ends: OwnedFd,
}

/// A host whose ranks were not started by its launcher, in a job on several hosts.
#[derive(Debug)]
pub struct AdoptedHost {
    /// Its ranks, ascending.
    pub ranks: Vec<u32>,
    /// The process that has asked for the launcher.
    pub first: AdoptedProcess,
    /// The memory that its ranks share.
    pub memory: OwnedFd,
    /// The other ranks.
    pub others: OtherRanks,
    /// The values that its ranks have published, by which later processes reach them.
    pub values: Vec<PublishedValue>,
}

impl AdoptedHost {
    /// Does not take it over; its ranks go on as before.
    pub fn refuse(self, reason: String) {
        let answer = Answer::Refused { reason }.encode();
        let _ = passing::send(&self.first.control, &answer, &[]);
    }
}

/// A job on several hosts that was not started by its launcher.
#[derive(Debug)]
pub struct AdoptedHosts {
    /// The control socket of the process that has asked for the head.
    pub control: OwnedFd,
    /// The key that agents prove.
    pub key: Key,
}

/// A job that was there before its launcher.
#[derive(Debug)]
pub enum Takeover {
    /// Its ranks are on this host.
    ThisHost(Box<AdoptedJob>),
    /// The ranks are on several hosts.
    SeveralHosts(AdoptedHosts),
}
