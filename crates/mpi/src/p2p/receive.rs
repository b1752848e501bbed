//! Receiving (MPI 5.0, sections 3.2 and 3.7): blocking and non-blocking.

use super::{Source, TagPattern};
use crate::Status;
use crate::buffer::Buffer;
use crate::comm::Comm;
use crate::engine::RequestId;
use crate::error::Result;

impl Comm {
    /// `MPI_Recv`: returns when the message is in the buffer.
    ///
    /// # Errors
    /// `Truncate` when the message is longer than the buffer (which is then filled); `Rank` for a rank that does not
    /// exist; `ProcFailed` when the sender is lost.
    #[inline]
    pub fn recv(&self, buffer: Buffer, from: Source, tag: TagPattern) -> Result<Status> {
        let comm = self.of_receive(from, tag)?;
        let from = match from {
            Source::Null => return self.check_usable().map(|()| Status::null()),
            Source::Any => None,
            Source::Rank(rank) => Some(self.target(rank)?),
        };
        let (context, tag) = (comm.context(), tag.exact());
        let mut engine = comm.lock();
        let Some(message) = engine.take_unexpected(context, from, tag) else {
            let request = engine.start_receive(buffer, context, from, tag, self.translation())?;
            return engine.finish(request);
        };
        // It needs no request, unless its data wait at the sender.
        match engine.receive(message, &buffer, |peer| self.rank_of(peer)) {
            Ok(outcome) => outcome,
            Err(message) => {
                let group = self.translation();
                let request = engine.start_matched_receive(message, buffer, context, group);
                engine.finish(request)
            }
        }
    }

    /// `MPI_Irecv`.
    ///
    /// # Errors
    /// `Rank` for a rank that is none.
    #[inline]
    pub fn irecv(&self, buffer: Buffer, from: Source, tag: TagPattern) -> Result<RequestId> {
        let comm = self.of_receive(from, tag)?;
        let from = match from {
            Source::Null => {
                self.check_usable()?;
                return Ok(RequestId::NOTHING_RECEIVED);
            }
            Source::Any => None,
            Source::Rank(rank) => Some(self.target(rank)?),
        };
        let mut engine = comm.lock();
        engine.start_receive(
            buffer,
            comm.context(),
            from,
            tag.exact(),
            comm.translation(),
        )
    }
}
