//! Non-blocking collectives of few bytes that begin in few instructions: of predefined datatypes and operations, on a communicator that has a
//! board for them, or of this rank [alone]. Each function here answers the request, [`RequestId::DONE`] if the collective has ended.
//!
//! # Safety
//! As for [`at_once`](super): addresses come from the caller, who keeps the promises of the C binding.

use std::ffi::{c_int, c_void};

use weft_mpi::{Comm, RequestId};

use super::collective::{blocks, elements, fit};
use super::reductions::{operands, parts, reduction};
use super::uneven::Number;
use super::{alone, communicator};
use crate::c;

/// The communicator of a call, if it has a board. First of all: without one nothing here has a point.
#[inline(always)]
fn with_board(handle: c::Comm) -> Option<&'static Comm> {
    communicator(handle).filter(|comm| comm.has_outstanding_board())
}

/// The request of a collective of this rank alone, if it has ended.
#[inline(always)]
fn done(has_ended: bool) -> Option<RequestId> {
    has_ended.then_some(RequestId::DONE)
}

/// `MPI_Ibarrier`.
///
/// # Safety
/// As the head of the module says.
#[inline(always)]
pub unsafe fn barrier(handle: c::Comm) -> Option<RequestId> {
    let Some(comm) = with_board(handle) else {
        // SAFETY: as the caller promises.
        return done(unsafe { alone::barrier(handle) });
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
        return done(unsafe { alone::bcast(buffer, count, datatype, root, handle) });
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
        return done(unsafe {
            alone::gather(
                sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, handle,
            )
        });
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
        return done(unsafe {
            alone::scatter(
                sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, handle,
            )
        });
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
        return done(unsafe {
            alone::allgather(
                sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, handle,
            )
        });
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
        return done(unsafe {
            alone::alltoall(
                sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, handle,
            )
        });
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
        return done(unsafe { alone::reduce(sendbuf, recvbuf, count, datatype, op, root, handle) });
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
        return done(unsafe { alone::allreduce(sendbuf, recvbuf, count, datatype, op, handle) });
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
        return done(unsafe {
            alone::reduce_scatter_block(sendbuf, recvbuf, recvcount, datatype, op, handle)
        });
    };
    let reduction = reduction(op, datatype)?;
    let all = recvcount.saturating_mul(i64::from(comm.size()));
    // SAFETY: as the caller promises.
    let (own, result) = unsafe { parts(sendbuf, recvbuf, (recvcount, all), datatype) }?;
    comm.ireduce_scatter_block_at_once(own, result, reduction)
}

/// `MPI_Ireduce_scatter`.
///
/// # Safety
/// As the head of the module says.
#[inline(always)]
pub unsafe fn reduce_scatter<C: Number>(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcounts: *const C,
    datatype: c::Datatype,
    op: c::Op,
    handle: c::Comm,
) -> Option<RequestId> {
    // SAFETY: as the caller promises.
    done(unsafe { alone::reduce_scatter(sendbuf, recvbuf, recvcounts, datatype, op, handle) })
}

/// `MPI_Iscan`.
///
/// # Safety
/// As the head of the module says.
#[inline(always)]
pub unsafe fn scan(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: i64,
    datatype: c::Datatype,
    op: c::Op,
    handle: c::Comm,
) -> Option<RequestId> {
    // SAFETY: as the caller promises.
    done(unsafe { alone::scan(sendbuf, recvbuf, count, datatype, op, handle) })
}

/// `MPI_Iexscan`.
///
/// # Safety
/// As the head of the module says.
#[inline(always)]
pub unsafe fn exscan(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: i64,
    datatype: c::Datatype,
    op: c::Op,
    handle: c::Comm,
) -> Option<RequestId> {
    // SAFETY: as the caller promises.
    done(unsafe { alone::exscan(sendbuf, recvbuf, count, datatype, op, handle) })
}

/// `MPI_Igatherv`.
///
/// # Safety
/// As the head of the module says.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "those of the call")]
pub unsafe fn gatherv<C: Number, D: Number>(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: c::Datatype,
    recvbuf: *mut c_void,
    recvcounts: *const C,
    displs: *const D,
    recvtype: c::Datatype,
    root: c_int,
    handle: c::Comm,
) -> Option<RequestId> {
    // SAFETY: as the caller promises.
    done(unsafe {
        alone::gatherv(
            sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, root, handle,
        )
    })
}

/// `MPI_Iscatterv`.
///
/// # Safety
/// As the head of the module says.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "those of the call")]
pub unsafe fn scatterv<C: Number, D: Number>(
    sendbuf: *const c_void,
    sendcounts: *const C,
    displs: *const D,
    sendtype: c::Datatype,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: c::Datatype,
    root: c_int,
    handle: c::Comm,
) -> Option<RequestId> {
    // SAFETY: as the caller promises.
    done(unsafe {
        alone::scatterv(
            sendbuf, sendcounts, displs, sendtype, recvbuf, recvcount, recvtype, root, handle,
        )
    })
}

/// `MPI_Iallgatherv`.
///
/// # Safety
/// As the head of the module says.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "those of the call")]
pub unsafe fn allgatherv<C: Number, D: Number>(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: c::Datatype,
    recvbuf: *mut c_void,
    recvcounts: *const C,
    displs: *const D,
    recvtype: c::Datatype,
    handle: c::Comm,
) -> Option<RequestId> {
    // SAFETY: as the caller promises.
    done(unsafe {
        alone::allgatherv(
            sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, handle,
        )
    })
}

/// `MPI_Ialltoallv`.
///
/// # Safety
/// As the head of the module says.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "those of the call")]
pub unsafe fn alltoallv<C: Number, D: Number>(
    sendbuf: *const c_void,
    sendcounts: *const C,
    sdispls: *const D,
    sendtype: c::Datatype,
    recvbuf: *mut c_void,
    recvcounts: *const C,
    rdispls: *const D,
    recvtype: c::Datatype,
    handle: c::Comm,
) -> Option<RequestId> {
    // SAFETY: as the caller promises.
    done(unsafe {
        alone::alltoallv(
            sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype, handle,
        )
    })
}
