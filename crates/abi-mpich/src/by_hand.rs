//! Functions for which the tables do not contain enough: `by_hand` in `tables/foreign.toml` lists them, each
//! with the reason.

#![allow(
    non_snake_case,
    missing_docs,
    clippy::missing_safety_doc,
    clippy::too_many_arguments
)]

mod attribute;
mod process;
mod removed;
mod tool;

use core::ffi::c_int;

use crate::array::{self, length};
use crate::generated::names::index;
use crate::handle::{Comm, Datatype, Handle, Word};
use crate::number::{self, STANDARD_COMBINER_DARRAY, STANDARD_COMBINER_SUBARRAY};
use crate::{alias, error, standard};

/// This is not the standard ABI: its version is -1, as MPICH has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Abi_get_version(major: *mut c_int, minor: *mut c_int) -> c_int {
    for at in [major, minor] {
        if !at.is_null() {
            // SAFETY: the program passes addresses of numbers.
            unsafe { at.write_unaligned(-1) };
        }
    }
    0
}
alias!(MPI_Abi_get_version => PMPI_Abi_get_version);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Abort(comm: Word, code: c_int) -> c_int {
    // SAFETY: the types are those of the standard ABI.
    unsafe {
        let call: unsafe extern "C" fn(usize, c_int) -> c_int =
            standard::function(index::MPI_ABORT);
        error::encode(call(Comm::decode(comm), code))
    }
}
alias!(MPI_Abort => PMPI_Abort);

/// A class is its own class, also where two of them are one in the standard ABI: then the call would answer with the other one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Error_class(code: c_int, class: *mut c_int) -> c_int {
    // SAFETY: the address comes from the caller, which keeps the promises of the C binding; the types are those of the standard ABI.
    unsafe {
        let call: unsafe extern "C" fn(c_int, *mut c_int) -> c_int =
            standard::function(index::MPI_ERROR_CLASS);
        let done = call(error::decode(code), class);
        array::encode_numbers(done, class, 1, |standard| match error::is_class(code) {
            true => code,
            false => error::encode(standard),
        });
        error::encode(done)
    }
}
alias!(MPI_Error_class => PMPI_Error_class);

/// The arguments after the level are for tools; the registers that may hold them are not touched.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Pcontrol(level: c_int) -> c_int {
    // SAFETY: the types are those of the standard ABI, whose further arguments have no meaning either.
    unsafe {
        let call: unsafe extern "C" fn(c_int, ...) -> c_int =
            standard::function(index::MPI_PCONTROL);
        error::encode(call(level))
    }
}
alias!(MPI_Pcontrol => PMPI_Pcontrol);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Type_get_contents(
    datatype: Word,
    max_integers: c_int,
    max_addresses: c_int,
    max_datatypes: c_int,
    integers: *mut c_int,
    addresses: *mut isize,
    datatypes: *mut Word,
) -> c_int {
    type Call = unsafe extern "C" fn(
        usize,
        c_int,
        c_int,
        c_int,
        *mut c_int,
        *mut isize,
        *mut usize,
    ) -> c_int;
    let of = Datatype::decode(datatype);
    // SAFETY: the program passes arrays of these lengths.
    unsafe {
        let mut found = array::handles_to_come::<Datatype>(datatypes, length(max_datatypes));
        let call: Call = standard::function(index::MPI_TYPE_GET_CONTENTS);
        let code = call(
            of,
            max_integers,
            max_addresses,
            max_datatypes,
            integers,
            addresses,
            found.as_mut_ptr(),
        );
        if code == 0 {
            given(of, integers, &found, datatypes, length(max_datatypes));
        }
        error::encode(code)
    }
}
alias!(MPI_Type_get_contents => PMPI_Type_get_contents);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Type_get_contents_c(
    datatype: Word,
    max_integers: i64,
    max_addresses: i64,
    max_large_counts: i64,
    max_datatypes: i64,
    integers: *mut c_int,
    addresses: *mut isize,
    large_counts: *mut i64,
    datatypes: *mut Word,
) -> c_int {
    type Call = unsafe extern "C" fn(
        usize,
        i64,
        i64,
        i64,
        i64,
        *mut c_int,
        *mut isize,
        *mut i64,
        *mut usize,
    ) -> c_int;
    let of = Datatype::decode(datatype);
    // SAFETY: as above.
    unsafe {
        let mut found = array::handles_to_come::<Datatype>(datatypes, length(max_datatypes));
        let call: Call = standard::function(index::MPI_TYPE_GET_CONTENTS_C);
        let code = call(
            of,
            max_integers,
            max_addresses,
            max_large_counts,
            max_datatypes,
            integers,
            addresses,
            large_counts,
            found.as_mut_ptr(),
        );
        if code == 0 {
            given(of, integers, &found, datatypes, length(max_datatypes));
        }
        error::encode(code)
    }
}
alias!(MPI_Type_get_contents_c => PMPI_Type_get_contents_c);

/// Translates the arguments with which a datatype was made: its datatypes, and the integers that are
/// constants.
///
/// # Safety
/// The call has filled the arrays.
unsafe fn given(
    of: usize,
    integers: *mut c_int,
    found: &array::Translated<usize>,
    datatypes: *mut Word,
    room: usize,
) {
    type Envelope =
        unsafe extern "C" fn(usize, *mut i64, *mut i64, *mut i64, *mut i64, *mut c_int) -> c_int;
    let [mut count, mut addresses, mut large, mut types] = [0; 4];
    let mut combiner = 0;
    // SAFETY: these are addresses of variables; the lengths are those that the standard gives the arrays (MPI 5.0, section
    // 5.1.13), and the call would have failed with shorter ones.
    unsafe {
        let envelope: Envelope = standard::function(index::MPI_TYPE_GET_ENVELOPE_C);
        if envelope(
            of,
            &mut count,
            &mut addresses,
            &mut large,
            &mut types,
            &mut combiner,
        ) != 0
        {
            return;
        }
        found.store_first(datatypes, length(types).min(room), Datatype::encode);
        let translate = |at: usize, count: usize, by: fn(c_int) -> c_int| {
            array::encode_numbers(0, integers.add(at), count, by)
        };
        match combiner {
            STANDARD_COMBINER_SUBARRAY => translate(length(count) - 1, 1, number::order::encode),
            STANDARD_COMBINER_DARRAY => {
                let dimensions = length(integers.add(2).read_unaligned());
                // The sizes of the whole array are large counts if the datatype was made with large counts.
                let distributions = if large == 0 { 3 + dimensions } else { 3 };
                translate(distributions, dimensions, number::distribution::encode);
                translate(
                    distributions + dimensions,
                    dimensions,
                    number::distribution_argument::encode,
                );
                translate(length(count) - 1, 1, number::order::encode);
            }
            _ => {}
        }
    }
}
