//! Reductions and scans on a board.

use weft_fabric::{Region, Scratch, SharedBytes};

use super::super::reduce::ReductionArgument;
use super::super::{Collective, Members};
use super::{all_arrive, await_all, slices};
use crate::buffer::{self, Buffer};
use crate::engine::boards::{Audience, Awaited, Epochs, SCRATCH};
use crate::error::Result;
use crate::memory;
use crate::op::Combine;

/// What a rank gives, and where its result goes.
type Buffers<'a> = (&'a Buffer, &'a Buffer);

/// How many members' data are folded, from the first on, and which of them this rank has itself.
type Folders = (usize, Option<(usize, Region)>);

/// A part of what this rank gives, if it has no gaps.
#[inline]
fn own(rank: usize, send: &Buffer, (start, bytes): (usize, usize)) -> Option<(usize, Region)> {
    match send {
        Buffer::Flat(all, _) => all.part(start, bytes).map(|own| (rank, own)),
        Buffer::Typed(_) => None,
    }
}

/// Whether what a rank gives is still there when it is its turn in the fold of `count` members: where the result goes over it, the
/// first step overwrites it, unless it is what is copied then. What is kept is not read from the board, because the others fetch
/// those lines at the same time, and take them from this core.
#[inline(always)]
pub(super) fn is_kept((rank, count): (usize, usize), own: &Region, result: &Region) -> bool {
    rank + 1 == count || !own.overlaps(result)
}

/// Combines what the first `count` members show with what is at `into`, from the last of them to the first, by way of `scratch`, which
/// holds as much: what others may change meanwhile is copied once, and combined then. What a rank [keeps](is_kept) itself is not read
/// from the board. False if a member shows less.
#[inline(always)]
pub(super) fn fold_into<'a, const N: usize>(
    count: usize,
    shown: impl Fn(usize) -> Option<SharedBytes<'a>>,
    kept: Option<(usize, &Region)>,
    into: &Region,
    combine: &Combine,
    scratch: &mut Scratch<N>,
) -> bool {
    for member in (0..count).rev() {
        if let Some((me, own)) = kept
            && member == me
        {
            combine.run_at(own, into);
            continue;
        }
        let Some(operand) = shown(member).and_then(|data| scratch.fill(data)) else {
            return false;
        };
        combine.run_at(&buffer::region_of(operand), into);
    }
    true
}

/// A part of what this rank gives, if it has no gaps and is kept.
#[inline]
fn kept(
    (rank, count): (usize, usize),
    send: &Buffer,
    (start, bytes): (usize, usize),
    (receive, at): (&Buffer, usize),
) -> Option<(usize, Region)> {
    let own = own(rank, send, (start, bytes))?;
    let Buffer::Flat(result, _) = receive else {
        return Some(own);
    };
    is_kept((rank, count), &own.1, &result.part(at, bytes)?).then_some(own)
}

/// Shows all that this rank gives.
#[inline]
fn show(epochs: &mut Epochs<'_, '_>, send: &Buffer) -> Result<()> {
    let bytes = send.bytes();
    epochs.begin(bytes)?;
    epochs.write((bytes, 0), send, (0, bytes))
}

/// `receive` is there at the root, which folds everything, slice by slice.
pub(super) fn reduce(
    epochs: &mut Epochs<'_, '_>,
    members: &Members,
    (send, receive): (&Buffer, Option<&Buffer>),
    reduction: &ReductionArgument<'_>,
    root: usize,
) -> Result<()> {
    let Members { rank, size, .. } = *members;
    let most = match reduction.datatype.size() {
        0 => epochs.capacity_ahead(),
        element => epochs.capacity_ahead() / element * element,
    };
    for (start, length) in slices(send.bytes(), most) {
        let place = (start, length);
        let own = receive.and_then(|receive| kept((rank, size), send, place, (receive, start)));
        // What the root has itself nobody reads.
        epochs.begin(if own.is_some() { 0 } else { length })?;
        if own.is_none() {
            epochs.write((length, 0), send, place)?;
        }
        epochs.arrive(Audience::Root(root));
        let Some(receive) = receive else {
            continue;
        };
        await_all(epochs, size)?;
        let folders = (size, own);
        fold(
            epochs,
            Shown::all(length),
            folders,
            reduction,
            (receive, start),
        )?;
    }
    Ok(())
}

/// Each rank folds everything.
#[inline]
pub(super) fn allreduce(
    epochs: &mut Epochs<'_, '_>,
    members: &Members,
    (send, receive): Buffers<'_>,
    reduction: &ReductionArgument<'_>,
) -> Result<()> {
    show(epochs, send)?;
    all_arrive(epochs, members.size)?;
    let (all, members) = (send.bytes(), (members.rank, members.size));
    let own = kept(members, send, (0, all), (receive, 0));
    let folders = (members.1, own);
    fold(epochs, Shown::all(all), folders, reduction, (receive, 0))
}

/// Each rank folds a part of each slice, and shows that; the root takes all parts, or all do. `receive` is there where they are
/// taken. What nobody else reads is not shown: of what a rank gives the part that it folds itself, if it has no gaps, and of what
/// is folded that of the root.
pub(super) fn in_parts(
    epochs: &mut Epochs<'_, '_>,
    members: &Members,
    (send, receive): (&Buffer, Option<&Buffer>),
    reduction: &ReductionArgument<'_>,
    root: Option<usize>,
) -> Result<()> {
    let Members { rank, size, .. } = *members;
    let element = reduction.datatype.size().max(1);
    for (start, length) in slices(send.bytes(), epochs.capacity() / element * element) {
        let each = (length / element).div_ceil(size) * element;
        let part_of = |rank: usize| {
            let first = (rank * each).min(length);
            (first, each.min(length - first))
        };
        let (offset, bytes) = part_of(rank);
        let own = own(rank, send, (start + offset, bytes));
        epochs.begin(length)?;
        if own.is_some() {
            epochs.write((length, 0), send, (start, offset))?;
            let behind = offset + bytes;
            let rest = (start + behind, length - behind);
            epochs.write((length, behind), send, rest)?;
        } else {
            epochs.write((length, 0), send, (start, length))?;
        }
        all_arrive(epochs, size)?;
        epochs.begin(each)?;
        let part = Shown {
            length,
            offset,
            bytes,
        };
        fold_pieces(
            epochs,
            part,
            (size, own),
            reduction,
            |epochs, at, folded| {
                if let Some(receive) = receive {
                    receive.fill_part(start + offset + at, buffer::shared(&folded));
                }
                if root == Some(rank) {
                    return Ok(());
                }
                epochs.write_region(each, at, &folded)
            },
        )?;
        epochs.arrive(root.map_or(Audience::All, Audience::Root));
        let Some(receive) = receive else {
            continue;
        };
        await_all(epochs, size)?;
        for other in (0..size).filter(|other| *other != rank) {
            let (first, bytes) = part_of(other);
            epochs.take(other, (each, 0), receive, (start + first, bytes))?;
        }
    }
    Ok(())
}

/// Each rank folds its own part, of which rank `r` has `part(r)` bytes.
pub(super) fn reduce_scatter(
    epochs: &mut Epochs<'_, '_>,
    members: &Members,
    (send, receive): Buffers<'_>,
    reduction: &ReductionArgument<'_>,
    part: impl Fn(usize) -> usize,
) -> Result<()> {
    let Members { rank, size, .. } = *members;
    let element = reduction.datatype.size().max(1);
    let most = epochs.capacity() / size / element * element;
    let longest = (0..size).map(&part).max().unwrap_or(0);
    for (start, most) in slices(longest, most) {
        let slice = |rank: usize| part(rank).saturating_sub(start).min(most);
        let length = (0..size).map(slice).sum();
        let mut part_of_rank = Shown {
            length,
            offset: 0,
            bytes: slice(rank),
        };
        let mut own_part = None;
        epochs.begin(length)?;
        let (mut shown, mut first) = (0, 0);
        for other in 0..size {
            if other == rank {
                part_of_rank.offset = shown;
                let place = (first + start, part_of_rank.bytes);
                own_part = kept((rank, size), send, place, (receive, start));
            }
            let bytes = slice(other);
            // Of a part that has ended before there is nothing.
            if bytes > 0 {
                epochs.write((length, shown), send, (first + start, bytes))?;
            }
            shown += bytes;
            first += part(other);
        }
        all_arrive(epochs, size)?;
        if part_of_rank.bytes > 0 {
            let folders = (size, own_part);
            fold(epochs, part_of_rank, folders, reduction, (receive, start))?;
        }
    }
    Ok(())
}

/// The elements of the first `count` members, combined.
pub(super) fn scan(
    epochs: &mut Epochs<'_, '_>,
    (rank, count): (usize, usize),
    (send, receive): Buffers<'_>,
    reduction: &ReductionArgument<'_>,
) -> Result<()> {
    show(epochs, send)?;
    epochs.arrive(Audience::Above);
    if count == 0 {
        return Ok(());
    }
    epochs.until(Awaited::First(count))?;
    (0..count).try_for_each(|member| epochs.check(member))?;
    let all = send.bytes();
    let own = kept((rank, count), send, (0, all), (receive, 0));
    fold(
        epochs,
        Shown::all(all),
        (count, own),
        reduction,
        (receive, 0),
    )
}

/// What the first members show, copied: to be combined by an operation of the program, when the engine is not held.
#[derive(Debug)]
pub(crate) struct Operands {
    /// That of one member after that of the other.
    data: Box<[u8]>,
    /// Bytes of each.
    bytes: usize,
    count: usize,
}

/// Carries out a reduction as far as the board goes. `None` if this rank gets no result.
pub(super) fn operands(
    epochs: &mut Epochs<'_, '_>,
    collective: &Collective<'_>,
    members: &Members,
) -> Result<Option<Operands>> {
    let Members { rank, size, .. } = *members;
    match collective {
        Collective::Reduce { send, root, .. } => {
            show(epochs, send)?;
            epochs.arrive(Audience::Root(*root));
            if rank != *root {
                return Ok(None);
            }
            await_all(epochs, size)?;
            Operands::copy(epochs, Shown::all(send.bytes()), size)
        }
        Collective::Allreduce { send, .. } => {
            show(epochs, send)?;
            all_arrive(epochs, size)?;
            Operands::copy(epochs, Shown::all(send.bytes()), size)
        }
        Collective::ReduceScatterBlock { send, receive, .. } => {
            show(epochs, send)?;
            all_arrive(epochs, size)?;
            let bytes = receive.bytes();
            let own = Shown::all(send.bytes()).part(rank * bytes, bytes);
            Operands::copy(epochs, own, size)
        }
        Collective::ReduceScatter {
            send,
            receive,
            counts,
            reduction,
        } => {
            show(epochs, send)?;
            all_arrive(epochs, size)?;
            let before: usize = counts[..rank].iter().sum();
            let first = before * reduction.datatype.size();
            let own = Shown::all(send.bytes()).part(first, receive.bytes());
            Operands::copy(epochs, own, size)
        }
        Collective::Scan { send, .. } | Collective::Exscan { send, .. } => {
            let is_inclusive = matches!(collective, Collective::Scan { .. });
            let count = rank + usize::from(is_inclusive);
            show(epochs, send)?;
            epochs.arrive(Audience::Above);
            if count == 0 {
                return Ok(None);
            }
            epochs.until(Awaited::First(count))?;
            (0..count).try_for_each(|member| epochs.check(member))?;
            Operands::copy(epochs, Shown::all(send.bytes()), count)
        }
        _ => Ok(None),
    }
}

impl Operands {
    fn copy(epochs: &Epochs<'_, '_>, shown: Shown, count: usize) -> Result<Option<Self>> {
        let Shown {
            length,
            offset,
            bytes,
        } = shown;
        let mut data = memory::zeroed(count * bytes)?;
        let all = buffer::region_of(&mut data);
        for member in 0..count {
            let data = epochs.read(member, length, (offset, bytes))?;
            if let Some(into) = all.part(member * bytes, bytes) {
                data.copy_to_region(&into);
            }
        }
        Ok(Some(Self { data, bytes, count }))
    }

    /// Combines them, from the last to the first, and writes the result where the reduction has it.
    ///
    /// # Errors
    /// As for [`Op::reduce`](crate::op::Op::reduce).
    pub(crate) fn combine(mut self, collective: &Collective<'_>) -> Result<()> {
        let (receive, reduction) = match collective {
            Collective::Reduce {
                receive: Some(receive),
                reduction,
                ..
            }
            | Collective::Allreduce {
                receive, reduction, ..
            }
            | Collective::ReduceScatterBlock {
                receive, reduction, ..
            }
            | Collective::ReduceScatter {
                receive, reduction, ..
            }
            | Collective::Scan {
                receive, reduction, ..
            }
            | Collective::Exscan {
                receive, reduction, ..
            } => (receive, reduction),
            _ => return Ok(()),
        };
        let elements = self
            .bytes
            .checked_div(reduction.datatype.size())
            .unwrap_or(0);
        if elements == 0 {
            return Ok(());
        }
        let all = buffer::region_of(&mut self.data);
        let part = |member: usize| all.part(member * self.bytes, self.bytes);
        let Some(into) = part(self.count - 1) else {
            return Ok(());
        };
        for operand in (0..self.count - 1).rev().filter_map(part) {
            reduction
                .op
                .reduce(operand, into, elements, reduction.datatype)?;
        }
        receive.fill(buffer::shared(&into));
        Ok(())
    }
}

/// The same part of what each member shows.
#[derive(Clone, Copy)]
struct Shown {
    /// Bytes that each shows.
    length: usize,
    /// Where in them the part is.
    offset: usize,
    /// Bytes of the part.
    bytes: usize,
}

impl Shown {
    #[inline]
    fn all(length: usize) -> Self {
        Self {
            length,
            offset: 0,
            bytes: length,
        }
    }

    /// A part of the part.
    #[inline]
    fn part(self, start: usize, bytes: usize) -> Self {
        Self {
            offset: self.offset + start,
            bytes,
            ..self
        }
    }
}

/// Combines what the first members show, from the last to the first, and writes it behind `start` bytes of `receive`.
#[inline]
fn fold(
    epochs: &mut Epochs<'_, '_>,
    shown: Shown,
    (count, own): Folders,
    reduction: &ReductionArgument<'_>,
    (receive, start): (&Buffer, usize),
) -> Result<()> {
    let Buffer::Flat(region, _) = receive else {
        return fold_pieces(epochs, shown, (count, own), reduction, |_, at, folded| {
            receive.fill_part(start + at, buffer::shared(&folded));
            Ok(())
        });
    };
    let mut scratch = epochs.take_scratch();
    let mut result = Ok(());
    for (at, bytes) in pieces(shown, scratch.len(), reduction) {
        let Some(into) = region.part(start + at, bytes) else {
            break;
        };
        result = combine(
            epochs,
            shown.part(at, bytes),
            (count, own_part(own.as_ref(), at, bytes)),
            reduction,
            (&mut scratch, into),
        );
        if result.is_err() {
            break;
        }
    }
    epochs.give_scratch(scratch);
    result
}

/// The same for what is not at its place then: `each` gets it piece by piece, with the bytes before it. A member may have that part
/// of its `own` itself, and not show it.
fn fold_pieces(
    epochs: &mut Epochs<'_, '_>,
    shown: Shown,
    (count, own): Folders,
    reduction: &ReductionArgument<'_>,
    mut each: impl FnMut(&mut Epochs<'_, '_>, usize, Region) -> Result<()>,
) -> Result<()> {
    let mut scratch = epochs.take_scratch();
    let (operand, folded) = scratch.split_at_mut(SCRATCH / 2);
    for (at, bytes) in pieces(shown, SCRATCH / 2, reduction) {
        let into = buffer::region_of(&mut folded[..bytes]);
        combine(
            epochs,
            shown.part(at, bytes),
            (count, own_part(own.as_ref(), at, bytes)),
            reduction,
            (operand, into),
        )?;
        each(epochs, at, into)?;
    }
    epochs.give_scratch(scratch);
    Ok(())
}

/// A part of what a member has itself.
#[inline]
fn own_part(own: Option<&(usize, Region)>, at: usize, bytes: usize) -> Option<(usize, Region)> {
    let (member, own) = own?;
    Some((*member, own.part(at, bytes)?))
}

/// Pieces of whole elements that fit into so many bytes.
#[inline]
fn pieces(
    shown: Shown,
    most: usize,
    reduction: &ReductionArgument<'_>,
) -> impl Iterator<Item = (usize, usize)> {
    let most = if shown.bytes <= most {
        most
    } else {
        let element = reduction.datatype.size().max(1);
        most / element * element
    };
    slices(shown.bytes, most)
}

/// Combines one piece.
#[inline]
fn combine(
    epochs: &Epochs<'_, '_>,
    shown: Shown,
    (count, own): Folders,
    reduction: &ReductionArgument<'_>,
    (scratch, into): (&mut [u8], Region),
) -> Result<()> {
    let Shown {
        length,
        offset,
        bytes,
    } = shown;
    let elements = bytes.checked_div(reduction.datatype.size()).unwrap_or(0);
    let own_of = |member: usize| own.as_ref().filter(|own| own.0 == member);
    match own_of(count - 1) {
        Some((_, own)) => buffer::shared(own).copy_to_region(&into),
        None => epochs
            .read(count - 1, length, (offset, bytes))?
            .copy_to_region(&into),
    };
    for member in (0..count - 1).rev() {
        let operand = if let Some((_, own)) = own_of(member) {
            *own
        } else {
            // What others may change meanwhile is copied once, and combined then.
            let data: SharedBytes<'_> = epochs.read(member, length, (offset, bytes))?;
            let operand = buffer::region_of(&mut scratch[..bytes]);
            data.copy_to_region(&operand);
            operand
        };
        reduction
            .op
            .reduce(operand, into, elements, reduction.datatype)?;
    }
    Ok(())
}
