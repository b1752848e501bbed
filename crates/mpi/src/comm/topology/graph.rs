//! Graphs that every rank knows (MPI 5.0, section 8.5.3).

use std::sync::Arc;

use super::{Comm, Neighbours, Topology, check_rank, too_large};
use crate::error::{Error, ErrorClass, Result};

/// A graph: the neighbours of all ranks, one after the other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Graph {
    /// For each rank, where its neighbours end.
    index: Box<[i32]>,
    edges: Box<[i32]>,
}

impl Graph {
    /// A graph: the neighbours of rank `r` are `edges[index[r - 1]..index[r]]`.
    ///
    /// # Errors
    /// `Arg` for an index that falls or is not as long as the edges, `Rank` for a neighbour that is
    /// none of the graph.
    pub fn new(index: &[i32], edges: &[i32]) -> Result<Self> {
        const NAME: &str = "MPI_Graph_create";
        let mut last = 0;
        for (node, &end) in index.iter().enumerate() {
            if end < last || end as usize > edges.len() {
                return Err(Error::new(
                    ErrorClass::Arg,
                    format!(
                        "{NAME}: index {node} is {end}; the indices must not fall and not pass the {} edges",
                        edges.len()
                    ),
                ));
            }
            last = end;
        }
        let edges = &edges[..last as usize];
        for edge in edges {
            check_rank(NAME, "a neighbour", *edge, index.len() as u32)?;
        }
        Ok(Self {
            index: index.into(),
            edges: edges.into(),
        })
    }

    /// Where the neighbours of each rank end.
    #[must_use]
    pub fn index(&self) -> &[i32] {
        &self.index
    }

    /// The neighbours of all ranks.
    #[must_use]
    pub fn edges(&self) -> &[i32] {
        &self.edges
    }

    /// The neighbours of a rank.
    ///
    /// # Errors
    /// `Rank` for a rank that is none.
    pub fn neighbours(&self, rank: i32) -> Result<&[i32]> {
        let rank = check_rank("MPI_Graph_neighbors", "rank", rank, self.index.len() as u32)?;
        let end = |rank: u32| self.index[rank as usize] as usize;
        let start = rank.checked_sub(1).map_or(0, end);
        Ok(&self.edges[start..end(rank)])
    }

    pub(super) fn all_of(&self, rank: u32) -> Neighbours {
        let own = self.neighbours(rank.cast_signed()).unwrap_or(&[]);
        let both: Vec<Option<u32>> = own.iter().map(|rank| Some(rank.cast_unsigned())).collect();
        Neighbours::in_order(both.clone(), both)
    }
}

impl Comm {
    /// `MPI_Graph_create`: a graph of the first ranks; `None` for the remaining ranks.
    ///
    /// # Errors
    /// `Topology` if the graph has more nodes than there are ranks, `Comm` for an intercommunicator.
    pub fn with_graph(&self, graph: Graph) -> Result<Option<Arc<Self>>> {
        const NAME: &str = "MPI_Graph_create";
        self.check_intra(NAME)?;
        let nodes = graph.index.len();
        if nodes > self.size() as usize {
            return Err(too_large(NAME, nodes as u64, self.size()));
        }
        self.on(NAME, nodes as u32, Topology::Graph(graph))
    }

    /// The graph of the communicator.
    ///
    /// # Errors
    /// `Topology` if it has none.
    pub fn graph(&self) -> Result<&Graph> {
        match self.topology().map(|topology| &**topology) {
            Some(Topology::Graph(graph)) => Ok(graph),
            _ => Err(Error::new(
                ErrorClass::Topology,
                "the communicator has no graph topology; make one with MPI_Graph_create",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_found_by_the_index() {
        let graph = Graph::new(&[2, 3, 4, 6], &[1, 3, 0, 3, 0, 2]).unwrap();
        let of = |rank| graph.neighbours(rank).unwrap().to_vec();
        assert_eq!([of(0), of(1), of(2), of(3)].concat(), graph.edges());
        assert_eq!(of(3), [0, 2]);
        assert_eq!(graph.neighbours(4).unwrap_err().class(), ErrorClass::Rank);
        assert_eq!(graph.neighbours(-1).unwrap_err().class(), ErrorClass::Rank);
    }

    #[test]
    fn wrong_graphs_are_refused() {
        let class = |index: &[i32], edges: &[i32]| Graph::new(index, edges).unwrap_err().class();
        assert_eq!(class(&[2, 1], &[0, 1]), ErrorClass::Arg);
        assert_eq!(class(&[1, 3], &[0, 1]), ErrorClass::Arg);
        assert_eq!(class(&[1, 2], &[0, 2]), ErrorClass::Rank);
        assert!(Graph::new(&[], &[]).unwrap().edges().is_empty());
    }
}
