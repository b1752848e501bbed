//! Singleton: a process that nobody started as a rank. It is a job of one that made itself, and gets a launcher when it
//! starts others.
//!
//! ```text
//!   alone ── MPI_Comm_spawn ──► weft adopt is started ──► adopted: rank 0 of a job of that launcher
//!              its memory, a lifeline, its ports ──►           ◄── answered
//! ```
//!
//! What goes to the launcher goes over the socket that is its standard input: no name in any file system, no port. From
//! then on the process is tied to its launcher as any rank is, until it has finalised MPI.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use weft_fabric_shm::JobSize;
use weft_secure::Key;
use weft_sys::cores::cores_available;
use weft_sys::descriptor::{self, Carries};
use weft_sys::{lifeline, passing};

use super::control_socket::ControlSocket;
use super::environment::VARIABLES;
use super::hosts::{HostMap, name_of_this_host};
use super::{BootstrapError, Launcher};
use crate::adoption::{self, Adoption};
use crate::control::{ANSWER, Answer, Message, Told};
use crate::job_request::{JobAnswer, JobRequest, Refusal};
use crate::segment;
use crate::worlds::Worlds;

/// A process that nobody started as a rank.
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

/// The launcher of a process that it has not started.
#[derive(Debug)]
struct Adopted {
    control: ControlSocket,
    /// When its other end closes, the kernel ends us.
    lifeline: Mutex<Option<OwnedFd>>,
}

impl Adopted {
    /// What becomes of the launcher is of no consequence any more.
    fn untie(&self) {
        let lifeline = &mut *self.lifeline.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lifeline) = lifeline.take() {
            let _ = lifeline::untie(&lifeline);
        }
    }
}

impl Singleton {
    /// The job of this process.
    pub fn new() -> Self {
        let universe = crate::plan::universe(1);
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
        let launcher = adoption::find_launcher().ok_or(
            "there is no launcher: the command weft was looked for beside the library and in PATH; start the program by \
             mpiexec -n 1",
        )?;
        let failed = |error: io::Error| {
            format!(
                "the launcher {} could not be started: {error}; start the program by mpiexec -n 1",
                launcher.display()
            )
        };
        let (ours, theirs) = descriptor::socket_pair(Carries::Messages).map_err(failed)?;
        let (reading, writing) = descriptor::pipe().map_err(failed)?;
        let adoption = Adoption::new(worlds.clone()).encode();
        if adoption.len() > ANSWER {
            return Err(format!(
                "{} bytes of ports and names are published, more than a launcher takes over ({ANSWER}); close some, or start \
                 the program by mpiexec -n 1",
                adoption.len()
            ));
        }
        let started = Command::new(&launcher)
            .arg("adopt")
            .stdin(Stdio::from(theirs))
            .spawn();
        let mut started = started.map_err(failed)?;
        passing::send(&ours, &adoption, &[memory.as_fd(), writing.as_fd()]).map_err(failed)?;
        drop(writing);
        // It leaves at once a process behind that is no child of ours. A program may reap everything itself.
        let _ = started.wait();
        let mut bytes = vec![0; ANSWER];
        let (count, _) = passing::receive(&ours, &mut bytes).map_err(failed)?;
        match Answer::decode(&bytes[..count]) {
            Some(Answer::Taken) => {}
            Some(Answer::Refused { reason }) => return Err(reason),
            _ => {
                return Err(failed(io::Error::other(
                    "it has not taken the program over; all must be of the same release of Weft",
                )));
            }
        }
        lifeline::tie(&reading).map_err(failed)?;
        let control = ControlSocket::new(ours);
        control.tell(Told::Initialised);
        Ok(Adopted {
            control,
            lifeline: Mutex::new(Some(reading)),
        })
    }
}

fn ask(adopted: &Adopted, request: &JobRequest) -> Result<JobAnswer, BootstrapError> {
    match adopted.control.ask(&Message::pieces(request)) {
        Ok(Some(Answer::Job(answer))) => Ok(answer),
        Ok(Some(Answer::Refused { reason })) => Err(BootstrapError::new(reason)),
        Ok(_) => Err(BootstrapError::new(
            "the launcher's answer cannot be understood",
        )),
        Err(error) => Err(BootstrapError::new(format!(
            "the launcher is gone: {error}"
        ))),
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
            Some(adopted) => ask(adopted, request),
            None => Err(BootstrapError::new("there is no launcher")),
        }
    }

    fn connected(&self, connected: bool) {
        if let Some(adopted) = self.adopted.get() {
            adopted.control.tell_connected(connected);
        }
    }

    fn initialised(&self) {}

    fn finalised(&self) {
        if let Some(adopted) = self.adopted.get() {
            adopted.untie();
            adopted.control.tell(Told::Finalised);
        }
    }

    fn bereaved(&self) {
        if let Some(adopted) = self.adopted.get() {
            adopted.control.tell(Told::Bereaved);
        }
    }

    fn abort(&self, code: i32, text: &str) {
        match self.adopted.get() {
            Some(adopted) => {
                // The caller exits, with the code; it is not to be killed before that.
                adopted.untie();
                let text = text.to_owned();
                adopted.control.tell(Told::Abort { code, text });
            }
            None => {
                let said = if text.is_empty() { "" } else { ": " };
                eprintln!("weft: the program called MPI_Abort with code {code}{said}{text}");
            }
        }
    }
}
