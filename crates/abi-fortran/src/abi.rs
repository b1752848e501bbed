//! What differs between the two ABIs for which this code is compiled: that of the standard, and that of MPICH.
//!
//! Handles are integers of four bytes in Fortran, whatever C has. In a register, and in a variable of eight bytes that is zero,
//! either has the same form; an array of them has not.

use std::ffi::c_int;

/// An element of an array of handles in C.
#[cfg(not(feature = "mpich"))]
pub type Element = usize;
/// An element of an array of handles in C.
#[cfg(feature = "mpich")]
pub type Element = c_int;

/// The key that C has for one of Fortran.
#[cfg(not(feature = "mpich"))]
pub const fn keyval(of_fortran: c_int) -> c_int {
    of_fortran
}

/// The key that C has for one of Fortran: those of predefined attributes have the next number there, since what C has is the
/// address of the value.
#[cfg(feature = "mpich")]
pub const fn keyval(of_fortran: c_int) -> c_int {
    match of_fortran >> 24 {
        // Of communicators and of windows.
        0x64 | 0x66 if of_fortran % 2 == 0 => of_fortran - 1,
        _ => of_fortran,
    }
}
