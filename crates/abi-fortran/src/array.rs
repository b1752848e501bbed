//! Arrays of handles, translated for the duration of a call, and indices that begin at one. Short arrays are
//! on the stack.

use alloc::vec::Vec;
use core::ffi::c_int;
use core::mem::MaybeUninit;

use crate::abi::{Element, number_of_element, word};
use crate::generated::constants::MPI_ERR_IN_STATUS;

/// Arrays up to this length need no allocation.
const SHORT: usize = 16;

/// Not an index: marks an element that the call has not written.
pub const UNSET: c_int = c_int::MIN;

/// The handles of C that correspond to those that the program has passed.
pub struct Handles {
    short: [MaybeUninit<Element>; SHORT],
    long: Vec<Element>,
    count: usize,
}

/// # Safety
/// The array has `count` elements.
#[inline]
pub unsafe fn handles(array: *const c_int, count: usize) -> Handles {
    let mut made = Handles {
        short: [MaybeUninit::uninit(); SHORT],
        long: Vec::new(),
        count,
    };
    // SAFETY: as this function demands.
    let element = |place| word(unsafe { array.add(place).read_unaligned() }) as Element;
    if count <= SHORT {
        for (place, handle) in made.short[..count].iter_mut().enumerate() {
            handle.write(element(place));
        }
    } else {
        made.long = (0..count).map(element).collect();
    }
    made
}

impl Handles {
    /// Their address.
    #[inline]
    pub fn as_mut_ptr(&mut self) -> *mut usize {
        if self.count <= SHORT {
            self.short.as_mut_ptr().cast()
        } else {
            self.long.as_mut_ptr().cast()
        }
    }

    /// Stores them in the array of the program.
    ///
    /// # Safety
    /// As when they were made, and the array may be written.
    #[inline]
    pub unsafe fn store(&self, array: *mut c_int) {
        // SAFETY: as this function demands.
        unsafe { self.store_first(array, self.count) }
    }

    /// Stores the first `count` of them in the array of the program.
    ///
    /// # Safety
    /// As for [`store`](Self::store).
    pub unsafe fn store_first(&self, array: *mut c_int, count: usize) {
        for place in 0..count.min(self.count) {
            let new = match self.count <= SHORT {
                // SAFETY: the first `count` were written when it was made.
                true => unsafe { self.short[place].assume_init() },
                false => self.long[place],
            };
            // SAFETY: as this function demands. An element that has not changed is not written: another
            // thread may be reading it.
            unsafe {
                let at = array.add(place);
                let new = number_of_element(new);
                if at.read_unaligned() != new {
                    at.write_unaligned(new);
                }
            }
        }
    }
}

/// A length as it is passed, 0 for a negative one: the call itself reports that, and reads no element.
///
/// # Safety
/// The address is that of an integer.
#[inline(always)]
pub unsafe fn length<T: Copy + Into<i64>>(count: *const T) -> usize {
    // SAFETY: as this function demands.
    usize::try_from(unsafe { count.read_unaligned() }.into()).unwrap_or(0)
}

/// Stores the index of a request for the program, counted from one.
///
/// # Safety
/// The address is that of an integer.
pub unsafe fn store_index(at: *mut c_int, place: c_int) {
    if place != UNSET {
        let index = if place < 0 { place } else { place + 1 };
        // SAFETY: as this function demands.
        unsafe { at.write_unaligned(index) };
    }
}

/// Changes indices of requests that a call has written, so that they count from one.
///
/// # Safety
/// The addresses are those of an integer and of an array that has that many elements.
pub unsafe fn from_one(code: c_int, array: *mut c_int, count: *const c_int) {
    if code != 0 && code != MPI_ERR_IN_STATUS {
        return;
    }
    // SAFETY: as this function demands. MPI_UNDEFINED is negative.
    for place in 0..unsafe { length(count) } {
        // SAFETY: as this function demands.
        unsafe { store_index(array.add(place), array.add(place).read_unaligned()) };
    }
}
