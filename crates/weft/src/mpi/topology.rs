//! Communicators with a topology, and collectives among neighbours (MPI 5.0, chapter 8).

use std::ops::Deref;

use weft_mpi::coll;
use weft_mpi::comm::topology::{Cartesian, Neighbours};
use weft_mpi::{Error, ErrorClass, Result};

use super::communicator::Communicator;
use super::memory::{Memory, View};
use super::{Blocks, Buffer, Element};

/// Lengths of a grid of `ranks` places, as equal as possible, the largest first (`MPI_Dims_create`).
///
/// ```
/// assert_eq!(weft::mpi::dims_create(24, 3), [4, 3, 2]);
/// ```
///
/// # Panics
/// If there are no ranks, or no dimensions.
#[must_use]
pub fn dims_create(ranks: usize, dimensions: usize) -> Vec<usize> {
    let ranks = u32::try_from(ranks).unwrap_or(u32::MAX);
    assert!(
        ranks > 0 && dimensions > 0,
        "a grid has at least one place and one dimension"
    );
    let lengths = weft_mpi::comm::topology::balanced_factors(ranks, dimensions);
    lengths.into_iter().map(|length| length as usize).collect()
}

/// A communicator whose ranks know their neighbours: [`Grid`] and [`Graph`] dereference to it.
///
/// Blocks are in the order of [`sources`](Self::sources); the block of a missing neighbour is empty.
#[derive(Clone, Debug)]
pub struct Neighbourhood {
    comm: Communicator,
    neighbours: Neighbours,
}

impl Deref for Neighbourhood {
    type Target = Communicator;

    fn deref(&self) -> &Communicator {
        &self.comm
    }
}

fn ranks(ranks: &[Option<u32>]) -> Vec<Option<usize>> {
    let rank = |rank: &Option<u32>| rank.map(|rank| rank as usize);
    ranks.iter().map(rank).collect()
}

impl Neighbourhood {
    fn of(comm: Communicator) -> Result<Self> {
        let neighbours = comm.comm().neighbours()?.clone();
        Ok(Self { comm, neighbours })
    }

    /// The ranks that this rank receives from; in a grid the lower and the upper neighbour in each dimension, `None`
    /// beyond its edge.
    #[must_use]
    pub fn sources(&self) -> Vec<Option<usize>> {
        ranks(&self.neighbours.sources)
    }

    /// The ranks that this rank sends to.
    #[must_use]
    pub fn destinations(&self) -> Vec<Option<usize>> {
        ranks(&self.neighbours.destinations)
    }

    /// Counts, with none from who is not there.
    fn senders_of(&self, counts: &[usize]) -> Vec<usize> {
        let there = self.neighbours.sources.iter().map(Option::is_some);
        counts
            .iter()
            .zip(there)
            .map(|(count, there)| if there { *count } else { 0 })
            .collect()
    }

    /// Sends this rank's elements to all its neighbours, and receives theirs (`MPI_Neighbor_allgather`); all give the
    /// same number.
    ///
    /// ```
    /// use weft::mpi;
    ///
    /// mpi::test(4, |world| {
    ///     let line = world.grid(&[4], &[false])?.expect("a place for each rank");
    ///     let around = line.neighbour_allgather(&line.rank())?;
    ///     if line.rank() == 0 {
    ///         assert_eq!((around.block(0), around.block(1)), (&[][..], &[1][..]));
    ///     }
    ///     Ok(())
    /// });
    /// ```
    ///
    /// # Errors
    /// `Truncate` if lengths differ, `Type` if a received element is no valid value of the type.
    pub fn neighbour_allgather<B: Buffer + ?Sized>(
        &self,
        buffer: &B,
    ) -> Result<Blocks<B::Element>> {
        let send = View::reading(buffer.elements());
        let counts = self.senders_of(&vec![send.len(); self.neighbours.sources.len()]);
        let total = counts.iter().sum();
        let all = Memory::<B::Element>::zeroed(total)?;
        self.run(coll::neighbour_allgather(
            "MPI_Neighbor_allgather",
            &self.neighbours,
            &send.buffer(),
            &all.view().listed(&counts)?,
        )?)?;
        Ok(Blocks::made(all.into_vec(total)?, counts))
    }

    /// Sends a block to each neighbour, and receives one from each, of any length (`MPI_Neighbor_alltoallv`, after an
    /// exchange of the counts). Blocks are given in the order of [`destinations`](Self::destinations).
    ///
    /// ```
    /// use weft::mpi::{self, Blocks};
    ///
    /// mpi::test(3, |world| {
    ///     let ring = world.grid(&[3], &[true])?.expect("a place for each rank");
    ///     let rank = ring.rank();
    ///     let blocks: Blocks<usize> = [vec![rank; 1], vec![rank; 2]].into_iter().collect(); // to the left, to the right
    ///     let came = ring.neighbour_alltoallv(&blocks)?;
    ///     assert_eq!(came.block(0), [(rank + 2) % 3; 2]); // what the left one gives to its right
    ///     assert_eq!(came.block(1), [(rank + 1) % 3; 1]);
    ///     Ok(())
    /// });
    /// ```
    ///
    /// # Errors
    /// `Count` unless there is a block for each destination; `Type` if a received element is no valid value of the type.
    pub fn neighbour_alltoallv<T: Element>(&self, blocks: &Blocks<T>) -> Result<Blocks<T>> {
        const NAME: &str = "MPI_Neighbor_alltoallv";
        let (sources, destinations) = (
            self.neighbours.sources.len(),
            self.neighbours.destinations.len(),
        );
        if blocks.len() != destinations {
            return Err(Error::new(
                ErrorClass::Count,
                format!(
                    "{NAME}: {} blocks for {destinations} neighbours; give one for each destination",
                    blocks.len()
                ),
            ));
        }
        let counts = Memory::<usize>::zeroed(sources)?;
        self.run(coll::neighbour_alltoall(
            NAME,
            &self.neighbours,
            &View::reading(blocks.counts()).listed(&vec![1; destinations])?,
            &counts.view().listed(&vec![1; sources])?,
        )?)?;
        let counts = self.senders_of(&counts.into_vec(sources)?);
        let total = counts.iter().sum();
        let all = Memory::<T>::zeroed(total)?;
        self.run(coll::neighbour_alltoall(
            NAME,
            &self.neighbours,
            &View::reading(blocks.elements()).listed(blocks.counts())?,
            &all.view().listed(&counts)?,
        )?)?;
        Ok(Blocks::made(all.into_vec(total)?, counts))
    }
}

/// A communicator whose ranks are the places of a grid: rank 0 at the origin, the last dimension fastest.
///
/// ```
/// use weft::mpi;
///
/// mpi::test(6, |world| {
///     let grid = world.grid(&[2, 3], &[false, true])?.expect("a place for each rank");
///     let place = grid.coordinates(grid.rank());
///     let (from, to) = grid.shift(1, 1)?; // along the second dimension, which is a ring
///     let (came, _) = grid.send_receive(&place, to, 0, from, 0)?;
///     assert_eq!(came, [place[0], (place[1] + 2) % 3]);
///     let row = grid.part(&[false, true])?;
///     assert_eq!((row.size(), row.rank()), (3, place[1]));
///     Ok(())
/// });
/// ```
#[derive(Clone, Debug)]
pub struct Grid {
    neighbourhood: Neighbourhood,
}

impl Deref for Grid {
    type Target = Neighbourhood;

    fn deref(&self) -> &Neighbourhood {
        &self.neighbourhood
    }
}

impl Grid {
    fn of(comm: Communicator) -> Result<Self> {
        comm.comm().grid()?;
        Ok(Self {
            neighbourhood: Neighbourhood::of(comm)?,
        })
    }

    fn cartesian(&self) -> &Cartesian {
        self.comm().grid().expect("it was made with a grid")
    }

    /// The lengths of its dimensions.
    #[must_use]
    pub fn lengths(&self) -> Vec<usize> {
        let lengths = self.cartesian().dims().iter();
        lengths.map(|length| *length as usize).collect()
    }

    /// Coordinates of a rank.
    ///
    /// # Panics
    /// If there is no such rank.
    #[must_use]
    pub fn coordinates(&self, rank: usize) -> Vec<usize> {
        assert!(
            rank < self.size(),
            "no rank {rank} in a grid of {}",
            self.size()
        );
        let coordinates = self.cartesian().coordinates(rank as u32);
        coordinates.into_iter().map(|at| at as usize).collect()
    }

    /// The rank at these coordinates; those of rings wrap around any number of times.
    ///
    /// # Errors
    /// `Arg` for coordinates outside the grid, `Dims` for too few or too many coordinates.
    pub fn rank_at(&self, place: &[i32]) -> Result<usize> {
        let dimensions = self.cartesian().dims().len();
        if place.len() != dimensions {
            return Err(Error::new(
                ErrorClass::Dims,
                format!(
                    "{} coordinates in a grid of {dimensions} dimensions; give one for each",
                    place.len()
                ),
            ));
        }
        Ok(self.cartesian().rank(place)? as usize)
    }

    /// The ranks to receive from and to send to, so that data move `distance` places along a dimension
    /// (`MPI_Cart_shift`). `None` beyond the edge.
    ///
    /// # Errors
    /// `Dims` for a dimension that does not exist.
    pub fn shift(&self, dimension: usize, distance: i32) -> Result<(Option<usize>, Option<usize>)> {
        let dimension = i32::try_from(dimension).unwrap_or(i32::MAX);
        let rank = self.comm().rank();
        let (from, to) = self.cartesian().shift(rank, dimension, distance)?;
        Ok((from.map(|rank| rank as usize), to.map(|rank| rank as usize)))
    }

    /// Divides the grid into subgrids, and returns that of this rank (`MPI_Cart_sub`). `stays` says for each dimension
    /// whether the subgrid has it. Collective.
    ///
    /// # Errors
    /// `Dims` unless all dimensions are named; if no context is left, or a member is lost.
    pub fn part(&self, stays: &[bool]) -> Result<Self> {
        let dimensions = self.cartesian().dims().len();
        if stays.len() != dimensions {
            return Err(Error::new(
                ErrorClass::Dims,
                format!(
                    "{} answers for a grid of {dimensions} dimensions; say for each whether it stays",
                    stays.len()
                ),
            ));
        }
        let part = self.comm().part_of_grid(stays)?;
        Self::of(Communicator::new(self.made(part)))
    }
}

/// A communicator of which each rank has named its neighbours.
///
/// ```
/// use weft::mpi;
///
/// mpi::test(3, |world| {
///     // Rank 0 gives to all others.
///     let (from, to) = if world.rank() == 0 { (vec![], vec![1, 2]) } else { (vec![0], vec![]) };
///     let star = world.graph(&from, &to)?;
///     let came = star.neighbour_allgather(&['x'])?;
///     assert_eq!(came.len(), from.len());
///     Ok(())
/// });
/// ```
#[derive(Clone, Debug)]
pub struct Graph {
    neighbourhood: Neighbourhood,
}

impl Deref for Graph {
    type Target = Neighbourhood;

    fn deref(&self) -> &Neighbourhood {
        &self.neighbourhood
    }
}

impl Communicator {
    /// A grid of these lengths of the first ranks, each dimension a ring or not (`MPI_Cart_create`). `None` for the
    /// remaining ranks. Collective.
    ///
    /// # Errors
    /// `Topology` if the grid has more places than there are ranks, `Dims` for a length of 0 or lists that differ.
    pub fn grid(&self, lengths: &[usize], rings: &[bool]) -> Result<Option<Grid>> {
        let length = |length: &usize| i32::try_from(*length).unwrap_or(i32::MAX);
        let lengths: Vec<i32> = lengths.iter().map(length).collect();
        let made = self.comm().cartesian(Cartesian::new(&lengths, rings)?)?;
        made.map(|comm| Grid::of(Self::new(self.made(comm))))
            .transpose()
    }

    /// A communicator in which this rank receives from `sources` and sends to `destinations`
    /// (`MPI_Dist_graph_create_adjacent`). If one rank names another, that one must name it, too. Collective.
    ///
    /// # Errors
    /// `Rank` for a neighbour that is no rank.
    pub fn graph(&self, sources: &[usize], destinations: &[usize]) -> Result<Graph> {
        let edges = |ranks: &[usize]| -> Vec<(i32, i32)> {
            let edge = |rank: &usize| (i32::try_from(*rank).unwrap_or(i32::MAX), 1);
            ranks.iter().map(edge).collect()
        };
        let made = self
            .comm()
            .adjacent(&edges(sources), &edges(destinations), false)?;
        let comm = Self::new(self.made(made));
        Ok(Graph {
            neighbourhood: Neighbourhood::of(comm)?,
        })
    }
}
