//! Marks of messages: by these a timeline knows which message was received, also where calls before it were left out.
//!
//! ```text
//!   sender    enter: the process marks what it sends ── PMPI_Send ── leave: told as sent, with the mark
//!   receiver  enter: marks in statuses are cleared ── PMPI_Recv ── leave: told as received, with the mark in the status
//! ```
//!
//! ```text
//!  bit 63   39..63            0..39
//!       1   rank in the job   number
//! ```
//!
//! A small message carries the mark in a word that it has anyway; one that was announced, and a synchronous one, is known by the word of its
//! transfer, which stands in place of the mark when the call has begun it. One mark is set for the whole process while a call is under way, so
//! nothing is marked where several threads may call at once, nor by fibers.

use std::ffi::c_int;

use weft_atomic::{AtomicBool, AtomicU64, Ordering};
use weft_launch::profile::layout::{EventKind, NO_CONTEXT, mark};

use super::area::{Area, Event};
use super::call::{Call, Kind};
use super::messages::MOST;
use super::trampoline::Frame;
use crate::c;
use crate::generated::constants as k;
use crate::state;

/// Marks of this rank.
#[derive(Default)]
pub struct Marks {
    /// The last one; 0 while none are used.
    last: AtomicU64,
    /// Several threads may call: never again.
    ended: AtomicBool,
}

impl Marks {
    /// Marks what the rank with this number in the job sends. One thread calls at a time.
    pub fn begin(&self, rank: u32) {
        if let Some(first) = mark::first_of(rank) {
            self.last.store(first, Ordering::Relaxed);
        }
    }

    /// Several threads may call from now on.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    /// Whether marks are used.
    pub fn are_used(&self) -> bool {
        self.last.load(Ordering::Relaxed) != 0 && !self.ended.load(Ordering::Relaxed)
    }

    /// A call that sends begins: its mark; 0 for none.
    pub fn set(&self) -> u64 {
        if !self.are_used() || weft_fiber::is_fiber() {
            return 0;
        }
        let Some(runtime) = state::runtime() else {
            return 0;
        };
        let next = mark::after(self.last.load(Ordering::Relaxed));
        self.last.store(next, Ordering::Relaxed);
        runtime.process.mark_sends(next);
        next
    }
}

/// A call that has set a mark has ended: what its message has carried.
pub fn take() -> u64 {
    state::runtime().map_or(0, |runtime| runtime.process.mark_sends(0))
}

/// Where the statuses of a call stand, and how many.
///
/// # Safety
/// The frame is that of the call.
unsafe fn statuses(call: &Call, frame: &Frame) -> (usize, usize) {
    let completes = call.request.number().is_some() || call.requests.number().is_some();
    // Others read their status, or send.
    let receives = matches!(call.kind, Kind::Receive | Kind::Exchange);
    if !(receives || completes && call.kind == Kind::Complete) {
        return (0, 0);
    }
    // SAFETY: the call has these arguments.
    unsafe {
        match (
            call.status.number(),
            call.statuses.number(),
            call.length.number(),
        ) {
            (Some(place), ..) => (frame.argument(place) as usize, 1),
            (None, Some(place), Some(length)) => {
                let count = usize::try_from(frame.argument(length) as c_int).unwrap_or(0);
                match frame.argument(place) as usize {
                    // As those of requests.
                    address if count <= MOST => (address, count),
                    _ => (0, 0),
                }
            }
            _ => (0, 0),
        }
    }
}

/// Clears the marks in the statuses that a call is to fill, as it may fill only some.
///
/// # Safety
/// The frame is that of the call.
pub unsafe fn clear(call: &Call, frame: &Frame) {
    // SAFETY: as the caller promises.
    let (first, count) = unsafe { statuses(call, frame) };
    if first == 0 {
        return;
    }
    for number in 0..count {
        let at = first + number * size_of::<c::Status>() + c::Status::MARK_AT;
        let word = std::ptr::with_exposed_provenance_mut::<u64>(at);
        // SAFETY: a status stands there, which the call may write.
        unsafe { word.write_unaligned(0) };
    }
}

/// Tells of the marked messages that a call has received, but for those that were told.
///
/// # Safety
/// The frame is that of the call, which has ended.
pub unsafe fn tell(call: &Call, frame: &Frame, (event, area): (&Event, &Area), told: &[u64]) {
    if frame.result as c_int != k::MPI_SUCCESS {
        return;
    }
    // SAFETY: as the caller promises.
    let (first, count) = unsafe { statuses(call, frame) };
    if first == 0 {
        return;
    }
    for number in 0..count {
        let at = first + number * size_of::<c::Status>();
        let status = std::ptr::with_exposed_provenance::<c::Status>(at);
        // SAFETY: a status stands there; what the call has not written of it is whatever was there, but for the mark.
        let status = unsafe { status.read_unaligned() };
        let Some(peer) = mark::rank_of(status.mark()) else {
            continue;
        };
        if told.contains(&status.mark()) {
            continue;
        }
        area.tell(&Event {
            kind: EventKind::Received,
            peer,
            tag: status.tag,
            context: NO_CONTEXT,
            bytes: status.bytes(),
            mark: status.mark(),
            ..*event
        });
    }
}
