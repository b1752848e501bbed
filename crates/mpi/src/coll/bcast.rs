//! `MPI_Bcast`.

use super::Members;
use super::choice::{BULK, Bcast};
use super::hosts::{Leader, Levels};
use super::plan::{Cut, Plan};
use super::tree::TreePosition;
use crate::buffer::Buffer;
use crate::error::Result;
use crate::schedule::{Schedule, Span};

/// Bytes that go on within a host at a time.
const PIECE: usize = 4 * BULK;

/// The root's data to all.
///
/// # Errors
/// `Root` for a root that is no rank.
pub fn bcast(members: &Members, buffer: &Buffer, root: usize) -> Result<Schedule> {
    let mut plan = Plan::new("MPI_Bcast");
    members.check_root(plan.name(), root)?;
    if members.size > 1 {
        let root_here = members.rank == root;
        let data = if root_here {
            plan.input(buffer)
        } else {
            plan.output(buffer)
        };
        spread(members, &mut plan, data, root);
    }
    plan.finish()
}

/// The steps, for data in one piece; also the second half of other collectives.
pub(super) fn spread(members: &Members, plan: &mut Plan, data: Span, root: usize) {
    match members.bcast(data.len()) {
        Bcast::Flat => flat(members, plan, data, root),
        Bcast::Binomial => binomial(members, plan, data, root),
        Bcast::ScatterAllgather => scatter_allgather(members, plan, data, root),
        Bcast::HostsFirst => hosts_first(members, plan, data, root),
    }
}

/// From the root to the leaders of the hosts, from these to their ranks; of bulk one piece goes on within the host while
/// the next one comes.
fn hosts_first(members: &Members, plan: &mut Plan, data: Span, root: usize) {
    let levels = Levels::of(members, Leader::Root(root));
    let pieces = data.len().div_ceil(PIECE).max(1);
    for piece in 0..pieces {
        let start = piece * PIECE;
        let part = data.part(start, PIECE.min(data.len() - start));
        if levels.leads() {
            levels.between(plan, |across, plan| {
                spread(across, plan, part, levels.hosts.host(root))
            });
            if members.rank != root {
                plan.fence();
            }
        }
        levels.within(plan, |here, plan| spread(here, plan, part, levels.leader));
    }
}

pub(super) fn flat(members: &Members, plan: &mut Plan, data: Span, root: usize) {
    if members.rank == root {
        members.others().for_each(|rank| plan.send(rank, data));
    } else {
        plan.receive(root, data);
    }
}

fn binomial(members: &Members, plan: &mut Plan, data: Span, root: usize) {
    let position = TreePosition::of(members.rank, root, members.size);
    let rank = |number: usize| (number + root) % members.size;
    if let Some(parent) = position.parent() {
        plan.receive(rank(parent), data);
        plan.fence();
    }
    // The largest subtree first: it has the longest way.
    position
        .children()
        .rev()
        .for_each(|child| plan.send(rank(child), data));
}

/// Each rank gets one part of the data down the tree, then the parts go around in a ring: no rank
/// sends more than twice the data (van de Geijn).
fn scatter_allgather(members: &Members, plan: &mut Plan, data: Span, root: usize) {
    let size = members.size;
    let position = TreePosition::of(members.rank, root, size);
    let rank = |number: usize| (number + root) % size;
    let chunk = data.len().div_ceil(size);
    let parts = |first: usize, count: usize| {
        let start = (first * chunk).min(data.len());
        let end = ((first + count) * chunk).min(data.len());
        data.part(start, end - start)
    };
    if let Some(parent) = position.parent() {
        plan.receive(
            rank(parent),
            parts(position.number, position.subtree(position.number)),
        );
        plan.fence();
    }
    for child in position.children().rev() {
        plan.send(rank(child), parts(child, position.subtree(child)));
    }
    plan.fence();
    let (next, previous) = (rank(position.number + 1), rank(position.number + size - 1));
    for step in 0..size - 1 {
        let ours = (position.number + size - step) % size;
        let theirs = (position.number + 2 * size - step - 1) % size;
        plan.exchange(next, parts(ours, 1), previous, parts(theirs, 1));
    }
}
