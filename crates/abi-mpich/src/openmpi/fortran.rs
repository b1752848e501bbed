//! Handles in Fortran. Predefined ones have small numbers of their own; the integer of one that the program has made is the handle of the
//! standard ABI.

use core::ffi::c_int;

use super::handle::{
    Comm, Datatype, Errhandler, File, Group, Info, Message, Op, Request, Session, Win,
};
use crate::fortran::InFortran;
use crate::handle::{Handle, WILD};

/// Kinds of handles with their predefined ones.
pub trait Predefined {
    /// The integers of Fortran, and the handles of the standard ABI.
    const IN_FORTRAN: &'static [(c_int, usize)];
}

/// The numbers of predefined handles are below.
pub const NUMBERS: usize = 0x100;
/// The integer of Fortran that is no handle, as `MPI_Comm_c2f` and the like have it for what is none in C.
const NONE: c_int = -1;

macro_rules! translated {
    ($($kind:ident)*) => {$(
        impl InFortran for $kind {
            fn integer(classic: usize) -> c_int {
                number::<$kind>($kind::decode(classic))
            }
            fn of_integer(number: c_int) -> usize {
                let made = usize::try_from(number).map_or(WILD, standard::<$kind>);
                $kind::encode(made)
            }
        }
    )*};
}

translated! {
    Comm Datatype Errhandler File Group Info Message Op Request Session Win
}

/// The integer for a handle of the standard ABI.
pub fn number<P: Predefined>(standard: usize) -> c_int {
    let found = P::IN_FORTRAN.iter().find(|(_, other)| *other == standard);
    match found {
        Some((number, _)) => *number,
        // Handles of 31 bits.
        None => c_int::try_from(standard).unwrap_or(NONE),
    }
}

/// The handle of the standard ABI for an integer of Fortran that is not negative.
fn standard<P: Predefined>(number: usize) -> usize {
    match number < NUMBERS {
        true => of_number::<P>(number),
        false => number,
    }
}

/// The predefined handle of the standard ABI that has this number in Fortran.
#[cold]
pub fn of_number<P: Predefined>(number: usize) -> usize {
    let found = P::IN_FORTRAN.iter();
    let mut found = found.filter(|(other, _)| usize::try_from(*other) == Ok(number));
    found.next().map_or(WILD, |(_, standard)| *standard)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_survive_the_way_to_fortran() {
        let world = Comm::encode(0x101);
        assert_eq!((Comm::integer(world), Comm::of_integer(0)), (0, world));
        let real = Datatype::of_integer(13);
        assert_eq!(
            (Datatype::decode(real), Datatype::integer(real)),
            (0x21a, 13)
        );
        for standard in [1 << 26, (1 << 31) - 1] {
            let made = Request::encode(standard);
            assert_eq!(Request::integer(made), standard as c_int);
            assert_eq!(Request::of_integer(standard as c_int), made);
        }
        assert_eq!(Request::integer(Request::encode(0x180)), 0);
        assert!(Comm::decode(Comm::of_integer(-7)) >= WILD);
    }
}
