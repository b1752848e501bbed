//! Procedures that MPI 3 removed, for programs that are older, and that differ from those of today in more than the name (`renamed` in
//! `tables/fortran.toml`). Addresses and extents are integers of the default kind there: a value that does not fit is an error, and
//! never a wrong number.

use alloc::vec::Vec;
use core::ffi::{c_int, c_void};
use core::slice;

use crate::abi::Element;
use crate::also;
use crate::data::{handle, int, store_handle};
use crate::error::finish;
use crate::generated::{c, constants as k};
use crate::sentinel;

/// Stores an address or an extent for the program, if it fits.
///
/// # Safety
/// The addresses are those of integers.
unsafe fn give(code: c_int, value: isize, at: *mut c_int, ierror: *mut c_int, today: &str) {
    // SAFETY: as this function demands.
    unsafe {
        if code != 0 {
            finish(ierror, code);
        } else if let Ok(value) = c_int::try_from(value) {
            at.write_unaligned(value);
            finish(ierror, 0);
        } else {
            weft_bare::say!(
                "weft: {value} does not fit an integer of four bytes, which a procedure that MPI 3 removed gives; call {today} instead"
            );
            c::MPI_Comm_call_errhandler(k::MPI_COMM_SELF, k::MPI_ERR_ARG);
            finish(ierror, k::MPI_ERR_ARG);
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpi_address_(
    location: *mut c_void,
    address: *mut c_int,
    ierror: *mut c_int,
) {
    let mut found = 0;
    // SAFETY: the program passes a variable and addresses of integers.
    unsafe {
        let code = c::MPI_Get_address(sentinel::buffer(location), &mut found);
        give(code, found, address, ierror, "MPI_Get_address");
    }
}
also!(mpi_address_: pmpi_address_);

/// Stores for the program a number computed from lower bound and extent.
///
/// # Safety
/// The addresses are those of integers.
unsafe fn bound(
    datatype: *const c_int,
    number: fn(isize, isize) -> isize,
    at: *mut c_int,
    ierror: *mut c_int,
) {
    let (mut lower, mut extent) = (0, 0);
    // SAFETY: as this function demands.
    unsafe {
        let code = c::MPI_Type_get_extent(handle(datatype), &mut lower, &mut extent);
        give(
            code,
            number(lower, extent),
            at,
            ierror,
            "MPI_Type_get_extent",
        );
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpi_type_extent_(
    datatype: *const c_int,
    extent: *mut c_int,
    ierror: *mut c_int,
) {
    // SAFETY: the program passes addresses of integers.
    unsafe { bound(datatype, |_, extent| extent, extent, ierror) }
}
also!(mpi_type_extent_: pmpi_type_extent_);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpi_type_lb_(
    datatype: *const c_int,
    displacement: *mut c_int,
    ierror: *mut c_int,
) {
    // SAFETY: as above.
    unsafe { bound(datatype, |lower, _| lower, displacement, ierror) }
}
also!(mpi_type_lb_: pmpi_type_lb_);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpi_type_ub_(
    datatype: *const c_int,
    displacement: *mut c_int,
    ierror: *mut c_int,
) {
    // SAFETY: as above.
    unsafe {
        bound(
            datatype,
            |lower, extent| lower + extent,
            displacement,
            ierror,
        );
    }
}
also!(mpi_type_ub_: pmpi_type_ub_);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpi_type_hvector_(
    count: *const c_int,
    blocklength: *const c_int,
    stride: *const c_int,
    oldtype: *const c_int,
    newtype: *mut c_int,
    ierror: *mut c_int,
) {
    let mut made = 0;
    // SAFETY: as above.
    unsafe {
        let code = c::MPI_Type_create_hvector(
            int(count),
            int(blocklength),
            int(stride) as isize,
            handle(oldtype),
            &mut made,
        );
        if code == 0 {
            store_handle(newtype, made);
        }
        finish(ierror, code);
    }
}
also!(mpi_type_hvector_: pmpi_type_hvector_);

/// The elements of an array of a program.
///
/// # Safety
/// There are `count` elements at the address.
unsafe fn elements<'a>(at: *const c_int, count: c_int) -> &'a [c_int] {
    match usize::try_from(count) {
        // SAFETY: as this function demands.
        Ok(count) if count > 0 => unsafe { slice::from_raw_parts(at, count) },
        _ => &[],
    }
}

fn wide(displacements: &[c_int]) -> Vec<isize> {
    displacements.iter().map(|&one| one as isize).collect()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpi_type_hindexed_(
    count: *const c_int,
    array_of_blocklengths: *mut c_int,
    array_of_displacements: *const c_int,
    oldtype: *const c_int,
    newtype: *mut c_int,
    ierror: *mut c_int,
) {
    let mut made = 0;
    // SAFETY: the program passes addresses of integers, and of arrays with `count` of them.
    unsafe {
        let mut displacements = wide(elements(array_of_displacements, int(count)));
        let code = c::MPI_Type_create_hindexed(
            int(count),
            array_of_blocklengths,
            displacements.as_mut_ptr(),
            handle(oldtype),
            &mut made,
        );
        if code == 0 {
            store_handle(newtype, made);
        }
        finish(ierror, code);
    }
}
also!(mpi_type_hindexed_: pmpi_type_hindexed_);

/// The lists of `MPI_Type_struct`, and the bounds from the markers in them.
struct Entries {
    lengths: Vec<c_int>,
    places: Vec<isize>,
    types: Vec<Element>,
    lower: Option<isize>,
    upper: Option<isize>,
}

impl Entries {
    fn new(lengths: &[c_int], places: &[c_int], types: &[c_int]) -> Self {
        let mut made = Self {
            lengths: Vec::new(),
            places: Vec::new(),
            types: Vec::new(),
            lower: None,
            upper: None,
        };
        for ((&length, &place), &datatype) in lengths.iter().zip(places).zip(types) {
            let place = place as isize;
            match datatype {
                k::MPI_LB => made.lower = Some(made.lower.map_or(place, |other| other.min(place))),
                k::MPI_UB => made.upper = Some(made.upper.map_or(place, |other| other.max(place))),
                _ => {
                    made.lengths.push(length);
                    made.places.push(place);
                    made.types.push(crate::data::word(datatype) as Element);
                }
            }
        }
        made
    }

    /// Makes the datatype. `count` is the argument of the program, which may be wrong.
    fn make(&mut self, count: c_int) -> (c_int, usize) {
        let count = c_int::try_from(self.types.len())
            .unwrap_or(count)
            .min(count);
        let (mut inner, mut made) = (0, 0);
        // SAFETY: the lists have that many elements, and the other addresses are of variables of this call.
        unsafe {
            let code = c::MPI_Type_create_struct(
                count,
                self.lengths.as_mut_ptr(),
                self.places.as_mut_ptr(),
                self.types.as_mut_ptr().cast(),
                &mut inner,
            );
            if code != 0 || self.lower.is_none() && self.upper.is_none() {
                return (code, inner);
            }
            let (mut natural, mut extent) = (0, 0);
            let mut code = c::MPI_Type_get_extent(inner, &mut natural, &mut extent);
            if code == 0 {
                let lower = self.lower.unwrap_or(natural);
                let upper = self.upper.unwrap_or(natural + extent);
                code = c::MPI_Type_create_resized(inner, lower, upper - lower, &mut made);
            }
            c::MPI_Type_free(&mut inner);
            (code, made)
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpi_type_struct_(
    count: *const c_int,
    array_of_blocklengths: *const c_int,
    array_of_displacements: *const c_int,
    array_of_types: *const c_int,
    newtype: *mut c_int,
    ierror: *mut c_int,
) {
    // SAFETY: as above.
    unsafe {
        let count = int(count);
        let (code, made) = Entries::new(
            elements(array_of_blocklengths, count),
            elements(array_of_displacements, count),
            elements(array_of_types, count),
        )
        .make(count);
        if code == 0 {
            store_handle(newtype, made);
        }
        finish(ierror, code);
    }
}
also!(mpi_type_struct_: pmpi_type_struct_);
