//! Packing: `MPI_Pack` and `MPI_Unpack` (MPI 5.0, section 5.2), plain and external: a buffer of packed data with a
//! position that advances.
//!
//! Plain packed data are the data without gaps, and nothing else: packed data may be received as the datatype, and the
//! other way round, as the standard demands.

use std::sync::Arc;

use weft_fabric::{Region, SharedBytes};

use super::{Datatype, external};
use crate::buffer::{self, Buffer, TypedBuffer};
use crate::error::{Error, ErrorClass, Result};
use crate::memory;

/// Appends the data of `buffer` at `position` of `into`; answers the position after them.
///
/// # Errors
/// `Truncate` if they do not fit.
pub fn pack(buffer: &Buffer, into: &Region, position: usize) -> Result<usize> {
    let room = place("MPI_Pack", into, position, buffer.bytes())?;
    match buffer {
        Buffer::Flat(region, _) => _ = room.copy_from(region),
        Buffer::Typed(typed) => _ = typed.pack(&room),
    }
    Ok(position + room.len())
}

/// Reads the data of `buffer` from `position` of `from`; answers the position after them.
///
/// # Errors
/// `Truncate` if there are fewer.
pub fn unpack(from: &Region, position: usize, buffer: &Buffer) -> Result<usize> {
    let data = place("MPI_Unpack", from, position, buffer.bytes())?;
    match buffer {
        Buffer::Flat(region, _) => _ = region.copy_from(&data),
        Buffer::Typed(typed) => _ = typed.unpack(buffer::shared(&data)),
    }
    Ok(position + data.len())
}

/// As [`pack`], in the representation `external32`. `buffer` is of `count` times `datatype`.
///
/// # Errors
/// `Truncate` if they do not fit; `Arg` for a number that `external32` cannot hold.
pub fn pack_external(
    buffer: &Buffer,
    count: usize,
    datatype: &Arc<Datatype>,
    into: &Region,
    position: usize,
) -> Result<usize> {
    let length = datatype.external_size(count)?;
    let room = place("MPI_Pack_external", into, position, length)?;
    memory::ensure(length)?;
    let data = external::encode(&datatype.signature, &buffer.packed()?)?;
    room.copy_from_slice(&data);
    Ok(position + length)
}

/// As [`unpack`], from the representation `external32`.
///
/// # Errors
/// `Truncate` if there are fewer data.
pub fn unpack_external(
    from: &Region,
    position: usize,
    buffer: &Buffer,
    count: usize,
    datatype: &Arc<Datatype>,
) -> Result<usize> {
    let length = datatype.external_size(count)?;
    let data = place("MPI_Unpack_external", from, position, length)?;
    let mut copy = memory::zeroed(length)?;
    memory::ensure(buffer.bytes())?;
    data.copy_to_slice(&mut copy);
    let native = external::decode(&datatype.signature, &copy, buffer.bytes());
    buffer.fill(SharedBytes::of(&native));
    Ok(position + length)
}

/// The representation `external32` of elements, to as many bytes as [`Datatype::external_size`] says.
///
/// # Errors
/// `Arg` for a number that `external32` cannot hold.
pub(crate) fn encode_external(elements: &TypedBuffer, into: Region) -> Result<()> {
    let data = external::encode(&elements.datatype().signature, &elements.packed()?)?;
    into.copy_from_slice(&data);
    Ok(())
}

/// Elements from the first bytes of their representation `external32`; answers how many bytes of data they are here.
pub(crate) fn decode_external(file: &[u8], elements: &TypedBuffer) -> usize {
    let datatype = elements.datatype();
    let each = datatype.signature.external as usize;
    if each == 0 {
        return 0;
    }
    let partial = external::native_bytes(&datatype.signature, file.len() % each);
    let bytes = file.len() / each * datatype.size() + partial;
    elements.unpack_part(0, &external::decode(&datatype.signature, file, bytes))
}

impl Datatype {
    /// Bytes of `count` elements in the representation `external32` (`MPI_Pack_external_size`).
    ///
    /// # Errors
    /// `Count` if they do not fit.
    pub fn external_size(&self, count: usize) -> Result<usize> {
        // No element is longer there than here, so this fits if the data do.
        self.bytes(count)?;
        Ok(self.signature.external as usize * count)
    }
}

fn place(name: &str, buffer: &Region, position: usize, length: usize) -> Result<Region> {
    buffer.part(position, length).ok_or_else(|| {
        Error::new(
            ErrorClass::Truncate,
            format!(
                "{name}: {length} bytes from position {position} do not lie within a buffer of {} bytes; MPI_Pack_size tells how many are needed",
                buffer.len()
            ),
        )
    })
}
