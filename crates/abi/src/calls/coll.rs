//! Collectives, blocking (MPI 5.0, chapter 6): run to the end.
#![allow(clippy::too_many_arguments)]

use std::ffi::c_void;
use std::sync::Arc;

use weft_mpi::coll::inter::Root;
use weft_mpi::{Comm, Datatype, Op};

use super::collectives::{self, received, received_typed, sent, sent_typed};
use crate::args::{Counts, Place};
use crate::c;
use crate::fault::Checked;

/// `MPI_Allgather`.
pub fn allgather(send: Place, receive: Place, comm: &'static Arc<Comm>) -> Checked<()> {
    Ok(comm.run(collectives::allgather(send, receive, comm)?)?)
}

/// `MPI_Allgatherv`.
pub fn allgatherv(
    send: Place,
    recvbuf: *mut c_void,
    counts: Counts,
    displs: Counts,
    datatype: c::Datatype,
    comm: &'static Arc<Comm>,
) -> Checked<()> {
    Ok(comm.run(collectives::allgatherv(
        send,
        received(recvbuf, counts, displs, datatype),
        comm,
    )?)?)
}

/// `MPI_Allreduce`.
pub fn allreduce(
    send: *const c_void,
    receive: Place,
    op: &'static Arc<Op>,
    comm: &'static Arc<Comm>,
) -> Checked<()> {
    Ok(comm.run(collectives::allreduce(send, receive, op, comm)?)?)
}

/// `MPI_Alltoall`.
pub fn alltoall(send: Place, receive: Place, comm: &'static Arc<Comm>) -> Checked<()> {
    Ok(comm.run(collectives::alltoall(send, receive, comm)?)?)
}

/// `MPI_Alltoallv`.
pub fn alltoallv(
    sendbuf: *const c_void,
    sendcounts: Counts,
    sdispls: Counts,
    sendtype: c::Datatype,
    recvbuf: *mut c_void,
    recvcounts: Counts,
    rdispls: Counts,
    recvtype: c::Datatype,
    comm: &'static Arc<Comm>,
) -> Checked<()> {
    Ok(comm.run(collectives::alltoallv(
        sent(sendbuf, sendcounts, sdispls, sendtype),
        received(recvbuf, recvcounts, rdispls, recvtype),
        comm,
    )?)?)
}

/// `MPI_Alltoallw`.
pub fn alltoallw(
    sendbuf: *const c_void,
    sendcounts: Counts,
    sdispls: Counts,
    sendtypes: *const c::Datatype,
    recvbuf: *mut c_void,
    recvcounts: Counts,
    rdispls: Counts,
    recvtypes: *const c::Datatype,
    comm: &'static Arc<Comm>,
) -> Checked<()> {
    Ok(comm.run(collectives::alltoallw(
        sent_typed(sendbuf, sendcounts, sdispls, sendtypes),
        received_typed(recvbuf, recvcounts, rdispls, recvtypes),
        comm,
    )?)?)
}

/// `MPI_Barrier`.
pub fn barrier(comm: &'static Arc<Comm>) -> Checked<()> {
    Ok(comm.run(collectives::barrier(comm)?)?)
}

/// `MPI_Bcast`.
pub fn bcast(buffer: Place, root: Root, comm: &'static Arc<Comm>) -> Checked<()> {
    Ok(comm.run(collectives::bcast(buffer, root, comm)?)?)
}

/// `MPI_Exscan`.
pub fn exscan(
    send: *const c_void,
    receive: Place,
    op: &'static Arc<Op>,
    comm: &'static Arc<Comm>,
) -> Checked<()> {
    Ok(comm.run(collectives::exscan(send, receive, op, comm)?)?)
}

/// `MPI_Gather`.
pub fn gather(send: Place, receive: Place, root: Root, comm: &'static Arc<Comm>) -> Checked<()> {
    Ok(comm.run(collectives::gather(send, receive, root, comm)?)?)
}

/// `MPI_Gatherv`.
pub fn gatherv(
    send: Place,
    recvbuf: *mut c_void,
    counts: Counts,
    displs: Counts,
    datatype: c::Datatype,
    root: Root,
    comm: &'static Arc<Comm>,
) -> Checked<()> {
    Ok(comm.run(collectives::gatherv(
        send,
        received(recvbuf, counts, displs, datatype),
        root,
        comm,
    )?)?)
}

/// `MPI_Reduce`.
pub fn reduce(
    send: *const c_void,
    receive: Place,
    op: &'static Arc<Op>,
    root: Root,
    comm: &'static Arc<Comm>,
) -> Checked<()> {
    Ok(comm.run(collectives::reduce(send, receive, op, root, comm)?)?)
}

/// `MPI_Reduce_scatter`.
pub fn reduce_scatter(
    send: *const c_void,
    recvbuf: *mut c_void,
    counts: Counts,
    datatype: &'static Arc<Datatype>,
    op: &'static Arc<Op>,
    comm: &'static Arc<Comm>,
) -> Checked<()> {
    Ok(comm.run(collectives::reduce_scatter(
        send, recvbuf, counts, datatype, op, comm,
    )?)?)
}

/// `MPI_Reduce_scatter_block`.
pub fn reduce_scatter_block(
    send: *const c_void,
    receive: Place,
    op: &'static Arc<Op>,
    comm: &'static Arc<Comm>,
) -> Checked<()> {
    Ok(comm.run(collectives::reduce_scatter_block(send, receive, op, comm)?)?)
}

/// `MPI_Scan`.
pub fn scan(
    send: *const c_void,
    receive: Place,
    op: &'static Arc<Op>,
    comm: &'static Arc<Comm>,
) -> Checked<()> {
    Ok(comm.run(collectives::scan(send, receive, op, comm)?)?)
}

/// `MPI_Scatter`.
pub fn scatter(send: Place, receive: Place, root: Root, comm: &'static Arc<Comm>) -> Checked<()> {
    Ok(comm.run(collectives::scatter(send, receive, root, comm)?)?)
}

/// `MPI_Scatterv`.
pub fn scatterv(
    sendbuf: *const c_void,
    counts: Counts,
    displs: Counts,
    datatype: c::Datatype,
    receive: Place,
    root: Root,
    comm: &'static Arc<Comm>,
) -> Checked<()> {
    Ok(comm.run(collectives::scatterv(
        sent(sendbuf, counts, displs, datatype),
        receive,
        root,
        comm,
    )?)?)
}
