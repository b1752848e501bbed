//! Arrays of handles and of numbers, translated for the duration of a call. Short ones are on the stack.

use alloc::vec;
use alloc::vec::Vec;
use core::ffi::c_int;
use core::mem::MaybeUninit;

use crate::handle::Handle;

/// Arrays up to this length need no allocation.
const SHORT: usize = 16;

/// The elements of the standard ABI that correspond to those that the program has passed.
pub struct Translated<T> {
    short: [MaybeUninit<T>; SHORT],
    long: Vec<T>,
    count: usize,
    /// Whether the program has passed an array at all.
    given: bool,
}

impl<T: Copy> Translated<T> {
    /// # Safety
    /// The array is null or has `count` elements.
    #[inline]
    pub unsafe fn new<C: Copy>(array: *const C, count: usize, decode: impl Fn(C) -> T) -> Self {
        let given = !array.is_null();
        let count = if given { count } else { 0 };
        let mut made = Self {
            short: [MaybeUninit::uninit(); SHORT],
            long: Vec::new(),
            count,
            given,
        };
        // SAFETY: the caller guarantees that many elements.
        let element = |place| decode(unsafe { array.add(place).read_unaligned() });
        if count <= SHORT {
            for (place, word) in made.short[..count].iter_mut().enumerate() {
                word.write(element(place));
            }
        } else {
            made.long = (0..count).map(element).collect();
        }
        made
    }

    /// Room for the elements that a call writes: what is in the array of the program is not read.
    pub fn room<C>(array: *const C, count: usize, unset: T) -> Self {
        let given = !array.is_null();
        let count = if given { count } else { 0 };
        Self {
            short: [MaybeUninit::new(unset); SHORT],
            long: vec![unset; if count > SHORT { count } else { 0 }],
            count,
            given,
        }
    }

    /// Their address; null if the program has passed none.
    #[inline]
    pub fn as_mut_ptr(&mut self) -> *mut T {
        match (self.given, self.count <= SHORT) {
            (false, _) => core::ptr::null_mut(),
            (true, true) => self.short.as_mut_ptr().cast(),
            (true, false) => self.long.as_mut_ptr(),
        }
    }

    fn get(&self, place: usize) -> T {
        if self.count <= SHORT {
            // SAFETY: all of the first `count` were written when it was made.
            unsafe { self.short[place].assume_init() }
        } else {
            self.long[place]
        }
    }

    /// Stores the elements in the array of the program.
    ///
    /// # Safety
    /// As when it was made, and the array may be written.
    #[inline]
    pub unsafe fn store<C: Copy + PartialEq>(&self, array: *mut C, encode: impl Fn(T) -> C) {
        // SAFETY: as this function demands.
        unsafe { self.store_first(array, self.count, encode) }
    }

    /// Stores the first `count` elements in the array of the program.
    ///
    /// # Safety
    /// As for [`store`](Self::store).
    pub unsafe fn store_first<C: Copy + PartialEq>(
        &self,
        array: *mut C,
        count: usize,
        encode: impl Fn(T) -> C,
    ) {
        for place in 0..count.min(self.count) {
            let new = encode(self.get(place));
            let at = array.wrapping_add(place);
            // SAFETY: as this function demands. An element that has not changed is not written: another
            // thread may be reading it.
            unsafe {
                if at.read_unaligned() != new {
                    at.write_unaligned(new);
                }
            }
        }
    }
}

/// Handles.
///
/// # Safety
/// The array is null or has `count` elements.
#[inline]
pub unsafe fn handles<H: Handle>(array: *const H::Classic, count: usize) -> Translated<usize> {
    // SAFETY: as this function demands.
    unsafe { Translated::new(array, count, H::decode) }
}

/// Room for handles that a call writes; one that it does not write is 0, which is no handle.
pub fn handles_to_come<H: Handle>(array: *const H::Classic, count: usize) -> Translated<usize> {
    Translated::room(array, count, 0)
}

/// A length as C passes it, 0 for a negative one: the call itself reports that, and reads no element.
#[inline(always)]
pub fn length(count: impl Into<i64>) -> usize {
    usize::try_from(count.into()).unwrap_or(0)
}

/// Translates numbers in place, if the call has succeeded.
///
/// # Safety
/// The array is null or has `count` elements that the call has written.
pub unsafe fn encode_numbers(
    code: c_int,
    array: *mut c_int,
    count: usize,
    encode: impl Fn(c_int) -> c_int,
) {
    if code != 0 || array.is_null() {
        return;
    }
    for place in 0..count {
        // SAFETY: as this function demands.
        unsafe {
            let at = array.add(place);
            at.write_unaligned(encode(at.read_unaligned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handle::Request;

    #[test]
    fn short_and_long_arrays_are_alike() {
        for count in [0, 1, SHORT, SHORT + 1, 1000] {
            let made: Vec<_> = (0..count)
                .map(|place| Request::encode(1 << 30 | place))
                .collect();
            let mut back = made.clone();
            // SAFETY: both have that many elements.
            unsafe {
                let mut array = handles::<Request>(made.as_ptr(), count);
                for place in 0..count {
                    assert_eq!(array.as_mut_ptr().add(place).read(), 1 << 30 | place);
                    array.as_mut_ptr().add(place).write(0x180);
                }
                array.store(back.as_mut_ptr(), Request::encode);
            }
            assert!(back.iter().all(|&handle| handle == Request::encode(0x180)));
        }
        // What the array contains before is no handle of Open MPI's: an address that cannot be read.
        for count in [2, SHORT + 1] {
            let mut garbage = vec![2; count];
            let mut room = handles_to_come::<Request>(garbage.as_ptr(), count);
            // SAFETY: both have that many elements.
            unsafe {
                room.as_mut_ptr().add(1).write(0x180);
                room.store(garbage.as_mut_ptr(), Request::encode);
            }
            assert_eq!(garbage[1], Request::encode(0x180));
        }
        // SAFETY: null is allowed.
        let mut nothing = unsafe { handles::<Request>(core::ptr::null(), 5) };
        assert!(nothing.as_mut_ptr().is_null());
    }
}
