//! Conversions between C and Fortran: what the integer of Fortran for a handle is, the module of the foreign ABI knows; a status consists of the
//! same integers in both.
//!
//! The bindings for Fortran themselves are libraries of their own, which call this one.

#![allow(non_snake_case, missing_docs, clippy::missing_safety_doc)]

use core::ffi::c_int;

use crate::alias;
use crate::generated::numbers::ARG;
use crate::handle::{
    Comm, Datatype, Errhandler, File, Group, Handle, Info, Message, Op, Request, Session, Win,
};
use crate::status::{Classic, is_none};

/// A kind of handles that Fortran has, too.
pub trait InFortran: Handle {
    /// The integer of Fortran.
    fn integer(classic: Self::Classic) -> c_int;
    /// The handle of C.
    fn of_integer(number: c_int) -> Self::Classic;
}

macro_rules! conversions {
    ($($convert:ident $direct:ident, $back:ident $invert:ident: $kind:ty;)*) => {$(
        #[unsafe(no_mangle)]
        pub extern "C" fn $convert(handle: <$kind as Handle>::Classic) -> c_int {
            <$kind>::integer(handle)
        }
        alias!($direct => $convert);
        #[unsafe(no_mangle)]
        pub extern "C" fn $back(number: c_int) -> <$kind as Handle>::Classic {
            <$kind>::of_integer(number)
        }
        alias!($invert => $back);
    )*};
}

conversions! {
    PMPI_Comm_c2f MPI_Comm_c2f, PMPI_Comm_f2c MPI_Comm_f2c: Comm;
    PMPI_Errhandler_c2f MPI_Errhandler_c2f, PMPI_Errhandler_f2c MPI_Errhandler_f2c: Errhandler;
    PMPI_File_c2f MPI_File_c2f, PMPI_File_f2c MPI_File_f2c: File;
    PMPI_Group_c2f MPI_Group_c2f, PMPI_Group_f2c MPI_Group_f2c: Group;
    PMPI_Info_c2f MPI_Info_c2f, PMPI_Info_f2c MPI_Info_f2c: Info;
    PMPI_Message_c2f MPI_Message_c2f, PMPI_Message_f2c MPI_Message_f2c: Message;
    PMPI_Op_c2f MPI_Op_c2f, PMPI_Op_f2c MPI_Op_f2c: Op;
    PMPI_Request_c2f MPI_Request_c2f, PMPI_Request_f2c MPI_Request_f2c: Request;
    PMPI_Session_c2f MPI_Session_c2f, PMPI_Session_f2c MPI_Session_f2c: Session;
    PMPI_Type_c2f MPI_Type_c2f, PMPI_Type_f2c MPI_Type_f2c: Datatype;
    PMPI_Win_c2f MPI_Win_c2f, PMPI_Win_f2c MPI_Win_f2c: Win;

    PMPI_Comm_toint MPI_Comm_toint, PMPI_Comm_fromint MPI_Comm_fromint: Comm;
    PMPI_Errhandler_toint MPI_Errhandler_toint, PMPI_Errhandler_fromint MPI_Errhandler_fromint: Errhandler;
    PMPI_File_toint MPI_File_toint, PMPI_File_fromint MPI_File_fromint: File;
    PMPI_Group_toint MPI_Group_toint, PMPI_Group_fromint MPI_Group_fromint: Group;
    PMPI_Info_toint MPI_Info_toint, PMPI_Info_fromint MPI_Info_fromint: Info;
    PMPI_Message_toint MPI_Message_toint, PMPI_Message_fromint MPI_Message_fromint: Message;
    PMPI_Op_toint MPI_Op_toint, PMPI_Op_fromint MPI_Op_fromint: Op;
    PMPI_Request_toint MPI_Request_toint, PMPI_Request_fromint MPI_Request_fromint: Request;
    PMPI_Session_toint MPI_Session_toint, PMPI_Session_fromint MPI_Session_fromint: Session;
    PMPI_Type_toint MPI_Type_toint, PMPI_Type_fromint MPI_Type_fromint: Datatype;
    PMPI_Win_toint MPI_Win_toint, PMPI_Win_fromint MPI_Win_fromint: Win;
}

/// Copies a status. The constants for no status (`MPI_STATUS_IGNORE`, `MPI_F_STATUS_IGNORE`) cannot be converted (MPI 5.0,
/// section 19.3.5).
///
/// # Safety
/// Each is such a constant, or the address of a status.
unsafe fn convert(from: *const Classic, to: *mut Classic) -> c_int {
    if is_none(from) || is_none(to) {
        return ARG;
    }
    // SAFETY: the program passes a status, and room for another one.
    unsafe { to.write_unaligned(from.read_unaligned()) };
    0
}

macro_rules! statuses {
    ($($function:ident $direct:ident;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $function(from: *const Classic, to: *mut Classic) -> c_int {
            // SAFETY: as the caller promises.
            unsafe { convert(from, to) }
        }
        alias!($direct => $function);
    )*};
}

statuses! {
    PMPI_Status_c2f MPI_Status_c2f;
    PMPI_Status_f2c MPI_Status_f2c;
    PMPI_Status_c2f08 MPI_Status_c2f08;
    PMPI_Status_f082c MPI_Status_f082c;
    PMPI_Status_f082f MPI_Status_f082f;
    PMPI_Status_f2f08 MPI_Status_f2f08;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_status_is_not_converted() {
        let given = Classic::empty(1, 2);
        let mut made = Classic::empty(1, 0);
        let (none, ignored) = (
            core::ptr::null(),
            core::ptr::without_provenance(crate::number::STATUS_IGNORE),
        );
        // SAFETY: statuses, and the constants for none.
        unsafe {
            assert_eq!(PMPI_Status_f2c(&given, &mut made), 0);
            assert_eq!(made, given);
            for from in [none, ignored] {
                assert_eq!(PMPI_Status_f2c(from, &mut made), ARG);
                assert_eq!(PMPI_Status_c2f(&given, from.cast_mut()), ARG);
            }
        }
        assert_eq!(crate::error::decode(ARG), 13);
    }
}
