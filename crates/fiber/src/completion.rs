//! Completion of a fiber: the word in which its end meets the waiter for it.
//!
//! ```text
//!              join                    end
//!   RUNNING ─────────► JOINING ─────────────────► DONE      the waiter is woken
//!      │ └────────────────────────────── end ───► DONE      somebody will join, or detach
//!      └── detach ───► DETACHED ─ drop_result ──► DROPPED   the end frees the number
//!                                     detach of DONE: whoever detaches drops the result and frees the number
//! ```
//!
//! # Who may touch what
//! The joiner or detacher has the [claim](crate::incarnation), so there is only one, once. The waiter is written by the
//! joiner while RUNNING, before JOINING is published (Release: SYNC completion.joining), and read by the end after it
//! (Acquire). The result is written by the fiber before DONE is published (Release: SYNC completion.done), and read by
//! the joiner after (Acquire). The result of a fiber that is DETACHED when it ends is dropped by the fiber itself, on its
//! own stack.

use weft_atomic::{AtomicU32, Ordering, UnsafeCell};

const RUNNING: u32 = 0;
const JOINING: u32 = 1;
const DONE: u32 = 2;
const DETACHED: u32 = 3;
const DROPPED: u32 = 4;

/// The word, and whom to wake.
#[derive(Debug)]
pub(crate) struct Completion<W> {
    state: AtomicU32,
    waiter: UnsafeCell<Option<W>>,
}

/// What the end found.
#[must_use]
#[derive(Debug)]
pub(crate) enum Ended<W> {
    /// Nobody waits yet.
    Alone,
    /// Wake this one.
    Awaited(W),
    /// It was detached since it looked: its result is there and nobody wants it. Not the end.
    Unwanted,
    /// It was detached and its result is dropped: the number is free.
    Dropped,
}

/// What a detach found.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Detached {
    /// The fiber runs, and cleans up at its end.
    Running,
    /// It has ended: whoever detaches cleans up.
    Done,
}

impl<W> Completion<W> {
    pub(crate) fn new() -> Self {
        Self {
            state: AtomicU32::new(RUNNING),
            waiter: UnsafeCell::new(None),
        }
    }

    /// Whether the fiber has ended; then its result is there.
    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        // Acquire: SYNC completion.done.
        self.state.load(Ordering::Acquire) == DONE
    }

    /// Leaves whom to wake; false if the fiber has ended meanwhile. Called once, by the one who joins.
    #[inline]
    pub(crate) fn join(&self, waiter: W) -> bool {
        // SAFETY: the state is RUNNING or DONE, so nobody else looks at the waiter.
        self.waiter
            .with_mut(|place| unsafe { *place = Some(waiter) });
        let joins = self
            .state
            // Release: SYNC completion.joining. Acquire: SYNC completion.done.
            .compare_exchange(RUNNING, JOINING, Ordering::AcqRel, Ordering::Acquire)
            .is_ok();
        if !joins {
            // SAFETY: DONE: the end is through with the waiter. The block is not dropped, so this one is.
            drop(self.waiter.with_mut(|place| unsafe { (*place).take() }));
        }
        joins
    }

    /// Nobody will join. Called once, by the one who detaches.
    pub(crate) fn detach(&self) -> Detached {
        match self
            .state
            .compare_exchange(RUNNING, DETACHED, Ordering::AcqRel, Ordering::Acquire)
        {
            Ok(_) => Detached::Running,
            Err(state) => {
                assert_eq!(state, DONE, "a fiber is joined or detached once");
                Detached::Done
            }
        }
    }

    /// Whether nobody wants the result, so that the fiber drops it. Asked by the fiber, with the result there.
    #[inline]
    pub(crate) fn is_unwanted(&self) -> bool {
        self.state.load(Ordering::Relaxed) == DETACHED
    }

    /// The fiber, detached, has dropped its result.
    pub(crate) fn result_dropped(&self) {
        // Nobody else changes the state of one that is detached.
        self.state.store(DROPPED, Ordering::Relaxed);
    }

    /// As [`Self::end`], by the fiber itself while it is on its stack yet, if somebody waits who `goes_on_after`: only
    /// when this fiber is off it. Answers who that is; `None`: nothing is done.
    #[inline]
    pub(crate) fn end_on_stack(&self, goes_on_after: impl FnOnce(&W) -> bool) -> Option<W> {
        // Acquire: SYNC completion.joining.
        if self.state.load(Ordering::Acquire) != JOINING {
            return None;
        }
        // SAFETY: JOINING: the waiter is written and nobody else touches it.
        let waiter = self.waiter.with_mut(|place| unsafe {
            match &*place {
                Some(waiter) if goes_on_after(waiter) => (*place).take(),
                _ => None,
            }
        })?;
        // Nobody else changes the state of one that is awaited. Release: SYNC completion.done.
        self.state.store(DONE, Ordering::Release);
        Some(waiter)
    }

    /// The fiber has ended. Unless it is detached, nothing may be touched after this but by who joins.
    #[inline]
    pub(crate) fn end(&self) -> Ended<W> {
        // The waiter is moved out before DONE is published: after that the one who joins may reuse the
        // place at any moment.
        loop {
            // Acquire: SYNC completion.joining.
            let state = self.state.load(Ordering::Acquire);
            let ended = match state {
                JOINING => {
                    // SAFETY: JOINING: the waiter is written and nobody else touches it.
                    let waiter = self.waiter.with_mut(|place| unsafe { (*place).take() });
                    waiter.map_or(Ended::Alone, Ended::Awaited)
                }
                DETACHED => return Ended::Unwanted,
                DROPPED => return Ended::Dropped,
                _ => Ended::Alone,
            };
            // Release: SYNC completion.done.
            if self
                .state
                .compare_exchange(state, DONE, Ordering::AcqRel, Ordering::Acquire)
                .is_ok()
            {
                return ended;
            }
        }
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use weft_atomic::Arc;

    struct Scene(Completion<loom::thread::Thread>, UnsafeCell<u32>);
    // SAFETY: the cell is written before the end and read after it was seen.
    unsafe impl Sync for Scene {}
    // SAFETY: as above.
    unsafe impl Send for Scene {}

    impl Scene {
        /// Drops the result: a write that the model sees, so two who do are found.
        fn drop_result(&self) {
            // SAFETY: the model finds it if another touches the result meanwhile.
            self.1.with_mut(|result| unsafe {
                assert_eq!(*result, 7, "it is there, once");
                *result = 0;
            });
        }
    }

    #[test]
    fn a_fiber_ends_while_another_joins_it() {
        loom::model(|| {
            let scene = Arc::new(Scene(Completion::new(), UnsafeCell::new(0)));
            let fiber = {
                let scene = scene.clone();
                loom::thread::spawn(move || {
                    // SAFETY: before the end.
                    scene.1.with_mut(|result| unsafe { *result = 7 });
                    if let Ended::Awaited(waiter) = scene.0.end() {
                        waiter.unpark();
                    }
                })
            };
            if !scene.0.is_done() && scene.0.join(loom::thread::current()) {
                while !scene.0.is_done() {
                    loom::thread::park();
                }
            }
            // SAFETY: after the end.
            assert_eq!(scene.1.with(|result| unsafe { *result }), 7);
            fiber.join().unwrap();
        });
    }

    #[test]
    fn exactly_one_drops_the_result_and_cleans_up() {
        loom::model(|| {
            let scene = Arc::new(Scene(Completion::new(), UnsafeCell::new(0)));
            let fiber = {
                let scene = scene.clone();
                loom::thread::spawn(move || {
                    // SAFETY: before the end.
                    scene.1.with_mut(|result| unsafe { *result = 7 });
                    loop {
                        if scene.0.is_unwanted() {
                            scene.drop_result();
                            scene.0.result_dropped();
                        }
                        match scene.0.end() {
                            Ended::Unwanted => {}
                            Ended::Dropped => return true,
                            _ => return false,
                        }
                    }
                })
            };
            let here = scene.0.detach() == Detached::Done;
            if here {
                scene.drop_result();
            }
            assert!(fiber.join().unwrap() != here);
            // SAFETY: both are through.
            assert_eq!(scene.1.with(|result| unsafe { *result }), 0);
        });
    }
}
