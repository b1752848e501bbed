//! Collectives that move data: broadcast, gather, scatter, all to all.

use weft_mpi::coll;
use weft_mpi::{Error, ErrorClass, Result};

use super::super::communicator::Communicator;
use super::super::memory::{Arriving, Memory, View};
use super::super::{Blocks, Buffer, BufferMut, Element};

/// What the root says instead of a length when its own argument is wrong: nobody waits for data then.
const NO_BUFFER: u64 = u64::MAX;
const BAD_BUFFER: u64 = u64::MAX - 1;

fn length(count: usize) -> u64 {
    count as u64
}

fn no_root_buffer(name: &str, root: usize) -> Error {
    Error::new(
        ErrorClass::Buffer,
        format!("{name}: rank {root} is the root and has given no elements"),
    )
}

fn bad_root_buffer(name: &str, root: usize, size: usize) -> Error {
    Error::new(
        ErrorClass::Count,
        format!(
            "{name}: the elements of the root, rank {root}, are no blocks for {size} ranks; give one block for each"
        ),
    )
}

impl Communicator {
    /// Waits until all ranks have come here (`MPI_Barrier`).
    ///
    /// # Errors
    /// `ProcFailed` if a rank is lost.
    pub fn barrier(&self) -> Result<()> {
        self.run(coll::barrier(&self.members())?)
    }

    /// The root's elements to all (`MPI_Bcast`); all give a buffer of the same length.
    ///
    /// ```
    /// use weft::mpi;
    ///
    /// mpi::test(3, |world| {
    ///     let mut steps = if world.rank() == 0 { [10, 20] } else { [0, 0] };
    ///     world.broadcast(&mut steps, 0)?;
    ///     assert_eq!(steps, [10, 20]);
    ///     Ok(())
    /// });
    /// ```
    ///
    /// # Errors
    /// `Root` for a root that is no rank, `Truncate` if lengths differ, `Type` if what came is no value of the type.
    pub fn broadcast<B: BufferMut + ?Sized>(&self, buffer: &mut B, root: usize) -> Result<()> {
        let arriving = Arriving::into(buffer.elements_mut())?;
        let count = arriving.view().len();
        self.run(coll::bcast(
            &self.members(),
            &arriving.view().buffer(),
            root,
        )?)?;
        arriving.finish(count).map(drop)
    }

    /// As [`broadcast`](Self::broadcast), of as many elements as the root has.
    ///
    /// ```
    /// use weft::mpi;
    ///
    /// mpi::test(3, |world| {
    ///     let mut words = Vec::new();
    ///     if world.rank() == 2 {
    ///         words = vec![4, 8, 15, 16];
    ///     }
    ///     world.broadcast_vec(&mut words, 2)?;
    ///     assert_eq!(words, [4, 8, 15, 16]);
    ///     Ok(())
    /// });
    /// ```
    ///
    /// # Errors
    /// As for [`broadcast`](Self::broadcast).
    pub fn broadcast_vec<T: Element>(&self, elements: &mut Vec<T>, root: usize) -> Result<()> {
        let mut count = length(elements.len());
        self.broadcast(&mut count, root)?;
        if self.rank() == root {
            return self.broadcast(elements, root);
        }
        let memory = Memory::<T>::zeroed(count as usize)?;
        let schedule = coll::bcast(&self.members(), &memory.view().buffer(), root)?;
        self.run(schedule)?;
        *elements = memory.into_vec(count as usize)?;
        Ok(())
    }

    /// All ranks' elements to the root, in the order of the ranks (`MPI_Gather`); all give as many. `None` for the others.
    ///
    /// ```
    /// use weft::mpi;
    ///
    /// mpi::test(3, |world| {
    ///     let squares = world.gather(&world.rank().pow(2), 0)?;
    ///     if world.rank() == 0 {
    ///         assert_eq!(squares, Some(vec![0, 1, 4]));
    ///     }
    ///     Ok(())
    /// });
    /// ```
    ///
    /// # Errors
    /// `Root` for a root that is no rank, `Truncate` if lengths differ, `Type` if what came is no value of the type.
    pub fn gather<B: Buffer + ?Sized>(
        &self,
        buffer: &B,
        root: usize,
    ) -> Result<Option<Vec<B::Element>>> {
        let send = View::reading(buffer.elements());
        let total = send.len() * self.size();
        let all = self.at(root, || Memory::<B::Element>::zeroed(total))?;
        let blocks = all.as_ref().map(|all| all.view().even(self.size()));
        self.run(coll::gather(
            &self.members(),
            Some(&send.buffer()),
            blocks.transpose()?.as_ref(),
            root,
        )?)?;
        all.map(|all| all.into_vec(total)).transpose()
    }

    /// As [`gather`](Self::gather), into a buffer that the root gives.
    ///
    /// # Errors
    /// As for [`gather`](Self::gather); `Count` if the root's buffer is not as long as all elements.
    pub fn gather_into<B, C>(&self, buffer: &B, into: Option<&mut C>, root: usize) -> Result<()>
    where
        B: Buffer + ?Sized,
        C: BufferMut<Element = B::Element> + ?Sized,
    {
        let send = View::reading(buffer.elements());
        let into = into.filter(|_| self.rank() == root);
        let arriving = into.map(|into| Arriving::into(into.elements_mut()));
        let arriving = arriving.transpose()?;
        let mut blocks = None;
        if let Some(arriving) = &arriving {
            let expected = send.len() * self.size();
            self.check_length("MPI_Gather", arriving.view().len(), expected)?;
            blocks = Some(arriving.view().even(self.size())?);
        }
        self.run(coll::gather(
            &self.members(),
            Some(&send.buffer()),
            blocks.as_ref(),
            root,
        )?)?;
        arriving.map_or(Ok(()), |arriving| {
            let count = arriving.view().len();
            arriving.finish(count).map(drop)
        })
    }

    /// As [`gather`](Self::gather), of as many elements as each rank has (`MPI_Gatherv`, which is told the counts first).
    ///
    /// ```
    /// use weft::mpi;
    ///
    /// mpi::test(3, |world| {
    ///     let mine = vec![world.rank(); world.rank() + 1];
    ///     if let Some(all) = world.gatherv(&mine, 1)? {
    ///         assert_eq!(all.counts(), [1, 2, 3]);
    ///         assert_eq!(all.block(2), [2, 2, 2]);
    ///     }
    ///     Ok(())
    /// });
    /// ```
    ///
    /// # Errors
    /// As for [`gather`](Self::gather).
    pub fn gatherv<B: Buffer + ?Sized>(
        &self,
        buffer: &B,
        root: usize,
    ) -> Result<Option<Blocks<B::Element>>> {
        let send = View::reading(buffer.elements());
        let counts = self.gather(&send.len(), root)?;
        let mut all = None;
        let mut blocks = None;
        if let Some(counts) = &counts {
            let memory = Memory::<B::Element>::zeroed(counts.iter().sum())?;
            blocks = Some(memory.view().listed(counts)?);
            all = Some(memory);
        }
        self.run(coll::gatherv(
            &self.members(),
            Some(&send.buffer()),
            blocks.as_ref(),
            root,
        )?)?;
        let Some((all, counts)) = all.zip(counts) else {
            return Ok(None);
        };
        Ok(Some(Blocks::made(
            all.into_vec(counts.iter().sum())?,
            counts,
        )))
    }

    /// All ranks' elements to all, in the order of the ranks (`MPI_Allgather`); all give as many.
    ///
    /// ```
    /// use weft::mpi;
    ///
    /// mpi::test(3, |world| {
    ///     assert_eq!(world.allgather(&world.rank())?, [0, 1, 2]);
    ///     Ok(())
    /// });
    /// ```
    ///
    /// # Errors
    /// `Truncate` if lengths differ, `Type` if what came is no value of the type.
    pub fn allgather<B: Buffer + ?Sized>(&self, buffer: &B) -> Result<Vec<B::Element>> {
        let send = View::reading(buffer.elements());
        let total = send.len() * self.size();
        let all = Memory::<B::Element>::zeroed(total)?;
        let blocks = all.view().even(self.size())?;
        self.run(coll::allgather(
            &self.members(),
            Some(&send.buffer()),
            &blocks,
        )?)?;
        all.into_vec(total)
    }

    /// As [`allgather`](Self::allgather), into a buffer.
    ///
    /// # Errors
    /// As for [`allgather`](Self::allgather); `Count` if the buffer is not as long as all elements.
    pub fn allgather_into<B, C>(&self, buffer: &B, into: &mut C) -> Result<()>
    where
        B: Buffer + ?Sized,
        C: BufferMut<Element = B::Element> + ?Sized,
    {
        let send = View::reading(buffer.elements());
        let arriving = Arriving::into(into.elements_mut())?;
        let total = arriving.view().len();
        self.check_length("MPI_Allgather", total, send.len() * self.size())?;
        let blocks = arriving.view().even(self.size())?;
        self.run(coll::allgather(
            &self.members(),
            Some(&send.buffer()),
            &blocks,
        )?)?;
        arriving.finish(total).map(drop)
    }

    /// As [`allgather_into`](Self::allgather_into); what this rank gives is in its own block of the buffer
    /// (`MPI_IN_PLACE`).
    ///
    /// # Errors
    /// As for [`allgather`](Self::allgather); `Count` if the buffer is not the same block for each rank.
    pub fn allgather_in_place<B: BufferMut + ?Sized>(&self, buffer: &mut B) -> Result<()> {
        let arriving = Arriving::into(buffer.elements_mut())?;
        let total = arriving.view().len();
        self.share("MPI_Allgather", total)?;
        let blocks = arriving.view().even(self.size())?;
        self.run(coll::allgather(&self.members(), None, &blocks)?)?;
        arriving.finish(total).map(drop)
    }

    /// As [`allgather`](Self::allgather), of as many elements as each rank has (`MPI_Allgatherv`, which is told the counts
    /// first).
    ///
    /// ```
    /// use weft::mpi;
    ///
    /// mpi::test(3, |world| {
    ///     let all = world.allgatherv(&vec![world.rank(); world.rank()])?;
    ///     assert_eq!(all.counts(), [0, 1, 2]);
    ///     assert_eq!(all.elements(), [1, 2, 2]);
    ///     Ok(())
    /// });
    /// ```
    ///
    /// # Errors
    /// As for [`allgather`](Self::allgather).
    pub fn allgatherv<B: Buffer + ?Sized>(&self, buffer: &B) -> Result<Blocks<B::Element>> {
        let send = View::reading(buffer.elements());
        let counts = self.allgather(&send.len())?;
        let total = counts.iter().sum();
        let all = Memory::<B::Element>::zeroed(total)?;
        let blocks = all.view().listed(&counts)?;
        self.run(coll::allgatherv(
            &self.members(),
            Some(&send.buffer()),
            &blocks,
        )?)?;
        Ok(Blocks::made(all.into_vec(total)?, counts))
    }

    /// To each rank its block of the root's elements (`MPI_Scatter`), which is as long for all. The others need not know
    /// how long.
    ///
    /// ```
    /// use weft::mpi;
    ///
    /// mpi::test(3, |world| {
    ///     let all: Vec<u16> = (0..6).collect();
    ///     let mine = world.scatter((world.rank() == 0).then_some(&all[..]), 0)?;
    ///     assert_eq!(mine, [2 * world.rank() as u16, 2 * world.rank() as u16 + 1]);
    ///     Ok(())
    /// });
    /// ```
    ///
    /// # Errors
    /// `Root` for a root that is no rank, `Type` if what came is no value of the type. At all ranks: `Buffer` if the root
    /// gives no elements, `Count` if they are not the same block for each.
    pub fn scatter<T: Element>(&self, all: Option<&[T]>, root: usize) -> Result<Vec<T>> {
        const NAME: &str = "MPI_Scatter";
        let size = self.size();
        let mut count = match all {
            None => NO_BUFFER,
            Some(all) if !all.len().is_multiple_of(size) => BAD_BUFFER,
            Some(all) => length(all.len() / size),
        };
        self.broadcast(&mut count, root)?;
        match count {
            NO_BUFFER => return Err(no_root_buffer(NAME, root)),
            BAD_BUFFER => return Err(bad_root_buffer(NAME, root, size)),
            _ => {}
        }
        let part = Memory::<T>::zeroed(count as usize)?;
        let all = all.filter(|_| self.rank() == root).map(View::reading);
        let blocks = all.map(|all| all.even(size)).transpose()?;
        self.run(coll::scatter(
            &self.members(),
            blocks.as_ref(),
            Some(&part.view().buffer()),
            root,
        )?)?;
        part.into_vec(count as usize)
    }

    /// As [`scatter`](Self::scatter), into a buffer; all know how long the blocks are.
    ///
    /// # Errors
    /// `Root` for a root that is no rank, `Buffer` if the root gives no elements, `Count` if they are not a block as long as
    /// the buffer for each rank, `Type` if what came is no value of the type.
    pub fn scatter_into<T, B>(&self, all: Option<&[T]>, into: &mut B, root: usize) -> Result<()>
    where
        T: Element,
        B: BufferMut<Element = T> + ?Sized,
    {
        let arriving = Arriving::into(into.elements_mut())?;
        let count = arriving.view().len();
        let all = all.filter(|_| self.rank() == root).map(View::reading);
        if let Some(all) = &all {
            self.check_length("MPI_Scatter", all.len(), count * self.size())?;
        }
        let blocks = all.map(|all| all.even(self.size())).transpose()?;
        self.run(coll::scatter(
            &self.members(),
            blocks.as_ref(),
            Some(&arriving.view().buffer()),
            root,
        )?)?;
        arriving.finish(count).map(drop)
    }

    /// As [`scatter`](Self::scatter), with blocks of different lengths (`MPI_Scatterv`, which is told the counts first).
    ///
    /// ```
    /// use weft::mpi::{self, Blocks};
    ///
    /// mpi::test(2, |world| {
    ///     let blocks: Blocks<u8> = [vec![1, 2, 3], vec![4]].into_iter().collect();
    ///     let mine = world.scatterv((world.rank() == 0).then_some(&blocks), 0)?;
    ///     assert_eq!(mine.len(), if world.rank() == 0 { 3 } else { 1 });
    ///     Ok(())
    /// });
    /// ```
    ///
    /// # Errors
    /// As for [`scatter`](Self::scatter).
    pub fn scatterv<T: Element>(&self, all: Option<&Blocks<T>>, root: usize) -> Result<Vec<T>> {
        const NAME: &str = "MPI_Scatterv";
        let size = self.size();
        let all = all.filter(|_| self.rank() == root);
        let mut counts = None;
        if self.rank() == root {
            counts = Some(match all {
                None => vec![NO_BUFFER; size],
                Some(all) if all.len() != size => vec![BAD_BUFFER; size],
                Some(all) => all.counts().iter().map(|count| length(*count)).collect(),
            });
        }
        let mut count = 0;
        self.scatter_into(counts.as_deref(), &mut count, root)?;
        match count {
            NO_BUFFER => return Err(no_root_buffer(NAME, root)),
            BAD_BUFFER => return Err(bad_root_buffer(NAME, root, size)),
            _ => {}
        }
        let part = Memory::<T>::zeroed(count as usize)?;
        let blocks = all.map(|all| View::reading(all.elements()).listed(all.counts()));
        self.run(coll::scatterv(
            &self.members(),
            blocks.transpose()?.as_ref(),
            Some(&part.view().buffer()),
            root,
        )?)?;
        part.into_vec(count as usize)
    }

    /// From each rank a block to each (`MPI_Alltoall`): block `i` goes to rank `i`, and what came from rank `i` is block `i`
    /// of the result.
    ///
    /// ```
    /// use weft::mpi;
    ///
    /// mpi::test(2, |world| {
    ///     let mine = if world.rank() == 0 { [1, 2] } else { [3, 4] };
    ///     let transposed = world.alltoall(&mine)?;
    ///     assert_eq!(transposed, if world.rank() == 0 { [1, 3] } else { [2, 4] });
    ///     Ok(())
    /// });
    /// ```
    ///
    /// # Errors
    /// `Count` if the elements are not the same block for each rank, `Truncate` if lengths differ, `Type` if what came is no
    /// value of the type.
    pub fn alltoall<B: Buffer + ?Sized>(&self, buffer: &B) -> Result<Vec<B::Element>> {
        let send = View::reading(buffer.elements());
        self.share("MPI_Alltoall", send.len())?;
        let all = Memory::<B::Element>::zeroed(send.len())?;
        self.run(coll::alltoall(
            &self.members(),
            Some(&send.even(self.size())?),
            &all.view().even(self.size())?,
        )?)?;
        all.into_vec(send.len())
    }

    /// As [`alltoall`](Self::alltoall), into a buffer.
    ///
    /// # Errors
    /// As for [`alltoall`](Self::alltoall); `Count` if the buffers differ in length.
    pub fn alltoall_into<B, C>(&self, buffer: &B, into: &mut C) -> Result<()>
    where
        B: Buffer + ?Sized,
        C: BufferMut<Element = B::Element> + ?Sized,
    {
        const NAME: &str = "MPI_Alltoall";
        let send = View::reading(buffer.elements());
        let arriving = Arriving::into(into.elements_mut())?;
        self.share(NAME, send.len())?;
        self.check_length(NAME, arriving.view().len(), send.len())?;
        self.run(coll::alltoall(
            &self.members(),
            Some(&send.even(self.size())?),
            &arriving.view().even(self.size())?,
        )?)?;
        arriving.finish(send.len()).map(drop)
    }

    /// As [`alltoall_into`](Self::alltoall_into), where what comes takes the place of what goes (`MPI_IN_PLACE`).
    ///
    /// # Errors
    /// As for [`alltoall`](Self::alltoall).
    pub fn alltoall_in_place<B: BufferMut + ?Sized>(&self, buffer: &mut B) -> Result<()> {
        let arriving = Arriving::into(buffer.elements_mut())?;
        let count = arriving.view().len();
        self.share("MPI_Alltoall", count)?;
        let blocks = arriving.view().even(self.size())?;
        self.run(coll::alltoall(&self.members(), None, &blocks)?)?;
        arriving.finish(count).map(drop)
    }

    /// As [`alltoall`](Self::alltoall), with blocks of different lengths (`MPI_Alltoallv`, which is told the counts first).
    ///
    /// ```
    /// use weft::mpi::{self, Blocks};
    ///
    /// mpi::test(3, |world| {
    ///     // Each number to the rank that it belongs to.
    ///     let numbers = [3, 1, 4, 1, 5, 9, 2, 6];
    ///     let blocks: Blocks<usize> = (0..3)
    ///         .map(|rank| numbers.into_iter().filter(|n| n % 3 == rank).collect::<Vec<_>>())
    ///         .collect();
    ///     let mine = world.alltoallv(&blocks)?;
    ///     assert!(mine.elements().iter().all(|n| n % 3 == world.rank()));
    ///     Ok(())
    /// });
    /// ```
    ///
    /// # Errors
    /// As for [`alltoall`](Self::alltoall).
    pub fn alltoallv<T: Element>(&self, blocks: &Blocks<T>) -> Result<Blocks<T>> {
        self.check_length("MPI_Alltoallv (blocks)", blocks.len(), self.size())?;
        let counts = self.alltoall(blocks.counts())?;
        let total = counts.iter().sum();
        let all = Memory::<T>::zeroed(total)?;
        let send = View::reading(blocks.elements()).listed(blocks.counts())?;
        self.run(coll::alltoallv(
            "MPI_Alltoallv",
            &self.members(),
            Some(&send),
            &all.view().listed(&counts)?,
        )?)?;
        Ok(Blocks::made(all.into_vec(total)?, counts))
    }

    /// Makes something at the root only.
    pub(super) fn at<T>(&self, root: usize, make: impl FnOnce() -> Result<T>) -> Result<Option<T>> {
        (self.rank() == root).then(make).transpose()
    }
}
