//! Collectives, persistent (MPI 5.0, section 6.13): kept, to be started again and again.
#![allow(clippy::too_many_arguments)]

use std::ffi::c_void;
use std::sync::Arc;

use weft_mpi::coll::inter::Root;
use weft_mpi::{Comm, Datatype, Op};

use super::collectives::{self, received, received_typed, sent, sent_typed};
use crate::args::{Counts, Out, Place};
use crate::c;
use crate::fault::Checked;
use crate::handle::request::pack_persistent as pack;
use crate::state::InfoObject;

/// `MPI_Allgather_init`.
pub fn allgather_init(
    send: Place,
    receive: Place,
    comm: &'static Arc<Comm>,
    _info: Option<&'static InfoObject>,
    mut request: Out<c::Request>,
) -> Checked<()> {
    request.set(pack(
        comm.prepare(collectives::allgather(send, receive, comm)?)?,
    ));
    Ok(())
}

/// `MPI_Allgatherv_init`.
pub fn allgatherv_init(
    send: Place,
    recvbuf: *mut c_void,
    counts: Counts,
    displs: Counts,
    datatype: c::Datatype,
    comm: &'static Arc<Comm>,
    _info: Option<&'static InfoObject>,
    mut request: Out<c::Request>,
) -> Checked<()> {
    request.set(pack(comm.prepare(collectives::allgatherv(
        send,
        received(recvbuf, counts, displs, datatype),
        comm,
    )?)?));
    Ok(())
}

/// `MPI_Allreduce_init`.
pub fn allreduce_init(
    send: *const c_void,
    receive: Place,
    op: &'static Arc<Op>,
    comm: &'static Arc<Comm>,
    _info: Option<&'static InfoObject>,
    mut request: Out<c::Request>,
) -> Checked<()> {
    request.set(pack(
        comm.prepare(collectives::allreduce(send, receive, op, comm)?)?,
    ));
    Ok(())
}

/// `MPI_Alltoall_init`.
pub fn alltoall_init(
    send: Place,
    receive: Place,
    comm: &'static Arc<Comm>,
    _info: Option<&'static InfoObject>,
    mut request: Out<c::Request>,
) -> Checked<()> {
    request.set(pack(
        comm.prepare(collectives::alltoall(send, receive, comm)?)?,
    ));
    Ok(())
}

/// `MPI_Alltoallv_init`.
pub fn alltoallv_init(
    sendbuf: *const c_void,
    sendcounts: Counts,
    sdispls: Counts,
    sendtype: c::Datatype,
    recvbuf: *mut c_void,
    recvcounts: Counts,
    rdispls: Counts,
    recvtype: c::Datatype,
    comm: &'static Arc<Comm>,
    _info: Option<&'static InfoObject>,
    mut request: Out<c::Request>,
) -> Checked<()> {
    request.set(pack(comm.prepare(collectives::alltoallv(
        sent(sendbuf, sendcounts, sdispls, sendtype),
        received(recvbuf, recvcounts, rdispls, recvtype),
        comm,
    )?)?));
    Ok(())
}

/// `MPI_Alltoallw_init`.
pub fn alltoallw_init(
    sendbuf: *const c_void,
    sendcounts: Counts,
    sdispls: Counts,
    sendtypes: *const c::Datatype,
    recvbuf: *mut c_void,
    recvcounts: Counts,
    rdispls: Counts,
    recvtypes: *const c::Datatype,
    comm: &'static Arc<Comm>,
    _info: Option<&'static InfoObject>,
    mut request: Out<c::Request>,
) -> Checked<()> {
    request.set(pack(comm.prepare(collectives::alltoallw(
        sent_typed(sendbuf, sendcounts, sdispls, sendtypes),
        received_typed(recvbuf, recvcounts, rdispls, recvtypes),
        comm,
    )?)?));
    Ok(())
}

/// `MPI_Barrier_init`.
pub fn barrier_init(
    comm: &'static Arc<Comm>,
    _info: Option<&'static InfoObject>,
    mut request: Out<c::Request>,
) -> Checked<()> {
    request.set(pack(comm.prepare(collectives::barrier(comm)?)?));
    Ok(())
}

/// `MPI_Bcast_init`.
pub fn bcast_init(
    buffer: Place,
    root: Root,
    comm: &'static Arc<Comm>,
    _info: Option<&'static InfoObject>,
    mut request: Out<c::Request>,
) -> Checked<()> {
    request.set(pack(comm.prepare(collectives::bcast(buffer, root, comm)?)?));
    Ok(())
}

/// `MPI_Exscan_init`.
pub fn exscan_init(
    send: *const c_void,
    receive: Place,
    op: &'static Arc<Op>,
    comm: &'static Arc<Comm>,
    _info: Option<&'static InfoObject>,
    mut request: Out<c::Request>,
) -> Checked<()> {
    request.set(pack(
        comm.prepare(collectives::exscan(send, receive, op, comm)?)?,
    ));
    Ok(())
}

/// `MPI_Gather_init`.
pub fn gather_init(
    send: Place,
    receive: Place,
    root: Root,
    comm: &'static Arc<Comm>,
    _info: Option<&'static InfoObject>,
    mut request: Out<c::Request>,
) -> Checked<()> {
    request.set(pack(
        comm.prepare(collectives::gather(send, receive, root, comm)?)?,
    ));
    Ok(())
}

/// `MPI_Gatherv_init`.
pub fn gatherv_init(
    send: Place,
    recvbuf: *mut c_void,
    counts: Counts,
    displs: Counts,
    datatype: c::Datatype,
    root: Root,
    comm: &'static Arc<Comm>,
    _info: Option<&'static InfoObject>,
    mut request: Out<c::Request>,
) -> Checked<()> {
    request.set(pack(comm.prepare(collectives::gatherv(
        send,
        received(recvbuf, counts, displs, datatype),
        root,
        comm,
    )?)?));
    Ok(())
}

/// `MPI_Reduce_init`.
pub fn reduce_init(
    send: *const c_void,
    receive: Place,
    op: &'static Arc<Op>,
    root: Root,
    comm: &'static Arc<Comm>,
    _info: Option<&'static InfoObject>,
    mut request: Out<c::Request>,
) -> Checked<()> {
    request.set(pack(
        comm.prepare(collectives::reduce(send, receive, op, root, comm)?)?,
    ));
    Ok(())
}

/// `MPI_Reduce_scatter_init`.
pub fn reduce_scatter_init(
    send: *const c_void,
    recvbuf: *mut c_void,
    counts: Counts,
    datatype: &'static Arc<Datatype>,
    op: &'static Arc<Op>,
    comm: &'static Arc<Comm>,
    _info: Option<&'static InfoObject>,
    mut request: Out<c::Request>,
) -> Checked<()> {
    request.set(pack(comm.prepare(collectives::reduce_scatter(
        send, recvbuf, counts, datatype, op, comm,
    )?)?));
    Ok(())
}

/// `MPI_Reduce_scatter_block_init`.
pub fn reduce_scatter_block_init(
    send: *const c_void,
    receive: Place,
    op: &'static Arc<Op>,
    comm: &'static Arc<Comm>,
    _info: Option<&'static InfoObject>,
    mut request: Out<c::Request>,
) -> Checked<()> {
    request.set(pack(comm.prepare(collectives::reduce_scatter_block(
        send, receive, op, comm,
    )?)?));
    Ok(())
}

/// `MPI_Scan_init`.
pub fn scan_init(
    send: *const c_void,
    receive: Place,
    op: &'static Arc<Op>,
    comm: &'static Arc<Comm>,
    _info: Option<&'static InfoObject>,
    mut request: Out<c::Request>,
) -> Checked<()> {
    request.set(pack(
        comm.prepare(collectives::scan(send, receive, op, comm)?)?,
    ));
    Ok(())
}

/// `MPI_Scatter_init`.
pub fn scatter_init(
    send: Place,
    receive: Place,
    root: Root,
    comm: &'static Arc<Comm>,
    _info: Option<&'static InfoObject>,
    mut request: Out<c::Request>,
) -> Checked<()> {
    request.set(pack(
        comm.prepare(collectives::scatter(send, receive, root, comm)?)?,
    ));
    Ok(())
}

/// `MPI_Scatterv_init`.
pub fn scatterv_init(
    sendbuf: *const c_void,
    counts: Counts,
    displs: Counts,
    datatype: c::Datatype,
    receive: Place,
    root: Root,
    comm: &'static Arc<Comm>,
    _info: Option<&'static InfoObject>,
    mut request: Out<c::Request>,
) -> Checked<()> {
    request.set(pack(comm.prepare(collectives::scatterv(
        sent(sendbuf, counts, displs, datatype),
        receive,
        root,
        comm,
    )?)?));
    Ok(())
}
