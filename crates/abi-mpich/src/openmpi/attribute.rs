//! Predefined functions of attributes. All of them are functions of the library, also those that do nothing.
//!
//! They are recognized by nothing: in an executable at a fixed address, the address of such a function may be one of the executable's own. So they are
//! called like functions of the program, and do what they stand for.

#![allow(non_snake_case, missing_docs, clippy::missing_safety_doc)]

use core::ffi::{c_int, c_void};

use crate::handle::Word;

/// Whether it is the address of the function that gives the copy the same value: not known.
pub fn duplicates(_function: usize) -> bool {
    false
}

macro_rules! functions {
    ($($null_copy:ident $null_delete:ident $duplicate:ident;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $null_copy(
            _object: Word,
            _keyval: c_int,
            _extra_state: *mut c_void,
            _value: *mut c_void,
            _copy: *mut c_void,
            flag: *mut c_int,
        ) -> c_int {
            // SAFETY: the caller passes the address of a number.
            unsafe { flag.write_unaligned(0) };
            0
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $null_delete(
            _object: Word,
            _keyval: c_int,
            _value: *mut c_void,
            _extra_state: *mut c_void,
        ) -> c_int {
            0
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $duplicate(
            _object: Word,
            _keyval: c_int,
            _extra_state: *mut c_void,
            value: *mut c_void,
            copy: *mut c_void,
            flag: *mut c_int,
        ) -> c_int {
            // SAFETY: the caller passes addresses of a pointer and of a number.
            unsafe {
                copy.cast::<*mut c_void>().write_unaligned(value);
                flag.write_unaligned(1);
            }
            0
        }
    )*};
}

functions! {
    OMPI_C_MPI_NULL_COPY_FN OMPI_C_MPI_NULL_DELETE_FN OMPI_C_MPI_DUP_FN;
    OMPI_C_MPI_COMM_NULL_COPY_FN OMPI_C_MPI_COMM_NULL_DELETE_FN OMPI_C_MPI_COMM_DUP_FN;
    OMPI_C_MPI_TYPE_NULL_COPY_FN OMPI_C_MPI_TYPE_NULL_DELETE_FN OMPI_C_MPI_TYPE_DUP_FN;
    OMPI_C_MPI_WIN_NULL_COPY_FN OMPI_C_MPI_WIN_NULL_DELETE_FN OMPI_C_MPI_WIN_DUP_FN;
}
