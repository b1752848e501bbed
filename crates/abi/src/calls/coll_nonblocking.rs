//! Collectives, non-blocking (MPI 5.0, section 6.12): begun, to be completed as a request.
#![allow(clippy::too_many_arguments)]

use std::ffi::c_void;
use std::sync::Arc;

use weft_mpi::coll::inter::Root;
use weft_mpi::{Comm, Datatype, Op};

use super::collectives::{self, received, received_typed, sent, sent_typed};
use crate::args::{Counts, Out, Place};
use crate::c;
use crate::fault::Checked;
use crate::handle::request::pack;

/// `MPI_Iallgather`.
pub fn iallgather(
    send: Place,
    receive: Place,
    comm: &'static Arc<Comm>,
    mut request: Out<c::Request>,
) -> Checked<()> {
    request.set(pack(
        comm.begin(collectives::allgather(send, receive, comm)?)?,
    ));
    Ok(())
}

/// `MPI_Iallgatherv`.
pub fn iallgatherv(
    send: Place,
    recvbuf: *mut c_void,
    counts: Counts,
    displs: Counts,
    datatype: c::Datatype,
    comm: &'static Arc<Comm>,
    mut request: Out<c::Request>,
) -> Checked<()> {
    request.set(pack(comm.begin(collectives::allgatherv(
        send,
        received(recvbuf, counts, displs, datatype),
        comm,
    )?)?));
    Ok(())
}

/// `MPI_Iallreduce`.
pub fn iallreduce(
    send: *const c_void,
    receive: Place,
    op: &'static Arc<Op>,
    comm: &'static Arc<Comm>,
    mut request: Out<c::Request>,
) -> Checked<()> {
    request.set(pack(
        comm.begin(collectives::allreduce(send, receive, op, comm)?)?,
    ));
    Ok(())
}

/// `MPI_Ialltoall`.
pub fn ialltoall(
    send: Place,
    receive: Place,
    comm: &'static Arc<Comm>,
    mut request: Out<c::Request>,
) -> Checked<()> {
    request.set(pack(
        comm.begin(collectives::alltoall(send, receive, comm)?)?,
    ));
    Ok(())
}

/// `MPI_Ialltoallv`.
pub fn ialltoallv(
    sendbuf: *const c_void,
    sendcounts: Counts,
    sdispls: Counts,
    sendtype: c::Datatype,
    recvbuf: *mut c_void,
    recvcounts: Counts,
    rdispls: Counts,
    recvtype: c::Datatype,
    comm: &'static Arc<Comm>,
    mut request: Out<c::Request>,
) -> Checked<()> {
    request.set(pack(comm.begin(collectives::alltoallv(
        sent(sendbuf, sendcounts, sdispls, sendtype),
        received(recvbuf, recvcounts, rdispls, recvtype),
        comm,
    )?)?));
    Ok(())
}

/// `MPI_Ialltoallw`.
pub fn ialltoallw(
    sendbuf: *const c_void,
    sendcounts: Counts,
    sdispls: Counts,
    sendtypes: *const c::Datatype,
    recvbuf: *mut c_void,
    recvcounts: Counts,
    rdispls: Counts,
    recvtypes: *const c::Datatype,
    comm: &'static Arc<Comm>,
    mut request: Out<c::Request>,
) -> Checked<()> {
    request.set(pack(comm.begin(collectives::alltoallw(
        sent_typed(sendbuf, sendcounts, sdispls, sendtypes),
        received_typed(recvbuf, recvcounts, rdispls, recvtypes),
        comm,
    )?)?));
    Ok(())
}

/// `MPI_Ibarrier`.
pub fn ibarrier(comm: &'static Arc<Comm>, mut request: Out<c::Request>) -> Checked<()> {
    request.set(pack(comm.begin(collectives::barrier(comm)?)?));
    Ok(())
}

/// `MPI_Ibcast`.
pub fn ibcast(
    buffer: Place,
    root: Root,
    comm: &'static Arc<Comm>,
    mut request: Out<c::Request>,
) -> Checked<()> {
    request.set(pack(comm.begin(collectives::bcast(buffer, root, comm)?)?));
    Ok(())
}

/// `MPI_Iexscan`.
pub fn iexscan(
    send: *const c_void,
    receive: Place,
    op: &'static Arc<Op>,
    comm: &'static Arc<Comm>,
    mut request: Out<c::Request>,
) -> Checked<()> {
    request.set(pack(
        comm.begin(collectives::exscan(send, receive, op, comm)?)?,
    ));
    Ok(())
}

/// `MPI_Igather`.
pub fn igather(
    send: Place,
    receive: Place,
    root: Root,
    comm: &'static Arc<Comm>,
    mut request: Out<c::Request>,
) -> Checked<()> {
    request.set(pack(
        comm.begin(collectives::gather(send, receive, root, comm)?)?,
    ));
    Ok(())
}

/// `MPI_Igatherv`.
pub fn igatherv(
    send: Place,
    recvbuf: *mut c_void,
    counts: Counts,
    displs: Counts,
    datatype: c::Datatype,
    root: Root,
    comm: &'static Arc<Comm>,
    mut request: Out<c::Request>,
) -> Checked<()> {
    request.set(pack(comm.begin(collectives::gatherv(
        send,
        received(recvbuf, counts, displs, datatype),
        root,
        comm,
    )?)?));
    Ok(())
}

/// `MPI_Ireduce`.
pub fn ireduce(
    send: *const c_void,
    receive: Place,
    op: &'static Arc<Op>,
    root: Root,
    comm: &'static Arc<Comm>,
    mut request: Out<c::Request>,
) -> Checked<()> {
    request.set(pack(
        comm.begin(collectives::reduce(send, receive, op, root, comm)?)?,
    ));
    Ok(())
}

/// `MPI_Ireduce_scatter`.
pub fn ireduce_scatter(
    send: *const c_void,
    recvbuf: *mut c_void,
    counts: Counts,
    datatype: &'static Arc<Datatype>,
    op: &'static Arc<Op>,
    comm: &'static Arc<Comm>,
    mut request: Out<c::Request>,
) -> Checked<()> {
    request.set(pack(comm.begin(collectives::reduce_scatter(
        send, recvbuf, counts, datatype, op, comm,
    )?)?));
    Ok(())
}

/// `MPI_Ireduce_scatter_block`.
pub fn ireduce_scatter_block(
    send: *const c_void,
    receive: Place,
    op: &'static Arc<Op>,
    comm: &'static Arc<Comm>,
    mut request: Out<c::Request>,
) -> Checked<()> {
    request.set(pack(comm.begin(collectives::reduce_scatter_block(
        send, receive, op, comm,
    )?)?));
    Ok(())
}

/// `MPI_Iscan`.
pub fn iscan(
    send: *const c_void,
    receive: Place,
    op: &'static Arc<Op>,
    comm: &'static Arc<Comm>,
    mut request: Out<c::Request>,
) -> Checked<()> {
    request.set(pack(
        comm.begin(collectives::scan(send, receive, op, comm)?)?,
    ));
    Ok(())
}

/// `MPI_Iscatter`.
pub fn iscatter(
    send: Place,
    receive: Place,
    root: Root,
    comm: &'static Arc<Comm>,
    mut request: Out<c::Request>,
) -> Checked<()> {
    request.set(pack(
        comm.begin(collectives::scatter(send, receive, root, comm)?)?,
    ));
    Ok(())
}

/// `MPI_Iscatterv`.
pub fn iscatterv(
    sendbuf: *const c_void,
    counts: Counts,
    displs: Counts,
    datatype: c::Datatype,
    receive: Place,
    root: Root,
    comm: &'static Arc<Comm>,
    mut request: Out<c::Request>,
) -> Checked<()> {
    request.set(pack(comm.begin(collectives::scatterv(
        sent(sendbuf, counts, displs, datatype),
        receive,
        root,
        comm,
    )?)?));
    Ok(())
}
