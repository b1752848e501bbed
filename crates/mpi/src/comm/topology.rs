//! Virtual topologies (MPI 5.0, chapter 8): the neighbours of each rank.
//!
//! ```text
//!   Cartesian     a grid, some of its dimensions closed to rings      Comm::cartesian
//!   Graph         every rank knows all edges                          Comm::graph
//!   Distributed   each rank knows its own edges, with directions      Comm::adjacent, Comm::distributed
//! ```
//!
//! Ranks are never reordered: all processes of a host are equally far from each other.

mod balanced;
mod cartesian;
mod distributed;
mod graph;

use std::sync::{Arc, OnceLock};

pub use balanced::balanced_factors;
pub use cartesian::Cartesian;
pub use distributed::{Distributed, Edge};
pub use graph::Graph;

use super::{Comm, Shape};
use crate::error::{Error, ErrorClass, Result};
use crate::group::Group;

/// The topology of a communicator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Topology {
    /// A grid.
    Cartesian(Cartesian),
    /// A graph that every rank knows.
    Graph(Graph),
    /// A graph of which each rank knows its own edges.
    Distributed(Distributed),
}

/// The ranks that a rank receives from and sends to in a collective among neighbours, in the order of its blocks. `None`:
/// beyond the edge of a grid.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Neighbours {
    /// Ranks to receive from.
    pub sources: Box<[Option<u32>]>,
    /// Ranks to send to.
    pub destinations: Box<[Option<u32>]>,
    /// The order in which the messages of one source are for the blocks: places in `sources`. In a
    /// ring of two, what a rank gives to the left comes in from the right.
    pub arrivals: Box<[usize]>,
    /// The rank itself, if it is a neighbour of its own: as often in the one list as in the other, so that what it gives itself
    /// is copied.
    pub itself: Option<u32>,
}

impl Neighbours {
    /// Messages come in the order of the blocks.
    fn in_order(sources: Vec<Option<u32>>, destinations: Vec<Option<u32>>) -> Self {
        Self {
            arrivals: (0..sources.len()).collect(),
            sources: sources.into(),
            destinations: destinations.into(),
            itself: None,
        }
    }

    /// The blocks that the rank gives itself: place among the destinations, place among the sources.
    pub(crate) fn own_blocks(&self) -> impl Iterator<Item = (usize, usize)> {
        let out = self.destinations.iter().enumerate();
        let out = out.filter(|(_, rank)| self.is_itself(**rank));
        let mut into = self.arrivals.iter();
        out.filter_map(move |(place, _)| {
            let into = into.find(|place| self.is_itself(self.sources[**place]))?;
            Some((place, *into))
        })
    }

    /// Whether a neighbour is the rank itself, and its block is copied.
    pub(crate) fn is_itself(&self, neighbour: Option<u32>) -> bool {
        neighbour.is_some() && neighbour == self.itself
    }

    /// The same, of this rank.
    fn of(self, rank: u32) -> Self {
        let times = |list: &[Option<u32>]| list.iter().filter(|one| **one == Some(rank)).count();
        let (out, into) = (times(&self.destinations), times(&self.sources));
        Self {
            itself: (out > 0 && out == into).then_some(rank),
            ..self
        }
    }
}

impl Topology {
    /// The neighbours of a rank. A distributed graph knows only the rank whose edges it has.
    #[must_use]
    pub fn neighbours(&self, rank: u32) -> Neighbours {
        let neighbours = match self {
            Self::Cartesian(grid) => grid.neighbours(rank),
            Self::Graph(graph) => graph.all_of(rank),
            Self::Distributed(edges) => edges.neighbours(),
        };
        neighbours.of(rank)
    }
}

impl Comm {
    /// The neighbours of this rank.
    ///
    /// # Errors
    /// `Topology` for a communicator without one.
    #[inline]
    pub fn neighbours(&self) -> Result<&Neighbours> {
        match &self.shape {
            Shape::On(topology, neighbours) => {
                Ok(neighbours.get_or_init(|| topology.neighbours(self.rank())))
            }
            Shape::Plain | Shape::Between(_) => Err(no_topology()),
        }
    }

    /// A communicator of the first `size` ranks with a topology; `None` for the others.
    fn on(&self, name: &'static str, size: u32, topology: Topology) -> Result<Option<Arc<Self>>> {
        let context = self.agree_on_context(name)?;
        let group = if size == self.size() {
            Arc::clone(self.group())
        } else {
            let members = self.group().members().take(size as usize);
            Arc::new(Group::of(members.collect()))
        };
        let shape = Shape::on(topology);
        Ok(Self::assemble(self.process(), context, group, shape))
    }
}

impl Shape {
    fn on(topology: Topology) -> Self {
        Self::On(Arc::new(topology), OnceLock::new())
    }
}

#[cold]
fn no_topology() -> Error {
    Error::new(
        ErrorClass::Topology,
        "the communicator has no topology; make one with MPI_Cart_create, MPI_Graph_create or MPI_Dist_graph_create",
    )
}

/// A topology that needs more ranks than there are.
#[cold]
fn too_large(name: &str, needed: u64, size: u32) -> Error {
    Error::new(
        ErrorClass::Topology,
        format!(
            "{name}: the topology has {needed} places, and the communicator {size} ranks; start more ranks, or make the topology smaller"
        ),
    )
}

/// A rank that is none.
#[cold]
fn no_rank(name: &str, what: &str, rank: i32, size: u32) -> Error {
    Error::new(
        ErrorClass::Rank,
        format!(
            "{name}: {what} is {rank}; it must be from 0 to {}",
            i64::from(size) - 1
        ),
    )
}

fn check_rank(name: &str, what: &str, rank: i32, size: u32) -> Result<u32> {
    u32::try_from(rank)
        .ok()
        .filter(|rank| *rank < size)
        .ok_or_else(|| no_rank(name, what, rank, size))
}
