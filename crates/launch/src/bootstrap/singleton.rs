//! Singleton: a process that was not started as a rank. It is a job of one that it made itself, and gets a launcher when
//! it starts others.
//!
//! ```text
//!   alone ── MPI_Comm_spawn ──► weft adopt is started ──► adopted: rank 0 of a job of that launcher
//!              its memory, a lifeline, its ports ──►           ◄── answered
//! ```
//!
//! Everything for the launcher goes over the socket that is its standard input: no name in any file system, no port. From
//! then on the process is tied to its launcher as any rank is, until it has finalised MPI.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use weft_fabric_shm::JobSize;
use weft_secure::Key;
use weft_sys::cores::cores_available;

use super::adopted::Adopted;
use super::environment::VARIABLES;
use super::hosts::{HostMap, name_of_this_host};
use super::{BootstrapError, Launcher};
use crate::job_request::{JobAnswer, JobRequest, Refusal};
use crate::segment;
use crate::worlds::Worlds;

/// A process that was not started as a rank.
#[derive(Debug)]
pub struct Singleton {
    hosts: HostMap,
    values: Mutex<HashMap<String, Vec<u8>>>,
    /// Its memory, with room for those that it may start. `None` if the system gives it no such.
    memory: Option<OwnedFd>,
    /// The ports that it opens and the names that it publishes, until a launcher has them.
    worlds: Mutex<Worlds>,
    adopted: OnceLock<Adopted>,
}

impl Singleton {
    /// The job of this process.
    pub fn new() -> Self {
        let universe = crate::plan::default_universe(1);
        let size = JobSize {
            room: universe - 1,
            addresses: universe,
            ..JobSize::of(1)
        }
        .with_channels_on(segment::cores());
        Self {
            hosts: HostMap::single(1, &name_of_this_host()),
            values: Mutex::default(),
            // Without that much address space it works alone.
            memory: segment::create(size).ok().map(|segment| segment.descriptor),
            worlds: Mutex::new(Worlds::new(1, universe - 1)),
            adopted: OnceLock::new(),
        }
    }

    fn values(&self) -> MutexGuard<'_, HashMap<String, Vec<u8>>> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a launcher, which has the job from now on. Whoever calls has the worlds.
    fn get_adopted(&self, worlds: &Worlds) -> Result<Adopted, String> {
        let memory = self.memory.as_ref().ok_or(
            "the system gave this program no memory that others could share; start it by mpiexec -n 1",
        )?;
        Adopted::start(worlds, memory, "start the program by mpiexec -n 1", None)
    }
}

impl Launcher for Singleton {
    fn variables(&self) -> &'static [&'static str] {
        VARIABLES
    }

    fn rank(&self) -> u32 {
        0
    }

    fn appnum(&self) -> u32 {
        0
    }

    fn hosts(&self) -> &HostMap {
        &self.hosts
    }

    fn is_singleton(&self) -> bool {
        true
    }

    fn universe(&self) -> u32 {
        cores_available().max(1) as u32
    }

    fn segment(&self) -> Option<OwnedFd> {
        self.memory.as_ref()?.try_clone().ok()
    }

    fn key(&self) -> Option<Key> {
        None
    }

    fn put(&self, name: &str, value: &[u8]) -> Result<(), BootstrapError> {
        self.values().insert(name.to_owned(), value.to_vec());
        Ok(())
    }

    fn fence(&self) -> Result<(), BootstrapError> {
        Ok(())
    }

    fn get(&self, rank: u32, name: &str) -> Result<Option<Vec<u8>>, BootstrapError> {
        Ok((rank == 0)
            .then(|| self.values().get(name).cloned())
            .flatten())
    }

    fn ask_job(&self, request: &JobRequest) -> Result<JobAnswer, BootstrapError> {
        let mut worlds = self.worlds.lock().unwrap_or_else(PoisonError::into_inner);
        if self.adopted.get().is_none() {
            if let JobRequest::Spawn(_) = request {
                match self.get_adopted(&worlds) {
                    Ok(adopted) => drop(self.adopted.set(adopted)),
                    Err(reason) => return Ok(JobAnswer::refuse(Refusal::Spawn, reason)),
                }
            } else {
                return Ok(worlds.answer(0, request.clone()).unwrap_or_else(|| {
                    JobAnswer::refuse(Refusal::Other, "this program was started alone")
                }));
            }
        }
        drop(worlds);
        match self.adopted.get() {
            Some(adopted) => adopted.ask(request),
            None => Err(BootstrapError::new("there is no launcher")),
        }
    }

    fn connected(&self, connected: bool) {
        if let Some(adopted) = self.adopted.get() {
            adopted.tell_connected(connected);
        }
    }

    fn initialised(&self) {}

    fn finalised(&self) {
        if let Some(adopted) = self.adopted.get() {
            adopted.tell_finalised();
        }
    }

    fn ends_by_loss(&self) {
        if let Some(adopted) = self.adopted.get() {
            adopted.tell_end_by_loss();
        }
    }

    fn abort(&self, code: i32, text: &str) {
        match self.adopted.get() {
            Some(adopted) => adopted.tell_abort(code, text),
            None => {
                let said = if text.is_empty() { "" } else { ": " };
                crate::user_output::tell(format_args!(
                    "weft: the program called MPI_Abort with code {code}{said}{text}"
                ));
            }
        }
    }
}
