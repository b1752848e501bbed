//! Parker: the word on which a thread that is not a fiber waits.
//!
//! ```text
//!            park                       wake
//!   EMPTY ──────────► ASLEEP ──────────────────────► WOKEN ── park ──► EMPTY     the sleeper is rung
//!     └───────────────── wake ─────────────────────► WOKEN                       nothing else to do
//! ```
//!
//! The thread of the standard library can be parked too, but it sleeps at once. If threads wait for messages that come
//! all the time, a sleep and a wake-up cost more than the message: so this one lets others run for a while first, and a
//! wake-up in that time is one exchange.
//!
//! # Why no wake-up is lost
//! All changes of the word are exchanges, so they have one order. A wake-up stays until a park takes it. Everything that
//! the waker wrote before is seen after the park that took it (Release, Acquire: SYNC parker.word).

use weft_atomic::{AtomicU32, Kernel, Ordering, yield_now};

const EMPTY: u32 = 0;
const ASLEEP: u32 = 1;
const WOKEN: u32 = 2;

/// How often the thread yields its core before it sleeps. A yield takes half a microsecond when nobody wants
/// the core, so this is about what a sleep and a wake-up cost.
pub(crate) const YIELDS: u32 = if cfg!(loom) { 1 } else { 30 };

/// The word on which one thread parks, and by which any may wake it.
#[derive(Debug)]
pub(crate) struct Parker {
    word: AtomicU32,
}

impl Parker {
    pub(crate) fn new() -> Self {
        Self {
            word: AtomicU32::new(EMPTY),
        }
    }

    /// Has the thread look again: ends its park, or the next one if it is not parked.
    #[inline]
    pub(crate) fn wake(&self, kernel: &impl Kernel) {
        // Release: SYNC parker.word.
        if self.word.swap(WOKEN, Ordering::AcqRel) == ASLEEP {
            kernel.wake(&self.word, 1);
        }
    }

    /// Lets others run so many times, or until woken, and looks each time that it is back; up to `looks` times before it lets them
    /// run, while `look` says that there is a point in it.
    pub(crate) fn give_way(&self, yields: u32, looks: u32, mut look: impl FnMut() -> bool) {
        for _ in 0..yields {
            let mut left = looks;
            while !self.is_woken() && left > 0 && look() {
                left -= 1;
            }
            if self.is_woken() {
                break;
            }
            yield_now();
            look();
        }
    }

    fn is_woken(&self) -> bool {
        self.word.load(Ordering::Relaxed) == WOKEN
    }

    /// Waits until woken, asleep after so many yields of the core. May return early.
    pub(crate) fn park(&self, yields: u32, kernel: &impl Kernel) {
        self.give_way(yields, 0, || false);
        // Fails if it is woken already.
        if self
            .word
            .compare_exchange(EMPTY, ASLEEP, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
        {
            let _ = kernel.wait(&self.word, ASLEEP, None);
        }
        // Acquire: SYNC parker.word.
        self.word.swap(EMPTY, Ordering::AcqRel);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use weft_sys::Futex;

    #[test]
    fn a_wake_up_before_the_park_ends_it() {
        let (parker, futex) = (Parker::new(), Futex::private());
        parker.wake(&futex);
        parker.wake(&futex);
        parker.park(YIELDS, &futex);
        assert_eq!(parker.word.load(Ordering::Relaxed), EMPTY);
    }

    #[test]
    fn a_thread_that_gives_way_looks_until_woken() {
        let (parker, futex) = (Parker::new(), Futex::private());
        let mut looks = 0;
        let mut look = |wakes_at| {
            looks += 1;
            if looks == wakes_at {
                parker.wake(&futex);
            }
            looks
        };
        parker.give_way(5, 0, || look(0) > 0);
        assert_eq!(look(0), 6, "one after each yield");
        parker.give_way(5, 0, || look(8) > 0);
        assert_eq!(look(0), 9, "what it looked at has woken it");
        parker.park(0, &futex);
    }

    #[test]
    fn a_thread_looks_before_it_gives_way_while_there_is_a_point_in_it() {
        let (parker, futex) = (Parker::new(), Futex::private());
        let mut looks = 0;
        parker.give_way(2, 3, || {
            looks += 1;
            true
        });
        assert_eq!(looks, 2 * (3 + 1));
        parker.give_way(2, 3, || {
            looks += 1;
            false
        });
        assert_eq!(looks, 8 + 2 * (1 + 1), "there is none");
        parker.give_way(2, 3, || {
            looks += 1;
            if looks == 14 {
                parker.wake(&futex);
            }
            true
        });
        assert_eq!(looks, 14, "woken before it gave way at all");
        parker.park(0, &futex);
    }

    #[test]
    fn two_threads_alternate() {
        let rounds = if cfg!(miri) { 100 } else { 2_000 };
        let table = Arc::new((
            [Parker::new(), Parker::new()],
            Futex::private(),
            weft_atomic::AtomicU32::new(0),
        ));
        let play = |me: u32, table: Arc<([Parker; 2], Futex, weft_atomic::AtomicU32)>| {
            move || {
                let (parkers, futex, turn) = &*table;
                for _ in 0..rounds {
                    while turn.load(Ordering::Relaxed) % 2 != me {
                        parkers[me as usize].park(YIELDS, futex);
                    }
                    turn.fetch_add(1, Ordering::Relaxed);
                    parkers[1 - me as usize].wake(futex);
                }
            }
        };
        let other = std::thread::spawn(play(1, table.clone()));
        play(0, table.clone())();
        other.join().expect("it has ended");
        assert_eq!(table.2.load(Ordering::Relaxed), 2 * rounds);
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::sync::{Condvar, Mutex};
    use weft_atomic::{Arc, Woken};

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
        fn barrier(&self) {}
    }

    /// Conditions that only the word carries along: a lost wake-up is a deadlock.
    #[test]
    fn two_wakers_and_one_parked_thread() {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(|| {
            let scene = Arc::new((
                Parker::new(),
                Park(Mutex::new(()), Condvar::new()),
                [AtomicU32::new(0), AtomicU32::new(0)],
            ));
            let wakers: Vec<_> = (0..2)
                .map(|number| {
                    let scene = scene.clone();
                    loom::thread::spawn(move || {
                        scene.2[number].store(1, Ordering::Relaxed);
                        scene.0.wake(&scene.1);
                    })
                })
                .collect();
            while scene
                .2
                .iter()
                .any(|condition| condition.load(Ordering::Relaxed) == 0)
            {
                scene.0.park(YIELDS, &scene.1);
            }
            for waker in wakers {
                waker.join().unwrap();
            }
        });
    }
}
