//! Collectives of few bytes that end at once: of predefined datatypes and operations, on a communicator that has a board, or of
//! this rank [alone].
//!
//! A rank whose data are not the same number of bytes of the same signature on both sides is left to the checks, and so is
//! `MPI_IN_PLACE`. [Reductions](super::reductions) and blocks of [different lengths](super::uneven) have files of their own.

use std::ffi::{c_int, c_void};

use weft_mpi::Comm;
use weft_mpi::coll::Elements;

use super::{alone, bytes, communicator};
use crate::c;

/// The communicator of a call, if it has a board. First of all: without one nothing here has a point.
#[inline(always)]
pub(super) fn with_board(handle: c::Comm) -> Option<&'static Comm> {
    communicator(handle).filter(|comm| comm.has_board())
}

/// Some elements of a call, not none.
///
/// # Safety
/// As for [`bytes`].
#[inline(always)]
pub(super) unsafe fn elements(
    address: *mut c_void,
    count: i64,
    datatype: c::Datatype,
) -> Option<Elements> {
    // SAFETY: as the caller promises.
    unsafe { bytes(address, count, datatype) }.filter(|(region, _)| !region.is_empty())
}

/// The blocks of all ranks, each of so many elements.
///
/// # Safety
/// As for [`bytes`], for the elements of all.
#[inline(always)]
pub(super) unsafe fn blocks(
    comm: &Comm,
    address: *mut c_void,
    count: i64,
    datatype: c::Datatype,
) -> Option<Elements> {
    let all = count.saturating_mul(i64::from(comm.size()));
    // SAFETY: as the caller promises.
    unsafe { elements(address, all, datatype) }
}

/// Whether the block of a rank is elsewhere than the blocks of all, and as long as each of them, and of the same elements.
#[inline(always)]
pub(super) fn fit(comm: &Comm, one: &Elements, all: &Elements) -> bool {
    let distance = one.0.as_ptr().addr().wrapping_sub(all.0.as_ptr().addr());
    one.1 == all.1 && one.0.len() * comm.size() as usize == all.0.len() && distance >= all.0.len()
}

/// `MPI_Barrier` of two ranks, of which the other one waits.
///
/// # Safety
/// As the head of the module says.
#[inline(always)]
pub unsafe fn barrier(comm: c::Comm) -> bool {
    communicator(comm).is_some_and(Comm::barrier_at_once)
}

/// `MPI_Barrier` of any number, which others may still have to reach.
///
/// # Safety
/// As the head of the module says.
#[inline(always)]
pub unsafe fn barrier_long(comm: c::Comm) -> bool {
    // SAFETY: as the caller promises.
    communicator(comm).is_some_and(Comm::barrier_soon) || unsafe { alone::barrier(comm) }
}

/// `MPI_Bcast`.
///
/// # Safety
/// As the head of the module says.
#[inline(always)]
pub unsafe fn bcast(
    buffer: *mut c_void,
    count: i64,
    datatype: c::Datatype,
    root: c_int,
    handle: c::Comm,
) -> bool {
    let Some(comm) = with_board(handle) else {
        // SAFETY: as the caller promises.
        return unsafe { alone::bcast(buffer, count, datatype, root, handle) };
    };
    // SAFETY: as the caller promises.
    let Some(data) = (unsafe { elements(buffer, count, datatype) }) else {
        return false;
    };
    comm.bcast_at_once(data, root.cast_unsigned())
}

/// `MPI_Gather`.
///
/// # Safety
/// As the head of the module says.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "those of the call")]
pub unsafe fn gather(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: c::Datatype,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: c::Datatype,
    root: c_int,
    handle: c::Comm,
) -> bool {
    let Some(comm) = with_board(handle) else {
        // SAFETY: as the caller promises.
        return unsafe {
            alone::gather(
                sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, handle,
            )
        };
    };
    // SAFETY: as the caller promises.
    let Some(own) = (unsafe { elements(sendbuf.cast_mut(), sendcount, sendtype) }) else {
        return false;
    };
    let root = root.cast_unsigned();
    if root != comm.rank() {
        return comm.gather_at_once(own, None, root);
    }
    // SAFETY: as the caller promises, at the root.
    match unsafe { blocks(comm, recvbuf, recvcount, recvtype) } {
        Some(all) if fit(comm, &own, &all) => comm.gather_at_once(own, Some(all.0), root),
        _ => false,
    }
}

/// `MPI_Scatter`.
///
/// # Safety
/// As the head of the module says.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "those of the call")]
pub unsafe fn scatter(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: c::Datatype,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: c::Datatype,
    root: c_int,
    handle: c::Comm,
) -> bool {
    let Some(comm) = with_board(handle) else {
        // SAFETY: as the caller promises.
        return unsafe {
            alone::scatter(
                sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, handle,
            )
        };
    };
    // SAFETY: as the caller promises.
    let Some(own) = (unsafe { elements(recvbuf, recvcount, recvtype) }) else {
        return false;
    };
    let root = root.cast_unsigned();
    if root != comm.rank() {
        return comm.scatter_at_once(own, None, root);
    }
    // SAFETY: as the caller promises, at the root.
    match unsafe { blocks(comm, sendbuf.cast_mut(), sendcount, sendtype) } {
        Some(all) if fit(comm, &own, &all) => comm.scatter_at_once(own, Some(all.0), root),
        _ => false,
    }
}

/// `MPI_Allgather`.
///
/// # Safety
/// As the head of the module says.
#[inline(always)]
pub unsafe fn allgather(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: c::Datatype,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: c::Datatype,
    handle: c::Comm,
) -> bool {
    let Some(comm) = with_board(handle) else {
        // SAFETY: as the caller promises.
        return unsafe {
            alone::allgather(
                sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, handle,
            )
        };
    };
    // SAFETY: as the caller promises.
    let (own, all) = unsafe {
        (
            elements(sendbuf.cast_mut(), sendcount, sendtype),
            blocks(comm, recvbuf, recvcount, recvtype),
        )
    };
    match (own, all) {
        (Some(own), Some(all)) if fit(comm, &own, &all) => comm.allgather_at_once(own, all.0),
        _ => false,
    }
}

/// `MPI_Alltoall`.
///
/// # Safety
/// As the head of the module says.
#[inline(always)]
pub unsafe fn alltoall(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: c::Datatype,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: c::Datatype,
    handle: c::Comm,
) -> bool {
    let Some(comm) = with_board(handle) else {
        // SAFETY: as the caller promises.
        return unsafe {
            alone::alltoall(
                sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, handle,
            )
        };
    };
    // SAFETY: as the caller promises.
    let (out, all) = unsafe {
        (
            blocks(comm, sendbuf.cast_mut(), sendcount, sendtype),
            blocks(comm, recvbuf, recvcount, recvtype),
        )
    };
    let (Some(out), Some(all)) = (out, all) else {
        return false;
    };
    let is_apart = out.0.as_ptr() != all.0.as_ptr();
    // The blocks of one datatype are counted alike on both sides.
    let is_even = (sendcount, sendtype) == (recvcount, recvtype);
    is_apart && is_even && {
        let each = all.0.len() / comm.size() as usize;
        comm.alltoall_at_once(&out.0, all, each)
    }
}
