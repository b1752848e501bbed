//! Messages from one rank to another (MPI 5.0, chapter 3): blocking calls and probes.
//!
//! | call | argument | result |
//! |---|---|---|
//! | [`send`](PointToPoint::send) | any buffer | |
//! | [`receive`](PointToPoint::receive) | the type | one value |
//! | [`receive_vec`](PointToPoint::receive_vec) | the type | all elements that were sent |
//! | [`receive_into`](PointToPoint::receive_into) | a buffer with room | the status |
//! | [`send_receive`](PointToPoint::send_receive) | a buffer | all elements that were sent |

use std::sync::Arc;

use weft_mpi::{Error, ErrorClass, Result, SendMode};

use super::communicator::PointToPoint;
use super::envelope::{Destination, Source, Tag, check_tag};
use super::memory::{Arriving, Memory, View};
use super::state::Handle;
use super::{Buffer, BufferMut, Element, Status};

impl PointToPoint {
    fn send_by<B: Buffer + ?Sized>(
        &self,
        mode: SendMode,
        buffer: &B,
        to: Destination,
        tag: i32,
    ) -> Result<()> {
        let elements = View::reading(buffer.elements()).buffer();
        self.comm().send(mode, elements, to.0, check_tag(tag)?)
    }

    /// Sends (`MPI_Send`): returns when the buffer may be used again.
    ///
    /// ```
    /// use weft::mpi;
    ///
    /// mpi::test(2, |world| {
    ///     if world.rank() == 0 {
    ///         world.send("some text", 1, 0)?; // a slice, a vector, an array, one value
    ///         world.send(&3.5, 1, 1)
    ///     } else {
    ///         let (text, _) = world.receive_vec::<u8>(0, 0)?;
    ///         assert_eq!(text, b"some text");
    ///         let (number, _) = world.receive::<f64>(0, 1)?;
    ///         assert_eq!(number, 3.5);
    ///         Ok(())
    ///     }
    /// });
    /// ```
    ///
    /// # Errors
    /// `Rank` for a rank that does not exist, `Tag` for an invalid tag, `ProcFailed` if the receiver is lost.
    pub fn send<B: Buffer + ?Sized>(
        &self,
        buffer: &B,
        to: impl Into<Destination>,
        tag: i32,
    ) -> Result<()> {
        self.send_by(SendMode::Standard, buffer, to.into(), tag)
    }

    /// Like [`send`](Self::send), but returns only when the receive was matched (`MPI_Ssend`).
    ///
    /// # Errors
    /// As for [`send`](Self::send).
    pub fn ssend<B: Buffer + ?Sized>(
        &self,
        buffer: &B,
        to: impl Into<Destination>,
        tag: i32,
    ) -> Result<()> {
        self.send_by(SendMode::Synchronous, buffer, to.into(), tag)
    }

    /// Sends a copy and returns at once (`MPI_Bsend`). [`attach_buffer`](Self::attach_buffer) sets how many bytes the
    /// rank may have under way in this way.
    ///
    /// ```
    /// use weft::mpi;
    ///
    /// mpi::test(2, |world| {
    ///     world.attach_buffer(1000);
    ///     let other = 1 - world.rank();
    ///     world.bsend(&world.rank(), other, 0)?;
    ///     assert_eq!(world.receive::<usize>(other, 0)?.0, other);
    ///     world.detach_buffer();
    ///     Ok(())
    /// });
    /// ```
    ///
    /// # Errors
    /// As for [`send`](Self::send); `Buffer` if it does not fit.
    pub fn bsend<B: Buffer + ?Sized>(
        &self,
        buffer: &B,
        to: impl Into<Destination>,
        tag: i32,
    ) -> Result<()> {
        self.send_by(SendMode::Buffered, buffer, to.into(), tag)
    }

    /// Allows this rank buffered sends of this many bytes (`MPI_Buffer_attach`).
    pub fn attach_buffer(&self, bytes: usize) {
        self.state().process().attach_buffer(bytes);
    }

    /// Waits until all buffered messages have left, and allows no further ones (`MPI_Buffer_detach`).
    pub fn detach_buffer(&self) {
        self.state().process().detach_buffer();
    }

    /// Receives into a buffer (`MPI_Recv`). A message may have fewer elements than the buffer has room for.
    ///
    /// ```
    /// use weft::mpi;
    ///
    /// mpi::test(2, |world| {
    ///     if world.rank() == 0 {
    ///         return world.send(&[1, 2, 3], 1, 0);
    ///     }
    ///     let mut room = [0; 8];
    ///     let status = world.receive_into(&mut room, 0, 0)?;
    ///     assert_eq!(status.count::<i32>(), Some(3));
    ///     assert_eq!(room[..4], [1, 2, 3, 0]);
    ///     Ok(())
    /// });
    /// ```
    ///
    /// # Errors
    /// `Truncate` if the message is longer than the buffer (which is then filled) or no whole number of elements; `Type`
    /// if a received element is no valid value of the type; `Rank` for a rank that does not exist; `ProcFailed` if the
    /// sender is lost.
    pub fn receive_into<B: BufferMut + ?Sized>(
        &self,
        buffer: &mut B,
        from: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<Status> {
        let tag = tag.into().checked()?;
        let arriving = Arriving::into(buffer.elements_mut())?;
        let elements = arriving.view().buffer();
        let status = Status::of(self.comm().recv(elements, from.into().0, tag)?);
        arriving.finish(status.elements::<B::Element>()?)?;
        Ok(status)
    }

    /// Receives one value.
    ///
    /// # Errors
    /// As for [`receive_into`](Self::receive_into); `Truncate` if the message is not one value.
    pub fn receive<T: Element>(
        &self,
        from: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<(T, Status)> {
        let tag = tag.into().checked()?;
        let memory = Memory::<T>::zeroed(1)?;
        let elements = memory.view().buffer();
        let status = Status::of(self.comm().recv(elements, from.into().0, tag)?);
        if status.elements::<T>()? != 1 {
            return Err(Error::new(
                ErrorClass::Truncate,
                format!(
                    "one {} was expected and none came; receive a vector if there may be any number",
                    std::any::type_name::<T>()
                ),
            ));
        }
        let value = memory.into_vec(1)?;
        Ok((value[0], status))
    }

    /// Receives a message of any length.
    ///
    /// # Errors
    /// As for [`receive_into`](Self::receive_into), but for the message's length.
    pub fn receive_vec<T: Element>(
        &self,
        from: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<(Vec<T>, Status)> {
        self.probe_message(from, tag)?.receive_vec()
    }

    /// Waits for a message and returns its status, without receiving it (`MPI_Probe`).
    ///
    /// # Errors
    /// `Rank` for a rank that does not exist; `ProcFailed` if a possible sender is lost.
    pub fn probe(&self, from: impl Into<Source>, tag: impl Into<Tag>) -> Result<Status> {
        let status = self.comm().probe(from.into().0, tag.into().checked()?)?;
        Ok(Status::of(status))
    }

    /// The status of a message, if one has arrived (`MPI_Iprobe`).
    ///
    /// # Errors
    /// As for [`probe`](Self::probe).
    pub fn iprobe(&self, from: impl Into<Source>, tag: impl Into<Tag>) -> Result<Option<Status>> {
        let status = self.comm().iprobe(from.into().0, tag.into().checked()?)?;
        Ok(status.map(Status::of))
    }

    /// Waits for a message and takes it, so that no other thread can receive it (`MPI_Mprobe`).
    ///
    /// ```
    /// use weft::mpi::{self, Any};
    ///
    /// mpi::test(2, |world| {
    ///     if world.rank() == 0 {
    ///         return world.send(&[0.5; 7], 1, 3);
    ///     }
    ///     let message = world.probe_message(Any, Any)?;
    ///     assert_eq!(message.status().count::<f64>(), Some(7));
    ///     let (numbers, _) = message.receive_vec::<f64>()?;
    ///     assert_eq!(numbers, [0.5; 7]);
    ///     Ok(())
    /// });
    /// ```
    ///
    /// # Errors
    /// As for [`probe`](Self::probe).
    pub fn probe_message(&self, from: impl Into<Source>, tag: impl Into<Tag>) -> Result<Message> {
        let (message, status) = self.comm().mprobe(from.into().0, tag.into().checked()?)?;
        Ok(self.matched(message, status))
    }

    /// Takes a message if one has arrived (`MPI_Improbe`).
    ///
    /// # Errors
    /// As for [`probe`](Self::probe).
    pub fn iprobe_message(
        &self,
        from: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<Option<Message>> {
        let found = self.comm().improbe(from.into().0, tag.into().checked()?)?;
        Ok(found.map(|(message, status)| self.matched(message, status)))
    }

    fn matched(&self, message: Option<weft_mpi::Message>, status: weft_mpi::Status) -> Message {
        Message {
            message,
            status: Status::of(status),
            handle: Arc::clone(self.handle()),
        }
    }

    /// Sends one message and receives another, of any length, at the same time (`MPI_Sendrecv`).
    ///
    /// ```
    /// use weft::mpi;
    ///
    /// mpi::test(3, |world| {
    ///     let (rank, size) = (world.rank(), world.size());
    ///     let (left, right) = ((rank + size - 1) % size, (rank + 1) % size);
    ///     let (came, _) = world.send_receive(&vec![rank; rank + 1], right, 0, left, 0)?;
    ///     assert_eq!(came, vec![left; left + 1]);
    ///     Ok(())
    /// });
    /// ```
    ///
    /// # Errors
    /// As for [`send`](Self::send) and [`receive_vec`](Self::receive_vec).
    pub fn send_receive<B: Buffer + ?Sized>(
        &self,
        buffer: &B,
        to: impl Into<Destination>,
        send_tag: i32,
        from: impl Into<Source>,
        receive_tag: impl Into<Tag>,
    ) -> Result<(Vec<B::Element>, Status)> {
        let elements = buffer.elements();
        super::scope(|scope| {
            let sent = scope.isend(self, elements, to, send_tag)?;
            let came = self.receive_vec(from, receive_tag)?;
            sent.wait()?;
            Ok(came)
        })
    }

    /// Like [`send_receive`](Self::send_receive), into a buffer with room.
    ///
    /// # Errors
    /// As for [`send`](Self::send) and [`receive_into`](Self::receive_into).
    pub fn send_receive_into<B: Buffer + ?Sized, C: BufferMut + ?Sized>(
        &self,
        buffer: &B,
        to: impl Into<Destination>,
        send_tag: i32,
        into: &mut C,
        from: impl Into<Source>,
        receive_tag: impl Into<Tag>,
    ) -> Result<Status> {
        let arriving = Arriving::into(into.elements_mut())?;
        let send = View::reading(buffer.elements()).buffer();
        let status = self.comm().sendrecv(
            (send, to.into().0, check_tag(send_tag)?),
            (
                arriving.view().buffer(),
                from.into().0,
                receive_tag.into().checked()?,
            ),
        )?;
        let status = Status::of(status);
        arriving.finish(status.elements::<C::Element>()?)?;
        Ok(status)
    }

    /// Sends the buffer's elements and receives into it (`MPI_Sendrecv_replace`).
    ///
    /// # Errors
    /// As for [`send`](Self::send) and [`receive_into`](Self::receive_into).
    pub fn send_receive_replace<B: BufferMut + ?Sized>(
        &self,
        buffer: &mut B,
        to: impl Into<Destination>,
        send_tag: i32,
        from: impl Into<Source>,
        receive_tag: impl Into<Tag>,
    ) -> Result<Status> {
        let arriving = Arriving::into(buffer.elements_mut())?;
        let status = self.comm().sendrecv_replace(
            arriving.view().buffer(),
            (to.into().0, check_tag(send_tag)?),
            (from.into().0, receive_tag.into().checked()?),
        )?;
        let status = Status::of(status);
        arriving.finish(status.elements::<B::Element>()?)?;
        Ok(status)
    }
}

/// A message that a probe has taken (`MPI_Message`). No other call can receive it.
#[must_use = "a message that is dropped was received by nobody"]
#[derive(Debug)]
pub struct Message {
    /// None if it is from nobody.
    message: Option<weft_mpi::Message>,
    status: Status,
    handle: Arc<Handle>,
}

impl Message {
    /// Its status.
    #[must_use]
    pub fn status(&self) -> &Status {
        &self.status
    }

    /// Receives the message (`MPI_Mrecv`).
    ///
    /// # Errors
    /// `Truncate` if it is no whole number of elements, `Type` if one of them is no valid value of the type.
    pub fn receive_vec<T: Element>(self) -> Result<(Vec<T>, Status)> {
        let Some(message) = self.message else {
            return Ok((Vec::new(), self.status));
        };
        // Whatever it is: it is received, or its sender would wait for ever.
        let count = self.status.elements::<T>();
        let memory = Memory::<T>::zeroed(*count.as_ref().unwrap_or(&0))?;
        let process = self.handle.comm.process();
        let received = process.mrecv(message, memory.view().buffer());
        let count = count?;
        received?;
        Ok((memory.into_vec(count)?, self.status))
    }

    /// Receives the message into a buffer (`MPI_Mrecv`).
    ///
    /// # Errors
    /// As for [`PointToPoint::receive_into`].
    pub fn receive_into<B: BufferMut + ?Sized>(self, buffer: &mut B) -> Result<Status> {
        let Some(message) = self.message else {
            return Ok(self.status);
        };
        let arriving = Arriving::into(buffer.elements_mut())?;
        let process = self.handle.comm.process();
        let status = Status::of(process.mrecv(message, arriving.view().buffer())?);
        arriving.finish(status.elements::<B::Element>()?)?;
        Ok(status)
    }
}
