//! Collectives on a board: each member shows its data once, and takes what it needs of the others' itself.
//!
//! | collective | shows | waits for |
//! |---|---|---|
//! | barrier | nothing | all |
//! | bcast, scatter | the root, everything | the root |
//! | gather, reduce | its own | the root, for all |
//! | allgather, allreduce, alltoall, reduce_scatter_block | its own | all |
//! | scan, exscan | its own | those before |
//!
//! Reductions are folded by each rank that gets a result, from the last rank to the first, as those by messages are: so
//! results are the same bytes everywhere, and the order of ranks is kept.
//!
//! All ranks must come to the same answer to whether a collective is done here: [`demand`] asks only what the standard
//! makes equal on all ranks.

use weft_fabric::Region;
use weft_fabric::board::{Board, Note};

use super::reduce::ReductionArgument;
use super::{Blocks, Collective, Members};
use super::{alltoall, gather, reduce_scatter, scatter};
use crate::buffer::{self, Buffer};
use crate::datatype::SignatureCode;
use crate::engine::Guard;
use crate::engine::boards::{Audience, Awaited, BoardCall, BoardId, Epoch};
use crate::engine::collective_note::CollectiveNote;
use crate::engine::counters::COLLECTIVES;
use crate::error::Result;

/// Where all ranks read the data of all, they read so much together at most: beyond, sharing the work by messages is
/// quicker.
const ALL_READ: usize = 64 * 1024;

/// What a collective asks of a board.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Demand {
    /// Place of its name in [`COLLECTIVES`].
    place: usize,
    /// Bytes of what the ranks give or get each, alike on all.
    each: usize,
    /// Bytes that one rank shows at most.
    shown: usize,
    /// Bytes that one rank reads at most.
    read: usize,
    /// Its operation is one of the program, which is called where the engine is not held.
    is_users: bool,
    /// What all ranks compute alike.
    pub(crate) note: CollectiveNote,
}

/// The place of a name in [`COLLECTIVES`].
const fn place(name: &str) -> usize {
    let mut place = 0;
    while place < COLLECTIVES.len() {
        let (one, other) = (COLLECTIVES[place].as_bytes(), name.as_bytes());
        let mut at = 0;
        while at < one.len() && at < other.len() && one[at] == other[at] {
            at += 1;
        }
        if at == one.len() && at == other.len() {
            return place;
        }
        place += 1;
    }
    panic!("a name of `COLLECTIVES`")
}

const BARRIER: usize = place("MPI_Barrier");
const BCAST: usize = place("MPI_Bcast");
const GATHER: usize = place("MPI_Gather");
const SCATTER: usize = place("MPI_Scatter");
const ALLGATHER: usize = place("MPI_Allgather");
const ALLTOALL: usize = place("MPI_Alltoall");
const REDUCE: usize = place("MPI_Reduce");
const ALLREDUCE: usize = place("MPI_Allreduce");
const REDUCE_SCATTER_BLOCK: usize = place("MPI_Reduce_scatter_block");
const SCAN: usize = place("MPI_Scan");
const EXSCAN: usize = place("MPI_Exscan");

impl Demand {
    fn of(
        place: usize,
        signature: SignatureCode,
        (each, shown, read): (usize, usize, usize),
        root: usize,
    ) -> Self {
        Self {
            place,
            each,
            shown,
            read,
            is_users: false,
            note: CollectiveNote::of(place, root, signature),
        }
    }

    /// That of a reduction of so many bytes.
    fn reducing(
        place: usize,
        send: &Buffer,
        read: usize,
        reduction: &ReductionArgument<'_>,
        root: usize,
    ) -> Self {
        let each = send.bytes();
        let operation = reduction.op.as_predefined();
        let demand = Self::of(place, send.code(), (each, each, read), root);
        Self {
            is_users: operation.is_none(),
            note: demand.note.with(operation),
            ..demand
        }
    }

    /// The collective, as number `number` of its communicator.
    pub(crate) fn call(&self, number: u32) -> BoardCall {
        BoardCall {
            place: self.place,
            shown: self.shown,
            note: Note {
                call: self.note.bits(),
                number,
                length: self.each as u32,
            },
        }
    }
}

/// What a collective asks of a board of `size` members; `None` if it is not for boards. The same on all ranks.
#[inline]
pub(crate) fn demand(collective: &Collective<'_>, rank: usize, size: usize) -> Option<Demand> {
    let demand = outline(collective, rank, size)?;
    let fits = demand.shown <= Board::capacity_for(size) && demand.read <= ALL_READ;
    (fits && !demand.is_users).then_some(demand)
}

/// What a collective is; `None` for what is known by its steps alone, and without arguments that it must have.
#[inline]
pub(crate) fn outline(collective: &Collective<'_>, rank: usize, size: usize) -> Option<Demand> {
    let all = |bytes: usize| bytes.saturating_mul(size);
    let unknown = SignatureCode::UNKNOWN;
    Some(match collective {
        Collective::Steps(_) => return None,
        Collective::Barrier => Demand::of(BARRIER, unknown, (0, 0, 0), 0),
        Collective::Bcast { data, root } => {
            let bytes = data.bytes();
            Demand::of(BCAST, data.code(), (bytes, bytes, bytes), *root)
        }
        Collective::Gather {
            send,
            receive,
            root,
        } => {
            let (bytes, code) = match receive {
                Some(receive) if rank == *root && rank < receive.len() => block(receive, rank),
                _ => described(send.as_ref()),
            };
            Demand::of(GATHER, code, (bytes, bytes, all(bytes)), *root)
        }
        Collective::Scatter {
            send,
            receive,
            root,
        } => {
            let (bytes, code) = match send {
                Some(send) if rank == *root && rank < send.len() => block(send, rank),
                _ => described(receive.as_ref()),
            };
            Demand::of(SCATTER, code, (bytes, all(bytes), all(bytes)), *root)
        }
        Collective::Allgather { receive, .. } => {
            let (bytes, code) = (rank < receive.len()).then(|| block(receive, rank))?;
            Demand::of(ALLGATHER, code, (bytes, bytes, all(bytes)), 0)
        }
        Collective::Alltoall { receive, .. } => {
            let (bytes, code) = (rank < receive.len()).then(|| block(receive, rank))?;
            Demand::of(ALLTOALL, code, (bytes, all(bytes), all(bytes)), 0)
        }
        Collective::Reduce {
            send,
            reduction,
            root,
            ..
        } => Demand::reducing(REDUCE, send, all(send.bytes()), reduction, *root),
        Collective::Allreduce {
            send, reduction, ..
        } => Demand::reducing(ALLREDUCE, send, all(send.bytes()), reduction, 0),
        Collective::ReduceScatterBlock {
            send, reduction, ..
        } => Demand::reducing(REDUCE_SCATTER_BLOCK, send, send.bytes(), reduction, 0),
        Collective::Scan {
            send, reduction, ..
        } => Demand::reducing(SCAN, send, all(send.bytes()), reduction, 0),
        Collective::Exscan {
            send, reduction, ..
        } => Demand::reducing(EXSCAN, send, all(send.bytes()), reduction, 0),
    })
}

fn block(blocks: &Blocks, rank: usize) -> (usize, SignatureCode) {
    (blocks.bytes(rank), blocks.block(rank).code())
}

fn described(buffer: Option<&Buffer>) -> (usize, SignatureCode) {
    buffer.map_or((0, SignatureCode::UNKNOWN), |buffer| {
        (buffer.bytes(), buffer.code())
    })
}

/// Checks the arguments of a collective, as its builder does.
#[inline]
pub(crate) fn check(collective: &Collective<'_>, members: &Members) -> Result<()> {
    match collective {
        Collective::Steps(_) | Collective::Barrier => Ok(()),
        Collective::Bcast { root, .. } => members.check_root("MPI_Bcast", *root),
        Collective::Gather {
            send,
            receive,
            root,
        } => gather::check(
            members,
            "MPI_Gather",
            send.as_ref(),
            receive.as_ref(),
            *root,
        ),
        Collective::Scatter {
            send,
            receive,
            root,
        } => scatter::check(
            members,
            "MPI_Scatter",
            send.as_ref(),
            receive.as_ref(),
            *root,
        ),
        Collective::Allgather { send, receive } => {
            super::allgather::check("MPI_Allgather", members, send.as_ref(), receive)
        }
        Collective::Alltoall { send, receive } => {
            alltoall::check(members, "MPI_Alltoall", send.as_ref(), receive)
        }
        Collective::Reduce {
            send,
            receive,
            reduction,
            root,
        } => {
            let name = "MPI_Reduce";
            members.check_root(name, *root)?;
            reduction.check(name, reduction.count, send)?;
            match receive {
                _ if members.rank != *root => Ok(()),
                Some(receive) => reduction.check(name, reduction.count, receive),
                None => Err(super::missing(name, "receive")),
            }
        }
        Collective::Allreduce {
            send,
            receive,
            reduction,
        } => reduction.check_both("MPI_Allreduce", send, receive),
        Collective::Scan {
            send,
            receive,
            reduction,
        } => reduction.check_both("MPI_Scan", send, receive),
        Collective::Exscan {
            send,
            receive,
            reduction,
        } => match members.rank {
            0 => reduction.check("MPI_Exscan", reduction.count, send),
            _ => reduction.check_both("MPI_Exscan", send, receive),
        },
        Collective::ReduceScatterBlock {
            send,
            receive,
            count,
            reduction,
        } => reduce_scatter::check_blocks(members, send, receive, *count, reduction),
    }
}

/// Carries a collective out on a board, of whose members this is number `members.rank`. Its arguments have been checked.
///
/// # Errors
/// `ProcFailed` if a member is lost, `Truncate` if the ranks do not agree.
#[inline]
pub(crate) fn carry_out(
    collective: &Collective<'_>,
    members: &Members,
    (guard, id): (&mut Guard<'_>, BoardId),
    call: BoardCall,
) -> Result<()> {
    let mut epoch = Epoch::enter(guard, id, call)?;
    let epoch = &mut epoch;
    let Members { rank, size, .. } = *members;
    match collective {
        Collective::Steps(_) => Ok(()),
        Collective::Barrier => all_arrive(epoch, size),
        Collective::Bcast { data, root } => bcast(epoch, rank, data, *root),
        Collective::Gather {
            send,
            receive,
            root,
        } => {
            let receive = receive.as_ref().filter(|_| rank == *root);
            gather_blocks(epoch, members, send.as_ref(), receive, *root)
        }
        Collective::Scatter {
            send,
            receive,
            root,
        } => {
            let send = send.as_ref().filter(|_| rank == *root);
            scatter_blocks(epoch, members, send, receive.as_ref(), *root)
        }
        Collective::Allgather { send, receive } => {
            let own = send.as_ref().unwrap_or_else(|| receive.block(rank));
            let bytes = own.bytes();
            epoch.write(bytes, 0, own)?;
            all_arrive(epoch, size)?;
            take_blocks(epoch, members, receive, send.is_some(), |_| (bytes, 0))
        }
        Collective::Alltoall { send, receive } => {
            let out = send.as_ref().unwrap_or(receive);
            let block = receive.bytes(rank);
            let all = block * size;
            for other in 0..size {
                epoch.write(all, other * block, out.block(other))?;
            }
            all_arrive(epoch, size)?;
            take_blocks(epoch, members, receive, send.is_some(), |_| {
                (all, rank * block)
            })
        }
        Collective::Reduce {
            send,
            receive,
            reduction,
            root,
        } => {
            epoch.write(send.bytes(), 0, send)?;
            epoch.arrive(Audience::Root(*root));
            let Some(receive) = receive.as_ref().filter(|_| rank == *root) else {
                return Ok(());
            };
            await_all(epoch, size)?;
            fold(epoch, (send.bytes(), 0), size, reduction, receive)
        }
        Collective::Allreduce {
            send,
            receive,
            reduction,
        } => {
            epoch.write(send.bytes(), 0, send)?;
            all_arrive(epoch, size)?;
            fold(epoch, (send.bytes(), 0), size, reduction, receive)
        }
        Collective::ReduceScatterBlock {
            send,
            receive,
            reduction,
            ..
        } => {
            let (all, offset) = (send.bytes(), rank * receive.bytes());
            epoch.write(all, 0, send)?;
            all_arrive(epoch, size)?;
            fold(epoch, (all, offset), size, reduction, receive)
        }
        Collective::Scan {
            send,
            receive,
            reduction,
        } => scan(epoch, (rank + 1, send), reduction, receive),
        Collective::Exscan {
            send,
            receive,
            reduction,
        } => scan(epoch, (rank, send), reduction, receive),
    }
}

/// Arrives, and waits for all.
#[inline]
fn all_arrive(epoch: &mut Epoch<'_, '_>, size: usize) -> Result<()> {
    epoch.arrive(Audience::All);
    await_all(epoch, size)
}

#[inline]
fn await_all(epoch: &mut Epoch<'_, '_>, size: usize) -> Result<()> {
    epoch.until(Awaited::All)?;
    (0..size).try_for_each(|member| epoch.check(member))
}

#[inline]
fn bcast(epoch: &mut Epoch<'_, '_>, rank: usize, data: &Buffer, root: usize) -> Result<()> {
    let bytes = data.bytes();
    if rank == root {
        epoch.write(bytes, 0, data)?;
        epoch.arrive(Audience::Mine);
        return Ok(());
    }
    epoch.arrive(Audience::Nobody);
    epoch.until(Awaited::One(root))?;
    epoch.check(root)?;
    data.fill(epoch.read(root, bytes, (0, bytes))?);
    Ok(())
}

/// `receive` is there at the root.
fn gather_blocks(
    epoch: &mut Epoch<'_, '_>,
    members: &Members,
    send: Option<&Buffer>,
    receive: Option<&Blocks>,
    root: usize,
) -> Result<()> {
    if let Some(send) = send {
        epoch.write(send.bytes(), 0, send)?;
    }
    epoch.arrive(Audience::Root(root));
    let Some(receive) = receive else {
        return Ok(());
    };
    await_all(epoch, members.size)?;
    let block = receive.bytes(root);
    take_blocks(epoch, members, receive, send.is_some(), |_| (block, 0))
}

/// `send` is there at the root.
fn scatter_blocks(
    epoch: &mut Epoch<'_, '_>,
    members: &Members,
    send: Option<&Blocks>,
    receive: Option<&Buffer>,
    root: usize,
) -> Result<()> {
    let block = match (send, receive) {
        (Some(send), _) => send.bytes(root),
        (None, receive) => receive.map_or(0, Buffer::bytes),
    };
    let all = block * members.size;
    if let Some(send) = send {
        for rank in 0..members.size {
            epoch.write(all, rank * block, send.block(rank))?;
        }
        epoch.arrive(Audience::Mine);
    } else {
        epoch.arrive(Audience::Nobody);
        epoch.until(Awaited::One(root))?;
        epoch.check(root)?;
    }
    if let Some(receive) = receive {
        receive.fill(epoch.read(root, all, (members.rank * block, block))?);
    }
    Ok(())
}

/// Takes a block of each member, which is at `place` of its data: so many bytes, and where in them. Of this one too,
/// unless it is in place.
#[inline]
fn take_blocks(
    epoch: &Epoch<'_, '_>,
    members: &Members,
    receive: &Blocks,
    own: bool,
    place: impl Fn(usize) -> (usize, usize),
) -> Result<()> {
    for rank in 0..members.size {
        if rank == members.rank && !own {
            continue;
        }
        let (into, (length, offset)) = (receive.block(rank), place(rank));
        into.fill(epoch.read(rank, length, (offset, into.bytes()))?);
    }
    Ok(())
}

/// The elements of the first `count` members, combined.
fn scan(
    epoch: &mut Epoch<'_, '_>,
    (count, send): (usize, &Buffer),
    reduction: &ReductionArgument<'_>,
    receive: &Buffer,
) -> Result<()> {
    let bytes = send.bytes();
    epoch.write(bytes, 0, send)?;
    epoch.arrive(Audience::Above);
    if count == 0 {
        return Ok(());
    }
    epoch.until(Awaited::First(count))?;
    (0..count).try_for_each(|member| epoch.check(member))?;
    fold(epoch, (bytes, 0), count, reduction, receive)
}

/// Combines what the first `count` members show, from the last to the first: `offset` in their `length` bytes, as much
/// as `receive` holds.
#[inline]
fn fold(
    epoch: &mut Epoch<'_, '_>,
    data: (usize, usize),
    count: usize,
    reduction: &ReductionArgument<'_>,
    receive: &Buffer,
) -> Result<()> {
    // What others may change meanwhile is copied once, and combined then.
    let mut scratch = epoch.take_scratch();
    let folded = match receive {
        Buffer::Flat(into, _) => fold_into(epoch, data, count, reduction, *into, &mut scratch),
        Buffer::Typed(typed) => {
            let mut packed = vec![0; typed.bytes()];
            let into = buffer::region_of(&mut packed);
            let folded = fold_into(epoch, data, count, reduction, into, &mut scratch);
            typed.unpack(buffer::shared(&into));
            folded
        }
    };
    epoch.give_scratch(scratch);
    folded
}

#[inline]
fn fold_into(
    epoch: &Epoch<'_, '_>,
    (length, offset): (usize, usize),
    count: usize,
    reduction: &ReductionArgument<'_>,
    into: Region,
    scratch: &mut [u8],
) -> Result<()> {
    let part = into.len();
    let elements = part.checked_div(reduction.datatype.size()).unwrap_or(0);
    epoch
        .read(count - 1, length, (offset, part))?
        .copy_to_region(&into);
    for member in (0..count - 1).rev() {
        let data = epoch.read(member, length, (offset, part))?;
        let operand = buffer::region_of(&mut scratch[..part]);
        data.copy_to_region(&operand);
        reduction
            .op
            .reduce(operand, into, elements, reduction.datatype)?;
    }
    Ok(())
}
