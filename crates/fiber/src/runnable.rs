//! Runnable set of a worker: its fibers that others made runnable, and the bell on which it sleeps; the only part of the
//! scheduler that is contended.
//!
//! ```text
//!   groups    0 1 0 …        bit g: the group of 4096 numbers from 4096·g on may hold something
//!   bits      a two-level bit set: a word says which words, a word says which numbers
//!   bell      where the worker sleeps
//! ```
//!
//! A signal is one atomic OR. If the word was empty it is one more on the word above it, and so on: a signaller that
//! finds a group empty sets the group's bit and checks whether the worker sleeps.
//!
//! # Why no signal is lost
//! Level by level the argument is that of [`weft_atomic::bits`]: the worker clears a bit of a level *before* it empties
//! the level below; a signaller fills from below, and goes up if it found the level empty. So for a signal whose bit is
//! set in the lowest level, either it is taken, or the bits above it are set, or the signaller that found the level empty
//! is about to set them. The last bit that is set is that of the group, by an atomic exchange; after it comes the check
//! of the bell, which is the protocol of the [doorbell](weft_atomic::doorbell). The worker announces its sleep and then
//! looks at the groups.

use weft_atomic::bits::Bits;
use weft_atomic::{Doorbell, FenceMode, Kernel};

/// Numbers in a group.
pub(crate) const GROUP: usize = 4096;

/// The contended half of a worker: words that live elsewhere, and the bell.
#[derive(Debug)]
pub(crate) struct Runnable<'a> {
    groups: Bits<'a>,
    bits: Bits<'a>,
    bell: Doorbell,
    mode: FenceMode,
}

impl<'a> Runnable<'a> {
    /// Over two sets of zeros; `groups` must hold a number for each 4096 of `bits`.
    pub(crate) fn new(groups: Bits<'a>, bits: Bits<'a>, mode: FenceMode) -> Self {
        debug_assert!(groups.len() * GROUP >= bits.len());
        Self {
            groups,
            bits,
            bell: Doorbell::new(),
            mode,
        }
    }

    /// Makes a fiber runnable, and wakes the worker if it sleeps: `woken` is called first by whoever does.
    #[inline]
    pub(crate) fn signal(
        &self,
        number: usize,
        kernel: &(impl Kernel + ?Sized),
        woken: impl FnOnce(),
    ) {
        // Release: SYNC bits.add, of what the signaller wrote before.
        if self.bits.set_in_group(number) {
            self.announce(number / GROUP, kernel, woken);
        }
    }

    #[inline]
    fn announce(&self, group: usize, kernel: &(impl Kernel + ?Sized), woken: impl FnOnce()) {
        self.groups.set(group);
        self.mode.light_after_exchange();
        if self.bell.somebody_sleeps() {
            self.bell.ring_and(self.mode, kernel, woken);
        }
    }

    /// Whether there may be anything to take.
    #[inline]
    pub(crate) fn may_have_any(&self) -> bool {
        self.groups.may_have_any()
    }

    /// Takes everything: `visit` gets the index of a word of 64 numbers and its bits.
    #[inline]
    pub(crate) fn take(&self, mut visit: impl FnMut(usize, u64)) {
        self.groups
            .take_all(|group| self.bits.take_group(group, &mut visit));
    }

    /// Sleeps until there may be something to take, or [`ring`](Self::ring) is called after `unless` said
    /// no. `how` sleeps: it is given the way to do so on the own bell.
    pub(crate) fn sleep(
        &self,
        kernel: &(impl Kernel + ?Sized),
        unless: impl Fn() -> bool,
        how: impl FnOnce(&dyn Fn()),
    ) {
        let ticket = self.bell.prepare(self.mode, kernel);
        if self.may_have_any() || unless() {
            self.bell.cancel(ticket);
            return;
        }
        how(&|| _ = self.bell.wait(ticket, None, kernel));
    }

    /// Wakes the worker for another reason, which must be published before.
    pub(crate) fn ring(&self, kernel: &(impl Kernel + ?Sized), woken: impl FnOnce()) {
        self.bell.ring_and(self.mode, kernel, woken);
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::sync::{Condvar, Mutex};
    use weft_atomic::bits::BitSet;
    use weft_atomic::{Arc, AtomicU32, Ordering, Woken};

    /// A futex of a mutex and a condition, visible to the model.
    struct Park(Mutex<()>, Condvar);

    impl Kernel for Park {
        fn wait(&self, word: &AtomicU32, expected: u32, _: Option<u64>) -> Woken {
            let held = self.0.lock().unwrap();
            if word.load(Ordering::Relaxed) != expected {
                return Woken::Changed;
            }
            let _held = self.1.wait(held).unwrap();
            Woken::Woken
        }
        fn wake(&self, _: &AtomicU32, _: u32) {
            let _held = self.0.lock().unwrap();
            self.1.notify_all();
        }
        fn barrier(&self) {
            weft_atomic::fence(Ordering::SeqCst);
        }
    }

    struct Scene {
        runnable: Runnable<'static>,
        park: Park,
        conditions: [AtomicU32; 2],
    }

    fn scene() -> Arc<Scene> {
        let leak = |length| -> &'static BitSet { Box::leak(Box::new(BitSet::new(length))) };
        Arc::new(Scene {
            runnable: Runnable::new(leak(1).bits(), leak(2).bits(), FenceMode::Symmetric),
            park: Park(Mutex::new(()), Condvar::new()),
            conditions: [AtomicU32::new(0), AtomicU32::new(0)],
        })
    }

    impl Scene {
        /// Relaxed on purpose: the bit has to carry the condition along.
        fn signal(&self, number: usize) {
            self.conditions[number].store(1, Ordering::Relaxed);
            self.runnable.signal(number, &self.park, || ());
        }

        /// A worker that runs until the conditions of so many fibers are seen. Each fiber is parked as
        /// [`crate::park`] asks: it looks only when its bit was taken. A lost one is a deadlock.
        fn work(&self, fibers: usize) {
            let mut done = [false; 2];
            while done.iter().filter(|done| **done).count() < fibers {
                self.runnable.take(|word, mut bits| {
                    while bits != 0 {
                        let number = word * 64 + bits.trailing_zeros() as usize;
                        bits &= bits - 1;
                        done[number] |= self.conditions[number].load(Ordering::Relaxed) == 1;
                    }
                });
                if done.iter().filter(|done| **done).count() < fibers {
                    self.runnable.sleep(&self.park, || false, |own| own());
                }
            }
        }
    }

    fn bounded() -> loom::model::Builder {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder
    }

    #[test]
    fn two_signallers_and_a_worker_that_sleeps() {
        bounded().check(|| {
            let scene = scene();
            let signallers: Vec<_> = (0..2)
                .map(|number| {
                    let scene = scene.clone();
                    loom::thread::spawn(move || scene.signal(number))
                })
                .collect();
            scene.work(2);
            for signaller in signallers {
                signaller.join().unwrap();
            }
        });
    }

    #[test]
    fn one_signals_two_fibers_in_turn() {
        bounded().check(|| {
            let scene = scene();
            let signaller = {
                let scene = scene.clone();
                loom::thread::spawn(move || {
                    scene.signal(0);
                    scene.signal(1);
                })
            };
            scene.work(2);
            signaller.join().unwrap();
        });
    }

    /// The model can fail: a signaller that does not look at the bell leaves the worker asleep.
    #[test]
    #[should_panic(expected = "deadlock")]
    fn without_the_bell_it_hangs() {
        bounded().check(|| {
            let scene = scene();
            let signaller = {
                let scene = scene.clone();
                loom::thread::spawn(move || {
                    scene.conditions[0].store(1, Ordering::Relaxed);
                    scene.runnable.bits.set_in_group(0);
                    scene.runnable.groups.set(0);
                })
            };
            scene.work(1);
            signaller.join().unwrap();
        });
    }
}
