//! Procedures and variables of the modules with which MPICH compiles programs with `use mpi_f08`, and of its module `mpi`, under the linker names that
//! gfortran gives them. The names that follow from the tables are in `generated/of_mpich.rs`.

#![allow(
    non_snake_case,
    non_upper_case_globals,
    missing_docs,
    clippy::missing_safety_doc
)]

use core::ffi::{c_int, c_void};

use crate::also;
use crate::by_hand::attributes::{
    mpi_comm_dup_fn_, mpi_comm_null_copy_fn_, mpi_comm_null_delete_fn_,
};
use crate::by_hand::own::{mpi_f_sync_reg_, mpi_status_f2f08_};
use crate::by_hand::representations::{mpi_conversion_fn_null_, mpi_conversion_fn_null_c_};
use crate::error::finish;
use crate::generated::constants::MPI_STATUS_SIZE;

// Predefined callbacks.
also!(mpi_comm_dup_fn_: __mpi_f08_callbacks_MOD_mpi_comm_dup_fn __mpi_f08_callbacks_MOD_mpi_type_dup_fn
    __mpi_f08_callbacks_MOD_mpi_win_dup_fn);
also!(mpi_comm_null_copy_fn_: __mpi_f08_callbacks_MOD_mpi_comm_null_copy_fn
    __mpi_f08_callbacks_MOD_mpi_type_null_copy_fn __mpi_f08_callbacks_MOD_mpi_win_null_copy_fn);
also!(mpi_comm_null_delete_fn_: __mpi_f08_callbacks_MOD_mpi_comm_null_delete_fn
    __mpi_f08_callbacks_MOD_mpi_type_null_delete_fn __mpi_f08_callbacks_MOD_mpi_win_null_delete_fn);
also!(mpi_conversion_fn_null_: __mpi_f08_callbacks_MOD_mpi_conversion_fn_null);
also!(mpi_conversion_fn_null_c_: __mpi_f08_callbacks_MOD_mpi_conversion_fn_null_c);

also!(mpi_f_sync_reg_: mpi_f_sync_reg_f08ts_ pmpir_f_sync_reg_f08ts_);

// A status has the same five integers in C, and in both bindings.
also!(mpi_status_f2f08_: __mpi_f08_types_MOD_mpi_status_f2f08 __mpi_f08_types_MOD_mpi_status_f082f
    __mpi_f08_types_MOD_pmpi_status_f2f08 __mpi_f08_types_MOD_pmpi_status_f082f
    __mpi_f08_types_MOD_mpi_status_c2f08 __mpi_f08_types_MOD_mpi_status_f082c
    __mpi_f08_types_MOD_pmpi_status_c2f08 __mpi_f08_types_MOD_pmpi_status_f082c);

/// The assignment of a status of C to one of Fortran.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __mpi_f08_types_MOD_mpi_status_f08_assign_c(
    to: *mut [c_int; MPI_STATUS_SIZE],
    from: *const [c_int; MPI_STATUS_SIZE],
) {
    // SAFETY: the program passes a status, and room for another one.
    unsafe { to.write_unaligned(from.read_unaligned()) };
}
also!(__mpi_f08_types_MOD_mpi_status_f08_assign_c: __mpi_f08_types_MOD_mpi_status_c_assign_f08
    __mpi_f08_types_MOD_mpi_status_f_assign_c __mpi_f08_types_MOD_mpi_status_c_assign_f);

/// A handle of C for one of Fortran, and the other way round: both are the same number.
#[unsafe(no_mangle)]
pub extern "C" fn __mpi_f08_types_MOD_mpi_comm_c2f(handle: c_int) -> c_int {
    handle
}
also!(__mpi_f08_types_MOD_mpi_comm_c2f: __mpi_f08_types_MOD_mpi_comm_f2c
    __mpi_f08_types_MOD_mpi_datatype_c2f __mpi_f08_types_MOD_mpi_datatype_f2c
    __mpi_f08_types_MOD_mpi_errhandler_c2f __mpi_f08_types_MOD_mpi_errhandler_f2c
    __mpi_f08_types_MOD_mpi_group_c2f __mpi_f08_types_MOD_mpi_group_f2c
    __mpi_f08_types_MOD_mpi_info_c2f __mpi_f08_types_MOD_mpi_info_f2c
    __mpi_f08_types_MOD_mpi_message_c2f __mpi_f08_types_MOD_mpi_message_f2c
    __mpi_f08_types_MOD_mpi_op_c2f __mpi_f08_types_MOD_mpi_op_f2c
    __mpi_f08_types_MOD_mpi_request_c2f __mpi_f08_types_MOD_mpi_request_f2c
    __mpi_f08_types_MOD_mpi_session_c2f __mpi_f08_types_MOD_mpi_session_f2c
    __mpi_f08_types_MOD_mpi_win_c2f __mpi_f08_types_MOD_mpi_win_f2c);

/// `MPI_Sizeof` for types of one size.
macro_rules! sizes {
    ($($size:literal: $name:ident $($other:ident)*;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(_variable: *const c_void, size: *mut c_int, ierror: *mut c_int) {
            // SAFETY: the program passes addresses of integers.
            unsafe {
                size.write_unaligned($size);
                finish(ierror, 0);
            }
        }
        also!($name: $($other)*);
    )*};
}

sizes! {
    1: __mpi_f08_types_MOD_mpi_sizeof_character __mpi_f08_types_MOD_mpi_sizeof_xint8
        __mpi_sizeofs_MOD_mpi_sizeof_ch __mpi_sizeofs_MOD_mpi_sizeof_chv
        __mpi_sizeofs_MOD_mpi_sizeof_i1 __mpi_sizeofs_MOD_mpi_sizeof_i1v;
    2: __mpi_f08_types_MOD_mpi_sizeof_xint16 __mpi_sizeofs_MOD_mpi_sizeof_i2 __mpi_sizeofs_MOD_mpi_sizeof_i2v;
    4: __mpi_f08_types_MOD_mpi_sizeof_logical __mpi_f08_types_MOD_mpi_sizeof_xint32
        __mpi_f08_types_MOD_mpi_sizeof_xreal32
        __mpi_sizeofs_MOD_mpi_sizeof_i __mpi_sizeofs_MOD_mpi_sizeof_iv
        __mpi_sizeofs_MOD_mpi_sizeof_l __mpi_sizeofs_MOD_mpi_sizeof_lv
        __mpi_sizeofs_MOD_mpi_sizeof_r __mpi_sizeofs_MOD_mpi_sizeof_rv;
    8: __mpi_f08_types_MOD_mpi_sizeof_xint64 __mpi_f08_types_MOD_mpi_sizeof_xreal64
        __mpi_f08_types_MOD_mpi_sizeof_xcomplex32
        __mpi_sizeofs_MOD_mpi_sizeof_cx __mpi_sizeofs_MOD_mpi_sizeof_cxv
        __mpi_sizeofs_MOD_mpi_sizeof_d __mpi_sizeofs_MOD_mpi_sizeof_dv
        __mpi_sizeofs_MOD_mpi_sizeof_i8 __mpi_sizeofs_MOD_mpi_sizeof_i8v;
    16: __mpi_f08_types_MOD_mpi_sizeof_xreal128 __mpi_f08_types_MOD_mpi_sizeof_xcomplex64;
    32: __mpi_f08_types_MOD_mpi_sizeof_xcomplex128;
}

/// The virtual table with which gfortran describes a derived type to code that gets a variable of any type (`class(*)`).
#[repr(C)]
pub struct VirtualTable {
    /// gfortran makes it from the names of module and type, and compares types by it.
    hash: c_int,
    size: usize,
    extends: *const VirtualTable,
    initial: *const c_int,
    copy: unsafe extern "C" fn(*const c_int, *mut c_int),
    finalize: usize,
    deallocate: usize,
}

// SAFETY: nobody writes it.
unsafe impl Sync for VirtualTable {}

/// Defines the virtual tables of types with so many integers, and what they refer to.
macro_rules! types {
    ($($integers:literal { $($hash:literal $table:ident $initial:ident $copy:ident;)* })*) => {$($(
        #[unsafe(no_mangle)]
        pub static $initial: [c_int; $integers] = [0; $integers];

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $copy(from: *const c_int, to: *mut c_int) {
            // SAFETY: the program passes a variable of the type, and room for another one.
            unsafe { to.copy_from(from, $integers) };
        }

        #[unsafe(no_mangle)]
        pub static $table: VirtualTable = VirtualTable {
            hash: $hash,
            size: size_of::<[c_int; $integers]>(),
            extends: core::ptr::null(),
            initial: (&raw const $initial).cast(),
            copy: $copy,
            finalize: 0,
            deallocate: 0,
        };
    )*)*};
}

types! {
    1 {
    73600949 __mpi_f08_types_MOD___vtab_mpi_f08_types_Mpi_comm
        __mpi_f08_types_MOD___def_init_mpi_f08_types_Mpi_comm
        __mpi_f08_types_MOD___copy_mpi_f08_types_Mpi_comm;
    86896269 __mpi_f08_types_MOD___vtab_mpi_f08_types_Mpi_datatype
        __mpi_f08_types_MOD___def_init_mpi_f08_types_Mpi_datatype
        __mpi_f08_types_MOD___copy_mpi_f08_types_Mpi_datatype;
    15118478 __mpi_f08_types_MOD___vtab_mpi_f08_types_Mpi_errhandler
        __mpi_f08_types_MOD___def_init_mpi_f08_types_Mpi_errhandler
        __mpi_f08_types_MOD___copy_mpi_f08_types_Mpi_errhandler;
    70760613 __mpi_f08_types_MOD___vtab_mpi_f08_types_Mpi_file
        __mpi_f08_types_MOD___def_init_mpi_f08_types_Mpi_file
        __mpi_f08_types_MOD___copy_mpi_f08_types_Mpi_file;
    20619574 __mpi_f08_types_MOD___vtab_mpi_f08_types_Mpi_group
        __mpi_f08_types_MOD___def_init_mpi_f08_types_Mpi_group
        __mpi_f08_types_MOD___copy_mpi_f08_types_Mpi_group;
    53436151 __mpi_f08_types_MOD___vtab_mpi_f08_types_Mpi_info
        __mpi_f08_types_MOD___def_init_mpi_f08_types_Mpi_info
        __mpi_f08_types_MOD___copy_mpi_f08_types_Mpi_info;
    90857150 __mpi_f08_types_MOD___vtab_mpi_f08_types_Mpi_message
        __mpi_f08_types_MOD___def_init_mpi_f08_types_Mpi_message
        __mpi_f08_types_MOD___copy_mpi_f08_types_Mpi_message;
    68037098 __mpi_f08_types_MOD___vtab_mpi_f08_types_Mpi_op
        __mpi_f08_types_MOD___def_init_mpi_f08_types_Mpi_op
        __mpi_f08_types_MOD___copy_mpi_f08_types_Mpi_op;
    92555974 __mpi_f08_types_MOD___vtab_mpi_f08_types_Mpi_request
        __mpi_f08_types_MOD___def_init_mpi_f08_types_Mpi_request
        __mpi_f08_types_MOD___copy_mpi_f08_types_Mpi_request;
    41464269 __mpi_f08_types_MOD___vtab_mpi_f08_types_Mpi_session
        __mpi_f08_types_MOD___def_init_mpi_f08_types_Mpi_session
        __mpi_f08_types_MOD___copy_mpi_f08_types_Mpi_session;
    58701395 __mpi_f08_types_MOD___vtab_mpi_f08_types_Mpi_win
        __mpi_f08_types_MOD___def_init_mpi_f08_types_Mpi_win
        __mpi_f08_types_MOD___copy_mpi_f08_types_Mpi_win;
    41315982 __mpi_constants_MOD___vtab_mpi_constants_Mpi_comm
        __mpi_constants_MOD___def_init_mpi_constants_Mpi_comm
        __mpi_constants_MOD___copy_mpi_constants_Mpi_comm;
    48485222 __mpi_constants_MOD___vtab_mpi_constants_Mpi_datatype
        __mpi_constants_MOD___def_init_mpi_constants_Mpi_datatype
        __mpi_constants_MOD___copy_mpi_constants_Mpi_datatype;
    39840743 __mpi_constants_MOD___vtab_mpi_constants_Mpi_errhandler
        __mpi_constants_MOD___def_init_mpi_constants_Mpi_errhandler
        __mpi_constants_MOD___copy_mpi_constants_Mpi_errhandler;
    33442942 __mpi_constants_MOD___vtab_mpi_constants_Mpi_file
        __mpi_constants_MOD___def_init_mpi_constants_Mpi_file
        __mpi_constants_MOD___copy_mpi_constants_Mpi_file;
    74059165 __mpi_constants_MOD___vtab_mpi_constants_Mpi_group
        __mpi_constants_MOD___def_init_mpi_constants_Mpi_group
        __mpi_constants_MOD___copy_mpi_constants_Mpi_group;
    21151184 __mpi_constants_MOD___vtab_mpi_constants_Mpi_info
        __mpi_constants_MOD___def_init_mpi_constants_Mpi_info
        __mpi_constants_MOD___copy_mpi_constants_Mpi_info;
    13592485 __mpi_constants_MOD___vtab_mpi_constants_Mpi_message
        __mpi_constants_MOD___def_init_mpi_constants_Mpi_message
        __mpi_constants_MOD___copy_mpi_constants_Mpi_message;
    49666883 __mpi_constants_MOD___vtab_mpi_constants_Mpi_op
        __mpi_constants_MOD___def_init_mpi_constants_Mpi_op
        __mpi_constants_MOD___copy_mpi_constants_Mpi_op;
    15291309 __mpi_constants_MOD___vtab_mpi_constants_Mpi_request
        __mpi_constants_MOD___def_init_mpi_constants_Mpi_request
        __mpi_constants_MOD___copy_mpi_constants_Mpi_request;
    37378874 __mpi_constants_MOD___vtab_mpi_constants_Mpi_win
        __mpi_constants_MOD___def_init_mpi_constants_Mpi_win
        __mpi_constants_MOD___copy_mpi_constants_Mpi_win;
    }
    5 {
    3872507 __mpi_f08_types_MOD___vtab_mpi_f08_types_Mpi_status
        __mpi_f08_types_MOD___def_init_mpi_f08_types_Mpi_status
        __mpi_f08_types_MOD___copy_mpi_f08_types_Mpi_status;
    5819988 __mpi_constants_MOD___vtab_mpi_constants_Mpi_status
        __mpi_constants_MOD___def_init_mpi_constants_Mpi_status
        __mpi_constants_MOD___copy_mpi_constants_Mpi_status;
    }
}
