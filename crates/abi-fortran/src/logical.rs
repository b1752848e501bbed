//! Logicals: the numbers of a compiler for true and false.
//!
//! A value that comes from the program is true if it is not zero. The values given to the program are 1 and 0, unless others
//! were set by `MPI_Abi_set_fortran_booleans`.

use core::ffi::{c_int, c_void};

use weft_bare::atomics::{AtomicI32, Ordering};

use crate::generated::c;

/// Not a truth value that a call of C writes: marks one that the call has not written.
pub const UNSET: c_int = c_int::MIN;

static TRUE: AtomicI32 = AtomicI32::new(1);
static FALSE: AtomicI32 = AtomicI32::new(0);

/// A truth value in the form of C.
///
/// # Safety
/// The address is that of a logical.
#[inline(always)]
pub unsafe fn load(at: *const c_int) -> c_int {
    // SAFETY: as this function demands.
    c_int::from(unsafe { at.read_unaligned() } != 0)
}

/// A truth value in the form of Fortran.
pub fn of(truth: bool) -> c_int {
    let value = if truth { &TRUE } else { &FALSE };
    value.load(Ordering::Relaxed)
}

/// Stores for the program a truth value that a call has written.
///
/// # Safety
/// The address is that of a logical.
#[inline(always)]
pub unsafe fn store(at: *mut c_int, truth: c_int) {
    if truth != UNSET {
        // SAFETY: as this function demands.
        unsafe { at.write_unaligned(of(truth != 0)) };
    }
}

/// Converts the truth values that a call has written into an array of the program.
///
/// # Safety
/// The array has that many elements.
pub unsafe fn store_all(code: c_int, at: *mut c_int, count: usize) {
    for place in 0..if code == 0 { count } else { 0 } {
        // SAFETY: as this function demands.
        unsafe { store(at.add(place), at.add(place).read_unaligned()) };
    }
}

/// Takes the values that were set in the library, or sets them if none were.
pub fn agree() {
    let (mut truth, mut falsehood, mut is_set) = (1, 0, 0);
    let [at_truth, at_falsehood] =
        [&raw mut truth, &raw mut falsehood].map(|at: *mut c_int| at.cast::<c_void>());
    // SAFETY: all are addresses of variables of this size.
    unsafe {
        let code = c::MPI_Abi_get_fortran_booleans(4, at_truth, at_falsehood, &mut is_set);
        if code != 0 {
            return;
        }
        if is_set == 0 {
            c::MPI_Abi_set_fortran_booleans(4, at_truth, at_falsehood);
        }
    }
    TRUE.store(truth, Ordering::Relaxed);
    FALSE.store(falsehood, Ordering::Relaxed);
}
