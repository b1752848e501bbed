//! Beginning a send or a receive: the one send path, where the protocol is a value.

use std::sync::Arc;

use weft_fabric::{Peer, Posted, Region, Rights, SharedBytes, Token, Uses, Written};
use weft_matching::{Context, Pattern, Posting, Source, Tag};

use super::Engine;
use super::envelope::{Envelope, MessageKind};
use super::events::EventKind;
use super::outbox::{Load, Waiting};
use super::protocol::{Protocol, SendMode};
use super::receive_errors::{does_not_fit, truncated};
use super::request::Work;
use super::request_id::RequestId;
use super::sending::{Kept, Sending};
use super::status::Status;
use super::unexpected::Unexpected;
use crate::buffer::{self, Buffer, TypedBuffer, staged};
use crate::error::{Error, Result};
use crate::group::Group;
use crate::marks::Mark;

/// The bytes of a send.
enum Bytes {
    Lent(Region),
    Owned(Box<[u8]>),
    /// With gaps.
    Elements(TypedBuffer),
}

impl Engine {
    /// Begins a send. `None`: it has ended already; otherwise the request that will.
    ///
    /// A buffered send never refers to the caller's memory after return.
    #[inline]
    pub(crate) fn start_send(
        &mut self,
        mode: SendMode,
        buffer: Buffer,
        context: u32,
        to: Peer,
        tag: i32,
    ) -> Result<Option<RequestId>> {
        let envelope = Envelope {
            token: Token(self.word_of_message(context)),
            ..Envelope::eager(context, tag, buffer.bytes() as u64).of(buffer.code())
        };
        self.start_send_of(mode, buffer, envelope, to)
    }

    /// What a message of the program carries that the caller begins to send; 0 if nothing. Those of collectives do not.
    #[inline]
    fn word_of_message(&self, context: u32) -> u64 {
        match self.marking.is_due() && context & 1 == 0 {
            true => self.marking.begin(self.core.requests.engine()),
            false => 0,
        }
    }

    /// The same of a message with this envelope, as far as it is known before the protocol is.
    #[inline]
    pub(super) fn start_send_of(
        &mut self,
        mode: SendMode,
        buffer: Buffer,
        envelope: Envelope,
        to: Peer,
    ) -> Result<Option<RequestId>> {
        self.check_usable(envelope.context)?;
        let size = buffer.bytes();
        let mut protocol = Protocol::of(mode, size, self.eager);
        if protocol != Protocol::Rendezvous && !self.has_credit(to, envelope.context, size) {
            protocol = Protocol::Rendezvous;
        }
        self.core.counters.sent(protocol, size);
        if !self.far.is_empty() {
            self.note_far(to, size);
        }
        if protocol == Protocol::Eager && self.outbox.is_clear(to) {
            let posted = match &buffer {
                Buffer::Flat(region, _) => self.post_flat(to, &envelope, region)?,
                Buffer::Typed(typed) => {
                    let packed = staged(&mut self.scratch, size);
                    typed.pack(&packed);
                    self.fabric
                        .try_send(to, &envelope.to_head(), buffer::bytes_of(&packed))?
                }
            };
            if posted != Posted::Retry {
                return Ok(None);
            }
        }
        self.start_slow_send(protocol, mode, buffer, envelope, to)
            .map(Some)
    }

    /// Sends an eager message for whose receiver nothing waits: if it is short, into its lane, as a call that
    /// [ends at once](super::at_once) does.
    #[inline]
    pub(super) fn post_flat(
        &mut self,
        to: Peer,
        envelope: &Envelope,
        region: &Region,
    ) -> Result<Posted> {
        let data = buffer::bytes_of(region);
        if let Some(lane) = self.writers.get(to.index()) {
            match lane.write(envelope.to_words(), SharedBytes::of(data)) {
                Written::Done => return Ok(Posted::Done),
                Written::Unannounced => {
                    self.announce_written(to);
                    return Ok(Posted::Done);
                }
                // Not short, or the fabric knows why.
                Written::Refused => {}
            }
        }
        Ok(self.fabric.try_send(to, &envelope.to_head(), data)?)
    }

    /// A message may be one to another host.
    #[cold]
    pub(super) fn note_far(&self, to: Peer, size: usize) {
        if self.far.get(to.index()) == Some(&true) {
            self.core.counters.sent_far.add(size as u64);
        }
    }

    /// A send that needs a request: no room, or an answer is due.
    fn start_slow_send(
        &mut self,
        protocol: Protocol,
        mode: SendMode,
        buffer: Buffer,
        mut envelope: Envelope,
        to: Peer,
    ) -> Result<RequestId> {
        if let Some(error) = self.core.lost.error_of(to) {
            return Err(error);
        }
        self.core.requests.check_room()?;
        let (size, context, tag) = (buffer.bytes(), envelope.context, envelope.tag);
        let bytes = match buffer {
            other if mode == SendMode::Buffered => Bytes::Owned(other.packed()?),
            Buffer::Flat(region, _) => Bytes::Lent(region),
            Buffer::Typed(typed) if protocol == Protocol::Rendezvous => Bytes::Elements(typed),
            Buffer::Typed(typed) => Bytes::Owned(typed.packed()?),
        };
        let (protocol, load, kept) = match (protocol, bytes) {
            (_, Bytes::Elements(typed)) => (
                Protocol::Pieces,
                Load::None,
                Kept::Lent(Buffer::Typed(typed)),
            ),
            (Protocol::Rendezvous, Bytes::Lent(region)) => {
                (protocol, Load::None, Kept::Lent(Buffer::untyped(region)))
            }
            (Protocol::Rendezvous, Bytes::Owned(bytes)) => {
                (protocol, Load::None, Kept::Owned(bytes))
            }
            (_, Bytes::Lent(region)) => (protocol, Load::Lent(region), Kept::Nothing),
            (_, Bytes::Owned(bytes)) => (protocol, Load::Owned(bytes), Kept::Nothing),
        };
        let is_announced = matches!(protocol, Protocol::Rendezvous | Protocol::Pieces);
        let is_held =
            is_announced && context & 1 == 0 && self.outbox.windows.must_hold(to, context);
        let mut sending = Sending::new(to, protocol, Token(0), kept);
        let token = match sending.granted() {
            Some(region) if !is_held => self.grant(region, to)?,
            _ => Token(self.core.pulls.next_number()),
        };
        sending.set_token(token);
        if is_held {
            sending.hold_back();
        }
        let request = self
            .core
            .requests
            .insert(context, None, Work::Send(sending));
        envelope.request = request;
        // What is granted when it leaves gets its word then, and keeps its mark until then.
        let is_named_later = is_held && protocol == Protocol::Rendezvous;
        if protocol != Protocol::Eager && !is_named_later {
            if envelope.token != Token(0) {
                self.marking.carries(token.0);
            }
            envelope.token = token;
        }
        envelope.kind = match protocol {
            Protocol::Eager => MessageKind::Eager,
            Protocol::EagerSynchronous => MessageKind::EagerSynchronous,
            Protocol::Rendezvous => MessageKind::Rts,
            Protocol::Pieces => MessageKind::RtsPieces,
        };
        if is_announced {
            let message = (tag, context);
            self.core
                .raise(EventKind::Offered, Some(to), message, size as u64);
        }
        if is_held {
            self.core.counters.held_back.add(1);
            let message = (tag, context);
            self.core
                .raise(EventKind::HeldBack, Some(to), message, size as u64);
            self.hold_back(to, request, envelope);
            return Ok(request);
        }
        if is_announced {
            self.outbox.windows.note_announced(to);
        }
        // Only if the envelope goes next, and the receiver has room for what may go unasked.
        if protocol == Protocol::Rendezvous && size > self.eager && self.outbox.is_clear(to) {
            self.fabric.offer(to, token);
        }
        let waiting = Waiting {
            head: envelope.to_head(),
            load,
            request: Some(request),
        };
        self.post_waiting(to, waiting);
        if self.outbox.has(to, request) {
            self.core.counters.held_back.add(1);
            let message = (tag, context);
            self.core
                .raise(EventKind::HeldBack, Some(to), message, size as u64);
        }
        Ok(request)
    }

    pub(super) fn grant(&mut self, region: Region, to: Peer) -> Result<Token> {
        let granted = self
            .fabric
            .grant(region, Some(to), Rights::Read, Uses::Once);
        granted.map_err(Error::from)
    }

    /// Begins a receive. `from` and `tag`: `None` stands for any.
    #[inline]
    pub(crate) fn start_receive(
        &mut self,
        buffer: Buffer,
        context: u32,
        from: Option<Peer>,
        tag: Option<i32>,
        group: Option<Arc<Group>>,
    ) -> Result<RequestId> {
        self.check_usable(context)?;
        self.core.requests.check_room()?;
        let request = self
            .core
            .requests
            .insert(context, group, Work::receive(buffer));
        self.post_receive(request, context, from, tag);
        Ok(request)
    }

    /// Posts the receive of a request whose work is set.
    #[inline]
    pub(super) fn post_receive(
        &mut self,
        request: RequestId,
        context: u32,
        from: Option<Peer>,
        tag: Option<i32>,
    ) {
        match self
            .core
            .matching
            .post(pattern(context, from, tag), request)
        {
            Posting::Posted(handle) => {
                let core = &mut self.core;
                core.counters.posted.add(1);
                core.counters
                    .posted_most
                    .raise(core.matching.posted_len() as u64);
                if let Some(slot) = self.core.requests.get_mut(request) {
                    slot.post(from, handle);
                }
                if !self.core.lost.is_quiet() {
                    self.fail_if_lost(request, from);
                }
                self.want_withheld(context, from, tag);
            }
            Posting::Matched(_, unexpected) => {
                let message = self.take_kept(unexpected);
                self.core.note_taken(&message);
                self.take_message(request, message);
            }
        }
    }

    /// A receive is matched with a message that came before it.
    fn take_message(&mut self, request: RequestId, message: Unexpected) {
        let Unexpected {
            from,
            envelope,
            data,
        } = message;
        match envelope.kind {
            MessageKind::Rts | MessageKind::RtsPieces => {
                if self.core.match_to_pull(request) {
                    self.pull(request, from, &envelope);
                }
            }
            MessageKind::Eager | MessageKind::EagerSynchronous => {
                if envelope.kind == MessageKind::EagerSynchronous {
                    self.answer(from, envelope.reply());
                }
                self.core
                    .deliver(request, from, &envelope, SharedBytes::of(&data));
                self.core.unexpected.recycle(data);
            }
            _ => {
                unreachable!("what belongs to a message is never stored as one")
            }
        }
    }

    /// The message that a receive would get now, if one is here.
    #[inline]
    pub(crate) fn take_unexpected(
        &mut self,
        context: u32,
        from: Option<Peer>,
        tag: Option<i32>,
    ) -> Option<Unexpected> {
        let core = &mut self.core;
        if core.matching.unexpected_len() == 0 || core.lost.is_any_revoked() {
            return None;
        }
        let (_, id) = core.matching.take(pattern(context, from, tag))?;
        let message = self.take_kept(id);
        self.core.note_taken(&message);
        Some(message)
    }

    /// Receives a message that was taken, without a request; gives it back if its data wait at the sender.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        message: Unexpected,
        buffer: &Buffer,
        rank_of: impl FnOnce(Peer) -> Option<u32>,
    ) -> std::result::Result<Result<Status>, Unexpected> {
        let envelope = &message.envelope;
        match envelope.kind {
            MessageKind::Eager => {}
            MessageKind::EagerSynchronous => self.answer(message.from, envelope.reply()),
            _ => return Err(message),
        }
        let data = SharedBytes::of(&message.data);
        let fitted = buffer.fill(data);
        let outcome = if fitted < data.len() {
            Err(truncated(message.from, envelope.tag, envelope.size, fitted))
        } else if let Some(error) = does_not_fit(message.from, envelope, buffer) {
            Err(error)
        } else {
            Ok(Status {
                source: rank_of(message.from),
                tag: envelope.tag,
                bytes: fitted as u64,
                message: true,
                mark: Mark {
                    word: envelope.token.0,
                    from: message.from.0,
                    engine: self.core.requests.engine(),
                },
                ..Status::default()
            })
        };
        self.core.unexpected.recycle(message.data);
        Ok(outcome)
    }

    /// Cancels a posted receive; sends are not cancelled (MPI 5.0, section 3.8.4, deprecates it).
    pub(crate) fn cancel(&mut self, request: RequestId) -> Result<()> {
        if request.is_done() {
            return Ok(());
        }
        let slot = self.core.requests.checked(request)?;
        if slot.is_active()
            && let Some(handle) = slot.posted()
            && self.core.matching.cancel(handle)
        {
            self.core.counters.posted_withdrawn.add(1);
            slot.cancel();
            self.core.complete(request);
        }
        Ok(())
    }

    /// Begins to receive a message that a probe has taken.
    pub(crate) fn start_probed_receive(
        &mut self,
        message: Unexpected,
        buffer: Buffer,
        context: u32,
        group: Option<Arc<Group>>,
    ) -> RequestId {
        self.core.counters.matched_unexpected.add(1);
        self.core.counters.bytes_received.add(message.envelope.size);
        self.start_matched_receive(message, buffer, context, group)
    }

    /// Begins to receive a message that was taken, and counted.
    pub(crate) fn start_matched_receive(
        &mut self,
        message: Unexpected,
        buffer: Buffer,
        context: u32,
        group: Option<Arc<Group>>,
    ) -> RequestId {
        let work = Work::receive(buffer);
        let request = self.core.requests.insert(context, group, work);
        self.take_message(request, message);
        request
    }

    /// A request of its own, which has ended, in place of one that has no slot.
    pub(crate) fn name_apart(&mut self, id: RequestId, context: u32) -> Result<RequestId> {
        self.core.requests.check_room()?;
        let work = if id == RequestId::NOTHING_RECEIVED {
            Work::receive_nothing()
        } else {
            Work::Nothing
        };
        let request = self.core.requests.insert(context, None, work);
        self.core.complete(request);
        Ok(request)
    }

    /// A request that ends when the program says so.
    pub(crate) fn start_general(&mut self, context: u32) -> Result<RequestId> {
        self.core.requests.check_room()?;
        Ok(self.core.requests.insert(context, None, Work::Nothing))
    }
}

/// A pattern of the matching engine; `None` stands for any.
#[inline(always)]
pub(super) fn pattern(context: u32, from: Option<Peer>, tag: Option<i32>) -> Pattern {
    Pattern {
        context: Context(context),
        source: from.map_or(weft_matching::SourcePattern::Any, |peer| {
            weft_matching::SourcePattern::Exact(Source(peer.0))
        }),
        tag: tag.map_or(weft_matching::TagPattern::Any, |tag| {
            weft_matching::TagPattern::Exact(Tag(tag))
        }),
    }
}
