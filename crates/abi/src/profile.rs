//! Profile of the program: which calls it makes where, how long they take, and for whom they wait (`mpiexec --profile`,
//! `mpiexec --timeline`).
//!
//! ```text
//!   MPI_X ──jmp──► word ──► PMPI_X                  not asked for: the word is never written
//!                    └────► trampoline ──► PMPI_X         asked for: enter, call, leave
//!                             │
//!                             └─► memory of this rank, made and later read by the launcher
//! ```
//!
//! Each thread writes into an area of its own ([`weft_launch::profile::layout`]), by plain stores: whatever ends the process, what it
//! has written is there. Calls that end quickly and are made often are counted, and every 32nd is timed; what they wait for is
//! timed by the engine ([`weft_mpi::wait_times`]). For a timeline each call is timed. Calls that are made so often that this would cost more than
//! a few hundredths of the time are recorded in [`slices`], and only counted between them.
//!
//! | module | what |
//! |---|---|
//! | [`call`] | what is known of a call |
//! | [`trampoline`] | the code between the entry point and the call |
//! | [`slices`] | when frequent calls are recorded |
//! | [`area`] | what a thread writes |
//! | [`messages`] | receives under way, for arrows from sends to receives |
//! | [`marks`] | which message was received |
//! | [`naming`] | places of call sites, once nothing is urgent |
//!
//! # Safety
//! `enter` and `leave` are called by the trampoline alone, with its frame, which lives until the call has returned. Addresses among the
//! arguments are the caller's, who keeps the promises of the C binding.

pub mod area;
pub mod call;
mod marks;
pub mod messages;
mod naming;
pub mod slices;
pub mod trampoline;

use std::sync::OnceLock;

use weft_atomic::{AtomicU64, Ordering};
use weft_launch::profile::ProfileMemory;
use weft_launch::profile::layout::{Cause, EventKind, NOBODY};
use weft_mpi::wait_times::{Awaits, BegunWait, WaitListener};
use weft_sys::call_site::{CallSite, EntryPoint};

use crate::c;
use crate::check;
use crate::generated::constants as k;
use crate::generated::profiled::CALLS;
use crate::state::{self, Runtime};
use area::{Event, Token};
use call::{Call, Kind, Place};
use messages::Watched;
use trampoline::Frame;

pub use area::Recorder;

/// Requests that take a timeline as long as a simple call does.
const REQUESTS_OF_COST: u32 = 4;

static RECORDER: OnceLock<Recorder> = OnceLock::new();

/// Begins to record, if the launcher has asked for it. Before the variables that it has set are removed.
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

/// Has the engine tell of waits, if anything is recorded.
pub fn listen(runtime: &Runtime) {
    if let Some(recorder) = RECORDER.get() {
        runtime.process.time_waits(recorder);
        if recorder.timeline && runtime.thread_level != k::MPI_THREAD_MULTIPLE {
            recorder.marks.begin(runtime.process.me().0);
        }
    }
}

/// Several threads may call from now on.
pub fn several_threads_call() {
    if let Some(recorder) = RECORDER.get() {
        recorder.marks.end();
    }
}

/// Names the places of calls: the rank ends, or is about to end the job.
pub fn finish() {
    if let Some(recorder) = RECORDER.get() {
        recorder.tell_left_out();
        recorder.name_sites();
    }
}

/// The bytes that a call's arguments speak of.
///
/// # Safety
/// The frame is that of the call.
#[inline]
unsafe fn bytes_of(call: &Call, frame: &Frame) -> u64 {
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

/// How many simple calls a call costs as much as: a timeline looks at each request, and at each status.
///
/// # Safety
/// The frame is that of the call.
#[inline]
unsafe fn cost_of(recorder: &Recorder, call: &Call, frame: &Frame) -> u32 {
    let Some(place) = call.length.number().filter(|_| recorder.timeline) else {
        return 1;
    };
    // SAFETY: the call has this argument.
    let requests = unsafe { frame.argument(place) } as i32;
    u32::try_from(requests).map_or(1, |requests| 1 + requests / REQUESTS_OF_COST)
}

/// A call begins. Answers what is to be called.
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
    frame.watched = std::ptr::null_mut();
    frame.mark = 0;
    let whole = call.whole.0.addr();
    let Some(recorder) = RECORDER.get() else {
        return whole;
    };
    let Some((area, site)) = recorder.site(frame.back, number) else {
        return whole;
    };
    if call.kind != Kind::Collective {
        area.record(number, recorder.slices.number());
        // SAFETY: the frame is that of the call.
        let cost = unsafe { cost_of(recorder, call, frame) };
        if recorder.slices.spend(cost) {
            recorder.slices.spent(recorder, area);
        }
    }
    // SAFETY: the frame is that of the call.
    let bytes = unsafe { bytes_of(call, frame) };
    area.count(site, bytes);
    if call.kind == Kind::Collective {
        // SAFETY: as above.
        frame.arrival = unsafe { arrival(recorder, area, call, frame) };
    }
    let timed = recorder.timeline || frame.arrival != u64::MAX || area.is_due(site);
    // SAFETY: as above.
    let plain = !timed && recorder.slices.are_whole() && unsafe { knows_its_source(call, frame) };
    let slice = recorder.slices.number();
    let token = Token::new(area.number, site, (timed, plain), slice);
    frame.token = token.0;
    area::set_current(token);
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
    area::set_current(Token::NONE);
    let token = Token(frame.token);
    let (Some(recorder), Some(site)) = (RECORDER.get(), token.site()) else {
        return;
    };
    let area = recorder.area(token.area());
    let call = &CALLS[frame.call as u32 as usize];
    let (unknown, slept, context) = area::take_unknown();
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

/// The number of a collective on its communicator, if arrivals at it are kept.
///
/// # Safety
/// The frame is that of the call.
unsafe fn arrival(recorder: &Recorder, area: &area::Area, call: &Call, frame: &mut Frame) -> u64 {
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
    let number = recorder.next_collective(context);
    match area.keeps_arrival(number) {
        true => u64::from(context) << 32 | u64::from(number),
        false => u64::MAX,
    }
}

/// Whether the status of the call says nothing of a sender that was waited for.
///
/// # Safety
/// The frame is that of the call.
#[inline]
unsafe fn knows_its_source(call: &Call, frame: &Frame) -> bool {
    match call.source.number() {
        // SAFETY: the call has this argument.
        Some(place) => unsafe { frame.argument(place) as i32 != k::MPI_ANY_SOURCE },
        None => call.kind != Kind::Complete || call.status == Place::NONE,
    }
}

/// Gives the call a status to fill if it was given none, where its source counts.
///
/// # Safety
/// The frame is that of the call.
#[inline]
unsafe fn want_status(call: &Call, frame: &mut Frame) {
    let Some(place) = call.status.number() else {
        return;
    };
    let wanted = matches!(call.kind, Kind::Complete | Kind::Receive) || call.source != Place::NONE;
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
unsafe fn status_of(call: &Call, frame: &Frame) -> Option<c::Status> {
    // SAFETY: the call has this argument: null, or the address of a status.
    unsafe {
        let address = frame.argument(call.status.number()?) as usize;
        let status = std::ptr::with_exposed_provenance::<c::Status>(address);
        (!status.is_null()).then(|| status.read_unaligned())
    }
}

/// Who has sent what a call has waited for on the communicator with this context, as a number in the job.
///
/// # Safety
/// The frame is that of the call.
unsafe fn source_of(call: &Call, frame: &Frame, context: u32) -> u32 {
    // SAFETY: as the caller promises.
    let Some(status) = (unsafe { status_of(call, frame) }) else {
        return NOBODY;
    };
    state::comm_of_context(context).map_or(NOBODY, |(_, comm)| {
        messages::number_in_job(&comm, status.source)
    })
}

/// What a call sends is marked, and what it is to receive is noted.
///
/// # Safety
/// The frame is that of the call.
unsafe fn begin_messages(recorder: &Recorder, call: &Call, frame: &mut Frame) {
    if matches!(call.kind, Kind::Send | Kind::Exchange | Kind::Start) {
        frame.mark = recorder.marks.set();
    }
    if call.kind == Kind::Complete {
        // SAFETY: as the caller promises.
        let watched = unsafe { Watched::of(recorder, call, frame) };
        if let Some(watched) = watched {
            frame.watched = Box::into_raw(Box::new(watched));
        }
    }
    if recorder.marks.are_used() {
        // SAFETY: as above.
        unsafe { marks::clear(call, frame) };
    }
}

/// What a call has sent, if anything.
///
/// # Safety
/// The frame is that of the call, which has ended.
unsafe fn sent(call: &Call, frame: &Frame, event: &Event, bytes: u64) -> Option<Event> {
    let mark = match frame.mark {
        0 => 0,
        _ => marks::take(),
    };
    let told = Event {
        kind: EventKind::Sent,
        ended: event.begun,
        mark,
        ..*event
    };
    match call.kind {
        Kind::Send | Kind::Exchange => {
            // SAFETY: as the caller promises.
            let sent = unsafe { messages::envelope(call, frame, true) }?;
            Some(Event {
                peer: sent.peer,
                tag: sent.tag,
                context: sent.context,
                bytes,
                ..told
            })
        }
        // To whom, and how much, the request knows.
        Kind::Start if mark != 0 => Some(Event {
            bytes: u64::MAX,
            ..told
        }),
        _ => None,
    }
}

/// What a call has received is noted, and the call itself.
///
/// # Safety
/// The frame is that of the call.
unsafe fn end_messages(
    recorder: &Recorder,
    (call, site): (&Call, usize),
    frame: &mut Frame,
    ended: u64,
) {
    // The thread that it ends on.
    let Some(area) = recorder.here() else {
        if frame.mark != 0 {
            marks::take();
        }
        return;
    };
    let track = area::track(area);
    let mut event = Event {
        kind: EventKind::Call,
        site,
        track,
        begun: frame.begun,
        ended,
        peer: NOBODY,
        tag: -1,
        context: 0,
        bytes: 0,
        mark: 0,
    };
    let receives = matches!(call.kind, Kind::Receive | Kind::Exchange);
    // SAFETY: as the caller promises.
    unsafe {
        let bytes = bytes_of(call, frame);
        if let Some(sent) = sent(call, frame, &event, bytes) {
            area.tell(&sent);
        }
        event.bytes = bytes;
        let named = messages::envelope(call, frame, call.dest.number().is_some());
        if let Some(named) = named {
            (event.peer, event.tag, event.context) = (named.peer, named.tag, named.context);
        }
        let mut told = Vec::new();
        if receives && let Some(received) = messages::received(call, frame) {
            if call.kind == Kind::Receive {
                (event.peer, event.tag) = (received.peer, received.tag);
                event.bytes = received.bytes;
            }
            area.tell(&Event {
                kind: EventKind::Received,
                peer: received.peer,
                tag: received.tag,
                context: received.context,
                bytes: received.bytes,
                mark: received.mark,
                ..event
            });
            told.push(received.mark);
        }
        if call.kind == Kind::BeginReceive && recorder.slices.are_whole() {
            recorder.pending.begin(call, frame);
        }
        if !frame.watched.is_null() {
            let watched = Box::from_raw(frame.watched);
            frame.watched = std::ptr::null_mut();
            told.extend(watched.end(recorder, call, frame, &event, area));
            if recorder.marks.are_used() {
                marks::tell(call, frame, (&event, area), &told);
            }
            // Statuses of its own live until here.
            drop(watched);
        } else if recorder.marks.are_used() {
            marks::tell(call, frame, (&event, area), &told);
        }
    }
    area.tell(&event);
}

/// Why a call has waited, and for whom.
fn cause_of(awaited: Awaits) -> (Cause, u32) {
    match awaited {
        Awaits::Message(from) => (Cause::LateSender, from),
        Awaits::Anybody(_) => (Cause::LateSender, NOBODY),
        Awaits::Receiver(by) => (Cause::LateReceiver, by),
        Awaits::Data(from) => (Cause::Transfer, from.unwrap_or(NOBODY)),
        Awaits::Collective => (Cause::Collective, NOBODY),
        Awaits::Window => (Cause::Window, NOBODY),
        Awaits::Other => (Cause::Other, NOBODY),
    }
}

impl Recorder {
    /// A call that was left out has slept long: that is told all the same, once its place is found.
    #[cold]
    fn note_sleep(&self, (slept, since): (u64, u64), awaited: Awaits) {
        // The thread has slept for any of its fibers.
        if weft_fiber::is_fiber() {
            return;
        }
        let (Some(area), Some(back)) = (
            self.here(),
            CallSite::of_caller().and_then(|site| site.address()),
        ) else {
            return;
        };
        let found = area.site_at(back).or_else(|| {
            let name = EntryPoint::of_caller()?.name()?;
            let call = CALLS.iter().position(|call| call.name == name)?;
            self.site(back as u64, call).map(|(_, site)| site)
        });
        let Some(site) = found else {
            return;
        };
        area.wait_left_out(site, slept);
        area.add_wait(site, cause_of(awaited), (slept, slept));
        if !self.timeline {
            return;
        }
        let (cause, peer) = cause_of(awaited);
        let ended = self.now();
        let wait = Event {
            kind: EventKind::Waited,
            site,
            track: area::track(area),
            begun: since,
            ended,
            peer,
            tag: cause as i32,
            context: 0,
            bytes: 0,
            mark: 0,
        };
        area.tell(&wait);
        area.tell(&Event {
            kind: EventKind::Call,
            tag: -1,
            ..wait
        });
    }
}

impl WaitListener for Recorder {
    fn begun(&self) -> BegunWait {
        let token = area::begin_wait(&self.slices);
        BegunWait {
            call: token.0 as usize,
            time: match token {
                // Only long sleeps of a call that is left out are told.
                Token::NONE => 0,
                _ => self.now(),
            },
        }
    }

    fn ended(&self, wait: BegunWait, awaited: Awaits) {
        let token = Token(wait.call as u64);
        let (slept, since) = area::end_wait(token);
        let Some(site) = token.site() else {
            if slept != 0 {
                self.note_sleep((slept, since), awaited);
            }
            return;
        };
        let now = self.now();
        let ticks = now.saturating_sub(wait.time);
        let slept = slept.min(ticks);
        let area = self.area(token.area());
        let (cause, peer) = cause_of(awaited);
        area.wait(site, token.is_timed(), (ticks, slept));
        match awaited {
            // The call knows when it ends.
            Awaits::Anybody(context) if !token.is_plain() => {
                area::add_unknown(ticks, slept, context);
            }
            _ => area.add_wait(site, (cause, peer), (ticks, slept)),
        }
        if self.timeline
            && let Some(area) = self.here()
        {
            area.tell(&Event {
                kind: EventKind::Waited,
                site,
                track: area::track(area),
                begun: wait.time,
                ended: now,
                peer,
                tag: cause as i32,
                context: 0,
                bytes: 0,
                mark: 0,
            });
        }
    }

    fn now(&self) -> u64 {
        Recorder::now(self)
    }

    fn slept(&self, since: u64) {
        let is_told = area::add_slept(since, self.now());
        if self.timeline
            && is_told
            && let Some(area) = self.here()
        {
            area.tell(&Event {
                kind: EventKind::Slept,
                site: 0,
                track: area::track(area),
                begun: since,
                ended: self.now(),
                peer: NOBODY,
                tag: -1,
                context: 0,
                bytes: 0,
                mark: 0,
            });
        }
    }
}

/// Adds to a word that this thread alone writes.
#[inline]
fn add(word: &AtomicU64, by: u64) {
    word.store(
        word.load(Ordering::Relaxed).wrapping_add(by),
        Ordering::Relaxed,
    );
}
