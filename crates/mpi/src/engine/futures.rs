//! Pending futures: their number, and whether a thread makes progress on their behalf.

use super::Engine;

/// Requests that tasks of an executor await, see [`crate::p2p::future`].
#[derive(Debug, Default)]
pub(super) struct Futures {
    /// How many.
    count: usize,
    /// Whether a thread waits on their behalf.
    is_driven: bool,
}

impl Engine {
    /// Whether any is pending.
    pub(super) fn futures_are_pending(&self) -> bool {
        self.futures.count > 0
    }

    /// One more future is pending. True if the caller is to start the thread that waits on their behalf.
    #[must_use]
    pub(crate) fn add_future(&mut self) -> bool {
        self.futures.count += 1;
        !std::mem::replace(&mut self.futures.is_driven, true)
    }

    /// The thread that waits on their behalf could not be started.
    pub(crate) fn no_future_driver(&mut self) {
        self.futures.is_driven = false;
    }

    /// Whether the thread that waits on their behalf is done: no future is pending.
    pub(crate) fn end_future_driver(&mut self) -> bool {
        let done = self.futures.count == 0;
        self.futures.is_driven &= !done;
        done
    }

    /// A future is pending no more. True if it was the last one: whoever drives is to be woken, too.
    #[must_use]
    pub(crate) fn remove_future(&mut self) -> bool {
        self.futures.count -= 1;
        let last = self.futures.count == 0;
        if last {
            // The thread may be parked behind another one that drives.
            self.core.wake_others();
        }
        last
    }
}
