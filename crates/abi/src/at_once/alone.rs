//! Collectives of this rank alone, of predefined datatypes and operations: it gets what it gives, at once. So they have also ended
//! when they are only begun: each function here is that of the blocking call and of the non-blocking one.
//!
//! They are reached where no other rank waits for anything, and are no part of the short paths of others: functions of their own.
//!
//! # Safety
//! As for [`at_once`](super): addresses come from the caller, who keeps the promises of the C binding.

use std::ffi::{c_int, c_void};

use weft_mpi::Comm;
use weft_mpi::coll::place;
use weft_mpi::op::is_defined;

use super::collective::{elements, fit};
use super::communicator;
use super::reductions::{operands, reduction};
use super::uneven::Number;
use crate::generated::constants as k;
use crate::{c, state};

/// The communicator of a call, if this rank is alone in it.
#[inline]
fn alone(handle: c::Comm) -> Option<&'static Comm> {
    let comm = match handle {
        k::MPI_COMM_SELF => &state::runtime_at_once()?.comm_self,
        handle => communicator(handle)?,
    };
    comm.is_alone().then_some(comm)
}

/// `MPI_Barrier`.
///
/// # Safety
/// As the head of the module says.
#[inline(never)]
pub unsafe fn barrier(comm: c::Comm) -> bool {
    alone(comm).is_some_and(|comm| comm.end_alone_at_once(const { place("MPI_Barrier") }, None))
}

/// `MPI_Bcast`.
///
/// # Safety
/// As the head of the module says.
#[inline(never)]
pub unsafe fn bcast(
    buffer: *mut c_void,
    count: i64,
    datatype: c::Datatype,
    root: c_int,
    comm: c::Comm,
) -> bool {
    let Some(comm) = alone(comm) else {
        return false;
    };
    // SAFETY: as the caller promises.
    let is_right = root == 0 && unsafe { elements(buffer, count, datatype) }.is_some();
    is_right && comm.end_alone_at_once(const { place("MPI_Bcast") }, None)
}

/// A collective that moves the block of each rank to one place of another: here its own.
///
/// # Safety
/// As the head of the module says.
#[inline(always)]
unsafe fn moved(
    place: usize,
    (sendbuf, sendcount, sendtype): (*mut c_void, i64, c::Datatype),
    (recvbuf, recvcount, recvtype): (*mut c_void, i64, c::Datatype),
    comm: c::Comm,
) -> bool {
    let Some(comm) = alone(comm) else {
        return false;
    };
    // SAFETY: as the caller promises.
    let (from, to) = unsafe {
        (
            elements(sendbuf, sendcount, sendtype),
            elements(recvbuf, recvcount, recvtype),
        )
    };
    match (from, to) {
        (Some(from), Some(to)) if fit(comm, &from, &to) => {
            comm.end_alone_at_once(place, Some((&from.0, &to.0)))
        }
        _ => false,
    }
}

/// `MPI_Gather`.
///
/// # Safety
/// As the head of the module says.
#[inline(never)]
#[expect(clippy::too_many_arguments, reason = "those of the call")]
pub unsafe fn gather(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: c::Datatype,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: c::Datatype,
    root: c_int,
    comm: c::Comm,
) -> bool {
    let place = const { place("MPI_Gather") };
    let send = (sendbuf.cast_mut(), sendcount, sendtype);
    let receive = (recvbuf, recvcount, recvtype);
    // SAFETY: as the caller promises.
    root == 0 && unsafe { moved(place, send, receive, comm) }
}

/// `MPI_Scatter`.
///
/// # Safety
/// As the head of the module says.
#[inline(never)]
#[expect(clippy::too_many_arguments, reason = "those of the call")]
pub unsafe fn scatter(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: c::Datatype,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: c::Datatype,
    root: c_int,
    comm: c::Comm,
) -> bool {
    let place = const { place("MPI_Scatter") };
    let send = (sendbuf.cast_mut(), sendcount, sendtype);
    let receive = (recvbuf, recvcount, recvtype);
    // SAFETY: as the caller promises.
    root == 0 && unsafe { moved(place, send, receive, comm) }
}

/// `MPI_Allgather`.
///
/// # Safety
/// As the head of the module says.
#[inline(never)]
pub unsafe fn allgather(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: c::Datatype,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: c::Datatype,
    comm: c::Comm,
) -> bool {
    let place = const { place("MPI_Allgather") };
    let send = (sendbuf.cast_mut(), sendcount, sendtype);
    let receive = (recvbuf, recvcount, recvtype);
    // SAFETY: as the caller promises.
    unsafe { moved(place, send, receive, comm) }
}

/// `MPI_Alltoall`.
///
/// # Safety
/// As the head of the module says.
#[inline(never)]
pub unsafe fn alltoall(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: c::Datatype,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: c::Datatype,
    comm: c::Comm,
) -> bool {
    let place = const { place("MPI_Alltoall") };
    let send = (sendbuf.cast_mut(), sendcount, sendtype);
    let receive = (recvbuf, recvcount, recvtype);
    // SAFETY: as the caller promises.
    unsafe { moved(place, send, receive, comm) }
}

/// The only block of such lists: its address, count and datatype. None, which is left to the checks, if it is not as usual.
///
/// # Safety
/// Both lists have an entry, or are null.
#[inline(always)]
unsafe fn only<C: Number, D: Number>(
    base: *mut c_void,
    (counts, displacements): (*const C, *const D),
    datatype: c::Datatype,
) -> (*mut c_void, i64, c::Datatype) {
    // In place, the lists may be anything.
    if matches!(base, k::MPI_IN_PLACE) || counts.is_null() || displacements.is_null() {
        return (std::ptr::null_mut(), 0, datatype);
    }
    // SAFETY: as the caller promises.
    let (count, displacement) = unsafe {
        (
            counts.read_unaligned().wide(),
            displacements.read_unaligned().wide(),
        )
    };
    let (element, _) = state::dense(datatype);
    // A displacement that does not fit leads nowhere.
    let place = displacement
        .checked_mul(element as i64)
        .and_then(|distance| base.addr().checked_add_signed(distance as isize));
    let address = place.map_or(std::ptr::null_mut(), |place| base.with_addr(place));
    (address, count, datatype)
}

/// `MPI_Gatherv`.
///
/// # Safety
/// As the head of the module says.
#[inline(never)]
#[expect(clippy::too_many_arguments, reason = "those of the call")]
pub unsafe fn gatherv<C: Number, D: Number>(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: c::Datatype,
    recvbuf: *mut c_void,
    recvcounts: *const C,
    rdispls: *const D,
    recvtype: c::Datatype,
    root: c_int,
    comm: c::Comm,
) -> bool {
    // First of all: of several ranks, the lists are not significant at all.
    if root != 0 || alone(comm).is_none() {
        return false;
    }
    let place = const { place("MPI_Gatherv") };
    // SAFETY: as the caller promises.
    unsafe {
        moved(
            place,
            (sendbuf.cast_mut(), sendcount, sendtype),
            only(recvbuf, (recvcounts, rdispls), recvtype),
            comm,
        )
    }
}

/// `MPI_Scatterv`.
///
/// # Safety
/// As the head of the module says.
#[inline(never)]
#[expect(clippy::too_many_arguments, reason = "those of the call")]
pub unsafe fn scatterv<C: Number, D: Number>(
    sendbuf: *const c_void,
    sendcounts: *const C,
    sdispls: *const D,
    sendtype: c::Datatype,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: c::Datatype,
    root: c_int,
    comm: c::Comm,
) -> bool {
    // First of all: of several ranks, the lists are not significant at all.
    if root != 0 || alone(comm).is_none() {
        return false;
    }
    let place = const { place("MPI_Scatterv") };
    // SAFETY: as the caller promises.
    unsafe {
        moved(
            place,
            only(sendbuf.cast_mut(), (sendcounts, sdispls), sendtype),
            (recvbuf, recvcount, recvtype),
            comm,
        )
    }
}

/// `MPI_Allgatherv`.
///
/// # Safety
/// As the head of the module says.
#[inline(never)]
#[expect(clippy::too_many_arguments, reason = "those of the call")]
pub unsafe fn allgatherv<C: Number, D: Number>(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: c::Datatype,
    recvbuf: *mut c_void,
    recvcounts: *const C,
    rdispls: *const D,
    recvtype: c::Datatype,
    comm: c::Comm,
) -> bool {
    // First of all: of several ranks, the lists are not significant at all.
    if alone(comm).is_none() {
        return false;
    }
    let place = const { place("MPI_Allgatherv") };
    // SAFETY: as the caller promises.
    unsafe {
        moved(
            place,
            (sendbuf.cast_mut(), sendcount, sendtype),
            only(recvbuf, (recvcounts, rdispls), recvtype),
            comm,
        )
    }
}

/// `MPI_Alltoallv`.
///
/// # Safety
/// As the head of the module says.
#[inline(never)]
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
    comm: c::Comm,
) -> bool {
    // First of all: of several ranks, the lists are not significant at all.
    if alone(comm).is_none() {
        return false;
    }
    let place = const { place("MPI_Alltoallv") };
    // SAFETY: as the caller promises.
    unsafe {
        moved(
            place,
            only(sendbuf.cast_mut(), (sendcounts, sdispls), sendtype),
            only(recvbuf, (recvcounts, rdispls), recvtype),
            comm,
        )
    }
}

/// A reduction of what one rank gives: that.
///
/// # Safety
/// As the head of the module says.
#[inline(always)]
unsafe fn reduced(
    place: usize,
    (sendbuf, recvbuf): (*const c_void, *mut c_void),
    (count, datatype): (i64, c::Datatype),
    op: c::Op,
    comm: c::Comm,
) -> bool {
    let Some(comm) = alone(comm) else {
        return false;
    };
    let is_allowed =
        reduction(op, datatype).is_some_and(|(operation, basic)| is_defined(operation, basic));
    if !is_allowed {
        return false;
    }
    // SAFETY: as the caller promises.
    unsafe { operands(sendbuf, recvbuf, count, datatype) }
        .is_some_and(|((own, _), result)| comm.end_alone_at_once(place, Some((&own, &result))))
}

/// `MPI_Reduce`.
///
/// # Safety
/// As the head of the module says.
#[inline(never)]
pub unsafe fn reduce(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: i64,
    datatype: c::Datatype,
    op: c::Op,
    root: c_int,
    comm: c::Comm,
) -> bool {
    let place = const { place("MPI_Reduce") };
    // SAFETY: as the caller promises.
    root == 0 && unsafe { reduced(place, (sendbuf, recvbuf), (count, datatype), op, comm) }
}

/// `MPI_Allreduce`.
///
/// # Safety
/// As the head of the module says.
#[inline(never)]
pub unsafe fn allreduce(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: i64,
    datatype: c::Datatype,
    op: c::Op,
    comm: c::Comm,
) -> bool {
    let place = const { place("MPI_Allreduce") };
    // SAFETY: as the caller promises.
    unsafe { reduced(place, (sendbuf, recvbuf), (count, datatype), op, comm) }
}

/// `MPI_Scan`.
///
/// # Safety
/// As the head of the module says.
#[inline(never)]
pub unsafe fn scan(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: i64,
    datatype: c::Datatype,
    op: c::Op,
    comm: c::Comm,
) -> bool {
    let place = const { place("MPI_Scan") };
    // SAFETY: as the caller promises.
    unsafe { reduced(place, (sendbuf, recvbuf), (count, datatype), op, comm) }
}

/// `MPI_Reduce_scatter_block`.
///
/// # Safety
/// As the head of the module says.
#[inline(never)]
pub unsafe fn reduce_scatter_block(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: i64,
    datatype: c::Datatype,
    op: c::Op,
    comm: c::Comm,
) -> bool {
    let place = const { place("MPI_Reduce_scatter_block") };
    // SAFETY: as the caller promises.
    unsafe { reduced(place, (sendbuf, recvbuf), (count, datatype), op, comm) }
}

/// `MPI_Reduce_scatter`.
///
/// # Safety
/// As the head of the module says.
#[inline(never)]
pub unsafe fn reduce_scatter<C: Number>(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcounts: *const C,
    datatype: c::Datatype,
    op: c::Op,
    comm: c::Comm,
) -> bool {
    let place = const { place("MPI_Reduce_scatter") };
    if alone(comm).is_none() || recvcounts.is_null() {
        return false;
    }
    // SAFETY: as the caller promises; there is an entry for the one rank.
    unsafe {
        let count = recvcounts.read_unaligned().wide();
        reduced(place, (sendbuf, recvbuf), (count, datatype), op, comm)
    }
}

/// `MPI_Exscan`: nobody is before this rank, so it gets nothing.
///
/// # Safety
/// As the head of the module says.
#[inline(never)]
pub unsafe fn exscan(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: i64,
    datatype: c::Datatype,
    op: c::Op,
    comm: c::Comm,
) -> bool {
    let Some(comm) = alone(comm) else {
        return false;
    };
    let is_allowed =
        reduction(op, datatype).is_some_and(|(operation, basic)| is_defined(operation, basic));
    // SAFETY: as the caller promises.
    let is_right = is_allowed && unsafe { operands(sendbuf, recvbuf, count, datatype) }.is_some();
    is_right && comm.end_alone_at_once(const { place("MPI_Exscan") }, None)
}
