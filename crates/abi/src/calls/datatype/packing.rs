//! Pack and unpack (MPI 5.0, sections 5.2 and 5.3).

use std::ffi::{CStr, c_void};
use std::sync::Arc;

use weft_fabric::Region;
use weft_mpi::{Buffer, Comm, Datatype};

use super::too_wide;
use crate::args::{BufferArgument, CountOut, Form, InOut, Number, text_of};
use crate::check;
use crate::fault::{Checked, Fault};
use crate::generated::constants as k;

/// Packed data: their memory, and the position in it.
///
/// # Safety
/// `size` bytes may be read and written at the address until the call returns.
unsafe fn packed<P: Number>(
    address: *mut c_void,
    size: usize,
    position: &InOut<P>,
    name: &'static str,
) -> Checked<(Region, usize)> {
    if address.addr() < check::PAGE && size > 0 {
        return Err(Fault::argument(
            k::MPI_ERR_BUFFER,
            name,
            "the address of the packed data",
            format!("{address:p}"),
            "pass an address; constants such as MPI_IN_PLACE stand for none here",
        ));
    }
    let start = check::bytes(position.get().wide(), "position")?;
    // SAFETY: `size` bytes may be read and written at `address` until the call returns, as `packed` asks.
    Ok((unsafe { Region::new(address.cast(), size) }, start))
}

fn advance<P: Number>(position: &mut InOut<P>, end: usize) -> Checked<()> {
    let end = end as i64;
    position.set(P::narrow(end).ok_or_else(|| too_wide(end))?);
    Ok(())
}

pub unsafe fn pack<P: Number>(
    inbuf: Buffer,
    outbuf: *mut c_void,
    outsize: usize,
    mut position: InOut<P>,
    _comm: &Arc<Comm>,
    _form: Form,
) -> Checked<()> {
    // SAFETY: `outbuf` has `outsize` bytes (MPI 5.0, section 5.2, `MPI_Pack`).
    let (region, start) = unsafe { packed(outbuf, outsize, &position, "outbuf")? };
    let end = weft_mpi::datatype::pack(&inbuf, &region, start)?;
    advance(&mut position, end)
}

pub unsafe fn unpack<P: Number>(
    inbuf: *const c_void,
    insize: usize,
    mut position: InOut<P>,
    outbuf: Buffer,
    _comm: &Arc<Comm>,
    _form: Form,
) -> Checked<()> {
    // SAFETY: `inbuf` has `insize` bytes (MPI 5.0, section 5.2, `MPI_Unpack`); unpacking only reads them.
    let (region, start) = unsafe { packed(inbuf.cast_mut(), insize, &position, "inbuf")? };
    let end = weft_mpi::datatype::unpack(&region, start, &outbuf)?;
    advance(&mut position, end)
}

pub fn pack_size(
    incount: usize,
    datatype: &Arc<Datatype>,
    _comm: &Arc<Comm>,
    mut size: CountOut,
    _form: Form,
) -> Checked<()> {
    size.set(Some(datatype.bytes(incount)? as i64));
    Ok(())
}

fn check_representation(datarep: &CStr) -> Checked<()> {
    if datarep.to_bytes() == b"external32" {
        return Ok(());
    }
    Err(Fault::argument(
        k::MPI_ERR_ARG,
        "datarep",
        "\"external32\"",
        format!("\"{}\"", text_of(datarep)),
        "no other representation is defined for packing",
    ))
}

pub unsafe fn pack_external<P: Number>(
    datarep: &CStr,
    inbuf: BufferArgument,
    outbuf: *mut c_void,
    outsize: usize,
    mut position: InOut<P>,
    _form: Form,
) -> Checked<()> {
    check_representation(datarep)?;
    let (count, datatype) = inbuf.elements()?;
    // SAFETY: `outbuf` has `outsize` bytes (MPI 5.0, section 5.3, `MPI_Pack_external`).
    let (region, start) = unsafe { packed(outbuf, outsize, &position, "outbuf")? };
    let end = weft_mpi::datatype::pack_external(&inbuf.buffer()?, count, datatype, &region, start)?;
    advance(&mut position, end)
}

pub unsafe fn unpack_external<P: Number>(
    datarep: &CStr,
    inbuf: *const c_void,
    insize: usize,
    mut position: InOut<P>,
    outbuf: BufferArgument,
    _form: Form,
) -> Checked<()> {
    check_representation(datarep)?;
    let (count, datatype) = outbuf.elements()?;
    // SAFETY: `inbuf` has `insize` bytes (MPI 5.0, section 5.3, `MPI_Unpack_external`); unpacking only reads them.
    let (region, start) = unsafe { packed(inbuf.cast_mut(), insize, &position, "inbuf")? };
    let end =
        weft_mpi::datatype::unpack_external(&region, start, &outbuf.buffer()?, count, datatype)?;
    advance(&mut position, end)
}

pub fn pack_external_size(
    datarep: &CStr,
    incount: i64,
    datatype: &Arc<Datatype>,
    mut size: CountOut,
    _form: Form,
) -> Checked<()> {
    check_representation(datarep)?;
    let incount = check::count(incount, "incount")?;
    size.set(Some(datatype.external_size(incount)? as i64));
    Ok(())
}
