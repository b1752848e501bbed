//! Bootstrap of a rank: how a process learns which rank it is, of how many, and where the shared memory of its
//! host is.
//!
//! ```text
//!   mpiexec ── environment ──▶ WEFT_RANK, WEFT_SIZE, WEFT_APPNUM, WEFT_LOCAL_RANK, WEFT_LOCAL_SIZE
//!           └─ descriptors ──▶ WEFT_JOB_FD (memory), WEFT_CONTROL_FD (socket), WEFT_LIFELINE_FD (pipe)
//!
//!   MPI_Init ── join() ──▶ dyn Launcher
//! ```
//!
//! Variables and descriptors pass through any wrapper (`sh -c`, `env`, `unshare`, `gdb --args`) until
//! MPI is initialised. From then on the descriptors close on `exec`, and the caller of [`join`] removes
//! [`Launcher::variables`] from the environment, so that a process started by a rank is not taken for that rank. `WEFT_JOB` stays:
//! below a rank of Weft, variables of a foreign launcher further up are ignored. So are the variables that Weft sets
//! for scripts to read (`PMI_RANK` and the like): nothing here reads them.
//!
//! Under a launcher that speaks PMI version 1 or PMIx the ranks do among themselves what that launcher does not:
//! [`pmi`], [`pmix`]. Later processes are started there by a launcher of Weft that [adopts](adopted) the ranks, on several hosts after
//! [calls] between them. One of the ranks [searches for deadlocks](deadlock_search). A process without variables of any launcher is a job
//! of one. Variables of a launcher that is not understood are an error
//! that names it, never many copies of rank 0.
//!
//! # What every launcher gives
//! [`Launcher`] is what this library needs of any launcher: a rank, the hosts of all ranks, memory for those of
//! one host, a key, a store with a fence by which ranks exchange addresses, an end. PMI-1, PMI-2 and PMIx
//! offer the store and the fence; beyond these, [`Launcher`] asks for little.

pub(crate) mod abstract_socket;
mod adopted;
mod builtin;
mod calls;
mod control_socket;
mod deadlock_search;
mod environment;
mod foreign;
mod hosts;
pub(crate) mod key_listener;
mod later;
pub mod pmi;
mod pmix;
mod singleton;

use std::fmt;
use std::os::fd::OwnedFd;

pub(crate) use abstract_socket::runs_as_us;
pub use environment::{ERROR_HANDLERS, initial_error_handler};
pub(crate) use environment::{Names, VARIABLES, foreign_variables};
pub use hosts::HostMap;
pub(crate) use hosts::{name_of_this_host, one_word};

use weft_mpi::counters::Counters;
use weft_mpi::waits::RankWaits;
use weft_secure::Key;

use crate::check_mode::{self, CheckMode};
pub use crate::control::{NAME_LIMIT, VALUE_LIMIT};
pub use crate::job_request::{JobAnswer, JobRequest, Refusal, SpawnProgram, SpawnRequest, World};
pub use crate::worlds::{PortName, Served, Worlds};

/// Tells the launcher the addresses of counters.
pub type CounterTeller = Box<dyn Fn(&Counters) + Send + Sync>;

/// The interface of a rank to its launcher. Calls wait for the launcher, and may come from any thread.
pub trait Launcher: fmt::Debug + Send + Sync {
    /// This process's rank.
    fn rank(&self) -> u32;

    /// Index of this program among those on the command line, from 0.
    fn appnum(&self) -> u32;

    /// The host of each rank.
    fn hosts(&self) -> &HostMap;

    /// Number of ranks of the job.
    fn size(&self) -> u32 {
        self.hosts().size()
    }

    /// This process's rank among those of its host: its rank in the memory that they share.
    fn local_rank(&self) -> u32 {
        self.hosts().local_rank(self.rank())
    }

    /// Number of ranks of the job on this host.
    fn local_size(&self) -> u32 {
        self.hosts().local_size(self.hosts().host(self.rank()))
    }

    /// The variables that made this process a rank: to be removed once it is one.
    fn variables(&self) -> &'static [&'static str];

    /// Whether this process was started without a launcher: a job of one that it made itself.
    fn is_singleton(&self) -> bool;

    /// The descriptor of the memory that the ranks of this host share, for `Shm::attach` with
    /// [`local_rank`](Self::local_rank); given out once. `None` for a singleton, which makes its own, and
    /// when it was taken before.
    fn segment(&self) -> Option<OwnedFd>;

    /// The key of the job, by which its ranks prove to each other that they belong to it. `None` if all
    /// are on one host and none is needed.
    fn key(&self) -> Option<Key>;

    /// Publishes a value of this rank: an address, for example. Others may read it after the next
    /// [`fence`](Self::fence). At most [`NAME_LIMIT`] and [`VALUE_LIMIT`] bytes.
    ///
    /// # Errors
    /// If the launcher is gone, or does not take it.
    fn put(&self, name: &str, value: &[u8]) -> Result<(), BootstrapError>;

    /// Waits until all ranks of the job have called it. Then all can read the values that they have [`put`](Self::put)
    /// before.
    ///
    /// # Errors
    /// If the launcher is gone.
    fn fence(&self) -> Result<(), BootstrapError>;

    /// The value that a rank has published; `None` if there is none of that name.
    ///
    /// # Errors
    /// If the launcher is gone.
    fn get(&self, rank: u32, name: &str) -> Result<Option<Vec<u8>>, BootstrapError>;

    /// The number of processes expected to be useful (MPI 5.0, section 11.10.1).
    fn universe(&self) -> u32 {
        self.size()
    }

    /// The world of this process, if it was started from within a program; `None` for a process that the job started
    /// with.
    fn later(&self) -> Option<&World> {
        None
    }

    /// The number of this process in the job: its rank, unless it was started from within a program.
    fn number(&self) -> u32 {
        let later = self.later();
        later.map_or(self.rank(), |world| world.members[self.rank() as usize])
    }

    /// The host of each rank that the job started with.
    fn job_hosts(&self) -> &HostMap {
        self.hosts()
    }

    /// The number of this process in the memory that it shares with others of its host.
    fn process_slot(&self) -> u32 {
        self.local_rank()
    }

    /// Sends a request to the job as a whole: to start processes, to open ports, to publish names.
    ///
    /// # Errors
    /// If the launcher is gone. A refusal is an answer.
    fn ask_job(&self, request: &JobRequest) -> Result<JobAnswer, BootstrapError>;

    /// Tells the launcher whether this process shares communicators with processes of other worlds. When this returns,
    /// the launcher knows if it does not.
    fn connected(&self, connected: bool);

    /// A callback that tells the launcher where counters of this process are, for the inspection of a running job; each
    /// of its engines has some.
    fn counters(&self) -> Option<CounterTeller> {
        None
    }

    /// Whether the launcher tells the others, on whatever host, of each end of a process that is a loss to them.
    fn tells_ends(&self) -> bool {
        false
    }

    /// Whether this process may be asked what it waits for: by the launcher, or by another rank for it.
    fn inquires(&self) -> bool {
        false
    }

    /// Answers an inquiry with what this process waits for.
    fn waits(&self, waits: &RankWaits) {
        let _ = waits;
    }

    /// Tells the launcher that this process goes on when others die: if all processes of the job do, the job does not end
    /// with a death. The launcher knows it when this returns. Other launchers ignore it.
    fn handles_losses(&self) {}

    /// Tells the launcher that MPI is initialised: an exit without [`finalised`](Self::finalised) is a
    /// failure from now on.
    fn initialised(&self);

    /// Tells the launcher that MPI is finalised.
    fn finalised(&self);

    /// Tells the launcher that this process has used sessions only and has ended them: ranks of other hosts do not wait
    /// for it in `MPI_Finalize`. The process itself tells those of its own host. Returns whether the launcher passes it
    /// on, which other launchers cannot.
    fn absent(&self) -> bool {
        false
    }

    /// Says that this process is about to end with MPI, and has not met the others before: they may go on, and wait for
    /// it. The search for deadlocks needs to know.
    fn ends_early(&self) {}

    /// Tells the launcher that this process stops because another one is lost: its own end is no failure of its own.
    fn ends_by_loss(&self);

    /// Asks the launcher to end the whole job with this exit code, printing the text. Returns: the
    /// caller then exits, with the same code.
    fn abort(&self, code: i32, text: &str);

    /// After an [`abort`](Self::abort): waits for a while to be ended by the launcher, if it is better that the launcher
    /// does so.
    fn await_end(&self) {}
}

/// Reason why a process cannot learn which rank it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BootstrapError {
    text: String,
}

impl BootstrapError {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into() }
    }
}

impl fmt::Display for BootstrapError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl std::error::Error for BootstrapError {}

/// Reads the rank from the environment. Call it once, when MPI is initialised; then remove [`Launcher::variables`] with
/// `weft_sys::environment::remove`.
///
/// If this process is a rank, it is from now on ended by the kernel when its launcher is gone.
///
/// # Errors
/// If the variables contradict each other or the descriptors, or a foreign launcher set them.
pub fn join() -> Result<Box<dyn Launcher>, BootstrapError> {
    join_from(&|name| std::env::var(name).ok())
}

/// As [`join`], with the variables given.
///
/// # Errors
/// As [`join`].
pub fn join_from(
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Box<dyn Launcher>, BootstrapError> {
    CheckMode::read(variable(check_mode::VARIABLE).as_deref()).map_err(BootstrapError::new)?;
    if let Some(environment) = environment::RankEnvironment::read(variable)? {
        return Ok(Box::new(builtin::Builtin::join(environment)?));
    }
    if variable(Names::JOB).is_none() {
        // Where both are there, one was started within the other: descriptors show who came last, as PMIx servers close what they
        // do not know.
        let by_pmi = variable(pmix::RANK).is_none() || pmi::is_connected(variable);
        if by_pmi && let Some(rank) = pmi::Pmi::join(variable)? {
            return Ok(Box::new(rank));
        }
        let reason = match pmix::Pmix::join(variable)? {
            Some(Ok(rank)) => return Ok(Box::new(rank)),
            Some(Err(reason)) => Some(reason),
            None => None,
        };
        if let Some(error) = foreign::find(variable, reason.as_deref()) {
            return Err(error);
        }
    }
    Ok(Box::new(singleton::Singleton::new()))
}
