//! Life of a runtime, from its first fiber to its last.
//!
//! ```text
//!   RUNNING ── close: its owner wants no more ──► CLOSING ── no fiber is live ──► STOPPED: workers return
//! ```

use weft_atomic::{AtomicU32, Ordering};

/// Nobody has asked for the end.
const RUNNING: u32 = 0;
/// It ends when the last fiber does.
const CLOSING: u32 = 1;
/// The last fiber has ended.
const STOPPED: u32 = 2;

/// The phase of a runtime.
pub(crate) struct Lifecycle(AtomicU32);

impl Lifecycle {
    pub(crate) fn new() -> Self {
        Self(AtomicU32::new(RUNNING))
    }

    /// It ends when the last fiber has.
    pub(crate) fn close(&self) {
        self.0.store(CLOSING, Ordering::SeqCst);
    }

    /// The last fiber has ended.
    pub(crate) fn stop(&self) {
        self.0.store(STOPPED, Ordering::SeqCst);
    }

    pub(crate) fn has_stopped(&self) -> bool {
        self.0.load(Ordering::Acquire) == STOPPED
    }

    /// Whether the end was asked for; for tests.
    #[cfg(test)]
    pub(crate) fn is_closing(&self) -> bool {
        self.0.load(Ordering::Acquire) != RUNNING
    }

    /// Whether an idle worker has something to do about the end; `live` counts the fibers.
    pub(crate) fn may_stop(&self, live: impl FnOnce() -> u64) -> bool {
        match self.0.load(Ordering::Acquire) {
            RUNNING => false,
            CLOSING => live() == 0,
            _ => true,
        }
    }

    /// Stops if the end was asked for and no fiber is live. True if this call did: then all workers are to be told.
    #[must_use]
    pub(crate) fn stop_if_over(&self, live: impl FnOnce() -> u64) -> bool {
        self.0.load(Ordering::Acquire) == CLOSING
            && live() == 0
            && self
                .0
                .compare_exchange(CLOSING, STOPPED, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
    }
}
