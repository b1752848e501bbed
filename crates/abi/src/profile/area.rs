//! Area of a thread: what it writes into the memory of its rank's profile.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use weft_atomic::{AtomicU64, Ordering};
use weft_launch::profile::ProfileMemory;
use weft_launch::profile::estimate::{self, Estimate, Slice};
use weft_launch::profile::layout::{
    self, ARRIVAL_WORDS, ARRIVALS, ARRIVALS_AT, CALL_ROWS, CALLS_AT, Cause, EVENT_WORDS, EVENTS,
    EVENTS_AT, EventKind, MOST_THREADS, SITES, SITES_AT, START, WAIT_WORDS, WAITS, WAITS_AT, area,
    call, head, site,
};
use weft_sys::call_site::CallSite;
use weft_sys::clock::Stopwatch;

use super::marks::Marks;
use super::messages::Pending;
use super::slices::Slices;
use super::trampoline::{self, count_in};
use super::{CALLS, add};

/// Calls of a site that are all timed.
const FIRST: u64 = 64;
/// After these, so many are counted between two that are timed, if they are quick.
const BETWEEN: u64 = 31;
/// Ticks of a quick call: about a microsecond.
const QUICK: u64 = 3000;
/// Ticks of a sleep that is told whoever sleeps: about a tenth of a millisecond.
const LONG: u64 = 300_000;
/// Bits of a token.
const SITE_MASK: u64 = (1 << 10) - 1;
const SLICE_MASK: u64 = (1 << 20) - 1;
const _: () = assert!(SITES as u64 <= SITE_MASK);
/// Communicators whose collectives are numbered, a power of two.
const CONTEXTS: usize = 256;

thread_local! {
    static HERE: Here = const {
        Here { area: Cell::new(None), left_out: Cell::new(false), token: Cell::new(0), unknown: Cell::new((0, 0, 0)),
            slept: Cell::new((0, 0)), is_recorded: Cell::new(false) }
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
}

/// A call under way: its site, whether it is timed, whether it comes back to the trampoline, and the slice that it began in.
///
/// ```text
///  bits 32..64  12..32  2..12      1      0
///       area    slice   site + 1   plain  timed
/// ```
///
/// Nobody hears of the end of a call that does not come back, so its token stays until the next call that is recorded. Calls that are left out
/// in between are not this one: it is stale as soon as anything was left out since it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Token(pub u64);

impl Token {
    /// None.
    pub const NONE: Self = Self(0);

    /// A call.
    #[inline]
    pub fn new(area: usize, site: usize, (timed, plain): (bool, bool), slice: u64) -> Self {
        let flags = u64::from(timed) | u64::from(plain) << 1;
        Self((area as u64) << 32 | (slice & SLICE_MASK) << 12 | (site as u64 + 1) << 2 | flags)
    }

    /// Whether this may be a call that has ended before others were left out: `slice` is the number of this slice, `whole` if it
    /// leaves out nothing.
    #[inline]
    fn is_stale(self, slice: u64, whole: bool) -> bool {
        self.is_plain() && (!whole || self.0 >> 12 & SLICE_MASK != slice & SLICE_MASK)
    }

    /// The number of its area.
    #[inline]
    pub fn area(self) -> usize {
        (self.0 >> 32) as usize
    }

    /// Its site there.
    #[inline]
    pub fn site(self) -> Option<usize> {
        ((self.0 >> 2 & SITE_MASK) as usize).checked_sub(1)
    }

    /// Whether it does not come back to the trampoline.
    #[inline]
    pub fn is_plain(self) -> bool {
        self.0 & 2 == 2
    }

    /// Whether it is timed.
    #[inline]
    pub fn is_timed(self) -> bool {
        self.0 & 1 == 1
    }
}

/// The calling thread is in this call.
#[inline]
pub fn set_current(token: Token) {
    HERE.with(|here| here.token.set(token.0));
}

/// The recorded call that the calling thread is in, which begins to wait; it is in none from now on: it may run another fiber.
pub fn begin_wait(slices: &Slices) -> Token {
    HERE.with(|here| {
        let token = match Token(here.token.replace(0)) {
            stale if stale.is_stale(slices.number(), slices.are_whole()) => Token::NONE,
            token => token,
        };
        here.is_recorded.set(token != Token::NONE);
        token
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

/// The calling thread is in this call again: it has waited. Ticks of its long sleeps, and when the first of them began.
pub fn end_wait(token: Token) -> (u64, u64) {
    HERE.with(|here| {
        here.token.set(token.0);
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

/// The track of a timeline that the caller's events belong to: its thread, or its fiber.
pub fn track(area: &Area) -> u32 {
    match weft_fiber::current() {
        Some(fiber) => 1 << 31 | fiber.number(),
        None => area.number as u32,
    }
}

/// The memory of this rank's profile.
pub struct Recorder {
    words: &'static [AtomicU64],
    /// Events are kept, too.
    pub timeline: bool,
    stopwatch: Stopwatch,
    areas: &'static [Area],
    texts: Mutex<HashMap<String, u64>>,
    /// Context and number of the next collective.
    collectives: [AtomicU64; CONTEXTS],
    /// Receives under way.
    pub pending: Pending,
    /// By which messages are known.
    pub marks: Marks,
    /// When which calls are recorded.
    pub slices: Slices,
}

/// What one thread writes.
pub struct Area {
    /// Which it is.
    pub number: usize,
    words: &'static [AtomicU64],
}

/// An event of a timeline.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// What.
    pub kind: EventKind,
    /// Which site.
    pub site: usize,
    /// Whose.
    pub track: u32,
    /// From when …
    pub begun: u64,
    /// … to when.
    pub ended: u64,
    /// With whom: a number in the job.
    pub peer: u32,
    /// The tag; of a wait the cause.
    pub tag: i32,
    /// Of the communicator.
    pub context: u32,
    /// Bytes of data.
    pub bytes: u64,
    /// What the message has carried, by which it is known; 0 for nothing.
    pub mark: u64,
}

impl Recorder {
    /// Over the memory that the launcher has made.
    pub fn new(memory: ProfileMemory) -> Option<Self> {
        let timeline = memory.timeline;
        let mapping: &'static _ = Box::leak(Box::new(memory.map().ok()?));
        let words = mapping.atomic_u64s(0, mapping.len() / 8)?;
        let stopwatch = Stopwatch::new();
        let each = layout::area_bytes(timeline) / 8;
        let areas = words[START / 8..].chunks_exact(each).take(MOST_THREADS);
        let areas = areas
            .enumerate()
            .map(|(number, words)| Area { number, words })
            .collect::<Vec<_>>()
            .leak();
        words[head::MAGIC].store(layout::MAGIC, Ordering::Relaxed);
        Some(Self {
            words,
            timeline,
            stopwatch,
            areas,
            texts: Mutex::default(),
            collectives: [const { AtomicU64::new(0) }; CONTEXTS],
            pending: Pending::default(),
            marks: Marks::default(),
            slices: Slices::new(timeline, memory.each, stopwatch.read()),
        })
    }

    /// The time, in ticks; never 0.
    #[inline]
    pub fn now(&self) -> u64 {
        self.stopwatch.read()
    }

    /// How long so many ticks are.
    pub fn nanoseconds(&self, ticks: u64) -> u64 {
        self.stopwatch.nanoseconds(ticks)
    }

    /// Frequent calls are left out from now on.
    pub fn begin_gap(&self, now: u64, here: &Area) {
        self.words[head::GAP_BEGUN].store(now, Ordering::Relaxed);
        if let Some(first) = self.pending.give_up().filter(|_| self.timeline) {
            here.tell(&Event {
                kind: EventKind::Unfollowed,
                site: 0,
                track: here.number as u32,
                begun: first,
                ended: now,
                peer: layout::NOBODY,
                tag: -1,
                context: 0,
                bytes: 0,
                mark: 0,
            });
        }
    }

    /// They are recorded again.
    pub fn end_gap(&self) {
        self.words[head::GAP_BEGUN].store(0, Ordering::Relaxed);
        self.tell_left_out();
    }

    /// Tells how many calls threads have made that are not known.
    pub fn tell_left_out(&self) {
        let rows = trampoline::NOBODY.as_chunks::<{ call::WORDS }>().0;
        let counts = rows.iter().map(|row| &row[call::LEFT_OUT]);
        let sum = counts.map(|count| count.load(Ordering::Relaxed)).sum();
        self.words[head::LIGHT_LEFT_OUT].store(sum, Ordering::Relaxed);
    }

    /// An area by its number.
    #[inline]
    pub fn area(&self, number: usize) -> &Area {
        &self.areas[number]
    }

    /// The areas that are used.
    pub fn used(&self) -> &[Area] {
        let used = self.words[head::THREADS].load(Ordering::Relaxed) as usize;
        &self.areas[..used.min(self.areas.len())]
    }

    /// The area of the calling thread; `None` if there are too many.
    #[inline]
    pub fn here(&self) -> Option<&'static Area> {
        HERE.with(|here| here.area.get()).or_else(|| self.enrol())
    }

    #[cold]
    fn enrol(&self) -> Option<&'static Area> {
        HERE.with(|here| {
            if here.left_out.get() {
                return None;
            }
            let number = self.words[head::THREADS].fetch_add(1, Ordering::Relaxed) as usize;
            let areas: &'static [Area] = self.areas;
            let Some(found) = areas.get(number) else {
                self.words[head::THREADS].fetch_sub(1, Ordering::Relaxed);
                self.words[head::THREADS_LEFT_OUT].fetch_add(1, Ordering::Relaxed);
                here.left_out.set(true);
                return None;
            };
            // SAFETY: asks for a number.
            let thread = unsafe { libc::gettid() };
            found.words[area::THREAD].store(u64::from(thread.unsigned_abs()), Ordering::Relaxed);
            here.area.set(Some(found));
            count_in(&found.words[CALLS_AT..][..CALL_ROWS * call::WORDS]);
            Some(found)
        })
    }

    /// The site of a call in the area of the calling thread.
    #[inline]
    pub fn site(&self, back: u64, call: usize) -> Option<(&'static Area, usize)> {
        let area = self.here()?;
        let key = back ^ (call as u64 + 1) << 48;
        let mut place = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize;
        for _ in 0..SITES / 2 {
            match area.word(place, site::KEY).load(Ordering::Relaxed) {
                found if found == key => return Some((area, place)),
                0 => {
                    self.begin_site(area, place, (back, call));
                    area.word(place, site::KEY).store(key, Ordering::Relaxed);
                    return Some((area, place));
                }
                _ => place = (place + 1) % SITES,
            }
        }
        add(&area.words[area::CALLS_LEFT_OUT], 1);
        None
    }

    #[cold]
    fn begin_site(&self, area: &Area, place: usize, (back, call): (u64, usize)) {
        let object = CallSite::at(back as usize).object();
        let set = |word: usize, value| area.word(place, word).store(value, Ordering::Relaxed);
        set(site::ADDRESS, back);
        set(site::NUMBER, call as u64);
        set(site::CALL, self.text(CALLS[call].name));
        set(site::OBJECT, self.text(&object));
    }

    /// A text as a word: where it is, and its length. 0 if there is no room left.
    pub fn text(&self, text: &str) -> u64 {
        let mut texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = texts.get(text) {
            return *found;
        }
        let used = self.words[head::TEXTS].load(Ordering::Relaxed) as usize;
        let bytes = text.as_bytes();
        let first = layout::TEXTS + used;
        let next = bytes.len().next_multiple_of(8);
        if first + next > START {
            return 0;
        }
        for (word, chunk) in self.words[first / 8..].iter().zip(bytes.chunks(8)) {
            let mut whole = [0; 8];
            whole[..chunk.len()].copy_from_slice(chunk);
            word.store(u64::from_ne_bytes(whole), Ordering::Relaxed);
        }
        self.words[head::TEXTS].store((used + next) as u64, Ordering::Relaxed);
        let found = (first as u64) << 32 | bytes.len() as u64;
        texts.insert(text.to_owned(), found);
        found
    }

    /// All sites are named.
    pub fn set_named(&self) {
        self.words[head::NAMED].store(1, Ordering::Relaxed);
    }

    /// The number of the next collective of a communicator, from 0.
    pub fn next_collective(&self, context: u32) -> u32 {
        let key = u64::from(context) + 1;
        let first = context.wrapping_mul(0x9e37_79b9) as usize >> 8;
        for step in 0..CONTEXTS {
            let slot = &self.collectives[(first + step) % CONTEXTS];
            let mut found = slot.load(Ordering::Relaxed);
            if found == 0 {
                let taken =
                    slot.compare_exchange(0, key << 32, Ordering::Relaxed, Ordering::Relaxed);
                found = taken.err().unwrap_or(key << 32);
            }
            if found >> 32 == key {
                return slot.fetch_add(1, Ordering::Relaxed) as u32;
            }
        }
        u32::MAX
    }
}

impl Area {
    #[inline]
    fn word(&self, place: usize, word: usize) -> &AtomicU64 {
        &self.words[SITES_AT + place * site::WORDS + word]
    }

    /// The sites in use, and what their calls return to.
    pub fn sites(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        (0..SITES).filter_map(|place| {
            let key = self.word(place, site::KEY).load(Ordering::Relaxed);
            let address = self.word(place, site::ADDRESS).load(Ordering::Relaxed);
            (key != 0).then_some((place, address as usize))
        })
    }

    /// The site of calls that return to this address.
    pub fn site_at(&self, back: usize) -> Option<usize> {
        self.sites()
            .find(|(_, address)| *address == back)
            .map(|(place, _)| place)
    }

    #[inline]
    fn call_row(&self, number: usize) -> &[AtomicU64] {
        &self.words[CALLS_AT + number * call::WORDS..][..call::WORDS]
    }

    /// How many calls with this number were recorded in this slice.
    pub fn recorded(&self, number: usize, slice: u64) -> u64 {
        let row = self.call_row(number);
        match row[call::SLICE].load(Ordering::Relaxed) == slice {
            true => row[call::RECORDED].load(Ordering::Relaxed),
            false => 0,
        }
    }

    /// A call with this number is recorded in this slice.
    #[inline]
    pub fn record(&self, number: usize, slice: u64) {
        let row = self.call_row(number);
        if row[call::SLICE].load(Ordering::Relaxed) != slice {
            self.begin_slice(number, slice);
        }
        add(&row[call::RECORDED], 1);
    }

    /// The first call of a slice: what was left out before it is like what the slice before has recorded.
    #[cold]
    fn begin_slice(&self, number: usize, slice: u64) {
        let row = self.call_row(number);
        let values: [u64; call::WORDS] =
            std::array::from_fn(|word| row[word].load(Ordering::Relaxed));
        for place in 0..SITES {
            let words: [u64; site::WORDS] =
                std::array::from_fn(|word| self.word(place, word).load(Ordering::Relaxed));
            if words[site::KEY] == 0 || words[site::NUMBER] != number as u64 {
                continue;
            }
            let set = |first: usize, values: &[u64]| {
                for (word, value) in values.iter().enumerate() {
                    self.word(place, first + word)
                        .store(*value, Ordering::Relaxed);
                }
            };
            let own = words[site::TICKS].saturating_sub(words[site::WAITED]);
            let usual = own as f64 / words[site::TIMED].max(1) as f64;
            let mut before = [0; Estimate::WORDS];
            before.copy_from_slice(&words[site::ESTIMATE..][..Estimate::WORDS]);
            let found = Estimate::from_words(before).after(&Slice::of(&words, &values), usual);
            set(site::ESTIMATE, &found.to_words());
            set(site::BEFORE, &estimate::now(&words));
        }
        row[call::LEFT_OUT_BEFORE].store(values[call::LEFT_OUT], Ordering::Relaxed);
        row[call::RECORDED].store(0, Ordering::Relaxed);
        row[call::SLICE].store(slice, Ordering::Relaxed);
    }

    /// Names the place of a site.
    pub fn name(&self, place: usize, text: u64) {
        self.word(place, site::PLACE).store(text, Ordering::Relaxed);
    }

    /// A call at a site.
    #[inline]
    pub fn count(&self, place: usize, bytes: u64) {
        add(self.word(place, site::COUNT), 1);
        if bytes != 0 {
            add(self.word(place, site::BYTES), bytes);
        }
    }

    /// Whether the next call at a site is to be timed.
    #[inline]
    pub fn is_due(&self, place: usize) -> bool {
        let left = self.word(place, site::SKIP);
        match left.load(Ordering::Relaxed) {
            0 => true,
            more => {
                left.store(more - 1, Ordering::Relaxed);
                false
            }
        }
    }

    /// A call was timed.
    pub fn time(&self, place: usize, ticks: u64) {
        let timed = self.word(place, site::TIMED);
        add(timed, 1);
        let all = self.word(place, site::TICKS);
        add(all, ticks);
        let longest = self.word(place, site::LONGEST);
        if ticks > longest.load(Ordering::Relaxed) {
            longest.store(ticks, Ordering::Relaxed);
        }
        let count = timed.load(Ordering::Relaxed);
        let waited = self.word(place, site::WAITED).load(Ordering::Relaxed);
        let own = all.load(Ordering::Relaxed).saturating_sub(waited);
        let quick = count >= FIRST && own / count < QUICK;
        let skip = if quick { BETWEEN } else { 0 };
        self.word(place, site::SKIP).store(skip, Ordering::Relaxed);
    }

    /// A call has waited; of that time it has slept so long without a break.
    pub fn wait(&self, place: usize, timed: bool, (ticks, slept): (u64, u64)) {
        let word = if timed {
            site::WAITED
        } else {
            site::WAITED_UNTIMED
        };
        add(self.word(place, word), ticks);
        if slept != 0 {
            add(self.word(place, site::SLEPT), slept);
        }
    }

    /// A call that was left out has slept.
    pub fn wait_left_out(&self, place: usize, ticks: u64) {
        add(self.word(place, site::SLEPT_LEFT_OUT), ticks);
        let longest = self.word(place, site::LONGEST);
        if ticks > longest.load(Ordering::Relaxed) {
            longest.store(ticks, Ordering::Relaxed);
        }
    }

    /// … for somebody.
    pub fn add_wait(&self, place: usize, (cause, peer): (Cause, u32), (ticks, slept): (u64, u64)) {
        let key = layout::wait_key(place, cause, peer);
        let first = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as usize;
        for step in 0..64 {
            let at = WAITS_AT + (first + step) % WAITS * WAIT_WORDS;
            let row = &self.words[at..at + WAIT_WORDS];
            match row[0].load(Ordering::Relaxed) {
                found if found == key => {}
                0 => row[0].store(key, Ordering::Relaxed),
                _ => continue,
            }
            let rest = ticks.saturating_sub(slept);
            add(&row[1], rest);
            add(&row[3], slept);
            add(&row[if slept == 0 { 2 } else { 4 }], 1);
            return;
        }
        add(&self.words[area::WAITS_LEFT_OUT], 1);
    }

    /// Whether arrivals at the collective with this number are kept.
    pub fn keeps_arrival(&self, number: u32) -> bool {
        let shift = self.words[area::ARRIVALS_SHIFT].load(Ordering::Relaxed);
        u64::from(number).is_multiple_of(1 << shift)
    }

    /// The thread was in a collective. When there is no room left, those of every second one are forgotten.
    pub fn arrive(&self, (collective, leader): (u64, u32), begun: u64, ticks: u64, place: usize) {
        let mut count = self.words[area::ARRIVALS].load(Ordering::Relaxed) as usize;
        if count >= ARRIVALS {
            let shift = self.words[area::ARRIVALS_SHIFT].load(Ordering::Relaxed) + 1;
            self.words[area::ARRIVALS_SHIFT].store(shift, Ordering::Relaxed);
            let row = |number: usize| {
                let at = ARRIVALS_AT + number * ARRIVAL_WORDS;
                &self.words[at..at + ARRIVAL_WORDS]
            };
            let mut kept = 0;
            for number in 0..ARRIVALS {
                let name = row(number)[0].load(Ordering::Relaxed);
                if (name & u64::from(u32::MAX)).is_multiple_of(1 << shift) {
                    for (to, from) in row(kept).iter().zip(row(number)) {
                        to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
                    }
                    kept += 1;
                }
            }
            count = kept;
            if count >= ARRIVALS {
                // As many communicators as there is room.
                return;
            }
        }
        let at = ARRIVALS_AT + count * ARRIVAL_WORDS;
        let values = [
            collective,
            begun,
            ticks,
            place as u64 | u64::from(leader) << 32,
        ];
        for (word, value) in self.words[at..].iter().zip(values) {
            word.store(value, Ordering::Relaxed);
        }
        self.words[area::ARRIVALS].store(count as u64 + 1, Ordering::Relaxed);
    }

    /// An event of the timeline.
    #[inline]
    pub fn tell(&self, event: &Event) {
        let count = self.words[area::EVENTS].load(Ordering::Relaxed);
        let at = EVENTS_AT + (count as usize % EVENTS) * EVENT_WORDS;
        let Some(row) = self.words.get(at..at + EVENT_WORDS) else {
            return;
        };
        let values = [
            event.kind as u64 | (event.site as u64) << 8 | u64::from(event.track) << 32,
            event.begun,
            event.ended,
            u64::from(event.peer) << 32 | u64::from(event.tag.cast_unsigned()),
            u64::from(event.context),
            event.bytes,
            event.mark,
        ];
        for (word, value) in row.iter().zip(values) {
            word.store(value, Ordering::Relaxed);
        }
        self.words[area::EVENTS].store(count + 1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_says_what_it_was_made_of() {
        for (timed, plain) in [(true, false), (false, true), (false, false)] {
            let token = Token::new(63, SITES - 1, (timed, plain), 7);
            assert_eq!((token.area(), token.site()), (63, Some(SITES - 1)));
            assert_eq!((token.is_timed(), token.is_plain()), (timed, plain));
        }
        assert_eq!(Token::NONE.site(), None);
    }

    #[test]
    fn who_does_not_come_back_is_not_taken_for_a_call_that_is_left_out() {
        let plain = Token::new(0, 3, (false, true), 7);
        assert!(!plain.is_stale(7, true));
        // Within the gap, and after it.
        assert!(plain.is_stale(7, false) && plain.is_stale(8, true));
        let other = Token::new(0, 3, (true, false), 7);
        assert!(!other.is_stale(7, false) && !other.is_stale(8, true));
    }
}
