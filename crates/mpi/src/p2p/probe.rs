//! Probing, and receiving what was probed (MPI 5.0, section 3.8).

use std::sync::Arc;

use super::{Source, TagPattern};
use crate::Status;
use crate::buffer::Buffer;
use crate::comm::Comm;
use crate::engine::{
    Engine, Guard, Outcome, Probe, Received, RequestId, Unexpected, WaitFor, outcome_of,
};
use crate::error::Result;
use crate::group::Group;
use crate::process::Process;

/// A matched message that was not received yet (`MPI_Message`).
#[derive(Debug)]
pub struct Message {
    pub(super) message: Unexpected,
    context: u32,
    group: Option<Arc<Group>>,
    /// The rank of its sender.
    source: u32,
}

impl Message {
    /// The context of the communicator that it was probed on; errors of its receive belong there.
    #[must_use]
    pub fn context(&self) -> u32 {
        self.context
    }

    /// What its status says.
    #[inline]
    pub(super) fn received(&self) -> Received {
        let envelope = &self.message.envelope;
        Received {
            source: self.source,
            tag: envelope.tag,
            bytes: envelope.size,
        }
    }
}

/// Waits for what `look` finds, or until nobody is left to send it.
fn wait<T>(
    mut engine: Guard<'_>,
    probe: &Probe,
    look: impl Fn(&Probe, &mut Engine) -> Option<T>,
) -> Result<T> {
    engine.wait_for(WaitFor::Probe(probe), |engine| {
        let found = look(probe, engine).map(Ok);
        found.or_else(|| probe.lost(engine).map(Err))
    })
}

/// Looks twice: progress may bring it.
fn try_now<T>(
    mut engine: Guard<'_>,
    probe: &Probe,
    look: impl Fn(&Probe, &mut Engine) -> Option<T>,
) -> Result<Option<T>> {
    let found = look(probe, &mut engine).or_else(|| {
        engine.ask();
        look(probe, &mut engine)
    });
    match found {
        Some(found) => Ok(Some(found)),
        None => probe.lost(&engine).map_or(Ok(None), Err),
    }
}

impl Comm {
    fn probe_of(&self, from: Source, tag: TagPattern) -> Result<Option<Probe>> {
        self.check_usable()?;
        let from = match from {
            Source::Null => return Ok(None),
            Source::Any => None,
            Source::Rank(rank) => Some(self.target(rank)?),
        };
        let group = self.translation();
        Ok(Some(Probe::new(self.context(), from, tag.exact(), group)))
    }

    pub(crate) fn status_of(&self, outcome: &Outcome) -> Status {
        Status {
            source: outcome.source.and_then(|peer| self.rank_of(peer)),
            tag: outcome.tag,
            bytes: outcome.bytes,
            message: true,
            ..Status::empty()
        }
    }

    /// `MPI_Probe`: waits for a message that a receive with these arguments would get.
    ///
    /// # Errors
    /// `Rank` for a rank that does not exist; `ProcFailed` if a possible sender is lost.
    pub fn probe(&self, from: Source, tag: TagPattern) -> Result<Status> {
        let comm = self.of_receive(from, tag)?;
        let Some(probe) = comm.probe_of(from, tag)? else {
            return Ok(Status::null());
        };
        let outcome = wait(comm.lock(), &probe, Probe::peek)?;
        Ok(self.status_of(&outcome))
    }

    /// `MPI_Iprobe`.
    ///
    /// # Errors
    /// `Rank` for a rank that does not exist; `ProcFailed` if a possible sender is lost.
    pub fn iprobe(&self, from: Source, tag: TagPattern) -> Result<Option<Status>> {
        let comm = self.of_receive(from, tag)?;
        let Some(probe) = comm.probe_of(from, tag)? else {
            return Ok(Some(Status::null()));
        };
        let found = try_now(comm.lock(), &probe, Probe::peek)?;
        Ok(found.map(|outcome| self.status_of(&outcome)))
    }

    /// `MPI_Mprobe`: like [`Self::probe`], and takes the message. `None` in place of a message stands for
    /// `MPI_MESSAGE_NO_PROC`.
    ///
    /// # Errors
    /// `Rank` for a rank that does not exist; `ProcFailed` if a possible sender is lost.
    pub fn mprobe(&self, from: Source, tag: TagPattern) -> Result<(Option<Message>, Status)> {
        let comm = self.of_receive(from, tag)?;
        let Some(probe) = comm.probe_of(from, tag)? else {
            return Ok((None, Status::null()));
        };
        let message = wait(comm.lock(), &probe, Probe::take)?;
        Ok(comm.detached(message))
    }

    /// `MPI_Improbe`.
    ///
    /// # Errors
    /// `Rank` for a rank that does not exist; `ProcFailed` if a possible sender is lost.
    pub fn improbe(
        &self,
        from: Source,
        tag: TagPattern,
    ) -> Result<Option<(Option<Message>, Status)>> {
        let comm = self.of_receive(from, tag)?;
        let Some(probe) = comm.probe_of(from, tag)? else {
            return Ok(Some((None, Status::null())));
        };
        let found = try_now(comm.lock(), &probe, Probe::take)?;
        Ok(found.map(|message| comm.detached(message)))
    }

    fn detached(&self, message: Unexpected) -> (Option<Message>, Status) {
        let status = self.status_of(&outcome_of(&message));
        (Some(self.message_of(message)), status)
    }

    #[inline]
    pub(super) fn message_of(&self, message: Unexpected) -> Message {
        Message {
            // Whoever is no member has no message of this context.
            source: self.rank_of(message.from).unwrap_or(message.from.0),
            message,
            context: self.context(),
            group: self.translation(),
        }
    }
}

impl Process {
    /// `MPI_Imrecv`: receives a message that was taken by a probe.
    ///
    /// # Errors
    /// Only by the request: `Truncate`.
    pub fn imrecv(&self, message: Message, buffer: Buffer) -> RequestId {
        let Message {
            message,
            context,
            group,
            ..
        } = message;
        self.engine_of(context)
            .lock()
            .start_probed_receive(message, buffer, context, group)
    }

    /// `MPI_Mrecv`.
    ///
    /// # Errors
    /// `Truncate` when the message is longer than the buffer.
    pub fn mrecv(&self, message: Message, buffer: Buffer) -> Result<Status> {
        let request = self.imrecv(message, buffer);
        self.wait(request)
    }
}
