//! Collectives that combine elements by an [operation](Op): reduce, scan and the like.

use std::sync::Arc;

use weft_mpi::Result;
use weft_mpi::coll::{self, Collective, Reduction};

use super::super::communicator::Communicator;
use super::super::memory::{Arriving, Memory, View};
use super::super::{Buffer, BufferMut, Element, Op};

/// What is reduced, and how.
pub(in crate::mpi) fn reduction<T: Element>(count: usize, op: &Op<T>) -> Reduction {
    Reduction {
        count,
        datatype: Arc::clone(T::datatype()),
        op: op.shared(),
    }
}

impl Communicator {
    /// Combines all ranks' elements at the root (`MPI_Reduce`); all give the same number. `None` at the other ranks.
    ///
    /// ```
    /// use weft::mpi::{self, op};
    ///
    /// mpi::test(4, |world| {
    ///     let most = world.reduce(&[world.rank(), 7], op::max(), 0)?;
    ///     assert_eq!(most, (world.rank() == 0).then_some([3, 7]));
    ///     Ok(())
    /// });
    /// ```
    ///
    /// # Errors
    /// `Root` for a root that is no rank, `Truncate` if lengths differ, `Type` if a received element is no valid value of
    /// the type, `Other` if the operation panicked.
    pub fn reduce<B: Buffer + ?Sized>(
        &self,
        buffer: &B,
        op: Op<B::Element>,
        root: usize,
    ) -> Result<Option<B::Owned>> {
        let send = View::reading(buffer.elements());
        let result = self.at(root, || Memory::<B::Element>::zeroed(send.len()))?;
        let receive = result.as_ref().map(|result| result.view().buffer());
        let reduction = reduction(send.len(), &op);
        self.run(Collective::Reduce {
            send: send.buffer(),
            receive,
            reduction: (&reduction).into(),
            root,
        })?;
        let result = result.map(|result| result.into_vec(send.len()));
        Ok(result.transpose()?.map(B::owned))
    }

    /// Like [`reduce`](Self::reduce), into a buffer of the root.
    ///
    /// # Errors
    /// As for [`reduce`](Self::reduce); `Count` if the root's buffers differ in length.
    pub fn reduce_into<B, C>(
        &self,
        buffer: &B,
        into: Option<&mut C>,
        op: Op<B::Element>,
        root: usize,
    ) -> Result<()>
    where
        B: Buffer + ?Sized,
        C: BufferMut<Element = B::Element> + ?Sized,
    {
        let send = View::reading(buffer.elements());
        let into = into.filter(|_| self.rank() == root);
        let arriving = into.map(|into| Arriving::into(into.elements_mut()));
        let arriving = arriving.transpose()?;
        if let Some(arriving) = &arriving {
            self.check_length("MPI_Reduce", arriving.view().len(), send.len())?;
        }
        let receive = arriving.as_ref().map(|arriving| arriving.view().buffer());
        let reduction = reduction(send.len(), &op);
        self.run(Collective::Reduce {
            send: send.buffer(),
            receive,
            reduction: (&reduction).into(),
            root,
        })?;
        arriving.map_or(Ok(()), |arriving| arriving.finish(send.len()).map(drop))
    }

    /// Combines all ranks' elements at all ranks (`MPI_Allreduce`); all give the same number.
    ///
    /// ```
    /// use weft::mpi::{self, Op, op};
    ///
    /// mpi::test(3, |world| {
    ///     assert_eq!(world.allreduce(&0.5_f64, op::sum())?, 1.5);
    ///     assert_eq!(world.allreduce(&vec![1, 2], op::product())?, [1, 8]);
    ///     // A function of one's own, on what it likes.
    ///     let mine = (world.rank(), world.rank() == 2);
    ///     let any = Op::new(|left: &(usize, bool), right| (left.0.min(right.0), left.1 | right.1));
    ///     assert_eq!(world.allreduce(&mine, any)?, (0, true));
    ///     Ok(())
    /// });
    /// ```
    ///
    /// # Errors
    /// As for [`reduce`](Self::reduce).
    pub fn allreduce<B: Buffer + ?Sized>(
        &self,
        buffer: &B,
        op: Op<B::Element>,
    ) -> Result<B::Owned> {
        let send = View::reading(buffer.elements());
        let result = Memory::<B::Element>::zeroed(send.len())?;
        let reduction = reduction(send.len(), &op);
        self.run(Collective::Allreduce {
            send: send.buffer(),
            receive: result.view().buffer(),
            reduction: (&reduction).into(),
        })?;
        Ok(B::owned(result.into_vec(send.len())?))
    }

    /// Like [`allreduce`](Self::allreduce), into a buffer.
    ///
    /// # Errors
    /// As for [`reduce`](Self::reduce); `Count` if the buffers differ in length.
    pub fn allreduce_into<B, C>(&self, buffer: &B, into: &mut C, op: Op<B::Element>) -> Result<()>
    where
        B: Buffer + ?Sized,
        C: BufferMut<Element = B::Element> + ?Sized,
    {
        let send = View::reading(buffer.elements());
        let arriving = Arriving::into(into.elements_mut())?;
        self.check_length("MPI_Allreduce", arriving.view().len(), send.len())?;
        let reduction = reduction(send.len(), &op);
        self.run(Collective::Allreduce {
            send: send.buffer(),
            receive: arriving.view().buffer(),
            reduction: (&reduction).into(),
        })?;
        arriving.finish(send.len()).map(drop)
    }

    /// Like [`allreduce`](Self::allreduce), but the result replaces the argument (`MPI_IN_PLACE`).
    ///
    /// ```
    /// use weft::mpi::{self, op};
    ///
    /// mpi::test(3, |world| {
    ///     let mut counts = [1, 10, 100];
    ///     world.allreduce_in_place(&mut counts, op::sum())?;
    ///     assert_eq!(counts, [3, 30, 300]);
    ///     Ok(())
    /// });
    /// ```
    ///
    /// # Errors
    /// As for [`reduce`](Self::reduce).
    pub fn allreduce_in_place<B: BufferMut + ?Sized>(
        &self,
        buffer: &mut B,
        op: Op<B::Element>,
    ) -> Result<()> {
        let arriving = Arriving::into(buffer.elements_mut())?;
        let elements = arriving.view().buffer();
        let count = arriving.view().len();
        let reduction = reduction(count, &op);
        let schedule = coll::allreduce(&self.members(), &elements, &elements, &reduction)?;
        self.run(schedule)?;
        arriving.finish(count).map(drop)
    }

    /// Combines all ranks' elements, and divides the result evenly among the ranks (`MPI_Reduce_scatter_block`).
    ///
    /// ```
    /// use weft::mpi::{self, op};
    ///
    /// mpi::test(2, |world| {
    ///     let mine = world.reduce_scatter_block(&[1, 2, 3, 4], op::sum())?;
    ///     assert_eq!(mine, if world.rank() == 0 { [2, 4] } else { [6, 8] });
    ///     Ok(())
    /// });
    /// ```
    ///
    /// # Errors
    /// As for [`reduce`](Self::reduce); `Count` if the elements cannot be divided evenly among the ranks.
    pub fn reduce_scatter_block<B: Buffer + ?Sized>(
        &self,
        buffer: &B,
        op: Op<B::Element>,
    ) -> Result<Vec<B::Element>> {
        let send = View::reading(buffer.elements());
        let count = self.share("MPI_Reduce_scatter_block", send.len())?;
        let part = Memory::<B::Element>::zeroed(count)?;
        let reduction = reduction(send.len(), &op);
        self.run(Collective::ReduceScatterBlock {
            send: send.buffer(),
            receive: part.view().buffer(),
            count,
            reduction: (&reduction).into(),
        })?;
        part.into_vec(count)
    }

    /// Combines all ranks' elements; rank `i` gets `counts[i]` elements of the result (`MPI_Reduce_scatter`). All ranks
    /// give the same counts.
    ///
    /// ```
    /// use weft::mpi::{self, op};
    ///
    /// mpi::test(2, |world| {
    ///     let mine = world.reduce_scatter(&[1, 2, 3], &[1, 2], op::sum())?;
    ///     assert_eq!(mine.len(), world.rank() + 1);
    ///     Ok(())
    /// });
    /// ```
    ///
    /// # Errors
    /// As for [`reduce`](Self::reduce); `Count` unless there is a count for each rank, and their sum is the number of
    /// elements.
    pub fn reduce_scatter<B: Buffer + ?Sized>(
        &self,
        buffer: &B,
        counts: &[usize],
        op: Op<B::Element>,
    ) -> Result<Vec<B::Element>> {
        const NAME: &str = "MPI_Reduce_scatter";
        let send = View::reading(buffer.elements());
        self.check_length(NAME, counts.len(), self.size())?;
        self.check_length(NAME, send.len(), counts.iter().sum())?;
        let count = counts[self.rank()];
        let part = Memory::<B::Element>::zeroed(count)?;
        let reduction = reduction(send.len(), &op);
        self.run(Collective::ReduceScatter {
            send: send.buffer(),
            receive: part.view().buffer(),
            counts: counts.to_vec(),
            reduction: (&reduction).into(),
        })?;
        part.into_vec(count)
    }

    /// Combines the elements of this rank and the ranks before it (`MPI_Scan`).
    ///
    /// ```
    /// use weft::mpi::{self, op};
    ///
    /// mpi::test(4, |world| {
    ///     assert_eq!(world.scan(&world.rank(), op::sum())?, [0, 1, 3, 6][world.rank()]);
    ///     Ok(())
    /// });
    /// ```
    ///
    /// # Errors
    /// As for [`reduce`](Self::reduce).
    pub fn scan<B: Buffer + ?Sized>(&self, buffer: &B, op: Op<B::Element>) -> Result<B::Owned> {
        let send = View::reading(buffer.elements());
        let result = Memory::<B::Element>::zeroed(send.len())?;
        let reduction = reduction(send.len(), &op);
        self.run(Collective::Scan {
            send: send.buffer(),
            receive: result.view().buffer(),
            reduction: (&reduction).into(),
        })?;
        Ok(B::owned(result.into_vec(send.len())?))
    }

    /// Like [`scan`](Self::scan), but the result replaces the argument (`MPI_IN_PLACE`).
    ///
    /// # Errors
    /// As for [`reduce`](Self::reduce).
    pub fn scan_in_place<B: BufferMut + ?Sized>(
        &self,
        buffer: &mut B,
        op: Op<B::Element>,
    ) -> Result<()> {
        let arriving = Arriving::into(buffer.elements_mut())?;
        let elements = arriving.view().buffer();
        let count = arriving.view().len();
        let reduction = reduction(count, &op);
        self.run(Collective::Scan {
            send: elements.clone(),
            receive: elements,
            reduction: (&reduction).into(),
        })?;
        arriving.finish(count).map(drop)
    }

    /// Combines the elements of the ranks before this one (`MPI_Exscan`); `None` at rank 0, which has none before it.
    ///
    /// ```
    /// use weft::mpi::{self, op};
    ///
    /// mpi::test(3, |world| {
    ///     // Where each rank's part of a whole begins.
    ///     let length = 10 * (world.rank() + 1);
    ///     let start = world.exscan(&length, op::sum())?.unwrap_or(0);
    ///     assert_eq!(start, [0, 10, 30][world.rank()]);
    ///     Ok(())
    /// });
    /// ```
    ///
    /// # Errors
    /// As for [`reduce`](Self::reduce).
    pub fn exscan<B: Buffer + ?Sized>(
        &self,
        buffer: &B,
        op: Op<B::Element>,
    ) -> Result<Option<B::Owned>> {
        let send = View::reading(buffer.elements());
        let result = Memory::<B::Element>::zeroed(send.len())?;
        let reduction = reduction(send.len(), &op);
        self.run(Collective::Exscan {
            send: send.buffer(),
            receive: result.view().buffer(),
            reduction: (&reduction).into(),
        })?;
        if self.rank() == 0 {
            return Ok(None);
        }
        Ok(Some(B::owned(result.into_vec(send.len())?)))
    }
}
