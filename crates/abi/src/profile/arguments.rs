//! Arguments of a call under way, as stored by the trampoline: data, requests, communicator and status.
//!
//! # Safety
//! The frame is that of the call, and its addresses come from the caller, who keeps the promises of the C
//! binding.

use weft_launch::profile::layout::NOBODY;

use super::area::Area;
use super::call::{ArgumentIndex, Call, CallKind};
use super::messages;
use super::recorder::Recorder;
use super::trampoline::Frame;
use crate::c;
use crate::check;
use crate::generated::constants as k;
use crate::state;

/// The number of requests that cost a timeline as much as a simple call.
const REQUESTS_OF_COST: u32 = 4;

/// The bytes of data in a call's arguments.
///
/// # Safety
/// The frame is that of the call.
#[inline]
pub unsafe fn bytes_of(call: &Call, frame: &Frame) -> u64 {
    let (Some(count), Some(datatype)) = (call.count.number(), call.datatype.number()) else {
        return 0;
    };
    // SAFETY: the call has these arguments.
    let (count, datatype) = unsafe { (frame.argument(count), frame.argument(datatype)) };
    let count = match call.long {
        true => count.cast_signed(),
        false => i64::from(count as i32),
    };
    let handle = c::Datatype(datatype as usize);
    let size = match state::dense(handle).0 {
        0 => check::find_datatype(handle).map_or(0, |datatype| datatype.size()),
        size => size,
    };
    u64::try_from(count)
        .unwrap_or(0)
        .saturating_mul(size as u64)
}

/// The cost of a call in simple calls: a timeline reads each request and each status.
///
/// # Safety
/// The frame is that of the call.
#[inline]
pub unsafe fn cost_of(recorder: &Recorder, call: &Call, frame: &Frame) -> u32 {
    let Some(place) = call.length.number().filter(|_| recorder.timeline) else {
        return 1;
    };
    // SAFETY: the call has this argument.
    let requests = unsafe { frame.argument(place) } as i32;
    u32::try_from(requests).map_or(1, |requests| 1 + requests / REQUESTS_OF_COST)
}

/// Whether the sender that the call waits for is known without its status.
///
/// # Safety
/// The frame is that of the call.
#[inline]
pub unsafe fn knows_its_source(call: &Call, frame: &Frame) -> bool {
    match call.source.number() {
        // SAFETY: the call has this argument.
        Some(place) => unsafe { frame.argument(place) as i32 != k::MPI_ANY_SOURCE },
        None => call.kind != CallKind::Complete || call.status == ArgumentIndex::NONE,
    }
}

/// Gives the call a status to fill if it has none and its source matters.
///
/// # Safety
/// The frame is that of the call.
#[inline]
pub unsafe fn want_status(call: &Call, frame: &mut Frame) {
    let Some(place) = call.status.number() else {
        return;
    };
    let wanted = matches!(call.kind, CallKind::Complete | CallKind::Receive)
        || call.source != ArgumentIndex::NONE;
    // SAFETY: the call has this argument.
    if wanted && unsafe { frame.argument(place) } == 0 {
        frame.status = c::Status::new(k::MPI_ANY_SOURCE, k::MPI_ANY_TAG);
        let status = (&raw mut frame.status).expose_provenance() as u64;
        // SAFETY: as above.
        unsafe { frame.set_argument(place, status) };
    }
}

/// The status that a call has filled.
///
/// # Safety
/// The frame is that of the call.
pub unsafe fn status_of(call: &Call, frame: &Frame) -> Option<c::Status> {
    // SAFETY: the call has this argument: null, or the address of a status.
    unsafe {
        let address = frame.argument(call.status.number()?) as usize;
        let status = std::ptr::with_exposed_provenance::<c::Status>(address);
        (!status.is_null()).then(|| status.read_unaligned())
    }
}

/// The sender that a call has waited for, on the communicator with this context, as a number in the job.
///
/// # Safety
/// The frame is that of the call.
pub unsafe fn source_of(call: &Call, frame: &Frame, context: u32) -> u32 {
    // SAFETY: as the caller promises.
    let Some(status) = (unsafe { status_of(call, frame) }) else {
        return NOBODY;
    };
    state::comm_of_context(context).map_or(NOBODY, |(_, comm)| {
        messages::number_in_job(&comm, status.source)
    })
}

/// The number of a collective on its communicator, if arrivals at it are recorded.
///
/// # Safety
/// The frame is that of the call.
pub unsafe fn arrival(recorder: &Recorder, area: &Area, call: &Call, frame: &mut Frame) -> u64 {
    let Some(place) = call.comm.number() else {
        return u64::MAX;
    };
    // SAFETY: the call has this argument.
    let handle = c::Comm(unsafe { frame.argument(place) } as usize);
    let Some(comm) = check::find_communicator(handle) else {
        return u64::MAX;
    };
    let Some(context) = comm.known_context() else {
        return u64::MAX;
    };
    frame.leader = comm.group().peer(0).0;
    let number = recorder.collectives.next(context);
    match area.keeps_arrival(number) {
        true => u64::from(context) << 32 | u64::from(number),
        false => u64::MAX,
    }
}
