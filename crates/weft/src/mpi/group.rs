//! Groups: ordered sets of processes (MPI 5.0, section 7.3).

use std::sync::Arc;

use weft_mpi::{Error, ErrorClass, Result};

use super::communicator::Comparison;

/// An ordered set of processes.
///
/// ```
/// use weft::mpi;
///
/// mpi::test(4, |world| {
///     let all = world.group();
///     let ends = all.include(&[0, 3])?;
///     let middle = all.difference(&ends);
///     assert_eq!((ends.size(), middle.size()), (2, 2));
///     assert_eq!(all.translate(&[1, 3], &ends), [None, Some(1)]);
///     Ok(())
/// });
/// ```
#[derive(Clone, Debug)]
pub struct Group {
    group: Arc<weft_mpi::Group>,
}

impl Group {
    pub(super) fn of(group: Arc<weft_mpi::Group>) -> Self {
        Self { group }
    }

    pub(super) fn shared(&self) -> &Arc<weft_mpi::Group> {
        &self.group
    }

    /// Number of processes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.group.size() as usize
    }

    /// The members with these ranks, in this order.
    ///
    /// # Errors
    /// `Rank` for a rank that does not exist, or is given twice.
    pub fn include(&self, ranks: &[usize]) -> Result<Self> {
        Ok(Self::of(Arc::new(self.group.include(&numbers(ranks)?)?)))
    }

    /// All members except those with these ranks.
    ///
    /// # Errors
    /// `Rank` for a rank that does not exist, or is given twice.
    pub fn exclude(&self, ranks: &[usize]) -> Result<Self> {
        Ok(Self::of(Arc::new(self.group.exclude(&numbers(ranks)?)?)))
    }

    /// All members, then those of `other` that are not among them.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        Self::of(Arc::new(self.group.union(&other.group)))
    }

    /// The members that are in both groups.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        Self::of(Arc::new(self.group.intersection(&other.group)))
    }

    /// The members that are not in `other`.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        Self::of(Arc::new(self.group.difference(&other.group)))
    }

    /// Whether two groups have the same members in the same order.
    #[must_use]
    pub fn compare(&self, other: &Self) -> Comparison {
        self.group.compare(&other.group)
    }

    /// The ranks of members of this group in another one (`MPI_Group_translate_ranks`); `None` for a member of only one
    /// of the two.
    #[must_use]
    pub fn translate(&self, ranks: &[usize], other: &Self) -> Vec<Option<usize>> {
        let one = |rank: &usize| {
            let rank = u32::try_from(*rank)
                .ok()
                .filter(|rank| *rank < self.group.size())?;
            let there = other.group.rank_of(self.group.peer(rank))?;
            Some(there as usize)
        };
        ranks.iter().map(one).collect()
    }
}

fn numbers(ranks: &[usize]) -> Result<Vec<i32>> {
    let number = |rank: &usize| {
        i32::try_from(*rank).map_err(|_| {
            Error::new(
                ErrorClass::Rank,
                format!("there is no rank {rank} in any group; check it against the size"),
            )
        })
    };
    ranks.iter().map(number).collect()
}
