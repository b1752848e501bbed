//! Non-blocking accesses: each is a request, which owns the elements meanwhile (MPI 5.0, sections 14.4.2 to 14.4.4).
//!
//! Collective ones are made in the order in which they are begun, relative to each other and to blocking ones. An access
//! goes on even if its request is dropped; [`File::close`] waits for it, and returns its error.

use weft_mpi::io::{Access, Direction, FilePosition};
use weft_mpi::{RequestId, Result};

use super::super::memory::{Memory, View};
use super::super::request::Request;
use super::super::{Element, Status};
use super::{File, at};

impl File {
    fn begin<T: Element>(
        &self,
        direction: Direction,
        place: FilePosition,
        together: bool,
        elements: View<'_, T>,
    ) -> Result<RequestId> {
        self.file.begin(Access {
            direction,
            place,
            together,
            elements: elements.typed()?,
        })
    }

    fn begin_read<T: Element>(
        &self,
        place: FilePosition,
        together: bool,
        count: usize,
    ) -> Result<Request<'static, Vec<T>>> {
        let memory = Memory::<T>::zeroed(count)?;
        let id = self.begin(Direction::Read, place, together, memory.view())?;
        let finish = move |status: Status| {
            // At its end a file may have a part of an element, which is none.
            let count = status.bytes() / T::datatype().size();
            memory.into_vec(count)
        };
        Ok(Request::owning(&self.handle, id, false, finish))
    }

    fn begin_write<T: Element>(
        &self,
        place: FilePosition,
        together: bool,
        elements: Vec<T>,
    ) -> Result<Request<'static, Vec<T>>> {
        let memory = Memory::of(elements);
        let id = self.begin(Direction::Write, place, together, memory.view())?;
        let finish = move |_| {
            let count = memory.view().len();
            memory.into_vec(count)
        };
        Ok(Request::owning(&self.handle, id, false, finish))
    }

    /// Begins to read at an offset (`MPI_File_iread_at`).
    ///
    /// # Errors
    /// As for [`read_at`](Self::read_at).
    pub fn iread_at<T: Element>(
        &self,
        place: u64,
        count: usize,
    ) -> Result<Request<'static, Vec<T>>> {
        self.begin_read(at(place), false, count)
    }

    /// Begins to write at an offset, and gives the vector back at the end (`MPI_File_iwrite_at`).
    ///
    /// ```
    /// use weft::mpi::{self, File};
    ///
    /// let folder = tempfile::tempdir().unwrap();
    /// let path = folder.path().join("numbers");
    /// mpi::test(2, |world| {
    ///     let file = File::create(&world, &path)?;
    ///     file.set_view::<u64>(0)?;
    ///     let place = world.rank() as u64;
    ///     file.iwrite_at(place, vec![place])?.wait()?;
    ///     assert_eq!(file.iread_at::<u64>(place, 1)?.wait()?, [place]);
    ///     file.close()
    /// });
    /// ```
    ///
    /// # Errors
    /// As for [`write_at`](Self::write_at).
    pub fn iwrite_at<T: Element>(
        &self,
        place: u64,
        elements: Vec<T>,
    ) -> Result<Request<'static, Vec<T>>> {
        self.begin_write(at(place), false, elements)
    }

    /// Begins to read at an offset, all ranks together (`MPI_File_iread_at_all`).
    ///
    /// # Errors
    /// As for [`read_at_all`](Self::read_at_all), of any rank.
    pub fn iread_at_all<T: Element>(
        &self,
        place: u64,
        count: usize,
    ) -> Result<Request<'static, Vec<T>>> {
        self.begin_read(at(place), true, count)
    }

    /// Begins to write at an offset, all ranks together, and gives the vector back at the end (`MPI_File_iwrite_at_all`).
    ///
    /// ```
    /// use weft::mpi::{self, File};
    ///
    /// let folder = tempfile::tempdir().unwrap();
    /// let path = folder.path().join("rows");
    /// mpi::test(3, |world| {
    ///     let (rank, size) = (world.rank(), world.size());
    ///     let file = File::create(&world, &path)?;
    ///     file.set_view_of_blocks::<u16>(rank, 1, size)?;
    ///     let written = file.iwrite_at_all(0, vec![rank as u16; 100])?;
    ///     // … the next step is computed …
    ///     let _again: Vec<u16> = written.wait()?;
    ///     let read = file.iread_at_all::<u16>(0, 100)?;
    ///     assert_eq!(mpi::block_on(async { read.await })?, [rank as u16; 100]);
    ///     file.close()
    /// });
    /// ```
    ///
    /// # Errors
    /// As for [`write_at_all`](Self::write_at_all), of any rank.
    pub fn iwrite_at_all<T: Element>(
        &self,
        place: u64,
        elements: Vec<T>,
    ) -> Result<Request<'static, Vec<T>>> {
        self.begin_write(at(place), true, elements)
    }

    /// Begins to read at this rank's pointer, which advances at once (`MPI_File_iread`).
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    pub fn iread<T: Element>(&self, count: usize) -> Result<Request<'static, Vec<T>>> {
        self.begin_read(FilePosition::Individual, false, count)
    }

    /// Begins to write at this rank's pointer, which advances at once, and gives the vector back at the end
    /// (`MPI_File_iwrite`).
    ///
    /// # Errors
    /// As for [`write`](Self::write).
    pub fn iwrite<T: Element>(&self, elements: Vec<T>) -> Result<Request<'static, Vec<T>>> {
        self.begin_write(FilePosition::Individual, false, elements)
    }

    /// Begins to read at this rank's pointer, which advances at once, all ranks together (`MPI_File_iread_all`).
    ///
    /// # Errors
    /// As for [`read_all`](Self::read_all), of any rank.
    pub fn iread_all<T: Element>(&self, count: usize) -> Result<Request<'static, Vec<T>>> {
        self.begin_read(FilePosition::Individual, true, count)
    }

    /// Begins to write at this rank's pointer, which advances at once, all ranks together, and gives the vector back at
    /// the end (`MPI_File_iwrite_all`).
    ///
    /// # Errors
    /// As for [`write_all`](Self::write_all), of any rank.
    pub fn iwrite_all<T: Element>(&self, elements: Vec<T>) -> Result<Request<'static, Vec<T>>> {
        self.begin_write(FilePosition::Individual, true, elements)
    }

    /// Begins to read at the shared pointer (`MPI_File_iread_shared`).
    ///
    /// # Errors
    /// As for [`read_shared`](Self::read_shared).
    pub fn iread_shared<T: Element>(&self, count: usize) -> Result<Request<'static, Vec<T>>> {
        self.begin_read(FilePosition::Shared, false, count)
    }

    /// Begins to write at the shared pointer, and gives the vector back at the end (`MPI_File_iwrite_shared`).
    ///
    /// ```
    /// use weft::mpi::{self, File};
    ///
    /// let folder = tempfile::tempdir().unwrap();
    /// let path = folder.path().join("tasks");
    /// std::fs::write(&path, [1, 2, 3]).unwrap();
    /// mpi::test(3, |world| {
    ///     let file = File::open(&world, &path)?;
    ///     let task = file.iread_shared::<u8>(1)?.wait()?; // each is somebody's
    ///     let sum = world.allreduce(&u32::from(task[0]), mpi::op::sum())?;
    ///     assert_eq!(sum, 6);
    ///     file.close()
    /// });
    /// ```
    ///
    /// # Errors
    /// As for [`write_shared`](Self::write_shared).
    pub fn iwrite_shared<T: Element>(&self, elements: Vec<T>) -> Result<Request<'static, Vec<T>>> {
        self.begin_write(FilePosition::Shared, false, elements)
    }

    /// Begins to read at the shared pointer, each rank's part after that of the rank before it
    /// (`MPI_File_read_ordered_begin`).
    ///
    /// # Errors
    /// As for [`read_ordered`](Self::read_ordered), of any rank.
    pub fn iread_ordered<T: Element>(&self, count: usize) -> Result<Request<'static, Vec<T>>> {
        self.begin_read(FilePosition::Shared, true, count)
    }

    /// Begins to write at the shared pointer, each rank's part after that of the rank before it, and gives the vector
    /// back at the end (`MPI_File_write_ordered_begin`).
    ///
    /// ```
    /// use weft::mpi::{self, File};
    ///
    /// let folder = tempfile::tempdir().unwrap();
    /// let path = folder.path().join("text");
    /// mpi::test(2, |world| {
    ///     let file = File::create(&world, &path)?;
    ///     let text = format!("rank {}\n", world.rank());
    ///     file.iwrite_ordered(text.into_bytes())?.wait()?;
    ///     file.close()
    /// });
    /// assert_eq!(std::fs::read_to_string(&path).unwrap(), "rank 0\nrank 1\n");
    /// ```
    ///
    /// # Errors
    /// As for [`write_ordered`](Self::write_ordered), of any rank.
    pub fn iwrite_ordered<T: Element>(&self, elements: Vec<T>) -> Result<Request<'static, Vec<T>>> {
        self.begin_write(FilePosition::Shared, true, elements)
    }
}

#[cfg(test)]
mod tests {
    use crate::mpi::{self, ErrorClass, File};

    /// Requests of all six ways under way at the same time, waited for in the other order.
    #[test]
    fn nonblocking_accesses_end_in_any_order_of_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        mpi::test(3, |world| {
            let rank = world.rank() as u32;
            let file = File::create(&world, &path)?;
            file.set_view::<u32>(0)?;
            let at_all = file.iwrite_at_all(u64::from(rank) * 2, vec![rank; 2])?;
            let ordered = file.iwrite_ordered(vec![rank; 2])?;
            file.seek(12 + i64::from(rank), mpi::Whence::Set)?;
            let all = file.iwrite_all(vec![10 + rank])?;
            let own = file.iwrite(vec![20 + rank])?;
            drop(own);
            assert_eq!(all.wait()?, [10 + rank]);
            ordered.wait()?;
            at_all.wait()?;
            file.sync()?;
            world.barrier()?;
            let first = file.iread_at::<u32>(0, 6)?;
            file.seek(0, mpi::Whence::Set)?;
            let again = file.iread_all::<u32>(6)?;
            assert_eq!(again.wait()?, [0, 0, 1, 1, 2, 2]);
            assert_eq!(first.wait()?, [0, 0, 1, 1, 2, 2]);
            let next = file.iread::<u32>(9)?.wait()?;
            assert_eq!(next.len(), 9, "up to the last that was written");
            assert_eq!(next[6], 10);
            file.close()
        });
    }

    #[test]
    fn what_a_file_refuses_is_told_to_all_when_it_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, [7; 8]).unwrap();
        mpi::test(2, |world| {
            let file = File::open(&world, &path)?;
            let begun = file.iwrite_at_all(0, vec![1_u8]);
            let error = begun.and_then(|begun| begun.wait()).unwrap_err();
            assert_eq!(error.class(), ErrorClass::ReadOnly, "{error}");
            file.close()
        });
    }
}
