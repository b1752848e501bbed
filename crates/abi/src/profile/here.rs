//! Here: what the calling thread knows of itself: its area, the call that it is in, and what it has waited in that.

use std::cell::Cell;

use weft_fiber::Fiber;

use super::area::Area;
use super::slices::Slices;
use super::token::Token;

/// Ticks of a sleep that is told whoever sleeps: about a tenth of a millisecond.
const LONG: u64 = 300_000;

thread_local! {
    static HERE: Here = const {
        Here { area: Cell::new(None), left_out: Cell::new(false), token: Cell::new(0), unknown: Cell::new((0, 0, 0)),
            slept: Cell::new((0, 0)), is_recorded: Cell::new(false), sending: Cell::new(Sending::NOTHING) }
    };
}

/// What a thread knows of itself.
struct Here {
    area: Cell<Option<&'static Area>>,
    left_out: Cell<bool>,
    /// The call that it is in, until it waits.
    token: Cell<u64>,
    /// Ticks that it has waited in that for a sender that is not known yet, those of long sleeps, and the context of the communicator.
    unknown: Cell<(u64, u64, u32)>,
    /// Ticks of long sleeps of its wait, and when the first of them began.
    slept: Cell<(u64, u64)>,
    /// It waits in a call that is recorded.
    is_recorded: Cell<bool>,
    /// The message that its call sends.
    sending: Cell<Sending>,
}

/// A message that a call is to send, or has sent, under way.
#[derive(Clone, Copy)]
struct Sending {
    /// Whose it is, of those that run on the thread.
    fiber: Option<Fiber>,
    /// The mark of the call; 0 if there is none.
    mark: u64,
    /// What the message carries; 0 while it is not begun.
    word: u64,
    /// The engine that it goes by.
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
    HERE.with(|here| here.area.get())
}

/// The calling thread has this area from now on; `None`: it gets none.
pub fn set_area(area: Option<&'static Area>) {
    HERE.with(|here| {
        here.area.set(area);
        here.left_out.set(area.is_none());
    });
}

/// Whether the calling thread gets no area.
pub fn is_left_out() -> bool {
    HERE.with(|here| here.left_out.get())
}

/// The calling thread is in this call.
#[inline]
pub fn set_current(token: Token) {
    HERE.with(|here| here.token.set(token.0));
}

/// The caller is in a call whose message is to have this mark.
pub fn begin_sending(mark: u64) {
    HERE.with(|here| {
        here.sending.set(Sending {
            fiber: weft_fiber::current(),
            mark,
            ..Sending::NOTHING
        });
    });
}

/// The caller begins a message in this engine: the mark of its call, for the first one.
pub fn begin_message(engine: u32) -> u64 {
    HERE.with(|here| {
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

/// The message that the caller has just begun carries this word in place of the mark.
pub fn message_carries(word: u64) {
    HERE.with(|here| {
        here.sending.set(Sending {
            word,
            ..here.sending.get()
        });
    });
}

/// The call with this mark has ended: what its message has carried, and in which engine; 0 if there was none, or others were here.
pub fn end_sending(mark: u64) -> (u64, u32) {
    HERE.with(|here| {
        let sending = here.sending.get();
        if sending.mark != mark || sending.fiber != weft_fiber::current() {
            return (0, 0);
        }
        here.sending.set(Sending::NOTHING);
        (sending.word, sending.engine)
    })
}

/// The recorded call that the calling thread is in, which begins to wait, and its message; it is in none from now on: it may run another fiber.
pub fn begin_wait(slices: &Slices) -> (Token, [u64; 3]) {
    HERE.with(|here| {
        let token = match Token(here.token.replace(0)) {
            stale if stale.is_stale(slices.number(), slices.are_whole()) => Token::NONE,
            token => token,
        };
        here.is_recorded.set(token != Token::NONE);
        let sending = here.sending.replace(Sending::NOTHING);
        // Of a fiber that has gone nothing is left to be known.
        let is_own = sending.mark != 0 && sending.fiber == weft_fiber::current();
        let message = match is_own {
            true => [sending.mark, sending.word, sending.engine.into()],
            false => [0; 3],
        };
        (token, message)
    })
}

/// The calling thread has waited for a sender that its call will know.
pub fn add_unknown(ticks: u64, slept: u64, context: u32) {
    HERE.with(|here| {
        let (before, slept_before, _) = here.unknown.get();
        here.unknown
            .set((before + ticks, slept_before + slept, context));
    });
}

/// The calling thread has slept. Whether a timeline tells that.
pub fn add_slept(since: u64, now: u64) -> bool {
    let ticks = now.saturating_sub(since);
    HERE.with(|here| {
        if ticks >= LONG {
            here.slept.set(match here.slept.get() {
                (0, _) => (ticks, since),
                (before, first) => (before + ticks, first),
            });
        }
        ticks >= LONG || here.is_recorded.get()
    })
}

/// The calling thread is in this call again, with this message: it has waited. Ticks of its long sleeps, and when the first of them began.
pub fn end_wait(token: Token, [mark, word, engine]: [u64; 3]) -> (u64, u64) {
    HERE.with(|here| {
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

/// How long that was, with long sleeps and without anything else, and the context of the communicator.
#[inline]
pub fn take_unknown() -> (u64, u64, u32) {
    HERE.with(|here| {
        let unknown = here.unknown.get();
        if unknown.0 != 0 {
            here.unknown.set((0, 0, 0));
        }
        unknown
    })
}
