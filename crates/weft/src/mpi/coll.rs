//! Collectives: all ranks of a communicator call them, in the same order (MPI 5.0, chapter 6).
//!
//! | | the result is made | into a buffer | in place | non-blocking |
//! |---|---|---|---|---|
//! | one to all | [`broadcast_vec`](Communicator::broadcast_vec), [`scatter`](Communicator::scatter), [`scatterv`](Communicator::scatterv) | [`scatter_into`](Communicator::scatter_into) | [`broadcast`](Communicator::broadcast) | [`ibroadcast`](Communicator::ibroadcast), [`iscatter`](Communicator::iscatter), [`iscatterv`](Communicator::iscatterv) |
//! | all to one | [`gather`](Communicator::gather), [`gatherv`](Communicator::gatherv), [`reduce`](Communicator::reduce) | [`gather_into`](Communicator::gather_into), [`reduce_into`](Communicator::reduce_into) | | [`igather`](Communicator::igather), [`igatherv`](Communicator::igatherv), [`ireduce`](Communicator::ireduce) |
//! | all to all | [`allgather`](Communicator::allgather), [`allgatherv`](Communicator::allgatherv), [`alltoall`](Communicator::alltoall), [`alltoallv`](Communicator::alltoallv), [`allreduce`](Communicator::allreduce), [`reduce_scatter`](Communicator::reduce_scatter), [`reduce_scatter_block`](Communicator::reduce_scatter_block) | [`allgather_into`](Communicator::allgather_into), [`alltoall_into`](Communicator::alltoall_into), [`allreduce_into`](Communicator::allreduce_into) | [`allgather_in_place`](Communicator::allgather_in_place), [`alltoall_in_place`](Communicator::alltoall_in_place), [`allreduce_in_place`](Communicator::allreduce_in_place) | [`iallgather`](Communicator::iallgather), [`iallgatherv`](Communicator::iallgatherv), [`ialltoall`](Communicator::ialltoall), [`ialltoallv`](Communicator::ialltoallv), [`iallreduce`](Communicator::iallreduce), [`ireduce_scatter`](Communicator::ireduce_scatter), [`ireduce_scatter_block`](Communicator::ireduce_scatter_block) |
//! | ranks before | [`scan`](Communicator::scan), [`exscan`](Communicator::exscan) | | [`scan_in_place`](Communicator::scan_in_place) | [`iscan`](Communicator::iscan), [`iexscan`](Communicator::iexscan) |
//!
//! Calls whose blocks differ in length first tell each other the lengths: one more collective of a number for each rank.
//! A wrong argument at one rank is an error only at that rank, unless the call says otherwise: the rank should then end.

mod exchanging;
mod gathering;
mod immediate;
mod immediate_blocks;
mod reducing;
mod spreading;

pub(in crate::mpi) use reducing::reduction;

use weft_mpi::coll::{Collective, Members};
use weft_mpi::{Error, ErrorClass, RequestId, Result};

use super::communicator::Communicator;

impl Communicator {
    pub(super) fn members(&self) -> Members {
        Members::of(self.comm())
    }

    pub(super) fn run<'a>(&self, collective: impl Into<Collective<'a>>) -> Result<()> {
        self.comm().run(collective)
    }

    pub(super) fn begin<'a>(&self, collective: impl Into<Collective<'a>>) -> Result<RequestId> {
        self.comm().begin(collective)
    }

    /// How many of `length` elements are each rank's.
    pub(super) fn share(&self, name: &str, length: usize) -> Result<usize> {
        let size = self.size();
        if length.is_multiple_of(size) {
            return Ok(length / size);
        }
        Err(Error::new(
            ErrorClass::Count,
            format!(
                "{name}: {length} elements cannot be shared evenly by {size} ranks; give a multiple of {size}, or use the call with blocks of different lengths"
            ),
        ))
    }

    /// An error unless a buffer is as long as it must be.
    pub(super) fn check_length(&self, name: &str, found: usize, expected: usize) -> Result<()> {
        if found == expected {
            return Ok(());
        }
        Err(Error::new(
            ErrorClass::Count,
            format!(
                "{name}: a buffer of {found} elements where {expected} are needed ({} ranks)",
                self.size()
            ),
        ))
    }
}

#[cfg(test)]
mod tests {
    use crate::mpi::{self, Blocks, ErrorClass, op};

    const SIZES: [usize; 4] = [1, 2, 3, 5];

    #[test]
    fn all_that_is_gathered_comes_from_where_it_should() {
        for size in SIZES {
            mpi::test(size, move |world| {
                let rank = world.rank();
                for root in 0..size {
                    let all = world.gather(&[rank, 7], root)?;
                    let expected: Vec<usize> = (0..size).flat_map(|rank| [rank, 7]).collect();
                    assert_eq!(all, (rank == root).then_some(expected));
                    let all = world.gatherv(&vec![rank as u8; rank], root)?;
                    if let Some(all) = all {
                        assert_eq!(rank, root);
                        assert_eq!(all.counts(), (0..size).collect::<Vec<_>>());
                        assert!(
                            all.iter()
                                .enumerate()
                                .all(|(rank, block)| block == vec![rank as u8; rank])
                        );
                    }
                }
                let all = world.allgatherv(&vec![rank; size - rank])?;
                for (rank, block) in all.iter().enumerate() {
                    assert_eq!(block, vec![rank; size - rank]);
                }
                let mut place = vec![0; size];
                place[rank] = rank;
                world.allgather_in_place(&mut place)?;
                assert_eq!(place, (0..size).collect::<Vec<_>>());
                Ok(())
            });
        }
    }

    #[test]
    fn what_is_scattered_goes_where_it_should() {
        for size in SIZES {
            mpi::test(size, move |world| {
                let rank = world.rank();
                for root in 0..size {
                    let all: Vec<usize> = (0..2 * size).collect();
                    let here = (rank == root).then_some(&all[..]);
                    assert_eq!(world.scatter(here, root)?, [2 * rank, 2 * rank + 1]);
                    let mut part = [0; 2];
                    world.scatter_into(here, &mut part, root)?;
                    assert_eq!(part, [2 * rank, 2 * rank + 1]);
                    let blocks: Blocks<usize> = (0..size).map(|rank| vec![rank; rank]).collect();
                    let here = (rank == root).then_some(&blocks);
                    assert_eq!(world.scatterv(here, root)?, vec![rank; rank]);
                }
                let mut all: Vec<usize> = (0..size).map(|to| 100 * rank + to).collect();
                let expected: Vec<usize> = (0..size).map(|from| 100 * from + rank).collect();
                assert_eq!(world.alltoall(&all)?, expected);
                world.alltoall_in_place(&mut all)?;
                assert_eq!(all, expected);
                let blocks: Blocks<usize> = (0..size).map(|to| vec![rank; to]).collect();
                let came = world.alltoallv(&blocks)?;
                assert!(
                    came.iter()
                        .enumerate()
                        .all(|(from, block)| block == vec![from; rank])
                );
                Ok(())
            });
        }
    }

    #[test]
    fn reductions_keep_the_order_of_ranks() {
        for size in SIZES {
            mpi::test(size, move |world| {
                let rank = world.rank();
                // Composition of functions x -> a x + b: associative, and does not commute.
                let mine = (rank as i64 + 2, rank as i64);
                let after = || op_after();
                let expected = |ranks: std::ops::Range<usize>| {
                    let of = |rank: usize| (rank as i64 + 2, rank as i64);
                    ranks.map(of).reduce(|left, right| compose(&left, &right))
                };
                assert_eq!(Some(world.allreduce(&mine, after())?), expected(0..size));
                assert_eq!(Some(world.scan(&mine, after())?), expected(0..rank + 1));
                assert_eq!(world.exscan(&mine, after())?, expected(0..rank));
                for root in 0..size {
                    let all = world.reduce(&mine, after(), root)?;
                    assert_eq!(all, expected(0..size).filter(|_| rank == root));
                }
                let many = vec![mine; 3 * size];
                let part = world.reduce_scatter_block(&many, after())?;
                assert_eq!(part, vec![expected(0..size).unwrap(); 3]);
                let counts: Vec<usize> = (0..size).collect();
                let many = vec![mine; counts.iter().sum()];
                let part = world.reduce_scatter(&many, &counts, after())?;
                assert_eq!(part, vec![expected(0..size).unwrap(); rank]);
                Ok(())
            });
        }
    }

    fn compose(left: &(i64, i64), right: &(i64, i64)) -> (i64, i64) {
        (
            left.0.wrapping_mul(right.0),
            left.1.wrapping_mul(right.0).wrapping_add(right.1),
        )
    }

    fn op_after() -> mpi::Op<(i64, i64)> {
        mpi::Op::new(compose)
    }

    /// Elements that end with padding, one of them and several.
    #[test]
    fn operations_on_elements_with_padding() {
        mpi::test(3, |world| {
            let longest = mpi::Op::new(|left: &(f64, bool, u8), right: &(f64, bool, u8)| {
                (left.0.max(right.0), left.1 && right.1, left.2 + right.2)
            });
            let rank = world.rank();
            let mine = (rank as f64, rank < 2, rank as u8);
            for count in [1, 2, 3000] {
                let all = world.allreduce(&vec![mine; count], longest.clone())?;
                assert_eq!(all, vec![(2.0, false, 3); count]);
            }
            Ok(())
        });
    }

    #[test]
    fn an_operation_that_panics_is_an_error() {
        mpi::test(2, |world| {
            let op = mpi::Op::commutative(|_: &u8, _: &u8| panic!("never mind"));
            let outcome = world.allreduce(&1_u8, op);
            assert!(outcome.is_err(), "{outcome:?}");
            Ok(())
        });
    }

    #[test]
    fn a_root_whose_argument_is_wrong_is_an_error_everywhere() {
        mpi::test(3, |world| {
            let here = (world.rank() == 0).then_some(&[1, 2][..]);
            let error = world.scatter(here, 0).unwrap_err();
            assert_eq!(error.class(), ErrorClass::Count, "{error}");
            let two: Blocks<u8> = [[1], [2]].into_iter().collect();
            let here = (world.rank() == 0).then_some(&two);
            let error = world.scatterv(here, 0).unwrap_err();
            assert_eq!(error.class(), ErrorClass::Count, "{error}");
            let none: Option<&[u8]> = None;
            let error = world.scatter(none, 1).unwrap_err();
            assert_eq!(error.class(), ErrorClass::Buffer, "{error}");
            world.barrier()
        });
    }

    #[test]
    fn lengths_that_do_not_fit_are_refused() {
        mpi::test(2, |world| {
            let class = |outcome: mpi::Result<()>| outcome.unwrap_err().class();
            assert_eq!(
                class(world.alltoall(&[1, 2, 3]).map(drop)),
                ErrorClass::Count
            );
            let mut short = [0; 3];
            assert_eq!(
                class(world.allgather_into(&[1, 2], &mut short)),
                ErrorClass::Count
            );
            let outcome = world.reduce_scatter(&[1, 2], &[1, 2], op::sum());
            assert_eq!(class(outcome.map(drop)), ErrorClass::Count);
            assert_eq!(class(world.broadcast(&mut 1, 2)), ErrorClass::Root);
            Ok(())
        });
    }
}
