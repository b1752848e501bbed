//! Queries about the ABI (MPI 5.0, chapter 20).

use std::ffi::{c_int, c_void};
use std::sync::{Mutex, PoisonError};

use weft_mpi::info::Info;

use crate::args::Out;
use crate::fault::{Checked, Fault};
use crate::generated::constants as k;
use crate::state::InfoObject;
use crate::{c, handle};

/// Values of Fortran's logicals, as set by a Fortran layer, and the bytes of one.
static BOOLEANS: Mutex<Option<(c_int, u64, u64)>> = Mutex::new(None);
/// Facts about Fortran's types, as set by a Fortran layer.
static FORTRAN: Mutex<Option<Info>> = Mutex::new(None);

pub fn abi_get_version(mut abi_major: Out<c_int>, mut abi_minor: Out<c_int>) -> Checked<()> {
    abi_major.set(k::MPI_ABI_VERSION);
    abi_minor.set(k::MPI_ABI_SUBVERSION);
    Ok(())
}

pub fn abi_get_info(mut info: Out<c::Info>) -> Checked<()> {
    let mut pairs = Info::default();
    for (key, size) in [
        ("mpi_aint_size", size_of::<c::Aint>()),
        ("mpi_count_size", size_of::<c::Count>()),
        ("mpi_offset_size", size_of::<c::Offset>()),
    ] {
        pairs.set(key, &size.to_string())?;
    }
    info.set(new_info(pairs)?);
    Ok(())
}

pub fn abi_get_fortran_info(mut info: Out<c::Info>) -> Checked<()> {
    let known = FORTRAN
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    info.set(match known {
        Some(pairs) => new_info(pairs)?,
        None => k::MPI_INFO_NULL,
    });
    Ok(())
}

pub fn abi_set_fortran_info(info: Option<&InfoObject>) -> Checked<()> {
    let mut known = FORTRAN.lock().unwrap_or_else(PoisonError::into_inner);
    if known.is_some() {
        return Err(already("the types of Fortran"));
    }
    *known = info.map(|info| info.open().clone());
    Ok(())
}

pub unsafe fn abi_set_fortran_booleans(
    size: c_int,
    truth: *mut c_void,
    falsehood: *mut c_void,
) -> Checked<()> {
    let mut known = BOOLEANS.lock().unwrap_or_else(PoisonError::into_inner);
    if known.is_some() {
        return Err(already("the logicals of Fortran"));
    }
    let length = check_size(size)?;
    // SAFETY: the caller passes the addresses of two logicals of that size.
    *known = Some(unsafe { (size, load(truth, length), load(falsehood, length)) });
    Ok(())
}

pub unsafe fn abi_get_fortran_booleans(
    size: c_int,
    truth: *mut c_void,
    falsehood: *mut c_void,
    mut is_set: Out<c_int>,
) -> Checked<()> {
    let length = check_size(size)?;
    let known = *BOOLEANS.lock().unwrap_or_else(PoisonError::into_inner);
    is_set.flag(known.is_some());
    let Some((known_size, true_value, false_value)) = known else {
        return Ok(());
    };
    if known_size != size {
        return Err(Fault::argument(
            k::MPI_ERR_ARG,
            "logical_size",
            format!("{known_size}, as it was set"),
            size.to_string(),
            "ask for logicals of the size they were set with",
        ));
    }
    // SAFETY: the caller passes the addresses of two logicals of that size.
    unsafe {
        store(truth, length, true_value);
        store(falsehood, length, false_value);
    }
    Ok(())
}

fn already(what: &str) -> Fault {
    Fault::new(
        k::MPI_ERR_ABI,
        format!("{what} were set before; set them once, before MPI_Init"),
    )
}

fn check_size(size: c_int) -> Checked<usize> {
    match size {
        1 | 2 | 4 | 8 => Ok(size.cast_unsigned() as usize),
        _ => Err(Fault::argument(
            k::MPI_ERR_ARG,
            "logical_size",
            "1, 2, 4 or 8",
            size.to_string(),
            "pass the bytes of a LOGICAL",
        )),
    }
}

unsafe fn load(address: *const c_void, length: usize) -> u64 {
    let mut bytes = [0; 8];
    // SAFETY: `address` holds a logical of `length` bytes (MPI 5.0, section 20, `MPI_Abi_set_fortran_booleans`),
    // and these are at most eight.
    unsafe { std::ptr::copy_nonoverlapping(address.cast(), bytes.as_mut_ptr(), length) };
    u64::from_ne_bytes(bytes)
}

unsafe fn store(address: *mut c_void, length: usize, value: u64) {
    // SAFETY: `address` has room for a logical of `length` bytes (MPI 5.0, section 20,
    // `MPI_Abi_get_fortran_booleans`), and these are at most eight.
    unsafe { std::ptr::copy_nonoverlapping(value.to_ne_bytes().as_ptr(), address.cast(), length) };
}

pub(crate) fn new_info(pairs: Info) -> Checked<c::Info> {
    handle::insert(InfoObject::new(pairs))
        .map(c::Info)
        .ok_or_else(|| full("info objects"))
}

/// A table is full.
pub(crate) fn full(what: &str) -> Fault {
    Fault::new(
        k::MPI_ERR_NO_MEM,
        format!(
            "{} {what} are alive at once, and no handle is left; free those that are not needed",
            1 << weft_atomic::table::INDEX_BITS
        ),
    )
}
