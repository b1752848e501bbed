//! Later processes of a job whose launcher starts none for us: one that speaks PMI or PMIx. On one host, where the ranks share memory
//! with room for more, a launcher of ours does it, which is started when the first rank asks ([`adopted`](super::adopted)).

use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::BootstrapError;
use super::adopted::{Adopted, Meeting};
use crate::job_request::{JobAnswer, JobRequest, Refusal};
use crate::worlds::Worlds;

/// Later processes, ports and names; or why there cannot be any.
#[derive(Debug)]
pub(super) struct Later(Result<Possible, String>);

/// What is needed for them.
#[derive(Debug)]
struct Possible {
    memory: OwnedFd,
    meeting: Meeting,
    /// Closes when this process ends.
    _living: OwnedFd,
    /// As they are before there is a launcher.
    worlds: Mutex<Worlds>,
    adopted: OnceLock<Adopted>,
}

impl Possible {
    fn worlds(&self) -> MutexGuard<'_, Worlds> {
        self.worlds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The launcher that keeps them, started if there is none yet.
    fn adopted(&self) -> Result<&Adopted, String> {
        let worlds = self.worlds();
        if let Some(adopted) = self.adopted.get() {
            return Ok(adopted);
        }
        let remedy = "start the program by Weft's own mpiexec";
        let adopted = Adopted::meet(&worlds, &self.memory, remedy, &self.meeting)?;
        Ok(self.adopted.get_or_init(|| adopted))
    }

    fn ask(&self, request: &JobRequest) -> Result<JobAnswer, BootstrapError> {
        if self.adopted.get().is_none() {
            // These need nobody.
            match request {
                JobRequest::World => return Ok(self.worlds().of(self.meeting.rank)),
                JobRequest::Heard => return Ok(JobAnswer::Done),
                _ => {}
            }
        }
        match self.adopted() {
            Ok(adopted) => adopted.ask(request),
            Err(reason) => Ok(JobAnswer::refuse(Refusal::of(request), reason)),
        }
    }
}

impl Later {
    /// There can be some, in this memory. `living` closes when this process ends.
    pub fn possible(memory: OwnedFd, meeting: Meeting, living: OwnedFd) -> Self {
        let ranks = meeting.ranks;
        Self(Ok(Possible {
            memory,
            meeting,
            _living: living,
            worlds: Mutex::new(Worlds::new(ranks, crate::plan::universe(ranks) - ranks)),
            adopted: OnceLock::new(),
        }))
    }

    /// There can be none.
    pub fn refused(why: String) -> Self {
        Self(Err(why))
    }

    /// The launcher of ours, if there is one.
    pub fn adopted(&self) -> Option<&Adopted> {
        self.0.as_ref().ok()?.adopted.get()
    }

    /// As [`Launcher::ask_job`](super::Launcher::ask_job).
    pub fn ask(&self, request: &JobRequest) -> Result<JobAnswer, BootstrapError> {
        match &self.0 {
            Ok(possible) => possible.ask(request),
            Err(why) => Ok(JobAnswer::refuse(Refusal::of(request), why.as_str())),
        }
    }

    /// As [`Launcher::connected`](super::Launcher::connected).
    pub fn tell_connected(&self, connected: bool) {
        let Ok(possible) = &self.0 else {
            return;
        };
        if connected {
            // Who cannot come is missed by its own launcher.
            if let Ok(adopted) = possible.adopted() {
                adopted.tell_connected(true);
            }
        } else if let Some(adopted) = possible.adopted.get() {
            adopted.tell_connected(false);
        }
    }
}

/// Why a job on several hosts has none. `launcher`: what has started it.
pub(super) fn several_hosts(launcher: &str) -> String {
    format!(
        "this job was started on several hosts by {launcher}, under which Weft starts further processes and keeps ports and names on one \
         host only; start it by Weft's own mpiexec"
    )
}

/// Why a job over TCP has none.
pub(super) fn over_tcp(launcher: &str) -> String {
    format!(
        "this job was started by {launcher}, under which Weft starts further processes in shared memory only; leave out WEFT_FABRIC, or \
         start it by Weft's own mpiexec"
    )
}
