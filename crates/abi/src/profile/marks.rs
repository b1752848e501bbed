//! Marks of messages: by these a timeline knows which message was received, also where calls before it were left out.
//!
//! ```text
//!   sender    enter: the thread has a mark ── PMPI_Send: the engine asks for it ── leave: told as sent, with what it has carried
//!   receiver  enter: marks in statuses are cleared ── PMPI_Recv ── leave: told as received, with the mark in the status
//! ```
//!
//! A small message carries the mark in a word that it has anyway; one that was announced, and a synchronous one, is known by the word of its
//! transfer. One that was held back gets that word when it leaves: it is told as sent with its mark, and later which word that became.
//!
//! The mark belongs to the thread or the fiber that is in the call, and is kept with [what it knows of itself](super::here). So several may send
//! at once, in one engine or in several. A fiber that had to leave its worker before its message was begun, with nothing to wait for, finds
//! that another one may have been there: then its message has no mark, and no arrow.

use std::ffi::c_int;

use weft_atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use weft_launch::profile::layout::{self, EventKind, NOBODY};
use weft_mpi::marks::Marker;

use super::area::{Area, Event};
use super::call::{Call, Kind};
use super::here;
use super::recorder::Recorder;
use super::trampoline::Frame;
use crate::c;
use crate::generated::constants as k;

/// Statuses of one call that are looked at, at most.
const MOST: usize = 4096;

/// Marks of this rank.
#[derive(Default)]
pub struct Marks {
    /// They are used.
    are_used: AtomicBool,
    /// How many there were.
    count: AtomicU64,
    /// Calls under way that have one. Each is counted by the thread that is in it, before its message is begun: whoever finds 0 here has none.
    calls: AtomicU32,
}

impl Marks {
    /// Marks what this rank sends.
    pub fn begin(&self) {
        self.are_used.store(true, Ordering::Relaxed);
    }

    /// Whether marks are used.
    pub fn are_used(&self) -> bool {
        self.are_used.load(Ordering::Relaxed)
    }

    /// How many calls under way have one.
    pub fn calls(&self) -> &AtomicU32 {
        &self.calls
    }

    /// A call that sends begins: its mark; 0 for none. To be [ended](Self::end_call) if it has one.
    pub fn begin_call(&self) -> u64 {
        if !self.are_used() {
            return 0;
        }
        let mark = layout::mark(self.count.fetch_add(1, Ordering::Relaxed));
        here::begin_sending(mark);
        self.calls.fetch_add(1, Ordering::Relaxed);
        mark
    }

    /// The call with this mark has ended: what its message has carried, and in which engine; 0 if that is not known, or it has sent none.
    pub fn end_call(&self, mark: u64) -> (u64, u32) {
        self.calls.fetch_sub(1, Ordering::Relaxed);
        here::end_sending(mark)
    }
}

impl Marker for Recorder {
    fn begins(&self, engine: u32) -> u64 {
        here::begin_message(engine)
    }

    fn carries(&self, word: u64) {
        here::message_carries(word);
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

/// Has a call that is given no array of statuses fill one: it must live until the call has ended, and what it has filled was looked at.
///
/// # Safety
/// The frame is that of the call.
pub unsafe fn lend_statuses(call: &Call, frame: &mut Frame) -> Option<Box<[c::Status]>> {
    if call.kind != Kind::Complete {
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

/// Tells of the marked messages that a call has received.
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
        // SAFETY: a status stands there; what the call has not written of it is whatever was there, but for the mark.
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
