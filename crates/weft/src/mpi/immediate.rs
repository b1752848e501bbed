//! Non-blocking messages, which own their buffers until the end (MPI 5.0, section 3.7).
//!
//! To borrow buffers instead, see [`scope`](super::scope()).

use weft_mpi::{Result, SendMode};

use super::communicator::PointToPoint;
use super::envelope::{Destination, Source, Tag, check_tag};
use super::memory::Memory;
use super::request::Request;
use super::{Element, Status};

impl PointToPoint {
    /// Begins to send a vector, and gives it back at the end (`MPI_Isend`).
    ///
    /// # Errors
    /// As for [`send`](Self::send).
    pub fn isend<T: Element>(
        &self,
        elements: Vec<T>,
        to: impl Into<Destination>,
        tag: i32,
    ) -> Result<Request<'static, Vec<T>>> {
        self.begin_send(SendMode::Standard, elements, to.into(), tag)
    }

    /// Like [`isend`](Self::isend), but ends only when the receive was matched (`MPI_Issend`).
    ///
    /// # Errors
    /// As for [`send`](Self::send).
    pub fn issend<T: Element>(
        &self,
        elements: Vec<T>,
        to: impl Into<Destination>,
        tag: i32,
    ) -> Result<Request<'static, Vec<T>>> {
        self.begin_send(SendMode::Synchronous, elements, to.into(), tag)
    }

    fn begin_send<T: Element>(
        &self,
        mode: SendMode,
        elements: Vec<T>,
        to: Destination,
        tag: i32,
    ) -> Result<Request<'static, Vec<T>>> {
        let tag = check_tag(tag)?;
        let memory = Memory::of(elements);
        let id = self.comm().isend(mode, memory.view().buffer(), to.0, tag)?;
        Ok(Request::owning(self.handle(), id, false, move |_| {
            let count = memory.view().len();
            memory.into_vec(count)
        }))
    }

    /// Begins a receive into a vector, whose length is the room for elements (`MPI_Irecv`). At the end its length is the
    /// number of elements received.
    ///
    /// # Errors
    /// As for [`receive_into`](Self::receive_into).
    pub fn ireceive<T: Element>(
        &self,
        room: Vec<T>,
        from: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<Request<'static, (Vec<T>, Status)>> {
        let tag = tag.into().checked()?;
        let memory = Memory::of(room);
        let elements = memory.view().buffer();
        let id = self.comm().irecv(elements, from.into().0, tag)?;
        Ok(Request::owning(self.handle(), id, true, move |status| {
            let count = status.elements::<T>()?;
            Ok((memory.into_vec(count)?, status))
        }))
    }
}
