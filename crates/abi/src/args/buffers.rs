//! Buffers as arguments, not checked yet: the rank determines which of them a call uses.
//!
//! | type | parameters of C |
//! |---|---|
//! | [`AddressArgument`] | an address; count and datatype are those of another buffer |
//! | [`BufferArgument`] | an address, a count, a datatype |
//! | [`BlocksArgument`] | an address, counts and displacements with an entry for each rank, a datatype |
//! | [`TypedBlocksArgument`] | the same with a datatype for each rank; displacements are in bytes |
//!
//! Each keeps the names of its parameters, for the errors of its checks. Nothing, neither a list nor an
//! element, is read before the call asks for the buffer or the blocks: an argument that is not significant at
//! a rank may have any value there (MPI 5.0, section 6.1).

use std::ffi::c_void;
use std::sync::Arc;

use weft_mpi::buffer::TypedBuffer;
use weft_mpi::coll::Blocks;
use weft_mpi::{Buffer, Datatype};

use super::Counts;
use crate::fault::{Checked, Fault};
use crate::generated::constants as k;
use crate::{c, check};

/// The address of a buffer whose count and datatype the call takes from another argument: the operand of
/// a reduction.
#[derive(Clone, Copy, Debug)]
pub struct AddressArgument {
    address: *mut c_void,
    name: &'static str,
}

impl AddressArgument {
    /// # Safety
    /// It is `MPI_IN_PLACE`; or, if it is significant, it holds all elements that the call combines (for
    /// reduce-scatter, those of all ranks) or, as a receive buffer, those of this rank; they may be read, or
    /// written if it is a receive buffer, until the operation has ended (MPI 5.0, sections 6.9 to 6.11).
    pub const unsafe fn new(address: *mut c_void, name: &'static str) -> Self {
        Self { address, name }
    }

    /// Whether it is `MPI_IN_PLACE`.
    #[inline]
    pub fn is_in_place(&self) -> bool {
        self.address == k::MPI_IN_PLACE
    }

    /// The buffer, checked: `count` elements of this datatype, which the call combines.
    #[inline]
    pub fn buffer(&self, count: usize, datatype: &Arc<Datatype>) -> Checked<Buffer> {
        // SAFETY: `new` was promised the elements that the call combines.
        unsafe { check::buffer(self.address, count, datatype, self.name) }
    }
}

/// A buffer: address, count, datatype.
#[derive(Clone, Copy, Debug)]
pub struct BufferArgument {
    address: *mut c_void,
    count: i64,
    datatype: c::Datatype,
    names: [&'static str; 3],
}

impl BufferArgument {
    /// # Safety
    /// Where the buffer is significant, it holds `count` elements of the datatype (for each rank, if the
    /// call takes them as [blocks](Self::blocks)), which may be read, or written if it is a receive
    /// buffer, until the operation has ended (MPI 5.0, sections 3.2.2, 3.7.2 and 6.12).
    pub const unsafe fn new(
        address: *mut c_void,
        count: i64,
        datatype: c::Datatype,
        names: [&'static str; 3],
    ) -> Self {
        Self {
            address,
            count,
            datatype,
            names,
        }
    }

    /// Whether it is `MPI_IN_PLACE`.
    #[inline]
    pub fn is_in_place(&self) -> bool {
        self.address == k::MPI_IN_PLACE
    }

    /// The buffer, checked.
    #[inline]
    pub fn buffer(&self) -> Checked<Buffer> {
        let [buffer, count, datatype] = self.names;
        let datatype = check::committed(self.datatype, datatype)?;
        let count = check::count(self.count, count)?;
        // SAFETY: `new` was promised `count` elements of the datatype at the address.
        unsafe { check::buffer(self.address, count, datatype, buffer) }
    }

    /// The elements in their memory layout, checked.
    pub fn elements_in_memory(&self) -> Checked<TypedBuffer> {
        let (count, datatype) = self.elements()?;
        self.buffer()?;
        // SAFETY: `new` was promised `count` elements of the datatype at the address.
        Ok(unsafe { TypedBuffer::checked(self.address.cast(), count, datatype) }?)
    }

    /// Count and datatype, checked.
    #[inline]
    pub fn elements(&self) -> Checked<(usize, &'static Arc<Datatype>)> {
        let [_, count, datatype] = self.names;
        Ok((
            check::count(self.count, count)?,
            check::committed(self.datatype, datatype)?,
        ))
    }

    /// One block of these elements for each rank, consecutive, checked.
    pub fn blocks(&self, ranks: usize) -> Checked<Blocks> {
        let (count, datatype) = self.elements()?;
        // SAFETY: for the check of the address alone; no element is read or written through this buffer.
        unsafe { check::buffer(self.address, count, datatype, self.names[0]) }?;
        // SAFETY: `new` was promised `count` elements of the datatype for each rank.
        Ok(unsafe { Blocks::even(self.address.cast(), count, datatype, ranks) }?)
    }

    /// Its address, at which a reduction in place finds the elements of all ranks.
    pub const fn address(&self) -> AddressArgument {
        AddressArgument {
            address: self.address,
            name: self.names[0],
        }
    }
}

/// A list of blocks: address, counts, displacements in extents, datatype.
#[derive(Clone, Copy, Debug)]
pub struct BlocksArgument {
    address: *mut c_void,
    counts: Counts,
    displacements: Counts,
    datatype: c::Datatype,
    names: [&'static str; 4],
}

impl BlocksArgument {
    /// # Safety
    /// Where the blocks are significant, both lists have an entry for each rank, and each block holds
    /// `counts[i]` elements of the datatype at `displacements[i]`, which may be read, or written if the
    /// blocks are received, until the operation has ended (MPI 5.0, sections 6.5 to 6.8 and 6.12).
    pub const unsafe fn new(
        address: *mut c_void,
        counts: Counts,
        displacements: Counts,
        datatype: c::Datatype,
        names: [&'static str; 4],
    ) -> Self {
        Self {
            address,
            counts,
            displacements,
            datatype,
            names,
        }
    }

    /// Whether it is `MPI_IN_PLACE`.
    #[inline]
    pub fn is_in_place(&self) -> bool {
        self.address == k::MPI_IN_PLACE
    }

    /// The blocks, one for each rank, checked.
    pub fn blocks(&self, ranks: usize) -> Checked<Blocks> {
        let [buffer, counts, displacements, datatype] = self.names;
        let datatype = check::committed(self.datatype, datatype)?;
        let (lengths, places) = (
            self.counts.with_length(ranks),
            self.displacements.with_length(ranks),
        );
        check_lists(&[(self.counts, counts), (self.displacements, displacements)])?;
        check_counts(lengths, counts)?;
        // SAFETY: for the check of the address alone; no element is read or written through this buffer.
        unsafe {
            check::buffer(
                self.address,
                usize::from(lengths.iter().any(|count| count > 0)),
                datatype,
                buffer,
            )
        }?;
        // SAFETY: `new` was promised the elements of every block.
        Ok(
            unsafe {
                Blocks::listed(self.address.cast(), lengths.iter(), places.iter(), datatype)
            }?,
        )
    }
}

/// A list of blocks of different datatypes: address, counts, displacements in bytes, datatypes.
#[derive(Clone, Copy, Debug)]
pub struct TypedBlocksArgument {
    address: *mut c_void,
    counts: Counts,
    displacements: Counts,
    datatypes: *const c::Datatype,
    names: [&'static str; 4],
}

impl TypedBlocksArgument {
    /// # Safety
    /// Where the blocks are significant, the three lists have an entry for each rank, and each block holds
    /// `counts[i]` elements of `datatypes[i]` at `displacements[i]` bytes, which may be read, or written
    /// if the blocks are received, until the operation has ended (MPI 5.0, sections 6.8 and 6.12).
    pub const unsafe fn new(
        address: *mut c_void,
        counts: Counts,
        displacements: Counts,
        datatypes: *const c::Datatype,
        names: [&'static str; 4],
    ) -> Self {
        Self {
            address,
            counts,
            displacements,
            datatypes,
            names,
        }
    }

    /// Whether it is `MPI_IN_PLACE`.
    #[inline]
    pub fn is_in_place(&self) -> bool {
        self.address == k::MPI_IN_PLACE
    }

    /// The blocks, one for each rank, checked.
    pub fn blocks(&self, ranks: usize) -> Checked<Blocks> {
        let [buffer, counts, displacements, datatypes] = self.names;
        let (lengths, places) = (
            self.counts.with_length(ranks),
            self.displacements.with_length(ranks),
        );
        check_lists(&[(self.counts, counts), (self.displacements, displacements)])?;
        check_counts(lengths, counts)?;
        // SAFETY: `new` was promised a datatype for each rank.
        let handles = unsafe { check::slice(self.datatypes, ranks, datatypes) }?;
        let types = handles
            .iter()
            .map(|handle| check::committed(*handle, datatypes))
            .collect::<Checked<Vec<_>>>()?;
        // Each at its place: with MPI_BOTTOM a displacement is an address.
        for ((count, place), datatype) in lengths.iter().zip(places.iter()).zip(&types) {
            let address = self.address.wrapping_byte_offset(place as isize);
            // SAFETY: for the check of the address alone; no element is read or written through this
            // buffer.
            unsafe { check::buffer(address, check::count(count, counts)?, datatype, buffer) }?;
        }
        let entries = lengths
            .iter()
            .zip(places.iter())
            .zip(types)
            .map(|((count, place), datatype)| (count, place, datatype));
        // SAFETY: `new` was promised the elements of every block.
        Ok(unsafe { Blocks::typed(self.address.cast(), entries) }?)
    }
}

/// An error if a list is null.
pub fn check_lists(lists: &[(Counts, &'static str)]) -> Checked<()> {
    match lists.iter().find(|(list, _)| list.is_null()) {
        None => Ok(()),
        Some((_, name)) => Err(Fault::argument(
            k::MPI_ERR_ARG,
            name,
            "a list with an entry for each rank",
            "a null pointer",
            "pass an array as long as the communicator",
        )),
    }
}

fn check_counts(counts: Counts, name: &'static str) -> Checked<()> {
    counts
        .iter()
        .try_for_each(|count| check::count(count, name).map(drop))
}
