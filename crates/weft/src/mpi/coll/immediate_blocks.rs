//! Non-blocking collectives with blocks of different lengths, and those that scatter what they reduce (MPI 5.0, section 6.12).
//!
//! The blocking calls first tell each other the lengths of the blocks. These would have to wait for that, so the caller
//! gives the counts. If a count differs from what the other side sends, the receiver gets `Truncate`.

use weft_mpi::Result;
use weft_mpi::coll::{self, Collective};

use super::super::communicator::Communicator;
use super::super::memory::Memory;
use super::super::request::Request;
use super::super::{Blocks, Element, Op};
use super::reducing::reduction;

/// All counts together; what does not fit a number is refused as memory that is not there.
fn total(counts: &[usize]) -> usize {
    counts
        .iter()
        .fold(0, |sum, count| sum.saturating_add(*count))
}

impl Communicator {
    /// Begins a gather of blocks of different lengths (`MPI_Igatherv`). The root gives the lengths; the counts of the
    /// other ranks are ignored.
    ///
    /// ```
    /// use weft::mpi;
    ///
    /// mpi::test(3, |world| {
    ///     let rank = world.rank();
    ///     let counts = (rank == 0).then_some(&[1, 2, 3][..]);
    ///     let all = world.igatherv(vec![rank; rank + 1], counts, 0)?.wait()?;
    ///     if let Some(all) = all {
    ///         assert_eq!(all.block(2), [2, 2, 2]);
    ///     }
    ///     Ok(())
    /// });
    /// ```
    ///
    /// # Errors
    /// As for [`gatherv`](Self::gatherv); `Count` unless the root has a count for each rank.
    pub fn igatherv<T: Element>(
        &self,
        elements: Vec<T>,
        counts: Option<&[usize]>,
        root: usize,
    ) -> Result<Request<'static, Option<Blocks<T>>>> {
        let send = Memory::of(elements);
        let all = self.at(root, || {
            let counts = counts.unwrap_or_default().to_vec();
            self.check_length("MPI_Igatherv (counts)", counts.len(), self.size())?;
            Ok((Memory::<T>::zeroed(total(&counts))?, counts))
        })?;
        let blocks = all.as_ref().map(|(all, counts)| all.view().listed(counts));
        let id = self.begin(coll::gatherv(
            &self.members(),
            Some(&send.view().buffer()),
            blocks.transpose()?.as_ref(),
            root,
        )?)?;
        Ok(Request::owning(self.handle(), id, false, move |_| {
            drop(send);
            all.map(|(all, counts)| Ok(Blocks::made(all.into_vec(total(&counts))?, counts)))
                .transpose()
        }))
    }

    /// Begins to gather blocks of different lengths at all ranks (`MPI_Iallgatherv`); all ranks give all lengths.
    ///
    /// ```
    /// use weft::mpi;
    ///
    /// mpi::test(3, |world| {
    ///     let rank = world.rank();
    ///     let all = world.iallgatherv(vec![rank; rank], &[0, 1, 2])?;
    ///     // … something else …
    ///     assert_eq!(all.wait()?.elements(), [1, 2, 2]);
    ///     Ok(())
    /// });
    /// ```
    ///
    /// # Errors
    /// As for [`allgatherv`](Self::allgatherv); `Count` unless there is a count for each rank.
    pub fn iallgatherv<T: Element>(
        &self,
        elements: Vec<T>,
        counts: &[usize],
    ) -> Result<Request<'static, Blocks<T>>> {
        self.check_length("MPI_Iallgatherv (counts)", counts.len(), self.size())?;
        let send = Memory::of(elements);
        let all = Memory::<T>::zeroed(total(counts))?;
        let id = self.begin(coll::allgatherv(
            &self.members(),
            Some(&send.view().buffer()),
            &all.view().listed(counts)?,
        )?)?;
        Ok(self.giving_blocks(id, all, counts.to_vec(), send))
    }

    /// A collective whose outcome are the blocks of a buffer, and which needs another until its end.
    fn giving_blocks<T: Element>(
        &self,
        id: weft_mpi::RequestId,
        memory: Memory<T>,
        counts: Vec<usize>,
        other: Memory<T>,
    ) -> Request<'static, Blocks<T>> {
        Request::owning(self.handle(), id, false, move |_| {
            drop(other);
            Ok(Blocks::made(memory.into_vec(total(&counts))?, counts))
        })
    }

    /// Begins to scatter the root's blocks, of which this rank's has `count` elements (`MPI_Iscatterv`).
    ///
    /// ```
    /// use weft::mpi::{self, Blocks};
    ///
    /// mpi::test(2, |world| {
    ///     let all = (world.rank() == 1).then(|| Blocks::from_iter([vec![1.5], vec![2.5, 3.5]]));
    ///     let mine = world.iscatterv(all, world.rank() + 1, 1)?.wait()?;
    ///     assert_eq!(mine, if world.rank() == 0 { vec![1.5] } else { vec![2.5, 3.5] });
    ///     Ok(())
    /// });
    /// ```
    ///
    /// # Errors
    /// As for [`scatter_into`](Self::scatter_into).
    pub fn iscatterv<T: Element>(
        &self,
        all: Option<Blocks<T>>,
        count: usize,
        root: usize,
    ) -> Result<Request<'static, Vec<T>>> {
        let all = match all.filter(|_| self.rank() == root) {
            None => None,
            Some(all) => {
                self.check_length("MPI_Iscatterv (blocks)", all.len(), self.size())?;
                let counts = all.counts().to_vec();
                Some((Memory::of(all.into_elements()), counts))
            }
        };
        let part = Memory::<T>::zeroed(count)?;
        let blocks = all.as_ref().map(|(all, counts)| all.view().listed(counts));
        let id = self.begin(coll::scatterv(
            &self.members(),
            blocks.transpose()?.as_ref(),
            Some(&part.view().buffer()),
            root,
        )?)?;
        Ok(Request::owning(self.handle(), id, false, move |_| {
            drop(all);
            part.into_vec(count)
        }))
    }

    /// Begins to exchange blocks of different lengths (`MPI_Ialltoallv`); `counts` says how many elements come from each rank.
    ///
    /// ```
    /// use weft::mpi::{self, Blocks};
    ///
    /// mpi::test(2, |world| {
    ///     let rank = world.rank();
    ///     let mine = Blocks::from_iter((0..2).map(|to| vec![10 * rank + to; to + 1]));
    ///     let came = world.ialltoallv(mine, &[rank + 1, rank + 1])?;
    ///     assert_eq!(came.wait()?.block(1), vec![10 + rank; rank + 1]);
    ///     Ok(())
    /// });
    /// ```
    ///
    /// # Errors
    /// As for [`alltoallv`](Self::alltoallv); `Count` unless there is a block and a count for each rank.
    pub fn ialltoallv<T: Element>(
        &self,
        blocks: Blocks<T>,
        counts: &[usize],
    ) -> Result<Request<'static, Blocks<T>>> {
        const NAME: &str = "MPI_Ialltoallv";
        self.check_length("MPI_Ialltoallv (blocks)", blocks.len(), self.size())?;
        self.check_length("MPI_Ialltoallv (counts)", counts.len(), self.size())?;
        let sizes = blocks.counts().to_vec();
        let send = Memory::of(blocks.into_elements());
        let all = Memory::<T>::zeroed(total(counts))?;
        let id = self.begin(coll::alltoallv(
            NAME,
            &self.members(),
            Some(&send.view().listed(&sizes)?),
            &all.view().listed(counts)?,
        )?)?;
        Ok(self.giving_blocks(id, all, counts.to_vec(), send))
    }

    /// Begins a reduction whose result is divided evenly among the ranks (`MPI_Ireduce_scatter_block`).
    ///
    /// # Errors
    /// As for [`reduce_scatter_block`](Self::reduce_scatter_block).
    pub fn ireduce_scatter_block<T: Element>(
        &self,
        elements: Vec<T>,
        op: Op<T>,
    ) -> Result<Request<'static, Vec<T>>> {
        let count = self.share("MPI_Ireduce_scatter_block", elements.len())?;
        let send = Memory::of(elements);
        let part = Memory::<T>::zeroed(count)?;
        let id = self.begin(Collective::ReduceScatterBlock {
            send: send.view().buffer(),
            receive: part.view().buffer(),
            count,
            reduction: (&reduction(send.view().len(), &op)).into(),
        })?;
        Ok(self.giving_one(id, part, send))
    }

    /// Begins a reduction; rank `i` gets `counts[i]` elements of the result (`MPI_Ireduce_scatter`).
    ///
    /// ```
    /// use weft::mpi::{self, op};
    ///
    /// mpi::test(2, |world| {
    ///     let mine = world.ireduce_scatter(vec![1, 2, 3], &[1, 2], op::sum())?.wait()?;
    ///     assert_eq!(mine, if world.rank() == 0 { vec![2] } else { vec![4, 6] });
    ///     Ok(())
    /// });
    /// ```
    ///
    /// # Errors
    /// As for [`reduce_scatter`](Self::reduce_scatter).
    pub fn ireduce_scatter<T: Element>(
        &self,
        elements: Vec<T>,
        counts: &[usize],
        op: Op<T>,
    ) -> Result<Request<'static, Vec<T>>> {
        const NAME: &str = "MPI_Ireduce_scatter";
        self.check_length(NAME, counts.len(), self.size())?;
        self.check_length(NAME, elements.len(), total(counts))?;
        let send = Memory::of(elements);
        let part = Memory::<T>::zeroed(counts[self.rank()])?;
        let id = self.begin(coll::reduce_scatter(
            &self.members(),
            &send.view().buffer(),
            &part.view().buffer(),
            counts,
            &reduction(send.view().len(), &op),
        )?)?;
        Ok(self.giving_one(id, part, send))
    }

    /// Begins a scan without this rank's own elements (`MPI_Iexscan`); `None` at rank 0.
    ///
    /// ```
    /// use weft::mpi::{self, op};
    ///
    /// mpi::test(3, |world| {
    ///     let before = world.iexscan(vec![world.rank() + 1], op::sum())?.wait()?;
    ///     assert_eq!(before, [None, Some(vec![1]), Some(vec![3])][world.rank()]);
    ///     Ok(())
    /// });
    /// ```
    ///
    /// # Errors
    /// As for [`reduce`](Self::reduce).
    pub fn iexscan<T: Element>(
        &self,
        elements: Vec<T>,
        op: Op<T>,
    ) -> Result<Request<'static, Option<Vec<T>>>> {
        let send = Memory::of(elements);
        let count = send.view().len();
        let result = Memory::<T>::zeroed(count)?;
        let id = self.begin(Collective::Exscan {
            send: send.view().buffer(),
            receive: result.view().buffer(),
            reduction: (&reduction(count, &op)).into(),
        })?;
        let first = self.rank() == 0;
        Ok(Request::owning(self.handle(), id, false, move |_| {
            drop(send);
            (!first).then(|| result.into_vec(count)).transpose()
        }))
    }
}

#[cfg(test)]
mod tests {
    use crate::mpi::{self, Blocks, ErrorClass, op};

    #[test]
    fn all_under_way_at_the_same_time() {
        for size in [1, 2, 3, 5] {
            mpi::test(size, move |world| {
                let rank = world.rank();
                let counts: Vec<usize> = (0..size).collect();
                let gathered = world.igatherv(vec![rank; rank], Some(&counts), size - 1)?;
                let known = world.iallgatherv(vec![rank; rank], &counts)?;
                let blocks = Blocks::from_iter((0..size).map(|to| vec![rank; to]));
                let exchanged = world.ialltoallv(blocks.clone(), &vec![rank; size])?;
                let all = (rank == 0).then(|| blocks.clone());
                let scattered = world.iscatterv(all, rank, 0)?;
                let numbers = vec![1_u64; counts.iter().sum()];
                let part = world.ireduce_scatter(numbers, &counts, op::sum())?;
                let even = world.ireduce_scatter_block(vec![rank; 2 * size], op::max())?;
                let before = world.iexscan(vec![1_u8], op::sum())?;
                assert_eq!(before.wait()?, (rank > 0).then(|| vec![rank as u8]));
                assert_eq!(even.wait()?, [size - 1; 2]);
                assert_eq!(part.wait()?, vec![size as u64; rank]);
                assert_eq!(scattered.wait()?, vec![0; rank]);
                let came = exchanged.wait()?;
                assert!((0..size).all(|from| came.block(from) == vec![from; rank]));
                let known = known.wait()?;
                assert!((0..size).all(|from| known.block(from) == vec![from; from]));
                assert_eq!(gathered.wait()?, (rank == size - 1).then_some(known));
                Ok(())
            });
        }
    }

    #[test]
    fn counts_that_are_too_few_are_refused() {
        mpi::test(1, |world| {
            let class = |outcome: mpi::Result<()>| outcome.unwrap_err().class();
            let none = world.igatherv(vec![1], None, 0);
            assert_eq!(class(none.map(drop)), ErrorClass::Count);
            let many = world.iallgatherv(vec![1], &[1, 1]);
            assert_eq!(class(many.map(drop)), ErrorClass::Count);
            let more = world.iallgatherv(vec![1], &[usize::MAX]);
            assert_eq!(class(more.map(drop)), ErrorClass::NoMem);
            Ok(())
        });
    }
}
