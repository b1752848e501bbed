//! Datatypes by the numbers that they must hold (MPI 5.0, section 19.1.5). The same request gives the same
//! handle; to a program it is predefined, and never freed.

use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use weft_mpi::Datatype;
use weft_mpi::datatype::{Combiner, TypeClass};

use crate::args::Out;
use crate::calls::abi::full;
use crate::fault::Checked;
use crate::generated::constants as k;
use crate::{c, state};

/// A request for a datatype: the numbers that it must hold.
type Wish = (Combiner, Vec<i64>);

/// Handles given out.
static KNOWN: LazyLock<Mutex<HashMap<Wish, c::Datatype>>> = LazyLock::new(Mutex::default);

fn known(datatype: Arc<Datatype>) -> Checked<c::Datatype> {
    let key = (datatype.combiner(), datatype.contents().integers);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(handle) = known.get(&key) {
        return Ok(*handle);
    }
    let handle = state::publish_datatype(datatype).ok_or_else(|| full("datatypes"))?;
    known.insert(key, handle);
    Ok(handle)
}

fn wanted(value: c_int) -> Option<i64> {
    (value != k::MPI_UNDEFINED).then_some(value.into())
}

fn real(class: TypeClass, p: c_int, r: c_int) -> Checked<c::Datatype> {
    let given = [p.into(), r.into()];
    known(Datatype::f90_real(class, wanted(p), wanted(r), given)?)
}

pub fn type_create_f90_integer(r: c_int, mut newtype: Out<c::Datatype>) -> Checked<()> {
    newtype.set(known(Datatype::f90_integer(r.into())?)?);
    Ok(())
}

pub fn type_create_f90_real(p: c_int, r: c_int, mut newtype: Out<c::Datatype>) -> Checked<()> {
    newtype.set(real(TypeClass::Real, p, r)?);
    Ok(())
}

pub fn type_create_f90_complex(p: c_int, r: c_int, mut newtype: Out<c::Datatype>) -> Checked<()> {
    newtype.set(real(TypeClass::Complex, p, r)?);
    Ok(())
}
