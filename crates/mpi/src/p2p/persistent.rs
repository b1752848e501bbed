//! Persistent requests (MPI 5.0, section 3.9): the arguments are kept, the operation starts again.

use super::{SendMode, Source, TagPattern, Target};
use crate::buffer::Buffer;
use crate::comm::Comm;
use crate::engine::{PersistentOperation, RequestId};
use crate::error::Result;
use crate::process::Process;

impl Comm {
    /// `MPI_Send_init` and its modes.
    ///
    /// # Errors
    /// `Rank` for a rank that is none.
    pub fn send_init(
        &self,
        mode: SendMode,
        buffer: Buffer,
        to: Target,
        tag: i32,
    ) -> Result<RequestId> {
        let to = match to {
            Target::Null => None,
            Target::Rank(rank) => Some(self.target(rank)?),
        };
        self.of_tag(tag).keep(PersistentOperation::Send {
            mode,
            buffer,
            to,
            tag,
        })
    }

    /// `MPI_Recv_init`.
    ///
    /// # Errors
    /// `Rank` for a rank that is none.
    pub fn recv_init(&self, buffer: Buffer, from: Source, tag: TagPattern) -> Result<RequestId> {
        let comm = self.of_receive(from, tag)?;
        let from = match from {
            Source::Null => None,
            Source::Any => Some(None),
            Source::Rank(rank) => Some(Some(self.target(rank)?)),
        };
        comm.keep(PersistentOperation::Receive {
            buffer,
            from,
            tag: tag.exact(),
        })
    }

    /// An inactive request for an operation.
    pub(crate) fn keep(&self, operation: PersistentOperation) -> Result<RequestId> {
        let mut engine = self.lock();
        engine.keep(self.context(), self.translation(), operation)
    }
}

impl Process {
    /// `MPI_Start`.
    ///
    /// # Errors
    /// `Request` if it is stale, not persistent or under way; otherwise what the operation could not begin
    /// for. The request is inactive then.
    pub fn start(&self, id: RequestId) -> Result<()> {
        self.lock_of(id).start(id)
    }

    /// `MPI_Startall`: starts all, also if one cannot be: others may wait for them.
    ///
    /// # Errors
    /// `Request` if any is stale, not persistent or under way: none is started then. Otherwise that of the
    /// first that could not be started, which is inactive; see [`Self::start`].
    pub fn start_all(&self, ids: impl Iterator<Item = RequestId> + Clone) -> Result<()> {
        let mut engine = self.lock_of_first(ids.clone());
        for id in ids.clone() {
            if !engine.is_startable(id) {
                drop(engine);
                return self.start_all_across_engines(ids);
            }
        }
        let started = ids.map(|id| engine.start(id));
        started.fold(Ok(()), Result::and)
    }
}
