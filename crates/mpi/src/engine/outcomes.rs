//! Outcomes of requests, of one or of a list, for `MPI_Wait` and `MPI_Test` and their families (MPI 5.0, section 3.7).
//!
//! A request that has ended is released when its outcome is taken; a persistent request becomes inactive instead and
//! stays. `None` in a list stands for `MPI_REQUEST_NULL`. Inactive requests count as ended, with the empty status.

use super::on_complete::PersistentOperation;
use super::request::{Phase, Request};
use super::request_id::RequestId;
use super::requests::stale;
use super::status::{Outcome, Status};
use super::{Engine, Guard, WaitFor};
use crate::error::{Error, ErrorClass, Result};

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
    pub(super) fn phase(&self, id: RequestId) -> Result<Phase> {
        if id.is_done() {
            return Ok(Phase::Complete);
        }
        match self.core.requests.get(id) {
            Some(slot) => Ok(slot.phase()),
            None => Err(stale(id)),
        }
    }

    /// What an ended request failed with.
    #[inline]
    pub(crate) fn error_of(&self, id: RequestId) -> Option<&Error> {
        self.core.requests.get(id)?.error()
    }

    /// Whether a request has ended without an error, and its outcome was not taken.
    #[inline(always)]
    pub(crate) fn has_ended_well(&self, id: RequestId) -> bool {
        self.core
            .requests
            .get(id)
            .is_some_and(Request::has_ended_well)
    }

    /// Takes the outcomes of a list whose requests have all ended.
    #[inline]
    pub(crate) fn take_all(
        &mut self,
        list: &mut impl RequestList,
        failure: Option<Error>,
    ) -> Result<()> {
        let failed = failure.is_some();
        let wanted = failed || list.wants_statuses();
        for place in 0..list.len() {
            match list.request(place) {
                None => list.ended(place, None, failed),
                Some(id) if wanted => {
                    let status = self.core.requests.take_status(id);
                    list.ended(place, Some(&status), failed);
                }
                Some(id) => {
                    self.core.requests.retire(id);
                    list.ended(place, None, failed);
                }
            }
        }
        failure.map_or(Ok(()), Err)
    }

    /// The error of a list, if one of its requests, all ended, has failed.
    #[cold]
    pub(crate) fn failure(&self, list: &impl RequestList) -> Option<Error> {
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

    /// A blocking receive that is held up by a loss ends in an error.
    #[cold]
    pub(crate) fn end_held_up(&mut self, id: RequestId, error: &Error) -> Result<Status> {
        self.cancel(id)?;
        _ = self.core.requests.take_status(id);
        Err(Error::new(ErrorClass::ProcFailed, error.text()))
    }

    /// The error of a list of which one is held up by a loss.
    #[inline]
    pub(crate) fn any_held_up(&self, ids: &[Option<RequestId>]) -> Result<()> {
        if self.core.lost.is_quiet() {
            return Ok(());
        }
        let mut ids = ids.iter().flatten();
        ids.find_map(|id| self.held_up(*id)).map_or(Ok(()), Err)
    }

    /// Whether a request is not under way: ended, inactive or taken.
    #[inline]
    pub(crate) fn is_over(&self, id: RequestId) -> bool {
        self.core
            .requests
            .get(id)
            .is_none_or(|slot| !slot.is_active())
    }

    /// Takes what has ended of a list. `Err` if an id is stale.
    pub(crate) fn take_ended(&mut self, ids: &[Option<RequestId>], most: usize) -> Ended {
        let mut ended = Vec::new();
        for (place, id) in ids.iter().enumerate() {
            let Some(id) = *id else { continue };
            if self.phase(id).is_ok_and(|phase| phase == Phase::Complete) {
                ended.push((place, self.core.requests.take_status(id)));
                if ended.len() == most {
                    break;
                }
            }
        }
        ended
    }

    /// Whether a request of a list is under way or ended, not inactive. `Err` if one is stale.
    pub(crate) fn are_any_begun(&self, ids: &[Option<RequestId>]) -> Result<bool> {
        let mut are_any = false;
        for id in ids.iter().flatten() {
            are_any |= self.phase(*id)? != Phase::Inactive;
        }
        Ok(are_any)
    }

    /// The live requests of a list that are under way or ended, not inactive.
    pub(crate) fn pending(&self, ids: &[Option<RequestId>]) -> Result<Vec<RequestId>> {
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
    /// Waits for one request and takes its outcome. One that is held up by a loss ends.
    #[inline]
    pub(crate) fn finish(&mut self, id: RequestId) -> Result<Status> {
        match self.until_over_or_held_up(id) {
            None => outcome(self.core.requests.take_status(id)),
            Some(error) => self.end_held_up(id, &error),
        }
    }

    /// The same, but a request that is held up by a loss goes on.
    #[inline]
    pub(crate) fn finish_unless_held_up(&mut self, id: RequestId) -> Result<Status> {
        match self.until_over_or_held_up(id) {
            None => outcome(self.core.requests.take_status(id)),
            Some(error) => Err(error),
        }
    }

    /// Cancels a receive and takes its outcome: false if its message came before.
    pub(crate) fn withdraw(&mut self, id: RequestId) -> Result<bool> {
        self.cancel(id)?;
        Ok(self.finish(id)?.cancelled)
    }

    /// One look before a wait, where it is not for another to look: whether the request has ended. Most have, of what is sent to
    /// oneself or came meanwhile.
    #[inline]
    fn ends_with_one_look(&mut self, id: RequestId) -> bool {
        !self.driven && !self.parked.any_rests() && self.progress() && self.is_over(id)
    }

    /// Waits until a request has ended, or is held up by a loss.
    #[inline]
    pub(crate) fn until_over_or_held_up(&mut self, id: RequestId) -> Option<Error> {
        if self.is_over(id) || self.ends_with_one_look(id) {
            return None;
        }
        self.wait_for(WaitFor::Requests(&[id]), |engine| {
            if engine.is_over(id) {
                return Some(None);
            }
            engine.held_up(id).map(Some)
        })
    }
}

impl Engine {
    /// The error of the standard for a request that is stale.
    #[inline]
    pub(crate) fn check_live(&self, id: RequestId) -> Result<()> {
        self.phase(id).map(drop)
    }

    /// Whether a request has ended; an error if it is stale.
    pub(crate) fn has_ended(&self, id: RequestId) -> Result<bool> {
        self.phase(id).map(|phase| phase != Phase::Active)
    }

    /// Takes the status of an ended request, with the error in it.
    pub(crate) fn take_status(&mut self, id: RequestId) -> Status {
        self.core.requests.take_status(id)
    }

    /// Takes the outcome of an ended request.
    pub(crate) fn take_outcome(&mut self, id: RequestId) -> Result<Status> {
        outcome(self.core.requests.take_status(id))
    }
}

impl Engine {
    /// The outcome of a request, which stays; `None` while it is under way.
    pub(crate) fn peek(&mut self, id: RequestId) -> Result<Option<Status>> {
        if id.is_done() {
            return Ok(Some(Status::without_slot(id)));
        }
        let slot = self.core.requests.checked(id)?;
        Ok(match slot.phase() {
            Phase::Inactive => Some(Status::empty()),
            Phase::Complete => Some(slot.status(id.engine())),
            Phase::Active | Phase::Free => None,
        })
    }

    /// Nobody will ask for the outcome of a request: it is released when it ends. Answers what it kept to be started
    /// again, whose drop may be the program's code: to be dropped when the engine is not held.
    pub(crate) fn detach(&mut self, id: RequestId) -> Result<Option<Box<PersistentOperation>>> {
        let slot = self.core.requests.checked(id)?;
        let is_active = slot.is_active();
        let on_complete = slot.on_complete_mut();
        if let Some(PersistentOperation::Partitioned(Some(channel))) =
            on_complete.persistent.as_deref()
        {
            if is_active {
                return Err(Error::new(
                    ErrorClass::Request,
                    "the partitioned request is under way; wait for its end before it is freed",
                ));
            }
            self.core.channels.free(*channel);
        }
        on_complete.detached = true;
        let operation = on_complete.persistent.take();
        if !slot.is_active() {
            let is_unread = slot.is_outside() && slot.error().is_some();
            self.core.requests.release(id);
            if is_unread {
                self.core.freed_unread.push(id);
            }
        }
        if let Some(PersistentOperation::Collective {
            on_board: Some(on_board),
            ..
        }) = operation.as_deref()
        {
            self.drop_outstanding(on_board.board);
        }
        Ok(operation)
    }

    /// Whether the program has freed the request of something outside of the engine, which had failed, without asking; told
    /// once.
    pub(crate) fn take_freed_unread(&mut self, id: RequestId) -> bool {
        let freed = &mut self.core.freed_unread;
        let place = freed.iter().position(|other| *other == id);
        place.map(|place| freed.swap_remove(place)).is_some()
    }

    /// The program completes a request of its own.
    pub(crate) fn complete_general(&mut self, id: RequestId) -> Result<()> {
        if !self.core.requests.checked(id)?.is_active() {
            return Err(Error::new(
                ErrorClass::Request,
                "the request has been completed before; complete it once",
            ));
        }
        self.core.complete(id);
        Ok(())
    }

    /// Something outside of the engine has ended, which a request stands for: with so many bytes, or an error. False
    /// if nobody will ask for the outcome.
    pub(crate) fn end_outside(&mut self, id: RequestId, outcome: Result<u64>) -> bool {
        let Some(slot) = self.core.requests.get_mut(id) else {
            return false;
        };
        let awaited = !(slot.has_on_complete() && slot.on_complete().detached);
        let (bytes, error) = match outcome {
            Ok(bytes) => (bytes, None),
            Err(error) => (0, Some(error)),
        };
        slot.set_outcome(Outcome {
            bytes,
            error,
            ..Outcome::NONE
        });
        self.core.complete(id);
        awaited
    }

    /// The communicator's context of a live request.
    pub(crate) fn context_of(&self, id: RequestId) -> Option<u32> {
        self.core.requests.get(id).map(Request::context)
    }

    /// How many requests are live.
    #[cfg(test)]
    pub(crate) fn live_requests(&self) -> usize {
        self.core.requests.live().count()
    }
}

fn outcome(mut status: Status) -> Result<Status> {
    match status.error.take() {
        None => Ok(status),
        Some(error) => Err(error),
    }
}
