//! Error codes: the same numbers as in C, returned in the last argument.

use core::ffi::c_int;

/// Stores the outcome of a call for the program, if it wants it.
///
/// # Safety
/// The address is null or that of an integer.
#[inline(always)]
pub unsafe fn finish(ierror: *mut c_int, code: c_int) {
    if !ierror.is_null() {
        // SAFETY: as this function demands.
        unsafe { ierror.write_unaligned(code) };
    }
}
