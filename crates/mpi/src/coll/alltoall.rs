//! `MPI_Alltoall`, `MPI_Alltoallv` and `MPI_Alltoallw`.

use super::blocks::Blocks;
use super::choice::Alltoall;
use super::hosts::{Leader, Levels};
use super::plan::{Cut, Plan};
use super::{Members, mismatch};
use crate::error::Result;
use crate::schedule::{Schedule, Span};

/// A block of each rank to each rank, all of one size. `send` is `None` for `MPI_IN_PLACE`.
///
/// # Errors
/// `Truncate` if the block to oneself differs in size.
pub fn alltoall(members: &Members, send: Option<&Blocks>, receive: &Blocks) -> Result<Schedule> {
    let mut plan = Plan::new("MPI_Alltoall");
    check(members, plan.name(), send, receive)?;
    let block = receive.bytes(members.rank);
    match members.alltoall(block) {
        Alltoall::Bruck => bruck(members, &mut plan, send, receive, block),
        Alltoall::Pairwise(window) => pairwise(members, &mut plan, send, receive, window),
        Alltoall::HostsFirst => hosts_first(members, &mut plan, send, receive, block),
    }
    plan.finish()
}

/// As [`alltoall`], with blocks of any size and datatype; each rank knows its own only. `name` is the
/// call: `MPI_Alltoallv` or `MPI_Alltoallw`.
///
/// # Errors
/// As for [`alltoall`]; `Count` unless there is one block for each rank.
pub fn alltoallv(
    name: &'static str,
    members: &Members,
    send: Option<&Blocks>,
    receive: &Blocks,
) -> Result<Schedule> {
    let mut plan = Plan::new(name);
    check(members, plan.name(), send, receive)?;
    let Alltoall::Pairwise(window) = members.alltoall(usize::MAX) else {
        unreachable!("blocks of any size are exchanged in pairs")
    };
    pairwise(members, &mut plan, send, receive, window);
    plan.finish()
}

pub(super) fn check(
    members: &Members,
    name: &'static str,
    send: Option<&Blocks>,
    receive: &Blocks,
) -> Result<()> {
    members.check_entries(name, receive.len())?;
    let Some(send) = send else { return Ok(()) };
    members.check_entries(name, send.len())?;
    let (came, expected) = (send.bytes(members.rank), receive.bytes(members.rank));
    if came == expected {
        Ok(())
    } else {
        Err(mismatch(name, came, expected))
    }
}

/// The bytes of all blocks to be sent, which our own is not. In place they are copied first, for they are overwritten.
fn outgoing(
    members: &Members,
    plan: &mut Plan,
    send: Option<&Blocks>,
    receive: &Blocks,
) -> Vec<Span> {
    let span = |rank: usize| match send {
        // Stays here.
        _ if rank == members.rank => plan.scratch(0),
        Some(send) => plan.input(&send.block(rank)),
        None => {
            let copy = plan.scratch(receive.bytes(rank));
            plan.take(&receive.block(rank), copy);
            copy
        }
    };
    (0..members.size).map(span).collect()
}

/// In round d each rank sends to the rank d further on and receives from the one d back; `window`
/// rounds at a time.
fn pairwise(
    members: &Members,
    plan: &mut Plan,
    send: Option<&Blocks>,
    receive: &Blocks,
    window: usize,
) {
    let out = outgoing(members, plan, send, receive);
    if let Some(send) = send {
        plan.transfer(&send.block(members.rank), &receive.block(members.rank));
    }
    let into: Vec<Span> = (0..members.size)
        .map(|rank| match rank {
            // Nothing comes from here.
            rank if rank == members.rank => out[rank],
            rank => plan.output(&receive.block(rank)),
        })
        .collect();
    for first in (1..members.size).step_by(window) {
        let rounds = first..(first + window).min(members.size);
        for distance in rounds.clone() {
            plan.send(members.after(distance), out[members.after(distance)]);
        }
        for distance in rounds {
            plan.receive(members.before(distance), into[members.before(distance)]);
        }
        plan.fence();
    }
}

/// Blocks travel in log2(n) rounds: in round k all those whose distance to go has bit k set go 2^k
/// ranks further, together (Bruck).
fn bruck(
    members: &Members,
    plan: &mut Plan,
    send: Option<&Blocks>,
    receive: &Blocks,
    block: usize,
) {
    let size = members.size;
    let source = send.unwrap_or(receive);
    // By distance to go: first of our own blocks, at the end those of others for us.
    let all = plan.scratch(size * block);
    let run = |first: usize, count: usize| all.part(first * block, count * block);
    for distance in 0..size {
        plan.take(&source.block(members.after(distance)), run(distance, 1));
    }
    let (out, into) = (plan.scratch(size * block), plan.scratch(size * block));
    let mut step = 1;
    while step < size {
        let runs = || {
            let first = (step..size).step_by(2 * step);
            first.map(|first| (first, step.min(size - first)))
        };
        let mut length = 0;
        for (first, count) in runs() {
            plan.copy(run(first, count), out.part(length, count * block));
            length += count * block;
        }
        let (there, back) = (members.after(step), members.before(step));
        plan.exchange(there, out.part(0, length), back, into.part(0, length));
        let mut length = 0;
        for (first, count) in runs() {
            plan.copy(into.part(length, count * block), run(first, count));
            length += count * block;
        }
        step *= 2;
    }
    for distance in 0..size {
        plan.fill(run(distance, 1), &receive.block(members.before(distance)));
    }
}

/// The leader of each host gets the rows of its ranks, sends to each other leader what its ranks give to the ranks there,
/// and deals out what comes.
fn hosts_first(
    members: &Members,
    plan: &mut Plan,
    send: Option<&Blocks>,
    receive: &Blocks,
    block: usize,
) {
    let levels = Levels::of(members, Leader::First);
    let (here, size) = (levels.here.size, members.size);
    let row = size * block;
    let mine = levels.here.rank;
    let source = send.unwrap_or(receive);
    // Blocks of one rank for all others, host by host; at the end those of all others for it.
    let leads = levels.leads();
    let rows = plan.scratch(if leads { here * row } else { row });
    let own = rows.part(if leads { mine * row } else { 0 }, row);
    for (place, rank) in levels.hosts.in_order().enumerate() {
        plan.take(&source.block(rank), own.part(place * block, block));
    }
    if leads {
        levels.within(plan, |_, plan| {
            (1..here).for_each(|number| plan.receive(number, rows.part(number * row, row)));
        });
        plan.fence();
        transpose(&levels, plan, rows, block);
        plan.fence();
        levels.within(plan, |_, plan| {
            (1..here).for_each(|number| plan.send(number, rows.part(number * row, row)));
        });
    } else {
        levels.within(plan, |_, plan| {
            plan.send(levels.leader, own);
            plan.fence();
            plan.receive(levels.leader, own);
        });
        plan.fence();
    }
    for (place, rank) in levels.hosts.in_order().enumerate() {
        plan.fill(own.part(place * block, block), &receive.block(rank));
    }
}

/// At a leader: `rows` holds what each rank of this host gives to all, and afterwards what each gets of all.
fn transpose(levels: &Levels<'_>, plan: &mut Plan, rows: Span, block: usize) {
    let starts = levels.hosts.starts();
    let here = levels.here.size;
    let size = starts[starts.len() - 1];
    let at = |number: usize, place: usize, count: usize| {
        rows.part((number * size + place) * block, count * block)
    };
    // Of all hosts: what goes there, and what comes from there, in the order of who gives it.
    let mut going = Vec::new();
    let mut coming = Vec::new();
    for host in 0..levels.across.size {
        let count = starts[host + 1] - starts[host];
        let out = plan.scratch(here * count * block);
        for number in 0..here {
            let part = out.part(number * count * block, count * block);
            plan.copy(at(number, starts[host], count), part);
        }
        going.push(out);
        coming.push(if host == levels.across.rank {
            out
        } else {
            plan.scratch(here * count * block)
        });
    }
    levels.between(plan, |across, plan| {
        across
            .others()
            .for_each(|host| plan.receive(host, coming[host]));
        across
            .others()
            .for_each(|host| plan.send(host, going[host]));
    });
    plan.fence();
    for (host, came) in coming.into_iter().enumerate() {
        for giver in 0..starts[host + 1] - starts[host] {
            for number in 0..here {
                let part = came.part((giver * here + number) * block, block);
                plan.copy(part, at(number, starts[host] + giver, 1));
            }
        }
    }
}
