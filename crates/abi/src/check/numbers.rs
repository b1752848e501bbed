//! Counts, ranks, roots and tags.

use std::ffi::c_int;

use weft_mpi::coll::inter::Root;
use weft_mpi::{Comm, Source, TagPattern, Target};

use crate::fault::{Checked, Fault};
use crate::generated::constants as k;

/// Largest tag (`MPI_TAG_UB`).
pub const TAG_MAX: c_int = 0x3fff_ffff;

/// A number of elements.
#[inline]
pub fn count(value: i64, name: &'static str) -> Checked<usize> {
    usize::try_from(value).map_err(|_| negative(k::MPI_ERR_COUNT, name, value))
}

/// The length of a list.
#[inline]
pub fn length(value: i64, name: &'static str) -> Checked<usize> {
    usize::try_from(value).map_err(|_| negative(k::MPI_ERR_ARG, name, value))
}

/// A number of bytes.
#[inline]
pub fn bytes(value: i64, name: &'static str) -> Checked<usize> {
    usize::try_from(value).map_err(|_| negative(k::MPI_ERR_ARG, name, value))
}

#[cold]
fn negative(code: c_int, name: &'static str, value: i64) -> Fault {
    let remedy = "check the arithmetic that led to it; a count above 2147483647 needs the form of the call that ends in _c";
    Fault::argument(code, name, "0 or more", value.to_string(), remedy)
}

/// Number of ranks to which a message of a communicator may go.
#[inline]
fn peers(comm: &Comm) -> u32 {
    match comm.remote_group() {
        None => comm.size(),
        Some(remote) => remote.size(),
    }
}

/// A rank to send to.
#[inline]
pub fn destination(rank: c_int, comm: &Comm, name: &'static str) -> Checked<Target> {
    if rank.cast_unsigned() < peers(comm) {
        return Ok(Target::Rank(rank.cast_unsigned()));
    }
    if rank == k::MPI_PROC_NULL {
        return Ok(Target::Null);
    }
    Err(bad_rank(rank, comm, name, ", or MPI_PROC_NULL"))
}

/// A rank to receive from.
#[inline]
pub fn source(rank: c_int, comm: &Comm, name: &'static str) -> Checked<Source> {
    if rank.cast_unsigned() < peers(comm) {
        return Ok(Source::Rank(rank.cast_unsigned()));
    }
    match rank {
        k::MPI_ANY_SOURCE => Ok(Source::Any),
        k::MPI_PROC_NULL => Ok(Source::Null),
        _ => Err(bad_rank(
            rank,
            comm,
            name,
            ", MPI_ANY_SOURCE or MPI_PROC_NULL",
        )),
    }
}

#[cold]
fn bad_rank(rank: c_int, comm: &Comm, name: &'static str, others: &str) -> Fault {
    Fault::argument(
        k::MPI_ERR_RANK,
        name,
        format!("a rank from 0 to {}{others}", i64::from(peers(comm)) - 1),
        special(rank),
        "pass a rank of the communicator; MPI_Comm_size tells how many it has",
    )
}

fn special(value: c_int) -> String {
    match value {
        k::MPI_ANY_SOURCE => "MPI_ANY_SOURCE".to_owned(),
        k::MPI_ANY_TAG => "MPI_ANY_TAG".to_owned(),
        k::MPI_PROC_NULL => "MPI_PROC_NULL".to_owned(),
        k::MPI_ROOT => "MPI_ROOT".to_owned(),
        k::MPI_UNDEFINED => "MPI_UNDEFINED".to_owned(),
        other => other.to_string(),
    }
}

/// The root of a collective.
#[inline]
pub fn root(rank: c_int, comm: &Comm, name: &'static str) -> Checked<Root> {
    if rank.cast_unsigned() < peers(comm) {
        return Ok(Root::Rank(rank as usize));
    }
    match rank {
        k::MPI_ROOT if comm.remote_group().is_some() => Ok(Root::ThisRank),
        k::MPI_PROC_NULL if comm.remote_group().is_some() => Ok(Root::ProcNull),
        _ => Err(bad_root(rank, comm, name)),
    }
}

#[cold]
fn bad_root(rank: c_int, comm: &Comm, name: &'static str) -> Fault {
    let last = i64::from(peers(comm)) - 1;
    let (expected, remedy) = if comm.remote_group().is_some() {
        (
            format!("a rank of the remote group from 0 to {last}, MPI_ROOT or MPI_PROC_NULL"),
            "pass MPI_ROOT at the root, MPI_PROC_NULL at the others of its group, and its rank at all of the other group",
        )
    } else {
        (
            format!("a rank from 0 to {last}"),
            "pass the same rank of the communicator at all its processes",
        )
    };
    Fault::argument(k::MPI_ERR_ROOT, name, expected, special(rank), remedy)
}

/// A tag to send with.
#[inline]
pub fn send_tag(tag: c_int, name: &'static str) -> Checked<i32> {
    if (0..=TAG_MAX).contains(&tag) {
        Ok(tag)
    } else {
        Err(bad_tag(tag, name, ""))
    }
}

/// A tag to receive.
#[inline]
pub fn receive_tag(tag: c_int, name: &'static str) -> Checked<TagPattern> {
    if (0..=TAG_MAX).contains(&tag) {
        return Ok(TagPattern::Exact(tag));
    }
    if tag == k::MPI_ANY_TAG {
        Ok(TagPattern::Any)
    } else {
        Err(bad_tag(tag, name, ", or MPI_ANY_TAG"))
    }
}

#[cold]
fn bad_tag(tag: c_int, name: &'static str, others: &str) -> Fault {
    Fault::argument(
        k::MPI_ERR_TAG,
        name,
        format!("a tag from 0 to {TAG_MAX}{others}"),
        special(tag),
        "choose a tag in the range; the attribute MPI_TAG_UB tells its end",
    )
}
