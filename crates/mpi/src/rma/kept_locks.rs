//! Kept locks: the windows of a rank, by which a rank that waits for a lock finds out which others it keeps.
//!
//! Only a rank that has to wait asks. The locks are in the [epochs](super::epoch) of the windows.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::{LockKind, Window};
use crate::waits::{HeldLock, MOST};

/// The windows of a rank that are not gone.
#[derive(Debug, Default)]
pub(crate) struct KeptLocks(Mutex<Vec<Weak<Window>>>);

impl KeptLocks {
    /// The rank has one more window.
    pub(super) fn add(&self, window: &Arc<Window>) {
        let mut windows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        windows.retain(|window| window.strong_count() > 0);
        windows.push(Arc::downgrade(window));
    }

    /// Its windows. The last reference to one of them is dropped without the lock.
    fn windows(&self) -> Vec<Arc<Window>> {
        let windows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        windows.iter().filter_map(Weak::upgrade).collect()
    }

    /// Whether any window is such.
    fn any(&self, is_such: impl FnMut(&Arc<Window>) -> bool) -> bool {
        self.windows().iter().any(is_such)
    }

    /// The locks that the rank has, for those who ask what others wait for. Not to be called with an engine.
    pub(crate) fn held(&self) -> Vec<HeldLock> {
        let mut held = Vec::new();
        for window in self.windows() {
            held.extend(window.held_locks().take(MOST - held.len()));
        }
        held
    }

    /// Whether the rank has a lock of any window.
    pub(super) fn is_any(&self) -> bool {
        self.any(|window| window.epoch.held().next().is_some())
    }

    /// Whether somebody waits for a lock in shared memory that the rank has.
    pub(super) fn is_waited_for(&self) -> bool {
        self.any(|window| {
            let mut kept = window.epoch.held();
            kept.any(|rank| {
                let lock = window.attached_lock(rank);
                lock.is_some_and(|lock| lock.is_waited_for())
            })
        })
    }
}

impl Window {
    /// The locks of this window that the rank has.
    fn held_locks(&self) -> impl Iterator<Item = HeldLock> {
        let has =
            |rank: &u32| self.shared_locks || self.engine().is_lock_given(self.context(), *rank);
        self.epoch
            .locks()
            .filter(move |(rank, _)| has(rank))
            .map(|(rank, kind)| HeldLock {
                context: self.context(),
                of: self.group().peer(rank).0,
                is_exclusive: kind == LockKind::Exclusive,
            })
    }
}
