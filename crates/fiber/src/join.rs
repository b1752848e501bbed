//! Join handle: the right to the result of a fiber.

use std::fmt;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};

use crate::completion::Detached;
use crate::control::{Control, Result};
use crate::fiber::Fiber;
use crate::waiter::{Waiter, park};

/// The right to the result of a fiber. It may outlive the runtime, which keeps the result until then.
///
/// Dropping it lets the fiber go on. The result is then dropped by the fiber, or, if it has ended, by the thread that
/// drops the handle; a panic of that drop ends there.
pub struct JoinHandle<T> {
    fiber: Fiber,
    /// The block of the fiber, which stays where it is while the handle lives.
    control: *mut Control,
    result: PhantomData<T>,
}

// SAFETY: the handle is the right to one result, which may be sent if the result may.
unsafe impl<T: Send> Send for JoinHandle<T> {}
// SAFETY: a shared handle only names the fiber.
unsafe impl<T: Send> Sync for JoinHandle<T> {}

impl<T> JoinHandle<T> {
    #[inline]
    pub(crate) fn new(fiber: Fiber) -> Self {
        Self {
            fiber,
            control: fiber.runtime().control(fiber.number()),
            result: PhantomData,
        }
    }

    /// The fiber.
    #[must_use]
    pub fn fiber(&self) -> Fiber {
        self.fiber
    }

    /// Whether it has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        // SAFETY: the stack is not given back while the handle lives (module page of `stack`).
        unsafe { (*self.control).completion.is_done() }
    }

    /// Suspends the caller (a fiber, or a thread) until the fiber has ended.
    ///
    /// # Errors
    /// The payload of its panic.
    #[inline]
    pub fn join(self) -> Result<T> {
        let this = ManuallyDrop::new(self);
        let control = this.control;
        // SAFETY: the stack, with this block, is not given back before `release` below.
        let completion = unsafe { &(*control).completion };
        if !completion.is_done() && completion.join(Waiter::current()) {
            while !completion.is_done() {
                park();
            }
        }
        // SAFETY: it has ended, and this is called once: the handle is consumed.
        let result = unsafe {
            let mut result = MaybeUninit::<Result<T>>::uninit();
            ((*control).take)(control, result.as_mut_ptr().cast());
            result.assume_init()
        };
        this.fiber.runtime().release(this.fiber.number());
        result
    }

    /// The name alone, from which [`claim`](Self::claim) makes the handle again.
    #[must_use]
    pub fn into_fiber(self) -> Fiber {
        let fiber = ManuallyDrop::new(self).fiber;
        fiber.incarnation_word().open();
        fiber
    }

    /// The handle of a fiber, if there is none, and it was not joined or detached: of all that claim a fiber one gets the
    /// handle.
    ///
    /// # Safety
    /// The result of the fiber must be a `T`.
    #[must_use]
    pub unsafe fn claim(fiber: Fiber) -> Option<Self> {
        fiber
            .incarnation_word()
            .claim(fiber.incarnation())
            .then(|| Self::new(fiber))
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        let control = self.control;
        // SAFETY: the stack is not given back while the handle lives, also when the runtime has ended; if the
        // fiber has ended already, cleaning up is ours.
        unsafe {
            if (*control).completion.detach() == Detached::Done {
                ((*control).discard)(control);
                self.fiber.runtime().release(self.fiber.number());
            }
        }
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "JoinHandle({:?})", self.fiber)
    }
}
