//! Files that the ranks of a communicator read and write together (MPI 5.0, chapter 14).
//!
//! | | at an offset | at this rank's pointer | at the shared pointer |
//! |---|---|---|---|
//! | alone | [`read_at`](File::read_at), [`write_at`](File::write_at) | [`read`](File::read), [`write`](File::write) | [`read_shared`](File::read_shared), [`write_shared`](File::write_shared) |
//! | together | [`read_at_all`](File::read_at_all), [`write_at_all`](File::write_at_all) | [`read_all`](File::read_all), [`write_all`](File::write_all) | [`read_ordered`](File::read_ordered), [`write_ordered`](File::write_ordered) |
//! | alone, non-blocking | [`iread_at`](File::iread_at), [`iwrite_at`](File::iwrite_at) | [`iread`](File::iread), [`iwrite`](File::iwrite) | [`iread_shared`](File::iread_shared), [`iwrite_shared`](File::iwrite_shared) |
//! | together, non-blocking | [`iread_at_all`](File::iread_at_all), [`iwrite_at_all`](File::iwrite_at_all) | [`iread_all`](File::iread_all), [`iwrite_all`](File::iwrite_all) | [`iread_ordered`](File::iread_ordered), [`iwrite_ordered`](File::iwrite_ordered) |
//!
//! Offsets count bytes, unless a [view](File::set_view) says otherwise.

mod nonblocking;

use std::path::Path;
use std::sync::Arc;

use weft_mpi::Result;
use weft_mpi::datatype::Datatype;
use weft_mpi::io::{self, Access, Direction, FilePosition, Representation};

pub use weft_mpi::io::{AccessMode, Whence};

use super::communicator::Communicator;
use super::memory::{Memory, View};
use super::state::Handle;
use super::{Buffer, Element, Info, Status};

/// An open file. To know that everything was written, close it by [`close`](Self::close), which is collective; if it is
/// dropped, this rank closes it for itself.
///
/// ```
/// use weft::mpi::{self, File};
///
/// let folder = tempfile::tempdir().unwrap();
/// let path = folder.path().join("numbers");
/// mpi::test(3, |world| {
///     let (rank, size) = (world.rank(), world.size());
///     let file = File::create(&world, &path)?;
///     // Of each row of three, every rank writes its column.
///     file.set_view_of_blocks::<u32>(rank, 1, size)?;
///     let column: Vec<u32> = (0..4).map(|row| (10 * row + rank) as u32).collect();
///     file.write_at_all(0, &column)?;
///     file.close()?;
///
///     let file = File::open(&world, &path)?;
///     file.set_view::<u32>(0)?;
///     assert_eq!(file.read_at::<u32>(3, 3)?, [10, 11, 12]);
///     file.close()
/// });
/// ```
#[derive(Debug)]
pub struct File {
    file: Arc<io::File>,
    handle: Arc<Handle>,
}

impl File {
    /// Opens a file for reading. Collective, like all calls that open a file.
    ///
    /// # Errors
    /// At all ranks: the error that the system reports at any of them.
    pub fn open(comm: &Communicator, path: impl AsRef<Path>) -> Result<Self> {
        let mode = AccessMode {
            read_only: true,
            ..AccessMode::default()
        };
        Self::open_by(comm, path, mode)
    }

    /// Creates a file, or empties an existing one, for reading and writing.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn create(comm: &Communicator, path: impl AsRef<Path>) -> Result<Self> {
        let mode = AccessMode {
            read_write: true,
            create: true,
            ..AccessMode::default()
        };
        let file = Self::open_by(comm, path, mode)?;
        file.set_size(0)?;
        Ok(file)
    }

    /// Opens a file with an access mode (`MPI_File_open`).
    ///
    /// # Errors
    /// As for [`open`](Self::open); `Amode` for an invalid combination, `NotSame` if ranks give different modes.
    pub fn open_by(comm: &Communicator, path: impl AsRef<Path>, mode: AccessMode) -> Result<Self> {
        Self::open_with(comm, path, mode, &Info::default())
    }

    /// Like [`open_by`](Self::open_by), with hints (see `docs/limits.md` for those that have an effect); those of rank 0
    /// apply.
    ///
    /// ```
    /// use weft::mpi::{self, AccessMode, File, Info};
    ///
    /// let folder = tempfile::tempdir().unwrap();
    /// let path = folder.path().join("hints");
    /// mpi::test(2, |world| {
    ///     let mode = AccessMode { read_write: true, create: true, ..AccessMode::default() };
    ///     let mut hints = Info::default();
    ///     hints.set("cb_nodes", "1")?;
    ///     let file = File::open_with(&world, &path, mode, &hints)?;
    ///     assert_eq!(file.info().get("cb_nodes")?, Some("1"));
    ///     file.close()
    /// });
    /// ```
    ///
    /// # Errors
    /// As for [`open_by`](Self::open_by).
    pub fn open_with(
        comm: &Communicator,
        path: impl AsRef<Path>,
        mode: AccessMode,
        hints: &Info,
    ) -> Result<Self> {
        let file = io::open(comm.comm(), path.as_ref(), mode, hints)?;
        let own = Arc::clone(file.comm());
        Ok(Self {
            handle: Handle::predefined(own, Arc::clone(comm.state())),
            file,
        })
    }

    /// Deletes a file (`MPI_File_delete`). Not collective.
    ///
    /// # Errors
    /// `NoSuchFile` if there is no such file; other errors of the system.
    pub fn delete(path: impl AsRef<Path>) -> Result<()> {
        io::delete(path.as_ref())
    }

    /// From now on offsets count elements of `T` from byte `start` on, and the pointers are at the first element
    /// (`MPI_File_set_view`). Collective.
    ///
    /// # Errors
    /// `Arg` if `start` is too large; `NotSame` if the ranks use different types.
    pub fn set_view<T: Element>(&self, start: u64) -> Result<()> {
        self.view::<T>(start, T::datatype())
    }

    /// Like [`set_view`](Self::set_view), for blocks of elements: of each row of `row` elements this rank sees the
    /// `block` elements that begin at `first`.
    ///
    /// # Errors
    /// As for [`set_view`](Self::set_view).
    pub fn set_view_of_blocks<T: Element>(
        &self,
        first: usize,
        block: usize,
        row: usize,
    ) -> Result<()> {
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let bytes = T::datatype().extent() as i64;
        let blocks = Datatype::contiguous(number(block), T::datatype())
            .and_then(|block| Datatype::resized(0, number(row).saturating_mul(bytes), &block))?;
        blocks.commit();
        let start = number(first).saturating_mul(bytes);
        self.view::<T>(start.cast_unsigned(), &blocks)
    }

    fn view<T: Element>(&self, start: u64, filetype: &Arc<Datatype>) -> Result<()> {
        self.file.set_view(
            Some(i64::try_from(start).unwrap_or(i64::MAX)),
            T::datatype(),
            filetype,
            Ok(Representation::Native),
            &Info::default(),
        )
    }

    fn perform<T: Element>(
        &self,
        direction: Direction,
        place: FilePosition,
        together: bool,
        elements: View<'_, T>,
    ) -> Result<Status> {
        let access = Access {
            direction,
            place,
            together,
            elements: elements.typed()?,
        };
        self.file.access(access).map(Status::of)
    }

    fn read_by<T: Element>(
        &self,
        place: FilePosition,
        together: bool,
        count: usize,
    ) -> Result<Vec<T>> {
        let memory = Memory::<T>::zeroed(count)?;
        let status = self.perform(Direction::Read, place, together, memory.view())?;
        // At its end a file may have a part of an element, which is none.
        let count = status.bytes() / T::datatype().size();
        memory.into_vec(count)
    }

    fn write_by<B: Buffer + ?Sized>(
        &self,
        place: FilePosition,
        together: bool,
        buffer: &B,
    ) -> Result<()> {
        let elements = View::reading(buffer.elements());
        self.perform(Direction::Write, place, together, elements)
            .map(drop)
    }

    /// Reads at an offset (`MPI_File_read_at`): `count` elements, or as many as there are before the end of the file.
    ///
    /// # Errors
    /// `Access` if the file was not opened for reading; `Type` if the bytes are no valid value of the type; errors of the
    /// system.
    pub fn read_at<T: Element>(&self, place: u64, count: usize) -> Result<Vec<T>> {
        self.read_by(at(place), false, count)
    }

    /// Writes at an offset (`MPI_File_write_at`).
    ///
    /// # Errors
    /// `ReadOnly` or `Access` if the file was not opened for writing; `NoSpace` if there is none; other errors of the
    /// system.
    pub fn write_at<B: Buffer + ?Sized>(&self, place: u64, buffer: &B) -> Result<()> {
        self.write_by(at(place), false, buffer)
    }

    /// Like [`read_at`](Self::read_at), all ranks together (`MPI_File_read_at_all`).
    ///
    /// # Errors
    /// As for [`read_at`](Self::read_at), of any rank.
    pub fn read_at_all<T: Element>(&self, place: u64, count: usize) -> Result<Vec<T>> {
        self.read_by(at(place), true, count)
    }

    /// Like [`write_at`](Self::write_at), all ranks together (`MPI_File_write_at_all`).
    ///
    /// # Errors
    /// As for [`write_at`](Self::write_at), of any rank.
    pub fn write_at_all<B: Buffer + ?Sized>(&self, place: u64, buffer: &B) -> Result<()> {
        self.write_by(at(place), true, buffer)
    }

    /// Reads at this rank's pointer, and advances it (`MPI_File_read`).
    ///
    /// # Errors
    /// As for [`read_at`](Self::read_at).
    pub fn read<T: Element>(&self, count: usize) -> Result<Vec<T>> {
        self.read_by(FilePosition::Individual, false, count)
    }

    /// Writes at this rank's pointer, and advances it (`MPI_File_write`).
    ///
    /// # Errors
    /// As for [`write_at`](Self::write_at).
    pub fn write<B: Buffer + ?Sized>(&self, buffer: &B) -> Result<()> {
        self.write_by(FilePosition::Individual, false, buffer)
    }

    /// Like [`read`](Self::read), all ranks together (`MPI_File_read_all`).
    ///
    /// # Errors
    /// As for [`read_at`](Self::read_at), of any rank.
    pub fn read_all<T: Element>(&self, count: usize) -> Result<Vec<T>> {
        self.read_by(FilePosition::Individual, true, count)
    }

    /// Like [`write`](Self::write), all ranks together (`MPI_File_write_all`).
    ///
    /// # Errors
    /// As for [`write_at`](Self::write_at), of any rank.
    pub fn write_all<B: Buffer + ?Sized>(&self, buffer: &B) -> Result<()> {
        self.write_by(FilePosition::Individual, true, buffer)
    }

    /// Reads at the shared pointer, and advances it (`MPI_File_read_shared`).
    ///
    /// # Errors
    /// As for [`read_at`](Self::read_at).
    pub fn read_shared<T: Element>(&self, count: usize) -> Result<Vec<T>> {
        self.read_by(FilePosition::Shared, false, count)
    }

    /// Writes at the shared pointer, and advances it (`MPI_File_write_shared`).
    ///
    /// # Errors
    /// As for [`write_at`](Self::write_at).
    pub fn write_shared<B: Buffer + ?Sized>(&self, buffer: &B) -> Result<()> {
        self.write_by(FilePosition::Shared, false, buffer)
    }

    /// Reads at the shared pointer, each rank's part after that of the rank before it (`MPI_File_read_ordered`).
    /// Collective.
    ///
    /// # Errors
    /// As for [`read_at`](Self::read_at), of any rank.
    pub fn read_ordered<T: Element>(&self, count: usize) -> Result<Vec<T>> {
        self.read_by(FilePosition::Shared, true, count)
    }

    /// Writes at the shared pointer, each rank's part after that of the rank before it (`MPI_File_write_ordered`).
    /// Collective.
    ///
    /// ```no_run
    /// use weft::mpi::{self, File};
    ///
    /// let folder = tempfile::tempdir().unwrap();
    /// let path = folder.path().join("text");
    /// mpi::test(3, |world| {
    ///     let file = File::create(&world, &path)?;
    ///     file.write_ordered(&format!("rank {}\n", world.rank()))?;
    ///     file.close()
    /// });
    /// assert_eq!(std::fs::read_to_string(&path).unwrap(), "rank 0\nrank 1\nrank 2\n");
    /// ```
    ///
    /// # Errors
    /// As for [`write_at`](Self::write_at), of any rank.
    pub fn write_ordered<B: Buffer + ?Sized>(&self, buffer: &B) -> Result<()> {
        self.write_by(FilePosition::Shared, true, buffer)
    }

    /// Position of this rank's pointer (`MPI_File_get_position`).
    ///
    /// # Errors
    /// `UnsupportedOperation` for a file that is only read and written in sequence.
    pub fn position(&self) -> Result<u64> {
        Ok(self.file.position()?.cast_unsigned())
    }

    /// Moves this rank's pointer (`MPI_File_seek`).
    ///
    /// # Errors
    /// `Arg` for a position before the beginning.
    pub fn seek(&self, offset: i64, whence: Whence) -> Result<()> {
        self.file.seek(offset, whence)
    }

    /// Size of the file in bytes (`MPI_File_get_size`).
    ///
    /// # Errors
    /// Errors of the system.
    pub fn size(&self) -> Result<u64> {
        self.file.size()
    }

    /// Sets the size of the file in bytes (`MPI_File_set_size`). Collective.
    ///
    /// # Errors
    /// `ReadOnly` if it was not opened for writing; errors of the system.
    pub fn set_size(&self, bytes: u64) -> Result<()> {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.file.set_size(bytes)
    }

    /// The hints that apply (`MPI_File_get_info`).
    #[must_use]
    pub fn info(&self) -> Info {
        self.file.info()
    }

    /// Changes hints (`MPI_File_set_info`); those of rank 0 apply. Collective.
    ///
    /// # Errors
    /// `ProcFailed` if a rank is lost.
    pub fn set_info(&self, hints: &Info) -> Result<()> {
        self.file.set_info(hints)
    }

    /// Sets whether overlapping accesses of different ranks happen one after the other (`MPI_File_set_atomicity`).
    /// Collective.
    ///
    /// # Errors
    /// `NotSame` if ranks give different values; errors of the system.
    pub fn set_atomicity(&self, atomic: bool) -> Result<()> {
        self.file.set_atomicity(atomic)
    }

    /// Returns when everything that this rank has written is on the device, and data that others have synchronised can be
    /// read (`MPI_File_sync`). Collective.
    ///
    /// # Errors
    /// A delayed write error of any rank.
    pub fn sync(&self) -> Result<()> {
        self.file.sync()
    }

    /// Closes the file (`MPI_File_close`). Collective.
    ///
    /// # Errors
    /// A delayed write error of any rank. The file is closed all the same.
    pub fn close(self) -> Result<()> {
        self.file.close()
    }
}

/// A place further on than any file is refused by the file.
fn at(place: u64) -> FilePosition {
    FilePosition::At(i64::try_from(place).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use crate::mpi::{self, ErrorClass, File, Whence};

    #[test]
    fn pointers_views_and_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        mpi::test(2, |world| {
            let rank = world.rank();
            let file = File::create(&world, &path)?;
            file.set_view::<(u8, u32)>(0)?;
            let mine = [(rank as u8, 1), (rank as u8, 2)];
            file.write_at_all(2 * rank as u64, &mine)?;
            file.sync()?;
            assert!(
                file.size()? > 3 * 8,
                "with the gaps that the type has in memory"
            );
            file.seek(1, Whence::Set)?;
            assert_eq!(file.read::<(u8, u32)>(2)?, [(0, 2), (1, 1)]);
            assert_eq!(file.position()?, 3);
            assert_eq!(file.read_all::<(u8, u32)>(5)?, [(1, 2)], "the end");
            let reading = file.iread_at::<(u8, u32)>(0, 4)?;
            assert_eq!(reading.wait()?[3], (1, 2));
            file.close()?;
            let file = File::open(&world, &path)?;
            let class = file.write_at(0, &1_u8).unwrap_err().class();
            assert_eq!(class, ErrorClass::ReadOnly);
            file.close()?;
            let none = File::open(&world, path.with_extension("none"));
            assert_eq!(none.map(drop).unwrap_err().class(), ErrorClass::NoSuchFile);
            Ok(())
        });
    }

    #[test]
    fn bytes_of_a_file_that_are_no_value_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, [0, 1, 2]).unwrap();
        mpi::test(1, |world| {
            let file = File::open(&world, &path)?;
            assert_eq!(file.read_at::<bool>(0, 2)?, [false, true]);
            let outcome = file.read_at::<bool>(1, 2);
            assert_eq!(outcome.unwrap_err().class(), ErrorClass::Type);
            file.close()
        });
    }
}
