//! Stream: the data of an access as one sequence of bytes, wherever the elements lie in memory.

use weft_fabric::Region;

use crate::buffer::TypedBuffer;

/// The data of an access.
#[derive(Debug)]
pub(super) enum Stream<'a> {
    /// One piece of memory.
    Flat(Region),
    /// Elements with gaps.
    Typed(&'a TypedBuffer),
}

impl<'a> Stream<'a> {
    pub fn of(elements: &'a TypedBuffer) -> Self {
        match elements.region() {
            Some(region) => Self::Flat(region),
            None => Self::Typed(elements),
        }
    }

    /// How many bytes.
    pub fn len(&self) -> u64 {
        match self {
            Self::Flat(region) => region.len() as u64,
            Self::Typed(elements) => elements.bytes() as u64,
        }
    }

    /// Where `length` bytes from byte `from` lie, if that is one piece of memory.
    pub fn region(&self, from: u64, length: u64) -> Option<Region> {
        match self {
            Self::Flat(region) => region.part(from as usize, length as usize),
            Self::Typed(_) => None,
        }
    }

    /// Copies the bytes from byte `from` on.
    pub fn copy_out(&self, from: u64, into: &mut [u8]) {
        match self {
            Self::Flat(region) => {
                if let Some(part) = region.part(from as usize, into.len()) {
                    part.copy_to_slice(into);
                }
            }
            Self::Typed(elements) => _ = elements.pack_part(from as usize, into),
        }
    }

    /// Copies bytes to where byte `from` and those after it lie.
    pub fn copy_in(&self, from: u64, bytes: &[u8]) {
        match self {
            Self::Flat(region) => {
                if let Some(part) = region.part(from as usize, bytes.len()) {
                    part.copy_from_slice(bytes);
                }
            }
            Self::Typed(elements) => _ = elements.unpack_part(from as usize, bytes),
        }
    }
}
