//! Kernel for tests: a futex of a mutex and a condition variable, visible to loom and to Miri.

use crate::{AtomicU32, Kernel, Ordering, Woken};

#[cfg(loom)]
use loom::sync::{Condvar, Mutex};
#[cfg(not(loom))]
use std::sync::{Condvar, Mutex};

/// One queue of sleepers for all words.
pub(crate) struct Park {
    wakes: Mutex<u32>,
    sleepers: Condvar,
}

impl Park {
    pub(crate) fn new() -> Self {
        Self {
            wakes: Mutex::new(0),
            sleepers: Condvar::new(),
        }
    }

    /// How often somebody asked for a wake-up.
    #[cfg(not(loom))]
    pub(crate) fn wakes(&self) -> u32 {
        *self.wakes.lock().expect("no test panics while holding it")
    }
}

impl Kernel for Park {
    fn wait(&self, word: &AtomicU32, expected: u32, _deadline: Option<u64>) -> Woken {
        let wakes = self.wakes.lock().unwrap();
        // The kernel compares under the lock of its queue; so does this.
        if word.load(Ordering::Relaxed) != expected {
            return Woken::Changed;
        }
        let _wakes = self.sleepers.wait(wakes).unwrap();
        Woken::Woken
    }

    fn wake(&self, _word: &AtomicU32, count: u32) {
        *self.wakes.lock().unwrap() += 1;
        if count == 1 {
            self.sleepers.notify_one();
        } else {
            self.sleepers.notify_all();
        }
    }

    fn barrier(&self) {
        crate::fence(Ordering::SeqCst);
    }
}
