//! Statuses of MPICH: 20 bytes.

use core::ffi::c_int;

/// `MPI_Status`. The count has 63 bits, in two words, with the bit for cancelled between them.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Classic {
    count_low: c_int,
    count_high_and_cancelled: c_int,
    pub source: c_int,
    pub tag: c_int,
    pub error: c_int,
}

const _: () = assert!(size_of::<Classic>() == 20);

impl Classic {
    /// A status of an empty message.
    pub const fn empty(source: c_int, tag: c_int) -> Self {
        Self {
            count_low: 0,
            count_high_and_cancelled: 0,
            source,
            tag,
            error: 0,
        }
    }

    /// The number of bytes, in the two words of the standard ABI.
    pub fn bytes(&self) -> [c_int; 2] {
        let high = self.count_high_and_cancelled.cast_unsigned() >> 1;
        [self.count_low, high.cast_signed()]
    }

    /// Whether it is that of a cancelled operation.
    pub fn cancelled(&self) -> c_int {
        self.count_high_and_cancelled & 1
    }

    /// Stores both.
    ///
    /// # Safety
    /// The address is that of a status.
    #[inline(always)]
    pub unsafe fn store_amount(at: *mut Self, bytes: [c_int; 2], cancelled: c_int) {
        let high = bytes[1].wrapping_shl(1) | cancelled;
        // SAFETY: as this function demands.
        unsafe {
            (&raw mut (*at).count_low).write_unaligned(bytes[0]);
            (&raw mut (*at).count_high_and_cancelled).write_unaligned(high);
        }
    }
}
