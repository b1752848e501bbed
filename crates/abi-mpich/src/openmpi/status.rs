//! Statuses of Open MPI: 24 bytes.

use core::ffi::c_int;

/// `MPI_Status`. The number of bytes has eight, in the order of the two words of the standard ABI.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Classic {
    pub source: c_int,
    pub tag: c_int,
    pub error: c_int,
    cancelled: c_int,
    bytes: [c_int; 2],
}

const _: () = assert!(size_of::<Classic>() == 24 && cfg!(target_endian = "little"));

impl Classic {
    /// A status of an empty message.
    pub const fn empty(source: c_int, tag: c_int) -> Self {
        Self {
            source,
            tag,
            error: 0,
            cancelled: 0,
            bytes: [0; 2],
        }
    }

    /// The number of bytes, in the two words of the standard ABI.
    pub fn bytes(&self) -> [c_int; 2] {
        self.bytes
    }

    /// Whether it is that of a cancelled operation.
    pub fn cancelled(&self) -> c_int {
        c_int::from(self.cancelled != 0)
    }

    /// Stores both.
    ///
    /// # Safety
    /// The address is that of a status.
    #[inline(always)]
    pub unsafe fn store_amount(at: *mut Self, bytes: [c_int; 2], cancelled: c_int) {
        // SAFETY: as this function demands.
        unsafe {
            (&raw mut (*at).cancelled).write_unaligned(cancelled);
            (&raw mut (*at).bytes).write_unaligned(bytes);
        }
    }
}
