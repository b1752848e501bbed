//! `MPI_Scan` and `MPI_Exscan`.

use super::choice::Scan;
use super::hosts::{Leader, Levels};
use super::plan::{Cut, Elements, Plan, Side};
use super::reduce::Reduction;
use super::{Members, bcast};
use crate::buffer::Buffer;
use crate::error::Result;
use crate::schedule::{Schedule, Span};

/// The elements of all ranks up to this one, combined. In place: `send` is the receive buffer.
///
/// # Errors
/// `Op` if the operation is not defined for the datatype, `Truncate` if a buffer does not hold what
/// the count says.
pub fn scan(
    members: &Members,
    send: &Buffer,
    receive: &Buffer,
    reduction: &Reduction,
) -> Result<Schedule> {
    let mut plan = Plan::new("MPI_Scan");
    let (own, out) = spans(&mut plan, send, receive, reduction)?;
    plan.copy(own, out);
    inclusive(members, &mut plan, out, &reduction.elements());
    plan.finish()
}

/// `data` holds this rank's elements, and at the end those of all up to it, combined.
fn inclusive(members: &Members, plan: &mut Plan, data: Span, elements: &Elements) {
    let spare = plan.scratch(data.len());
    match members.scan() {
        Scan::Chain => {
            if members.rank > 0 {
                plan.receive(members.rank - 1, spare);
                plan.fence();
                plan.reduce(elements, spare, Side::Before, data);
            }
            if members.rank + 1 < members.size {
                plan.send(members.rank + 1, data);
            }
        }
        Scan::Doubling => doubling(members, plan, data, spare, elements, 0),
        Scan::HostsFirst => {
            let levels = Levels::of(members, Leader::Last);
            levels.within(plan, |here, plan| inclusive(here, plan, data, elements));
            plan.fence();
            if let Some(before) = of_hosts_before(&levels, plan, data, elements) {
                plan.reduce(elements, before, Side::Before, data);
            }
        }
    }
}

/// Elements of all hosts before this one, combined; none on the first. `data` are those of this host at its last rank.
fn of_hosts_before(
    levels: &Levels<'_>,
    plan: &mut Plan,
    data: Span,
    elements: &Elements,
) -> Option<Span> {
    let before = plan.scratch(data.len());
    if levels.leads() {
        levels.between(plan, |across, plan| {
            exclusive(across, plan, data, before, elements);
        });
        plan.fence();
    }
    if levels.across.rank == 0 {
        return None;
    }
    levels.within(plan, |here, plan| {
        bcast::spread(here, plan, before, levels.leader);
    });
    plan.fence();
    Some(before)
}

/// The elements of all ranks before this one, combined. Rank 0 gets nothing. In place: `send` is the
/// receive buffer.
///
/// # Errors
/// As for [`scan`].
pub fn exscan(
    members: &Members,
    send: &Buffer,
    receive: &Buffer,
    reduction: &Reduction,
) -> Result<Schedule> {
    let mut plan = Plan::new("MPI_Exscan");
    let own = {
        reduction.check(plan.name(), reduction.count, send)?;
        plan.input(send)
    };
    let first = members.rank == 0;
    let out = if first {
        // Nothing comes to rank 0, whose receive buffer is not touched.
        None
    } else {
        reduction.check(plan.name(), reduction.count, receive)?;
        Some(plan.output(receive))
    };
    let before = plan.scratch(own.len());
    exclusive(members, &mut plan, own, before, &reduction.elements());
    if let Some(out) = out {
        plan.fence();
        plan.copy(before, out);
    }
    plan.finish()
}

/// `before` gets the elements of all ranks before this one, combined; not at rank 0.
fn exclusive(members: &Members, plan: &mut Plan, own: Span, before: Span, elements: &Elements) {
    let first = members.rank == 0;
    match members.scan() {
        Scan::Chain => chain(members, plan, own, before, elements),
        Scan::Doubling => {
            // What our neighbour has is the scan of the ranks from 1 on that we need.
            if !first {
                plan.receive(members.rank - 1, before);
            }
            if members.rank + 1 < members.size {
                plan.send(members.rank + 1, own);
            }
            plan.fence();
            if !first {
                let spare = plan.scratch(own.len());
                doubling(members, plan, before, spare, elements, 1);
            }
        }
        Scan::HostsFirst => {
            let levels = Levels::of(members, Leader::Last);
            levels.within(plan, |here, plan| {
                exclusive(here, plan, own, before, elements)
            });
            plan.fence();
            let mut of_host = own;
            if levels.leads() && levels.here.rank > 0 {
                of_host = plan.scratch(own.len());
                plan.copy(own, of_host);
                plan.reduce(elements, before, Side::Before, of_host);
            }
            match of_hosts_before(&levels, plan, of_host, elements) {
                Some(all) if levels.here.rank == 0 => plan.copy(all, before),
                Some(all) => plan.reduce(elements, all, Side::Before, before),
                None => {}
            }
        }
    }
}

fn spans(
    plan: &mut Plan,
    send: &Buffer,
    receive: &Buffer,
    reduction: &Reduction,
) -> Result<(Span, Span)> {
    reduction.check(plan.name(), reduction.count, send)?;
    reduction.check(plan.name(), reduction.count, receive)?;
    Ok((plan.input(send), plan.output(receive)))
}

/// From rank to rank: what comes, with our own, goes on.
fn chain(members: &Members, plan: &mut Plan, own: Span, before: Span, elements: &Elements) {
    let last = members.rank + 1 == members.size;
    if members.rank == 0 {
        if !last {
            plan.send(1, own);
        }
        return;
    }
    plan.receive(members.rank - 1, before);
    if !last {
        let on = plan.scratch(own.len());
        plan.copy(own, on);
        plan.fence();
        plan.reduce(elements, before, Side::Before, on);
        plan.send(members.rank + 1, on);
    }
}

/// After round k `data` covers 2^(k+1) ranks up to this one, or all from `first` on.
fn doubling(
    members: &Members,
    plan: &mut Plan,
    data: Span,
    spare: Span,
    elements: &Elements,
    first: usize,
) {
    let mut distance = 1;
    while distance < members.size - first {
        let source = members
            .rank
            .checked_sub(distance)
            .filter(|rank| *rank >= first);
        if let Some(source) = source {
            plan.receive(source, spare);
        }
        if members.rank + distance < members.size {
            plan.send(members.rank + distance, data);
        }
        plan.fence();
        if source.is_some() {
            plan.reduce(elements, spare, Side::Before, data);
        }
        distance *= 2;
    }
}
