//! Generalized requests: callbacks are subroutines. And what a datatype was made of.

use std::ffi::{c_int, c_void};

use crate::also;
use crate::data::{aint, handle, int, long, number, store_handle};
use crate::error::finish;
use crate::generated::c;
use crate::logical;

type Query = unsafe extern "C" fn(*mut isize, *mut c_int, *mut c_int);
type Free = unsafe extern "C" fn(*mut isize, *mut c_int);
type Cancel = unsafe extern "C" fn(*mut isize, *const c_int, *mut c_int);

/// What belongs to one request, until C frees it.
struct Callbacks {
    query: Query,
    free: Free,
    cancel: Cancel,
    extra: isize,
}

unsafe extern "C" fn query(extra: *mut c_void, status: *mut c_int) -> c_int {
    let (callbacks, mut code) = (extra.cast::<Callbacks>(), 0);
    // SAFETY: `mpi_grequest_start_` has given C the callbacks; a status has the same form in both languages.
    unsafe { ((*callbacks).query)(&raw mut (*callbacks).extra, status, &mut code) };
    code
}

unsafe extern "C" fn free(extra: *mut c_void) -> c_int {
    let (callbacks, mut code) = (extra.cast::<Callbacks>(), 0);
    // SAFETY: as above; this is the last call.
    unsafe {
        ((*callbacks).free)(&raw mut (*callbacks).extra, &mut code);
        drop(Box::from_raw(callbacks));
    }
    code
}

unsafe extern "C" fn cancel(extra: *mut c_void, complete: c_int) -> c_int {
    let (callbacks, mut code) = (extra.cast::<Callbacks>(), 0);
    let complete = logical::of(complete != 0);
    // SAFETY: as above.
    unsafe { ((*callbacks).cancel)(&raw mut (*callbacks).extra, &complete, &mut code) };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpi_grequest_start_(
    query_fn: Query,
    free_fn: Free,
    cancel_fn: Cancel,
    extra_state: *const isize,
    request: *mut c_int,
    ierror: *mut c_int,
) {
    // SAFETY: the program passes subroutines and addresses of integers.
    unsafe {
        let callbacks = Box::into_raw(Box::new(Callbacks {
            query: query_fn,
            free: free_fn,
            cancel: cancel_fn,
            extra: aint(extra_state),
        }));
        let mut made = 0;
        let code = c::MPI_Grequest_start(
            query as *const () as usize,
            free as *const () as usize,
            cancel as *const () as usize,
            callbacks.cast(),
            &mut made,
        );
        if code == 0 {
            store_handle(request, made);
        } else {
            drop(Box::from_raw(callbacks));
        }
        finish(ierror, code);
    }
}
also!(mpi_grequest_start_: pmpi_grequest_start_ mpi_grequest_start_f08_ pmpi_grequest_start_f08_);

/// Gives the program handles of which a call has written the first ones.
///
/// # Safety
/// The array has as many elements.
unsafe fn give(code: c_int, handles: &[usize], array: *mut c_int) {
    for (place, &handle) in handles.iter().enumerate() {
        if code == 0 && handle != usize::MAX {
            // SAFETY: as this function demands.
            unsafe { array.add(place).write_unaligned(number(handle)) };
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpi_type_get_contents_(
    datatype: *const c_int,
    max_integers: *const c_int,
    max_addresses: *const c_int,
    max_datatypes: *const c_int,
    array_of_integers: *mut c_int,
    array_of_addresses: *mut isize,
    array_of_datatypes: *mut c_int,
    ierror: *mut c_int,
) {
    // SAFETY: the addresses are the program's.
    unsafe {
        let most = int(max_datatypes);
        let mut datatypes = vec![usize::MAX; usize::try_from(most).unwrap_or(0)];
        let code = c::MPI_Type_get_contents(
            handle(datatype),
            int(max_integers),
            int(max_addresses),
            most,
            array_of_integers,
            array_of_addresses,
            datatypes.as_mut_ptr(),
        );
        give(code, &datatypes, array_of_datatypes);
        finish(ierror, code);
    }
}
also!(mpi_type_get_contents_: pmpi_type_get_contents_ mpi_type_get_contents_f08_ pmpi_type_get_contents_f08_);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpi_type_get_contents_c_f08_(
    datatype: *const c_int,
    max_integers: *const i64,
    max_addresses: *const i64,
    max_large_counts: *const i64,
    max_datatypes: *const i64,
    array_of_integers: *mut c_int,
    array_of_addresses: *mut isize,
    array_of_large_counts: *mut i64,
    array_of_datatypes: *mut c_int,
    ierror: *mut c_int,
) {
    // SAFETY: as above.
    unsafe {
        let most = long(max_datatypes);
        let mut datatypes = vec![usize::MAX; usize::try_from(most).unwrap_or(0)];
        let code = c::MPI_Type_get_contents_c(
            handle(datatype),
            long(max_integers),
            long(max_addresses),
            long(max_large_counts),
            most,
            array_of_integers,
            array_of_addresses,
            array_of_large_counts,
            datatypes.as_mut_ptr(),
        );
        give(code, &datatypes, array_of_datatypes);
        finish(ierror, code);
    }
}
also!(mpi_type_get_contents_c_f08_: pmpi_type_get_contents_c_f08_);
