//! Memory that callers lend: the one place here with `unsafe`.
//!
//! # Safety
//! A [`Region`] lives in the state of a node from the beginning of an operation to its end. Blocking
//! calls return after the end, or abandon the operation before they unwind; for the others, the caller
//! of [`Node::portal_aread`](crate::Node::portal_aread) and its like promises it.

use weft_fabric::{Fabric, Head, Peer, Posted, Region, Result};

/// A buffer to be read into.
pub(crate) fn lent_mut(buffer: &mut [u8]) -> Region {
    // SAFETY: borrowed for the length of the blocking call, which keeps the region no longer.
    unsafe { Region::new(buffer.as_mut_ptr(), buffer.len()) }
}

/// Data to be written. Nothing is ever written through the region of a write: it is granted for
/// reading alone, and handed to `put` as the source.
pub(crate) fn lent(data: &[u8]) -> Region {
    // SAFETY: borrowed for the length of the blocking call, which keeps the region no longer.
    unsafe { Region::new(data.as_ptr().cast_mut(), data.len()) }
}

/// Sends what a region holds as a message.
pub(crate) fn send(
    fabric: &mut dyn Fabric,
    to: Peer,
    head: &Head,
    region: Region,
) -> Result<Posted> {
    // SAFETY: the writer whose region it is has begun its write and promised not to change the bytes
    // until it has ended; they are valid until then, and the slice ends with this call.
    let data = unsafe { region.as_slice() };
    fabric.try_send(to, head, data)
}
