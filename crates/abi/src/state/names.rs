//! Registry of handles by object, and of communicators by context: callbacks get the handles that the program
//! knows, and errors of requests belong to the communicator of their context.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};

use weft_atomic::{AtomicBool, Ordering};
use weft_mpi::waits::CommunicatorName;
use weft_mpi::{Comm, Datatype};

use super::predefined::handle_of_basic;
use super::{open, runtime};
use crate::generated::constants as k;
use crate::handle::HandleMap;
use crate::handle::request::{self, Named};
use crate::{c, handle};

// Communicators by context: requests know their context, and their errors belong to its communicator.
static CONTEXTS: LazyLock<Mutex<HandleMap<u32, c::Comm>>> = LazyLock::new(Mutex::default);

// Communicators of `MPI_Comm_idup` whose context was not known when they got their handles.
static NAMELESS: Mutex<Vec<(Arc<Comm>, c::Comm)>> = Mutex::new(Vec::new());

/// Keeps the handle of a communicator, to find it by its context.
pub fn register_comm(comm: &Arc<Comm>, handle: c::Comm) {
    if comm.known_context().is_none() {
        return open(&NAMELESS).push((Arc::clone(comm), handle));
    }
    let named = comm.contexts().map(|context| (context & !1, handle));
    open(&CONTEXTS).extend(named);
}

/// The handles by context, with those whose context has become known.
fn contexts() -> MutexGuard<'static, HandleMap<u32, c::Comm>> {
    let mut contexts = open(&CONTEXTS);
    open(&NAMELESS).retain(|(comm, handle)| match comm.known_context() {
        Some(context) => {
            contexts.insert(context & !1, *handle);
            false
        }
        None => true,
    });
    contexts
}

/// Forgets a communicator.
pub fn forget_comm(comm: &Comm) {
    let mut known = contexts();
    for context in comm.contexts() {
        known.remove(&(context & !1));
    }
}

/// The communicator of a context.
pub fn comm_of_context(context: u32) -> Option<(c::Comm, Arc<Comm>)> {
    let handle = contexts().get(&(context & !1)).copied()?;
    let comm = crate::check::find_communicator(handle)?;
    Some((handle, Arc::clone(comm)))
}

/// The communicators of these contexts, for reports.
pub fn communicators(named: impl Iterator<Item = u32>) -> Vec<CommunicatorName> {
    let named: BTreeSet<u32> = named.map(|context| context & !1).collect();
    let name = |context| {
        let (_, comm) = comm_of_context(context)?;
        let named = CommunicatorName::of(&comm, &runtime()?.world);
        Some(CommunicatorName { context, ..named })
    };
    named.into_iter().filter_map(name).collect()
}

// Files by the context of their requests.
static FILES: LazyLock<Mutex<HandleMap<u32, c::File>>> = LazyLock::new(Mutex::default);

/// Keeps the handle of a file, to find it by the context of its requests.
pub fn register_file(context: u32, handle: c::File) {
    open(&FILES).insert(context, handle);
}

/// Forgets a file.
pub fn forget_file(context: u32) {
    open(&FILES).remove(&context);
}

/// The file of a context.
pub fn file_of_context(context: u32) -> Option<c::File> {
    open(&FILES).get(&context).copied()
}

/// Windows by the context of their members, to which requests of their operations belong.
static WINDOWS: Mutex<BTreeMap<u32, c::Win>> = Mutex::new(BTreeMap::new());

/// Makes a window known by its context.
pub fn register_window(context: u32, handle: c::Win) {
    open(&WINDOWS).insert(context & !1, handle);
}

/// The window is freed.
pub fn forget_window(context: u32) {
    open(&WINDOWS).remove(&(context & !1));
}

/// The window of a context.
pub fn window_of_context(context: u32) -> Option<c::Win> {
    open(&WINDOWS).get(&(context & !1)).copied()
}

/// The handle of a communicator.
pub fn handle_of_comm(comm: &Comm) -> c::Comm {
    contexts()
        .get(&(comm.context() & !1))
        .copied()
        .unwrap_or(k::MPI_COMM_NULL)
}

/// Handle of a datatype, and whether it was freed.
struct Known {
    handle: c::Datatype,
    /// Operations under way that pass it to a function of the program.
    uses: usize,
    /// The program has freed it: it ends with the last use.
    freed: bool,
}

// Handles of datatypes by the datatype's address: callbacks and `MPI_Type_get_contents` get the handle that
// the program knows.
static DATATYPE_HANDLES: LazyLock<Mutex<HandleMap<usize, Known>>> = LazyLock::new(Mutex::default);

/// The handle for a new datatype; `None` when the table is full.
pub fn publish_datatype(datatype: Arc<Datatype>) -> Option<c::Datatype> {
    let address = Arc::as_ptr(&datatype).addr();
    let handle = c::Datatype(handle::insert(datatype)?);
    open(&DATATYPE_HANDLES).entry(address).or_insert(Known {
        handle,
        uses: 0,
        freed: false,
    });
    Some(handle)
}

/// The use of a datatype's handle by an operation under way: until it is dropped the handle stays valid, even
/// if the program frees it.
pub struct DatatypeUse(Arc<Datatype>);

/// Keeps the handle of a datatype for an operation that begins.
pub fn use_datatype(datatype: &Arc<Datatype>) -> DatatypeUse {
    if let Some(known) = open(&DATATYPE_HANDLES).get_mut(&Arc::as_ptr(datatype).addr()) {
        known.uses += 1;
    }
    DatatypeUse(Arc::clone(datatype))
}

impl Drop for DatatypeUse {
    fn drop(&mut self) {
        let mut handles = open(&DATATYPE_HANDLES);
        let address = Arc::as_ptr(&self.0).addr();
        let Some(known) = handles.get_mut(&address) else {
            return;
        };
        known.uses = known.uses.saturating_sub(1);
        if known.uses == 0 && known.freed {
            let handle = known.handle;
            handles.remove(&address);
            drop(handles);
            handle::remove::<Arc<Datatype>>(handle.0);
        }
    }
}

/// Ends the handle of a datatype, at once or with the last operation that uses it; returns whether it was
/// live.
pub fn forget_datatype(datatype: &Arc<Datatype>, handle: c::Datatype) -> bool {
    let mut handles = open(&DATATYPE_HANDLES);
    let address = Arc::as_ptr(datatype).addr();
    if let Entry::Occupied(mut entry) = handles.entry(address)
        && entry.get().handle == handle
    {
        if entry.get().uses > 0 {
            let freed_before = std::mem::replace(&mut entry.get_mut().freed, true);
            drop(handles);
            // The program has freed it, although it stays until then.
            handle::creation::forget(handle.0);
            return !freed_before;
        }
        entry.remove();
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
        .map(|known| known.handle);
    known.unwrap_or(k::MPI_DATATYPE_NULL)
}

/// The context of a live request.
pub fn context_of(handle: c::Request) -> Option<u32> {
    match request::unpack(handle) {
        Named::Request(id, _) => runtime()?.process.context_of(id),
        Named::Null | Named::Wild => None,
    }
}

/// Whether a program has set an error handler: until then all communicators have the same one.
static HANDLERS_VARY: AtomicBool = AtomicBool::new(false);

/// Whether communicators may have different error handlers.
#[inline]
pub fn handlers_vary() -> bool {
    HANDLERS_VARY.load(Ordering::Relaxed)
}

/// A program has set an error handler.
pub fn note_handler() {
    HANDLERS_VARY.store(true, Ordering::Relaxed);
}
