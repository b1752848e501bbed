//! Joining the job that `weft run` has started, for Rust programs.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use weft_launch::bootstrap::{self, Launcher};
use weft_launch::runtime::Runtime;
use weft_mpi::Process;
use weft_service::{Code, Error, Node, Result};

/// This process as a node of its job. Dropping it leaves the job in order.
///
/// The engine of MPI drives its endpoint, as in C and beside MPI: so the node can tell what it waits for (`weft stacks`), deadlocks are
/// found, and its messages are counted.
#[derive(Debug)]
pub struct Services {
    node: Node,
    process: Arc<Process>,
    launcher: Arc<dyn Launcher>,
}

/// Joins the job, or makes a job of one.
///
/// Call it once per process, and before the process has threads that read or change its environment: the launcher's
/// variables that give a node its number are removed, so that processes started by this one are not taken for the same
/// node.
///
/// # Errors
/// [`Code::Io`] if the variables of the launcher are invalid, this process is a node already, or the other nodes cannot
/// be found.
pub fn init() -> Result<Services> {
    let failed = |text: String| Error::new(Code::Io, text);
    claim().map_err(failed)?;
    let launcher = bootstrap::join().map_err(|error| failed(error.to_string()))?;
    let Runtime {
        process,
        services: node,
        launcher,
        ..
    } = Runtime::join(launcher).map_err(|error| failed(error.to_string()))?;
    process.let_threads_call_at_once();
    launcher.initialised();
    let launcher: Arc<dyn Launcher> = Arc::from(launcher);
    let told = Arc::clone(&launcher);
    process.hear_waits(move |waits| told.waits(&waits));
    Ok(Services {
        node,
        process,
        launcher,
    })
}

/// Whether this process has joined its job.
static JOINED: OnceLock<()> = OnceLock::new();

/// The one who joins the job; a sentence for all others.
pub(crate) fn claim() -> std::result::Result<(), String> {
    if JOINED.set(()).is_err() {
        return Err(
            "this process has joined its job already; join once, by weft::mpi::init for MPI and services, \
             or by weft::init for services alone"
                .to_owned(),
        );
    }
    Ok(())
}

impl Deref for Services {
    type Target = Node;

    fn deref(&self) -> &Node {
        &self.node
    }
}

impl Drop for Services {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // It has not finished what others count on: it dies, and they are told. An endpoint that ends has left in order, so this one
            // stays as long as the process.
            std::mem::forget(Arc::clone(&self.process));
            return;
        }
        self.node.leave();
        // It does not meet those who use MPI in their `MPI_Finalize`.
        self.process.tell_absence(|| self.launcher.absent());
        self.launcher.ends_early();
        self.process.announce_exit();
        self.launcher.finalised();
        self.process.release();
    }
}
