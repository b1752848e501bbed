//! Texts that are stored in a variable of the program.

use core::ffi::{c_char, c_int};

use crate::also;
use crate::data::{handle, int};
use crate::error::finish;
use crate::generated::c;
use crate::generated::constants::{MPI_MAX_INFO_VAL, MPI_MAX_PSET_NAME_LEN};
use crate::logical;
use crate::text::{self, Text};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpi_info_get_(
    info: *const c_int,
    key: *const c_char,
    valuelen: *const c_int,
    value: *mut c_char,
    flag: *mut c_int,
    ierror: *mut c_int,
    key_length: usize,
    value_length: usize,
) {
    let mut room = [0_u8; MPI_MAX_INFO_VAL];
    let mut found = logical::UNSET;
    // SAFETY: the addresses are the program's; the call writes no more than fits.
    unsafe {
        let mut key = Text::bare(key, key_length);
        let wanted = int(valuelen).min(MPI_MAX_INFO_VAL as c_int - 1);
        let code = c::MPI_Info_get(
            handle(info),
            key.pointer(),
            wanted,
            room.as_mut_ptr().cast(),
            &mut found,
        );
        if found == 1 {
            text::give(code, &room, value, value_length);
        }
        logical::store(flag, found);
        finish(ierror, code);
    }
}
also!(mpi_info_get_: pmpi_info_get_ mpi_info_get_f08_ pmpi_info_get_f08_);

/// The length for C, which counts the zero, at most `most`; 0 asks for the length alone.
fn with_zero(given: c_int, most: usize) -> c_int {
    if given <= 0 {
        given
    } else {
        given.min(most as c_int - 1) + 1
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpi_info_get_string_(
    info: *const c_int,
    key: *const c_char,
    buflen: *mut c_int,
    value: *mut c_char,
    flag: *mut c_int,
    ierror: *mut c_int,
    key_length: usize,
    value_length: usize,
) {
    let mut room = [0_u8; MPI_MAX_INFO_VAL];
    let mut found = logical::UNSET;
    // SAFETY: as above. Lengths of C count the zero.
    unsafe {
        let mut key = Text::bare(key, key_length);
        let given = int(buflen);
        let mut there = with_zero(given, MPI_MAX_INFO_VAL);
        let code = c::MPI_Info_get_string(
            handle(info),
            key.pointer(),
            &mut there,
            room.as_mut_ptr().cast(),
            &mut found,
        );
        if found == 1 {
            if given > 0 {
                text::give(code, &room, value, value_length);
            }
            buflen.write_unaligned(there - 1);
        }
        logical::store(flag, found);
        finish(ierror, code);
    }
}
also!(mpi_info_get_string_: pmpi_info_get_string_ mpi_info_get_string_f08_ pmpi_info_get_string_f08_);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpi_session_get_nth_pset_(
    session: *const c_int,
    info: *const c_int,
    place: *const c_int,
    pset_len: *mut c_int,
    pset_name: *mut c_char,
    ierror: *mut c_int,
    name_length: usize,
) {
    let mut room = [0_u8; MPI_MAX_PSET_NAME_LEN];
    // SAFETY: as above. A length of 0 asks for the length.
    unsafe {
        let given = int(pset_len);
        let mut there = with_zero(given, MPI_MAX_PSET_NAME_LEN);
        let code = c::MPI_Session_get_nth_pset(
            handle(session),
            handle(info),
            int(place),
            &mut there,
            room.as_mut_ptr().cast(),
        );
        if code == 0 {
            if given > 0 {
                text::give(code, &room, pset_name, name_length);
            }
            pset_len.write_unaligned(there - 1);
        }
        finish(ierror, code);
    }
}
also!(mpi_session_get_nth_pset_: pmpi_session_get_nth_pset_ mpi_session_get_nth_pset_f08_ pmpi_session_get_nth_pset_f08_);
