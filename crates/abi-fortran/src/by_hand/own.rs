//! Procedures that C does not have: conversions of statuses, sizes of variables, comparisons of handles.

use core::ffi::{c_int, c_void};

use crate::also;
use crate::data::{int, store_handle};
use crate::error::finish;
use crate::generated::c;
use crate::generated::constants::MPI_STATUS_SIZE;
use crate::logical;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpi_status_f2f08_(
    from: *const [c_int; MPI_STATUS_SIZE],
    to: *mut [c_int; MPI_STATUS_SIZE],
    ierror: *mut c_int,
) {
    // SAFETY: the program passes a status, and room for another one.
    unsafe {
        to.write_unaligned(from.read_unaligned());
        finish(ierror, 0);
    }
}
also!(mpi_status_f2f08_: mpi_status_f082f_ mpi_status_f2f08_f08_ mpi_status_f082f_f08_);

/// Does nothing: because the address of a variable is passed, the compiler must assume that the variable has
/// changed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpi_f_sync_reg_(_buffer: *mut c_void) {}
also!(mpi_f_sync_reg_: mpi_f_sync_reg_f08_);

/// From the environment alone: Fortran has no arguments of main to pass on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpi_info_create_env_(info: *mut c_int, ierror: *mut c_int) {
    let mut made = 0;
    // SAFETY: the addresses are the program's; there are no arguments.
    unsafe {
        let code = c::MPI_Info_create_env(0, core::ptr::null_mut(), &mut made);
        if code == 0 {
            store_handle(info, made);
        }
        finish(ierror, code);
    }
}
also!(mpi_info_create_env_: pmpi_info_create_env_ mpi_info_create_env_f08_ pmpi_info_create_env_f08_);

/// The start of a descriptor of ISO_Fortran_binding.h.
#[repr(C)]
pub struct Descriptor {
    base: *mut c_void,
    element_length: usize,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_mpi_sizeof(
    variable: *const Descriptor,
    size: *mut c_int,
    ierror: *mut c_int,
) {
    // SAFETY: the compiler passes a descriptor, the program addresses of integers.
    unsafe {
        size.write_unaligned((*variable).element_length as c_int);
        finish(ierror, 0);
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_comm_eq_(one: *const c_int, other: *const c_int) -> c_int {
    // SAFETY: both are handles.
    logical::of(unsafe { int(one) == int(other) })
}
also!(weft_comm_eq_: weft_group_eq_ weft_win_eq_ weft_session_eq_ weft_message_eq_ weft_info_eq_ weft_errhandler_eq_
    weft_op_eq_ weft_request_eq_ weft_datatype_eq_ weft_file_eq_);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_comm_ne_(one: *const c_int, other: *const c_int) -> c_int {
    // SAFETY: both are handles.
    logical::of(unsafe { int(one) != int(other) })
}
also!(weft_comm_ne_: weft_group_ne_ weft_win_ne_ weft_session_ne_ weft_message_ne_ weft_info_ne_ weft_errhandler_ne_
    weft_op_ne_ weft_request_ne_ weft_datatype_ne_ weft_file_ne_);
