//! Messages of elements of a datatype that the program has made, with gaps or without.
//!
//! # Safety
//! As the head of the [module above](super) says.

use std::ffi::{c_int, c_void};

use weft_mpi::Comm;
use weft_mpi::buffer::Lent;

use super::{PAGE, TAG_MAX, communicator, envelope, set_status};
use crate::c;
use crate::check::find_datatype;

/// The buffer of a call.
///
/// # Safety
/// As for [`Lent::checked`].
#[inline(always)]
unsafe fn buffer(address: *mut c_void, count: i64, datatype: c::Datatype) -> Option<Lent<'static>> {
    let count = usize::try_from(count).ok()?;
    let datatype = find_datatype(datatype)?;
    // Displacements of some datatypes are addresses.
    if address.addr() < PAGE || !datatype.is_committed() {
        return None;
    }
    // SAFETY: as the caller promises: `count` elements stay valid until the operation has ended (MPI 5.0, section 3.2.2).
    unsafe { Lent::checked(address.cast(), count, datatype) }
}

/// `MPI_Send`.
///
/// # Safety
/// As the head of the module says.
#[inline(never)]
pub unsafe fn send(
    buf: *const c_void,
    count: i64,
    datatype: c::Datatype,
    (dest, tag): (c_int, c_int),
    comm: &Comm,
) -> bool {
    if !(0..=TAG_MAX).contains(&tag) {
        return false;
    }
    // SAFETY: as the caller promises.
    let elements = unsafe { buffer(buf.cast_mut(), count, datatype) };
    elements.is_some_and(|elements| comm.send_elements_at_once(elements, dest.cast_unsigned(), tag))
}

/// `MPI_Recv`.
///
/// # Safety
/// As the head of the module says.
#[inline(never)]
pub unsafe fn recv(
    buf: *mut c_void,
    count: i64,
    datatype: c::Datatype,
    (source, tag, comm): (c_int, c_int, c::Comm),
    status: *mut c::Status,
) -> bool {
    let (Some(comm), Some((from, tag))) = (communicator(comm), envelope(source, tag)) else {
        return false;
    };
    // SAFETY: as the caller promises.
    let Some(elements) = (unsafe { buffer(buf, count, datatype) }) else {
        return false;
    };
    let Some(received) = comm.recv_elements_at_once(elements, from, tag) else {
        return false;
    };
    // SAFETY: as the caller promises.
    unsafe { set_status(status, received) };
    true
}
