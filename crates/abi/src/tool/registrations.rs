//! Registrations: which functions of the program receive which events.
//!
//! ```text
//!   engine ──event──► Callbacks, when the engine is let go of ──► ToolListener ──► functions of each registration
//! ```
//!
//! Functions are called at points where any MPI call is permitted. Thread-safe ones may run at once in several threads;
//! others run one at a time, and events in other threads during that time are dropped, as are events caused by a
//! function itself. A registration ends when none of its functions runs any more.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weft_atomic::{AtomicU64, Ordering};
use weft_mpi::events::{Event, EventKind, Listener};

use super::events::{self, EVENTS};
use super::settings;
use crate::c;
use crate::generated::constants as k;
use crate::handle;
use crate::state;

/// A function of the program, with its data.
#[derive(Clone, Copy, Debug)]
struct Function {
    function: usize,
    data: usize,
}

/// Levels of safety, in ascending order.
pub const LEVELS: [c_int; 4] = [
    k::MPI_T_CB_REQUIRE_NONE,
    k::MPI_T_CB_REQUIRE_MPI_RESTRICTED,
    k::MPI_T_CB_REQUIRE_THREAD_SAFE,
    k::MPI_T_CB_REQUIRE_ASYNC_SIGNAL_SAFE,
];
/// The first level whose functions may run at once in several threads.
const THREAD_SAFE: usize = 2;

#[derive(Debug, Default)]
struct Inner {
    functions: [Option<Function>; LEVELS.len()],
    dropped_handler: usize,
    handle: usize,
    /// Number of threads that run one of its functions.
    inside: usize,
    /// Whether a function that is not thread-safe runs.
    is_taken: bool,
    /// If it is freed: the function to call at its end.
    freed: Option<Function>,
}

/// A registration of one kind of event.
#[derive(Debug)]
pub struct Registration {
    pub kind: &'static events::EventType,
    inner: Mutex<Inner>,
}

static ALL: Mutex<Vec<Arc<Registration>>> = Mutex::new(Vec::new());

fn open<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

thread_local! {
    /// The event whose functions run in this thread, with the handle that they are given.
    static CURRENT: Cell<Option<(usize, Event)>> = const { Cell::new(None) };
    /// Kinds and number of the events caused by functions that run in this thread.
    static NESTED: Cell<(u32, u64)> = const { Cell::new((0, 0)) };
}

/// The event of an instance's handle, while its functions run in this thread.
pub fn current(instance: c::ToolHandle) -> Option<Event> {
    let (handle, event) = CURRENT.get()?;
    // The handler of dropped events has none.
    (handle == instance.0 && handle != 0).then_some(event)
}

/// Whether a function of the program runs in this thread.
fn is_inside() -> bool {
    CURRENT.get().is_some()
}

impl Registration {
    /// A registration; `None` if there are too many.
    pub fn create(kind: &'static events::EventType) -> Option<usize> {
        let registration = Arc::new(Self {
            kind,
            inner: Mutex::default(),
        });
        let handle = handle::insert(Arc::clone(&registration))?;
        open(&registration.inner).handle = handle;
        open(&ALL).push(registration);
        Some(handle)
    }

    /// Sets, or with a null function removes, the function of a level.
    pub fn set_function(&self, level: usize, function: c::Callback, data: *mut c_void) {
        let function = (function.0 != 0).then(|| Function {
            function: function.0,
            data: data.expose_provenance(),
        });
        open(&self.inner).functions[level] = function;
        listen();
    }

    /// Sets the function that is told how many events were dropped.
    pub fn set_dropped_handler(&self, function: c::Callback) {
        open(&self.inner).dropped_handler = function.0;
    }

    /// Frees it; the function is called when none of its other functions runs any more.
    pub fn free(self: &Arc<Self>, function: c::Callback, data: *mut c_void) {
        open(&ALL).retain(|other| !Arc::ptr_eq(other, self));
        listen();
        let mut inner = open(&self.inner);
        handle::remove::<Arc<Self>>(inner.handle);
        inner.freed = Some(Function {
            function: function.0,
            data: data.expose_provenance(),
        });
        self.end_if_unused(inner);
    }

    fn end_if_unused(&self, mut inner: MutexGuard<'_, Inner>) {
        if inner.inside > 0 {
            return;
        }
        let (freed, handle) = (inner.freed.take(), inner.handle);
        if freed.is_some() {
            inner.functions = [None; LEVELS.len()];
        }
        drop(inner);
        if let Some(freed) = freed.filter(|freed| freed.function != 0) {
            // SAFETY: the program passed a function of this type to `MPI_T_event_handle_free`.
            unsafe {
                let function: unsafe extern "C" fn(usize, c_int, *mut c_void) =
                    std::mem::transmute(freed.function);
                function(handle, LEVELS[0], freed.data as *mut c_void);
            }
        }
    }

    /// Takes a function to be run. The error is true if there is one that may not run now, and false if there
    /// is none.
    fn enter(&self) -> Result<(Function, usize, usize), bool> {
        let mut inner = open(&self.inner);
        if inner.freed.is_some() {
            return Err(false);
        }
        let order = (THREAD_SAFE..LEVELS.len()).chain((0..THREAD_SAFE).rev());
        let found = order
            .filter_map(|level| Some((inner.functions[level]?, level)))
            .next();
        let Some((function, level)) = found else {
            return Err(false);
        };
        if level < THREAD_SAFE {
            if inner.is_taken {
                return Err(true);
            }
            inner.is_taken = true;
        }
        inner.inside += 1;
        Ok((function, level, inner.handle))
    }

    fn leave(&self, level: usize) {
        let mut inner = open(&self.inner);
        inner.inside -= 1;
        if level < THREAD_SAFE {
            inner.is_taken = false;
        }
        self.end_if_unused(inner);
    }

    /// Calls its function. False if that was not possible.
    fn tell(&self, instance: usize) -> bool {
        let (function, level, handle) = match self.enter() {
            Ok(found) => found,
            Err(missed) => return !missed,
        };
        // SAFETY: the program passed a function of this type to `MPI_T_event_register_callback`, and it lives until the
        // function of `MPI_T_event_handle_free` was called, which waits for `leave`.
        unsafe {
            let run: unsafe extern "C" fn(usize, usize, c_int, *mut c_void) =
                std::mem::transmute(function.function);
            run(
                instance,
                handle,
                LEVELS[level],
                function.data as *mut c_void,
            );
        }
        self.leave(level);
        true
    }

    /// Reports how many of its events were dropped.
    fn tell_dropped(&self, count: u64) {
        let inner = open(&self.inner);
        let (dropped, handle) = (inner.dropped_handler, inner.handle);
        let data = inner
            .functions
            .iter()
            .flatten()
            .next()
            .map_or(0, |one| one.data);
        drop(inner);
        if dropped == 0 {
            return;
        }
        // SAFETY: the program passed a function of this type to `MPI_T_event_set_dropped_handler`.
        unsafe {
            let run: unsafe extern "C" fn(i64, usize, c_int, c_int, *mut c_void) =
                std::mem::transmute(dropped);
            run(count as i64, handle, 0, LEVELS[0], data as *mut c_void);
        }
    }
}

/// Receives the engine's events.
#[derive(Debug)]
struct ToolListener;

fn of_kinds(kinds: u32) -> Vec<Arc<Registration>> {
    let all = open(&ALL);
    let wanted = all.iter().filter(|one| one.kind.kind.bit() & kinds != 0);
    wanted.cloned().collect()
}

/// Reports dropped events. Events caused by that are not reported.
fn tell_dropped(kinds: u32, count: u64) {
    let before = CURRENT.replace(Some((0, NOTHING)));
    for registration in of_kinds(kinds) {
        registration.tell_dropped(count);
    }
    CURRENT.set(before);
}

const NOTHING: Event = Event {
    kind: EventKind::Lost,
    time: 0,
    peer: -1,
    tag: -1,
    context: 0,
    bytes: 0,
};

impl Listener for ToolListener {
    fn now(&self) -> u64 {
        events::now()
    }

    fn event(&self, event: &Event) {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        if is_inside() {
            let (kinds, count) = NESTED.get();
            NESTED.set((kinds | event.kind.bit(), count + 1));
            return;
        }
        let instance = NEXT.fetch_add(1, Ordering::Relaxed) as usize;
        CURRENT.set(Some((instance, *event)));
        let mut missed = 0;
        for registration in of_kinds(event.kind.bit()) {
            missed += u64::from(!registration.tell(instance));
        }
        CURRENT.set(None);
        let (kinds, count) = NESTED.take();
        if count + missed > 0 {
            let bit = if missed > 0 { event.kind.bit() } else { 0 };
            tell_dropped(kinds | bit, count + missed);
            NESTED.take();
        }
    }

    fn dropped(&self, kinds: u32, count: u64) {
        tell_dropped(kinds, count);
    }
}

/// Makes the engine, if there is one, report the events that are registered.
pub fn listen() {
    let Some(runtime) = state::runtime() else {
        return;
    };
    listen_to(&runtime.process);
}

/// The same for an engine that was just made.
pub fn listen_to(process: &weft_mpi::Process) {
    let mut kinds = 0;
    if settings::is_profiling() {
        for registration in open(&ALL).iter() {
            let inner = open(&registration.inner);
            if inner.functions.iter().any(Option::is_some) {
                kinds |= registration.kind.kind.bit();
            }
        }
    }
    process.listen(kinds, Arc::new(ToolListener), settings::queue_length());
}

/// The interface is no longer in use.
pub fn forget_all() {
    let all = std::mem::take(&mut *open(&ALL));
    for registration in all {
        let mut inner = open(&registration.inner);
        handle::remove::<Arc<Registration>>(inner.handle);
        inner.functions = [None; LEVELS.len()];
    }
    listen();
}

/// The row of an event's index.
pub fn kind_of(index: c_int) -> crate::fault::Checked<&'static events::EventType> {
    super::row(EVENTS, index, "event")
}
