//! Numbers and handles, as Fortran passes them: by address.

use core::ffi::c_int;

pub use crate::abi::{number, word};

/// An integer.
///
/// # Safety
/// The address is that of one.
#[inline(always)]
pub unsafe fn int(at: *const c_int) -> c_int {
    // SAFETY: as this function demands.
    unsafe { at.read_unaligned() }
}

/// An integer of eight bytes: a count or an offset.
///
/// # Safety
/// The address is that of one.
#[inline(always)]
pub unsafe fn long(at: *const i64) -> i64 {
    // SAFETY: as this function demands.
    unsafe { at.read_unaligned() }
}

/// An address.
///
/// # Safety
/// The address is that of such an integer.
#[inline(always)]
pub unsafe fn aint(at: *const isize) -> isize {
    // SAFETY: as this function demands.
    unsafe { at.read_unaligned() }
}

/// A handle in the form of C.
///
/// # Safety
/// The address is that of an integer.
#[inline(always)]
pub unsafe fn handle(at: *const c_int) -> usize {
    // SAFETY: as this function demands.
    word(unsafe { at.read_unaligned() })
}

/// Stores a handle for the program.
///
/// # Safety
/// The address is that of an integer.
#[inline(always)]
pub unsafe fn store_handle(at: *mut c_int, handle: usize) {
    // SAFETY: as this function demands.
    unsafe { at.write_unaligned(number(handle)) };
}
