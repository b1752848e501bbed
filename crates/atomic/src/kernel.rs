//! Kernel: what the structures of this room ask of the operating system. The room above answers.

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

/// The kernel as these structures see it: a futex, and a fence that others execute.
pub trait Kernel {
    /// Sleeps while `word` holds `expected`, at most until `deadline` (nanoseconds of the monotonic
    /// clock). The comparison and the falling asleep are one step against [`wake`](Self::wake).
    fn wait(&self, word: &AtomicU32, expected: u32, deadline: Option<u64>) -> Woken;

    /// Wakes at most `count` sleepers of `word`.
    fn wake(&self, word: &AtomicU32, count: u32);

    /// Makes every running thread of every process that takes part execute a full fence, the caller
    /// included. Needed for [`FenceMode::Asymmetric`](crate::FenceMode) only. An implementation that
    /// finds that it cannot must from then on let [`wait`](Self::wait) return after a moment (a
    /// millisecond), so that a wake-up that slipped through delays and does not hang.
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
