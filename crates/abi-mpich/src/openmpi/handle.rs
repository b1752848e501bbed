//! Handles of Open MPI: addresses. A predefined one is that of an [`object`] of the library; one that the program has made
//! is odd, as no address of an object is.
//!
//! ```text
//!      63                                  1   0
//!      ┌─────────────────────────────────────┬───┐
//!      │ the handle of the standard ABI      │ 1 │  made by the program
//!      ├─────────────────────────────────────┼───┤
//!      │ an integer of Fortran below 256     │ 1 │  predefined, from the binding for Fortran, which does not know kinds
//!      ├─────────────────────────────────────┼───┤
//!      │ address of an object                │ 0 │  predefined: the first word of the object is the handle of the standard ABI
//!      └─────────────────────────────────────┴───┘
//! ```

use super::fortran::{NUMBERS, Predefined, of_number};
use super::object;
use crate::handle::{Handle, PREDEFINED, WILD};

/// The type of all handles.
pub type Word = usize;

#[inline(always)]
fn decode<P: Predefined>(classic: usize) -> usize {
    if classic & 1 != 0 {
        let standard = classic >> 1;
        return match standard < NUMBERS {
            true => of_number::<P>(standard),
            false => standard,
        };
    }
    if classic == 0 {
        return WILD;
    }
    // SAFETY: the program passes a handle: the address of an object, or of the copy of one in the executable.
    unsafe { object::standard(classic) }
}

#[inline(always)]
fn encode(standard: usize) -> usize {
    if standard < PREDEFINED {
        return predefined(standard);
    }
    made(standard)
}

const fn made(standard: usize) -> usize {
    standard << 1 | 1
}

#[inline(always)]
fn predefined(standard: usize) -> usize {
    object::address(standard).unwrap_or(made(standard))
}

macro_rules! kinds {
    ($($name:ident)*) => {$(
        #[doc = concat!("`MPI_", stringify!($name), "`.")]
        pub struct $name;
        impl Handle for $name {
            type Classic = Word;
            #[inline(always)]
            fn decode(classic: Word) -> usize {
                decode::<Self>(classic)
            }
            #[inline(always)]
            fn encode(standard: usize) -> Word {
                encode(standard)
            }
        }
    )*};
}

kinds! {
    Comm Datatype Errhandler File Group Info Message Op Request Session Win
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generated::handles;

    #[test]
    fn what_a_program_makes_survives_the_way() {
        for standard in [1 << 26, (1 << 30) - 1, 1 << 30, (1 << 31) - 1] {
            let classic = Comm::encode(standard);
            assert_eq!(classic & 1, 1);
            assert_eq!(Comm::decode(classic), standard);
        }
    }

    #[test]
    fn predefined_handles_are_addresses_of_objects() {
        let world = (&raw const handles::ompi_mpi_comm_world).addr();
        assert_eq!((Comm::encode(0x101), Comm::decode(world)), (world, 0x101));
        let int = (&raw const handles::ompi_mpi_int).addr();
        assert_eq!(
            (Datatype::encode(0x209), Datatype::decode(int)),
            (int, 0x209)
        );
        assert_eq!(size_of_val(&handles::ompi_mpi_int), 0x200);
        // A copy in the executable is the same handle.
        // SAFETY: it is an object, and consists of numbers.
        let copy = unsafe { (&raw const handles::ompi_mpi_op_sum).read() };
        assert_eq!(Op::decode((&raw const copy).addr()), 0x21);
        // Another name, and what has no object there.
        let complex = (&raw const handles::ompi_mpi_c_complex).addr();
        assert_eq!(
            Datatype::encode(Datatype::decode(complex)),
            (&raw const handles::ompi_mpi_c_float_complex).addr()
        );
        let logical = Datatype::encode(0x258);
        assert_eq!(Datatype::decode(logical), 0x258);
    }

    #[test]
    fn what_is_no_handle_stays_none() {
        assert!(Comm::decode(0) >= WILD);
        let removed = (&raw const handles::ompi_mpi_ub).addr();
        assert!(Datatype::decode(removed) >= WILD);
    }
}
