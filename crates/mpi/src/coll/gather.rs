//! `MPI_Gather` and `MPI_Gatherv`.

use super::blocks::Blocks;
use super::choice::Rooted;
use super::hosts::{Leader, Levels};
use super::plan::{Cut, Plan};
use super::tree::TreePosition;
use super::{Members, mismatch, missing};
use crate::buffer::Buffer;
use crate::error::Result;
use crate::schedule::{Schedule, Span};

/// A block of each rank to the root. `receive` matters at the root only, where `send` may be `None`
/// (`MPI_IN_PLACE`).
///
/// # Errors
/// `Root` for a root that is no rank, `Truncate` if the root's own blocks differ in size, `Buffer` if
/// a buffer is missing.
pub fn gather(
    members: &Members,
    send: Option<&Buffer>,
    receive: Option<&Blocks>,
    root: usize,
) -> Result<Schedule> {
    let mut plan = Plan::new("MPI_Gather");
    check(members, plan.name(), send, receive, root)?;
    let block = match (receive, send) {
        (Some(receive), _) if members.rank == root => receive.bytes(root),
        (_, send) => send.map_or(0, Buffer::bytes),
    };
    match members.rooted(block) {
        Rooted::Flat => flat(members, &mut plan, send, receive, root),
        Rooted::Binomial => binomial(members, &mut plan, send, receive, root, block),
        Rooted::HostsFirst => hosts_first(members, &mut plan, send, receive, root, block),
    }
    plan.finish()
}

/// As [`gather`], with blocks of different sizes, which only the root knows.
///
/// # Errors
/// As for [`gather`].
pub fn gatherv(
    members: &Members,
    send: Option<&Buffer>,
    receive: Option<&Blocks>,
    root: usize,
) -> Result<Schedule> {
    let mut plan = Plan::new("MPI_Gatherv");
    check(members, plan.name(), send, receive, root)?;
    flat(members, &mut plan, send, receive, root);
    let own = match receive {
        Some(receive) if members.rank == root => Some(receive.block(root)),
        _ => send.cloned(),
    };
    plan.note(|note| note.at(root).of_elements(own.as_ref()));
    plan.finish()
}

pub(super) fn check(
    members: &Members,
    name: &'static str,
    send: Option<&Buffer>,
    receive: Option<&Blocks>,
    root: usize,
) -> Result<()> {
    members.check_root(name, root)?;
    if members.rank != root {
        return send.map(drop).ok_or_else(|| missing(name, "send"));
    }
    let receive = receive.ok_or_else(|| missing(name, "receive"))?;
    members.check_entries(name, receive.len())?;
    match send {
        Some(send) if send.bytes() != receive.bytes(root) => {
            Err(mismatch(name, send.bytes(), receive.bytes(root)))
        }
        _ => Ok(()),
    }
}

fn flat(
    members: &Members,
    plan: &mut Plan,
    send: Option<&Buffer>,
    receive: Option<&Blocks>,
    root: usize,
) {
    if let (true, Some(receive)) = (members.rank == root, receive) {
        for rank in members.others() {
            let into = plan.output(&receive.block(rank));
            plan.receive(rank, into);
        }
        if let Some(send) = send {
            plan.transfer(send, &receive.block(root));
        }
    } else if let Some(send) = send {
        let from = plan.input(send);
        plan.send(root, from);
    }
}

fn binomial(
    members: &Members,
    plan: &mut Plan,
    send: Option<&Buffer>,
    receive: Option<&Blocks>,
    root: usize,
    block: usize,
) {
    let position = TreePosition::of(members.rank, root, members.size);
    let rank = |number: usize| (number + root) % members.size;
    // Blocks of the subtree in order of the tree, our own first.
    let all = plan.scratch(position.subtree(position.number) * block);
    let part =
        |number: usize, count: usize| all.part((number - position.number) * block, count * block);
    for child in position.children() {
        plan.receive(rank(child), part(child, position.subtree(child)));
    }
    if let Some(send) = send {
        plan.take(send, part(position.number, 1));
    }
    plan.fence();
    if let Some(parent) = position.parent() {
        plan.send(rank(parent), all);
    } else if let Some(receive) = receive {
        let first = usize::from(send.is_none());
        deal(plan, members, all, receive, root, block, first);
    }
}

/// The leader of each host takes the blocks of its ranks along. The root gets those of its host one by one.
fn hosts_first(
    members: &Members,
    plan: &mut Plan,
    send: Option<&Buffer>,
    receive: Option<&Blocks>,
    root: usize,
    block: usize,
) {
    let levels = Levels::of(members, Leader::Root(root));
    let others = (0..levels.here.size).filter(|number| *number != levels.here.rank);
    if !levels.leads() {
        let own = send.map(|send| plan.input(send));
        return levels.within(plan, |_, plan| {
            own.into_iter()
                .for_each(|own| plan.send(levels.leader, own));
        });
    }
    let (true, Some(receive)) = (members.rank == root, receive) else {
        let all = plan.scratch(levels.here.size * block);
        let part = |number: usize| all.part(number * block, block);
        levels.within(plan, |_, plan| {
            others.for_each(|number| plan.receive(number, part(number)));
        });
        if let Some(send) = send {
            plan.take(send, part(levels.here.rank));
        }
        plan.fence();
        return levels.between(plan, |_, plan| plan.send(levels.hosts.host(root), all));
    };
    let ranks = levels.hosts.ranks_beside(root);
    for number in others {
        let into = plan.output(&receive.block(ranks[number]));
        levels.within(plan, |_, plan| plan.receive(number, into));
    }
    if let Some(send) = send {
        plan.transfer(send, &receive.block(root));
    }
    let others = (0..levels.hosts.count()).filter(|host| *host != levels.hosts.host(root));
    let came: Vec<(usize, Span)> = others
        .map(|host| (host, plan.scratch(levels.hosts.ranks(host).len() * block)))
        .collect();
    levels.between(plan, |_, plan| {
        came.iter()
            .for_each(|(host, all)| plan.receive(*host, *all));
    });
    plan.fence();
    for (host, all) in came {
        for (number, rank) in levels.hosts.ranks(host).iter().enumerate() {
            plan.fill(all.part(number * block, block), &receive.block(*rank));
        }
    }
}

/// Copies blocks, from that of `root` on, from the `skip`th of them, to where they belong.
pub(super) fn deal(
    plan: &mut Plan,
    members: &Members,
    all: Span,
    receive: &Blocks,
    root: usize,
    block: usize,
    skip: usize,
) {
    let size = members.size;
    if let (Some(whole), 0) = (receive.whole(), skip) {
        let (whole, tail) = (Span::User(whole), size - root);
        plan.copy(
            all.part(0, tail * block),
            whole.part(root * block, tail * block),
        );
        plan.copy(
            all.part(tail * block, root * block),
            whole.part(0, root * block),
        );
        return;
    }
    for number in skip..size {
        plan.fill(
            all.part(number * block, block),
            &receive.block((number + root) % size),
        );
    }
}
