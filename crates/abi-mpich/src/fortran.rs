//! Conversions between C and Fortran: a handle of MPICH is the integer of Fortran, and a status is the same
//! five integers.
//!
//! The binding for Fortran itself is `libmpifort.so.12`, which calls this library.

#![allow(non_snake_case, missing_docs, clippy::missing_safety_doc)]

use std::ffi::c_int;

use crate::alias;
use crate::status::{Classic, is_none};

macro_rules! same {
    ($($convert:ident $direct:ident, $back:ident $invert:ident: $handle:ty;)*) => {$(
        #[unsafe(no_mangle)]
        pub extern "C" fn $convert(handle: $handle) -> c_int {
            handle as c_int
        }
        alias!($direct => $convert);
        #[unsafe(no_mangle)]
        pub extern "C" fn $back(number: c_int) -> $handle {
            number as $handle
        }
        alias!($invert => $back);
    )*};
}

same! {
    PMPI_Comm_c2f MPI_Comm_c2f, PMPI_Comm_f2c MPI_Comm_f2c: c_int;
    PMPI_Errhandler_c2f MPI_Errhandler_c2f, PMPI_Errhandler_f2c MPI_Errhandler_f2c: c_int;
    PMPI_File_c2f MPI_File_c2f, PMPI_File_f2c MPI_File_f2c: usize;
    PMPI_Group_c2f MPI_Group_c2f, PMPI_Group_f2c MPI_Group_f2c: c_int;
    PMPI_Info_c2f MPI_Info_c2f, PMPI_Info_f2c MPI_Info_f2c: c_int;
    PMPI_Message_c2f MPI_Message_c2f, PMPI_Message_f2c MPI_Message_f2c: c_int;
    PMPI_Op_c2f MPI_Op_c2f, PMPI_Op_f2c MPI_Op_f2c: c_int;
    PMPI_Request_c2f MPI_Request_c2f, PMPI_Request_f2c MPI_Request_f2c: c_int;
    PMPI_Session_c2f MPI_Session_c2f, PMPI_Session_f2c MPI_Session_f2c: c_int;
    PMPI_Type_c2f MPI_Type_c2f, PMPI_Type_f2c MPI_Type_f2c: c_int;
    PMPI_Win_c2f MPI_Win_c2f, PMPI_Win_f2c MPI_Win_f2c: c_int;

    PMPI_Comm_toint MPI_Comm_toint, PMPI_Comm_fromint MPI_Comm_fromint: c_int;
    PMPI_Errhandler_toint MPI_Errhandler_toint, PMPI_Errhandler_fromint MPI_Errhandler_fromint: c_int;
    PMPI_File_toint MPI_File_toint, PMPI_File_fromint MPI_File_fromint: usize;
    PMPI_Group_toint MPI_Group_toint, PMPI_Group_fromint MPI_Group_fromint: c_int;
    PMPI_Info_toint MPI_Info_toint, PMPI_Info_fromint MPI_Info_fromint: c_int;
    PMPI_Message_toint MPI_Message_toint, PMPI_Message_fromint MPI_Message_fromint: c_int;
    PMPI_Op_toint MPI_Op_toint, PMPI_Op_fromint MPI_Op_fromint: c_int;
    PMPI_Request_toint MPI_Request_toint, PMPI_Request_fromint MPI_Request_fromint: c_int;
    PMPI_Session_toint MPI_Session_toint, PMPI_Session_fromint MPI_Session_fromint: c_int;
    PMPI_Type_toint MPI_Type_toint, PMPI_Type_fromint MPI_Type_fromint: c_int;
    PMPI_Win_toint MPI_Win_toint, PMPI_Win_fromint MPI_Win_fromint: c_int;
}

/// `MPI_ERR_ARG` of MPICH.
const NO_STATUS: c_int = 12;

/// Copies a status. The constants for no status (`MPI_STATUS_IGNORE`, `MPI_F_STATUS_IGNORE`) cannot be converted (MPI 5.0,
/// section 19.3.5).
///
/// # Safety
/// Each is such a constant, or the address of a status.
unsafe fn convert(from: *const Classic, to: *mut Classic) -> c_int {
    if is_none(from) || is_none(to) {
        return NO_STATUS;
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
        let given = Classic {
            count_low: 8,
            count_high_and_cancelled: 0,
            source: 1,
            tag: 2,
            error: 0,
        };
        let mut made = Classic { tag: 0, ..given };
        let (none, ignored) = (std::ptr::null(), std::ptr::without_provenance(1));
        // SAFETY: statuses, and the constants for none.
        unsafe {
            assert_eq!(PMPI_Status_f2c(&given, &mut made), 0);
            assert_eq!(made, given);
            for from in [none, ignored] {
                assert_eq!(PMPI_Status_f2c(from, &mut made), NO_STATUS);
                assert_eq!(PMPI_Status_c2f(&given, from.cast_mut()), NO_STATUS);
            }
        }
        assert_eq!(crate::error::decode(NO_STATUS), 13);
    }
}
