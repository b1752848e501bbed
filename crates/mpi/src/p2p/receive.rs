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
    /// `Truncate` when the message is longer than the buffer (what fits is there); `Rank` for a rank
    /// that is none; `ProcFailed` when the sender is lost.
    #[inline]
    pub fn recv(&self, buffer: Buffer, from: Source, tag: TagPattern) -> Result<Status> {
        let from = match from {
            Source::Null => return Ok(Status::null()),
            Source::Any => None,
            Source::Rank(rank) => Some(self.target(rank)?),
        };
        let mut engine = self.process().lock();
        let request = engine.start_receive(
            buffer,
            self.context(),
            from,
            tag.exact(),
            self.translation(),
        )?;
        engine.finish(request)
    }

    /// `MPI_Irecv`.
    ///
    /// # Errors
    /// `Rank` for a rank that is none.
    #[inline]
    pub fn irecv(&self, buffer: Buffer, from: Source, tag: TagPattern) -> Result<RequestId> {
        let from = match from {
            Source::Null => {
                return self.process().lock().start_null_receive(self.context());
            }
            Source::Any => None,
            Source::Rank(rank) => Some(self.target(rank)?),
        };
        let mut engine = self.process().lock();
        engine.start_receive(
            buffer,
            self.context(),
            from,
            tag.exact(),
            self.translation(),
        )
    }
}
