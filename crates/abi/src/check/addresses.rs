//! Addresses of the caller: buffers, results, lists, texts. Safety: see [`super`].

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::Arc;

use weft_mpi::Buffer;
use weft_mpi::datatype::Datatype;

use super::PAGE;
use crate::args::{CountOut, Counts, InOut, Out, TextOut};
use crate::c;
use crate::fault::{Checked, Fault};
use crate::generated::constants as k;

/// A buffer.
///
/// # Safety
/// As for [`Buffer::new`].
// Inlined into every call that moves data: it would cost forty instructions more as a separate call.
#[inline(always)]
pub unsafe fn buffer(
    address: *mut c_void,
    count: usize,
    datatype: &Arc<Datatype>,
    name: &'static str,
) -> Checked<Buffer> {
    if address.addr() < PAGE && count > 0 && !is_absolute(datatype) {
        return Err(bad_buffer(address, name));
    }
    // SAFETY: `address` holds `count` elements of `datatype` until the operation has ended (MPI 5.0, section 3.2.2).
    Ok(unsafe { Buffer::checked(address.cast(), count, datatype) }?)
}

/// Whether the displacements of a datatype are addresses, to be used with `MPI_BOTTOM`, or it has no
/// data at all.
#[cold]
fn is_absolute(datatype: &Datatype) -> bool {
    datatype.size() == 0 || datatype.true_lower_bound().unsigned_abs() >= PAGE
}

#[cold]
fn bad_buffer(address: *mut c_void, name: &'static str) -> Fault {
    let (found, remedy) = match address.addr() {
        0 => (
            "a null pointer",
            "pass the address of the data, or 0 elements",
        ),
        1 => (
            "MPI_IN_PLACE",
            "it stands for the other buffer of some collective calls, and for none in this call",
        ),
        2 => ("MPI_BUFFER_AUTOMATIC", "it is for attaching buffers only"),
        _ => (
            "an address in the first page of memory",
            "pass the address of the data",
        ),
    };
    Fault::argument(
        k::MPI_ERR_BUFFER,
        name,
        "the address of the data",
        found,
        remedy,
    )
}

/// The address of a result (OUT parameter).
///
/// # Safety
/// As the head of the module says.
#[inline]
pub unsafe fn out<T>(address: *mut T, name: &'static str) -> Checked<Out<T>> {
    if address.is_null() {
        return Err(Fault::null(name));
    }
    // SAFETY: an OUT parameter is the address of a `T` that may be written until the call returns (MPI 5.0, section
    // 2.3); null was checked.
    Ok(unsafe { Out::new(address) })
}

/// The address of a variable that is read and written (INOUT parameter).
///
/// # Safety
/// As the head of the module says.
#[inline]
pub unsafe fn in_out<T: Copy>(address: *mut T, name: &'static str) -> Checked<InOut<T>> {
    if address.is_null() {
        return Err(Fault::null(name));
    }
    // SAFETY: an INOUT parameter is the address of a `T` that may be read and written until the call returns (MPI 5.0,
    // section 2.3); null was checked.
    Ok(unsafe { InOut::new(address) })
}

/// Addresses that a count may go to.
pub trait CountAddress {
    /// # Safety
    /// The address may be written until the call returns.
    unsafe fn into_out(self) -> CountOut;
    /// Whether it is null.
    fn is_nothing(&self) -> bool;
}

impl CountAddress for *mut c_int {
    unsafe fn into_out(self) -> CountOut {
        // SAFETY: `self` may be written as an `int` until the call returns, as `into_out` asks.
        CountOut::Int(unsafe { Out::new(self) })
    }

    fn is_nothing(&self) -> bool {
        self.is_null()
    }
}

impl CountAddress for *mut i64 {
    unsafe fn into_out(self) -> CountOut {
        // SAFETY: `self` may be written as an `MPI_Count` until the call returns, as `into_out` asks.
        CountOut::Wide(unsafe { Out::new(self) })
    }

    fn is_nothing(&self) -> bool {
        self.is_null()
    }
}

impl CountAddress for *mut isize {
    unsafe fn into_out(self) -> CountOut {
        // SAFETY: `self` may be written until the call returns, as `into_out` asks; `MPI_Aint` and `MPI_Count` have 64 bits
        // alike (asserted in `c`).
        CountOut::Wide(unsafe { Out::new(self.cast()) })
    }

    fn is_nothing(&self) -> bool {
        self.is_null()
    }
}

/// The address of a count that is a result.
///
/// # Safety
/// As the head of the module says.
#[inline]
pub unsafe fn count_out<A: CountAddress>(address: A, name: &'static str) -> Checked<CountOut> {
    if address.is_nothing() {
        return Err(Fault::null(name));
    }
    // SAFETY: an OUT parameter may be written as the integer that it is declared as, until the call returns (MPI 5.0,
    // section 2.3); null was checked.
    Ok(unsafe { address.into_out() })
}

/// Elements of lists of counts.
pub trait CountElement {
    /// Whether they have 64 bits.
    const WIDE: bool;
}

impl CountElement for c_int {
    const WIDE: bool = false;
}

impl CountElement for i64 {
    const WIDE: bool = true;
}

impl CountElement for isize {
    const WIDE: bool = true;
}

/// A list of counts. Whether it may be null depends on the rank: the calls check that.
///
/// # Safety
/// As the head of the module says.
#[inline]
pub unsafe fn counts<T: CountElement>(address: *const T, _name: &'static str) -> Checked<Counts> {
    // SAFETY: the list may be read until the call returns, in the length that the standard gives it: the length is a
    // parameter of the call or the size of its group, and is set by the call before it reads.
    Ok(unsafe { Counts::new(address.cast(), T::WIDE) })
}

/// Elements that a list can have at most: the bytes of more have no addresses.
const fn longest<T>() -> usize {
    if size_of::<T>() == 0 {
        return usize::MAX;
    }
    isize::MAX as usize / size_of::<T>()
}

#[cold]
fn no_list(is_null: bool, length: usize, name: &'static str) -> Fault {
    if is_null {
        return Fault::null(name);
    }
    Fault::argument(
        k::MPI_ERR_COUNT,
        name,
        "a list that lies within the addresses of a process",
        format!("one of {length} elements"),
        "check the arithmetic that led to its length",
    )
}

/// A list.
///
/// # Safety
/// As the head of the module says.
#[inline]
pub unsafe fn slice<'a, T>(
    address: *const T,
    length: usize,
    name: &'static str,
) -> Checked<&'a [T]> {
    if length == 0 {
        return Ok(&[]);
    }
    if address.is_null() || length > longest::<T>() {
        return Err(no_list(address.is_null(), length, name));
    }
    // SAFETY: the list has `length` elements, as the binding says for the two parameters, which do not change until
    // the call returns (MPI 5.0, section 2.3); null, and more bytes than there are addresses, were checked.
    Ok(unsafe { std::slice::from_raw_parts(address, length) })
}

/// A list that is written.
///
/// # Safety
/// As the head of the module says.
#[inline]
pub unsafe fn slice_mut<'a, T>(
    address: *mut T,
    length: usize,
    name: &'static str,
) -> Checked<&'a mut [T]> {
    if length == 0 {
        return Ok(&mut []);
    }
    if address.is_null() || length > longest::<T>() {
        return Err(no_list(address.is_null(), length, name));
    }
    // SAFETY: the list has room for `length` elements, as the binding says for the two parameters, which nobody else
    // uses until the call returns (MPI 5.0, section 2.3); null, and more bytes than there are addresses, were checked.
    Ok(unsafe { std::slice::from_raw_parts_mut(address, length) })
}

/// A status to be read.
///
/// # Safety
/// As the head of the module says.
pub unsafe fn status<'a>(address: *const c::Status, name: &'static str) -> Checked<&'a c::Status> {
    // SAFETY: `MPI_STATUS_IGNORE`, which is null, or a status that may be read until the call returns (MPI 5.0, section
    // 3.2.5).
    unsafe { address.as_ref() }.ok_or_else(|| {
        Fault::argument(
            k::MPI_ERR_ARG,
            name,
            "a status",
            "MPI_STATUS_IGNORE",
            "pass a status to the call that completes the operation, and look at that",
        )
    })
}

/// A text.
///
/// # Safety
/// As the head of the module says; it ends with a zero.
pub unsafe fn text<'a>(address: *const c_char, name: &'static str) -> Checked<&'a CStr> {
    if address.is_null() {
        return Err(Fault::argument(
            k::MPI_ERR_ARG,
            name,
            "a text",
            "a null pointer",
            "pass a text, empty if need be",
        ));
    }
    // SAFETY: a string that ends with a zero and does not change until the call returns (MPI 5.0, chapter 2); null was
    // checked.
    Ok(unsafe { CStr::from_ptr(address) })
}

/// The address of room for a text.
///
/// # Safety
/// As the head of the module says.
pub unsafe fn text_out(address: *mut c_char, name: &'static str) -> Checked<TextOut> {
    if address.is_null() {
        return Err(Fault::null(name));
    }
    // SAFETY: room for as many characters as the standard's constant for this parameter says (`MPI_MAX_…`), or another
    // parameter; null was checked.
    Ok(unsafe { TextOut::new(address) })
}
