//! Profile of the program: its calls and their places, how long they take, and which ranks they wait for (`mpiexec
//! --profile`, `mpiexec --timeline`).
//!
//! ```text
//!   MPI_X ──jmp──► word ──► PMPI_X                  not asked for: the word is never written
//!                    └────► trampoline ──► PMPI_X         asked for: enter, call, leave
//!                             │
//!                             └─► memory of this rank, made and later read by the launcher
//! ```
//!
//! Each thread writes into its own area ([`weft_launch::profile::layout`]), by plain stores: however the process ends, what it has written is
//! kept. Calls that are quick and frequent are counted, and every 32nd is timed; the engine times their waits ([`weft_mpi::wait_times`]). For a
//! timeline each call is timed. Calls that are made so often that this would cost more than a few hundredths of the time are recorded in
//! [`slices`], and only counted between them.
//!
//! | module | what |
//! |---|---|
//! | [`call`] | the knowledge about a call |
//! | [`trampoline`] | the code between the entry point and the call |
//! | [`arguments`] | what the arguments of a call say |
//! | [`token`] | a call under way, as a word |
//! | [`thread_state`] | the knowledge of a thread about itself |
//! | [`area`] | what a thread writes |
//! | [`recorder`] | the memory of the rank, and what its threads share |
//! | [`collectives`] | numbers of collectives |
//! | [`slices`] | when frequent calls are recorded |
//! | [`waits`] | the waits that the engine reports |
//! | [`messages`] | what calls send and receive, by their arguments |
//! | [`marks`] | which message was received |
//! | [`naming`] | places of call sites, once nothing is urgent |
//!
//! # Safety
//! `enter` and `leave` are called by the trampoline alone, with its frame, which lives until the call has returned. Addresses among the
//! arguments come from the caller, who keeps the promises of the C binding.

pub mod area;
mod arguments;
pub mod call;
mod collectives;
mod marks;
pub mod messages;
mod naming;
mod recorder;
pub mod slices;
mod thread_state;
mod token;
pub mod trampoline;
mod waits;

use std::ffi::c_int;
use std::sync::OnceLock;

use weft_atomic::{AtomicU64, Ordering};
use weft_launch::profile::ProfileMemory;
use weft_launch::profile::layout::{Cause, EventKind, NOBODY};
use weft_sys::call_site::{self, CallSite};

use crate::generated::constants as k;
use crate::generated::profiled::CALLS;
use crate::state::{self, Runtime};
use area::Event;
use arguments::{arrival, bytes_of, cost_of, knows_its_source, source_of, want_status};
use call::{Call, CallKind};
use token::Token;
use trampoline::Frame;

pub use recorder::Recorder;

static RECORDER: OnceLock<Recorder> = OnceLock::new();

/// Begins to record, if the launcher has requested it. To be called before the launcher's variables are
/// removed.
pub fn begin() {
    let Some(memory) = ProfileMemory::inherited() else {
        return;
    };
    if trampoline::stub(0).is_none() {
        state::warn(
            "weft: --profile and --timeline are for x86-64 so far; this program is not recorded\n",
        );
        return;
    }
    let Some(recorder) = Recorder::new(memory) else {
        return;
    };
    if RECORDER.set(recorder).is_ok() {
        for (number, call) in CALLS.iter().enumerate() {
            if let Some(stub) = trampoline::stub(number) {
                call.target.store(stub, Ordering::Relaxed);
            }
        }
    }
}

/// Makes the engine report waits, if anything is recorded.
pub fn listen(runtime: &Runtime) {
    if let Some(recorder) = RECORDER.get() {
        runtime.process.time_waits(recorder);
        if recorder.timeline {
            recorder.marks.begin();
            let calls = recorder.marks.calls();
            runtime.process.mark_sends(calls, recorder);
        }
    }
}

/// Sets whether only one thread of the program makes calls from now on, except calls that any thread may
/// make.
pub fn one_thread_calls(does: bool) {
    if let Some(recorder) = RECORDER.get() {
        recorder.set_one_thread_calls(does);
    }
}

/// Names the places of calls, when the rank ends or is about to end the job.
pub fn finish() {
    if let Some(recorder) = RECORDER.get() {
        recorder.tell_left_out();
        naming::name_sites(recorder);
    }
}

/// The place in the program of a call that returns to `back`: if that is in a library that translates calls (for programs of MPICH's ABI,
/// and in Fortran), the place of that library's caller. Not on a fiber, whose stack may have no room for that.
#[inline]
fn program_place(back: u64) -> u64 {
    if !call_site::is_in_translation(back as usize) || weft_fiber::is_fiber() {
        return back;
    }
    let place = CallSite::of_return().and_then(|site| site.address());
    place.map_or(back, |place| place as u64)
}

/// A call begins. Returns the function to be called.
///
/// # Safety
/// See the [module page](self).
unsafe extern "C" fn enter(frame: *mut Frame) -> usize {
    // SAFETY: the trampoline's, which waits for us.
    let frame = unsafe { &mut *frame };
    let number = frame.call as u32 as usize;
    let call = &CALLS[number];
    frame.count = u64::from(call.arguments.saturating_sub(6));
    frame.begun = 0;
    frame.token = 0;
    frame.plain = 0;
    frame.arrival = u64::MAX;
    frame.lent = std::ptr::null_mut();
    frame.mark = 0;
    let whole = call.whole.0.addr();
    let Some(recorder) = RECORDER.get() else {
        return whole;
    };
    let Some((area, site)) = recorder.site(program_place(frame.back), number) else {
        return whole;
    };
    if call.kind != CallKind::Collective {
        area.record(number, recorder.slices.number());
        // SAFETY: the frame is that of the call.
        let cost = unsafe { cost_of(recorder, call, frame) };
        if recorder.slices.spend(cost) {
            recorder.slices.spent(recorder);
        }
    }
    // SAFETY: the frame is that of the call.
    let bytes = unsafe { bytes_of(call, frame) };
    area.count(site, bytes);
    if call.kind == CallKind::Collective {
        // SAFETY: as above.
        frame.arrival = unsafe { arrival(recorder, area, call, frame) };
    }
    let timed = recorder.timeline || frame.arrival != u64::MAX || area.is_due(site);
    // SAFETY: as above.
    let plain = !timed && recorder.slices.are_whole() && unsafe { knows_its_source(call, frame) };
    let slice = recorder.slices.number();
    let token = Token::new(area.number, site, (timed, plain), slice);
    frame.token = token.0;
    thread_state::set_current(token);
    if plain {
        frame.plain = 1;
        return whole;
    }
    // SAFETY: as above.
    unsafe { want_status(call, frame) };
    if timed {
        frame.begun = recorder.now();
        if recorder.timeline {
            // SAFETY: as above.
            unsafe { begin_messages(recorder, call, frame) };
        }
    }
    whole
}

/// A call has ended.
///
/// # Safety
/// See the [module page](self).
unsafe extern "C" fn leave(frame: *mut Frame) {
    // SAFETY: the trampoline's, which waits for us.
    let frame = unsafe { &mut *frame };
    thread_state::set_current(Token::NONE);
    let token = Token(frame.token);
    let (Some(recorder), Some(site)) = (RECORDER.get(), token.site()) else {
        return;
    };
    let area = recorder.area(token.area());
    let call = &CALLS[frame.call as u32 as usize];
    let (unknown, slept, context) = thread_state::take_unknown();
    if unknown != 0 {
        // SAFETY: the frame is that of the call, which has succeeded or not.
        let peer = unsafe { source_of(call, frame, context) };
        area.add_wait(site, (Cause::LateSender, peer), (unknown, slept));
    }
    if frame.begun == 0 {
        return;
    }
    let ended = recorder.now();
    let ticks = ended.saturating_sub(frame.begun);
    area.time(site, ticks);
    if frame.arrival != u64::MAX {
        area.arrive((frame.arrival, frame.leader), frame.begun, ticks, site);
    }
    if recorder.timeline {
        // SAFETY: as above.
        unsafe { end_messages(recorder, (call, site), frame, ended) };
    }
}

/// Marks the message that a call sends, and prepares to identify the one that it receives.
///
/// # Safety
/// The frame is that of the call.
unsafe fn begin_messages(recorder: &Recorder, call: &Call, frame: &mut Frame) {
    if !recorder.marks.are_used() {
        return;
    }
    if matches!(
        call.kind,
        CallKind::Send | CallKind::Exchange | CallKind::Start
    ) {
        frame.mark = recorder.marks.begin_call();
    }
    // SAFETY: as the caller promises.
    unsafe {
        if let Some(lent) = marks::lend_statuses(call, frame) {
            frame.lent = Box::into_raw(Box::new(lent));
        }
        marks::clear(call, frame);
    }
}

/// The message that a call has sent, if any.
///
/// # Safety
/// The frame is that of the call, which has ended.
unsafe fn sent(recorder: &Recorder, call: &Call, frame: &Frame, event: &Event) -> Option<Event> {
    if frame.mark == 0 {
        return None;
    }
    let (mark, engine) = recorder.marks.end_call(frame.mark);
    if mark == 0 {
        return None;
    }
    // SAFETY: as the caller promises. For a started persistent request, destination and size are known from
    // the request.
    let named = unsafe { messages::envelope(call, frame, true) };
    let (peer, tag) = named.map_or((NOBODY, -1), |named| (named.peer, named.tag));
    Some(Event {
        kind: EventKind::Sent,
        ended: event.begun,
        peer,
        tag,
        context: engine,
        bytes: match call.kind {
            CallKind::Start => u64::MAX,
            _ => event.bytes,
        },
        mark,
        ..*event
    })
}

/// Records what a call has received, and the call itself.
///
/// # Safety
/// The frame is that of the call.
unsafe fn end_messages(
    recorder: &Recorder,
    (call, site): (&Call, usize),
    frame: &mut Frame,
    ended: u64,
) {
    // SAFETY: as the caller promises.
    let bytes = unsafe { bytes_of(call, frame) };
    let mut event = Event {
        kind: EventKind::Call,
        site,
        track: 0,
        begun: frame.begun,
        ended,
        peer: NOBODY,
        tag: -1,
        context: 0,
        bytes,
        mark: 0,
    };
    // SAFETY: as the caller promises. Lent statuses live until all have been read.
    let (sent, lent) = unsafe {
        let lent = (!frame.lent.is_null()).then(|| Box::from_raw(frame.lent));
        (sent(recorder, call, frame, &event), lent)
    };
    frame.lent = std::ptr::null_mut();
    // The area of the thread on which it ends.
    let Some(area) = recorder.here() else {
        return;
    };
    event.track = area::track(area);
    if let Some(sent) = sent {
        area.tell(&Event {
            track: event.track,
            ..sent
        });
    }
    // SAFETY: as the caller promises.
    unsafe {
        let named = messages::envelope(call, frame, call.dest.number().is_some());
        if let Some(named) = named {
            (event.peer, event.tag, event.context) = (named.peer, named.tag, named.context);
        }
        if call.kind == CallKind::Receive
            && let Some(received) = messages::received(call, frame)
        {
            (event.peer, event.tag) = (received.peer, received.tag);
            event.bytes = received.bytes;
        }
        if recorder.marks.are_used() && frame.result as c_int == k::MPI_SUCCESS {
            marks::tell(call, frame, &event, area);
        }
    }
    drop(lent);
    area.tell(&event);
}

/// Adds to a word that this thread alone writes.
#[inline]
fn add(word: &AtomicU64, by: u64) {
    word.store(
        word.load(Ordering::Relaxed).wrapping_add(by),
        Ordering::Relaxed,
    );
}
