//! Memory file: a file that exists only in memory, and whose size cannot change.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use rustix::fs::{
    FallocateFlags, MemfdFlags, Mode, OFlags, SealFlags, fallocate, fcntl_add_seals,
    fcntl_get_seals, memfd_create, open,
};
use rustix::io::Errno;
use weft_atomic::AtomicU64;

use super::{Mapping, page_size};
use crate::error::{Purpose, last_errno, with_errno};
use crate::probe::Availability;

/// Seals under which nobody, not even the maker, can change the size: no peer can remove the memory under a
/// mapping.
const SEALS: SealFlags = SealFlags::SHRINK
    .union(SealFlags::GROW)
    .union(SealFlags::SEAL);

/// Folders for unnamed files if there are no memory files, tried before the folder for temporary files.
pub const FOLDERS: [&str; 2] = ["/dev/shm", "/run/shm"];

/// A file that exists in memory only and has no name in any file system. Passed by descriptor.
#[derive(Debug)]
pub struct MemoryFile {
    descriptor: OwnedFd,
    length: usize,
}

impl MemoryFile {
    /// A file of `length` zero bytes whose size is sealed. `label` is shown in `/proc/…/maps`. Memory
    /// is taken when a page is first touched.
    ///
    /// # Errors
    /// If the kernel refuses; the error says at which step.
    pub fn create(label: &str, length: usize) -> io::Result<Self> {
        let name: Vec<u8> = label.bytes().filter(|&byte| byte != 0).take(200).collect();
        let purpose = || format!("make a memory file of {length} bytes");
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        // Kernels before 6.3 do not know NOEXEC_SEAL, and some hosts insist on it.
        let made = match memfd_create(&name[..], flags | MemfdFlags::NOEXEC_SEAL) {
            Err(Errno::INVAL) => memfd_create(&name[..], flags),
            made => made,
        };
        let (file, sealed) = match made {
            Err(error) if is_refused(error) => match without_name() {
                Some(file) => (file, false),
                None => return Err(error).to("memfd_create", purpose),
            },
            made => (File::from(made.to("memfd_create", purpose)?), true),
        };
        let wanted = u64::try_from(length).unwrap_or(u64::MAX);
        file.set_len(wanted).map_err(|error| {
            with_errno("ftruncate", error.raw_os_error().unwrap_or(0), purpose())
        })?;
        let descriptor = OwnedFd::from(file);
        if sealed {
            fcntl_add_seals(&descriptor, SEALS).to("fcntl", || {
                format!("seal the size of a memory file of {length} bytes")
            })?;
        }
        Ok(Self { descriptor, length })
    }

    /// Adopts a file that somebody else made, if its size is sealed: then it cannot shrink under us.
    ///
    /// # Errors
    /// If it is not a memory file, or its size is not sealed.
    pub fn adopt(descriptor: OwnedFd) -> io::Result<Self> {
        let seals = fcntl_get_seals(&descriptor).to("fcntl", || {
            format!("read the seals of descriptor {}", descriptor.as_raw_fd())
        })?;
        if !seals.contains(SEALS) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!(
                    "the shared memory handed over has the seals {:#x}, {:#x} are needed: \
                     its size could change under us",
                    seals.bits(),
                    SEALS.bits()
                ),
            ));
        }
        Self::of(descriptor)
    }

    /// The same for a file that a member of our own job has made, which may be an unnamed file without seals.
    ///
    /// # Errors
    /// If it is neither.
    pub fn adopt_of_job(descriptor: OwnedFd) -> io::Result<Self> {
        let file = File::from(descriptor);
        let found = file.metadata()?;
        let nameless = found.is_file() && found.nlink() == 0;
        let ours = found.uid() == crate::process::user() && found.mode() & 0o077 == 0;
        // Memory files have no name either.
        let sealed = fcntl_get_seals(&file).is_ok_and(|seals| seals.contains(SEALS));
        match nameless && ours && !sealed {
            true => Self::of(file.into()),
            false => Self::adopt(file.into()),
        }
    }

    fn of(descriptor: OwnedFd) -> io::Result<Self> {
        let file = File::from(descriptor);
        let length = usize::try_from(file.metadata()?.len())
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "too large to be mapped"))?;
        Ok(Self {
            descriptor: file.into(),
            length,
        })
    }

    /// Its size in bytes, which never changes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Maps all of it, shared with all others that map it.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn map(&self) -> io::Result<Mapping> {
        Mapping::of(
            self.length,
            libc::MAP_SHARED | libc::MAP_NORESERVE,
            libc::PROT_READ | libc::PROT_WRITE,
            Some((self.descriptor.as_fd(), 0)),
        )
    }

    /// Makes these words, whole pages, those at `offset` of the file, for good: all that map the file see what is stored in them. Their
    /// previous contents are lost.
    ///
    /// For words whose address must be known to code before the file exists.
    ///
    /// # Errors
    /// If they are not whole pages, do not lie within the file, or the kernel refuses.
    pub fn map_onto(&self, offset: usize, words: &'static [AtomicU64]) -> io::Result<()> {
        let length = size_of_val(words);
        self.within(offset, length, "mmap", "map")?;
        let purpose =
            || format!("map {length} bytes from {offset} of a memory file to where words stand");
        let pages = [words.as_ptr().addr(), offset, length];
        if length == 0 || !pages.iter().all(|one| one.is_multiple_of(page_size())) {
            return Err(with_errno("mmap", libc::EINVAL, purpose()));
        }
        // SAFETY: the pages hold nothing but these words, which live as long as the process and may change at any time, as
        // atomics do. They stay readable and writable: the size of the file does not change.
        let made = unsafe {
            libc::mmap(
                words.as_ptr().cast_mut().cast(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_FIXED | libc::MAP_NORESERVE,
                self.descriptor.as_raw_fd(),
                offset as libc::off_t,
            )
        };
        match made == libc::MAP_FAILED {
            true => Err(with_errno("mmap", last_errno(), purpose())),
            false => Ok(()),
        }
    }

    /// Maps `length` bytes from `offset`, a whole number of pages, shared with all others that map them.
    ///
    /// # Errors
    /// If they do not lie within, or the kernel refuses.
    pub fn map_part(&self, offset: usize, length: usize) -> io::Result<Mapping> {
        self.within(offset, length, "mmap", "map")?;
        Mapping::of(
            length,
            libc::MAP_SHARED | libc::MAP_NORESERVE,
            libc::PROT_READ | libc::PROT_WRITE,
            Some((self.descriptor.as_fd(), offset as u64)),
        )
    }

    /// Takes memory for `length` bytes from `offset` now, so that touching them later cannot fail. New memory holds
    /// zeros; existing contents stay.
    ///
    /// # Errors
    /// If they do not lie within, or there is not enough memory: then what was taken so far is given back.
    pub fn commit(&self, offset: usize, length: usize) -> io::Result<()> {
        /// A signal undoes the call that it interrupts; this much is done even between signals that come
        /// every few microseconds.
        const STEP: usize = 1 << 20;
        self.within(offset, length, "fallocate", "take memory for")?;
        let mut done = 0;
        while done < length {
            let step = STEP.min(length - done);
            let (at, size) = ((offset + done) as u64, step as u64);
            match fallocate(&self.descriptor, FallocateFlags::empty(), at, size) {
                Ok(()) => done += step,
                Err(Errno::INTR) => {}
                Err(error) => {
                    self.discard(offset, done);
                    let what = format!("take {length} bytes of shared memory");
                    return Err(with_errno("fallocate", error.raw_os_error(), what));
                }
            }
        }
        Ok(())
    }

    /// Gives the memory of `length` bytes from `offset` back; they read as zeros in every mapping. Bytes outside of
    /// the file are left alone.
    pub fn discard(&self, offset: usize, length: usize) {
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let (at, size) = (offset as u64, length as u64);
        while length > 0
            && self
                .within(offset, length, "fallocate", "give back")
                .is_ok()
            && fallocate(&self.descriptor, hole, at, size) == Err(Errno::INTR)
        {}
    }

    fn within(
        &self,
        offset: usize,
        length: usize,
        call: &'static str,
        verb: &str,
    ) -> io::Result<()> {
        if offset
            .checked_add(length)
            .is_some_and(|end| end <= self.length)
        {
            return Ok(());
        }
        let what = format!(
            "{verb} {length} bytes at {offset} of a memory file of {}",
            self.length
        );
        Err(with_errno(call, libc::EINVAL, what))
    }

    /// The largest size that a memory file of this process may have (`ulimit -f`): asking for more would end it.
    #[must_use]
    pub fn largest() -> usize {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
        // Offsets in files are signed.
        let limit = limit.unwrap_or(u64::MAX).min(i64::MAX as u64);
        usize::try_from(limit).unwrap_or(usize::MAX)
    }

    /// Reads bytes at `offset`, without a mapping. Others may write to them at the same time.
    ///
    /// # Errors
    /// If they do not lie within, or the kernel refuses.
    pub fn read_at(&self, offset: usize, into: &mut [u8]) -> io::Result<()> {
        let mut done = 0;
        while done < into.len() {
            match rustix::io::pread(&self.descriptor, &mut into[done..], (offset + done) as u64) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(error) => {
                    return Err(error).to("pread", || format!("read a memory file at {offset}"));
                }
            }
        }
        Ok(())
    }

    /// Writes bytes at `offset`, without a mapping.
    ///
    /// # Errors
    /// If they do not lie within, there is no memory for them, or the process may not write that far
    /// ([`largest`](Self::largest)), to which the kernel would react with `SIGXFSZ`.
    pub fn write_at(&self, offset: usize, from: &[u8]) -> io::Result<()> {
        self.within(offset, from.len(), "pwrite", "write")?;
        if offset + from.len() > Self::largest() {
            let what = format!(
                "write a memory file at {offset}: beyond the limit of the size of files (ulimit -f)"
            );
            return Err(with_errno("pwrite", libc::EFBIG, what));
        }
        let mut done = 0;
        while done < from.len() {
            match rustix::io::pwrite(&self.descriptor, &from[done..], (offset + done) as u64) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(error) => {
                    return Err(error).to("pwrite", || format!("write a memory file at {offset}"));
                }
            }
        }
        Ok(())
    }

    /// Maps all of it, followed by `tail` zero bytes of this process alone. The length of the file must
    /// be a whole number of pages.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn map_with_tail(&self, tail: usize) -> io::Result<Mapping> {
        let length = self.length.saturating_add(tail);
        let whole = Mapping::private(length)?;
        let purpose = || format!("map {} bytes of memory before {tail} others", self.length);
        if !self.length.is_multiple_of(page_size()) {
            return Err(with_errno("mmap", libc::EINVAL, purpose()));
        }
        // SAFETY: replaces the first part of a mapping of ours that nobody has seen yet.
        let start = unsafe {
            libc::mmap(
                whole.as_ptr().cast(),
                self.length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_NORESERVE | libc::MAP_FIXED,
                self.descriptor.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(with_errno("mmap", last_errno(), purpose()));
        }
        Ok(whole)
    }

    /// Maps all of it for reading only: a write through this mapping would be a fault.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn map_readable(&self) -> io::Result<Mapping> {
        Mapping::of(
            self.length,
            libc::MAP_SHARED | libc::MAP_NORESERVE,
            libc::PROT_READ,
            Some((self.descriptor.as_fd(), 0)),
        )
    }

    /// A second descriptor of the same memory through which it can be mapped for reading only.
    ///
    /// # Errors
    /// If `/proc` is not there, or no descriptors are left.
    pub fn share_readable(&self) -> io::Result<OwnedFd> {
        File::open(format!("/proc/self/fd/{}", self.descriptor.as_raw_fd())).map(OwnedFd::from)
    }

    /// A second handle of the same memory.
    ///
    /// # Errors
    /// If no descriptors are left.
    pub fn share(&self) -> io::Result<Self> {
        Ok(Self {
            descriptor: self.descriptor.try_clone()?,
            length: self.length,
        })
    }

    /// The descriptor, to be passed on.
    #[must_use]
    pub fn into_descriptor(self) -> OwnedFd {
        self.descriptor
    }

    /// Whether the kernel makes memory files here that can be sealed; if not, unnamed files take their place.
    pub fn probe_sealed() -> Availability {
        let made = memfd_create(
            c"weft-probe",
            MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING,
        );
        made.map(drop)
            .to("memfd_create", || "make a memory file".into())
            .into()
    }

    /// Whether memory files, or unnamed files in their place, can be made and mapped here.
    pub fn probe() -> Availability {
        Self::create("weft-probe", page_size())
            .and_then(|file| file.map())
            .map(drop)
            .into()
    }
}

/// Whether an error means that a call is forbidden or unknown here.
pub(crate) fn is_refused(error: Errno) -> bool {
    [Errno::PERM, Errno::NOSYS, Errno::ACCESS].contains(&error)
}

/// An unnamed file, in the first folder that permits one.
fn without_name() -> Option<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC | OFlags::EXCL;
    let temporary = std::env::temp_dir();
    let folders = FOLDERS.iter().map(std::path::Path::new);
    let mut folders = folders.chain([temporary.as_path(), std::path::Path::new("/var/tmp")]);
    folders.find_map(|folder| {
        open(folder, flags, Mode::RUSR | Mode::WUSR)
            .ok()
            .map(File::from)
    })
}

impl AsFd for MemoryFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn two_mappings_of_a_file_are_the_same_memory() {
        let file = MemoryFile::create("weft-test", 8192).expect("memory files exist here");
        let (one, two) = (file.map().expect("maps"), file.map().expect("maps again"));
        one.atomic_u32(4096)
            .expect("within")
            .store(77, Ordering::Release);
        let seen = two
            .atomic_u32(4096)
            .expect("within")
            .load(Ordering::Acquire);
        assert_eq!(seen, 77);
        assert_eq!(two.bytes(4096, 1).expect("within").read(), Some([77]));
        assert!(!two.doorbell(64).expect("within").somebody_sleeps());
    }

    #[test]
    fn words_that_stand_somewhere_become_those_of_a_file() {
        /// At least as large as a page.
        #[repr(C, align(65536))]
        struct Pages([AtomicU64; 65536 / 8]);
        static WORDS: Pages = Pages([const { AtomicU64::new(3) }; 65536 / 8]);
        let file = MemoryFile::create("weft-test", 4 * 65536).expect("memory files exist here");
        let mapping = file.map().expect("maps");
        let word = mapping.atomic_u64(65536 + 8).expect("within");
        word.store(5, Ordering::Relaxed);
        for (offset, words) in [
            (8, &WORDS.0[..]),
            (65536, &WORDS.0[1..]),
            (65536, &WORDS.0[..0]),
            (4 * 65536, &WORDS.0[..]),
        ] {
            let refused = file.map_onto(offset, words);
            assert!(refused.is_err(), "{offset}, {} words", words.len());
        }
        assert_eq!(WORDS.0[1].load(Ordering::Relaxed), 3);
        file.map_onto(65536, &WORDS.0).expect("maps");
        assert_eq!(WORDS.0[1].load(Ordering::Relaxed), 5);
        WORDS.0[1].store(6, Ordering::Relaxed);
        assert_eq!(word.load(Ordering::Relaxed), 6);
    }

    #[test]
    fn parts_are_mapped_taken_and_given_back() {
        let page = page_size();
        let file = MemoryFile::create("weft-test", 1 << 40).expect("a sparse file costs nothing");
        let blocks = || {
            File::from(file.as_fd().try_clone_to_owned().expect("duplicates"))
                .metadata()
                .map(|data| std::os::linux::fs::MetadataExt::st_blocks(&data))
                .expect("a file")
        };
        assert_eq!(blocks(), 0);
        let at = (1 << 39) + page;
        file.commit(at, 3 * page).expect("there is so much memory");
        assert_eq!(blocks() * 512, 3 * page as u64);
        let part = file.map_part(at, 2 * page).expect("maps");
        part.atomic_u64(page)
            .expect("within")
            .store(9, Ordering::Relaxed);
        let mut word = [0; 8];
        file.read_at(at + page, &mut word).expect("within");
        assert_eq!(u64::from_ne_bytes(word), 9);
        file.write_at(at, &[5]).expect("within");
        assert_eq!(part.bytes(0, 1).expect("within").read(), Some([5]));
        file.discard(at, 3 * page);
        assert_eq!(blocks(), 0);
        assert_eq!(
            part.atomic_u64(page)
                .expect("within")
                .load(Ordering::Relaxed),
            0
        );
        assert!(file.map_part(1 << 40, page).is_err() && file.map_part(usize::MAX, page).is_err());
        assert!(file.commit(1 << 40, page).is_err() && file.write_at(1 << 40, &[1]).is_err());
        assert!(file.read_at(1 << 40, &mut word).is_err());
        file.discard(1 << 40, page);
        assert!(MemoryFile::largest() > 0);
    }

    #[test]
    fn what_is_shared_for_reading_cannot_be_mapped_for_writing() {
        let file = MemoryFile::create("weft-test", 4096).expect("memory files exist here");
        let readable = file.share_readable().expect("opens");
        let readable = MemoryFile::adopt(readable).expect("its size is sealed");
        assert!(readable.map().is_err());
        let (one, two) = (file.map(), readable.map_readable().expect("maps"));
        one.expect("maps")
            .atomic_u32(8)
            .expect("within")
            .store(5, Ordering::Release);
        assert_eq!(two.bytes(8, 1).expect("within").read(), Some([5]));
    }

    #[test]
    fn a_tail_follows_and_belongs_to_this_process_alone() {
        let page = page_size();
        let file = MemoryFile::create("weft-test", page).expect("memory files exist here");
        let (one, two) = (file.map_with_tail(page), file.map_with_tail(page));
        let (one, two) = (one.expect("maps"), two.expect("maps"));
        assert_eq!(one.len(), 2 * page);
        for offset in [0, page] {
            let word = one.atomic_u32(offset).expect("within");
            word.store(7, Ordering::Release);
        }
        let seen = |offset| two.bytes(offset, 1).expect("within").read();
        assert_eq!((seen(0), seen(page)), (Some([7]), Some([0])));
        let odd = MemoryFile::create("weft-test", 100).expect("memory files exist here");
        assert!(odd.map_with_tail(page).is_err());
    }

    #[test]
    fn the_size_is_sealed_and_an_unsealed_file_is_refused() {
        let file = MemoryFile::create("weft-test", 4096).expect("memory files exist here");
        let handle = File::from(file.as_fd().try_clone_to_owned().expect("duplicates"));
        assert!(handle.set_len(0).is_err());
        let adopted = MemoryFile::adopt(handle.into()).expect("its size is sealed");
        assert_eq!(adopted.len(), 4096);
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let open = memfd_create("open", flags).expect("memory files exist here");
        let error = MemoryFile::adopt(open).expect_err("not sealed");
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}
