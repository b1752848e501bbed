//! Calling a user's function on data that lie without gaps.
//!
//! If the elements have no gaps, the function works on the data themselves; else on copies laid out as
//! the datatype says.
#![allow(unsafe_code)]

use std::sync::Arc;

use weft_fabric::Region;

use crate::datatype::Datatype;
use crate::error::Result;
use crate::memory;

/// A user's function: `(operand, into, count, datatype)`; see [`Op::user`](super::Op::user).
pub type UserFunction = dyn Fn(Region, Region, usize, &Arc<Datatype>) + Send + Sync;

/// Elements with their gaps, in memory of our own.
struct Spread {
    memory: Box<[u8]>,
    /// Where the first byte of `memory` lies, seen from the buffer's address.
    first: isize,
}

impl Spread {
    fn of(data: &Region, count: usize, datatype: &Datatype) -> Result<Self> {
        let (first, length) = datatype.footprint(count)?;
        let mut spread = Self {
            memory: memory::zeroed(length)?,
            first,
        };
        // SAFETY: nobody writes to the operands of a reduction while it runs, by the promise of their
        // maker; the slice ends with this function.
        let bytes = unsafe { data.as_slice() };
        let base = spread.address();
        // SAFETY: `memory` is the footprint of `count` elements seen from `base`, and ours alone.
        unsafe { datatype.unpack(base, count, 0, bytes) };
        Ok(spread)
    }

    /// The buffer's address: displacements of the datatype count from here.
    fn address(&mut self) -> *mut u8 {
        self.memory
            .as_mut_ptr()
            .wrapping_offset(self.first.wrapping_neg())
    }

    fn region(&mut self) -> Region {
        let length = self.memory.len();
        // SAFETY: the function gets the buffer's address, as the standard says; all displacements of
        // the datatype from it lie in `memory`, which lives until the function has returned.
        unsafe { Region::new(self.address(), length) }
    }
}

/// `into = operand function into`.
pub(super) fn call(
    function: &UserFunction,
    operand: &Region,
    into: &Region,
    count: usize,
    datatype: &Arc<Datatype>,
) -> Result<()> {
    if count == 0 {
        return Ok(());
    }
    if let Some((offset, bytes)) = datatype.flat(count) {
        // SAFETY: the regions are lent for the reduction; displacements of the datatype begin at
        // `offset`, so from the address that is given they lie in the region again.
        let lend = |region: &Region| unsafe {
            Region::new(
                region.as_ptr().wrapping_offset(offset.wrapping_neg()),
                bytes,
            )
        };
        function(lend(operand), lend(into), count, datatype);
        return Ok(());
    }
    let mut one = Spread::of(operand, count, datatype)?;
    let mut two = Spread::of(into, count, datatype)?;
    function(one.region(), two.region(), count, datatype);
    // SAFETY: `two` is the footprint of `count` elements seen from its address; the function has
    // returned.
    unsafe { datatype.pack_to(two.address(), count, 0, into) };
    Ok(())
}
