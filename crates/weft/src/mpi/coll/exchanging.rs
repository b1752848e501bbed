//! Collectives in which each rank sends a block to each rank.

use weft_mpi::Result;
use weft_mpi::coll::Collective;

use super::super::communicator::Communicator;
use super::super::memory::{Arriving, Memory, View};
use super::super::{Blocks, Buffer, BufferMut, Element};

impl Communicator {
    /// Sends a block to each rank, and receives one from each (`MPI_Alltoall`): block `i` goes to rank `i`, and block `i`
    /// of the result comes from rank `i`.
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
    /// `Count` if the elements cannot be divided into equal blocks for all ranks, `Truncate` if lengths differ, `Type` if
    /// a received element is no valid value of the type.
    pub fn alltoall<B: Buffer + ?Sized>(&self, buffer: &B) -> Result<Vec<B::Element>> {
        let send = View::reading(buffer.elements());
        self.share("MPI_Alltoall", send.len())?;
        let all = Memory::<B::Element>::zeroed(send.len())?;
        self.run(Collective::Alltoall {
            send: Some(send.even(self.size())?),
            receive: all.view().even(self.size())?,
        })?;
        all.into_vec(send.len())
    }

    /// Like [`alltoall`](Self::alltoall), into a buffer.
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
        self.run(Collective::Alltoall {
            send: Some(send.even(self.size())?),
            receive: arriving.view().even(self.size())?,
        })?;
        arriving.finish(send.len()).map(drop)
    }

    /// Like [`alltoall_into`](Self::alltoall_into), but received blocks replace the sent ones (`MPI_IN_PLACE`).
    ///
    /// # Errors
    /// As for [`alltoall`](Self::alltoall).
    pub fn alltoall_in_place<B: BufferMut + ?Sized>(&self, buffer: &mut B) -> Result<()> {
        let arriving = Arriving::into(buffer.elements_mut())?;
        let count = arriving.view().len();
        self.share("MPI_Alltoall", count)?;
        let blocks = arriving.view().even(self.size())?;
        self.run(Collective::Alltoall {
            send: None,
            receive: blocks,
        })?;
        arriving.finish(count).map(drop)
    }

    /// Like [`alltoall`](Self::alltoall), with blocks of different lengths (`MPI_Alltoallv`, after an exchange of the
    /// counts).
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
        self.run(Collective::Alltoallv {
            name: "MPI_Alltoallv",
            send: Some(send),
            receive: all.view().listed(&counts)?,
        })?;
        Ok(Blocks::made(all.into_vec(total)?, counts))
    }
}
