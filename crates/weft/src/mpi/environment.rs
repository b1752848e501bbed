//! Environment of MPI in a process: joining the job, leaving it (MPI 5.0, chapter 11).

use std::sync::Arc;

use weft_launch::bootstrap::{self, Launcher};
use weft_launch::check_mode::{CheckMode, STRICT_EXIT};
use weft_launch::runtime::Runtime;
use weft_mpi::left_over::{self, Compared, Owner, Report};
use weft_mpi::{Error, ErrorClass, Result};
use weft_service::Node;

use super::communicator::Communicator;
use super::inter::Intercommunicator;
use super::processes;
use super::state::{Handle, Job, RankState};

/// This process as a rank of its job. Made by [`init`]; ended by [`finalize`](Self::finalize).
///
/// If it is dropped before that, the process has not finished its part of the job: at its end the launcher ends the job,
/// as `MPI_Abort` does. So an error that leaves `main` by `?` ends all ranks, and the launcher says which rank was the
/// first.
#[derive(Debug)]
#[must_use = "a rank leaves the job by `finalize`"]
pub struct Environment {
    world: Communicator,
    itself: Communicator,
    parent: Option<Intercommunicator>,
    services: Node,
    uses_services: bool,
    is_finalised: bool,
}

/// Joins the job that `mpiexec` has started (`MPI_Init_thread` with `MPI_THREAD_MULTIPLE`), or makes a job of one rank.
///
/// Call it once per process. A program that also uses the [services](crate) gets them from [`Environment::services`], not
/// by [`weft::init`](crate::init): there is only one endpoint.
///
/// ```no_run
/// fn main() -> weft::mpi::Result<()> {
///     let mpi = weft::mpi::init()?;
///     let world = mpi.world();
///     println!("rank {} of {}", world.rank(), world.size());
///     mpi.finalize()
/// }
/// ```
///
/// # Errors
/// `Other` if the variables of the launcher are invalid, this process has joined already, or the other ranks cannot be
/// found.
pub fn init() -> Result<Environment> {
    let (state, services) = join()?;
    let process = Arc::clone(state.process());
    let predefined = |comm| Communicator::new(Handle::predefined(comm, Arc::clone(&state)));
    let world = predefined(process.world());
    Ok(Environment {
        parent: processes::parent(&world)?,
        world,
        itself: predefined(process.itself()),
        services,
        uses_services: false,
        is_finalised: false,
    })
}

/// Joins the job, as a rank with services at the same endpoint. Once per process.
pub(super) fn join() -> Result<(Arc<RankState>, Node)> {
    let failed = |text: String| Error::new(ErrorClass::Other, text);
    crate::job::claim().map_err(failed)?;
    let launcher = bootstrap::join().map_err(|error| failed(error.to_string()))?;
    let Runtime {
        process,
        services,
        launcher,
        other_jobs,
    } = Runtime::join(launcher).map_err(|error| failed(error.to_string()))?;
    process.let_threads_call_at_once();
    launcher.initialised();
    let launcher: Arc<dyn bootstrap::Launcher> = Arc::from(launcher);
    let told = Arc::clone(&launcher);
    process
        .connections()
        .tell(move |connected| told.connected(connected));
    let job = Job::Launcher(Arc::clone(&launcher), other_jobs);
    let state = RankState::new(Arc::clone(&process), job);
    // The process outlives what the program knows of it.
    let naming = Arc::downgrade(&state);
    process.hear_waits(move |mut waits| {
        if let Some(state) = naming.upgrade() {
            waits.communicators = state.named(&waits);
        }
        launcher.waits(&waits);
    });
    Ok((state, services))
}

/// Runs an MPI program: [`init`], `work`, and `finalize` if `work` succeeded. Otherwise the job ends.
///
/// ```no_run
/// use weft::mpi::{self, op};
///
/// fn main() -> mpi::Result<()> {
///     mpi::run(|world| {
///         let ranks = world.allreduce(&1_u32, op::sum())?;
///         println!("rank {} of {ranks}", world.rank());
///         Ok(())
///     })
/// }
/// ```
///
/// # Errors
/// As for [`init`]; the error of `work`.
pub fn run<R>(work: impl FnOnce(&Communicator) -> Result<R>) -> Result<R> {
    let environment = init()?;
    let outcome = work(environment.world())?;
    environment.finalize()?;
    Ok(outcome)
}

impl Environment {
    /// All ranks of the job (`MPI_COMM_WORLD`).
    #[must_use]
    pub fn world(&self) -> &Communicator {
        &self.world
    }

    /// This rank alone (`MPI_COMM_SELF`).
    #[must_use]
    pub fn itself(&self) -> &Communicator {
        &self.itself
    }

    /// The processes that started this process (`MPI_Comm_get_parent`): see [`Program`](super::Program).
    #[must_use]
    pub fn parent(&self) -> Option<&Intercommunicator> {
        self.parent.as_ref()
    }

    /// Mailbox, portal and sync, at the same endpoint.
    pub fn services(&mut self) -> &Node {
        self.uses_services = true;
        &self.services
    }

    /// Leaves the job in order (`MPI_Finalize`): waits for all ranks, and for operations whose requests were dropped.
    ///
    /// # Errors
    /// `ProcFailed` if a rank is lost.
    pub fn finalize(mut self) -> Result<()> {
        // First of all, while everything else may still be used (MPI 5.0, section 11.2.4).
        self.itself.attributes().clear();
        if self.uses_services {
            self.services.leave();
        }
        leave(self.world.state())?;
        self.world.state().finalised();
        // The program may have kept some communicator.
        self.world.state().process().refuse_all();
        self.is_finalised = true;
        Ok(())
    }
}

impl Drop for Environment {
    fn drop(&mut self) {
        if self.is_finalised {
            return;
        }
        // Those who have had this process started count on it: whoever ends before its end has not taken leave of them.
        std::mem::forget(self.parent.take());
        // The launcher may see this process end before the lost one, which is the cause.
        let state = self.world.state();
        if state.process().knows_a_loss()
            && let Some(launcher) = state.launcher()
        {
            launcher.ends_by_loss();
        }
    }
}

/// What a rank does last, process or thread.
pub(super) fn leave(state: &RankState) -> Result<()> {
    state.settle();
    let process = state.process();
    let all_come = process.meet()?;
    // Threads of a test tell nothing.
    if let Some(launcher) = state.launcher() {
        tell_left_over(state, &**launcher, all_come);
    }
    process.announce_exit();
    Ok(())
}

/// Tells what is left over: messages never received, requests never completed. Other objects free themselves. All ranks
/// of the job take part, whatever their programs are written in.
fn tell_left_over(state: &RankState, launcher: &dyn Launcher, all_come: bool) {
    let mode = CheckMode::of_environment();
    let process = state.process();
    let world = process.world();
    let owner = |context: u32| {
        let comms = [process.world(), process.itself()];
        let comm = comms
            .into_iter()
            .find(|comm| comm.known_context() == Some(context))?;
        let name = comm.extras().name();
        Some(Owner {
            name,
            comm: Some(comm),
        })
    };
    let mut report = Report::default();
    if mode.is_on() {
        report.add_messages(process, &owner);
        report.add_collectives(process, &owner);
        report.add_requests(process, &owner, &|_| None, mode.is_full());
    }
    let compared = match all_come {
        true => left_over::compare(&world, report.likeness()),
        false => Ok(Compared::of_one(report.is_empty(), true)),
    };
    // Who is lost meanwhile is told of elsewhere.
    let Ok(compared) = compared else {
        return;
    };
    if let Some(text) = report.of_rank(&compared, world.rank(), world.size()) {
        eprint!("{text}");
    }
    if compared.ranks > 0 && mode.strict {
        // Once all have told theirs.
        let met = process.meet();
        if compared.first || met.is_err() {
            launcher.abort(i32::from(STRICT_EXIT), "--check=strict");
            std::process::exit(i32::from(STRICT_EXIT));
        }
    }
}
