//! Messages of a timeline: what calls send and receive, so that arrows can be drawn.
//!
//! A receive that was begun is known by its request until a call completes that; persistent and partitioned ones are not followed.

use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weft_launch::profile::layout::{EventKind, NOBODY};
use weft_mpi::Comm;

use super::Recorder;
use super::area::{Area, Event};
use super::arguments::status_of;
use super::call::Call;
use super::trampoline::Frame;
use crate::c;
use crate::check;
use crate::generated::constants as k;

/// Requests that one call is watched for at most.
pub(super) const MOST: usize = 4096;

/// Who, by which tag, on which communicator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Envelope {
    /// The other one: its number in the job.
    pub peer: u32,
    /// The tag.
    pub tag: i32,
    /// Of the communicator.
    pub context: u32,
    /// Bytes of data.
    pub bytes: u64,
    /// What it has carried.
    pub mark: u64,
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

/// What the arguments of a call say of the message that it sends, or of the one that it receives.
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
            mark: 0,
        })
    }
}

/// What a call has received.
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
        mark: status.mark(),
    })
}

/// A receive under way.
struct Receive {
    begun: u64,
    comm: Arc<Comm>,
    /// What is known without a status.
    envelope: Envelope,
}

/// Receives under way, by their requests.
#[derive(Default)]
pub struct Pending(Mutex<HashMap<usize, Receive>>);

impl Pending {
    fn all(&self) -> MutexGuard<'_, HashMap<usize, Receive>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives all up: calls that would complete them may be left out. When the first of them began.
    pub fn give_up(&self) -> Option<u64> {
        let mut all = self.all();
        let first = all.values().map(|receive| receive.begun).min();
        all.clear();
        first
    }

    /// A call has begun one.
    ///
    /// # Safety
    /// The frame is that of the call, which has ended.
    pub unsafe fn begin(&self, call: &Call, frame: &Frame) {
        if frame.result as c_int != k::MPI_SUCCESS {
            return;
        }
        // SAFETY: the call has these arguments, and has stored a request.
        unsafe {
            let Some(address) = call.request.number().map(|place| frame.argument(place)) else {
                return;
            };
            let request = request_at(address as usize);
            let Some((comm, envelope)) = comm_of(call, frame).zip(envelope(call, frame, false))
            else {
                return;
            };
            let receive = Receive {
                begun: frame.begun,
                comm: Arc::clone(comm),
                envelope,
            };
            self.all().insert(request, receive);
        }
    }
}

/// The request at an address of the program.
///
/// # Safety
/// One stands there.
unsafe fn request_at(address: usize) -> usize {
    let place = std::ptr::with_exposed_provenance::<usize>(address);
    // SAFETY: as the caller promises.
    unsafe { place.read_unaligned() }
}

/// Receives that a call may complete.
pub struct Watched {
    /// Where their requests stand, and which they are.
    requests: Vec<(usize, usize)>,
    /// Memory of the statuses that the call was given in place of none.
    _statuses: Vec<c::Status>,
}

impl Watched {
    /// Those of a call; `None` if there are none. Of a call that has an array of statuses they are wanted anyhow where messages are marked.
    ///
    /// # Safety
    /// The frame is that of the call.
    pub unsafe fn of(recorder: &Recorder, call: &Call, frame: &mut Frame) -> Option<Self> {
        // SAFETY: the call has these arguments; so many requests stand there.
        let (first, count) = unsafe {
            match (call.request.number(), call.requests.number()) {
                (Some(place), _) => (frame.argument(place) as usize, 1),
                (None, Some(place)) => {
                    let count = frame.argument(call.length.number()?) as c_int;
                    (frame.argument(place) as usize, usize::try_from(count).ok()?)
                }
                (None, None) => return None,
            }
        };
        if first == 0 || count == 0 || count > MOST {
            return None;
        }
        let are_marked = recorder.marks.are_used() && call.statuses.number().is_some();
        let pending = recorder.pending.all();
        if pending.is_empty() && !are_marked {
            return None;
        }
        let places = (0..count).map(|number| first + number * size_of::<usize>());
        let requests: Vec<_> = places
            // SAFETY: as above.
            .map(|place| (place, unsafe { request_at(place) }))
            .filter(|(_, request)| pending.contains_key(request))
            .collect();
        drop(pending);
        if requests.is_empty() && !are_marked {
            return None;
        }
        let mut statuses = Vec::new();
        if let Some(place) = call.statuses.number() {
            // SAFETY: the call has this argument.
            unsafe {
                if frame.argument(place) == 0 {
                    statuses.resize(count, c::Status::new(k::MPI_ANY_SOURCE, k::MPI_ANY_TAG));
                    let first = statuses.as_mut_ptr().expose_provenance() as u64;
                    frame.set_argument(place, first);
                }
            }
        }
        Some(Self {
            requests,
            _statuses: statuses,
        })
    }

    /// Notes those that the call has completed, and answers their marks.
    ///
    /// # Safety
    /// The frame is that of the call, which has ended.
    pub unsafe fn end(
        &self,
        recorder: &Recorder,
        call: &Call,
        frame: &Frame,
        event: &Event,
        area: &Area,
    ) -> Vec<u64> {
        let mut told = Vec::new();
        let first = self.requests.first().map_or(0, |(place, _)| *place);
        let array = call.requests.number().map(|place| {
            // SAFETY: the call has this argument.
            unsafe { frame.argument(place) as usize }
        });
        let packed = call.name.contains("some");
        let mut ended = 0;
        for &(place, request) in &self.requests {
            // SAFETY: the program's array of requests, until the call has returned to it.
            if unsafe { request_at(place) } == request {
                continue;
            }
            let Some(receive) = recorder.pending.all().remove(&request) else {
                continue;
            };
            let number = match packed {
                true => ended,
                false => (place - array.unwrap_or(first)) / size_of::<usize>(),
            };
            ended += 1;
            // SAFETY: the call has these arguments.
            let status = unsafe {
                match call.statuses.number() {
                    None => status_of(call, frame),
                    // The program has other requests among these: which status is whose is not known.
                    Some(_) if packed && self.requests.len() > 1 => None,
                    Some(place) => {
                        let first = frame.argument(place) as usize;
                        let at = first + number * size_of::<c::Status>();
                        let status = std::ptr::with_exposed_provenance::<c::Status>(at);
                        (first != 0).then(|| status.read_unaligned())
                    }
                }
            };
            let found = status.and_then(|status| of_status(&receive.comm, &status));
            let envelope = found.unwrap_or(receive.envelope);
            if envelope.peer == NOBODY {
                continue;
            }
            area.tell(&Event {
                kind: EventKind::Received,
                begun: receive.begun,
                peer: envelope.peer,
                tag: envelope.tag,
                context: envelope.context,
                bytes: found.map_or(u64::MAX, |found| found.bytes),
                mark: envelope.mark,
                ..*event
            });
            told.push(envelope.mark);
        }
        told
    }
}
