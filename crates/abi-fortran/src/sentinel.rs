//! Addresses with a special meaning: variables in common blocks, which are recognized by their address.
//!
//! A program that uses one also defines it, and the dynamic linker makes both the same variable.

use core::ffi::{c_char, c_int, c_void};

use crate::generated::constants::{MPI_BUFFER_AUTOMATIC, MPI_IN_PLACE};

/// Defines common blocks, with their number of integers, and functions that return the address of a variable
/// in one.
macro_rules! commons {
    ($($block:ident: $size:literal { $($variable:ident + $offset:literal)* })*) => {
        variables! { c_int: $($block: $size { $($variable + $offset)* })* }
    };
}

/// As [`commons`], of elements of any type. A program that is not position-independent has a copy of a variable, which has exactly its size.
macro_rules! variables {
    ($element:ty: $($block:ident: $size:literal { $($variable:ident + $offset:literal)* })*) => {$(
        #[doc = "Nobody reads what is in it."]
        #[unsafe(no_mangle)]
        #[allow(non_upper_case_globals)]
        pub static mut $block: [$element; $size] = [0; $size];
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

/// Open MPI has no name for it that a program in Fortran could pass: this is the address of another one, which is compared first.
#[cfg(feature = "openmpi")]
fn buffer_automatic() -> *mut c_void {
    bottom()
}

// Variables of MPICH's modules of mpi_f08: of C until MPICH 4, of module mpi_f08_link_constants since. Its mpif.h has no `MPI_BUFFER_AUTOMATIC`.
#[cfg(feature = "mpich")]
commons! {
    MPIR_F08_MPI_BOTTOM: 1 { bottom_of_c + 0 }
    MPIR_F08_MPI_IN_PLACE: 1 { in_place_of_c + 0 }
    MPIR_F08_MPI_STATUS_IGNORE_OBJ: 5 { status_ignore_of_c + 0 }
    MPIR_F08_MPI_STATUSES_IGNORE_OBJ: 5 { statuses_ignore_of_c + 0 }
    __mpi_f08_link_constants_MOD_mpi_bottom: 1 { bottom_of_f08 + 0 }
    __mpi_f08_link_constants_MOD_mpi_in_place: 1 { in_place_of_f08 + 0 }
    __mpi_f08_link_constants_MOD_mpi_buffer_automatic: 1 { buffer_automatic + 0 }
    __mpi_f08_link_constants_MOD_mpi_status_ignore: 5 { status_ignore_of_f08 + 0 }
    __mpi_f08_link_constants_MOD_mpi_statuses_ignore: 5 { statuses_ignore_of_f08 + 0 }
    __mpi_f08_link_constants_MOD_mpi_errcodes_ignore: 1 { errcodes_ignore_of_f08 + 0 }
    __mpi_f08_link_constants_MOD_mpi_unweighted: 1 { unweighted_of_f08 + 0 }
    __mpi_f08_link_constants_MOD_mpi_weights_empty: 1 { weights_empty_of_f08 + 0 }
}
#[cfg(feature = "mpich")]
variables! { u8:
    __mpi_f08_link_constants_MOD_mpi_argv_null: 1 { argv_null_of_f08 + 0 }
    __mpi_f08_link_constants_MOD_mpi_argvs_null: 1 { argvs_null_of_f08 + 0 }
}

/// Defines for each meaning a function that tells whether an address has it.
macro_rules! meanings {
    ($($name:ident: $($variable:ident)*; $($of_mpich:ident)*;)*) => {$(
        #[inline(always)]
        fn $name(at: *mut c_void) -> bool {
            #[cfg(feature = "mpich")]
            let others = false $(|| at == $of_mpich())*;
            #[cfg(not(feature = "mpich"))]
            let others = false;
            $(at == $variable() ||)* others
        }
    )*};
}

meanings! {
    is_status_ignore: status_ignore; status_ignore_of_c status_ignore_of_f08;
    is_statuses_ignore: statuses_ignore; statuses_ignore_of_c statuses_ignore_of_f08;
    is_errcodes_ignore: errcodes_ignore; errcodes_ignore_of_f08;
    is_unweighted: unweighted; unweighted_of_f08;
    is_weights_empty: weights_empty; weights_empty_of_f08;
    is_no_argument: argv_null argvs_null; argv_null_of_f08 argvs_null_of_f08;
}

/// A buffer of a call of MPICH's module `mpi_f08`, in the form of its `mpif.h`.
#[cfg(feature = "mpich")]
pub fn buffer_of_f08(at: *mut c_void) -> *mut c_void {
    if at == bottom_of_c() || at == bottom_of_f08() {
        bottom()
    } else if at == in_place_of_c() || at == in_place_of_f08() {
        in_place()
    } else {
        at
    }
}

/// `MPI_UNWEIGHTED` and `MPI_WEIGHTS_EMPTY` in C.
#[cfg(not(feature = "mpich"))]
fn weights_of_c() -> [*mut c_int; 2] {
    use crate::generated::constants::{MPI_UNWEIGHTED, MPI_WEIGHTS_EMPTY};

    [MPI_UNWEIGHTED, MPI_WEIGHTS_EMPTY].map(core::ptr::without_provenance_mut)
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
        core::ptr::null_mut()
    } else if at == in_place() {
        core::ptr::without_provenance_mut(MPI_IN_PLACE)
    } else if at == buffer_automatic() {
        core::ptr::without_provenance_mut(MPI_BUFFER_AUTOMATIC)
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
    if is_status_ignore(at.cast()) {
        core::ptr::null_mut()
    } else {
        at
    }
}

/// Statuses; null if the program wants none.
#[inline(always)]
pub fn statuses(at: *mut c_int) -> *mut c_int {
    if is_statuses_ignore(at.cast()) {
        core::ptr::null_mut()
    } else {
        status(at)
    }
}

/// Weights of edges.
pub fn weights(at: *mut c_int) -> *mut c_int {
    if is_unweighted(at.cast()) {
        weights_of_c()[0]
    } else if is_weights_empty(at.cast()) {
        weights_of_c()[1]
    } else {
        at
    }
}

/// Error codes of processes; null if the program wants none.
pub fn error_codes(at: *mut c_int) -> *mut c_int {
    if is_errcodes_ignore(at.cast()) {
        core::ptr::null_mut()
    } else {
        at
    }
}

/// Whether the program to be started gets no arguments.
pub fn is_argv_null(at: *const c_char) -> bool {
    is_no_argument(at.cast_mut().cast())
}
