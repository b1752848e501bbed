//! Runtime of a rank: MPI's engine, and the services as its guest, at one endpoint of the job's fabric.
//!
//! ```text
//!   Launcher ──► fabric::join ──► Process ◄── guest ── Node
//!                                 (MPI)                (mailbox, portal, sync)
//! ```
//!
//! It is for the code that offers MPI to programs: the C entry points, which keep one for the process, and the library
//! for Rust programs. See `docs/decisions/0008-services-are-guests.md`.

use std::sync::Arc;

use weft_fabric::{Fabric, Guest, Peer, Subject};
use weft_mpi::waits::{MOST, Operation};
use weft_mpi::{Group, Process};
use weft_service::{Awaited, Core, Host, Node};

use crate::bootstrap::{BootstrapError, Launcher};
use crate::other_jobs::OtherJobs;

/// One rank of a job.
#[derive(Debug)]
pub struct Runtime {
    /// MPI.
    pub process: Arc<Process>,
    /// Mailbox, portal and sync at the same endpoint, driven by the engine.
    pub services: Node,
    /// The interface to the launcher.
    pub launcher: Box<dyn Launcher>,
    /// The means to connect to processes of other jobs.
    pub other_jobs: Arc<OtherJobs>,
}

impl Runtime {
    /// Joins the fabric of the job that `launcher` is of. To be called once in a process.
    ///
    /// # Errors
    /// As for [`fabric::join`](crate::fabric::join).
    pub fn join(launcher: Box<dyn Launcher>) -> Result<Self, BootstrapError> {
        let fabric = crate::fabric::join(&*launcher)?;
        let process = match launcher.later() {
            None => {
                let first = launcher.size();
                Process::in_world(fabric, first, Group::identity(first), 0)
            }
            Some(later) => {
                let members = later.members.iter().map(|number| Peer(*number)).collect();
                Process::in_world(fabric, later.first, Group::of(members), later.number)
            }
        };
        let hosts = launcher.job_hosts();
        process.set_hosts((0..hosts.size()).map(|rank| hosts.host(rank)));
        if let Some(tell) = launcher.counters() {
            process.tell_counters(tell);
        }
        let services = attach_services(&process);
        let other_jobs = OtherJobs::of(&process, crate::fabric::is_encrypted());
        Ok(Self {
            process,
            other_jobs,
            services,
            launcher,
        })
    }
}

/// Lets the services share the endpoint of a process. From the start, so that nothing is lost that a
/// peer sends before the services are used here.
pub fn attach_services(process: &Arc<Process>) -> Node {
    // A process that was started later has a number behind the others; those know only the processes from the start.
    let nodes = process.first().max(process.me().0 + 1);
    process.install_guest(|fabric| Box::new(Core::among(fabric, nodes)));
    Node::hosted(Arc::new(Engine(Arc::clone(process))))
}

/// The engine as the host of the services.
struct Engine(Arc<Process>);

fn core(guest: &mut dyn Guest) -> &mut Core {
    guest
        .as_any()
        .downcast_mut()
        .expect("the services are the only guest")
}

impl Host for Engine {
    fn with(&self, work: &mut dyn FnMut(&mut Core, &mut dyn Fabric)) {
        self.0
            .with_guest(&mut |guest, fabric| work(core(guest), fabric));
    }

    fn wait(
        &self,
        subject: Subject,
        ready: &mut dyn FnMut(&mut Core, &mut dyn Fabric) -> bool,
        awaited: &dyn Fn(&mut Core) -> Awaited,
    ) {
        let awaited = |guest: &mut dyn Guest| {
            let Awaited { what, mut nodes } = awaited(core(guest));
            nodes.truncate(MOST);
            Operation::Service { what, ranks: nodes }
        };
        self.0.wait_guest(
            subject,
            &mut |guest, fabric| ready(core(guest), fabric),
            &awaited,
        );
    }
}
