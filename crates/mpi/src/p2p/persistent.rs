//! Persistent requests (MPI 5.0, section 3.9): the arguments are kept, the operation starts again.

use weft_fabric::Region;

use super::{SendMode, Source, TagPattern, Target};
use crate::buffer::Buffer;
use crate::comm::Comm;
use crate::engine::Engine;
use crate::engine::request::{Outcome, Phase, Recipe, RequestId, Work};
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
        Ok(self.keep(Recipe::Send {
            mode,
            buffer,
            to,
            tag,
        }))
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
        Ok(self.keep(Recipe::Receive {
            buffer,
            from,
            tag: tag.exact(),
        }))
    }

    /// An inactive request with a recipe.
    pub(crate) fn keep(&self, recipe: Recipe) -> RequestId {
        let mut engine = self.process().lock();
        let request =
            engine
                .core
                .requests
                .insert(self.context(), self.translation(), Work::Nothing);
        if let Some(slot) = engine.core.requests.get_mut(request) {
            slot.phase = Phase::Inactive;
            slot.duties_mut().recipe = Some(Box::new(recipe));
        }
        request
    }
}

impl Process {
    /// `MPI_Start`.
    ///
    /// # Errors
    /// `Request` if it is stale, not persistent or under way.
    pub fn start(&self, id: RequestId) -> Result<()> {
        let mut engine = self.lock();
        let slot = engine.core.requests.checked(id)?;
        let Some(recipe) = slot.duties().recipe.as_deref() else {
            return Err(not_startable(
                "is not persistent: only requests of MPI_Send_init, MPI_Recv_init and the like can be started",
            ));
        };
        if slot.phase != Phase::Inactive {
            return Err(not_startable(
                "is under way: wait for its end before it is started again",
            ));
        }
        let recipe = recipe.clone();
        slot.phase = Phase::Active;
        slot.work = Work::Nothing;
        slot.outcome = Outcome {
            tag: -1,
            ..Outcome::default()
        };
        let context = slot.context;
        match recipe {
            Recipe::Send { to: None, .. } => engine.core.complete(id),
            Recipe::Send {
                mode,
                buffer,
                to: Some(to),
                tag,
            } => {
                let begun = if mode == SendMode::Buffered {
                    engine
                        .start_buffered(buffer, context, to, tag)
                        .map(|()| None)
                } else {
                    engine.start_send(mode, buffer, context, to, tag)
                };
                match begun {
                    Ok(Some(begun)) => engine.follow(begun, id),
                    Ok(None) => engine.core.complete(id),
                    Err(error) => {
                        // Nothing is under way: it can be started again, or freed.
                        if let Some(slot) = engine.core.requests.get_mut(id) {
                            slot.phase = Phase::Inactive;
                        }
                        return Err(error);
                    }
                }
            }
            Recipe::Receive { buffer, from, tag } => {
                let Some(from) = from else {
                    set_work(
                        &mut engine,
                        id,
                        Work::Receive {
                            buffer: Buffer::Flat(Region::EMPTY),
                            posted: None,
                        },
                    );
                    engine.core.complete(id);
                    return Ok(());
                };
                set_work(
                    &mut engine,
                    id,
                    Work::Receive {
                        buffer,
                        posted: None,
                    },
                );
                engine.post_receive(id, context, from, tag);
            }
            Recipe::Collective { schedule, place } => {
                engine.begin_schedule(schedule, place, id);
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
