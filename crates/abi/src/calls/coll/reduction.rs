//! Collectives that combine (MPI 5.0, sections 6.9 to 6.11): reductions and scans.

use std::borrow::Cow;
use std::sync::Arc;

use weft_mpi::coll::inter::{self, Root, Sides};
use weft_mpi::coll::{Collective, ReductionArgument};
use weft_mpi::schedule::Schedule;
use weft_mpi::{Buffer, Comm, Datatype, Op};

use super::{BUFFERS, CommRef, ensure_apart, is_across_from_root, rank, significant};
use crate::args::{AddressArgument, BufferArgument, Counts, check_lists};
use crate::fault::{Checked, Fault};
use crate::generated::constants as k;
use crate::{check, state};

type OpRef = &'static Arc<Op>;
type DatatypeRef = &'static Arc<Datatype>;

/// The error of a collective that is not defined between two groups.
fn one_group(comm: &Comm) -> Checked<()> {
    if comm.remote_group().is_none() {
        return Ok(());
    }
    Err(Fault::argument(
        k::MPI_ERR_COMM,
        "comm",
        "an intracommunicator",
        "an intercommunicator, whose ranks have no order from which to begin",
        "merge its two groups with MPI_Intercomm_merge",
    ))
}

fn reduction(count: usize, datatype: DatatypeRef, op: OpRef) -> ReductionArgument<'static> {
    check::development::reduction(op, datatype);
    // The program's function gets the handle of the datatype, even if that is freed before the end.
    let op = if op.as_predefined().is_none() && !datatype.is_predefined() {
        Cow::Owned(op.keeping(state::use_datatype(datatype)))
    } else {
        Cow::Borrowed(op)
    };
    ReductionArgument {
        count,
        datatype,
        op,
    }
}

/// The send buffer of a reduction; `in_place_of` replaces `MPI_IN_PLACE`.
fn operand(
    send: AddressArgument,
    count: usize,
    datatype: DatatypeRef,
    in_place_of: &Buffer,
) -> Checked<Buffer> {
    if send.is_in_place() {
        return Ok(in_place_of.clone());
    }
    let own = send.buffer(count, datatype)?;
    ensure_apart(BUFFERS, &own, in_place_of)?;
    Ok(own)
}

/// `MPI_Reduce`.
pub fn reduce(
    send: AddressArgument,
    receive: BufferArgument,
    op: OpRef,
    root: Root,
    comm: CommRef,
) -> Checked<Collective<'static>> {
    if let Some(sides) = Sides::of(comm) {
        if root == Root::ProcNull {
            return Ok(Schedule::of("MPI_Reduce", Vec::new()).into());
        }
        let (count, datatype) = receive.elements()?;
        let out = significant(is_across_from_root(root), || send.buffer(count, datatype))?;
        let into = significant(root == Root::ThisRank, || receive.buffer())?;
        let reduction = reduction(count, datatype, op).keep();
        return Ok(inter::reduce(&sides, out.as_ref(), into.as_ref(), &reduction, root)?.into());
    }
    let root = rank(root);
    let (count, datatype) = receive.elements()?;
    let into = significant(comm.rank() as usize == root, || receive.buffer())?;
    let own = match &into {
        Some(into) => operand(send, count, datatype, into)?,
        None => send.buffer(count, datatype)?,
    };
    Ok(Collective::Reduce {
        send: own,
        receive: into,
        reduction: reduction(count, datatype, op),
        root,
    })
}

/// `MPI_Allreduce`.
pub fn allreduce(
    send: AddressArgument,
    receive: BufferArgument,
    op: OpRef,
    comm: CommRef,
) -> Checked<Collective<'static>> {
    let (count, datatype) = receive.elements()?;
    let into = receive.buffer()?;
    let reduction = reduction(count, datatype, op);
    if let Some(sides) = Sides::of(comm) {
        let own = send.buffer(count, datatype)?;
        ensure_apart(BUFFERS, &own, &into)?;
        return Ok(inter::allreduce(&sides, &own, &into, &reduction.keep())?.into());
    }
    Ok(Collective::Allreduce {
        send: operand(send, count, datatype, &into)?,
        receive: into,
        reduction,
    })
}

/// `MPI_Scan`.
pub fn scan(
    send: AddressArgument,
    receive: BufferArgument,
    op: OpRef,
    comm: CommRef,
) -> Checked<Collective<'static>> {
    one_group(comm)?;
    let (count, datatype) = receive.elements()?;
    let into = receive.buffer()?;
    let own = operand(send, count, datatype, &into)?;
    Ok(Collective::Scan {
        send: own,
        receive: into,
        reduction: reduction(count, datatype, op),
    })
}

/// `MPI_Exscan`.
pub fn exscan(
    send: AddressArgument,
    receive: BufferArgument,
    op: OpRef,
    comm: CommRef,
) -> Checked<Collective<'static>> {
    one_group(comm)?;
    let (count, datatype) = receive.elements()?;
    let into = receive.buffer()?;
    let own = operand(send, count, datatype, &into)?;
    Ok(Collective::Exscan {
        send: own,
        receive: into,
        reduction: reduction(count, datatype, op),
    })
}

/// The elements of all ranks.
fn all_of(mut counts: impl Iterator<Item = usize>) -> Checked<usize> {
    let sum = counts.try_fold(0usize, usize::checked_add);
    sum.ok_or_else(|| {
        Fault::argument(
            k::MPI_ERR_COUNT,
            "recvcounts",
            "counts whose sum fits 64 bits",
            "larger ones",
            "check the arithmetic that led to them",
        )
    })
}

/// `MPI_Reduce_scatter_block`.
pub fn reduce_scatter_block(
    send: AddressArgument,
    receive: BufferArgument,
    op: OpRef,
    comm: CommRef,
) -> Checked<Collective<'static>> {
    let (count, datatype) = receive.elements()?;
    let into = receive.buffer()?;
    let size = comm.size() as usize;
    let all = all_of(std::iter::repeat_n(count, size))?;
    let reduction = reduction(all, datatype, op);
    if let Some(sides) = Sides::of(comm) {
        let (own, counts) = (send.buffer(all, datatype)?, vec![count; size]);
        let name = "MPI_Reduce_scatter_block";
        return Ok(
            inter::reduce_scatter(name, &sides, &own, &into, &counts, &reduction.keep())?.into(),
        );
    }
    // In place, the whole input is in the receive buffer.
    let own = if send.is_in_place() {
        receive.address().buffer(all, datatype)?
    } else {
        operand(send, all, datatype, &into)?
    };
    Ok(Collective::ReduceScatterBlock {
        send: own,
        receive: into,
        count,
        reduction,
    })
}

/// `MPI_Reduce_scatter`.
pub fn reduce_scatter(
    send: AddressArgument,
    receive: AddressArgument,
    counts: Counts,
    datatype: DatatypeRef,
    op: OpRef,
    comm: CommRef,
) -> Checked<Collective<'static>> {
    check_lists(&[(counts, "recvcounts")])?;
    let counts = counts
        .with_length(comm.size() as usize)
        .iter()
        .map(|count| check::count(count, "recvcounts"))
        .collect::<Checked<Vec<_>>>()?;
    let all = all_of(counts.iter().copied())?;
    let reduction = reduction(all, datatype, op);
    let own_count = counts[comm.rank() as usize];
    let into = receive.buffer(own_count, datatype)?;
    if let Some(sides) = Sides::of(comm) {
        let own = send.buffer(all, datatype)?;
        let name = "MPI_Reduce_scatter";
        return Ok(
            inter::reduce_scatter(name, &sides, &own, &into, &counts, &reduction.keep())?.into(),
        );
    }
    let own = if send.is_in_place() {
        receive.buffer(all, datatype)?
    } else {
        operand(send, all, datatype, &into)?
    };
    Ok(Collective::ReduceScatter {
        send: own,
        receive: into,
        counts,
        reduction,
    })
}
