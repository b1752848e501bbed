//! Questions about datatypes (MPI 5.0, sections 5.1.5 to 5.1.13).

use std::ffi::c_int;
use std::sync::Arc;

use weft_mpi::Datatype;
use weft_mpi::datatype::{Basic, Combiner, TypeClass};

use super::too_wide;
use crate::args::{CountOut, Form, Out};
use crate::calls::abi::full;
use crate::fault::{Checked, Fault};
use crate::generated::constants as k;
use crate::{c, state};

pub fn type_size(datatype: &Arc<Datatype>, mut size: CountOut, _form: Form) -> Checked<()> {
    size.set(Some(datatype.size() as i64));
    Ok(())
}

pub fn type_size_x(datatype: &Arc<Datatype>, size: Out<c::Count>) -> Checked<()> {
    type_size(datatype, CountOut::Wide(size), Form::Large)
}

pub fn type_get_extent(
    datatype: &Arc<Datatype>,
    mut lower: CountOut,
    mut extent: CountOut,
    _form: Form,
) -> Checked<()> {
    lower.set(Some(datatype.lower_bound() as i64));
    extent.set(Some(datatype.extent() as i64));
    Ok(())
}

pub fn type_get_extent_x(
    datatype: &Arc<Datatype>,
    lower: Out<c::Count>,
    extent: Out<c::Count>,
) -> Checked<()> {
    type_get_extent(
        datatype,
        CountOut::Wide(lower),
        CountOut::Wide(extent),
        Form::Large,
    )
}

pub fn type_get_true_extent(
    datatype: &Arc<Datatype>,
    mut lower: CountOut,
    mut extent: CountOut,
    _form: Form,
) -> Checked<()> {
    lower.set(Some(datatype.true_lower_bound() as i64));
    extent.set(Some(datatype.true_extent() as i64));
    Ok(())
}

pub fn type_get_true_extent_x(
    datatype: &Arc<Datatype>,
    lower: Out<c::Count>,
    extent: Out<c::Count>,
) -> Checked<()> {
    type_get_true_extent(
        datatype,
        CountOut::Wide(lower),
        CountOut::Wide(extent),
        Form::Large,
    )
}

fn combiner(combiner: Combiner) -> c_int {
    match combiner {
        Combiner::Named => k::MPI_COMBINER_NAMED,
        Combiner::Dup => k::MPI_COMBINER_DUP,
        Combiner::Contiguous => k::MPI_COMBINER_CONTIGUOUS,
        Combiner::Vector => k::MPI_COMBINER_VECTOR,
        Combiner::Hvector => k::MPI_COMBINER_HVECTOR,
        Combiner::Indexed => k::MPI_COMBINER_INDEXED,
        Combiner::Hindexed => k::MPI_COMBINER_HINDEXED,
        Combiner::IndexedBlock => k::MPI_COMBINER_INDEXED_BLOCK,
        Combiner::HindexedBlock => k::MPI_COMBINER_HINDEXED_BLOCK,
        Combiner::Struct => k::MPI_COMBINER_STRUCT,
        Combiner::Subarray => k::MPI_COMBINER_SUBARRAY,
        Combiner::Darray => k::MPI_COMBINER_DARRAY,
        Combiner::Resized => k::MPI_COMBINER_RESIZED,
        Combiner::F90Real => k::MPI_COMBINER_F90_REAL,
        Combiner::F90Complex => k::MPI_COMBINER_F90_COMPLEX,
        Combiner::F90Integer => k::MPI_COMBINER_F90_INTEGER,
    }
}

/// A datatype built with large counts shows them only to the large forms.
fn check_form(datatype: &Datatype, form: Form) -> Checked<()> {
    if form == Form::Small && datatype.has_large_counts() {
        return Err(Fault::argument(
            k::MPI_ERR_TYPE,
            "datatype",
            "a datatype that was built with `int` counts",
            "one that was built with MPI_Count counts",
            "ask with the form of this call that ends in _c",
        ));
    }
    Ok(())
}

pub fn type_get_envelope(
    datatype: &Arc<Datatype>,
    mut num_integers: CountOut,
    mut num_addresses: CountOut,
    num_large_counts: Option<CountOut>,
    mut num_datatypes: CountOut,
    mut combiner_out: Out<c_int>,
    form: Form,
) -> Checked<()> {
    check_form(datatype, form)?;
    let envelope = datatype.envelope();
    num_integers.set(Some(envelope.integers as i64));
    num_addresses.set(Some(envelope.addresses as i64));
    if let Some(mut counts) = num_large_counts {
        counts.set(Some(envelope.counts as i64));
    }
    num_datatypes.set(Some(envelope.datatypes as i64));
    combiner_out.set(combiner(datatype.combiner()));
    Ok(())
}

/// Copies values to the caller's list, which must have room.
fn fill<T>(
    to: &mut [T],
    from: impl ExactSizeIterator<Item = Checked<T>>,
    name: &'static str,
) -> Checked<()> {
    if to.len() < from.len() {
        return Err(Fault::argument(
            k::MPI_ERR_ARG,
            name,
            format!("room for {} values", from.len()),
            to.len().to_string(),
            "MPI_Type_get_envelope tells how many there are",
        ));
    }
    for (slot, value) in to.iter_mut().zip(from) {
        *slot = value?;
    }
    Ok(())
}

#[allow(clippy::too_many_arguments)]
pub fn type_get_contents(
    datatype: &Arc<Datatype>,
    _max_integers: usize,
    _max_addresses: usize,
    _max_large_counts: usize,
    _max_datatypes: usize,
    integers: &mut [c_int],
    addresses: &mut [c::Aint],
    large_counts: &mut [c::Count],
    datatypes: &mut [c::Datatype],
    form: Form,
) -> Checked<()> {
    check_form(datatype, form)?;
    if datatype.combiner() == Combiner::Named {
        return Err(Fault::argument(
            k::MPI_ERR_TYPE,
            "datatype",
            "a datatype that was built from others",
            datatype.name(),
            "predefined datatypes have no contents",
        ));
    }
    let contents = datatype.contents();
    let narrow = |value: &i64| c_int::try_from(*value).map_err(|_| too_wide(*value));
    fill(
        integers,
        contents.integers.iter().map(narrow),
        "max_integers",
    )?;
    fill(
        addresses,
        contents.addresses.iter().map(|value| Ok(*value as c::Aint)),
        "max_addresses",
    )?;
    fill(
        large_counts,
        contents.counts.iter().map(|value| Ok(*value)),
        "max_large_counts",
    )?;
    // Each derived datatype is handed out as a separate object, which the program frees: it does not have the
    // names and attributes of the original.
    let handle = |datatype: Arc<Datatype>| {
        if datatype.is_predefined() {
            return Ok(state::handle_of_datatype(&datatype));
        }
        if Arc::ptr_eq(&datatype, state::no_datatype()) {
            return Ok(k::MPI_DATATYPE_NULL);
        }
        let copy = if datatype.is_parameterised() {
            datatype
        } else {
            Datatype::build(datatype.recipe().clone(), datatype.has_large_counts())?
        };
        state::publish_datatype(copy).ok_or_else(|| full("datatypes"))
    };
    fill(
        datatypes,
        contents.datatypes.into_iter().map(handle),
        "max_datatypes",
    )
}

pub fn type_match_size(
    typeclass: c_int,
    size: c_int,
    mut datatype: Out<c::Datatype>,
) -> Checked<()> {
    let class = match typeclass {
        k::MPI_TYPECLASS_REAL => TypeClass::Real,
        k::MPI_TYPECLASS_INTEGER => TypeClass::Integer,
        k::MPI_TYPECLASS_COMPLEX => TypeClass::Complex,
        other => {
            return Err(Fault::argument(
                k::MPI_ERR_ARG,
                "typeclass",
                "MPI_TYPECLASS_REAL, _INTEGER or _COMPLEX",
                other.to_string(),
                "pass one of the three classes",
            ));
        }
    };
    let found = usize::try_from(size).ok().and_then(|size| Basic::match_size(class, size)).ok_or_else(|| {
        Fault::argument(
            k::MPI_ERR_ARG,
            "size",
            "the size of a type of this class",
            size.to_string(),
            "2, 4, 8 and 16 are sizes of reals, 1 to 16 of integers, 4 to 32 of complex numbers",
        )
    })?;
    datatype.set(state::handle_of_basic(found));
    Ok(())
}

/// Pairs of value and index that have a predefined datatype.
const PAIRS: [(c::Datatype, c::Datatype, c::Datatype); 9] = [
    (k::MPI_FLOAT, k::MPI_INT, k::MPI_FLOAT_INT),
    (k::MPI_DOUBLE, k::MPI_INT, k::MPI_DOUBLE_INT),
    (k::MPI_LONG, k::MPI_INT, k::MPI_LONG_INT),
    (k::MPI_INT, k::MPI_INT, k::MPI_2INT),
    (k::MPI_SHORT, k::MPI_INT, k::MPI_SHORT_INT),
    (k::MPI_LONG_DOUBLE, k::MPI_INT, k::MPI_LONG_DOUBLE_INT),
    (k::MPI_REAL, k::MPI_REAL, k::MPI_2REAL),
    (
        k::MPI_DOUBLE_PRECISION,
        k::MPI_DOUBLE_PRECISION,
        k::MPI_2DOUBLE_PRECISION,
    ),
    (k::MPI_INTEGER, k::MPI_INTEGER, k::MPI_2INTEGER),
];

pub fn type_get_value_index(
    value_type: &Arc<Datatype>,
    index_type: &Arc<Datatype>,
    mut pair_type: Out<c::Datatype>,
) -> Checked<()> {
    let (value, index) = (
        state::handle_of_datatype(value_type),
        state::handle_of_datatype(index_type),
    );
    let pair = PAIRS
        .iter()
        .find(|(of, by, _)| *of == value && *by == index);
    pair_type.set(pair.map_or(k::MPI_DATATYPE_NULL, |(_, _, pair)| *pair));
    Ok(())
}
