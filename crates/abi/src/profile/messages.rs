//! Messages of a timeline: the messages that calls send and receive, by their arguments.

use std::ffi::c_int;
use std::sync::Arc;

use weft_launch::profile::layout::NOBODY;
use weft_mpi::Comm;

use super::arguments::status_of;
use super::call::Call;
use super::trampoline::Frame;
use crate::c;
use crate::check;
use crate::generated::constants as k;

/// Peer, tag and communicator of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Envelope {
    /// The peer's number in the job.
    pub peer: u32,
    /// The tag.
    pub tag: i32,
    /// The context of the communicator.
    pub context: u32,
    /// Bytes of data.
    pub bytes: u64,
}

/// The number in the job of a rank of a communicator, of the remote group if it has one.
pub fn number_in_job(comm: &Comm, rank: c_int) -> u32 {
    let group = comm.remote_group().unwrap_or_else(|| comm.group());
    match u32::try_from(rank) {
        Ok(rank) if rank < group.size() => group.peer(rank).0,
        _ => NOBODY,
    }
}

/// The communicator of a call.
///
/// # Safety
/// The frame is that of the call.
unsafe fn comm_of(call: &Call, frame: &Frame) -> Option<&'static Arc<Comm>> {
    // SAFETY: the call has this argument.
    let handle = unsafe { frame.argument(call.comm.number()?) };
    check::find_communicator(c::Comm(handle as usize))
}

/// The envelope of the message that a call sends or receives, by its arguments.
///
/// # Safety
/// The frame is that of the call.
pub unsafe fn envelope(call: &Call, frame: &Frame, sends: bool) -> Option<Envelope> {
    let tag = match sends {
        true => call.tag,
        false => call
            .receive_tag
            .number()
            .map_or(call.tag, |_| call.receive_tag),
    };
    let peer = if sends { call.dest } else { call.source };
    // SAFETY: the call has these arguments.
    unsafe {
        let comm = comm_of(call, frame)?;
        let rank = frame.argument(peer.number()?) as c_int;
        if rank == k::MPI_PROC_NULL {
            return None;
        }
        Some(Envelope {
            peer: number_in_job(comm, rank),
            tag: tag.number().map_or(-1, |tag| frame.argument(tag) as c_int),
            context: comm.known_context()?,
            bytes: 0,
        })
    }
}

/// The envelope of the message that a call has received.
///
/// # Safety
/// The frame is that of the call, which has ended.
pub unsafe fn received(call: &Call, frame: &Frame) -> Option<Envelope> {
    // SAFETY: as the caller promises.
    unsafe {
        let (comm, status) = (comm_of(call, frame)?, status_of(call, frame)?);
        of_status(comm, &status)
    }
}

fn of_status(comm: &Comm, status: &c::Status) -> Option<Envelope> {
    let peer = number_in_job(comm, status.source);
    (peer != NOBODY).then_some(Envelope {
        peer,
        tag: status.tag,
        context: comm.known_context()?,
        bytes: status.bytes(),
    })
}
