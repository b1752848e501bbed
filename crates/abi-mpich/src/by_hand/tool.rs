//! Tool interface: an array whose length is both argument and result, and objects to which variables are
//! bound.

use core::ffi::{c_char, c_int, c_void};

use crate::array::{self, length};
use crate::generated::names::index;
use crate::handle::{self, Comm, Datatype, Handle, Info, Word};
use crate::number::{self, STANDARD_T_BIND_MPI_COMM};
use crate::{alias, error, standard};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_T_event_get_info(
    index: c_int,
    name: *mut c_char,
    name_length: *mut c_int,
    verbosity: *mut c_int,
    datatypes: *mut Word,
    displacements: *mut isize,
    elements: *mut c_int,
    enumeration: *mut usize,
    info: *mut Word,
    description: *mut c_char,
    description_length: *mut c_int,
    bind: *mut c_int,
) -> c_int {
    type Call = unsafe extern "C" fn(
        c_int,
        *mut c_char,
        *mut c_int,
        *mut c_int,
        *mut usize,
        *mut isize,
        *mut c_int,
        *mut usize,
        *mut usize,
        *mut c_char,
        *mut c_int,
        *mut c_int,
    ) -> c_int;
    let mut made = 0;
    // SAFETY: the addresses come from the caller, which keeps the promises of the C binding.
    unsafe {
        let room = if elements.is_null() {
            0
        } else {
            length(elements.read_unaligned())
        };
        let mut found = array::handles_to_come::<Datatype>(datatypes, room);
        let call: Call = standard::function(index::MPI_T_EVENT_GET_INFO);
        let code = call(
            index,
            name,
            name_length,
            verbosity,
            found.as_mut_ptr(),
            displacements,
            elements,
            enumeration,
            handle::out_pointer(info, &mut made),
            description,
            description_length,
            bind,
        );
        if code == 0 {
            if !elements.is_null() {
                found.store_first(
                    datatypes,
                    length(elements.read_unaligned()).min(room),
                    Datatype::encode,
                );
            }
            handle::store::<Info>(info, made);
            array::encode_numbers(code, verbosity, 1, number::verbosity::encode);
            array::encode_numbers(code, bind, 1, number::bound_object::encode);
        }
        error::encode(code)
    }
}
alias!(MPI_T_event_get_info => PMPI_T_event_get_info);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_T_pvar_handle_alloc(
    session: usize,
    index: c_int,
    object: *mut c_void,
    handle: *mut usize,
    count: *mut c_int,
) -> c_int {
    // SAFETY: the addresses come from the caller, which keeps the promises of the C binding: where the variable expects a communicator,
    // `object` is the address of a handle.
    unsafe {
        let mut comm = match object.is_null() || !bound_to_comm(index) {
            true => None,
            false => Some(Comm::decode(object.cast::<Word>().read_unaligned())),
        };
        let object = comm.as_mut().map_or(object, |comm| (&raw mut *comm).cast());
        let call: unsafe extern "C" fn(usize, c_int, *mut c_void, *mut usize, *mut c_int) -> c_int =
            standard::function(index::MPI_T_PVAR_HANDLE_ALLOC);
        error::encode(call(session, index, object, handle, count))
    }
}
alias!(MPI_T_pvar_handle_alloc => PMPI_T_pvar_handle_alloc);

/// Whether a performance variable is bound to communicators.
fn bound_to_comm(index: c_int) -> bool {
    type Call = unsafe extern "C" fn(
        c_int,
        *mut c_char,
        *mut c_int,
        *mut c_int,
        *mut c_int,
        *mut usize,
        *mut usize,
        *mut c_char,
        *mut c_int,
        *mut c_int,
        *mut c_int,
        *mut c_int,
        *mut c_int,
    ) -> c_int;
    let [mut name, mut text, mut verbosity, mut class] = [0; 4];
    let [mut bind, mut readonly, mut continuous, mut atomic] = [0; 4];
    let [mut datatype, mut enumeration] = [0; 2];
    // SAFETY: all are addresses of variables; no text is asked for.
    unsafe {
        let call: Call = standard::function(index::MPI_T_PVAR_GET_INFO);
        call(
            index,
            core::ptr::null_mut(),
            &raw mut name,
            &raw mut verbosity,
            &raw mut class,
            &raw mut datatype,
            &raw mut enumeration,
            core::ptr::null_mut(),
            &raw mut text,
            &raw mut bind,
            &raw mut readonly,
            &raw mut continuous,
            &raw mut atomic,
        ) == 0
            && bind == STANDARD_T_BIND_MPI_COMM
    }
}
