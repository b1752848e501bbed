//! Distributed graphs, in which each rank knows its own edges (MPI 5.0, section 8.5.4).

use std::sync::Arc;

use super::{Comm, Neighbours, Topology, check_rank};
use crate::buffer::Buffer;
use crate::coll::{self, Blocks, Members};
use crate::error::{Error, ErrorClass, Result};

/// The edges of one rank. Weights are kept as they were given; without weights, all are 1.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Distributed {
    /// Edges that end here: their sources, and their weights.
    pub sources: Vec<(u32, i32)>,
    /// Edges that begin here: their destinations, and their weights.
    pub destinations: Vec<(u32, i32)>,
    /// Whether weights were given.
    pub weighted: bool,
}

/// An edge that some rank names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Edge {
    /// Where it begins.
    pub source: i32,
    /// Where it ends.
    pub destination: i32,
    /// Its weight.
    pub weight: i32,
}

impl Distributed {
    pub(super) fn neighbours(&self) -> Neighbours {
        let ranks = |edges: &[(u32, i32)]| edges.iter().map(|(rank, _)| Some(*rank)).collect();
        Neighbours::in_order(ranks(&self.sources), ranks(&self.destinations))
    }
}

/// The message for an edge: which end the receiver is, the other end, the weight.
const WORDS: usize = 3;
const BYTES: usize = WORDS * 4;

impl Comm {
    /// `MPI_Dist_graph_create_adjacent`: each rank names the edges that begin and end at it.
    ///
    /// # Errors
    /// `Rank` for a neighbour that is no rank, `Comm` for an intercommunicator.
    pub fn adjacent(
        &self,
        sources: &[(i32, i32)],
        destinations: &[(i32, i32)],
        weighted: bool,
    ) -> Result<Arc<Self>> {
        const NAME: &str = "MPI_Dist_graph_create_adjacent";
        self.check_intra(NAME)?;
        let size = self.size();
        let checked = |edges: &[(i32, i32)]| {
            let one = |(rank, weight): &(i32, i32)| {
                Ok((check_rank(NAME, "a neighbour", *rank, size)?, *weight))
            };
            edges.iter().map(one).collect::<Result<Vec<_>>>()
        };
        let edges = Distributed {
            sources: checked(sources)?,
            destinations: checked(destinations)?,
            weighted,
        };
        self.with_edges(NAME, edges)
    }

    /// `MPI_Dist_graph_create`: each rank gives any edges; both ends of each edge are told of it.
    ///
    /// # Errors
    /// As for [`Self::adjacent`].
    pub fn distributed(&self, edges: &[Edge], weighted: bool) -> Result<Arc<Self>> {
        const NAME: &str = "MPI_Dist_graph_create";
        self.check_intra(NAME)?;
        let size = self.size();
        let mut words: Vec<Vec<i32>> = vec![Vec::new(); size as usize];
        for edge in edges {
            let source = check_rank(NAME, "a source", edge.source, size)?;
            let destination = check_rank(NAME, "a destination", edge.destination, size)?;
            words[source as usize].extend([0, edge.destination, edge.weight]);
            words[destination as usize].extend([1, edge.source, edge.weight]);
        }
        let told = self.exchange_words(&words)?;
        let mut own = Distributed {
            weighted,
            ..Distributed::default()
        };
        for edge in told.chunks_exact(WORDS) {
            let other = (
                check_rank(NAME, "the end of an edge", edge[1], size)?,
                edge[2],
            );
            if edge[0] == 0 {
                own.destinations.push(other);
            } else {
                own.sources.push(other);
            }
        }
        self.with_edges(NAME, own)
    }

    /// Lists of edges to each rank; what all of them tell this one, in the order of ranks.
    fn exchange_words(&self, words: &[Vec<i32>]) -> Result<Vec<i32>> {
        let members = Members::of(self);
        let mut counts: Vec<u8> = words
            .iter()
            .flat_map(|list| (list.len() as u32 * 4).to_le_bytes())
            .collect();
        let mut theirs = vec![0; counts.len()];
        let even = vec![4; words.len()];
        let schedule = coll::alltoallv(
            "MPI_Dist_graph_create",
            &members,
            Some(&blocks(&mut counts, &even)?),
            &blocks(&mut theirs, &even)?,
        )?;
        self.run(schedule)?;
        let lengths = |bytes: &[u8]| -> Vec<usize> {
            let word = |word: &[u8]| u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
            bytes
                .chunks_exact(4)
                .map(|four| word(four) as usize)
                .collect()
        };
        let (ours, theirs) = (lengths(&counts), lengths(&theirs));
        if let Some(odd) = theirs.iter().find(|length| **length % BYTES != 0) {
            return Err(Error::new(
                ErrorClass::Intern,
                format!("a list of edges of {odd} bytes came; please report this"),
            ));
        }
        let mut out: Vec<u8> = words
            .iter()
            .flatten()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        let mut into = vec![0; theirs.iter().sum()];
        let schedule = coll::alltoallv(
            "MPI_Dist_graph_create",
            &members,
            Some(&blocks(&mut out, &ours)?),
            &blocks(&mut into, &theirs)?,
        )?;
        self.run(schedule)?;
        let word = |four: &[u8]| i32::from_le_bytes([four[0], four[1], four[2], four[3]]);
        Ok(into.chunks_exact(4).map(word).collect())
    }

    fn with_edges(&self, name: &'static str, edges: Distributed) -> Result<Arc<Self>> {
        let comm = self.on(name, self.size(), Topology::Distributed(edges))?;
        Ok(comm.expect("all ranks are in the graph"))
    }

    /// The edges of this rank.
    ///
    /// # Errors
    /// `Topology` if the communicator has no distributed graph.
    pub fn edges(&self) -> Result<&Distributed> {
        match self.topology().map(|topology| &**topology) {
            Some(Topology::Distributed(edges)) => Ok(edges),
            _ => Err(Error::new(
                ErrorClass::Topology,
                "the communicator has no distributed graph topology; make one with MPI_Dist_graph_create",
            )),
        }
    }
}

/// Blocks of bytes, one after the other, for a collective that ends before the memory does.
fn blocks(bytes: &mut [u8], lengths: &[usize]) -> Result<Blocks> {
    let whole = crate::buffer::region_of(bytes);
    let mut start = 0;
    let part = |length: &usize| {
        let part = whole.part(start, *length);
        start += length;
        part.map(Buffer::untyped).ok_or_else(|| {
            Error::new(
                ErrorClass::Intern,
                "blocks beyond their memory; please report this",
            )
        })
    };
    Ok(Blocks::of(lengths.iter().map(part).collect::<Result<_>>()?))
}
