//! Windows: memory that the ranks of a communicator let each other read and write (MPI 5.0, chapter 12).
//!
//! All access is by calls, to this rank's own part as well, and within an [`Epoch`]: no reference into the memory is ever
//! there while others write to it. Weft allocates the memory; ranks of one host reach it directly, whatever its owner does.
//!
//! Epochs are those of locks. What programs in C do by fences is done by [`Window::lock_all`], [`Epoch::flush_all`] and a
//! barrier.

use std::marker::PhantomData;
use std::sync::Arc;

use weft_mpi::info::Info;
use weft_mpi::rma::{self, Allocation, Assertion, Ends, Flavor, LockKind, TargetBuffer};
use weft_mpi::{RequestId, Result};

use super::communicator::Communicator;
use super::memory::{Memory, View};
use super::op::{Bits, no_op};
use super::request::Request;
use super::state::Handle;
use super::{Buffer, Element, Op};

/// Elements of each rank of a communicator, which all may read and write.
///
/// ```
/// use weft::mpi::{self, op};
///
/// mpi::test(4, |world| {
///     let window = world.window::<u64>(2)?;
///     // Each rank takes a number, and leaves its own at its right neighbour.
///     let counter = window.lock_shared(0)?;
///     let ticket = counter.fetch_and_op(1, 0, 0, op::sum())?;
///     counter.end()?;
///     let right = (world.rank() + 1) % 4;
///     window.lock(right)?.put(&ticket, right, 1)?; // ends with the line
///     world.barrier()?;
///
///     let all = window.lock_all()?;
///     let mut tickets = Vec::new();
///     for rank in 0..4 {
///         tickets.extend(all.get(rank, 1, 1)?);
///     }
///     tickets.sort();
///     assert_eq!(tickets, [0, 1, 2, 3]);
///     all.end()?;
///     window.free()
/// });
/// ```
///
/// Types with bits that are no value, as `bool`, cannot be the elements: others may write at any time.
#[derive(Debug)]
pub struct Window<T: Element> {
    window: Arc<rma::Window>,
    handle: Arc<Handle>,
    _elements: PhantomData<T>,
}

impl Communicator {
    /// A window of `count` elements of this rank, and as many as they say of the others (`MPI_Win_allocate`). Collective.
    ///
    /// It is freed by [`Window::free`], which is collective, too. If it is dropped instead, its memory stays until this rank
    /// ends, for others may still use it.
    ///
    /// # Errors
    /// `NoMem` if there is no memory for it; `Other` if another rank has failed.
    pub fn window<T: Element>(&self, count: usize) -> Result<Window<T>> {
        const {
            assert!(
                !T::CHECKED,
                "elements of a window are any bits that others write"
            )
        };
        weft_mpi::memory::ensure_list(count, size_of::<T>())?;
        let window = rma::Window::new(
            &self.handle().comm,
            Flavor::Allocate,
            Allocation::OfWeft(count * size_of::<T>()),
            size_of::<T>() as i64,
            &Info::default(),
        )?;
        let comm = Arc::clone(window.comm());
        Ok(Window {
            handle: Handle::predefined(comm, Arc::clone(self.state())),
            window,
            _elements: PhantomData,
        })
    }
}

impl<T: Element> Window<T> {
    /// How many elements this rank has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.window.memory().len() / size_of::<T>()
    }

    /// Whether this rank has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Begins to access one rank's elements, and keeps all others from it (`MPI_Win_lock` with `MPI_LOCK_EXCLUSIVE`).
    ///
    /// # Errors
    /// `Rank` for a rank that is none, `RmaSync` if another epoch is open, `ProcFailed` if the rank is lost.
    pub fn lock(&self, rank: usize) -> Result<Epoch<'_, T>> {
        self.lock_by(LockKind::Exclusive, rank)
    }

    /// As [`lock`](Self::lock), together with others that do the same (`MPI_LOCK_SHARED`).
    ///
    /// # Errors
    /// As for [`lock`](Self::lock).
    pub fn lock_shared(&self, rank: usize) -> Result<Epoch<'_, T>> {
        self.lock_by(LockKind::Shared, rank)
    }

    fn lock_by(&self, kind: LockKind, rank: usize) -> Result<Epoch<'_, T>> {
        let rank = number(rank);
        self.window.lock(kind, rank, Assertion::default())?;
        Ok(Epoch {
            window: self,
            locked: Some(Locked::One(rank)),
        })
    }

    /// Begins to access all ranks' elements, together with others (`MPI_Win_lock_all`).
    ///
    /// # Errors
    /// As for [`lock`](Self::lock).
    pub fn lock_all(&self) -> Result<Epoch<'_, T>> {
        self.window.lock_all(Assertion::default())?;
        Ok(Epoch {
            window: self,
            locked: Some(Locked::All),
        })
    }

    /// Frees it (`MPI_Win_free`). Collective.
    ///
    /// # Errors
    /// `ProcFailed` if a rank is lost.
    pub fn free(self) -> Result<()> {
        self.window.free()
    }
}

impl<T: Element> Drop for Window<T> {
    fn drop(&mut self) {
        let window = Arc::clone(&self.window);
        self.handle.state.keep(Box::new(window));
    }
}

#[derive(Clone, Copy, Debug)]
enum Locked {
    One(u32),
    All,
}

/// A time in which this rank accesses a window. All accesses have been made when it ends: by [`end`](Self::end), or when it
/// is dropped.
///
/// A call returns when the buffer that it was given may be used again. What it has brought to other ranks is there after
/// [`flush`](Self::flush), or at the end.
#[must_use = "an epoch ends when it is dropped"]
#[derive(Debug)]
pub struct Epoch<'window, T: Element> {
    window: &'window Window<T>,
    locked: Option<Locked>,
}

fn number(rank: usize) -> u32 {
    u32::try_from(rank).unwrap_or(u32::MAX)
}

impl<T: Element> Epoch<'_, T> {
    fn target(&self, rank: usize, index: usize, count: usize) -> TargetBuffer<'static> {
        TargetBuffer {
            rank: number(rank),
            displacement: i64::try_from(index).unwrap_or(i64::MAX),
            count,
            datatype: T::datatype(),
        }
    }

    fn wait(&self, request: RequestId) -> Result<()> {
        let process = self.window.handle.comm.process();
        process.wait(request).map(drop)
    }

    /// Writes elements to a rank's, from `index` on (`MPI_Put`).
    ///
    /// # Errors
    /// `RmaRange` if there are not as many, `RmaSync` if the epoch is another rank's, `ProcFailed` if the rank is lost.
    pub fn put<B: Buffer<Element = T> + ?Sized>(
        &self,
        elements: &B,
        rank: usize,
        index: usize,
    ) -> Result<()> {
        let source = View::reading(elements.elements());
        let target = self.target(rank, index, source.len());
        let window = &self.window.window;
        self.wait(window.put(source.buffer(), &target, Ends::WithRequest)?)
    }

    /// Reads `count` elements of a rank, from `index` on (`MPI_Get`).
    ///
    /// # Errors
    /// As for [`put`](Self::put).
    pub fn get(&self, rank: usize, index: usize, count: usize) -> Result<Vec<T>> {
        let memory = Memory::<T>::zeroed(count)?;
        let target = self.target(rank, index, count);
        let into = memory.view().buffer();
        self.wait(self.window.window.get(into, &target, Ends::WithRequest)?)?;
        memory.into_vec(count)
    }

    /// Begins to read, as [`get`](Self::get) (`MPI_Rget`). It ends with the epoch at the latest.
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
        let target = self.target(rank, index, count);
        let into = memory.view().buffer();
        let id = self.window.window.get(into, &target, Ends::WithRequest)?;
        let finish = move |_| memory.into_vec(count);
        Ok(Request::owning(&self.window.handle, id, false, finish))
    }

    /// Begins to write, as [`put`](Self::put), and gives the vector back when it may be used again (`MPI_Rput`).
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
        let target = self.target(rank, index, count);
        let source = memory.view().buffer();
        let id = self.window.window.put(source, &target, Ends::WithRequest)?;
        let finish = move |_| memory.into_vec(count);
        Ok(Request::owning(&self.window.handle, id, false, finish))
    }

    /// Combines elements with a rank's, each at once (`MPI_Accumulate`).
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
    /// As for [`put`](Self::put); `Op` for an operation of one's own, `Type` if an element is not a number.
    pub fn accumulate<B: Buffer<Element = T> + ?Sized>(
        &self,
        elements: &B,
        rank: usize,
        index: usize,
        op: Op<T>,
    ) -> Result<()> {
        let source = View::reading(elements.elements());
        let target = self.target(rank, index, source.len());
        let window = &self.window.window;
        let op = op.shared();
        self.wait(window.accumulate(source.buffer(), &target, &op, Ends::WithRequest)?)
    }

    /// As [`accumulate`](Self::accumulate), and answers what was there before (`MPI_Get_accumulate`).
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
        let target = self.target(rank, index, source.len());
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

    /// Combines one element, and answers what was there before (`MPI_Fetch_and_op`).
    ///
    /// # Errors
    /// As for [`accumulate`](Self::accumulate).
    pub fn fetch_and_op(&self, value: T, rank: usize, index: usize, op: Op<T>) -> Result<T> {
        let before = self.get_accumulate(&[value], rank, index, op)?;
        Ok(before[0])
    }

    /// Reads one element, which others may be changing by [`accumulate`](Self::accumulate) and its kin (`MPI_NO_OP`).
    ///
    /// # Errors
    /// As for [`accumulate`](Self::accumulate).
    pub fn fetch(&self, rank: usize, index: usize) -> Result<T> {
        let memory = Memory::<T>::zeroed(1)?;
        let target = self.target(rank, index, 1);
        let into = memory.view().buffer();
        let op = no_op();
        let request =
            self.window
                .window
                .get_accumulate(None, into, &target, &op, Ends::WithRequest)?;
        self.wait(request)?;
        Ok(memory.into_vec(1)?[0])
    }

    /// Replaces one element by `new` if it is `old`, and answers what was there (`MPI_Compare_and_swap`).
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
        let target = self.target(rank, index, 1);
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

    /// Returns when all accesses to a rank have been made there (`MPI_Win_flush`).
    ///
    /// # Errors
    /// What an access has failed with; `ProcFailed` if the rank is lost.
    pub fn flush(&self, rank: usize) -> Result<()> {
        self.window.window.flush(number(rank))
    }

    /// Returns when all accesses have been made (`MPI_Win_flush_all`).
    ///
    /// # Errors
    /// As for [`flush`](Self::flush).
    pub fn flush_all(&self) -> Result<()> {
        self.window.window.flush_all()
    }

    /// Ends it (`MPI_Win_unlock`, `MPI_Win_unlock_all`): all accesses have been made when it returns.
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

#[cfg(test)]
mod tests {
    use crate::mpi::{self, ErrorClass, op};

    #[test]
    fn elements_with_padding_are_put_and_got() {
        mpi::test(3, |world| {
            let window = world.window::<(u8, f64, u16)>(4)?;
            let rank = world.rank();
            let mine: Vec<_> = (0..4).map(|place| (rank as u8, place as f64, 7)).collect();
            let right = (rank + 1) % 3;
            let epoch = window.lock(right)?;
            epoch.put(&mine, right, 0)?;
            let again = epoch.rget(right, 1, 2)?;
            epoch.end()?;
            assert_eq!(again.wait()?, mine[1..3]);
            world.barrier()?;
            let own = window.lock_shared(rank)?.get(rank, 3, 1)?;
            assert_eq!(own, [(((rank + 2) % 3) as u8, 3.0, 7)]);
            world.barrier()?;
            window.free()
        });
    }

    #[test]
    fn what_is_wrong_is_named() {
        mpi::test(2, |world| {
            let window = world.window::<i64>(world.rank() * 5)?;
            assert_eq!(window.len(), world.rank() * 5);
            let class = |outcome: mpi::Result<()>| outcome.unwrap_err().class();
            assert_eq!(class(window.lock(2).map(drop)), ErrorClass::Rank);
            let one = window.lock_shared(1)?;
            assert_eq!(class(one.put(&[1, 2], 1, 4)), ErrorClass::RmaRange);
            assert_eq!(class(one.put(&[1], 0, 0)), ErrorClass::RmaSync);
            assert_eq!(class(window.lock_all().map(drop)), ErrorClass::RmaSync);
            let own = mpi::Op::new(|left: &i64, _: &i64| *left);
            assert_eq!(class(one.accumulate(&[1], 1, 0, own)), ErrorClass::Op);
            one.end()?;
            world.barrier()?;
            window.free()
        });
    }

    /// Dropped, not freed: what others do with it still works.
    #[test]
    fn a_window_that_is_dropped_is_there_until_the_end() {
        mpi::test(3, |world| {
            let window = world.window::<u32>(1)?;
            if world.rank() == 0 {
                drop(window);
                return world.barrier();
            }
            let all = window.lock_all()?;
            all.accumulate(&[1], 0, 0, op::sum())?;
            all.flush_all()?;
            world.barrier()?;
            assert_eq!(all.fetch(0, 0)?, 2);
            Ok(())
        });
    }
}
