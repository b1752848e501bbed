//! Constructors of datatypes (MPI 5.0, section 5.1).

use std::ffi::c_int;
use std::sync::Arc;

use weft_mpi::datatype::{Distribution, Order, Recipe};
use weft_mpi::{Datatype, memory};

use super::publish;
use crate::args::{Counts, Form, Out};
use crate::fault::{Checked, Fault};
use crate::generated::constants as k;
use crate::{c, check, state};

/// Bytes that the construction of a datatype needs for each element of a list: the number itself, parts of
/// layout and signature, and the memory that they go to.
const BYTES_OF_A_BLOCK: usize = 512;

/// Builds a datatype and stores its handle.
fn build(recipe: Recipe, form: Form, newtype: &mut Out<c::Datatype>) -> Checked<()> {
    publish(Datatype::build(recipe, form == Form::Large)?, newtype)
}

pub fn type_contiguous(
    count: usize,
    oldtype: &Arc<Datatype>,
    mut newtype: Out<c::Datatype>,
    form: Form,
) -> Checked<()> {
    let recipe = Recipe::Contiguous {
        count: count as i64,
        of: Arc::clone(oldtype),
    };
    build(recipe, form, &mut newtype)
}

pub fn type_vector(
    count: usize,
    blocklength: usize,
    stride: i64,
    oldtype: &Arc<Datatype>,
    mut newtype: Out<c::Datatype>,
    form: Form,
) -> Checked<()> {
    let recipe = Recipe::Vector {
        count: count as i64,
        block: blocklength as i64,
        stride,
        of: Arc::clone(oldtype),
    };
    build(recipe, form, &mut newtype)
}

pub fn type_create_hvector(
    count: usize,
    blocklength: usize,
    stride: i64,
    oldtype: &Arc<Datatype>,
    mut newtype: Out<c::Datatype>,
    form: Form,
) -> Checked<()> {
    let recipe = Recipe::Hvector {
        count: count as i64,
        block: blocklength as i64,
        stride,
        of: Arc::clone(oldtype),
    };
    build(recipe, form, &mut newtype)
}

/// The elements of a list, which must not be null.
fn listed(list: Counts, name: &'static str) -> Checked<Box<[i64]>> {
    if list.is_null() && list.len() > 0 {
        return Err(Fault::null(name));
    }
    memory::ensure_list(list.len(), BYTES_OF_A_BLOCK)?;
    Ok(list.to_vec().into())
}

pub fn type_indexed(
    _count: usize,
    blocklengths: Counts,
    displacements: Counts,
    oldtype: &Arc<Datatype>,
    mut newtype: Out<c::Datatype>,
    form: Form,
) -> Checked<()> {
    let recipe = Recipe::Indexed {
        blocks: listed(blocklengths, "array_of_blocklengths")?,
        displacements: listed(displacements, "array_of_displacements")?,
        of: Arc::clone(oldtype),
    };
    build(recipe, form, &mut newtype)
}

pub fn type_create_hindexed(
    _count: usize,
    blocklengths: Counts,
    displacements: Counts,
    oldtype: &Arc<Datatype>,
    mut newtype: Out<c::Datatype>,
    form: Form,
) -> Checked<()> {
    let recipe = Recipe::Hindexed {
        blocks: listed(blocklengths, "array_of_blocklengths")?,
        displacements: listed(displacements, "array_of_displacements")?,
        of: Arc::clone(oldtype),
    };
    build(recipe, form, &mut newtype)
}

pub fn type_create_indexed_block(
    _count: usize,
    blocklength: usize,
    displacements: Counts,
    oldtype: &Arc<Datatype>,
    mut newtype: Out<c::Datatype>,
    form: Form,
) -> Checked<()> {
    let recipe = Recipe::IndexedBlock {
        block: blocklength as i64,
        displacements: listed(displacements, "array_of_displacements")?,
        of: Arc::clone(oldtype),
    };
    build(recipe, form, &mut newtype)
}

pub fn type_create_hindexed_block(
    _count: usize,
    blocklength: usize,
    displacements: Counts,
    oldtype: &Arc<Datatype>,
    mut newtype: Out<c::Datatype>,
    form: Form,
) -> Checked<()> {
    let recipe = Recipe::HindexedBlock {
        block: blocklength as i64,
        displacements: listed(displacements, "array_of_displacements")?,
        of: Arc::clone(oldtype),
    };
    build(recipe, form, &mut newtype)
}

pub fn type_create_struct(
    _count: usize,
    blocklengths: Counts,
    displacements: Counts,
    types: &[c::Datatype],
    mut newtype: Out<c::Datatype>,
    form: Form,
) -> Checked<()> {
    memory::ensure_list(types.len(), BYTES_OF_A_BLOCK)?;
    // With room for all: a list that may end in an error would grow step by step.
    let mut parts = Vec::with_capacity(types.len());
    for (place, handle) in types.iter().enumerate() {
        // An entry without elements adds nothing, even if it has no datatype.
        let is_empty = !blocklengths.is_null() && blocklengths.at(place) == 0;
        let part = if *handle == k::MPI_DATATYPE_NULL && is_empty {
            state::no_datatype()
        } else {
            check::datatype(*handle, "array_of_types")?
        };
        parts.push(Arc::clone(part));
    }
    let recipe = Recipe::Struct {
        blocks: listed(blocklengths, "array_of_blocklengths")?,
        displacements: listed(displacements, "array_of_displacements")?,
        of: parts.into(),
    };
    build(recipe, form, &mut newtype)
}

fn order_of(order: c_int) -> Checked<Order> {
    match order {
        k::MPI_ORDER_C => Ok(Order::C),
        k::MPI_ORDER_FORTRAN => Ok(Order::Fortran),
        other => Err(Fault::argument(
            k::MPI_ERR_ARG,
            "order",
            "MPI_ORDER_C or MPI_ORDER_FORTRAN",
            other.to_string(),
            "say whether the last or the first index runs fastest",
        )),
    }
}

#[allow(clippy::too_many_arguments)]
pub fn type_create_subarray(
    _ndims: usize,
    sizes: Counts,
    subsizes: Counts,
    starts: Counts,
    order: c_int,
    oldtype: &Arc<Datatype>,
    mut newtype: Out<c::Datatype>,
    form: Form,
) -> Checked<()> {
    let recipe = Recipe::Subarray {
        sizes: listed(sizes, "array_of_sizes")?,
        subsizes: listed(subsizes, "array_of_subsizes")?,
        starts: listed(starts, "array_of_starts")?,
        order: order_of(order)?,
        of: Arc::clone(oldtype),
    };
    build(recipe, form, &mut newtype)
}

fn distribution(kind: c_int, argument: c_int) -> Checked<Distribution> {
    let size = (argument != k::MPI_DISTRIBUTE_DFLT_DARG).then_some(i64::from(argument));
    match kind {
        k::MPI_DISTRIBUTE_NONE => Ok(Distribution::None),
        k::MPI_DISTRIBUTE_BLOCK => Ok(Distribution::Block(size)),
        k::MPI_DISTRIBUTE_CYCLIC => Ok(Distribution::Cyclic(size)),
        other => Err(Fault::argument(
            k::MPI_ERR_ARG,
            "array_of_distribs",
            "MPI_DISTRIBUTE_NONE, _BLOCK or _CYCLIC",
            other.to_string(),
            "choose a distribution for each dimension",
        )),
    }
}

#[allow(clippy::too_many_arguments)]
pub fn type_create_darray(
    size: c_int,
    rank: c_int,
    _ndims: usize,
    gsizes: Counts,
    distribs: &[c_int],
    dargs: &[c_int],
    psizes: &[c_int],
    order: c_int,
    oldtype: &Arc<Datatype>,
    mut newtype: Out<c::Datatype>,
    form: Form,
) -> Checked<()> {
    memory::ensure_list(distribs.len(), BYTES_OF_A_BLOCK)?;
    let distributions: Checked<Vec<_>> = distribs
        .iter()
        .zip(dargs)
        .map(|(kind, argument)| distribution(*kind, *argument))
        .collect();
    let recipe = Recipe::Darray {
        size: size.into(),
        rank: rank.into(),
        sizes: listed(gsizes, "array_of_gsizes")?,
        distributions: distributions?.into(),
        processes: psizes.iter().map(|size| i64::from(*size)).collect(),
        order: order_of(order)?,
        of: Arc::clone(oldtype),
    };
    build(recipe, form, &mut newtype)
}

pub fn type_create_resized(
    oldtype: &Arc<Datatype>,
    lower: i64,
    extent: i64,
    mut newtype: Out<c::Datatype>,
    form: Form,
) -> Checked<()> {
    build(
        Recipe::Resized {
            lower,
            extent,
            of: Arc::clone(oldtype),
        },
        form,
        &mut newtype,
    )
}
