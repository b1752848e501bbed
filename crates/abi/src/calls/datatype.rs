//! Datatypes, pack and unpack (MPI 5.0, chapter 5).
//!
//! | module | what |
//! |---|---|
//! | `construct` | the constructors |
//! | `f90` | datatypes by the numbers that they must hold |
//! | `query` | sizes, extents, envelope and contents, matching by size |
//! | `packing` | pack and unpack, also in the external representation |
//!
//! This module: creation and end of datatypes, their names, addresses.

mod construct;
mod f90;
mod packing;
mod query;

use std::ffi::{CStr, c_int, c_void};
use std::sync::Arc;

use weft_mpi::Datatype;

use crate::args::{InOut, Out, TextOut, text_of};
use crate::calls::abi::full;
use crate::calls::attribute::{self, Holder};
use crate::fault::{Checked, Fault};
use crate::generated::constants as k;
use crate::{c, check, state};

pub use construct::*;
pub use f90::*;
pub use packing::*;
pub use query::*;

pub fn aint_add(base: c::Aint, displacement: c::Aint) -> c::Aint {
    base.wrapping_add(displacement)
}

pub fn aint_diff(minuend: c::Aint, subtrahend: c::Aint) -> c::Aint {
    minuend.wrapping_sub(subtrahend)
}

pub fn get_address(location: *const c_void, mut address: Out<c::Aint>) -> Checked<()> {
    address.set(location.addr().cast_signed());
    Ok(())
}

pub(super) fn publish(datatype: Arc<Datatype>, newtype: &mut Out<c::Datatype>) -> Checked<()> {
    newtype.set(state::publish_datatype(datatype).ok_or_else(|| full("datatypes"))?);
    Ok(())
}

pub fn type_dup(oldtype: &Arc<Datatype>, mut newtype: Out<c::Datatype>) -> Checked<()> {
    newtype.set(k::MPI_DATATYPE_NULL);
    let copy = oldtype.duplicate()?;
    let holder = Holder::Datatype(state::handle_of_datatype(oldtype));
    attribute::copy_all(holder, oldtype.extras(), copy.extras())?;
    publish(copy, &mut newtype)
}

pub fn type_commit(datatype: InOut<c::Datatype>) -> Checked<()> {
    check::datatype(datatype.get(), "datatype")?.commit();
    Ok(())
}

pub fn type_free(mut datatype: InOut<c::Datatype>) -> Checked<()> {
    let given = datatype.get();
    let object = check::datatype(given, "datatype")?;
    if object.is_predefined() || object.is_parameterised() {
        return Err(Fault::argument(
            k::MPI_ERR_TYPE,
            "datatype",
            "a datatype that the program has made",
            object.name(),
            "predefined datatypes are not freed",
        ));
    }
    attribute::delete_all(Holder::Datatype(given), object.extras())?;
    if !state::forget_datatype(object, given) {
        return Err(Fault::argument(
            k::MPI_ERR_TYPE,
            "datatype",
            "a datatype that is live",
            "one that was freed, and that an operation under way uses still",
            "free each datatype once",
        ));
    }
    datatype.set(k::MPI_DATATYPE_NULL);
    Ok(())
}

pub fn type_set_name(datatype: &Arc<Datatype>, name: &CStr) -> Checked<()> {
    datatype.set_name(&text_of(name));
    Ok(())
}

/// The null handle has a name, too (MPI 5.0, section 7.8).
pub fn type_get_name(
    datatype: c::Datatype,
    mut name: TextOut,
    mut resultlen: Out<c_int>,
) -> Checked<()> {
    let text = match datatype {
        k::MPI_DATATYPE_NULL => "MPI_DATATYPE_NULL".to_owned(),
        datatype => check::datatype(datatype, "datatype")?.name(),
    };
    resultlen.set(name.set(&text, k::MPI_MAX_OBJECT_NAME as usize) as c_int);
    Ok(())
}

#[cold]
pub(super) fn too_wide(value: i64) -> Fault {
    Fault::new(
        k::MPI_ERR_VALUE_TOO_LARGE,
        format!(
            "the value {value} does not fit an int; ask with the form of this call that ends in _c"
        ),
    )
}
