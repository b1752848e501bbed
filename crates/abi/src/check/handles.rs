//! Objects of handles. A predefined handle is looked up by its number, any other in its table.

use std::ffi::c_int;
use std::sync::Arc;

use weft_mpi::datatype::{Basic, Datatype};
use weft_mpi::{Comm, Group, Op};

use super::PAGE;
use crate::fault::{Checked, Fault};
use crate::generated::constants as k;
use crate::state::{
    self, ErrhandlerObject, FileObject, Handled, InfoObject, SessionObject, WinObject,
};
use crate::{c, handle};

/// The communicator of a handle.
#[inline]
pub fn find_communicator(handle: c::Comm) -> Option<&'static Arc<Comm>> {
    match handle {
        k::MPI_COMM_WORLD => state::world(),
        k::MPI_COMM_SELF => state::comm_self(),
        other => handle::find(other.0),
    }
}

/// Whether a handle is that of a communicator, for the library of Fortran: it calls this before it uses a communicator for its
/// own purposes, so that only the program's call reports an invalid handle. Not in any header.
#[unsafe(no_mangle)]
pub extern "C" fn weft_is_communicator(handle: c::Comm) -> c_int {
    find_communicator(handle).is_some().into()
}

/// A communicator.
#[inline]
pub fn communicator(handle: c::Comm, name: &'static str) -> Checked<&'static Arc<Comm>> {
    find_communicator(handle).ok_or_else(|| {
        bad_handle(
            k::MPI_ERR_COMM,
            name,
            "a communicator",
            handle.0,
            k::MPI_COMM_NULL.0,
            "MPI_COMM_NULL",
        )
    })
}

/// A group.
pub fn group(handle: c::Group, name: &'static str) -> Checked<&'static Arc<Group>> {
    let found = if handle == k::MPI_GROUP_EMPTY {
        Some(state::empty_group())
    } else {
        handle::find(handle.0)
    };
    found.ok_or_else(|| {
        bad_handle(
            k::MPI_ERR_GROUP,
            name,
            "a group",
            handle.0,
            k::MPI_GROUP_NULL.0,
            "MPI_GROUP_NULL",
        )
    })
}

/// A datatype.
#[inline]
pub fn datatype(handle: c::Datatype, name: &'static str) -> Checked<&'static Arc<Datatype>> {
    find_datatype(handle).ok_or_else(|| {
        bad_handle(
            k::MPI_ERR_TYPE,
            name,
            "a datatype",
            handle.0,
            k::MPI_DATATYPE_NULL.0,
            "MPI_DATATYPE_NULL",
        )
    })
}

/// The datatype of a handle.
#[inline]
pub fn find_datatype(handle: c::Datatype) -> Option<&'static Arc<Datatype>> {
    match state::predefined_datatype(handle) {
        Some(basic) => Some(basic.datatype()),
        None => handle::find(handle.0),
    }
}

/// A datatype that may be used for communication.
#[inline(always)]
pub fn committed(handle: c::Datatype, name: &'static str) -> Checked<&'static Arc<Datatype>> {
    match find_datatype(handle) {
        Some(found) if found.is_committed() => Ok(found),
        _ => Err(not_committed(handle, name)),
    }
}

/// The same, for `count` elements to or from a process: with no elements to or from `MPI_PROC_NULL` it may be
/// `MPI_DATATYPE_NULL`, since such a call has no effect (MPI 5.0, section 3.10).
#[inline(always)]
pub fn committed_for(
    handle: c::Datatype,
    count: i64,
    peer: c_int,
    name: &'static str,
) -> Checked<&'static Arc<Datatype>> {
    match find_datatype(handle) {
        Some(found) if found.is_committed() => Ok(found),
        _ => nothing_to_nobody(handle, count, peer, name),
    }
}

/// The source of a matched probe's message, in the detail that [`committed_for`] needs: `MPI_PROC_NULL`, or
/// another.
///
/// # Safety
/// As the head of the module above says.
pub unsafe fn sender(message: *const c::Message) -> c_int {
    // SAFETY: an INOUT parameter is null or the address of a handle that may be read until the call returns (MPI 5.0,
    // section 2.3).
    match unsafe { message.as_ref() } {
        Some(&k::MPI_MESSAGE_NO_PROC) => k::MPI_PROC_NULL,
        _ => 0,
    }
}

#[cold]
fn nothing_to_nobody(
    handle: c::Datatype,
    count: i64,
    peer: c_int,
    name: &'static str,
) -> Checked<&'static Arc<Datatype>> {
    if handle == k::MPI_DATATYPE_NULL && count == 0 && peer == k::MPI_PROC_NULL {
        return Ok(Basic::Byte.datatype());
    }
    Err(not_committed(handle, name))
}

#[cold]
fn not_committed(handle: c::Datatype, name: &'static str) -> Fault {
    match datatype(handle, name) {
        Err(fault) => fault,
        Ok(_) => Fault::argument(
            k::MPI_ERR_TYPE,
            name,
            "a committed datatype",
            "one that is not committed",
            "call MPI_Type_commit before the datatype is used for communication",
        ),
    }
}

/// An operation.
#[inline]
pub fn operation(handle: c::Op, name: &'static str) -> Checked<&'static Arc<Op>> {
    let found = state::predefined_operation(handle).or_else(|| handle::find(handle.0));
    found.ok_or_else(|| {
        bad_handle(
            k::MPI_ERR_OP,
            name,
            "an operation",
            handle.0,
            k::MPI_OP_NULL.0,
            "MPI_OP_NULL",
        )
    })
}

/// An info object.
pub fn info(handle: c::Info, name: &'static str) -> Checked<&'static InfoObject> {
    info_or_null(handle, name)?.ok_or_else(|| {
        bad_handle(
            k::MPI_ERR_INFO,
            name,
            "an info object",
            handle.0,
            handle.0,
            "MPI_INFO_NULL",
        )
    })
}

/// An info object, or `MPI_INFO_NULL`.
pub fn info_or_null(handle: c::Info, name: &'static str) -> Checked<Option<&'static InfoObject>> {
    match handle {
        k::MPI_INFO_NULL => Ok(None),
        k::MPI_INFO_ENV => Ok(Some(state::environment_info())),
        other => match handle::find(other.0) {
            Some(found) => Ok(Some(found)),
            None => Err(bad_handle(
                k::MPI_ERR_INFO,
                name,
                "an info object or MPI_INFO_NULL",
                other.0,
                0,
                "null",
            )),
        },
    }
}

/// An error handler.
pub fn errhandler(handle: c::Errhandler, name: &'static str) -> Checked<c::Errhandler> {
    let known = matches!(
        handle,
        k::MPI_ERRORS_ARE_FATAL | k::MPI_ERRORS_ABORT | k::MPI_ERRORS_RETURN
    ) || handle::find::<ErrhandlerObject>(handle.0).is_some();
    if known {
        return Ok(handle);
    }
    Err(bad_handle(
        k::MPI_ERR_ERRHANDLER,
        name,
        "an error handler",
        handle.0,
        k::MPI_ERRHANDLER_NULL.0,
        "MPI_ERRHANDLER_NULL",
    ))
}

/// An error handler for a kind of object: a predefined one, or one of the program's for that kind (MPI 5.0, section 9.3).
pub fn handler_of(handle: c::Errhandler, handled: Handled, name: &'static str) -> Checked<()> {
    match handle::find::<ErrhandlerObject>(handle.0) {
        Some(object) if object.handled() != handled => Err(Fault::argument(
            k::MPI_ERR_ARG,
            name,
            format!("one of {}", handled.creator()),
            format!("one of {}", object.handled().creator()),
            "make a handler for this kind of object; its function takes another handle",
        )),
        _ => Ok(()),
    }
}

/// A session.
pub fn session(handle: c::Session, name: &'static str) -> Checked<&'static SessionObject> {
    handle::find(handle.0).ok_or_else(|| {
        bad_handle(
            k::MPI_ERR_SESSION,
            name,
            "a session",
            handle.0,
            k::MPI_SESSION_NULL.0,
            "MPI_SESSION_NULL",
        )
    })
}

/// The window of a handle.
#[inline]
pub fn find_window(handle: c::Win) -> Option<&'static WinObject> {
    handle::find(handle.0)
}

/// A window.
#[inline]
pub fn window(handle: c::Win, name: &'static str) -> Checked<&'static WinObject> {
    find_window(handle).ok_or_else(|| {
        bad_handle(
            k::MPI_ERR_WIN,
            name,
            "a window",
            handle.0,
            k::MPI_WIN_NULL.0,
            "MPI_WIN_NULL",
        )
    })
}

/// A file.
#[inline]
pub fn file(handle: c::File, name: &'static str) -> Checked<&'static FileObject> {
    handle::find(handle.0).ok_or_else(|| {
        bad_handle(
            k::MPI_ERR_FILE,
            name,
            "an open file",
            handle.0,
            k::MPI_FILE_NULL.0,
            "MPI_FILE_NULL",
        )
    })
}

#[cold]
fn bad_handle(
    code: c_int,
    name: &'static str,
    expected: &str,
    handle: usize,
    null: usize,
    null_name: &str,
) -> Fault {
    let (found, remedy) = if handle == null {
        (
            null_name.to_owned(),
            "pass a handle that a call of the standard has returned",
        )
    } else if handle >> 31 != 0 {
        (
            format!("the address {handle:#x}"),
            "pass the handle itself, not its address, and build with the header of this library or another for the standard ABI",
        )
    } else if handle < PAGE {
        (
            format!("the predefined handle {handle:#x}, which is something else"),
            "pass a handle of the right kind",
        )
    } else {
        (
            format!("handle {handle:#x}, which is not live"),
            "do not use a handle after it was freed, or before it was set",
        )
    };
    Fault::argument(code, name, expected, found, remedy)
}
