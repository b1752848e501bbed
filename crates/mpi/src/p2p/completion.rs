//! Completion calls: wait and test of one, all, any and some; cancel, free, status (MPI 5.0, section 3.7).
//!
//! A request that has ended is released when its outcome is taken; a persistent request becomes inactive instead and
//! stays. `None` in a list stands for `MPI_REQUEST_NULL`. Inactive requests count as ended, with the empty status.
//!
//! The requests of a list are usually in one engine; [`across_engines`](super::across_engines) handles several.

use crate::engine::{Ended, RequestId, RequestList, Status, WaitFor};
use crate::error::Result;
use crate::process::Process;

impl Process {
    /// `MPI_Wait`.
    ///
    /// # Errors
    /// `Request` for a stale id; `ProcFailedPending` for a receive from `MPI_ANY_SOURCE` that a loss holds up, which goes
    /// on (also for lists of requests, from which nothing is taken then); otherwise the error of the operation itself.
    #[inline]
    pub fn wait(&self, id: RequestId) -> Result<Status> {
        if id.is_done() {
            return Ok(Status::without_slot(id));
        }
        let mut engine = self.lock_of(id);
        engine.check_live(id)?;
        let status = engine.finish_unless_held_up(id);
        engine.end_turn();
        status
    }

    /// `MPI_Test`: the outcome if it has ended.
    ///
    /// # Errors
    /// As for [`Self::wait`].
    pub fn test(&self, id: RequestId) -> Result<Option<Status>> {
        if id.is_done() {
            return Ok(Some(Status::without_slot(id)));
        }
        let mut engine = self.lock_of(id);
        engine.check_live(id)?;
        if !engine.is_over(id) {
            engine.ask();
        }
        if engine.is_over(id) {
            engine.take_outcome(id).map(Some)
        } else {
            engine.held_up(id).map_or(Ok(None), Err)
        }
    }

    /// `MPI_Request_get_status`: as [`Self::test`], but the request stays.
    ///
    /// # Errors
    /// `Request` for a stale id.
    pub fn peek(&self, id: RequestId) -> Result<Option<Status>> {
        let mut engine = self.lock_of(id);
        engine.check_live(id)?;
        if !engine.is_over(id) {
            engine.ask();
        }
        engine.peek(id)
    }

    /// `MPI_Waitall`.
    ///
    /// # Errors
    /// `Request` for a stale id (nothing was waited for); `InStatus` if any of them failed: see the
    /// errors in the statuses.
    pub fn wait_all(&self, list: &mut impl RequestList) -> Result<()> {
        let mut engine =
            self.lock_of_first((0..list.len()).filter_map(|place| list.request(place)));
        for place in 0..list.len() {
            if let Some(id) = list.request(place)
                && engine.check_live(id).is_err()
            {
                drop(engine);
                return self.wait_all_across_engines(list);
            }
        }
        let mut failed = false;
        for place in 0..list.len() {
            let Some(id) = list.request(place) else {
                continue;
            };
            // Most have ended while an earlier one was waited for.
            if !id.is_done() && !engine.has_ended_well(id) {
                if let Some(error) = engine.until_over_or_held_up(id) {
                    return Err(error);
                }
                failed |= engine.error_of(id).is_some();
            }
        }
        let failure = if failed { engine.failure(list) } else { None };
        let taken = engine.take_all(list, failure);
        engine.end_turn();
        taken
    }

    /// `MPI_Testall`: true, and all statuses, if all have ended; otherwise nothing is taken.
    ///
    /// # Errors
    /// As for [`Self::wait_all`].
    pub fn test_all(&self, list: &mut impl RequestList) -> Result<bool> {
        let mut engine =
            self.lock_of_first((0..list.len()).filter_map(|place| list.request(place)));
        let mut over = true;
        for place in 0..list.len() {
            if let Some(id) = list.request(place) {
                let Ok(ended) = engine.has_ended(id) else {
                    drop(engine);
                    return self.test_all_across_engines(list);
                };
                over &= ended;
            }
        }
        if !over {
            engine.ask();
            over = (0..list.len())
                .all(|place| list.request(place).is_none_or(|id| engine.is_over(id)));
        }
        if !over {
            let held_up = |place| list.request(place).and_then(|id| engine.held_up(id));
            let held_up = (0..list.len()).find_map(held_up);
            return held_up.map_or(Ok(false), Err);
        }
        let failure = engine.failure(list);
        engine.take_all(list, failure).map(|()| true)
    }

    /// `MPI_Waitany`: place and end of one of them; `None` if none is under way.
    ///
    /// # Errors
    /// `Request` for a stale id; otherwise what that operation ended with, with its place.
    pub fn wait_any(&self, ids: &[Option<RequestId>]) -> Result<Option<(usize, Status)>> {
        let mut engine = self.lock_of_first(ids.iter().copied().flatten());
        let Ok(are_any) = engine.are_any_begun(ids) else {
            drop(engine);
            let ended = self.wait_across_engines(ids, 1)?;
            return Ok(ended.and_then(|mut ended| ended.pop()));
        };
        if !are_any {
            return Ok(None);
        }
        if let Some(ended) = engine.take_ended(ids, 1).pop() {
            return Ok(Some(ended));
        }
        let pending = engine.pending(ids)?;
        let ended = engine.wait_for(WaitFor::Requests(&pending), |engine| {
            let ended = engine.take_ended(ids, 1).pop().map(Ok);
            ended.or_else(|| engine.any_held_up(ids).err().map(Err))
        });
        ended.map(Some)
    }

    /// `MPI_Testany`: `Some(None)` if none is under way, `None` if none has ended.
    ///
    /// # Errors
    /// As for [`Self::wait_any`].
    pub fn test_any(&self, ids: &[Option<RequestId>]) -> Result<Option<Option<(usize, Status)>>> {
        let mut engine = self.lock_of_first(ids.iter().copied().flatten());
        let Ok(are_any) = engine.are_any_begun(ids) else {
            drop(engine);
            let Some(mut ended) = self.test_across_engines(ids, 1)? else {
                return Ok(Some(None));
            };
            return Ok(ended.pop().map(Some));
        };
        if !are_any {
            return Ok(Some(None));
        }
        let mut ended = engine.take_ended(ids, 1).pop();
        if ended.is_none() {
            engine.ask();
            ended = engine.take_ended(ids, 1).pop();
        }
        if ended.is_none() {
            engine.any_held_up(ids)?;
        }
        Ok(ended.map(Some))
    }

    /// `MPI_Waitsome`: all that have ended, at least one; `None` if none is under way.
    ///
    /// # Errors
    /// `Request` for a stale id. Failures of the operations are in their statuses.
    pub fn wait_some(&self, ids: &[Option<RequestId>]) -> Result<Option<Ended>> {
        let mut engine = self.lock_of_first(ids.iter().copied().flatten());
        let Ok(are_any) = engine.are_any_begun(ids) else {
            drop(engine);
            return self.wait_across_engines(ids, usize::MAX);
        };
        if !are_any {
            return Ok(None);
        }
        let ended = engine.take_ended(ids, usize::MAX);
        if !ended.is_empty() {
            return Ok(Some(ended));
        }
        let pending = engine.pending(ids)?;
        let ended = engine.wait_for(WaitFor::Requests(&pending), |engine| {
            let ended = engine.take_ended(ids, usize::MAX);
            if !ended.is_empty() {
                return Some(Ok(ended));
            }
            engine.any_held_up(ids).err().map(Err)
        });
        ended.map(Some)
    }

    /// `MPI_Testsome`: all that have ended; `None` if none is under way.
    ///
    /// # Errors
    /// As for [`Self::wait_some`].
    pub fn test_some(&self, ids: &[Option<RequestId>]) -> Result<Option<Ended>> {
        let mut engine = self.lock_of_first(ids.iter().copied().flatten());
        let Ok(are_any) = engine.are_any_begun(ids) else {
            drop(engine);
            return self.test_across_engines(ids, usize::MAX);
        };
        if !are_any {
            return Ok(None);
        }
        engine.ask();
        let ended = engine.take_ended(ids, usize::MAX);
        if ended.is_empty() {
            engine.any_held_up(ids)?;
        }
        Ok(Some(ended))
    }

    /// `MPI_Cancel`: a posted receive ends as cancelled if it was not matched yet; sends go on.
    ///
    /// # Errors
    /// `Request` for a stale id.
    pub fn cancel(&self, id: RequestId) -> Result<()> {
        self.lock_of(id).cancel(id)
    }

    /// `MPI_Request_free`: the operation goes on; its outcome is discarded.
    ///
    /// # Errors
    /// `Request` for a stale id.
    pub fn free_request(&self, id: RequestId) -> Result<()> {
        if id.is_done() {
            return Ok(());
        }
        let mut engine = self.lock_of(id);
        let kept = engine.detach(id)?;
        drop(engine);
        // It may keep an operation of the program, whose drop is the program's code.
        drop(kept);
        Ok(())
    }

    /// `MPI_Grequest_start`: a request that the program itself completes.
    ///
    /// # Errors
    /// `NoMem` if too many requests are live.
    pub fn begin_general(&self) -> Result<RequestId> {
        let context = self.itself_context();
        self.lock().start_general(context)
    }

    /// `MPI_Grequest_complete`. Wakes the threads that wait for the request.
    ///
    /// # Errors
    /// `Request` if it is stale or has ended already.
    pub fn complete_general(&self, id: RequestId) -> Result<()> {
        let mut engine = self.lock_of(id);
        engine.complete_general(id)?;
        drop(engine);
        // The thread that waits for it may be the one that sleeps on the fabric.
        self.ring();
        Ok(())
    }

    /// A request of its own in place of one that names nothing because its operation had ended when it was begun, such as
    /// [`RequestId::DONE`]: for callers that tell operations apart by their requests. Any other stays as it is.
    ///
    /// # Errors
    /// `NoMem` if too many requests are live.
    pub fn name_apart(&self, id: RequestId) -> Result<RequestId> {
        if !id.is_done() {
            return Ok(id);
        }
        let context = self.itself_context();
        self.lock().name_apart(id, context)
    }

    /// A request, of the communicator with this context, for what is done outside of the engine.
    pub(crate) fn begin_outside(&self, context: u32) -> Result<RequestId> {
        self.lock().start_general(context)
    }

    /// Ends such a request. Whoever waits for it is woken. False if nobody will ask for the outcome.
    pub(crate) fn end_outside(&self, id: RequestId, outcome: Result<u64>) -> bool {
        let mut engine = self.lock_of(id);
        let awaited = engine.end_outside(id, outcome);
        drop(engine);
        // The thread that waits for it may be the one that sleeps on the fabric.
        self.ring();
        awaited
    }

    /// Whether the program has freed such a request, which had ended with an error, without asking; told once.
    pub(crate) fn take_freed_unread(&self, id: RequestId) -> bool {
        self.lock_of(id).take_freed_unread(id)
    }

    /// Whether the id still names a request (a persistent one does after its end).
    #[must_use]
    pub fn is_live(&self, id: RequestId) -> bool {
        id.is_done() || self.lock_of(id).check_live(id).is_ok()
    }

    /// The communicator's context of a request, to find its error handler.
    #[must_use]
    pub fn context_of(&self, id: RequestId) -> Option<u32> {
        self.lock_of(id).context_of(id)
    }
}
