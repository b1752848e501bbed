//! Error codes: the same numbers, given by the last argument.

use std::ffi::c_int;

/// Gives the program the outcome of a call, if it wants it.
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
