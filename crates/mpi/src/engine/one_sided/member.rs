//! Member of a window: operations under way to it, and its messages about epochs and locks.

use std::collections::VecDeque;

use weft_atomic::ticket_lock::Time;

use super::operation::OperationId;
use crate::error::Error;

/// Whether operations may go to a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Gate {
    /// They may.
    #[default]
    Open,
    /// Its lock was asked for.
    AwaitsLock,
    /// It has not begun its exposure epoch.
    AwaitsPost,
}

/// Another member, or this rank itself. Invariant: `answered <= sent`.
#[derive(Debug, Default)]
pub(crate) struct Member {
    /// Operations to it that have not left, in order.
    pub(super) queue: VecDeque<OperationId>,
    /// Whether it stands in the list of those with operations that have not left.
    pub(super) listed: bool,
    /// Messages to it that are answered, and how many of them were.
    pub(super) sent: u64,
    pub(super) answered: u64,
    /// Operations that wait for data of it.
    pub(super) awaiting: u32,
    gate: Gate,
    /// The time of the writer past which this rank has its lock; 0 if it has gone past none.
    overtaken: Time,
    /// Exposure epochs that it has begun for this rank, which has not used them.
    posts: u32,
    /// Access epochs that it has ended, which this rank has not taken note of.
    completes: u32,
    /// Messages of it that were carried out and that it was not told of.
    pub(super) untold: u64,
    failure: Option<Error>,
    lost: Option<Error>,
}

impl Member {
    /// Whether all operations to it have been carried out.
    #[inline]
    pub(crate) fn is_flushed(&self) -> bool {
        self.is_flushed_locally() && self.sent == self.answered
    }

    /// Whether the memory of this rank is free that operations to it use.
    #[inline]
    pub(crate) fn is_flushed_locally(&self) -> bool {
        self.queue.is_empty() && self.awaiting == 0
    }

    /// Whether operations may go to it.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.gate == Gate::Open
    }

    /// What operations to it wait for.
    pub(super) fn gate(&self) -> Gate {
        self.gate
    }

    /// Operations wait for this from now on.
    pub(crate) fn close(&mut self, gate: Gate) {
        self.gate = gate;
        if gate == Gate::AwaitsPost && self.posts > 0 {
            self.posts -= 1;
            self.gate = Gate::Open;
        }
    }

    /// Operations wait for nothing.
    pub(crate) fn open(&mut self) {
        self.gate = Gate::Open;
    }

    /// It has begun an exposure epoch.
    pub(super) fn posted(&mut self) {
        if self.gate == Gate::AwaitsPost {
            self.gate = Gate::Open;
        } else {
            self.posts = self.posts.saturating_add(1);
        }
    }

    /// It has given the lock, past a writer that waits since then. False if that was not due.
    #[must_use]
    pub(super) fn granted(&mut self, since: Time) -> bool {
        let due = self.gate == Gate::AwaitsLock;
        if due {
            self.gate = Gate::Open;
            self.overtaken = since;
        }
        due
    }

    /// The lock is given back: since when the writer waits past which this rank had it, or 0.
    pub(super) fn take_overtaken(&mut self) -> Time {
        std::mem::take(&mut self.overtaken)
    }

    /// It has ended an access epoch.
    pub(super) fn completed(&mut self) {
        self.completes = self.completes.saturating_add(1);
    }

    /// Whether it has ended an access epoch.
    pub(crate) fn has_completed(&self) -> bool {
        self.completes > 0
    }

    /// Takes note of one that it has ended.
    pub(crate) fn take_complete(&mut self) {
        self.completes = self.completes.saturating_sub(1);
    }

    /// Messages were answered. False if there are not as many.
    #[must_use]
    pub(super) fn answer(&mut self, count: u64) -> bool {
        let due = count <= self.sent - self.answered;
        if due {
            self.answered += count;
        }
        due
    }

    /// What is said of it once it is lost.
    pub(crate) fn lost(&self) -> Option<&Error> {
        self.lost.as_ref()
    }

    /// It is lost: nothing goes to it any more, and nothing of it is waited for.
    pub(super) fn lose(&mut self, error: &Error) {
        self.queue.clear();
        self.answered = self.sent;
        self.open();
        self.fail(error.clone());
        self.lost = Some(error.clone());
    }

    /// An operation to it has failed; the first failure is kept.
    pub(super) fn fail(&mut self, error: Error) {
        self.failure.get_or_insert(error);
    }

    pub(super) fn take_failure(&mut self) -> Option<Error> {
        self.failure.take()
    }
}
