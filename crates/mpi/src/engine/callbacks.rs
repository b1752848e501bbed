//! Callbacks: code of the program that the engine calls while it is not held.
//!
//! | purpose | owner of the code |
//! |---|---|
//! | waking a task, dropping its waker | the executor |
//! | combining elements by a user's operation | the program |
//! | dropping a schedule that has such an operation | the operation |
//! | receiving events | a tool |
//!
//! Such code may call the library, may wait in it, and may let other fibers of its thread run. The thread that releases
//! the engine runs pending callbacks ([`Guard`](super::Guard)); a driver hands over progress first. A panic of such code
//! is caught here, because the thread that runs it did not call it. A panic of an operation is an error of its
//! collective.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Waker;

use weft_fabric::Region;
use weft_fiber::Waiter;

use super::events::{Event, Listener};
use super::schedule::{RunId, Schedule};
use crate::buffer;
use crate::datatype::Datatype;
use crate::error::{Error, ErrorClass, Result};
use crate::op::Op;

/// The operands of a step of a collective.
#[derive(Clone, Copy)]
pub(super) struct Operands {
    pub operand: Region,
    pub into: Region,
    pub count: usize,
    /// `into = operand op into`; else `into = into op operand`.
    pub operand_first: bool,
}

impl Operands {
    pub(super) fn combine(&self, op: &Op, datatype: &Arc<Datatype>) -> Result<()> {
        let (operand, into) = (self.operand, self.into);
        if self.operand_first || op.is_commutative() {
            return op.reduce(operand, into, self.count, datatype);
        }
        // The standard's form is `inout = in op inout`: the order is turned by a copy.
        let mut turned = vec![0; operand.len()];
        operand.copy_to_slice(&mut turned);
        let turned = buffer::region_of(&mut turned);
        op.reduce(into, turned, self.count, datatype)?;
        into.copy_from(&turned);
        Ok(())
    }
}

/// A step that a user's operation takes.
pub(super) struct Combine {
    pub op: Arc<Op>,
    pub datatype: Arc<Datatype>,
    pub operands: Operands,
}

/// Of [`Callbacks::due`]: something waits.
const WORK: u8 = 1;
/// Of [`Callbacks::due`]: somebody who sleeps elsewhere is to hear when the engine is let go of.
const AWAITED: u8 = 2;

/// Work that waits until the engine is released.
#[derive(Default)]
pub(super) struct Callbacks {
    /// A set, so that whoever lets go asks once.
    due: u8,
    wakes: Vec<Waker>,
    /// Only to be dropped.
    dropped: Vec<Box<dyn Any + Send>>,
    combines: Vec<(RunId, Combine)>,
    events: Vec<(Event, Arc<dyn Listener>)>,
    most_events: usize,
    /// Kinds of the events that were too many, and how many.
    dropped_events: (u32, u64),
    /// The listener that is told that.
    unheard: Option<Arc<dyn Listener>>,
}

impl Callbacks {
    #[inline]
    pub(super) fn is_pending(&self) -> bool {
        self.due & WORK != 0
    }

    /// Whether anything is to be done before the engine is let go of.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.due != 0
    }

    /// Whether somebody who sleeps elsewhere is to hear when the engine is let go of.
    pub(super) fn set_awaited(&mut self, is_awaited: bool) {
        self.due = self.due & !AWAITED | if is_awaited { AWAITED } else { 0 };
    }

    /// How many events may wait, for another engine.
    pub(super) fn most_events(&self) -> usize {
        self.most_events
    }

    /// Wakes somebody; a task later.
    #[inline]
    pub(super) fn wake(&mut self, waiter: Waiter) {
        match waiter {
            Waiter::Task(waker) => {
                self.due |= WORK;
                self.wakes.push(waker);
            }
            other => other.wake(),
        }
    }

    /// Drops a waiter; that of a task later.
    pub(super) fn drop_waiter(&mut self, waiter: Waiter) {
        if let Waiter::Task(waker) = waiter {
            self.drop_later(Box::new(waker));
        }
    }

    /// Drops the schedule of a run, which may be the last that keeps an operation.
    #[cold]
    pub(super) fn drop_schedule(&mut self, schedule: Arc<Schedule>) {
        self.drop_later(Box::new(schedule));
    }

    fn drop_later(&mut self, value: Box<dyn Any + Send>) {
        self.due |= WORK;
        self.dropped.push(value);
    }

    /// How many events may wait.
    pub(super) fn set_most_events(&mut self, most: usize) {
        self.most_events = most;
    }

    /// Takes all work that is due.
    pub(super) fn take(&mut self) -> Self {
        let (most_events, due) = (self.most_events, self.due & !WORK);
        std::mem::replace(
            self,
            Self {
                most_events,
                due,
                ..Self::default()
            },
        )
    }

    /// Tells a tool of an event.
    #[cold]
    pub(super) fn tell(&mut self, event: Event, listener: Arc<dyn Listener>) {
        self.due |= WORK;
        if self.events.len() < self.most_events {
            self.events.push((event, listener));
            return;
        }
        let (kinds, count) = &mut self.dropped_events;
        *kinds |= event.kind.bit();
        *count += 1;
        self.unheard = Some(listener);
    }

    /// Has the run go on when this is done; it must not end before.
    pub(super) fn combine(&mut self, run: RunId, combine: Combine) {
        self.due |= WORK;
        self.combines.push((run, combine));
    }

    /// Does it all; the answers are for [`Engine::combined`](super::Engine::combined).
    pub(super) fn run(self) -> Vec<(RunId, Result<()>)> {
        for waker in self.wakes {
            contain(|| waker.wake());
        }
        for (event, listener) in self.events {
            contain(|| listener.event(&event));
        }
        let (kinds, count) = self.dropped_events;
        if let Some(listener) = self.unheard {
            contain(|| listener.dropped(kinds, count));
        }
        for value in self.dropped {
            contain(|| drop(value));
        }
        let combines = self.combines.into_iter();
        let combined = combines.map(|(run, combine)| {
            let ended = call_operation(|| combine.operands.combine(&combine.op, &combine.datatype));
            // It may be the last that keeps the operation.
            contain(|| drop(combine));
            (run, ended)
        });
        combined.collect()
    }
}

/// Calls an operation of the program; an error if it panics.
pub(crate) fn call_operation(code: impl FnOnce() -> Result<()>) -> Result<()> {
    contain(code).unwrap_or_else(|| Err(panicked()))
}

/// Runs code of the program; `None` if it panicked, of which the panic hook has told.
fn contain<T>(code: impl FnOnce() -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(code)) {
        Ok(value) => Some(value),
        Err(payload) => {
            // Its drop is code of the program as well.
            std::mem::forget(payload);
            None
        }
    }
}

#[cold]
fn panicked() -> Error {
    Error::new(
        ErrorClass::Op,
        "a user's operation panicked; see its message on the standard error output",
    )
}
