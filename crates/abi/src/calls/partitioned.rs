//! Partitioned communication (MPI 5.0, chapter 4).
//!
//! Sends and receives match by rank and tag, without wildcards, in the order of their initialisation.

use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::sync::Arc;

use weft_mpi::{Buffer, Comm, Datatype, RequestId, Source, TagPattern, Target};

use crate::args::Out;
use crate::fault::{Checked, Fault};
use crate::generated::constants as k;
use crate::handle::request::{Named, pack_persistent, unpack};
use crate::state::{self, InfoObject};
use crate::{c, check};

#[allow(clippy::too_many_arguments, reason = "those of the standard")]
pub fn psend_init(
    buf: *const c_void,
    partitions: usize,
    count: usize,
    datatype: &Arc<Datatype>,
    to: Target,
    tag: i32,
    comm: &Comm,
    _info: Option<&InfoObject>,
    mut request: Out<c::Request>,
) -> Checked<()> {
    let buffer = whole(buf.cast_mut(), partitions, count, datatype)?;
    let id = comm.psend_init(buffer, partitions as u32, to, tag)?;
    request.set(pack_persistent(id));
    Ok(())
}

#[allow(clippy::too_many_arguments, reason = "those of the standard")]
pub fn precv_init(
    buf: *mut c_void,
    partitions: usize,
    count: usize,
    datatype: &Arc<Datatype>,
    from: Source,
    tag: TagPattern,
    comm: &Comm,
    _info: Option<&InfoObject>,
    mut request: Out<c::Request>,
) -> Checked<()> {
    let from = match from {
        Source::Null => Target::Null,
        Source::Rank(rank) => Target::Rank(rank),
        Source::Any => return Err(wildcard(k::MPI_ERR_RANK, "source", "MPI_ANY_SOURCE")),
    };
    let TagPattern::Exact(tag) = tag else {
        return Err(wildcard(k::MPI_ERR_TAG, "tag", "MPI_ANY_TAG"));
    };
    let buffer = whole(buf, partitions, count, datatype)?;
    let id = comm.precv_init(buffer, partitions as u32, from, tag)?;
    request.set(pack_persistent(id));
    Ok(())
}

/// The buffer of all partitions.
fn whole(
    buf: *mut c_void,
    partitions: usize,
    count: usize,
    datatype: &Arc<Datatype>,
) -> Checked<Buffer> {
    let elements = partitions.saturating_mul(count);
    // SAFETY: `buf` holds `partitions` times `count` elements of `datatype` until the request is freed (MPI 5.0, section
    // 4.2.1).
    unsafe { check::buffer(buf, elements, datatype, "buf") }
}

#[cold]
fn wildcard(code: c_int, argument: &'static str, found: &'static str) -> Fault {
    let remedy = "partitioned receives have no wildcards (MPI 5.0, section 4.2.1)";
    Fault::argument(code, argument, "one peer and one tag", found, remedy)
}

pub fn pready(partition: usize, request: c::Request) -> Checked<()> {
    ready(request, partition, partition)
}

pub fn pready_range(
    partition_low: usize,
    partition_high: usize,
    request: c::Request,
) -> Checked<()> {
    if partition_low > partition_high {
        return Err(Fault::argument(
            k::MPI_ERR_ARG,
            "partition_high",
            format!("{partition_low} or more"),
            partition_high.to_string(),
            "name the lowest partition of the range first",
        ));
    }
    ready(request, partition_low, partition_high)
}

pub fn pready_list(
    _length: usize,
    array_of_partitions: &[c_int],
    request: c::Request,
) -> Checked<()> {
    let mut rest = array_of_partitions;
    while let Some(&first) = rest.first() {
        // A run of consecutive partitions.
        let follow = (i64::from(first)..).zip(rest);
        let length = follow.take_while(|(next, one)| *next == i64::from(**one));
        let length = length.count();
        let first = check::length(first.into(), "array_of_partitions")?;
        ready(request, first, first + length - 1)?;
        rest = &rest[length..];
    }
    Ok(())
}

fn ready(request: c::Request, low: usize, high: usize) -> Checked<()> {
    let id = present(request)?;
    let ready = state::process()?.ready(id, range(low, high));
    ready.map_err(|error| Fault::from(error).on(state::context_of(request)))
}

fn range(low: usize, high: usize) -> Range<u32> {
    let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
    number(low)..number(high.saturating_add(1))
}

pub fn parrived(request: c::Request, partition: usize, mut flag: Out<c_int>) -> Checked<()> {
    // Like a request that has ended (MPI 5.0, section 4.2.2).
    if request == k::MPI_REQUEST_NULL {
        flag.flag(true);
        return Ok(());
    }
    let id = present(request)?;
    let partition = u32::try_from(partition).unwrap_or(u32::MAX);
    let arrived = state::process()?.has_arrived(id, partition);
    flag.flag(arrived.map_err(|error| Fault::from(error).on(state::context_of(request)))?);
    Ok(())
}

fn present(request: c::Request) -> Checked<RequestId> {
    match unpack(request) {
        Named::Request(id, _) => Ok(id),
        Named::Null | Named::Wild => Err(Fault::argument(
            k::MPI_ERR_REQUEST,
            "request",
            "a request of MPI_Psend_init or MPI_Precv_init",
            format!("{:#x}", request.0),
            "pass what the call has returned, until it is freed",
        )),
    }
}
