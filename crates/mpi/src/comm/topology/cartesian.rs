//! Grids (MPI 5.0, section 8.5).

use std::sync::Arc;

use super::{Comm, Neighbours, Shape, Topology, too_large};
use crate::error::{Error, ErrorClass, Result};

/// A grid: rank 0 is at the origin, the last dimension runs fastest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cartesian {
    dims: Box<[u32]>,
    periods: Box<[bool]>,
}

impl Cartesian {
    /// A grid of these lengths, closed to a ring where `periods` says so.
    ///
    /// # Errors
    /// `Dims` for a length below 1 or lists of different lengths.
    pub fn new(dims: &[i32], periods: &[bool]) -> Result<Self> {
        if dims.len() != periods.len() {
            return Err(Error::new(
                ErrorClass::Dims,
                format!(
                    "{} lengths and {} periods; give one of each for a dimension",
                    dims.len(),
                    periods.len()
                ),
            ));
        }
        let length = |dim: &i32| u32::try_from(*dim).ok().filter(|dim| *dim > 0);
        let lengths = dims.iter().map(|dim| {
            length(dim).ok_or_else(|| {
                Error::new(
                    ErrorClass::Dims,
                    format!("a dimension of length {dim}; it must be at least 1"),
                )
            })
        });
        Ok(Self {
            dims: lengths.collect::<Result<_>>()?,
            periods: periods.into(),
        })
    }

    /// The lengths.
    #[must_use]
    pub fn dims(&self) -> &[u32] {
        &self.dims
    }

    /// Which dimensions are rings.
    #[must_use]
    pub fn periods(&self) -> &[bool] {
        &self.periods
    }

    /// Number of places.
    #[must_use]
    pub fn places(&self) -> u64 {
        let lengths = self.dims.iter().map(|dim| u64::from(*dim));
        lengths.fold(1, u64::saturating_mul)
    }

    /// Coordinates of a rank.
    #[must_use]
    pub fn coordinates(&self, rank: u32) -> Vec<u32> {
        let mut rest = rank;
        let mut place: Vec<u32> = self
            .dims
            .iter()
            .rev()
            .map(|dim| {
                let here = rest % dim;
                rest /= dim;
                here
            })
            .collect();
        place.reverse();
        place
    }

    /// The rank at these coordinates; those of rings wrap around any number of times.
    ///
    /// # Errors
    /// `Arg` for coordinates outside the grid.
    pub fn rank(&self, place: &[i32]) -> Result<u32> {
        let mut rank = 0;
        for (dimension, (&at, &dim)) in place.iter().zip(&self.dims).enumerate() {
            let within = i64::from(at).rem_euclid(i64::from(dim)) as u32;
            if !self.periods[dimension] && i64::from(at) != i64::from(within) {
                return Err(Error::new(
                    ErrorClass::Arg,
                    format!(
                        "coordinate {dimension} is {at}, and the dimension, which is no ring, goes from 0 to {}",
                        dim - 1
                    ),
                ));
            }
            rank = rank * dim + within;
        }
        Ok(rank)
    }

    /// The ranks `distance` places away along a dimension: first the one to receive from, then the one to send to. `None`
    /// beyond the edge.
    ///
    /// # Errors
    /// `Dims` for a dimension that does not exist.
    pub fn shift(
        &self,
        rank: u32,
        dimension: i32,
        distance: i32,
    ) -> Result<(Option<u32>, Option<u32>)> {
        let Some(dimension) = usize::try_from(dimension)
            .ok()
            .filter(|dimension| *dimension < self.dims.len())
        else {
            return Err(Error::new(
                ErrorClass::Dims,
                format!(
                    "direction {dimension} of a grid with {} dimensions, which are counted from 0",
                    self.dims.len()
                ),
            ));
        };
        let distance = i64::from(distance);
        Ok((
            self.along(rank, dimension, -distance),
            self.along(rank, dimension, distance),
        ))
    }

    fn along(&self, rank: u32, dimension: usize, distance: i64) -> Option<u32> {
        let length = i64::from(self.dims[dimension]);
        let stride: u64 = self.dims[dimension + 1..]
            .iter()
            .map(|dim| u64::from(*dim))
            .product();
        let stride = stride.cast_signed();
        let here = i64::from(rank) / stride % length;
        let there = here + distance;
        let within = there.rem_euclid(length);
        if within != there && !self.periods[dimension] {
            return None;
        }
        u32::try_from(i64::from(rank) + (within - here) * stride).ok()
    }

    /// The places with the same coordinates but in the dimensions that stay: a number of that part of
    /// the grid, and its topology.
    fn part(&self, rank: u32, stays: &[bool]) -> (i32, Self) {
        let mut color = 0;
        let kept = || (0..self.dims.len()).filter(|place| stays[*place]);
        for (place, at) in self.coordinates(rank).into_iter().enumerate() {
            if !stays[place] {
                color = color * self.dims[place] + at;
            }
        }
        let part = Self {
            dims: kept().map(|place| self.dims[place]).collect(),
            periods: kept().map(|place| self.periods[place]).collect(),
        };
        (color.cast_signed(), part)
    }

    pub(super) fn neighbours(&self, rank: u32) -> Neighbours {
        let both: Vec<Option<u32>> = (0..self.dims.len())
            .flat_map(|dimension| [-1, 1].map(|step| self.along(rank, dimension, step)))
            .collect();
        Neighbours {
            // What the lower neighbour sends first goes down; up to us comes what it sends second.
            arrivals: (0..both.len()).map(|place| place ^ 1).collect(),
            sources: both.clone().into(),
            destinations: both.into(),
            itself: None,
        }
    }
}

impl Comm {
    /// `MPI_Cart_create`: a grid of the first ranks; `None` for the remaining ranks.
    ///
    /// # Errors
    /// `Topology` if the grid has more places than there are ranks, `Comm` for an intercommunicator.
    pub fn cartesian(&self, grid: Cartesian) -> Result<Option<Arc<Self>>> {
        const NAME: &str = "MPI_Cart_create";
        self.check_intra(NAME)?;
        match u32::try_from(grid.places()) {
            Ok(places) if places <= self.size() => self.on(NAME, places, Topology::Cartesian(grid)),
            _ => Err(too_large(NAME, grid.places(), self.size())),
        }
    }

    /// The grid of the communicator.
    ///
    /// # Errors
    /// `Topology` if it is none.
    pub fn grid(&self) -> Result<&Cartesian> {
        match self.topology().map(|topology| &**topology) {
            Some(Topology::Cartesian(grid)) => Ok(grid),
            _ => Err(Error::new(
                ErrorClass::Topology,
                "the communicator has no Cartesian topology; make one with MPI_Cart_create",
            )),
        }
    }

    /// `MPI_Cart_sub`: of the parts of the grid that agree in all other dimensions, the one of this
    /// rank. `stays`: for each dimension, whether it stays.
    ///
    /// # Errors
    /// `Topology` for a communicator without a grid; as for [`Self::split`].
    pub fn part_of_grid(&self, stays: &[bool]) -> Result<Arc<Self>> {
        let (color, part) = self.grid()?.part(self.rank(), stays);
        let plain = self
            .split(Some(color), self.rank().cast_signed())?
            .expect("everybody has a color");
        let shape = Shape::on(Topology::Cartesian(part));
        let group = Arc::clone(plain.group());
        Ok(
            Self::assemble(self.process(), plain.context(), group, shape)
                .expect("a member of the part"),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid() -> Cartesian {
        Cartesian::new(&[2, 3, 4], &[false, true, true]).unwrap()
    }

    #[test]
    fn ranks_and_places_are_each_other() {
        let grid = grid();
        for rank in 0..24 {
            let place: Vec<i32> = grid
                .coordinates(rank)
                .into_iter()
                .map(u32::cast_signed)
                .collect();
            assert_eq!(grid.rank(&place).unwrap(), rank);
        }
        assert_eq!(grid.coordinates(23), [1, 2, 3]);
        assert_eq!(
            grid.rank(&[1, -1, 7]).unwrap(),
            23,
            "rings are walked around"
        );
        assert_eq!(
            grid.rank(&[2, 0, 0]).unwrap_err().class(),
            ErrorClass::Arg,
            "the first dimension is no ring"
        );
    }

    #[test]
    fn shifts_stop_at_edges_and_close_rings() {
        let grid = grid();
        assert_eq!(grid.shift(0, 0, 1).unwrap(), (None, Some(12)));
        assert_eq!(grid.shift(0, 1, 1).unwrap(), (Some(8), Some(4)));
        assert_eq!(grid.shift(0, 2, -1).unwrap(), (Some(1), Some(3)));
        assert_eq!(grid.shift(5, 2, 5).unwrap(), (Some(4), Some(6)));
        assert_eq!(grid.shift(0, 3, 1).unwrap_err().class(), ErrorClass::Dims);
        assert_eq!(grid.shift(0, -1, 1).unwrap_err().class(), ErrorClass::Dims);
    }

    #[test]
    fn lengths_are_positive() {
        let class = |dims: &[i32]| {
            Cartesian::new(dims, &vec![false; dims.len()])
                .unwrap_err()
                .class()
        };
        assert_eq!(class(&[3, 0]), ErrorClass::Dims);
        assert_eq!(class(&[-1]), ErrorClass::Dims);
        assert_eq!(Cartesian::new(&[], &[]).unwrap().places(), 1);
    }
}
