//! `MPI_Isendrecv`: a send and a receive under one request (MPI 5.0, section 3.11).

use super::{SendMode, Source, TagPattern, Target};
use crate::buffer::Buffer;
use crate::comm::Comm;
use crate::engine::RequestId;
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
        let send = (mode, send.0, to, send.2);
        let receive = (receive.0, from, receive.2.exact());
        let mut engine = self.lock();
        engine.start_pair(self.context(), self.translation(), send, receive)
    }
}
