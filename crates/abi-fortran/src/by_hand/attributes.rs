//! Attributes: values are integers, callbacks are subroutines.
//!
//! C keeps an address for each attribute. A value that Fortran sets is stored in a cell of its own, whose address is the
//! value in C (MPI 5.0, section 19.3.7: C gets the address of the integer, and Fortran gets an address of C as an integer).

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use core::ffi::{c_int, c_void};

use weft_bare::Mutex;

use crate::abi::keyval as keyval_of_c;
use crate::also;
use crate::data::{aint, handle, int};
use crate::error::finish;
use crate::generated::c;
use crate::generated::constants as k;
use crate::logical;

/// A subroutine of a program that decides whether an attribute is copied.
type Copy = unsafe extern "C" fn(
    *const c_int,
    *const c_int,
    *mut isize,
    *const isize,
    *mut isize,
    *mut c_int,
    *mut c_int,
);

/// A subroutine of a program that is called when an attribute is deleted.
type Delete =
    unsafe extern "C" fn(*const c_int, *const c_int, *const isize, *mut isize, *mut c_int);

/// The callbacks of a key that Fortran has made. They are never freed: attributes may outlive the key.
struct Callbacks {
    copy: Copy,
    delete: Delete,
    extra: isize,
    /// Its values are integers of four bytes: an address becomes its lower half.
    is_old: bool,
}

/// Cells of values that Fortran has set.
static CELLS: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

/// A cell with this value.
fn cell(value: isize) -> *mut c_void {
    let cell: *mut isize = Box::into_raw(Box::new(value));
    CELLS.lock().insert(cell.addr());
    cell.cast()
}

/// Frees a cell, if the address is that of one.
fn end_cell(address: *mut c_void) {
    if CELLS.lock().remove(&address.addr()) {
        // SAFETY: `cell` has made it, and it was not freed before.
        drop(unsafe { Box::from_raw(address.cast::<isize>()) });
    }
}

/// The value in Fortran for the address in C.
///
/// # Safety
/// The address is the value of this key in C.
unsafe fn value_of(keyval: c_int, address: *mut c_void) -> isize {
    // SAFETY: addresses of predefined attributes are those of numbers (MPI 5.0, sections 9.1.2 and 12.2.6),
    // and a cell contains one.
    unsafe {
        match keyval {
            k::MPI_TAG_UB
            | k::MPI_IO
            | k::MPI_HOST
            | k::MPI_WTIME_IS_GLOBAL
            | k::MPI_APPNUM
            | k::MPI_LASTUSEDCODE
            | k::MPI_UNIVERSE_SIZE
            | k::MPI_WIN_DISP_UNIT
            | k::MPI_WIN_CREATE_FLAVOR
            | k::MPI_WIN_MODEL => *address.cast::<c_int>() as isize,
            k::MPI_WIN_SIZE => *address.cast::<isize>(),
            _ if CELLS.lock().contains(&address.addr()) => *address.cast::<isize>(),
            _ => address.addr().cast_signed(),
        }
    }
}

/// The function that C calls to copy an attribute.
unsafe extern "C" fn copy(
    object: usize,
    keyval: c_int,
    extra: *mut c_void,
    value: *mut c_void,
    out: *mut c_void,
    is_copied: *mut c_int,
) -> c_int {
    let callbacks = extra.cast::<Callbacks>();
    let (object, mut given) = (crate::data::number(object), 0);
    let (mut flag, mut code) = (logical::of(false), 0);
    // SAFETY: `create` has given C the callbacks; the other arguments are as C promises.
    unsafe {
        let value = value_of(keyval, value);
        ((*callbacks).copy)(
            &object,
            &keyval,
            &raw mut (*callbacks).extra,
            &value,
            &mut given,
            &mut flag,
            &mut code,
        );
        let flag = logical::load(&flag);
        if code == 0 && flag != 0 {
            let given = if (*callbacks).is_old {
                given as c_int as isize
            } else {
                given
            };
            out.cast::<*mut c_void>().write(cell(given));
        }
        is_copied.write(flag);
    }
    code
}

/// The function that C calls when an attribute is deleted.
unsafe extern "C" fn delete(
    object: usize,
    keyval: c_int,
    address: *mut c_void,
    extra: *mut c_void,
) -> c_int {
    let callbacks = extra.cast::<Callbacks>();
    let (object, mut code) = (crate::data::number(object), 0);
    // SAFETY: as above.
    unsafe {
        let value = value_of(keyval, address);
        let extra = &raw mut (*callbacks).extra;
        ((*callbacks).delete)(&object, &keyval, &value, extra, &mut code);
    }
    if code == 0 {
        end_cell(address);
    }
    code
}

type Create = unsafe extern "C" fn(usize, usize, *mut c_int, *mut c_void) -> c_int;

/// # Safety
/// The addresses are those that a program passes to a procedure that makes a key.
unsafe fn create(create: Create, callbacks: Callbacks, keyval: *mut c_int, ierror: *mut c_int) {
    let callbacks = Box::into_raw(Box::new(callbacks));
    // SAFETY: as this function demands.
    unsafe {
        let code = create(
            copy as *const () as usize,
            delete as *const () as usize,
            keyval,
            callbacks.cast(),
        );
        if code != 0 {
            drop(Box::from_raw(callbacks));
        }
        finish(ierror, code);
    }
}

type Get = unsafe extern "C" fn(usize, c_int, *mut c_void, *mut c_int) -> c_int;

/// The value of an attribute, if it is set.
///
/// # Safety
/// The addresses are those that a program passes to a procedure that gets an attribute.
unsafe fn get(
    get: Get,
    object: *const c_int,
    keyval: *const c_int,
    flag: *mut c_int,
    ierror: *mut c_int,
) -> Option<isize> {
    let (mut address, mut found) = (core::ptr::null_mut::<c_void>(), logical::UNSET);
    // SAFETY: as this function demands.
    unsafe {
        let keyval = keyval_of_c(int(keyval));
        let code = get(
            handle(object),
            keyval,
            (&raw mut address).cast(),
            &mut found,
        );
        logical::store(flag, found);
        finish(ierror, code);
        (code == 0 && found == 1).then(|| value_of(keyval, address))
    }
}

type Set = unsafe extern "C" fn(usize, c_int, *mut c_void) -> c_int;

/// # Safety
/// The addresses are those that a program passes to a procedure that sets an attribute.
unsafe fn set(
    set: Set,
    object: *const c_int,
    keyval: *const c_int,
    value: isize,
    ierror: *mut c_int,
) {
    let cell = cell(value);
    // SAFETY: as this function demands.
    unsafe {
        let code = set(handle(object), keyval_of_c(int(keyval)), cell);
        if code != 0 {
            end_cell(cell);
        }
        finish(ierror, code);
    }
}

/// The procedures of a kind of objects.
macro_rules! attributes {
    ($create:ident = $c_create:ident, $get:ident = $c_get:ident, $set:ident = $c_set:ident, $value:ty, $is_old:literal) => {
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $create(
            copy: Copy,
            delete: Delete,
            keyval: *mut c_int,
            extra: *const $value,
            ierror: *mut c_int,
        ) {
            // SAFETY: the program passes subroutines and addresses of integers.
            unsafe {
                let callbacks = Callbacks {
                    copy,
                    delete,
                    extra: extra.read_unaligned() as isize,
                    is_old: $is_old,
                };
                create(c::$c_create, callbacks, keyval, ierror);
            }
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $get(
            object: *const c_int,
            keyval: *const c_int,
            value: *mut $value,
            flag: *mut c_int,
            ierror: *mut c_int,
        ) {
            // SAFETY: the program passes addresses of integers and of a logical.
            unsafe {
                if let Some(found) = get(c::$c_get, object, keyval, flag, ierror) {
                    value.write_unaligned(found as $value);
                }
            }
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $set(
            object: *const c_int,
            keyval: *const c_int,
            value: *const $value,
            ierror: *mut c_int,
        ) {
            // SAFETY: the program passes addresses of integers.
            unsafe {
                let value = value.read_unaligned() as isize;
                set(c::$c_set, object, keyval, value, ierror);
            }
        }
    };
}

attributes!(
    mpi_comm_create_keyval_ = MPI_Comm_create_keyval,
    mpi_comm_get_attr_ = MPI_Comm_get_attr,
    mpi_comm_set_attr_ = MPI_Comm_set_attr,
    isize,
    false
);
attributes!(
    mpi_type_create_keyval_ = MPI_Type_create_keyval,
    mpi_type_get_attr_ = MPI_Type_get_attr,
    mpi_type_set_attr_ = MPI_Type_set_attr,
    isize,
    false
);
attributes!(
    mpi_win_create_keyval_ = MPI_Win_create_keyval,
    mpi_win_get_attr_ = MPI_Win_get_attr,
    mpi_win_set_attr_ = MPI_Win_set_attr,
    isize,
    false
);
attributes!(
    mpi_keyval_create_ = MPI_Keyval_create,
    mpi_attr_get_ = MPI_Attr_get,
    mpi_attr_put_ = MPI_Attr_put,
    c_int,
    true
);

also!(mpi_comm_create_keyval_: pmpi_comm_create_keyval_ mpi_comm_create_keyval_f08_ pmpi_comm_create_keyval_f08_);
also!(mpi_type_create_keyval_: pmpi_type_create_keyval_ mpi_type_create_keyval_f08_ pmpi_type_create_keyval_f08_);
also!(mpi_win_create_keyval_: pmpi_win_create_keyval_ mpi_win_create_keyval_f08_ pmpi_win_create_keyval_f08_);
also!(mpi_keyval_create_: pmpi_keyval_create_);
also!(mpi_comm_get_attr_: pmpi_comm_get_attr_ mpi_comm_get_attr_f08_ pmpi_comm_get_attr_f08_);
also!(mpi_type_get_attr_: pmpi_type_get_attr_ mpi_type_get_attr_f08_ pmpi_type_get_attr_f08_);
also!(mpi_win_get_attr_: pmpi_win_get_attr_ mpi_win_get_attr_f08_ pmpi_win_get_attr_f08_);
also!(mpi_attr_get_: pmpi_attr_get_);
also!(mpi_comm_set_attr_: pmpi_comm_set_attr_ mpi_comm_set_attr_f08_ pmpi_comm_set_attr_f08_);
also!(mpi_type_set_attr_: pmpi_type_set_attr_ mpi_type_set_attr_f08_ pmpi_type_set_attr_f08_);
also!(mpi_win_set_attr_: pmpi_win_set_attr_ mpi_win_set_attr_f08_ pmpi_win_set_attr_f08_);
also!(mpi_attr_put_: pmpi_attr_put_);

/// Copies no attribute.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpi_comm_null_copy_fn_(
    _object: *const c_int,
    _keyval: *const c_int,
    _extra: *mut isize,
    _value: *const isize,
    _given: *mut isize,
    flag: *mut c_int,
    ierror: *mut c_int,
) {
    // SAFETY: the caller passes addresses of a logical and of an integer.
    unsafe {
        logical::store(flag, 0);
        finish(ierror, 0);
    }
}
also!(mpi_comm_null_copy_fn_: mpi_type_null_copy_fn_ mpi_win_null_copy_fn_ mpi_null_copy_fn_);

/// Copies an attribute as it is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpi_comm_dup_fn_(
    _object: *const c_int,
    _keyval: *const c_int,
    _extra: *mut isize,
    value: *const isize,
    given: *mut isize,
    flag: *mut c_int,
    ierror: *mut c_int,
) {
    // SAFETY: as above, and those of two values.
    unsafe {
        given.write_unaligned(aint(value));
        logical::store(flag, 1);
        finish(ierror, 0);
    }
}
also!(mpi_comm_dup_fn_: mpi_type_dup_fn_ mpi_win_dup_fn_);

/// The same for an integer of four bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpi_dup_fn_(
    _object: *const c_int,
    _keyval: *const c_int,
    _extra: *mut c_int,
    value: *const c_int,
    given: *mut c_int,
    flag: *mut c_int,
    ierror: *mut c_int,
) {
    // SAFETY: as above.
    unsafe {
        given.write_unaligned(int(value));
        logical::store(flag, 1);
        finish(ierror, 0);
    }
}

/// Deletes an attribute without doing anything.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpi_comm_null_delete_fn_(
    _object: *const c_int,
    _keyval: *const c_int,
    _value: *const isize,
    _extra: *mut isize,
    ierror: *mut c_int,
) {
    // SAFETY: the caller passes the address of an integer.
    unsafe { finish(ierror, 0) };
}
also!(mpi_comm_null_delete_fn_: mpi_type_null_delete_fn_ mpi_win_null_delete_fn_ mpi_null_delete_fn_);
