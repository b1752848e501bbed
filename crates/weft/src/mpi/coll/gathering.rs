//! Collectives that gather: to one rank, and to all.

use weft_mpi::Result;
use weft_mpi::coll::Collective;

use super::super::communicator::Communicator;
use super::super::memory::{Arriving, Memory, View};
use super::super::{Blocks, Buffer, BufferMut};

impl Communicator {
    /// Gathers all ranks' elements at the root, in the order of the ranks (`MPI_Gather`); all give the same number.
    /// `None` at the other ranks.
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
    /// `Root` for a root that is no rank, `Truncate` if lengths differ, `Type` if a received element is no valid value of
    /// the type.
    pub fn gather<B: Buffer + ?Sized>(
        &self,
        buffer: &B,
        root: usize,
    ) -> Result<Option<Vec<B::Element>>> {
        let send = View::reading(buffer.elements());
        let total = send.len() * self.size();
        let all = self.at(root, || Memory::<B::Element>::zeroed(total))?;
        let blocks = all.as_ref().map(|all| all.view().even(self.size()));
        self.run(Collective::Gather {
            send: Some(send.buffer()),
            receive: blocks.transpose()?,
            root,
        })?;
        all.map(|all| all.into_vec(total)).transpose()
    }

    /// Like [`gather`](Self::gather), into a buffer of the root.
    ///
    /// # Errors
    /// As for [`gather`](Self::gather); `Count` if the root's buffer does not have the length of all elements together.
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
        self.run(Collective::Gather {
            send: Some(send.buffer()),
            receive: blocks,
            root,
        })?;
        arriving.map_or(Ok(()), |arriving| {
            let count = arriving.view().len();
            arriving.finish(count).map(drop)
        })
    }

    /// Like [`gather`](Self::gather), with any number of elements at each rank (`MPI_Gatherv`, after an exchange of the
    /// counts).
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
        self.run(Collective::Gatherv {
            send: Some(send.buffer()),
            receive: blocks,
            root,
        })?;
        let Some((all, counts)) = all.zip(counts) else {
            return Ok(None);
        };
        Ok(Some(Blocks::made(
            all.into_vec(counts.iter().sum())?,
            counts,
        )))
    }

    /// Gathers all ranks' elements at all ranks, in the order of the ranks (`MPI_Allgather`); all give the same number.
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
    /// `Truncate` if lengths differ, `Type` if a received element is no valid value of the type.
    pub fn allgather<B: Buffer + ?Sized>(&self, buffer: &B) -> Result<Vec<B::Element>> {
        let send = View::reading(buffer.elements());
        let total = send.len() * self.size();
        let all = Memory::<B::Element>::zeroed(total)?;
        let blocks = all.view().even(self.size())?;
        self.run(Collective::Allgather {
            send: Some(send.buffer()),
            receive: blocks,
        })?;
        all.into_vec(total)
    }

    /// Like [`allgather`](Self::allgather), into a buffer.
    ///
    /// # Errors
    /// As for [`allgather`](Self::allgather); `Count` if the buffer does not have the length of all elements together.
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
        self.run(Collective::Allgather {
            send: Some(send.buffer()),
            receive: blocks,
        })?;
        arriving.finish(total).map(drop)
    }

    /// Like [`allgather_into`](Self::allgather_into), with this rank's elements in its own block of the buffer
    /// (`MPI_IN_PLACE`).
    ///
    /// # Errors
    /// As for [`allgather`](Self::allgather); `Count` if the buffer cannot be divided into equal blocks for all ranks.
    pub fn allgather_in_place<B: BufferMut + ?Sized>(&self, buffer: &mut B) -> Result<()> {
        let arriving = Arriving::into(buffer.elements_mut())?;
        let total = arriving.view().len();
        self.share("MPI_Allgather", total)?;
        let blocks = arriving.view().even(self.size())?;
        self.run(Collective::Allgather {
            send: None,
            receive: blocks,
        })?;
        arriving.finish(total).map(drop)
    }

    /// Like [`allgather`](Self::allgather), with any number of elements at each rank (`MPI_Allgatherv`, after an exchange
    /// of the counts).
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
        self.run(Collective::Allgatherv {
            send: Some(send.buffer()),
            receive: blocks,
        })?;
        Ok(Blocks::made(all.into_vec(total)?, counts))
    }
}
