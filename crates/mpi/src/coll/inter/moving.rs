//! Barrier, and collectives that move data without changing them.

use super::{Root, Sides};
use crate::buffer::Buffer;
use crate::coll::bcast::spread;
use crate::coll::blocks::Blocks;
use crate::coll::choice::Bcast;
use crate::coll::missing;
use crate::coll::plan::{Cut, Plan};
use crate::error::Result;
use crate::schedule::{Schedule, Span};

/// No rank leaves before all of the remote group have entered: these tell their leader, who tells this group.
///
/// # Errors
/// None.
pub fn barrier(sides: &Sides) -> Result<Schedule> {
    let mut plan = Plan::new("MPI_Barrier");
    plan.signal(sides.there(0));
    if sides.is_leader() {
        (0..sides.remote).for_each(|rank| plan.wait(sides.there(rank)));
        plan.fence();
        (1..sides.size).for_each(|rank| plan.signal(rank));
    } else {
        plan.wait(0);
    }
    plan.finish()
}

/// The root's data to all of the remote group. `buffer` matters but for [`Root::ProcNull`].
///
/// # Errors
/// `Root` for a root that is no rank, `Buffer` if the buffer is missing.
pub fn bcast(sides: &Sides, buffer: Option<&Buffer>, root: Root) -> Result<Schedule> {
    let mut plan = Plan::new("MPI_Bcast");
    sides.check_root(plan.name(), root)?;
    if root == Root::ProcNull {
        return plan.finish();
    }
    let buffer = buffer.ok_or_else(|| missing(plan.name(), "data"))?;
    plan.note(|note| sides.with_root(note, root).of_elements(Some(buffer)));
    let flat = |choice| choice == Bcast::Flat;
    match root {
        Root::Rank(rank) => {
            let data = plan.output(buffer);
            let local = sides.local();
            let direct = flat(local.bcast(data.len()));
            if direct || sides.is_leader() {
                plan.receive(sides.there(rank), data);
                plan.fence();
            }
            if !direct {
                spread(&local, &mut plan, data, 0);
            }
        }
        Root::ThisRank | Root::ProcNull => {
            let data = plan.input(buffer);
            let direct = flat(sides.other().bcast(data.len()));
            let receivers = if direct { sides.remote } else { 1 };
            (0..receivers).for_each(|rank| plan.send(sides.there(rank), data));
        }
    }
    plan.finish()
}

/// A block of each rank of the remote group to the root, each of its size. `send` matters for
/// [`Root::Rank`], `receive` for [`Root::ThisRank`]. `name` is the call.
///
/// # Errors
/// `Root` for a root that is no rank, `Buffer` if a buffer is missing, `Count` unless there is one
/// block for each remote rank.
pub fn gather(
    name: &'static str,
    sides: &Sides,
    send: Option<&Buffer>,
    receive: Option<&Blocks>,
    root: Root,
) -> Result<Schedule> {
    let mut plan = Plan::new(name);
    sides.check_root(name, root)?;
    match root {
        Root::ProcNull => {}
        Root::Rank(rank) => {
            let send = send.ok_or_else(|| missing(name, "send"))?;
            plan.note(|note| sides.with_root(note, root).of_elements(Some(send)));
            let from = plan.input(send);
            plan.send(sides.there(rank), from);
        }
        Root::ThisRank => {
            let receive = receive.ok_or_else(|| missing(name, "receive"))?;
            sides.check_entries(name, receive.len())?;
            plan.note(|note| Sides::with_blocks(sides.with_root(note, root), receive));
            for rank in 0..sides.remote {
                let into = plan.output(&receive.block(rank));
                plan.receive(sides.there(rank), into);
            }
        }
    }
    plan.finish()
}

/// A block of the root to each rank of the remote group, each of its size. `send` matters for
/// [`Root::ThisRank`], `receive` for [`Root::Rank`]. `name` is the call.
///
/// # Errors
/// As for [`gather`].
pub fn scatter(
    name: &'static str,
    sides: &Sides,
    send: Option<&Blocks>,
    receive: Option<&Buffer>,
    root: Root,
) -> Result<Schedule> {
    let mut plan = Plan::new(name);
    sides.check_root(name, root)?;
    match root {
        Root::ProcNull => {}
        Root::Rank(rank) => {
            let receive = receive.ok_or_else(|| missing(name, "receive"))?;
            plan.note(|note| sides.with_root(note, root).of_elements(Some(receive)));
            let into = plan.output(receive);
            plan.receive(sides.there(rank), into);
        }
        Root::ThisRank => {
            let send = send.ok_or_else(|| missing(name, "send"))?;
            sides.check_entries(name, send.len())?;
            plan.note(|note| Sides::with_blocks(sides.with_root(note, root), send));
            for rank in 0..sides.remote {
                let from = plan.input(&send.block(rank));
                plan.send(sides.there(rank), from);
            }
        }
    }
    plan.finish()
}

/// The blocks of all of the remote group to each rank of the local one: the leader gets them, then
/// spreads them in its group. `name` is the call.
///
/// # Errors
/// `Count` unless there is one block for each remote rank.
pub fn allgather(
    name: &'static str,
    sides: &Sides,
    send: &Buffer,
    receive: &Blocks,
) -> Result<Schedule> {
    let mut plan = Plan::new(name);
    sides.check_entries(name, receive.len())?;
    let own = plan.input(send);
    plan.send(sides.there(0), own);
    let starts: Vec<usize> = (0..sides.remote)
        .scan(0, |sum, rank| {
            *sum += receive.bytes(rank);
            Some(*sum - receive.bytes(rank))
        })
        .collect();
    let total = (0..sides.remote).map(|rank| receive.bytes(rank)).sum();
    let all = match receive.whole() {
        Some(region) => Span::User(region),
        None => plan.scratch(total),
    };
    let block = |rank: usize| all.part(starts[rank], receive.bytes(rank));
    if sides.is_leader() {
        (0..sides.remote).for_each(|rank| plan.receive(sides.there(rank), block(rank)));
        plan.fence();
    }
    spread(&sides.local(), &mut plan, all, 0);
    if receive.whole().is_none() {
        plan.fence();
        (0..sides.remote).for_each(|rank| plan.fill(block(rank), &receive.block(rank)));
    }
    plan.finish()
}

/// A block of each rank to each rank of the remote group. `name` is the call.
///
/// # Errors
/// `Count` unless there is one block for each remote rank.
pub fn alltoall(
    name: &'static str,
    sides: &Sides,
    send: &Blocks,
    receive: &Blocks,
) -> Result<Schedule> {
    let mut plan = Plan::new(name);
    sides.check_entries(name, send.len())?;
    sides.check_entries(name, receive.len())?;
    for rank in 0..sides.remote {
        let into = plan.output(&receive.block(rank));
        plan.receive(sides.there(rank), into);
    }
    // Everybody begins with another one.
    for distance in 0..sides.remote {
        let rank = (sides.rank + distance) % sides.remote;
        let from = plan.input(&send.block(rank));
        plan.send(sides.there(rank), from);
    }
    plan.finish()
}
