//! Kernel: what the structures of this room need from the operating system. The room above implements it.

use crate::AtomicU32;

/// Why a sleeper runs again. All three may be spurious: look at what you waited for.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Woken {
    /// Somebody woke it, or a signal did.
    Woken,
    /// The word had changed before it slept.
    Changed,
    /// The deadline has passed.
    TimedOut,
}

/// The kernel seen by these structures: a futex, and a fence that other threads execute.
pub trait Kernel {
    /// Sleeps while `word` holds `expected`, at most until `deadline` (nanoseconds of the monotonic clock).
    /// Comparing and falling asleep are one atomic step relative to [`wake`](Self::wake).
    fn wait(&self, word: &AtomicU32, expected: u32, deadline: Option<u64>) -> Woken;

    /// Wakes at most `count` sleepers of `word`.
    fn wake(&self, word: &AtomicU32, count: u32);

    /// Makes every running thread of every process that takes part execute a full fence, the caller included.
    /// Needed for [`FenceMode::Asymmetric`](crate::FenceMode) only. An implementation that becomes unable to
    /// do this must from then on let [`wait`](Self::wait) return after a moment (a millisecond), so that a
    /// missed wake-up only delays and does not hang.
    fn barrier(&self);
}

impl<K: Kernel + ?Sized> Kernel for &K {
    fn wait(&self, word: &AtomicU32, expected: u32, deadline: Option<u64>) -> Woken {
        (**self).wait(word, expected, deadline)
    }
    fn wake(&self, word: &AtomicU32, count: u32) {
        (**self).wake(word, count);
    }
    fn barrier(&self) {
        (**self).barrier();
    }
}
