//! Joining the job that `weft run` has started, for Rust programs.

use std::ops::Deref;
use std::sync::OnceLock;

use weft_launch::bootstrap::{self, Launcher};
use weft_service::{Code, Error, Node, Result};

/// This process as a node of its job. Dropping it leaves the job in order.
#[derive(Debug)]
pub struct Services {
    node: Node,
    launcher: Box<dyn Launcher>,
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
    let fabric =
        weft_launch::fabric::join(&*launcher).map_err(|error| failed(error.to_string()))?;
    launcher.initialised();
    // Others may come later, whom only those know that they talk to.
    let nodes = launcher.size().max(fabric.me().0 + 1);
    let node = Node::alone_among(fabric, nodes);
    Ok(Services { node, launcher })
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
            std::mem::forget(self.node.clone());
        } else {
            self.node.leave();
            self.launcher.finalised();
        }
    }
}
