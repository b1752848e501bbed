//! Groups: ordered sets of processes (MPI 5.0, section 7.3).

use std::collections::HashMap;

use weft_fabric::Peer;

use crate::error::{Error, ErrorClass, Result};

/// An ordered set of processes. Rank `r` of the group is the peer `peer(r)`.
#[derive(Clone, Debug)]
pub struct Group {
    peers: Members,
}

#[derive(Clone, Debug)]
enum Members {
    /// Ranks `0..n` are the peers `0..n`.
    Identity(u32),
    Listed {
        peers: Box<[Peer]>,
        ranks: HashMap<Peer, u32>,
    },
}

impl Group {
    /// The group of the peers `0..size` in order.
    #[must_use]
    pub fn identity(size: u32) -> Self {
        Self {
            peers: Members::Identity(size),
        }
    }

    /// The group of these peers in this order; each at most once (the first place counts).
    #[must_use]
    pub fn of(peers: Vec<Peer>) -> Self {
        if peers
            .iter()
            .enumerate()
            .all(|(rank, peer)| peer.index() == rank)
        {
            return Self::identity(peers.len() as u32);
        }
        let mut ranks = HashMap::with_capacity(peers.len());
        for (rank, peer) in peers.iter().enumerate() {
            ranks.entry(*peer).or_insert(rank as u32);
        }
        Self {
            peers: Members::Listed {
                peers: peers.into(),
                ranks,
            },
        }
    }

    /// Number of processes.
    #[inline]
    #[must_use]
    pub fn size(&self) -> u32 {
        match &self.peers {
            Members::Identity(size) => *size,
            Members::Listed { peers, .. } => peers.len() as u32,
        }
    }

    /// Whether ranks and peers are the same numbers.
    #[inline]
    #[must_use]
    pub fn is_identity(&self) -> bool {
        matches!(self.peers, Members::Identity(_))
    }

    /// The process of a rank, which must be less than [`Self::size`].
    #[inline]
    #[must_use]
    pub fn peer(&self, rank: u32) -> Peer {
        match &self.peers {
            Members::Identity(_) => Peer(rank),
            Members::Listed { peers, .. } => peers[rank as usize],
        }
    }

    /// The rank of a process, if it is a member.
    #[must_use]
    pub fn rank_of(&self, peer: Peer) -> Option<u32> {
        match &self.peers {
            Members::Identity(size) => (peer.0 < *size).then_some(peer.0),
            Members::Listed { ranks, .. } => ranks.get(&peer).copied(),
        }
    }

    /// All members in order of rank.
    pub fn members(&self) -> impl Iterator<Item = Peer> + '_ {
        (0..self.size()).map(|rank| self.peer(rank))
    }
}

/// Result of comparing two groups or communicators (MPI 5.0, sections 7.3.1 and 7.4.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Comparison {
    /// The same object.
    Identical,
    /// Same members, same order; of communicators: another context.
    Congruent,
    /// Same members, other order.
    Similar,
    /// Other members.
    Unequal,
}

/// A range of ranks: first, last, stride (MPI 5.0, section 7.3.2).
pub type Range = (i32, i32, i32);

impl Group {
    /// Compares members and order: `Identical` means that both are the same.
    #[must_use]
    pub fn compare(&self, other: &Self) -> Comparison {
        if self.size() != other.size() {
            Comparison::Unequal
        } else if self.members().eq(other.members()) {
            Comparison::Identical
        } else if self.members().all(|peer| other.rank_of(peer).is_some()) {
            Comparison::Similar
        } else {
            Comparison::Unequal
        }
    }

    /// All members of `self`, then those of `other` that are not in `self`.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let added = other.members().filter(|peer| self.rank_of(*peer).is_none());
        Self::of(self.members().chain(added).collect())
    }

    /// Members of both, in the order of `self`.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        Self::of(
            self.members()
                .filter(|peer| other.rank_of(*peer).is_some())
                .collect(),
        )
    }

    /// Members of `self` that are not in `other`.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        Self::of(
            self.members()
                .filter(|peer| other.rank_of(*peer).is_none())
                .collect(),
        )
    }

    /// The members of these ranks, in the order given.
    ///
    /// # Errors
    /// `Rank` for a rank that is none, or one that comes twice.
    pub fn include(&self, ranks: &[i32]) -> Result<Self> {
        self.include_all(ranks.iter().copied().map(Ok))
    }

    fn include_all(&self, ranks: impl Iterator<Item = Result<i32>>) -> Result<Self> {
        let chosen = self.distinct(ranks)?;
        Ok(Self::of(
            chosen.iter().map(|rank| self.peer(*rank)).collect(),
        ))
    }

    /// The members but those of these ranks.
    ///
    /// # Errors
    /// As for [`Self::include`].
    pub fn exclude(&self, ranks: &[i32]) -> Result<Self> {
        self.exclude_all(ranks.iter().copied().map(Ok))
    }

    fn exclude_all(&self, ranks: impl Iterator<Item = Result<i32>>) -> Result<Self> {
        let mut out = vec![false; self.size() as usize];
        for rank in self.distinct(ranks)? {
            out[rank as usize] = true;
        }
        Ok(Self::of(
            (0..self.size())
                .filter(|rank| !out[*rank as usize])
                .map(|rank| self.peer(rank))
                .collect(),
        ))
    }

    /// As [`Self::include`], with ranges.
    ///
    /// # Errors
    /// As for [`Self::include`]; `Arg` for a stride of zero.
    pub fn include_ranges(&self, ranges: &[Range]) -> Result<Self> {
        self.include_all(expand(ranges))
    }

    /// As [`Self::exclude`], with ranges.
    ///
    /// # Errors
    /// As for [`Self::include_ranges`].
    pub fn exclude_ranges(&self, ranges: &[Range]) -> Result<Self> {
        self.exclude_all(expand(ranges))
    }

    /// The ranks, checked. It ends at the first one that is wrong, so that however many are named, no
    /// more are looked at than there are members.
    fn distinct(&self, ranks: impl Iterator<Item = Result<i32>>) -> Result<Vec<u32>> {
        let mut seen = vec![false; self.size() as usize];
        ranks
            .map(|rank| {
                let rank = rank?;
                let index = usize::try_from(rank)
                    .ok()
                    .filter(|index| *index < seen.len());
                let Some(index) = index else {
                    return Err(Error::new(
                        ErrorClass::Rank,
                        format!(
                            "there is no rank {rank} in a group of {}; ranks start at 0",
                            self.size()
                        ),
                    ));
                };
                if std::mem::replace(&mut seen[index], true) {
                    return Err(Error::new(
                        ErrorClass::Rank,
                        format!(
                            "rank {rank} is named twice; name each rank of the group at most once"
                        ),
                    ));
                }
                Ok(index as u32)
            })
            .collect()
    }
}

/// The ranks of ranges, one after the other; an error for a stride of zero.
fn expand(ranges: &[Range]) -> impl Iterator<Item = Result<i32>> {
    ranges.iter().flat_map(|&(first, last, stride)| {
        let bad = (stride == 0).then(|| {
            Err(Error::new(
                ErrorClass::Arg,
                format!(
                    "the range {first}..{last} has a stride of 0; give a stride that leads from the first rank to the last"
                ),
            ))
        });
        let within = move |rank: &i32| {
            if stride > 0 {
                *rank <= last
            } else {
                *rank >= last
            }
        };
        let ranks = std::iter::successors(Some(first), move |rank| rank.checked_add(stride))
            .take_while(move |rank| stride != 0 && within(rank));
        bad.into_iter().chain(ranks.map(Ok))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranks(group: &Group) -> Vec<u32> {
        group.members().map(|peer| peer.0).collect()
    }

    #[test]
    fn sets_keep_the_order_of_the_standard() {
        let world = Group::identity(6);
        let odd = world.include_ranges(&[(1, 5, 2)]).unwrap();
        let back = world.include_ranges(&[(5, 0, -1)]).unwrap();
        assert_eq!(ranks(&odd), [1, 3, 5]);
        assert_eq!(ranks(&back), [5, 4, 3, 2, 1, 0]);
        assert_eq!(ranks(&back.intersection(&odd)), [5, 3, 1]);
        assert_eq!(ranks(&odd.union(&back)), [1, 3, 5, 4, 2, 0]);
        assert_eq!(ranks(&world.difference(&odd)), [0, 2, 4]);
        assert_eq!(ranks(&world.exclude(&[0, 5]).unwrap()), [1, 2, 3, 4]);
        assert_eq!(world.compare(&back), Comparison::Similar);
        assert_eq!(world.compare(&odd), Comparison::Unequal);
        assert_eq!(odd.rank_of(Peer(5)), Some(2));
    }

    #[test]
    fn bad_ranks_are_named() {
        let world = Group::identity(3);
        for (ranks, class) in [
            (&[3][..], ErrorClass::Rank),
            (&[-1], ErrorClass::Rank),
            (&[1, 1], ErrorClass::Rank),
        ] {
            assert_eq!(world.include(ranks).unwrap_err().class(), class);
        }
        assert_eq!(
            world.include_ranges(&[(0, 2, 0)]).unwrap_err().class(),
            ErrorClass::Arg
        );
        assert_eq!(
            world
                .include_ranges(&[(i32::MAX - 1, i32::MAX, 1)])
                .unwrap_err()
                .class(),
            ErrorClass::Rank
        );
    }
    /// Ranges of 2^31 ranks: the first one that is none ends it, whatever the memory.
    #[test]
    fn ranges_longer_than_any_group_end_at_once() {
        let world = Group::identity(3);
        for range in [
            (0, i32::MAX, 1),
            (i32::MIN, i32::MAX, 1),
            (i32::MAX, i32::MIN, -1),
            (2, i32::MIN, -1),
        ] {
            let class = |made: Result<Group>| made.unwrap_err().class();
            assert_eq!(class(world.include_ranges(&[range])), ErrorClass::Rank);
            assert_eq!(class(world.exclude_ranges(&[range])), ErrorClass::Rank);
        }
        for range in [
            (0, 2, i32::MAX),
            (0, i32::MIN + 1, i32::MIN),
            (2, 0, i32::MIN),
        ] {
            let first = world.include_ranges(&[range]).unwrap();
            assert_eq!(ranks(&first), [range.0 as u32], "{range:?}");
        }
    }
}
