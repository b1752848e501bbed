//! Requests of a rank to its job as a whole: to start processes, to open ports, to publish names. They go to the process
//! that manages the whole job ([`Worlds`](crate::worlds::Worlds)), over the rank's control socket, in pieces if they are
//! long; on several hosts from the agent to the head.

use crate::bootstrap::HostMap;

use serde::{Deserialize, Serialize};

/// Longest request in bytes.
pub const LONGEST_REQUEST: usize = 1 << 20;

/// A request of a rank to its job.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum JobRequest {
    /// To start processes.
    Spawn(SpawnRequest),
    /// The world of the caller. Asked by processes that were started from within a program.
    World,
    /// No request. The answer says that earlier notices of the process are known where the job is judged.
    Heard,
    /// To be known to the whole job, by a process that was started from within a program. Answered when all of its world
    /// are known everywhere.
    Introduce {
        /// Its address.
        address: String,
    },
    /// A port, for others to connect to.
    OpenPort,
    /// A port is no more.
    ClosePort {
        /// Its name.
        port: String,
    },
    /// `MPI_Comm_spawn` has failed at those who have had processes started: the port by which these were to come is no more,
    /// and they are ended.
    Abandon {
        /// The name of the port.
        port: String,
    },
    /// Whether there is such a port.
    FindPort {
        /// Its name.
        port: String,
    },
    /// To publish a port under the name of a service.
    Publish {
        /// The service.
        service: String,
        /// The name of the port.
        port: String,
    },
    /// The port of a service.
    LookUp {
        /// The service.
        service: String,
    },
    /// A service is no more.
    Unpublish {
        /// The service.
        service: String,
        /// The name of its port.
        port: String,
    },
}

/// Processes to be started together.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SpawnRequest {
    /// Their programs.
    pub programs: Vec<SpawnProgram>,
    /// The port by which they reach the processes that have them started.
    pub port: String,
}

impl SpawnRequest {
    /// Whether no process is to be started, or none of one of its programs. An empty world would never meet the processes
    /// that wait for it.
    pub fn starts_no_process(&self) -> bool {
        let nobody = |program: &SpawnProgram| program.counts.iter().min().is_none_or(|n| *n == 0);
        self.programs.is_empty() || self.programs.iter().any(nobody)
    }
}

/// One program of a [`SpawnRequest`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SpawnProgram {
    /// Its name as written, and its arguments.
    pub words: Vec<Vec<u8>>,
    /// Possible numbers of processes to run it: the largest possible one is used.
    pub counts: Vec<u32>,
    /// The folder in which it runs.
    pub folder: Vec<u8>,
    /// Folders to look for it first, separated by colons.
    pub path: Option<Vec<u8>>,
    /// On which host.
    pub host: Option<String>,
    /// The name of its initial error handler, if it is not the usual one.
    pub error_handler: Option<String>,
}

/// An answer of the job.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum JobAnswer {
    /// It is done.
    Done,
    /// This many processes were started of each program.
    Spawned {
        /// In the order of the request.
        counts: Vec<u32>,
        /// The number of their world.
        world: u32,
    },
    /// The world of the asking process.
    World(World),
    /// The name of a port.
    Port(String),
    /// The port is one of another job.
    Elsewhere,
    /// It cannot be done.
    Refused {
        /// Kind of the error.
        refusal: Refusal,
        /// Why, and a remedy.
        reason: String,
    },
}

/// Kind of a refusal: the error class of MPI that it becomes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Refusal {
    /// Processes could not be started (`MPI_ERR_SPAWN`).
    Spawn,
    /// There is no such port (`MPI_ERR_PORT`).
    Port,
    /// No port is published under this name (`MPI_ERR_NAME`).
    Name,
    /// The service cannot be published or unpublished (`MPI_ERR_SERVICE`).
    Service,
    /// Anything else (`MPI_ERR_OTHER`).
    Other,
}

impl Refusal {
    /// For a request that a launcher does not serve at all.
    pub fn of(request: &JobRequest) -> Self {
        match request {
            JobRequest::Spawn(_) => Self::Spawn,
            JobRequest::FindPort { .. }
            | JobRequest::ClosePort { .. }
            | JobRequest::Abandon { .. } => Self::Port,
            JobRequest::LookUp { .. } => Self::Name,
            JobRequest::Publish { .. } | JobRequest::Unpublish { .. } => Self::Service,
            JobRequest::World
            | JobRequest::Heard
            | JobRequest::OpenPort
            | JobRequest::Introduce { .. } => Self::Other,
        }
    }
}

/// Processes that were started together: those of one `MPI_COMM_WORLD`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct World {
    /// Its number: 0 for the processes that the job starts with.
    pub number: u32,
    /// The numbers of its processes in the job, by rank.
    pub members: Vec<u32>,
    /// Number of processes that the job started with.
    pub first: u32,
    /// How many more each of its hosts may have: their numbers follow those that the job started with, host by host.
    pub room: u32,
    /// The port of the processes that had it started.
    pub parent: Option<String>,
}

impl World {
    /// The host of each of its processes; `None` if they have no number of this job, whose first processes are on these
    /// hosts.
    #[must_use]
    pub fn hosts(&self, first: &HostMap) -> Option<HostMap> {
        let host = |number: &u32| {
            let host = match number.checked_sub(self.first) {
                None => first.host(*number),
                Some(later) => later.checked_div(self.room)?,
            };
            (host < first.count()).then(|| (host, first.name(host).to_owned()))
        };
        let cards: Option<Vec<_>> = self.members.iter().map(host).collect();
        Some(HostMap::group(cards?))
    }
}

/// Longest reason of a refusal in bytes: one that quotes what was asked for may be as long as that, and no answer holds it.
const LONGEST_REASON: usize = 4096;

impl JobAnswer {
    /// A refusal. The middle of a reason that is too long is left out: the request is at its beginning, and the remedy at
    /// its end.
    pub fn refuse(refusal: Refusal, reason: impl Into<String>) -> Self {
        let mut reason = reason.into();
        if reason.len() > LONGEST_REASON {
            let boundary = |at: usize| reason.floor_char_boundary(at);
            let (begin, end) = (
                boundary(LONGEST_REASON / 2),
                boundary(reason.len() - LONGEST_REASON / 2 + 8),
            );
            reason.replace_range(begin..end, " … ");
        }
        Self::Refused { refusal, reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_fits_an_answer() {
        for text in ["x".repeat(70_000), "ü".repeat(70_001), "€".repeat(1 << 20)] {
            let reason = format!("'{text}' is not there; name another one");
            let JobAnswer::Refused { reason, .. } = JobAnswer::refuse(Refusal::Spawn, reason)
            else {
                panic!("it is refused");
            };
            assert!(reason.len() <= LONGEST_REASON, "{}", reason.len());
            assert!(reason.starts_with('\'') && reason.ends_with("name another one"));
        }
        let short = JobAnswer::refuse(Refusal::Spawn, "short");
        assert!(matches!(short, JobAnswer::Refused { reason, .. } if reason == "short"));
    }
}
