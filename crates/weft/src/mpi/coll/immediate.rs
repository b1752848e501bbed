//! Non-blocking collectives, which own their buffers until the end (MPI 5.0, section 6.12).
//!
//! All ranks must begin them in the same order, relative to each other and to blocking collectives. A collective goes on
//! even if its request is dropped.

use weft_mpi::Result;
use weft_mpi::coll::Collective;

use super::super::communicator::Communicator;
use super::super::memory::Memory;
use super::super::request::Request;
use super::super::{Element, Op};
use super::reducing::reduction;

impl Communicator {
    /// Begins a barrier (`MPI_Ibarrier`).
    ///
    /// # Errors
    /// `NoMem` if too many requests are live.
    pub fn ibarrier(&self) -> Result<Request<'static, ()>> {
        let id = self.begin(Collective::Barrier)?;
        Ok(Request::owning(self.handle(), id, false, |_| Ok(())))
    }

    /// Begins a broadcast of a vector, which has the same length at all ranks (`MPI_Ibcast`).
    ///
    /// ```
    /// use weft::mpi;
    ///
    /// mpi::test(3, |world| {
    ///     let mine = if world.rank() == 1 { vec![5, 6] } else { vec![0, 0] };
    ///     let request = world.ibroadcast(mine, 1)?;
    ///     // … something else …
    ///     assert_eq!(request.wait()?, [5, 6]);
    ///     Ok(())
    /// });
    /// ```
    ///
    /// # Errors
    /// As for [`broadcast`](Self::broadcast).
    pub fn ibroadcast<T: Element>(
        &self,
        elements: Vec<T>,
        root: usize,
    ) -> Result<Request<'static, Vec<T>>> {
        let memory = Memory::of(elements);
        let id = self.begin(Collective::Bcast {
            data: memory.view().buffer(),
            root,
        })?;
        Ok(self.giving(id, memory))
    }

    /// A collective whose outcome are all elements of a buffer.
    fn giving<T: Element>(
        &self,
        id: weft_mpi::RequestId,
        memory: Memory<T>,
    ) -> Request<'static, Vec<T>> {
        Request::owning(self.handle(), id, false, move |_| {
            let count = memory.view().len();
            memory.into_vec(count)
        })
    }

    /// A collective whose outcome are all elements of one buffer, and which needs another until its end.
    pub(super) fn giving_one<T: Element>(
        &self,
        id: weft_mpi::RequestId,
        memory: Memory<T>,
        other: Memory<T>,
    ) -> Request<'static, Vec<T>> {
        Request::owning(self.handle(), id, false, move |_| {
            drop(other);
            let count = memory.view().len();
            memory.into_vec(count)
        })
    }

    /// Begins a gather (`MPI_Igather`), with the result of [`gather`](Self::gather).
    ///
    /// # Errors
    /// As for [`gather`](Self::gather).
    pub fn igather<T: Element>(
        &self,
        elements: Vec<T>,
        root: usize,
    ) -> Result<Request<'static, Option<Vec<T>>>> {
        let send = Memory::of(elements);
        let total = send.view().len() * self.size();
        let all = self.at(root, || Memory::<T>::zeroed(total))?;
        let blocks = all.as_ref().map(|all| all.view().even(self.size()));
        let id = self.begin(Collective::Gather {
            send: Some(send.view().buffer()),
            receive: blocks.transpose()?,
            root,
        })?;
        Ok(Request::owning(self.handle(), id, false, move |_| {
            drop(send);
            all.map(|all| all.into_vec(total)).transpose()
        }))
    }

    /// Begins an allgather (`MPI_Iallgather`), with the result of [`allgather`](Self::allgather).
    ///
    /// # Errors
    /// As for [`allgather`](Self::allgather).
    pub fn iallgather<T: Element>(&self, elements: Vec<T>) -> Result<Request<'static, Vec<T>>> {
        let send = Memory::of(elements);
        let all = Memory::<T>::zeroed(send.view().len() * self.size())?;
        let id = self.begin(Collective::Allgather {
            send: Some(send.view().buffer()),
            receive: all.view().even(self.size())?,
        })?;
        Ok(self.giving_one(id, all, send))
    }

    /// Begins a scatter of blocks of `count` elements (`MPI_Iscatter`); the root gives all blocks.
    ///
    /// ```
    /// use weft::mpi;
    ///
    /// mpi::test(2, |world| {
    ///     let all = (world.rank() == 0).then(|| vec!['a', 'b']);
    ///     let mine = world.iscatter(all, 1, 0)?.wait()?;
    ///     assert_eq!(mine, [if world.rank() == 0 { 'a' } else { 'b' }]);
    ///     Ok(())
    /// });
    /// ```
    ///
    /// # Errors
    /// As for [`scatter_into`](Self::scatter_into).
    pub fn iscatter<T: Element>(
        &self,
        all: Option<Vec<T>>,
        count: usize,
        root: usize,
    ) -> Result<Request<'static, Vec<T>>> {
        let all = all.filter(|_| self.rank() == root).map(Memory::of);
        if let Some(all) = &all {
            self.check_length("MPI_Iscatter", all.view().len(), count * self.size())?;
        }
        let part = Memory::<T>::zeroed(count)?;
        let blocks = all.as_ref().map(|all| all.view().even(self.size()));
        let id = self.begin(Collective::Scatter {
            send: blocks.transpose()?,
            receive: Some(part.view().buffer()),
            root,
        })?;
        Ok(Request::owning(self.handle(), id, false, move |_| {
            drop(all);
            part.into_vec(count)
        }))
    }

    /// Begins an exchange of blocks (`MPI_Ialltoall`), with the result of [`alltoall`](Self::alltoall).
    ///
    /// # Errors
    /// As for [`alltoall`](Self::alltoall).
    pub fn ialltoall<T: Element>(&self, elements: Vec<T>) -> Result<Request<'static, Vec<T>>> {
        let send = Memory::of(elements);
        self.share("MPI_Ialltoall", send.view().len())?;
        let all = Memory::<T>::zeroed(send.view().len())?;
        let id = self.begin(Collective::Alltoall {
            send: Some(send.view().even(self.size())?),
            receive: all.view().even(self.size())?,
        })?;
        Ok(self.giving_one(id, all, send))
    }

    /// Begins a reduction to the root (`MPI_Ireduce`), with the result of [`reduce`](Self::reduce).
    ///
    /// # Errors
    /// As for [`reduce`](Self::reduce).
    pub fn ireduce<T: Element>(
        &self,
        elements: Vec<T>,
        op: Op<T>,
        root: usize,
    ) -> Result<Request<'static, Option<Vec<T>>>> {
        let send = Memory::of(elements);
        let count = send.view().len();
        let result = self.at(root, || Memory::<T>::zeroed(count))?;
        let receive = result.as_ref().map(|result| result.view().buffer());
        let id = self.begin(Collective::Reduce {
            send: send.view().buffer(),
            receive,
            reduction: (&reduction(count, &op)).into(),
            root,
        })?;
        Ok(Request::owning(self.handle(), id, false, move |_| {
            drop(send);
            result.map(|result| result.into_vec(count)).transpose()
        }))
    }

    /// Begins a reduction to all (`MPI_Iallreduce`), in place.
    ///
    /// ```
    /// use weft::mpi::{self, op};
    ///
    /// mpi::test(3, |world| {
    ///     let residual = world.iallreduce(vec![0.25, 1.0], op::sum())?;
    ///     // … the next step is begun …
    ///     assert_eq!(residual.wait()?, [0.75, 3.0]);
    ///     Ok(())
    /// });
    /// ```
    ///
    /// # Errors
    /// As for [`reduce`](Self::reduce).
    pub fn iallreduce<T: Element>(
        &self,
        elements: Vec<T>,
        op: Op<T>,
    ) -> Result<Request<'static, Vec<T>>> {
        let memory = Memory::of(elements);
        let buffer = memory.view().buffer();
        let reduction = reduction(memory.view().len(), &op);
        let id = self.begin(Collective::Allreduce {
            send: buffer.clone(),
            receive: buffer,
            reduction: (&reduction).into(),
        })?;
        Ok(self.giving(id, memory))
    }

    /// Begins a scan (`MPI_Iscan`), in place.
    ///
    /// # Errors
    /// As for [`reduce`](Self::reduce).
    pub fn iscan<T: Element>(
        &self,
        elements: Vec<T>,
        op: Op<T>,
    ) -> Result<Request<'static, Vec<T>>> {
        let memory = Memory::of(elements);
        let buffer = memory.view().buffer();
        let reduction = reduction(memory.view().len(), &op);
        let id = self.begin(Collective::Scan {
            send: buffer.clone(),
            receive: buffer,
            reduction: (&reduction).into(),
        })?;
        Ok(self.giving(id, memory))
    }
}
