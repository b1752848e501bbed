//! A user's array with one block for each rank: the buffers of gather, scatter and their kin.
#![allow(unsafe_code)]

use std::sync::Arc;

use weft_fabric::Region;

use crate::buffer::Buffer;
use crate::datatype::Datatype;
use crate::error::{Error, ErrorClass, Result};

/// One block for each rank.
#[derive(Clone, Debug)]
pub struct Blocks {
    blocks: Box<[Buffer]>,
    /// All of them, if they lie one after the other in one piece.
    whole: Option<Region>,
}

impl Blocks {
    /// `ranks` blocks of `count` elements, one after the other.
    ///
    /// # Safety
    /// As for [`Buffer::new`], for all elements of all blocks.
    ///
    /// # Errors
    /// `Count` if they reach further than memory.
    pub unsafe fn even(
        address: *mut u8,
        count: usize,
        datatype: &Arc<Datatype>,
        ranks: usize,
    ) -> Result<Self> {
        let all = count.checked_mul(ranks).ok_or_else(|| too_far(count))?;
        datatype.bytes(all)?;
        let stride = count
            .cast_signed()
            .checked_mul(datatype.extent())
            .ok_or_else(|| too_far(count))?;
        let whole = match datatype.flat(all) {
            // SAFETY: the maker promises that the elements of all blocks stay valid until the operation has ended.
            Some(_) => match unsafe { Buffer::checked(address, all, datatype) }? {
                Buffer::Flat(region, _) => Some(region),
                Buffer::Typed(_) => None,
            },
            None => {
                datatype.footprint(all)?;
                None
            }
        };
        let block = |rank: usize| {
            let address = address.wrapping_offset(stride.wrapping_mul(rank.cast_signed()));
            // SAFETY: the maker promises that the elements of all blocks stay valid until the operation has
            // ended; this is one of them.
            unsafe { Buffer::checked(address, count, datatype) }
        };
        Ok(Self {
            blocks: (0..ranks).map(block).collect::<Result<_>>()?,
            whole,
        })
    }

    /// Blocks of given counts at given displacements, counted in extents of the datatype.
    ///
    /// # Safety
    /// As for [`Buffer::new`], for all elements of all blocks.
    ///
    /// # Errors
    /// `Count` for a negative count or one that reaches further than memory.
    pub unsafe fn listed(
        address: *mut u8,
        counts: impl IntoIterator<Item = i64>,
        displacements: impl IntoIterator<Item = i64>,
        datatype: &Arc<Datatype>,
    ) -> Result<Self> {
        let extent = datatype.extent() as i64;
        let entries = counts.into_iter().zip(displacements);
        // A displacement that does not fit leads nowhere: a block with elements there is refused.
        let entries = entries
            .map(|(count, displacement)| (count, displacement.saturating_mul(extent), datatype));
        // SAFETY: passed on from the caller.
        unsafe { Self::typed(address, entries) }
    }

    /// Blocks of given counts, displacements in bytes, and datatypes (`MPI_Alltoallw`).
    ///
    /// # Safety
    /// As for [`Buffer::new`], for all elements of all blocks.
    ///
    /// # Errors
    /// `Count` for a negative count or one that reaches further than memory.
    pub unsafe fn typed<'a>(
        address: *mut u8,
        entries: impl IntoIterator<Item = (i64, i64, &'a Arc<Datatype>)>,
    ) -> Result<Self> {
        let block = |(rank, entry): (usize, (i64, i64, &Arc<Datatype>))| {
            let (count, displacement, datatype) = entry;
            let count = usize::try_from(count).map_err(|_| negative(rank, count))?;
            datatype.bytes(count)?;
            let address = address.wrapping_offset(displacement as isize);
            // SAFETY: the maker promises that the elements of each block stay valid until the operation has ended.
            unsafe { Buffer::checked(address, count, datatype) }
        };
        let blocks = entries.into_iter().enumerate().map(block);
        Ok(Self {
            blocks: blocks.collect::<Result<_>>()?,
            whole: None,
        })
    }

    /// These blocks.
    #[must_use]
    pub(crate) fn of(blocks: Box<[Buffer]>) -> Self {
        Self {
            blocks,
            whole: None,
        }
    }

    /// How many blocks.
    #[must_use]
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// The block of a rank.
    #[must_use]
    pub fn block(&self, rank: usize) -> &Buffer {
        &self.blocks[rank]
    }

    /// Bytes of data of a block.
    #[must_use]
    pub fn bytes(&self, rank: usize) -> usize {
        self.blocks[rank].bytes()
    }

    /// All blocks as one piece of memory, if they are one.
    #[must_use]
    pub fn whole(&self) -> Option<Region> {
        self.whole
    }
}

#[cold]
fn negative(rank: usize, count: i64) -> Error {
    Error::new(
        ErrorClass::Count,
        format!("the count of rank {rank} is {count}; it must be at least 0"),
    )
}

#[cold]
fn too_far(count: usize) -> Error {
    Error::new(
        ErrorClass::Count,
        format!("blocks of {count} elements reach further than any memory; check the count"),
    )
}
