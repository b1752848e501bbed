//! Addresses with a special meaning: variables in common blocks, which are recognized by their address.
//!
//! A program that uses one also defines it, and the dynamic linker makes both the same variable.

use std::ffi::{c_char, c_int, c_void};

use crate::generated::constants::{MPI_BUFFER_AUTOMATIC, MPI_IN_PLACE};

/// Defines common blocks, with their number of integers, and functions that return the address of a variable
/// in one.
macro_rules! commons {
    ($($block:ident: $size:literal { $($variable:ident + $offset:literal)* })*) => {$(
        #[doc = "A common block; nobody reads what is in it."]
        #[unsafe(no_mangle)]
        #[allow(non_upper_case_globals)]
        pub static mut $block: [c_int; $size] = [0; $size];
        $(
            fn $variable() -> *mut c_void {
                (&raw mut $block).cast::<c_void>().wrapping_byte_add($offset)
            }
        )*
    )*};
}

#[cfg(not(any(feature = "mpich", feature = "openmpi")))]
commons! {
    mpi_fortran_bottom_: 1 { bottom + 0 }
    mpi_fortran_in_place_: 1 { in_place + 0 }
    mpi_fortran_buffer_automatic_: 1 { buffer_automatic + 0 }
    mpi_fortran_status_ignore_: 8 { status_ignore + 0 }
    mpi_fortran_statuses_ignore_: 8 { statuses_ignore + 0 }
    mpi_fortran_errcodes_ignore_: 1 { errcodes_ignore + 0 }
    mpi_fortran_argv_null_: 1 { argv_null + 0 }
    mpi_fortran_argvs_null_: 1 { argvs_null + 0 }
    mpi_fortran_unweighted_: 1 { unweighted + 0 }
    mpi_fortran_weights_empty_: 1 { weights_empty + 0 }
}

// As in the mpif.h of MPICH and Intel MPI.
#[cfg(feature = "mpich")]
commons! {
    mpipriv1_: 7 { bottom + 0 in_place + 4 status_ignore + 8 }
    mpipriv2_: 6 { statuses_ignore + 0 errcodes_ignore + 20 }
    mpiprivc_: 1 { argvs_null + 0 argv_null + 1 }
    mpifcmb5_: 1 { unweighted + 0 }
    mpifcmb9_: 1 { weights_empty + 0 }
}

// As in the mpif.h of Open MPI.
#[cfg(feature = "openmpi")]
commons! {
    mpi_fortran_bottom_: 1 { bottom + 0 }
    mpi_fortran_in_place_: 1 { in_place + 0 }
    mpi_fortran_status_ignore_: 6 { status_ignore + 0 }
    mpi_fortran_statuses_ignore_: 6 { statuses_ignore + 0 }
    mpi_fortran_errcodes_ignore_: 1 { errcodes_ignore + 0 }
    mpi_fortran_argv_null_: 1 { argv_null + 0 }
    mpi_fortran_argvs_null_: 1 { argvs_null + 0 }
    mpi_fortran_unweighted_: 1 { unweighted + 0 }
    mpi_fortran_weights_empty_: 1 { weights_empty + 0 }
}

/// MPICH and Open MPI have no name for it that a program in Fortran could pass: this is the address of another one, which
/// is compared first.
#[cfg(any(feature = "mpich", feature = "openmpi"))]
fn buffer_automatic() -> *mut c_void {
    bottom()
}

/// `MPI_UNWEIGHTED` and `MPI_WEIGHTS_EMPTY` in C.
#[cfg(not(feature = "mpich"))]
fn weights_of_c() -> [*mut c_int; 2] {
    use crate::generated::constants::{MPI_UNWEIGHTED, MPI_WEIGHTS_EMPTY};

    [MPI_UNWEIGHTED, MPI_WEIGHTS_EMPTY].map(std::ptr::without_provenance_mut)
}

/// `MPI_UNWEIGHTED` and `MPI_WEIGHTS_EMPTY` in C: addresses in its library.
#[cfg(feature = "mpich")]
fn weights_of_c() -> [*mut c_int; 2] {
    unsafe extern "C" {
        static MPI_UNWEIGHTED: *mut c_int;
        static MPI_WEIGHTS_EMPTY: *mut c_int;
    }
    // SAFETY: nothing writes them.
    unsafe { [MPI_UNWEIGHTED, MPI_WEIGHTS_EMPTY] }
}

/// A buffer.
#[inline(always)]
pub fn buffer(at: *mut c_void) -> *mut c_void {
    if at == bottom() {
        std::ptr::null_mut()
    } else if at == in_place() {
        std::ptr::without_provenance_mut(MPI_IN_PLACE)
    } else if at == buffer_automatic() {
        std::ptr::without_provenance_mut(MPI_BUFFER_AUTOMATIC)
    } else {
        at
    }
}

/// Whether a buffer is `MPI_IN_PLACE`.
pub fn is_in_place(at: *mut c_void) -> bool {
    at == in_place()
}

/// A status; null if the program wants none.
#[inline(always)]
pub fn status(at: *mut c_int) -> *mut c_int {
    if at.cast() == status_ignore() {
        std::ptr::null_mut()
    } else {
        at
    }
}

/// Statuses; null if the program wants none.
#[inline(always)]
pub fn statuses(at: *mut c_int) -> *mut c_int {
    if at.cast() == statuses_ignore() {
        std::ptr::null_mut()
    } else {
        status(at)
    }
}

/// Weights of edges.
pub fn weights(at: *mut c_int) -> *mut c_int {
    if at.cast() == unweighted() {
        weights_of_c()[0]
    } else if at.cast() == weights_empty() {
        weights_of_c()[1]
    } else {
        at
    }
}

/// Error codes of processes; null if the program wants none.
pub fn error_codes(at: *mut c_int) -> *mut c_int {
    if at.cast() == errcodes_ignore() {
        std::ptr::null_mut()
    } else {
        at
    }
}

/// Whether the program to be started gets no arguments.
pub fn is_argv_null(at: *const c_char) -> bool {
    let at = at.cast_mut().cast();
    at == argv_null() || at == argvs_null()
}
