//! Completion: wait and test of one, all, any and some; cancel, free, look (MPI 5.0, section 3.7).
//!
//! A request that has ended is released when its outcome is taken; a persistent one becomes inactive
//! instead and lives on. `None` in a list stands for `MPI_REQUEST_NULL`. Inactive requests count as
//! ended, with the empty status.

use crate::Status;
use crate::engine::request::{Phase, RequestId};
use crate::engine::{Engine, Guard, Interest};
use crate::error::{Error, ErrorClass, Result};
use crate::process::Process;

/// Requests by place in the caller's list, with their ends.
pub type Ended = Vec<(usize, Status)>;

impl Engine {
    #[inline]
    fn phase(&self, id: RequestId) -> Result<Phase> {
        match self.core.requests.get(id) {
            Some(slot) => Ok(slot.phase),
            None if id == RequestId::DONE => Ok(Phase::Complete),
            None => Err(crate::engine::request::stale(id)),
        }
    }

    /// Takes the outcome of an ended request.
    #[inline]
    fn take(&mut self, id: RequestId) -> Status {
        let Some(slot) = self.core.requests.get_mut(id) else {
            return Status::empty();
        };
        if slot.phase == Phase::Inactive {
            return Status::empty();
        }
        let status = slot.status();
        if slot.recipe.is_some() {
            slot.phase = Phase::Inactive;
        } else {
            self.core.requests.release(id);
        }
        status
    }

    fn over(&self, id: RequestId) -> bool {
        self.core
            .requests
            .get(id)
            .is_none_or(|slot| slot.phase != Phase::Active)
    }

    /// Takes what has ended of a list. `Err` if an id is stale.
    fn take_ended(&mut self, ids: &[Option<RequestId>], most: usize) -> Ended {
        let mut ended = Vec::new();
        for (place, id) in ids.iter().enumerate() {
            let Some(id) = *id else { continue };
            if self.phase(id).is_ok_and(|phase| phase == Phase::Complete) {
                ended.push((place, self.take(id)));
                if ended.len() == most {
                    break;
                }
            }
        }
        ended
    }

    /// The live requests of a list that are under way or ended, not inactive.
    fn pending(&self, ids: &[Option<RequestId>]) -> Result<Vec<RequestId>> {
        let mut pending = Vec::with_capacity(ids.len());
        for id in ids.iter().flatten() {
            if self.phase(*id)? != Phase::Inactive {
                pending.push(*id);
            }
        }
        Ok(pending)
    }
}

impl Guard<'_> {
    /// Waits for one request and takes its outcome.
    #[inline]
    pub(crate) fn finish(&mut self, id: RequestId) -> Result<Status> {
        self.wait_for(Interest::Requests(&[id]), |engine| {
            engine.over(id).then_some(())
        });
        outcome(self.take(id))
    }
}

fn outcome(mut status: Status) -> Result<Status> {
    match status.error.take() {
        None => Ok(status),
        Some(error) => Err(error),
    }
}

fn outcomes(statuses: &[Status]) -> Result<()> {
    let failed = statuses
        .iter()
        .filter(|status| status.error.is_some())
        .count();
    if failed == 0 {
        return Ok(());
    }
    let first = statuses
        .iter()
        .find_map(|status| status.error.as_ref())
        .map_or("", Error::text);
    Err(Error::new(
        ErrorClass::InStatus,
        format!(
            "{failed} of {} requests failed, the first because {first}; see the error in each status",
            statuses.len()
        ),
    ))
}

impl Process {
    /// `MPI_Wait`.
    ///
    /// # Errors
    /// `Request` for a stale id; otherwise what the operation itself ended with.
    pub fn wait(&self, id: RequestId) -> Result<Status> {
        let mut engine = self.lock();
        engine.phase(id)?;
        engine.finish(id)
    }

    /// `MPI_Test`: the outcome if it has ended.
    ///
    /// # Errors
    /// As for [`Self::wait`].
    pub fn test(&self, id: RequestId) -> Result<Option<Status>> {
        let mut engine = self.lock();
        engine.phase(id)?;
        if !engine.over(id) {
            engine.look();
        }
        if engine.over(id) {
            outcome(engine.take(id)).map(Some)
        } else {
            Ok(None)
        }
    }

    /// `MPI_Request_get_status`: as [`Self::test`], but the request stays.
    ///
    /// # Errors
    /// `Request` for a stale id.
    pub fn peek(&self, id: RequestId) -> Result<Option<Status>> {
        let mut engine = self.lock();
        engine.phase(id)?;
        if !engine.over(id) {
            engine.look();
        }
        if id == RequestId::DONE {
            return Ok(Some(Status::empty()));
        }
        let slot = engine.core.requests.checked(id)?;
        Ok(match slot.phase {
            Phase::Inactive => Some(Status::empty()),
            Phase::Complete => Some(slot.status()),
            Phase::Active | Phase::Free => None,
        })
    }

    /// `MPI_Waitall`: one status for each place of the list.
    ///
    /// # Errors
    /// `Request` for a stale id (nothing was waited for); `InStatus` if any of them failed: see the
    /// errors in `statuses`.
    pub fn wait_all(&self, ids: &[Option<RequestId>], statuses: &mut Vec<Status>) -> Result<()> {
        let mut engine = self.lock();
        for id in ids.iter().flatten() {
            engine.phase(*id)?;
        }
        for id in ids.iter().flatten() {
            engine.wait_for(Interest::Requests(&[*id]), |engine| {
                engine.over(*id).then_some(())
            });
        }
        engine.take_all(ids, statuses);
        outcomes(statuses)
    }

    /// `MPI_Testall`: true, and all statuses, if all have ended; otherwise nothing is taken.
    ///
    /// # Errors
    /// As for [`Self::wait_all`].
    pub fn test_all(&self, ids: &[Option<RequestId>], statuses: &mut Vec<Status>) -> Result<bool> {
        let mut engine = self.lock();
        let pending = engine.pending(ids)?;
        if !pending.iter().all(|id| engine.over(*id)) {
            engine.look();
        }
        if !pending.iter().all(|id| engine.over(*id)) {
            return Ok(false);
        }
        engine.take_all(ids, statuses);
        outcomes(statuses).map(|()| true)
    }

    /// `MPI_Waitany`: place and end of one of them; `None` if none is under way.
    ///
    /// # Errors
    /// `Request` for a stale id; otherwise what that operation ended with, with its place.
    pub fn wait_any(&self, ids: &[Option<RequestId>]) -> Result<Option<(usize, Status)>> {
        let mut engine = self.lock();
        let pending = engine.pending(ids)?;
        if pending.is_empty() {
            return Ok(None);
        }
        let ended = engine.wait_for(Interest::Requests(&pending), |engine| {
            engine.take_ended(ids, 1).pop()
        });
        Ok(Some(ended))
    }

    /// `MPI_Testany`: `Some(None)` if none is under way, `None` if none has ended.
    ///
    /// # Errors
    /// As for [`Self::wait_any`].
    pub fn test_any(&self, ids: &[Option<RequestId>]) -> Result<Option<Option<(usize, Status)>>> {
        let mut engine = self.lock();
        let pending = engine.pending(ids)?;
        if pending.is_empty() {
            return Ok(Some(None));
        }
        if !pending.iter().any(|id| engine.over(*id)) {
            engine.look();
        }
        Ok(engine.take_ended(ids, 1).pop().map(Some))
    }

    /// `MPI_Waitsome`: all that have ended, at least one; `None` if none is under way.
    ///
    /// # Errors
    /// `Request` for a stale id. Failures of the operations are in their statuses.
    pub fn wait_some(&self, ids: &[Option<RequestId>]) -> Result<Option<Ended>> {
        let mut engine = self.lock();
        let pending = engine.pending(ids)?;
        if pending.is_empty() {
            return Ok(None);
        }
        Ok(Some(engine.wait_for(
            Interest::Requests(&pending),
            |engine| {
                let ended = engine.take_ended(ids, usize::MAX);
                (!ended.is_empty()).then_some(ended)
            },
        )))
    }

    /// `MPI_Testsome`: all that have ended; `None` if none is under way.
    ///
    /// # Errors
    /// As for [`Self::wait_some`].
    pub fn test_some(&self, ids: &[Option<RequestId>]) -> Result<Option<Ended>> {
        let mut engine = self.lock();
        let pending = engine.pending(ids)?;
        if pending.is_empty() {
            return Ok(None);
        }
        engine.look();
        Ok(Some(engine.take_ended(ids, usize::MAX)))
    }

    /// `MPI_Cancel`: a posted receive ends as cancelled if it was not matched yet; sends go on.
    ///
    /// # Errors
    /// `Request` for a stale id.
    pub fn cancel(&self, id: RequestId) -> Result<()> {
        if id == RequestId::DONE {
            return Ok(());
        }
        self.lock().cancel(id)
    }

    /// `MPI_Request_free`: the operation goes on; its outcome is nobody's any more.
    ///
    /// # Errors
    /// `Request` for a stale id.
    pub fn free_request(&self, id: RequestId) -> Result<()> {
        if id == RequestId::DONE {
            return Ok(());
        }
        let mut engine = self.lock();
        let slot = engine.core.requests.checked(id)?;
        if slot.phase == Phase::Active {
            slot.detached = true;
            slot.recipe = None;
        } else {
            engine.core.requests.release(id);
        }
        Ok(())
    }

    /// Whether the id still names a request (a persistent one does after its end).
    #[must_use]
    pub fn is_live(&self, id: RequestId) -> bool {
        id == RequestId::DONE || self.lock().core.requests.get(id).is_some()
    }

    /// The communicator's context of a request, to find its error handler.
    #[must_use]
    pub fn context_of(&self, id: RequestId) -> Option<u32> {
        self.lock().core.requests.get(id).map(|slot| slot.context)
    }
}

impl Guard<'_> {
    /// One look for calls that do not wait, unless another thread looks all the time.
    pub(crate) fn look(&mut self) {
        if !self.driven {
            self.progress();
        }
    }
}

impl Engine {
    fn take_all(&mut self, ids: &[Option<RequestId>], statuses: &mut Vec<Status>) {
        statuses.clear();
        statuses.extend(
            ids.iter()
                .map(|id| id.map_or_else(Status::empty, |id| self.take(id))),
        );
    }
}
