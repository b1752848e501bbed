//! Initialization: the values of logicals are agreed with the library before it is used.

use core::ffi::{c_int, c_void};

use crate::also;
use crate::data::{handle, int, store_handle};
use crate::error::finish;
use crate::generated::c;
use crate::logical;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpi_init_(ierror: *mut c_int) {
    logical::agree();
    // SAFETY: there are no arguments of main; the address is the program's.
    unsafe {
        finish(
            ierror,
            c::MPI_Init(core::ptr::null_mut(), core::ptr::null_mut()),
        )
    };
}
also!(mpi_init_: pmpi_init_ mpi_init_f08_ pmpi_init_f08_);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpi_init_thread_(
    required: *const c_int,
    provided: *mut c_int,
    ierror: *mut c_int,
) {
    logical::agree();
    // SAFETY: as above.
    unsafe {
        let (none, nothing) = (core::ptr::null_mut(), core::ptr::null_mut());
        finish(
            ierror,
            c::MPI_Init_thread(none, nothing, int(required), provided),
        );
    }
}
also!(mpi_init_thread_: pmpi_init_thread_ mpi_init_thread_f08_ pmpi_init_thread_f08_);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpi_session_init_(
    info: *const c_int,
    errhandler: *const c_int,
    session: *mut c_int,
    ierror: *mut c_int,
) {
    logical::agree();
    let mut made = 0;
    // SAFETY: the addresses are the program's.
    unsafe {
        let code = c::MPI_Session_init(handle(info), handle(errhandler), &mut made);
        if code == 0 {
            store_handle(session, made);
        }
        finish(ierror, code);
    }
}
also!(mpi_session_init_: pmpi_session_init_ mpi_session_init_f08_ pmpi_session_init_f08_);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpi_pcontrol_(level: *const c_int) {
    // SAFETY: the address is the program's.
    unsafe { c::MPI_Pcontrol(int(level)) };
}
also!(mpi_pcontrol_: pmpi_pcontrol_ mpi_pcontrol_f08_ pmpi_pcontrol_f08_);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpi_abi_get_fortran_booleans_(
    logical_size: *const c_int,
    logical_true: *mut c_void,
    logical_false: *mut c_void,
    is_set: *mut c_int,
    ierror: *mut c_int,
) {
    let mut there = logical::UNSET;
    // SAFETY: the addresses are the program's.
    unsafe {
        let code = c::MPI_Abi_get_fortran_booleans(
            int(logical_size),
            logical_true,
            logical_false,
            &mut there,
        );
        logical::store(is_set, there);
        finish(ierror, code);
    }
}
also!(mpi_abi_get_fortran_booleans_: pmpi_abi_get_fortran_booleans_
    mpi_abi_get_fortran_booleans_f08_ pmpi_abi_get_fortran_booleans_f08_);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpi_abi_set_fortran_booleans_(
    logical_size: *const c_int,
    logical_true: *mut c_void,
    logical_false: *mut c_void,
    ierror: *mut c_int,
) {
    // SAFETY: the addresses are the program's.
    let code =
        unsafe { c::MPI_Abi_set_fortran_booleans(int(logical_size), logical_true, logical_false) };
    if code == 0 {
        logical::agree();
    }
    // SAFETY: as above.
    unsafe { finish(ierror, code) };
}
also!(mpi_abi_set_fortran_booleans_: pmpi_abi_set_fortran_booleans_
    mpi_abi_set_fortran_booleans_f08_ pmpi_abi_set_fortran_booleans_f08_);
