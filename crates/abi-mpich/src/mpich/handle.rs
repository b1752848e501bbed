//! Handles of MPICH: 32 bits, of which the highest two give the kind of the others.
//!
//! ```text
//!   bit 31 30 29                                     0
//!      ┌─────┬───────────────────────────────────────┐
//!      │ 0 0 │ kind and zeros                        │  null handle                  0x04000000 MPI_COMM_NULL
//!      │ 0 1 │ kind, and what it is                  │  predefined                   0x44000000 MPI_COMM_WORLD
//!      │ 1 0 │ kind, index                           │  predefined pairs             0x8c000000 MPI_FLOAT_INT
//!      │ 1 1 │ the handle of the standard ABI        │  made by the program
//!      └─────┴───────────────────────────────────────┘
//! ```
//!
//! Handles of objects have 30 bits in Weft's standard ABI, those of requests 31 with bit 30 set: setting the two highest bits
//! makes a handle of MPICH, clearing them makes that of the standard ABI, and no table is needed. Files are pointers in MPICH,
//! whose values nothing interprets: they stay as they are, except for the null one.

use core::ffi::c_int;

use crate::handle::{Handle, PREDEFINED, WILD};

/// The type of all handles but those of files.
pub type Word = c_int;

/// The two bits of an object that a program has made.
const MADE: u32 = 0b11 << 30;
/// The handle of the standard ABI of an object that the program has made, or the one that `predefined`
/// returns.
#[inline(always)]
fn decode(classic: c_int, bits: u32, predefined: impl FnOnce(u32) -> Option<usize>) -> usize {
    let classic = classic.cast_unsigned();
    if classic >= MADE {
        return (classic & bits) as usize;
    }
    predefined(classic).unwrap_or(WILD | classic as usize)
}

#[inline(always)]
fn encode(standard: usize, predefined: impl FnOnce(usize) -> Option<u32>, null: u32) -> c_int {
    if standard >= PREDEFINED {
        return made(standard).cast_signed();
    }
    predefined(standard).unwrap_or(null).cast_signed()
}

/// The handle of an object that the program has made. With more than four million requests at once, a request
/// has no handle of 32 bits.
#[inline(always)]
fn made(standard: usize) -> u32 {
    if standard >> 31 != 0 {
        too_many();
    }
    standard as u32 | MADE
}

#[cold]
fn too_many() -> ! {
    weft_bare::say!(
        "weft: libmpi.so.12: more than 4194304 requests are under way at once, and a handle of MPICH has no room for the number of \
         another one; complete some of them earlier, or build the program with Weft's mpicc"
    );
    weft_bare::abort()
}

macro_rules! kinds {
    ($($name:ident $bits:expr;)*) => {$(
        #[doc = concat!("`MPI_", stringify!($name), "`.")]
        pub struct $name;
        impl Handle for $name {
            type Classic = c_int;
            #[inline(always)]
            fn decode(classic: c_int) -> usize {
                decode(classic, $bits, Self::predefined)
            }
            #[inline(always)]
            fn encode(standard: usize) -> c_int {
                encode(standard, Self::classic, Self::NULL)
            }
        }
    )*};
}

const OBJECT: u32 = !MADE;
const REQUEST: u32 = !(1 << 31);

kinds! {
    Comm OBJECT; Group OBJECT; Win OBJECT; Session OBJECT; Message OBJECT; Info OBJECT; Errhandler OBJECT; Op OBJECT;
    Request REQUEST;
}

/// `MPI_Datatype`.
pub struct Datatype;

impl Handle for Datatype {
    type Classic = c_int;

    /// Most handles of datatypes are predefined: so they are tried first.
    #[inline(always)]
    fn decode(classic: c_int) -> usize {
        let bits = classic.cast_unsigned();
        let (own, standard) = Self::BY_LOW_BYTE[(bits & 0xff) as usize];
        if own == bits {
            return standard as usize;
        }
        decode(classic, OBJECT, Self::predefined)
    }

    #[inline(always)]
    fn encode(standard: usize) -> c_int {
        encode(standard, Self::classic, Self::NULL)
    }
}

/// `MPI_File`.
pub struct File;

impl Handle for File {
    type Classic = usize;

    #[inline(always)]
    fn decode(classic: usize) -> usize {
        if classic == Self::NULL as usize {
            return Self::STANDARD_NULL;
        }
        // A small number would mean something else in the standard ABI.
        if classic < PREDEFINED { WILD } else { classic }
    }

    #[inline(always)]
    fn encode(standard: usize) -> usize {
        if standard < PREDEFINED {
            Self::NULL as usize
        } else {
            standard
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_makes_survives_the_way() {
        // The smallest and the largest handle of an object, and of a request.
        for standard in [1 << 26, (1 << 30) - 1] {
            assert_eq!(Comm::decode(Comm::encode(standard)), standard);
            assert_eq!(Datatype::decode(Datatype::encode(standard)), standard);
        }
        for standard in [1 << 30, (1 << 31) - 1] {
            assert_eq!(Request::decode(Request::encode(standard)), standard);
        }
        assert_eq!(File::decode(File::encode(1 << 29)), 1 << 29);
    }

    #[test]
    fn predefined_handles_are_those_of_the_tables() {
        assert_eq!(Comm::decode(0x4400_0000), 0x101);
        assert_eq!(Comm::encode(0x101), 0x4400_0000);
        assert_eq!(Comm::encode(0x100), 0x0400_0000);
        assert_eq!(Datatype::decode(0x4c00_0405), 0x209);
        assert_eq!(Datatype::encode(0x209), 0x4c00_0405);
        let pair = 0x8c00_0001_u32.cast_signed();
        assert_eq!(Datatype::decode(pair), 0x229);
        assert_eq!(Datatype::encode(0x229), pair);
        assert_eq!(Datatype::decode(0x0c00_0000), 0x200);
        assert_eq!(Request::decode(0x2c00_0000), 0x180);
        assert_eq!(File::decode(0), 0x118);
    }

    #[test]
    fn what_is_no_handle_stays_none() {
        for classic in [0, 1, -0x4000_0001, 0x4c00_0406 ^ 0x300, 0x4400_0005] {
            assert!(Comm::decode(classic) >= WILD);
            assert!(Datatype::decode(classic) >= WILD, "{classic:#x}");
        }
        assert!(File::decode(7) >= WILD);
    }
}
