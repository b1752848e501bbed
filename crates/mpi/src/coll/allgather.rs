//! `MPI_Allgather` and `MPI_Allgatherv`.

use super::blocks::Blocks;
use super::choice::{Allgather, BULK};
use super::gather::deal;
use super::hosts::{Leader, Levels};
use super::plan::{Cut, Plan};
use super::{Members, bcast, mismatch};
use crate::buffer::Buffer;
use crate::engine::collective_note::CollectiveNote;
use crate::error::Result;
use crate::schedule::{Schedule, Span};

/// A block of each rank to all. `send` is `None` for `MPI_IN_PLACE`.
///
/// # Errors
/// `Truncate` if this rank's own blocks differ in size.
pub fn allgather(members: &Members, send: Option<&Buffer>, receive: &Blocks) -> Result<Schedule> {
    build("MPI_Allgather", members, send, receive)
}

/// As [`allgather`], with blocks of different sizes, which all ranks know.
///
/// # Errors
/// As for [`allgather`]; `Count` unless there is one block for each rank.
pub fn allgatherv(members: &Members, send: Option<&Buffer>, receive: &Blocks) -> Result<Schedule> {
    let mut schedule = build("MPI_Allgatherv", members, send, receive)?;
    let sizes = (0..receive.len()).map(|rank| receive.bytes(rank));
    schedule.note = CollectiveNote::of_name(schedule.name)
        .of_blocks(sizes)
        .of_elements(Some(&receive.block(members.rank)));
    Ok(schedule)
}

fn build(
    name: &'static str,
    members: &Members,
    send: Option<&Buffer>,
    receive: &Blocks,
) -> Result<Schedule> {
    let mut plan = Plan::new(name);
    check(name, members, send, receive)?;
    let in_place;
    let own = match send {
        Some(send) => send,
        None => {
            in_place = receive.block(members.rank);
            &in_place
        }
    };
    let total = (0..members.size).map(|rank| receive.bytes(rank)).sum();
    if members.size == 1 {
        if send.is_some() {
            plan.transfer(own, &receive.block(0));
        }
        return plan.finish();
    }
    match members.allgather(total) {
        Allgather::Flat => flat(members, &mut plan, own, receive, total),
        Allgather::Bruck => bruck(members, &mut plan, own, receive, total),
        Allgather::Ring => ring(members, &mut plan, own, receive),
        Allgather::HostsFirst => hosts_first(members, &mut plan, own, receive, total),
    }
    plan.finish()
}

pub(super) fn check(
    name: &'static str,
    members: &Members,
    send: Option<&Buffer>,
    receive: &Blocks,
) -> Result<()> {
    members.check_entries(name, receive.len())?;
    let expected = receive.bytes(members.rank);
    match send {
        Some(send) if send.bytes() != expected => Err(mismatch(name, send.bytes(), expected)),
        _ => Ok(()),
    }
}

/// Rank 0 gathers, then gives everything to all. A rank's own block may lie where everything will be
/// received: that comes only after rank 0 has got the block.
fn flat(members: &Members, plan: &mut Plan, own: &Buffer, receive: &Blocks, total: usize) {
    let all = match receive.whole() {
        Some(whole) => Span::User(whole),
        None => plan.scratch(total),
    };
    if members.rank == 0 {
        let mut offset = receive.bytes(0);
        for rank in 1..members.size {
            plan.receive(rank, all.part(offset, receive.bytes(rank)));
            offset += receive.bytes(rank);
        }
        plan.take(own, all.part(0, receive.bytes(0)));
        plan.fence();
    } else {
        let from = plan.input(own);
        plan.send(0, from);
    }
    bcast::flat(members, plan, all, 0);
    if receive.whole().is_none() {
        plan.fence();
        let mut offset = 0;
        for rank in 0..members.size {
            let length = receive.bytes(rank);
            plan.fill(all.part(offset, length), &receive.block(rank));
            offset += length;
        }
    }
}

/// In round k each rank has the blocks of 2^k ranks from itself on, and gets as many more from the
/// rank 2^k further on: log2(n) rounds.
fn bruck(members: &Members, plan: &mut Plan, own: &Buffer, receive: &Blocks, total: usize) {
    let (rank, size) = (members.rank, members.size);
    let all = plan.scratch(total);
    let mut ends = vec![0; size + 1];
    for place in 0..size {
        ends[place + 1] = ends[place] + receive.bytes(members.after(place));
    }
    plan.take(own, all.part(0, ends[1]));
    let mut distance = 1;
    while distance < size {
        let count = distance.min(size - distance);
        // What the other side sends are blocks of its own numbering: the same ranks as our places from
        // `distance` on.
        let into = all.part(ends[distance], ends[distance + count] - ends[distance]);
        let out = all.part(0, ends[count]);
        plan.exchange(members.before(distance), out, members.after(distance), into);
        distance *= 2;
    }
    if receive.whole().is_some() {
        deal(plan, members, all, receive, rank, ends[1], 0);
        return;
    }
    for place in 0..size {
        let block = all.part(ends[place], ends[place + 1] - ends[place]);
        plan.fill(block, &receive.block(members.after(place)));
    }
}

/// Each block goes around from rank to rank.
fn ring(members: &Members, plan: &mut Plan, own: &Buffer, receive: &Blocks) {
    let spans: Vec<Span> = (0..members.size)
        .map(|rank| plan.output(&receive.block(rank)))
        .collect();
    plan.take(own, spans[members.rank]);
    around(members, plan, &spans);
}

/// The leader of each host gets the blocks of its ranks, the leaders give each other what they have, and each gives
/// everything to its ranks.
fn hosts_first(members: &Members, plan: &mut Plan, own: &Buffer, receive: &Blocks, total: usize) {
    let levels = Levels::of(members, Leader::First);
    // Blocks host by host, which may be where they belong.
    let in_place = receive.whole().filter(|_| levels.hosts.keep_order());
    let all = match in_place {
        Some(whole) => Span::User(whole),
        None => plan.scratch(total),
    };
    let mut blocks = Vec::with_capacity(members.size);
    let mut offset = 0;
    for rank in levels.hosts.in_order() {
        let length = receive.bytes(rank);
        blocks.push(all.part(offset, length));
        offset += length;
    }
    let starts = levels.hosts.starts();
    let first = starts[levels.across.rank];
    if levels.leads() {
        levels.within(plan, |here, plan| {
            (1..here.size).for_each(|number| plan.receive(number, blocks[first + number]));
        });
        plan.take(own, blocks[first]);
        plan.fence();
        let mut begin = 0;
        let runs: Vec<Span> = (0..levels.hosts.count())
            .map(|host| {
                let length = blocks[starts[host]..starts[host + 1]]
                    .iter()
                    .map(Cut::len)
                    .sum();
                begin += length;
                all.part(begin - length, length)
            })
            .collect();
        levels.between(plan, |across, plan| exchange_runs(across, plan, &runs));
    } else {
        let from = plan.input(own);
        levels.within(plan, |_, plan| plan.send(levels.leader, from));
    }
    // Our own block may lie in `all`.
    plan.fence();
    levels.within(plan, |here, plan| {
        bcast::spread(here, plan, all, levels.leader)
    });
    if in_place.is_none() {
        plan.fence();
        for (rank, block) in levels.hosts.in_order().zip(blocks) {
            plan.fill(block, &receive.block(rank));
        }
    }
}

/// Each has the run of its own number, all get all: directly if that is little, else around a ring.
fn exchange_runs(members: &Members, plan: &mut Plan, runs: &[Span]) {
    let total: usize = runs.iter().map(Cut::len).sum();
    let own = runs[members.rank];
    if total <= BULK {
        members.others().for_each(|rank| plan.send(rank, own));
        return members
            .others()
            .for_each(|rank| plan.receive(rank, runs[rank]));
    }
    around(members, plan, runs);
}

fn around(members: &Members, plan: &mut Plan, runs: &[Span]) {
    let (next, previous) = (members.after(1), members.before(1));
    for step in 0..members.size - 1 {
        let (out, into) = (members.before(step), members.before(step + 1));
        plan.exchange(next, runs[out], previous, runs[into]);
    }
}
