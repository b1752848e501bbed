//! Predefined functions of attributes. Those that do nothing are null.

#![allow(non_snake_case, missing_docs, clippy::missing_safety_doc)]

use core::ffi::{c_int, c_void};

/// `MPI_DUP_FN` and its like: gives the copy the same value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIR_Dup_fn(
    _object: c_int,
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

/// Whether it is the address of that function.
pub fn duplicates(function: usize) -> bool {
    function == MPIR_Dup_fn as *const () as usize
}
