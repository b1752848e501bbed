//! Hosts of a node's services: what drives the endpoint, the services themselves or the layer whose guest they are.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weft_fabric::waiting::{Step, Waiting};
use weft_fabric::{Bell, Fabric, Guest, Subject};

use crate::awaited::Awaited;
use crate::state::Core;

/// Exclusive use of a node's state and endpoint, and waiting.
pub trait Host: Send + Sync {
    /// Runs `work` with exclusive use.
    fn with(&self, work: &mut dyn FnMut(&mut Core, &mut dyn Fabric));
    /// Makes progress until `ready` returns true. Calls it first, and after anything has moved; while another thread makes the progress, after
    /// `subject` [has changed](Guest::changes). `awaited` says what for, on inquiry.
    fn wait(
        &self,
        subject: Subject,
        ready: &mut dyn FnMut(&mut Core, &mut dyn Fabric) -> bool,
        awaited: &dyn Fn(&mut Core) -> Awaited,
    );
}

/// Services that have an endpoint to themselves.
pub(crate) struct Alone {
    state: Mutex<State>,
    bell: Arc<dyn Bell>,
}

struct State {
    core: Core,
    fabric: Box<dyn Fabric>,
    /// Threads within `wait`.
    waiting: u32,
}

/// Number of items that one poll may handle before the caller's own condition is checked again.
const BUDGET: usize = 32;

impl State {
    #[inline]
    fn progress(&mut self) -> bool {
        let found = self.fabric.poll(&mut self.core, BUDGET) > 0;
        let moved = self.core.settle(&mut *self.fabric);
        let changed = !self.core.changes().is_empty();
        self.core.changes().clear();
        moved | changed | found
    }
}

impl Alone {
    pub(crate) fn new(fabric: Box<dyn Fabric>) -> Self {
        Self {
            bell: fabric.bell(),
            state: Mutex::new(State {
                core: Core::new(&*fabric),
                fabric,
                waiting: 0,
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Host for Alone {
    fn with(&self, work: &mut dyn FnMut(&mut Core, &mut dyn Fabric)) {
        let mut state = self.lock();
        let State { core, fabric, .. } = &mut *state;
        work(core, &mut **fabric);
        if state.waiting > 0 {
            self.bell.ring();
        }
    }

    /// Nobody inquires, and all who wait look after each change.
    fn wait(
        &self,
        _subject: Subject,
        ready: &mut dyn FnMut(&mut Core, &mut dyn Fabric) -> bool,
        _awaited: &dyn Fn(&mut Core) -> Awaited,
    ) {
        let mut state = self.lock();
        {
            let State { core, fabric, .. } = &mut *state;
            if ready(core, &mut **fabric) {
                return;
            }
        }
        state.waiting += 1;
        let mut waiting = Waiting::new();
        loop {
            if state.progress() {
                let State { core, fabric, .. } = &mut *state;
                if ready(core, &mut **fabric) {
                    break;
                }
                waiting.found();
                if state.waiting > 1 {
                    // What came may be for another thread, which sleeps or waits for the lock.
                    self.bell.ring();
                }
            } else if waiting.step(&*self.bell) == Step::Sleep {
                let ticket = self.bell.prepare();
                let found = state.progress();
                let State { core, fabric, .. } = &mut *state;
                if ready(core, &mut **fabric) {
                    self.bell.cancel(ticket);
                    break;
                }
                if found {
                    self.bell.cancel(ticket);
                    if state.waiting > 1 {
                        self.bell.ring();
                    }
                } else {
                    drop(state);
                    self.bell.wait(ticket, None);
                    state = self.lock();
                }
                waiting.found();
            } else if state.waiting > 1 {
                drop(state);
                std::thread::yield_now();
                state = self.lock();
                let State { core, fabric, .. } = &mut *state;
                if ready(core, &mut **fabric) {
                    break;
                }
                continue;
            }
            if state.waiting > 1 {
                let State { core, fabric, .. } = &mut *state;
                if ready(core, &mut **fabric) {
                    break;
                }
            }
        }
        state.waiting -= 1;
        if state.waiting > 0 {
            self.bell.ring();
        }
    }
}
