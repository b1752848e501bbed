//! Request: one operation from its beginning until its outcome is taken.
//!
//! ```text
//!   Inactive ──start──► Active ──complete──► Complete ──taken──► Free, or Inactive if persistent
//! ```
//!
//! Its *work* is a send or a receive with a life of its own ([`Sending`], [`Receiving`]), or a collective, whose steps
//! are elsewhere. All transitions are methods of [`Request`].

use std::mem::{forget, replace, take};
use std::sync::Arc;

use weft_fabric::{Peer, Region, SharedBytes, Token};
use weft_matching::Handle;

use super::envelope::Envelope;
use super::on_complete::{OnComplete, PersistentOperation};
use super::polling_receive::{Met, Received};
use super::receiving::{PieceTaken, Receiving, Transfer};
use super::sending::{AfterLeaving, Answer, Asked, Sending};
use super::status::{Outcome, Status};
use crate::buffer::Buffer;
use crate::datatype::SignatureCode;
use crate::error::Error;
use crate::group::Group;
use crate::marks::Mark;

/// Where a request stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// The slot is free.
    Free,
    /// Persistent and not started.
    Inactive,
    /// Under way.
    Active,
    /// Ended; the outcome waits to be taken.
    Complete,
}

/// What a request does when it is (re)started, or is doing.
#[derive(Debug, Default)]
pub(super) enum Work {
    /// Nothing: free slot, or a peer that is `MPI_PROC_NULL`.
    #[default]
    Nothing,
    /// A send under way.
    Send(Sending),
    /// A receive.
    Receive(Receiving),
    /// A collective.
    Schedule,
}

impl Work {
    /// A receive that is not posted.
    pub(super) fn receive(buffer: Buffer) -> Self {
        Self::Receive(Receiving::new(buffer))
    }

    /// A receive from `MPI_PROC_NULL`.
    pub(super) fn receive_nothing() -> Self {
        Self::receive(Buffer::untyped(Region::EMPTY))
    }

    /// Whether it owns anything that must be dropped.
    #[inline]
    fn owns(&self) -> bool {
        match self {
            Self::Nothing | Self::Schedule => false,
            Self::Receive(receiving) => receiving.owns(),
            Self::Send(sending) => sending.owns(),
        }
    }
}

// What is written for each request.
const _: () = assert!(size_of::<Work>() <= 56);

/// One slot of the table of requests. While it is free, nothing in it owns anything.
#[derive(Debug)]
pub(super) struct Request {
    generation: u32,
    phase: Phase,
    /// Whether `on_complete` is any but the default.
    has_on_complete: bool,
    /// It is a receive that has [ended plainly](Self::end_plainly): it owns nothing, and there is nothing to be said but the
    /// message.
    is_plain: bool,
    /// Communicator context, to find the error handler and for reports.
    context: u32,
    /// The next free slot, while this one is free.
    next_free: u32,
    /// Ranks of the communicator, where they differ from the peers.
    group: Option<Arc<Group>>,
    work: Work,
    outcome: Outcome,
    on_complete: OnComplete,
}

/// The slot: its present request.
impl Request {
    pub(super) fn vacant(next_free: u32, generation: u32) -> Self {
        Self {
            generation,
            phase: Phase::Free,
            has_on_complete: false,
            is_plain: false,
            context: 0,
            next_free,
            group: None,
            work: Work::Nothing,
            outcome: Outcome::default(),
            on_complete: OnComplete::default(),
        }
    }

    /// Takes the free slot for an active request; answers the next free slot.
    #[inline(always)]
    pub(super) fn occupy(&mut self, context: u32, group: Option<Arc<Group>>, work: Work) -> u32 {
        self.phase = Phase::Active;
        self.context = context;
        // What these replace owns nothing, as the slot was free: there is nothing to be dropped.
        forget(replace(&mut self.group, group));
        forget(replace(&mut self.work, work));
        forget(replace(&mut self.outcome, Outcome::NONE));
        self.next_free
    }

    /// Gives the slot up; its next name has this generation.
    #[inline]
    pub(super) fn vacate(&mut self, generation: u32) {
        self.generation = generation;
        self.phase = Phase::Free;
        if take(&mut self.is_plain) {
            return;
        }
        if self.has_on_complete
            || self.group.is_some()
            || self.outcome.error.is_some()
            || self.work.owns()
        {
            self.clear();
        }
    }

    /// Puts the free slot in front of another one.
    #[inline]
    pub(super) fn chain(&mut self, next_free: u32) {
        self.next_free = next_free;
    }

    /// Drops what it owns.
    #[cold]
    fn clear(&mut self) {
        self.has_on_complete = false;
        self.on_complete = OnComplete::default();
        self.group = None;
        self.work = Work::Nothing;
        self.outcome.error = None;
    }

    #[inline]
    pub(super) fn generation(&self) -> u32 {
        self.generation
    }

    #[inline]
    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    #[inline]
    pub(super) fn is_active(&self) -> bool {
        self.phase == Phase::Active
    }

    /// The communicator's context.
    #[inline]
    pub(super) fn context(&self) -> u32 {
        self.context
    }

    /// Whether the program has a handle of it: it is no part of another one, and was not freed.
    pub(super) fn is_the_programs(&self) -> bool {
        let due = &self.on_complete;
        !self.has_on_complete
            || !due.detached && due.run.is_none() && due.follower.is_none() && due.part.is_none()
    }

    /// What translates peers to ranks, where they differ.
    pub(super) fn group(&self) -> Option<&Group> {
        self.group.as_deref()
    }
}

/// The end of it.
impl Request {
    /// It has ended, its outcome is noted. True if anything else is due: see [`OnComplete`].
    #[inline]
    #[must_use]
    pub(super) fn complete(&mut self) -> bool {
        self.phase = Phase::Complete;
        self.has_on_complete && self.on_complete.is_anything_due()
    }

    /// Whether anything is due when it ends.
    #[inline]
    pub(super) fn has_on_complete(&self) -> bool {
        self.has_on_complete
    }

    /// What is due when it ends.
    #[inline]
    pub(super) fn on_complete(&self) -> &OnComplete {
        &self.on_complete
    }

    /// What is due when it ends, to be changed.
    pub(super) fn on_complete_mut(&mut self) -> &mut OnComplete {
        self.has_on_complete = true;
        self.is_plain = false;
        &mut self.on_complete
    }

    /// Whether it stands for something outside of the engine (or for nothing).
    pub(super) fn is_outside(&self) -> bool {
        matches!(self.work, Work::Nothing)
    }

    /// What it failed with, once it has ended.
    #[inline]
    pub(super) fn error(&self) -> Option<&Error> {
        match self.phase {
            Phase::Complete => self.outcome.error.as_ref(),
            Phase::Free | Phase::Inactive | Phase::Active => None,
        }
    }

    /// Whether it has ended, and without an error.
    #[inline(always)]
    pub(super) fn has_ended_well(&self) -> bool {
        self.phase == Phase::Complete && self.outcome.error.is_none()
    }

    /// Notes what it fails with.
    pub(super) fn fail(&mut self, error: Option<Error>) {
        self.outcome.error = error;
    }

    /// Whose message it got, with which tag, of how many bytes; of a send, to whom.
    pub(super) fn said(&self) -> (Option<Peer>, i32, u64) {
        let peer = self.sending().map(Sending::to).or(self.outcome.source);
        (peer, self.outcome.tag, self.outcome.bytes)
    }

    /// Notes its outcome.
    pub(super) fn set_outcome(&mut self, outcome: Outcome) {
        self.is_plain = false;
        self.outcome = outcome;
    }

    /// Its outcome, for whom it was carried out; none is left.
    pub(super) fn take_outcome(&mut self) -> Outcome {
        take(&mut self.outcome)
    }

    /// A part of it has ended with `outcome`. Of a pair, the receive gives the status, and either may give the
    /// error. True if it was the last part.
    #[must_use]
    pub(super) fn end_part(&mut self, outcome: Outcome, received: bool) -> bool {
        let earlier = self.outcome.error.take();
        let pending = self.on_complete.pending_parts;
        if received || pending == 0 {
            self.outcome = outcome;
        } else {
            self.outcome.error = outcome.error;
        }
        if earlier.is_some() {
            self.outcome.error = earlier;
        }
        if pending > 0 {
            self.on_complete_mut().pending_parts = pending - 1;
        }
        pending <= 1
    }

    /// The outcome as the caller sees it, with the source as a rank. The request is in this engine.
    #[inline]
    pub(super) fn status(&self, engine: u32) -> Status {
        let outcome = &self.outcome;
        let rank = |peer: Peer| match &self.group {
            None => Some(peer.0),
            Some(group) => group.rank_of(peer),
        };
        Status {
            source: outcome.source.and_then(rank),
            tag: outcome.tag,
            bytes: outcome.bytes,
            cancelled: outcome.cancelled,
            error: outcome.error.clone(),
            message: outcome.source.is_some(),
            null: outcome.source.is_none() && !outcome.cancelled && self.is_receive(),
            mark: Mark {
                word: outcome.mark,
                from: outcome.source.map_or(u32::MAX, |peer| peer.0),
                engine,
            },
        }
    }
}

/// An end that most receives have.
impl Request {
    /// The data of the message that a posted receive was matched with are here, and it ends with them, as most do: they fit, are short
    /// unless they may be `LONG`, and there is nothing else to be done or said. False, without effect, if it is not so.
    #[inline(always)]
    #[must_use]
    pub(super) fn end_plainly<const LONG: bool>(
        &mut self,
        (from, tag): (Peer, i32),
        signature: SignatureCode,
        data: SharedBytes<'_>,
    ) -> bool {
        let Work::Receive(receiving) = &mut self.work else {
            return false;
        };
        if self.phase != Phase::Active
            || self.has_on_complete && self.on_complete.is_anything_due()
            || self.group.is_some()
            || !receiving.end_plainly::<LONG>(signature, data)
        {
            return false;
        }
        self.outcome.source = Some(from);
        self.outcome.tag = tag;
        self.outcome.bytes = data.len() as u64;
        self.phase = Phase::Complete;
        // A persistent one keeps its slot.
        self.is_plain = !self.has_on_complete;
        true
    }

    /// The message of a receive that has ended plainly.
    #[inline(always)]
    pub(super) fn plainly_received(&self) -> Option<Received> {
        // It has a source.
        let source = self.outcome.source.filter(|_| self.is_plain)?.0;
        Some(Received {
            source,
            tag: self.outcome.tag,
            bytes: self.outcome.bytes,
        })
    }

    /// Gives up the slot of one that has ended plainly, which owns nothing; its next name has this generation, and the next
    /// free slot is this one.
    #[inline(always)]
    pub(super) fn vacate_plain(&mut self, generation: u32, next_free: u32) {
        self.generation = generation;
        self.phase = Phase::Free;
        self.is_plain = false;
        self.next_free = next_free;
    }

    /// The message of a receive that has ended with one, without an error, and with nothing else due.
    #[inline]
    pub(super) fn received(&self) -> Option<Received> {
        if self.phase != Phase::Complete || self.has_on_complete || !self.is_receive() {
            return None;
        }
        self.message()
    }

    /// The message of a persistent request that has ended without an error, and with nothing else due; `Some(None)` if it is no receive.
    #[inline]
    pub(super) fn repeated(&self) -> Option<Option<Received>> {
        if self.phase != Phase::Complete || !self.is_persistent() {
            return None;
        }
        if self.is_receive() {
            return self.message().map(Some);
        }
        // What receives a message in parts has one, too.
        let outcome = &self.outcome;
        let is_plain = outcome.error.is_none() && outcome.source.is_none() && !outcome.cancelled;
        is_plain.then_some(None)
    }

    /// The same, if it is a send, a collective, or a receive whose message says its rank: nothing is called.
    #[inline(always)]
    pub(super) fn plainly_repeated(&self) -> Option<Option<Received>> {
        let outcome = &self.outcome;
        if self.phase != Phase::Complete
            || !self.is_persistent()
            || outcome.error.is_some()
            || outcome.cancelled
        {
            return None;
        }
        match (&self.work, outcome.source) {
            (Work::Nothing | Work::Schedule, None) => Some(None),
            (Work::Receive(_), Some(from)) if outcome.mark == 0 && self.group.is_none() => {
                Some(Some(Received {
                    source: from.0,
                    tag: outcome.tag,
                    bytes: outcome.bytes,
                }))
            }
            _ => None,
        }
    }

    /// The message of one that has ended, if that is all that is to be said.
    #[inline]
    fn message(&self) -> Option<Received> {
        let outcome = &self.outcome;
        if outcome.error.is_some() || outcome.cancelled || outcome.mark != 0 {
            return None;
        }
        let from = outcome.source?;
        let source = match &self.group {
            None => from.0,
            Some(group) => group.rank_of(from)?,
        };
        Some(Received {
            source,
            tag: outcome.tag,
            bytes: outcome.bytes,
        })
    }
}

/// A persistent request.
impl Request {
    /// Whether it can be started again.
    #[inline]
    pub(super) fn is_persistent(&self) -> bool {
        self.has_on_complete && self.on_complete.persistent.is_some()
    }

    /// It waits to be started (again).
    #[inline]
    pub(super) fn make_inactive(&mut self) {
        debug_assert!(!self.is_plain);
        self.phase = Phase::Inactive;
    }

    /// It is started: a receive is to be posted. Answers what it does.
    #[inline]
    pub(super) fn restart(&mut self) -> &PersistentOperation {
        let operation = self.on_complete.persistent.as_deref();
        let operation = operation.expect("a persistent request has one");
        self.work = match operation {
            PersistentOperation::Receive {
                buffer,
                from: Some(_),
                ..
            } => Work::receive(buffer.clone()),
            PersistentOperation::Receive { from: None, .. }
            | PersistentOperation::Partitioned(None) => Work::receive_nothing(),
            PersistentOperation::Collective { .. } => Work::Schedule,
            PersistentOperation::Send { .. } | PersistentOperation::Partitioned(Some(_)) => {
                Work::Nothing
            }
        };
        self.outcome = Outcome::NONE;
        self.phase = Phase::Active;
        operation
    }

    /// What it does when it is started, if it may be.
    #[inline]
    pub(super) fn startable(&self) -> Option<&PersistentOperation> {
        if self.phase != Phase::Inactive {
            return None;
        }
        self.on_complete.persistent.as_deref()
    }

    /// Whether no error is left of when it was started before, which would have to be dropped.
    #[inline(always)]
    pub(super) fn has_no_error_left(&self) -> bool {
        self.outcome.error.is_none()
    }

    /// Whether what it did when it was started before owns nothing.
    #[inline(always)]
    pub(super) fn owns_no_work(&self) -> bool {
        !self.work.owns()
    }

    /// It is a send, which is started and has ended, and has [no error left](Self::has_no_error_left). Its work is nothing, as that of
    /// each persistent send.
    #[inline(always)]
    pub(super) fn end_in_start(&mut self) {
        debug_assert!(self.has_no_error_left() && matches!(self.work, Work::Nothing));
        forget(replace(&mut self.outcome, Outcome::NONE));
        self.phase = Phase::Complete;
    }

    /// It is a receive of plain bytes, which is started and waits in the matching engine, for a message of `from` or of anybody. It has [no error
    /// left](Self::has_no_error_left), and [owns no work](Self::owns_no_work).
    #[inline(always)]
    pub(super) fn restart_posted(
        &mut self,
        (region, signature): (Region, SignatureCode),
        (from, handle): (Option<Peer>, Handle),
    ) {
        debug_assert!(self.has_no_error_left() && self.owns_no_work());
        let work = Work::Receive(Receiving::of_posted(region, signature, handle));
        let outcome = Outcome {
            source: from,
            ..Outcome::NONE
        };
        forget(replace(&mut self.work, work));
        forget(replace(&mut self.outcome, outcome));
        self.phase = Phase::Active;
    }

    /// What it does from now on.
    pub(super) fn set_work(&mut self, work: Work) {
        self.work = work;
    }

    /// What it does.
    pub(super) fn work(&self) -> &Work {
        &self.work
    }

    /// Whether it is a collective.
    pub(super) fn is_collective(&self) -> bool {
        let kept = self.on_complete.persistent.as_deref();
        matches!(self.work, Work::Schedule)
            || self.has_on_complete && matches!(kept, Some(PersistentOperation::Collective { .. }))
    }

    /// Whether a receive may be posted for it later: it can be started again, or is a collective.
    pub(super) fn may_post(&self) -> bool {
        self.is_persistent() || matches!(self.work, Work::Schedule)
    }
}

/// A receive.
impl Request {
    #[inline]
    pub(super) fn is_receive(&self) -> bool {
        matches!(self.work, Work::Receive(_))
    }

    /// The receive, if it is one.
    #[inline]
    fn receiving(&self) -> Option<&Receiving> {
        match &self.work {
            Work::Receive(receiving) => Some(receiving),
            _ => None,
        }
    }

    /// The receive, if it is one, and what is said of it.
    #[inline]
    fn receiving_mut(&mut self) -> Option<(&mut Receiving, &mut Outcome)> {
        match &mut self.work {
            Work::Receive(receiving) => Some((receiving, &mut self.outcome)),
            _ => None,
        }
    }

    /// How many bytes it has room for, if it is a receive.
    pub(super) fn room(&self) -> Option<usize> {
        self.receiving().map(Receiving::room)
    }

    /// Takes the free slot for a receive of plain bytes that waits in the matching engine, for a message of `from` or of anybody;
    /// answers the next free slot.
    #[inline(always)]
    pub(super) fn occupy_posted(
        &mut self,
        (region, signature): (Region, SignatureCode),
        context: u32,
        group: Option<Arc<Group>>,
        (from, handle): (Option<Peer>, Handle),
    ) -> u32 {
        self.phase = Phase::Active;
        self.context = context;
        let work = Work::Receive(Receiving::of_posted(region, signature, handle));
        let outcome = Outcome {
            source: from,
            ..Outcome::NONE
        };
        // As in `occupy`.
        forget(replace(&mut self.group, group));
        forget(replace(&mut self.work, work));
        forget(replace(&mut self.outcome, outcome));
        self.next_free
    }

    /// Takes the free slot for a receive of plain bytes that has ended with this message; answers the next free slot.
    #[inline(always)]
    pub(super) fn occupy_received(
        &mut self,
        (region, signature): (Region, SignatureCode),
        context: u32,
        group: Option<Arc<Group>>,
        met: Met,
    ) -> u32 {
        self.phase = Phase::Complete;
        self.is_plain = group.is_none();
        self.context = context;
        let work = Work::receive(Buffer::Flat(region, signature));
        let outcome = Outcome {
            source: Some(met.from),
            tag: met.tag,
            bytes: met.bytes as u64,
            ..Outcome::NONE
        };
        // As in `occupy`.
        forget(replace(&mut self.group, group));
        forget(replace(&mut self.work, work));
        forget(replace(&mut self.outcome, outcome));
        self.next_free
    }

    /// It waits in the matching engine, for a message of `from` or of anybody.
    #[inline]
    pub(super) fn post(&mut self, from: Option<Peer>, handle: Handle) {
        self.outcome.source = from;
        if let Some((receiving, _)) = self.receiving_mut() {
            receiving.post(handle);
        }
    }

    /// Its name in the matching engine while it is posted.
    pub(super) fn posted(&self) -> Option<Handle> {
        self.receiving()?.posted()
    }

    /// Whose message a posted receive waits for; `None` for anybody's.
    pub(super) fn expected_source(&self) -> Option<Peer> {
        self.outcome.source
    }

    /// It was taken out of the matching engine before anything came.
    pub(super) fn cancel(&mut self) {
        self.outcome = Outcome {
            cancelled: true,
            tag: -1,
            ..Outcome::default()
        };
    }

    /// It belongs to a message whose data wait at the sender: from now on it ends with their transfer. False
    /// if it has ended.
    pub(super) fn match_to_pull(&mut self) -> bool {
        match &mut self.work {
            Work::Receive(receiving) if self.phase == Phase::Active => {
                receiving.match_to_pull();
                true
            }
            _ => false,
        }
    }

    /// The data of the message that it was matched with are here; `size` is that of the whole message. False if
    /// it is no receive.
    #[inline]
    #[must_use]
    pub(super) fn deliver(
        &mut self,
        (from, mark): (Peer, Token),
        envelope: &Envelope,
        data: SharedBytes<'_>,
    ) -> bool {
        let Some((receiving, outcome)) = self.receiving_mut() else {
            return false;
        };
        outcome.mark = mark.0;
        receiving.deliver(from, envelope, data, outcome);
        true
    }

    /// The transfer of the data of its message is about to begin: answers how they come. `None` if it does not
    /// wait for them.
    pub(super) fn begin_transfer(&mut self, from: Peer, envelope: &Envelope) -> Option<Transfer> {
        let (receiving, outcome) = self.receiving_mut()?;
        receiving.begin_transfer(from, envelope, outcome)
    }

    /// Whose pieces it waits for.
    pub(super) fn pieces_from(&self) -> Option<Peer> {
        match &self.work {
            Work::Receive(receiving) if self.phase == Phase::Active => receiving.pieces_from(),
            _ => None,
        }
    }

    /// A piece of its data is here: by the token, behind so many others. What has no room is dropped.
    pub(super) fn take_piece(
        &mut self,
        sender: Peer,
        place: (Token, u64),
        data: SharedBytes<'_>,
    ) -> PieceTaken {
        self.receiving_mut()
            .map_or(PieceTaken::Undue, |(receiving, _)| {
                receiving.take_piece(sender, place, data)
            })
    }

    /// The transfer of its data has ended. False if it is no receive.
    #[must_use]
    pub(super) fn end_pull(&mut self, error: Option<Error>) -> bool {
        let Some((receiving, outcome)) = self.receiving_mut() else {
            return false;
        };
        receiving.end_pull(error.is_some());
        if error.is_some() {
            outcome.error = error;
            outcome.bytes = 0;
        }
        true
    }
}

/// A send.
impl Request {
    /// The send, if it is one.
    pub(super) fn sending(&self) -> Option<&Sending> {
        match &self.work {
            Work::Send(sending) => Some(sending),
            _ => None,
        }
    }

    fn sending_mut(&mut self) -> Option<&mut Sending> {
        match &mut self.work {
            Work::Send(sending) => Some(sending),
            _ => None,
        }
    }

    /// The send, if it is one that is under way.
    fn active_send(&mut self) -> Option<&mut Sending> {
        if self.phase == Phase::Active {
            self.sending_mut()
        } else {
            None
        }
    }

    /// The receiver of a send that is held back is to be told of it: what is to be granted, if it pulls. `None` if the
    /// send has ended.
    pub(super) fn release(&mut self) -> Option<Option<Region>> {
        self.active_send()?.release()
    }

    /// It is told, with this word.
    pub(super) fn announce(&mut self, token: Token) {
        if let Some(sending) = self.sending_mut() {
            sending.announce(token);
        }
    }

    /// The message of the send has left, or never will.
    pub(super) fn message_left(&mut self, error: Option<Error>) -> AfterLeaving {
        let Some(sending) = self.sending_mut() else {
            return AfterLeaving::GoesOn;
        };
        let after = sending.message_left(error.is_some());
        if matches!(after, AfterLeaving::Ends { .. }) {
            self.outcome.error = error;
        }
        after
    }

    /// A peer says that the send is matched and its buffer free. That is so only if it is the peer that the
    /// message went to, the message has left, and this is its first answer.
    pub(super) fn answer(&mut self, from: Peer, token: Token) -> Answer {
        let sending = self.sending_mut();
        sending.map_or(Answer::Undue, |sending| sending.answer(from, token))
    }

    /// A peer says that the send is matched and asks for its data; likewise. True if they are to be sent.
    pub(super) fn ask(&mut self, from: Peer, token: Token) -> bool {
        let sending = self.sending_mut();
        sending.is_some_and(|sending| sending.ask(from, token))
    }

    /// The data that the receiver has asked for are about to be queued.
    pub(super) fn begin_pieces(&mut self) -> Option<Asked> {
        self.active_send()?.begin_pieces()
    }

    /// The send, if it is under way and its receiver has answered.
    pub(super) fn answered(&self) -> Option<&Sending> {
        let active = self.phase == Phase::Active;
        self.sending()
            .filter(|sending| active && sending.is_answered())
    }
}
