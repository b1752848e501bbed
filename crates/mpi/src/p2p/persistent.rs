//! Persistent requests (MPI 5.0, section 3.9): the arguments are kept, the operation starts again.

use weft_fabric::Region;

use super::{SendMode, Source, TagPattern, Target};
use crate::buffer::Buffer;
use crate::comm::Comm;
use crate::engine::Engine;
use crate::engine::request::{Outcome, Phase, Recipe, Request, RequestId, Work};
use crate::error::{Error, ErrorClass, Result};
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
        self.keep(Recipe::Send {
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
        let from = match from {
            Source::Null => None,
            Source::Any => Some(None),
            Source::Rank(rank) => Some(Some(self.target(rank)?)),
        };
        self.keep(Recipe::Receive {
            buffer,
            from,
            tag: tag.exact(),
        })
    }

    /// An inactive request with a recipe.
    pub(crate) fn keep(&self, recipe: Recipe) -> Result<RequestId> {
        let mut engine = self.process().lock();
        engine.core.requests.check_room()?;
        let request =
            engine
                .core
                .requests
                .insert(self.context(), self.translation(), Work::Nothing);
        if let Some(slot) = engine.core.requests.get_mut(request) {
            slot.phase = Phase::Inactive;
            slot.duties_mut().recipe = Some(Box::new(recipe));
        }
        Ok(request)
    }
}

impl Process {
    /// `MPI_Start`.
    ///
    /// # Errors
    /// `Request` if it is stale, not persistent or under way; otherwise what the operation could not begin
    /// for. The request is inactive then.
    pub fn start(&self, id: RequestId) -> Result<()> {
        self.lock().start(id)
    }

    /// `MPI_Startall`: starts all, also if one cannot be: others may wait for them.
    ///
    /// # Errors
    /// `Request` if any is stale, not persistent or under way: none is started then. Otherwise that of the
    /// first that could not be started, which is inactive; see [`Self::start`].
    pub fn start_all(&self, ids: &[RequestId]) -> Result<()> {
        let mut engine = self.lock();
        for id in ids {
            engine.startable(*id)?;
        }
        let mut outcome = Ok(());
        for id in ids {
            let started = engine.start(*id);
            outcome = outcome.and(started);
        }
        outcome
    }
}

impl Engine {
    /// The slot of a request that may be started.
    fn startable(&mut self, id: RequestId) -> Result<&mut Request> {
        let slot = self.core.requests.checked(id)?;
        if !slot.is_persistent() {
            return Err(not_startable(
                "is not persistent: only requests of MPI_Send_init, MPI_Recv_init and the like can be started",
            ));
        }
        if slot.phase != Phase::Inactive {
            return Err(not_startable(
                "is under way: wait for its end before it is started again",
            ));
        }
        Ok(slot)
    }

    fn start(&mut self, id: RequestId) -> Result<()> {
        let slot = self.startable(id)?;
        let recipe = slot.duties().recipe.as_deref().cloned();
        let recipe = recipe.expect("a persistent request has one");
        slot.phase = Phase::Active;
        slot.work = Work::Nothing;
        slot.outcome = Outcome {
            tag: -1,
            ..Outcome::default()
        };
        let context = slot.context;
        let begun = self.begin(id, context, recipe);
        if begun.is_err()
            && let Some(slot) = self.core.requests.get_mut(id)
        {
            slot.phase = Phase::Inactive;
        }
        begun
    }

    /// Begins what a persistent request does.
    fn begin(&mut self, id: RequestId, context: u32, recipe: Recipe) -> Result<()> {
        match recipe {
            Recipe::Send { to: None, .. } => self.core.complete(id),
            Recipe::Send {
                mode,
                buffer,
                to: Some(to),
                tag,
            } => {
                if mode == SendMode::Buffered {
                    self.start_buffered(buffer, context, to, tag)?;
                    self.core.complete(id);
                } else if let Some(begun) = self.start_send(mode, buffer, context, to, tag)? {
                    self.follow(begun, id);
                } else {
                    self.core.complete(id);
                }
            }
            Recipe::Receive { buffer, from, tag } => {
                let Some(from) = from else {
                    set_work(self, id, Work::receive(Buffer::Flat(Region::EMPTY)));
                    self.core.complete(id);
                    return Ok(());
                };
                set_work(self, id, Work::receive(buffer));
                self.post_receive(id, context, from, tag);
            }
            Recipe::Collective { schedule, place } => {
                self.begin_schedule(schedule, place, id);
            }
        }
        Ok(())
    }
}

fn set_work(engine: &mut Engine, id: RequestId, work: Work) {
    if let Some(slot) = engine.core.requests.get_mut(id) {
        slot.work = work;
    }
}

#[cold]
fn not_startable(why: &str) -> Error {
    Error::new(ErrorClass::Request, format!("the request {why}"))
}
