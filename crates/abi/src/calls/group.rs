//! Groups (MPI 5.0, section 7.3).

use std::ffi::{CStr, c_int};
use std::sync::Arc;

use weft_mpi::group::{Comparison, Range};
use weft_mpi::{Group, memory};

use crate::args::{InOut, Out, text_of};
use crate::calls::abi::full;
use crate::fault::{Checked, Fault};
use crate::generated::constants as k;
use crate::state::SessionObject;
use crate::{c, check, handle, state};

/// The handle of a new group.
pub(crate) fn publish(group: Arc<Group>) -> Checked<c::Group> {
    if group.size() == 0 {
        return Ok(k::MPI_GROUP_EMPTY);
    }
    handle::insert(group)
        .map(c::Group)
        .ok_or_else(|| full("groups"))
}

/// The constant of a comparison.
pub(crate) fn constant(comparison: Comparison) -> c_int {
    match comparison {
        Comparison::Identical => k::MPI_IDENT,
        Comparison::Congruent => k::MPI_CONGRUENT,
        Comparison::Similar => k::MPI_SIMILAR,
        Comparison::Unequal => k::MPI_UNEQUAL,
    }
}

/// The processes of a session under a name (MPI 5.0, section 11.3).
pub fn group_from_session_pset(
    _session: &SessionObject,
    pset_name: &CStr,
    mut newgroup: Out<c::Group>,
) -> Checked<()> {
    let members = session_members(pset_name)?;
    newgroup.set(publish(members)?);
    Ok(())
}

/// The group with the name of a process set.
pub(crate) fn session_members(pset_name: &CStr) -> Checked<Arc<Group>> {
    let members = state::process()?.process_set(&text_of(pset_name));
    members.ok_or_else(|| {
        Fault::argument(
            k::MPI_ERR_ARG,
            "pset_name",
            "\"mpi://WORLD\" or \"mpi://SELF\"",
            format!("\"{}\"", text_of(pset_name)),
            "MPI_Session_get_nth_pset tells the names",
        )
    })
}

pub fn group_size(group: &Arc<Group>, mut size: Out<c_int>) -> Checked<()> {
    size.set(group.size().cast_signed());
    Ok(())
}

pub fn group_rank(group: &Arc<Group>, mut rank: Out<c_int>) -> Checked<()> {
    let me = state::process()?.me();
    rank.set(group.rank_of(me).map_or(k::MPI_UNDEFINED, u32::cast_signed));
    Ok(())
}

pub fn group_compare(
    group1: &Arc<Group>,
    group2: &Arc<Group>,
    mut result: Out<c_int>,
) -> Checked<()> {
    result.set(constant(group1.compare(group2)));
    Ok(())
}

pub fn group_translate_ranks(
    group1: &Arc<Group>,
    _n: usize,
    ranks1: &[c_int],
    group2: &Arc<Group>,
    ranks2: &mut [c_int],
) -> Checked<()> {
    for (from, to) in ranks1.iter().zip(ranks2) {
        if *from == k::MPI_PROC_NULL {
            *to = k::MPI_PROC_NULL;
            continue;
        }
        let rank = u32::try_from(*from)
            .ok()
            .filter(|rank| *rank < group1.size())
            .ok_or_else(|| {
                Fault::argument(
                    k::MPI_ERR_RANK,
                    "ranks1",
                    format!(
                        "ranks from 0 to {}, or MPI_PROC_NULL",
                        i64::from(group1.size()) - 1
                    ),
                    from.to_string(),
                    "pass ranks of group1",
                )
            })?;
        *to = group2
            .rank_of(group1.peer(rank))
            .map_or(k::MPI_UNDEFINED, u32::cast_signed);
    }
    Ok(())
}

pub fn group_union(
    group1: &Arc<Group>,
    group2: &Arc<Group>,
    mut newgroup: Out<c::Group>,
) -> Checked<()> {
    newgroup.set(publish(Arc::new(group1.union(group2)))?);
    Ok(())
}

pub fn group_intersection(
    group1: &Arc<Group>,
    group2: &Arc<Group>,
    mut newgroup: Out<c::Group>,
) -> Checked<()> {
    newgroup.set(publish(Arc::new(group1.intersection(group2)))?);
    Ok(())
}

pub fn group_difference(
    group1: &Arc<Group>,
    group2: &Arc<Group>,
    mut newgroup: Out<c::Group>,
) -> Checked<()> {
    newgroup.set(publish(Arc::new(group1.difference(group2)))?);
    Ok(())
}

pub fn group_incl(
    group: &Arc<Group>,
    _n: usize,
    ranks: &[c_int],
    mut newgroup: Out<c::Group>,
) -> Checked<()> {
    newgroup.set(publish(Arc::new(group.include(ranks)?))?);
    Ok(())
}

pub fn group_excl(
    group: &Arc<Group>,
    _n: usize,
    ranks: &[c_int],
    mut newgroup: Out<c::Group>,
) -> Checked<()> {
    newgroup.set(publish(Arc::new(group.exclude(ranks)?))?);
    Ok(())
}

fn ranges(ranges: &[[c_int; 3]]) -> Checked<Vec<Range>> {
    memory::ensure_list(ranges.len(), size_of::<Range>())?;
    Ok(ranges
        .iter()
        .map(|[first, last, stride]| (*first, *last, *stride))
        .collect())
}

pub fn group_range_incl(
    group: &Arc<Group>,
    _n: usize,
    triplets: &[[c_int; 3]],
    mut newgroup: Out<c::Group>,
) -> Checked<()> {
    newgroup.set(publish(Arc::new(
        group.include_ranges(&ranges(triplets)?)?,
    ))?);
    Ok(())
}

pub fn group_range_excl(
    group: &Arc<Group>,
    _n: usize,
    triplets: &[[c_int; 3]],
    mut newgroup: Out<c::Group>,
) -> Checked<()> {
    newgroup.set(publish(Arc::new(
        group.exclude_ranges(&ranges(triplets)?)?,
    ))?);
    Ok(())
}

/// `MPI_GROUP_EMPTY` may be freed like the empty groups of other libraries; it stays.
pub fn group_free(mut group: InOut<c::Group>) -> Checked<()> {
    check::group(group.get(), "group")?;
    handle::remove::<Arc<Group>>(group.get().0);
    group.set(k::MPI_GROUP_NULL);
    Ok(())
}
