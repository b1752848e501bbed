//! `MPI_Reduce_scatter` and `MPI_Reduce_scatter_block`.

use super::Members;
use super::choice::ReduceScatter;
use super::hosts::{Leader, Levels};
use super::plan::{Cut, Plan};
use super::reduce::{Reduction, ReductionArgument, combine, flat, share};
use crate::buffer::Buffer;
use crate::engine::collective_note::CollectiveNote;
use crate::error::{Error, ErrorClass, Result};
use crate::schedule::{Schedule, Span};

/// All ranks' elements, combined; rank i gets `counts[i]` of them. `reduction.count` is their sum. In
/// place: `send` is the receive buffer, with as many elements.
///
/// # Errors
/// `Op` if the operation is not defined for the datatype, `Count` unless the counts fit, `Truncate` if
/// a buffer does not hold what the counts say.
pub fn reduce_scatter(
    members: &Members,
    send: &Buffer,
    receive: &Buffer,
    counts: &[usize],
    reduction: &Reduction,
) -> Result<Schedule> {
    let name = "MPI_Reduce_scatter";
    let schedule = build(name, members, send, receive, counts, reduction)?;
    let operation = reduction.op.as_predefined();
    let note = CollectiveNote::of_name(name).with(operation);
    Ok(Schedule {
        note: note.of_blocks(counts.iter().copied()),
        ..schedule
    })
}

/// As [`reduce_scatter`], where all get `count` elements.
///
/// # Errors
/// As for [`reduce_scatter`].
pub fn reduce_scatter_block(
    members: &Members,
    send: &Buffer,
    receive: &Buffer,
    count: usize,
    reduction: &Reduction,
) -> Result<Schedule> {
    let counts = vec![count; members.size];
    build(
        "MPI_Reduce_scatter_block",
        members,
        send,
        receive,
        &counts,
        reduction,
    )
}

/// Checks the arguments of [`reduce_scatter`], or those of another function that has counts.
pub(super) fn check(
    name: &'static str,
    members: &Members,
    send: &Buffer,
    receive: &Buffer,
    counts: &[usize],
    reduction: &ReductionArgument<'_>,
) -> Result<()> {
    members.check_entries(name, counts.len())?;
    let sum = counts
        .iter()
        .try_fold(0usize, |sum, count| sum.checked_add(*count));
    if sum != Some(reduction.count) {
        return Err(wrong_sum(name, reduction.count));
    }
    reduction.check(name, reduction.count, send)?;
    reduction.check(name, counts[members.rank], receive)
}

/// Checks the arguments of [`reduce_scatter_block`].
pub(super) fn check_blocks(
    members: &Members,
    send: &Buffer,
    receive: &Buffer,
    count: usize,
    reduction: &ReductionArgument<'_>,
) -> Result<()> {
    let name = "MPI_Reduce_scatter_block";
    if count.checked_mul(members.size) != Some(reduction.count) {
        return Err(wrong_sum(name, reduction.count));
    }
    reduction.check(name, reduction.count, send)?;
    reduction.check(name, count, receive)
}

#[cold]
fn wrong_sum(name: &str, count: usize) -> Error {
    Error::new(
        ErrorClass::Count,
        format!("{name}: the counts of the ranks do not add up to {count}"),
    )
}

fn build(
    name: &'static str,
    members: &Members,
    send: &Buffer,
    receive: &Buffer,
    counts: &[usize],
    reduction: &Reduction,
) -> Result<Schedule> {
    let mut plan = Plan::new(name);
    check(name, members, send, receive, counts, &reduction.into())?;
    let size = reduction.datatype.size();
    let mut cuts = vec![0; counts.len() + 1];
    for (rank, count) in counts.iter().enumerate() {
        cuts[rank + 1] = cuts[rank] + count * size;
    }
    let (own, out) = (plan.input(send), plan.output(receive));
    let part = |rank: usize| (cuts[rank], cuts[rank + 1] - cuts[rank]);
    let elements = reduction.elements();
    match members.reduce_scatter(own.len()) {
        _ if members.size == 1 => plan.copy(own, out),
        ReduceScatter::Parts => {
            let result = share(members, &mut plan, own, &cuts, &elements);
            plan.copy(result, out);
        }
        ReduceScatter::OneRank if members.rank == 0 => {
            let all = plan.scratch(own.len());
            flat(members, &mut plan, own, Some(all), &elements, 0);
            for rank in members.others() {
                let (offset, length) = part(rank);
                plan.send(rank, all.part(offset, length));
            }
            plan.copy(all.part(0, out.len()), out);
        }
        ReduceScatter::OneRank => {
            // Our own data may lie in `out`: our part comes only after rank 0 has got them.
            flat(members, &mut plan, own, None, &elements, 0);
            plan.receive(0, out);
        }
        ReduceScatter::HostsFirst => hosts_first(members, &mut plan, (own, out), &cuts, reduction),
    }
    plan.finish()
}

/// To rank 0 as `MPI_Reduce` does, and from there by the leaders of the hosts. Ranks of a host follow each other, and so
/// do their parts.
fn hosts_first(
    members: &Members,
    plan: &mut Plan,
    (own, out): (Span, Span),
    cuts: &[usize],
    reduction: &Reduction,
) {
    let levels = Levels::of(members, Leader::First);
    let is_root = members.rank == 0;
    let all = is_root.then(|| plan.scratch(own.len()));
    combine(members, plan, own, all, reduction, 0);
    // Our own data may lie in `out`.
    plan.fence();
    if !levels.leads() {
        return levels.within(plan, |_, plan| plan.receive(levels.leader, out));
    }
    let starts = levels.hosts.starts();
    let range = |host: usize| {
        let (start, end) = (cuts[starts[host]], cuts[starts[host + 1]]);
        (start, end - start)
    };
    let (base, length) = range(levels.across.rank);
    let of_host = match all {
        Some(all) => {
            levels.between(plan, |across, plan| {
                for host in across.others() {
                    let (start, length) = range(host);
                    plan.send(host, all.part(start, length));
                }
            });
            all.part(base, length)
        }
        None => {
            let of_host = plan.scratch(length);
            levels.between(plan, |_, plan| plan.receive(0, of_host));
            plan.fence();
            of_host
        }
    };
    let part = |number: usize| {
        let rank = starts[levels.across.rank] + number;
        of_host.part(cuts[rank] - base, cuts[rank + 1] - cuts[rank])
    };
    levels.within(plan, |here, plan| {
        (1..here.size).for_each(|number| plan.send(number, part(number)));
    });
    plan.copy(part(0), out);
}
