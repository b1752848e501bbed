//! Generalized requests: callbacks are subroutines.

use alloc::boxed::Box;
use core::ffi::{c_int, c_void};

use crate::also;
use crate::data::{aint, store_handle};
use crate::error::finish;
use crate::generated::c;
use crate::logical;

type Query = unsafe extern "C" fn(*mut isize, *mut c_int, *mut c_int);
type Free = unsafe extern "C" fn(*mut isize, *mut c_int);
type Cancel = unsafe extern "C" fn(*mut isize, *const c_int, *mut c_int);

/// The callbacks of one request, until C frees it.
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
