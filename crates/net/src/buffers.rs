//! Buffer regions, mapped by those components whose role needs it.
//!
//! Bytes are copied in and out; nobody holds a reference into a region that another process may write, with
//! one documented exception ([`Buffers::own`]).

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use weft_sys::{Mapping, MemoryFile, Region};

/// Bytes of a buffer: the largest Ethernet frame, rounded up to a power of two.
pub const SIZE: u32 = 2048;

/// Offset of a frame in a buffer of the card: the kernel reserves this much for programs that process it. In
/// all other regions frames begin with the buffer.
pub const LEAD: u32 = weft_sys::xdp::LEAD;

/// Bytes that a frame can have in a buffer of the card.
pub const ROOM: u32 = SIZE - LEAD;

/// The memory of a region, made once by the builder of the system.
pub struct BufferMemory {
    file: MemoryFile,
}

impl BufferMemory {
    /// The memory of `count` buffers.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn create(label: &str, count: u32) -> io::Result<Self> {
        let file = MemoryFile::create(label, count as usize * SIZE as usize)?;
        Ok(Self { file })
    }

    /// A descriptor through which it can be mapped, on request for reading only.
    ///
    /// # Errors
    /// If no descriptors are left.
    pub fn share(&self, writable: bool) -> io::Result<OwnedFd> {
        if writable {
            Ok(self.file.share()?.into_descriptor())
        } else {
            self.file.share_readable()
        }
    }
}

/// A mapped region.
#[derive(Clone)]
pub struct Buffers {
    mapping: Arc<Mapping>,
    lead: u32,
    writable: bool,
}

impl Buffers {
    /// Maps the card's region that was handed over.
    ///
    /// # Errors
    /// As [`adopt`](Self::adopt).
    pub fn adopt_card(descriptor: OwnedFd, writable: bool) -> io::Result<Self> {
        let buffers = Self::adopt(descriptor, writable)?;
        Ok(Self {
            lead: LEAD,
            ..buffers
        })
    }

    /// Maps a region that was handed over.
    ///
    /// # Errors
    /// If it is not a sealed memory file, not a whole number of buffers, or may not be mapped like this.
    pub fn adopt(descriptor: OwnedFd, writable: bool) -> io::Result<Self> {
        let file = MemoryFile::adopt(descriptor)?;
        if file.is_empty() || !file.len().is_multiple_of(SIZE as usize) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!(
                    "a region of {} bytes is no number of buffers of {SIZE}",
                    file.len()
                ),
            ));
        }
        let mapping = if writable {
            file.map()?
        } else {
            file.map_readable()?
        };
        Ok(Self {
            mapping: Arc::new(mapping),
            lead: 0,
            writable,
        })
    }

    /// How many buffers there are.
    #[must_use]
    pub fn count(&self) -> u32 {
        (self.mapping.len() / SIZE as usize) as u32
    }

    /// The offset of the frame in the buffer at `offset`.
    #[inline]
    fn at(&self, offset: u32) -> usize {
        offset as usize + self.lead as usize
    }

    /// Copies the first `N` bytes at an offset.
    #[inline]
    #[must_use]
    pub fn head<const N: usize>(&self, offset: u32) -> Option<[u8; N]> {
        self.mapping.bytes(self.at(offset), N)?.read()
    }

    /// Copies out; returns how many bytes (0 if they do not lie within).
    #[inline]
    pub fn read(&self, offset: u32, length: usize, into: &mut [u8]) -> usize {
        let length = length.min(into.len());
        match self.mapping.bytes(self.at(offset), length) {
            Some(bytes) => bytes.copy_to(into),
            None => 0,
        }
    }

    /// Copies in; false if it does not fit or the region is mapped for reading only.
    #[inline]
    pub fn write(&self, offset: u32, from: &[u8]) -> bool {
        match self.lend(offset, from.len()) {
            Some(place) => place.copy_from_slice(from) == from.len(),
            None => false,
        }
    }

    /// Copies a frame from one region to another; false if it does not lie within both.
    #[inline]
    pub fn copy(from: &Self, offset: u32, to: &Self, onto: u32, length: usize) -> bool {
        let source = from.mapping.bytes(from.at(offset), length);
        match (source, to.lend(onto, length)) {
            (Some(source), Some(place)) => source.copy_to_region(&place) == length,
            _ => false,
        }
    }

    /// The bytes as a region lent to an operation that writes (a system call): `None` if they do not
    /// lie within, or the region is mapped for reading only.
    #[inline]
    #[must_use]
    pub fn lend(&self, offset: u32, length: usize) -> Option<Region> {
        if !self.writable {
            return None;
        }
        self.lend_readable(offset, length)
    }

    /// The bytes as a region lent to an operation that only reads (a system call).
    #[inline]
    #[must_use]
    pub fn lend_readable(&self, offset: u32, length: usize) -> Option<Region> {
        let place = self.mapping.place(self.at(offset), length, 1)?;
        // SAFETY: within the mapping. Callers keep `self` until the operation ends. Others may write
        // meanwhile: the operations done on such a region are plain copies by this room or by the
        // kernel, which read or write each byte once and draw no conclusion from it.
        Some(unsafe { Region::new(place.as_ptr(), length) })
    }

    /// The bytes as a slice, for a client's own stack.
    ///
    /// The buffer is the caller's: it came by a descriptor and has not been given back, or it is its
    /// own to fill. The only other party that has it mapped for writing is the client's own copier, a
    /// part of the system that the client trusts, which does not touch it until it is given back.
    #[inline]
    #[must_use]
    pub(crate) fn own(&mut self, offset: u32, length: usize) -> Option<&mut [u8]> {
        let place = self.mapping.place(self.at(offset), length, 1)?;
        if !self.writable {
            return None;
        }
        // SAFETY: within the mapping, which lives as long as `self`; exclusive as said above, and by
        // the exclusive borrow within this process.
        Some(unsafe { std::slice::from_raw_parts_mut(place.as_ptr(), length) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_sees_and_cannot_write() {
        let memory = BufferMemory::create("weft-test", 2).expect("memory files exist here");
        let share = |writable| memory.share(writable).expect("descriptors are left");
        let mut writer = Buffers::adopt(share(true), true).expect("maps");
        let reader = Buffers::adopt(share(false), false).expect("maps");
        assert!(Buffers::adopt(share(false), true).is_err());
        assert!(writer.write(2048, b"frame"));
        assert!(!reader.write(2048, b"other"));
        assert!(reader.lend(0, 1).is_none());
        assert_eq!(reader.head(2048), Some(*b"frame"));
        writer.own(2048, 1).expect("within")[0] = b'F';
        let mut seen = [0; 8];
        assert_eq!(reader.read(2048, 5, &mut seen), 5);
        assert_eq!(&seen[..5], b"Frame");
        assert!(Buffers::copy(&reader, 2048, &writer, 0, 5));
        assert!(!Buffers::copy(&reader, 4094, &writer, 0, 5), "outside");
        assert!(!Buffers::copy(&writer, 0, &reader, 0, 5), "read only");
        assert_eq!(reader.head(0), Some(*b"Frame"));
        let card = Buffers::adopt_card(share(true), true).expect("maps");
        assert!(card.write(2048, b"lead"));
        assert_eq!(reader.head(2048 + LEAD), Some(*b"lead"));
        assert!(card.lend(2048, ROOM as usize).is_some());
        assert!(card.lend(2048, ROOM as usize + 1).is_none(), "outside");
    }
}
