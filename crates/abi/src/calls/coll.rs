//! Collectives (MPI 5.0, chapter 6): from arguments to a value, and what each form does with it.
//!
//! One function for each collective checks what depends on several arguments or on the rank, and builds the
//! [`Collective`] of this rank. The entry points of the three forms are generated from one row of
//! `tables/functions`: each lets that function make the value and ends with [`run`], [`begin`] or
//! [`prepare`]. Names in errors are those of the blocking form.
//!
//! Which buffers are significant depends on the rank, so they are checked here, not by the entry
//! points. Lists of counts have one entry for each rank.

use std::sync::Arc;

use weft_mpi::coll::inter::{self, Root, Sides};
use weft_mpi::coll::{Blocks, Collective};
use weft_mpi::{Buffer, Comm};

use super::p2p::handle_of_begun;
use crate::args::{BlocksArgument, BufferArgument, Out, TypedBlocksArgument};
use crate::c;
use crate::fault::{Checked, Fault};
use crate::generated::constants as k;
use crate::handle::request::pack_persistent;

mod reduction;

pub use reduction::*;

type CommRef = &'static Arc<Comm>;

/// The blocking form: runs it to its end.
#[inline]
pub(crate) fn run(collective: impl Into<Collective<'static>>, comm: &Comm) -> Checked<()> {
    Ok(comm.run(collective)?)
}

/// The non-blocking form: begins it; a request tells its end.
#[inline]
pub(crate) fn begin(
    collective: impl Into<Collective<'static>>,
    comm: &Comm,
    mut request: Out<c::Request>,
) -> Checked<()> {
    request.set(handle_of_begun(comm.begin(collective)?)?);
    Ok(())
}

/// The persistent form: keeps it, to be begun by each start of a request.
#[inline]
pub(crate) fn prepare(
    collective: impl Into<Collective<'static>>,
    comm: &Comm,
    mut request: Out<c::Request>,
) -> Checked<()> {
    request.set(pack_persistent(comm.prepare(collective)?));
    Ok(())
}

/// The rank of a root within one group; elsewhere `MPI_ROOT` and `MPI_PROC_NULL` were refused.
fn rank(root: Root) -> usize {
    match root {
        Root::Rank(rank) => rank,
        Root::ThisRank | Root::ProcNull => usize::MAX,
    }
}

/// `MPI_Barrier`.
pub fn barrier(comm: CommRef) -> Checked<Collective<'static>> {
    Ok(match Sides::of(comm) {
        None => Collective::Barrier,
        Some(sides) => inter::barrier(&sides)?.into(),
    })
}

/// `MPI_Bcast`.
pub fn bcast(buffer: BufferArgument, root: Root, comm: CommRef) -> Checked<Collective<'static>> {
    if let Some(sides) = Sides::of(comm) {
        let data = significant(root != Root::ProcNull, || buffer.buffer())?;
        return Ok(inter::bcast(&sides, data.as_ref(), root)?.into());
    }
    Ok(Collective::Bcast {
        data: buffer.buffer()?,
        root: rank(root),
    })
}

/// An argument that is checked only where it is significant: by `look` if `here`.
fn significant<T>(here: bool, look: impl FnOnce() -> Checked<T>) -> Checked<Option<T>> {
    if here { look().map(Some) } else { Ok(None) }
}

/// The data that a rank contributes; `None` for `MPI_IN_PLACE`.
fn contribution(send: &BufferArgument) -> Checked<Option<Buffer>> {
    significant(!send.is_in_place(), || send.buffer())
}

/// An error if two buffers of a call begin with the same byte: they must not share memory (MPI 5.0, section 6.1).
/// Other overlaps are not checked.
#[inline]
pub(super) fn ensure_apart(
    names: [&'static str; 2],
    send: &Buffer,
    receive: &Buffer,
) -> Checked<()> {
    match (send.first_byte(), receive.first_byte()) {
        (Some(one), Some(other)) if one == other => Err(shared(names, one)),
        _ => Ok(()),
    }
}

#[cold]
fn shared([send_name, receive_name]: [&'static str; 2], address: usize) -> Fault {
    Fault::argument(
        k::MPI_ERR_BUFFER,
        send_name,
        format!("other memory than that of {receive_name}"),
        format!("the same, at {address:#x}"),
        "pass MPI_IN_PLACE where the call allows it, or a buffer of its own",
    )
}

/// Names of the buffers of collectives that send and receive.
pub(super) const BUFFERS: [&str; 2] = ["sendbuf", "recvbuf"];

/// The same for data that this rank sends to all, or receives from all: it must not be one of the blocks.
pub(super) fn ensure_apart_from_all(own: Option<&Buffer>, blocks: Option<&Blocks>) -> Checked<()> {
    let (Some(own), Some(blocks)) = (own, blocks) else {
        return Ok(());
    };
    match own.first_byte() {
        Some(address) if blocks.begin_at(address) => Err(shared(BUFFERS, address)),
        _ => Ok(()),
    }
}

/// The same for two lists of blocks, pairwise.
pub(super) fn ensure_blocks_apart(out: Option<&Blocks>, into: &Blocks) -> Checked<()> {
    match out.and_then(|out| out.beginning_with(into)) {
        Some(address) => Err(shared(BUFFERS, address)),
        None => Ok(()),
    }
}

/// Whether this process is in the group with which the root communicates.
fn is_across_from_root(root: Root) -> bool {
    matches!(root, Root::Rank(_))
}

/// The rank of this process, the number of ranks, and the rank of the root, within one group.
fn place(comm: &Comm, root: Root) -> (usize, usize, usize) {
    (comm.rank() as usize, comm.size() as usize, rank(root))
}

/// A collective between the root and all ranks of one group: gather and its like.
type Rooted<A, B> = fn(&Comm, Option<A>, Option<B>, usize) -> weft_mpi::Result<Collective<'static>>;

/// Gather and its form with counts: `blocks` makes the blocks at the root.
fn gather_blocks(
    name: &'static str,
    within: Rooted<Buffer, Blocks>,
    send: &BufferArgument,
    blocks: impl FnOnce(usize) -> Checked<Blocks>,
    root: Root,
    comm: CommRef,
) -> Checked<Collective<'static>> {
    if let Some(sides) = Sides::of(comm) {
        let out = significant(is_across_from_root(root), || send.buffer())?;
        let into = significant(root == Root::ThisRank, || blocks(sides.remote))?;
        return Ok(inter::gather(name, &sides, out.as_ref(), into.as_ref(), root)?.into());
    }
    let (me, size, root) = place(comm, root);
    let into = significant(me == root, || blocks(size))?;
    let out = contribution(send)?;
    ensure_apart_from_all(out.as_ref(), into.as_ref())?;
    Ok(within(comm, out, into, root)?)
}

/// `MPI_Gather`.
pub fn gather(
    send: BufferArgument,
    receive: BufferArgument,
    root: Root,
    comm: CommRef,
) -> Checked<Collective<'static>> {
    let blocks = |ranks| receive.blocks(ranks);
    let within: Rooted<_, _> = |_, send, receive, root| {
        Ok(Collective::Gather {
            send,
            receive,
            root,
        })
    };
    gather_blocks("MPI_Gather", within, &send, blocks, root, comm)
}

/// `MPI_Gatherv`.
pub fn gatherv(
    send: BufferArgument,
    receive: BlocksArgument,
    root: Root,
    comm: CommRef,
) -> Checked<Collective<'static>> {
    let blocks = |ranks| receive.blocks(ranks);
    let within: Rooted<_, _> = |_, send, receive, root| {
        Ok(Collective::Gatherv {
            send,
            receive,
            root,
        })
    };
    gather_blocks("MPI_Gatherv", within, &send, blocks, root, comm)
}

/// Scatter and its form with counts: `blocks` makes the blocks at the root.
fn scatter_blocks(
    name: &'static str,
    within: Rooted<Blocks, Buffer>,
    blocks: impl FnOnce(usize) -> Checked<Blocks>,
    receive: &BufferArgument,
    root: Root,
    comm: CommRef,
) -> Checked<Collective<'static>> {
    if let Some(sides) = Sides::of(comm) {
        let into = significant(is_across_from_root(root), || receive.buffer())?;
        let out = significant(root == Root::ThisRank, || blocks(sides.remote))?;
        return Ok(inter::scatter(name, &sides, out.as_ref(), into.as_ref(), root)?.into());
    }
    let (me, size, root) = place(comm, root);
    let out = significant(me == root, || blocks(size))?;
    let into = contribution(receive)?;
    ensure_apart_from_all(into.as_ref(), out.as_ref())?;
    Ok(within(comm, out, into, root)?)
}

/// `MPI_Scatter`.
pub fn scatter(
    send: BufferArgument,
    receive: BufferArgument,
    root: Root,
    comm: CommRef,
) -> Checked<Collective<'static>> {
    let blocks = |ranks| send.blocks(ranks);
    let within: Rooted<_, _> = |_, send, receive, root| {
        Ok(Collective::Scatter {
            send,
            receive,
            root,
        })
    };
    scatter_blocks("MPI_Scatter", within, blocks, &receive, root, comm)
}

/// `MPI_Scatterv`.
pub fn scatterv(
    send: BlocksArgument,
    receive: BufferArgument,
    root: Root,
    comm: CommRef,
) -> Checked<Collective<'static>> {
    let blocks = |ranks| send.blocks(ranks);
    let within: Rooted<_, _> = |_, send, receive, root| {
        Ok(Collective::Scatterv {
            send,
            receive,
            root,
        })
    };
    scatter_blocks("MPI_Scatterv", within, blocks, &receive, root, comm)
}

/// `MPI_Allgather`.
pub fn allgather(
    send: BufferArgument,
    receive: BufferArgument,
    comm: CommRef,
) -> Checked<Collective<'static>> {
    if let Some(sides) = Sides::of(comm) {
        let blocks = receive.blocks(sides.remote)?;
        return Ok(inter::allgather("MPI_Allgather", &sides, &send.buffer()?, &blocks)?.into());
    }
    let receive = receive.blocks(comm.size() as usize)?;
    let send = contribution(&send)?;
    ensure_apart_from_all(send.as_ref(), Some(&receive))?;
    Ok(Collective::Allgather { send, receive })
}

/// `MPI_Allgatherv`.
pub fn allgatherv(
    send: BufferArgument,
    receive: BlocksArgument,
    comm: CommRef,
) -> Checked<Collective<'static>> {
    if let Some(sides) = Sides::of(comm) {
        let blocks = receive.blocks(sides.remote)?;
        return Ok(inter::allgather("MPI_Allgatherv", &sides, &send.buffer()?, &blocks)?.into());
    }
    let receive = receive.blocks(comm.size() as usize)?;
    let send = contribution(&send)?;
    ensure_apart_from_all(send.as_ref(), Some(&receive))?;
    Ok(Collective::Allgatherv { send, receive })
}

/// `MPI_Alltoall`.
pub fn alltoall(
    send: BufferArgument,
    receive: BufferArgument,
    comm: CommRef,
) -> Checked<Collective<'static>> {
    if let Some(sides) = Sides::of(comm) {
        let (out, into) = (send.blocks(sides.remote)?, receive.blocks(sides.remote)?);
        return Ok(inter::alltoall("MPI_Alltoall", &sides, &out, &into)?.into());
    }
    let size = comm.size() as usize;
    let out = significant(!send.is_in_place(), || send.blocks(size))?;
    let receive = receive.blocks(size)?;
    ensure_blocks_apart(out.as_ref(), &receive)?;
    Ok(Collective::Alltoall { send: out, receive })
}

/// The forms of alltoall with blocks of any size.
fn alltoall_blocks(
    name: &'static str,
    in_place: bool,
    out: impl FnOnce(usize) -> Checked<Blocks>,
    into: impl FnOnce(usize) -> Checked<Blocks>,
    comm: CommRef,
) -> Checked<Collective<'static>> {
    if let Some(sides) = Sides::of(comm) {
        let (out, into) = (out(sides.remote)?, into(sides.remote)?);
        return Ok(inter::alltoall(name, &sides, &out, &into)?.into());
    }
    let size = comm.size() as usize;
    let send = significant(!in_place, || out(size))?;
    let receive = into(size)?;
    ensure_blocks_apart(send.as_ref(), &receive)?;
    Ok(Collective::Alltoallv {
        name,
        send,
        receive,
    })
}

/// `MPI_Alltoallv`.
pub fn alltoallv(
    send: BlocksArgument,
    receive: BlocksArgument,
    comm: CommRef,
) -> Checked<Collective<'static>> {
    let (out, into) = (|ranks| send.blocks(ranks), |ranks| receive.blocks(ranks));
    alltoall_blocks("MPI_Alltoallv", send.is_in_place(), out, into, comm)
}

/// `MPI_Alltoallw`.
pub fn alltoallw(
    send: TypedBlocksArgument,
    receive: TypedBlocksArgument,
    comm: CommRef,
) -> Checked<Collective<'static>> {
    let (out, into) = (|ranks| send.blocks(ranks), |ranks| receive.blocks(ranks));
    alltoall_blocks("MPI_Alltoallw", send.is_in_place(), out, into, comm)
}
