//! `MPI_Scatter` and `MPI_Scatterv`.

use super::blocks::Blocks;
use super::choice::Rooted;
use super::hosts::{Leader, Levels};
use super::plan::{Cut, Plan};
use super::tree::TreePosition;
use super::{Members, mismatch, missing};
use crate::buffer::Buffer;
use crate::error::Result;
use crate::schedule::Schedule;

/// A block of the root to each rank. `send` matters at the root only, where `receive` may be `None`
/// (`MPI_IN_PLACE`).
///
/// # Errors
/// `Root` for a root that is no rank, `Truncate` if the root's own blocks differ in size, `Buffer` if
/// a buffer is missing.
pub fn scatter(
    members: &Members,
    send: Option<&Blocks>,
    receive: Option<&Buffer>,
    root: usize,
) -> Result<Schedule> {
    let mut plan = Plan::new("MPI_Scatter");
    check(members, plan.name(), send, receive, root)?;
    let block = match (send, receive) {
        (Some(send), _) if members.rank == root => send.bytes(root),
        (_, receive) => receive.map_or(0, Buffer::bytes),
    };
    match members.rooted(block) {
        Rooted::Flat => flat(members, &mut plan, send, receive, root),
        Rooted::Binomial => binomial(members, &mut plan, send, receive, root, block),
        Rooted::HostsFirst => hosts_first(members, &mut plan, send, receive, root, block),
    }
    plan.finish()
}

/// As [`scatter`], with blocks of different sizes, which only the root knows.
///
/// # Errors
/// As for [`scatter`].
pub fn scatterv(
    members: &Members,
    send: Option<&Blocks>,
    receive: Option<&Buffer>,
    root: usize,
) -> Result<Schedule> {
    let mut plan = Plan::new("MPI_Scatterv");
    check(members, plan.name(), send, receive, root)?;
    flat(members, &mut plan, send, receive, root);
    let own = match send {
        Some(send) if members.rank == root => Some(send.block(root)),
        _ => receive.cloned(),
    };
    plan.note(|note| note.at(root).of_elements(own.as_ref()));
    plan.finish()
}

pub(super) fn check(
    members: &Members,
    name: &'static str,
    send: Option<&Blocks>,
    receive: Option<&Buffer>,
    root: usize,
) -> Result<()> {
    members.check_root(name, root)?;
    if members.rank != root {
        return receive.map(drop).ok_or_else(|| missing(name, "receive"));
    }
    let send = send.ok_or_else(|| missing(name, "send"))?;
    members.check_entries(name, send.len())?;
    match receive {
        Some(receive) if receive.bytes() != send.bytes(root) => {
            Err(mismatch(name, send.bytes(root), receive.bytes()))
        }
        _ => Ok(()),
    }
}

fn flat(
    members: &Members,
    plan: &mut Plan,
    send: Option<&Blocks>,
    receive: Option<&Buffer>,
    root: usize,
) {
    if let (true, Some(send)) = (members.rank == root, send) {
        for rank in members.others() {
            let from = plan.input(&send.block(rank));
            plan.send(rank, from);
        }
        if let Some(receive) = receive {
            plan.transfer(&send.block(root), receive);
        }
    } else if let Some(receive) = receive {
        let into = plan.output(receive);
        plan.receive(root, into);
    }
}

fn binomial(
    members: &Members,
    plan: &mut Plan,
    send: Option<&Blocks>,
    receive: Option<&Buffer>,
    root: usize,
    block: usize,
) {
    let position = TreePosition::of(members.rank, root, members.size);
    let rank = |number: usize| (number + root) % members.size;
    // Blocks of the subtree in order of the tree, our own first.
    let all = plan.scratch(position.subtree(position.number) * block);
    let part =
        |number: usize, count: usize| all.part((number - position.number) * block, count * block);
    if let Some(parent) = position.parent() {
        plan.receive(rank(parent), all);
        plan.fence();
    } else if let Some(send) = send {
        for number in 0..members.size {
            plan.take(&send.block(rank(number)), part(number, 1));
        }
    }
    for child in position.children().rev() {
        plan.send(rank(child), part(child, position.subtree(child)));
    }
    if let Some(receive) = receive {
        plan.fill(part(position.number, 1), receive);
    }
}

/// The leader of each host gets the blocks of all its ranks at once. The root gives those of its host one by one.
fn hosts_first(
    members: &Members,
    plan: &mut Plan,
    send: Option<&Blocks>,
    receive: Option<&Buffer>,
    root: usize,
    block: usize,
) {
    let levels = Levels::of(members, Leader::Root(root));
    let others = (0..levels.here.size).filter(|number| *number != levels.here.rank);
    if !levels.leads() {
        let own = receive.map(|receive| plan.output(receive));
        return levels.within(plan, |_, plan| {
            own.into_iter()
                .for_each(|own| plan.receive(levels.leader, own));
        });
    }
    let (true, Some(send)) = (members.rank == root, send) else {
        let all = plan.scratch(levels.here.size * block);
        let part = |number: usize| all.part(number * block, block);
        levels.between(plan, |_, plan| plan.receive(levels.hosts.host(root), all));
        plan.fence();
        levels.within(plan, |_, plan| {
            others.for_each(|number| plan.send(number, part(number)));
        });
        if let Some(receive) = receive {
            plan.fill(part(levels.here.rank), receive);
        }
        return;
    };
    // Hosts first: theirs is the longest way.
    for host in (0..levels.hosts.count()).filter(|host| *host != levels.hosts.host(root)) {
        let ranks = levels.hosts.ranks(host);
        let all = plan.scratch(ranks.len() * block);
        for (number, rank) in ranks.iter().enumerate() {
            plan.take(&send.block(*rank), all.part(number * block, block));
        }
        levels.between(plan, |_, plan| plan.send(host, all));
    }
    let ranks = levels.hosts.ranks_beside(root);
    for number in others {
        let from = plan.input(&send.block(ranks[number]));
        levels.within(plan, |_, plan| plan.send(number, from));
    }
    if let Some(receive) = receive {
        plan.transfer(&send.block(root), receive);
    }
}
