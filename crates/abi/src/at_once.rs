//! Calls that end at once: the way that some entry points try first (`at_once` in the tables of functions).
//!
//! ```text
//!   PMPI_Send ──► at_once::send ── true: MPI_SUCCESS
//!                       │ false: nothing has happened
//!                       ▼
//!                 entry::run: checks that say what is wrong, calls::p2p::send
//! ```
//!
//! Everything that the checks of a call test is tested here, too, but in few instructions and without diagnosis:
//! any case that is not simply right is left to the checks. So calls that pass here would pass the checks; calls
//! that do not need not be wrong (a datatype of the program, `MPI_PROC_NULL`, a long message). Only a list of which
//! one request ends is read up to that one: what is wrong behind it is found by the call that comes to it.
//!
//! # Safety
//! As for [`check`](mod@crate::check): addresses come from the caller, who keeps the promises of the C
//! binding.

pub mod alone;
pub mod begun;
mod collective;
mod edge;
mod elements;
mod one_sided;
mod reductions;
mod uneven;

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use weft_mpi::datatype::SignatureCode;
use weft_mpi::p2p::{Listed, Received};
use weft_mpi::{Comm, Process, RequestId, Source, TagPattern};
use weft_sys::span::{Region, SHORT};

use crate::check::{PAGE, TAG_MAX};
use crate::generated::constants as k;
use crate::handle;
use crate::handle::request::{ends_once, pack, request_of};
use crate::state::MessageObject;
use crate::{c, state};

pub use collective::*;
pub use edge::*;
pub use one_sided::*;
pub use reductions::*;
pub use uneven::*;

/// Most elements that are handled here, a power of two less one. The engine decides whether their bytes are
/// few enough.
const MOST: u64 = (1 << 20) - 1;

/// The largest offset from [`PAGE`] at which elements handled here may begin. Programs' memory ends there unless they ask for
/// more, and [`MOST`] elements after it still have addresses. A power of two less one.
const LAST: usize = (1 << 47) - 1;

/// The bytes of a buffer of few contiguous predefined elements, and their signature.
///
/// # Safety
/// As for [`weft_mpi::Buffer::new`].
#[inline(always)]
unsafe fn bytes(
    address: *mut c_void,
    count: i64,
    datatype: c::Datatype,
) -> Option<(Region, SignatureCode)> {
    let (size, signature) = state::dense(datatype);
    // One comparison for both: neither the upper bits of the place nor the count have a forbidden bit.
    let place = address.addr().wrapping_sub(PAGE) >> (LAST.count_ones() - MOST.count_ones());
    if place as u64 | count.cast_unsigned() > MOST || size == 0 {
        return None;
    }
    // SAFETY: `count` elements of `size` bytes, which are contiguous, stay valid until the operation has ended (MPI 5.0,
    // section 3.2.2).
    let region = unsafe { Region::new(address.cast(), count as usize * size) };
    Some((region, signature))
}

/// The communicator of a call.
#[inline(always)]
fn communicator(handle: c::Comm) -> Option<&'static Comm> {
    let runtime = state::runtime_at_once()?;
    if handle == k::MPI_COMM_WORLD {
        return Some(&runtime.world);
    }
    // Not MPI_COMM_SELF: a message to oneself takes no lane.
    handle::find::<Arc<Comm>>(handle.0).map(|comm| &**comm)
}

/// The source and the tag of a receive.
#[inline(always)]
fn envelope(source: c_int, tag: c_int) -> Option<(Source, TagPattern)> {
    // A value that is neither a wildcard nor a rank does not belong to the communicator.
    let source = match source {
        k::MPI_ANY_SOURCE => Source::Any,
        rank => Source::Rank(rank.cast_unsigned()),
    };
    let tag = match tag {
        0..=TAG_MAX => TagPattern::Exact(tag),
        k::MPI_ANY_TAG => TagPattern::Any,
        _ => return None,
    };
    Some((source, tag))
}

/// Stores the status of a receive.
///
/// # Safety
/// `MPI_STATUS_IGNORE`, or a status that may be written until the call returns.
#[inline(always)]
unsafe fn set_status(address: *mut c::Status, received: Received) {
    // SAFETY: as the caller promises.
    let Some(status) = (unsafe { address.as_mut() }) else {
        return;
    };
    let error = status.error;
    *status = c::Status::new(received.source.cast_signed(), received.tag);
    status.set_bytes(received.bytes);
    status.error = error;
}

/// `MPI_Send` of few bytes.
///
/// # Safety
/// As the head of the module says.
#[inline(always)]
pub unsafe fn send(
    buf: *const c_void,
    count: i64,
    datatype: c::Datatype,
    dest: c_int,
    tag: c_int,
    comm: c::Comm,
) -> bool {
    // SAFETY: as the caller promises.
    let Some(bytes) = (unsafe { bytes(buf.cast_mut(), count, datatype) }) else {
        return false;
    };
    // First of all: long messages have another way, which checks everything again.
    if bytes.0.len() > SHORT {
        return false;
    }
    let Some(comm) = communicator(comm) else {
        return false;
    };
    (0..=TAG_MAX).contains(&tag) && comm.send_short_at_once(bytes, dest.cast_unsigned(), tag)
}

/// `MPI_Send` of longer messages, or ones that leave in an unusual way.
///
/// # Safety
/// As the head of the module says.
#[inline(always)]
pub unsafe fn send_long(
    buf: *const c_void,
    count: i64,
    datatype: c::Datatype,
    dest: c_int,
    tag: c_int,
    comm: c::Comm,
) -> bool {
    let Some(comm) = communicator(comm) else {
        return false;
    };
    // SAFETY: as the caller promises.
    let Some(bytes) = (unsafe { bytes(buf.cast_mut(), count, datatype) }) else {
        // SAFETY: as the caller promises.
        return unsafe { elements::send(buf, count, datatype, (dest, tag), comm) };
    };
    (0..=TAG_MAX).contains(&tag)
        && (comm.send_at_once(bytes, dest.cast_unsigned(), tag)
            || dest == k::MPI_PROC_NULL && comm.is_usable_at_once())
}

/// `MPI_Isend` of few bytes.
///
/// # Safety
/// As the head of the module says.
#[inline(always)]
pub unsafe fn isend(
    buf: *const c_void,
    count: i64,
    datatype: c::Datatype,
    dest: c_int,
    tag: c_int,
    comm: c::Comm,
    request: *mut c::Request,
) -> bool {
    // SAFETY: as the caller promises.
    unsafe {
        !request.is_null() && send(buf, count, datatype, dest, tag, comm) && has_ended(request)
    }
}

/// `MPI_Isend` of longer messages, or ones that leave in an unusual way.
///
/// # Safety
/// As the head of the module says.
#[inline(always)]
pub unsafe fn isend_long(
    buf: *const c_void,
    count: i64,
    datatype: c::Datatype,
    dest: c_int,
    tag: c_int,
    comm: c::Comm,
    request: *mut c::Request,
) -> bool {
    // SAFETY: as the caller promises.
    unsafe {
        !request.is_null() && send_long(buf, count, datatype, dest, tag, comm) && has_ended(request)
    }
}

/// Answer of a short way to begin a collective: its request, or whether it has ended.
pub trait Begun {
    /// The request, [`RequestId::DONE`] if it has ended; `None` if it was not begun.
    fn request(self) -> Option<RequestId>;
}

impl Begun for Option<RequestId> {
    #[inline(always)]
    fn request(self) -> Option<RequestId> {
        self
    }
}

impl Begun for bool {
    #[inline(always)]
    fn request(self) -> Option<RequestId> {
        self.then_some(RequestId::DONE)
    }
}

/// Stores the request of a collective that a call has begun, if it has.
///
/// # Safety
/// As the head of the module says; the address is not null.
#[inline(always)]
pub unsafe fn has_begun(request: *mut c::Request, begun: impl Begun) -> bool {
    let Some(id) = begun.request() else {
        return false;
    };
    // SAFETY: as the caller promises; it may be aligned as the caller likes.
    unsafe { request.write_unaligned(pack(id)) };
    true
}

/// Stores the request of an operation that has ended within the call that began it: a message that has left.
///
/// # Safety
/// As the head of the module says; the address is not null.
#[inline(always)]
unsafe fn has_ended(request: *mut c::Request) -> bool {
    // SAFETY: as the caller promises; it may be aligned as the caller likes.
    unsafe { request.write_unaligned(DONE) };
    true
}

/// `MPI_Recv`.
///
/// # Safety
/// As the head of the module says.
#[inline(always)]
pub unsafe fn recv(
    buf: *mut c_void,
    count: i64,
    datatype: c::Datatype,
    source: c_int,
    tag: c_int,
    comm: c::Comm,
    status: *mut c::Status,
) -> bool {
    // SAFETY: as the caller promises.
    let Some(bytes) = (unsafe { bytes(buf, count, datatype) }) else {
        // SAFETY: as the caller promises.
        return unsafe { elements::recv(buf, count, datatype, (source, tag, comm), status) };
    };
    let Some(comm) = communicator(comm) else {
        return false;
    };
    // A value that is neither a wildcard nor a rank does not belong to the communicator.
    if source != k::MPI_ANY_SOURCE && (0..=TAG_MAX).contains(&tag) {
        let rank = source.cast_unsigned();
        let Some(bytes) = comm.recv_at_once(bytes, rank, tag) else {
            // SAFETY: as the caller promises.
            return unsafe { recv_from_nobody(source, comm, status) };
        };
        let received = Received {
            source: rank,
            tag,
            bytes,
        };
        // SAFETY: as the caller promises.
        unsafe { set_status(status, received) };
        return true;
    }
    let Some((from, tag)) = envelope(source, tag) else {
        return false;
    };
    let Some(received) = comm.recv_any_at_once(bytes, from, tag) else {
        // SAFETY: as the caller promises.
        return unsafe { recv_from_nobody(source, comm, status) };
    };
    // SAFETY: as the caller promises.
    unsafe { set_status(status, received) };
    true
}

/// `MPI_Recv` from `MPI_PROC_NULL`, if it is that.
///
/// # Safety
/// As the head of the module says.
#[inline(never)]
unsafe fn recv_from_nobody(source: c_int, comm: &Comm, status: *mut c::Status) -> bool {
    if source != k::MPI_PROC_NULL || !comm.is_usable_at_once() {
        return false;
    }
    // SAFETY: as the caller promises.
    unsafe { set_status(status, FROM_NOBODY) };
    true
}

/// `MPI_Irecv`.
///
/// # Safety
/// As the head of the module says.
#[inline(always)]
pub unsafe fn irecv(
    buf: *mut c_void,
    count: i64,
    datatype: c::Datatype,
    source: c_int,
    tag: c_int,
    comm: c::Comm,
    request: *mut c::Request,
) -> bool {
    let Some(comm) = communicator(comm).filter(|_| !request.is_null()) else {
        return false;
    };
    // SAFETY: as the caller promises.
    let bytes = unsafe { bytes(buf, count, datatype) };
    let (Some(bytes), Some((from, tag))) = (bytes, envelope(source, tag)) else {
        return false;
    };
    let Some(id) = comm.irecv_at_once(bytes, from, tag) else {
        // SAFETY: as the caller promises; the address is not null.
        return unsafe { irecv_from_nobody(source, comm, request) };
    };
    // SAFETY: as for `isend`.
    unsafe { request.write_unaligned(pack(id)) };
    true
}

/// `MPI_Irecv` from `MPI_PROC_NULL`, if it is that.
///
/// # Safety
/// As the head of the module says; the address is not null.
#[inline(never)]
unsafe fn irecv_from_nobody(source: c_int, comm: &Comm, request: *mut c::Request) -> bool {
    if source != k::MPI_PROC_NULL || !comm.is_usable_at_once() {
        return false;
    }
    // SAFETY: as for `isend`.
    unsafe { request.write_unaligned(NOTHING_RECEIVED) };
    true
}

/// `MPI_Iprobe`.
///
/// # Safety
/// As the head of the module says.
#[inline(always)]
pub unsafe fn iprobe(
    source: c_int,
    tag: c_int,
    comm: c::Comm,
    flag: *mut c_int,
    _status: *mut c::Status,
) -> bool {
    let Some(comm) = communicator(comm).filter(|_| !flag.is_null()) else {
        return false;
    };
    let Some((source, _)) = envelope(source, tag) else {
        return false;
    };
    if !comm.has_source(source) || !comm.iprobe_finds_nothing() {
        return false;
    }
    // SAFETY: as the caller promises; it is not null, and may be aligned as the caller likes.
    unsafe { flag.write_unaligned(0) };
    true
}

/// `MPI_Mprobe`.
///
/// # Safety
/// As the head of the module says.
#[inline(always)]
pub unsafe fn mprobe(
    source: c_int,
    tag: c_int,
    comm: c::Comm,
    message: *mut c::Message,
    status: *mut c::Status,
) -> bool {
    let Some(comm) = communicator(comm).filter(|_| !message.is_null()) else {
        return false;
    };
    let Some((source, tag)) = envelope(source, tag) else {
        return false;
    };
    // Its place first: without one the message would be lost.
    let object = MessageObject::awaiting("MPI_Mprobe", comm.context());
    let Some(handle) = handle::insert(object) else {
        return false;
    };
    let place = handle::find::<MessageObject>(handle);
    let (Some((found, received)), Some(place)) = (comm.mprobe_at_once(source, tag), place) else {
        handle::remove::<MessageObject>(handle);
        return false;
    };
    place.fill(found);
    // SAFETY: as the caller promises; it is not null, and may be aligned as the caller likes.
    unsafe {
        message.write_unaligned(c::Message(handle));
        set_status(status, received);
    }
    true
}

/// `MPI_Mrecv`.
///
/// # Safety
/// As the head of the module says.
#[inline(always)]
pub unsafe fn mrecv(
    buf: *mut c_void,
    count: i64,
    datatype: c::Datatype,
    message: *mut c::Message,
    status: *mut c::Status,
) -> bool {
    if message.is_null() {
        return false;
    }
    // SAFETY: as the caller promises.
    let Some(bytes) = (unsafe { bytes(buf, count, datatype) }) else {
        return false;
    };
    let Some(runtime) = state::runtime_at_once() else {
        return false;
    };
    // SAFETY: as the caller promises; it is not null, and may be aligned as the caller likes.
    let given = unsafe { message.read_unaligned() };
    let received = handle::find::<MessageObject>(given.0)
        .and_then(|object| object.take_if(|message| runtime.process.mrecv_at_once(message, bytes)));
    let Some(received) = received else {
        return false;
    };
    handle::remove::<MessageObject>(given.0);
    // SAFETY: as above.
    unsafe {
        message.write_unaligned(k::MPI_MESSAGE_NULL);
        set_status(status, received);
    }
    true
}

/// The handle of an operation that had ended before its call returned.
const DONE: c::Request = pack(RequestId::DONE);

/// The handle of a receive from `MPI_PROC_NULL`.
const NOTHING_RECEIVED: c::Request = pack(RequestId::NOTHING_RECEIVED);

/// What a receive from `MPI_PROC_NULL` has received.
const FROM_NOBODY: Received = Received {
    source: k::MPI_PROC_NULL.cast_unsigned(),
    tag: k::MPI_ANY_TAG,
    bytes: 0,
};

/// What was received under a handle, if it is that of a receive that had ended before its call returned.
#[inline(always)]
fn received_before(handle: c::Request) -> Option<Received> {
    (handle == NOTHING_RECEIVED).then_some(FROM_NOBODY)
}

/// The handle of the request of a call that completes one, and the engine's side of this process.
///
/// # Safety
/// As the head of the module says.
#[inline(always)]
unsafe fn request_at(address: *const c::Request) -> Option<(c::Request, &'static Process)> {
    if address.is_null() {
        return None;
    }
    let runtime = state::runtime_at_once()?;
    // SAFETY: as the caller promises; it is not null.
    Some((unsafe { address.read_unaligned() }, &runtime.process))
}

/// The request has ended: stores the results.
///
/// # Safety
/// As the head of the module says; the address of the request is not null.
#[inline(always)]
unsafe fn set_ended(request: *mut c::Request, status: *mut c::Status, received: Option<Received>) {
    // SAFETY: as the caller promises.
    unsafe {
        request.write_unaligned(k::MPI_REQUEST_NULL);
        set_outcome(status, received);
    }
}

/// Stores the status of an operation that has ended.
///
/// # Safety
/// As the head of the module says.
#[inline(always)]
unsafe fn set_outcome(status: *mut c::Status, received: Option<Received>) {
    match received {
        // SAFETY: as the caller promises.
        Some(received) => unsafe { set_status(status, received) },
        None => {
            // SAFETY: `MPI_STATUS_IGNORE`, or a status that may be written until the call returns.
            if let Some(status) = unsafe { status.as_mut() } {
                *status = c::Status::new(k::MPI_ANY_SOURCE, k::MPI_ANY_TAG);
            }
        }
    }
}

/// `MPI_Wait` for an operation that has ended already.
///
/// # Safety
/// As the head of the module says.
#[inline(always)]
pub unsafe fn wait(request: *mut c::Request, status: *mut c::Status) -> bool {
    // SAFETY: as the caller promises.
    unsafe {
        wait_by(
            request,
            status,
            Process::wait_for_plain_at_once,
            Process::wait_for_plainly_repeated_at_once,
        )
    }
}

/// `MPI_Wait` for a receive whose message may have arrived.
///
/// # Safety
/// As the head of the module says.
#[inline(always)]
pub unsafe fn wait_long(request: *mut c::Request, status: *mut c::Status) -> bool {
    // SAFETY: as the caller promises.
    unsafe {
        wait_by(
            request,
            status,
            Process::wait_at_once,
            Process::wait_for_repeated_at_once,
        )
    }
}

/// `MPI_Start` of a send or a receive.
///
/// # Safety
/// As the head of the module says.
#[inline(always)]
pub unsafe fn start(request: *mut c::Request) -> bool {
    // SAFETY: as the caller promises.
    let Some((handle, process)) = (unsafe { request_at(request) }) else {
        return false;
    };
    request_of(handle).is_some_and(|id| process.start_at_once(id))
}

/// `MPI_Wait` in one of these ways, for a request that ends once, and for one that is started again.
///
/// # Safety
/// As the head of the module says.
#[inline(always)]
unsafe fn wait_by(
    request: *mut c::Request,
    status: *mut c::Status,
    wait: impl FnOnce(&Process, RequestId) -> Option<Received>,
    wait_for_repeated: impl FnOnce(&Process, RequestId) -> Option<Option<Received>>,
) -> bool {
    // SAFETY: as the caller promises.
    let Some((handle, process)) = (unsafe { request_at(request) }) else {
        return false;
    };
    // Before anything is decoded: this is the cheapest case of all.
    if handle == DONE {
        // SAFETY: as the caller promises; `request_at` has found a request there.
        unsafe { set_ended(request, status, None) };
        return true;
    }
    let Some(id) = ends_once(handle) else {
        let ended = request_of(handle).and_then(|id| wait_for_repeated(process, id));
        if let Some(received) = ended {
            // SAFETY: as the caller promises.
            unsafe { set_outcome(status, received) };
        }
        return ended.is_some();
    };
    let received = wait(process, id).or_else(|| received_before(handle));
    if received.is_some() {
        // SAFETY: as above.
        unsafe { set_ended(request, status, received) };
    }
    received.is_some()
}

/// `MPI_Waitall` for operations that had ended before their calls returned.
///
/// # Safety
/// As the head of the module says.
#[inline(always)]
pub unsafe fn waitall(count: i64, requests: *mut c::Request, statuses: *mut c::Status) -> bool {
    if requests.is_null() || !state::may_end_at_once() {
        return false;
    }
    let Ok(count) = usize::try_from(count) else {
        return false;
    };
    // SAFETY: as the caller promises; they may be aligned as the caller likes.
    let handle = |place| unsafe { requests.add(place).read_unaligned() };
    let ended = |place| matches!(handle(place), DONE | NOTHING_RECEIVED | k::MPI_REQUEST_NULL);
    if !(0..count).all(ended) {
        return false;
    }
    for place in 0..count {
        // SAFETY: as the caller promises; there are as many statuses as requests, or none.
        unsafe {
            let status = if statuses.is_null() {
                statuses
            } else {
                statuses.add(place)
            };
            set_ended(requests.add(place), status, received_before(handle(place)));
        }
    }
    true
}

/// The list of requests of a call that ends one of them, from the first that is not null.
#[derive(Clone, Copy)]
struct List {
    requests: *mut c::Request,
    places: (usize, usize),
    /// That of the first, for its engine.
    first: RequestId,
}

impl List {
    /// `None` if there is nothing to be read, or nothing to be ended at once.
    ///
    /// # Safety
    /// As the head of the module says.
    #[inline(always)]
    unsafe fn new(count: i64, requests: *mut c::Request) -> Option<Self> {
        let count = usize::try_from(count).ok()?;
        if requests.is_null() {
            return None;
        }
        for place in 0..count {
            // SAFETY: as the caller promises; they may be aligned as the caller likes.
            let handle = unsafe { requests.add(place).read_unaligned() };
            if handle != k::MPI_REQUEST_NULL {
                return Some(Self {
                    requests,
                    places: (place, count),
                    // That of one that is done has its shape.
                    first: ends_once(handle)?,
                });
            }
        }
        None
    }

    /// What is there, in order.
    ///
    /// # Safety
    /// As the head of the module says.
    #[inline(always)]
    unsafe fn listed(self) -> impl Iterator<Item = Listed> {
        let (from, to) = self.places;
        (from..to).map(move |place| {
            // SAFETY: as the caller promises; they may be aligned as the caller likes.
            match unsafe { self.requests.add(place).read_unaligned() } {
                k::MPI_REQUEST_NULL => Listed::Nothing,
                DONE | NOTHING_RECEIVED => Listed::Done,
                handle => ends_once(handle).map_or(Listed::Other, Listed::Request),
            }
        })
    }

    /// One has ended: stores the results.
    ///
    /// # Safety
    /// As the head of the module says; the address of the index is not null, the place is one of those that were listed.
    #[inline(always)]
    unsafe fn set_ended(
        self,
        (place, received): (usize, Option<Received>),
        index: *mut c_int,
        status: *mut c::Status,
    ) {
        let place = self.places.0 + place;
        // SAFETY: as the caller promises.
        unsafe {
            index.write_unaligned(place as c_int);
            let request = self.requests.add(place);
            let received = received.or_else(|| received_before(request.read_unaligned()));
            set_ended(request, status, received);
        }
    }
}

/// `MPI_Waitany`.
///
/// # Safety
/// As the head of the module says.
#[inline(always)]
pub unsafe fn waitany(
    count: i64,
    requests: *mut c::Request,
    index: *mut c_int,
    status: *mut c::Status,
) -> bool {
    let Some(runtime) = state::runtime_at_once().filter(|_| !index.is_null()) else {
        return false;
    };
    // SAFETY: as the caller promises.
    unsafe {
        let Some(list) = List::new(count, requests) else {
            return false;
        };
        let process = &runtime.process;
        let end = process.wait_any_at_once(list.first, || list.listed());
        if let Some(end) = end {
            list.set_ended(end, index, status);
        }
        end.is_some()
    }
}

/// `MPI_Testany`.
///
/// # Safety
/// As the head of the module says.
#[inline(always)]
pub unsafe fn testany(
    count: i64,
    requests: *mut c::Request,
    index: *mut c_int,
    flag: *mut c_int,
    status: *mut c::Status,
) -> bool {
    let Some(runtime) = state::runtime_at_once() else {
        return false;
    };
    if index.is_null() || flag.is_null() {
        return false;
    }
    // SAFETY: as the caller promises.
    unsafe {
        let Some(list) = List::new(count, requests) else {
            return false;
        };
        let process = &runtime.process;
        let Some(end) = process.test_any_at_once(list.first, || list.listed()) else {
            return false;
        };
        flag.write_unaligned(c_int::from(end.is_some()));
        match end {
            Some(end) => list.set_ended(end, index, status),
            None => index.write_unaligned(k::MPI_UNDEFINED),
        }
    }
    true
}

/// `MPI_Test`.
///
/// # Safety
/// As the head of the module says.
#[inline(always)]
pub unsafe fn test(request: *mut c::Request, flag: *mut c_int, status: *mut c::Status) -> bool {
    // SAFETY: as the caller promises.
    let found = unsafe { request_at(request) };
    let Some((handle, process)) = found.filter(|_| !flag.is_null()) else {
        return false;
    };
    let mut received = None;
    if handle != DONE {
        let Some(id) = ends_once(handle) else {
            return false;
        };
        received = match process.test_at_once(id) {
            Some(Some(received)) => Some(received),
            Some(None) => {
                // SAFETY: as the caller promises; it is not null, and may be aligned as the caller likes.
                unsafe { flag.write_unaligned(0) };
                return true;
            }
            None if handle == NOTHING_RECEIVED => Some(FROM_NOBODY),
            None => return false,
        };
    }
    // SAFETY: as the caller promises; neither is null.
    unsafe {
        flag.write_unaligned(1);
        set_ended(request, status, received);
    }
    true
}
