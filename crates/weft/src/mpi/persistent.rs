//! Persistent requests: an operation that is prepared once and started any number of times (MPI 5.0, section 3.9).

use std::sync::Arc;

use weft_mpi::coll;
use weft_mpi::{Error, ErrorClass, Process, RequestId, Result, SendMode};

use super::coll::reduction;
use super::communicator::{Communicator, PointToPoint};
use super::envelope::{Destination, Source, Tag, check_tag};
use super::memory::Memory;
use super::state::Handle;
use super::{Element, Op, Status};

/// An operation that can be started any number of times. It owns its buffer, which is accessible between its end and the
/// next start.
///
/// ```
/// use weft::mpi;
///
/// mpi::test(2, |world| {
///     let other = 1 - world.rank();
///     let mut sends = world.send_init(vec![0; 2], other, 0)?;
///     let mut receives = world.receive_init(vec![0; 2], other, 0)?;
///     for step in 0..5 {
///         sends.elements()?.fill(10 * step + world.rank());
///         mpi::start_all([&mut sends, &mut receives])?;
///         sends.wait()?;
///         receives.wait()?;
///         assert_eq!(receives.elements()?, [10 * step + other; 2]);
///     }
///     Ok(())
/// });
/// ```
pub struct Persistent<T: Element> {
    handle: Arc<Handle>,
    id: RequestId,
    /// Until it is dropped.
    memory: Option<Memory<T>>,
    active: bool,
    receives: bool,
}

impl<T: Element> std::fmt::Debug for Persistent<T> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = if self.active { "active" } else { "inactive" };
        write!(out, "Persistent({:?}, {state})", self.id)
    }
}

/// Frees a request that has ended.
pub(super) struct Freed(pub(super) Arc<Process>, pub(super) RequestId);

impl Drop for Freed {
    fn drop(&mut self) {
        // It is live: nobody else has its name.
        _ = self.0.free_request(self.1);
    }
}

impl<T: Element> Persistent<T> {
    fn new(handle: &Arc<Handle>, id: RequestId, memory: Memory<T>, receives: bool) -> Self {
        Self {
            handle: Arc::clone(handle),
            id,
            memory: Some(memory),
            active: false,
            receives,
        }
    }

    fn process(&self) -> &Arc<Process> {
        self.handle.comm.process()
    }

    /// Starts it (`MPI_Start`).
    ///
    /// # Errors
    /// `Request` if it is under way; otherwise the reason why the operation could not begin.
    pub fn start(&mut self) -> Result<()> {
        self.process().start(self.id)?;
        self.active = true;
        Ok(())
    }

    /// Waits for its end. Returns at once if it was not started.
    ///
    /// # Errors
    /// The error of the operation.
    pub fn wait(&mut self) -> Result<Status> {
        let outcome = self.process().wait(self.id);
        self.active = false;
        outcome.map(Status::of)
    }

    /// The result, if it has ended (`MPI_Test`).
    ///
    /// # Errors
    /// The error of the operation.
    pub fn test(&mut self) -> Result<Option<Status>> {
        let outcome = self.process().test(self.id);
        self.active = matches!(outcome, Ok(None));
        Ok(outcome?.map(Status::of))
    }

    /// The elements of the buffer.
    ///
    /// # Errors
    /// `Request` while it is under way; `Type` if a received element is no valid value of the type.
    pub fn elements(&mut self) -> Result<&mut [T]> {
        if self.active {
            return Err(Error::new(
                ErrorClass::Request,
                "the operation is under way and uses the buffer; wait for its end first",
            ));
        }
        let memory = self.memory.as_mut().expect("it is there until the end");
        memory.elements_mut()
    }
}

impl<T: Element> Drop for Persistent<T> {
    fn drop(&mut self) {
        let process = Arc::clone(self.process());
        if self.active && self.receives {
            // It may have ended, or be about to.
            _ = process.cancel(self.id);
        }
        let ended = !self.active || !matches!(process.test(self.id), Ok(None));
        let freed = Freed(process, self.id);
        if !ended {
            let kept = Box::new((self.memory.take(), freed));
            let state = Arc::clone(&self.handle.state);
            state.adopt(Arc::clone(&self.handle), self.id, kept);
        }
    }
}

/// Starts all of them (`MPI_Startall`).
///
/// # Errors
/// The error of the first that could not be started. The others are started.
pub fn start_all<'a, T: Element>(
    requests: impl IntoIterator<Item = &'a mut Persistent<T>>,
) -> Result<()> {
    let started = requests.into_iter().map(Persistent::start);
    started.fold(Ok(()), Result::and)
}

impl PointToPoint {
    /// Prepares a send (`MPI_Send_init`).
    ///
    /// # Errors
    /// `Rank` for a rank that does not exist, `Tag` for an invalid tag.
    pub fn send_init<T: Element>(
        &self,
        elements: Vec<T>,
        to: impl Into<Destination>,
        tag: i32,
    ) -> Result<Persistent<T>> {
        let memory = Memory::of(elements);
        let buffer = memory.view().buffer();
        let (to, tag) = (to.into().0, check_tag(tag)?);
        let id = self.comm().send_init(SendMode::Standard, buffer, to, tag)?;
        Ok(Persistent::new(self.handle(), id, memory, false))
    }

    /// Prepares a receive into a vector, whose length is the room for elements (`MPI_Recv_init`).
    ///
    /// # Errors
    /// `Rank` for a rank that does not exist, `Tag` for an invalid tag.
    pub fn receive_init<T: Element>(
        &self,
        room: Vec<T>,
        from: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<Persistent<T>> {
        let memory = Memory::of(room);
        let buffer = memory.view().buffer();
        let tag = tag.into().checked()?;
        let id = self.comm().recv_init(buffer, from.into().0, tag)?;
        Ok(Persistent::new(self.handle(), id, memory, true))
    }
}

impl Communicator {
    /// Prepares a barrier (`MPI_Barrier_init`).
    ///
    /// # Errors
    /// `NoMem` if too many requests are live.
    pub fn barrier_init(&self) -> Result<Persistent<u8>> {
        let id = self.comm().prepare(coll::barrier(&self.members())?)?;
        let memory = Memory::of(Vec::new());
        Ok(Persistent::new(self.handle(), id, memory, false))
    }

    /// Prepares a broadcast of a vector that has the same length at all ranks (`MPI_Bcast_init`).
    ///
    /// # Errors
    /// As for [`broadcast`](Self::broadcast).
    pub fn broadcast_init<T: Element>(
        &self,
        elements: Vec<T>,
        root: usize,
    ) -> Result<Persistent<T>> {
        let memory = Memory::of(elements);
        let schedule = coll::bcast(&self.members(), &memory.view().buffer(), root)?;
        let id = self.comm().prepare(schedule)?;
        Ok(Persistent::new(self.handle(), id, memory, false))
    }

    /// Prepares a reduction to all, in place (`MPI_Allreduce_init`).
    ///
    /// ```
    /// use weft::mpi::{self, op};
    ///
    /// mpi::test(3, |world| {
    ///     let mut total = world.allreduce_init(vec![0], op::sum())?;
    ///     for step in 0..4 {
    ///         total.elements()?[0] = step;
    ///         total.start()?;
    ///         total.wait()?;
    ///         assert_eq!(total.elements()?, [3 * step]);
    ///     }
    ///     Ok(())
    /// });
    /// ```
    ///
    /// # Errors
    /// As for [`allreduce`](Self::allreduce).
    pub fn allreduce_init<T: Element>(&self, elements: Vec<T>, op: Op<T>) -> Result<Persistent<T>> {
        let memory = Memory::of(elements);
        let buffer = memory.view().buffer();
        let reduction = reduction(memory.view().len(), &op);
        let schedule = coll::allreduce(&self.members(), &buffer, &buffer, &reduction)?;
        let id = self.comm().prepare(schedule)?;
        Ok(Persistent::new(self.handle(), id, memory, false))
    }
}

#[cfg(test)]
mod tests {
    use crate::mpi::{self, ErrorClass};

    #[test]
    fn a_buffer_is_not_there_while_it_is_used() {
        mpi::test(2, |world| {
            let other = 1 - world.rank();
            let mut receives = world.receive_init(vec![0; 4], other, 0)?;
            receives.start()?;
            let class = receives.elements().unwrap_err().class();
            assert_eq!(class, ErrorClass::Request);
            assert_eq!(receives.start().unwrap_err().class(), ErrorClass::Request);
            world.send(&[7; 4], other, 0)?;
            receives.wait()?;
            assert_eq!(receives.elements()?, [7; 4]);
            // Started and dropped: cancelled, and nothing waits for it.
            receives.start()
        });
    }
}
