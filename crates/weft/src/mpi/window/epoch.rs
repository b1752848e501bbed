//! Epoch: a time in which a rank accesses a window, and the accesses.

use weft_mpi::rma::Ends;
use weft_mpi::{RequestId, Result};

use super::super::memory::{Memory, View};
use super::super::op::{Bits, no_op};
use super::super::request::Request;
use super::super::{Buffer, Element, Op};
use super::{Window, target};

#[derive(Clone, Copy, Debug)]
pub(super) enum Locked {
    One(u32),
    All,
}

/// A time in which this rank accesses a window. All accesses have been made when it ends: by [`end`](Self::end), or when it
/// is dropped.
///
/// A call returns when the buffer that it was given may be used again. Its effect at other ranks is complete after
/// [`flush`](Self::flush), or at the end.
#[must_use = "an epoch ends when it is dropped"]
#[derive(Debug)]
pub struct Epoch<'window, T: Element> {
    window: &'window Window<T>,
    locked: Option<Locked>,
}

pub(super) fn number(rank: usize) -> u32 {
    u32::try_from(rank).unwrap_or(u32::MAX)
}

impl<'window, T: Element> Epoch<'window, T> {
    pub(super) fn new(window: &'window Window<T>, locked: Locked) -> Self {
        Self {
            window,
            locked: Some(locked),
        }
    }

    fn wait(&self, request: RequestId) -> Result<()> {
        let process = self.window.handle.comm.process();
        process.wait(request).map(drop)
    }

    /// Writes elements to the part of a rank, from `index` on (`MPI_Put`).
    ///
    /// # Errors
    /// `RmaRange` if the rank does not have as many, `RmaSync` if the epoch is another rank's, `ProcFailed` if the rank
    /// is lost.
    pub fn put<B: Buffer<Element = T> + ?Sized>(
        &self,
        elements: &B,
        rank: usize,
        index: usize,
    ) -> Result<()> {
        let source = View::reading(elements.elements());
        let target = target::<T>(rank, index, source.len())?;
        let window = &self.window.window;
        self.wait(window.put(source.buffer(), &target, Ends::WithRequest)?)
    }

    /// Reads `count` elements of a rank, from `index` on (`MPI_Get`).
    ///
    /// # Errors
    /// As for [`put`](Self::put).
    pub fn get(&self, rank: usize, index: usize, count: usize) -> Result<Vec<T>> {
        let memory = Memory::<T>::zeroed(count)?;
        let target = target::<T>(rank, index, count)?;
        let into = memory.view().buffer();
        self.wait(self.window.window.get(into, &target, Ends::WithRequest)?)?;
        memory.into_vec(count)
    }

    /// Begins to read, like [`get`](Self::get) (`MPI_Rget`). It ends with the epoch at the latest.
    ///
    /// # Errors
    /// As for [`put`](Self::put).
    pub fn rget(
        &self,
        rank: usize,
        index: usize,
        count: usize,
    ) -> Result<Request<'static, Vec<T>>> {
        let memory = Memory::<T>::zeroed(count)?;
        let target = target::<T>(rank, index, count)?;
        let into = memory.view().buffer();
        let id = self.window.window.get(into, &target, Ends::WithRequest)?;
        let finish = move |_| memory.into_vec(count);
        Ok(Request::owning(&self.window.handle, id, false, finish))
    }

    /// Begins to write, like [`put`](Self::put), and gives the vector back when it may be used again (`MPI_Rput`).
    ///
    /// # Errors
    /// As for [`put`](Self::put).
    pub fn rput(
        &self,
        elements: Vec<T>,
        rank: usize,
        index: usize,
    ) -> Result<Request<'static, Vec<T>>> {
        let memory = Memory::of(elements);
        let count = memory.view().len();
        let target = target::<T>(rank, index, count)?;
        let source = memory.view().buffer();
        let id = self.window.window.put(source, &target, Ends::WithRequest)?;
        let finish = move |_| memory.into_vec(count);
        Ok(Request::owning(&self.window.handle, id, false, finish))
    }

    /// Combines elements with those of a rank, each atomically (`MPI_Accumulate`).
    ///
    /// ```
    /// use weft::mpi::{self, op};
    ///
    /// mpi::test(3, |world| {
    ///     let window = world.window::<i32>(2)?;
    ///     let all = window.lock_all()?;
    ///     all.accumulate(&[1, 10], 0, 0, op::sum())?;
    ///     all.flush(0)?;
    ///     world.barrier()?;
    ///     assert_eq!(all.get(0, 0, 2)?, [3, 30]);
    ///     all.end()?;
    ///     window.free()
    /// });
    /// ```
    ///
    /// # Errors
    /// As for [`put`](Self::put); `Op` for an operation of the program, `Type` if an element is not a number.
    pub fn accumulate<B: Buffer<Element = T> + ?Sized>(
        &self,
        elements: &B,
        rank: usize,
        index: usize,
        op: Op<T>,
    ) -> Result<()> {
        let source = View::reading(elements.elements());
        let target = target::<T>(rank, index, source.len())?;
        let window = &self.window.window;
        let op = op.shared();
        self.wait(window.accumulate(source.buffer(), &target, &op, Ends::WithRequest)?)
    }

    /// Like [`accumulate`](Self::accumulate), and returns the former values (`MPI_Get_accumulate`).
    ///
    /// # Errors
    /// As for [`accumulate`](Self::accumulate).
    pub fn get_accumulate<B: Buffer<Element = T> + ?Sized>(
        &self,
        elements: &B,
        rank: usize,
        index: usize,
        op: Op<T>,
    ) -> Result<B::Owned> {
        let source = View::reading(elements.elements());
        let memory = Memory::<T>::zeroed(source.len())?;
        let target = target::<T>(rank, index, source.len())?;
        let request = self.window.window.get_accumulate(
            Some(source.buffer()),
            memory.view().buffer(),
            &target,
            &op.shared(),
            Ends::WithRequest,
        )?;
        self.wait(request)?;
        Ok(B::owned(memory.into_vec(source.len())?))
    }

    /// Combines one element, and returns the former value (`MPI_Fetch_and_op`).
    ///
    /// # Errors
    /// As for [`accumulate`](Self::accumulate).
    pub fn fetch_and_op(&self, value: T, rank: usize, index: usize, op: Op<T>) -> Result<T> {
        let before = self.get_accumulate(&[value], rank, index, op)?;
        Ok(before[0])
    }

    /// Reads one element, which others may be changing by [`accumulate`](Self::accumulate) and the like (`MPI_NO_OP`).
    ///
    /// # Errors
    /// As for [`accumulate`](Self::accumulate).
    pub fn fetch(&self, rank: usize, index: usize) -> Result<T> {
        let memory = Memory::<T>::zeroed(1)?;
        let target = target::<T>(rank, index, 1)?;
        let into = memory.view().buffer();
        let op = no_op();
        let request =
            self.window
                .window
                .get_accumulate(None, into, &target, &op, Ends::WithRequest)?;
        self.wait(request)?;
        Ok(memory.into_vec(1)?[0])
    }

    /// Replaces one element by `new` if it is `old`, and returns the former value (`MPI_Compare_and_swap`).
    ///
    /// ```
    /// use weft::mpi;
    ///
    /// mpi::test(3, |world| {
    ///     let window = world.window::<usize>(1)?;
    ///     let all = window.lock_all()?;
    ///     let first = all.compare_and_swap(0, world.rank() + 1, 0, 0)? == 0;
    ///     let firsts = world.allreduce(&usize::from(first), mpi::op::sum())?;
    ///     assert_eq!(firsts, 1);
    ///     all.end()?;
    ///     window.free()
    /// });
    /// ```
    ///
    /// # Errors
    /// As for [`put`](Self::put).
    pub fn compare_and_swap(&self, old: T, new: T, rank: usize, index: usize) -> Result<T>
    where
        T: Bits,
    {
        let memory = Memory::<T>::zeroed(1)?;
        let target = target::<T>(rank, index, 1)?;
        let request = self.window.window.compare_and_swap(
            &View::reading(&[old]).buffer(),
            &View::reading(&[new]).buffer(),
            memory.view().buffer(),
            &target,
        )?;
        let ended = self.wait(request).and_then(|()| self.flush(rank));
        if let Err(error) = ended {
            // The answer may come still.
            std::mem::forget(memory);
            return Err(error);
        }
        Ok(memory.into_vec(1)?[0])
    }

    /// Returns when all accesses to a rank have been completed there (`MPI_Win_flush`).
    ///
    /// # Errors
    /// The error of an access; `ProcFailed` if the rank is lost.
    pub fn flush(&self, rank: usize) -> Result<()> {
        self.window.window.flush(number(rank))
    }

    /// Returns when all accesses have been completed (`MPI_Win_flush_all`).
    ///
    /// # Errors
    /// As for [`flush`](Self::flush).
    pub fn flush_all(&self) -> Result<()> {
        self.window.window.flush_all()
    }

    /// Ends the epoch (`MPI_Win_unlock`, `MPI_Win_unlock_all`): all accesses have been completed when it returns.
    ///
    /// # Errors
    /// As for [`flush`](Self::flush).
    pub fn end(mut self) -> Result<()> {
        self.unlock()
    }

    fn unlock(&mut self) -> Result<()> {
        match self.locked.take() {
            Some(Locked::One(rank)) => self.window.window.unlock(rank),
            Some(Locked::All) => self.window.window.unlock_all(),
            None => Ok(()),
        }
    }
}

impl<T: Element> Drop for Epoch<'_, T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        // Who wants to know what has failed ends it by a call.
        _ = self.unlock();
    }
}
