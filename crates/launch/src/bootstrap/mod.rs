//! How a process learns which rank it is, of how many, and where the job's shared memory is.
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
//! [`VARIABLES`] from the environment: what a rank starts is not taken for that rank. `WEFT_JOB` stays:
//! below a rank of ours, variables of a foreign launcher further up mean nothing.
//!
//! Nobody's variables: a job of one. Variables of a launcher that set up no job of ours: an error that
//! names it, never many copies of rank 0.

mod builtin;
mod environment;
mod foreign;

use std::fmt;
use std::os::fd::OwnedFd;

pub use environment::VARIABLES;
pub(crate) use environment::{Names, foreign_variables};

/// What a rank needs of whatever started it.
pub trait Launcher: fmt::Debug + Send + Sync {
    /// This process's rank.
    fn rank(&self) -> u32;

    /// How many ranks the job has.
    fn size(&self) -> u32;

    /// Which of the programs on the command line this is, from 0.
    fn appnum(&self) -> u32;

    /// This process's rank among those of its host.
    fn local_rank(&self) -> u32 {
        self.rank()
    }

    /// How many ranks of the job run on this host.
    fn local_size(&self) -> u32 {
        self.size()
    }

    /// Whether nobody started this: a job of one that made itself.
    fn is_singleton(&self) -> bool;

    /// The descriptor of the job's shared memory, for `Shm::attach`; given out once. `None` for a
    /// singleton, which makes its own, and when it was taken before.
    fn segment(&self) -> Option<OwnedFd>;

    /// Tells the launcher that MPI is initialised: an exit without [`finalised`](Self::finalised) is a
    /// failure from now on.
    fn initialised(&self);

    /// Tells the launcher that MPI is finalised.
    fn finalised(&self);

    /// Asks the launcher to end the whole job with this exit code, printing the text. Returns: the
    /// caller then exits, with the same code.
    fn abort(&self, code: i32, text: &str);
}

/// Why a process cannot learn which rank it is.
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

/// Finds out from the environment. Call once, when MPI is initialised; then remove [`VARIABLES`] with
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
    if let Some(place) = environment::Place::read(variable)? {
        return Ok(Box::new(builtin::Builtin::join(place)?));
    }
    if variable(Names::JOB).is_none()
        && let Some(error) = foreign::find(variable)
    {
        return Err(error);
    }
    Ok(Box::new(builtin::Singleton))
}
