//! Entry to a call, and exit from it: runs the body of an entry point, and passes a fault to the error handler of
//! the object concerned (MPI 5.0, section 9.3).
//!
//! A fault that belongs to no object goes to the handler of `MPI_COMM_SELF` if the program has set one there, else to
//! that of `MPI_COMM_WORLD` if it has set one there (`docs/decisions/0036`). If no handler is set, faults are fatal,
//! or what the [launcher](initial_handler) was told; those of files are returned.

use std::ffi::c_int;
use std::sync::{Arc, OnceLock};

use weft_atomic::{AtomicUsize, Ordering};
use weft_launch::bootstrap;
use weft_mpi::Comm;
use weft_mpi::extras::Extras;
use weft_mpi::io::File;
use weft_mpi::rma::Window;

use crate::c;
use crate::fault::{self, Checked, Fault};
use crate::generated::constants as k;
use crate::generated::profiled::{CALLS, CONTINUED};
use crate::state::{self, ErrhandlerObject, FileObject, MessageObject, SessionObject, WinObject};
use crate::{check, handle};

/// The object whose error handler a fault goes to.
#[derive(Clone, Copy, Debug)]
pub enum Scope {
    /// The communicator of the call.
    Comm(c::Comm),
    /// The communicator whose handle is at this address.
    CommAt(*const c::Comm),
    /// The window of the call.
    Win(c::Win),
    /// The window whose handle is at this address.
    WinAt(*const c::Win),
    /// The file of the call.
    File(c::File),
    /// The file whose handle is at this address.
    FileAt(*const c::File),
    /// The session of the call.
    Session(c::Session),
    /// The session whose handle is at this address.
    SessionAt(*const c::Session),
    /// The communicator of the request whose handle is at this address.
    RequestAt(*const c::Request),
    /// The communicator on which the message was probed; the message's handle is at this address.
    MessageAt(*const c::Message),
    /// The tool interface, which only returns codes.
    Tool,
    /// None.
    None,
}

/// The name of the call that begins at this address, or goes on there when its short path is not possible.
pub fn name_at(start: usize) -> Option<&'static str> {
    let entries = CALLS.iter().map(|call| (call.name, call.whole));
    let mut all = entries.chain(CONTINUED);
    let found = all.find(|(_, code)| code.0.addr() == start);
    found.map(|(name, _)| name)
}

/// Runs the body of an entry point.
#[inline]
pub fn run(call: &'static str, scope: Scope, body: impl FnOnce() -> Checked<()>) -> c_int {
    if check::is_full() {
        check::threads::enter(call);
    }
    let code = match body() {
        Ok(()) => k::MPI_SUCCESS,
        Err(fault) => fault
            .told_code()
            .unwrap_or_else(|| failed(call, scope, &fault)),
    };
    if check::is_full() {
        check::threads::leave();
    }
    code
}

/// Passes a fault to its handler; returns the code to return, if the handler lets the call return.
#[cold]
pub fn failed(call: &'static str, scope: Scope, fault: &Fault) -> c_int {
    fault::remember(call, fault);
    let code = fault.code();
    let Some(owner) = Owner::find(scope, fault) else {
        return code;
    };
    match owner.handler {
        k::MPI_ERRORS_RETURN => code,
        k::MPI_ERRORS_ARE_FATAL | k::MPI_ERRORS_ABORT => {
            let name = if owner.handler == k::MPI_ERRORS_ABORT {
                "MPI_ERRORS_ABORT"
            } else {
                "MPI_ERRORS_ARE_FATAL"
            };
            let block = fault.block(state::rank_and_size(), call, &owner.name, name);
            if code == k::MPI_ERR_PROC_ABORTED {
                state::ends_by_loss();
            }
            state::abort(code, &block)
        }
        user => {
            if let Some(handler) = handle::find::<ErrhandlerObject>(user.0) {
                handler.call(owner.handle, code);
            }
            code
        }
    }
}

/// The fault when a program calls a handler itself.
fn called(code: c_int) -> Fault {
    Fault::new(code, "the program called the error handler itself")
}

/// Calls the handler of a session (`MPI_Session_call_errhandler`).
pub fn call_session_handler(session: c::Session, code: c_int) {
    failed(
        "MPI_Session_call_errhandler",
        Scope::Session(session),
        &called(code),
    );
}

/// Calls the handler of a communicator (`MPI_Comm_call_errhandler`).
pub fn call_handler(comm: &Comm, code: c_int) {
    let fault = called(code).on(Some(comm.context()));
    failed("MPI_Comm_call_errhandler", Scope::None, &fault);
}

/// Calls the handler of a window (`MPI_Win_call_errhandler`).
pub fn call_window_handler(win: c::Win, code: c_int) {
    failed("MPI_Win_call_errhandler", Scope::Win(win), &called(code));
}

/// Hands the fault of a file that is being closed to its handler, while its handle is still valid; returns
/// the code.
pub fn failed_to_close(file: c::File, fault: &Fault) -> c_int {
    failed("MPI_File_close", Scope::File(file), fault)
}

/// Hands the fault of a window that is being freed to its handler, while its handle is still valid; returns the code.
pub fn failed_to_free(win: c::Win, fault: &Fault) -> c_int {
    failed("MPI_Win_free", Scope::Win(win), fault)
}

/// Calls the handler of a file (`MPI_File_call_errhandler`).
pub fn call_file_handler(file: c::File, code: c_int) {
    failed("MPI_File_call_errhandler", Scope::File(file), &called(code));
}

/// The object whose handler is called.
struct Owner {
    handle: usize,
    name: String,
    handler: c::Errhandler,
}

impl Owner {
    /// `None` if the code is simply returned.
    fn find(scope: Scope, fault: &Fault) -> Option<Self> {
        if let Some(context) = fault.context() {
            return Some(Self::of_context(context));
        }
        Some(match scope {
            Scope::Tool => return None,
            Scope::Win(win) => Self::of_win(win),
            Scope::File(file) => Self::of_file(file),
            Scope::FileAt(address) => {
                // SAFETY: the entry point was given the address of a file's handle (INOUT parameter), or null.
                Self::of_file(unsafe { address.as_ref() }.map_or(k::MPI_FILE_NULL, |file| *file))
            }
            Scope::Comm(comm) => Self::of_comm(comm),
            Scope::Session(session) => Self::of_session(session),
            Scope::WinAt(address) if !address.is_null() => {
                // SAFETY: the entry point was given the address of a window's handle (INOUT parameter); it is not null.
                Self::of_win(unsafe { *address })
            }
            Scope::SessionAt(address) if !address.is_null() => {
                // SAFETY: the entry point was given the address of a session's handle (INOUT parameter); it is not null.
                Self::of_session(unsafe { *address })
            }
            Scope::CommAt(address) if !address.is_null() => {
                // SAFETY: the entry point was given the address of a communicator's handle (INOUT parameter); it is
                // not null.
                Self::of_comm(unsafe { *address })
            }
            Scope::RequestAt(address) if !address.is_null() => {
                // SAFETY: the entry point was given the address of a request's handle (INOUT parameter); it is not
                // null.
                let request = unsafe { *address };
                match state::context_of(request) {
                    Some(context) => Self::of_context(context),
                    None => Self::nobody(),
                }
            }
            Scope::MessageAt(address) if !address.is_null() => {
                // SAFETY: the entry point was given the address of a message's handle (INOUT parameter); it is not
                // null.
                let message = unsafe { *address };
                match handle::find::<MessageObject>(message.0) {
                    Some(object) => Self::of_context(object.context()),
                    None => Self::nobody(),
                }
            }
            _ => Self::nobody(),
        })
    }

    fn of_comm(handle: c::Comm) -> Self {
        match check::find_communicator(handle) {
            Some(comm) => Self::of(handle.0, comm),
            None => Self::nobody(),
        }
    }

    fn of_win(win: c::Win) -> Self {
        match handle::find::<WinObject>(win.0) {
            Some(object) => {
                Self::of_extras(win.0, object.window().extras(), "a window without name")
            }
            None => Self::nobody(),
        }
    }

    fn of_session(session: c::Session) -> Self {
        match handle::find::<SessionObject>(session.0) {
            Some(object) => Self {
                handle: session.0,
                name: "a session".to_owned(),
                handler: object.errhandler(),
            },
            None => Self::nobody(),
        }
    }

    /// The communicator, the file or the window of a context; errors of requests go there.
    fn of_context(context: u32) -> Self {
        match state::comm_of_context(context) {
            Some((handle, comm)) => Self::of(handle.0, &comm),
            None => match (
                state::file_of_context(context),
                state::window_of_context(context),
            ) {
                (Some(file), _) => Self::of_file(file),
                (None, Some(win)) => Self::of_win(win),
                (None, None) => Self::nobody(),
            },
        }
    }

    /// A file; for an invalid handle, the owner that `MPI_FILE_NULL` represents (MPI 5.0, section 14.7).
    fn of_file(file: c::File) -> Self {
        match handle::find::<FileObject>(file.0) {
            Some(object) => Self {
                handle: file.0,
                name: format!("the file {}", object.file().path().display()),
                handler: handler_of_file(object.file()),
            },
            None => Self {
                handle: k::MPI_FILE_NULL.0,
                name: "no file".to_owned(),
                handler: default_file_handler(),
            },
        }
    }

    /// The owner of a fault that belongs to no object: the first of the two predefined communicators with a
    /// handler.
    fn nobody() -> Self {
        let found = [k::MPI_COMM_SELF, k::MPI_COMM_WORLD]
            .into_iter()
            .find_map(|handle| {
                let comm = check::find_communicator(handle)?;
                (comm.extras().errhandler() != 0).then(|| Self::of(handle.0, comm))
            });
        let found = found.unwrap_or_else(|| Self {
            handle: k::MPI_COMM_SELF.0,
            name: String::new(),
            handler: initial_handler(),
        });
        Self {
            name: String::new(),
            ..found
        }
    }

    fn of(handle: usize, comm: &Arc<Comm>) -> Self {
        Self::of_extras(handle, comm.extras(), "a communicator without name")
    }

    fn of_extras(handle: usize, extras: &Extras, nameless: &str) -> Self {
        Self {
            handle,
            name: extras.name_or(nameless),
            handler: handler_of_extras(extras, k::MPI_ERRORS_ARE_FATAL),
        }
    }
}

/// The initial error handler of this process, that of its first communicators and of errors outside of them, as its launcher has named
/// it (MPI 5.0, section 9.3). To be asked first before the launcher's variables are removed.
pub fn initial_handler() -> c::Errhandler {
    static HANDLER: OnceLock<c::Errhandler> = OnceLock::new();
    *HANDLER.get_or_init(|| match bootstrap::initial_error_handler().as_deref() {
        Some("mpi_errors_return") => k::MPI_ERRORS_RETURN,
        Some("mpi_errors_abort") => k::MPI_ERRORS_ABORT,
        _ => k::MPI_ERRORS_ARE_FATAL,
    })
}

fn handler_of_extras(extras: &Extras, default: c::Errhandler) -> c::Errhandler {
    match extras.errhandler() {
        0 => default,
        handler => c::Errhandler(handler),
    }
}

/// The error handler of a window.
pub fn handler_of_window(window: &Window) -> c::Errhandler {
    handler_of_extras(window.extras(), k::MPI_ERRORS_ARE_FATAL)
}

/// The error handler of files that are opened later, and of calls that have no file.
static DEFAULT_FILE_HANDLER: AtomicUsize = AtomicUsize::new(k::MPI_ERRORS_RETURN.0);

/// The error handler of `MPI_FILE_NULL`.
pub fn default_file_handler() -> c::Errhandler {
    c::Errhandler(DEFAULT_FILE_HANDLER.load(Ordering::Relaxed))
}

/// Sets the error handler of `MPI_FILE_NULL`; returns the previous one.
pub fn set_default_file_handler(handler: c::Errhandler) -> c::Errhandler {
    c::Errhandler(DEFAULT_FILE_HANDLER.swap(handler.0, Ordering::Relaxed))
}

/// The error handler of a file. Without one, errors are returned (MPI 5.0, section 14.7).
pub fn handler_of_file(file: &File) -> c::Errhandler {
    handler_of_extras(file.extras(), k::MPI_ERRORS_RETURN)
}

/// The error handler of a communicator.
pub fn handler_of(comm: &Comm) -> c::Errhandler {
    handler_of_extras(comm.extras(), k::MPI_ERRORS_ARE_FATAL)
}
