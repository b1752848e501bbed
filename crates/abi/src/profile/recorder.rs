//! Recorder: the memory of this rank's profile, in which each thread has an [area](Area), and the state that
//! threads share.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use weft_atomic::{AtomicBool, AtomicU64, Ordering};
use weft_launch::profile::ProfileMemory;
use weft_launch::profile::layout::{self, MOST_THREADS, START, call, head};
use weft_sys::call_site::CallSite;
use weft_sys::clock::Stopwatch;

use super::CALLS;
use super::area::Area;
use super::collectives::Collectives;
use super::marks::Marks;
use super::slices::Slices;
use super::thread_state;
use super::trampoline;

/// The memory of this rank's profile.
pub struct Recorder {
    words: &'static [AtomicU64],
    /// Whether events are recorded, too.
    pub timeline: bool,
    stopwatch: Stopwatch,
    areas: &'static [Area],
    texts: Mutex<HashMap<String, u64>>,
    /// The number of the next collective of each communicator.
    pub collectives: Collectives,
    /// The marks that identify messages.
    pub marks: Marks,
    /// The slices of time in which calls are recorded.
    pub slices: Slices,
    /// Whether the rows of the first area are mapped at the address known to the code.
    has_rows_of_first: bool,
    /// Whether only one thread of the program makes calls.
    one_thread_calls: AtomicBool,
}

impl Recorder {
    /// A recorder in the memory that the launcher has made.
    pub fn new(memory: ProfileMemory) -> Option<Self> {
        let timeline = memory.timeline;
        let mapping: &'static _ = Box::leak(Box::new(memory.map().ok()?));
        let has_rows_of_first = memory.map_rows_of_first(&trampoline::FIRST.0).is_ok();
        let words = mapping.atomic_u64s(0, mapping.len() / 8)?;
        let stopwatch = Stopwatch::new();
        let each = layout::area_bytes(timeline) / 8;
        let areas = words[START / 8..].chunks_exact(each).take(MOST_THREADS);
        let areas = areas
            .enumerate()
            .map(|(number, words)| Area::new(number, words))
            .collect::<Vec<_>>()
            .leak();
        words[head::MAGIC].store(layout::MAGIC, Ordering::Relaxed);
        Some(Self {
            words,
            timeline,
            stopwatch,
            areas,
            texts: Mutex::default(),
            collectives: Collectives::new(),
            marks: Marks::default(),
            slices: Slices::new(timeline, memory.each, stopwatch.read()),
            has_rows_of_first,
            one_thread_calls: AtomicBool::new(false),
        })
    }

    /// Sets whether only one thread of the program makes calls from now on, except calls that any thread may
    /// make.
    pub fn set_one_thread_calls(&self, does: bool) {
        self.one_thread_calls.store(does, Ordering::Relaxed);
        if !does {
            self.slices.count_by_thread();
        }
    }

    /// Whether the calling thread is the only one of the program that makes calls, and has the first area.
    pub fn is_only_caller(&self) -> bool {
        self.has_rows_of_first
            && self.one_thread_calls.load(Ordering::Relaxed)
            && thread_state::area().is_some_and(|area| area.number == 0)
    }

    /// The time, in ticks; never 0.
    #[inline]
    pub fn now(&self) -> u64 {
        self.stopwatch.read()
    }

    /// The length of `ticks` in nanoseconds.
    pub fn nanoseconds(&self, ticks: u64) -> u64 {
        self.stopwatch.nanoseconds(ticks)
    }

    /// Frequent calls are left out from now on.
    pub fn begin_gap(&self, now: u64) {
        self.words[head::GAP_BEGUN].store(now, Ordering::Relaxed);
    }

    /// Frequent calls are recorded again.
    pub fn end_gap(&self) {
        self.words[head::GAP_BEGUN].store(0, Ordering::Relaxed);
        self.tell_left_out();
    }

    /// Records how many calls were made by threads without an area.
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
        thread_state::area().or_else(|| self.enrol())
    }

    #[cold]
    fn enrol(&self) -> Option<&'static Area> {
        if thread_state::is_left_out() {
            return None;
        }
        let number = self.words[head::THREADS].fetch_add(1, Ordering::Relaxed) as usize;
        let areas: &'static [Area] = self.areas;
        let found = areas.get(number);
        if let Some(found) = found {
            found.begin();
        } else {
            self.words[head::THREADS].fetch_sub(1, Ordering::Relaxed);
            self.words[head::THREADS_LEFT_OUT].fetch_add(1, Ordering::Relaxed);
        }
        thread_state::set_area(found);
        found
    }

    /// The site of a call in the area of the calling thread.
    #[inline]
    pub fn site(&self, back: u64, call: usize) -> Option<(&'static Area, usize)> {
        let area = self.here()?;
        let found = area.find_site(back, call, |address| {
            let object = CallSite::at(address as usize).object();
            (self.text(CALLS[call].name), self.text(&object))
        });
        found.map(|site| (area, site))
    }

    /// A text as a word: its place and its length. 0 if there is no room left.
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

    /// Records that all sites are named.
    pub fn set_named(&self) {
        self.words[head::NAMED].store(1, Ordering::Relaxed);
    }
}
