//! Functions that MPI 3.0 removed and that libraries of this ABI still have: other names for the functions
//! that replaced them.

use core::ffi::{c_int, c_void};

use crate::alias;
use crate::callback::errhandler::PMPI_Comm_create_errhandler;
use crate::generated::datatype::{
    PMPI_Get_address, PMPI_Type_create_hindexed, PMPI_Type_create_hvector, PMPI_Type_create_struct,
    PMPI_Type_get_extent,
};
use crate::generated::errhandler::{PMPI_Comm_get_errhandler, PMPI_Comm_set_errhandler};
use crate::handle::Word;

macro_rules! renamed {
    ($($old:ident $direct:ident => $new:ident($($name:ident: $kind:ty),*);)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $old($($name: $kind),*) -> c_int {
            // SAFETY: the same arguments.
            unsafe { $new($($name),*) }
        }
        alias!($direct => $old);
    )*};
}

renamed! {
    PMPI_Address MPI_Address => PMPI_Get_address(location: *const c_void, address: *mut isize);
    PMPI_Errhandler_create MPI_Errhandler_create => PMPI_Comm_create_errhandler(function: usize, errhandler: *mut Word);
    PMPI_Errhandler_get MPI_Errhandler_get => PMPI_Comm_get_errhandler(comm: Word, errhandler: *mut Word);
    PMPI_Errhandler_set MPI_Errhandler_set => PMPI_Comm_set_errhandler(comm: Word, errhandler: Word);
    PMPI_Type_hindexed MPI_Type_hindexed => PMPI_Type_create_hindexed(
        count: c_int, lengths: *const c_int, displacements: *const isize, of: Word, datatype: *mut Word);
    PMPI_Type_hvector MPI_Type_hvector => PMPI_Type_create_hvector(
        count: c_int, length: c_int, stride: isize, of: Word, datatype: *mut Word);
    PMPI_Type_struct MPI_Type_struct => PMPI_Type_create_struct(
        count: c_int, lengths: *const c_int, displacements: *const isize, of: *const Word, datatype: *mut Word);
}

/// Lower bound and extent of a datatype.
///
/// # Safety
/// The address is null or that of a number.
unsafe fn bounds(datatype: Word, at: *mut isize, pick: fn(isize, isize) -> isize) -> c_int {
    let [mut lower, mut extent] = [0; 2];
    // SAFETY: both are addresses of variables; the other one is as this function demands.
    unsafe {
        let code = PMPI_Type_get_extent(datatype, &raw mut lower, &raw mut extent);
        if code == 0 && !at.is_null() {
            at.write_unaligned(pick(lower, extent));
        }
        code
    }
}

macro_rules! bounds {
    ($($old:ident $direct:ident $pick:expr;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $old(datatype: Word, at: *mut isize) -> c_int {
            // SAFETY: the same address.
            unsafe { bounds(datatype, at, $pick) }
        }
        alias!($direct => $old);
    )*};
}

bounds! {
    PMPI_Type_extent MPI_Type_extent |_, extent| extent;
    PMPI_Type_lb MPI_Type_lb |lower, _| lower;
    PMPI_Type_ub MPI_Type_ub |lower, extent| lower + extent;
}
