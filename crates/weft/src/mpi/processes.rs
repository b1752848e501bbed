//! Processes that a program starts while it runs (MPI 5.0, chapter 11).
//!
//! They belong to the job and end with it. They have a world of their own; with the processes that started them they
//! communicate by an [`Intercommunicator`].

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};

use weft_launch::bootstrap::{
    JobAnswer, JobRequest, PortName, Refusal, SpawnProgram, SpawnRequest,
};
use weft_mpi::comm::{AwaitedWorld, Port};
use weft_mpi::{Error, ErrorClass, Result};

use super::communicator::Communicator;
use super::inter::Intercommunicator;
use super::state::RankState;

/// A program to be started, and the number of its processes.
///
/// ```no_run
/// use weft::mpi::{self, Program, op};
///
/// fn main() -> mpi::Result<()> {
///     let mpi = mpi::init()?;
///     let world = mpi.world();
///     match mpi.parent() {
///         // Two workers, which are this program again.
///         None => {
///             let worker = Program::new(std::env::current_exe().expect("a name"), 2);
///             let workers = world.spawn(0, &[worker])?;
///             assert_eq!(workers.allreduce(&0_usize, op::sum())?, 1);
///         }
///         Some(masters) => _ = masters.allreduce(&world.rank(), op::sum())?,
///     }
///     mpi.finalize()
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Program {
    words: Vec<OsString>,
    count: u32,
    folder: Option<PathBuf>,
    path: Option<OsString>,
    host: Option<String>,
}

impl Program {
    /// `count` processes of a program, which is looked up as `mpiexec` does.
    #[must_use]
    pub fn new(name: impl Into<OsString>, count: u32) -> Self {
        Self {
            words: vec![name.into()],
            count,
            folder: None,
            path: None,
            host: None,
        }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, word: impl Into<OsString>) -> Self {
        self.words.push(word.into());
        self
    }

    /// Sets the folder in which it runs; by default that of this process.
    #[must_use]
    pub fn current_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// Sets folders to look for it first, separated by colons (the info key `path`).
    #[must_use]
    pub fn path(mut self, folders: impl Into<OsString>) -> Self {
        self.path = Some(folders.into());
        self
    }

    /// Sets the host on which it is to run (the info key `host`).
    #[must_use]
    pub fn host(mut self, name: impl Into<String>) -> Self {
        self.host = Some(name.into());
        self
    }

    fn described(&self) -> SpawnProgram {
        let folder = self.folder.clone().or_else(|| std::env::current_dir().ok());
        let folder = folder.unwrap_or_else(|| PathBuf::from("/"));
        let words = self.words.iter().cloned();
        SpawnProgram {
            words: words.map(OsString::into_vec).collect(),
            counts: vec![self.count],
            folder: folder.into_os_string().into_vec(),
            path: self.path.clone().map(OsString::into_vec),
            host: self.host.clone(),
            error_handler: None,
        }
    }
}

impl Communicator {
    /// Starts processes, and returns an intercommunicator with them (`MPI_Comm_spawn_multiple`). `programs` matters only
    /// at `root`. Collective.
    ///
    /// # Errors
    /// At all ranks: `Spawn` if they could not be started, or the job has no process slots for them.
    pub fn spawn(&self, root: usize, programs: &[Program]) -> Result<Intercommunicator> {
        let mut port = None;
        let started = (self.rank() == root).then(|| start(self.state(), programs, &mut port));
        let missing = || {
            let port = port.clone()?;
            let asked = ask(self.state(), &JobRequest::FindPort { port });
            asked.err().map(|error| error.text().to_owned())
        };
        let asked = started.map(|started| {
            let awaited = started.map(|(port, number)| AwaitedWorld {
                port,
                number,
                missing: &missing,
            });
            (awaited, Vec::new())
        });
        let root = u32::try_from(root).unwrap_or(u32::MAX);
        let made = self.comm().spawned(root, asked);
        if let Some(port) = port {
            // Those that it was for have come; or never will, and whoever has called already waits for an answer.
            let request = match &made {
                Ok((_, Ok(_))) => JobRequest::ClosePort { port },
                _ => JobRequest::Abandon { port },
            };
            _ = ask(self.state(), &request);
        }
        let (_, made) = made?;
        Ok(Intercommunicator::new(self.made(made?)))
    }
}

/// The root: has processes started; answers the port by which they come, and the number of their world.
fn start(
    state: &Arc<RankState>,
    programs: &[Program],
    name: &mut Option<String>,
) -> Result<(Port, u32)> {
    let no_room = || {
        Error::new(
            ErrorClass::Spawn,
            "this job has no room for further processes: its ranks are threads, or it was started with --on-death restart, \
             with --universe of the number of its ranks, or by another launcher than Weft's mpiexec on one host with \
             WEFT_FABRIC=tcp; start it without these",
        )
    };
    let launcher = state.launcher().ok_or_else(no_room)?;
    let process = state.process();
    if process.peers() == process.first() && !launcher.is_singleton() {
        return Err(no_room());
    }
    let JobAnswer::Port(port) = ask(state, &JobRequest::OpenPort)? else {
        return Err(strange());
    };
    *name = Some(port.clone());
    let place = port_of(&port)?;
    let request = JobRequest::Spawn(SpawnRequest {
        programs: programs.iter().map(Program::described).collect(),
        port,
    });
    // The launcher may wait until this process has put away what it had to do with others that have ended: it makes progress
    // meanwhile.
    let (done, answer) = mpsc::channel();
    let (asking, told) = (Arc::clone(state), Arc::clone(process));
    let thread = std::thread::Builder::new().name("weft-spawn".into());
    let started = thread.spawn(move || {
        _ = done.send(ask(&asking, &request));
        told.notify();
    });
    if let Err(error) = started {
        return Err(Error::new(
            ErrorClass::Spawn,
            format!(
                "no thread can be started to ask the launcher: {error}; raise the limit of processes (ulimit -u)"
            ),
        ));
    }
    let mut found = None;
    process.wait_until(|| {
        found = answer.try_recv().ok();
        found.is_some()
    });
    match found.expect("waited for")? {
        JobAnswer::Spawned { world, .. } => Ok((place, world)),
        _ => Err(strange()),
    }
}

/// The processes that have had this one started, if it was: all of its world come here when they join.
pub(super) fn parent(world: &Communicator) -> Result<Option<Intercommunicator>> {
    let later = world
        .state()
        .launcher()
        .and_then(|launcher| launcher.later());
    let Some(name) = later.and_then(|later| later.parent.clone()) else {
        return Ok(None);
    };
    let port = (world.rank() == 0).then(|| {
        let port = name.clone();
        match ask(world.state(), &JobRequest::FindPort { port })? {
            JobAnswer::Done => port_of(&name),
            _ => Err(strange()),
        }
    });
    let comm = world.comm().connect_to(0, port)?;
    Ok(Some(Intercommunicator::new(world.made(comm))))
}

/// Asks the job as a whole; what it refuses is an error.
pub(super) fn ask(state: &RankState, request: &JobRequest) -> Result<JobAnswer> {
    match state.ask_job(request)? {
        JobAnswer::Refused { refusal, reason } => {
            let class = match refusal {
                Refusal::Spawn => ErrorClass::Spawn,
                Refusal::Port => ErrorClass::Port,
                Refusal::Name => ErrorClass::Name,
                Refusal::Service => ErrorClass::Service,
                Refusal::Other => ErrorClass::Other,
            };
            Err(Error::new(class, reason))
        }
        answer => Ok(answer),
    }
}

pub(super) fn port_of(name: &str) -> Result<Port> {
    let (_, PortName { owner, number }) = PortName::parse(name).ok_or_else(strange)?;
    let owner = weft_fabric::Peer(owner);
    Ok(Port { owner, number })
}

#[cold]
pub(super) fn strange() -> Error {
    Error::new(
        ErrorClass::Intern,
        "the launcher has answered something else than was asked; use mpiexec and the library of one release",
    )
}
