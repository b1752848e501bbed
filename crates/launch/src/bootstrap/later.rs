//! Later processes of a job whose launcher, which speaks PMI or PMIx, starts none. A launcher of Weft starts them; it is
//! started when the first rank asks ([`adopted`](super::adopted)): on one host, where the ranks share memory with room
//! for more; on several, one for each, by [calls].

use std::collections::BTreeSet;
use std::fmt;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use rustix::io::Errno;
use weft_sys::poll;

use super::BootstrapError;
use super::abstract_socket;
use super::adopted::{AGAIN, Adopted, Meeting, PATIENCE, StartingLauncher, start_head};
use super::calls::{self, CallListener, CalledHosts, Losses, call_all};
use super::deadlock_search::DeadlockSearch;
use crate::adoption::AgentRole;
use crate::exchange::PublishedValue;
use crate::hosts::link::Link;
use crate::job_request::{JobAnswer, JobRequest, Refusal};
use crate::worlds::Worlds;

/// What to do instead.
const REMEDY: &str = "start the program by Weft's own mpiexec";

/// Answers what a rank has put under a name.
type Get = dyn Fn(u32, &str) -> Option<Vec<u8>> + Send + Sync;

/// The launcher's store.
struct GetValue(Box<Get>);

impl fmt::Debug for GetValue {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("GetValue")
    }
}

/// Later processes, ports and names; or why there cannot be any.
#[derive(Debug)]
pub(super) struct Later {
    possible: Result<Arc<Possible>, String>,
    calls: Mutex<Calls>,
}

/// Whether other hosts call here, as the lowest rank of this one.
#[derive(Debug)]
enum Calls {
    /// They do not.
    None,
    /// They will, at this port.
    Prepared(TcpListener),
    Heard {
        /// Ends the thread with it.
        _listener: CallListener,
    },
}

/// What is needed for them.
#[derive(Debug)]
struct Possible {
    memory: OwnedFd,
    meeting: Meeting,
    /// `None` if all ranks are on this one.
    hosts: Option<CalledHosts>,
    /// The launcher's store, once MPI is initialised, and what each rank has put there.
    store: OnceLock<GetValue>,
    put: Mutex<BTreeSet<String>>,
    /// Closes when this process ends.
    _living: OwnedFd,
    /// As they are before there is a launcher.
    worlds: Mutex<Worlds>,
    adopted: OnceLock<Adopted>,
    /// Ranks that search on other hosts call as well.
    deadlocks: DeadlockSearch,
}

impl Possible {
    fn worlds(&self) -> MutexGuard<'_, Worlds> {
        self.worlds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a rank has put into the launcher's store.
    fn get(&self, rank: u32, name: &str) -> Option<Vec<u8>> {
        self.store.get().and_then(|GetValue(get)| get(rank, name))
    }

    /// The launcher that keeps them, started if there is none yet.
    fn adopted(&self) -> Result<&Adopted, String> {
        let worlds = self.worlds();
        if let Some(adopted) = self.adopted.get() {
            return Ok(adopted);
        }
        let adopted = match &self.hosts {
            None => Some(Adopted::meet(&worlds, &self.memory, REMEDY, &self.meeting)?),
            Some(hosts) => {
                let met = self.meet_on_hosts(hosts);
                met.map_err(|reason| format!("{reason}; {REMEDY}"))?
            }
        };
        if let Some(adopted) = adopted {
            let _ = self.adopted.set(adopted);
        }
        // By whoever was called, if not here.
        self.adopted
            .get()
            .ok_or_else(|| format!("the launcher of this host is gone; {REMEDY}"))
    }

    /// Comes to the agent of this host, after all hosts were called if there is none. `None`: this process is called itself, and has
    /// been adopted then.
    fn meet_on_hosts(&self, hosts: &CalledHosts) -> Result<Option<Adopted>, String> {
        let failed =
            |error: std::io::Error| format!("the launcher of this host cannot be reached: {error}");
        let deadline = Instant::now() + PATIENCE + PATIENCE;
        // One of this host calls at a time.
        let turn_name = format!("{}-calling", self.meeting.name);
        let mut has_called = false;
        loop {
            if let Some(adopted) = Adopted::find(&self.meeting).map_err(failed)? {
                return Ok(Some(adopted));
            }
            if self.adopted.get().is_some() {
                return Ok(None);
            }
            match abstract_socket::listen(&turn_name) {
                // It may have come about before it was our turn.
                Ok(_turn) if !has_called => {
                    if self.adopted.get().is_none() {
                        call_all(hosts, &|rank| self.get(rank, calls::NAME))?;
                    }
                    has_called = true;
                    continue;
                }
                Ok(_) | Err(Errno::ADDRINUSE) if Instant::now() < deadline => {}
                Ok(_) => return Err("the launcher of this host does not answer".into()),
                Err(error) => return Err(failed(error.into())),
            }
            poll::wait(&mut [], Some(AGAIN)).map_err(failed)?;
        }
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

impl calls::Start for Possible {
    fn head(&self) -> Result<OwnedFd, String> {
        start_head(self.meeting.ranks, &self.meeting.key)
    }

    fn agent(&self, head: &str) -> Result<StartingLauncher, String> {
        let hosts = self.hosts.as_ref().ok_or("the job has no other hosts")?;
        let rank = self.meeting.rank;
        let ranks: Vec<u32> = hosts.map.ranks_of(hosts.map.host(rank)).collect();
        // All ranks put the same: where they can be reached.
        let names = self.put.lock().unwrap_or_else(PoisonError::into_inner);
        let published = |rank: u32| {
            let names = names.iter();
            names.filter_map(move |name| {
                let (name, value) = (name.clone(), self.get(rank, name)?);
                Some(PublishedValue { rank, name, value })
            })
        };
        let values = ranks.iter().copied().flat_map(published).collect();
        let role = AgentRole {
            portions: 0,
            ranks,
            rank,
            key: hosts.key.to_text(),
            head: head.to_owned(),
            universe: hosts.universe,
        };
        StartingLauncher::of_host(role, values, &self.memory, &self.meeting)
    }

    fn is_adopted(&self) -> bool {
        self.adopted.get().is_some()
    }

    fn adopt(&self, launcher: Adopted) {
        let _ = self.adopted.set(launcher);
    }

    fn search(&self, rank: u32, link: Link) {
        self.deadlocks.take_in(rank, link);
    }
}

/// Room for later processes, on each host.
#[derive(Clone, Copy, Debug)]
pub(super) struct LaterRoom {
    /// Number of ranks of the job.
    pub ranks: u32,
    /// How many more processes a host may have.
    pub room: u32,
}

impl Later {
    /// There can be some, in this memory. `living` closes when this process ends. With several hosts, and the port where this process
    /// is called as the lowest rank of its own.
    pub fn possible(
        memory: OwnedFd,
        meeting: Meeting,
        living: OwnedFd,
        size: LaterRoom,
        hosts: Option<(CalledHosts, Option<TcpListener>)>,
        deadlocks: DeadlockSearch,
    ) -> Self {
        let (hosts, port) = hosts.unzip();
        let possible = Possible {
            memory,
            meeting,
            hosts,
            store: OnceLock::new(),
            put: Mutex::default(),
            _living: living,
            worlds: Mutex::new(Worlds::new(size.ranks, size.room)),
            adopted: OnceLock::new(),
            deadlocks,
        };
        Self {
            possible: Ok(Arc::new(possible)),
            calls: Mutex::new(port.flatten().map_or(Calls::None, Calls::Prepared)),
        }
    }

    /// There can be none.
    pub fn refused(why: String) -> Self {
        Self {
            possible: Err(why),
            calls: Mutex::new(Calls::None),
        }
    }

    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This rank, as all others, puts a value of this name into the launcher's store.
    pub fn note_put(&self, name: &str) {
        if let Ok(possible) = &self.possible {
            let mut put = possible.put.lock().unwrap_or_else(PoisonError::into_inner);
            put.insert(name.to_owned());
        }
    }

    /// MPI is initialised: calls of other hosts are received from now on. `get` returns the value that a rank has put
    /// into the launcher's store under a name. With `end_job` hosts detect each other's loss, and it is called with a
    /// loss: to report it and to have the launcher end the job.
    pub fn begin(
        &self,
        get: impl Fn(u32, &str) -> Option<Vec<u8>> + Send + Sync + 'static,
        end_job: Option<impl FnOnce(&str) + Send + 'static>,
    ) {
        let mut calls = self.calls();
        let Ok(possible) = &self.possible else {
            return;
        };
        let _ = possible.store.set(GetValue(Box::new(get)));
        *calls = match (std::mem::replace(&mut *calls, Calls::None), &possible.hosts) {
            (Calls::Prepared(port), Some(hosts)) => {
                let rank = possible.meeting.rank;
                let losses = end_job.map(|end_job| {
                    let possible = Arc::clone(possible);
                    Losses {
                        place: Box::new(move |rank| possible.get(rank, calls::NAME)),
                        end_job: Box::new(end_job),
                    }
                });
                let start = Arc::clone(possible);
                let begun = CallListener::begin(port, hosts, rank, start, losses);
                // Without a thread nobody is heard, which who calls is told.
                begun.map_or(Calls::None, |listener| Calls::Heard {
                    _listener: listener,
                })
            }
            (calls, _) => calls,
        };
    }

    /// MPI is finalised: no further process is started.
    pub fn end(&self) {
        *self.calls() = Calls::None;
        if let Some(adopted) = self.adopted() {
            adopted.tell_finalised();
        }
    }

    /// The launcher of ours, if there is one.
    pub fn adopted(&self) -> Option<&Adopted> {
        self.possible.as_ref().ok()?.adopted.get()
    }

    /// As [`Launcher::ask_job`](super::Launcher::ask_job).
    pub fn ask(&self, request: &JobRequest) -> Result<JobAnswer, BootstrapError> {
        match &self.possible {
            Ok(possible) => possible.ask(request),
            Err(why) => Ok(JobAnswer::refuse(Refusal::of(request), why.as_str())),
        }
    }

    /// As [`Launcher::connected`](super::Launcher::connected).
    pub fn tell_connected(&self, connected: bool) {
        let Ok(possible) = &self.possible else {
            return;
        };
        if connected {
            // A rank that cannot come is missed by its own launcher.
            if let Ok(adopted) = possible.adopted() {
                adopted.tell_connected(true);
            }
        } else if let Some(adopted) = possible.adopted.get() {
            adopted.tell_connected(false);
        }
    }
}

/// Why a job over TCP has none.
pub(super) fn over_tcp(launcher: &str) -> String {
    format!(
        "this job was started by {launcher}, under which Weft starts further processes in shared memory only; leave out WEFT_FABRIC, or \
         start it by Weft's own mpiexec"
    )
}
