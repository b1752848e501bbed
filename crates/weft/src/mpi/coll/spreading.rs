//! Collectives that send from one rank to all, and the barrier.

use weft_mpi::coll::Collective;
use weft_mpi::{Error, ErrorClass, Result};

use super::super::communicator::Communicator;
use super::super::memory::{Arriving, Memory, View};
use super::super::{Blocks, BufferMut, Element};

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
    /// Waits until all ranks have called it (`MPI_Barrier`).
    ///
    /// # Errors
    /// `ProcFailed` if a rank is lost.
    pub fn barrier(&self) -> Result<()> {
        self.run(Collective::Barrier)
    }

    /// Sends the root's elements to all ranks (`MPI_Bcast`); all give a buffer of the same length.
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
    /// `Root` for a root that is no rank, `Truncate` if lengths differ, `Type` if a received element is no valid value of
    /// the type.
    pub fn broadcast<B: BufferMut + ?Sized>(&self, buffer: &mut B, root: usize) -> Result<()> {
        let arriving = Arriving::into(buffer.elements_mut())?;
        let count = arriving.view().len();
        self.run(Collective::Bcast {
            data: arriving.view().buffer(),
            root,
        })?;
        arriving.finish(count).map(drop)
    }

    /// Like [`broadcast`](Self::broadcast), of as many elements as the root has.
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
        // In the same way as the root.
        self.run(Collective::Bcast {
            data: memory.view().buffer(),
            root,
        })?;
        *elements = memory.into_vec(count as usize)?;
        Ok(())
    }

    /// Sends to each rank its block of the root's elements (`MPI_Scatter`); all blocks have the same length, which the
    /// other ranks need not know.
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
    /// `Root` for a root that is no rank, `Type` if a received element is no valid value of the type. At all ranks:
    /// `Buffer` if the root gives no elements, `Count` if they cannot be divided into equal blocks.
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
        self.run(Collective::Scatter {
            send: blocks,
            receive: Some(part.view().buffer()),
            root,
        })?;
        part.into_vec(count as usize)
    }

    /// Like [`scatter`](Self::scatter), into a buffer; all ranks know the length of the blocks.
    ///
    /// # Errors
    /// `Root` for a root that is no rank, `Buffer` if the root gives no elements, `Count` if these are not one block of
    /// the buffer's length for each rank, `Type` if a received element is no valid value of the type.
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
        self.run(Collective::Scatter {
            send: blocks,
            receive: Some(arriving.view().buffer()),
            root,
        })?;
        arriving.finish(count).map(drop)
    }

    /// Like [`scatter`](Self::scatter), with blocks of different lengths (`MPI_Scatterv`, after an exchange of the
    /// counts).
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
        self.run(Collective::Scatterv {
            send: blocks.transpose()?,
            receive: Some(part.view().buffer()),
            root,
        })?;
        part.into_vec(count as usize)
    }

    /// Makes something at the root only.
    pub(super) fn at<T>(&self, root: usize, make: impl FnOnce() -> Result<T>) -> Result<Option<T>> {
        (self.rank() == root).then(make).transpose()
    }
}
