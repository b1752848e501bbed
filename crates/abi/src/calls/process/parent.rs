//! Parent: the processes that spawned this one, as an intercommunicator.

use std::sync::{Arc, Mutex, PoisonError};

use weft_atomic::{AtomicBool, Ordering};
use weft_launch::bootstrap::{JobAnswer, JobRequest, PortName};
use weft_mpi::Comm;
use weft_mpi::comm::Port;

use super::job;
use crate::args::Out;
use crate::calls::comm::publish;
use crate::fault::{Checked, Fault};
use crate::generated::constants as k;
use crate::{c, state};

/// The handle, from initialisation until it is freed.
static PARENT: Mutex<c::Comm> = Mutex::new(k::MPI_COMM_NULL);

/// Whether it was looked up: a process meets its parents once, however often it initialises MPI.
static SOUGHT: AtomicBool = AtomicBool::new(false);

fn parent() -> std::sync::MutexGuard<'static, c::Comm> {
    PARENT.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn comm_get_parent(mut parent: Out<c::Comm>) -> Checked<()> {
    parent.set(*self::parent());
    Ok(())
}

/// Part of the first initialisation, whether of the world, of a session or of the services: connects with the processes that spawned
/// this one, if any. All processes of its world come here when they initialise; the parents wait for that in `MPI_Comm_spawn`, which
/// may not end before (MPI 5.0, section 11.8.2). The caller ensures that only one change of state is made at a time.
pub(crate) fn find_parent(runtime: &'static state::Runtime) -> Checked<()> {
    let world = &runtime.world;
    let Some(later) = runtime.launcher.later() else {
        return Ok(());
    };
    let Some(name) = &later.parent else {
        return Ok(());
    };
    if SOUGHT.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    let port = (world.rank() == 0).then(|| {
        let gone = |reason: String| weft_mpi::Error::new(weft_mpi::ErrorClass::Port, reason);
        let port = name.clone();
        match runtime.launcher.ask_job(&JobRequest::FindPort { port }) {
            Ok(JobAnswer::Done) => {}
            Ok(JobAnswer::Refused { reason, .. }) => {
                return Err(gone(format!(
                    "the process that has started this one is gone: {reason}"
                )));
            }
            Ok(other) => return Err(job::unexpected(other).as_error()),
            Err(lost) => return Err(gone(lost.to_string())),
        }
        let name = PortName::parse(name).map(|(_, name)| name);
        let name = name.ok_or_else(|| {
            gone(format!(
                "the launcher has named '{:?}' as the port of the parents",
                later.parent
            ))
        })?;
        Ok(Port {
            owner: weft_fabric::Peer(name.owner),
            number: name.number,
        })
    });
    let comm: Arc<Comm> = world.connect_to(0, port).map_err(Fault::from)?;
    comm.extras().set_name("MPI_COMM_PARENT");
    *parent() = publish(comm, world)?;
    Ok(())
}

/// A communicator is freed: forgets it if it is the parent.
pub(crate) fn forget_parent(comm: c::Comm) {
    let mut parent = parent();
    if *parent == comm {
        *parent = k::MPI_COMM_NULL;
    }
}
