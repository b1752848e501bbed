//! Contents of a datatype: the array of the program may have more elements than there are datatypes, and the
//! call writes only the first.

use alloc::vec;
use core::ffi::c_int;

use crate::abi::{Element, number_of_element};
use crate::also;
use crate::data::{handle, int, long};
use crate::error::finish;
use crate::generated::c;

/// Not a handle: marks an element that the call has not written.
const UNWRITTEN: Element = !0;

/// Stores for the program those handles that a call has written, which are the first ones.
///
/// # Safety
/// The array has as many elements as `handles`.
unsafe fn give(code: c_int, handles: &[Element], array: *mut c_int) {
    for (place, &handle) in handles.iter().enumerate() {
        if code == 0 && handle != UNWRITTEN {
            // SAFETY: as this function demands.
            unsafe { array.add(place).write_unaligned(number_of_element(handle)) };
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
        let mut datatypes = vec![UNWRITTEN; usize::try_from(most).unwrap_or(0)];
        let code = c::MPI_Type_get_contents(
            handle(datatype),
            int(max_integers),
            int(max_addresses),
            most,
            array_of_integers,
            array_of_addresses,
            datatypes.as_mut_ptr().cast(),
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
        let mut datatypes = vec![UNWRITTEN; usize::try_from(most).unwrap_or(0)];
        let code = c::MPI_Type_get_contents_c(
            handle(datatype),
            long(max_integers),
            long(max_addresses),
            long(max_large_counts),
            most,
            array_of_integers,
            array_of_addresses,
            array_of_large_counts,
            datatypes.as_mut_ptr().cast(),
        );
        give(code, &datatypes, array_of_datatypes);
        finish(ierror, code);
    }
}
also!(mpi_type_get_contents_c_f08_: pmpi_type_get_contents_c_f08_);
