//! Area of a thread: the part of its rank's profile memory into which it writes call sites, the ranks that calls have waited
//! for, arrivals at collectives, and events of a timeline; the [layout] says where. Only the thread writes; the launcher reads
//! when the rank has ended.

use weft_atomic::{AtomicU64, Ordering};
use weft_launch::profile::estimate::{self, Estimate, Slice};
use weft_launch::profile::layout::{
    self, ARRIVAL_WORDS, ARRIVALS, ARRIVALS_AT, CALL_ROWS, CALLS_AT, Cause, EVENT_WORDS, EVENTS,
    EVENTS_AT, EventKind, SITES, SITES_AT, WAIT_WORDS, WAITS, WAITS_AT, area, call, site,
};

use super::add;
use super::trampoline::count_in;

/// The first calls of a site, all of which are timed.
const FIRST: u64 = 64;
/// After these, this many quick calls are only counted between two that are timed.
const BETWEEN: u64 = 31;
/// Ticks of a quick call: about a microsecond.
const QUICK: u64 = 3000;

/// The area of one thread.
pub struct Area {
    /// Its number.
    pub number: usize,
    words: &'static [AtomicU64],
}

/// The track of a timeline that the caller's events belong to: its thread, or its fiber.
pub fn track(area: &Area) -> u32 {
    match weft_fiber::current() {
        Some(fiber) => 1 << 31 | fiber.number(),
        None => area.number as u32,
    }
}

/// An event of a timeline.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// The kind.
    pub kind: EventKind,
    /// The call site.
    pub site: usize,
    /// The track.
    pub track: u32,
    /// Begin ……
    pub begun: u64,
    /// … and end.
    pub ended: u64,
    /// The peer: a number in the job.
    pub peer: u32,
    /// The tag; for a wait, the cause.
    pub tag: i32,
    /// The context of the communicator.
    pub context: u32,
    /// Bytes of data.
    pub bytes: u64,
    /// The mark that the message has carried; 0 for none.
    pub mark: u64,
}

impl Area {
    /// The area in these words.
    pub fn new(number: usize, words: &'static [AtomicU64]) -> Self {
        Self { number, words }
    }

    /// The calling thread takes it.
    pub fn begin(&self) {
        // SAFETY: asks for a number.
        let thread = unsafe { libc::gettid() };
        self.words[area::THREAD].store(u64::from(thread.unsigned_abs()), Ordering::Relaxed);
        count_in(&self.words[CALLS_AT..][..CALL_ROWS * call::WORDS]);
    }

    #[inline]
    fn word(&self, place: usize, word: usize) -> &AtomicU64 {
        &self.words[SITES_AT + place * site::WORDS + word]
    }

    /// The site of a call that returns to this address. A new site gets the texts that `texts` finds: the call, and the object
    /// that contains the site. `None`: there is no room left.
    #[inline]
    pub fn find_site(
        &self,
        back: u64,
        call: usize,
        texts: impl FnOnce(u64) -> (u64, u64),
    ) -> Option<usize> {
        let key = back ^ (call as u64 + 1) << 48;
        let mut place = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize;
        for _ in 0..SITES / 2 {
            match self.word(place, site::KEY).load(Ordering::Relaxed) {
                found if found == key => return Some(place),
                0 => {
                    self.begin_site(place, (back, call), texts);
                    self.word(place, site::KEY).store(key, Ordering::Relaxed);
                    return Some(place);
                }
                _ => place = (place + 1) % SITES,
            }
        }
        add(&self.words[area::CALLS_LEFT_OUT], 1);
        None
    }

    #[cold]
    fn begin_site(
        &self,
        place: usize,
        (back, call): (u64, usize),
        texts: impl FnOnce(u64) -> (u64, u64),
    ) {
        let (name, object) = texts(back);
        let set = |word: usize, value| self.word(place, word).store(value, Ordering::Relaxed);
        set(site::ADDRESS, back);
        set(site::NUMBER, call as u64);
        set(site::CALL, name);
        set(site::OBJECT, object);
    }

    /// The sites in use, and the return addresses of their calls.
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

    /// The first call of a slice: the calls left out before it count as similar to those recorded in the
    /// previous slice.
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

    /// A call has waited for `ticks`, and slept without a break for `slept` of them.
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

    /// … for a peer.
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

    /// Whether arrivals at the collective with this number are recorded.
    pub fn keeps_arrival(&self, number: u32) -> bool {
        let shift = self.words[area::ARRIVALS_SHIFT].load(Ordering::Relaxed);
        u64::from(number).is_multiple_of(1 << shift)
    }

    /// The thread was in a collective. When there is no room left, arrivals at every second collective are
    /// dropped.
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
                // There is no room for further communicators.
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
