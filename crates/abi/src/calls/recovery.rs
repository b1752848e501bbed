//! Continuing after a loss: the extension for fault tolerance (User Level Failure Mitigation).

use std::ffi::c_int;
use std::sync::Arc;

use weft_mpi::Comm;
use weft_sys::span::Region;

use crate::args::{InOut, Out};
use crate::c;
use crate::calls::{comm, group};
use crate::fault::{Checked, Fault};
use crate::generated::constants as k;
use crate::handle::request::pack;
use crate::losses;

pub fn comm_revoke(comm: &Arc<Comm>) -> Checked<()> {
    losses::note_call();
    comm.revoke();
    Ok(())
}

pub fn comm_is_revoked(comm: &Arc<Comm>, mut flag: Out<c_int>) -> Checked<()> {
    losses::note_call();
    flag.flag(comm.is_revoked());
    Ok(())
}

pub fn comm_get_failed(comm: &Arc<Comm>, mut failedgrp: Out<c::Group>) -> Checked<()> {
    losses::note_call();
    failedgrp.set(group::publish(Arc::new(comm.failed()))?);
    Ok(())
}

pub fn comm_ack_failed(
    comm: &Arc<Comm>,
    num_to_ack: c_int,
    mut num_acked: Out<c_int>,
) -> Checked<()> {
    losses::note_call();
    let most = usize::try_from(num_to_ack).map_err(|_| {
        Fault::argument(
            k::MPI_ERR_ARG,
            "num_to_ack",
            "how many losses are acknowledged, at least 0",
            num_to_ack.to_string(),
            "pass the size of the group of MPIX_Comm_get_failed",
        )
    })?;
    num_acked.set(comm.acknowledge_failed(most) as c_int);
    Ok(())
}

pub fn comm_failure_ack(comm: &Arc<Comm>) -> Checked<()> {
    losses::note_call();
    _ = comm.failed();
    comm.acknowledge_failed(usize::MAX);
    Ok(())
}

pub fn comm_failure_get_acked(comm: &Arc<Comm>, mut failedgrp: Out<c::Group>) -> Checked<()> {
    losses::note_call();
    failedgrp.set(group::publish(Arc::new(comm.acknowledged()))?);
    Ok(())
}

/// The flag is written even if the call ends in an error.
pub fn comm_agree(comm: &Arc<Comm>, mut flag: InOut<c_int>) -> Checked<()> {
    losses::note_call();
    let mut agreed = flag.get();
    let outcome = comm.agree(&mut agreed);
    flag.set(agreed);
    Ok(outcome?)
}

pub fn comm_iagree(
    comm: &Arc<Comm>,
    flag: InOut<c_int>,
    mut request: Out<c::Request>,
) -> Checked<()> {
    losses::note_call();
    request.set(k::MPI_REQUEST_NULL);
    // SAFETY: the flag of a non-blocking operation stays valid until its request has ended (MPI 5.0, section 6.12).
    let flag = unsafe { Region::new(flag.address().cast(), size_of::<c_int>()) };
    request.set(pack(comm.iagree(flag)?));
    Ok(())
}

pub fn comm_shrink(comm: &Arc<Comm>, mut newcomm: Out<c::Comm>) -> Checked<()> {
    losses::note_call();
    newcomm.set(k::MPI_COMM_NULL);
    newcomm.set(comm::publish(comm.shrink()?, comm)?);
    Ok(())
}

pub fn comm_ishrink(
    comm: &Arc<Comm>,
    mut newcomm: Out<c::Comm>,
    mut request: Out<c::Request>,
) -> Checked<()> {
    losses::note_call();
    request.set(k::MPI_REQUEST_NULL);
    newcomm.set(k::MPI_COMM_NULL);
    // SAFETY: the handle of a non-blocking operation stays valid until its request has ended.
    let place = unsafe { Region::new(newcomm.address().cast(), size_of::<c::Comm>()) };
    let parent = Arc::clone(comm);
    let publish = move |made: &Arc<Comm>| {
        let handle = comm::publish(Arc::clone(made), &parent).map_err(|fault| fault.as_error())?;
        place.copy_from_slice(&handle.0.to_ne_bytes());
        Ok(())
    };
    let (_, agreement) = comm.ishrink(Some(Box::new(publish)))?;
    request.set(pack(agreement));
    Ok(())
}
