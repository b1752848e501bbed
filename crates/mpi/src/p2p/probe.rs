//! Probing, and receiving what was probed (MPI 5.0, section 3.8).

use std::sync::Arc;

use super::{Source, TagPattern};
use crate::Status;
use crate::buffer::Buffer;
use crate::comm::Comm;
use crate::engine::request::{Outcome, RequestId, Work};
use crate::engine::start::pattern;
use crate::engine::{Engine, Interest, Unexpected};
use crate::error::{Error, Result};
use crate::group::Group;
use crate::process::Process;
use weft_fabric::Peer;

/// A matched message that was not received yet (`MPI_Message`).
#[derive(Debug)]
pub struct Message {
    message: Unexpected,
    context: u32,
    group: Option<Arc<Group>>,
}

/// What a probe looks for.
struct Sought {
    context: u32,
    from: Option<Peer>,
    tag: Option<i32>,
    group: Option<Arc<Group>>,
}

impl Sought {
    /// Waits for what `look` finds, or until nobody is left to send it.
    fn wait<T>(
        &self,
        process: &Process,
        look: impl Fn(&Self, &mut Engine) -> Option<T>,
    ) -> Result<T> {
        let mut engine = process.lock();
        let known = engine.core.lost.len();
        engine.wait_for(Interest::Arrivals, |engine| {
            let found = look(self, engine).map(Ok);
            found.or_else(|| self.lost(engine, known).map(Err))
        })
    }

    /// Looks twice: progress may bring it.
    fn try_now<T>(
        &self,
        process: &Process,
        look: impl Fn(&Self, &mut Engine) -> Option<T>,
    ) -> Result<Option<T>> {
        let mut engine = process.lock();
        let known = engine.core.lost.len();
        let found = look(self, &mut engine).or_else(|| {
            engine.look();
            look(self, &mut engine)
        });
        match found {
            Some(found) => Ok(Some(found)),
            None => self.lost(&engine, known).map_or(Ok(None), Err),
        }
    }

    fn lost(&self, engine: &Engine, known: usize) -> Option<Error> {
        if engine.core.lost.is_empty() {
            return None;
        }
        let group = self.group.as_deref();
        engine
            .nobody_sends(self.from, group)
            .or_else(|| match self.from {
                Some(_) => None,
                None => engine.lost_since(known, group),
            })
    }

    fn peek(&self, engine: &mut Engine) -> Option<Outcome> {
        let core = &mut engine.core;
        let (envelope, id) = core
            .matching
            .peek(pattern(self.context, self.from, self.tag))?;
        let message = core.unexpected[id.0 as usize].as_ref()?;
        Some(Outcome {
            source: Some(message.from),
            tag: envelope.tag.0,
            bytes: message.envelope.size,
            ..Outcome::default()
        })
    }

    fn take(&self, engine: &mut Engine) -> Option<Unexpected> {
        let (_, id) = engine
            .core
            .matching
            .take(pattern(self.context, self.from, self.tag))?;
        Some(engine.core.take_unexpected(id))
    }
}

impl Comm {
    fn sought(&self, from: Source, tag: TagPattern) -> Result<Option<Sought>> {
        let from = match from {
            Source::Null => return Ok(None),
            Source::Any => None,
            Source::Rank(rank) => Some(self.target(rank)?),
        };
        Ok(Some(Sought {
            context: self.context(),
            from,
            tag: tag.exact(),
            group: self.translation(),
        }))
    }

    fn status_of(&self, outcome: &Outcome) -> Status {
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
    /// `Rank` for a rank that is none; `ProcFailed` if whoever might send it is lost.
    pub fn probe(&self, from: Source, tag: TagPattern) -> Result<Status> {
        let Some(sought) = self.sought(from, tag)? else {
            return Ok(Status::null());
        };
        let outcome = sought.wait(self.process(), Sought::peek)?;
        Ok(self.status_of(&outcome))
    }

    /// `MPI_Iprobe`.
    ///
    /// # Errors
    /// `Rank` for a rank that is none; `ProcFailed` if whoever might send it is lost.
    pub fn iprobe(&self, from: Source, tag: TagPattern) -> Result<Option<Status>> {
        let Some(sought) = self.sought(from, tag)? else {
            return Ok(Some(Status::null()));
        };
        let found = sought.try_now(self.process(), Sought::peek)?;
        Ok(found.map(|outcome| self.status_of(&outcome)))
    }

    /// `MPI_Mprobe`: as [`Self::probe`], and takes the message. `None` instead of a message stands
    /// for `MPI_MESSAGE_NO_PROC`.
    ///
    /// # Errors
    /// `Rank` for a rank that is none; `ProcFailed` if whoever might send it is lost.
    pub fn mprobe(&self, from: Source, tag: TagPattern) -> Result<(Option<Message>, Status)> {
        let Some(sought) = self.sought(from, tag)? else {
            return Ok((None, Status::null()));
        };
        let message = sought.wait(self.process(), Sought::take)?;
        Ok(self.detached(message))
    }

    /// `MPI_Improbe`.
    ///
    /// # Errors
    /// `Rank` for a rank that is none; `ProcFailed` if whoever might send it is lost.
    pub fn improbe(
        &self,
        from: Source,
        tag: TagPattern,
    ) -> Result<Option<(Option<Message>, Status)>> {
        let Some(sought) = self.sought(from, tag)? else {
            return Ok(Some((None, Status::null())));
        };
        let found = sought.try_now(self.process(), Sought::take)?;
        Ok(found.map(|message| self.detached(message)))
    }

    fn detached(&self, message: Unexpected) -> (Option<Message>, Status) {
        let outcome = Outcome {
            source: Some(message.from),
            tag: message.envelope.tag,
            bytes: message.envelope.size,
            ..Outcome::default()
        };
        let status = self.status_of(&outcome);
        (
            Some(Message {
                message,
                context: self.context(),
                group: self.translation(),
            }),
            status,
        )
    }
}

impl Process {
    /// `MPI_Imrecv`: receives a message that was taken by a probe.
    ///
    /// # Errors
    /// Only by the request: `Truncate`.
    pub fn imrecv(&self, message: Message, buffer: Buffer) -> RequestId {
        let mut engine = self.lock();
        let work = Work::receive(buffer);
        let request = engine
            .core
            .requests
            .insert(message.context, message.group, work);
        engine.take_message(request, message.message);
        request
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
