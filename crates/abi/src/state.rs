//! State of the process: the only place with globals.
//!
//! ```text
//!   Before ──MPI_Init──► Running ──MPI_Finalize──► Finished
//! ```
//!
//! The runtime is made once, by `MPI_Init` or the first session, and lives until the process ends: so references to it need no lock.
//! Sessions may come and go at any time. It is published with Release and read with Acquire (`SYNC state.runtime`).

mod exit_output;
mod names;
mod objects;
mod predefined;

use std::ffi::c_int;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::Duration;

use weft_atomic::{AtomicPtr, AtomicU8, AtomicU32, Ordering};
use weft_launch::bootstrap::{self, Launcher};
use weft_mpi::{Comm, Process};
use weft_service::Node;

use crate::fault::{Checked, Fault};
use crate::generated::constants as k;

pub use names::*;
pub use objects::*;
pub use predefined::*;

/// Phase of the world model of this process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Phase {
    /// Not initialised.
    Before = 0,
    /// Between `MPI_Init` and `MPI_Finalize`.
    Running = 1,
    /// Finalised.
    Finished = 2,
}

/// The runtime: made by the first initialisation, never removed.
pub struct Runtime {
    /// The rank.
    pub process: Arc<Process>,
    /// `MPI_COMM_WORLD`.
    pub world: Arc<Comm>,
    /// `MPI_COMM_SELF`.
    pub comm_self: Arc<Comm>,
    /// Mailbox, portal and sync at the same endpoint, driven by the engine.
    pub services: Node,
    /// The launcher that started this process.
    pub launcher: Box<dyn Launcher>,
    /// Meetings with processes of other jobs.
    pub other_jobs: Arc<weft_launch::other_jobs::OtherJobs>,
    /// Thread level provided.
    pub thread_level: c_int,
    /// The thread that initialised.
    pub main_thread: ThreadId,
}

static RUNTIME: AtomicPtr<Runtime> = AtomicPtr::new(std::ptr::null_mut());

static SESSIONS: AtomicU32 = AtomicU32::new(0);

static PHASE: AtomicU8 = AtomicU8::new(Phase::Before as u8);

/// The phase of the world model.
#[inline]
pub fn phase() -> Phase {
    match PHASE.load(Ordering::Acquire) {
        0 => Phase::Before,
        1 => Phase::Running,
        _ => Phase::Finished,
    }
}

/// The runtime, once there is one.
#[inline]
pub fn runtime() -> Option<&'static Runtime> {
    // SYNC state.runtime
    let runtime = RUNTIME.load(Ordering::Acquire);
    // SAFETY: null, or a box that was leaked when it was complete.
    unsafe { runtime.as_ref() }
}

/// The engine.
#[inline]
pub fn process() -> Checked<&'static Arc<Process>> {
    match runtime() {
        Some(runtime) => Ok(&runtime.process),
        None => Err(not_running()),
    }
}

/// The runtime while calls may take the short path; otherwise null.
static SHORT_PATH: AtomicPtr<Runtime> = AtomicPtr::new(std::ptr::null_mut());

/// The runtime, if calls may end at once: the process is between `MPI_Init` and `MPI_Finalize` (sessions do not count),
/// and not everything is checked.
#[inline]
pub fn runtime_at_once() -> Option<&'static Runtime> {
    // SYNC state.short_path
    let runtime = SHORT_PATH.load(Ordering::Acquire);
    // SAFETY: null, or a box that was leaked when it was complete.
    unsafe { runtime.as_ref() }
}

/// Whether calls may end at once.
#[inline]
pub fn may_end_at_once() -> bool {
    runtime_at_once().is_some()
}

/// An error unless the process is between `MPI_Init` and `MPI_Finalize`.
#[inline]
pub fn check_running() -> Checked<()> {
    if PHASE.load(Ordering::Acquire) == Phase::Running as u8 || SESSIONS.load(Ordering::Acquire) > 0
    {
        Ok(())
    } else {
        Err(not_running())
    }
}

#[cold]
fn not_running() -> Fault {
    let cause = match phase() {
        Phase::Finished => "MPI was finalised before; make all calls before MPI_Finalize",
        _ => "MPI is not initialised; call MPI_Init or MPI_Init_thread first",
    };
    Fault::new(k::MPI_ERR_OTHER, cause)
}

/// `MPI_COMM_WORLD`.
#[inline]
pub fn world() -> Option<&'static Arc<Comm>> {
    runtime().map(|runtime| &runtime.world)
}

/// `MPI_COMM_SELF`.
#[inline]
pub fn comm_self() -> Option<&'static Arc<Comm>> {
    runtime().map(|runtime| &runtime.comm_self)
}

/// Rank and size in the world, for reports.
pub fn rank_and_size() -> Option<(u32, u32)> {
    world().map(|world| (world.rank(), world.size()))
}

/// Permits one change at a time.
static CHANGE: Mutex<()> = Mutex::new(());

/// Begins the world model (`MPI_Init`).
pub fn initialise(thread_level: c_int) -> Checked<()> {
    let _change = open(&CHANGE);
    match phase() {
        Phase::Before => {}
        Phase::Running => {
            return Err(Fault::new(
                k::MPI_ERR_OTHER,
                "MPI is initialised already; ask MPI_Initialized before MPI_Init",
            ));
        }
        Phase::Finished => {
            return Err(Fault::new(
                k::MPI_ERR_OTHER,
                "MPI was finalised and cannot be initialised again; start a new process, or use sessions",
            ));
        }
    }
    let runtime = ensure_runtime(thread_level)?;
    runtime.launcher.initialised();
    PHASE.store(Phase::Running as u8, Ordering::Release);
    if !crate::check::mode().is_full() {
        // SYNC state.short_path
        SHORT_PATH.store(std::ptr::from_ref(runtime).cast_mut(), Ordering::Release);
    }
    crate::calls::process::find_parent(runtime)
}

/// Begins the parts that need no world, on any thread. The processes that spawned this one wait for it,
/// however it begins.
fn begin_without_world() -> Checked<()> {
    let runtime = ensure_for_any_thread()?;
    runtime.launcher.initialised();
    crate::calls::process::find_parent(runtime)
}

/// Begins a session.
pub fn begin_session() -> Checked<()> {
    let _change = open(&CHANGE);
    begin_without_world()?;
    SESSIONS.fetch_add(1, Ordering::AcqRel);
    Ok(())
}

/// Whether a session is open.
pub fn has_sessions() -> bool {
    SESSIONS.load(Ordering::Acquire) > 0
}

/// Whether MPI ends here with the only open session.
pub fn is_last_session() -> bool {
    SESSIONS.load(Ordering::Acquire) == 1 && phase() != Phase::Running
}

/// Ends a session.
pub fn end_session() {
    let _change = open(&CHANGE);
    let last = SESSIONS.fetch_sub(1, Ordering::AcqRel) == 1;
    if let Some(runtime) = runtime().filter(|_| last && phase() != Phase::Running) {
        crate::profile::finish();
        end_without_world(runtime);
        runtime.process.announce_exit();
        runtime.launcher.finalised();
    }
}

/// MPI is no longer in use: if the world never was, others do not wait for this process in `MPI_Finalize`.
fn end_without_world(runtime: &Runtime) {
    if phase() == Phase::Before {
        runtime.process.tell_absence(|| runtime.launcher.absent());
        runtime.launcher.ends_early();
    }
}

/// Calls of `weft_init` without their `weft_finalize`.
static SERVICES: AtomicU32 = AtomicU32::new(0);

/// Begins to use the services.
pub fn begin_services() -> Checked<()> {
    let _change = open(&CHANGE);
    begin_without_world()?;
    SERVICES.fetch_add(1, Ordering::AcqRel);
    Ok(())
}

/// The services, while they are in use.
#[inline]
pub fn services() -> Option<&'static Node> {
    if SERVICES.load(Ordering::Acquire) == 0 {
        return None;
    }
    runtime().map(|runtime| &runtime.services)
}

/// Ends the use of the services; false if they are not in use.
pub fn end_services() -> bool {
    let _change = open(&CHANGE);
    let used = SERVICES.load(Ordering::Acquire);
    let Some(runtime) = runtime().filter(|_| used > 0) else {
        return false;
    };
    if used == 1 {
        crate::servers::end_all();
        runtime.services.leave();
        if phase() != Phase::Running && SESSIONS.load(Ordering::Acquire) == 0 {
            end_without_world(runtime);
            runtime.process.announce_exit();
            runtime.launcher.finalised();
        }
    }
    SERVICES.fetch_sub(1, Ordering::AcqRel);
    true
}

/// As [`ensure_runtime`], for parts that any thread may use, whatever level `MPI_Init_thread` was given.
fn ensure_for_any_thread() -> Checked<&'static Runtime> {
    let runtime = ensure_runtime(k::MPI_THREAD_MULTIPLE)?;
    one_thread_calls(runtime, false);
    Ok(runtime)
}

/// Sets whether only one thread of the program makes calls from now on.
fn one_thread_calls(runtime: &Runtime, does: bool) {
    runtime.process.one_thread_calls(does);
    crate::profile::one_thread_calls(does);
}

/// The runtime, made if there is none. The caller holds `CHANGE`.
fn ensure_runtime(thread_level: c_int) -> Checked<&'static Runtime> {
    if let Some(runtime) = runtime() {
        return Ok(runtime);
    }
    crate::check::mode();
    weft_sys::call_site::set_names_of_entry_points(crate::entry::name_at);
    crate::profile::begin();
    let launcher =
        bootstrap::join().map_err(|error| Fault::new(k::MPI_ERR_OTHER, error.to_string()))?;
    let handler = crate::entry::initial_handler();
    // SAFETY: initialisation is early in the life of the program; the standard forbids other threads to be
    // inside MPI, and programs that change the environment elsewhere at the same time race with getenv of any
    // library.
    unsafe { weft_sys::environment::remove(launcher.variables()) };
    let weft_launch::runtime::Runtime {
        process,
        services,
        launcher,
        other_jobs,
    } = weft_launch::runtime::Runtime::join(launcher)
        .map_err(|error| Fault::new(k::MPI_ERR_OTHER, error.to_string()))?;
    let (world, comm_self) = (process.world(), process.itself());
    if handler != k::MPI_ERRORS_ARE_FATAL {
        for first in [&world, &comm_self] {
            first.extras().set_errhandler(handler.0);
        }
        note_handler();
    }
    register_comm(&world, k::MPI_COMM_WORLD);
    register_comm(&comm_self, k::MPI_COMM_SELF);
    let runtime: &'static Runtime = Box::leak(Box::new(Runtime {
        process,
        services,
        world,
        comm_self,
        launcher,
        other_jobs,
        thread_level,
        main_thread: std::thread::current().id(),
    }));
    runtime
        .process
        .connections()
        .tell(|connected| runtime.launcher.connected(connected));
    let is_one = [k::MPI_THREAD_SINGLE, k::MPI_THREAD_FUNNELED].contains(&thread_level);
    one_thread_calls(runtime, is_one);
    if thread_level == k::MPI_THREAD_MULTIPLE {
        runtime.process.let_threads_call_at_once();
    }
    runtime.process.hear_waits(|mut waits| {
        waits.communicators = names::communicators(waits.contexts());
        runtime.launcher.waits(&waits);
    });
    // SYNC state.runtime
    RUNTIME.store(std::ptr::from_ref(runtime).cast_mut(), Ordering::Release);
    crate::tool::settings::initialised(&runtime.process);
    crate::tool::registrations::listen();
    crate::profile::listen(runtime);
    Ok(runtime)
}

/// Ends the world model: apart from a few calls, only sessions may continue.
pub fn finalise() {
    let _change = open(&CHANGE);
    crate::profile::finish();
    if let Some(runtime) = runtime() {
        if runtime.process.ends_early() {
            runtime.launcher.ends_early();
        }
        runtime.launcher.finalised();
    }
    // SYNC state.short_path
    SHORT_PATH.store(std::ptr::null_mut(), Ordering::Release);
    PHASE.store(Phase::Finished as u8, Ordering::Release);
}

/// How long a process that cannot continue without another one waits for its launcher to end it.
const TIME_FOR_OUTCOME: Duration = Duration::from_secs(1);

/// Another process is lost, without which this one cannot continue. The launcher usually knows the cause, reports it and ends this process,
/// but the end of a connection to another host may be noticed earlier.
pub fn ends_by_loss() {
    if let Some(runtime) = runtime() {
        runtime.launcher.ends_by_loss();
        std::thread::sleep(TIME_FOR_OUTCOME);
    }
}

/// Ends the job. `text` is the message for people.
///
/// Nothing here waits for another thread before the launcher is told: a thread that reads standard input may
/// hold the lock of that stream for ever, and flushing all streams would wait for it.
pub fn abort(code: c_int, text: &str) -> ! {
    let status = if code & 0xff == 0 { 1 } else { code };
    let said = exit_output::say_if_ready(text);
    exit_output::flush_if_ready();
    crate::profile::finish();
    if let Some(runtime) = runtime() {
        runtime.launcher.abort(status, "");
    }
    // From here on the launcher ends us if something hangs.
    if !said {
        exit_output::say(text);
    }
    exit_output::flush();
    if let Some(runtime) = runtime() {
        runtime.launcher.await_end();
    }
    // SAFETY: ends the process without exit handlers, which might wait for others.
    unsafe { libc::_exit(status) }
}

/// Prints a message for people, without ending anything.
pub fn warn(text: &str) {
    exit_output::say(text);
}

fn open<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
