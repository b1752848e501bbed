//! `MPI_Sendrecv` at the edge of a grid: of a side that is `MPI_PROC_NULL` nothing is left, so the call is a receive, a send, or nothing.

use std::ffi::{c_int, c_void};

use weft_mpi::Comm;

use super::{FROM_NOBODY, bytes, communicator, envelope, recv, send, send_long, set_status};
use crate::c;
use crate::check::TAG_MAX;
use crate::generated::constants as k;

/// `MPI_Sendrecv` of which at least one side is `MPI_PROC_NULL`.
///
/// # Safety
/// As the head of the module [`at_once`](super) says.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub unsafe fn sendrecv(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: c::Datatype,
    dest: c_int,
    sendtag: c_int,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: c::Datatype,
    source: c_int,
    recvtag: c_int,
    comm: c::Comm,
    status: *mut c::Status,
) -> bool {
    // First of all: most calls have two sides.
    if dest != k::MPI_PROC_NULL && source != k::MPI_PROC_NULL {
        return false;
    }
    // The arguments of both sides have to be right.
    // SAFETY: as the caller promises.
    let buffers = unsafe {
        (
            bytes(sendbuf.cast_mut(), sendcount, sendtype),
            bytes(recvbuf, recvcount, recvtype),
        )
    };
    let (Some(_), Some(_)) = buffers else {
        return false;
    };
    if !(0..=TAG_MAX).contains(&sendtag) || envelope(source, recvtag).is_none() {
        return false;
    }
    // SAFETY: as the caller promises.
    unsafe {
        match (dest, source) {
            (k::MPI_PROC_NULL, k::MPI_PROC_NULL) => nothing(comm, status),
            (k::MPI_PROC_NULL, _) => {
                receive(recvbuf, recvcount, recvtype, source, recvtag, comm, status)
            }
            _ => send_only(sendbuf, sendcount, sendtype, dest, sendtag, comm, status),
        }
    }
}

/// # Safety
/// As the head of the module [`at_once`](super) says.
#[inline(always)]
unsafe fn nothing(comm: c::Comm, status: *mut c::Status) -> bool {
    if !communicator(comm).is_some_and(Comm::is_usable_at_once) {
        return false;
    }
    // SAFETY: as the caller promises.
    unsafe { set_status(status, FROM_NOBODY) };
    true
}

// Functions of their own: otherwise a call with two sides would pay for what they keep in memory.

/// # Safety
/// As the head of the module [`at_once`](super) says.
#[inline(never)]
unsafe fn receive(
    buf: *mut c_void,
    count: i64,
    datatype: c::Datatype,
    source: c_int,
    tag: c_int,
    comm: c::Comm,
    status: *mut c::Status,
) -> bool {
    // SAFETY: as the caller promises.
    unsafe { recv(buf, count, datatype, source, tag, comm, status) }
}

/// # Safety
/// As the head of the module [`at_once`](super) says.
#[inline(never)]
unsafe fn send_only(
    buf: *const c_void,
    count: i64,
    datatype: c::Datatype,
    dest: c_int,
    tag: c_int,
    comm: c::Comm,
    status: *mut c::Status,
) -> bool {
    // SAFETY: as the caller promises.
    unsafe {
        if !send(buf, count, datatype, dest, tag, comm)
            && !send_long(buf, count, datatype, dest, tag, comm)
        {
            return false;
        }
        set_status(status, FROM_NOBODY);
    }
    true
}
