//! Handles in Fortran: the same integers.

use core::ffi::c_int;

use super::handle::{
    Comm, Datatype, Errhandler, File, Group, Info, Message, Op, Request, Session, Win,
};
use crate::fortran::InFortran;
use crate::handle::Handle;

macro_rules! same {
    ($($kind:ident)*) => {$(
        impl InFortran for $kind {
            fn integer(classic: <$kind as Handle>::Classic) -> c_int {
                classic as c_int
            }
            fn of_integer(number: c_int) -> <$kind as Handle>::Classic {
                number as <$kind as Handle>::Classic
            }
        }
    )*};
}

same! {
    Comm Datatype Errhandler File Group Info Message Op Request Session Win
}
