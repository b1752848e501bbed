//! Differences between the ABIs for which this code is compiled: the standard ABI, that of MPICH, and that of Open MPI.
//!
//! Handles are integers of four bytes in Fortran, in C of four or eight. In the standard ABI and that of MPICH, both are the same in a register, or in a
//! zeroed variable of eight bytes; in an array they are not. In the ABI of Open MPI, C has addresses of objects, and odd numbers for objects that the
//! program has made; `libmpi.so.40` also takes an integer of Fortran in that form.

use core::ffi::c_int;

/// An element of an array of handles in C.
#[cfg(not(feature = "mpich"))]
pub type Element = usize;
/// An element of an array of handles in C.
#[cfg(feature = "mpich")]
pub type Element = c_int;

/// The handle of C that an integer names.
#[cfg(not(feature = "openmpi"))]
#[inline(always)]
pub const fn word(number: c_int) -> usize {
    number.cast_unsigned() as usize
}

/// The handle of C that an integer names.
#[cfg(feature = "openmpi")]
#[inline(always)]
pub const fn word(number: c_int) -> usize {
    (number.cast_unsigned() as usize) << 1 | 1
}

/// The integer that names a handle of C.
#[cfg(not(feature = "openmpi"))]
#[inline(always)]
pub const fn number(handle: usize) -> c_int {
    handle as c_int
}

/// The integer that names a handle of C: for a predefined one, it is in the second word of the object.
#[cfg(feature = "openmpi")]
#[inline(always)]
pub fn number(handle: usize) -> c_int {
    if handle & 1 != 0 {
        return (handle >> 1) as c_int;
    }
    // SAFETY: the library of C has given the handle: it is the address of one of its objects.
    unsafe { core::ptr::with_exposed_provenance::<c_int>(handle + 8).read() }
}

/// The integer that names the handle in an element of an array of C.
#[cfg(not(feature = "mpich"))]
#[inline(always)]
pub fn number_of_element(element: Element) -> c_int {
    number(element)
}

/// The integer that names the handle in an element of an array of C.
#[cfg(feature = "mpich")]
#[inline(always)]
pub const fn number_of_element(element: Element) -> c_int {
    element
}

/// The key in C for a key of Fortran.
#[cfg(not(feature = "mpich"))]
pub const fn keyval(of_fortran: c_int) -> c_int {
    of_fortran
}

/// The key in C for a key of Fortran: in Fortran the keys of predefined attributes have the next number, because in C the
/// attribute is the address of the value.
#[cfg(feature = "mpich")]
pub const fn keyval(of_fortran: c_int) -> c_int {
    match of_fortran >> 24 {
        // Of communicators and of windows.
        0x64 | 0x66 if of_fortran % 2 == 0 => of_fortran - 1,
        _ => of_fortran,
    }
}
