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

use super::collective::{elements, fit, operands, reduction};
use super::communicator;
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
    (sendbuf, sendcount, sendtype): (*const c_void, i64, c::Datatype),
    (recvbuf, recvcount, recvtype): (*mut c_void, i64, c::Datatype),
    comm: c::Comm,
) -> bool {
    let Some(comm) = alone(comm) else {
        return false;
    };
    // SAFETY: as the caller promises.
    let (from, to) = unsafe {
        (
            elements(sendbuf.cast_mut(), sendcount, sendtype),
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
    let send = (sendbuf, sendcount, sendtype);
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
    let send = (sendbuf, sendcount, sendtype);
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
    let send = (sendbuf, sendcount, sendtype);
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
    let send = (sendbuf, sendcount, sendtype);
    let receive = (recvbuf, recvcount, recvtype);
    // SAFETY: as the caller promises.
    unsafe { moved(place, send, receive, comm) }
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
