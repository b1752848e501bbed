//! The engine of one rank: fabric, matching, requests, and the one place where progress is made.
//!
//! ```text
//!   calls ──► start_send / start_receive ──► fabric.try_send · matching.post
//!                                                   ▲
//!   wait / test ──► progress ── fabric.poll ──► Core (a Sink): matching.arrive, copy, complete
//!                      │                            │
//!                      └── then what polling left to do: pull, answer, flush, advance collectives
//! ```
//!
//! [`Engine`] is two halves: the fabric, and the [`Core`] that the fabric reports to while it is
//! polled. What needs the fabric itself is noted as a [`Todo`] and done right after the poll.
//!
//! One lock guards the engine ([`Shared`]). Of the threads and fibers that wait, one drives progress; the others
//! sleep until it completes what they wait for, or until it leaves and hands the wheel over.

mod arrival;
mod deferred;
mod disagreement;
pub(crate) mod envelope;
mod loss;
mod outbox;
mod parked;
mod rendezvous;
pub(crate) mod request;
pub mod schedule;
mod shared;
pub(crate) mod start;

use weft_fabric::{Fabric, Guest, Operation, Peer, Token};
use weft_fiber::Waiter;
use weft_matching::Matching;

use crate::error::Error;
use deferred::Deferred;
use envelope::Envelope;
use outbox::Outbox;
use parked::Parked;
use request::{Outcome, Phase, RequestId, Requests, Work};
use schedule::{Runs, ScheduleId};
pub(crate) use shared::{Guard, Interest, Shared};

/// How many items one look may handle before the caller's own condition is looked at again.
const BUDGET: usize = 32;

/// Name of an unexpected message in the engine's table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct UnexpectedId(pub u32);

/// A message that came before its receive.
#[derive(Debug)]
pub(crate) struct Unexpected {
    pub from: Peer,
    pub envelope: Envelope,
    /// The data, unless they wait at the sender.
    pub data: Vec<u8>,
}

/// What polling left to do with the fabric.
#[derive(Debug)]
pub(crate) enum Todo {
    /// A receive is matched with data that wait at the sender.
    Pull {
        request: RequestId,
        from: Peer,
        envelope: Envelope,
    },
    /// Tell a sender that its message is matched and its buffer free.
    Answer { to: Peer, reply: Envelope },
    /// The receiver of a rendezvous says that it has the data.
    Answered(RequestId),
    /// A transfer by portal has ended.
    Pulled {
        request: RequestId,
        error: Option<Error>,
    },
    /// A collective may go on.
    Advance(ScheduleId),
    /// A peer is lost.
    Lost { peer: Peer, reason: String },
}

/// A receive that is being pulled and has not ended at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pulling {
    pub from: Peer,
    /// What its sender is told then.
    pub reply: Envelope,
}

/// What the fabric reports to.
pub(crate) struct Core {
    pub matching: Matching<RequestId, UnexpectedId>,
    pub requests: Requests,
    pub unexpected: Vec<Option<Unexpected>>,
    pub unexpected_free: Vec<u32>,
    /// Emptied data vectors, kept so that unexpected messages do not allocate for ever.
    pub spare: Vec<Vec<u8>>,
    pub runs: Runs,
    pub todo: Vec<Todo>,
    /// Left to do for the program's own code, when the engine is let go of.
    pub deferred: Deferred,
    /// Operations of the fabric that answered `Pending`.
    pub pulling: Vec<(Operation, RequestId, Pulling)>,
    pub next_operation: u64,
    /// Asleep until something unexpected arrives (probes).
    pub probing: Vec<Waiter>,
    /// Whether a thread was woken that may need the core of the one that drives.
    pub woken: bool,
    /// Bytes of buffered sends under way.
    pub buffered: usize,
    /// Peers that are lost, with the reason.
    pub lost: Vec<(Peer, String)>,
    /// Messages that were no envelopes.
    pub refused: u64,
    /// Who else uses the endpoint, and whether it may have something to settle.
    pub guest: Option<Box<dyn Guest>>,
    pub guest_called: bool,
}

/// Requests that tasks of an executor await, see [`crate::p2p::future`].
#[derive(Debug, Default)]
pub(crate) struct Futures {
    /// How many.
    pub count: usize,
    /// Whether a thread waits on their behalf.
    pub is_driven: bool,
}

/// One rank's engine.
pub(crate) struct Engine {
    pub fabric: Box<dyn Fabric>,
    pub core: Core,
    pub outbox: Outbox,
    /// From this size on a message is pulled instead of sent.
    pub eager: usize,
    /// Bytes that buffered sends may take in all.
    pub allowance: usize,
    /// Memory for packing elements with gaps.
    pub scratch: Vec<u8>,
    /// What is being done of what polling left to do; empty otherwise.
    pub doing: Vec<Todo>,
    /// Pulls that the fabric had no room for.
    pub retry_pulls: Vec<(RequestId, Peer, Envelope)>,
    /// Whether somebody drives progress right now.
    pub driven: bool,
    /// Those who wait while another drives.
    pub parked: Parked,
    pub futures: Futures,
}

impl Engine {
    pub(crate) fn new(fabric: Box<dyn Fabric>) -> Self {
        let limits = fabric.limits();
        let peers = fabric.peers() as usize;
        Self {
            eager: limits.bulk.min(limits.data),
            fabric,
            core: Core {
                matching: Matching::new(),
                requests: Requests::default(),
                unexpected: Vec::new(),
                unexpected_free: Vec::new(),
                spare: Vec::new(),
                runs: Runs::default(),
                todo: Vec::new(),
                deferred: Deferred::default(),
                pulling: Vec::new(),
                next_operation: 0,
                probing: Vec::new(),
                woken: false,
                buffered: 0,
                lost: Vec::new(),
                refused: 0,
                guest: None,
                guest_called: false,
            },
            outbox: Outbox::new(peers),
            allowance: 0,
            scratch: Vec::new(),
            doing: Vec::new(),
            retry_pulls: Vec::new(),
            driven: false,
            parked: Parked::default(),
            futures: Futures::default(),
        }
    }

    /// Looks once at everything. True if anything moved.
    #[inline]
    pub(crate) fn progress(&mut self) -> bool {
        let moved = self.fabric.poll(&mut self.core, BUDGET) > 0;
        if self.has_chores() {
            return self.do_chores() | moved;
        }
        moved
    }

    /// Whether anything is left to do after a poll.
    #[inline]
    fn has_chores(&self) -> bool {
        let core = &self.core;
        !self.outbox.is_empty()
            | core.runs.signalled
            | core.runs.stuck
            | !self.retry_pulls.is_empty()
            | !core.todo.is_empty()
            | core.guest_called
    }

    /// Does what is left to do after a poll. True if anything moved.
    fn do_chores(&mut self) -> bool {
        let mut moved = false;
        if !self.outbox.is_empty() {
            moved |= self.flush();
        }
        if self.core.runs.signalled || self.core.runs.stuck {
            self.advance_signalling();
        }
        if !self.retry_pulls.is_empty() {
            self.retry_pulls();
        }
        if !self.core.todo.is_empty() {
            self.settle();
        }
        if self.core.guest_called {
            moved |= self.settle_guest();
        }
        moved
    }

    /// Something came for the guest, or it was called: it does what that has left to do.
    #[cold]
    fn settle_guest(&mut self) -> bool {
        let Some(guest) = &mut self.core.guest else {
            return false;
        };
        let moved = guest.settle(&mut *self.fabric);
        self.core.guest_called = !guest.is_settled();
        // Whoever waits for it is parked as those who wait for anything.
        self.core.wake_probing();
        moved
    }

    /// Does what polling left to do.
    fn settle(&mut self) {
        // New entries may appear while old ones are done; each is done once. The two lists change
        // places, so that neither gives up its memory.
        let mut doing = std::mem::take(&mut self.doing);
        while !self.core.todo.is_empty() {
            std::mem::swap(&mut doing, &mut self.core.todo);
            for todo in doing.drain(..) {
                match todo {
                    Todo::Pull {
                        request,
                        from,
                        envelope,
                    } => self.pull(request, from, &envelope),
                    Todo::Answer { to, reply } => self.answer(to, reply),
                    Todo::Answered(request) => self.answered(request),
                    Todo::Pulled { request, error } => self.pulled(request, error),
                    Todo::Advance(run) => self.advance(run),
                    Todo::Lost { peer, reason } => self.lose(peer, &reason),
                }
            }
        }
        self.doing = doing;
    }

    /// Gives back the messages of a context that no receive will be posted for: see
    /// [`Comm::drop_messages`](crate::Comm::drop_messages).
    pub(crate) fn drop_context(&mut self, context: u32) {
        let wanted = self.core.requests.live().any(|(_, slot)| {
            let may_post = slot.is_persistent() || matches!(slot.work, Work::Schedule);
            slot.context == context && may_post
        });
        if wanted {
            return;
        }
        for context in [context, context | 1] {
            let all = start::pattern(context, None, None);
            while let Some((_, id)) = self.core.matching.take(all) {
                let message = self.core.take_unexpected(id);
                self.core.recycle(message.data);
            }
        }
    }

    /// Lets the persistent request `follower` end with `begun`, which carries it out.
    pub(crate) fn follow(&mut self, begun: RequestId, follower: RequestId) {
        let Some(slot) = self.core.requests.get_mut(begun) else {
            return;
        };
        slot.duties_mut().follower = Some(follower);
        if slot.phase == Phase::Complete {
            self.core.complete(begun);
        }
    }
}

impl Core {
    /// A number that no other transfer of this rank has.
    pub(crate) fn next_number(&mut self) -> Token {
        let number = self.next_operation;
        self.next_operation += 1;
        Token(number)
    }

    /// An active request has ended, its outcome is in its slot.
    #[inline]
    pub(crate) fn complete(&mut self, id: RequestId) {
        let Some(slot) = self.requests.get_mut(id) else {
            return;
        };
        slot.phase = Phase::Complete;
        if slot.has_duties() {
            self.discharge(id);
        }
    }

    /// Does what is due at the end of a request.
    fn discharge(&mut self, id: RequestId) {
        let Some(slot) = self.requests.get_mut(id) else {
            return;
        };
        let duties = slot.duties_mut();
        if let Some(waiter) = duties.waiter.take() {
            self.woken |= waiter.is_thread();
            self.deferred.wake(waiter);
        }
        let buffered = std::mem::take(&mut duties.buffered);
        let (parent, follower, detached) = (duties.parent, duties.follower.take(), duties.detached);
        let carried = follower.map(|follower| (follower, std::mem::take(&mut slot.outcome)));
        let received = matches!(slot.work, Work::Receive { .. });
        if buffered > 0 {
            self.buffered -= buffered;
            self.wake_probing();
        }
        if let Some(run) = parent {
            self.end_part(id, run);
        } else if let Some((follower, outcome)) = carried {
            self.requests.release(id);
            self.end_leg(follower, outcome, received);
        } else if detached {
            self.requests.release(id);
        }
    }

    /// Nobody waits for this request any more.
    pub(crate) fn forget_waiter(&mut self, id: RequestId) {
        if let Some(slot) = self.requests.get_mut(id)
            && slot.has_duties()
            && let Some(waiter) = slot.duties_mut().waiter.take()
        {
            self.deferred.drop_waiter(waiter);
        }
    }

    /// A request that carries out `id` has ended with `outcome`. Of a pair, the receive gives the
    /// status, and either may give the error.
    pub(crate) fn end_leg(&mut self, id: RequestId, outcome: Outcome, received: bool) {
        let Some(slot) = self.requests.get_mut(id) else {
            return;
        };
        let earlier = slot.outcome.error.take();
        let legs = slot.duties().legs;
        if received || legs == 0 {
            slot.outcome = outcome;
        } else {
            slot.outcome.error = outcome.error;
        }
        if earlier.is_some() {
            slot.outcome.error = earlier;
        }
        if legs > 0 {
            slot.duties_mut().legs = legs - 1;
        }
        if legs <= 1 {
            self.complete(id);
        }
    }

    /// Wakes the threads that wait for something unexpected.
    pub(crate) fn wake_probing(&mut self) {
        for waiter in self.probing.drain(..) {
            self.deferred.wake(waiter);
        }
    }

    /// Has somebody woken when a request ends that is under way.
    pub(crate) fn await_end(&mut self, id: RequestId, waiter: Waiter) {
        if let Some(slot) = self.requests.get_mut(id)
            && slot.phase == Phase::Active
            && let Some(before) = slot.duties_mut().waiter.replace(waiter)
        {
            self.deferred.drop_waiter(before);
        }
    }

    /// A transfer of a collective has ended: counted there, and its slot given back.
    pub(crate) fn end_part(&mut self, id: RequestId, run: ScheduleId) {
        let Some(slot) = self.requests.get_mut(id) else {
            return;
        };
        let expected = match &slot.work {
            Work::Receive { buffer, .. } => Some(buffer.bytes()),
            _ => None,
        };
        let outcome = std::mem::take(&mut slot.outcome);
        self.requests.release(id);
        if self
            .runs
            .ended(run, expected, outcome.bytes, outcome.error.as_ref())
        {
            self.todo.push(Todo::Advance(run));
        }
    }

    /// Takes an unexpected message out of the table.
    pub(crate) fn take_unexpected(&mut self, id: UnexpectedId) -> Unexpected {
        self.unexpected_free.push(id.0);
        self.unexpected[id.0 as usize]
            .take()
            .expect("the matching engine names each message once")
    }

    /// Gives back the memory of an unexpected message.
    pub(crate) fn recycle(&mut self, mut data: Vec<u8>) {
        if self.spare.len() < 64 && data.capacity() <= 64 * 1024 {
            data.clear();
            self.spare.push(data);
        }
    }
}
