//! Addresses with a meaning of their own: variables in common blocks, which are known by where they are.
//!
//! A program that uses one has it as well, and the dynamic linker makes one of both.

use std::ffi::{c_char, c_int, c_void};

use crate::generated::constants::{
    MPI_BUFFER_AUTOMATIC, MPI_IN_PLACE, MPI_UNWEIGHTED, MPI_WEIGHTS_EMPTY,
};

macro_rules! commons {
    ($($name:ident: $kind:ty = $value:expr;)*) => {$(
        #[doc = "A common block; nobody reads what is in it."]
        #[unsafe(no_mangle)]
        #[allow(non_upper_case_globals)]
        pub static mut $name: $kind = $value;
    )*};
}

commons! {
    mpi_fortran_bottom_: c_int = 0;
    mpi_fortran_in_place_: c_int = 0;
    mpi_fortran_buffer_automatic_: c_int = 0;
    mpi_fortran_status_ignore_: [c_int; 8] = [0; 8];
    mpi_fortran_statuses_ignore_: [c_int; 8] = [0; 8];
    mpi_fortran_errcodes_ignore_: c_int = 0;
    mpi_fortran_argv_null_: c_char = 0;
    mpi_fortran_argvs_null_: c_char = 0;
    mpi_fortran_unweighted_: c_int = 0;
    mpi_fortran_weights_empty_: c_int = 0;
}

/// A buffer.
#[inline(always)]
pub fn buffer(at: *mut c_void) -> *mut c_void {
    if at == (&raw mut mpi_fortran_bottom_).cast() {
        std::ptr::null_mut()
    } else if at == (&raw mut mpi_fortran_in_place_).cast() {
        std::ptr::without_provenance_mut(MPI_IN_PLACE)
    } else if at == (&raw mut mpi_fortran_buffer_automatic_).cast() {
        std::ptr::without_provenance_mut(MPI_BUFFER_AUTOMATIC)
    } else {
        at
    }
}

/// Whether a buffer is `MPI_IN_PLACE`.
pub fn is_in_place(at: *mut c_void) -> bool {
    at == (&raw mut mpi_fortran_in_place_).cast()
}

/// A status; null if the program wants none.
#[inline(always)]
pub fn status(at: *mut c_int) -> *mut c_int {
    if at == (&raw mut mpi_fortran_status_ignore_).cast() {
        std::ptr::null_mut()
    } else {
        at
    }
}

/// Statuses; null if the program wants none.
#[inline(always)]
pub fn statuses(at: *mut c_int) -> *mut c_int {
    if at == (&raw mut mpi_fortran_statuses_ignore_).cast() {
        std::ptr::null_mut()
    } else {
        status(at)
    }
}

/// Weights of edges.
pub fn weights(at: *mut c_int) -> *mut c_int {
    if at == &raw mut mpi_fortran_unweighted_ {
        std::ptr::without_provenance_mut(MPI_UNWEIGHTED)
    } else if at == &raw mut mpi_fortran_weights_empty_ {
        std::ptr::without_provenance_mut(MPI_WEIGHTS_EMPTY)
    } else {
        at
    }
}

/// Error codes of processes; null if the program wants none.
pub fn error_codes(at: *mut c_int) -> *mut c_int {
    if at == &raw mut mpi_fortran_errcodes_ignore_ {
        std::ptr::null_mut()
    } else {
        at
    }
}

/// Whether there are no arguments of a program to be started.
pub fn is_argv_null(at: *const c_char) -> bool {
    at == &raw const mpi_fortran_argv_null_ || at == &raw const mpi_fortran_argvs_null_
}
