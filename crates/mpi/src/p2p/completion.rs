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

/// The list of a caller that waits for all of its requests, and where the ends go. Its functions are called
/// while the process is in use: to call the process from them panics.
pub trait RequestList {
    /// How many places it has.
    fn len(&self) -> usize;
    /// Whether it has none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The request at a place; `None` stands for `MPI_REQUEST_NULL`.
    fn request(&self, place: usize) -> Option<RequestId>;
    /// Whether anybody wants the statuses, however well all went.
    fn wants_statuses(&self) -> bool;
    /// The request at a place has ended. `failed`: some of the list did, so each status says whether
    /// its operation was one of them. Called for every place once all have ended.
    fn ended(&mut self, place: usize, status: Option<&Status>, failed: bool);
}

/// Names with room for all statuses.
impl RequestList for (&[Option<RequestId>], &mut Vec<Status>) {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn request(&self, place: usize) -> Option<RequestId> {
        self.0[place]
    }

    fn wants_statuses(&self) -> bool {
        true
    }

    fn ended(&mut self, _place: usize, status: Option<&Status>, _failed: bool) {
        self.1.push(status.cloned().unwrap_or_else(Status::empty));
    }
}

/// Requests by place in the caller's list, with their ends.
pub type Ended = Vec<(usize, Status)>;

impl Engine {
    #[inline]
    fn phase(&self, id: RequestId) -> Result<Phase> {
        if id == RequestId::DONE {
            return Ok(Phase::Complete);
        }
        match self.core.requests.get(id) {
            Some(slot) => Ok(slot.phase),
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
        self.settle_ended(id);
        status
    }

    /// The outcome of an ended request has been taken, or nobody wants it.
    #[inline]
    fn settle_ended(&mut self, id: RequestId) {
        let Some(slot) = self.core.requests.get_mut(id) else {
            return;
        };
        if slot.is_persistent() {
            slot.phase = Phase::Inactive;
        } else {
            self.core.requests.release(id);
        }
    }

    /// What an ended request failed with.
    #[inline]
    fn error_of(&self, id: RequestId) -> Option<&Error> {
        let slot = self.core.requests.get(id)?;
        match slot.phase {
            Phase::Complete => slot.outcome.error.as_ref(),
            Phase::Free | Phase::Inactive | Phase::Active => None,
        }
    }

    /// Takes the outcomes of a list whose requests have all ended.
    #[inline]
    fn take_all(&mut self, list: &mut impl RequestList, failure: Option<Error>) -> Result<()> {
        let failed = failure.is_some();
        let wanted = failed || list.wants_statuses();
        for place in 0..list.len() {
            match list.request(place) {
                None => list.ended(place, None, failed),
                Some(id) if wanted => {
                    let status = self.take(id);
                    list.ended(place, Some(&status), failed);
                }
                Some(id) => {
                    self.settle_ended(id);
                    list.ended(place, None, failed);
                }
            }
        }
        failure.map_or(Ok(()), Err)
    }

    /// The error of a list, if one of its requests, all ended, has failed.
    #[cold]
    fn failure(&self, list: &impl RequestList) -> Option<Error> {
        let errors: Vec<&Error> = (0..list.len())
            .filter_map(|place| self.error_of(list.request(place)?))
            .collect();
        let first = errors.first()?.text();
        Some(Error::new(
            ErrorClass::InStatus,
            format!(
                "{} of {} requests failed, the first because {first}; see the error in each status",
                errors.len(),
                list.len()
            ),
        ))
    }

    #[inline]
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

impl Engine {
    /// Whether a request has ended; an error if it is stale.
    pub(crate) fn has_ended(&self, id: RequestId) -> Result<bool> {
        self.phase(id).map(|_| self.over(id))
    }

    /// Takes the outcome of an ended request.
    pub(crate) fn take_outcome(&mut self, id: RequestId) -> Result<Status> {
        outcome(self.take(id))
    }
}

fn outcome(mut status: Status) -> Result<Status> {
    match status.error.take() {
        None => Ok(status),
        Some(error) => Err(error),
    }
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

    /// `MPI_Waitall`.
    ///
    /// # Errors
    /// `Request` for a stale id (nothing was waited for); `InStatus` if any of them failed: see the
    /// errors in the statuses.
    pub fn wait_all(&self, list: &mut impl RequestList) -> Result<()> {
        let mut engine = self.lock();
        for place in 0..list.len() {
            if let Some(id) = list.request(place) {
                engine.phase(id)?;
            }
        }
        let mut failed = false;
        for place in 0..list.len() {
            let Some(id) = list.request(place) else {
                continue;
            };
            if id != RequestId::DONE {
                engine.wait_for(Interest::Requests(&[id]), |engine| {
                    engine.over(id).then_some(())
                });
                failed |= engine.error_of(id).is_some();
            }
        }
        let failure = if failed { engine.failure(list) } else { None };
        engine.take_all(list, failure)
    }

    /// `MPI_Testall`: true, and all statuses, if all have ended; otherwise nothing is taken.
    ///
    /// # Errors
    /// As for [`Self::wait_all`].
    pub fn test_all(&self, list: &mut impl RequestList) -> Result<bool> {
        let mut engine = self.lock();
        let mut over = true;
        for place in 0..list.len() {
            if let Some(id) = list.request(place) {
                over &= engine.phase(id)? != Phase::Active;
            }
        }
        if !over {
            engine.look();
            over =
                (0..list.len()).all(|place| list.request(place).is_none_or(|id| engine.over(id)));
        }
        if !over {
            return Ok(false);
        }
        let failure = engine.failure(list);
        engine.take_all(list, failure).map(|()| true)
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
        let duties = slot.duties_mut();
        duties.detached = true;
        // It may keep an operation of the program, whose drop is the program's code.
        let recipe = duties.recipe.take();
        if slot.phase != Phase::Active {
            engine.core.requests.release(id);
        }
        drop(engine);
        drop(recipe);
        Ok(())
    }

    /// `MPI_Grequest_start`: a request that the program itself completes.
    ///
    /// # Errors
    /// `NoMem` if too many requests are live.
    pub fn begin_general(&self) -> Result<RequestId> {
        let context = self.itself_context();
        let mut engine = self.lock();
        let requests = &mut engine.core.requests;
        requests.check_room()?;
        Ok(requests.insert(context, None, crate::engine::request::Work::Nothing))
    }

    /// `MPI_Grequest_complete`. Whoever waits for the request is woken.
    ///
    /// # Errors
    /// `Request` if it is stale or has ended already.
    pub fn complete_general(&self, id: RequestId) -> Result<()> {
        let mut engine = self.lock();
        let slot = engine.core.requests.checked(id)?;
        if slot.phase != Phase::Active {
            return Err(Error::new(
                ErrorClass::Request,
                "the request has been completed before; complete it once",
            ));
        }
        engine.core.complete(id);
        drop(engine);
        // The thread that waits for it may be the one that sleeps on the fabric.
        self.ring();
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
