//! Calls that end at once, for callers that have another path: for small contiguous messages.
//!
//! Each returns `None` or false, without effect on its operation, in any unusual case (a wrong rank, no room, another
//! thread in the engine, a listener to events, a message that does not match): the call of the same name without
//! `at_once` then does it, or returns the error. It is given the same arguments.

use weft_atomic::biased;
use weft_fabric::{Next, Peer, Written};
use weft_sys::futex::Futex;
use weft_sys::span::{Region, SHORT};

use super::{Message, Source, TagPattern};
use crate::buffer::Lent;
use crate::comm::Comm;
use crate::datatype::SignatureCode;
use crate::engine::{Asked, Engine, Listed, Met, Received, RequestId, Shared, WaitingMessage};
use crate::process::Process;

/// A message was written: its receiver is to find it. Lets go of the engine, so that nothing is to be kept for after this.
#[cold]
#[inline(never)]
fn announce(mut engine: biased::ByBias<'_, Engine>, to: Peer) {
    engine.announce_written(to);
}

/// Starts what is neither a short send nor a receive.
#[inline(never)]
fn start_otherwise(
    shared: &Shared,
    engine: biased::ByBias<'_, Engine>,
    request: RequestId,
) -> bool {
    let mut engine = engine.into_guard();
    let started = engine.start_otherwise_at_once(request);
    shared.let_go(engine);
    started
}

impl Comm {
    /// [`send`](Self::send) of a standard message, of few bytes, to a rank of this host: nothing is called, as a rule.
    #[inline(always)]
    #[must_use]
    pub fn send_short_at_once(&self, bytes: (Region, SignatureCode), to: u32, tag: i32) -> bool {
        if bytes.0.len() > SHORT {
            return false;
        }
        let Some(peer) = self.direct_peer(to) else {
            return false;
        };
        let Some(mut engine) = self.shared().try_by_bias() else {
            return false;
        };
        match engine.write_at_once(bytes, self.context(), peer, tag) {
            Written::Done => true,
            Written::Refused => false,
            Written::Unannounced => {
                announce(engine, peer);
                true
            }
        }
    }

    /// The same of any message, however it leaves.
    #[inline(always)]
    #[must_use]
    pub fn send_at_once(&self, bytes: (Region, SignatureCode), to: u32, tag: i32) -> bool {
        let Some(peer) = self.direct_peer(to) else {
            return false;
        };
        match self.shared().try_by_bias() {
            Some(mut engine) => engine.send_at_once(bytes, self.context(), peer, tag),
            None => self.send_by_lock_at_once(bytes, peer, tag),
        }
    }

    /// The same where the engine is not taken in the fewest instructions.
    #[inline(never)]
    fn send_by_lock_at_once(&self, bytes: (Region, SignatureCode), peer: Peer, tag: i32) -> bool {
        self.shared()
            .try_take()
            .is_some_and(|mut engine| engine.send_at_once(bytes, self.context(), peer, tag))
    }

    /// The same of elements of any datatype.
    #[inline(never)]
    #[must_use]
    pub fn send_elements_at_once(&self, elements: Lent<'_>, to: u32, tag: i32) -> bool {
        let Some(peer) = self.direct_peer(to) else {
            return false;
        };
        let (shared, context) = (self.shared(), self.context());
        let Some(mut engine) = shared.try_take() else {
            return false;
        };
        let sent = match elements {
            Lent::Flat(region, code) => engine.send_at_once((region, code), context, peer, tag),
            Lent::Typed(elements) => engine.send_packed_at_once(elements, context, peer, tag),
        };
        shared.let_go(engine);
        sent
    }

    /// [`recv`](Self::recv) of a message of a given sender, or of any, into elements of any datatype.
    #[inline(never)]
    #[must_use]
    pub fn recv_elements_at_once(
        &self,
        elements: Lent<'_>,
        from: Source,
        tag: TagPattern,
    ) -> Option<Received> {
        let elements = match (elements, from, tag) {
            (Lent::Typed(elements), ..) => elements,
            (Lent::Flat(region, code), Source::Rank(source), TagPattern::Exact(tag)) => {
                let bytes = self.recv_at_once((region, code), source, tag)?;
                return Some(Received { source, tag, bytes });
            }
            (Lent::Flat(region, code), ..) => {
                return self.recv_any_at_once((region, code), from, tag);
            }
        };
        let peer = self.peer_of_source(from)?;
        let (shared, wanted) = (self.shared(), (peer, tag.exact()));
        let mut engine = shared.try_take()?;
        let met = engine.receive_packed_at_once(elements, self.context(), wanted, shared.bell());
        shared.let_go(engine);
        Some(self.received_from(met?, from))
    }

    /// What was received of a message of this source.
    #[inline(always)]
    fn received_from(&self, met: Met, from: Source) -> Received {
        met.received(match from {
            Source::Rank(rank) => rank,
            // A process that is no member has no message of this context.
            Source::Any | Source::Null => self.rank_of(met.from).unwrap_or(met.from.0),
        })
    }

    /// [`recv`](Self::recv) of a message with a given sender and tag; returns its number of bytes.
    #[inline(always)]
    #[must_use]
    pub fn recv_at_once(&self, into: (Region, SignatureCode), rank: u32, tag: i32) -> Option<u64> {
        // The usual: the buffer is as long as the message, and that is what comes next.
        let Some(peer) = self.direct_peer(rank) else {
            let received = self.recv_of_part_at_once(into, Source::Rank(rank), tag)?;
            return Some(received.bytes);
        };
        let shared = self.shared();
        let Some(mut engine) = shared.try_by_bias() else {
            let tag = TagPattern::Exact(tag);
            let received = self.recv_any_at_once(into, Source::Rank(rank), tag)?;
            return Some(received.bytes);
        };
        if engine.has_unexpected() {
            let waiting = engine.take_waiting_at_once(&into, self.context(), peer, tag);
            let WaitingMessage::Taken(bytes) = waiting else {
                return self.recv_otherwise_at_once(engine, into, peer, tag, waiting);
            };
            return Some(bytes);
        }
        match engine.take_next_at_once(into, self.context(), (peer, tag), shared.bell()) {
            Next::Taken => Some(into.0.len() as u64),
            Next::Nothing => None,
            Next::Other => self.look_for(engine.into_guard(), into, peer, tag),
        }
    }

    /// The same where messages wait that came before their receives, and that is not all.
    #[inline(never)]
    fn recv_otherwise_at_once(
        &self,
        engine: biased::ByBias<'_, Engine>,
        into: (Region, SignatureCode),
        peer: Peer,
        tag: i32,
        waiting: WaitingMessage,
    ) -> Option<u64> {
        match waiting {
            WaitingMessage::Taken(bytes) => Some(bytes),
            WaitingMessage::Due(bytes) => {
                self.give_credit(engine.into_guard(), peer);
                Some(bytes)
            }
            WaitingMessage::Nothing => self.look_for(engine.into_guard(), into, peer, tag),
            WaitingMessage::Elsewhere => None,
        }
    }

    #[cold]
    #[inline(never)]
    fn give_credit(&self, mut engine: biased::Guard<'_, Engine, Futex>, peer: Peer) {
        engine.give_credit(peer);
        self.shared().let_go(engine);
    }

    /// The same of a part, if there are parts.
    #[inline(never)]
    fn recv_of_part_at_once(
        &self,
        into: (Region, SignatureCode),
        from: Source,
        tag: i32,
    ) -> Option<Received> {
        let part = self.part_of(tag)?;
        match from {
            Source::Rank(rank) => {
                let bytes = part.recv_at_once(into, rank, tag)?;
                Some(Received {
                    source: rank,
                    tag,
                    bytes,
                })
            }
            Source::Any | Source::Null => part.recv_any_at_once(into, from, TagPattern::Exact(tag)),
        }
    }

    /// The same where something else is to be looked at first, of a message from this rank.
    #[inline(never)]
    fn look_for(
        &self,
        mut engine: biased::Guard<'_, Engine, Futex>,
        into: (Region, SignatureCode),
        peer: Peer,
        tag: i32,
    ) -> Option<u64> {
        let met = engine.receive_at_once(into, self.context(), Some(peer), Some(tag));
        self.shared().let_go(engine);
        met.map(|met| met.bytes as u64)
    }

    /// The same of any message.
    #[inline(never)]
    #[must_use]
    pub fn recv_any_at_once(
        &self,
        into: (Region, SignatureCode),
        from: Source,
        tag: TagPattern,
    ) -> Option<Received> {
        let peer = match from {
            Source::Null => return None,
            Source::Any if self.is_divided() => {
                return self.recv_of_part_at_once(into, from, tag.exact()?);
            }
            Source::Any => None,
            Source::Rank(rank) => Some(self.direct_peer(rank)?),
        };
        let shared = self.shared();
        let mut engine = shared.try_take()?;
        let met = engine.receive_at_once(into, self.context(), peer, tag.exact());
        shared.let_go(engine);
        Some(self.received_from(met?, from))
    }

    /// [`irecv`](Self::irecv).
    #[inline(always)]
    #[must_use]
    pub fn irecv_at_once(
        &self,
        into: (Region, SignatureCode),
        from: Source,
        tag: TagPattern,
    ) -> Option<RequestId> {
        let peer = match from {
            Source::Null => return None,
            Source::Any if self.is_divided() => {
                return self.irecv_of_part_at_once(into, from, tag);
            }
            Source::Any => None,
            Source::Rank(rank) => match self.direct_peer(rank) {
                Some(peer) => Some(peer),
                None => return self.irecv_of_part_at_once(into, from, tag),
            },
        };
        let shared = self.shared();
        let group = self.translation();
        let mut engine = shared.try_take()?;
        let request = engine.post_at_once(into, self.context(), peer, tag.exact(), group);
        shared.let_go(engine);
        request
    }

    /// The same of a part, if there are parts.
    #[inline(never)]
    fn irecv_of_part_at_once(
        &self,
        into: (Region, SignatureCode),
        from: Source,
        tag: TagPattern,
    ) -> Option<RequestId> {
        self.part_of(tag.exact()?)?.irecv_at_once(into, from, tag)
    }

    /// [`mprobe`](Self::mprobe) for a message that is here or about to come, with what its status says.
    #[inline(never)]
    #[must_use]
    pub fn mprobe_at_once(&self, from: Source, tag: TagPattern) -> Option<(Message, Received)> {
        let peer = self.peer_of_source(from)?;
        let shared = self.shared();
        let mut engine = shared.try_take()?;
        let taken = engine.take_probed_at_once(self.context(), peer, tag.exact(), shared.bell());
        shared.let_go(engine);
        let message = self.message_of(taken?);
        let received = message.received();
        Some((message, received))
    }

    /// Whether there may be messages of a source here, and not in parts.
    #[inline(always)]
    #[must_use]
    pub fn has_source(&self, from: Source) -> bool {
        self.peer_of_source(from).is_some()
    }

    /// The peer of such a source; `None` within for any. `None` if there are no messages of it here.
    #[inline(always)]
    fn peer_of_source(&self, from: Source) -> Option<Option<Peer>> {
        match from {
            Source::Null => None,
            Source::Any => (!self.is_divided()).then_some(None),
            Source::Rank(rank) => self.direct_peer(rank).map(Some),
        }
    }

    /// [`iprobe`](Self::iprobe) for any message: true if there is none at all.
    #[inline(always)]
    #[must_use]
    pub fn iprobe_finds_nothing(&self) -> bool {
        let asked = self
            .shared()
            .try_asking(|engine, bell| engine.probe_at_once(bell));
        matches!(asked, Asked::Nothing)
    }
}

impl Comm {
    /// Whether it is certain that the communicator is not revoked: then what it does with `MPI_PROC_NULL` has ended.
    #[inline(always)]
    #[must_use]
    pub fn is_usable_at_once(&self) -> bool {
        self.shared()
            .try_by_bias()
            .is_some_and(|engine| engine.has_no_losses())
    }
}

impl Process {
    /// [`mrecv`](Self::mrecv): the message is received, and empty, or as it was.
    #[inline(always)]
    #[must_use]
    pub fn mrecv_at_once(
        &self,
        message: &mut Message,
        into: (Region, SignatureCode),
    ) -> Option<Received> {
        let received = message.received();
        let shared = self.engine_of(message.context());
        let mut engine = shared.try_take()?;
        let met = engine.receive_probed_at_once(&mut message.message, into);
        shared.let_go(engine);
        met.map(|_| received)
    }

    /// [`wait`](Self::wait) for a receive that has its message already: nothing is called.
    #[inline(always)]
    #[must_use]
    pub fn wait_for_plain_at_once(&self, request: RequestId) -> Option<Received> {
        let mut engine = self.shared_of(request).try_by_bias()?;
        engine.end_plain_at_once(request)
    }

    /// [`wait`](Self::wait) for a receive.
    #[inline(always)]
    #[must_use]
    pub fn wait_at_once(&self, request: RequestId) -> Option<Received> {
        let shared = self.shared_of(request);
        let mut engine = shared.try_take()?;
        let received = engine.end_at_once(request);
        shared.let_go(engine);
        received
    }

    /// [`start`](Self::start) of a send, a receive, or a collective on a board.
    #[inline(always)]
    #[must_use]
    pub fn start_at_once(&self, request: RequestId) -> bool {
        let shared = self.shared_of(request);
        let Some(mut engine) = shared.try_by_bias() else {
            return false;
        };
        match engine.start_short_at_once(request) {
            (Written::Done, _) => true,
            (Written::Unannounced, peer) => {
                announce(engine, peer);
                true
            }
            (Written::Refused, _) => start_otherwise(shared, engine, request),
        }
    }

    /// [`wait`](Self::wait) for a persistent request that has ended: with its message, if it is a receive.
    #[inline(always)]
    #[must_use]
    pub fn wait_for_repeated_at_once(&self, request: RequestId) -> Option<Option<Received>> {
        let mut engine = self.shared_of(request).try_by_bias()?;
        engine.end_repeated_at_once(request)
    }

    /// The same as most end: nothing is called.
    #[inline(always)]
    #[must_use]
    pub fn wait_for_plainly_repeated_at_once(
        &self,
        request: RequestId,
    ) -> Option<Option<Received>> {
        let mut engine = self.shared_of(request).try_by_bias()?;
        engine.end_plainly_repeated_at_once(request)
    }

    /// [`wait_any`](Self::wait_any) of a list whose first request is this one, if one of them has ended well or is about to. Requests
    /// behind the one that ends are not looked at.
    #[inline(always)]
    #[must_use]
    pub fn wait_any_at_once<I: Iterator<Item = Listed>>(
        &self,
        first: RequestId,
        list: impl Fn() -> I,
    ) -> Option<(usize, Option<Received>)> {
        let shared = self.shared_of(first);
        let mut engine = shared.try_take()?;
        let end = engine.end_any_at_once(list, shared.bell());
        shared.let_go(engine);
        end
    }

    /// [`test_any`](Self::test_any) of the same: `Some(None)` if all of them are under way.
    #[inline(always)]
    #[must_use]
    pub fn test_any_at_once<I: Iterator<Item = Listed>>(
        &self,
        first: RequestId,
        list: impl Fn() -> I,
    ) -> Option<Option<(usize, Option<Received>)>> {
        let test = self
            .shared_of(first)
            .try_asking(|engine, bell| engine.test_any_at_once(list, bell));
        match test {
            Asked::Found(end) => Some(Some(end)),
            Asked::Nothing => Some(None),
            Asked::GiveWay | Asked::Elsewhere => None,
        }
    }

    /// [`test`](Self::test) of a receive: `Some(None)` if it is under way.
    #[inline(always)]
    #[must_use]
    pub fn test_at_once(&self, request: RequestId) -> Option<Option<Received>> {
        let test = self
            .shared_of(request)
            .try_asking(|engine, bell| engine.test_at_once(request, bell));
        match test {
            Asked::Found(received) => Some(Some(received)),
            Asked::Nothing => Some(None),
            Asked::GiveWay | Asked::Elsewhere => None,
        }
    }
}
