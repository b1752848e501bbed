//! Marks of messages: by these a timeline identifies the received message, even if earlier calls were left
//! out.
//!
//! ```text
//!   sender    enter: the thread has a mark ── PMPI_Send: the engine asks for it ── leave: told as sent, with what it has carried
//!   receiver  enter: marks in statuses are cleared ── PMPI_Recv ── leave: told as received, with the mark in the status
//! ```
//!
//! A small message carries the mark in an existing word; an announced or synchronous message is identified by the word of its transfer. A
//! message that was held back gets that word when it leaves: it is recorded as sent with its mark, and later with the word that replaced it.
//!
//! The mark belongs to the thread or the fiber that is in the call, and is kept with [what it knows of itself](super::thread_state). So several may send
//! at once, in one engine or in several. If a fiber had to leave its worker before its message was begun, without a wait, another fiber may have
//! used the state: then its message has no mark, and no arrow.

use std::ffi::c_int;

use weft_atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use weft_launch::profile::layout::{self, EventKind, NOBODY};
use weft_mpi::marks::Marker;

use super::area::{Area, Event};
use super::call::{Call, CallKind};
use super::recorder::Recorder;
use super::thread_state;
use super::trampoline::Frame;
use crate::c;
use crate::generated::constants as k;

/// Most statuses of one call that are read.
const MOST: usize = 4096;

/// Marks of this rank.
#[derive(Default)]
pub struct Marks {
    /// Whether marks are used.
    are_used: AtomicBool,
    /// How many marks were given.
    count: AtomicU64,
    /// The number of calls under way with a mark. Each is counted by its own thread, before its message is
    /// begun: a thread that finds 0 here has none.
    calls: AtomicU32,
}

impl Marks {
    /// Begins to mark the messages that this rank sends.
    pub fn begin(&self) {
        self.are_used.store(true, Ordering::Relaxed);
    }

    /// Whether marks are used.
    pub fn are_used(&self) -> bool {
        self.are_used.load(Ordering::Relaxed)
    }

    /// The number of calls under way with a mark.
    pub fn calls(&self) -> &AtomicU32 {
        &self.calls
    }

    /// A sending call begins: returns its mark; 0 for none. A call with a mark must be
    /// [ended](Self::end_call).
    pub fn begin_call(&self) -> u64 {
        if !self.are_used() {
            return 0;
        }
        let mark = layout::mark(self.count.fetch_add(1, Ordering::Relaxed));
        thread_state::begin_sending(mark);
        self.calls.fetch_add(1, Ordering::Relaxed);
        mark
    }

    /// The call with this mark has ended: returns the word that its message has carried, and the engine; 0 if
    /// that is unknown, or it has sent none.
    pub fn end_call(&self, mark: u64) -> (u64, u32) {
        self.calls.fetch_sub(1, Ordering::Relaxed);
        thread_state::end_sending(mark)
    }
}

impl Marker for Recorder {
    fn begins(&self, engine: u32) -> u64 {
        thread_state::begin_message(engine)
    }

    fn carries(&self, word: u64) {
        thread_state::message_carries(word);
    }

    fn leaves(&self, engine: u32, (mark, word): (u64, u64)) {
        let Some(area) = self.here() else {
            return;
        };
        let now = self.now();
        area.tell(&Event {
            kind: EventKind::Named,
            site: 0,
            track: area.number as u32,
            begun: now,
            ended: now,
            peer: NOBODY,
            tag: -1,
            context: engine,
            bytes: word,
            mark,
        });
    }
}

/// The address and the number of a call's statuses.
///
/// # Safety
/// The frame is that of the call.
unsafe fn statuses(call: &Call, frame: &Frame) -> (usize, usize) {
    let completes = call.request.number().is_some() || call.requests.number().is_some();
    // Other calls read their status, or send.
    let receives = matches!(call.kind, CallKind::Receive | CallKind::Exchange);
    if !(receives || completes && call.kind == CallKind::Complete) {
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
                    address if count <= MOST => (address, count),
                    _ => (0, 0),
                }
            }
            _ => (0, 0),
        }
    }
}

/// Clears the marks in the statuses that a call will fill, as it may fill only some.
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
        // SAFETY: a status is there, which the call may write.
        unsafe { word.write_unaligned(0) };
    }
}

/// Lends an array of statuses to a call that was given none: it must live until the call has ended, and its
/// contents were read.
///
/// # Safety
/// The frame is that of the call.
pub unsafe fn lend_statuses(call: &Call, frame: &mut Frame) -> Option<Box<[c::Status]>> {
    if call.kind != CallKind::Complete {
        return None;
    }
    // SAFETY: the call has these arguments.
    unsafe {
        let place = call.statuses.number()?;
        let count = usize::try_from(frame.argument(call.length.number()?) as c_int).ok()?;
        if frame.argument(place) != 0 || count == 0 || count > MOST {
            return None;
        }
        let empty = c::Status::new(k::MPI_ANY_SOURCE, k::MPI_ANY_TAG);
        let mut lent = vec![empty; count].into_boxed_slice();
        frame.set_argument(place, lent.as_mut_ptr().expose_provenance() as u64);
        Some(lent)
    }
}

/// Records the marked messages that a call has received.
///
/// # Safety
/// The frame is that of the call, which has ended.
pub unsafe fn tell(call: &Call, frame: &Frame, event: &Event, area: &Area) {
    // SAFETY: as the caller promises.
    let (first, count) = unsafe { statuses(call, frame) };
    if first == 0 {
        return;
    }
    for number in 0..count {
        let at = first + number * size_of::<c::Status>();
        let status = std::ptr::with_exposed_provenance::<c::Status>(at);
        // SAFETY: a status is there; the parts that the call has not written hold earlier contents, except
        // for the mark.
        let status = unsafe { status.read_unaligned() };
        let mark = status.mark();
        if mark.word == 0 {
            continue;
        }
        area.tell(&Event {
            kind: EventKind::Received,
            peer: mark.from,
            tag: status.tag,
            context: mark.engine,
            bytes: status.bytes(),
            mark: mark.word,
            ..*event
        });
    }
}
