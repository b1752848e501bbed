//! Reductions: each group combines its data at its leader, then the results change sides.

use super::{Root, Sides};
use crate::buffer::Buffer;
use crate::coll::bcast::spread;
use crate::coll::missing;
use crate::coll::plan::{Cut, Plan};
use crate::coll::reduce::{Reduction, combine};
use crate::error::Result;
use crate::schedule::{Schedule, Span};

/// The elements of the remote group, combined, to the root. `send` matters for [`Root::Rank`],
/// `receive` for [`Root::ThisRank`].
///
/// # Errors
/// `Root` for a root that is no rank, `Op` if the operation is not defined for the datatype, `Buffer`
/// if a buffer is missing, `Truncate` if a buffer does not hold what the count says.
pub fn reduce(
    sides: &Sides,
    send: Option<&Buffer>,
    receive: Option<&Buffer>,
    reduction: &Reduction,
    root: Root,
) -> Result<Schedule> {
    let mut plan = Plan::new("MPI_Reduce");
    let name = plan.name();
    sides.check_root(name, root)?;
    match root {
        Root::ProcNull => {}
        Root::Rank(rank) => {
            let send = send.ok_or_else(|| missing(name, "send"))?;
            reduction.check(name, reduction.count, send)?;
            plan.note(|note| Sides::with_reduction(sides.with_root(note, root), reduction, send));
            let own = plan.input(send);
            if let Some(result) = combined(sides, &mut plan, own, reduction) {
                plan.send(sides.there(rank), result);
            }
        }
        Root::ThisRank => {
            let receive = receive.ok_or_else(|| missing(name, "receive"))?;
            reduction.check(name, reduction.count, receive)?;
            plan.note(|note| {
                Sides::with_reduction(sides.with_root(note, root), reduction, receive)
            });
            let out = plan.output(receive);
            plan.receive(sides.there(0), out);
        }
    }
    plan.finish()
}

/// The elements of each group, combined, to all of the other.
///
/// # Errors
/// `Op` if the operation is not defined for the datatype, `Truncate` if a buffer does not hold what
/// the count says.
pub fn allreduce(
    sides: &Sides,
    send: &Buffer,
    receive: &Buffer,
    reduction: &Reduction,
) -> Result<Schedule> {
    let mut plan = Plan::new("MPI_Allreduce");
    reduction.check(plan.name(), reduction.count, send)?;
    reduction.check(plan.name(), reduction.count, receive)?;
    plan.note(|note| Sides::with_reduction(note, reduction, send));
    let (own, out) = (plan.input(send), plan.output(receive));
    if let Some(result) = combined(sides, &mut plan, own, reduction) {
        plan.exchange(sides.there(0), result, sides.there(0), out);
    }
    spread(&sides.local(), &mut plan, out, 0);
    plan.finish()
}

/// The elements of each group, combined, in parts to the ranks of the other. `counts`: elements of the
/// part of each rank of the local group; `reduction` counts all of them. `name` is the call.
///
/// # Errors
/// As for [`allreduce`]; `Count` unless there is one count for each rank.
pub fn reduce_scatter(
    name: &'static str,
    sides: &Sides,
    send: &Buffer,
    receive: &Buffer,
    counts: &[usize],
    reduction: &Reduction,
) -> Result<Schedule> {
    let mut plan = Plan::new(name);
    sides.local().check_entries(name, counts.len())?;
    reduction.check(name, counts.iter().sum(), send)?;
    reduction.check(name, counts[sides.rank], receive)?;
    plan.note(|note| Sides::with_reduction(note, reduction, send));
    let (own, out) = (plan.input(send), plan.output(receive));
    let Some(result) = combined(sides, &mut plan, own, reduction) else {
        plan.receive(0, out);
        return plan.finish();
    };
    let theirs = plan.scratch(result.len());
    plan.exchange(sides.there(0), result, sides.there(0), theirs);
    let mut start = 0;
    for (rank, count) in counts.iter().enumerate() {
        let part = theirs.part(start, count * reduction.datatype.size());
        start += part.len();
        if rank == sides.rank {
            plan.copy(part, out);
        } else {
            plan.send(rank, part);
        }
    }
    plan.finish()
}

/// The elements of the local group, combined at its leader: there, where the result is, behind a fence.
fn combined(sides: &Sides, plan: &mut Plan, own: Span, reduction: &Reduction) -> Option<Span> {
    let result = sides.is_leader().then(|| plan.scratch(own.len()));
    combine(&sides.local(), plan, own, result, reduction, 0);
    plan.fence();
    result
}
