//! Stack cache of a worker: free stacks that it keeps for its next fibers, by size.
//!
//! Only the thread of the worker touches it. Stacks go between it and the depot of [`Stacks`] in batches.

use std::cell::RefCell;
use std::io;

use crate::stack::{BATCH, CLASSES, Class, Stacks};

/// The numbers of free stacks, by class.
#[derive(Default)]
pub(crate) struct StackCache {
    free: [RefCell<Vec<u32>>; CLASSES],
}

impl StackCache {
    /// A free stack of a class: one that is kept here, or from the depot.
    #[inline]
    pub(crate) fn take(&self, stacks: &Stacks, class: Class) -> io::Result<u32> {
        let mut free = self.free[class.index()].borrow_mut();
        if let Some(number) = free.pop() {
            return Ok(number);
        }
        stacks.take(class, &mut free)?;
        free.pop()
            .ok_or_else(|| io::Error::other("the depot of stacks gave none"))
    }

    /// Keeps a stack; gives some to the depot if there are many.
    #[inline]
    pub(crate) fn keep(&self, stacks: &Stacks, class: Class, number: u32) {
        let mut free = self.free[class.index()].borrow_mut();
        free.push(number);
        if free.len() > 4 * BATCH {
            stacks.give_back(class, &mut free.drain(..2 * BATCH));
        }
    }

    /// Gives all stacks that are kept here to the depot.
    pub(crate) fn give_all_back(&self, stacks: &Stacks) {
        for (index, free) in self.free.iter().enumerate() {
            stacks.give_back(Class::at(index), &mut free.take().into_iter());
        }
    }
}
