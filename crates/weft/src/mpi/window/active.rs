//! Active target synchronisation: epochs that origin and target begin together (MPI 5.0, sections 12.5.1 and 12.5.2).
//!
//! | origin | target | all |
//! |---|---|---|
//! | [`start`](Window::start) … [`end`](ActiveEpoch::end) (`MPI_Win_complete`) | [`post`](Window::post) … [`wait`](Exposure::wait) | |
//! | | | [`fence`](Window::fence) … [`fence`](ActiveEpoch::fence) … [`end`](ActiveEpoch::end) |
//!
//! Accesses of such an epoch end with it, and not before: written elements belong to the epoch until then, and elements
//! read are [expected](Expected). An epoch that is dropped stays open, since ending it means to wait for other ranks: the
//! window then refuses other epochs with `RmaSync`, and cannot be freed.

use std::sync::{Arc, MutexGuard, PoisonError};

use weft_mpi::rma::{Assertion, Ends};
use weft_mpi::{Error, ErrorClass, Result};

use super::super::memory::{Memory, View};
use super::super::op::{Bits, no_op};
use super::super::{Element, Group, Op};
use super::{Window, target};

/// What an epoch needs until it ends.
#[derive(Default)]
pub(super) struct Held(Vec<Box<dyn Send>>);

impl std::fmt::Debug for Held {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Held({})", self.0.len())
    }
}

/// An access epoch that was begun together with the targets, by [`Window::fence`] or [`Window::start`].
///
/// ```
/// use weft::mpi::{self, op};
///
/// mpi::test(4, |world| {
///     let window = world.window::<u32>(2)?;
///     let (rank, right) = (world.rank(), (world.rank() + 1) % 4);
///     let epoch = window.fence()?;
///     epoch.put(vec![rank as u32], right, 0)?;
///     epoch.accumulate(vec![1], 0, 1, op::sum())?;
///     let epoch = epoch.fence()?; // all of this has been done everywhere
///     let left = epoch.get(rank, 0, 1)?;
///     let ranks = epoch.get(0, 1, 1)?;
///     epoch.end()?;
///     assert_eq!(left.take()?, [(rank as u32 + 3) % 4]);
///     assert_eq!(ranks.take()?, [4]);
///     window.free()
/// });
/// ```
#[must_use = "an epoch that is not ended stays open"]
#[derive(Debug)]
pub struct ActiveEpoch<'window, T: Element> {
    window: &'window Window<T>,
    fenced: bool,
}

/// Elements that arrive by the end of an epoch.
#[derive(Debug)]
#[must_use = "what is read is there after the end of the epoch"]
pub struct Expected<T: Element> {
    memory: Arc<Memory<T>>,
}

impl<T: Element> Expected<T> {
    /// The elements.
    ///
    /// # Errors
    /// `RmaSync` before the end of the epoch, or if the epoch has failed.
    pub fn take(self) -> Result<Vec<T>> {
        let memory = Arc::try_unwrap(self.memory).map_err(|_| {
            Error::new(
                ErrorClass::RmaSync,
                "the elements have not come: their epoch is open, or has failed; end it first",
            )
        })?;
        let count = memory.view().len();
        memory.into_vec(count)
    }
}

/// The time in which this rank lets the members of a group access its elements, by [`Window::post`].
#[must_use = "an exposure that is not waited for stays open"]
#[derive(Debug)]
pub struct Exposure<'window, T: Element> {
    window: &'window Window<T>,
}

impl<T: Element> Window<T> {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the epoch: then its memory is no longer used. After an error other ranks may still use it; if the call was
    /// refused, the epoch goes on.
    fn settle(&self, end: impl FnOnce() -> Result<()>) -> Result<()> {
        // Before: what another thread begins meanwhile is not ended for sure.
        let held = std::mem::take(&mut *self.held());
        let outcome = end();
        match &outcome {
            Ok(()) => drop(held),
            Err(error) if error.class() == ErrorClass::RmaSync => self.held().0.extend(held.0),
            Err(_) => std::mem::forget(held),
        }
        outcome
    }

    /// Begins an epoch in which all ranks access each other's elements (`MPI_Win_fence`). Collective.
    ///
    /// # Errors
    /// `RmaSync` if an epoch of another kind is open, `ProcFailed` if a rank is lost.
    pub fn fence(&self) -> Result<ActiveEpoch<'_, T>> {
        self.settle(|| self.window.fence(Assertion::default()))?;
        Ok(ActiveEpoch {
            window: self,
            fenced: true,
        })
    }

    /// Begins to access the elements of the members of a group, each of which calls [`post`](Self::post)
    /// (`MPI_Win_start`). Does not wait for them.
    ///
    /// ```
    /// use weft::mpi;
    ///
    /// mpi::test(3, |world| {
    ///     let window = world.window::<u8>(2)?;
    ///     let all = world.group();
    ///     if world.rank() == 0 {
    ///         let exposure = window.post(&all.include(&[1, 2])?)?;
    ///         exposure.wait()?; // both have come and gone
    ///         let own = window.lock(0)?;
    ///         assert_eq!(own.get(0, 0, 2)?, [1, 2]);
    ///         own.end()?;
    ///     } else {
    ///         let epoch = window.start(&all.include(&[0])?)?;
    ///         epoch.put(vec![world.rank() as u8], 0, world.rank() - 1)?;
    ///         epoch.end()?;
    ///     }
    ///     window.free()
    /// });
    /// ```
    ///
    /// # Errors
    /// `RmaSync` if an access epoch is open, `Group` for a process that is no member of the window.
    pub fn start(&self, group: &Group) -> Result<ActiveEpoch<'_, T>> {
        self.window.start(group.shared(), Assertion::default())?;
        Ok(ActiveEpoch {
            window: self,
            fenced: false,
        })
    }

    /// Lets the members of a group access this rank's elements; each calls [`start`](Self::start) (`MPI_Win_post`). Does
    /// not wait for them.
    ///
    /// # Errors
    /// `RmaSync` if this rank's elements are exposed already, `Group` for a process that is no member of the window.
    pub fn post(&self, group: &Group) -> Result<Exposure<'_, T>> {
        self.window.post(group.shared(), Assertion::default())?;
        Ok(Exposure { window: self })
    }
}

impl<T: Element> ActiveEpoch<'_, T> {
    fn hold(&self, what: Box<dyn Send>) {
        self.window.held().0.push(what);
    }

    /// Writes elements to the part of a rank, from `index` on (`MPI_Put`).
    ///
    /// # Errors
    /// `RmaRange` if the rank does not have as many, `RmaSync` if the rank is not in the epoch, `ProcFailed` if it is
    /// lost.
    pub fn put(&self, elements: Vec<T>, rank: usize, index: usize) -> Result<()> {
        let memory = Memory::of(elements);
        let source = memory.view();
        let target = target::<T>(rank, index, source.len())?;
        let window = &self.window.window;
        window.put(source.buffer(), &target, Ends::WithEpoch)?;
        self.hold(Box::new(memory));
        Ok(())
    }

    /// Reads `count` elements of a rank, from `index` on (`MPI_Get`).
    ///
    /// # Errors
    /// As for [`put`](Self::put).
    pub fn get(&self, rank: usize, index: usize, count: usize) -> Result<Expected<T>> {
        let target = target::<T>(rank, index, count)?;
        self.expect(count, |window, into| {
            window
                .window
                .get(into.buffer(), &target, Ends::WithEpoch)
                .map(drop)
        })
    }

    /// New elements that an access writes to until the epoch ends.
    fn expect(
        &self,
        count: usize,
        begin: impl FnOnce(&Window<T>, View<'_, T>) -> Result<()>,
    ) -> Result<Expected<T>> {
        let memory = Arc::new(Memory::<T>::zeroed(count)?);
        begin(self.window, memory.view())?;
        self.hold(Box::new(Arc::clone(&memory)));
        Ok(Expected { memory })
    }

    /// Combines elements with those of a rank, each atomically (`MPI_Accumulate`).
    ///
    /// # Errors
    /// As for [`put`](Self::put); `Op` for an operation of the program, `Type` if an element is not a number.
    pub fn accumulate(&self, elements: Vec<T>, rank: usize, index: usize, op: Op<T>) -> Result<()> {
        let memory = Memory::of(elements);
        let source = memory.view();
        let target = target::<T>(rank, index, source.len())?;
        let window = &self.window.window;
        window.accumulate(source.buffer(), &target, &op.shared(), Ends::WithEpoch)?;
        self.hold(Box::new(memory));
        Ok(())
    }

    /// Like [`accumulate`](Self::accumulate); the former values are expected (`MPI_Get_accumulate`, `MPI_Fetch_and_op`).
    ///
    /// # Errors
    /// As for [`accumulate`](Self::accumulate).
    pub fn get_accumulate(
        &self,
        elements: Vec<T>,
        rank: usize,
        index: usize,
        op: Op<T>,
    ) -> Result<Expected<T>> {
        let memory = Memory::of(elements);
        let source = memory.view();
        let target = target::<T>(rank, index, source.len())?;
        let expected = self.expect(source.len(), |window, into| {
            let (source, into) = (Some(source.buffer()), into.buffer());
            let window = &window.window;
            window
                .get_accumulate(source, into, &target, &op.shared(), Ends::WithEpoch)
                .map(drop)
        })?;
        self.hold(Box::new(memory));
        Ok(expected)
    }

    /// Reads elements that others may be changing by [`accumulate`](Self::accumulate) and the like (`MPI_NO_OP`).
    ///
    /// # Errors
    /// As for [`accumulate`](Self::accumulate).
    pub fn fetch(&self, rank: usize, index: usize, count: usize) -> Result<Expected<T>> {
        let target = target::<T>(rank, index, count)?;
        self.expect(count, |window, into| {
            let window = &window.window;
            window
                .get_accumulate(None, into.buffer(), &target, &no_op(), Ends::WithEpoch)
                .map(drop)
        })
    }

    /// Replaces one element by `new` if it is `old`; the former value is expected (`MPI_Compare_and_swap`).
    ///
    /// # Errors
    /// As for [`put`](Self::put).
    pub fn compare_and_swap(&self, old: T, new: T, rank: usize, index: usize) -> Result<Expected<T>>
    where
        T: Bits,
    {
        let target = target::<T>(rank, index, 1)?;
        self.expect(1, |window, into| {
            let (old, new) = ([old], [new]);
            let (old, new) = (View::reading(&old).buffer(), View::reading(&new).buffer());
            let window = &window.window;
            window
                .compare_and_swap(&old, &new, into.buffer(), &target)
                .map(drop)
        })
    }

    /// Ends the epoch and begins the next, of all ranks (`MPI_Win_fence`). Collective.
    ///
    /// # Errors
    /// The error of an access; `RmaSync` for an epoch of [`Window::start`]; `ProcFailed` if a rank is lost.
    pub fn fence(self) -> Result<Self> {
        self.window
            .settle(|| self.window.window.fence(Assertion::default()))?;
        Ok(self)
    }

    /// Ends the epoch: all accesses of this rank have been made (`MPI_Win_complete`), or those of all ranks
    /// (`MPI_Win_fence`, collective).
    ///
    /// # Errors
    /// The error of an access; `ProcFailed` if a rank is lost.
    pub fn end(self) -> Result<()> {
        let window = &self.window.window;
        self.window.settle(|| match self.fenced {
            true => window.fence(Assertion {
                no_succeed: true,
                ..Assertion::default()
            }),
            false => window.complete(),
        })
    }
}

impl<T: Element> Exposure<'_, T> {
    /// Waits until all ranks of the group have ended their epochs (`MPI_Win_wait`).
    ///
    /// # Errors
    /// `ProcFailed` if one of them is lost.
    pub fn wait(self) -> Result<()> {
        self.window.window.wait()
    }

    /// Whether all ranks of the group have ended their epochs; if not, returns the exposure again (`MPI_Win_test`).
    ///
    /// # Errors
    /// As for [`wait`](Self::wait).
    pub fn test(self) -> Result<Option<Self>> {
        Ok((!self.window.window.test()?).then_some(self))
    }
}

#[cfg(test)]
mod tests {
    use crate::mpi::{self, ErrorClass, op};

    #[test]
    fn all_accesses_end_with_a_fence() {
        mpi::test(3, |world| {
            let rank = world.rank();
            let window = world.window::<u64>(5)?;
            let (left, right) = ((rank + 2) % 3, (rank + 1) % 3);
            let epoch = window.fence()?;
            epoch.put(vec![rank as u64; 2], right, 0)?;
            let epoch = epoch.fence()?;
            let summed = epoch.get_accumulate(vec![1, 10], right, 0, op::sum())?;
            let swapped = epoch.compare_and_swap(0, rank as u64 + 1, 0, 2)?;
            let epoch = epoch.fence()?;
            assert_eq!(summed.take()?, [rank as u64; 2]);
            let winner = u64::from(swapped.take()? == [0]);
            let read = epoch.fetch(right, 0, 2)?;
            let too_early = epoch.get(rank, 0, 1)?;
            let error = too_early.take().unwrap_err();
            assert_eq!(error.class(), ErrorClass::RmaSync, "{error}");
            epoch.end()?;
            assert_eq!(read.take()?, [rank as u64 + 1, rank as u64 + 10]);
            assert_eq!(world.allreduce(&winner, op::sum())?, 1);
            let own = window.lock(rank)?;
            assert_eq!(own.get(rank, 0, 1)?, [left as u64 + 1]);
            own.end()?;
            world.barrier()?;
            window.free()
        });
    }

    #[test]
    fn each_side_waits_for_its_group_only() {
        mpi::test(4, |world| {
            let rank = world.rank();
            let window = world.window::<u32>(4)?;
            let all = world.group();
            let pair = all.include(&[rank ^ 1])?;
            for round in 1..20 {
                let mut exposure = Some(window.post(&pair)?);
                let epoch = window.start(&pair)?;
                epoch.put(vec![round], rank ^ 1, 0)?;
                epoch.accumulate(vec![round], rank ^ 1, 1, op::max())?;
                epoch.end()?;
                while let Some(open) = exposure.take() {
                    exposure = open.test()?;
                }
                let own = window.lock_shared(rank)?;
                assert_eq!(own.get(rank, 0, 2)?, [round; 2]);
                own.end()?;
                world.barrier()?;
            }
            window.free()
        });
    }

    #[test]
    fn epochs_that_do_not_go_together_are_refused() {
        mpi::test(2, |world| {
            let window = world.window::<u32>(1)?;
            let other = world.group().include(&[1 - world.rank()])?;
            let class = |outcome: mpi::Result<()>| outcome.unwrap_err().class();
            let exposure = window.post(&other)?;
            assert_eq!(class(window.post(&other).map(drop)), ErrorClass::RmaSync);
            let epoch = window.start(&other)?;
            let own = epoch.put(vec![1], world.rank(), 0);
            assert_eq!(class(own), ErrorClass::RmaSync);
            assert_eq!(class(window.lock_all().map(drop)), ErrorClass::RmaSync);
            assert_eq!(class(window.start(&other).map(drop)), ErrorClass::RmaSync);
            let read = epoch.get(1 - world.rank(), 0, 1)?;
            // Refused, and the epoch goes on with what it has begun.
            assert_eq!(class(window.fence().map(drop)), ErrorClass::RmaSync);
            epoch.end()?;
            assert_eq!(read.take()?, [0]);
            exposure.wait()?;
            window.free()
        });
    }
}
