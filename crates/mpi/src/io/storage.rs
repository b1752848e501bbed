//! Storage: the place where the bytes of a file are kept. A file of the host, or in tests one in memory that fails as
//! instructed.
//!
//! One call may move less than requested; [`read_fully`] and [`write_fully`] go on until all is moved, the file ends, or
//! nothing moves any more.

use std::fmt::Debug;
use std::io::{self, ErrorKind};

use weft_fabric::Region;
use weft_sys::error::errno;
use weft_sys::file;

use crate::error::{Error, ErrorClass, Result};

/// Bytes that one call of the system is asked for at most.
const MOST: usize = 1 << 30;

/// Bytes at offsets. Used by several threads at once.
pub trait Storage: Debug + Send + Sync {
    /// Reads into a region; returns the number of bytes, 0 at the end.
    ///
    /// # Errors
    /// Errors of the system.
    fn read_at(&self, into: Region, offset: u64) -> io::Result<usize>;

    /// Writes a region; returns the number of bytes.
    ///
    /// # Errors
    /// Errors of the system.
    fn write_at(&self, from: Region, offset: u64) -> io::Result<usize>;

    /// Size in bytes.
    ///
    /// # Errors
    /// Errors of the system.
    fn size(&self) -> io::Result<u64>;

    /// Truncates or extends it.
    ///
    /// # Errors
    /// Errors of the system.
    fn set_size(&self, size: u64) -> io::Result<()>;

    /// Reserves space for this many first bytes; the file has at least this size then.
    ///
    /// # Errors
    /// Errors of the system.
    fn allocate(&self, size: u64) -> io::Result<()>;

    /// Waits until everything written is on the device.
    ///
    /// # Errors
    /// A delayed write error.
    fn sync(&self) -> io::Result<()>;

    /// Waits for a lock of bytes; `length` 0 stands for all that follow.
    ///
    /// # Errors
    /// If locks are not supported here.
    fn lock(&self, exclusive: bool, offset: u64, length: u64) -> io::Result<()>;

    /// As [`Self::lock`], without waiting: whether it was got.
    ///
    /// # Errors
    /// If there are no locks here.
    fn try_lock(&self, exclusive: bool, offset: u64, length: u64) -> io::Result<bool>;

    /// Releases a lock.
    ///
    /// # Errors
    /// Errors of the system.
    fn unlock(&self, offset: u64, length: u64) -> io::Result<()>;

    /// Makes the file system report delayed write errors, as it does at the end of the last use.
    ///
    /// # Errors
    /// A delayed write error.
    fn flush(&self) -> io::Result<()>;
}

impl Storage for file::File {
    fn read_at(&self, into: Region, offset: u64) -> io::Result<usize> {
        Self::read_at(self, &[into], offset)
    }

    fn write_at(&self, from: Region, offset: u64) -> io::Result<usize> {
        Self::write_at(self, &[from], offset)
    }

    fn size(&self) -> io::Result<u64> {
        self.facts().map(|facts| facts.size)
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        Self::set_size(self, size)
    }

    fn allocate(&self, size: u64) -> io::Result<()> {
        Self::allocate(self, size)
    }

    fn sync(&self) -> io::Result<()> {
        Self::sync(self)
    }

    fn lock(&self, exclusive: bool, offset: u64, length: u64) -> io::Result<()> {
        Self::lock(self, exclusive, offset, length)
    }

    fn try_lock(&self, exclusive: bool, offset: u64, length: u64) -> io::Result<bool> {
        Self::try_lock(self, exclusive, offset, length)
    }

    fn unlock(&self, offset: u64, length: u64) -> io::Result<()> {
        Self::unlock(self, offset, length)
    }

    fn flush(&self) -> io::Result<()> {
        Self::flush(self)
    }
}

/// Reads until the region is full or the file ends; answers how many bytes.
///
/// # Errors
/// What a call refused with that was not merely interrupted.
pub(super) fn read_fully(storage: &dyn Storage, into: Region, offset: u64) -> Result<usize> {
    let mut done = 0;
    while done < into.len() {
        let part = rest(into, done);
        match storage.read_at(part, offset + done as u64) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(failure(&error)),
        }
    }
    Ok(done)
}

/// Writes the whole region.
///
/// # Errors
/// What a call refused with that was not merely interrupted; what came before it may be written.
pub(super) fn write_fully(storage: &dyn Storage, from: Region, offset: u64) -> Result<()> {
    let mut done = 0;
    while done < from.len() {
        let part = rest(from, done);
        match storage.write_at(part, offset + done as u64) {
            Ok(0) => return Err(failure(&ErrorKind::WriteZero.into())),
            Ok(written) => done += written,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(failure(&error)),
        }
    }
    Ok(())
}

fn rest(region: Region, done: usize) -> Region {
    let length = (region.len() - done).min(MOST);
    region.part(done, length).unwrap_or(Region::EMPTY)
}

/// The error of MPI for one of the system (MPI 5.0, section 14.8). Its sentence names the file, if the system's does.
#[cold]
pub(super) fn failure(error: &io::Error) -> Error {
    let (class, remedy) = class_of(error);
    Error::new(class, format!("{error}; {remedy}"))
}

fn class_of(error: &io::Error) -> (ErrorClass, &'static str) {
    // The numbers are those of Linux on all machines that Rust has it for.
    match errno(error).unwrap_or(0) {
        2 => (
            ErrorClass::NoSuchFile,
            "check the name, or open with MPI_MODE_CREATE",
        ),
        1 | 13 => (
            ErrorClass::Access,
            "see the permissions of the file and of its folder",
        ),
        17 => (
            ErrorClass::FileExists,
            "remove it, or open without MPI_MODE_EXCL",
        ),
        20 | 21 | 36 | 40 => (ErrorClass::BadFile, "give the name of an ordinary file"),
        16 | 26 => (ErrorClass::FileInUse, "wait until it is closed there"),
        30 => (
            ErrorClass::ReadOnly,
            "open with MPI_MODE_RDONLY, or use another file system",
        ),
        28 => (ErrorClass::NoSpace, "free space on the file system"),
        27 => (
            ErrorClass::NoSpace,
            "keep below the limit of file sizes (ulimit -f) and that of the file system",
        ),
        122 => (ErrorClass::Quota, "free space of your quota"),
        12 => (ErrorClass::NoMem, "use smaller counts"),
        38 | 95 => (
            ErrorClass::UnsupportedOperation,
            "use another file system for this file",
        ),
        _ => (ErrorClass::Io, "see the system's log for its device"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory_storage::{Fault, MemoryStorage};
    use super::*;
    use crate::buffer::region_of;

    #[test]
    fn short_and_interrupted_calls_go_on() {
        let storage = MemoryStorage::default();
        storage.plan([
            Fault::Interrupted,
            Fault::Short(3),
            Fault::Interrupted,
            Fault::Short(1),
        ]);
        let mut bytes = *b"0123456789";
        write_fully(&storage, region_of(&mut bytes), 2).unwrap();
        assert_eq!(storage.bytes(), b"\0\x000123456789");
        storage.plan([Fault::Short(4), Fault::Interrupted]);
        let mut read = [9; 12];
        let got = read_fully(&storage, region_of(&mut read), 4).unwrap();
        assert_eq!((got, &read[..10]), (8, &b"23456789\x09\x09"[..]));
    }

    #[test]
    fn what_the_system_refuses_has_a_class() {
        let storage = MemoryStorage::with_room(5);
        let mut bytes = *b"0123456789";
        let error = write_fully(&storage, region_of(&mut bytes), 0).unwrap_err();
        assert_eq!(error.class(), ErrorClass::NoSpace);
        assert_eq!(storage.bytes(), b"01234", "what fitted is there");
        for (number, class) in [
            (2, ErrorClass::NoSuchFile),
            (13, ErrorClass::Access),
            (30, ErrorClass::ReadOnly),
            (122, ErrorClass::Quota),
            (5, ErrorClass::Io),
        ] {
            let error = failure(&io::Error::from_raw_os_error(number));
            assert_eq!(error.class(), class, "{error}");
        }
    }
}
