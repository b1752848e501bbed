//! Handles: what the translation needs to know of them. How one looks in the foreign ABI: `handle` of its module.

pub use crate::own::handle::{
    Comm, Datatype, Errhandler, File, Group, Info, Message, Op, Request, Session, Win, Word,
};

/// Predefined handles of the standard ABI are below this number.
pub const PREDEFINED: usize = 4096;
/// A value that is no handle of any kind in the standard ABI: an address that no process has.
pub const WILD: usize = 1 << 62;

/// A kind of handles.
pub trait Handle {
    /// Its type in the foreign ABI.
    type Classic: Copy + PartialEq;
    /// The handle of the standard ABI.
    fn decode(classic: Self::Classic) -> usize;
    /// The handle of the foreign ABI.
    fn encode(standard: usize) -> Self::Classic;
}

/// The address of the handle of the standard ABI; null if the address of the program is null.
#[inline(always)]
pub fn out_pointer<C>(classic: *mut C, standard: &mut usize) -> *mut usize {
    if classic.is_null() {
        core::ptr::null_mut()
    } else {
        standard
    }
}

/// The handle of the standard ABI for the one at an address.
///
/// # Safety
/// The address is null or that of a handle.
#[inline(always)]
pub unsafe fn load<H: Handle>(classic: *const H::Classic) -> usize {
    if classic.is_null() {
        return 0;
    }
    // SAFETY: as this function demands.
    H::decode(unsafe { classic.read_unaligned() })
}

/// Stores the handle that a call has written; if it has written none, the number is still 0, which is no handle.
///
/// # Safety
/// The address is null or that of a variable.
#[inline(always)]
pub unsafe fn store_made<H: Handle>(classic: *mut H::Classic, made: usize) {
    if made != 0 {
        // SAFETY: as this function demands.
        unsafe { store::<H>(classic, made) }
    }
}

/// Stores a handle.
///
/// # Safety
/// The address is null or that of a variable.
#[inline(always)]
pub unsafe fn store<H: Handle>(classic: *mut H::Classic, standard: usize) {
    if !classic.is_null() {
        // SAFETY: as this function demands.
        unsafe { classic.write_unaligned(H::encode(standard)) }
    }
}
