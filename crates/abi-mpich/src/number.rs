//! Numbers that are constants: ranks, tags, and the families of constants of `tables/foreign.toml`, which are
//! generated.

use core::ffi::{c_int, c_void};

pub use crate::generated::numbers::*;

/// A rank or tag that has no meaning in either ABI: replaces one that has none in the foreign ABI but has one in the
/// standard ABI.
const NEITHER: c_int = -0x7fff;

/// Ranks: `MPI_PROC_NULL`, `MPI_ANY_SOURCE`, `MPI_ROOT`, `MPI_UNDEFINED`.
pub mod rank {
    use super::{NEITHER, RANKS, c_int};

    /// The rank of the standard ABI.
    #[inline(always)]
    pub fn decode(classic: c_int) -> c_int {
        if classic >= 0 {
            classic
        } else {
            special(classic)
        }
    }

    #[cold]
    fn special(classic: c_int) -> c_int {
        let found = RANKS.iter().find(|(other, _)| *other == classic);
        found.map_or(NEITHER, |(_, standard)| *standard)
    }

    /// The rank of the foreign ABI.
    #[inline(always)]
    pub fn encode(standard: c_int) -> c_int {
        if standard >= 0 {
            return standard;
        }
        let found = RANKS.iter().find(|(_, other)| *other == standard);
        found.map_or(standard, |(classic, _)| *classic)
    }
}

/// Tags: `MPI_ANY_TAG`.
pub mod tag {
    use super::{ANY_TAG, NEITHER, STANDARD_ANY_TAG, c_int};

    /// The tag of the standard ABI.
    #[inline(always)]
    pub fn decode(classic: c_int) -> c_int {
        match classic {
            ANY_TAG => STANDARD_ANY_TAG,
            0.. => classic,
            _ => NEITHER,
        }
    }

    /// The tag of the foreign ABI.
    #[inline(always)]
    pub fn encode(standard: c_int) -> c_int {
        if standard == STANDARD_ANY_TAG {
            ANY_TAG
        } else {
            standard
        }
    }
}

/// Buffers: `MPI_IN_PLACE`, `MPI_BUFFER_AUTOMATIC`; `MPI_BOTTOM` is null in both.
pub mod address {
    use super::{BUFFER_AUTOMATIC, IN_PLACE, STANDARD_BUFFER_AUTOMATIC, STANDARD_IN_PLACE, c_void};

    /// The address of the standard ABI.
    #[inline(always)]
    pub fn decode(classic: *const c_void) -> *mut c_void {
        match classic.addr().cast_signed() {
            IN_PLACE => core::ptr::without_provenance_mut(STANDARD_IN_PLACE as usize),
            BUFFER_AUTOMATIC => {
                core::ptr::without_provenance_mut(STANDARD_BUFFER_AUTOMATIC as usize)
            }
            _ => classic.cast_mut(),
        }
    }

    /// Whether it is `MPI_IN_PLACE`.
    pub fn is_in_place(classic: *const c_void) -> bool {
        classic.addr().cast_signed() == IN_PLACE
    }

    /// Translates the address that a call has stored there.
    ///
    /// # Safety
    /// The address is null or that of a pointer.
    pub unsafe fn encode_at(at: *mut c_void) {
        let at = at.cast::<*mut c_void>();
        // SAFETY: as this function demands.
        unsafe {
            if !at.is_null() && at.read_unaligned().addr() == STANDARD_BUFFER_AUTOMATIC as usize {
                at.write_unaligned(core::ptr::without_provenance_mut(BUFFER_AUTOMATIC as usize));
            }
        }
    }
}

/// Weights of edges: `MPI_UNWEIGHTED`, `MPI_WEIGHTS_EMPTY`.
pub mod weights {
    use super::{STANDARD_UNWEIGHTED, STANDARD_WEIGHTS_EMPTY, c_int};
    use crate::own::data;

    /// The address of the standard ABI.
    pub fn decode(classic: *const c_int) -> *mut c_int {
        if classic == data::unweighted() {
            core::ptr::without_provenance_mut(STANDARD_UNWEIGHTED as usize)
        } else if classic == data::weights_empty() {
            core::ptr::without_provenance_mut(STANDARD_WEIGHTS_EMPTY as usize)
        } else {
            classic.cast_mut()
        }
    }
}

/// Handles of performance variables: `MPI_T_PVAR_ALL_HANDLES`.
pub mod variable_handle {
    use super::{STANDARD_T_PVAR_ALL_HANDLES, T_PVAR_ALL_HANDLES};

    /// The handle of the standard ABI.
    pub fn decode(classic: usize) -> usize {
        if classic == T_PVAR_ALL_HANDLES.cast_unsigned() {
            STANDARD_T_PVAR_ALL_HANDLES.cast_unsigned()
        } else {
            classic
        }
    }
}

/// The displacement of a view: `MPI_DISPLACEMENT_CURRENT`.
pub mod displacement {
    use super::{DISPLACEMENT_CURRENT, STANDARD_DISPLACEMENT_CURRENT};

    /// The displacement of the standard ABI.
    pub fn decode(classic: i64) -> i64 {
        match classic {
            DISPLACEMENT_CURRENT => STANDARD_DISPLACEMENT_CURRENT,
            // The constant of the standard ABI is not one in the foreign ABI.
            STANDARD_DISPLACEMENT_CURRENT => i64::MIN,
            other => other,
        }
    }
}

/// Arguments of distributions: `MPI_DISTRIBUTE_DFLT_DARG` among sizes.
pub mod distribution_argument {
    use super::{DISTRIBUTE_DFLT_DARG, STANDARD_DISTRIBUTE_DFLT_DARG, c_int};

    /// The argument of the standard ABI. There the default is a number that can also be a size; such a size
    /// has no other number, so it stays.
    pub fn decode(classic: c_int) -> c_int {
        if classic == DISTRIBUTE_DFLT_DARG {
            STANDARD_DISTRIBUTE_DFLT_DARG
        } else {
            classic
        }
    }

    /// The argument of the foreign ABI.
    pub fn encode(standard: c_int) -> c_int {
        if standard == STANDARD_DISTRIBUTE_DFLT_DARG {
            DISTRIBUTE_DFLT_DARG
        } else {
            standard
        }
    }
}

/// Copies a text into the buffer that a program has for it.
///
/// # Safety
/// The address is null or that of `room` bytes; `length` is null or that of a number.
pub unsafe fn give_text(code: c_int, text: &[u8], room: usize, at: *mut u8, length: *mut c_int) {
    if code != 0 || at.is_null() {
        return;
    }
    let end = text
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(text.len());
    let fits = end.min(room - 1);
    // SAFETY: as this function demands.
    unsafe {
        at.copy_from_nonoverlapping(text.as_ptr(), fits);
        at.add(fits).write(0);
        if !length.is_null() {
            length.write_unaligned(fits as c_int);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_ranks_and_tags() {
        for (classic, standard) in RANKS.iter().chain(&[(7, 7)]) {
            assert_eq!(rank::decode(*classic), *standard);
            assert_eq!(rank::encode(*standard), *classic);
        }
        assert_eq!(rank::decode(-7), NEITHER);
        assert_eq!(
            (tag::decode(ANY_TAG), tag::encode(STANDARD_ANY_TAG)),
            (STANDARD_ANY_TAG, ANY_TAG)
        );
        assert_eq!(tag::decode(-2), NEITHER);
    }

    #[test]
    fn texts_are_cut_to_their_room() {
        let mut place = [1_u8; 8];
        let mut length = 0;
        // SAFETY: the buffer has the length that is passed.
        unsafe { give_text(0, b"0123456789\0", 8, place.as_mut_ptr(), &mut length) };
        assert_eq!((&place, length), (b"0123456\0", 7));
    }

    #[test]
    fn modes_are_sets_of_bits() {
        // Create and write only.
        assert_eq!(access_mode::decode(1 | 4), 2 | 256);
        assert_eq!(access_mode::encode(2 | 256), 1 | 4);
        assert!(access_mode::decode(1 << 20) > 511);
    }
}
