//! Fiber table: for each number where its fiber continues, which worker owns it, which use of the number it is, and
//! whether it may migrate.
//!
//! | table | written by | read by |
//! |---|---|---|
//! | contexts | the starter of the fiber, then its owner (SYNC worker.give) | its owner |
//! | owners | the starter of the fiber, then its owner | all that signal |
//! | incarnations | see [`Incarnation`] | all that have the name |
//! | migrating | the starter of the fiber, then the fiber itself | its owner |
//!
//! # Safety
//! Numbers are below the limit for which the tables were made: [`Stacks`](crate::stack::Stacks) gives out no others, and
//! `Runtime::find` checks its argument.

use std::io;

use weft_atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use weft_sys::Mapping;

use crate::incarnation::Incarnation;

/// In the table of owners: the number is free. Workers are stored as their index plus one.
pub(crate) const NOBODY: u32 = 0;

/// What stands in the table of owners for a worker.
#[inline]
pub(crate) fn owner_of(worker: usize) -> u32 {
    worker as u32 + 1
}

/// The index of the worker that an owner is, if it is any.
#[inline]
pub(crate) fn worker_of(owner: u32) -> Option<usize> {
    (owner as usize).checked_sub(owner_of(0) as usize)
}

/// The tables. Of their memory only the pages of numbers that were in use are taken.
pub(crate) struct FiberTable {
    contexts: Mapping,
    owners: Mapping,
    incarnations: Mapping,
    /// By word of 64 numbers.
    migrating: Mapping,
}

impl FiberTable {
    pub(crate) fn new(limit: usize) -> io::Result<Self> {
        Ok(Self {
            contexts: Mapping::private(limit * 8)?,
            owners: Mapping::private(limit * 4)?,
            incarnations: Mapping::private(limit * 4)?,
            migrating: Mapping::private(limit.div_ceil(64) * 8)?,
        })
    }

    /// The owner of a fiber: [`owner_of`] a worker, or [`NOBODY`].
    #[inline]
    pub(crate) fn owner(&self, number: u32) -> &AtomicU32 {
        // SAFETY: numbers lie below the limit, for which the mapping was made: see the module page.
        unsafe { AtomicU32::from_ptr(self.owners.as_ptr().cast::<u32>().add(number as usize)) }
    }

    #[inline]
    pub(crate) fn incarnation(&self, number: u32) -> Incarnation<'_> {
        let words = self.incarnations.as_ptr().cast::<u32>();
        // SAFETY: as for `owner`.
        Incarnation(unsafe { AtomicU32::from_ptr(words.add(number as usize)) })
    }

    /// Where a fiber goes on. Read and written by its owner alone.
    #[inline]
    pub(crate) fn context(&self, number: u32) -> &AtomicPtr<u8> {
        // SAFETY: as for `owner`.
        unsafe {
            AtomicPtr::from_ptr(
                self.contexts
                    .as_ptr()
                    .cast::<*mut u8>()
                    .add(number as usize),
            )
        }
    }

    #[inline]
    fn migrating(&self, word: usize) -> &AtomicU64 {
        // SAFETY: as for `owner`: a word of numbers below the limit.
        unsafe { AtomicU64::from_ptr(self.migrating.as_ptr().cast::<u64>().add(word)) }
    }

    /// Which fibers of a word may migrate, a bit for each.
    #[inline]
    pub(crate) fn migrating_in(&self, word: usize) -> u64 {
        self.migrating(word).load(Ordering::Relaxed)
    }

    /// Whether a fiber may migrate.
    #[inline]
    pub(crate) fn may_migrate(&self, number: u32) -> bool {
        self.migrating_in(number as usize / 64) >> (number % 64) & 1 != 0
    }

    /// Says whether a fiber may migrate. By whoever starts it, or the fiber itself.
    #[inline]
    pub(crate) fn set_migrating(&self, number: u32, migrating: bool) {
        if self.may_migrate(number) != migrating {
            let word = self.migrating(number as usize / 64);
            word.fetch_xor(1 << (number % 64), Ordering::Relaxed);
        }
    }
}
