//! Blocks: a user's array with one block for each rank, for the buffers of gather, scatter and the like.
#![allow(unsafe_code)]

use std::sync::Arc;

use weft_fabric::Region;

use crate::buffer::Buffer;
use crate::datatype::{Datatype, SignatureCode};
use crate::error::{Error, ErrorClass, Result};

/// One block for each rank.
#[derive(Clone, Debug)]
pub struct Blocks {
    form: Form,
    /// All of them, if they lie one after the other in one piece.
    whole: Option<Region>,
}

#[derive(Clone, Debug)]
enum Form {
    /// The same everywhere, so each is made when it is asked for: `number` of them, of which each begins `stride` bytes
    /// behind the one before it.
    Even {
        first: Buffer,
        stride: isize,
        number: usize,
    },
    /// Each as it is.
    Listed(Box<[Buffer]>),
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
        // SAFETY: the maker promises that the elements of all blocks stay valid until the operation has ended; these
        // are some of them.
        let checked = |address, count| unsafe { Buffer::checked(address, count, datatype) };
        let whole = match datatype.flat(all) {
            Some(_) => match checked(address, all)? {
                Buffer::Flat(region, _) => Some(region),
                Buffer::Typed(_) => None,
            },
            None => {
                datatype.footprint(all)?;
                None
            }
        };
        let first = match whole {
            // Where the elements of all have no gaps, those of one have none.
            Some(whole) => {
                let bytes = whole.len().checked_div(ranks).unwrap_or(0);
                Buffer::Flat(whole.prefix(bytes), datatype.code(count))
            }
            None => {
                let first = checked(address, count)?;
                // What lies between two places of memory lies in memory.
                let last = stride.wrapping_mul(ranks.saturating_sub(1).cast_signed());
                checked(address.wrapping_offset(last), count)?;
                first
            }
        };
        let form = Form::Even {
            first,
            stride,
            number: ranks,
        };
        Ok(Self { form, whole })
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
        let entries = entries.into_iter();
        // Collected as results, they would grow, and shrink at the end.
        let mut blocks = Vec::with_capacity(entries.size_hint().0);
        for entry in entries.enumerate() {
            blocks.push(block(entry)?);
        }
        Ok(Self::of(blocks.into_boxed_slice()))
    }

    /// These blocks.
    #[must_use]
    pub(crate) fn of(blocks: Box<[Buffer]>) -> Self {
        Self {
            form: Form::Listed(blocks),
            whole: None,
        }
    }

    /// How many blocks.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        match &self.form {
            Form::Even { number, .. } => *number,
            Form::Listed(blocks) => blocks.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether all have the same bytes, as far as is known.
    #[inline]
    pub(crate) fn is_even(&self) -> bool {
        matches!(self.form, Form::Even { .. })
    }

    /// The block of a rank.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    #[inline]
    pub fn block(&self, rank: usize) -> Buffer {
        match &self.form {
            Form::Even {
                first,
                stride,
                number,
            } => {
                assert!(rank < *number, "block {rank} of {number}");
                // SAFETY: one of the blocks whose elements their maker promised to stay valid until the operation
                // has ended.
                unsafe { first.moved(stride.wrapping_mul(rank.cast_signed())) }
            }
            Form::Listed(blocks) => blocks[rank].clone(),
        }
    }

    /// A buffer of as many of the same elements as the block of a rank, wherever they lie.
    #[inline]
    fn like(&self, rank: usize) -> &Buffer {
        match &self.form {
            Form::Even { first, .. } => first,
            Form::Listed(blocks) => &blocks[rank],
        }
    }

    /// Bytes of data of a block.
    #[must_use]
    #[inline]
    pub fn bytes(&self, rank: usize) -> usize {
        self.like(rank).bytes()
    }

    /// The code of the signature of the data of a block.
    #[must_use]
    #[inline]
    pub(crate) fn code(&self, rank: usize) -> SignatureCode {
        self.like(rank).code()
    }

    /// Whether the data of one of them begin at this address.
    #[must_use]
    pub fn begin_at(&self, address: usize) -> bool {
        let is_elsewhere =
            |whole: Region| address.wrapping_sub(whole.as_ptr().addr()) >= whole.len();
        !self.whole.is_some_and(is_elsewhere)
            && (0..self.len()).any(|rank| self.first_byte(rank) == Some(address))
    }

    /// Where the data of a block begin that begin where those of the same rank do in `others`.
    #[must_use]
    pub fn beginning_with(&self, others: &Self) -> Option<usize> {
        if let (Some(one), Some(other)) = (self.whole, others.whole)
            && are_apart(one, other)
        {
            return None;
        }
        (0..self.len().min(others.len())).find_map(|rank| {
            self.first_byte(rank)
                .filter(|own| others.first_byte(rank) == Some(*own))
        })
    }

    /// Address of the first byte of the first element's data of a block; `None` if it has none.
    fn first_byte(&self, rank: usize) -> Option<usize> {
        let first = self.like(rank).first_byte()?;
        Some(match self.form {
            Form::Even { stride, .. } => {
                first.wrapping_add_signed(stride.wrapping_mul(rank.cast_signed()))
            }
            Form::Listed(_) => first,
        })
    }

    /// All blocks as one piece of memory, if they are one.
    #[must_use]
    #[inline]
    pub fn whole(&self) -> Option<Region> {
        self.whole
    }
}

/// Whether two pieces of memory share no byte.
#[inline]
fn are_apart(one: Region, other: Region) -> bool {
    let (start, begin) = (one.as_ptr().addr(), other.as_ptr().addr());
    start + one.len() <= begin || begin + other.len() <= start
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datatype::Basic;

    const RANKS: usize = 3;

    /// Datatypes whose elements are one piece each, or have gaps, or lie the other way around.
    fn datatypes() -> Vec<Arc<Datatype>> {
        let int = Basic::Int.datatype();
        let gaps = Datatype::vector(2, 1, 3, int).unwrap();
        vec![
            Arc::clone(int),
            Datatype::contiguous(3, int).unwrap(),
            Datatype::contiguous(0, int).unwrap(),
            Datatype::resized(0, 12, int).unwrap(),
            Datatype::resized(0, -8, int).unwrap(),
            Datatype::resized(-4, 20, &gaps).unwrap(),
            gaps,
        ]
    }

    /// Blocks in the middle of the memory, each by its formula and each as an entry of a list.
    fn both(memory: &mut [u8], count: usize, datatype: &Arc<Datatype>) -> [Blocks; 2] {
        let middle = memory.len() / 2;
        let address = memory[middle..].as_mut_ptr();
        let places = (0..RANKS).map(|rank| (rank * count) as i64);
        let counts = [count as i64; RANKS];
        // SAFETY: the tests keep the memory as long as the blocks, and nobody else looks at it.
        unsafe {
            [
                Blocks::even(address, count, datatype, RANKS).unwrap(),
                Blocks::listed(address, counts, places, datatype).unwrap(),
            ]
        }
    }

    #[test]
    fn even_blocks_are_those_of_a_list() {
        let mut memory: Vec<u8> = (0..=255).collect();
        for datatype in datatypes() {
            for count in 0..4 {
                let [even, listed] = both(&mut memory, count, &datatype);
                assert_eq!(even.len(), listed.len());
                for rank in 0..RANKS {
                    let (own, other) = (even.block(rank), listed.block(rank));
                    let what = format!("block {rank} of {count} elements of {datatype:?}");
                    assert_eq!(own.packed().unwrap(), other.packed().unwrap(), "{what}");
                    assert_eq!(own.first_byte(), other.first_byte(), "{what}");
                    assert_eq!(even.first_byte(rank), listed.first_byte(rank), "{what}");
                    let told = |blocks: &Blocks| (blocks.bytes(rank), blocks.code(rank));
                    assert_eq!(told(&even), told(&listed), "{what}");
                    assert_eq!(told(&even), (own.bytes(), own.code()), "{what}");
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "block 3 of 3")]
    fn there_is_no_block_behind_the_last() {
        let mut memory = vec![0; 64];
        let [even, _] = both(&mut memory, 1, Basic::Int.datatype());
        let _ = even.block(RANKS);
    }

    #[test]
    fn blocks_begin_where_each_of_them_does() {
        let mut memory = vec![0; 256];
        for datatype in datatypes() {
            for count in 0..4 {
                let [even, listed] = both(&mut memory, count, &datatype);
                for byte in &memory {
                    let address = std::ptr::from_ref(byte).addr();
                    let begins = (0..RANKS).any(|rank| listed.first_byte(rank) == Some(address));
                    assert_eq!(even.begin_at(address), begins, "{count} of {datatype:?}");
                    assert_eq!(listed.begin_at(address), begins, "{count} of {datatype:?}");
                }
            }
        }
    }

    /// Rank 1's block is the same in both where one begins a block's length earlier with blocks twice as long.
    #[test]
    fn blocks_begin_together_where_those_of_one_rank_do() {
        let mut memory = vec![0; 256];
        let byte = Basic::Byte.datatype();
        let base = memory.as_mut_ptr();
        // SAFETY: the memory outlives the blocks, and nobody else looks at it.
        let at = |place: usize, count| unsafe {
            Blocks::even(base.wrapping_add(place), count, byte, RANKS).unwrap()
        };
        let one = at(64, 8);
        let met = |other: &Blocks| {
            one.beginning_with(other)
                .map(|address| address - base.addr())
        };
        assert_eq!(met(&one), Some(64));
        assert_eq!(met(&at(56, 16)), Some(72));
        assert_eq!(
            met(&at(65, 8)),
            None,
            "what overlaps otherwise is not looked for"
        );
        assert_eq!(met(&at(88, 8)), None);
        assert_eq!(met(&at(40, 8)), None);
        assert_eq!(met(&at(64, 0)), None);
    }
}
