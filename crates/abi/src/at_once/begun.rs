//! Non-blocking collectives of few bytes that begin in few instructions: of predefined datatypes and operations, on a communicator that has a
//! board for them, or of this rank [alone]. Each function here answers what has [`Begun`].
//!
//! # Safety
//! As for [`at_once`](super): addresses come from the caller, who keeps the promises of the C binding.

use std::ffi::{c_int, c_void};

use weft_mpi::{Comm, RequestId};

use super::collective::{blocks, elements, fit};
use super::reductions::{operands, parts, reduction};
use super::{Begun, alone, communicator};
use crate::c;

// Of these there is a short way for a rank alone only.
pub use alone::{allgatherv, alltoallv, exscan, gatherv, reduce_scatter, scan, scatterv};

/// The communicator of a call, if it has a board. First of all: without one nothing here has a point.
#[inline(always)]
fn with_board(handle: c::Comm) -> Option<&'static Comm> {
    communicator(handle).filter(|comm| comm.has_outstanding_board())
}

/// `MPI_Ibarrier`.
///
/// # Safety
/// As the head of the module says.
#[inline(always)]
pub unsafe fn barrier(handle: c::Comm) -> Option<RequestId> {
    let Some(comm) = with_board(handle) else {
        // SAFETY: as the caller promises.
        return unsafe { alone::barrier(handle) }.request();
    };
    comm.ibarrier_at_once()
}

/// `MPI_Ibcast`.
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
) -> Option<RequestId> {
    let Some(comm) = with_board(handle) else {
        // SAFETY: as the caller promises.
        return unsafe { alone::bcast(buffer, count, datatype, root, handle) }.request();
    };
    // SAFETY: as the caller promises.
    let data = unsafe { elements(buffer, count, datatype) }?;
    comm.ibcast_at_once(data, root.cast_unsigned())
}

/// `MPI_Igather`.
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
) -> Option<RequestId> {
    let Some(comm) = with_board(handle) else {
        // SAFETY: as the caller promises.
        return unsafe {
            alone::gather(
                sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, handle,
            )
        }
        .request();
    };
    // SAFETY: as the caller promises.
    let own = unsafe { elements(sendbuf.cast_mut(), sendcount, sendtype) }?;
    let root = root.cast_unsigned();
    if root != comm.rank() {
        return comm.igather_at_once(own, None, root);
    }
    // SAFETY: as the caller promises, at the root.
    let all = unsafe { blocks(comm, recvbuf, recvcount, recvtype) }?;
    fit(comm, &own, &all)
        .then(|| comm.igather_at_once(own, Some(all.0), root))
        .flatten()
}

/// `MPI_Iscatter`.
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
) -> Option<RequestId> {
    let Some(comm) = with_board(handle) else {
        // SAFETY: as the caller promises.
        return unsafe {
            alone::scatter(
                sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, handle,
            )
        }
        .request();
    };
    // SAFETY: as the caller promises.
    let own = unsafe { elements(recvbuf, recvcount, recvtype) }?;
    let root = root.cast_unsigned();
    if root != comm.rank() {
        return comm.iscatter_at_once(own, None, root);
    }
    // SAFETY: as the caller promises, at the root.
    let all = unsafe { blocks(comm, sendbuf.cast_mut(), sendcount, sendtype) }?;
    fit(comm, &own, &all)
        .then(|| comm.iscatter_at_once(own, Some(all.0), root))
        .flatten()
}

/// `MPI_Iallgather`.
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
) -> Option<RequestId> {
    let Some(comm) = with_board(handle) else {
        // SAFETY: as the caller promises.
        return unsafe {
            alone::allgather(
                sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, handle,
            )
        }
        .request();
    };
    // SAFETY: as the caller promises.
    let (own, all) = unsafe {
        (
            elements(sendbuf.cast_mut(), sendcount, sendtype)?,
            blocks(comm, recvbuf, recvcount, recvtype)?,
        )
    };
    fit(comm, &own, &all)
        .then(|| comm.iallgather_at_once(own, all.0))
        .flatten()
}

/// `MPI_Ialltoall`.
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
) -> Option<RequestId> {
    let Some(comm) = with_board(handle) else {
        // SAFETY: as the caller promises.
        return unsafe {
            alone::alltoall(
                sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, handle,
            )
        }
        .request();
    };
    // SAFETY: as the caller promises.
    let (out, all) = unsafe {
        (
            blocks(comm, sendbuf.cast_mut(), sendcount, sendtype)?,
            blocks(comm, recvbuf, recvcount, recvtype)?,
        )
    };
    let is_apart = out.0.as_ptr() != all.0.as_ptr();
    // The blocks of one datatype are counted alike on both sides.
    let is_even = (sendcount, sendtype) == (recvcount, recvtype);
    let each = all.0.len() / comm.size() as usize;
    (is_apart && is_even)
        .then(|| comm.ialltoall_at_once(out.0, all, each))
        .flatten()
}

/// `MPI_Ireduce`.
///
/// # Safety
/// As the head of the module says.
#[inline(always)]
pub unsafe fn reduce(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: i64,
    datatype: c::Datatype,
    op: c::Op,
    root: c_int,
    handle: c::Comm,
) -> Option<RequestId> {
    let Some(comm) = with_board(handle) else {
        // SAFETY: as the caller promises.
        return unsafe { alone::reduce(sendbuf, recvbuf, count, datatype, op, root, handle) }
            .request();
    };
    let (reduction, root) = (reduction(op, datatype)?, root.cast_unsigned());
    if root != comm.rank() {
        // SAFETY: as the caller promises.
        let own = unsafe { elements(sendbuf.cast_mut(), count, datatype) }?;
        return comm.ireduce_at_once(own, None, reduction, root);
    }
    // SAFETY: as the caller promises, at the root.
    let (own, result) = unsafe { operands(sendbuf, recvbuf, count, datatype) }?;
    comm.ireduce_at_once(own, Some(result), reduction, root)
}

/// `MPI_Iallreduce`.
///
/// # Safety
/// As the head of the module says.
#[inline(always)]
pub unsafe fn allreduce(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: i64,
    datatype: c::Datatype,
    op: c::Op,
    handle: c::Comm,
) -> Option<RequestId> {
    let Some(comm) = with_board(handle) else {
        // SAFETY: as the caller promises.
        return unsafe { alone::allreduce(sendbuf, recvbuf, count, datatype, op, handle) }
            .request();
    };
    let reduction = reduction(op, datatype)?;
    // SAFETY: as the caller promises.
    let (own, result) = unsafe { operands(sendbuf, recvbuf, count, datatype) }?;
    comm.iallreduce_at_once(own, result, reduction)
}

/// `MPI_Ireduce_scatter_block`.
///
/// # Safety
/// As the head of the module says.
#[inline(always)]
pub unsafe fn reduce_scatter_block(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcount: i64,
    datatype: c::Datatype,
    op: c::Op,
    handle: c::Comm,
) -> Option<RequestId> {
    let Some(comm) = with_board(handle) else {
        // SAFETY: as the caller promises.
        return unsafe {
            alone::reduce_scatter_block(sendbuf, recvbuf, recvcount, datatype, op, handle)
        }
        .request();
    };
    let reduction = reduction(op, datatype)?;
    let all = recvcount.saturating_mul(i64::from(comm.size()));
    // SAFETY: as the caller promises.
    let (own, result) = unsafe { parts(sendbuf, recvbuf, (recvcount, all), datatype) }?;
    comm.ireduce_scatter_block_at_once(own, result, reduction)
}
