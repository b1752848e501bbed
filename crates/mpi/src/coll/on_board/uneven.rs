//! Collectives on a board to which ranks give different numbers of bytes, which not all of them know.
//!
//! ```text
//!   gatherv               each shows its block, and says how long it is
//!   scatterv, alltoallv   where the block of each begins │ … │ where the last ends │ blocks
//!                         4 bytes each, from the end of this table on               one after the other
//! ```
//!
//! A rank that has too much for a board says so there, and sends its blocks by messages, which whoever gets one finds
//! out from the board. Blocks of another length than their receiver expects are its error, as they are with messages.
//!
//! # Trust
//! A table is the peer's word: what it says is looked for within what the peer shows.

use super::super::plan::Plan;
use super::super::{Blocks, Members};
use super::blocks::hear;
use super::{Rest, await_all};
use crate::buffer::{self, Buffer};
use crate::engine::boards::{Audience, Epochs, MOST_OWN};
use crate::error::{Error, Result};
use crate::schedule::Schedule;
use weft_fabric::board::Board;

/// Bytes of an entry of a table.
pub(super) const ENTRY: usize = size_of::<u32>();

/// The bytes of a block for the root, unless they are too many: a member shows no more than leaves it free to be ahead of others.
#[inline]
pub(super) fn shown(bytes: usize, size: usize) -> Option<usize> {
    (bytes <= Board::capacity_ahead_for(size).min(MOST_OWN - 1)).then_some(bytes)
}

/// The bytes of a table and of all blocks but the own one, unless they are too many.
pub(super) fn shown_to_all(out: &Blocks, rank: usize, size: usize) -> Option<usize> {
    fits_all((0..out.len()).map(|other| out.bytes(other)), rank, size)
}

/// The same of blocks of these lengths.
#[inline]
pub(super) fn fits_all(
    lengths: impl Iterator<Item = usize>,
    rank: usize,
    size: usize,
) -> Option<usize> {
    let lengths = lengths.enumerate().filter(|(other, _)| *other != rank);
    let bytes = lengths.fold(table(size), |sum, (_, length)| sum.saturating_add(length));
    (bytes <= Board::capacity_for(size).min(MOST_OWN - 1)).then_some(bytes)
}

/// Bytes of a table for so many ranks.
#[inline]
pub(super) const fn table(size: usize) -> usize {
    ((size + 1) * ENTRY).next_multiple_of(8)
}

/// `receive` is there at the root.
pub(super) fn gather(
    epochs: &mut Epochs<'_, '_>,
    members: &Members,
    send: Option<&Buffer>,
    receive: Option<&Blocks>,
    root: usize,
) -> Result<Option<Box<Rest>>> {
    let mut rest = Left::of("MPI_Gatherv");
    let Some(receive) = receive else {
        let Some(send) = send else { return Ok(None) };
        let shown = shown(send.bytes(), members.size);
        let bytes = shown.unwrap_or(0);
        epochs.begin(bytes)?;
        epochs.write((bytes, 0), send, (0, bytes))?;
        epochs.arrive(Audience::Root(root));
        if shown.is_none() {
            rest.send(root, send);
        }
        return rest.finish(epochs);
    };
    epochs.begin(0)?;
    epochs.arrive(Audience::Nobody);
    await_all(epochs, members.size)?;
    for rank in members.others() {
        let into = receive.block(rank);
        match epochs.shown_by(rank) {
            None => rest.receive(rank, &into),
            Some(bytes) => rest.note(take(epochs, rank, (bytes, 0, bytes), &into)),
        }
    }
    if let Some(send) = send {
        send.copy_to(&receive.block(root));
    }
    rest.finish(epochs)
}

/// `send` is there at the root.
pub(super) fn scatter(
    epochs: &mut Epochs<'_, '_>,
    members: &Members,
    send: Option<&Blocks>,
    receive: Option<&Buffer>,
    root: usize,
) -> Result<Option<Box<Rest>>> {
    let mut rest = Left::of("MPI_Scatterv");
    let Some(send) = send else {
        hear(epochs, root)?;
        if let Some(receive) = receive {
            match epochs.shown_by(root) {
                None => rest.receive(root, receive),
                Some(bytes) => rest.note(take_own(epochs, root, bytes, members, receive)),
            }
        }
        return rest.finish(epochs);
    };
    let is_shown = show(epochs, members, send)?;
    epochs.arrive(Audience::Mine);
    if !is_shown {
        rest.send_to_all(members, Some(send));
    }
    if let Some(receive) = receive {
        send.block(root).copy_to(receive);
    }
    rest.finish(epochs)
}

/// `name` is the call: `MPI_Alltoallv` or `MPI_Alltoallw`.
pub(super) fn alltoall(
    name: &'static str,
    epochs: &mut Epochs<'_, '_>,
    members: &Members,
    send: Option<&Blocks>,
    receive: &Blocks,
) -> Result<Option<Box<Rest>>> {
    let mut rest = Left::of(name);
    let out = send.unwrap_or(receive);
    let is_shown = show(epochs, members, out)?;
    epochs.arrive(Audience::All);
    if !is_shown && send.is_none() {
        rest.keep(members, receive)?;
    }
    await_all(epochs, members.size)?;
    for rank in members.others() {
        let into = receive.block(rank);
        match epochs.shown_by(rank) {
            None => rest.receive(rank, &into),
            Some(bytes) => rest.note(take_own(epochs, rank, bytes, members, &into)),
        }
    }
    // Behind the receives: what comes before its receive is copied once more.
    if !is_shown {
        rest.send_to_all(members, send);
    }
    if let Some(send) = send {
        send.block(members.rank)
            .copy_to(&receive.block(members.rank));
    }
    rest.finish(epochs)
}

/// Writes a table and all blocks but the own one, unless they are too long: false.
fn show(epochs: &mut Epochs<'_, '_>, members: &Members, out: &Blocks) -> Result<bool> {
    let Members { rank, size, .. } = *members;
    let shown = shown_to_all(out, rank, size);
    let all = shown.unwrap_or(0);
    epochs.begin(all)?;
    if shown.is_none() {
        return Ok(false);
    }
    let mut at = table(size);
    for other in (0..size).filter(|other| *other != rank) {
        let block = out.block(other);
        let bytes = block.bytes();
        epochs.write((all, at), &block, (0, bytes))?;
        at += bytes;
    }
    let mut scratch = epochs.take_scratch();
    let (table, mut at) = (&mut scratch[..table(size)], table(size));
    for (other, entry) in table.chunks_exact_mut(ENTRY).take(size + 1).enumerate() {
        entry.copy_from_slice(&(at as u32).to_ne_bytes());
        if other != rank && other < size {
            at += out.bytes(other);
        }
    }
    epochs.write_region(all, 0, &buffer::region_of(table))?;
    epochs.give_scratch(scratch);
    Ok(true)
}

/// Takes the block for this rank of what a member shows for all.
fn take_own(
    epochs: &mut Epochs<'_, '_>,
    member: usize,
    shown: usize,
    members: &Members,
    into: &Buffer,
) -> Result<()> {
    let mut entries = [0; 2 * ENTRY];
    let place = (members.rank * ENTRY, entries.len());
    let word = epochs.read(member, shown, place)?;
    word.copy_to_region(&buffer::region_of(&mut entries));
    let (first, last) = entries.split_at(ENTRY);
    let entry = |bytes: &[u8]| bytes.try_into().map_or(0, u32::from_ne_bytes) as usize;
    let (start, end) = (entry(first), entry(last));
    take(
        epochs,
        member,
        (shown, start, end.saturating_sub(start)),
        into,
    )
}

/// Takes a block, which begins behind so many bytes of what a member shows, and has so many.
fn take(
    epochs: &mut Epochs<'_, '_>,
    member: usize,
    (shown, start, bytes): (usize, usize, usize),
    into: &Buffer,
) -> Result<()> {
    if bytes != into.bytes() {
        return Err(epochs.truncated(member, bytes, into.bytes()));
    }
    epochs.take(member, (shown, start), into, (0, bytes))
}

/// What is left of the collective, as it is found out.
struct Left {
    name: &'static str,
    /// Messages, if there are any: seldom.
    plan: Option<Plan>,
    /// Memory of its own that the plan refers to: a block for each of the others.
    kept: Vec<Box<[u8]>>,
    /// The first block that is not what this rank expects. Others get theirs all the same.
    failure: Option<Error>,
}

impl Left {
    /// Nothing yet, of this call.
    fn of(name: &'static str) -> Self {
        Self {
            name,
            plan: None,
            kept: Vec::new(),
            failure: None,
        }
    }

    fn plan(&mut self) -> &mut Plan {
        self.plan.get_or_insert_with(|| Plan::new(self.name))
    }

    fn send(&mut self, to: usize, data: &Buffer) {
        let plan = self.plan();
        let from = plan.input(data);
        plan.send(to, from);
    }

    fn receive(&mut self, from: usize, into: &Buffer) {
        let plan = self.plan();
        let into = plan.output(into);
        plan.receive(from, into);
    }

    /// Copies the blocks for others of an exchange in place: those of others are about to be written over them.
    fn keep(&mut self, members: &Members, blocks: &Blocks) -> Result<()> {
        for rank in members.others() {
            self.kept.push(blocks.block(rank).packed()?);
        }
        Ok(())
    }

    /// Sends a block to each of the others: those that were kept, if none are given.
    fn send_to_all(&mut self, members: &Members, send: Option<&Blocks>) {
        let kept = self.kept.iter_mut();
        let kept: Vec<_> = kept.map(|bytes| buffer::region_of(bytes)).collect();
        for (place, rank) in members.others().enumerate() {
            match (send, kept.get(place)) {
                (Some(send), _) => self.send(rank, &send.block(rank)),
                (None, Some(bytes)) => self.send(rank, &Buffer::untyped(*bytes)),
                (None, None) => {}
            }
        }
    }

    /// What became of a block.
    fn note(&mut self, taken: Result<()>) {
        if let Err(error) = taken {
            self.failure.get_or_insert(error);
        }
    }

    /// What is left: nothing, if there are no messages.
    fn finish(self, epochs: &mut Epochs<'_, '_>) -> Result<Option<Box<Rest>>> {
        let Some(plan) = self.plan else {
            return self.failure.map_or(Ok(None), Err);
        };
        let schedule = Schedule {
            continues: true,
            ..plan.finish()?
        };
        epochs.go_on_by_messages();
        Ok(Some(Box::new(Rest::Messages {
            schedule,
            kept: self.kept,
            failure: self.failure,
        })))
    }
}
