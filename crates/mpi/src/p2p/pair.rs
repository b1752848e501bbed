//! `MPI_Isendrecv`: a send and a receive under one request (MPI 5.0, section 3.11).
//!
//! ```text
//!   send ────┐
//!            ├──► head: ends when both have; has the status of the receive
//!   receive ─┘
//! ```

use weft_fabric::Region;

use super::{SendMode, Source, TagPattern, Target};
use crate::buffer::Buffer;
use crate::comm::Comm;
use crate::engine::request::{Outcome, RequestId, Work};
use crate::error::Result;

impl Comm {
    /// `MPI_Isendrecv`. The two buffers must not overlap.
    ///
    /// # Errors
    /// As for [`Self::isend`] and [`Self::irecv`].
    pub fn isendrecv(
        &self,
        send: (Buffer, Target, i32),
        receive: (Buffer, Source, TagPattern),
    ) -> Result<RequestId> {
        self.begin_pair(SendMode::Standard, send, receive)
    }

    /// `MPI_Isendrecv_replace`: the message is copied before its buffer is received into.
    ///
    /// # Errors
    /// As for [`Self::isendrecv`].
    pub fn isendrecv_replace(
        &self,
        buffer: Buffer,
        to: (Target, i32),
        from: (Source, TagPattern),
    ) -> Result<RequestId> {
        let outgoing = (buffer.clone(), to.0, to.1);
        self.begin_pair(SendMode::Buffered, outgoing, (buffer, from.0, from.1))
    }

    fn begin_pair(
        &self,
        mode: SendMode,
        send: (Buffer, Target, i32),
        receive: (Buffer, Source, TagPattern),
    ) -> Result<RequestId> {
        let to = match send.1 {
            Target::Null => None,
            Target::Rank(rank) => Some(self.target(rank)?),
        };
        let from = match receive.1 {
            Source::Null => None,
            Source::Any => Some(None),
            Source::Rank(rank) => Some(Some(self.target(rank)?)),
        };
        let (context, tag) = (self.context(), receive.2.exact());
        let mut engine = self.process().lock();
        engine.core.requests.check_room()?;
        // The send first: a buffered one has read the memory before the receive may write to it.
        let outgoing = match to {
            Some(to) => engine.start_send(mode, send.0, context, to, send.2)?,
            None => None,
        };
        let head = Work::receive(Buffer::Flat(Region::EMPTY));
        let head = engine
            .core
            .requests
            .insert(context, self.translation(), head);
        // One leg is this function: the head does not end before it is returned.
        let legs = 1 + u8::from(outgoing.is_some()) + u8::from(from.is_some());
        if let Some(slot) = engine.core.requests.get_mut(head) {
            slot.duties_mut().legs = legs;
        }
        if let Some(outgoing) = outgoing {
            engine.follow(outgoing, head);
        }
        if let Some(from) = from {
            let group = self.translation();
            let incoming = engine.start_receive(receive.0, context, from, tag, group)?;
            engine.follow(incoming, head);
        }
        engine.core.end_leg(head, Outcome::default(), false);
        Ok(head)
    }
}
