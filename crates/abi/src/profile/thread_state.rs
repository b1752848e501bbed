//! Thread state: the profile state of the calling thread: its area, its present call, and the waits in that call.

use std::cell::Cell;

use weft_fiber::Fiber;

use super::area::Area;
use super::slices::Slices;
use super::token::Token;

/// Ticks from which a sleep is reported even for calls that are left out: about a tenth of a millisecond.
const LONG: u64 = 300_000;

thread_local! {
    static THREAD_STATE: ThreadState = const {
        ThreadState { area: Cell::new(None), left_out: Cell::new(false), token: Cell::new(0), unknown: Cell::new((0, 0, 0)),
            slept: Cell::new((0, 0)), is_recorded: Cell::new(false), sending: Cell::new(Sending::NOTHING) }
    };
}

/// The profile state of a thread.
struct ThreadState {
    area: Cell<Option<&'static Area>>,
    left_out: Cell<bool>,
    /// Its present call, until it waits.
    token: Cell<u64>,
    /// Ticks that it has waited in the call for a sender that is not known yet, those of long sleeps, and the
    /// context of the communicator.
    unknown: Cell<(u64, u64, u32)>,
    /// Ticks of long sleeps of its wait, and when the first of them began.
    slept: Cell<(u64, u64)>,
    /// Whether it waits in a call that is recorded.
    is_recorded: Cell<bool>,
    /// The message that its call sends.
    sending: Cell<Sending>,
}

/// A message that the present call will send or has sent.
#[derive(Clone, Copy)]
struct Sending {
    /// The fiber that sends it, if any.
    fiber: Option<Fiber>,
    /// The mark of the call; 0 if there is none.
    mark: u64,
    /// The word that the message carries; 0 while it is not begun.
    word: u64,
    /// The engine that sends it.
    engine: u32,
}

impl Sending {
    const NOTHING: Self = Self {
        fiber: None,
        mark: 0,
        word: 0,
        engine: 0,
    };
}

/// The area of the calling thread, if it has one.
#[inline]
pub fn area() -> Option<&'static Area> {
    THREAD_STATE.with(|here| here.area.get())
}

/// Sets the area of the calling thread; `None`: it gets none.
pub fn set_area(area: Option<&'static Area>) {
    THREAD_STATE.with(|here| {
        here.area.set(area);
        here.left_out.set(area.is_none());
    });
}

/// Whether the calling thread gets no area.
pub fn is_left_out() -> bool {
    THREAD_STATE.with(|here| here.left_out.get())
}

/// Sets the present call of the calling thread.
#[inline]
pub fn set_current(token: Token) {
    THREAD_STATE.with(|here| here.token.set(token.0));
}

/// The caller is in a call whose message shall have this mark.
pub fn begin_sending(mark: u64) {
    THREAD_STATE.with(|here| {
        here.sending.set(Sending {
            fiber: weft_fiber::current(),
            mark,
            ..Sending::NOTHING
        });
    });
}

/// The caller begins a message in this engine: returns the mark of its call, for the first message.
pub fn begin_message(engine: u32) -> u64 {
    THREAD_STATE.with(|here| {
        let sending = here.sending.get();
        if sending.mark == 0 || sending.word != 0 || sending.fiber != weft_fiber::current() {
            return 0;
        }
        here.sending.set(Sending {
            word: sending.mark,
            engine,
            ..sending
        });
        sending.mark
    })
}

/// The message that the caller has just begun carries this word instead of the mark.
pub fn message_carries(word: u64) {
    THREAD_STATE.with(|here| {
        here.sending.set(Sending {
            word,
            ..here.sending.get()
        });
    });
}

/// The call with this mark has ended: returns the word that its message has carried, and the engine; 0 if
/// there was no message, or other calls have replaced it.
pub fn end_sending(mark: u64) -> (u64, u32) {
    THREAD_STATE.with(|here| {
        let sending = here.sending.get();
        if sending.mark != mark || sending.fiber != weft_fiber::current() {
            return (0, 0);
        }
        here.sending.set(Sending::NOTHING);
        (sending.word, sending.engine)
    })
}

/// The calling thread's recorded call, which begins to wait, and its message. From now on the thread is in no
/// call: it may run another fiber.
pub fn begin_wait(slices: &Slices) -> (Token, [u64; 3]) {
    THREAD_STATE.with(|here| {
        let token = match Token(here.token.replace(0)) {
            stale if stale.is_stale(slices.number(), slices.are_whole()) => Token::NONE,
            token => token,
        };
        here.is_recorded.set(token != Token::NONE);
        let sending = here.sending.replace(Sending::NOTHING);
        // The state of a fiber that has left is lost.
        let is_own = sending.mark != 0 && sending.fiber == weft_fiber::current();
        let message = match is_own {
            true => [sending.mark, sending.word, sending.engine.into()],
            false => [0; 3],
        };
        (token, message)
    })
}

/// The calling thread has waited for a sender that its call will find out.
pub fn add_unknown(ticks: u64, slept: u64, context: u32) {
    THREAD_STATE.with(|here| {
        let (before, slept_before, _) = here.unknown.get();
        here.unknown
            .set((before + ticks, slept_before + slept, context));
    });
}

/// The calling thread has slept. Returns whether a timeline reports that.
pub fn add_slept(since: u64, now: u64) -> bool {
    let ticks = now.saturating_sub(since);
    THREAD_STATE.with(|here| {
        if ticks >= LONG {
            here.slept.set(match here.slept.get() {
                (0, _) => (ticks, since),
                (before, first) => (before + ticks, first),
            });
        }
        ticks >= LONG || here.is_recorded.get()
    })
}

/// The calling thread has waited and is in this call again, with this message. Returns the ticks of its long
/// sleeps, and when the first of them began.
pub fn end_wait(token: Token, [mark, word, engine]: [u64; 3]) -> (u64, u64) {
    THREAD_STATE.with(|here| {
        here.token.set(token.0);
        if mark != 0 {
            here.sending.set(Sending {
                fiber: weft_fiber::current(),
                mark,
                word,
                engine: engine as u32,
            });
        }
        here.is_recorded.set(false);
        here.slept.replace((0, 0))
    })
}

/// Takes the wait for an unknown sender: its ticks, those of long sleeps, and the context of the
/// communicator.
#[inline]
pub fn take_unknown() -> (u64, u64, u32) {
    THREAD_STATE.with(|here| {
        let unknown = here.unknown.get();
        if unknown.0 != 0 {
            here.unknown.set((0, 0, 0));
        }
        unknown
    })
}
