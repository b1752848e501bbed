//! Collectives among the neighbours of a topology (MPI 5.0, section 8.6): run, begun, or kept.
#![allow(clippy::too_many_arguments)]

use std::ffi::c_void;
use std::sync::Arc;

use weft_mpi::Comm;

use super::collectives::{self, received, received_typed, sent, sent_typed};
use crate::args::{Counts, Out, Place};
use crate::c;
use crate::fault::Checked;
use crate::handle::request::{pack, pack_persistent};
use crate::state::InfoObject;

/// `MPI_Neighbor_allgather`.
pub fn neighbor_allgather(send: Place, receive: Place, comm: &'static Arc<Comm>) -> Checked<()> {
    Ok(comm.run(collectives::neighbour_allgather(send, receive, comm)?)?)
}

/// `MPI_Ineighbor_allgather`.
pub fn ineighbor_allgather(
    send: Place,
    receive: Place,
    comm: &'static Arc<Comm>,
    mut request: Out<c::Request>,
) -> Checked<()> {
    request.set(pack(
        comm.begin(collectives::neighbour_allgather(send, receive, comm)?)?,
    ));
    Ok(())
}

/// `MPI_Neighbor_allgather_init`.
pub fn neighbor_allgather_init(
    send: Place,
    receive: Place,
    comm: &'static Arc<Comm>,
    _info: Option<&'static InfoObject>,
    mut request: Out<c::Request>,
) -> Checked<()> {
    request.set(pack_persistent(
        comm.prepare(collectives::neighbour_allgather(send, receive, comm)?)?,
    ));
    Ok(())
}

/// `MPI_Neighbor_allgatherv`.
pub fn neighbor_allgatherv(
    send: Place,
    recvbuf: *mut c_void,
    counts: Counts,
    displs: Counts,
    datatype: c::Datatype,
    comm: &'static Arc<Comm>,
) -> Checked<()> {
    Ok(comm.run(collectives::neighbour_allgatherv(
        send,
        received(recvbuf, counts, displs, datatype),
        comm,
    )?)?)
}

/// `MPI_Ineighbor_allgatherv`.
pub fn ineighbor_allgatherv(
    send: Place,
    recvbuf: *mut c_void,
    counts: Counts,
    displs: Counts,
    datatype: c::Datatype,
    comm: &'static Arc<Comm>,
    mut request: Out<c::Request>,
) -> Checked<()> {
    request.set(pack(comm.begin(collectives::neighbour_allgatherv(
        send,
        received(recvbuf, counts, displs, datatype),
        comm,
    )?)?));
    Ok(())
}

/// `MPI_Neighbor_allgatherv_init`.
pub fn neighbor_allgatherv_init(
    send: Place,
    recvbuf: *mut c_void,
    counts: Counts,
    displs: Counts,
    datatype: c::Datatype,
    comm: &'static Arc<Comm>,
    _info: Option<&'static InfoObject>,
    mut request: Out<c::Request>,
) -> Checked<()> {
    request.set(pack_persistent(comm.prepare(
        collectives::neighbour_allgatherv(send, received(recvbuf, counts, displs, datatype), comm)?,
    )?));
    Ok(())
}

/// `MPI_Neighbor_alltoall`.
pub fn neighbor_alltoall(send: Place, receive: Place, comm: &'static Arc<Comm>) -> Checked<()> {
    Ok(comm.run(collectives::neighbour_alltoall(send, receive, comm)?)?)
}

/// `MPI_Ineighbor_alltoall`.
pub fn ineighbor_alltoall(
    send: Place,
    receive: Place,
    comm: &'static Arc<Comm>,
    mut request: Out<c::Request>,
) -> Checked<()> {
    request.set(pack(
        comm.begin(collectives::neighbour_alltoall(send, receive, comm)?)?,
    ));
    Ok(())
}

/// `MPI_Neighbor_alltoall_init`.
pub fn neighbor_alltoall_init(
    send: Place,
    receive: Place,
    comm: &'static Arc<Comm>,
    _info: Option<&'static InfoObject>,
    mut request: Out<c::Request>,
) -> Checked<()> {
    request.set(pack_persistent(
        comm.prepare(collectives::neighbour_alltoall(send, receive, comm)?)?,
    ));
    Ok(())
}

/// `MPI_Neighbor_alltoallv`.
pub fn neighbor_alltoallv(
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
    Ok(comm.run(collectives::neighbour_alltoallv(
        sent(sendbuf, sendcounts, sdispls, sendtype),
        received(recvbuf, recvcounts, rdispls, recvtype),
        comm,
    )?)?)
}

/// `MPI_Ineighbor_alltoallv`.
pub fn ineighbor_alltoallv(
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
    request.set(pack(comm.begin(collectives::neighbour_alltoallv(
        sent(sendbuf, sendcounts, sdispls, sendtype),
        received(recvbuf, recvcounts, rdispls, recvtype),
        comm,
    )?)?));
    Ok(())
}

/// `MPI_Neighbor_alltoallv_init`.
pub fn neighbor_alltoallv_init(
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
    request.set(pack_persistent(comm.prepare(
        collectives::neighbour_alltoallv(
            sent(sendbuf, sendcounts, sdispls, sendtype),
            received(recvbuf, recvcounts, rdispls, recvtype),
            comm,
        )?,
    )?));
    Ok(())
}

/// `MPI_Neighbor_alltoallw`.
pub fn neighbor_alltoallw(
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
    Ok(comm.run(collectives::neighbour_alltoallw(
        sent_typed(sendbuf, sendcounts, sdispls, sendtypes),
        received_typed(recvbuf, recvcounts, rdispls, recvtypes),
        comm,
    )?)?)
}

/// `MPI_Ineighbor_alltoallw`.
pub fn ineighbor_alltoallw(
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
    request.set(pack(comm.begin(collectives::neighbour_alltoallw(
        sent_typed(sendbuf, sendcounts, sdispls, sendtypes),
        received_typed(recvbuf, recvcounts, rdispls, recvtypes),
        comm,
    )?)?));
    Ok(())
}

/// `MPI_Neighbor_alltoallw_init`.
pub fn neighbor_alltoallw_init(
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
    request.set(pack_persistent(comm.prepare(
        collectives::neighbour_alltoallw(
            sent_typed(sendbuf, sendcounts, sdispls, sendtypes),
            received_typed(recvbuf, recvcounts, rdispls, recvtypes),
            comm,
        )?,
    )?));
    Ok(())
}
