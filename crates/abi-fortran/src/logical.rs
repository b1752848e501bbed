//! Logicals: what a compiler has for true and false.
//!
//! Whatever is not zero is true when it comes from the program. What is given to it is 1 and 0, unless somebody has told the
//! library something else by `MPI_Abi_set_fortran_booleans`.

use std::ffi::{c_int, c_void};

use weft_atomic::{AtomicI32, Ordering};

use crate::generated::c;

/// No number of a truth that a call of C gives: it has not written it.
pub const UNSET: c_int = c_int::MIN;

static TRUE: AtomicI32 = AtomicI32::new(1);
static FALSE: AtomicI32 = AtomicI32::new(0);

/// A truth as C has it.
///
/// # Safety
/// The address is that of a logical.
#[inline(always)]
pub unsafe fn load(at: *const c_int) -> c_int {
    // SAFETY: as this function demands.
    c_int::from(unsafe { at.read_unaligned() } != 0)
}

/// A truth as Fortran has it.
pub fn of(truth: bool) -> c_int {
    let value = if truth { &TRUE } else { &FALSE };
    value.load(Ordering::Relaxed)
}

/// Gives the program a truth that a call has written.
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

/// Gives the program truths that a call has written into its array.
///
/// # Safety
/// The array has that many elements.
pub unsafe fn store_all(code: c_int, at: *mut c_int, count: usize) {
    for place in 0..if code == 0 { count } else { 0 } {
        // SAFETY: as this function demands.
        unsafe { store(at.add(place), at.add(place).read_unaligned()) };
    }
}

/// Learns what was told to the library, or tells it.
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
