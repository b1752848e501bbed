//! Differences between the two ABIs for which this code is compiled: the standard ABI and that of MPICH.
//!
//! Handles are integers of four bytes in Fortran, in C of four or eight. In a register, or in a zeroed variable of eight bytes,
//! both are the same; in an array they are not.

use std::ffi::c_int;

/// An element of an array of handles in C.
#[cfg(not(feature = "mpich"))]
pub type Element = usize;
/// An element of an array of handles in C.
#[cfg(feature = "mpich")]
pub type Element = c_int;

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
