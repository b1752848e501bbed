//! Handles of requests: the engine's own names, packed.
//!
//! ```text
//!   bit   47          32 31 30         29 28      22 21      0
//!        ┌──────────────┬──┬──┬──────────┬──────────┬─────────┐
//!        │ generation,  │ 0│ 1│persistent│generation│  index  │
//!        │ high bits    │  │  │          │ low bits │         │
//!        └──────────────┴──┴──┴──────────┴──────────┴─────────┘
//! ```
//!
//! A persistent request keeps its handle when it ends, others give it up: the bit says so without a
//! look into the engine. High bits of the generation stand where `MPI_Request_toint` does not reach;
//! a handle that came back from an integer is live only if they are zero.

use weft_mpi::RequestId;

use crate::c;
use crate::generated::constants::MPI_REQUEST_NULL;

const MARK: usize = 1 << 30;
const PERSISTENT: usize = 1 << 29;
const INDEX_BITS: u32 = 22;
const LOW_BITS: u32 = 7;
const HIGH_SHIFT: u32 = 32;
const HIGH_BITS: u32 = RequestId::GENERATION_BITS.saturating_sub(LOW_BITS);

/// What a handle of a request says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Named {
    /// `MPI_REQUEST_NULL`.
    Null,
    /// A request, and whether it is persistent.
    Request(RequestId, bool),
    /// Nothing that a call has returned.
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
    let generation = id.generation() as usize;
    let low = generation & ((1 << LOW_BITS) - 1);
    let high = generation >> LOW_BITS;
    let persistent = if persistent { PERSISTENT } else { 0 };
    let index = id.index() as usize & ((1 << INDEX_BITS) - 1);
    c::Request(high << HIGH_SHIFT | MARK | persistent | low << INDEX_BITS | index)
}

/// What a handle says.
#[inline]
pub const fn unpack(handle: c::Request) -> Named {
    let word = handle.0;
    if word == MPI_REQUEST_NULL.0 {
        return Named::Null;
    }
    let low = word as u32;
    if low >> 30 != 1 || word >> HIGH_SHIFT >> HIGH_BITS != 0 {
        return Named::Wild;
    }
    let generation =
        low >> INDEX_BITS & ((1 << LOW_BITS) - 1) | ((word >> HIGH_SHIFT) as u32) << LOW_BITS;
    let id = RequestId::new(low & ((1 << INDEX_BITS) - 1), generation);
    Named::Request(id, word & PERSISTENT != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_survive_the_way() {
        let last = (1 << RequestId::GENERATION_BITS) - 1;
        for (index, generation, persistent) in
            [(0, 0, false), (1, 255, true), ((1 << 22) - 1, last, false)]
        {
            let id = RequestId::new(index, generation);
            assert_eq!(
                unpack(handle(id, persistent)),
                Named::Request(id, persistent)
            );
        }
        assert_eq!(unpack(MPI_REQUEST_NULL), Named::Null);
        assert_eq!(unpack(c::Request(0)), Named::Wild);
        assert_eq!(
            unpack(c::Request(0x7fff_dead_beef)),
            Named::Wild,
            "an address is no request"
        );
    }
}
