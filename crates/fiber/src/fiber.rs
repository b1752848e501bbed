//! One fiber: its handle, and the block at the top of its stack.

use std::fmt;

use weft_atomic::{AtomicU32, Ordering};

use crate::completion::Completion;
use crate::incarnation::Incarnation;
use crate::runtime::Inner;
use crate::waiter::{Waiter, WorkerId};
use crate::worker;

/// What stands at the top of each fiber's stack.
#[repr(C, align(64))]
pub(crate) struct Control {
    pub completion: Completion<Waiter>,
    /// What the fiber does when it is first run: the closure, whose result it leaves in its place. Once.
    pub run: unsafe fn(*mut Control),
    /// Moves the result to an address that has room for it.
    pub take: unsafe fn(*mut Control, *mut u8),
    /// Drops the result that nobody will take. A panic of that ends there.
    pub discard: unsafe fn(*mut Control),
}

const _: () = assert!(size_of::<Control>() == 64);

/// The name of a fiber: copied freely, sent anywhere, and valid for ever. After the end of the fiber it
/// names nobody, or another fiber that was given its place, which takes a signal for what signals are: a
/// reason to look again.
#[derive(Clone, Copy)]
pub struct Fiber {
    pub(crate) runtime: &'static Inner,
    pub(crate) number: u32,
    pub(crate) incarnation: u32,
}

impl Fiber {
    /// Makes the fiber look again: it runs at least once after this. Idempotent until it does. See
    /// [the crate's page](crate) for how to wait.
    ///
    /// Takes one atomic OR, and no atomic at all if the fiber belongs to the calling worker. What was
    /// written before is seen by the fiber after.
    #[inline(never)]
    pub fn signal(self) {
        let owner = self.runtime.owner(self.number).load(Ordering::Acquire);
        if let Some(here) = worker::here()
            && here.serves(self.runtime, owner)
        {
            here.ready.set(self.number);
            return;
        }
        self.runtime.signal_at(owner, self.number);
    }

    /// Whether the fiber has not ended.
    #[must_use]
    pub fn is_live(self) -> bool {
        self.runtime.owner(self.number).load(Ordering::Acquire) != NOBODY
            && self.incarnation_word().is(self.incarnation)
    }

    /// A number that no other live fiber of its runtime has, from 0 up: an index for tables.
    #[must_use]
    pub fn number(self) -> u32 {
        self.number
    }

    pub(crate) fn worker(self) -> WorkerId {
        WorkerId {
            runtime: std::ptr::from_ref(self.runtime).addr(),
            owner: self.runtime.owner(self.number).load(Ordering::Relaxed),
        }
    }

    /// A number that is never 0 and another each time the number is used; with it, the name of this one
    /// fiber.
    #[must_use]
    pub fn incarnation(self) -> u32 {
        self.incarnation
    }

    pub(crate) fn incarnation_word(self) -> Incarnation<'static> {
        self.runtime.incarnation(self.number)
    }
}

impl PartialEq for Fiber {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.runtime, other.runtime)
            && (self.number, self.incarnation) == (other.number, other.incarnation)
    }
}

impl Eq for Fiber {}

impl fmt::Debug for Fiber {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Fiber({}.{})", self.number, self.incarnation)
    }
}

/// In the table of owners: the number is free. Workers are stored as their index plus one.
pub(crate) const NOBODY: u32 = 0;

/// An entry of the table of owners: the worker that runs the fiber.
#[inline]
pub(crate) fn owner_of(worker: usize) -> u32 {
    worker as u32 + 1
}

/// The word of a table of one 32-bit word a fiber.
pub(crate) type Word = AtomicU32;
