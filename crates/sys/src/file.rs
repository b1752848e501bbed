//! File: bytes that outlive the program, read and written at offsets by many processes at once.
//!
//! Transfers use [`Region`]s, whose makers promise that the memory is valid, so nothing is copied between here
//! and the kernel. A call may move fewer bytes than asked, or be interrupted: callers continue.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FallocateFlags, Mode, OFlags};
use rustix::io::fcntl_dupfd_cloexec;

use crate::error::{Purpose, check, errno, failed, with_errno};
use crate::span::Region;

/// Regions that one call takes.
pub const MOST_REGIONS: usize = 1024;

/// The purpose for which a file is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpenFor {
    /// To be read.
    pub read: bool,
    /// To be written.
    pub write: bool,
    /// Made if there is none.
    pub create: bool,
    /// With `create`: it must not be there before.
    pub exclusive: bool,
}

/// Information of the kernel about a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Facts {
    /// The device that it is on.
    pub device: u64,
    /// Its number there.
    pub inode: u64,
    /// Bytes.
    pub size: u64,
    /// Whether it is a directory.
    pub is_directory: bool,
    /// Whether offsets mean anything: not for pipes and terminals.
    pub is_regular: bool,
}

/// An open file.
#[derive(Debug)]
pub struct File {
    descriptor: OwnedFd,
    path: PathBuf,
}

impl File {
    /// Opens `path`. A new file may be read and written by everybody whom the umask permits.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn open(path: &Path, how: OpenFor) -> io::Result<Self> {
        let mut flags = match (how.read, how.write) {
            (true, true) => OFlags::RDWR,
            (false, true) => OFlags::WRONLY,
            _ => OFlags::RDONLY,
        } | OFlags::CLOEXEC
            | OFlags::NOCTTY;
        flags.set(OFlags::CREATE, how.create);
        flags.set(OFlags::EXCL, how.exclusive);
        let descriptor = retry(|| rustix::fs::open(path, flags, Mode::from_raw_mode(0o666)))
            .to("open", || format!("open {}", path.display()))?;
        Ok(Self {
            descriptor,
            path: path.to_owned(),
        })
    }

    /// The name that it was opened by.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads from `offset` on; returns how many bytes, 0 at the end of the file.
    ///
    /// # Errors
    /// The kernel's refusal; an interrupted call is one.
    pub fn read_at(&self, into: &[Region], offset: u64) -> io::Result<usize> {
        let list = vectors(into);
        let offset = self.offset("preadv", offset)?;
        // SAFETY: each region is valid for writes until the operation that it was lent for has ended, as promised to
        // `Region::new`; this call is within it. The list is as long as said.
        let answer = unsafe {
            libc::preadv(
                self.descriptor.as_raw_fd(),
                list.as_ptr(),
                list.len() as libc::c_int,
                offset,
            )
        };
        let purpose = || format!("read {} from byte {offset} on", self.path.display());
        check(answer, "preadv", purpose).map(isize::cast_unsigned)
    }

    /// Writes from `offset` on; returns how many bytes.
    ///
    /// # Errors
    /// As for [`Self::read_at`].
    pub fn write_at(&self, from: &[Region], offset: u64) -> io::Result<usize> {
        let list = vectors(from);
        let offset = self.offset("pwritev", offset)?;
        // SAFETY: each region is valid for reads until the operation that it was lent for has ended, as promised to
        // `Region::new`; this call is within it. The list is as long as said.
        let answer = unsafe {
            libc::pwritev(
                self.descriptor.as_raw_fd(),
                list.as_ptr(),
                list.len() as libc::c_int,
                offset,
            )
        };
        let purpose = || format!("write {} from byte {offset} on", self.path.display());
        check(answer, "pwritev", purpose).map(isize::cast_unsigned)
    }

    fn offset(&self, call: &'static str, offset: u64) -> io::Result<i64> {
        i64::try_from(offset).map_err(|_| {
            let purpose = format!("reach byte {offset} of {}", self.path.display());
            with_errno(call, libc::EFBIG, purpose)
        })
    }

    /// The present information of the kernel about it.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn facts(&self) -> io::Result<Facts> {
        let stat = rustix::fs::fstat(&self.descriptor)
            .to("fstat", || format!("look at {}", self.path.display()))?;
        let kind = rustix::fs::FileType::from_raw_mode(stat.st_mode);
        Ok(Facts {
            device: stat.st_dev,
            inode: stat.st_ino,
            size: stat.st_size.cast_unsigned(),
            is_directory: kind.is_dir(),
            is_regular: kind.is_file() || kind.is_block_device(),
        })
    }

    /// Truncates the file, or extends it by zeros that take no space.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn set_size(&self, size: u64) -> io::Result<()> {
        retry(|| rustix::fs::ftruncate(&self.descriptor, size)).to("ftruncate", || {
            format!("make {} {size} bytes long", self.path.display())
        })
    }

    /// Reserves space for its first `size` bytes; the file is then at least that long.
    ///
    /// # Errors
    /// The kernel's refusal: `EOPNOTSUPP` where the file system cannot.
    pub fn allocate(&self, size: u64) -> io::Result<()> {
        retry(|| rustix::fs::fallocate(&self.descriptor, FallocateFlags::empty(), 0, size))
            .to("fallocate", || {
                format!("set {size} bytes aside for {}", self.path.display())
            })
    }

    /// Waits until what was written is on the device.
    ///
    /// # Errors
    /// The error that prevented it.
    pub fn sync(&self) -> io::Result<()> {
        retry(|| rustix::fs::fdatasync(&self.descriptor)).to("fdatasync", || {
            format!("bring {} to its device", self.path.display())
        })
    }

    /// Waits for a lock on the bytes `offset..offset + length`. It belongs to this opening of the file (`F_OFD_SETLKW`), not
    /// to the process: two openings exclude each other, two threads with one do not.
    ///
    /// # Errors
    /// The kernel's refusal: `EINVAL`, `ENOLCK` or `EOPNOTSUPP` where the file system has no locks.
    pub fn lock(&self, exclusive: bool, offset: u64, length: u64) -> io::Result<()> {
        self.set_lock(libc::F_OFD_SETLKW, kind_of(exclusive), offset, length)
    }

    /// As [`lock`](Self::lock), without waiting: returns whether it was taken.
    ///
    /// # Errors
    /// As for [`lock`](Self::lock).
    pub fn try_lock(&self, exclusive: bool, offset: u64, length: u64) -> io::Result<bool> {
        match self.set_lock(libc::F_OFD_SETLK, kind_of(exclusive), offset, length) {
            Ok(()) => Ok(true),
            Err(error) => match errno(&error) {
                Some(libc::EAGAIN | libc::EACCES) => Ok(false),
                _ => Err(error),
            },
        }
    }

    /// Releases a lock.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn unlock(&self, offset: u64, length: u64) -> io::Result<()> {
        self.set_lock(libc::F_OFD_SETLKW, libc::F_UNLCK, offset, length)
    }

    fn set_lock(&self, command: i32, kind: i32, offset: u64, length: u64) -> io::Result<()> {
        let lock = libc::flock {
            l_type: kind as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: self.offset("fcntl", offset)?,
            l_len: self.offset("fcntl", length)?,
            l_pid: 0,
        };
        loop {
            // SAFETY: a descriptor of ours, and a `flock` that lives through the call, as the command wants it.
            let answer =
                unsafe { libc::fcntl(self.descriptor.as_raw_fd(), command, &raw const lock) };
            if answer == 0 {
                return Ok(());
            }
            let error = failed("fcntl", format!("lock bytes of {}", self.path.display()));
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }

    /// Makes the file system report what it could not write: file systems that write late report it when a
    /// descriptor is closed, so a copy of this one is closed.
    ///
    /// # Errors
    /// The file system's error.
    pub fn flush(&self) -> io::Result<()> {
        let purpose = || format!("close {}", self.path.display());
        let copy = fcntl_dupfd_cloexec(&self.descriptor, 3).to("fcntl", purpose)?;
        // SAFETY: the number was that of an owned descriptor, given up just now: it is closed once.
        let answer = unsafe { libc::close(copy.into_raw_fd()) };
        match check(answer, "close", purpose) {
            // It is closed even if the call was interrupted.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            other => other.map(drop),
        }
    }
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

fn kind_of(exclusive: bool) -> i32 {
    if exclusive {
        libc::F_WRLCK
    } else {
        libc::F_RDLCK
    }
}

/// Removes the name of a file.
///
/// # Errors
/// The kernel's refusal.
pub fn remove(path: &Path) -> io::Result<()> {
    rustix::fs::unlinkat(CWD, path, AtFlags::empty())
        .to("unlink", || format!("remove {}", path.display()))
}

/// A number for the present boot of this host's kernel: equal for processes that share a kernel, and for no
/// others.
#[must_use]
pub fn host_number() -> u64 {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    // FNV-1a.
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    loop {
        match call() {
            Err(rustix::io::Errno::INTR) => {}
            other => return other,
        }
    }
}

fn vectors(regions: &[Region]) -> Vec<libc::iovec> {
    let vector = |region: &Region| libc::iovec {
        iov_base: region.as_ptr().cast(),
        iov_len: region.len(),
    };
    regions.iter().take(MOST_REGIONS).map(vector).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn over(bytes: &mut [u8]) -> Region {
        // SAFETY: the tests keep the bytes, and leave them alone, until the call that gets the region has returned.
        unsafe { Region::new(bytes.as_mut_ptr(), bytes.len()) }
    }

    fn temporary(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("weft-sys-{}-{name}", std::process::id()))
    }

    const MAKE: OpenFor = OpenFor {
        read: true,
        write: true,
        create: true,
        exclusive: true,
    };

    #[test]
    fn regions_are_gathered_and_scattered() {
        let path = temporary("regions");
        let file = File::open(&path, MAKE).unwrap();
        let again = File::open(&path, MAKE).unwrap_err();
        assert_eq!(errno(&again), Some(libc::EEXIST));
        let (mut one, mut two) = (*b"abc", *b"defg");
        let written = file.write_at(&[over(&mut one), over(&mut two)], 5);
        assert_eq!(written.unwrap(), 7);
        assert_eq!(file.facts().unwrap().size, 12);
        let (mut head, mut tail) = ([0; 6], [9; 9]);
        let read = file.read_at(&[over(&mut head), over(&mut tail)], 0);
        assert_eq!(read.unwrap(), 12);
        assert_eq!(
            (&head, &tail[..]),
            (b"\0\0\0\0\0a", &b"bcdefg\x09\x09\x09"[..])
        );
        file.set_size(3).unwrap();
        assert_eq!(file.read_at(&[over(&mut head)], 3).unwrap(), 0);
        assert!(file.read_at(&[over(&mut head)], 1 << 63).is_err());
        file.sync().unwrap();
        file.flush().unwrap();
        remove(&path).unwrap();
        assert_eq!(errno(&remove(&path).unwrap_err()), Some(libc::ENOENT));
    }

    #[test]
    fn locks_are_of_the_opening() {
        let path = temporary("locks");
        let one = File::open(&path, MAKE).unwrap();
        let how = OpenFor {
            exclusive: false,
            ..MAKE
        };
        let two = File::open(&path, how).unwrap();
        one.lock(true, 0, 10).unwrap();
        assert!(!two.try_lock(false, 9, 1).unwrap());
        assert!(two.try_lock(true, 1 << 61, 1 << 40).unwrap());
        assert!(!one.try_lock(false, (1 << 61) + 5, 1).unwrap());
        // Other bytes are free; the same ones can be locked when they are released.
        two.lock(true, 10, 10).unwrap();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| two.lock(false, 0, 5));
            one.unlock(0, 10).unwrap();
            waits.join().unwrap().unwrap();
        });
        remove(&path).unwrap();
    }
}
