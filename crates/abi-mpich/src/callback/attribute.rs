//! Attributes: the functions that copy and delete them.

#![allow(non_snake_case, missing_docs, clippy::missing_safety_doc)]

use alloc::boxed::Box;
use core::ffi::{c_int, c_void};

use crate::generated::names::index;
use crate::handle::{Comm, Datatype, Handle, Win};
use crate::{alias, error, number, own, standard};

/// What the program has passed: one record for each key, never freed, because attributes outlive their key.
struct Record {
    copy: usize,
    delete: usize,
    extra_state: *mut c_void,
}

unsafe extern "C" fn copy<H: Handle>(
    object: usize,
    keyval: c_int,
    record: *mut Record,
    value: *mut c_void,
    copy: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: the standard ABI passes the record that came with the key; the program has passed a function of this type.
    unsafe {
        let function: unsafe extern "C" fn(
            H::Classic,
            c_int,
            *mut c_void,
            *mut c_void,
            *mut c_void,
            *mut c_int,
        ) -> c_int = core::mem::transmute((*record).copy);
        let keyval = number::keyval::encode(keyval);
        error::decode_any(function(
            H::encode(object),
            keyval,
            (*record).extra_state,
            value,
            copy,
            flag,
        ))
    }
}

unsafe extern "C" fn delete<H: Handle>(
    object: usize,
    keyval: c_int,
    value: *mut c_void,
    record: *mut Record,
) -> c_int {
    // SAFETY: as above.
    unsafe {
        let function: unsafe extern "C" fn(H::Classic, c_int, *mut c_void, *mut c_void) -> c_int =
            core::mem::transmute((*record).delete);
        let keyval = number::keyval::encode(keyval);
        error::decode_any(function(
            H::encode(object),
            keyval,
            value,
            (*record).extra_state,
        ))
    }
}

unsafe fn create<H: Handle>(
    place: usize,
    copy_function: usize,
    delete_function: usize,
    keyval: *mut c_int,
    extra_state: *mut c_void,
) -> c_int {
    let copies = match copy_function {
        0 => 0,
        address if own::attribute::duplicates(address) => number::STANDARD_DUP_FN as usize,
        _ => copy::<H> as *const () as usize,
    };
    let deletes = match delete_function {
        0 => 0,
        _ => delete::<H> as *const () as usize,
    };
    let record = Box::new(Record {
        copy: copy_function,
        delete: delete_function,
        extra_state,
    });
    let record = Box::into_raw(record);
    // SAFETY: the addresses come from the caller, which keeps the promises of the C binding; the record stays.
    unsafe {
        let call: unsafe extern "C" fn(usize, usize, *mut c_int, *mut Record) -> c_int =
            standard::function(place);
        let code = call(copies, deletes, keyval, record);
        if code != 0 {
            drop(Box::from_raw(record));
        }
        error::encode(code)
    }
}

macro_rules! keys {
    ($($create:ident $direct:ident $name:ident $kind:ident;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $create(
            copy_function: usize,
            delete_function: usize,
            keyval: *mut c_int,
            extra_state: *mut c_void,
        ) -> c_int {
            // SAFETY: the same arguments.
            unsafe { create::<$kind>(index::$name, copy_function, delete_function, keyval, extra_state) }
        }
        alias!($direct => $create);
    )*};
}

keys! {
    PMPI_Comm_create_keyval MPI_Comm_create_keyval MPI_COMM_CREATE_KEYVAL Comm;
    PMPI_Keyval_create MPI_Keyval_create MPI_KEYVAL_CREATE Comm;
    PMPI_Type_create_keyval MPI_Type_create_keyval MPI_TYPE_CREATE_KEYVAL Datatype;
    PMPI_Win_create_keyval MPI_Win_create_keyval MPI_WIN_CREATE_KEYVAL Win;
}
