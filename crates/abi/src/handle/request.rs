//! Handles of requests: the engine's own names, packed.
//!
//! ```text
//!   bit 41      32 31 30     29      28     22 21      0
//!      ┌──────────┬──┬──┬──────────┬──────────┬─────────┐
//!      │more index│ 0│ 1│persistent│generation│  index  │
//!      └──────────┴──┴──┴──────────┴──────────┴─────────┘
//! ```
//!
//! The handles of the first four million requests that are live at once convert to an integer and back
//! (`MPI_Request_toint`); the handle of a later one does not fit, and becomes 0, which is not a handle.
//!
//! A persistent request keeps its handle when it ends, others lose it: the bit shows this without a look into
//! the engine.

use weft_mpi::RequestId;

use crate::c;
use crate::generated::constants::MPI_REQUEST_NULL;

const MARK: usize = 1 << 30;
const PERSISTENT: usize = 1 << 29;
const INDEX_BITS: u32 = 22;
const LOW: u32 = (1 << INDEX_BITS) - 1;
/// Bits of an index that do not fit there, and their place.
const HIGH_BITS: u32 = u32::BITS - INDEX_BITS;
const HIGH_SHIFT: u32 = 32;
const _: () = assert!(INDEX_BITS + RequestId::GENERATION_BITS == 29);

/// Meaning of a handle of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Named {
    /// `MPI_REQUEST_NULL`.
    Null,
    /// A request, and whether it is persistent.
    Request(RequestId, bool),
    /// A value that no call has returned.
    Wild,
}

/// The handle of a request that ends once.
#[inline]
pub const fn pack(id: RequestId) -> c::Request {
    handle(id, false)
}

/// The handle of a persistent request.
pub const fn pack_persistent(id: RequestId) -> c::Request {
    handle(id, true)
}

const fn handle(id: RequestId, persistent: bool) -> c::Request {
    let persistent = if persistent { PERSISTENT } else { 0 };
    let index = (id.index() & LOW) as usize;
    let high = ((id.index() >> INDEX_BITS) as usize) << HIGH_SHIFT;
    c::Request(high | MARK | persistent | (id.generation() as usize) << INDEX_BITS | index)
}

/// The fixed bits in the handle of a request that ends once: all except index and generation.
const SHAPE: usize =
    !((1 << HIGH_SHIFT) - 1) & !(((1 << HIGH_BITS) - 1) << HIGH_SHIFT) | 3 << 30 | PERSISTENT;

/// The request of a handle, if it is one that ends once: [`unpack`] in one comparison.
#[inline(always)]
pub const fn ends_once(handle: c::Request) -> Option<RequestId> {
    if handle.0 & SHAPE != MARK {
        return None;
    }
    Some(id_of(handle))
}

/// The request of a handle, if it is one of any kind: likewise.
#[inline(always)]
pub const fn request_of(handle: c::Request) -> Option<RequestId> {
    ends_once(c::Request(handle.0 & !PERSISTENT))
}

/// The name in a handle that has the shape of one.
#[inline(always)]
const fn id_of(handle: c::Request) -> RequestId {
    // The constructor truncates the generation to its bits, and so removes the mark of persistent requests.
    let low = handle.0 as u32;
    let high = (handle.0 >> HIGH_SHIFT) as u32;
    RequestId::new(high << INDEX_BITS | low & LOW, low >> INDEX_BITS)
}

/// The meaning of a handle.
#[inline]
pub const fn unpack(handle: c::Request) -> Named {
    let word = handle.0;
    if word == MPI_REQUEST_NULL.0 {
        return Named::Null;
    }
    if word as u32 >> 30 != 1 || word >> (HIGH_SHIFT + HIGH_BITS) != 0 {
        return Named::Wild;
    }
    Named::Request(id_of(handle), word & PERSISTENT != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_survive_the_way() {
        let last = (1 << RequestId::GENERATION_BITS) - 1;
        for (index, generation, persistent) in [
            (0, 0, false),
            (1, 255, true),
            ((1 << 22) - 1, last, false),
            (1 << 22, 1, true),
            (u32::MAX - 1, last, false),
        ] {
            let id = RequestId::new(index, generation);
            assert_eq!(
                unpack(handle(id, persistent)),
                Named::Request(id, persistent)
            );
            let once = (!persistent).then_some(id);
            assert_eq!(ends_once(handle(id, persistent)), once);
            assert_eq!(request_of(handle(id, persistent)), Some(id));
        }
        assert_eq!(unpack(MPI_REQUEST_NULL), Named::Null);
        assert_eq!(unpack(c::Request(0)), Named::Wild);
        for other in [MPI_REQUEST_NULL.0, 0, 0x7fff_dead_beef, MARK | 1 << 31] {
            assert_eq!(ends_once(c::Request(other)), None);
            assert_eq!(request_of(c::Request(other)), None);
        }
        assert_eq!(
            unpack(c::Request(0x7fff_dead_beef)),
            Named::Wild,
            "an address is no request"
        );
    }
}
