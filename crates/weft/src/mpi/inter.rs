//! Intercommunicators: two groups that talk to each other (MPI 5.0, section 7.6).

use std::ops::Deref;
use std::sync::Arc;

use weft_mpi::coll::inter::{self, Sides};
use weft_mpi::schedule::Schedule;
use weft_mpi::{Error, ErrorClass, Result};

pub use weft_mpi::coll::inter::Root;

use super::coll::reduction;
use super::communicator::{Communicator, PointToPoint};
use super::group::Group;
use super::memory::{Arriving, Memory, View};
use super::state::Handle;
use super::{Blocks, Buffer, BufferMut, Op};

/// A communicator of two groups: messages go to ranks of the remote group, and in collectives each group receives what
/// the other one gives.
///
/// ```
/// use weft::mpi;
///
/// mpi::test(5, |world| {
///     // Two servers, three workers.
///     let server = world.rank() < 2;
///     let mine = world.split(i32::from(server), 0)?;
///     let other_leader = if server { 2 } else { 0 };
///     let between = mine.intercommunicator(0, &world, other_leader, 9)?;
///     assert_eq!(between.remote_size(), if server { 3 } else { 2 });
///
///     let theirs = between.allgather(&world.rank())?;
///     assert_eq!(theirs.elements(), if server { &[2, 3, 4][..] } else { &[0, 1] });
///
///     let all = between.merge(!server)?;
///     assert_eq!((all.size(), all.rank()), (5, world.rank()));
///     Ok(())
/// });
/// ```
#[derive(Clone, Debug)]
pub struct Intercommunicator {
    base: PointToPoint,
}

impl Deref for Intercommunicator {
    type Target = PointToPoint;

    fn deref(&self) -> &PointToPoint {
        &self.base
    }
}

impl Intercommunicator {
    pub(super) fn new(handle: Arc<Handle>) -> Self {
        Self {
            base: PointToPoint::new(handle),
        }
    }

    fn sides(&self) -> Sides {
        Sides::of(self.comm()).expect("it has two groups")
    }

    fn run(&self, schedule: Schedule) -> Result<()> {
        self.comm().run(schedule)
    }

    /// Number of ranks of the remote group.
    #[must_use]
    pub fn remote_size(&self) -> usize {
        self.remote_group().size()
    }

    /// The remote group.
    #[must_use]
    pub fn remote_group(&self) -> Group {
        let group = self.comm().remote_group().expect("it has two groups");
        Group::of(Arc::clone(group))
    }

    /// Merges both groups into one, the one with `high` last (`MPI_Intercomm_merge`).
    ///
    /// # Errors
    /// If no context is left, or a member is lost.
    pub fn merge(&self, high: bool) -> Result<Communicator> {
        let comm = self.comm().merge(high)?;
        Ok(Communicator::new(Handle::new(
            comm,
            Arc::clone(self.state()),
        )))
    }

    /// Waits until all ranks of the remote group have called it.
    ///
    /// # Errors
    /// `ProcFailed` if a rank is lost.
    pub fn barrier(&self) -> Result<()> {
        self.run(inter::barrier(&self.sides())?)
    }

    /// Sends the elements of one rank to all ranks of the other group. The root passes [`Root::ThisRank`], the others of its
    /// group [`Root::ProcNull`], and those of the other group the root's rank.
    ///
    /// # Errors
    /// `Root` for a root that is no rank, `Truncate` if lengths differ, `Type` if a received element is no valid value of
    /// the type.
    pub fn broadcast<B: BufferMut + ?Sized>(&self, buffer: &mut B, root: Root) -> Result<()> {
        let arriving = Arriving::into(buffer.elements_mut())?;
        let count = arriving.view().len();
        let elements = arriving.view().buffer();
        self.run(inter::bcast(&self.sides(), Some(&elements), root)?)?;
        arriving.finish(count).map(drop)
    }

    /// Gathers the elements of all ranks of the remote group; each may give any number.
    ///
    /// # Errors
    /// `ProcFailed` if a rank is lost, `Type` if a received element is no valid value of the type.
    pub fn allgather<B: Buffer + ?Sized>(&self, buffer: &B) -> Result<Blocks<B::Element>> {
        const NAME: &str = "MPI_Allgatherv";
        let (sides, send) = (self.sides(), View::reading(buffer.elements()));
        let counts = Memory::<usize>::zeroed(sides.remote)?;
        let mine = [send.len()];
        self.run(inter::allgather(
            NAME,
            &sides,
            &View::reading(&mine).buffer(),
            &counts.view().even(sides.remote)?,
        )?)?;
        let counts = counts.into_vec(sides.remote)?;
        let total = counts.iter().sum();
        let all = Memory::<B::Element>::zeroed(total)?;
        let blocks = all.view().listed(&counts)?;
        self.run(inter::allgather(NAME, &sides, &send.buffer(), &blocks)?)?;
        Ok(Blocks::made(all.into_vec(total)?, counts))
    }

    /// Combines the elements of all ranks of the remote group; all ranks of both groups give the same number.
    ///
    /// # Errors
    /// `Truncate` if lengths differ, `Type` if a received element is no valid value of the type, `Other` if the operation
    /// panicked.
    pub fn allreduce<B: Buffer + ?Sized>(
        &self,
        buffer: &B,
        op: Op<B::Element>,
    ) -> Result<B::Owned> {
        let send = View::reading(buffer.elements());
        let result = Memory::<B::Element>::zeroed(send.len())?;
        self.run(inter::allreduce(
            &self.sides(),
            &send.buffer(),
            &result.view().buffer(),
            &reduction(send.len(), &op),
        )?)?;
        Ok(B::owned(result.into_vec(send.len())?))
    }

    /// Sends a block to each rank of the remote group, and receives one from each (`MPI_Alltoallv`, after an exchange of
    /// the counts).
    ///
    /// # Errors
    /// `Count` unless there is a block for each rank of the remote group; `Type` if a received element is no valid value
    /// of the type.
    pub fn alltoallv<T: super::Element>(&self, blocks: &Blocks<T>) -> Result<Blocks<T>> {
        const NAME: &str = "MPI_Alltoallv";
        let sides = self.sides();
        if blocks.len() != sides.remote {
            return Err(Error::new(
                ErrorClass::Count,
                format!(
                    "{NAME}: {} blocks for {} ranks of the other group; give one for each",
                    blocks.len(),
                    sides.remote
                ),
            ));
        }
        let counts = Memory::<usize>::zeroed(sides.remote)?;
        self.run(inter::alltoall(
            NAME,
            &sides,
            &View::reading(blocks.counts()).even(sides.remote)?,
            &counts.view().even(sides.remote)?,
        )?)?;
        let counts = counts.into_vec(sides.remote)?;
        let total = counts.iter().sum();
        let all = Memory::<T>::zeroed(total)?;
        self.run(inter::alltoall(
            NAME,
            &sides,
            &View::reading(blocks.elements()).listed(blocks.counts())?,
            &all.view().listed(&counts)?,
        )?)?;
        Ok(Blocks::made(all.into_vec(total)?, counts))
    }
}

#[cfg(test)]
mod tests {
    use crate::mpi::{self, Blocks, Root, op};

    #[test]
    fn each_group_gets_what_the_other_gives() {
        mpi::test(5, |world| {
            let low = world.rank() < 2;
            let mine = world.split(i32::from(low), 0)?;
            let between = mine.intercommunicator(0, &world, if low { 2 } else { 0 }, 0)?;
            between.barrier()?;
            let sum = between.allreduce(&world.rank(), op::sum())?;
            assert_eq!(sum, if low { 2 + 3 + 4 } else { 1 });
            let root = match (low, mine.rank()) {
                (true, 1) => Root::ThisRank,
                (true, _) => Root::ProcNull,
                (false, _) => Root::Rank(1),
            };
            let mut number = world.rank();
            between.broadcast(&mut number, root)?;
            assert_eq!(number, if low { world.rank() } else { 1 });
            let to_each = (0..between.remote_size()).map(|rank| vec![world.rank(); rank + 1]);
            let came = between.alltoallv(&Blocks::from_iter(to_each))?;
            let first = if low { 2 } else { 0 };
            for (rank, block) in came.iter().enumerate() {
                assert_eq!(block, vec![first + rank; mine.rank() + 1]);
            }
            if low {
                between.send(&mine.rank(), 2, 5)?;
            } else if mine.rank() == 2 {
                assert_eq!(between.receive::<usize>(1, 5)?.0, 1);
                assert_eq!(between.receive::<usize>(0, 5)?.0, 0);
            }
            Ok(())
        });
    }
}
