//! The state of the process: the one place with globals.
//!
//! ```text
//!   Before ──MPI_Init──► Running ──MPI_Finalize──► Finished
//! ```
//!
//! The runtime is made once, by `MPI_Init` or the first session, and lives until the process ends: what
//! hands out references to it needs no lock. Sessions may come and go at any time. It is published with Release and read with Acquire
//! (`SYNC state.runtime`).

use std::collections::HashMap;
use std::ffi::c_int;
use std::io::Write;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::ThreadId;

use weft_atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicUsize, Ordering};
use weft_fabric::Fabric;
use weft_launch::bootstrap::{self, Launcher};
use weft_mpi::datatype::Basic;
use weft_mpi::info::Info;
use weft_mpi::op::Predefined;
use weft_mpi::{Comm, Datatype, Group, Message, Op, Process};

use crate::fault::{Checked, Fault};
use crate::generated::constants as k;
use crate::handle::request::{self, Named};
use crate::{c, handle};

/// How far the process has come.
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

/// What there is once MPI is initialised.
pub struct Runtime {
    /// The rank.
    pub process: Arc<Process>,
    /// `MPI_COMM_WORLD`.
    pub world: Arc<Comm>,
    /// `MPI_COMM_SELF`.
    pub itself: Arc<Comm>,
    /// Who started us.
    pub launcher: Box<dyn Launcher>,
    /// Thread level provided.
    pub thread_level: c_int,
    /// The thread that initialised.
    pub main_thread: ThreadId,
}

static RUNTIME: AtomicPtr<Runtime> = AtomicPtr::new(std::ptr::null_mut());
static SESSIONS: AtomicU32 = AtomicU32::new(0);
static PHASE: AtomicU8 = AtomicU8::new(Phase::Before as u8);

/// How far the process has come.
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
pub fn itself() -> Option<&'static Arc<Comm>> {
    runtime().map(|runtime| &runtime.itself)
}

/// Rank and size in the world, for reports.
pub fn rank_and_size() -> Option<(u32, u32)> {
    world().map(|world| (world.rank(), world.size()))
}

/// One change at a time.
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
    ensure_runtime(thread_level)?.launcher.initialised();
    PHASE.store(Phase::Running as u8, Ordering::Release);
    Ok(())
}

/// Begins a session.
pub fn begin_session() -> Checked<()> {
    let _change = open(&CHANGE);
    ensure_runtime(k::MPI_THREAD_MULTIPLE)?
        .launcher
        .initialised();
    SESSIONS.fetch_add(1, Ordering::AcqRel);
    Ok(())
}

/// Ends a session.
pub fn end_session() {
    let _change = open(&CHANGE);
    let last = SESSIONS.fetch_sub(1, Ordering::AcqRel) == 1;
    if let Some(runtime) = runtime().filter(|_| last && phase() != Phase::Running) {
        runtime.process.drain();
        runtime.launcher.finalised();
    }
}

/// The runtime, made if there is none. The caller holds `CHANGE`.
fn ensure_runtime(thread_level: c_int) -> Checked<&'static Runtime> {
    if let Some(runtime) = runtime() {
        return Ok(runtime);
    }
    let launcher =
        bootstrap::join().map_err(|error| Fault::new(k::MPI_ERR_OTHER, error.to_string()))?;
    // SAFETY: initialisation is early in the life of the program; the standard forbids other threads
    // to be inside MPI, and programs that change the environment elsewhere meanwhile race with getenv
    // of any library.
    unsafe { weft_sys::environment::remove(bootstrap::VARIABLES) };
    let fabric = fabric(launcher.as_ref())?;
    let process = Process::new(fabric);
    let (world, itself) = (process.world(), process.itself());
    register_comm(&world, k::MPI_COMM_WORLD);
    register_comm(&itself, k::MPI_COMM_SELF);
    let runtime: &'static Runtime = Box::leak(Box::new(Runtime {
        process,
        world,
        itself,
        launcher,
        thread_level,
        main_thread: std::thread::current().id(),
    }));
    // SYNC state.runtime
    RUNTIME.store(std::ptr::from_ref(runtime).cast_mut(), Ordering::Release);
    Ok(runtime)
}

/// The fabric among the processes of the job.
fn fabric(launcher: &dyn Launcher) -> Checked<Box<dyn Fabric>> {
    let endpoint = match launcher.segment() {
        Some(segment) => weft_fabric_shm::Shm::attach(segment, launcher.rank()),
        None => weft_fabric_shm::Shm::solo(),
    };
    let endpoint = endpoint.map_err(|error| Fault::new(k::MPI_ERR_OTHER, error.to_string()))?;
    endpoint.set_state(weft_fabric_shm::ProcessState::Initialised);
    Ok(Box::new(endpoint))
}

/// Ends the world model: but for few calls, sessions alone may go on.
pub fn finalise() {
    let _change = open(&CHANGE);
    if let Some(runtime) = runtime() {
        runtime.launcher.finalised();
    }
    PHASE.store(Phase::Finished as u8, Ordering::Release);
}

/// Ends the job.
pub fn abort(code: c_int) -> ! {
    let _ = std::io::stderr().flush();
    // SAFETY: flushes the streams of the C library, which any thread may do.
    unsafe { libc::fflush(std::ptr::null_mut()) };
    let status = if code & 0xff == 0 { 1 } else { code };
    if let Some(runtime) = runtime() {
        runtime.launcher.abort(status, "");
    }
    // SAFETY: ends the process without exit handlers, which might wait for others.
    unsafe { libc::_exit(status) }
}

// Communicators by context: requests know their context, and their errors belong to a communicator.
static CONTEXTS: LazyLock<Mutex<HashMap<u32, c::Comm>>> = LazyLock::new(Mutex::default);

fn open<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps the handle of a communicator, to find it by its context.
pub fn register_comm(comm: &Comm, handle: c::Comm) {
    open(&CONTEXTS).insert(comm.context() & !1, handle);
}

/// Forgets a communicator.
pub fn forget_comm(comm: &Comm) {
    open(&CONTEXTS).remove(&(comm.context() & !1));
}

/// The communicator of a context.
pub fn comm_of_context(context: u32) -> Option<(c::Comm, Arc<Comm>)> {
    let handle = open(&CONTEXTS).get(&(context & !1)).copied()?;
    let comm = crate::check::find_communicator(handle)?;
    Some((handle, Arc::clone(comm)))
}

/// The handle of a communicator.
pub fn handle_of_comm(comm: &Comm) -> c::Comm {
    open(&CONTEXTS)
        .get(&(comm.context() & !1))
        .copied()
        .unwrap_or(k::MPI_COMM_NULL)
}

// Handles of datatypes by address: callbacks and `MPI_Type_get_contents` get the handle that the
// program knows.
static DATATYPE_HANDLES: LazyLock<Mutex<HashMap<usize, c::Datatype>>> =
    LazyLock::new(Mutex::default);

/// The handle for a new datatype; `None` when the table is full.
pub fn publish_datatype(datatype: Arc<Datatype>) -> Option<c::Datatype> {
    let address = Arc::as_ptr(&datatype).addr();
    let handle = c::Datatype(handle::insert(datatype)?);
    open(&DATATYPE_HANDLES).entry(address).or_insert(handle);
    Some(handle)
}

/// Ends the handle of a datatype; answers whether it was live.
pub fn forget_datatype(datatype: &Arc<Datatype>, handle: c::Datatype) -> bool {
    let mut handles = open(&DATATYPE_HANDLES);
    let address = Arc::as_ptr(datatype).addr();
    if handles.get(&address) == Some(&handle) {
        handles.remove(&address);
    }
    drop(handles);
    handle::remove::<Arc<Datatype>>(handle.0)
}

/// The handle of a datatype.
pub fn handle_of_datatype(datatype: &Arc<Datatype>) -> c::Datatype {
    if datatype.is_predefined()
        && let Some(basic) = datatype.basic()
    {
        return handle_of_basic(basic);
    }
    let known = open(&DATATYPE_HANDLES)
        .get(&Arc::as_ptr(datatype).addr())
        .copied();
    known.unwrap_or(k::MPI_DATATYPE_NULL)
}

/// The context of a live request.
pub fn context_of(handle: c::Request) -> Option<u32> {
    match request::unpack(handle) {
        Named::Request(id, _) => runtime()?.process.context_of(id),
        Named::Null | Named::Wild => None,
    }
}

/// An info object.
#[derive(Debug, Default)]
pub struct InfoObject(Mutex<Info>);

impl InfoObject {
    /// An object of these pairs.
    pub fn new(info: Info) -> Self {
        Self(Mutex::new(info))
    }

    /// The pairs.
    pub fn open(&self) -> MutexGuard<'_, Info> {
        open(&self.0)
    }
}

/// `MPI_INFO_ENV`.
pub fn environment_info() -> &'static InfoObject {
    static ENVIRONMENT: LazyLock<InfoObject> = LazyLock::new(|| {
        let mut info = Info::default();
        let mut arguments = std::env::args();
        let pairs = [
            ("command", arguments.next().unwrap_or_default()),
            ("argv", arguments.collect::<Vec<_>>().join(" ")),
            ("thread_level", "MPI_THREAD_MULTIPLE".to_owned()),
            (
                "wdir",
                std::env::current_dir()
                    .map(|path| path.to_string_lossy().into_owned())
                    .unwrap_or_default(),
            ),
            ("arch", std::env::consts::ARCH.to_owned()),
        ];
        for (key, value) in pairs {
            // A value that is empty or too long is simply not there.
            let _ = info.set(key, &value);
        }
        InfoObject::new(info)
    });
    &ENVIRONMENT
}

/// An error handler of the user.
///
/// It stays until its handle was freed and no object has it any more: `references` counts both.
#[derive(Debug)]
pub struct ErrhandlerObject {
    function: usize,
    references: AtomicU32,
}

impl ErrhandlerObject {
    /// A handler; the function must not be null.
    pub fn new(function: c::Callback) -> Self {
        Self {
            function: function.0,
            references: AtomicU32::new(1),
        }
    }

    /// Somebody has it, too.
    pub fn retain(handle: c::Errhandler) {
        if let Some(object) = handle::find::<Self>(handle.0) {
            object.references.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Somebody has it no more.
    pub fn release(handle: c::Errhandler) {
        if let Some(object) = handle::find::<Self>(handle.0)
            && object.references.fetch_sub(1, Ordering::Relaxed) == 1
        {
            handle::remove::<Self>(handle.0);
        }
    }

    /// Calls it with the object's handle and a code.
    pub fn call(&self, object: usize, code: c_int) {
        if self.function == 0 {
            return;
        }
        let (mut object, mut code) = (object, code);
        // SAFETY: the user passed a function of this type to `MPI_Comm_create_errhandler` or its like,
        // and all four types differ in the handle's type alone, which is a word in each.
        unsafe {
            let function: unsafe extern "C" fn(*mut usize, *mut c_int, ...) =
                std::mem::transmute(self.function);
            function(&raw mut object, &raw mut code);
        }
    }
}

/// A message that a matched probe has taken, until it is received.
#[derive(Debug)]
pub struct MessageObject(Mutex<Option<Message>>);

impl MessageObject {
    /// Keeps a message.
    pub fn new(message: Message) -> Self {
        Self(Mutex::new(Some(message)))
    }

    /// Takes it; `None` if somebody was faster.
    pub fn take(&self) -> Option<Message> {
        open(&self.0).take()
    }
}

/// A session.
#[derive(Debug)]
pub struct SessionObject {
    /// Its own handle, for callbacks.
    pub handle: AtomicUsize,
    errhandler: AtomicUsize,
    /// Hints given when it was made.
    pub info: InfoObject,
}

impl SessionObject {
    /// A session with an error handler and hints.
    pub fn new(errhandler: c::Errhandler, info: Info) -> Self {
        ErrhandlerObject::retain(errhandler);
        Self {
            handle: AtomicUsize::new(0),
            errhandler: AtomicUsize::new(errhandler.0),
            info: InfoObject::new(info),
        }
    }

    /// Its error handler.
    pub fn errhandler(&self) -> c::Errhandler {
        c::Errhandler(self.errhandler.load(Ordering::Relaxed))
    }

    /// Sets its error handler.
    pub fn set_errhandler(&self, handler: c::Errhandler) {
        ErrhandlerObject::retain(handler);
        ErrhandlerObject::release(c::Errhandler(
            self.errhandler.swap(handler.0, Ordering::Relaxed),
        ));
    }
}

impl Drop for SessionObject {
    fn drop(&mut self) {
        ErrhandlerObject::release(self.errhandler());
    }
}

/// `MPI_GROUP_EMPTY`.
pub fn empty_group() -> &'static Arc<Group> {
    static EMPTY: OnceLock<Arc<Group>> = OnceLock::new();
    EMPTY.get_or_init(|| Arc::new(Group::of(Vec::new())))
}

/// First handle of the predefined datatypes, and how many handles the standard keeps for them.
const DATATYPES: (usize, usize) = (0x200, 0x200);

/// Predefined datatypes by handle, from the table.
static BASICS: [Option<Basic>; DATATYPES.1] = {
    let mut basics = [None; DATATYPES.1];
    let mut row = 0;
    while row < k::DATATYPES.len() {
        basics[k::DATATYPES[row].0 - DATATYPES.0] = Some(k::DATATYPES[row].2);
        row += 1;
    }
    basics
};

/// The predefined datatype of a handle.
#[inline]
pub fn predefined_datatype(handle: c::Datatype) -> Option<Basic> {
    *BASICS.get(handle.0.wrapping_sub(DATATYPES.0))?
}

/// The handle of a predefined datatype.
pub fn handle_of_basic(basic: Basic) -> c::Datatype {
    let row = k::DATATYPES.iter().find(|(_, _, other)| *other == basic);
    row.map_or(k::MPI_DATATYPE_NULL, |(handle, _, _)| c::Datatype(*handle))
}

/// Predefined operations and their handles.
const OPERATIONS: [(c::Op, Predefined); 14] = [
    (k::MPI_SUM, Predefined::Sum),
    (k::MPI_MIN, Predefined::Min),
    (k::MPI_MAX, Predefined::Max),
    (k::MPI_PROD, Predefined::Prod),
    (k::MPI_BAND, Predefined::Band),
    (k::MPI_BOR, Predefined::Bor),
    (k::MPI_BXOR, Predefined::Bxor),
    (k::MPI_LAND, Predefined::Land),
    (k::MPI_LOR, Predefined::Lor),
    (k::MPI_LXOR, Predefined::Lxor),
    (k::MPI_MINLOC, Predefined::Minloc),
    (k::MPI_MAXLOC, Predefined::Maxloc),
    (k::MPI_REPLACE, Predefined::Replace),
    (k::MPI_NO_OP, Predefined::NoOp),
];

/// The predefined operation of a handle.
pub fn predefined_operation(handle: c::Op) -> Option<&'static Arc<Op>> {
    static OBJECTS: LazyLock<[Arc<Op>; 14]> =
        LazyLock::new(|| OPERATIONS.map(|(_, operation)| Op::predefined(operation)));
    if handle.0 >> 5 != k::MPI_OP_NULL.0 >> 5 {
        return None;
    }
    let place = OPERATIONS.iter().position(|(other, _)| *other == handle)?;
    Some(&OBJECTS[place])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn predefined_datatypes_are_as_the_table_says() {
        for (handle, size, basic) in k::DATATYPES {
            assert_eq!(predefined_datatype(c::Datatype(*handle)), Some(*basic));
            assert_eq!(basic.datatype().size(), *size, "{}", basic.name());
            assert_eq!(handle_of_basic(*basic), c::Datatype(*handle));
            if handle & 0x340 == 0x240 {
                assert_eq!(
                    1 << (handle >> 3 & 7),
                    *size,
                    "the handle of {} says its size",
                    basic.name()
                );
            }
        }
        assert_eq!(predefined_datatype(k::MPI_DATATYPE_NULL), None);
        assert_eq!(predefined_datatype(c::Datatype(0x1ff)), None);
        assert_eq!(predefined_datatype(c::Datatype(usize::MAX)), None);
    }

    #[test]
    fn predefined_operations_have_their_handles() {
        for (handle, operation) in OPERATIONS {
            let found = predefined_operation(handle).and_then(|op| op.as_predefined());
            assert_eq!(found, Some(operation));
        }
        assert!(predefined_operation(k::MPI_OP_NULL).is_none());
        assert!(predefined_operation(c::Op(0x101)).is_none());
    }
}
