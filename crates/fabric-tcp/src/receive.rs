//! Looking: what has come is handed out, what can be sent is sent.
//!
//! A look reads the connections straight away while there are few, and asks the descriptor of the bell
//! when there are more, when something else is expected, when somebody slept, and now and then. What a
//! frame means is decided here; the bytes of messages are handed out where they arrived.

use std::time::Duration;

use weft_fabric::{Fabric, FabricError, Peer, SharedBytes, Sink, SyncKey};

use crate::endpoint::{Own, Tcp};
use crate::link::{Found, Link, Read};
use crate::network::{EventSource, Network, Poller, Stream};
use crate::session::{ACKNOWLEDGE, CHUNK_UNACKED, Presence, Session};
use crate::wire::{self, Ask, End, FrameKind, HEADER, Header, Malformed, Offer};

/// Up to so many connections are read without asking which of them has news.
const FEW: usize = 2;

/// Looks between two that ask for everything.
const STRIDE: u32 = 16;

/// How long a rank that leaves tries to hand over what it has promised to send.
const FAREWELL: Duration = Duration::from_secs(5);

/// What became of a frame.
enum Next {
    /// Go on.
    More,
    /// Not now: the other fabric must be asked first, or whoever was told of an offer may take it.
    Stop,
    /// The connection is over; whether the other host was silent.
    Break(String, bool),
    /// The peer is.
    Lose(String),
}

impl<N: Network> Tcp<N> {
    /// See [`Fabric::poll`].
    pub(crate) fn look(&mut self, sink: &mut dyn Sink, budget: usize) -> usize {
        let mut found = self.deliver_own(sink, budget);
        found += self.tell(sink);
        let unsettled = !self.dialing.is_empty() || self.candidates.has_expected();
        self.looks = self.looks.wrapping_add(1);
        let ask = unsettled
            || self.live.len() > FEW
            || self.looks.is_multiple_of(STRIDE)
            || self.is_blocked()
            || self.bell.slept();
        let share = (budget / self.live.len().max(1)).max(1);
        if ask {
            found += self.look_at_all(sink, share);
        }
        if unsettled || (ask && !self.candidates.is_quiet()) {
            self.tick();
        }
        // Also those without news of the descriptor: their frames may stand in a buffer.
        self.turn = self.turn.wrapping_add(1);
        let count = self.live.len();
        for step in 0..count {
            let Some(&peer) = self.live.get((self.turn + step) % count) else {
                break;
            };
            let backlog = matches!(
                &self.sessions[peer as usize],
                Some(session) if session.link.as_ref().is_some_and(|link| link.has_backlog())
            );
            if !ask || backlog {
                found += self.receive(peer, sink, share);
            }
        }
        found += self.tell(sink);
        found + std::mem::take(&mut self.progressed)
    }

    /// Whether one of the connections that are read straight away waits for room to send.
    fn is_blocked(&self) -> bool {
        self.live.iter().any(|peer| {
            let session = self.sessions[*peer as usize].as_ref();
            session.is_some_and(|session| session.link.as_ref().is_some_and(|link| link.blocked))
        })
    }

    fn look_at_all(&mut self, sink: &mut dyn Sink, share: usize) -> usize {
        let bell = self.bell.clone();
        let mut found = 0;
        bell.poll(|ready| match ready.source {
            EventSource::Bell => {}
            EventSource::Listener(index) => self.accept(index),
            EventSource::Candidate(number) => self.attend(number),
            EventSource::Peer(peer) => {
                if ready.writable {
                    self.unblock(peer);
                }
                found += self.receive(peer, sink, share);
            }
        });
        found
    }

    fn deliver_own(&mut self, sink: &mut dyn Sink, budget: usize) -> usize {
        let me = Peer(self.config.me);
        let count = self.own.len().min(budget);
        for _ in 0..count {
            match self.own.pop_front() {
                Some(Own::Message(head, data)) => sink.message(me, &head, SharedBytes::of(&data)),
                Some(Own::Signal(key)) => {
                    self.signals.arrive(me, key);
                    sink.signalled(me, key);
                }
                None => break,
            }
        }
        count
    }

    /// Says what was found out elsewhere.
    fn tell(&mut self, sink: &mut dyn Sink) -> usize {
        if self.losses.is_empty() && self.ended.is_empty() {
            return 0;
        }
        let mut count = 0;
        for (operation, result) in std::mem::take(&mut self.ended) {
            sink.transfer_completed(operation, result);
            count += 1;
        }
        for peer in std::mem::take(&mut self.losses) {
            let reason = self.gone.get(&peer).cloned().unwrap_or_default();
            sink.lost(Peer(peer), &reason);
            count += 1;
        }
        count
    }

    /// Reads one connection and handles at most about `share` frames.
    fn receive(&mut self, peer: u32, sink: &mut dyn Sink, share: usize) -> usize {
        if !self.deferred.is_empty() {
            return 0;
        }
        let Some(mut session) = self.sessions.get_mut(peer as usize).and_then(Option::take) else {
            return 0;
        };
        let Some(mut link) = session.link.take() else {
            self.sessions[peer as usize] = Some(session);
            return 0;
        };
        let mut found = 0;
        let mut over = None;
        let mut dry = false;
        while found < share {
            let next = link.next();
            match next {
                Ok(Found::Nothing) if dry => break,
                Ok(Found::Nothing) => match link.read() {
                    Ok(Read::Nothing) if link.failed.is_none() => break,
                    Ok(Read::Some { more }) => dry = !more,
                    Ok(Read::Nothing | Read::Closed) => {
                        let closed = || ("the connection was closed".into(), false);
                        let (what, silent) = link.failed.take().unwrap_or_else(closed);
                        over = Some(Next::Break(what, silent));
                        break;
                    }
                    Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
                        over = Some(Next::Lose(error.to_string()));
                        break;
                    }
                    Err(error) => {
                        let silent = crate::connect::is_silence(&error);
                        over = Some(Next::Break(error.to_string(), silent));
                        break;
                    }
                },
                Ok(item) => {
                    found += 1;
                    match self.handle(peer, &mut session, &mut link, item, sink) {
                        Ok(Next::More) => {}
                        Ok(next) => {
                            over = Some(next);
                            break;
                        }
                        Err(Malformed) => {
                            over = Some(Next::Lose(MALFORMED.into()));
                            break;
                        }
                    }
                }
                Err(Malformed) => {
                    over = Some(Next::Lose(MALFORMED.into()));
                    break;
                }
            }
        }
        let confirmed = link.confirmed;
        if session.unacked_bytes >= ACKNOWLEDGE {
            session.unacked_bytes = 0;
            session
                .out
                .push_control(FrameKind::Acknowledge, session.processed, &[]);
        }
        session.link = Some(link);
        let to_send = found > 0 && !session.out.is_flushed();
        let settles = confirmed && session.dialing.is_some();
        self.sessions[peer as usize] = Some(session);
        match over {
            None | Some(Next::More | Next::Stop) => {
                if settles {
                    self.settled(peer);
                }
                if to_send || settles {
                    self.pump(peer);
                }
            }
            Some(Next::Break(what, silent)) => self.break_link(peer, &what, silent),
            Some(Next::Lose(reason)) => self.mark_lost(peer, reason),
        }
        found
    }

    fn handle(
        &mut self,
        peer: u32,
        session: &mut Session<N::Stream>,
        link: &mut Link<N::Stream>,
        item: Found,
        sink: &mut dyn Sink,
    ) -> Result<Next, Malformed> {
        let from = Peer(peer);
        let header = match item {
            Found::Nothing => return Ok(Next::More),
            Found::Landed(head, length) => {
                session.process(CHUNK_UNACKED);
                session.landed(head, length, link, sink);
                return Ok(Next::More);
            }
            Found::Chunk(_, head, _) if session.waits_for_taker(head) => return Ok(Next::Stop),
            Found::Chunk(header, head, length) => {
                session.accept(&header, link.confirmed)?;
                let target = session.target(head, length)?;
                link.land(head, length, target);
                return Ok(Next::More);
            }
            Found::Frame(header) => header,
        };
        if !header.kind.is_counted() {
            let generation = crate::connect::generation_of(link, &header);
            link.consume(&header);
            // The session is out of the table while its frames are handled.
            return match session.confirm(link, &header, generation, self.config.me < peer) {
                true => Ok(Next::More),
                false => Err(Malformed),
            };
        }
        session.accept(&header, link.confirmed)?;
        session.process(HEADER + header.length);
        match header.kind {
            FrameKind::Goodbye => session.goodbye_received = true,
            // Answers, which a rank gives also after its goodbye.
            FrameKind::Acknowledge | FrameKind::End => {}
            _ => session.goodbye_received = false,
        }
        match header.kind {
            FrameKind::Message => {
                let (head, data) = wire::message(link.body(&header))?;
                sink.message(from, head, SharedBytes::of(data));
            }
            FrameKind::Signal => {
                let key = SyncKey(wire::u64_at(link.body(&header), 0));
                self.signals.arrive(from, key);
                sink.signalled(from, key);
            }
            FrameKind::Get | FrameKind::Put => {
                let ask = Ask::parse(link.body(&header))?;
                let writes = header.kind == FrameKind::Put;
                let span = (ask.offset, ask.length);
                if self.grants.is_shared_once(ask.token) {
                    self.deferred.push((peer, ask, writes));
                    link.consume(&header);
                    return Ok(Next::Stop);
                }
                let opened = self
                    .grants
                    .open(weft_fabric::Token(ask.token), from, writes, span);
                if writes {
                    session.serve_put(ask, opened)?;
                } else {
                    session.serve_get(ask, opened)?;
                }
            }
            FrameKind::Offer => session.offered(Offer::parse(link.body(&header))?)?,
            FrameKind::End => {
                let end = End::parse(link.body(&header))?;
                session.ended(from, end, link, sink)?;
            }
            FrameKind::Goodbye
            | FrameKind::Acknowledge
            | FrameKind::Select
            | FrameKind::Resume
            | FrameKind::Chunk => {}
        }
        link.consume(&header);
        Ok(Next::More)
    }

    /// Serves what was deferred, unless `live` answers that the other fabric has served it.
    pub(crate) fn serve_deferred(&mut self, mut live: impl FnMut(weft_fabric::Token) -> bool) {
        for (peer, ask, writes) in std::mem::take(&mut self.deferred) {
            let token = weft_fabric::Token(ask.token);
            let opened = if live(token) {
                self.grants
                    .open(token, Peer(peer), writes, (ask.offset, ask.length))
            } else {
                self.grants.remove(token);
                Err(wire::Outcome::NotGranted)
            };
            let Some(Some(session)) = self.sessions.get_mut(peer as usize) else {
                continue;
            };
            let served = match writes {
                true => session.serve_put(ask, opened),
                false => session.serve_get(ask, opened),
            };
            match served {
                Ok(()) => self.pump(peer),
                Err(Malformed) => self.mark_lost(peer, MALFORMED.into()),
            }
            self.progressed += 1;
        }
    }

    /// A peer has left in order: what it has sent was handed out.
    pub(crate) fn leave(&mut self, peer: u32) {
        self.live.retain(|other| *other != peer);
        let Some(session) = &mut self.sessions[peer as usize] else {
            return;
        };
        session.presence = Presence::Left;
        session.link = None;
        session.out = crate::outgoing::Outgoing::new();
        session.incoming_puts.clear();
        session.theirs.clear();
        let asked = session.gets.drain().chain(session.puts.drain());
        for (_, asked) in asked {
            let reason = "it has left the job".into();
            let lost = FabricError::PeerLost {
                peer: Peer(peer),
                reason,
            };
            self.ended.push((asked.operation, Err(lost)));
        }
        self.settled(peer);
    }

    /// A peer is lost: what was under way with it ends, which the next look says.
    pub(crate) fn mark_lost(&mut self, peer: u32, reason: String) {
        if self.gone.contains_key(&peer) {
            return;
        }
        self.live.retain(|other| *other != peer);
        self.dialing.retain(|other| *other != peer);
        if let Some(session) = self.sessions[peer as usize].take() {
            let asked = session.gets.values().chain(session.puts.values());
            for asked in asked {
                let lost = FabricError::PeerLost {
                    peer: Peer(peer),
                    reason: reason.clone(),
                };
                self.ended.push((asked.operation, Err(lost)));
            }
        }
        self.gone.insert(peer, reason);
        self.losses.push(peer);
        self.progressed += 1;
        // Whoever sleeps is to hear of it.
        weft_fabric::Bell::ring(&*self.bell);
    }
}

const MALFORMED: &str =
    "it sent bytes that are no frame, or a frame that does not fit what was asked";

impl<S: Stream> Session<S> {
    /// A counted frame begins: takes its acknowledgement.
    #[inline]
    fn accept(&mut self, header: &Header, confirmed: bool) -> Result<(), Malformed> {
        if !confirmed {
            return Err(Malformed);
        }
        self.out.acknowledge(header.processed, self.processed)
    }

    /// A counted frame of so many bytes has come whole: it is acknowledged by what we send from now on. What
    /// is sent while a chunk arrives does not acknowledge it yet.
    #[inline]
    fn process(&mut self, bytes: usize) {
        self.processed += 1;
        self.unacked_bytes += bytes;
    }

    /// The decider is answered: the other side goes on with the connection.
    fn confirm(
        &mut self,
        link: &mut Link<S>,
        header: &Header,
        generation: u32,
        decides: bool,
    ) -> bool {
        if link.confirmed
            || !decides
            || header.kind != FrameKind::Resume
            || generation != self.generation
        {
            return false;
        }
        let resumed = self.out.resume(header.processed, self.processed);
        link.confirmed = resumed.is_ok();
        link.confirmed
    }
}

impl<N: Network> Drop for Tcp<N> {
    /// Hands over what was taken for sending, says goodbye, and waits until the other kernels have it.
    fn drop(&mut self) {
        struct Nobody;
        impl Sink for Nobody {
            fn message(&mut self, _: Peer, _: &weft_fabric::Head, _: SharedBytes<'_>) {}
            fn transfer_completed(
                &mut self,
                _: weft_fabric::Operation,
                _: weft_fabric::Result<()>,
            ) {
            }
            fn lost(&mut self, _: Peer, _: &str) {}
            fn signalled(&mut self, _: Peer, _: SyncKey) {}
        }
        let end = self.network.after(FAREWELL);
        self.farewell();
        loop {
            // Transfers of peers from our memory end with us, as they do where a process ends.
            for session in self.sessions.iter_mut().flatten() {
                session.out.cancel(|_| true);
            }
            if self.is_flushed() || self.network.now() >= end {
                return;
            }
            if self.look(&mut Nobody, 64) == 0 {
                let bell = self.bell.clone();
                let ticket = weft_fabric::Bell::prepare(&*bell);
                // What the other kernels acknowledge makes nothing readable.
                weft_fabric::Bell::wait(&*bell, ticket, Some(Duration::from_millis(1)));
            }
        }
    }
}
