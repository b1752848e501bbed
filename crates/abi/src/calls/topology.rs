//! Virtual topologies (MPI 5.0, chapter 8). Ranks are never reordered.

use std::ffi::c_int;
use std::sync::Arc;

use weft_mpi::comm::topology::{Cartesian, Edge, Graph, Topology, balanced_factors};
use weft_mpi::{Comm, memory};

use super::comm::{publish, publish_some};
use crate::args::Out;
use crate::c;
use crate::check;
use crate::fault::{Checked, Fault};
use crate::generated::constants as k;
use crate::state::InfoObject;

/// A rank, or `MPI_PROC_NULL` for nobody.
fn rank_or_null(rank: Option<u32>) -> c_int {
    rank.map_or(k::MPI_PROC_NULL, u32::cast_signed)
}

/// Stores as many values as fit.
fn store(into: &mut [c_int], values: impl IntoIterator<Item = c_int>) {
    for (place, value) in into.iter_mut().zip(values) {
        *place = value;
    }
}

fn grid_of(dims: &[c_int], periods: &[c_int]) -> Checked<Cartesian> {
    memory::ensure_list(dims.len(), 16)?;
    let periods: Vec<bool> = periods.iter().map(|period| *period != 0).collect();
    Ok(Cartesian::new(dims, &periods)?)
}

/// A list whose length is given by the communicator's topology.
fn sized<'a>(address: *const c_int, length: usize, name: &'static str) -> Checked<&'a [c_int]> {
    // SAFETY: the list has an element for each dimension, edge or neighbour of the topology (MPI 5.0, section 8.5).
    unsafe { check::slice(address, length, name) }
}

/// Sets the new communicator of a call.
fn set_new(
    mut new: Out<c::Comm>,
    parent: &Comm,
    made: weft_mpi::Result<Option<Arc<Comm>>>,
) -> Checked<()> {
    new.set(k::MPI_COMM_NULL);
    new.set(publish_some(made?, parent)?);
    Ok(())
}

pub fn topo_test(comm: &Arc<Comm>, mut status: Out<c_int>) -> Checked<()> {
    status.set(match comm.topology().map(|topology| &**topology) {
        None => k::MPI_UNDEFINED,
        Some(Topology::Cartesian(_)) => k::MPI_CART,
        Some(Topology::Graph(_)) => k::MPI_GRAPH,
        Some(Topology::Distributed(_)) => k::MPI_DIST_GRAPH,
    });
    Ok(())
}

pub fn cart_create(
    comm_old: &Arc<Comm>,
    _ndims: usize,
    dims: &[c_int],
    periods: &[c_int],
    _reorder: bool,
    comm_cart: Out<c::Comm>,
) -> Checked<()> {
    let grid = grid_of(dims, periods)?;
    set_new(comm_cart, comm_old, comm_old.cartesian(grid))
}

pub fn cart_map(
    comm: &Arc<Comm>,
    _ndims: usize,
    dims: &[c_int],
    periods: &[c_int],
    mut newrank: Out<c_int>,
) -> Checked<()> {
    let places = grid_of(dims, periods)?.places();
    newrank.set(mapped(comm, places)?);
    Ok(())
}

/// The rank of this process in a topology of `places` places.
fn mapped(comm: &Comm, places: u64) -> Checked<c_int> {
    if places > u64::from(comm.size()) {
        return Err(Fault::argument(
            k::MPI_ERR_TOPOLOGY,
            "comm",
            format!("a communicator of at least {places} ranks"),
            format!("one of {}", comm.size()),
            "start more ranks, or make the topology smaller",
        ));
    }
    Ok(if u64::from(comm.rank()) < places {
        comm.rank().cast_signed()
    } else {
        k::MPI_UNDEFINED
    })
}

pub fn cartdim_get(comm: &Arc<Comm>, mut ndims: Out<c_int>) -> Checked<()> {
    ndims.set(comm.grid()?.dims().len() as c_int);
    Ok(())
}

pub fn cart_get(
    comm: &Arc<Comm>,
    _maxdims: usize,
    dims: &mut [c_int],
    periods: &mut [c_int],
    coords: &mut [c_int],
) -> Checked<()> {
    let grid = comm.grid()?;
    store(dims, grid.dims().iter().map(|dim| dim.cast_signed()));
    store(
        periods,
        grid.periods().iter().map(|ring| c_int::from(*ring)),
    );
    let place = grid.coordinates(comm.rank());
    store(coords, place.into_iter().map(u32::cast_signed));
    Ok(())
}

pub fn cart_rank(comm: &Arc<Comm>, coords: *const c_int, mut rank: Out<c_int>) -> Checked<()> {
    let grid = comm.grid()?;
    let place = sized(coords, grid.dims().len(), "coords")?;
    rank.set(grid.rank(place)?.cast_signed());
    Ok(())
}

/// A rank of the communicator, as argument of a query about its topology.
fn known(comm: &Comm, rank: c_int) -> Checked<u32> {
    if rank.cast_unsigned() < comm.size() {
        return Ok(rank.cast_unsigned());
    }
    Err(Fault::argument(
        k::MPI_ERR_RANK,
        "rank",
        format!("a rank from 0 to {}", i64::from(comm.size()) - 1),
        rank.to_string(),
        "pass a rank of the communicator with the topology",
    ))
}

pub fn cart_coords(
    comm: &Arc<Comm>,
    rank: c_int,
    _maxdims: usize,
    coords: &mut [c_int],
) -> Checked<()> {
    let place = comm.grid()?.coordinates(known(comm, rank)?);
    store(coords, place.into_iter().map(u32::cast_signed));
    Ok(())
}

pub fn cart_shift(
    comm: &Arc<Comm>,
    direction: c_int,
    disp: c_int,
    mut rank_source: Out<c_int>,
    mut rank_dest: Out<c_int>,
) -> Checked<()> {
    let (source, destination) = comm.grid()?.shift(comm.rank(), direction, disp)?;
    rank_source.set(rank_or_null(source));
    rank_dest.set(rank_or_null(destination));
    Ok(())
}

pub fn cart_sub(
    comm: &Arc<Comm>,
    remain_dims: *const c_int,
    mut newcomm: Out<c::Comm>,
) -> Checked<()> {
    let stays = sized(remain_dims, comm.grid()?.dims().len(), "remain_dims")?;
    let stays: Vec<bool> = stays.iter().map(|stays| *stays != 0).collect();
    newcomm.set(publish(comm.part_of_grid(&stays)?, comm)?);
    Ok(())
}

fn graph_of(index: &[c_int], edges: *const c_int) -> Checked<Graph> {
    memory::ensure_list(index.len(), 8)?;
    let ends = index.iter().copied().max().unwrap_or(0);
    let ends = check::length(ends.into(), "index")?;
    memory::ensure_list(ends, 8)?;
    let edges = sized(edges, ends, "edges")?;
    Ok(Graph::new(index, edges)?)
}

pub fn graph_create(
    comm_old: &Arc<Comm>,
    _nnodes: usize,
    index: &[c_int],
    edges: *const c_int,
    _reorder: bool,
    comm_graph: Out<c::Comm>,
) -> Checked<()> {
    let graph = graph_of(index, edges)?;
    set_new(comm_graph, comm_old, comm_old.with_graph(graph))
}

pub fn graph_map(
    comm: &Arc<Comm>,
    nnodes: usize,
    index: &[c_int],
    edges: *const c_int,
    mut newrank: Out<c_int>,
) -> Checked<()> {
    graph_of(index, edges)?;
    newrank.set(mapped(comm, nnodes as u64)?);
    Ok(())
}

pub fn graphdims_get(
    comm: &Arc<Comm>,
    mut nnodes: Out<c_int>,
    mut nedges: Out<c_int>,
) -> Checked<()> {
    let graph = comm.graph()?;
    nnodes.set(graph.index().len() as c_int);
    nedges.set(graph.edges().len() as c_int);
    Ok(())
}

pub fn graph_get(
    comm: &Arc<Comm>,
    _maxindex: usize,
    _maxedges: usize,
    index: &mut [c_int],
    edges: &mut [c_int],
) -> Checked<()> {
    let graph = comm.graph()?;
    store(index, graph.index().iter().copied());
    store(edges, graph.edges().iter().copied());
    Ok(())
}

pub fn graph_neighbors(
    comm: &Arc<Comm>,
    rank: c_int,
    _maxneighbors: usize,
    neighbors: &mut [c_int],
) -> Checked<()> {
    store(neighbors, comm.graph()?.neighbours(rank)?.iter().copied());
    Ok(())
}

pub fn graph_neighbors_count(
    comm: &Arc<Comm>,
    rank: c_int,
    mut nneighbors: Out<c_int>,
) -> Checked<()> {
    nneighbors.set(comm.graph()?.neighbours(rank)?.len() as c_int);
    Ok(())
}

/// Weights of edges: none for `MPI_UNWEIGHTED`.
fn weights<'a>(
    address: *const c_int,
    length: usize,
    name: &'static str,
) -> Checked<Option<&'a [c_int]>> {
    if address == k::MPI_UNWEIGHTED.cast_const() {
        return Ok(None);
    }
    if address == k::MPI_WEIGHTS_EMPTY.cast_const() {
        if length == 0 {
            return Ok(Some(&[]));
        }
        return Err(Fault::argument(
            k::MPI_ERR_ARG,
            name,
            format!("{length} weights, or MPI_UNWEIGHTED"),
            "MPI_WEIGHTS_EMPTY",
            "MPI_WEIGHTS_EMPTY stands for the weights of no edges",
        ));
    }
    sized(address, length, name).map(Some)
}

/// Bytes that an edge needs while a topology is made: its ends and its weight, here and as a message.
const BYTES_OF_AN_EDGE: usize = 64;

/// Neighbours with their weights; 1 if there are none.
fn weighed(ranks: &[c_int], weights: Option<&[c_int]>) -> Vec<(c_int, c_int)> {
    let weight = |place: usize| weights.map_or(1, |weights| weights[place]);
    let ranks = ranks.iter().enumerate();
    ranks.map(|(place, rank)| (*rank, weight(place))).collect()
}

#[allow(clippy::too_many_arguments)]
pub fn dist_graph_create_adjacent(
    comm_old: &Arc<Comm>,
    indegree: usize,
    sources: &[c_int],
    sourceweights: *const c_int,
    outdegree: usize,
    destinations: &[c_int],
    destweights: *const c_int,
    _info: Option<&InfoObject>,
    _reorder: bool,
    mut comm_dist_graph: Out<c::Comm>,
) -> Checked<()> {
    memory::ensure_list(indegree.saturating_add(outdegree), BYTES_OF_AN_EDGE)?;
    let incoming = weights(sourceweights, indegree, "sourceweights")?;
    let outgoing = weights(destweights, outdegree, "destweights")?;
    let comm = comm_old.adjacent(
        &weighed(sources, incoming),
        &weighed(destinations, outgoing),
        incoming.is_some() || outgoing.is_some(),
    )?;
    comm_dist_graph.set(publish(comm, comm_old)?);
    Ok(())
}

#[allow(clippy::too_many_arguments)]
pub fn dist_graph_create(
    comm_old: &Arc<Comm>,
    _n: usize,
    sources: &[c_int],
    degrees: &[c_int],
    destinations: *const c_int,
    given: *const c_int,
    _info: Option<&InfoObject>,
    _reorder: bool,
    mut comm_dist_graph: Out<c::Comm>,
) -> Checked<()> {
    let mut all = 0usize;
    for degree in degrees {
        all = all.saturating_add(check::length((*degree).into(), "degrees")?);
    }
    memory::ensure_list(all, BYTES_OF_AN_EDGE)?;
    let ends = sized(destinations, all, "destinations")?;
    let given = weights(given, all, "weights")?;
    let starts = sources
        .iter()
        .zip(degrees)
        .flat_map(|(source, degree)| std::iter::repeat_n(*source, *degree as usize));
    let edges: Vec<Edge> = starts
        .zip(weighed(ends, given))
        .map(|(source, (destination, weight))| Edge {
            source,
            destination,
            weight,
        })
        .collect();
    let comm = comm_old.distributed(&edges, given.is_some())?;
    comm_dist_graph.set(publish(comm, comm_old)?);
    Ok(())
}

pub fn dist_graph_neighbors_count(
    comm: &Arc<Comm>,
    mut indegree: Out<c_int>,
    mut outdegree: Out<c_int>,
    mut weighted: Out<c_int>,
) -> Checked<()> {
    let edges = comm.edges()?;
    indegree.set(edges.sources.len() as c_int);
    outdegree.set(edges.destinations.len() as c_int);
    weighted.flag(edges.weighted);
    Ok(())
}

pub fn dist_graph_neighbors(
    comm: &Arc<Comm>,
    _maxindegree: usize,
    sources: &mut [c_int],
    sourceweights: *mut c_int,
    _maxoutdegree: usize,
    destinations: &mut [c_int],
    destweights: *mut c_int,
) -> Checked<()> {
    let edges = comm.edges()?;
    for (own, ranks, address) in [
        (&edges.sources, sources, sourceweights),
        (&edges.destinations, destinations, destweights),
    ] {
        let room = ranks.len();
        store(ranks, own.iter().map(|(rank, _)| rank.cast_signed()));
        let nowhere = address == k::MPI_UNWEIGHTED || address == k::MPI_WEIGHTS_EMPTY;
        if !nowhere && edges.weighted {
            // SAFETY: the list of weights is as long as the list of ranks beside it (MPI 5.0, section 8.5.5,
            // `MPI_Dist_graph_neighbors`).
            let weights = unsafe { check::slice_mut(address, room, "weights") }?;
            store(weights, own.iter().map(|(_, weight)| *weight));
        }
    }
    Ok(())
}

/// Factors as close to each other as possible, the largest first, into the places that are 0.
pub fn dims_create(nnodes: c_int, _ndims: usize, dims: &mut [c_int]) -> Checked<()> {
    // A product that overflows divides no number of nodes either.
    let fixed = dims
        .iter()
        .filter(|dim| **dim > 0)
        .fold(1i64, |product, dim| product.saturating_mul((*dim).into()));
    if let Some(negative) = dims.iter().find(|dim| **dim < 0) {
        return Err(Fault::argument(
            k::MPI_ERR_DIMS,
            "dims",
            "dimensions of at least 0",
            negative.to_string(),
            "set a dimension to 0 to have it chosen",
        ));
    }
    let free = dims.iter().filter(|dim| **dim == 0).count();
    let bad =
        nnodes < 1 || i64::from(nnodes) % fixed != 0 || (free == 0 && fixed != i64::from(nnodes));
    if bad {
        return Err(Fault::argument(
            k::MPI_ERR_DIMS,
            "nnodes",
            format!("a positive multiple of the dimensions that are given ({fixed})"),
            nnodes.to_string(),
            "give dimensions that divide the number of nodes",
        ));
    }
    // The quotient is positive, as both are.
    let rest = (i64::from(nnodes) / fixed) as u32;
    // Places beyond the prime factors get 1.
    let mut chosen = balanced_factors(rest, free.min(c_int::BITS as usize)).into_iter();
    for dim in dims.iter_mut().filter(|dim| **dim == 0) {
        *dim = chosen.next().map_or(1, u32::cast_signed);
    }
    Ok(())
}
