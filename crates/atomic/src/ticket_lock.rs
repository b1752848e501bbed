//! Ticket lock: shared or had alone, first come, first served; but a thread that already has other locks goes
//! past the waiting ones.
//!
//! ```text
//!   tickets  next (16) │ serving (16) │ readers (16) │ listed (15) │ alone (1)      all zeros: a lock that nobody has
//!   first    number (16) │ time (48): both of the writer that is first in line and has to wait
//! ```
//!
//! A thread that wants the lock draws the number `next`, and has its turn when `serving` reaches it. A *reader* shares the lock: it
//! lets the next one in at once, and counts itself. A *writer* is first in line as long as there are readers; then it sets `alone`,
//! and lets the next one in when it is done. Taking or giving back the lock without a wait costs one atomic instruction.
//!
//! # Threads that have other locks
//! With the order in line alone, two readers that each have a lock and ask for that of the other would wait for ever if a writer stands in line
//! at both locks: each waits for the writer before it, which waits for the other reader. Neither writer has anything; only its place in line
//! closes the circle. So a thread that has other locks draws no number ([`share_further`](TicketLock::share_further)). It enters
//!
//! 1. when nobody is in line;
//! 2. past a writer that is first in line and has waited since a later [time](Time) than the caller's; the caller's time is [`EARLIEST`] while
//!    somebody [waits](TicketLock::is_waited_for) for a lock that the caller keeps;
//! 3. after a writer that it has met `alone`: then it is *listed*, and the next one in line waits for it.
//!
//! Otherwise it waits. Times are those of a clock that all locks share: a writer that is first and has to wait advances it by one,
//! and announces the result. A reader that has gone past a writer takes that writer's time as its own when it has given the lock
//! back, so that it goes past the same writer only once, and past none that has waited longer.
//!
//! # Why nobody waits for ever
//! *A writer.* Each reader goes past it once by rule 2, and once by rule 3, for which it must have come before the writer was first. It goes past
//! the writer again only while somebody waits for a lock that it keeps, and which it must give back some time for that one.
//!
//! *A circle.* Assume that writers have one lock each. A thread that has nothing holds up nobody who could be in a circle, and a writer that is
//! `alone` waits for nothing. What is left are readers that keep a lock and wait for a writer that is first in line, and such writers, which wait for
//! readers that are in. Consider the last look of a reader. It comes after the reader's writer has announced itself, because all look again then. At
//! that look nobody waited for what the reader keeps, or the reader would have gone past. So the writer that waits for it came into line after this
//! look, and has announced itself later than the reader's writer. Around a circle such announcements would be later and later. The same holds for a
//! reader that is listed at a lock which another thread keeps alone.
//!
//! *By times alone*, if a reader cannot know who waits for what it keeps. Assume that it takes all its locks while its time stays the same. The time
//! of the writer that a reader waits for is not later than the reader's own, but later than that of each reader that is in: such a reader has gone
//! past the writer, or was in before the writer announced itself; and no time is ahead of the clock, if the locks of a circle share one clock. So
//! around a circle the times of the readers would fall all the way.
//!
//! A program whose writers ask for a second lock can wait in a circle, as with any locks: there each one has what another one
//! wants.
//!
//! # With flags
//! The lock may be combined with a [`ReaderBias`]. A writer turns flags off as soon as it is first in line, and is `alone` only
//! when all flags are down; until then a reader that has the lock by a number may turn them on again. So a writer looks once more
//! when it is alone, when no reader is left that could do that, and steps back if they are on. It announces itself after it has
//! turned them off: readers that came in by a flag were in before.
//!
//! # Ordering
//! SYNC ticket_lock: all accesses of both words are sequentially consistent. So what is done under the lock comes before anything done
//! by its next holder; and a thread that has announced its wait finds the change, or is found by the thread that made it.

use crate::reader_bias::ReaderBias;
use crate::{AtomicU32, AtomicU64, Kernel, Ordering};

/// A number drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Number(u16);

/// A time of the clock that all locks share: how often a writer has had to wait before.
pub type Time = u64;

/// The time of a thread that goes past every writer that is first in line.
pub const EARLIEST: Time = 0;

/// Bits of a time that are announced; a clock that counts every microsecond shows as many after eight years.
const TIME_BITS: u32 = 48;

/// The word of the tickets, and that of the writer that is first in line.
#[derive(Clone, Copy, Debug)]
pub struct TicketLock<'a> {
    tickets: &'a AtomicU64,
    first: &'a AtomicU64,
}

/// A writer in line.
#[derive(Debug)]
pub struct Writer {
    number: Number,
    is_first: bool,
    /// It has turned flags off, and some may still be up.
    awaits_flags: bool,
}

/// The state of a writer in line.
#[must_use = "a writer that is first announces that"]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// It is alone.
    Alone,
    /// It has to wait, and has become first in line, or has turned flags off: its time begins now, to be
    /// [announced](TicketLock::announce), and all waiting threads look again.
    First,
    /// It has to wait.
    Waits,
}

/// Whom a reader that has other locks has gone past when it entered.
#[must_use = "who has gone past a writer takes its time when it gives the lock back"]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Overtaken {
    /// It has gone past nobody.
    Nobody,
    /// It has gone past a writer that has waited since this time.
    Writer(Time),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Tickets {
    next: u16,
    serving: u16,
    readers: u16,
    /// Readers with other locks that have met a writer alone, and wait.
    listed: u16,
    alone: bool,
}

impl Tickets {
    #[inline]
    fn of(word: u64) -> Self {
        Self {
            next: word as u16,
            serving: (word >> 16) as u16,
            readers: (word >> 32) as u16,
            listed: (word >> 48) as u16 & (u16::MAX >> 1),
            alone: word >> 63 != 0,
        }
    }

    #[inline]
    fn word(self) -> u64 {
        let halves = |low: u16, high: u16| u64::from(low) | u64::from(high) << 16;
        let high = self.listed | u16::from(self.alone) << 15;
        halves(self.next, self.serving) | halves(self.readers, high) << 32
    }

    /// Whether nobody is in line or alone.
    #[inline]
    fn is_free(self) -> bool {
        self.next == self.serving
    }

    /// Whether a writer whose turn it is may be alone.
    #[inline]
    fn is_empty(self) -> bool {
        self.readers == 0 && self.listed == 0 && !self.alone
    }

    #[inline]
    fn draw(self) -> Self {
        Self {
            next: self.next.wrapping_add(1),
            ..self
        }
    }

    #[inline]
    fn serve_next(self) -> Self {
        Self {
            serving: self.serving.wrapping_add(1),
            ..self
        }
    }

    /// Adds a sharer; `None` if there is no room to count it.
    #[inline]
    fn share(self) -> Option<Self> {
        let readers = self.readers.checked_add(1)?;
        Some(Self { readers, ..self })
    }

    fn list(self) -> Option<Self> {
        let has_room = self.listed < u16::MAX >> 1;
        has_room.then(|| Self {
            listed: self.listed + 1,
            ..self
        })
    }

    fn unlist(self) -> Self {
        Self {
            listed: self.listed.saturating_sub(1),
            ..self
        }
    }

    #[inline]
    fn set_alone(self, alone: bool) -> Self {
        Self { alone, ..self }
    }
}

impl<'a> TicketLock<'a> {
    /// The lock with these words.
    #[inline]
    #[must_use]
    pub fn new(tickets: &'a AtomicU64, first: &'a AtomicU64) -> Self {
        Self { tickets, first }
    }

    /// Replaces the tickets by the result of `change`; returns the former ones, or `None` if `change` returns
    /// nothing.
    #[inline(always)]
    fn update(self, change: impl Fn(Tickets) -> Option<Tickets>) -> Option<Tickets> {
        let change = |word| change(Tickets::of(word)).map(Tickets::word);
        // SYNC ticket_lock
        let was = self
            .tickets
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, change);
        was.ok().map(Tickets::of)
    }

    /// Shares it if nobody is in line. Returns whether that was done.
    #[inline]
    #[must_use]
    pub fn try_share(self) -> bool {
        self.update(|now| now.share().filter(|_| now.is_free()))
            .is_some()
    }

    /// Takes it alone, if nobody has it or is in line. Returns whether that was done.
    #[inline]
    #[must_use]
    pub fn try_be_alone(self) -> bool {
        let change = |now: Tickets| {
            let may = now.is_free() && now.is_empty();
            may.then(|| now.draw().set_alone(true))
        };
        self.update(change).is_some()
    }

    /// Draws a number. Its turn comes, so the caller must take it.
    pub fn draw(self) -> Number {
        let was = self.update(|now| Some(now.draw()));
        Number(was.map_or(0, |was| was.next))
    }

    /// A writer gets in line.
    pub fn stand_in_line(self) -> Writer {
        Writer {
            number: self.draw(),
            is_first: false,
            awaits_flags: false,
        }
    }

    /// Shares it if the number has its turn. Returns whether that was done.
    #[must_use]
    pub fn share(self, number: Number) -> bool {
        let change = |now: Tickets| {
            let shared = now.serve_next().share();
            shared.filter(|_| now.serving == number.0)
        };
        self.update(change).is_some()
    }

    /// Shares it, for a caller that has other locks and the time `mine`, past all writers that may be passed. `listed` is false at
    /// first and the same variable for each look; a caller that gives up while it is true calls [`unlist`](Self::unlist). `None`:
    /// the caller waits, and looks again after any change.
    pub fn share_further(self, mine: Time, listed: &mut bool) -> Option<Overtaken> {
        // SYNC ticket_lock
        let mut word = self.tickets.load(Ordering::SeqCst);
        loop {
            let now = Tickets::of(word);
            let (then, overtaken) = if *listed {
                let then = now.unlist().share().filter(|_| !now.alone);
                (then, Some(Overtaken::Nobody))
            } else if now.alone {
                (now.list(), None)
            } else if now.is_free() {
                (now.share(), Some(Overtaken::Nobody))
            } else {
                let since = self.time_of_first(now.serving);
                let since = since.filter(|since| mine < *since)?;
                (now.share(), Some(Overtaken::Writer(since)))
            };
            let then = then?.word();
            // SYNC ticket_lock
            let (success, failure) = (Ordering::SeqCst, Ordering::SeqCst);
            match self
                .tickets
                .compare_exchange_weak(word, then, success, failure)
            {
                Ok(_) => {
                    *listed = overtaken.is_none();
                    return overtaken;
                }
                Err(other) => word = other,
            }
        }
    }

    /// Whether somebody waits for its present holders: in line, or listed.
    #[must_use]
    pub fn is_waited_for(self) -> bool {
        // SYNC ticket_lock
        let now = Tickets::of(self.tickets.load(Ordering::SeqCst));
        if now.alone {
            // The number of the writer that is alone is still being served.
            now.listed > 0 || !now.serve_next().is_free()
        } else {
            !now.is_free()
        }
    }

    /// Removes a listed caller that no longer waits.
    pub fn unlist(self) {
        self.update(|now| Some(now.unlist()));
    }

    /// The time of the writer with this number, if it has announced that it is first.
    fn time_of_first(self, number: u16) -> Option<Time> {
        // SYNC ticket_lock
        let first = self.first.load(Ordering::SeqCst);
        // An old announcement with the same number has an earlier time than the present writer will have, and
        // lets fewer past.
        (first as u16 == number && first >> 16 != 0).then_some(first >> 16)
    }

    /// A writer looks whether it can be alone. `flags`: the flags of all threads that may share it by a flag.
    pub fn look<'f, F: IntoIterator<Item = &'f AtomicU32>>(
        self,
        writer: &mut Writer,
        bias: ReaderBias<'_>,
        flags: impl Fn() -> F,
        kernel: &(impl Kernel + ?Sized),
    ) -> Turn {
        // SYNC ticket_lock
        let now = Tickets::of(self.tickets.load(Ordering::SeqCst));
        if now.serving != writer.number.0 {
            return Turn::Waits;
        }
        let mut anew = !writer.is_first;
        writer.is_first = true;
        loop {
            if bias.is_on() {
                bias.turn_off(kernel);
                writer.awaits_flags = true;
                anew = true;
            }
            let are_down = !writer.awaits_flags || bias.are_out(flags());
            if !are_down || !self.begin_alone() {
                return if anew { Turn::First } else { Turn::Waits };
            }
            if !bias.is_on() {
                return Turn::Alone;
            }
            // A reader that has met it alone is listed, and looks again.
            self.update(|now| Some(now.set_alone(false)));
            anew = true;
        }
    }

    /// A writer whose turn it is takes the lock, if nobody has it.
    fn begin_alone(self) -> bool {
        self.update(|now| now.is_empty().then(|| now.set_alone(true)))
            .is_some()
    }

    /// A writer has become [first in line](Turn::First) at a time which the clock has not shown before.
    pub fn announce(self, writer: &Writer, since: Time) {
        let since = since & (Time::MAX >> (Time::BITS - TIME_BITS));
        let first = u64::from(writer.number.0) | since << 16;
        // SYNC ticket_lock
        self.first.store(first, Ordering::SeqCst);
    }

    /// A sharer gives it back.
    #[inline]
    pub fn leave(self) {
        let leave = |now: Tickets| {
            let readers = now.readers.saturating_sub(1);
            Some(Tickets { readers, ..now })
        };
        self.update(leave);
    }

    /// A writer that is alone gives it back.
    #[inline]
    pub fn leave_alone(self) {
        self.update(|now| Some(now.serve_next().set_alone(false)));
    }
}

#[cfg(test)]
mod tests;
