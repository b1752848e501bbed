//! Completion: the consequences of the end of a request.
//!
//! ```text
//!   complete ──► run_on_complete ─┬─► wake who waits
//!                                 ├─► the attached buffer has room again; a flush may end
//!                                 ├─► a transfer of a run: counted there         end_transfer_of
//!                                 ├─► a part of a partitioned message: counted there
//!                                 ├─► a part of another request: that may end    end_part ──► complete
//!                                 └─► detached: released
//! ```

use weft_fiber::Waiter;

use super::collective_mismatch::is_mismatch;
use super::deferred::Deferred;
use super::events::EventKind;
use super::request_id::RequestId;
use super::runs::Expected;
use super::schedule::RunId;
use super::status::Outcome;
use super::waiters::Queue;
use super::{Core, Engine};

impl Core {
    /// An active request has ended, its outcome is in its slot.
    #[inline]
    pub(super) fn complete(&mut self, id: RequestId) {
        let Some(slot) = self.requests.get_mut(id) else {
            return;
        };
        let has_more = slot.complete();
        if self.events.wants(EventKind::Completed) {
            self.note_completed(id);
        }
        if has_more {
            self.run_on_complete(id);
        }
    }

    /// Tells a tool that a request has ended.
    #[cold]
    pub(super) fn note_completed(&mut self, id: RequestId) {
        if let Some(slot) = self.requests.get(id) {
            let (peer, tag, bytes) = slot.said();
            let message = (tag, slot.context());
            self.raise(EventKind::Completed, peer, message, bytes);
        }
    }

    /// Does what is due at the end of a request.
    pub(super) fn run_on_complete(&mut self, id: RequestId) {
        let Some(slot) = self.requests.get_mut(id) else {
            return;
        };
        let on_complete = slot.on_complete_mut();
        if let Some(waiter) = on_complete.waiter.take() {
            self.waiters.wake_for_request(waiter, &mut self.callbacks);
        }
        let buffered = std::mem::take(&mut on_complete.buffered);
        let (run, detached) = (on_complete.run, on_complete.detached);
        let part = on_complete.part.take();
        let follower = on_complete.follower.take();
        let received = slot.is_receive();
        let carried = follower.map(|follower| (follower, slot.take_outcome()));
        if buffered > 0 {
            self.end_buffered(id, buffered);
        }
        if let Some(run) = run {
            self.end_transfer_of(id, run);
        } else if let Some(part) = part {
            self.end_part_of_message(id, part);
        } else if let Some((follower, outcome)) = carried {
            self.requests.release(id);
            self.end_part(follower, outcome, received);
        } else if detached {
            self.requests.release(id);
        }
    }

    /// A request that carries out `id`, or a part of it, has ended with `outcome`.
    pub(super) fn end_part(&mut self, id: RequestId, outcome: Outcome, received: bool) {
        let slot = self.requests.get_mut(id);
        if slot.is_some_and(|slot| slot.end_part(outcome, received)) {
            self.complete(id);
        }
    }

    /// A transfer of a collective has ended: counted there, and its slot given back.
    pub(super) fn end_transfer_of(&mut self, id: RequestId, run: RunId) {
        let Some(slot) = self.requests.get_mut(id) else {
            return;
        };
        let from = slot.expected_source();
        let expected = slot.room().map(|bytes| Expected { bytes, from });
        let outcome = slot.take_outcome();
        self.requests.release(id);
        let error = outcome.error.as_ref();
        let differs = error.is_some_and(is_mismatch)
            || expected.is_some_and(|expected| expected.bytes as u64 != outcome.bytes);
        if differs && error.is_none_or(is_mismatch) {
            self.deferred.push(Deferred::Mismatched(run));
        }
        if self.runs.end_transfer(run, expected, outcome.bytes, error) {
            self.deferred.push(Deferred::Advance(run));
        }
    }

    /// Wakes all who wait for something that is no request.
    pub(super) fn wake_all(&mut self) {
        self.waiters.wake_all(&mut self.callbacks);
    }

    /// Wakes those who wait for several things.
    pub(super) fn wake_others(&mut self) {
        self.waiters.wake(Queue::Other, &mut self.callbacks);
    }

    /// Wakes those who wait for something at a window.
    pub(super) fn wake_for_windows(&mut self) {
        self.waiters.wake_for_windows(&mut self.callbacks);
    }
}

impl Engine {
    /// Has somebody woken when a request ends that is under way.
    pub(crate) fn await_end(&mut self, id: RequestId, waiter: Waiter) {
        if let Some(slot) = self.core.requests.get_mut(id)
            && slot.is_active()
            && let Some(before) = slot.on_complete_mut().waiter.replace(waiter)
        {
            self.core.callbacks.drop_waiter(before);
        }
    }

    /// Nobody waits for this request any more.
    pub(crate) fn forget_waiter(&mut self, id: RequestId) {
        if let Some(slot) = self.core.requests.get_mut(id)
            && slot.has_on_complete()
            && let Some(waiter) = slot.on_complete_mut().waiter.take()
        {
            self.core.callbacks.drop_waiter(waiter);
        }
    }

    /// Lets the request `follower` end with `begun`, which carries it out, or a part of it.
    pub(super) fn follow(&mut self, begun: RequestId, follower: RequestId) {
        let Some(slot) = self.core.requests.get_mut(begun) else {
            return;
        };
        slot.on_complete_mut().follower = Some(follower);
        if !slot.is_active() {
            self.core.complete(begun);
        }
    }
}
