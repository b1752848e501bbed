//! Slices of time in which frequent calls are recorded; between them they are only counted.
//!
//! ```text
//!   recorded ──budget spent──► frequent ones left out ──next multiple of 50 ms──► all recorded, a new budget
//!   entry points jump to stubs   to light stubs           "weft-profile", a thread       to stubs
//! ```
//!
//! In each period of 50 ms a rank records a budget of calls. While the budget lasts, each call is recorded. When it is spent, the entry
//! points that used most of it are redirected until the period ends: rare calls are always recorded, and so are collectives, which all
//! members must number alike. Periods end at the same time on all ranks whose hosts agree on the time of day.
//!
//! The thread is started when something is first left out, and sleeps until the end of a period in which
//! something is left out.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use weft_atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use weft_launch::profile::layout::{EventKind, NOBODY};
use weft_sys::clock::time_of_day;
use weft_sys::signal;

use super::area::Event;
use super::call::CallKind;
use super::trampoline::{light_stub, stub, stub_of_one_thread};
use super::{CALLS, RECORDER, Recorder};

/// How long a period is, in nanoseconds.
const PERIOD: u64 = 50_000_000;
/// Calls that are recorded in a period for a table …
const TABLE: u32 = 2048;
/// … and for a timeline, where each costs several times as much.
const TIMELINE: u32 = 768;
/// Entry points that have used this fraction of the budget are left out when it is spent; if all of those are left out already, those
/// that have used the next fraction.
const FREQUENT: [u32; 3] = [16, 64, 256];

/// See the [module page](self).
pub struct Slices {
    /// Calls that a period may have.
    budget: u32,
    /// Calls left in the budget. Simultaneous changes by several threads may count as one.
    left: AtomicU32,
    /// The number of this slice, from 1.
    number: AtomicU64,
    /// Whether no call is left out.
    whole: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

/// The calls that are left out.
#[derive(Default)]
struct State {
    /// When the slice began, in ticks.
    begun: u64,
    /// When calls began to be left out, in ticks.
    gap_begun: u64,
    /// The calls that are left out.
    calls: Vec<usize>,
    /// Whether the thread exists.
    has_thread: bool,
}

impl Slices {
    /// Begins by recording all calls.
    pub fn new(timeline: bool, each: bool, now: u64) -> Self {
        let budget = match (each, timeline) {
            (true, _) => u32::MAX,
            (false, true) => TIMELINE,
            (false, false) => TABLE,
        };
        Self {
            budget,
            left: AtomicU32::new(budget),
            number: AtomicU64::new(1),
            whole: AtomicBool::new(true),
            state: Mutex::new(State {
                begun: now,
                ..State::default()
            }),
            changed: Condvar::new(),
        }
    }

    /// The number of this slice.
    #[inline]
    pub fn number(&self) -> u64 {
        self.number.load(Ordering::Relaxed)
    }

    /// Whether no call is left out.
    #[inline]
    pub fn are_whole(&self) -> bool {
        self.whole.load(Ordering::Relaxed)
    }

    /// A call is recorded that costs as much as `calls` simple ones. Returns whether it was the last of the
    /// budget.
    #[inline]
    #[must_use]
    pub fn spend(&self, calls: u32) -> bool {
        let left = self.left.load(Ordering::Relaxed);
        self.left
            .store(left.saturating_sub(calls), Ordering::Relaxed);
        left <= calls
    }

    fn open(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, state: &mut State, now: u64) {
        state.begun = now;
        self.number.fetch_add(1, Ordering::Relaxed);
        self.left.store(self.budget, Ordering::Relaxed);
    }

    /// The budget is spent: leaves out the frequent calls, if the period is not over.
    #[cold]
    pub fn spent(&self, recorder: &Recorder) {
        let mut state = self.open();
        if self.left.load(Ordering::Relaxed) > 1 {
            // Another thread has done this already.
            return;
        }
        let now = recorder.now();
        if state.calls.is_empty() && recorder.nanoseconds(now - state.begun) >= PERIOD {
            return self.begin(&mut state, now);
        }
        if !state.has_thread {
            state.has_thread = signal::spawn_without_signals("weft-profile", attend).is_ok();
        }
        if !state.has_thread {
            // Without the thread nobody would end the gap.
            self.left.store(u32::MAX, Ordering::Relaxed);
            return;
        }
        let more = FREQUENT.iter().map(|part| {
            let mut found = frequent(recorder, self.number(), self.budget / part);
            found.retain(|number| !state.calls.contains(number));
            found
        });
        let found = more.into_iter().find(|found| !found.is_empty());
        let only = recorder.is_only_caller();
        for number in found.unwrap_or_default() {
            let call = &CALLS[number];
            let stub = match only && call.is_of_the_threads_that_call() {
                true => stub_of_one_thread(number),
                false => light_stub(number),
            };
            if let Some(stub) = stub {
                call.target.store(stub, Ordering::Relaxed);
                state.calls.push(number);
            }
        }
        if !state.calls.is_empty() && self.whole.swap(false, Ordering::Relaxed) {
            state.gap_begun = now;
            recorder.begin_gap(now);
            self.changed.notify_one();
        }
        self.left.store(self.budget / 2, Ordering::Relaxed);
    }

    /// Several threads make calls from now on: each counts the calls left out in its own rows.
    pub fn count_by_thread(&self) {
        for &number in &self.open().calls {
            if let Some(stub) = light_stub(number) {
                CALLS[number].target.store(stub, Ordering::Relaxed);
            }
        }
    }

    /// The thread: ends each gap with its period.
    fn attend(&self, recorder: &Recorder) {
        let here = recorder.here();
        let mut state = self.open();
        loop {
            state = self
                .changed
                .wait_while(state, |state| state.calls.is_empty())
                .unwrap_or_else(PoisonError::into_inner);
            let rest = Duration::from_nanos(PERIOD - time_of_day() % PERIOD);
            (state, _) = self
                .changed
                .wait_timeout_while(state, rest, |_| true)
                .unwrap_or_else(PoisonError::into_inner);
            let now = recorder.now();
            self.begin(&mut state, now);
            self.whole.store(true, Ordering::Relaxed);
            for number in state.calls.drain(..) {
                if let Some(stub) = stub(number) {
                    CALLS[number].target.store(stub, Ordering::Relaxed);
                }
            }
            recorder.end_gap();
            // From here on each call is recorded; the first of them were recorded before.
            let now = recorder.now();
            if let Some(here) = here.filter(|_| recorder.timeline) {
                here.tell(&Event {
                    kind: EventKind::Gap,
                    site: 0,
                    track: here.number as u32,
                    begun: state.gap_begun,
                    ended: now,
                    peer: NOBODY,
                    tag: -1,
                    context: 0,
                    bytes: 0,
                    mark: 0,
                });
            }
        }
    }
}

/// The body of the thread.
fn attend() {
    if let Some(recorder) = RECORDER.get() {
        recorder.slices.attend(recorder);
    }
}

/// Calls of which at least `least` were recorded in this slice.
fn frequent(recorder: &Recorder, slice: u64, least: u32) -> Vec<usize> {
    let calls = CALLS.iter().enumerate();
    let mut found = Vec::new();
    for (number, _) in calls.filter(|(_, call)| call.kind != CallKind::Collective) {
        let areas = recorder.used().iter();
        let recorded: u64 = areas.map(|area| area.recorded(number, slice)).sum();
        if recorded >= u64::from(least.max(1)) {
            found.push(number);
        }
    }
    found
}
