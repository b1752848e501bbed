//! Futex: sleeping on a word of memory and waking its sleepers. It is the [`Kernel`] of `weft-atomic`.

use std::num::NonZeroU32;
use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::futex::{self, Flags};
use weft_atomic::types::kernel_word;
use weft_atomic::{AtomicBool, AtomicU32, Kernel, Ordering, Woken};

use crate::clock;
use crate::membarrier;

/// Longest sleep once the kernel cannot fence other cores any more, or refuses sleeps on futexes: see
/// [`Kernel::barrier`].
const MOMENT: Duration = Duration::from_millis(1);

/// Matches every sleeper, whichever bits it waits for.
const ANY: NonZeroU32 = NonZeroU32::MAX;

/// The futex of the kernel, for words in shared or in private memory.
#[derive(Debug)]
pub struct Futex {
    shared: bool,
    /// A fence was refused after all: from now on nobody sleeps longer than a moment.
    unfenced: AtomicBool,
}

impl Futex {
    /// For words that several processes map. Also works for private ones.
    #[must_use]
    pub const fn shared() -> Self {
        Self {
            shared: true,
            unfenced: AtomicBool::new(false),
        }
    }

    /// For words that only this process sees: somewhat cheaper.
    #[must_use]
    pub const fn private() -> Self {
        Self {
            shared: false,
            unfenced: AtomicBool::new(false),
        }
    }

    fn flags(&self) -> Flags {
        if self.shared {
            Flags::empty()
        } else {
            Flags::PRIVATE
        }
    }

    fn bounded(&self, deadline: Option<u64>) -> Option<u64> {
        if !self.unfenced.load(Ordering::Relaxed) {
            return deadline;
        }
        let moment = clock::deadline_after(MOMENT);
        Some(deadline.map_or(moment, |deadline| deadline.min(moment)))
    }
}

impl Kernel for Futex {
    fn wait(&self, word: &AtomicU32, expected: u32, deadline: Option<u64>) -> Woken {
        #[cfg(fault_points)]
        if let Some(machine) = weft_atomic::fault_points::machine() {
            return machine.wait(word, expected);
        }
        let until = self.bounded(deadline).map(clock::kernel_time);
        // WAIT_BITSET takes an absolute time of the monotonic clock, so that neither a signal nor a
        // spurious wake-up prolongs the sleep.
        let word = kernel_word(word);
        let slept = futex::wait_bitset(word, self.flags(), expected, until.as_ref(), ANY);
        match slept {
            Ok(()) => Woken::Woken,
            Err(Errno::AGAIN) => Woken::Changed,
            Err(Errno::TIMEDOUT) if deadline.is_some_and(|end| clock::monotonic() >= end) => {
                Woken::TimedOut
            }
            Err(Errno::INTR | Errno::TIMEDOUT) => Woken::Woken,
            Err(_) => {
                // No futex for us (a filter). The caller looks again after a moment: slow, not stuck.
                std::thread::sleep(MOMENT);
                Woken::Woken
            }
        }
    }

    fn wake(&self, word: &AtomicU32, count: u32) {
        #[cfg(fault_points)]
        if let Some(machine) = weft_atomic::fault_points::machine() {
            return machine.wake(word);
        }
        // The kernel counts in an int.
        let count = count.min(i32::MAX as u32);
        // If it is refused, so is the sleep, see above.
        let _ = futex::wake(kernel_word(word), self.flags(), count);
    }

    fn barrier(&self) {
        let fenced = if self.shared {
            membarrier::fence_all()
        } else {
            membarrier::fence_own()
        };
        if !fenced {
            self.unfenced.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use weft_atomic::{Doorbell, FenceMode};

    #[test]
    fn a_changed_word_is_not_slept_on_and_a_deadline_ends_the_sleep() {
        for futex in [Futex::shared(), Futex::private()] {
            let word = AtomicU32::new(3);
            assert_eq!(futex.wait(&word, 2, None), Woken::Changed);
            let end = clock::deadline_after(Duration::from_millis(5));
            while futex.wait(&word, 3, Some(end)) != Woken::TimedOut {}
            assert!(clock::monotonic() >= end);
        }
    }

    /// `changing`: each side now has the other fence and now the kernel.
    fn hand_over(futex: Futex, mode: FenceMode, changing: bool) {
        const ROUNDS: u32 = 2_000;
        let scene = Arc::new(([Doorbell::new(), Doorbell::new()], AtomicU32::new(0), futex));
        let side = move |scene: Arc<([Doorbell; 2], AtomicU32, Futex)>, me: usize| {
            let (bells, turn, futex) = &*scene;
            for looks in 0.. {
                match looks % 7 {
                    2 if changing => bells[me].have_ringers_fence(futex),
                    5 if changing => bells[me].let_ringers_be(),
                    _ => {}
                }
                let ticket = bells[me].prepare(mode, futex);
                let now = turn.load(Ordering::Acquire);
                if now >= ROUNDS {
                    bells[me].cancel(ticket);
                    bells[1 - me].ring(mode, futex);
                    return;
                }
                if now as usize % 2 == me {
                    bells[me].cancel(ticket);
                    turn.store(now + 1, Ordering::Release);
                    bells[1 - me].ring(mode, futex);
                } else {
                    let _ = bells[me].wait(ticket, None, futex);
                }
            }
        };
        let other = {
            let scene = scene.clone();
            std::thread::spawn(move || side(scene, 1))
        };
        side(scene, 0);
        other.join().expect("the other side ends");
    }

    #[test]
    fn two_threads_take_turns_asleep() {
        hand_over(Futex::private(), FenceMode::Symmetric, false);
        hand_over(Futex::shared(), FenceMode::Symmetric, false);
    }

    #[test]
    fn two_threads_take_turns_asleep_with_fences_on_one_side() {
        for changing in [false, true] {
            if membarrier::register_all().is_available() {
                hand_over(Futex::shared(), FenceMode::Asymmetric, changing);
            }
            if membarrier::register_own().is_available() {
                hand_over(Futex::private(), FenceMode::Asymmetric, changing);
            }
        }
    }

    #[test]
    fn without_a_fence_nobody_sleeps_for_long() {
        let futex = Futex::shared();
        futex.unfenced.store(true, Ordering::Relaxed);
        let word = AtomicU32::new(0);
        // Would hang for ever otherwise.
        assert_eq!(futex.wait(&word, 0, None), Woken::Woken);
    }
}
