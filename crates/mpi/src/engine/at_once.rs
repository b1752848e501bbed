//! Operations that end within their call: the engine is free, the message is small and contiguous, and nothing has to be
//! reported. They make no request.
//!
//! ```text
//!   send      nothing waits for the fabric ── short, and its lane is open? ── written there, counted
//!                                             else inject ── counted
//!   receive   nothing waits, nothing is posted, and the fabric has it next ── copied by the fabric, counted
//!             else: a message for it waits? ── copied, counted
//!             else a look, packet by packet: the message that comes goes straight to the buffer
//! ```
//!
//! Each returns `None` or false, without effect on its own operation, in any unusual case: then the call begins the
//! operation in the usual way, and errors are reported there. So nothing here makes an error.
//!
//! # Order
//! The receive of a call that polls is younger than all posted receives, and no message that arrived before matches it:
//! an arrival is offered to the posted receives first, then to the [`PollingReceive`](super::polling_receive::PollingReceive) one. That is
//! withdrawn before the engine is released, so no receive is posted meanwhile. A message that it matches and cannot take
//! ends the polling: no later one may overtake that.

use std::mem::take;
use std::sync::Arc;

use weft_atomic::look_again;
use weft_fabric::waiting::Turn;
use weft_fabric::{Bell, Head, Next, Peer, Region, SharedBytes, Token, Written, waiting};
use weft_fiber as fiber;
use weft_matching::{Context, Found, Source, Tag};
use weft_sys::span::SHORT;

use super::envelope::{Envelope, MessageKind};
use super::polling_receive::{Met, Received, Wanted, takes};
use super::protocol::Protocol;
use super::request::Request;
use super::request_id::RequestId;
use super::start::pattern;
use super::unexpected::{Unexpected, UnexpectedId};
use super::{BUDGET, Core, Engine};
use crate::buffer::{self, Elements, staged};
use crate::datatype::SignatureCode;
use crate::group::Group;

/// Most bytes that are copied before they are unpacked. A request unpacks longer messages from where the fabric has them.
const COPIED_FIRST: usize = 2048;

/// Most bytes of a message whose looks are kept [apart](look_again). On near cores one of 8 B takes 0.89 of the time then, of 1 KiB
/// 0.92; the data of longer ones come sooner if the processor looks ahead: one of 4 KiB would take 1.12.
const LOOKED_FOR_APART: usize = 1024;

/// Answer to a call that asks whether something is there.
#[must_use]
#[derive(Clone, Copy, Debug)]
pub(crate) enum Asked<T> {
    /// It is.
    Found(T),
    /// Not yet.
    Nothing,
    /// Not yet, and the caller is to give its core away before it asks again.
    GiveWay,
    /// This cannot be answered at once.
    Elsewhere,
}

/// What is at one place of a list of requests.
#[derive(Clone, Copy, Debug)]
pub enum Listed {
    /// `MPI_REQUEST_NULL`.
    Nothing,
    /// A request without a slot, such as [`RequestId::DONE`].
    Done,
    /// A request that ends once.
    Request(RequestId),
    /// Something else, of which the whole call knows.
    Other,
}

/// The end of one request of a list: its place, and what was received, if it was a receive.
pub(crate) type EndOfOne = (usize, Option<Received>);

/// Answer to who asks for a message that may wait here.
#[must_use]
#[derive(Clone, Copy, Debug)]
pub(crate) enum WaitingMessage {
    /// None does.
    Nothing,
    /// It was received: so many bytes.
    Taken(u64),
    /// The same, and its sender is to be given [credit](Engine::give_credit).
    Due(u64),
    /// One does, and more is to be done for it than is done here.
    Elsewhere,
}

impl Core {
    /// The usual message, in few instructions: eager, short, and for the oldest receive that is posted. False for others, without
    /// effect.
    #[inline(always)]
    pub(super) fn meets_posted(&mut self, from: Peer, head: &Head, data: SharedBytes<'_>) -> bool {
        self.meets_oldest::<false>(from, head, data)
    }

    /// The same of a message that is not short.
    #[inline(always)]
    pub(super) fn long_meets_posted(
        &mut self,
        from: Peer,
        head: &Head,
        data: SharedBytes<'_>,
    ) -> bool {
        data.len() > SHORT && self.meets_oldest::<true>(from, head, data)
    }

    /// An eager message, short unless it may be `LONG`, for the oldest receive that is posted.
    #[inline(always)]
    fn meets_oldest<const LONG: bool>(
        &mut self,
        from: Peer,
        head: &Head,
        data: SharedBytes<'_>,
    ) -> bool {
        let Some((context, tag, signature)) = Envelope::eager_from_head(head) else {
            return false;
        };
        // A mark is told with the status of the full path, and a listener is told of each step.
        if Envelope::is_marked(head) || self.events.are_wanted() {
            return false;
        }
        let envelope = weft_matching::Envelope {
            context: Context(context),
            source: Source(from.0),
            tag: Tag(tag),
        };
        let Some(oldest) = self.matching.meet_oldest(envelope) else {
            return false;
        };
        // A free one does not end.
        let Some(slot) = self.requests.slot_mut(oldest.payload()) else {
            return false;
        };
        if !slot.end_plainly::<LONG>((from, tag), signature, data) {
            return false;
        }
        oldest.take();
        self.counters.matched_posted.add(1);
        self.counters.bytes_received.add(data.len() as u64);
        true
    }

    /// The usual message, in few instructions: eager, short, and looked for, while nothing is posted. False for others,
    /// without effect.
    #[inline(always)]
    pub(super) fn matches_polling_receive(
        &mut self,
        from: Peer,
        head: &Head,
        data: SharedBytes<'_>,
    ) -> bool {
        let Some((context, tag, signature)) = Envelope::eager_from_head(head) else {
            return false;
        };
        // A mark is told with the status of the full path.
        if data.len() > SHORT || Envelope::is_marked(head) {
            return false;
        }
        let Some(wanted) = self.polling_receive.of(from, context, tag) else {
            return false;
        };
        // Of others that fit, the longer way knows.
        if data.len() > wanted.into.len() || signature != wanted.signature {
            return false;
        }
        let bytes = data.copy_to_region(&wanted.into);
        self.note_met(Met { from, tag, bytes });
        true
    }

    /// A message that met no posted receive, for the one that looks. False if it is for another, or cannot be taken: it is
    /// to be kept.
    pub(super) fn fill_polling_receive(
        &mut self,
        from: Peer,
        envelope: &Envelope,
        data: SharedBytes<'_>,
    ) -> bool {
        let tag = envelope.tag;
        let Some(wanted) = self.polling_receive.of(from, envelope.context, tag) else {
            return false;
        };
        if envelope.kind != MessageKind::Eager
            || envelope.token != Token(0)
            || !wanted.takes(data.len(), envelope.signature)
        {
            return self.close_polling_receive();
        }
        let bytes = data.copy_to_region(&wanted.into);
        self.note_met(Met { from, tag, bytes });
        let posted = self.matching.posted_len() as u64;
        self.counters.posted_most.raise(posted + 1);
        true
    }

    /// The receive that looks has a message.
    #[inline(always)]
    fn note_met(&mut self, met: Met) {
        self.polling_receive.fill(met);
        self.note_received(met.bytes);
    }

    #[inline(always)]
    pub(super) fn note_received(&mut self, bytes: usize) {
        self.counters.met.add(1);
        self.counters.bytes_received.add(bytes as u64);
    }

    /// Receives a message that was found, unless more is to be done for it than to copy it. With whether its sender is to be
    /// answered now.
    #[inline(always)]
    fn take_found(
        &mut self,
        (found, id): (Found, UnexpectedId),
        (into, signature): (&Region, SignatureCode),
    ) -> Option<(Met, bool)> {
        let kept = self.unexpected.kept(id)?;
        let met = copy_kept(kept.message(), into, signature)?;
        self.matching.take_found(found);
        let counters = &*self.counters;
        counters.matched_unexpected.add(1);
        counters.unexpected_gone.add(met.bytes as u64);
        counters.bytes_received.add(met.bytes as u64);
        Some((met, kept.end()))
    }

    #[cold]
    fn close_polling_receive(&mut self) -> bool {
        self.polling_receive.close();
        false
    }
}

/// Copies a message that came before its receive, unless more is to be done for it.
#[inline(always)]
fn copy_kept(message: &Unexpected, into: &Region, signature: SignatureCode) -> Option<Met> {
    let data = SharedBytes::of(&message.data);
    let envelope = &message.envelope;
    if envelope.kind != MessageKind::Eager
        || envelope.token != Token(0)
        || !takes(into, signature, data.len(), envelope.signature)
    {
        return None;
    }
    // Most are short, and as long as the buffer.
    if !data.fill_if_short(into) {
        data.copy_to_region(into);
    }
    Some(Met {
        from: message.from,
        tag: envelope.tag,
        bytes: data.len(),
    })
}

/// Looks of a call for a message, all in vain so far.
#[derive(Debug, Default)]
pub(super) struct Looks {
    made: u32,
    /// So many are made in all; 0 before that is considered.
    most: u32,
}

impl Looks {
    /// Another look was in vain. Whether the call is to wait as any other; it may have given its core away, and looks once more.
    #[inline(always)]
    pub(super) fn must_end(&mut self, engine: &mut Engine, bell: &Arc<dyn Bell>) -> bool {
        self.made += 1;
        self.made >= engine.turns.free_looks() && self.consider(engine, bell)
    }

    #[cold]
    fn consider(&mut self, engine: &mut Engine, bell: &Arc<dyn Bell>) -> bool {
        if self.most == 0 {
            let alone = !engine.asking.has_threads() && !fiber::is_fiber();
            self.most = match engine.turns.take(&**bell, alone) {
                Turn::Look => waiting::LOOKS_FOR_ONE,
                Turn::Given => self.made + 1,
                Turn::Wait => self.made,
            };
        }
        self.made >= self.most
    }
}

impl Engine {
    /// Writes a short message to the lane of its receiver, if it can leave now: no function is called. What was written and not
    /// announced is to be [announced](Self::announce_written).
    #[inline(always)]
    pub(crate) fn write_at_once(
        &mut self,
        (region, signature): (Region, SignatureCode),
        context: u32,
        to: Peer,
        tag: i32,
    ) -> Written {
        let size = region.len();
        // There are none while short messages may not leave at once.
        let Some(lane) = self.writers.get(to.index()) else {
            return Written::Refused;
        };
        // Nothing may leave at once to whom something waits for.
        let Some((open, left)) = self.outbox.windows.open_for(to, size) else {
            return Written::Refused;
        };
        // Only the whole call asks for marks.
        if self.marking.is_due() {
            return Written::Refused;
        }
        let envelope = Envelope::eager(context, tag, size as u64);
        let words = envelope.of(signature).to_words();
        let data = SharedBytes::of(buffer::bytes_of(&region));
        let written = lane.write(words, data);
        if written != Written::Refused {
            *open = left;
            // It is to this host.
            self.core.counters.sent(Protocol::Eager, size);
        }
        written
    }

    /// A message was written to the lane of a peer, which is to find it.
    pub(crate) fn announce_written(&mut self, to: Peer) {
        self.fabric.announce(to);
    }

    /// Sends a message that goes with its envelope, if it can leave now.
    #[inline(always)]
    pub(crate) fn send_at_once(
        &mut self,
        (region, signature): (Region, SignatureCode),
        context: u32,
        to: Peer,
        tag: i32,
    ) -> bool {
        let size = region.len();
        // A marked message takes the full path.
        if self.marking.is_due() {
            return false;
        }
        // Nothing may leave at once to whom something waits for.
        if size >= self.injected_below || !self.outbox.windows.spend(to, size) {
            return false;
        }
        let head = Envelope::eager(context, tag, size as u64)
            .of(signature)
            .to_head();
        if !self.fabric.inject(to, &head, buffer::bytes_of(&region)) {
            self.outbox.windows.give_back(to, size);
            return false;
        }
        self.core.counters.sent(Protocol::Eager, size);
        if !self.far.is_empty() {
            self.note_far(to, size);
        }
        true
    }

    /// Sends elements with gaps, packed.
    #[inline(never)]
    pub(crate) fn send_packed_at_once(
        &mut self,
        elements: Elements<'_>,
        context: u32,
        to: Peer,
        tag: i32,
    ) -> bool {
        let size = elements.bytes();
        if size >= self.injected_below {
            return false;
        }
        let packed = staged(&mut self.scratch, size);
        elements.pack(&packed);
        self.send_at_once((packed, elements.code()), context, to, tag)
    }

    /// Receives a message into elements with gaps, whose data are here, or come with a few looks.
    #[inline(never)]
    pub(crate) fn receive_packed_at_once(
        &mut self,
        elements: Elements<'_>,
        context: u32,
        (from, tag): (Option<Peer>, Option<i32>),
        bell: &Arc<dyn Bell>,
    ) -> Option<Met> {
        let (size, code) = (elements.bytes(), elements.code());
        if size > COPIED_FIRST || size >= self.injected_below {
            return None;
        }
        // Whatever else the engine sends meanwhile takes other memory.
        let mut scratch = take(&mut self.scratch);
        let packed = (staged(&mut scratch, size), code);
        let met = self.receive_staged_at_once(packed, context, (from, tag), bell);
        if let Some(met) = met {
            elements.unpack(buffer::shared(&packed.0.prefix(met.bytes)));
        }
        self.scratch = scratch;
        met
    }

    fn receive_staged_at_once(
        &mut self,
        packed: (Region, SignatureCode),
        context: u32,
        (from, tag): (Option<Peer>, Option<i32>),
        bell: &Arc<dyn Bell>,
    ) -> Option<Met> {
        if let (Some(from), Some(tag), false) = (from, tag, self.has_unexpected()) {
            match self.take_next_at_once(packed, context, (from, tag), bell) {
                Next::Taken => {
                    let bytes = packed.0.len();
                    return Some(Met { from, tag, bytes });
                }
                Next::Nothing => return None,
                Next::Other => {}
            }
        }
        self.receive_at_once(packed, context, from, tag)
    }

    /// Whether messages wait that came before their receives.
    #[inline(always)]
    pub(crate) fn has_unexpected(&self) -> bool {
        self.core.matching.unexpected_len() != 0
    }

    /// Receives the message of this sender and tag that is as long as the buffer, if the fabric has it next: looks at that sender
    /// alone, for which the fabric needs to know nothing of receives.
    #[inline(always)]
    pub(crate) fn take_next_at_once(
        &mut self,
        (into, signature): (Region, SignatureCode),
        context: u32,
        (from, tag): (Peer, i32),
        bell: &Arc<dyn Bell>,
    ) -> Next {
        // Messages that wait come before those that come, posted receives before this one; a listener is told of each step.
        debug_assert!(!self.has_unexpected());
        if self.core.matching.posted_len() != 0 || self.core.events.are_wanted() || self.driven {
            return Next::Other;
        }
        let size = into.len();
        // Longer ones are announced, or come in parts.
        if size >= self.injected_below {
            return Next::Other;
        }
        let head = Envelope::eager(context, tag, size as u64)
            .of(signature)
            .to_head();
        // A call that makes a request does not wait for the message.
        let mut looks = Looks::default();
        loop {
            match self.fabric.take_next(from, &head, &into) {
                Next::Taken => {
                    self.core.note_received(size);
                    return Next::Taken;
                }
                Next::Nothing if size <= LOOKED_FOR_APART => look_again(),
                Next::Nothing => {}
                Next::Other => return Next::Other,
            }
            if looks.must_end(self, bell) {
                return Next::Nothing;
            }
        }
    }

    /// Receives a message whose data are here, or come with one look.
    #[inline(always)]
    pub(crate) fn receive_at_once(
        &mut self,
        (into, signature): (Region, SignatureCode),
        context: u32,
        from: Option<Peer>,
        tag: Option<i32>,
    ) -> Option<Met> {
        // A listener is told of each step, and a receiver from a revoked communicator that it is revoked.
        if self.core.events.are_wanted() {
            return None;
        }
        let waiting = self.core.matching.unexpected_len() != 0;
        let wanted = Wanted {
            context,
            from,
            tag,
            into,
            signature,
        };
        if waiting && let Some(answer) = self.take_at_once(wanted) {
            return answer;
        }
        if self.driven {
            return None;
        }
        self.core.polling_receive.open(wanted);
        // One by one: what comes behind the message is left to its own receive.
        for _ in 0..BUDGET {
            if self.fabric.poll(&mut self.core, 1) == 0 || !self.core.polling_receive.is_open() {
                break;
            }
        }
        let met = self.core.polling_receive.close();
        if self.has_deferred() {
            self.run_deferred();
        }
        met
    }

    /// Receives a message that waits. `None` if none does; `Some(None)` if one does that is not to be received here.
    #[inline(always)]
    fn take_at_once(&mut self, wanted: Wanted) -> Option<Option<Met>> {
        let pattern = pattern(wanted.context, wanted.from, wanted.tag);
        let found = self.core.matching.find(pattern)?;
        let (met, is_due) = match self
            .core
            .take_found(found, (&wanted.into, wanted.signature))
        {
            Some(taken) => taken,
            None => return Some(None),
        };
        if is_due {
            self.give_credit(met.from);
        }
        Some(Some(met))
    }

    /// Receives a message of this sender and tag that waits: how many bytes it has. No other lane is looked at. A function of its
    /// own, whose answer is two registers: what its caller knows stays where it is.
    #[inline(never)]
    pub(crate) fn take_waiting_at_once(
        &mut self,
        (into, signature): &(Region, SignatureCode),
        context: u32,
        from: Peer,
        tag: i32,
    ) -> WaitingMessage {
        // As for `receive_at_once`.
        if self.core.events.are_wanted() {
            return WaitingMessage::Elsewhere;
        }
        let envelope = weft_matching::Envelope {
            context: Context(context),
            source: Source(from.0),
            tag: Tag(tag),
        };
        let Some(found) = self.core.matching.find_exact(envelope) else {
            return WaitingMessage::Nothing;
        };
        match self.core.take_found(found, (into, *signature)) {
            Some((met, false)) => WaitingMessage::Taken(met.bytes as u64),
            Some((met, true)) => WaitingMessage::Due(met.bytes as u64),
            None => WaitingMessage::Elsewhere,
        }
    }

    /// Posts a receive, or receives the message that waits for it.
    #[inline(always)]
    pub(crate) fn post_at_once(
        &mut self,
        (into, signature): (Region, SignatureCode),
        context: u32,
        from: Option<Peer>,
        tag: Option<i32>,
        group: Option<Arc<Group>>,
    ) -> Option<RequestId> {
        let core = &self.core;
        if !core.lost.is_quiet() || core.requests.check_room().is_err() {
            return None;
        }
        if core.matching.unexpected_len() != 0 {
            let wanted = Wanted {
                context,
                from,
                tag,
                into,
                signature,
            };
            return self.meet_or_post_at_once(&wanted, group);
        }
        Some(self.post_unmatched((into, signature), context, (from, tag), group))
    }

    /// The same where messages wait that came before their receives: a receive of one of them has ended when it is begun, but has a
    /// request, which says what it has received.
    #[inline(never)]
    fn meet_or_post_at_once(
        &mut self,
        wanted: &Wanted,
        group: Option<Arc<Group>>,
    ) -> Option<RequestId> {
        // A listener is told of each step, and a message that its sender holds back is asked for.
        if self.core.events.are_wanted() || !self.withheld.is_empty() {
            return None;
        }
        let &Wanted {
            context,
            from,
            tag,
            into,
            signature,
        } = wanted;
        let core = &mut self.core;
        let Some(found) = core.matching.find(pattern(context, from, tag)) else {
            return Some(self.post_unmatched((into, signature), context, (from, tag), group));
        };
        let (met, is_due) = core.take_found(found, (&into, signature))?;
        let request = core.requests.next_name();
        core.requests
            .occupy_next(|slot| slot.occupy_received((into, signature), context, group, met));
        if is_due {
            self.give_credit(met.from);
        }
        Some(request)
    }

    /// Posts a receive that no message matches which waits here.
    #[inline(always)]
    fn post_unmatched(
        &mut self,
        (into, signature): (Region, SignatureCode),
        context: u32,
        (from, tag): (Option<Peer>, Option<i32>),
        group: Option<Arc<Group>>,
    ) -> RequestId {
        let core = &mut self.core;
        let request = core.requests.next_name();
        let handle = core.matching.wait(pattern(context, from, tag), request);
        core.requests.occupy_next(|slot| {
            slot.occupy_posted((into, signature), context, group, (from, handle))
        });
        core.counters.posted.add(1);
        let posted = core.matching.posted_len() as u64;
        core.counters.posted_most.raise(posted);
        request
    }

    /// Ends a receive that has its message, as most have it: no function is called.
    #[inline(always)]
    pub(crate) fn end_plain_at_once(&mut self, request: RequestId) -> Option<Received> {
        self.core.requests.take_plain(request)
    }

    /// Ends a persistent request that has ended, as most end: it may be started again. With its message, if it is a receive.
    #[inline(always)]
    pub(crate) fn end_repeated_at_once(&mut self, request: RequestId) -> Option<Option<Received>> {
        self.core.requests.take_repeated(request)
    }

    /// The same of one that has ended as most do: nothing is called.
    #[inline(always)]
    pub(crate) fn end_plainly_repeated_at_once(
        &mut self,
        request: RequestId,
    ) -> Option<Option<Received>> {
        self.core.requests.take_plainly_repeated(request)
    }

    /// Ends a receive that has its message, or gets it with one look.
    #[inline(always)]
    pub(crate) fn end_at_once(&mut self, request: RequestId) -> Option<Received> {
        if let Some(received) = self.take_received(request) {
            return Some(received);
        }
        if self.driven || !self.progress() {
            return None;
        }
        self.take_received(request)
    }

    #[inline(always)]
    fn take_received(&mut self, request: RequestId) -> Option<Received> {
        let requests = &mut self.core.requests;
        requests
            .take_plain(request)
            .or_else(|| requests.take_received(request))
    }

    /// Ends the first request of a list that has ended. Nothing, if all that are under way still are. What is behind that request is
    /// not looked at: it is still there for the next call.
    #[inline(always)]
    fn end_first_at_once(&mut self, list: impl Iterator<Item = Listed>) -> Asked<EndOfOne> {
        let requests = &mut self.core.requests;
        let mut under_way = false;
        for (place, listed) in list.enumerate() {
            let request = match listed {
                Listed::Nothing => continue,
                Listed::Done => return Asked::Found((place, None)),
                Listed::Request(request) => request,
                Listed::Other => return Asked::Elsewhere,
            };
            if let Some(received) = requests.take_plain(request) {
                return Asked::Found((place, Some(received)));
            }
            if requests.get(request).is_some_and(Request::is_active) {
                under_way = true;
                continue;
            }
            // It may have ended otherwise, or be another engine's.
            return match requests.take_received(request) {
                Some(received) => Asked::Found((place, Some(received))),
                None => Asked::Elsewhere,
            };
        }
        if under_way {
            Asked::Nothing
        } else {
            Asked::Elsewhere
        }
    }

    /// Ends one request of a list that has ended, or does with a few looks.
    #[inline(always)]
    pub(crate) fn end_any_at_once<I: Iterator<Item = Listed>>(
        &mut self,
        list: impl Fn() -> I,
        bell: &Arc<dyn Bell>,
    ) -> Option<EndOfOne> {
        let mut looks = Looks::default();
        for _ in 0..waiting::LOOKS_FOR_ONE {
            match self.end_first_at_once(list()) {
                Asked::Found(end) => return Some(end),
                Asked::Nothing => {}
                Asked::Elsewhere | Asked::GiveWay => return None,
            }
            // A loss may hold one up.
            if self.driven || !self.core.lost.is_quiet() {
                return None;
            }
            while !self.progress() {
                if looks.must_end(self, bell) {
                    return None;
                }
            }
        }
        None
    }

    /// The same for who asks, and has somebody to ask again.
    #[inline(always)]
    pub(crate) fn test_any_at_once<I: Iterator<Item = Listed>>(
        &mut self,
        list: impl Fn() -> I,
        bell: &dyn Bell,
    ) -> Asked<EndOfOne> {
        let first = self.end_first_at_once(list());
        if !matches!(first, Asked::Nothing) {
            return first;
        }
        // A loss may hold one up.
        if !self.core.lost.is_quiet() {
            return Asked::Elsewhere;
        }
        match self.ask_at_once(bell) {
            Asked::Found(()) => self.end_first_at_once(list()),
            Asked::Nothing => Asked::Nothing,
            Asked::GiveWay => Asked::GiveWay,
            Asked::Elsewhere => Asked::Elsewhere,
        }
    }

    /// The same for who asks for one, and has somebody to ask again.
    #[inline(always)]
    pub(crate) fn test_at_once(&mut self, request: RequestId, bell: &dyn Bell) -> Asked<Received> {
        if let Some(received) = self.core.requests.take_plain(request) {
            return Asked::Found(received);
        }
        let slot = self.core.requests.get(request);
        if !slot.is_some_and(|slot| slot.is_active() && slot.is_receive()) {
            // It may have ended otherwise.
            return match self.core.requests.take_received(request) {
                Some(received) => Asked::Found(received),
                None => Asked::Elsewhere,
            };
        }
        match self.ask_at_once(bell) {
            Asked::Found(()) if !self.is_over(request) => Asked::Nothing,
            Asked::Found(()) => match self.take_received(request) {
                Some(received) => Asked::Found(received),
                None => Asked::Elsewhere,
            },
            Asked::Nothing => Asked::Nothing,
            Asked::GiveWay => Asked::GiveWay,
            Asked::Elsewhere => Asked::Elsewhere,
        }
    }

    /// Takes the message that a receive with these arguments would get, if it is here or comes with a few looks: for
    /// [`receive_probed_at_once`](Self::receive_probed_at_once).
    #[inline(always)]
    pub(crate) fn take_probed_at_once(
        &mut self,
        context: u32,
        from: Option<Peer>,
        tag: Option<i32>,
        bell: &Arc<dyn Bell>,
    ) -> Option<Unexpected> {
        // Of losses and revocations the whole call knows.
        if !self.core.lost.is_quiet() {
            return None;
        }
        let pattern = pattern(context, from, tag);
        let mut looks = Looks::default();
        // What comes may be for others, without end.
        for _ in 0..waiting::LOOKS_FOR_ONE {
            if self.has_unexpected()
                && let Some((_, id)) = self.core.matching.take(pattern)
            {
                let message = self.take_kept(id);
                self.core.note_probed(&message);
                return Some(message);
            }
            if self.driven {
                return None;
            }
            // One by one: what comes behind the message is left to its own receive.
            let moved = self.fabric.poll(&mut self.core, 1) != 0;
            if self.has_deferred() {
                self.run_deferred();
            }
            if !moved && looks.must_end(self, bell) {
                return None;
            }
        }
        None
    }

    /// Receives a message that was taken, if only its data are to be copied; what is left of it is nothing then.
    #[inline(always)]
    pub(crate) fn receive_probed_at_once(
        &mut self,
        message: &mut Unexpected,
        (into, signature): (Region, SignatureCode),
    ) -> Option<Met> {
        // Who listens is told of each step.
        if self.core.events.are_wanted() {
            return None;
        }
        let met = copy_kept(message, &into, signature)?;
        let counters = &*self.core.counters;
        counters.matched_unexpected.add(1);
        counters.bytes_received.add(met.bytes as u64);
        self.core.unexpected.recycle(take(&mut message.data));
        Some(met)
    }

    /// Whether a probe may find a message: one look, if none waits.
    #[inline(always)]
    pub(crate) fn probe_at_once(&mut self, bell: &dyn Bell) -> Asked<()> {
        if self.core.matching.unexpected_len() != 0 || !self.core.lost.is_quiet() {
            return Asked::Elsewhere;
        }
        match self.ask_at_once(bell) {
            Asked::Found(()) => Asked::Elsewhere,
            other => other,
        }
    }

    /// One look for a call that asks: whether anything moved.
    #[inline]
    fn ask_at_once(&mut self, bell: &dyn Bell) -> Asked<()> {
        // Where another thread drives, it may need this core: this counts as a look in vain.
        if !self.driven && self.progress() {
            self.asking.found();
            return Asked::Found(());
        }
        if self.asking.found_nothing(bell) {
            return Asked::GiveWay;
        }
        Asked::Nothing
    }
}
