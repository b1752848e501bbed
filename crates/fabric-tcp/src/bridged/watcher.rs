//! Watcher: a thread that sleeps on the descriptor of a bridge, and rings the bell of the job's fabric when
//! something arrives.
//!
//! No arrival is missed. The watcher records that somebody slept, which makes the next look a full one, before it rings; and
//! a sleeper takes its ticket before its last look. So either that look sees the record, or the ring ends the sleep.

use std::sync::Arc;
use std::time::Duration;

use weft_atomic::{AtomicBool, AtomicU64, Ordering};
use weft_fabric::Bell;
use weft_sys::clock;
use weft_sys::event::EventFd;
use weft_sys::readiness::{ReadinessSet, Trigger};

use crate::bell::NetworkBell;

/// A thread that rings when something arrives over a bridge.
pub(super) struct Watcher {
    watched: Arc<Watched>,
    thread: Option<std::thread::JoinHandle<()>>,
}

struct Watched {
    set: ReadinessSet,
    /// Something else shall be waited for, or the watcher shall end.
    changed: EventFd,
    is_over: AtomicBool,
    /// When the endpoint has something to do by itself, in nanoseconds of the monotonic clock.
    due: AtomicU64,
    remote: Arc<NetworkBell>,
    own: Arc<dyn Bell>,
}

const CHANGED: u64 = 0;
const ARRIVED: u64 = 1;

impl Watcher {
    pub fn start(remote: Arc<NetworkBell>, own: Arc<dyn Bell>) -> std::io::Result<Self> {
        let set = ReadinessSet::new()?;
        let changed = EventFd::new()?;
        set.register(&changed, CHANGED, Trigger::Readable)?;
        set.register(&remote.descriptor(), ARRIVED, Trigger::EachArrival)?;
        let watched = Arc::new(Watched {
            set,
            changed,
            is_over: AtomicBool::new(false),
            due: AtomicU64::new(u64::MAX),
            remote,
            own,
        });
        let thread = {
            let watched = Arc::clone(&watched);
            weft_sys::signal::spawn_without_signals("weft-watch", move || watched.run())?
        };
        Ok(Self {
            watched,
            thread: Some(thread),
        })
    }

    /// When the endpoint has something to do by itself, in nanoseconds of the monotonic clock.
    pub fn is_due_at(&self, due: u64) {
        // SeqCst is not needed: a thread that sleeps beyond this time is woken by the event.
        let before = self.watched.due.swap(due, Ordering::Relaxed);
        if due < before {
            self.watched.changed.notify();
        }
    }

    /// The next event makes nothing readable, so the watcher rings in a millisecond.
    pub fn hurry(&self) {
        self.is_due_at(clock::deadline_after(Duration::from_millis(1)));
    }
}

impl Watched {
    fn run(&self) {
        while !self.is_over.load(Ordering::Relaxed) {
            let due = self.due.load(Ordering::Relaxed);
            let left = (due != u64::MAX).then(|| due.saturating_sub(clock::monotonic()));
            let mut news = false;
            if left == Some(0) {
                self.due.store(u64::MAX, Ordering::Relaxed);
                news = true;
            } else {
                self.wait(left, &mut news);
            }
            if news {
                self.remote.note_sleep();
                self.own.ring();
            }
        }
    }

    fn wait(&self, left: Option<u64>, news: &mut bool) {
        // The set reports an arrival once, to this look.
        let mut waited = [weft_sys::poll::PollFd::new(
            &self.set,
            weft_sys::poll::Interest::Read,
        )];
        let limit = left.map(Duration::from_nanos);
        if weft_sys::poll::wait(&mut waited, limit).is_err() {
            return;
        }
        self.set.poll(|ready| match ready.token {
            CHANGED => _ = self.changed.drain(),
            _ => *news = true,
        });
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.watched.is_over.store(true, Ordering::Relaxed);
        self.watched.changed.notify();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
