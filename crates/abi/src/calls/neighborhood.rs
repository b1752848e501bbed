//! Collectives among the neighbours of a topology (MPI 5.0, sections 8.6 to 8.8): from arguments to a
//! value, as [`super::coll`] does. Lists have one entry for each neighbour.

use std::sync::Arc;

use weft_mpi::Comm;
use weft_mpi::coll::{Blocks, NeighbourExchange};

use super::coll::{ensure_apart_from_all, ensure_blocks_apart};
use crate::args::{BlocksArgument, BufferArgument, TypedBlocksArgument};
use crate::fault::Checked;

type CommRef = &'static Arc<Comm>;

/// `MPI_Neighbor_allgather`.
pub fn neighbor_allgather(
    send: BufferArgument,
    receive: BufferArgument,
    comm: CommRef,
) -> Checked<NeighbourExchange<'static>> {
    let neighbours = comm.neighbours()?;
    let blocks = receive.blocks(neighbours.sources.len())?;
    let own = send.buffer()?;
    ensure_apart_from_all(Some(&own), Some(&blocks))?;
    let name = "MPI_Neighbor_allgather";
    Ok(NeighbourExchange::allgather(name, neighbours, own, blocks)?)
}

/// `MPI_Neighbor_allgatherv`.
pub fn neighbor_allgatherv(
    send: BufferArgument,
    receive: BlocksArgument,
    comm: CommRef,
) -> Checked<NeighbourExchange<'static>> {
    let neighbours = comm.neighbours()?;
    let blocks = receive.blocks(neighbours.sources.len())?;
    let own = send.buffer()?;
    ensure_apart_from_all(Some(&own), Some(&blocks))?;
    let name = "MPI_Neighbor_allgatherv";
    Ok(NeighbourExchange::allgather(name, neighbours, own, blocks)?)
}

/// `MPI_Neighbor_alltoall`.
pub fn neighbor_alltoall(
    send: BufferArgument,
    receive: BufferArgument,
    comm: CommRef,
) -> Checked<NeighbourExchange<'static>> {
    let out = |neighbours| send.blocks(neighbours);
    let into = |neighbours| receive.blocks(neighbours);
    among_neighbours("MPI_Neighbor_alltoall", out, into, comm)
}

/// `MPI_Neighbor_alltoallv`.
pub fn neighbor_alltoallv(
    send: BlocksArgument,
    receive: BlocksArgument,
    comm: CommRef,
) -> Checked<NeighbourExchange<'static>> {
    let out = |neighbours| send.blocks(neighbours);
    let into = |neighbours| receive.blocks(neighbours);
    among_neighbours("MPI_Neighbor_alltoallv", out, into, comm)
}

/// `MPI_Neighbor_alltoallw`.
pub fn neighbor_alltoallw(
    send: TypedBlocksArgument,
    receive: TypedBlocksArgument,
    comm: CommRef,
) -> Checked<NeighbourExchange<'static>> {
    let out = |neighbours| send.blocks(neighbours);
    let into = |neighbours| receive.blocks(neighbours);
    among_neighbours("MPI_Neighbor_alltoallw", out, into, comm)
}

fn among_neighbours(
    name: &'static str,
    out: impl FnOnce(usize) -> Checked<Blocks>,
    into: impl FnOnce(usize) -> Checked<Blocks>,
    comm: CommRef,
) -> Checked<NeighbourExchange<'static>> {
    let neighbours = comm.neighbours()?;
    let out = out(neighbours.destinations.len())?;
    let into = into(neighbours.sources.len())?;
    ensure_blocks_apart(Some(&out), &into)?;
    Ok(NeighbourExchange::alltoall(name, neighbours, out, into)?)
}
