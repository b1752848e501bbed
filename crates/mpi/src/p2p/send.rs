//! Sending (MPI 5.0, sections 3.2, 3.4 and 3.7): blocking, non-blocking, and with a receive in one call.

use crate::buffer::Buffer;
use crate::comm::Comm;
use crate::engine::RequestId;
use crate::error::Result;

use super::{SendMode, Source, TagPattern, Target};
use crate::Status;

impl Comm {
    /// `MPI_Send` and its modes: returns when the buffer may be used again (and, synchronous, when
    /// the receive was matched).
    ///
    /// # Errors
    /// [`ErrorClass::Rank`](crate::ErrorClass::Rank) for a rank that is none; `Buffer` when a buffered
    /// send does not fit; `ProcFailed` when the receiver is lost.
    #[inline]
    pub fn send(&self, mode: SendMode, buffer: Buffer, to: Target, tag: i32) -> Result<()> {
        let Target::Rank(rank) = to else {
            return self.check_usable();
        };
        let to = self.target(rank)?;
        let comm = self.of_tag(tag);
        let context = comm.context();
        let mut engine = comm.lock();
        if mode == SendMode::Buffered {
            return engine.start_buffered(buffer, context, to, tag).map(drop);
        }
        match engine.start_send(mode, buffer, context, to, tag)? {
            None => Ok(()),
            Some(request) => engine.finish(request).map(drop),
        }
    }

    /// `MPI_Isend` and its modes.
    ///
    /// # Errors
    /// As for [`Self::send`].
    #[inline]
    pub fn isend(&self, mode: SendMode, buffer: Buffer, to: Target, tag: i32) -> Result<RequestId> {
        let comm = self.of_tag(tag);
        let mut engine = comm.lock();
        let context = comm.context();
        let Target::Rank(rank) = to else {
            engine.check_usable(context)?;
            return Ok(RequestId::DONE);
        };
        let to = self.target(rank)?;
        let begun = if mode == SendMode::Buffered {
            engine.start_buffered(buffer, context, to, tag)?;
            None
        } else {
            engine.start_send(mode, buffer, context, to, tag)?
        };
        Ok(begun.unwrap_or(RequestId::DONE))
    }

    /// `MPI_Sendrecv`. The two buffers must not overlap.
    ///
    /// # Errors
    /// As for [`Self::send`] and [`Self::recv`].
    pub fn sendrecv(
        &self,
        send: (Buffer, Target, i32),
        receive: (Buffer, Source, TagPattern),
    ) -> Result<Status> {
        let to = match send.1 {
            Target::Null => None,
            Target::Rank(rank) => Some(self.target(rank)?),
        };
        let (sender, receiver) = (self.of_tag(send.2), self.of_receive(receive.1, receive.2)?);
        let incoming = self.irecv(receive.0, receive.1, receive.2)?;
        let mut engine = sender.lock();
        let context = sender.context();
        let outgoing = match to {
            None => Ok(None),
            Some(to) => engine.start_send(SendMode::Standard, send.0, context, to, send.2),
        };
        let sent = match outgoing {
            Ok(None) => Ok(()),
            Ok(Some(outgoing)) => engine.finish(outgoing).map(drop),
            Err(error) => Err(error),
        };
        if !std::ptr::eq(sender, receiver) {
            drop(engine);
            engine = receiver.lock();
        }
        if sent.is_err() {
            engine.cancel(incoming)?;
        }
        // Also then: nothing may move into its buffer after the call.
        let received = engine.finish(incoming);
        sent.and(received)
    }

    /// `MPI_Sendrecv_replace`: the message is copied before its buffer is received into.
    ///
    /// # Errors
    /// As for [`Self::sendrecv`].
    pub fn sendrecv_replace(
        &self,
        buffer: Buffer,
        to: (Target, i32),
        from: (Source, TagPattern),
    ) -> Result<Status> {
        let mut copy = buffer.packed()?;
        let outgoing = Buffer::Flat(crate::buffer::region_of(&mut copy), buffer.code());
        self.sendrecv((outgoing, to.0, to.1), (buffer, from.0, from.1))
    }
}

#[cfg(test)]
mod tests {
    use crate::p2p::{SendMode, Source, TagPattern, Target};
    use crate::{Buffer, ErrorClass, Process, buffer};
    use weft_fabric_local::Local;

    /// Rank 0 of two, of which the other has left.
    fn left_alone() -> std::sync::Arc<Process> {
        let mut group = Local::group(2);
        group.truncate(1);
        Process::new(Box::new(group.remove(0)))
    }

    fn over(bytes: &mut [u8]) -> Buffer {
        Buffer::untyped(buffer::region_of(bytes))
    }

    #[test]
    fn a_send_that_fails_leaves_no_request_behind() {
        let process = left_alone();
        let world = process.world();
        for _ in 0..3 {
            let (mut sent, mut received) = ([1], [0]);
            let error = world
                .sendrecv(
                    (over(&mut sent), Target::Rank(1), 0),
                    (over(&mut received), Source::Rank(0), TagPattern::Any),
                )
                .expect_err("nobody is there");
            assert_eq!(error.class(), ErrorClass::ProcFailed, "{error}");
            assert_eq!(process.lock().live_requests(), 0);
        }
    }

    /// The answer to a synchronous message takes no way of its own: one look ends both requests.
    #[test]
    fn a_synchronous_send_to_oneself_ends_with_its_message() {
        let process = Process::new(Box::new(Local::group(1).remove(0)));
        let world = process.world();
        let (mut sent, mut received) = ([7; 9], [0; 9]);
        let receive = world
            .irecv(over(&mut received), Source::Rank(0), TagPattern::Exact(1))
            .unwrap();
        let send = world
            .isend(SendMode::Synchronous, over(&mut sent), Target::Rank(0), 1)
            .unwrap();
        assert!(!process.lock().is_over(send), "nobody has looked yet");
        process.lock().progress();
        assert!(process.lock().is_over(send) && process.lock().is_over(receive));
        process.wait(send).unwrap();
        assert_eq!(process.wait(receive).unwrap().bytes, 9);
        assert_eq!(received, sent);

        // Where the receive comes later, too.
        let send = world
            .isend(SendMode::Synchronous, over(&mut sent), Target::Rank(0), 2)
            .unwrap();
        process.lock().progress();
        assert!(process.test(send).unwrap().is_none());
        world
            .recv(over(&mut received), Source::Rank(0), TagPattern::Exact(2))
            .unwrap();
        process.wait(send).unwrap();
    }

    #[test]
    fn a_persistent_send_that_fails_can_be_started_again() {
        let process = left_alone();
        let world = process.world();
        for mode in [SendMode::Standard, SendMode::Buffered] {
            process.attach_buffer(10_000);
            let mut sent = [1];
            let request = world
                .send_init(mode, over(&mut sent), Target::Rank(1), 0)
                .expect("it is only kept");
            for _ in 0..3 {
                let error = process.start(request).expect_err("nobody is there");
                assert_eq!(error.class(), ErrorClass::ProcFailed, "{error}");
            }
        }
        assert_eq!(process.lock().live_requests(), 2);
    }
}
