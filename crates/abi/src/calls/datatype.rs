//! Datatypes, pack and unpack (MPI 5.0, chapter 5).

use crate::c;

pub fn aint_add(base: c::Aint, displacement: c::Aint) -> c::Aint {
    base.wrapping_add(displacement)
}

pub fn aint_diff(minuend: c::Aint, subtrahend: c::Aint) -> c::Aint {
    minuend.wrapping_sub(subtrahend)
}
