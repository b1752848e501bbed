//! Datatypes, pack and unpack (MPI 5.0, chapter 5).

use std::ffi::{CStr, c_int, c_void};
use std::sync::Arc;

use weft_fabric::Region;
use weft_mpi::datatype::{Basic, Combiner, Distribution, Order, Recipe, TypeClass};
use weft_mpi::{Buffer, Comm, Datatype};

use crate::args::{CountOut, Counts, Form, InOut, Number, Out, Place, TextOut, text_of};
use crate::calls::abi::full;
use crate::calls::attribute::{self, Holder};
use crate::fault::{Checked, Fault};
use crate::generated::constants as k;
use crate::{c, check, state};

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

/// Builds a datatype and stores its handle.
fn build(recipe: Recipe, form: Form, newtype: &mut Out<c::Datatype>) -> Checked<()> {
    publish(Datatype::build(recipe, form == Form::Large)?, newtype)
}

fn publish(datatype: Arc<Datatype>, newtype: &mut Out<c::Datatype>) -> Checked<()> {
    newtype.set(state::publish_datatype(datatype).ok_or_else(|| full("datatypes"))?);
    Ok(())
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

/// The elements of a list that must be there.
fn listed(list: Counts, name: &'static str) -> Checked<Box<[i64]>> {
    if list.is_null() && list.len() > 0 {
        return Err(Fault::null(name));
    }
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
    let types: Checked<Vec<_>> = types
        .iter()
        .map(|handle| check::datatype(*handle, "array_of_types").cloned())
        .collect();
    let recipe = Recipe::Struct {
        blocks: listed(blocklengths, "array_of_blocklengths")?,
        displacements: listed(displacements, "array_of_displacements")?,
        of: types?.into(),
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

pub fn type_dup(oldtype: &Arc<Datatype>, mut newtype: Out<c::Datatype>) -> Checked<()> {
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
    if object.is_predefined() {
        return Err(Fault::argument(
            k::MPI_ERR_TYPE,
            "datatype",
            "a datatype that the program has made",
            object.name(),
            "predefined datatypes are not freed",
        ));
    }
    attribute::delete_all(Holder::Datatype(given), object.extras())?;
    state::forget_datatype(object, given);
    datatype.set(k::MPI_DATATYPE_NULL);
    Ok(())
}

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
    }
}

/// A datatype built with large counts tells them to the large forms only.
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
    let contents = datatype.contents();
    num_integers.set(Some(contents.integers.len() as i64));
    num_addresses.set(Some(contents.addresses.len() as i64));
    if let Some(mut counts) = num_large_counts {
        counts.set(Some(contents.counts.len() as i64));
    }
    num_datatypes.set(Some(contents.datatypes.len() as i64));
    combiner_out.set(combiner(datatype.combiner()));
    Ok(())
}

/// Copies what there is to where it goes, which must have room.
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
    // Each derived datatype is handed out under a handle of its own, which the program frees.
    let handle = |datatype: Arc<Datatype>| {
        if datatype.is_predefined() {
            return Ok(state::handle_of_datatype(&datatype));
        }
        state::publish_datatype(datatype).ok_or_else(|| full("datatypes"))
    };
    fill(
        datatypes,
        contents.datatypes.into_iter().map(handle),
        "max_datatypes",
    )
}

#[cold]
fn too_wide(value: i64) -> Fault {
    Fault::new(
        k::MPI_ERR_VALUE_TOO_LARGE,
        format!(
            "the value {value} does not fit an int; ask with the form of this call that ends in _c"
        ),
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

/// Packed data: where they are, and from where on.
///
/// # Safety
/// `size` bytes may be read and written at the address until the call returns.
unsafe fn packed<P: Number>(
    address: *mut c_void,
    size: usize,
    position: &InOut<P>,
    name: &'static str,
) -> Checked<(Region, usize)> {
    if address.is_null() && size > 0 {
        return Err(Fault::argument(
            k::MPI_ERR_BUFFER,
            name,
            "the address of the packed data",
            "a null pointer",
            "pass an address",
        ));
    }
    let start = check::bytes(position.get().wide(), "position")?;
    // SAFETY: the caller's promise.
    Ok((unsafe { Region::new(address.cast(), size) }, start))
}

fn moved<P: Number>(position: &mut InOut<P>, end: usize) -> Checked<()> {
    let end = end as i64;
    position.set(P::narrow(end).ok_or_else(|| too_wide(end))?);
    Ok(())
}

pub unsafe fn pack<P: Number>(
    inbuf: Buffer,
    outbuf: *mut c_void,
    outsize: usize,
    mut position: InOut<P>,
    _comm: &Arc<Comm>,
    _form: Form,
) -> Checked<()> {
    // SAFETY: the caller's promise.
    let (region, start) = unsafe { packed(outbuf, outsize, &position, "outbuf")? };
    let end = weft_mpi::datatype::pack(&inbuf, &region, start)?;
    moved(&mut position, end)
}

pub unsafe fn unpack<P: Number>(
    inbuf: *const c_void,
    insize: usize,
    mut position: InOut<P>,
    outbuf: Buffer,
    _comm: &Arc<Comm>,
    _form: Form,
) -> Checked<()> {
    // SAFETY: the caller's promise; unpacking only reads.
    let (region, start) = unsafe { packed(inbuf.cast_mut(), insize, &position, "inbuf")? };
    let end = weft_mpi::datatype::unpack(&region, start, &outbuf)?;
    moved(&mut position, end)
}

pub fn pack_size(
    incount: usize,
    datatype: &Arc<Datatype>,
    _comm: &Arc<Comm>,
    mut size: CountOut,
    _form: Form,
) -> Checked<()> {
    size.set(Some(datatype.bytes(incount)? as i64));
    Ok(())
}

fn check_representation(datarep: &CStr) -> Checked<()> {
    if datarep.to_bytes() == b"external32" {
        return Ok(());
    }
    Err(Fault::argument(
        k::MPI_ERR_ARG,
        "datarep",
        "\"external32\"",
        format!("\"{}\"", text_of(datarep)),
        "no other representation is defined for packing",
    ))
}

pub unsafe fn pack_external<P: Number>(
    datarep: &CStr,
    inbuf: Place,
    outbuf: *mut c_void,
    outsize: usize,
    mut position: InOut<P>,
    _form: Form,
) -> Checked<()> {
    check_representation(datarep)?;
    let (count, datatype) = inbuf.elements()?;
    // SAFETY: the caller's promise.
    let (region, start) = unsafe { packed(outbuf, outsize, &position, "outbuf")? };
    let end = weft_mpi::datatype::pack_external(&inbuf.buffer()?, count, datatype, &region, start)?;
    moved(&mut position, end)
}

pub unsafe fn unpack_external<P: Number>(
    datarep: &CStr,
    inbuf: *const c_void,
    insize: usize,
    mut position: InOut<P>,
    outbuf: Place,
    _form: Form,
) -> Checked<()> {
    check_representation(datarep)?;
    let (count, datatype) = outbuf.elements()?;
    // SAFETY: the caller's promise; unpacking only reads.
    let (region, start) = unsafe { packed(inbuf.cast_mut(), insize, &position, "inbuf")? };
    let end =
        weft_mpi::datatype::unpack_external(&region, start, &outbuf.buffer()?, count, datatype)?;
    moved(&mut position, end)
}

pub fn pack_external_size(
    datarep: &CStr,
    incount: i64,
    datatype: &Arc<Datatype>,
    mut size: CountOut,
    _form: Form,
) -> Checked<()> {
    check_representation(datarep)?;
    let incount = check::count(incount, "incount")?;
    size.set(Some(datatype.external_size(incount)? as i64));
    Ok(())
}
