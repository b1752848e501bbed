//! Statuses: 32 bytes in the standard ABI; fewer in the foreign one, whose module has the layout.

use alloc::vec;
use alloc::vec::Vec;
use core::ffi::c_int;

pub use crate::own::status::Classic;
use crate::{error, number};

/// `MPI_Status` of the standard ABI, with the contents that Weft gives it: the number of bytes in two words,
/// whether it was cancelled in a third.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Standard {
    source: c_int,
    tag: c_int,
    error: c_int,
    bytes: [c_int; 2],
    cancelled: c_int,
    unused: [c_int; 2],
}

const _: () = assert!(size_of::<Standard>() == 32);

/// Neither a source nor an error code: marks a field that the call has not written.
const UNSET: c_int = c_int::MIN;

impl Standard {
    /// A status to which nothing has been written.
    #[inline(always)]
    pub const fn unset() -> Self {
        Self {
            source: UNSET,
            tag: 0,
            error: UNSET,
            bytes: [0; 2],
            cancelled: 0,
            unused: [0; 2],
        }
    }

    /// The status that a program passes.
    ///
    /// # Safety
    /// The address is null, `MPI_STATUS_IGNORE`, or that of a status.
    pub unsafe fn load(at: *const Classic) -> Self {
        if is_none(at) {
            return Self::unset();
        }
        // SAFETY: as this function demands.
        let classic = unsafe { at.read_unaligned() };
        Self {
            source: number::rank::decode(classic.source),
            tag: number::tag::decode(classic.tag),
            error: error::decode(classic.error),
            bytes: classic.bytes(),
            cancelled: classic.cancelled(),
            unused: [0; 2],
        }
    }

    /// Stores for the program the fields that a call has written, and no others: only some calls write
    /// `MPI_ERROR`.
    ///
    /// # Safety
    /// As for [`load`](Self::load).
    #[inline(always)]
    pub unsafe fn store(&self, at: *mut Classic) {
        if is_none(at) || self.source == UNSET {
            return;
        }
        // SAFETY: as this function demands; fields are written one by one, because the last one may have to
        // stay unchanged.
        unsafe {
            Classic::store_amount(at, self.bytes, self.cancelled);
            (&raw mut (*at).source).write_unaligned(number::rank::encode(self.source));
            (&raw mut (*at).tag).write_unaligned(number::tag::encode(self.tag));
            if self.error != UNSET {
                (&raw mut (*at).error).write_unaligned(error::encode(self.error));
            }
        }
    }

    /// The address of this status, or `MPI_STATUS_IGNORE` of the standard ABI.
    #[inline(always)]
    pub fn out_pointer(&mut self, at: *const Classic) -> *mut Self {
        if is_none(at) {
            core::ptr::null_mut()
        } else {
            self
        }
    }
}

/// Whether the program wants no status: `MPI_STATUS_IGNORE`, `MPI_STATUSES_IGNORE`, or nothing at all.
#[inline(always)]
pub fn is_none(at: *const Classic) -> bool {
    at.is_null() || at.addr() == number::STATUS_IGNORE
}

/// Statuses of a call that completes several requests.
pub struct Array {
    at: *mut Classic,
    statuses: Vec<Standard>,
}

impl Array {
    /// As many as the call may write.
    pub fn new(at: *mut Classic, count: c_int) -> Self {
        let count = if is_none(at) {
            0
        } else {
            usize::try_from(count).unwrap_or(0)
        };
        Self {
            at,
            statuses: vec![Standard::unset(); count],
        }
    }

    /// The address at which the call writes them.
    pub fn as_mut_ptr(&mut self) -> *mut Standard {
        if is_none(self.at) {
            core::ptr::null_mut()
        } else {
            self.statuses.as_mut_ptr()
        }
    }

    /// Stores them for the program.
    ///
    /// # Safety
    /// The program has passed an array of that many statuses, or wants none.
    pub unsafe fn store(&self) {
        for (place, status) in self.statuses.iter().enumerate() {
            // SAFETY: as this function demands.
            unsafe { status.store(self.at.wrapping_add(place)) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::STANDARD_ANY_SOURCE;

    /// `MPI_ERR_TRUNCATE` of the standard ABI.
    const TRUNCATED: c_int = 15;

    #[test]
    fn a_status_survives_the_way() {
        let mut given = Classic::empty(number::rank::encode(STANDARD_ANY_SOURCE), 33);
        given.error = error::encode(TRUNCATED);
        let mut back = Classic::empty(0, 0);
        // SAFETY: both are statuses.
        unsafe {
            Classic::store_amount(&mut given, [-5, 7], 1);
            let standard = Standard::load(&given);
            assert_eq!(
                (standard.source, standard.tag, standard.error),
                (STANDARD_ANY_SOURCE, 33, TRUNCATED)
            );
            assert_eq!((standard.bytes, standard.cancelled), ([-5, 7], 1));
            standard.store(&mut back);
        }
        assert_eq!(back, given);
    }

    #[test]
    fn what_no_call_wrote_stays() {
        let mut given = Classic::empty(3, 4);
        given.error = 5;
        let mut status = given;
        let mut standard = Standard::unset();
        // SAFETY: it is a status.
        unsafe { standard.store(&mut status) };
        assert_eq!(status, given);
        standard.source = 0;
        // SAFETY: as before.
        unsafe { standard.store(&mut status) };
        assert_eq!((status.source, status.error), (0, 5));
    }
}
