//! Receiving.

use weft_fabric::Region;

use super::{Source, TagPattern};
use crate::Status;
use crate::buffer::Buffer;
use crate::comm::Comm;
use crate::engine::request::{RequestId, Work};
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
                let empty = Work::receive(Buffer::Flat(Region::EMPTY));
                return self.process().lock().ended(self.context(), empty);
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
